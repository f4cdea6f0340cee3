"""The N-fold spherical pendulum on (TS²)^N."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.problem import Reference
from polhode.problems.chain_dynamics import ChainDynamics, Scalars, Vectors
from polhode.problems.declaration import Count, Draft, Number, Positive, declare
from polhode.spaces import TS2, Power
from polhode.spaces.base import cross
from polhode.systems.base import State
from polhode.systems.vector_field import VectorField
from polhode.viewing.scene.scene import Body, Line, Scene, Trail

_DOC = """N point masses on massless rods, hanging from a fixed point as a chain, e₃ upwards.

The state is (q, ω), each (n, 3): rod directions and their angular velocities with |q_i| = 1, q_i·ω_i = 0, on (TS²)^n
with SE(3)^n acting; every method of the action keeps both conditions to round-off. Rod i leads from mass i-1 (or the
fixed point) to mass i along q_i.

Source: E. Celledoni, E. Çokaj, A. Leone, D. Murari & B. Owren, *Lie group integrators for mechanical systems*, §5.
Lengths: `unit` (1 each), `fixed-total` (5/n each), a number or n numbers. Starts: `paper` (q_i = (√2/2, 0, √2/2),
ω_i = (0, 1, 0); a planar motion), `level` (q_i = (1, 0, 0), at rest), or the arrays `q`, `omega`.
"""

_LENGTHS: dict[str, Callable[[int], float]] = {"unit": lambda n: 1.0, "fixed-total": lambda n: 5.0 / n}
_STARTS = {
    "paper": ((2**-0.5, 0.0, 2**-0.5), (0.0, 1.0, 0.0)),
    "level": ((1.0, 0.0, 0.0), (0.0, 0.0, 0.0)),
}


@declare("pendulum-chain", _DOC)
def pendulum_chain(
    n: Count = 2,
    length: Any = "unit",
    start: str = "paper",
    q: Any = None,
    omega: Any = None,
    masses: Any = 1.0,
    gravity: Number = 9.81,
    duration: Positive = 3.0,
) -> Draft:
    """The N-fold spherical pendulum.

    **Arguments**, in SI units:

    - `n`: number of rods.
    - `length`: "unit", "fixed-total", a number or an array (n,).
    - `start`: "paper" or "level"; overridden by `q` and `omega`.
    - `q`, `omega`: directions and angular velocities at t = 0, shape (n, 3), or None.
    - `masses`: a number or an array (n,).
    - `gravity`: gravitational acceleration towards -e3.
    - `duration`: end time.
    """
    dynamics = ChainDynamics(
        masses=_per_rod("masses", masses, n, "masses of the bobs"),
        lengths=_per_rod("length", _named_length(length, n), n, "rod lengths, or `unit` or `fixed-total`"),
        gravity=gravity,
    )
    directions, rates = (np.tile(row, (n, 1)) for row in _STARTS[checks.choice("start", start, _STARTS)])
    directions = directions if q is None else q
    rates = rates if omega is None else omega
    q0 = checks.unit_vectors("q", directions, (n, 3), "rod directions")
    omega0 = checks.tangent_vectors("omega", rates, directions, "angular velocities of the rods")
    is_benchmark = start == "paper" and isinstance(length, str) and length == "unit" and q is None and omega is None
    return Draft(
        system=VectorField(Power(TS2(), n), dynamics),
        state0=(q0, omega0),
        outputs={
            "directions": lambda t, state: state[0],
            "angular_velocities": lambda t, state: state[1],
            "positions": lambda t, state: positions(dynamics, state),
        },
        invariants={
            "energy": lambda t, state: energy(dynamics, state),
            "vertical_angular_momentum": lambda t, state: vertical_angular_momentum(dynamics, state),
        },
        reference=_reference(n, masses, gravity) if is_benchmark else {},
        integrator="rkmk4",
        h=1e-3,
        scene=_scene(dynamics),
    )


def _named_length(length: Any, n: int) -> Any:
    return _LENGTHS[checks.choice("length", length, _LENGTHS)](n) if isinstance(length, str) else length


def _per_rod(name: str, value: Any, n: int, description: str) -> Scalars:
    """One number for all rods or one for each."""
    if checks.shape(name, value, description) == ():
        return jnp.broadcast_to(checks.positive(name, value, (), description), (n,))
    return checks.positive(name, value, (n,), f"{description}; a number or one for each of the {n} rods")


def positions(dynamics: ChainDynamics, state: State) -> Vectors:
    """Positions of the masses, (n, 3)."""
    return jnp.cumsum(dynamics.lengths[:, None] * state[0], axis=0)


def velocities(dynamics: ChainDynamics, state: State) -> Vectors:
    """Velocities of the masses, (n, 3)."""
    q, omega = state
    return jnp.cumsum(dynamics.lengths[:, None] * jax.vmap(cross)(omega, q), axis=0)


def energy(dynamics: ChainDynamics, state: State) -> Float[Array, ""]:
    """Kinetic energy of the masses plus their potential energy above the fixed point."""
    speeds = jnp.sum(velocities(dynamics, state) ** 2, axis=1)
    heights = positions(dynamics, state)[:, 2]
    return jnp.sum(dynamics.masses * (0.5 * speeds + dynamics.gravity * heights))


def vertical_angular_momentum(dynamics: ChainDynamics, state: State) -> Float[Array, ""]:
    """Angular momentum about the vertical through the fixed point."""
    x, v = positions(dynamics, state), velocities(dynamics, state)
    return jnp.sum(dynamics.masses * (x[:, 0] * v[:, 1] - x[:, 1] * v[:, 0]))


def _reference(n: int, masses: Any, gravity: Any) -> dict[str, Reference]:
    if n != 2 or not checks.is_concrete(masses, gravity) or np.any(np.asarray(masses) != 1.0) or gravity != 9.81:
        return {}
    source = "DOP853 at relative tolerance 1e-12 on the dense equations in the angular velocities"
    q = ((0.7139974591, 0.0, 0.7001482903), (-0.5777064140, 0.0, 0.8162446320))
    omega = ((0.0, -0.9658818133, 0.0), (0.0, 1.2891476897, 0.0))
    return {
        "directions": {"t": 3.0, "value": q, "error": 1e-8, "source": source},
        "angular_velocities": {"t": 3.0, "value": omega, "error": 1e-7, "source": source},
    }


def _scene(dynamics: ChainDynamics) -> Scene:
    n = len(dynamics.masses)
    radius = 0.06 * jnp.sum(dynamics.lengths) / n

    def bob(i: int) -> Body:
        def pose(t: Array, state: State) -> tuple[Array, Array]:
            return positions(dynamics, state)[i], jnp.eye(3)

        return Body(f"mass {i + 1}", "ellipsoid", 2 * radius * jnp.ones(3), pose)

    def rods(t: Array, state: State) -> Array:
        return jnp.concatenate((jnp.zeros((1, 3)), positions(dynamics, state)))

    return Scene(parts=(Line("rods", rods), *(bob(i) for i in range(n)), Trail("positions", index=n - 1)))
