"""The claims of pmoe2023 about its bounds and about table 1, computed at the sizes of section 5.1."""

from __future__ import annotations

from moe_lab_papers.claim import ROUNDING, Claim, Measurement, Published, Read, Rule, at_most, near, selected
from moe_lab_papers.pmoe2023.sources import MEASURES

_SIZES = {"patches": 16, "patches_per_expert": 6, "experts": 8, "neurons": 40}
_N, _L, _K = 16, 6, 8


BOUNDS = Measurement(
    name="pmoe2023/bounds", function=f"{MEASURES}:bounds", seconds=(0.1, 0.1), quick=_SIZES, full=_SIZES, seeded=False
)
_STEP = {"patches": _N, "patches_per_expert": _L, "neurons": 40}
STEP = Measurement(
    name="pmoe2023/table1-step",
    function=f"{MEASURES}:step_operations",
    seconds=(0.1, 0.1),
    quick=_STEP,
    full=_STEP,
    seeded=False,
)


def _bound(
    *,
    id: str,
    where: str,
    statement: str,
    relation: str,
    value: float,
    read: Read,
    reason: str = "",
    tolerance: float = ROUNDING,
) -> Claim:
    """Returns a claim about bounds at the sizes of section 5.1, which follow from their exponents."""
    return Claim(
        id=id,
        where=where,
        statement=f"{statement}, at n = {_N}, l = {_L}, k = {_K}",
        published=Published(value=value, relation=relation),
        measurement=BOUNDS,
        read=read,
        rule=Rule(agrees=near(value, tolerance * value), follows=True),
        reason=reason,
    )


_JOINT_TOTAL = _N**5 / (_K**2 * _L**3)
_RATIOS: tuple[Claim, ...] = (
    _bound(
        id="pmoe2023/theorem4.2/samples-ratio",
        where="after theorem 4.3",
        statement="the CNN's bound of N over separate training's",
        relation="(n/l)^8",
        value=(_N / _L) ** 8,
        read=selected("advantage", quantity="samples", kind="separate"),
    ),
    _bound(
        id="pmoe2023/theorem4.2/neurons-ratio",
        where="after theorem 4.3",
        statement="the CNN's bound of m over separate training's",
        relation="(n/l)^10",
        value=(_N / _L) ** 10,
        read=selected("advantage", quantity="neurons", kind="separate"),
    ),
    _bound(
        id="pmoe2023/theorem4.5/samples-ratio",
        where="after theorem 4.5",
        statement="the CNN's bound of N over joint training's",
        relation="n^8 / (k^4 l^6)",
        value=_N**8 / (_K**4 * _L**6),
        read=selected("advantage", quantity="samples", kind="joint"),
    ),
    _bound(
        id="pmoe2023/theorem4.5/neurons-ratio",
        where="after theorem 4.5",
        statement="the CNN's bound of m over joint training's",
        relation="n^10 / (k^3 l^6)",
        value=_N**10 / (_K**3 * _L**6),
        read=selected("advantage", quantity="neurons", kind="joint"),
        reason="the bound M_J of theorem 4.5 itself contains n^2, so that the ratio is n^8 / (k^3 l^6)",
    ),
    _bound(
        id="pmoe2023/theorem4.5/error-by-k",
        where="after theorem 4.5",
        statement="at fixed N the error of joint training grows as a power of k",
        relation="k^(1/4)",
        value=0.25,
        read=selected("error_power", symbol="k"),
    ),
    _bound(
        id="pmoe2023/theorem4.5/error-by-l",
        where="after theorem 4.5",
        statement="at fixed N the error of joint training grows as a power of l",
        relation="l^(3/8)",
        value=0.375,
        read=selected("error_power", symbol="l"),
    ),
    _bound(
        id="pmoe2023/table1/separate-total",
        where="table 1 and appendix N",
        statement="operations until error eps, the CNN's over separate training's",
        relation="n^5 / l^5",
        value=(_N / _L) ** 5,
        read=selected("total", kind="separate"),
    ),
    _bound(
        id="pmoe2023/table1/joint-total",
        where="table 1 and appendix N",
        statement="operations until error eps, the CNN's over joint training's",
        relation="n^5 / (k^2 l^3)",
        value=_JOINT_TOTAL,
        read=selected("whole", kind="joint"),
        reason="table 1's own rows for the routers, B k n d and B k l^2 d, are left out of its first row: at the "
        "paper's m = 40 they cost more than the experts, and the advantage is a third of the printed one",
        tolerance=0.05,
    ),
)

CLAIMS: tuple[Claim, ...] = (
    *_RATIOS,
    Claim(
        id="pmoe2023/table1/separate-step",
        where="table 1, complexity per iteration",
        statement="a step of separate training costs B m l d, l/n of a step of the CNN",
        published=Published(value=_N / _L, relation="the CNN's operations over separate training's"),
        measurement=STEP,
        read=lambda data: data["operations"].sel(kind="cnn") / data["operations"].sel(kind="separate"),
        rule=Rule(agrees=near(_N / _L, 0.02 * _N / _L), follows=True),
    ),
    Claim(
        id="pmoe2023/eq9/opposite-patterns",
        where="eq. 9 and the text below it",
        statement="delta decreases as o_1 and o_2 are moved apart, from delta_d = 0 to -.8",
        published=Published(relation="delta decreases if o_1 and o_2 are more separated from each other"),
        measurement=BOUNDS,
        read=lambda data: data["delta"].sel(delta_d=-0.8) - data["delta"].sel(delta_d=0.0),
        rule=Rule(agrees=at_most(-ROUNDING), follows=True),
        reason="eq. 9 has delta_d squared, so that delta grows towards both ends",
    ),
)
