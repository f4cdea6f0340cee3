"""A spherical body on a pivot, in three dimensions."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.problem import Problem
from polhode.problems.registry import register
from polhode.spaces import quaternions
from polhode.systems.base import State
from polhode.systems.separable import BodyStates, Separable
from polhode.viewing.scene.scene import Body, Line, Scene, Trail

_DOC = """A body with one moment of inertia J about its pivot, turning under gravity: U = -m g e₃·Rρ₀ with ρ₀ = e₃.

Rρ₀ points from the centre of mass to the pivot. Rρ₀·Ω vanishes and stays so, Ω₃ and the energy ½J|Ω|² + U are kept.

Source: C. Baker & M. Gonzalez, *Explicit variational time integrator based on rescaled Rodrigues parameters*,
(39)–(42); the moment is m g Rρ₀ × e₃, which is what the potential gives. Start: turned by 3π/4 about e₂,
Ω = (0.2, 0, 0.2). m, g, J and the duration aren't given there; 1, and 10.

Parameters: `mg_over_j` (m g/J, in 1/s², with J = 1), `angular_velocity` (3,) in the inertial frame, `angle` about e₂,
`duration`.
"""


class _Potential(eqx.Module):
    weight: Float[Array, ""]

    def __call__(self, x: Array, R: Float[Array, "1 3 3"]) -> Float[Array, ""]:
        return -self.weight * R[0, 2, 2]


@register("pendulum-3d")
def pendulum_3d(
    mg_over_j: Any = 1.0,
    angular_velocity: Any = (0.2, 0.0, 0.2),
    angle: Any = float(0.75 * np.pi),
    duration: Any = 10.0,
) -> Problem:
    """The three-dimensional pendulum.

    **Arguments:**

    - `mg_over_j`: m g/J, which is the square of the frequency of small swings.
    - `angular_velocity`: Ω at t = 0 in the inertial frame, shape (3,).
    - `angle`: by which the body is turned about e₂ at t = 0, in radians; 0 is stable.
    - `duration`: end time.
    """
    numbers = dict(locals())
    weight = checks.positive("mg_over_j", mg_over_j, (), "m g/J")
    omega = checks.array("angular_velocity", angular_velocity, (3,), "angular velocity at t = 0")
    turn = checks.array("angle", angle, (), "angle about e2 at t = 0")
    checks.positive("duration", duration, (), "end time")
    system = Separable(jnp.ones(1), jnp.ones(1), _Potential(weight))
    q = quaternions.from_vector(turn * jnp.array([0.0, 1.0, 0.0]))
    rest = jnp.zeros((1, 3))
    return Problem(
        name="pendulum-3d",
        system=system,
        state0=BodyStates(rest, q[None], rest, omega[None]),
        t_span=(0.0, duration),
        parameters=numbers,
        doc=_DOC,
        outputs={"axis": lambda t, s: axis(s), "angular_velocity": lambda t, s: s[3][0]},
        invariants={
            **system.invariants(),
            "spin_about_axis": lambda t, s: axis(s) @ s[3][0],
            "vertical_angular_momentum": lambda t, s: s[3][0, 2],
        },
        reference={},
        integrator="rodrigues",
        h=0.01,
        scene=_SCENE,
        build=pendulum_3d,
    )


def axis(state: State) -> Float[Array, "3"]:
    """Rρ₀."""
    return quaternions.rotate(state[1][0], jnp.array([0.0, 0.0, 1.0]))


_SCENE = Scene(
    parts=(
        Body("body", "ellipsoid", np.full(3, 0.5), lambda t, s: (-axis(s), quaternions.to_matrix(s[1][0]))),
        Line("arm", lambda t, s: jnp.stack((jnp.zeros(3), -axis(s)))),
        Trail("axis"),
    )
)
