"""Folders of weights: what transformers reads is pruned, and the result may lie beside it, in it or behind a link."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from moe_lab.cli import main
from moe_lab_hub import plan_checkpoint, prune_checkpoint
from moe_lab_hub.folder import INDEX, SINGLE
from tests.hub.cases import auto, tiny

CONFIGS = {"config.json", "generation_config.json"}


def whole(folder: Path, seed: int) -> None:
    tiny("mixtral", seed).save_pretrained(folder.parent / f"whole{seed}")
    folder.mkdir(exist_ok=True)
    for name in (*CONFIGS, SINGLE):
        shutil.copy(folder.parent / f"whole{seed}" / name, folder / name)


def sharded(folder: Path, seed: int) -> None:
    tiny("mixtral", seed).save_pretrained(folder, max_shard_size="10KB")


def pytorch(folder: Path, seed: int) -> None:
    torch.save(tiny("mixtral", seed).state_dict(), folder / "pytorch_model.bin")


def variant(folder: Path, seed: int) -> None:
    tiny("mixtral", seed).save_pretrained(folder, variant="fp16")
    tiny("mixtral", seed).save_pretrained(folder, variant="bf16", max_shard_size="10KB")


def chosen(folder: Path, seed: int) -> None:
    """A file of another name, which config.json names."""
    whole(folder.parent / "named", seed)
    shutil.copy(folder.parent / "named" / SINGLE, folder / "mine.safetensors")
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**settings, "transformers_weights": "mine.safetensors"}))


def repeated(folder: Path, seed: int) -> None:
    """One tensor in the first of several shards again, with another model's values; the index names either."""
    index = json.loads((folder / INDEX).read_text())
    first, last = (sorted(set(index["weight_map"].values()))[place] for place in (0, -1))
    state = load_file(folder / first)
    name = next(name for name, file in index["weight_map"].items() if file == last)
    state[name] = torch.full_like(load_file(folder / last)[name], float(seed))
    save_file(state, folder / first, metadata={"format": "pt"})
    index["weight_map"][name] = first
    (folder / INDEX).write_text(json.dumps(index))


def misnamed(folder: Path, seed: int) -> None:
    """An index that leaves some tensors out and places others in the wrong shard."""
    index = json.loads((folder / INDEX).read_text())
    files = sorted(set(index["weight_map"].values()))
    names = [name for name, file in index["weight_map"].items() if file == files[0]]
    index["weight_map"][names[0]] = files[1]
    del index["weight_map"][names[1]]
    (folder / INDEX).write_text(json.dumps(index))


MIXTURES: dict[str, tuple[list[Any], str]] = {
    "shards and a whole file": ([sharded, whole], f"reads {SINGLE} .* ignores other weights: model-00001-of"),
    "a whole file and shards": ([whole, sharded, whole], f"reads {SINGLE} .* ignores other weights: .*{INDEX}"),
    "a whole file and PyTorch's": ([whole, pytorch], f"reads {SINGLE} .* ignores other weights: pytorch_model.bin"),
    "shards and PyTorch's": ([sharded, pytorch], f"reads {INDEX} .* ignores other weights: pytorch_model.bin"),
    "a variant beside shards": ([sharded, variant], f"reads {INDEX} .* ignores other weights: .*fp16.safetensors"),
    "a variant beside a file": ([whole, variant], f"reads {SINGLE} .* ignores .*model.safetensors.index.bf16.json"),
    "a file that the config names": ([whole, sharded, chosen], "reads mine.safetensors .* ignores .*model-00001-of"),
    "a tensor in two shards": ([sharded, repeated], "is in several files, of which transformers reads model-000"),
    "an index that is wrong": ([sharded, misnamed], f"{INDEX} is wrong on .*, which transformers reads from model-"),
}


def read(folder: Path) -> dict[str, torch.Tensor]:
    model, told = auto("mixtral").from_pretrained(folder, output_loading_info=True)
    assert not any(told.values())
    return dict(model.state_dict())


@pytest.mark.parametrize("mixture", MIXTURES)
@pytest.mark.filterwarnings("ignore:.* (in several files|is wrong on) ")  # two notes on one folder
def test_what_transformers_reads_is_pruned(mixture, tmp_path):
    """Each part of a mixture is of another model. Nothing is removed, so that all of it must come out."""
    makers, sentence = MIXTURES[mixture]
    for seed, make in enumerate(makers):
        make(tmp_path / "mixed", seed)
    with pytest.warns(UserWarning, match=sentence):
        plan = prune_checkpoint(tmp_path / "mixed", tmp_path / "out", criterion="random", share=0.0)
    wanted, found = read(tmp_path / "mixed"), read(tmp_path / "out")
    assert wanted.keys() == found.keys() and all(torch.equal(found[name], wanted[name]) for name in wanted)
    weights = {path.name for path in (tmp_path / "out").iterdir()} - CONFIGS
    assert weights == {*plan.folder.metadata, plan.folder.index_name} - {""}
    whole(tmp_path / "after", 9)
    with pytest.warns(UserWarning, match=sentence):  # of the model before, too
        plan_checkpoint(tmp_path / "after", tmp_path / "mixed")


@pytest.mark.parametrize(
    ("makers", "sentence"),
    [
        ([pytorch], r"got no model.safetensors in .*, only pytorch_model.bin$"),
        ([variant], r"got no model.safetensors in .*, only model.*bf16"),
        ([sharded], r"got no model-00002-of-.* in "),
    ],
)
def test_weights_that_are_not_all_there_are_refused(makers, sentence, tmp_path):
    folder = tmp_path / "mixed"
    folder.mkdir()
    tiny("mixtral").config.save_pretrained(folder)
    for make in makers:
        make(folder, 0)
    for path in folder.glob("model-00002-*"):
        path.unlink()
    with pytest.raises(FileNotFoundError, match=sentence):
        plan_checkpoint(folder, criterion="random")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("adapter_config.json", r"^adapters must be merged into the model before it is pruned: got file='adapter_conf"),
        (
            "shard-00001-model-00001-of-00002.safetensors",
            r"^the shards of a distributed checkpoint must be merged first",
        ),
    ],
)
def test_weights_that_belong_together_otherwise_are_refused(name, sentence, tmp_path):
    whole(tmp_path / "mixed", 0)
    (tmp_path / "mixed" / name).write_text("{}")
    with pytest.raises(ValueError, match=sentence):
        plan_checkpoint(tmp_path / "mixed", criterion="random")


@pytest.mark.parametrize("file", ["../x.safetensors", "/x.safetensors", "pytorch_model.bin", 3])
def test_a_file_that_the_config_names_must_be_of_the_folder(file, tmp_path):
    whole(tmp_path / "mixed", 0)
    settings = json.loads((tmp_path / "mixed" / "config.json").read_text())
    (tmp_path / "mixed" / "config.json").write_text(json.dumps({**settings, "transformers_weights": file}))
    with pytest.raises(ValueError, match=r"^transformers_weights in config.json must name a safetensors file of the f"):
        plan_checkpoint(tmp_path / "mixed", criterion="random")


# --- where the result is written --------------------------------------------------------------------------------------


def tree(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "place", ["inside", "deep inside", "behind a link", "by a link of the folder", "at a link", "here"]
)
def test_a_result_may_lie_in_what_is_pruned(place, tmp_path, monkeypatch):
    """Twice, with --dry-run first, as a user does it: nothing of the first is in the second, and nothing is left."""
    folder, out = tmp_path / "m", tmp_path / "m" / "pruned"
    whole(folder, 0)
    (folder / "tokenizer.json").write_text("{}")
    (tmp_path / "link").symlink_to(folder, target_is_directory=True)
    given = folder
    if place == "deep inside":
        out = folder / "a" / "b" / "pruned"
    elif place == "behind a link":
        out = tmp_path / "link" / "pruned"
    elif place == "by a link of the folder":
        given = tmp_path / "link"
    elif place == "at a link":
        out = tmp_path / "other"
        (folder / "target").mkdir()
        out.symlink_to(folder / "target", target_is_directory=True)
    elif place == "here":
        out.mkdir()
        monkeypatch.chdir(out)
        out = Path(".")
    untouched = tree(folder)
    for options in (["--dry-run"], []):
        with pytest.raises(SystemExit) as ended:
            main(["prune", str(given), str(out), "--criterion", "random", *options])
        assert ended.value.code == 0
    result = Path(os.path.realpath(folder / "pruned" if place == "here" else out))
    assert set(tree(result)) == {*CONFIGS, SINGLE, "tokenizer.json"}
    assert auto("mixtral").from_pretrained(result).config.num_local_experts == 4
    after = {name: content for name, content in tree(folder).items() if not (folder / name).is_relative_to(result)}
    assert {name: content for name, content in after.items() if not name.endswith(".plan.json")} == untouched
    assert not [path for path in tmp_path.rglob("*.part")]


def test_a_failed_write_in_what_is_pruned_leaves_nothing(tmp_path):
    whole(tmp_path / "m", 0)
    untouched = tree(tmp_path / "m")
    steps = plan_checkpoint(tmp_path / "m", criterion="random").write(tmp_path / "m" / "pruned")
    next(steps)
    steps.close()
    assert tree(tmp_path / "m") == untouched and not (tmp_path / "m" / "pruned").exists()


@pytest.mark.parametrize("out", ["m", "link", "."])
def test_a_result_may_not_replace_what_is_pruned(out, tmp_path):
    """The same folder, by a link too, or one around it."""
    whole(tmp_path / "m", 0)
    (tmp_path / "link").symlink_to(tmp_path / "m", target_is_directory=True)
    with pytest.raises(ValueError, match=r"^a folder to write must be new or empty"):
        prune_checkpoint(tmp_path / "m", tmp_path / out, criterion="random")


def test_links_are_followed_to_files_and_left_out_to_folders(tmp_path):
    whole(tmp_path / "m", 0)
    (tmp_path / "blob").write_text("vocabulary")
    (tmp_path / "m" / "vocab.txt").symlink_to(tmp_path / "blob")
    (tmp_path / "m" / "loop").symlink_to(tmp_path / "m", target_is_directory=True)
    (tmp_path / "m" / "gone").symlink_to(tmp_path / "nowhere")
    plan = prune_checkpoint(tmp_path / "m", tmp_path / "out", criterion="random")
    assert (tmp_path / "out" / "vocab.txt").read_text() == "vocabulary" and set(plan.left_out) == {"loop", "gone"}
    assert not (tmp_path / "out" / "vocab.txt").is_symlink() and set(tree(tmp_path / "out")) >= {"vocab.txt", SINGLE}


def test_a_folder_that_is_missing_is_named_first(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["prune", str(tmp_path / "nowhere"), str(tmp_path / "new" / "out")])
    told = capsys.readouterr().err
    assert ended.value.code == 1 and told.startswith(
        "moe-lab: a checkpoint folder must hold config.json and safetensors"
    )
    assert not (tmp_path / "new").exists()


def test_the_command_prints_names_and_notes_as_they_are(tmp_path, capsys, monkeypatch):
    """A user's folder may be called what rich reads as markup."""
    monkeypatch.setenv("COLUMNS", "60")
    folder, base, out = tmp_path / "m[v1]", tmp_path / "[bold]base", tmp_path / "out[v2]"
    whole(folder, 0)
    whole(base, 1)
    pytorch(folder, 0)
    with pytest.raises(SystemExit) as ended:
        main(["prune", str(folder), str(out), "--before", str(base)])
    told = capsys.readouterr().out
    assert ended.value.code == 0 and f"The pruned model is in {out}." in told
    assert f"Note: transformers reads {SINGLE} in {folder} and ignores other weights: pytorch_model.bin." in told
    plan = json.loads((tmp_path / "out[v2].plan.json").read_text())
    assert f"is in {tmp_path / 'out[v2].plan.json'}." in told and plan["notes"][0] in told
