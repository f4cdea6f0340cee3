"""A spherical body on a pivot, in three dimensions."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.problems.declaration import Draft, Number, Positive, declare
from polhode.spaces import quaternions
from polhode.systems.base import State
from polhode.systems.separable import BodyStates, Separable
from polhode.viewing.scene.scene import Body, Line, Scene, Trail

_DOC = """A body with one moment of inertia J about its pivot, turning under gravity: U = -m g e₃·Rρ₀ with ρ₀ = e₃.

Rρ₀ points from the centre of mass to the pivot. Rρ₀·Ω vanishes and stays so, Ω₃ and the energy ½J|Ω|² + U are kept.

Source: C. Baker & M. Gonzalez, *Explicit variational time integrator based on rescaled Rodrigues parameters*,
(39)–(42); the moment is m g Rρ₀ × e₃, which is what the potential gives. Start: turned by 3π/4 about e₂,
Ω = (0.2, 0, 0.2). m, g, J and the duration aren't given there; 1, and 10.
"""


class _Potential(eqx.Module):
    weight: Float[Array, ""]

    def __call__(self, x: Array, R: Float[Array, "1 3 3"]) -> Float[Array, ""]:
        return -self.weight * R[0, 2, 2]


@declare("pendulum-3d", _DOC)
def pendulum_3d(
    mg_over_j: Positive = 1.0,
    angular_velocity: Number = (0.2, 0.0, 0.2),
    angle: Number = float(0.75 * np.pi),
    duration: Positive = 10.0,
) -> Draft:
    """The three-dimensional pendulum.

    **Arguments:**

    - `mg_over_j`: m g/J; in 1/s², the square of the frequency of small swings, with J = 1.
    - `angular_velocity`: angular velocity at t = 0; Ω in the inertial frame, shape (3,).
    - `angle`: angle about e2 at t = 0; in radians, 0 is stable.
    - `duration`: end time.
    """
    system = Separable(jnp.ones(1), jnp.ones(1), _Potential(mg_over_j))
    q = quaternions.from_vector(angle * jnp.array([0.0, 1.0, 0.0]))
    rest = jnp.zeros((1, 3))
    return Draft(
        system=system,
        state0=BodyStates(rest, q[None], rest, angular_velocity[None]),
        outputs={"axis": lambda t, s: axis(s), "angular_velocity": lambda t, s: s[3][0]},
        invariants={
            **system.invariants(),
            "spin_about_axis": lambda t, s: axis(s) @ s[3][0],
            "vertical_angular_momentum": lambda t, s: s[3][0, 2],
        },
        integrator="rodrigues",
        h=0.01,
        scene=_SCENE,
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
