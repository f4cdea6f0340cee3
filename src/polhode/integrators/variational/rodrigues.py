"""Explicit variational integrators with rescaled Rodrigues vectors."""

from __future__ import annotations

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from polhode import checks
from polhode.checks import short_repr
from polhode.integrators.base import Carry, StepInfo
from polhode.integrators.implicit._equations import AbstractEquations, Residual
from polhode.integrators.implicit._newton import Newton, solve
from polhode.integrators.variational._kick_drift import AbstractKickDrift, Bodies, Kick, apply_drag, apply_kick, unpack
from polhode.linalg.blocks import dense_block
from polhode.linalg.solver_choice import kkt_solver
from polhode.result_codes import Result
from polhode.spaces.component_arrays import Vectors, add_scaled, conjugate, dot, rotate, rotate_by_rodrigues, scale
from polhode.systems.base import State
from polhode.systems.separable import AbstractSeparable, Loads, PoseComponents

Map = Literal["21", "23", "25", "26", "27", "exponential"]

_MAPS = ("21", "23", "25", "26", "27", "exponential")
_FLOOR = 1e-14
_DENSE = 400


class Rodrigues(AbstractKickDrift):
    r"""Kicks by the loads and turns by rescaled Rodrigues vectors α, |α| = 2 tan(θ/2), for spherical bodies.

    $$\Omega^+ = \Omega_0 + \tfrac h{2J}\tau_0,\quad R_1 = R(\kappa h\Omega^+)R_0,\quad
    \Omega_1 = \Omega^+ + \tfrac h{2J}\tau_1$$

    and the same for places. The maps, by the numbers of their equations in the paper:

    - "23": $\kappa = 2/(1+\sqrt{1-h^2|\Omega^+|^2})$, from a discrete Lagrangian; turns by arcsin(h|Ω|), so it needs
      h|Ω| < 1. "21": the same with angular velocities and moments in the frames of the bodies.
    - "25": κ = 1, as Newmark's method; turns by 2 arctan(h|Ω|/2), any step.
    - "exponential": turns by h|Ω|, for comparison.
    - "27": full kicks by the loads at the start, then κ = 1 (symplectic Euler).
    - "26": full kicks by φ times the loads at the start and 1 - φ times those at the end, then κ = 1 with the new
      velocities: implicit unless φ = 1, which is "27". Solved by Newton's method with a dense matrix, so for some
      hundred bodies at most, without damping.

    For spherical bodies each but "26" is a splitting with a drift that is the exact flow of a kinetic energy of |JΩ|:
    symplectic, whatever the rotation. Attitudes are kept as unit quaternions, so turns through π and any number of
    turns need no switch.

    - Order: 2 for "21", "23", "25" and "exponential"; 1 for "27" and, whatever φ, for "26".
    - Preserves: Σmv and ΣJΩ to round-off where the system does, and but for "26" Σ(x × mv + JΩ) as well, the
      symplectic form, and the energy without drift at steps that resolve the motion.
    - Explicit but for "26".
    - Interpolation: cubic for places; attitudes turn evenly within a step.
    - Result codes: `turn_too_large`, `nonfinite_state`, those of the system, and `newton_not_converged` for "26".

    **Arguments:**

    - `map`: which. - `phi`: φ in [0, 1] of "26".
    - `max_iterations`: of Newton's method in a step of "26".

    ??? cite "Reference"
        C. Baker, M. Gonzalez, Explicit variational time integrator based on rescaled Rodrigues parameters, equations
        (21), (23) and (25)–(27); the last two after E. Campello.
    """

    map: Map = eqx.field(static=True, default="25")
    phi: float = eqx.field(static=True, default=0.5)
    max_iterations: int = eqx.field(static=True, default=25)

    def __check_init__(self) -> None:
        checks.choice("map", self.map, _MAPS)
        if isinstance(self.phi, bool) or not (isinstance(self.phi, float | int) and 0 <= self.phi <= 1):
            raise ValueError(f"`phi` must be a number in [0, 1], got {short_repr(self.phi)}; 1 is explicit.")
        checks.count("max_iterations", self.max_iterations, "Newton iterations in a step")

    @property
    def order(self) -> int:
        return 1 if self.map in ("26", "27") else 2

    @property
    def symmetric(self) -> bool:
        return self.order == 2

    def promises_for(self, system: AbstractSeparable, state: State) -> dict[str, str]:
        promises = super().promises_for(system, state)
        if self.implicit:
            promises = {name: level for name, level in promises.items() if name not in ("energy", "angular_momentum")}
        return promises

    @property
    def implicit(self) -> bool:
        return self.map == "26" and self.phi != 1

    def check(self, system: AbstractSeparable, t: Any, state: State) -> None:
        if not system.spherical:
            raise ValueError(
                "`rodrigues` is for spherical bodies, with one moment of inertia each; these have three. Use "
                "`rigid-verlet`."
            )
        if self.map == "26" and system.n > _DENSE:
            raise ValueError(
                f"map='26' solves dense equations, for at most {_DENSE} bodies; there are {system.n}. Use map='25'."
            )
        if self.map == "26" and system.masses.dtype != jnp.float64:
            raise ValueError("map='26' solves equations to 1e-14, so it needs dtype='float64'. Use map='25'.")
        if self.map == "26" and system.damped:
            raise ValueError("map='26' takes no loads that depend on velocities. Use map='25'.")
        if self.map in ("26", "27") and system.has_history:
            raise ValueError(f"map='{self.map}' takes no contacts with history. Use map='25'.")

    def step(self, system: AbstractSeparable, t: Array, h: Array, carry: Carry) -> tuple[Carry, StepInfo]:
        if self.map == "26":
            return self._implicit_step(system, t, h, carry)
        bodies = unpack(carry)
        h = jnp.asarray(h, bodies.v[0].dtype)
        once = self.map == "27"
        part = h if once else 0.5 * h
        before = bodies.places
        bodies = apply_drag(system, apply_kick(system, bodies, part, self._kick(before)), part)
        half, code = self._half_turn(h, bodies.omega)
        bodies = bodies.at(
            system, PoseComponents(add_scaled(before.x, h, bodies.v), rotate_by_rodrigues(half, before.q)), t, h
        )
        if not once:
            bodies = apply_kick(system, apply_drag(system, bodies, part), part, self._kick(bodies.places))
        system_code = bodies.memory.around.result
        return bodies.pack(system), StepInfo(result=jnp.where(code != 0, code, system_code))

    def _kick(self, places: PoseComponents) -> Kick:
        """The change of angular velocities by loads: (21) has it in the frames of the bodies."""
        if self.map != "21":
            return add_scaled
        q, back = places.q, conjugate(places.q)
        return lambda omega, weight, moment: rotate(q, add_scaled(rotate(back, omega), weight, rotate(back, moment)))

    def _half_turn(self, h: Array, omega: Vectors) -> tuple[Vectors, Array]:
        """½ Δα, and the result code where the map doesn't cover the turn."""
        square = h * h * dot(omega, omega)
        fine = jnp.zeros((), jnp.int32)
        if self.map in ("25", "26", "27"):
            return scale(0.5 * h, omega), fine
        if self.map == "exponential":
            angle = jnp.sqrt(jnp.where(square > 1e-8, square, 1.0))
            ratio = jnp.where(square > 1e-8, jnp.tan(0.5 * angle) / angle, 0.5 + square / 24)
            return scale(h * ratio, omega), fine
        small = square < 1
        root = jnp.sqrt(jnp.where(small, 1 - square, 1.0))
        code = jnp.where(jnp.all(small | ~jnp.isfinite(square)), 0, int(Result.turn_too_large)).astype(jnp.int32)
        return scale(h / (1 + root), omega), code

    def _implicit_step(self, system: AbstractSeparable, t: Array, h: Array, carry: Carry) -> tuple[Carry, StepInfo]:
        bodies = unpack(carry)
        equations = _Campello(system, t, h, bodies, self.phi)
        guess = equations.velocities(bodies.memory.loads)
        solution = solve(equations, guess, None, Newton("full", _FLOOR, _FLOOR, self.max_iterations))
        end = equations.bodies_after(solution.x)
        info = StepInfo(
            result=jnp.where(solution.result != 0, solution.result, end.memory.around.result),
            newton_iterations=solution.iterations,
            residual=solution.residual,
        )
        return end.pack(system), info


class _Campello(AbstractEquations):
    """v₁ = v₀ + h/m (φF₀ + (1-φ)F₁) and the same for Ω, F₁ at the places that v₁ and Ω₁ lead to."""

    system: AbstractSeparable
    t: Array
    h: Array
    start: Bodies
    phi: float = eqx.field(static=True)

    def velocities(self, after: Loads) -> Array:
        """The six components of all velocities with loads `after` at the end of the step."""
        before, bodies = self.start.memory.loads, self.start
        mean = jax.tree.map(lambda a, b: self.phi * a + (1 - self.phi) * b, before, after)
        v = add_scaled(bodies.v, self.h / self.system.masses, mean.force)
        return jnp.concatenate((*v, *add_scaled(bodies.omega, self.h / self.system.inertias, mean.moment)))

    def bodies_after(self, x: Array) -> Bodies:
        """The bodies after a step with these velocities at its end."""
        parts, start = tuple(x.reshape(6, -1)), self.start.places
        places = PoseComponents(
            add_scaled(start.x, self.h, parts[:3]), rotate_by_rodrigues(scale(0.5 * self.h, parts[3:]), start.q)
        )
        return self.start._replace(v=parts[:3], omega=parts[3:]).at(self.system, places, self.t, self.h)

    def place(self, x: Array) -> Loads:
        return self.bodies_after(x).memory.loads

    def residual(self, place: Loads, x: Array) -> Residual:
        target = self.velocities(place)
        size = jnp.sqrt(jnp.sum(x * x)) + jnp.sqrt(jnp.sum(target * target))
        return Residual((x - target,), (size,), (size,))

    def factor(self, place: Loads, x: Array) -> Any:
        J = jax.jacfwd(lambda x: self.residual(self.place(x), x).parts[0])(x)
        return kkt_solver((), (), x.shape[0], 0).factor(dense_block(J), (), ())

    def correct(self, factors: Any, parts: tuple[Array, ...]) -> Array:
        return kkt_solver((), (), parts[0].shape[0], 0).solve(factors, -parts[0], jnp.zeros(0))[0]

    def negligible(self, place: Loads, correction: Array) -> Array:
        return self.h * jnp.max(jnp.abs(correction)) <= 8 * jnp.finfo(float).eps
