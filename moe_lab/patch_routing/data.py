"""Samples of n patches, one of which determines the label (pmoe2023, section 4.2, section 5.1 and appendix M).

Each sample contains exactly one class-discriminative pattern, o_1 or o_2 (o_1 ... o_c for c classes), at a random
position; the other patches are class-irrelevant. Class 0 has o_1 and y=+1; class 1 has o_2 and y=-1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, Self

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import model_validator
from torch import Tensor

from moe_lab.core.config import Config, knob, require
from moe_lab.core.trials import Draw, drawn, drawn_together, one_of, tensor_of

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

    def to(self, device: torch.device | str, dtype: torch.dtype) -> PatchSamples:
        """Moves the samples to a device, their patches in this precision."""
        parts = {name: getattr(self, name).to(device) for name in INTEGER_PARTS}
        return PatchSamples(bank=self.bank.to(device, dtype), **parts)

    def patches(self) -> Float[Tensor, "trials N n d"]:
        """Returns the patches of every sample. Allocates trials * N * n * d numbers."""
        return torch.nn.functional.embedding(self.rows, self.flat)


def joined(trials: Sequence[PatchSamples], one_bank: bool) -> PatchSamples:
    """Joins the samples of some trials, as if drawn together.

    Args:
      one_bank: whether all trials have the same patches.
    """
    if len(trials) == 1:
        return trials[0]
    parts = {name: torch.cat([getattr(one, name) for one in trials]) for name in INTEGER_PARTS}
    return PatchSamples(bank=trials[0].bank if one_bank else torch.cat([one.bank for one in trials]), **parts)


def shuffled(
    bank: Float[Tensor, "banks rows d"],
    index: Int[Tensor, "trials N n"],
    labels: Int[Tensor, "trials N"],
    roles: Int[Tensor, "trials N n"],
    sides: Int[Tensor, "trials N n"],
    uniform: Float[Tensor, "trials N n"],
) -> PatchSamples:
    """Moves the patches of each sample, of which the signal is the first, to positions that raw numbers determine."""
    positions = uniform.sort(dim=2, stable=True).indices
    order = positions.sort(dim=2, stable=True).indices  # inverse permutation: the patch at each position
    moved = [part.gather(2, order) for part in (index, roles, sides)]
    return PatchSamples(bank, moved[0].int(), labels.contiguous(), positions[..., 0], *moved[1:])


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
        root, _ = self._roots()
        return torch.nn.functional.pad(root, (0, self.dimension - self.classes))

    def _roots(self) -> tuple[Float[Tensor, "classes classes"], Float[Tensor, "classes classes"]]:
        """Computes the symmetric root of the class patterns' Gram matrix, and its inverse.

        Of (1 - delta_d) I + delta_d J, where J is all ones, the eigenvalues are 1 - delta_d and, of J's own direction,
        1 + (c - 1) delta_d.
        """
        c, delta_d = self.classes, tensor_of(self, "delta_d")
        apart, together = (1 - delta_d).sqrt(), (1 + (c - 1) * delta_d).clamp(min=0).sqrt()
        one, every = torch.eye(c, dtype=torch.float64), torch.full((c, c), 1 / c, dtype=torch.float64)
        return apart * one + (together - apart) * every, one / apart + (1 / together - 1 / apart) * every

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
        return self._centres(drawn(self._of_centres, [trial], seed))[0].numpy()

    @property
    def _of_centres(self) -> dict[str, Draw]:
        p, outside = self.pattern_sets, self.dimension - self.classes
        return {"common": Draw("patterns/common", (p,)), "outside": Draw("patterns/outside", (p, outside), "normal")}

    def _centres(self, raw: Mapping[str, Tensor]) -> Float[Tensor, "trials p d"]:
        """Makes the centres of the pattern sets that raw numbers determine."""
        c, sides = self.classes, torch.from_numpy(self.side_of_sets())
        delta_d, gap = tensor_of(self, "delta_d"), tensor_of(self, "gap")
        imitates = sides >= 0
        own = gap * ((sides[:, None] == torch.arange(c)).to(gap) - 1 / c) * imitates[:, None]
        # The overlap common to all classes is such that no overlap exceeds delta_r, and that the component in the span
        # of the class patterns has length at most .95.
        common_per_length = ((1 + (c - 1) * delta_d) / c).sqrt()
        own_norm = gap * ((c - 1) / (c * (1 - delta_d))).sqrt() * imitates
        largest_common = torch.minimum(
            (tensor_of(self, "delta_r") - own.abs().amax(1)).clamp(min=0),
            common_per_length * (0.9025 - own_norm.clamp(max=0.9).square()).sqrt(),
        )
        _, basis = self._roots()  # of vectors with given overlaps
        like = raw["common"]
        common = largest_common.to(like) * (2 * like - 1)
        inside = (own.to(like) + common[..., None]) @ basis.to(like)
        left = 1 - inside.square().sum(2, keepdim=True)
        outside = raw["outside"] * (left.sqrt() / torch.linalg.vector_norm(raw["outside"], dim=2, keepdim=True))
        return torch.cat((inside, outside), dim=2)

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
        draws = self.draws(samples, split)
        made = [self.made(drawn(draws, some, seed), split) for some in drawn_together(trials)]
        return joined([one.to(device, dtype) for one in made], one_bank=False)

    def draws(self, samples: int, split: Split) -> dict[str, Draw]:
        """Returns the raw numbers of a trial: a stream for each part, so that fewer samples are a prefix of more."""
        n, d = self.patches, self.dimension
        wanted = self._of_centres | {
            "sets": Draw(f"{split}/sets", (samples, n)),
            "ball": Draw(f"{split}/ball", (samples, n, d - self.classes)),
            "places": Draw(f"{split}/places", (samples, n)),
        }
        if self.noise:
            wanted["noise"] = Draw(f"{split}/noise", (samples, n, d), "normal")
        if self.spurious:
            wanted |= {name: Draw(f"{split}/{name}", (samples,)) for name in ("told", "spurious")}
        if self.distractors:
            wanted["side"] = Draw(f"{split}/side", (samples,))
            wanted["distractors"] = Draw(f"{split}/distractors", (samples, self.distractors))
        return wanted

    def made(self, raw: Mapping[str, Tensor], split: Split) -> PatchSamples:
        """Makes the samples that raw numbers (trial, ...) determine, a pure function of them; training differs."""
        centres, places = self._centres(raw), raw["places"]
        (trials, samples, n), d = places.shape, self.dimension
        labels = (torch.arange(samples, device=places.device) % self.classes).expand(trials, -1)
        sets, roles, sides = self._pattern_sets_of(labels, raw, split)
        around = centres.gather(1, sets.flatten(1)[..., None].expand(-1, -1, d)).view(trials, samples, n, d)
        inside, outside = around.split((self.classes, d - self.classes), dim=3)
        patches = torch.cat((inside, self._inside_ball(outside, raw["ball"])), dim=3)
        own = self.class_patterns().to(places)[labels]
        patches = torch.cat((own[:, :, None], patches[:, :, 1:]), dim=2)
        if self.noise:
            patches = patches + raw["noise"] * (tensor_of(self, "noise") / math.sqrt(d)).to(patches)
        index = torch.arange(samples * n, device=places.device).view(samples, n).expand(trials, -1, -1)
        return shuffled(patches.flatten(1, 2), index, labels, roles, sides, places)

    def _pattern_sets_of(
        self, labels: Int[Tensor, "trials N"], raw: Mapping[str, Tensor], split: Split
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Chooses each patch's pattern set before shuffling: signal (its set is ignored), distractors, background.

        Returns:
          sets, roles, sides: each (trials, N, n).
        """
        set_sides = self.side_of_sets()
        neutral = torch.from_numpy(np.flatnonzero(set_sides < 0)).to(labels.device)
        sets = neutral[one_of(raw["sets"], len(neutral))]
        if self.spurious:
            anyone = one_of(raw["spurious"], self.classes)
            told = torch.where(raw["told"] < self.spurious, labels, anyone) if split == "train" else anyone
            sets = torch.cat((sets[..., :-1], neutral[told][..., None]), dim=2)
        roles, sides = torch.full_like(sets, BACKGROUND), torch.full_like(sets, -1)
        if self.distractors and (set_sides >= 0).any():
            many, of_class = self.distractors, int((set_sides == 0).sum())
            side = one_of(raw["side"], self.classes)[..., None]
            chosen = side * of_class + one_of(raw["distractors"], of_class)
            sets = torch.cat((sets[..., :1], chosen, sets[..., 1 + many :]), dim=2)
            imitating = side.expand_as(chosen)
            sides = torch.cat((sides[..., :1], imitating, sides[..., 1 + many :]), dim=2)
            roles = torch.cat((roles[..., :1], torch.full_like(chosen, DISTRACTOR), roles[..., 1 + many :]), dim=2)
        roles = torch.cat((torch.full_like(roles[..., :1], SIGNAL), roles[..., 1:]), dim=2)
        return sets, roles, torch.cat((labels[..., None], sides[..., 1:]), dim=2)

    def _inside_ball(self, outside: Tensor, uniform: Tensor) -> Tensor:
        """Moves patterns within the ball of their set, of diameter sqrt((1 - delta_r^2) / (d p^2)).

        Norms and the overlaps with the class patterns do not change.
        """
        left = 1 - tensor_of(self, "delta_r").square()
        radius = 0.5 * (left / (self.dimension * self.pattern_sets**2)).sqrt()
        moved = outside + (2 * uniform - 1) * (radius / math.sqrt(outside.shape[-1])).to(outside)
        shrinkage = outside.square().sum(-1, keepdim=True) / moved.square().sum(-1, keepdim=True)
        return moved * shrinkage.sqrt()


def check_balance(samples: int, classes: int, *, name: str = "samples", symbol: str = "N") -> None:
    """Raises a ValueError unless samples can be divided equally among the classes."""
    rule = f"{name} ({symbol}) must be a positive multiple of classes ({classes}), so that classes are balanced"
    require(samples >= classes and samples % classes == 0, rule, **{symbol: samples})


def _ratio(classes: int) -> str:
    return "2" if classes == 2 else f"{classes}/{classes - 1}"
