"""prune_checkpoint: a folder pruned on disk equals the model pruned in memory, in every layout that is saved."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from moe_lab import __version__, cli
from moe_lab.cli import main
from moe_lab_hub import CRITERIA, plan_checkpoint, prune_checkpoint, prune_experts
from tests.hub.cases import CASES, EXPERTS, auto, inputs, logits, tiny


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def saved(name: str, folder: Path, seed: int = 0, shard: str = "5GB", kind: torch.dtype = torch.float32) -> Any:
    """A tiny model, which also lies in a folder."""
    model = tiny(name, seed, kind)
    model.save_pretrained(folder, max_shard_size=shard)
    return model


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    ("criterion", "shard", "kind"),
    [("neuron-magnitude-change", "5GB", torch.float32), ("router-norm-change", "6KB", torch.bfloat16)],
)
@pytest.mark.filterwarnings("ignore:rounding to bfloat16 hides")  # of random scores some are close
def test_a_folder_equals_the_model_pruned_in_memory(name, criterion, shard, kind, tmp_path):
    """In one file or in many, whatever the layout on disk; other files come along, and the source is untouched."""
    after, base, out = tmp_path / "after", tmp_path / "base", tmp_path / "out"
    model, before = saved(name, after, 0, shard, kind), saved(name, base, 1, "5GB", kind)
    (after / "tokenizer.json").write_text("{}")
    (after / "sub").mkdir()
    (after / "sub" / "notes.txt").write_text("kept")
    untouched = contents(after)
    files = len(list(after.glob("*.safetensors")))
    assert files == 1 if shard == "5GB" else files > 2

    plan = prune_checkpoint(after, out, base, criterion)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["after", "base", "out"] and contents(after) == untouched
    assert (out / "tokenizer.json").read_text() == "{}" and (out / "sub/notes.txt").read_text() == "kept"

    wanted = prune_experts(model, before, criterion)
    assert plan.kept == wanted.kept
    assert all(torch.equal(plan.scores[block], scores) for block, scores in wanted.scores.items())
    wanted.model.save_pretrained(tmp_path / "wanted")
    read, information = auto(name).from_pretrained(out, output_loading_info=True)
    assert not any(information.values())
    state = auto(name).from_pretrained(tmp_path / "wanted").state_dict()
    assert all(torch.equal(tensor, state[key]) for key, tensor in read.state_dict().items())
    assert {key: one.dtype for key, one in read.state_dict().items()} == {key: one.dtype for key, one in state.items()}
    if kind == torch.float32:
        ours, theirs = (logits(one.eval(), inputs(name)) for one in (read, wanted.model))
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["mixtral", "qwen3_moe", "qwen3_5_moe", "jamba"])
def test_fused_tensors_on_disk(name, tmp_path):
    """As in memory: `experts.gate_up_proj`, which these families also read from disk."""
    model, given = tiny(name), inputs(name)
    model.config.save_pretrained(tmp_path / "fused")
    state = {key: tensor.contiguous() for key, tensor in model.state_dict().items()}
    save_file(state, tmp_path / "fused" / "model.safetensors", metadata={"format": "pt"})
    plan = prune_checkpoint(tmp_path / "fused", tmp_path / "out", criterion="neuron-magnitude", share=0.25)
    wanted = prune_experts(model, criterion="neuron-magnitude", share=0.25)
    assert plan.kept == wanted.kept
    read = auto(name).from_pretrained(tmp_path / "out").eval()
    torch.testing.assert_close(logits(read, given), logits(wanted.model, given), rtol=1e-6, atol=1e-6)
    with safe_open(tmp_path / "out" / "model.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"}


def test_neurons_in_columns_on_disk_are_told_by_their_length(tmp_path):
    """As Qwen3-VL-MoE is published; transformers saves it with neurons in rows."""
    model = saved("qwen3_vl_moe", tmp_path / "after")
    of_experts = ("gate_up_proj", "down_proj")
    edited(
        tmp_path / "after",
        lambda state: state.update(
            {key: one.mT.contiguous() for key, one in state.items() if key.endswith(of_experts)}
        ),
    )
    plan = prune_checkpoint(tmp_path / "after", tmp_path / "out", criterion="neuron-magnitude")
    wanted = prune_experts(model, criterion="neuron-magnitude")
    assert plan.kept == wanted.kept
    read = auto("qwen3_vl_moe").from_pretrained(tmp_path / "out").eval()
    given = inputs("qwen3_vl_moe")
    torch.testing.assert_close(logits(read, given), logits(wanted.model, given), rtol=1e-6, atol=1e-6)


def test_a_quantised_checkpoint_is_cut_byte_by_byte(tmp_path):
    """As gpt-oss is published: experts in blocks of four bits with scales. Routers tell which go; neurons cannot."""
    tiny("gpt_oss").save_pretrained(tmp_path / "after")
    tiny("gpt_oss", seed=1).save_pretrained(tmp_path / "base")
    blocks: dict[str, torch.Tensor] = {}
    for folder in ("after", "base"):
        state = load_file(tmp_path / folder / "model.safetensors")
        for name in [name for name in state if name.endswith(("gate_up_proj", "down_proj"))]:
            shape = tuple(state.pop(name).shape)
            draw = torch.Generator().manual_seed(len(name))
            for part, width in (("blocks", 2), ("scales", 1)):
                state[f"{name}_{part}"] = torch.randint(0, 255, (*shape[:2], width), generator=draw).to(torch.uint8)
        save_file(state, tmp_path / folder / "model.safetensors")
        blocks = state if folder == "after" else blocks
    plan = prune_checkpoint(tmp_path / "after", tmp_path / "out", tmp_path / "base")
    cut = load_file(tmp_path / "out" / "model.safetensors")
    for layer in (0, 1):
        kept = list(plan.kept[f"model.layers.{layer}.mlp"])
        for own in ("gate_up_proj_blocks", "gate_up_proj_scales", "down_proj_blocks", "down_proj_bias"):
            name = f"model.layers.{layer}.mlp.experts.{own}"
            assert torch.equal(cut[name], blocks[name][kept])
    with pytest.raises(ValueError, match=r"^neuron-magnitude needs experts that are not quantised"):
        prune_checkpoint(tmp_path / "after", tmp_path / "none", criterion="neuron-magnitude")


def test_each_name_of_the_count_is_changed(tmp_path):
    """Qwen3-MoE is published with num_experts, which transformers calls num_local_experts."""
    saved("qwen3_moe", tmp_path / "after")
    path = tmp_path / "after" / "config.json"
    settings = json.loads(path.read_text())
    settings["num_experts"] = settings.pop("num_local_experts", EXPERTS)
    settings["mine"] = {"left": ["alone"]}
    path.write_text(json.dumps(settings))
    prune_checkpoint(tmp_path / "after", tmp_path / "out", criterion="random", share=0.75)
    assert json.loads((tmp_path / "out" / "config.json").read_text()) == {**settings, "num_experts": 2}


def test_unpruned_weights_in_other_formats_are_not_copied(tmp_path):
    saved("olmoe", tmp_path / "after")
    for name in ("pytorch_model.bin", "original/consolidated.00.pth", ".cache/x", "consolidated.safetensors"):
        (tmp_path / "after" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "after" / name).write_bytes(b"0")
    with pytest.warns(UserWarning, match=r"ignores other weights: consolidated.safetensors, original/consolidated"):
        plan = prune_checkpoint(tmp_path / "after", tmp_path / "out", criterion="random")
    assert set(plan.left_out) == {
        ".cache/x",
        "consolidated.safetensors",
        "original/consolidated.00.pth",
        "pytorch_model.bin",
    }
    assert set(contents(tmp_path / "out")) == {"config.json", "generation_config.json", "model.safetensors"}


# --- whole or not at all ----------------------------------------------------------------------------------------------


def test_a_write_that_fails_leaves_nothing(tmp_path, monkeypatch):
    saved("mixtral", tmp_path / "after", shard="6KB")
    plan = plan_checkpoint(tmp_path / "after", criterion="random")
    for done in plan.write(tmp_path / "out"):
        if done > plan.bytes / 2:
            break  # as if interrupted: the generator is closed
    assert [path.name for path in tmp_path.iterdir()] == ["after"]
    steps = plan.write(tmp_path / "out")
    next(steps)
    shard = sorted((tmp_path / "after").glob("*.safetensors"))[-1]
    shard.write_bytes(shard.read_bytes()[:-64])
    with pytest.raises(RuntimeError, match=r"ended early"):
        list(steps)
    assert [path.name for path in tmp_path.iterdir()] == ["after"]
    with pytest.raises(ValueError, match=r"^a safetensors file must be sound: got "):
        plan_checkpoint(tmp_path / "after", criterion="random")


def test_what_is_in_the_way_is_not_overwritten(tmp_path):
    saved("mixtral", tmp_path / "after")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("x")
    for folder in ("after", "not there"):  # before anything is read
        with pytest.raises(ValueError, match=r"^a folder to write must be new or empty"):
            prune_checkpoint(tmp_path / folder, tmp_path / "out", criterion="random")
    assert contents(tmp_path / "out") == {"mine": b"x"}


# --- what is refused --------------------------------------------------------------------------------------------------


def edited(folder: Path, change: Any) -> None:
    """Changes the tensors of a folder of one file."""
    state = load_file(folder / "model.safetensors")
    change(state)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda state: state.update({"model.layers.0.block_sparse_moe.scale": torch.ones(EXPERTS)}),
            "^every tensor of a block must be known in Mixtral: got 'model.layers.0.block_sparse_moe.scale'$",
        ),
        (
            lambda state: state.update({"model.experts.bias": torch.ones(EXPERTS)}),
            "must lie in a block that Mixtral is known to have: got tensor='model.experts.bias'$",
        ),
        (
            lambda state: state.pop("model.layers.1.block_sparse_moe.experts.3.w2.weight"),
            r"^model.layers.1.mlp must have w2.weight of each expert, 0 to 7: got experts=\[0, 1, 2, 4, 5, 6, 7\]$",
        ),
        (
            lambda state: state.update({"model.layers.1.block_sparse_moe.gate.weight": torch.ones(4, 16)}),
            r"gate.weight must have an entry for each of the 8 experts: got shape=\(4, 16\)$",
        ),
        (
            lambda state: [state.pop(name) for name in list(state) if "layers.1." in name and "experts" in name],
            "^model.layers.1.mlp must have experts",
        ),
    ],
)
def test_tensors_that_are_not_accounted_for_are_refused(change, sentence, tmp_path):
    saved("mixtral", tmp_path / "after")
    edited(tmp_path / "after", change)
    with pytest.raises(ValueError, match=sentence):
        prune_checkpoint(tmp_path / "after", tmp_path / "out", criterion="random")
    assert not (tmp_path / "out").exists()


def test_wrong_folders_are_refused(tmp_path):
    saved("mixtral", tmp_path / "after")
    saved("olmoe", tmp_path / "other")
    with pytest.raises(FileNotFoundError, match=r"must hold config.json and safetensors: got no config.json in"):
        plan_checkpoint(tmp_path)
    with pytest.raises(ValueError, match=r"^router-norm-change compares with the model before fine-tuning"):
        plan_checkpoint(tmp_path / "after")
    with pytest.raises(ValueError, match=r"^before must be the same model before fine-tuning"):
        plan_checkpoint(tmp_path / "after", tmp_path / "other")
    with pytest.raises(ValueError, match=r"^reap needs tokens: load the model and use prune_experts with batches="):
        plan_checkpoint(tmp_path / "after", criterion="reap")
    (tmp_path / "other" / "config.json").write_text('{"model_type": "nllb-moe"}')
    with pytest.raises(ValueError, match=r"experts 0 and 1 alone"):
        plan_checkpoint(tmp_path / "other", criterion="random")


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_names_every_criterion():
    assert {*cli.CRITERIA} == {*CRITERIA}


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        ([], 1, "router-norm-change needs the model before fine-tuning: add --before FOLDER, or choose another --crit"),
        (["--criterion", "random", "--share", "1"], 1, "--share must be at least 0 and less than 1: got --share 1"),
        (["--criterion", "best"], 1, "--criterion must be one of router-norm-change, "),
        (["--criterion", "reap"], 1, "reap needs tokens: add --calibrate FILE, or choose another --criterion"),
    ],
)
def test_the_command_speaks_of_its_own_options(tmp_path, capsys, arguments, code, sentence):
    saved("mixtral", tmp_path / "after")
    capsys.readouterr()  # what transformers says
    with pytest.raises(SystemExit) as ended:
        main(["prune", str(tmp_path / "after"), str(tmp_path / "out"), *arguments])
    told = capsys.readouterr().err
    assert ended.value.code == code and told.startswith(f"moe-lab: {sentence}") and told.count("\n") == 1


def test_the_command_prints_tables_and_writes_only_its_plan_when_asked(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    after, base, out = (str(tmp_path / name) for name in ("after", "base", "out"))
    saved("mixtral", Path(after))
    saved("mixtral", Path(base), seed=1)
    arguments = ["prune", after, out, "--before", base, "--share", ".75"]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--dry-run"])
    printed = capsys.readouterr().out
    assert ended.value.code == 0 and not Path(out).exists() and "Nothing else was written." in printed
    plan = json.loads((tmp_path / "out.plan.json").read_text())
    expected = plan_checkpoint(after, base, share=0.75)
    assert plan["options"]["share"] == 0.75 and plan["options"]["before"] == base and plan["moe_lab"] == __version__
    for name, layer in plan["layers"].items():
        assert layer["kept"] == list(expected.kept[name]) and layer["scores"] == expected.scores[name].tolist()
    for key, folder in (("folder", after), ("before", base)):
        files = plan["files"][key]
        assert set(files) == {"config.json", "model.safetensors"}
        assert all(hashlib.sha256((Path(folder) / name).read_bytes()).hexdigest() == files[name] for name in files)
    row = next(line for line in printed.splitlines() if "1.mlp" in line)
    assert [cell.strip() for cell in row.strip("│ ").split("│")][:2] == ["1.mlp", "2 of 8"]
    assert "layers in model.layers" in [line.strip() for line in printed.splitlines()]
    assert "4,736" in row and "1,184" in row  # 8 experts of 3 x 12 x 16 and 8 rows of 16; a quarter of it
    assert "13,136" in printed and "saves memory, not operations or time" in printed
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0 and f"The pruned model is in {out}." in capsys.readouterr().out.replace("\n", "")
    assert auto("mixtral").from_pretrained(out).config.num_local_experts == 2
    capsys.readouterr()
    Path(after).rename(tmp_path / "moved")  # what is in the way is seen before anything is read
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    told = capsys.readouterr().err
    assert ended.value.code == 1 and told.startswith("moe-lab: a folder to write must be new or empty")
