"""All trials of a run of WRN or WRN-pMoE in training at once, in the form that a page can record.

One network computes every trial with its own weights (`torch.vmap`). On a CPU a step takes 1.2 to 1.6 times as long as
that of the trials one after another, which `training` therefore has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import embedding

from moe_lab.core import training
from moe_lab.core.trials import Draw, drawn, stream, tensor_of
from moe_lab.vision.layers import draws_of, first_weights
from moe_lab.vision.patches.data import cells_in
from moe_lab.vision.patches.model import PatchWRN
from moe_lab.vision.patches.network import PatchNetwork
from moe_lab.vision.patches.run import PatchImageRun
from moe_lab.vision.patches.training import MEASURES, found_in
from moe_lab.vision.run import CountingLearner


class PatchImageLearners(CountingLearner):
    """The trials of a run, for gates that choose at random in no step.

    Attributes:
      weights, averages: of the network by name, (T, ...) each; averages are those of batch norm.
    """

    def __init__(self, run: PatchImageRun, trials: Sequence[int]) -> None:
        train, test = (training.samples_of(run, trials, split) for split in ("train", "test"))
        super().__init__(trials, train.images)
        self.run, self.labels, self.test = run, train.labels, test
        self.images = train.images.flatten(0, 1).flatten(1)
        with torch.device("meta"):
            network: Any = run.model.network(run.task.image, run.task.classes)
        self.network = network
        self.network.layout = torch.contiguous_format  # others are not batched
        first = first_weights(self.network, drawn(draws_of(self.network), trials, run.seed), run.model.start)
        self.weights = {
            name: first[name].expand(len(trials), *weight.shape).to(self.like).clone()
            for name, weight in self.network.named_parameters()
        }
        self.averages = {}
        for name, buffer in self.network.named_buffers():
            dtype, first_value = self.like.dtype if buffer.is_floating_point() else buffer.dtype, name.endswith("_var")
            self.averages[name] = torch.full((len(trials), *buffer.shape), float(first_value), dtype=dtype)
        self.rate = tensor_of(run.model, "learning_rate").to(self.like)
        self._batches: Iterator[tuple[Tensor, ...]] | None = None
        of_examples = {"images": test.images, "labels": test.labels, "boxes": test.boxes}
        self.constants = {f"example_{name}": one[:, : run.examples].to(self.like) for name, one in of_examples.items()}
        if isinstance(run.model, PatchWRN):
            cells = round(run.model.patches(run.task.image) ** 0.5)
            self.inside = cells_in(test.boxes, run.task.image[1], cells).to(self.like.dtype)
            self.constants["chance"] = self.inside.mean((1, 2))

    @property
    def changed(self) -> Sequence[Tensor]:
        return (self.sums, *self.weights.values(), *self.averages.values())

    @property
    def step_draws(self) -> dict[str, Draw]:
        return {"samples": Draw("order", (self.run.batch,), "order", things=self.run.samples)}

    @property
    def measures_alike(self) -> bool:
        return True

    def inputs_of(self, raw: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        return (raw["samples"].long(),)

    def until_rule(self) -> int:
        """Returns the steps of a pass: a run has whole ones, and none of its trials ends before."""
        return -(-self.run.samples // self.run.batch)

    def end_all(self, last: Bool[Tensor, ""]) -> None:
        pass

    def inputs(self, steps: int) -> Iterator[tuple[Tensor, ...]]:
        self._batches = self._batches or self._drawn_batches()
        return islice(self._batches, steps)

    def _drawn_batches(self) -> Iterator[tuple[Tensor, ...]]:
        """Yields the samples of each step, (T, B)."""
        streams = [stream(self.run.seed, trial, "order") for trial in self.trials]
        while True:
            orders = torch.from_numpy(np.stack([one.permutation(self.run.samples) for one in streams]))
            yield from ((rows,) for rows in orders.split(self.run.batch, 1))

    def step(self, rows: Int[Tensor, "T B"]) -> None:  # type: ignore[override]
        self.active &= self.loss.isfinite()
        self.network.train()
        of_all = rows + torch.arange(len(self.trials))[:, None] * self.run.samples
        images = embedding(of_all, self.images).unflatten(-1, self.run.task.image)
        labels = self.labels.gather(1, rows)
        weights = {name: weight.detach().requires_grad_() for name, weight in self.weights.items()}
        logits = torch.vmap(partial(functional_call, self.network))((weights, self.averages), (images,))
        loss = -logits.log_softmax(-1).gather(-1, labels[..., None]).mean((1, 2))
        slopes = torch.autograd.grad(loss.sum(), list(weights.values()), allow_unused=True)
        with torch.no_grad():
            for weight, slope in zip(self.weights.values(), slopes, strict=True):
                if slope is not None:
                    weight -= self.rate * slope
        self.counted(loss, (logits.argmax(-1) == labels).sum(1), rows.shape[1])

    @torch.no_grad()
    def measure(self, whole: bool) -> dict[str, Tensor]:
        self.network.eval()
        numbers = {f"network.{name}": value for name, value in (*self.weights.items(), *self.averages.items())}
        found = torch.vmap(partial(functional_call, _Evaluated(self.network)))(numbers, (self.test.images,))
        predicted, shown = found[0].argmax(-1), slice(self.run.examples)
        right = (predicted == self.test.labels).to(self.like.dtype).mean(1)
        measured = {"test_accuracy": right, "example_predicted": predicted[:, shown]}
        if isinstance(self.network, PatchNetwork):
            gates, kept = found[1], found[2].to(self.like.dtype)
            measured |= found_in(self.inside, kept, gates)
            measured |= {"example_kept": kept[:, shown], "example_gates": gates[:, shown]}
        return measured


class PatchImageTraining(training.Training[PatchImageLearners]):
    """The trials of a run in training, all at once."""

    must_be_finite = ()  # the loss since the last Snapshot has no value at the first

    def __init__(self, run: PatchImageRun) -> None:
        super().__init__(run, MEASURES, [PatchImageLearners(run, run.trial_numbers)])


class _Evaluated(nn.Module):
    """A network as it is measured: its logits and, where there are experts, the gates and which patches they keep."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Float[Tensor, "N C H W"]) -> tuple[Tensor, ...]:
        if not isinstance(self.network, PatchNetwork):
            return (self.network(images),)
        logits, routed = self.network.routed(images)
        return logits, routed.gates, routed.kept
