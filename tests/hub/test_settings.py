"""config.json of a pruned checkpoint names the experts that stay by their new numbers."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from safetensors.torch import load_file

from moe_lab_hub import prune_checkpoint
from tests.hub.cases import EXPERTS, tiny

BLOCK = "model.layers.{}.mlp.experts.{}.{}"
PARTS = ("gate_proj", "up_proj", "down_proj")


def meant(patterns: list[str], modules: list[str]) -> set[str]:
    """The modules that a list of compressed-tensors means: whole names, and regular expressions after "re:"."""
    return {
        module
        for module in modules
        for one in patterns
        if (re.match(one[3:], module) if one.startswith("re:") else one == module)
    }


@pytest.mark.parametrize(
    "names",
    [
        ["lm_head", *(BLOCK.format(0, expert, "down_proj") for expert in range(0, EXPERTS, 2))],
        [r"re:.*mlp\.experts\.[0-3]\..*", "re:.*self_attn.*"],
        [r"re:.*experts\.\d+\.up_proj$", r"re:model\.layers\.1\.mlp\.experts\.7\.down_proj"],
        ["re:.*"],
        ["Linear"],
    ],
)
@pytest.mark.parametrize("field", ["quantization_config", "compression_config"])
def test_the_same_experts_are_meant_before_and_after(names, field, tmp_path):
    def change(settings: dict[str, Any]) -> None:
        settings[field] = {"ignore": names, "config_groups": {"group_0": {"targets": names, "weights": {"bits": 8}}}}
        settings[field]["only"] = names[-1]
        settings[field]["of_each"] = {name: {"bits": 4} for name in names}

    plan, old, new = pruned(tmp_path, change)
    places = {place: expert for place, expert in plan}
    for read in (
        lambda one: one["ignore"],
        lambda one: one["config_groups"]["group_0"]["targets"],
        lambda one: [*one["of_each"]],
        lambda one: one["only"] if isinstance(one["only"], list) else [one["only"]],
    ):
        before, after = (meant(read(settings[field]), modules) for settings, modules in (old, new))
        wanted = {places[module] for module in before if module in places} | (before - modules_of_experts(old[1]))
        assert after == wanted
    assert new[0][field]["config_groups"]["group_0"]["weights"] == {"bits": 8}


def pruned(folder: Any, change: Any) -> Any:
    """Prunes a tiny OLMoE; (old module, new module) of the experts that stay, and settings and modules of both."""
    tiny("olmoe").save_pretrained(folder / "after")
    path = folder / "after" / "config.json"
    settings = json.loads(path.read_text())
    change(settings)
    path.write_text(json.dumps(settings))
    plan = prune_checkpoint(folder / "after", folder / "out", criterion="random")
    places = [
        (BLOCK.format(layer, expert, part), BLOCK.format(layer, number, part))
        for layer in (0, 1)
        for number, expert in enumerate(plan.kept[f"model.layers.{layer}.mlp"])
        for part in PARTS
    ]
    both = []
    for home in ("after", "out"):
        names = load_file(folder / home / "model.safetensors")
        config = json.loads((folder / home / "config.json").read_text())
        both.append((config, sorted({name.rpartition(".")[0] for name in names})))
    return places, *both


def modules_of_experts(modules: list[str]) -> set[str]:
    return {module for module in modules if ".experts." in module}


@pytest.mark.parametrize(
    "name", ["experts.3.down_proj", "*experts.3*", r"model\.layers\.0\.mlp\.experts\.[35]", "re:("]
)
def test_a_name_that_cannot_be_renumbered_is_refused(name, tmp_path):
    with pytest.raises(ValueError, match=r"^(the quantisation's config must name experts in full|a pattern of the )"):
        pruned(tmp_path, lambda settings: settings.update(quantization_config={"modules_to_not_convert": [name]}))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("file", ["hf_quant_config.json", "quantize_config.json"])
def test_a_file_beside_the_config_means_the_same_experts(file, tmp_path):
    names = ["lm_head", *(BLOCK.format(1, expert, "up_proj") for expert in range(0, EXPERTS, 3))]
    told = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "exclude_modules": names}}

    def change(settings: dict[str, Any]) -> None:
        (tmp_path / "after" / file).write_text(json.dumps(told))

    plan, (_, modules), _ = pruned(tmp_path, change)
    wanted = {dict(plan)[name] for name in names if name in dict(plan)} | (set(names) - modules_of_experts(modules))
    found = json.loads((tmp_path / "out" / file).read_text())
    assert set(found["quantization"].pop("exclude_modules")) == wanted
    assert found == {"producer": told["producer"], "quantization": {"quant_algo": "FP8"}}
    told["quantization"]["exclude_modules"] = ["model.layers.0.mlp.experts.3*"]
    with pytest.raises(ValueError, match=r"must name experts in full"):
        pruned(tmp_path / "another", lambda _: (tmp_path / "another" / "after" / file).write_text(json.dumps(told)))
