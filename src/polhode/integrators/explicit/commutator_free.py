"""Commutator-free methods: several exponentials a stage instead of commutators. Crouch–Grossman methods are the
special case with one evaluation in each exponential."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import equinox as eqx
from jaxtyping import Array

from polhode.integrators.base import Carry, StepInfo
from polhode.integrators.explicit._stages import combine, hermite_step, move_if
from polhode.integrators.explicit.base import AbstractExplicit
from polhode.spaces.base import AbstractSpace, Point, Vector
from polhode.systems.base import State
from polhode.systems.vector_field import VectorField

Row = tuple[float, ...]


@dataclasses.dataclass(frozen=True)
class Composition:
    """A point reached from an earlier stage: the exponentials of h Σ row[k] f_k, the first row acting first.

    `start` is the index of the stage to start from; stage 0 is the start of the step.
    """

    rows: tuple[Row, ...]
    start: int = 0


@dataclasses.dataclass(frozen=True)
class Scheme:
    """Coefficients of a commutator-free method.

    - `c`: nodes of the stages; `stages`: compositions of stages 1, 2, … (stage 0 is the start of the step).
    - `final`: the new point; `auxiliary`: the embedded one of order `order_hat`.
    """

    name: str
    c: tuple[float, ...]
    stages: tuple[Composition, ...]
    final: Composition
    order: int
    auxiliary: Composition | None = None
    order_hat: int | None = None

    def __post_init__(self) -> None:
        if len(self.c) != len(self.stages) + 1 or self.c[0] != 0:
            raise ValueError(f"scheme {self.name}: one node for each stage, the first one zero")
        for what, composition, target in [
            *((f"stage {i}", s, self.c[i]) for i, s in enumerate(self.stages, start=1)),
            ("final", self.final, 1.0),
            *([("auxiliary", self.auxiliary, 1.0)] if self.auxiliary else []),
        ]:
            total = self.c[composition.start] + sum(sum(row) for row in composition.rows)
            if abs(total - target) > 1e-14:
                raise ValueError(f"scheme {self.name}: the coefficients of {what} sum to {total}, not {target}")


class CommutatorFree(AbstractExplicit):
    r"""Commutator-free Lie group method, Crouch–Grossman methods included.

    $Y_r = \exp(h\sum_k \alpha^k_{rJ} f_k) \cdots \exp(h\sum_k \alpha^k_{r1} f_k)\cdot y_0$: frozen flows of linear
    combinations of the stages, no commutators and no inverse differentials.

    - Order: that of the scheme, for attitude and velocity alike.
    - Preserves: the space to round-off, with everything that the group action keeps.
    - Error estimate: the algebra element between the two end points, for pairs.
    - Interpolation: cubic Hermite in the algebra.

    ??? cite "Reference"
        E. Celledoni, A. Marthinsen, B. Owren, Commutator-free Lie group methods, FGCS 19 (2003);
        P. Crouch, R. Grossman, J. Nonlinear Sci. 3 (1993); B. Owren, A. Marthinsen, BIT 39 (1999);
        Celledoni et al., Lie group integrators for mechanical systems (2021), sections 2 and 4, eqs (9), (34).
    """

    promises: ClassVar = {"manifold": "round-off", "action invariants": "round-off"}

    scheme: Scheme = eqx.field(static=True)

    @property
    def order(self) -> int:
        return self.scheme.order

    @property
    def error_order(self) -> int | None:
        return self.scheme.order_hat

    @property
    def evaluations(self) -> int:
        return len(self.scheme.c)

    def init(self, system: VectorField, t: Array, h: Array, state: State) -> Carry:
        return Carry(state)

    def step(self, system: VectorField, t: Array, h: Array, carry: Carry) -> tuple[Carry, StepInfo]:
        space, scheme = system.space, self.scheme
        Y = [carry.state]
        f = [system.field(t, carry.state) if system.slope is None else system.slope]
        for c, composition in zip(scheme.c[1:], scheme.stages, strict=True):
            Y.append(_reach(space, composition, h, Y, f))
            f.append(system.field(t + c * h, Y[-1]))
        state = _reach(space, scheme.final, h, Y, f)
        error = None
        if scheme.auxiliary is not None:
            error = space.difference(_reach(space, scheme.auxiliary, h, Y, f), state)
        return Carry(state), StepInfo(error=error)

    def interpolate(self, system: VectorField, t: Array, h: Array, carry0: Carry, carry1: Carry, s: Array) -> State:
        theta = system.space.difference(carry0.state, carry1.state)
        return hermite_step(system, t, h, carry0.state, carry1.state, theta, s, system.space)


def _reach(space: AbstractSpace, composition: Composition, h: Array, Y: list[Point], f: list[Vector]) -> Point:
    q = Y[composition.start]
    for row in composition.rows:
        q = move_if(space, q, combine(h, row, f))
    return q


def crouch_grossman(name: str, A: tuple[Row, ...], b: Row, order: int) -> Scheme:
    """The scheme Y_i = exp(h a_{i,i-1} f_{i-1})…exp(h a_{i1} f_1) y₀ with final weights b; A holds rows 2, 3, …"""

    def one_by_one(row: Row) -> Composition:
        return Composition(tuple((0.0,) * j + (a,) for j, a in enumerate(row) if a != 0))

    c = (0.0, *(sum(row) for row in A))
    return Scheme(name, c, tuple(one_by_one(row) for row in A), one_by_one(b), order)


CG3 = crouch_grossman("Crouch–Grossman 3", ((3 / 4,), (119 / 216, 17 / 108)), (13 / 51, -2 / 3, 24 / 17), order=3)

CG4 = crouch_grossman(
    "Crouch–Grossman 4",
    (
        (0.8177227988124852,),
        (0.3199876375476427, 0.0659864263556022),
        (0.9214417194464946, 0.4997857776773573, -1.0969984448371582),
        (0.3552358559023322, 0.2390958372307326, 1.3918565724203246, -1.1092979392113465),
    ),
    (0.1370831520630755, -0.0183698531564020, 0.7397813985370780, -0.1907142565505889, 0.3322195591068374),
    order=4,
)

_CF32A_STAGES = (Composition(((1 / 3,),)), Composition(((0, 2 / 3),)))
_CF32A_FINAL = Composition(((-1 / 12, 0, 3 / 4),), start=1)

CF3 = Scheme("commutator-free 3", (0, 1 / 3, 2 / 3), _CF32A_STAGES, _CF32A_FINAL, order=3)

CF32A = dataclasses.replace(
    CF3, name="commutator-free 3(2) a", auxiliary=Composition(((0, 1 / 2, 1 / 2),)), order_hat=2
)

CF32B = Scheme(
    "commutator-free 3(2) b",
    (0, 2 / 3, 2 / 3),
    (Composition(((2 / 3,),)), Composition(((5 / 12, 1 / 4),))),
    Composition(((-1 / 6, -1 / 2, 1),), start=2),
    order=3,
    auxiliary=Composition(((1 / 4, 0, 3 / 4),)),
    order_hat=2,
)

CF4 = Scheme(
    "commutator-free 4",
    (0, 1 / 2, 1 / 2, 1),
    (Composition(((1 / 2,),)), Composition(((0, 1 / 2),)), Composition(((-1 / 2, 0, 1),), start=1)),
    Composition(((1 / 4, 1 / 6, 1 / 6, -1 / 12), (-1 / 12, 1 / 6, 1 / 6, 1 / 4))),
    order=4,
)

CF43 = Scheme(
    "commutator-free 4(3)",
    (*CF4.c, 3 / 4),
    (*CF4.stages, Composition(((0, 3 / 4),))),
    CF4.final,
    order=4,
    auxiliary=Composition(((1 / 3,), (-1 / 9, 1 / 3, 0, 0, 4 / 9))),
    order_hat=3,
)
