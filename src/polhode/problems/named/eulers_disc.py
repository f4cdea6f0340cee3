"""Euler's disc: a heavy disc that rolls on its edge, ever faster."""

from __future__ import annotations

import jax.numpy as jnp

from polhode.contact.shapes import Disc
from polhode.problems._closed_loops import about
from polhode.problems._model_problem import ModelDraft, scene_body
from polhode.problems._table import table, tilt
from polhode.problems.declaration import NotNegative, Number, Positive, declare

_DOC = """A coin that is spun on a table rolls on its edge around a centre that stays, faster and faster as it settles.

A thin disc of radius a at the angle α to the table, whose centre rests, rolls without friction force if its point of
contact goes round at the rate Ω with Ω² sin α = 4g/a (H. K. Moffatt, *Euler's disk and its finite-time singularity*,
Nature 404, 2000), and has the energy ³⁄₂ mga sin α. Rolling friction, a moment of up to `rolling` times the normal
force, takes Ω cos α of that a second, so that √α of small angles falls linearly to zero, while Ω grows without bounds.

The data are those of the toy with the name of the problem: a = 37.5 mm, 0.44 kg. Output `tilt` is α.
"""


@declare("eulers-disc", _DOC)
def eulers_disc(
    formulation: str = "SO3xR3",
    radius: Positive = 0.0375,
    mass: Positive = 0.44,
    angle: Positive = 0.3,
    friction: NotNegative = 0.5,
    rolling: NotNegative = 1e-4,
    gravity: Number = 9.81,
    duration: Positive = 2.0,
) -> ModelDraft:
    """A disc that rolls on its edge.

    **Arguments**, in SI units:

    - `formulation`: coordinates, as in `Model.assemble`.
    - `radius`, `mass`: of the disc, which is thin and homogeneous.
    - `angle`: between disc and table at the start, in radians.
    - `friction`: coefficient of Coulomb's law.
    - `rolling`: length of rolling friction.
    - `gravity`: towards -z.
    - `duration`: end time.
    """
    rate = jnp.sqrt(4 * gravity / (radius * jnp.sin(angle)))
    model, disc = table(
        gravity,
        Disc(radius),
        mass=mass,
        inertia=mass * radius**2 * jnp.array([0.25, 0.25, 0.5]),
        position=radius * jnp.sin(angle) * jnp.array([0.0, 0.0, 1.0]),
        rotation=about(1, angle),
        angular_velocity=-rate * jnp.sin(angle) * jnp.array([1.0, 0.0, 0.0]),
    )
    model.contacts(friction=friction, rolling=rolling)
    size = radius * jnp.array([2.0, 2.0, 0.06])
    return ModelDraft(
        model,
        lambda system: {**system.outputs(), "tilt": tilt(system, disc)},
        lambda system: (scene_body(system, disc, size, "cylinder"),),
        h=1e-3,
        method="rattle",
    )
