"""The rattleback, which reverses its spin."""

from __future__ import annotations

import jax.numpy as jnp

from polhode.contact.shapes import Ellipsoid
from polhode.problems._closed_loops import about
from polhode.problems._model_problem import ModelDraft, scene_body
from polhode.problems._table import table, tilt
from polhode.problems.declaration import Number, Positive, declare

_DOC = """A boat-shaped stone is spun on a table, rattles, stops and turns the other way round, but not back again.

Half axes of its surface are turned about the vertical by `skew` from the principal axes of inertia. Spin in one
direction gives its energy to rocking about one of these axes, in the other direction to that about the other one, which
takes longer (G. T. Walker, 1896; H. Bondi, Proc. R. Soc. A 405, 1986). Rolling without slip does no work, so that the
energy stays; friction is high enough for that.

The data are chosen: half axes of 20, 4 and 3 cm. With 3 rad/s rocking has the eigenvalues 4.314 ± 37.57i and
-0.491 ± 13.06i a second; with -3 rad/s their signs change, so that it takes nine times as long.
"""


@declare("rattleback", _DOC)
def rattleback(
    formulation: str = "SO3xR3",
    half_axes: Positive = (0.2, 0.04, 0.03),
    skew: Number = 0.1,
    mass: Positive = 1.0,
    inertia: Positive = (4e-4, 9e-3, 9.2e-3),
    spin: Number = 3.0,
    wobble: Number = 0.05,
    friction: Positive = 3.0,
    gravity: Number = 9.81,
    duration: Positive = 6.0,
) -> ModelDraft:
    """A stone that reverses its spin.

    **Arguments**, in SI units:

    - `formulation`: coordinates, as in `Model.assemble`.
    - `half_axes`: of the ellipsoid; shape (3,).
    - `skew`: angle of these from the axes of inertia, in radians.
    - `mass`: mass.
    - `inertia`: principal moments about the middle, where the centre of mass is; shape (3,).
    - `spin`: angular velocity about the vertical at the start.
    - `wobble`: that about both others.
    - `friction`: coefficient of Coulomb's law.
    - `gravity`: towards -z.
    - `duration`: end time.
    """
    turn = about(2, skew)
    height = half_axes[2] * jnp.array([0.0, 0.0, 1.0])
    model, stone = table(
        gravity,
        Ellipsoid(half_axes, rotation=turn),
        mass=mass,
        inertia=inertia,
        position=height,
        velocity=wobble * half_axes[2] * jnp.array([1.0, -1.0, 0.0]),
        angular_velocity=jnp.array([1.0, 1.0, 0.0]) * wobble + spin * jnp.array([0.0, 0.0, 1.0]),
        check_inertia=False,
    )
    model.contacts(friction=friction)
    return ModelDraft(
        model,
        lambda system: {**system.outputs(), "tilt": tilt(system, stone)},
        lambda system: (scene_body(system, stone, 2 * half_axes, "ellipsoid", rotation=turn),),
        h=2e-3,
        method="rattle",
    )
