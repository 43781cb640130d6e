"""The tiny Mixtral of notebook 09: its questions by hand, what it learns, and pictures that show what was measured."""

from __future__ import annotations

import pytest
import torch
from matplotlib.figure import Figure

from moe_lab.core.saliency import name_of
from moe_lab_hub import example, plots, prune_experts


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


def test_a_comparison_and_its_pictures():
    """The comparison against pruning by hand; the pictures against the comparison."""
    base = example.tiny_mixtral(width=16, hidden=8)
    tuned = example.taught(base, "a + b", steps=5)
    data = example.compare(base, tuned, "a + b", kept=(4,), steps=3)
    assert float(data["whole"]) == example.accuracy(tuned, "a + b")
    draws = [prune_experts(tuned, criterion="random", share=0.5, seed=seed).model for seed in range(4)]
    by_hand = sum(example.accuracy(model, "a + b") for model in draws) / 4
    assert float(data["accuracy"].sel(criterion="random", kept=4)) == pytest.approx(by_hand)
    pruned = prune_experts(tuned, base, share=0.5)
    mended = example.accuracy(example.taught(pruned.model, "a + b", steps=3, learning_rate=1e-3, seed=1), "a + b")
    assert float(data["tuned"].sel(criterion="router-norm-change")) == mended

    left, right = Figure().subplots(1, 2)
    (layer, kept), *_ = pruned.kept.items()
    plots.scores(pruned.scores[layer], kept, left)
    assert [bar.get_height() for bar in left.patches] == pytest.approx(pruned.scores[layer].tolist())
    assert [expert for expert, bar in enumerate(left.patches) if not bar.get_hatch()] == list(kept)
    plots.comparison(data, right)
    for criterion, line in zip(data["criterion"].values, right.lines[::2], strict=True):
        assert line.get_ydata()[1:].tolist() == data["accuracy"].sel(criterion=criterion).values.tolist()
    assert len({(line.get_marker(), line.get_linestyle()) for line in right.lines[::2]}) == data.sizes["criterion"]
    assert [text.get_text().strip() for text in right.texts] == [name_of(one) for one in example.CRITERIA]
