"""Choices of experts, judged by the loss on texts beside random ones, on models whose important experts are known."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
import yaml
from torch import nn
from typer.testing import CliRunner

from moe_lab.cli import app
from moe_lab.core.errors import InputError
from moe_lab_hub import planted, prune_experts
from moe_lab_hub.comparing import Comparison, Settings
from moe_lab_hub.folder import Folder, source_of_folder
from moe_lab_hub.plans import kept_by_chance, read_plan
from moe_lab_hub.prune import loaded
from moe_lab_hub.texts import Text, batches_of, losses_by_batch, read_texts
from moe_lab_hub.verdicts import BETTER, UNCLEAR, WORSE, judged

EXPERTS, PLANTED = 16, (2, 5, 11)
SIZES: dict[str, Any] = {
    "vocab_size": planted.SIZE,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 32,
    "intermediate_size": 32,
    "num_experts_per_tok": 2,
    "pad_token_id": 0,
    "bos_token_id": None,
    "eos_token_id": None,
}
FAMILIES: dict[str, Any] = {
    "OLMoE": planted.tiny_olmoe,
    "Mixtral": lambda: transformers.MixtralForCausalLM(transformers.MixtralConfig(**SIZES, num_local_experts=EXPERTS)),
    "Qwen3-MoE": lambda: transformers.Qwen3MoeForCausalLM(
        transformers.Qwen3MoeConfig(**SIZES, num_experts=EXPERTS, head_dim=8, moe_intermediate_size=32)
    ),
}
TEXTS, CALIBRATION = (planted.walks(planted.TOPICS[1:], 30, name) for name in ("text", "calibration"))


@pytest.fixture(scope="module", params=FAMILIES)
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model before and after it was fine-tuned in its planted experts, and texts."""
    folder = tmp_path_factory.mktemp(request.param)
    torch.manual_seed(1)  # with 0 one planted expert may get no token, and never move, on some processors
    planted.write(folder, FAMILIES[request.param](), PLANTED)
    return folder


@pytest.fixture(scope="module")
def olmoe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model that has learned nothing, and texts."""
    folder = tmp_path_factory.mktemp("olmoe")
    planted.write(folder, planted.tiny_olmoe(), PLANTED, steps=0)
    return folder


def losses_of(model: nn.Module, texts: list[Text]) -> Any:
    return np.concatenate([*losses_by_batch(model, texts)])


def finished(settings: Settings, out: Path, calibration: list[Text] = CALIBRATION) -> Comparison:
    comparison = Comparison(settings, TEXTS, calibration, out)
    for _ in comparison.run():
        pass
    return comparison


@pytest.mark.slow
def test_planted_experts_are_found_and_the_criterion_that_finds_them_is_better_than_chance(
    home: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    command = ["compare", str(home / "after"), "--text", str(home / "text.jsonl"), "--out", str(out), "--shares", ".75"]
    command += [
        "--before",
        str(home / "before"),
        "--calibrate",
        str(home / "calibration.jsonl"),
        "--ways",
        "removed,silent",
    ]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    content = json.loads((out / "compare.json").read_text("utf-8"))
    rows = {(row["criterion"], row["way"]): row for row in content["rows"]}
    assert len(rows) == 2 * 8, "all criteria but the random one, in both ways"
    for way in ("removed", "silent"):
        found = rows["router-norm-change", way]
        assert all(set(PLANTED) <= set(kept) for kept in found["kept"].values()), "it finds them in every layer"
        assert found["words"] == BETTER and found["at_least"] == 0 and found["high"] < 0, (way, found["difference"])
    assert "better" in result.output and (out / "compare.png").read_bytes().startswith(b"\x89PNG")
    assert set(content["files"]) == {"model", "before", "text", "calibrate"} and content["draws"] == 40
    again = CliRunner().invoke(app, content["command"].split()[1:])
    assert again.exit_code == 0 and "All losses are stored." in again.output
    assert json.loads((out / "compare.json").read_text("utf-8")) == content, "the command makes it again"


@pytest.mark.slow
def test_the_experts_that_matter_least_are_worse_than_chance_to_keep(home: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"pruned": {str(layer): [*PLANTED, 0, 1, 3, 4, 6, 7, 8, 9, 10] for layer in range(2)}}))
    comparison = finished(Settings(home / "after", plan=plan, draws=39), tmp_path, [])
    (row,) = comparison.rows
    assert row.kept is not None and set(row.kept.values()) == {(12, 13, 14, 15)}
    chance = np.stack([comparison.losses("removed", comparison.chance(row, draw)) for draw in range(39)])
    assert judged(comparison.losses("removed", row.kept), chance).words in (WORSE, UNCLEAR)
    assert comparison.losses("removed", row.kept).mean() > comparison.losses().mean() + 0.1


def test_a_router_that_has_not_moved_leaves_its_change_undefined(olmoe: Path, tmp_path: Path) -> None:
    command = ["compare", str(olmoe / "after"), "--text", str(olmoe / "text.jsonl"), "--out", str(tmp_path / "out")]
    command += ["--before", str(olmoe / "after"), "--criteria", "router-norm-change,router-magnitude", "--draws", "4"]
    result = CliRunner().invoke(app, [*command, "--shares", ".5"])
    assert result.exit_code == 0, result.output
    assert "Undefined: router-norm-change" in result.output and "--draws 39" in result.output
    changed, magnitude = json.loads((tmp_path / "out" / "compare.json").read_text("utf-8"))["rows"]
    assert "none has moved" in changed["undefined"] and magnitude["words"] == UNCLEAR


def test_a_comparison_that_was_stopped_goes_on_and_comes_to_the_same(olmoe: Path, tmp_path: Path) -> None:
    settings = Settings(olmoe / "after", criteria=("router-magnitude",), shares=(0.5,), draws=3)
    whole = finished(settings, tmp_path / "whole", [])
    stopped = Comparison(settings, TEXTS, [], tmp_path / "stopped")
    runs: Iterator[int] = stopped.run()
    for _ in range(7):  # batches of three models and a bit
        next(runs)
    runs.close()  # type: ignore[attr-defined]
    later = Comparison(settings, TEXTS, [], tmp_path / "stopped")
    assert 0 < len(later.left()) < len(whole.needed) + 1
    for _ in later.run():
        pass
    for way, kept in [("whole", None), *whole.needed]:
        np.testing.assert_array_equal(later.losses(way, kept), whole.losses(way, kept))
    other = Comparison(replace(settings, seed=1), TEXTS, [], tmp_path / "stopped")
    assert len(other.left()) == 3, "other random choices; the whole model and the criterion's are known"


def test_losses_are_those_of_models_that_prune_experts_returns_and_the_model_is_untouched(
    olmoe: Path, tmp_path: Path
) -> None:
    settings = Settings(
        olmoe / "after", criteria=("neuron-magnitude",), shares=(0.5,), ways=("removed", "silent"), draws=3
    )
    comparison = finished(settings, tmp_path, [])
    model = loaded(olmoe / "after", comparison.source.family)
    np.testing.assert_allclose(comparison.losses(), losses_of(model, TEXTS), rtol=1e-6)
    for row, mode in zip(comparison.rows, ("rerouted", "silent"), strict=True):
        pruned = prune_experts(model, criterion="neuron-magnitude", mode=mode)
        assert {name: tuple(one) for name, one in pruned.kept.items()} == row.kept
        np.testing.assert_allclose(comparison.losses(row.way, row.kept), losses_of(pruned.model, TEXTS), rtol=1e-6)
    for name, tensor in comparison.model.state_dict().items():
        assert torch.equal(tensor, model.state_dict()[name]), name


def test_a_loss_is_that_of_a_text_alone_whatever_its_batch(olmoe: Path) -> None:
    model = loaded(olmoe / "after", source_of_folder(Folder(olmoe / "after")).family)
    texts = [Text(text.tokens[: 3 + number % 9]) for number, text in enumerate(TEXTS[:10])]
    for loss, text in zip(losses_of(model, texts), texts, strict=True):
        ids = torch.tensor([text.tokens])
        with torch.no_grad():
            alone = nn.functional.cross_entropy(model(input_ids=ids).logits[0, :-1], ids[0, 1:])
        assert loss == pytest.approx(float(alone), rel=1e-5)
    assert sum(int(batch["attention_mask"].sum()) for batch in batches_of(texts)) == sum(
        len(one.tokens) for one in texts
    )


def test_a_random_choice_keeps_as_many_of_each_group_and_shares_are_nested(olmoe: Path) -> None:
    layers = source_of_folder(Folder(olmoe / "after")).layers
    like = {layer.name: (0, 1, 2, 8, 9, 10) for layer in layers}
    for draw in range(5):
        found = kept_by_chance(layers, like, 2, draw, 0)
        assert all(sum(one < 8 for one in kept) == 3 and len(kept) == 6 for kept in found.values())
        fewer = kept_by_chance(layers, {name: (0, 8) for name in like}, 2, draw, 0)
        assert all(set(fewer[name]) <= set(found[name]) for name in like)
    first, second = (kept_by_chance(layers, like, 2, draw, 0) for draw in (0, 1))
    assert first != second and first[layers[0].name] != first[layers[1].name]


@pytest.mark.parametrize("spread", [0.0, 0.1, 1.0])
def test_random_choices_are_not_told_apart_from_random_choices_in_95_of_100_seeds(spread: float) -> None:
    """Shuffled labels of experts are a random choice, however skewed its losses: at most 1 in 20 is told apart."""
    alarms, seeds = 0, 400
    for seed in range(seeds):
        draws = np.random.default_rng(seed)
        losses = draws.normal(2, 0.5, 30) + draws.exponential(spread + 1e-12, (41, 1)) + draws.normal(0, 0.1, (41, 30))
        alarms += judged(losses[0], losses[1:], seed).words != UNCLEAR
    assert alarms <= 0.05 * seeds + 2 * (0.05 * 0.95 * seeds) ** 0.5, "two standard errors"


def test_a_verdict_needs_both_the_rank_and_the_texts() -> None:
    draws = np.random.default_rng(0)
    texts = draws.normal(2, 1, 50)
    chance = texts + draws.normal(0, 0.1, (40, 1)) + draws.normal(0, 0.05, (40, 50))
    best, worst = texts - 1 + draws.normal(0, 0.05, 50), texts + 1 + draws.normal(0, 0.05, 50)
    assert judged(best, chance).words == BETTER and judged(worst, chance).words == WORSE
    assert judged(best, chance[:20]).words == UNCLEAR, "twenty draws are not enough"
    noisy = texts - 0.5 + draws.normal(0, 4, 50)
    noisy += texts.mean() - 0.5 - noisy.mean()
    found = judged(noisy, chance)
    assert found.words == UNCLEAR and found.enough is not None and found.enough > 50
    middle = judged(texts + draws.normal(0, 0.05, 50), chance)
    assert middle.words == UNCLEAR and middle.enough is None, "no number of texts would tell it apart"


KEPT = [[0, 1, 2, 3], [4, 5, 6, 7]]
PRUNED = [[one for one in range(EXPERTS) if one not in kept] for kept in KEPT]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("ours.json", {"layers": {f"model.layers.{n}.mlp": {"kept": KEPT[n], "scores": []} for n in range(2)}}),
        ("retained.json", {"retained": {str(n): KEPT[n] for n in range(2)}}),
        ("pruned.json", {"pruned": {f"layer_{n}": PRUNED[n] for n in range(2)}, "model": "x"}),
        ("list.json", {"pruned_experts": PRUNED}),
        ("each.json", [{"keep": one} for one in KEPT]),
        ("some.yaml", {"removed": {n: PRUNED[n] for n in range(2)}}),
        ("blocks.yml", {f"model.layers.{n}": {"retained_experts": KEPT[n]} for n in range(2)}),
    ],
)
def test_plans_of_others_are_read(name: str, content: Any, olmoe: Path, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(json.dumps(content) if name.endswith("json") else yaml.safe_dump(content), "utf-8")
    layers = source_of_folder(Folder(olmoe / "after")).layers
    assert [read_plan(path, layers)[layer.name] for layer in layers] == [tuple(one) for one in KEPT]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[1", "a plan must be JSON"),
        ('{"experts": {"0": [1]}}', "a plan must say which experts stay, as kept, retained, or go"),
        ('{"kept": {"7": [1]}}', "a plan must name layers of the model"),
        ('{"kept": {"0": [1, 99]}}', "as numbers from 0 to 15: got 99"),
        ('{"kept": {"0": [1, 2]}}', "got nothing of model.layers.1.mlp"),
        ('{"kept": {"0": 3}}', "a plan must list the numbers of experts: got 3"),
        ('{"kept": {"0": [], "1": [1]}}', "got none of model.layers.0.mlp"),
    ],
)
def test_plans_that_are_not_understood_are_refused(content: str, said: str, olmoe: Path, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(content, "utf-8")
    with pytest.raises(InputError, match=said):
        read_plan(path, source_of_folder(Folder(olmoe / "after")).layers)


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        ([[0, 1, 2], [4, 5]], "as many experts in each layer, or be silent alone .*: got 2 to 3 in "),
        (
            [[0], [5]],
            r"as many experts must be kept as a token is sent to \(top-k = 2\): got kept=1, experts=16, plan=",
        ),
    ],
)
def test_a_plan_from_which_no_model_can_be_built_is_silent_or_refused(
    kept: list[list[int]], said: str, olmoe: Path, tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"kept": kept}), "utf-8")
    with pytest.raises(ValueError, match=said):
        Comparison(Settings(olmoe / "after", plan=path), TEXTS, [], tmp_path)
    silent = Comparison(Settings(olmoe / "after", plan=path, ways=("silent",)), TEXTS, [], tmp_path)
    assert [list(one) for one in (silent.plan or {}).values()] == kept


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["{"], "got '{' in line 1"),
        (['{"topic": "x"}'], "a line must be a JSON object"),
        (['{"tokens": [1, -2]}'], "a list of whole numbers"),
        (['{"tokens": [1]}'], "at least two tokens"),
        (['{"tokens": [1, 2]}'], "must have at least two, to tell"),
        (['{"text": "words"}'], "must hold its tokenizer"),
        ([], "got 0"),
    ],
)
def test_texts_that_cannot_be_read_are_refused(lines: list[str], said: str, olmoe: Path, tmp_path: Path) -> None:
    path = tmp_path / "text.jsonl"
    path.write_text("\n".join(lines), "utf-8")
    with pytest.raises(InputError, match=said):
        read_texts(path, olmoe / "after")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--criteria", "reap", "--calibrate", "TEXT"], "--calibrate must hold other texts than --text"),
        (["--criteria", "reap"], "reap needs tokens"),
        (["--criteria", "router-norm-change"], "compares with the model before fine-tuning"),
        (["--criteria", "random"], "random choices are what criteria are compared with"),
        (["--criteria", "best"], "a criterion must be one of"),
        (["--shares", "half"], "--shares must be numbers"),
        (["--shares", "1.5"], "shares must lie between 0 and 1"),
        (["--shares", ".99"], "as many experts must be kept as a token is sent to"),
        (["--ways", "loudly"], "ways must be among removed, silent"),
        (["--draws", "2"], "draws must be at least 3"),
    ],
)
def test_what_cannot_be_compared_is_refused(options: list[str], said: str, olmoe: Path, tmp_path: Path) -> None:
    text = str(olmoe / "text.jsonl")
    own = [text if one == "TEXT" else one for one in options]
    command = ["compare", str(olmoe / "after"), "--text", text, "--out", str(tmp_path / "out"), *own]
    result = CliRunner().invoke(app, command)
    assert result.exit_code != 0 and said in str(result.exception), result.exception


def test_a_dry_run_tells_time_and_memory_and_writes_nothing(olmoe: Path, tmp_path: Path) -> None:
    command = ["compare", str(olmoe / "after"), "--text", str(olmoe / "text.jsonl"), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, [*command, "--dry-run", "--draws", "3"])
    assert result.exit_code == 0 and "models on 30 texts: about" in result.output and "MiB" in result.output
    assert not (tmp_path / "out").exists()


def test_a_checkpoint_is_pruned_by_what_its_experts_do_on_texts(olmoe: Path, tmp_path: Path) -> None:
    calibration = olmoe / "calibration.jsonl"
    command = ["prune", str(olmoe / "after"), str(tmp_path / "out"), "--criterion", "reap"]
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code != 0 and "add --calibrate FILE" in str(refused.exception)
    result = CliRunner().invoke(app, [*command, "--calibrate", str(calibration)])
    assert result.exit_code == 0, result.output
    model = loaded(olmoe / "after", source_of_folder(Folder(olmoe / "after")).family)
    in_memory = prune_experts(model, criterion="reap", batches=batches_of(CALIBRATION))
    plan = json.loads((tmp_path / "out.plan.json").read_text("utf-8"))
    assert [about["kept"] for about in plan["layers"].values()] == [list(one) for one in in_memory.kept.values()]
    assert plan["files"]["calibrate"].keys() == {"calibration.jsonl"}
