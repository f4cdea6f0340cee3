"""A cable between two points, released from an arc of a circle."""

from __future__ import annotations

import math
from typing import Annotated, Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import short_repr
from polhode.joints import Universal
from polhode.model.model import Model
from polhode.problem import Observable, Reference
from polhode.problems._model_problem import AssembledSystem, ModelDraft
from polhode.problems._rods import equal_section, rod_problem
from polhode.problems.declaration import Check, Count, Number, Positive, declare
from polhode.systems.base import State

_DOC = """A thin inextensible cable hangs between two points at equal height, with gravity towards -e₃.

Universal joints at both ends let it bend in its plane and swing about the line between them, but not spin. At the start
it is at rest on an arc of a circle, from which it falls into oscillations about the static shape. That is close to the
catenary: the bending stiffness is EI/(ρA g L³) = 1e-4. The reference is the place of the middle node at t = ∞, on the
catenary y = a cosh(x/a) of the same length and span; `polhode.equilibrium` finds the static shape of the cable.
"""

_SOURCE = "the catenary; bending stiffness and discretisation add errors of order EI/(ρA g L³) and 1/n²"


def _half_angle(name: str, value: Any, shape: tuple[int, ...], meaning: str) -> Array:
    angle = checks.positive(name, value, shape, meaning)
    if checks.is_concrete(value) and not float(value) < math.pi:
        raise ValueError(f"`{name}` must be less than π, where the arc closes to a circle, got {short_repr(value)}.")
    return angle


HalfAngle = Annotated[Any, Check(_half_angle)]


@declare("hanging-cable", _DOC)
def hanging_cable(
    n: Count = 16,
    formulation: str = "S3|xR3",
    length: Positive = 1.0,
    angle: HalfAngle = 1.2,
    gravity: Number = 9.81,
    bending_stiffness: Positive = 1e-3,
    axial_stiffness: Positive = 1e4,
    mass: Any = 1.0,
    inertia: Positive = 1e-4,
    damping: Number = 0.0,
    constrained: Any = "both",
    duration: Positive = 1.0,
) -> ModelDraft:
    """A cable between two points, released from an arc of a circle.

    **Arguments**, in SI units:

    - `n`: number of edges.
    - `formulation`: coordinates, as in `Model.assemble`.
    - `length`: of the cable; L.
    - `angle`: half of the arc at the start, rad; less than π. The points are L sin(angle)/angle apart.
    - `gravity`: towards -e3.
    - `bending_stiffness`: C^K; EI, all of it, of bending and torsion.
    - `axial_stiffness`: C^Γ; all of it, of shear and extension, unless constrained.
    - `mass`, `inertia`: per length.
    - `damping`: C_d, of strain rates; the stress has the part 2 C_d ẇ.
    - `constrained`: strains that are constrained away, as in `Model.add_rod`.
    - `duration`: end time.
    """
    model = Model(gravity=gravity * jnp.array([0.0, 0.0, -1.0]))
    rod = model.add_rod(
        points=_arc(n, length, angle),
        normal=(0.0, 1.0, 0.0),
        section=equal_section(bending_stiffness, axial_stiffness, mass, inertia, damping),
        constrained=constrained,
        name="cable",
    )
    for end, body in (("first", rod.first), ("last", rod.last)):
        model.add(Universal(model.ground, body, body.x, (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), name=f"{end}-joint"))

    def middle(system: AssembledSystem) -> dict[str, Observable]:
        nodes = rod.points(system)

        def place(t: Array, state: State) -> Float[Array, "3"]:
            return nodes(t, state)[n // 2]

        return {"middle": place}

    numbers = length, angle, gravity, bending_stiffness, mass
    reference = {} if n % 2 or constrained != "both" else _reference(n, *numbers)
    return rod_problem(model, rod, middle, trail="middle", h=2.5e-3, reference=reference)


def _arc(n: int, length: Array, angle: Array) -> Float[Array, "n+1 3"]:
    """Nodes at equal distances along an arc whose ends are at (∓span/2, 0, 0)."""
    phi = jnp.linspace(-1.0, 1.0, n + 1) * angle
    return 0.5 * length / angle * jnp.stack((jnp.sin(phi), 0 * phi, jnp.cos(angle) - jnp.cos(phi)), axis=1)


def _reference(n: int, *numbers: Any) -> dict[str, Reference]:
    if not checks.is_concrete(numbers):
        return {}
    length, angle, gravity, stiffness, mass = (float(number) for number in numbers)
    if gravity <= 0:
        return {}
    middle = (0.0, 0.0, -length * _sag(float(np.sin(angle) / angle)))
    error = length * (stiffness / (mass * gravity * length**3) + 1.0 / n**2)
    return {"middle": {"t": math.inf, "value": middle, "error": error, "source": _SOURCE}}


def _sag(span: float) -> float:
    """Depth of a catenary of length 1: with c = span/(2a), sinh(c)/c = 1/span and the depth is tanh(c/2)/2."""
    low, high = 1e-6, 50.0
    for _ in range(60):
        c = 0.5 * (low + high)
        low, high = (low, c) if math.sinh(c) * span > c else (c, high)
    return 0.5 * math.tanh(0.25 * (low + high))
