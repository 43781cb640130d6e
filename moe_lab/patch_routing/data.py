"""Samples of n patches, one of which determines the label (pmoe2023, section 4.2, section 5.1 and appendix M).

Each sample contains exactly one class-discriminative pattern, o_1 or o_2 (o_1 ... o_c for c classes), at a random
position; the other patches are class-irrelevant. Class 0 has o_1 and y=+1; class 1 has o_2 and y=-1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, Self

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import model_validator
from torch import Tensor

from moe_lab.core.config import Config, knob, require
from moe_lab.core.trials import stream

ROLES = ("signal", "distractor", "background")
SIGNAL, DISTRACTOR, BACKGROUND = range(3)
INTEGER_PARTS = ("index", "labels", "signal", "roles", "sides")
Split = Literal["train", "test"]


@dataclass(frozen=True)
class PatchSamples:
    """Samples of many trials. Patches are stored in a bank; a sample is n row numbers of its trial's bank.

    Attributes:
      bank: (banks, rows, d) patches; banks is 1 if all trials share one (digits), else the number of trials.
      index: (trials, N, n) rows of the bank.
      labels: (trials, N) classes 0 ... c-1 in rotation, so that every multiple of c samples is balanced.
      signal: (trials, N) the position of the class-discriminative patch.
      roles: (trials, N, n) 0 signal, 1 distractor, 2 background.
      sides: (trials, N, n) the class that a distractor imitates (for the signal, its own class), -1 for background.
    """

    bank: Float[Tensor, "banks rows d"]
    index: Int[Tensor, "trials N n"]
    labels: Int[Tensor, "trials N"]
    signal: Int[Tensor, "trials N"]
    roles: Int[Tensor, "trials N n"]
    sides: Int[Tensor, "trials N n"]

    @cached_property
    def rows(self) -> Int[Tensor, "trials N n"]:
        """Like `index`, but as rows of all banks concatenated (`flat`)."""
        banks, rows, _ = self.bank.shape
        if banks == 1:
            return self.index
        offset = torch.arange(banks, device=self.index.device, dtype=self.index.dtype) * rows
        return self.index + offset[:, None, None]

    @property
    def flat(self) -> Float[Tensor, "all_rows d"]:
        """All banks, concatenated."""
        return self.bank.flatten(0, 1)

    def patches(self) -> Float[Tensor, "trials N n d"]:
        """Returns the patches of every sample. Allocates trials * N * n * d numbers."""
        return torch.nn.functional.embedding(self.rows, self.flat)


@dataclass
class SampleIndices:
    """The samples of one trial as NumPy arrays, with the meaning that they have in `PatchSamples`."""

    index: np.ndarray
    labels: np.ndarray
    signal: np.ndarray
    roles: np.ndarray
    sides: np.ndarray


def stack(
    bank: np.ndarray | Tensor, trials: Sequence[SampleIndices], device: torch.device, dtype: torch.dtype
) -> PatchSamples:
    """Stacks the samples of several trials and moves them to a device."""

    def integers(name: str) -> Tensor:
        stacked = np.stack([getattr(trial, name) for trial in trials])
        return torch.as_tensor(stacked, device=device, dtype=torch.int32 if name == "index" else torch.int64)

    return PatchSamples(
        bank=torch.as_tensor(bank, device=device, dtype=dtype),
        **{name: integers(name) for name in INTEGER_PARTS},
    )


def joined(trials: Sequence[PatchSamples], one_bank: bool) -> PatchSamples:
    """Joins the samples of single trials, as if drawn together.

    Args:
      one_bank: whether all trials have the same patches.
    """
    parts = {name: torch.cat([getattr(one, name) for one in trials]) for name in INTEGER_PARTS}
    return PatchSamples(bank=trials[0].bank if one_bank else torch.cat([one.bank for one in trials]), **parts)


def shuffled(
    index: np.ndarray, labels: np.ndarray, roles: np.ndarray, sides: np.ndarray, random: np.random.Generator
) -> SampleIndices:
    """Moves the patches of each sample, of which the signal is the first, to random positions."""
    positions = random.random(index.shape).argsort(axis=1, kind="stable")
    order = positions.argsort(axis=1, kind="stable")  # inverse permutation: the patch at each position
    index, roles, sides = (np.take_along_axis(part, order, axis=1) for part in (index, roles, sides))
    return SampleIndices(index, labels, positions[:, 0], roles, sides)


def _uniform_choice(seed: int, trial: int, purpose: str, shape: tuple[int, ...], count: int) -> np.ndarray:
    """Uniform integers 0 ... count-1, one random number each, so that fewer samples are a prefix of more samples."""
    return np.minimum((stream(seed, trial, purpose).random(shape) * count).astype(np.int64), count - 1)


class PatternTask(Config):
    """Synthetic patches, with a parameter for every quantity of the paper's data model (pmoe2023, section 4.2).

    The class-discriminative patterns are unit vectors with pairwise inner product delta_d. Class-irrelevant patterns
    come from p sets, each a small ball, with |<o_i, q>| <= delta_r. Half of the sets imitate a class: for those,
    <o_i - o_j, q> = gap for their class i and every other j. A sample contains `distractors` patches that imitate one
    class (chosen at random, independently of the label) and n - 1 - distractors neutral ones, so that
    l* = distractors + 1.

    With `spurious` > 0 one neutral patch of each sample comes from one of c sets, and in training samples it is the
    set of the label with this probability (else any of the c), as hair colours go with smiles in figure 11; in test
    samples it is any of them. This departs from section 4.2, where irrelevant patterns do not depend on the label.

    Raises:
      ConfigError: a value is out of bounds, or no patterns have the requested geometry.
    """

    patches: int = knob(16, symbol="n", meaning="patches in a sample", ge=2, le=1024, slider=(4, 64, 1))
    dimension: int = knob(32, symbol="d", meaning="numbers in a patch", ge=4, le=4096, slider=(8, 128, 1))
    pattern_sets: int = knob(256, symbol="p", meaning="sets of irrelevant patterns", ge=1, le=65536, slider=(8, 512, 8))
    distractors: int = knob(4, symbol="l*-1", meaning="distractors of one side in a sample", ge=0, slider=(0, 12, 1))
    gap: float = knob(
        0.8, symbol="gap", meaning="how far a distractor leans to its side", ge=0, lt=2, slider=(0.0, 1.2, 0.05)
    )
    delta_d: float = knob(
        0.0, symbol="delta_d", meaning="overlap of the class patterns", gt=-1, lt=1, slider=(-0.9, 0.9, 0.05)
    )
    delta_r: float = knob(
        0.6, symbol="delta_r", meaning="overlap of irrelevant and class patterns", ge=0, lt=1, slider=(0.0, 0.95, 0.05)
    )
    noise: float = knob(
        0.3, symbol="noise", meaning="Gaussian noise, relative to a patch", ge=0, le=10, slider=(0.0, 2.0, 0.05)
    )
    classes: int = knob(2, symbol="c", meaning="classes", ge=2, le=64, slider=(2, 8, 2))
    spurious: float = knob(
        0.0, symbol="rho", meaning="how far an irrelevant patch tells the label in training", ge=0, le=1
    )

    learning_rate: ClassVar[float] = 5.0
    paper: ClassVar[str] = "pmoe2023, section 4.2 and appendix M"

    @model_validator(mode="after")
    def _geometry_exists(self) -> Self:
        n, c = self.patches, self.classes
        require(
            self.distractors <= n - 1,
            "distractors must be at most patches (n) - 1, because one patch is the class-discriminative one",
            distractors=self.distractors,
            n=n,
        )
        require(
            self.dimension >= c + 2,
            "dimension (d) must be at least classes (c) + 2, so that class-irrelevant patterns exist",
            d=self.dimension,
            c=c,
        )
        require(
            self.delta_d > -1 / (c - 1) or c == 2,
            "delta_d must be greater than -1/(classes - 1), so that such class patterns exist",
            delta_d=self.delta_d,
            c=c,
        )
        require(
            self.gap * (c - 1) / c <= self.delta_r + 1e-12 or self.distractors == 0,
            f"gap must be at most {_ratio(c)} delta_r, because a distractor overlaps class patterns by at most delta_r",
            gap=self.gap,
            delta_r=self.delta_r,
        )
        require(
            self._gap_norm <= 0.9 + 1e-12 or self.distractors == 0,
            f"gap must be at most {0.9 * self.gap / self._gap_norm if self.gap else 0:.3g} at this delta_d, "
            "because a distractor is a unit vector",
            gap=self.gap,
            delta_d=self.delta_d,
        )
        require(
            self.pattern_sets > c or self.distractors == 0,
            "pattern_sets (p) must be greater than classes (c), so that every class has a set and one set is neutral",
            p=self.pattern_sets,
            c=c,
        )
        rule = "with spurious (rho) patches (n) must be at least distractors + 2, so that one of them is neutral"
        fits = not self.spurious or n >= self.distractors + 2
        require(fits, rule, rho=self.spurious, n=n, distractors=self.distractors)
        rule = "with spurious (rho) pattern_sets (p) must be so many that each of the classes (c) has a neutral set"
        fits = not self.spurious or int((self.side_of_sets() < 0).sum()) >= c
        require(fits, rule, rho=self.spurious, p=self.pattern_sets, c=c)
        return self

    @property
    def _gap_norm(self) -> float:
        """The norm of the component of a distractor that separates the classes; for two classes, A in o +/- A e_2."""
        return self.gap * float(np.sqrt((self.classes - 1) / (self.classes * (1 - self.delta_d))))

    @property
    def l_star(self) -> int:
        """l*: one more than the largest number of same-side distractors in a sample (section 4.2)."""
        return self.distractors + 1 if self.gap > 0 else 1

    @property
    def delta(self) -> float:
        """delta = 1 / (1 - max(delta_d^2, delta_r^2)) (eq. 9). Contrary to the text it also grows as delta_d -> -1."""
        return 1 / (1 - max(self.delta_d**2, self.delta_r**2))

    def class_patterns(self) -> Float[Tensor, "classes d"]:
        """Returns float64 unit vectors o_1 ... o_c with <o_i, o_j> = delta_d: the symmetric root of the Gram matrix."""
        c = self.classes
        gram = np.full((c, c), self.delta_d) + (1 - self.delta_d) * np.eye(c)
        values, vectors = np.linalg.eigh(gram)
        root = vectors @ np.diag(np.sqrt(np.maximum(values, 0))) @ vectors.T
        return torch.as_tensor(np.pad(root, ((0, 0), (0, self.dimension - c))))

    def signals(self, trials: Sequence[int], seed: int) -> Float[Tensor, "trials classes d"]:
        """Returns the class patterns of each trial (the same in all trials), unit vectors in float64."""
        return self.class_patterns().expand(len(trials), -1, -1)

    def side_of_sets(self) -> np.ndarray:
        """Returns (p,) the class that each pattern set imitates, -1 for neutral sets."""
        sides = np.full(self.pattern_sets, -1)
        if self.distractors and self.gap > 0:
            sets_per_class = max(1, self.pattern_sets // (2 * self.classes))
            sides[: sets_per_class * self.classes] = np.repeat(np.arange(self.classes), sets_per_class)
        return sides

    def set_centres(self, trial: int, seed: int) -> np.ndarray:
        """Returns (p, d) the centres of the pattern sets of one trial, unit vectors in float64."""
        p, c = self.pattern_sets, self.classes
        sides = self.side_of_sets()
        imitates = sides >= 0
        own = np.where(imitates[:, None], self.gap * (np.eye(c)[np.maximum(sides, 0)] - 1 / c), 0.0)
        # The overlap common to all classes is such that no overlap exceeds delta_r, and that the component in the span
        # of the class patterns has length at most .95.
        common_per_length = np.sqrt((1 + (c - 1) * self.delta_d) / c)
        own_norm = np.where(imitates, self._gap_norm, 0.0)
        largest_common = np.minimum(
            np.maximum(self.delta_r - np.abs(own).max(axis=1), 0.0),
            common_per_length * np.sqrt(0.9025 - np.minimum(own_norm, 0.9) ** 2),
        )
        overlaps = own + (largest_common * stream(seed, trial, "patterns/common").uniform(-1, 1, p))[:, None]
        classes = self.class_patterns().numpy()
        centres = overlaps @ np.linalg.solve(classes @ classes.T, classes)
        outside = stream(seed, trial, "patterns/outside").standard_normal((p, self.dimension - c))
        outside *= np.sqrt(1 - (centres**2).sum(axis=1, keepdims=True)) / np.linalg.norm(outside, axis=1, keepdims=True)
        centres[:, c:] = outside
        return centres

    def sample(
        self,
        samples: int,
        *,
        trials: Sequence[int],
        seed: int,
        split: Split = "train",
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> PatchSamples:
        """Generates N samples per trial; the samples of one trial do not depend on the other trials.

        Raises:
          ValueError: samples is not a positive multiple of the number of classes.
        """
        check_balance(samples, self.classes)
        banks, indices = zip(*(self._sample_trial(samples, trial, seed, split) for trial in trials), strict=True)
        return stack(np.stack(banks), indices, torch.device(device), dtype)

    def _sample_trial(self, samples: int, trial: int, seed: int, split: Split) -> tuple[np.ndarray, SampleIndices]:
        """Generates the patches of one trial, (N n, d), and their arrangement in samples."""
        n, d, c = self.patches, self.dimension, self.classes
        labels = np.arange(samples) % c
        sets, roles, sides = self._pattern_sets_of(labels, trial, seed, split)

        patches = self.set_centres(trial, seed)[sets]
        patches[..., c:] = self._inside_ball(patches[..., c:], stream(seed, trial, f"{split}/ball"))
        patches[:, 0] = self.class_patterns().numpy()[labels]
        if self.noise:
            patches += stream(seed, trial, f"{split}/noise").standard_normal(patches.shape) * (self.noise / np.sqrt(d))

        index = np.arange(samples * n).reshape(samples, n)
        arranged = shuffled(index, labels, roles, sides, stream(seed, trial, f"{split}/places"))
        return patches.reshape(samples * n, d), arranged

    def _pattern_sets_of(
        self, labels: np.ndarray, trial: int, seed: int, split: Split
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Chooses each patch's pattern set before shuffling: signal (its set is ignored), distractors, background.

        Returns:
          sets, roles, sides: each (N, n).
        """
        shape, distractors = (len(labels), self.patches), slice(1, self.distractors + 1)
        set_sides = self.side_of_sets()
        neutral = np.flatnonzero(set_sides < 0)
        sets = neutral[_uniform_choice(seed, trial, f"{split}/sets", shape, len(neutral))]
        if self.spurious:
            told = stream(seed, trial, f"{split}/told").random(len(labels)) < self.spurious
            anyone = _uniform_choice(seed, trial, f"{split}/spurious", (len(labels),), self.classes)
            sets[:, -1] = neutral[np.where(told & (split == "train"), labels, anyone)]
        roles, sides = np.full(shape, BACKGROUND), np.full(shape, -1)
        if self.distractors and (set_sides >= 0).any():
            sets_per_class = int((set_sides == 0).sum())
            side = _uniform_choice(seed, trial, f"{split}/side", (len(labels),), self.classes)[:, None]
            chosen = _uniform_choice(
                seed, trial, f"{split}/distractors", (len(labels), self.distractors), sets_per_class
            )
            sets[:, distractors] = side * sets_per_class + chosen
            roles[:, distractors], sides[:, distractors] = DISTRACTOR, side
        roles[:, 0], sides[:, 0] = SIGNAL, labels
        return sets, roles, sides

    def _inside_ball(self, outside: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Moves patterns within the ball of their set, of diameter sqrt((1 - delta_r^2) / (d p^2)).

        Norms and the overlaps with the class patterns do not change.
        """
        radius = 0.5 * np.sqrt((1 - self.delta_r**2) / (self.dimension * self.pattern_sets**2))
        moved = generator.uniform(-1, 1, outside.shape)
        moved *= radius / np.sqrt(outside.shape[-1])
        moved += outside
        shrinkage = np.einsum("...d,...d->...", outside, outside) / np.einsum("...d,...d->...", moved, moved)
        moved *= np.sqrt(shrinkage)[..., None]
        return moved


def check_balance(samples: int, classes: int, *, name: str = "samples", symbol: str = "N") -> None:
    """Raises a ValueError unless samples can be divided equally among the classes."""
    rule = f"{name} ({symbol}) must be a positive multiple of classes ({classes}), so that classes are balanced"
    require(samples >= classes and samples % classes == 0, rule, **{symbol: samples})


def _ratio(classes: int) -> str:
    return "2" if classes == 2 else f"{classes}/{classes - 1}"
