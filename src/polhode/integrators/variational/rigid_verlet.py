"""Verlet's method for bodies of any shape: kicks by the loads, and free rotation that keeps angular momentum."""

from __future__ import annotations

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from polhode import checks
from polhode.integrators.base import Carry, StepInfo
from polhode.integrators.variational._kick_drift import AbstractKickDrift, unpack
from polhode.result_codes import Result
from polhode.spaces.component_arrays import (
    Quaternions,
    Vectors,
    add,
    add_scaled,
    conjugate,
    cross,
    dot,
    map_components,
    multiply,
    rate_of,
    rotate,
    scale,
    spin_of,
    unit,
)
from polhode.systems.base import State
from polhode.systems.separable import AbstractSeparable, PoseComponents, Rates

Drift = Literal["splitting", "moser-veselov"]

_ROUNDS = 12
"""Newton iterations of a free rotation; far more than a turn of one radian needs."""

_RESIDUAL_TOLERANCE = 1e-13


class RigidVerlet(AbstractKickDrift):
    r"""Kicks of linear and angular momentum, with free motion in between, for bodies with three moments of inertia.

    $$\pi^+ = \pi_0 + \tfrac h2\tau_0,\quad x_1 = x_0 + hv^+,\quad R_1 = R_0F(R_0^T\pi^+),\quad
    \pi_1 = \pi^+ + \tfrac h2\tau_1$$

    for the angular momentum π = R J Rᵀ Ω in the inertial frame, which free rotation leaves alone. F is

    - "splitting": turns about the axes of the body, 1, 2, 3, 2, 1 with ½, ½, 1, ½, ½ of the step, each with the angular
      momentum that its body has then: explicit.
    - "moser-veselov": the discrete free body $h\,\widehat{m} = FJ_d - J_dF^T$, $J_d = \tfrac12\mathrm{tr}J - J$; with
      F = cay(c) this is $\tfrac h2(1+|c|^2)\,m = Jc + c\times Jc$ (half-angle tangents c), which Newton's method solves
      for each body by itself.

    - Order: 2. Symmetric: a step with -h undoes one with h.
    - Preserves: the symplectic form; Σmv and Σ(x × mv + π) where the system does, to round-off; |π| of a free body; the
      energy without drift at steps that resolve the rotation.
    - Interpolation: cubic for places; attitudes turn evenly within a step.
    - Result codes: `newton_not_converged` where a body turns too far in a step, `nonfinite_state`, the system's own.

    Spherical bodies are accepted, but `Rodrigues` does the same at less cost; contacts with history are for bodies with
    three moments, `particles.Clumps`. Loads that depend on velocities are refused.

    **Arguments:**

    - `drift`: how bodies turn freely.

    ??? cite "Reference"
        A. Dullweber, B. Leimkuhler, R. McLachlan, Symplectic splitting methods for rigid body molecular dynamics,
        J. Chem. Phys. 107 (1997); J. Moser, A. Veselov, Discrete versions of some classical integrable systems,
        Commun. Math. Phys. 139 (1991).
    """

    drift: Drift = eqx.field(static=True, default="splitting")

    def __check_init__(self) -> None:
        checks.choice("drift", self.drift, ("splitting", "moser-veselov"))

    def check(self, system: AbstractSeparable, t: Any, state: State) -> None:
        if system.damped:
            raise ValueError("`rigid-verlet` takes no loads that depend on velocities. Use `rodrigues`.")
        if system.has_history and system.spherical:
            raise ValueError("`rigid-verlet` takes contacts with history of `Clumps` only. Use `rodrigues`.")

    def step(self, system: AbstractSeparable, t: Array, h: Array, carry: Carry) -> tuple[Carry, StepInfo]:
        bodies = unpack(carry)
        h = jnp.asarray(h, bodies.v[0].dtype)
        J = (system.inertias,) * 3 if system.spherical else tuple(system.inertias[:, k] for k in range(3))
        x, q = bodies.places
        force, moment = bodies.memory.loads
        v = add_scaled(bodies.v, 0.5 * h / system.masses, force)
        spin = add_scaled(spin_of(J, q, bodies.omega), 0.5 * h, moment)
        turn = _splitting_drift if self.drift == "splitting" else _moser_veselov_drift
        end, failed = turn(h, J, q, rotate(conjugate(q), spin))
        places = PoseComponents(add_scaled(x, h, v), end)
        if system.has_history:
            first, last = rate_of(J, q, spin), rate_of(J, end, spin)
            bodies = bodies._replace(v=v, omega=scale(0.5, add(first, last)))
            bodies = bodies.at(system, places, t, h, q, (Rates(v, first), Rates(v, last)))
        else:
            bodies = bodies.at(system, places, t, h)
        force, moment = bodies.memory.loads
        spin = add_scaled(spin, 0.5 * h, moment)
        bodies = bodies._replace(v=add_scaled(v, 0.5 * h / system.masses, force), omega=rate_of(J, end, spin))
        system_code = bodies.memory.around.result
        code = jnp.where(failed, int(Result.newton_not_converged), system_code).astype(jnp.int32)
        return bodies.pack(system), StepInfo(result=code)


def _splitting_drift(h: Array, J: Vectors, q: Quaternions, m: Vectors) -> tuple[Quaternions, Any]:
    """Turns about one axis of the body after the other; m: angular momentum in the body."""
    for axis, share in ((0, 0.5), (1, 0.5), (2, 1.0), (1, 0.5), (0, 0.5)):
        half = 0.5 * share * h * m[axis] / J[axis]
        c, s = jnp.cos(half), jnp.sin(half)
        zero = jnp.zeros_like(s)
        turn = (c, *(s if k == axis else zero for k in range(3)))
        q = multiply(q, turn)
        m = rotate(conjugate(turn), m)
    return unit(q), jnp.zeros((), bool)


def _moser_veselov_drift(h: Array, J: Vectors, q: Quaternions, m: Vectors) -> tuple[Quaternions, Any]:
    """The turn by c with ½h(1 + |c|²) m = J c + c × J c."""
    half = scale(0.5 * h, m)

    def residual(c: Vectors) -> Vectors:
        Jc = map_components(jnp.multiply, J, c)
        return tuple(a + b - (1 + dot(c, c)) * d for a, b, d in zip(Jc, cross(c, Jc), half, strict=True))

    def better(c: Vectors, _: Any) -> tuple[Vectors, None]:
        # Columns of the derivative, and Cramer's rule.
        zero, one = jnp.zeros_like(c[0]), jnp.ones_like(c[0])
        columns = []
        for k in range(3):
            e = tuple(one if i == k else zero for i in range(3))
            columns.append(jax.jvp(residual, (c,), (e,))[1])
        a, b, d = columns
        r, bd = residual(c), cross(b, d)
        det = dot(a, bd)
        delta = dot(r, bd) / det, dot(a, cross(r, d)) / det, dot(a, cross(b, r)) / det
        return add_scaled(c, -1.0, delta), None

    guess = map_components(lambda a, b: a / b, half, J)
    c, _ = jax.lax.scan(better, guess, None, length=_ROUNDS)
    remainder, size = residual(c), map_components(jnp.multiply, J, guess)
    failed = ~jnp.all(
        dot(remainder, remainder) <= (_tolerance(remainder[0]) ** 2) * (dot(size, size) + dot(half, half))
    )
    # Not finite states have a code of their own.
    failed = failed & jnp.all(jnp.isfinite(dot(half, half)))
    return unit(multiply(q, (jnp.ones_like(c[0]), *c))), failed


def _tolerance(like: Array) -> float:
    return _RESIDUAL_TOLERANCE if like.dtype == jnp.float64 else 1e-5
