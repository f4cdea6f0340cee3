"""The heavy top that turns about a fixed point."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode import checks
from polhode.problem import Observable, Problem
from polhode.problems import heavy_top_motion
from polhode.problems.declaration import describe
from polhode.problems.heavy_top_coordinates import FORMULATIONS_IN_COORDINATES
from polhode.problems.heavy_top_forms import FORMULATIONS as FIRST_ORDER
from polhode.problems.heavy_top_forms import TopParameters
from polhode.problems.registry import register
from polhode.problems.rotation_forms import Formulation
from polhode.systems.base import State

_DOC = """A rigid body that turns about a fixed point under gravity: Q̇ = Q Ω^, I Ω̇ = I Ω × Ω + M g l Γ × χ, Γ = Qᵀe₃.

Formulations: `SO3` and `S3` carry (attitude, Ω); `lie-poisson` carries the body momentum and the gravity direction
(Π, Γ) on a coadjoint orbit of se(3)*, together with the attitude. There every method of the action keeps the
Casimirs |Γ|², Π·Γ and the direction Q Γ to round-off. `cotangent` carries (Q, π) with π = Q I Ω on T*SO(3) and
`quadratic` ((Q, q), (π, p)) on T*(SO(3)×R³) with an energy that is quadratic in p, both for symplectic methods. The
others are mechanical systems of second order, with which
implicit methods run too: `rotation-vector` (ψ, Ω), the Lie group SO(3) in rotation vectors; `euler-angles` (ρ, ρ̇) with
Q = Rx(ρ₁) Ry(ρ₂) Rz(ρ₃), singular at ρ₂ = ±π/2, which the benchmark passes by closely; `euler-angles-kinematic` (ρ, Ω),
for explicit methods only; `euler-parameters` (p, ṗ) with the constraint p·p = 1, for the generalized-α method.

Data sets: `fixed-point` is the benchmark top of O. Brüls & A. Cardona (2010), M = 15, l = 1, inertia about the centre
of mass diag(0.234375, 0.46875, 0.234375), hence diag(15.234375, 0.46875, 15.234375) about the fixed point, g = 9.81.
`A` to `E` are readings of the data printed by E. Celledoni, E. Çokaj, A. Leone, D. Murari & B. Owren, *Lie group
integrators for mechanical systems*, §3.4.4, which contradict each other: the printed inertia and l = 2 with the
printed direction of gravity, literally upwards (`A`), or with gravity downwards (`B`); inertia about the fixed
point, l = 1 (`C`, the same top as `fixed-point`); the printed inertia with l = 1 (`D`); inertia moved to the fixed
point by l = 2 (`E`). All start with Q(0) = 1, Ω(0) = (0, 150, -4.61538) and end at t = 1.

Numbers that are passed override the data set.
"""


def _data(length: float, gravity: float, inertia: tuple[float, float, float]) -> Mapping[str, Any]:
    return MappingProxyType(
        {
            "mass": 15.0,
            "length": length,
            "gravity": gravity,
            "inertia": inertia,
            "axis": (0.0, 1.0, 0.0),
            "angular_velocity": (0.0, 150.0, -4.61538),
            "duration": 1.0,
        }
    )


_PAPER_INERTIA = (0.234375, 0.46875, 0.234375)
_DATA = {
    "fixed-point": _data(1.0, 9.81, (15.234375, 0.46875, 15.234375)),
    "A": _data(2.0, -9.81, _PAPER_INERTIA),
    "B": _data(2.0, 9.81, _PAPER_INERTIA),
    "C": _data(1.0, 9.81, (15.234375, 0.46875, 15.234375)),
    "D": _data(1.0, 9.81, _PAPER_INERTIA),
    "E": _data(2.0, 9.81, (60.234375, 0.46875, 60.234375)),
}

_FORMULATIONS = {**FIRST_ORDER, **FORMULATIONS_IN_COORDINATES}


@register("heavy-top")
def heavy_top(
    formulation: str = "SO3",
    data: str = "fixed-point",
    mass: Any = None,
    length: Any = None,
    gravity: Any = None,
    inertia: Any = None,
    axis: Any = None,
    angular_velocity: Any = None,
    duration: Any = None,
) -> Problem:
    """The heavy top about a fixed point.

    **Arguments**, in SI units:

    - `formulation`: "SO3", "S3", "lie-poisson", "cotangent", "quadratic", "rotation-vector",
      "euler-angles", "euler-angles-kinematic" or "euler-parameters".
    - `data`: "fixed-point" or "A" to "E"; see the problem's `doc`. It gives every number below that is None.
    - `mass`: of the top.
    - `length`: from the fixed point to the centre of mass.
    - `gravity`: towards -e₃; negative values pull upwards.
    - `inertia`: principal moments about the fixed point, shape (3,).
    - `axis`: χ, unit vector from the fixed point to the centre of mass, body frame, shape (3,).
    - `angular_velocity`: Ω(0), body frame, shape (3,).
    - `duration`: end time.
    """
    numbers = {key: value for key, value in locals().items() if key not in ("formulation", "data")}
    checks.choice("formulation", formulation, _FORMULATIONS)
    checks.choice("data", data, _DATA)
    numbers = {key: _DATA[data][key] if value is None else value for key, value in numbers.items()}
    top = TopParameters(
        mass=checks.positive("mass", numbers["mass"], (), "mass of the top"),
        length=checks.positive("length", numbers["length"], (), "distance of the centre of mass"),
        gravity=checks.array("gravity", numbers["gravity"], (), "gravitational acceleration towards -e3"),
        inertia=checks.positive("inertia", numbers["inertia"], (3,), "principal moments about the fixed point"),
        axis=checks.unit_vectors("axis", numbers["axis"], (3,), "body-fixed direction of the centre of mass"),
    )
    omega0 = checks.array("angular_velocity", numbers["angular_velocity"], (3,), "body-fixed, at t = 0")
    checks.positive("duration", numbers["duration"], (), "end time")
    form = _FORMULATIONS[formulation](top)

    def build(data: str = data, **parameters: Any) -> Problem:
        if data != problem.parameters["data"]:
            # Numbers that came with the old data set and were not replaced give way to those of the new one.
            parameters = {k: None if v is numbers.get(k) else v for k, v in parameters.items()}
        return heavy_top(data=data, **parameters)

    problem = Problem(
        name="heavy-top",
        system=form.system,
        state0=form.start(omega0),
        t_span=(0.0, numbers["duration"]),
        parameters={"formulation": formulation, "data": data, **numbers},
        doc=describe(_DOC, heavy_top),
        outputs=heavy_top_motion.outputs(top, form),
        invariants=_invariants(top, form, numbers),
        reference=heavy_top_motion.REFERENCE if _is_benchmark(numbers) else {},
        integrator=form.integrator,
        h=form.h,
        # A disc across the axis: thin along it, as the small moment of inertia about it suggests.
        scene=heavy_top_motion.scene(top, form, top.length * (0.7 - 0.6 * jnp.abs(top.axis))),
        build=build,
    )
    return problem


def _invariants(top: TopParameters, form: Formulation, numbers: Mapping[str, Any]) -> dict[str, Observable]:
    def energy(t: Array, state: State) -> Array:
        omega = form.omega(state)
        height = form.attitude(state)[2] @ top.axis
        return 0.5 * jnp.sum(top.inertia * omega**2) + top.weight_moment * height

    def vertical_momentum(t: Array, state: State) -> Array:
        return form.attitude(state)[2] @ (top.inertia * form.omega(state))

    def spin_momentum(t: Array, state: State) -> Array:
        return jnp.sum(top.axis * top.inertia * form.omega(state))

    invariants: dict[str, Observable] = {"energy": energy, "vertical_angular_momentum": vertical_momentum}
    return {**invariants, "spin_momentum": spin_momentum} if _is_symmetric(numbers) else invariants


def _is_symmetric(numbers: Mapping[str, Any]) -> bool:
    """Whether the centre of mass lies on an axis of inertial symmetry (Lagrange top)."""
    if not checks.is_concrete(numbers["inertia"], numbers["axis"]):
        return False
    across = [i for i in range(3) if abs(np.asarray(numbers["axis"])[i]) < 1e-12]
    return len(across) == 2 and np.ptp(np.asarray(numbers["inertia"])[across]) == 0


def _is_benchmark(numbers: Mapping[str, Any]) -> bool:
    if not checks.is_concrete(dict(numbers)):
        return False
    return all(np.array_equal(numbers[k], v) for k, v in _DATA["fixed-point"].items() if k != "duration")
