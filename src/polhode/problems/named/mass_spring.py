"""Two masses and two nonlinear springs in redundant coordinates, with a singular mass matrix."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode import checks
from polhode.problem import Reference
from polhode.problems.declaration import Draft, Number, Positive, declare
from polhode.systems.base import State
from polhode.systems.discrete_gradients import Through
from polhode.systems.lagrangian import Lagrangian
from polhode.viewing.scene.scene import Body, Line, Scene

_DOC = """Two masses on a line, each on a nonlinear spring that begins where the one before ends.

Coordinates q = (x₁, q₂, x₂): elongations x₁, x₂ of the springs and the place q₂ at which the second spring begins, on
the far side of the first body, whose width is w. The masses sit at l₁ + x₁ and q₂ + l₂ + x₂. The third coordinate is
one too many: T = ½ m₁ ẋ₁² + ½ m₂ (q̇₂ + ẋ₂)² has a mass matrix of rank 2, and g = ½((q₂ - x₁)² - (l₁ + w)²) = 0.
V = c Σ k(x² + x⁴) with c = ¼ (`potential="printed"`, as in the paper) or c = ½ (`potential="code"`, as in the authors'
code). Its discrete gradient is taken through x², which gives the difference quotients (x₀ + x₁)(1 + x₀² + x₁²) c k.

Source: P. L. Kinon & P. Betsch, *Conserving integration of multibody systems with singular and non-constant mass
matrix*, (106)–(109). Start: q = (0, 1.1, 0), v = (1, 1, -1); m = (2, 1), k = (1, 3), l₁ = l₂ = 1, w = 0.1.
"""

_FACTORS = {"printed": 0.25, "code": 0.5}
_SOURCE = "x₁ and x₂ alone by DOP853 at 1e-13"
# q at t = 10.
_ENDS = {
    "printed": (0.139791470904, 1.239791470904, -0.203457909033),
    "code": (0.887797398914, 1.987797398914, 0.265961504885),
}


class _Squares(eqx.Module):
    def __call__(self, q: Float[Array, "3"]) -> Float[Array, "2"]:
        return q[::2] ** 2


class _Springs(eqx.Module):
    """c Σ k(s + s²) of the squares s of the elongations."""

    factors: Float[Array, "2"]

    def __call__(self, squares: Float[Array, "2"]) -> Float[Array, ""]:
        return jnp.sum(self.factors * (squares + squares**2))


class _Distance(eqx.Module):
    """½((q₂ - x₁)² - (l₁ + w)²)."""

    length: Float[Array, ""]

    def __call__(self, q: Float[Array, "3"]) -> Float[Array, "1"]:
        return 0.5 * ((q[1] - q[0]) ** 2 - self.length**2)[None]


@declare("mass-spring", _DOC)
def mass_spring(
    potential: str = "printed",
    masses: Positive = (2.0, 1.0),
    stiffnesses: Positive = (1.0, 3.0),
    lengths: Positive = (1.0, 1.0),
    width: Positive = 0.1,
    elongations: Number = (0.0, 0.0),
    rates: Number = (1.0, -1.0),
    duration: Positive = 10.0,
) -> Draft:
    """Two masses and two springs in three coordinates with one constraint.

    **Arguments**, in any consistent units:

    - `potential`: "printed", V = ¼ Σ k(x² + x⁴), or "code", twice that.
    - `masses`: both masses; shape (2,).
    - `stiffnesses`: stiffnesses of the springs; k, shape (2,).
    - `lengths`: lengths of the springs at rest; shape (2,).
    - `width`: width of the first body.
    - `elongations`: elongations at t = 0; x₁, x₂, shape (2,).
    - `rates`: rates of elongation at t = 0; shape (2,).
    - `duration`: end time.
    """
    checks.choice("potential", potential, _FACTORS)
    (m1, m2), l, w, x = masses, lengths, width, elongations  # noqa: E741
    none = jnp.zeros(())
    mass = jnp.stack([jnp.stack(row) for row in ((m1, none, none), (none, m2, m2), (none, m2, m2))])
    system = Lagrangian(
        3, mass, Through(_Springs(_FACTORS[potential] * stiffnesses), _Squares()), _Distance(l[0] + w), number=1
    )  # fmt: skip

    def positions(t: Array, state: State) -> Float[Array, "2 3"]:
        x1, q2, x2 = state.q
        along = jnp.stack((l[0] + x1, q2 + l[1] + x2))
        return along[:, None] * jnp.array([1.0, 0.0, 0.0])

    reference: dict[str, Reference] = {
        "coordinates": {"t": 10.0, "value": _ENDS[potential], "error": 3e-12, "source": _SOURCE}
    }
    return Draft(
        system=system,
        state0=system.start(jnp.stack((x[0], x[0] + l[0] + w, x[1])), jnp.stack((rates[0], rates[0], rates[1]))),
        outputs={**system.outputs(), "positions": positions},
        invariants=system.invariants(),
        reference=reference,
        independent_of=("potential",),
        integrator="eml",
        h=0.1,
        scene=_scene(w, positions),
    )


def _scene(width: Array, positions: Any) -> Scene:
    def pose(row: int, forward: Array) -> Any:
        forward = forward * jnp.array([1.0, 0.0, 0.0])
        return lambda t, state: (positions(t, state)[row] + forward, jnp.eye(3))

    size = jnp.ones(3) * width
    springs = (
        Line("first spring", lambda t, state: jnp.stack((jnp.zeros(3), positions(t, state)[0])), coil=True),
        Line("second spring", lambda t, state: positions(t, state), coil=True),
    )
    return Scene(
        parts=(
            *springs,
            Body("first mass", "box", size, pose(0, 0.5 * width)),
            Body("second mass", "box", size, pose(1, 0.5 * width)),
        )
    )
