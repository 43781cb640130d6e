"""Pruning of V-MoE and E3, and the tiny model that is trained here."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from moe_lab.core.saliency import CRITERIA, UndefinedCriterionError
from moe_lab.core.snapshots import collect
from moe_lab_papers.pruning2024 import vmoe
from moe_lab_papers.pruning2024.vmoe import VMoE, routing
from moe_lab_papers.pruning2024.vmoe.digits import Labelled
from moe_lab_papers.pruning2024.vmoe.prunings import Prunings
from moe_lab_papers.pruning2024.vmoe.training import schedule
from tests.vmoe.test_vmoe import E3, SMALL, images_of, logits, model_of

KEPT = {"v-moe": {0: (0, 2, 5), 2: (1, 2, 3, 4)}, "e3": {0: (0, 2, 3, 5), 2: (0, 1, 3, 4)}}


# --- pruned models --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["v-moe", "e3"])
def test_silent_pruning_is_a_model_whose_pruned_experts_answer_0(kind: str) -> None:
    model = model_of(SMALL if kind == "v-moe" else E3)
    masked = model_of(model.config)
    for block, kept in KEPT[kind].items():
        gone = [expert for expert in range(6) if expert not in kept]
        last = masked.mixtures()[block].Mlp.Dense_1
        last.kernel.data[gone] = 0
        last.bias.data[gone] = 0
    pruned = vmoe.without_others(model, KEPT[kind], "silent")
    assert pruned.mixtures()[0].Mlp.Dense_0.kernel.shape[0] == len(KEPT[kind][0])
    assert torch.allclose(logits(pruned, images_of(4)), logits(masked, images_of(4)), rtol=0, atol=1e-12)
    assert not torch.allclose(logits(pruned, images_of(4)), logits(model, images_of(4)), atol=1e-3)


@pytest.mark.parametrize("kind", ["v-moe", "e3"])
def test_rerouted_pruning_is_a_model_whose_router_never_picks_the_pruned(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_of(SMALL if kind == "v-moe" else E3)
    kept = {0: KEPT[kind][0], 2: KEPT[kind][0]}
    pruned = vmoe.without_others(model, kept, "rerouted")
    capacity = pruned.mixtures()[0].capacity
    assert capacity > model.mixtures()[0].capacity
    masked = VMoE(model.config.replace(capacity=capacity, capacity_factor=None)).double()
    masked.load_state_dict(model.state_dict())
    usual = routing.router_logits
    gone = torch.tensor([expert not in kept[0] for expert in range(6)]).view(model.config.members, 1, -1)
    monkeypatch.setattr(routing, "router_logits", lambda *a: usual(*a).masked_fill(gone, -torch.inf))
    expected = logits(masked, images_of(4))
    monkeypatch.undo()
    assert torch.allclose(logits(pruned, images_of(4)), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("mode", vmoe.MODES)
def test_a_pruned_model_is_saved_pruned_further_and_fine_tuned(mode: Any, tmp_path: Path) -> None:
    before, after, images = model_of(SMALL).float(), model_of(SMALL, seed=1).float(), images_of(4).float()
    once = vmoe.prune(before, after, "router-norm-change", 1, mode=mode)
    twice = vmoe.prune(before, once.model, "router-norm-change", 2, mode=mode)
    direct = vmoe.prune(before, after, "router-norm-change", 3, mode=mode)
    assert twice.kept == direct.kept and len(direct.kept[0]) == 3
    assert torch.equal(logits(twice.model, images), logits(direct.model, images))
    twice.model.save(tmp_path / "m.safetensors")
    loaded = VMoE.load(tmp_path / "m.safetensors")
    assert loaded.config == direct.model.config
    assert torch.equal(logits(loaded, images), logits(direct.model, images))
    loaded(images[:2]).sum().backward()
    assert all(bool(mixture.Mlp.Dense_0.kernel.grad.any()) for mixture in loaded.mixtures().values())
    other = "rerouted" if mode == "silent" else "silent"
    with pytest.raises(ValueError, match="pruned further in the same mode only"):
        vmoe.prune(before, once.model, "random", 1, mode=other)


def test_scores_by_hand() -> None:
    before, after, images = model_of(SMALL), model_of(SMALL, seed=1), images_of(4)
    scores = {name: vmoe.expert_scores(before, after, name, images=images)[2].numpy() for name in CRITERIA}
    old, new = (model.mixtures()[2] for model in (before, after))
    norms = [np.linalg.norm(m.Router.dense.kernel.detach().double().numpy(), axis=0) for m in (old, new)]
    assert scores["router-norm-change"] == pytest.approx(norms[1] - norms[0], rel=1e-12)
    neurons = [np.linalg.norm(m.Mlp.Dense_0.kernel.detach().double().numpy(), axis=1).mean(1) for m in (old, new)]
    assert scores["neuron-magnitude-change"] == pytest.approx(neurons[1] - neurons[0], rel=1e-12)
    with torch.no_grad():
        routed = after.run(images).routed[2]
    importance = np.zeros(6)
    for experts, gates in zip(routed.experts.flatten(0, 1).tolist(), routed.gates.flatten(0, 1).tolist(), strict=True):
        importance[experts[0]] += gates[0] / 20  # share times mean gate is the sum of gates over all tokens
    assert scores["importance-score"] == pytest.approx(importance, rel=1e-6)
    assert sorted(vmoe.prune(before, after, "router-magnitude", 4).kept[2]) == sorted(np.argsort(-norms[1])[:2])


def test_members_of_an_ensemble_are_pruned_alike() -> None:
    before, after = model_of(E3), model_of(E3, seed=1)
    found = vmoe.prune(before, after, "router-norm-change", 1, layers=[2])
    assert found.kept.keys() == {2} and found.model.config.kept_in(0) == tuple(range(6))
    scores = found.scores[2].numpy()
    assert found.kept[2] == tuple(sorted({0, 1, 2} - {scores[:3].argmin()} | {3, 4, 5} - {3 + scores[3:].argmin()}))


@pytest.mark.parametrize("kind", ["v-moe", "e3"])
def test_blocks_that_are_pruned_together_lose_the_smallest_scores_of_all(kind: str) -> None:
    """One expert after the other goes: of those whose mixture (in E3, whose member) still has more than K."""
    config = SMALL if kind == "v-moe" else E3
    before, after = model_of(config), model_of(config, seed=1)
    scores = vmoe.expert_scores(before, after, "router-norm-change")
    left = {(float(scores[block][expert]), block, expert) for block in scores for expert in range(6)}
    counts = []
    for pruned in range(1, 5):
        for one in sorted(left):
            mates = [o for o in left if o[1] == one[1] and o[2] * config.members // 6 == one[2] * config.members // 6]
            if len(mates) > config.num_selected_experts:
                left.remove(one)
                break
        found = vmoe.prune(before, after, "router-norm-change", pruned, together=True)
        assert {(block, expert) for block, own in found.kept.items() for expert in own} == {one[1:] for one in left}
        assert found.model.config.kept_in(2) == found.kept[2]
        counts.append({len(own) for own in found.kept.values()})
    assert any(len(sizes) > 1 for sizes in counts), "not the same number of each"
    with pytest.raises(ValueError, match=r"kept, in E3 of each member: got pruned=9, spare=[48], K=2$"):
        vmoe.prune(before, after, "router-norm-change", 9, together=True)


def test_wrong_prunings_are_refused() -> None:
    before, after = model_of(SMALL), model_of(SMALL, seed=1)
    for wrong, sentence in [
        ({"experts_to_prune": 5}, "at least K kept"),
        ({"experts_to_prune": -1}, "at least 0 experts"),
        ({"layers": [1]}, "layers must be blocks with a mixture"),
        ({"criterion": "luck"}, "a criterion must be one of router-norm-change"),
        ({"criterion": "importance-score"}, "needs images"),
        ({"before": model_of(SMALL.replace(mlp_dim=10))}, "of the same sizes"),
    ]:
        call: dict[str, Any] = {"before": before, "after": after, "criterion": "random", "experts_to_prune": 1}
        with pytest.raises(ValueError, match=sentence):
            vmoe.prune(**call | wrong)
    with pytest.raises(UndefinedCriterionError):
        vmoe.prune(after, after, "router-norm-change", 1)


# --- the tiny model -------------------------------------------------------------------------------------------------

SHORT = vmoe.PRE_TRAINING.replace(steps=6, warm_up=2, batch=25, test_images=50, record_every=4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def test_pre_training_is_kept_and_not_repeated(folder: Path) -> None:
    run = collect(vmoe.pre_train(SHORT, folder))
    assert run["step"].values.tolist() == [0, 4, 6] and run["received"].dims == ("step", "trial", "block", "expert")
    received = run["received"].isel(step=-1).sum("expert").values
    assert (received > 1).all() and (received <= 2).all()  # K, less what is dropped
    assert [path.name for path in folder.iterdir()] == [vmoe.pretrained_path(SHORT, folder).name]
    assert list(vmoe.pre_train(SHORT, folder)) == []
    again = vmoe.VMoETraining(SHORT)
    assert [snapshot.step for snapshot in again.snapshots()] == [0, 4, 6]
    stored = vmoe.pretrained(SHORT, folder)
    assert all(torch.equal(a, b) for a, b in zip(stored.parameters(), again.model.parameters(), strict=True))
    assert sum(parameter.numel() for parameter in stored.parameters()) == 211_114
    assert vmoe.pretrained_path(SHORT.replace(seed=1), folder) != vmoe.pretrained_path(SHORT, folder)


def test_fine_tuning_learns_and_leaves_its_start_alone(folder: Path) -> None:
    start = vmoe.pretrained(SHORT, folder)
    weights = {name: value.clone() for name, value in start.state_dict().items()}
    task = vmoe.DigitTask(classes=2, upside_down=True)
    run = vmoe.DigitRun(task=task, steps=25, warm_up=5, batch=50, test_images=100, learning_rate=0.03)
    tuned = vmoe.fine_tune(start, run)
    assert tuned.config.num_classes == 2
    assert vmoe.accuracy(tuned, run.test) > 0.8  # 0 against 1; chance is .5
    assert all(torch.equal(value, weights[name]) for name, value in start.state_dict().items())
    pruned = vmoe.prune(start, tuned, "router-norm-change", 6)
    assert vmoe.accuracy(vmoe.fine_tune(pruned.model, run.replace(steps=5)), run.test) > 0.8


def test_the_table_holds_what_pruning_cell_by_cell_gives(folder: Path) -> None:
    before, after = vmoe.pretrained(SHORT, folder).double(), model_of(vmoe.TINY, seed=3)
    run = vmoe.DigitRun(test_images=50)
    test, validation = (Labelled(some.images.double(), some.labels) for some in (run.test, run.validation))
    table = vmoe.PruningTable(before, after, test, validation, pruned=(0, 4))
    done = list(islice(table.cells(), 13))
    assert np.isnan(table.data["accuracy"]).sum() == 24 - 13 and done[-1] == ("router-norm-change", "silent", 4)
    data = table.complete()
    for criterion in ("router-norm-change", "importance-score", "random"):
        for mode in vmoe.MODES:
            pruned = vmoe.prune(before, after, criterion, 4, mode=mode, images=validation.images)  # type: ignore[arg-type]
            found = float(data["accuracy"].sel(criterion=criterion, mode=mode, pruned=4))
            assert found == vmoe.accuracy(pruned.model, test)
            ranks = data["rank"].sel(criterion=criterion)
            assert {block: tuple(np.flatnonzero(ranks.sel(block=block) < 4)) for block in (1, 3)} == pruned.kept
    silent = vmoe.costs(vmoe.prune(before, after, "random", 4).model).parameters
    assert data["remaining"].values == pytest.approx([1, silent / 211_114])


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"layers": (0,), "classifier": "map", "positions": 4, "group_size": 8},
        {"layers": (1, 2), "bfloat16": True},
        {"layers": (0, 1, 2), "classifier": "gap", "positions": 4, "group_size": 8, "batch_priority": True},
        {"layers": (2,), "classifier": "0", "positions": 4, "group_size": 8},
    ],
    ids=lambda changes: ",".join(changes) or "token",
)
def test_prunings_that_share_work_are_the_models_by_themselves(changes: dict[str, Any]) -> None:
    model, images = model_of(SMALL.replace(**changes)), images_of(4)
    shared = Prunings(model, images)
    for mode in vmoe.MODES:
        for kept in ((0, 2, 3, 5), (1, 4)):
            pruned = vmoe.without_others(model, dict.fromkeys(model.config.layers, kept), mode)
            for one in (pruned, model):
                assert torch.allclose(shared.logits(one), one(images), rtol=0, atol=1e-12)


def test_digits_lie_whole_at_every_place() -> None:
    rng = np.random.default_rng(0)
    upright = vmoe.DigitTask().sample(2000, "test", rng)
    ink = (upright.images[..., 0] + 1).sum((1, 2))
    assert upright.images.shape == (2000, 12, 12, 3) and float(ink.min()) > 5
    turned = vmoe.DigitTask(upside_down=True).sample(500, "test", np.random.default_rng(0))
    assert torch.equal(turned.labels, upright.labels[:500])
    two = vmoe.DigitTask(classes=2).sample(300, "train", rng)
    assert set(two.labels.tolist()) == {0, 1}
    assert len(torch.unique((upright.images[..., 0] > -1).any(1).int().argmax(1))) >= 5  # columns where digits begin


def test_costs_of_a_pruned_layer_are_counted_and_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that operations move, since how fast a machine computes them is its own affair."""
    with FlopCounterMode(display=False) as counter:
        monkeypatch.setattr(
            sys.modules[vmoe.pruning_costs.__module__], "time", SimpleNamespace(thread_time=counter.get_total_flops)
        )
        data = vmoe.pruning_costs(vmoe.MEASURED, (8, 2), repeats=3)
    share = (data / data.sel(kept=8)).sel(kept=2)
    assert float(share["operations"].sel(mode="rerouted")) > 0.95 > float(share["operations"].sel(mode="silent"))
    assert (share["parameters"] < 0.45).all() and (share["bytes"] == share["parameters"]).all()
    saved = data.sel(kept=8) - data.sel(kept=2)  # torch's clock does not see the attention, which all of them have
    wanted = np.broadcast_to(1000 * saved["operations"].values[:, None], (len(vmoe.MODES), 3))
    np.testing.assert_allclose(saved["milliseconds"].transpose("mode", "repeat"), wanted, rtol=1e-9)


def test_costs_are_counted_without_a_measurement() -> None:
    measured = vmoe.pruning_costs(vmoe.TINY, (8, 2), repeats=1)
    counted = vmoe.pruning_costs(vmoe.TINY, (8, 2), repeats=0)
    assert counted["milliseconds"].sizes["repeat"] == 0
    for name in ("parameters", "bytes", "operations"):
        assert counted[name].equals(measured[name])


def test_the_first_step_of_sgd_is_its_rate_times_the_gradient_and_rates_warm_up(folder: Path) -> None:
    """With a tenth of the rate in the first of ten steps of a warm-up, and three tenths in the third."""
    start, far = vmoe.pretrained(SHORT, folder), []
    for warm_up in (10, 1):
        run = vmoe.DigitRun(steps=1, warm_up=warm_up, batch=25, test_images=50, momentum=0.0, record_every=1)
        tuned = vmoe.fine_tune(start, run)
        pairs = zip(tuned.parameters(), start.parameters(), strict=True)
        far.append(sum(float((a - b).detach().square().sum()) for a, b in pairs) ** 0.5)
    assert far[0] == pytest.approx(0.1 * far[1], rel=1e-3)
    assert [schedule(step, 20, 10) for step in (0, 2, 9, 15)] == pytest.approx([0.1, 0.3, 1.0, 0.5])


def test_the_change_of_norm_is_that_of_the_routers(folder: Path) -> None:
    start = vmoe.pretrained(SHORT, folder)
    run = vmoe.DigitRun(steps=5, batch=25, test_images=50, record_every=2)
    recorded = collect(vmoe.VMoETraining(run, start).snapshots())
    assert recorded["step"].values.tolist() == [0, 2, 4, 5] and np.isfinite(recorded["test_accuracy"]).all()
    assert vmoe.pretrained_path(SHORT.replace(test_images=25)) == vmoe.pretrained_path(SHORT)
    tuned = vmoe.fine_tune(start, run)
    for number, block in enumerate((1, 3)):
        norms = [model.mixtures()[block].Router.dense.kernel.detach().norm(dim=0).numpy() for model in (start, tuned)]
        np.testing.assert_allclose(recorded["norm_change"][-1, 0, number], norms[1] - norms[0], atol=1e-6)
