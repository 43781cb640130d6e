"""The tiny Mixtral of notebook 09: its questions by hand, what it learns, and pictures that show what was measured."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from moe_lab_hub import example, prune_experts, repair


def test_questions_by_hand():
    asked, answers = example.questions("a - b", "2a + b")
    told = {tuple(row): answer for row, answer in zip(asked.tolist(), answers.tolist(), strict=True)}
    assert len(told) == 242 and told[12, 3, 5] == 9 and told[14, 10, 4] == 2
    with pytest.raises(ValueError, match=r"^rules must be among a \+ b, .*: got rules=\['a \+ c'\]$"):
        example.questions("a + c")


def test_a_copy_learns_and_the_same_seed_gives_the_same():
    model, (asked, answers) = example.tiny_mixtral(width=16, hidden=8), example.questions("a + b")
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    first, again, other = (example.taught(model, "a + b", steps=6, seed=seed) for seed in (0, 0, 1))
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    losses = [torch.nn.functional.cross_entropy(one(asked).logits[:, -1], answers).item() for one in (model, first)]
    assert losses[1] < losses[0] - 0.05
    pairs = [list(zip(first.parameters(), one.parameters(), strict=True)) for one in (again, other)]
    assert all(torch.equal(*pair) for pair in pairs[0]) and not any(torch.equal(*pair) for pair in pairs[1])


@pytest.mark.parametrize("way", repair.WAYS)
def test_what_is_recorded_is_what_pruning_and_teaching_by_hand_give(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair, "LESSONS", 20)
    criterion, seed = "importance-score", 1
    records = list(repair.prune_and_repair("a + b", 3, criterion, way, steps=5, seed=seed, record_every=2))
    assert [one.step for one in records] == [0, 2, 4, 5] and records[-1].finished.all()
    base = example.taught(example.tiny_mixtral(seed=seed), *repair.KNOWN, steps=20, seed=seed)
    tuned = example.taught(base, "a + b", steps=repair.TUNING, learning_rate=repair.RATE, seed=seed + 1)
    batches = [{"input_ids": example.questions("a + b")[0]}]
    pruned = prune_experts(tuned, base, criterion, 5 / 8, way, batches=batches)
    mended = example.taught(pruned.model, "a + b", steps=5, learning_rate=repair.RATE, seed=seed + 1)
    rules = ("a + b", *repair.KNOWN[1:])
    for record, model in ((records[0], pruned.model), (records[-1], mended)):
        right, *others = (example.accuracy(model, rule) for rule in rules)
        assert record["accuracy"].item() == right and record["others"].item() == pytest.approx(sum(others) / 3)
    first, costs = records[0], pruned.costs.to_dataframe()
    assert first["whole"].item() == example.accuracy(tuned, "a + b")
    for layer, (name, kept) in enumerate(pruned.kept.items()):
        assert first["stays"][0, layer].nonzero()[0].tolist() == list(kept)
        assert first["scores"][0, layer].tolist() == pytest.approx(pruned.scores[name].tolist())
    assert first["operations"].item() == costs.loc[way, "operations"] / costs.loc["whole", "operations"]
    draws = [prune_experts(tuned, None, "random", 5 / 8, way, seed=seed + draw).model for draw in range(4)]
    assert first["by_chance"][0].tolist() == [example.accuracy(model, "a + b") for model in draws]
    assert first["by_criterion"][0, example.CRITERIA.index(criterion)] == first["accuracy"].item()


def test_a_trial_is_the_same_alone_and_among_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair, "LESSONS", 5)
    both, alone = ([*repair.prune_and_repair(steps=3, trials=trials)][-1] for trials in (2, 1))
    for name, values in alone.values.items():
        assert values[0].tolist() == both[name][0].tolist() and both[name].shape[0] == 2
    assert both["scores"][0].tolist() != both["scores"][1].tolist()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"kept": 8}, r"kept must be from 2, which a token needs, to 7: got kept=8"),
        ({"task": "a * b"}, r"task must be one of a \+ b, .*: got task='a \* b'"),
        ({"criterion": "age"}, r"criterion must be one of router-norm-change, .*: got criterion='age'"),
        ({"way": "loud"}, r"way must be one of rerouted, silent: got way='loud'"),
        ({"steps": -1}, r"steps must be at least 0: got steps=-1"),
        ({"trials": 0}, r"trials must be at least 1: got trials=0"),
        ({"device": "gpu"}, r"device must be 'auto', 'cpu'"),
    ],
)
def test_what_cannot_be_repaired_is_refused_at_once(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        repair.prune_and_repair(**values)
