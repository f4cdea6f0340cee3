"""A rigid body that whirls at the end of a cable."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.joints import Spherical
from polhode.model.model import Model
from polhode.multibody.bodies import Body
from polhode.problem import Observable
from polhode.problems._model_problem import AssembledSystem, ModelDraft, point_of, scene_body
from polhode.problems._rods import equal_section, rod_problem
from polhode.problems.declaration import Count, Number, Positive, declare
from polhode.systems.base import State
from polhode.viewing.scene import scene

_DOC = """A box hangs on a cable that is held at the origin, and both turn around the vertical through it.

The inextensible cable is fixed by a ball joint at its first node; another joins its end to the middle of a face of the
box. At the start they lie straight along e₁ and turn about e₃ as one rigid body. Gravity towards -e₃ then lets the box
sink into the cone on which it would whirl steadily, and beyond; the cable bends and the box swings about its joint.
The energy and the angular momentum about e₃ are kept. No published reference.
"""


@declare("whirling-cable", _DOC)
def whirling_cable(
    n: Count = 8,
    formulation: str = "S3|xR3",
    rate: Number = 6.0,
    gravity: Number = 9.81,
    length: Positive = 1.0,
    mass: Any = 0.2,
    inertia: Positive = 1e-4,
    bending_stiffness: Positive = 1e-3,
    axial_stiffness: Positive = 1e4,
    damping: Number = 0.0,
    constrained: Any = "both",
    body_mass: Positive = 1.0,
    body_size: Positive = (0.2, 0.1, 0.05),
    duration: Positive = 2.0,
) -> ModelDraft:
    """A rigid body that whirls at the end of a cable.

    **Arguments**, in SI units:

    - `n`: number of edges; of the cable.
    - `formulation`: coordinates, as in `Model.assemble`.
    - `rate`: angular velocity about e3 at the start.
    - `gravity`: towards -e3.
    - `length`: of the cable.
    - `mass`, `inertia`: per length; of the cable.
    - `bending_stiffness`: C^K; all of it, of bending and torsion.
    - `axial_stiffness`: C^Γ; all of it, of shear and extension, unless constrained.
    - `damping`: C_d, of strain rates; the stress has the part 2 C_d ẇ.
    - `constrained`: strains that are constrained away, as in `Model.add_rod`.
    - `body_mass`: of the box.
    - `body_size`: edges of the box; the first along the cable, shape (3,).
    - `duration`: end time.
    """
    e1, e2, e3 = jnp.eye(3)
    s = jnp.linspace(0.0, 1.0, n + 1)[:, None] * length
    model = Model(gravity=gravity * -e3)
    rod = model.add_rod(
        points=s * e1,
        normal=(0.0, 0.0, 1.0),
        section=equal_section(bending_stiffness, axial_stiffness, mass, inertia, damping),
        constrained=constrained,
        velocity=rate * s * e2,
        angular_velocity=rate * e1,
        name="cable",
    )
    box = _add_box(model, length + 0.5 * body_size[0], rate, body_mass, body_size)
    model.add(Spherical(model.ground, rod.first, point=(0.0, 0.0, 0.0), name="hub"))
    model.add(Spherical(rod.last, box, point=length * e1, name="hook"))

    def more(system: AssembledSystem) -> dict[str, Observable]:
        return {
            "box": point_of(system, box, jnp.zeros(3)),
            "vertical_angular_momentum": _vertical_angular_momentum(system, model),
        }

    def bodies(system: AssembledSystem) -> tuple[scene.Part, ...]:
        return (scene_body(system, box, body_size),)

    return rod_problem(model, rod, more, bodies, trail="box", h=1e-3)


def _add_box(model: Model, distance: Array, rate: Array, mass: Array, size: Float[Array, "3"]) -> Body:
    """The box at a distance along e₁, turning about e₃."""
    e1, e2, e3 = jnp.eye(3)
    return model.add_body(
        mass=mass,
        inertia=mass * (jnp.sum(size**2) - size**2) / 12,
        position=distance * e1,
        velocity=rate * distance * e2,
        angular_velocity=rate * e3,
        name="box",
    )


def _vertical_angular_momentum(system: AssembledSystem, model: Model) -> Observable:
    """e₃·Σ (x × m u + R J ω) of all bodies."""
    body_of = {body.name: body for body in model.bodies}
    bodies = [body_of[name] for name in system.names]
    masses = jnp.stack([jnp.asarray(body.mass) for body in bodies])
    inertias = jnp.stack([jnp.asarray(body.inertia) for body in bodies])

    def momentum(t: Array, state: State) -> Float[Array, ""]:
        del t
        motion = system.motion(*state)
        assert motion.twists is not None
        x, R = motion.poses.x[:-1], motion.poses.R[:-1]
        omega, u = motion.twists.omega[:-1], motion.twists.u[:-1]
        orbital = masses * (x[:, 0] * u[:, 1] - x[:, 1] * u[:, 0])
        return jnp.sum(orbital + jnp.einsum("bj,bjk,bk->b", R[:, 2], inertias, omega))

    return momentum
