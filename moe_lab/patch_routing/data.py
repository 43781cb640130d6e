"""Samples of n patches of which one decides the label (pmoe2023, section 4.2, section 5.1 and appendix M).

A sample holds exactly one class-discriminative pattern, o_1 or o_2 (o_1 ... o_c with c classes), at a random place; the
other patches are class-irrelevant. Class 0 has o_1 and y=+1; class 1 has o_2 and y=-1.
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

from moe_lab.config import Config, knob, require
from moe_lab.trials import stream

ROLES = ("signal", "distractor", "background")
SIGNAL, DISTRACTOR, BACKGROUND = range(3)
INTEGER_PARTS = ("index", "labels", "signal", "roles", "sides")
Split = Literal["train", "test"]


@dataclass(frozen=True)
class Samples:
    """Drawn samples of many trials. Patches live in a bank; a sample is n row numbers of its trial's bank.

    Attributes:
      bank: (banks, rows, d) patches; banks is 1 where all trials share one (digits), else the number of trials.
      index: (trials, N, n) rows of the bank.
      labels: (trials, N) class 0 ... c-1, in turn, so that every even prefix is balanced.
      signal: (trials, N) the place of the class-discriminative patch.
      roles: (trials, N, n) 0 signal, 1 distractor, 2 background.
      sides: (trials, N, n) the class that a distractor imitates (its own for the signal), -1 for background.
    """

    bank: Float[Tensor, "banks rows d"]
    index: Int[Tensor, "trials N n"]
    labels: Int[Tensor, "trials N"]
    signal: Int[Tensor, "trials N"]
    roles: Int[Tensor, "trials N n"]
    sides: Int[Tensor, "trials N n"]

    @cached_property
    def rows(self) -> Int[Tensor, "trials N n"]:
        """Like `index`, but counting rows through all banks laid end to end."""
        banks, rows, _ = self.bank.shape
        if banks == 1:
            return self.index
        offset = torch.arange(banks, device=self.index.device, dtype=self.index.dtype) * rows
        return self.index + offset[:, None, None]

    @property
    def flat(self) -> Float[Tensor, "all_rows d"]:
        """All banks end to end."""
        return self.bank.flatten(0, 1)

    def patches(self) -> Float[Tensor, "trials N n d"]:
        """The samples themselves. Needs trials * N * n * d numbers of memory."""
        return torch.nn.functional.embedding(self.rows, self.flat)


@dataclass
class Drawn:
    """One trial's samples on the host, before they are stacked and moved."""

    index: np.ndarray
    labels: np.ndarray
    signal: np.ndarray
    roles: np.ndarray
    sides: np.ndarray


def stack(bank: np.ndarray, drawn: Sequence[Drawn], device: torch.device, dtype: torch.dtype) -> Samples:
    def integers(name: str) -> Tensor:
        stacked = np.stack([getattr(one, name) for one in drawn])
        return torch.as_tensor(stacked, device=device, dtype=torch.int32 if name == "index" else torch.int64)

    return Samples(
        bank=torch.as_tensor(bank, device=device, dtype=dtype),
        **{name: integers(name) for name in INTEGER_PARTS},
    )


def random_places(seed: int, trial: int, split: Split, samples: int, patches: int) -> np.ndarray:
    """(N, n) a random order of the places of each sample; column 0 is where the signal goes."""
    return stream(seed, trial, f"{split}/places").random((samples, patches)).argsort(axis=1, kind="stable")


def _uniform_choice(seed: int, trial: int, purpose: str, shape: tuple[int, ...], count: int) -> np.ndarray:
    """Whole numbers 0 ... count-1; element by element, so that a shorter draw is a prefix of a longer one."""
    return np.minimum((stream(seed, trial, purpose).random(shape) * count).astype(np.int64), count - 1)


class PatternTask(Config):
    """Synthetic patches with every quantity of the paper's data model under control (pmoe2023, section 4.2).

    The class-discriminative patterns are unit vectors with pairwise inner product delta_d. Class-irrelevant patterns
    come from p sets, each a small ball, with |<o_i, q>| <= delta_r. Half of the sets imitate a class: for those,
    <o_i - o_j, q> = gap for their class i and every other j. A sample holds `distractors` patches that imitate one
    class (drawn at random, whatever the label) and n - 1 - distractors neutral ones, so that l* = distractors + 1.

    Raises:
      ConfigError: a value is out of bounds, or the geometry asked for does not exist.
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

    learning_rate: ClassVar[float] = 5.0
    paper: ClassVar[str] = "pmoe2023, section 4.2 and appendix M"

    @model_validator(mode="after")
    def _geometry_exists(self) -> Self:
        n, c = self.patches, self.classes
        require(
            self.distractors <= n - 1,
            "distractors must be at most patches (n) - 1, because one patch is the class pattern",
            distractors=self.distractors,
            n=n,
        )
        require(
            self.dimension >= c + 2,
            "dimension (d) must be at least classes (c) + 2, to leave room for irrelevant patterns",
            d=self.dimension,
            c=c,
        )
        require(
            self.delta_d > -1 / (c - 1) or c == 2,
            "delta_d must be greater than -1/(classes - 1), or no such patterns exist",
            delta_d=self.delta_d,
            c=c,
        )
        require(
            self.gap * (c - 1) / c <= self.delta_r + 1e-12 or self.distractors == 0,
            f"gap must be at most {_ratio(c)} delta_r, because a distractor overlaps class patterns by delta_r only",
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
            "pattern_sets (p) must be greater than classes (c), one set or more for each side and one neutral",
            p=self.pattern_sets,
            c=c,
        )
        return self

    @property
    def _gap_norm(self) -> float:
        """The norm of a distractor's component that separates the classes; A in o +/- A e_2 for two classes."""
        return self.gap * float(np.sqrt((self.classes - 1) / (self.classes * (1 - self.delta_d))))

    @property
    def l_star(self) -> int:
        """l*: one more than the most irrelevant patches of one side in a sample (section 4.2)."""
        return self.distractors + 1 if self.gap > 0 else 1

    @property
    def delta(self) -> float:
        """delta = 1 / (1 - max(delta_d^2, delta_r^2)) (eq. 9). It also grows as delta_d -> -1, against the text."""
        return 1 / (1 - max(self.delta_d**2, self.delta_r**2))

    def class_patterns(self) -> Float[Tensor, "classes d"]:
        """o_1 ... o_c in float64: unit vectors with <o_i, o_j> = delta_d, the symmetric root of their Gram matrix."""
        c = self.classes
        gram = np.full((c, c), self.delta_d) + (1 - self.delta_d) * np.eye(c)
        values, vectors = np.linalg.eigh(gram)
        root = vectors @ np.diag(np.sqrt(np.maximum(values, 0))) @ vectors.T
        return torch.as_tensor(np.pad(root, ((0, 0), (0, self.dimension - c))))

    def signals(self, trials: Sequence[int], seed: int) -> Float[Tensor, "trials classes d"]:
        """The class patterns of every trial (here the same), unit vectors in float64."""
        return self.class_patterns().expand(len(trials), -1, -1)

    def side_of_sets(self) -> np.ndarray:
        """(p,) the class that each pattern set imitates, or -1 for the neutral sets."""
        sides = np.full(self.pattern_sets, -1)
        if self.distractors and self.gap > 0:
            each = max(1, self.pattern_sets // (2 * self.classes))
            sides[: each * self.classes] = np.repeat(np.arange(self.classes), each)
        return sides

    def set_centres(self, trial: int, seed: int) -> np.ndarray:
        """(p, d) the centres of the pattern sets of one trial, unit vectors in float64."""
        p, c = self.pattern_sets, self.classes
        sides = self.side_of_sets()
        leaning = sides >= 0
        lean = np.where(leaning[:, None], self.gap * (np.eye(c)[np.maximum(sides, 0)] - 1 / c), 0.0)
        # The part common to all classes stays within delta_r, and leaves the vector at most .95 of its length.
        room = np.sqrt((1 + (c - 1) * self.delta_d) / c)
        used = np.where(leaning, self._gap_norm, 0.0)
        largest = np.minimum(
            np.maximum(self.delta_r - np.abs(lean).max(axis=1), 0.0),
            room * np.sqrt(0.9025 - np.minimum(used, 0.9) ** 2),
        )
        products = lean + (largest * stream(seed, trial, "patterns/common").uniform(-1, 1, p))[:, None]
        classes = self.class_patterns().numpy()
        inside = products @ np.linalg.solve(classes @ classes.T, classes)
        outside = stream(seed, trial, "patterns/outside").standard_normal((p, self.dimension - c))
        outside *= np.sqrt(1 - (inside**2).sum(axis=1, keepdims=True)) / np.linalg.norm(outside, axis=1, keepdims=True)
        inside[:, c:] = outside
        return inside

    def sample(
        self,
        samples: int,
        *,
        trials: Sequence[int],
        seed: int,
        split: Split = "train",
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> Samples:
        """Draws N samples for each of the trials; those of trial i do not depend on the other trials.

        Raises:
          ValueError: samples is not a positive multiple of the number of classes.
        """
        check_balance(samples, self.classes)
        drawn = [self._sample_trial(samples, trial, seed, split) for trial in trials]
        bank = np.stack([patches for patches, _ in drawn])
        return stack(bank, [one for _, one in drawn], torch.device(device), dtype)

    def _sample_trial(self, samples: int, trial: int, seed: int, split: Split) -> tuple[np.ndarray, Drawn]:
        n, d, c, count = self.patches, self.dimension, self.classes, self.distractors
        labels = np.arange(samples) % c
        places = random_places(seed, trial, split, samples, n)
        sample_side = _uniform_choice(seed, trial, f"{split}/side", (samples,), c)

        set_sides = self.side_of_sets()
        neutral = np.flatnonzero(set_sides < 0)
        sets = neutral[_uniform_choice(seed, trial, f"{split}/sets", (samples, n), len(neutral))]
        roles, sides = np.full((samples, n), BACKGROUND), np.full((samples, n), -1)
        if count and (set_sides >= 0).any():
            each = int((set_sides == 0).sum())
            picked = _uniform_choice(seed, trial, f"{split}/distractors", (samples, count), each)
            sets[:, 1 : count + 1] = sample_side[:, None] * each + picked
            roles[:, 1 : count + 1], sides[:, 1 : count + 1] = DISTRACTOR, sample_side[:, None]
        roles[:, 0], sides[:, 0] = SIGNAL, labels

        patches = self.set_centres(trial, seed)[sets]
        patches[..., c:] = self._inside_ball(patches[..., c:], stream(seed, trial, f"{split}/ball"))
        patches[:, 0] = self.class_patterns().numpy()[labels]
        if self.noise:
            patches += stream(seed, trial, f"{split}/noise").standard_normal(patches.shape) * (self.noise / np.sqrt(d))

        order = places.argsort(axis=1, kind="stable")  # slot that goes to each place
        return (
            patches.reshape(samples * n, d),
            Drawn(
                index=np.arange(0, samples * n, n)[:, None] + order,
                labels=labels,
                signal=places[:, 0],
                roles=np.take_along_axis(roles, order, axis=1),
                sides=np.take_along_axis(sides, order, axis=1),
            ),
        )

    def _inside_ball(self, outside: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Moves patterns in their set's ball, of diameter sqrt((1 - delta_r^2) / (d p^2)); norms and overlaps stay."""
        radius = 0.5 * np.sqrt((1 - self.delta_r**2) / (self.dimension * self.pattern_sets**2))
        moved = generator.uniform(-1, 1, outside.shape)
        moved *= radius / np.sqrt(outside.shape[-1])
        moved += outside
        shorter = np.einsum("...d,...d->...", outside, outside) / np.einsum("...d,...d->...", moved, moved)
        moved *= np.sqrt(shorter)[..., None]
        return moved


def check_balance(samples: int, classes: int, *, name: str = "samples", symbol: str = "N") -> None:
    """Raises a ValueError unless every class can get the same number of samples."""
    rule = f"{name} ({symbol}) must be a positive multiple of classes ({classes}), so that classes balance"
    require(samples >= classes and samples % classes == 0, rule, **{symbol: samples})


def _ratio(classes: int) -> str:
    return "2" if classes == 2 else f"{classes}/{classes - 1}"
