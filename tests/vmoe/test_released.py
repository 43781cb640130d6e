"""The reader of released checkpoints: against the reference implementation, and against bytes written out by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
import torch

from moe_lab.core.config import ConfigError
from moe_lab_papers.pruning2024.vmoe import VMoE
from moe_lab_papers.pruning2024.vmoe.released import CheckpointError, read_released

STORED = Path(__file__).parent / "data" / "released.npz"  # made by make_released.py beside it
MARK = "__msgpack_array_chunk_a87ca2__"


def put(case: str, folder: Path) -> tuple[Path, dict[str, Any], torch.Tensor, np.ndarray]:
    """The prefix of a stored checkpoint, its config, images and the reference's logits."""
    with np.load(STORED) as stored:
        for name in stored.files:
            if name.startswith(f"{case}/c."):
                (folder / name.split("/")[1]).write_bytes(stored[name].tobytes())
        images = torch.from_numpy(stored[f"{case}/images"].astype(np.float32))
        return folder / "c", json.loads(str(stored[f"{case}/config"])), images, stored[f"{case}/logits"]


@pytest.mark.parametrize("case", ["token", "gap", "map", "e3", "e3-priority"])
def test_logits_are_those_of_the_reference(case: str, tmp_path: Path) -> None:
    prefix, config, images, logits = put(case, tmp_path)
    model = VMoE.from_checkpoint(prefix, config)
    with torch.no_grad():
        found = model.run(images)
    assert found.logits.numpy() == pytest.approx(logits, abs=1e-5)
    waiting = [~assigned.served for assigned in found.routed.values()]
    assert case == "map" or all(bool(some.any()) for some in waiting)  # capacity is short in all other cases
    model.save(tmp_path / "model.safetensors")
    with torch.no_grad():
        assert torch.equal(VMoE.load(tmp_path / "model.safetensors")(images), found.logits)


def test_every_parameter_of_the_reference_has_its_name_and_shape(tmp_path: Path) -> None:
    prefix, config, *_ = put("gap", tmp_path)
    arrays = read_released(prefix)
    assert arrays.pop("step") == 7
    model = VMoE.from_checkpoint(prefix, config)
    expected = {f"params/{name.replace('.', '/')}": tuple(p.shape) for name, p in model.named_parameters()}
    assert {name: array.shape for name, array in arrays.items()} == expected


# --- bytes by hand --------------------------------------------------------------------------------------------------


def pack(value: Any) -> bytes:
    return msgpack.packb(value, use_bin_type=True)


def slices(*axes: tuple[int, int]) -> bytes:
    return pack([pack([start, stop, None]) for start, stop in axes])


def entry(shape: list[int], dtype: str, chunks: list[bytes], shards: list[int]) -> msgpack.ExtType:
    return msgpack.ExtType(8, pack([pack([shape, dtype, False, {}]), chunks, shards]))


def part(values: np.ndarray, dtype: str | None = None) -> msgpack.ExtType:
    return msgpack.ExtType(1, pack([list(values.shape), dtype or values.dtype.name, values.tobytes()]))


A, B = np.arange(6, dtype=np.float32), np.array([0x3F80, 0xC020], dtype=np.uint16)  # bfloat16 of 1 and -2.5


def written(folder: Path, change: Callable[[dict[str, Any], list[dict[str, Any]]], Any] | None = None) -> Path:
    """Two arrays: one of 2 x 3 in two chunks, the second in two parts, and a bfloat16 one, over two shards."""
    left, right = slices((0, 2), (0, 1)), slices((0, 2), (1, 3))
    tree = {"b": {"kernel": entry([2, 3], "float32", [left, right], [1, 0])}, "none": None,
            "a": entry([2], "bfloat16", [slices((0, 2))], [0])}  # fmt: skip
    index = {"version": "20220622", "shard_count": 2, "index": tree}
    ext = msgpack.ExtType
    columns = A.reshape(2, 3)[:, 1:].ravel()
    first = {MARK: True, "0": [[[part(B, "bfloat16")], ext(6, slices((0, 2)))]],
             "1": [[[part(columns[:3]), part(columns[3:])], ext(6, right)]]}  # fmt: skip
    second = {MARK: True, "1": [[[part(A.reshape(2, 3)[:, 0])], ext(6, left)]]}
    shards = [first, second]
    if change is not None:
        change(index, shards)
    (folder / "c.index").write_bytes(pack(index))
    for number, shard in enumerate(shards):
        (folder / f"c.data-{number:05d}-of-00002").write_bytes(pack(shard))
    return folder / "c"


def test_bytes_written_by_hand_are_read(tmp_path: Path) -> None:
    arrays = read_released(written(tmp_path))
    assert arrays.keys() == {"a", "b/kernel"}
    assert arrays["a"].tolist() == [1.0, -2.5] and arrays["a"].dtype == np.float32
    assert np.array_equal(arrays["b/kernel"], A.reshape(2, 3))


def whole(chunks: list[bytes], shards: list[int] | None = None) -> Callable[[Any, Any], None]:
    """Changes what the index says of the chunks of b/kernel."""
    return lambda index, _: index["index"]["b"].update(kernel=entry([2, 3], "float32", chunks, shards or [0, 1]))


LEFT, RIGHT = slices((0, 2), (0, 1)), slices((0, 2), (1, 3))
DAMAGES: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "version": (lambda index, _: index.update(version="20230101"), "version of a checkpoint must be"),
    "more": (lambda index, _: index.update(more=1), "must hold version, shard_count and index"),
    "shards": (lambda index, _: index.update(shard_count=0), "shard_count must be"),
    "gap": (whole([LEFT, slices((0, 2), (2, 3))]), "cover every element of an array once"),
    "overlap": (whole([slices((0, 2), (0, 2)), slices((0, 1), (1, 3))]), "cover every element of an array once"),
    "outside": (whole([LEFT, slices((0, 2), (1, 4))]), "slices must lie inside the array"),
    "twice": (whole([LEFT, LEFT]), "chunks must be different"),
    "no shard": (whole([LEFT, RIGHT], [0, 2]), "chunks must lie in shards that exist"),
    "wrong shard": (whole([LEFT, RIGHT], [0, 1]), "the chunks that the index names"),
    "huge": (lambda index, _: index["index"].update(a=entry([2**60], "float32", [slices((0, 2**60))], [0])), "limit"),
    "negative": (lambda index, _: index["index"].update(a=entry([-1], "float32", [], [])), "a list of whole numbers"),
    "dtype": (lambda index, _: index["index"].update(a=entry([2], "object", [slices((0, 2))], [0])), "dtype"),
    "other dtype": (lambda _, shards: shards[1]["1"][0][0].__setitem__(0, part(A[:2].view(np.int32))), "dtype of its"),
    "not an entry": (lambda index, _: index["index"].update(a=3), "expected extension 8"),
    "short part": (lambda _, shards: shards[1]["1"][0][0].__setitem__(0, part(A[:1])), "as large as its slices"),
    "lying part": (
        lambda _, shards: shards[1]["1"][0][0].__setitem__(0, msgpack.ExtType(1, pack([[2], "float32", b"123"]))),
        "as many bytes as its shape says",
    ),
    "unknown array": (lambda _, shards: shards[1].update({"2": []}), "must belong to an array of the index"),
    "lost chunk": (lambda _, shards: shards[0].update({"0": [], "pad": None}) or shards[0].pop("pad"), "shard must"),
    "double chunk": (lambda _, shards: shards[1]["1"].append(shards[1]["1"][0]), "each once"),
    "no mark": (lambda _, shards: shards[1].pop(MARK), "must hold chunks of arrays"),
    "padding": (lambda _, shards: shards[1].update({MARK: b"0" * 300_000}), "and little else"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_checkpoints_are_refused_in_a_sentence(damage: str, tmp_path: Path) -> None:
    change, sentence = DAMAGES[damage]
    with pytest.raises(CheckpointError, match=sentence) as raised:
        read_released(written(tmp_path, change))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["c.index", "c.data-00000-of-00002", "c.data-00001-of-00002"])
def test_cut_and_missing_files_are_refused(name: str, tmp_path: Path) -> None:
    prefix = written(tmp_path)
    content = (tmp_path / name).read_bytes()
    for length in (0, 1, len(content) // 2, len(content) - 1):
        (tmp_path / name).write_bytes(content[:length])
        with pytest.raises(CheckpointError):
            read_released(prefix)
    (tmp_path / name).write_bytes(content + b"\xc0")
    with pytest.raises(CheckpointError):
        read_released(prefix)
    (tmp_path / name).unlink()
    with pytest.raises(FileNotFoundError):
        read_released(prefix)


def test_lengths_that_a_file_announces_do_not_fill_the_memory(tmp_path: Path) -> None:
    prefix = written(tmp_path)
    (tmp_path / "c.index").write_bytes(b"\xdd\xff\xff\xff\xff" * 300 + bytes(1000))  # lists of 2^32 - 1 lists of ...
    with pytest.raises(CheckpointError, match="whole msgpack files"):
        read_released(prefix)
    with pytest.raises(CheckpointError, match="must not exceed the limit in bytes: got bytes=28, limit=27"):
        read_released(written(tmp_path), limit=27)


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    prefix, config, *_ = put("token", tmp_path)
    with pytest.raises(CheckpointError, match=r"hold the parameters.*missing=\[\], unknown=\['pre_logits\.bias'"):
        VMoE.from_checkpoint(prefix, {**config, "representation_size": None})
    with pytest.raises(CheckpointError, match=r"name='embedding.kernel', shape=\(4, 4, 3, 8\)"):
        VMoE.from_checkpoint(prefix, {**config, "patch_size": 2, "image_size": 4})
    with pytest.raises(ConfigError, match=r"no such option: got option='encoder\.moe\.router\.speed'"):
        config["encoder"]["moe"]["router"]["speed"] = 1
        VMoE.from_checkpoint(prefix, config)


def test_models_from_files_that_save_did_not_write_are_refused(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    weights = {"head.bias": torch.zeros(2)}
    path = tmp_path / "model.safetensors"
    for metadata in ({}, {"format": "moe_lab.vision.VMoE 1", "config": "{}", "more": ""}):
        save_file(weights, path, metadata)
        with pytest.raises(CheckpointError, match=r"format 'moe_lab\.vision\.VMoE 1' and config, and nothing else"):
            VMoE.load(path)
    save_file(weights, path, {"format": "moe_lab.vision.VMoE 1", "config": '{"speed": 1}'})
    with pytest.raises(CheckpointError, match="VMoEConfig has no parameter 'speed'"):
        VMoE.load(path)
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(CheckpointError, match="whole file that save wrote"):
        VMoE.load(path)
    with pytest.raises(FileNotFoundError):
        VMoE.load(tmp_path / "none")
