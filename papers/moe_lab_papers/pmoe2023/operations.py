"""Table 1 of pmoe2023: how many multiplications a training takes until it reaches an error."""

from __future__ import annotations

from dataclasses import dataclass

from moe_lab.patch_routing import theory


@dataclass(frozen=True)
class Operations:
    """Multiplications per training step, up to constants, and the number of steps to reach error eps (table 1)."""

    experts: float
    router_forward: float
    router_backward: float
    iterations: float

    @property
    def per_iteration(self) -> float:
        return self.experts + self.router_forward + self.router_backward

    @property
    def total(self) -> float:
        """The first row of table 1, which counts only the experts, the largest term if m l > k n."""
        return self.experts * self.iterations


def operations(kind: theory.Kind, sizes: theory.Sizes, *, batch_size: int, neurons: int, dimension: int) -> Operations:
    """Computes table 1: B m l d for the experts, B k n d and B k l^2 d for jointly trained routers, B m n d for a CNN.

    The iterations are those of the theorems without p and delta, as in the table. A separately trained router is
    frozen while the experts are trained and therefore not counted.

    Args:
      sizes: n, l, k and eps.
      batch_size: B.
      neurons: m, of all experts together.
      dimension: d, numbers in a patch.

    References: pmoe2023, table 1 and appendix N.
    """
    without_p_and_delta = sizes.replace(pattern_sets=1, delta=1.0)
    n, l, k = float(sizes.patches), float(sizes.patches_per_expert), float(sizes.experts)  # noqa: E741 - the paper's l
    width = float(batch_size) * dimension
    joint = kind == "joint"
    return Operations(
        experts=width * neurons * (n if kind == "cnn" else l),
        router_forward=width * k * n if joint else 0.0,
        router_backward=width * k * l**2 if joint else 0.0,
        iterations=theory.bound("iterations", kind, without_p_and_delta),
    )
