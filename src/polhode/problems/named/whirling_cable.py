"""A rigid body that whirls at the end of a cable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode import checks
from polhode.joints import Spherical
from polhode.model.model import Model
from polhode.problem import Observable, Problem
from polhode.problems._model_problem import AssembledSystem, model_problem, point_of, scene_body
from polhode.problems._rods import rod_outputs, rod_scene
from polhode.problems.named.roll_up import material
from polhode.problems.registry import register
from polhode.systems.base import State
from polhode.viewing.scene import scene

_DOC = """A box hangs on a cable that is held at the origin, and both turn around the vertical through it.

The inextensible cable is fixed by a ball joint at its first node; another joins its end to the middle of a face of the
box. At the start they lie straight along e₁ and turn about e₃ as one rigid body. Gravity towards -e₃ then lets the box
sink into the cone on which it would whirl steadily, and beyond; the cable bends and the box swings about its joint.
The energy and the angular momentum about e₃ are kept. No published reference.

Parameters: `n`, `formulation`, `rate` (of turning at the start), `gravity`, `length`, `mass` and `inertia` (per length
of the cable), `bending_stiffness` (all of C^K), `axial_stiffness` (all of C^Γ, unless constrained), `damping` (C_d),
`constrained`, `body_mass`, `body_size` (edges of the box, the first along the cable), `duration`. SI units.
"""


@register("whirling-cable")
def whirling_cable(
    n: int = 8,
    formulation: str = "S3|xR3",
    rate: Any = 6.0,
    gravity: Any = 9.81,
    length: Any = 1.0,
    mass: Any = 0.2,
    inertia: Any = 1e-4,
    bending_stiffness: Any = 1e-3,
    axial_stiffness: Any = 1e4,
    damping: Any = 0.0,
    constrained: Any = "both",
    body_mass: Any = 1.0,
    body_size: Any = (0.2, 0.1, 0.05),
    duration: Any = 2.0,
) -> Problem:
    """A rigid body that whirls at the end of a cable.

    **Arguments:**

    - `n`: number of edges of the cable.
    - `formulation`: coordinates, as in `Model.assemble`.
    - `rate`: angular velocity about e₃ at the start.
    - `gravity`: towards -e₃.
    - `length`: of the cable.
    - `mass`, `inertia`: of the cable, per length.
    - `bending_stiffness`, `axial_stiffness`: C^K of bending and torsion, C^Γ of shear and extension.
    - `damping`: C_d; the stress has the part 2 C_d ẇ.
    - `constrained`: strains that are constrained away, as in `Model.add_rod`.
    - `body_mass`, `body_size`: of the box, shape (3,) for its edges.
    - `duration`: end time.
    """
    return _make(dict(locals()))


def _make(p: Mapping[str, Any], redundant: Any = "error") -> Problem:
    n = checks.count("n", p["n"], "number of edges")
    checks.positive("duration", p["duration"], (), "end time")
    length = checks.positive("length", p["length"], (), "of the cable")
    rate = checks.array("rate", p["rate"], (), "angular velocity about e3 at the start")
    size = checks.positive("body_size", p["body_size"], (3,), "edges of the box")
    mass = checks.positive("body_mass", p["body_mass"], (), "of the box")
    e1, e2, e3 = jnp.eye(3)
    s = jnp.linspace(0.0, 1.0, n + 1)[:, None] * length
    model = Model(gravity=checks.array("gravity", p["gravity"], (), "towards -e3") * -e3)
    rod = model.add_rod(
        points=s * e1,
        normal=(0.0, 0.0, 1.0),
        section=material(p),
        constrained=p["constrained"],
        velocity=rate * s * e2,
        angular_velocity=rate * e1,
        name="cable",
    )
    end, out = length * e1, length + 0.5 * size[0]
    box = model.add_body(
        mass=mass,
        inertia=mass * (jnp.sum(size**2) - size**2) / 12,
        position=out * e1,
        velocity=rate * out * e2,
        angular_velocity=rate * e3,
        name="box",
    )
    model.add(Spherical(model.ground, rod.first, point=(0.0, 0.0, 0.0), name="hub"))
    model.add(Spherical(rod.last, box, point=end, name="hook"))

    def outputs(system: AssembledSystem) -> dict[str, Observable]:
        return {
            **rod_outputs(system, rod),
            "box": point_of(system, box, jnp.zeros(3)),
            "vertical_angular_momentum": _vertical_angular_momentum(system, model),
        }

    def parts(system: AssembledSystem) -> tuple[scene.Body | scene.Line | scene.Trail, ...]:
        return scene_body(system, box, size), *rod_scene(outputs(system), rod, "box")

    return model_problem("whirling-cable", _make, p, model, redundant, outputs, parts, doc=_DOC, h=1e-3)


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
