"""A cable between two points, released from an arc of a circle."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import short_repr
from polhode.joints import Universal
from polhode.model.model import Model
from polhode.problem import Observable, Problem, Reference
from polhode.problems._model_problem import AssembledSystem, model_problem
from polhode.problems._rods import rod_outputs, rod_scene
from polhode.problems.named.roll_up import material
from polhode.problems.registry import register
from polhode.systems.base import State
from polhode.viewing.scene import scene

_DOC = """A thin inextensible cable hangs between two points at equal height, with gravity towards -e₃.

Universal joints at both ends let it bend in its plane and swing about the line between them, but not spin. At the start
it is at rest on an arc of a circle, from which it falls into oscillations about the static shape. That is close to the
catenary: the bending stiffness is EI/(ρA g L³) = 1e-4. The reference is the place of the middle node at t = ∞, on the
catenary y = a cosh(x/a) of the same length and span; `polhode.equilibrium` finds the static shape of the cable.

Parameters: `n`, `formulation`, `length` (L), `angle` (half of what the arc at the start spans, rad; the points are
L sin(angle)/angle apart), `gravity`, `bending_stiffness` (all of C^K, EI), `axial_stiffness` (all of C^Γ, unless
constrained), `mass` and `inertia` (per length), `damping` (C_d), `constrained`, `duration`. SI units.
"""

_SOURCE = "the catenary; bending stiffness and discretisation add errors of order EI/(ρA g L³) and 1/n²"


@register("hanging-cable")
def hanging_cable(
    n: int = 16,
    formulation: str = "S3|xR3",
    length: Any = 1.0,
    angle: Any = 1.2,
    gravity: Any = 9.81,
    bending_stiffness: Any = 1e-3,
    axial_stiffness: Any = 1e4,
    mass: Any = 1.0,
    inertia: Any = 1e-4,
    damping: Any = 0.0,
    constrained: Any = "both",
    duration: Any = 1.0,
) -> Problem:
    """A cable between two points, released from an arc of a circle.

    **Arguments:**

    - `n`: number of edges.
    - `formulation`: coordinates, as in `Model.assemble`.
    - `length`: of the cable.
    - `angle`: half of the angle that the arc at the start spans, less than π.
    - `gravity`: towards -e₃.
    - `bending_stiffness`, `axial_stiffness`: C^K of bending and torsion, C^Γ of shear and extension.
    - `mass`, `inertia`: per length.
    - `damping`: C_d; the stress has the part 2 C_d ẇ.
    - `constrained`: strains that are constrained away, as in `Model.add_rod`.
    - `duration`: end time.
    """
    return _make(dict(locals()))


def _make(p: Mapping[str, Any], redundant: Any = "error") -> Problem:
    n = checks.count("n", p["n"], "number of edges")
    checks.positive("duration", p["duration"], (), "end time")
    model = Model(gravity=checks.array("gravity", p["gravity"], (), "towards -e3") * jnp.array([0.0, 0.0, -1.0]))
    points = _arc(n, p)
    rod = model.add_rod(
        points=points, normal=(0.0, 1.0, 0.0), section=material(p), constrained=p["constrained"], name="cable"
    )
    for end, body in (("first", rod.first), ("last", rod.last)):
        model.add(Universal(model.ground, body, body.x, (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), name=f"{end}-joint"))

    def outputs(system: AssembledSystem) -> dict[str, Observable]:
        nodes = rod.points(system)

        def middle(t: Array, state: State) -> Float[Array, "3"]:
            return nodes(t, state)[n // 2]

        return {**rod_outputs(system, rod), "middle": middle}

    def parts(system: AssembledSystem) -> tuple[scene.Body | scene.Line | scene.Trail, ...]:
        return rod_scene(outputs(system), rod, "middle")

    return model_problem(
        "hanging-cable",
        _make,
        p,
        model,
        redundant,
        outputs,
        parts,
        doc=_DOC,
        h=2.5e-3,
        reference=_reference(p),
    )


def _arc(n: int, p: Mapping[str, Any]) -> Float[Array, "n+1 3"]:
    """Nodes at equal distances along an arc whose ends are at (∓span/2, 0, 0)."""
    length = checks.positive("length", p["length"], (), "of the cable")
    angle = checks.positive("angle", p["angle"], (), "half of the arc at the start, rad")
    if checks.is_concrete(p["angle"]) and not float(p["angle"]) < math.pi:
        raise ValueError(
            f"`angle` must be less than π, where the arc closes to a circle, got {short_repr(p['angle'])}."
        )
    phi = jnp.linspace(-1.0, 1.0, n + 1) * angle
    return 0.5 * length / angle * jnp.stack((jnp.sin(phi), 0 * phi, jnp.cos(angle) - jnp.cos(phi)), axis=1)


def _reference(p: Mapping[str, Any]) -> dict[str, Reference]:
    numbers = [p[name] for name in ("length", "angle", "gravity", "bending_stiffness", "mass")]
    if p["n"] % 2 or p["constrained"] != "both" or not checks.is_concrete(numbers):
        return {}
    length, angle, gravity, stiffness, mass = (float(number) for number in numbers)
    if gravity <= 0:
        return {}
    middle = (0.0, 0.0, -length * _sag(float(np.sin(angle) / angle)))
    error = length * (stiffness / (mass * gravity * length**3) + 1.0 / p["n"] ** 2)
    return {"middle": {"t": math.inf, "value": middle, "error": error, "source": _SOURCE}}


def _sag(span: float) -> float:
    """Depth of a catenary of length 1: with c = span/(2a), sinh(c)/c = 1/span and the depth is tanh(c/2)/2."""
    low, high = 1e-6, 50.0
    for _ in range(60):
        c = 0.5 * (low + high)
        low, high = (low, c) if math.sinh(c) * span > c else (c, high)
    return 0.5 * math.tanh(0.25 * (low + high))
