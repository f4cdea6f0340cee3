"""The nonsmooth generalized-α method."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool

from polhode.contact.contact_problem import OPEN
from polhode.integrators.base import AbstractIntegrator, Carry, StepInfo
from polhode.integrators.implicit._alpha_coefficients import Coefficients
from polhode.integrators.implicit._alpha_equations import Prediction
from polhode.integrators.nonsmooth.alpha_memory import AlphaMemory
from polhode.integrators.nonsmooth.alpha_place import AlphaStep
from polhode.integrators.nonsmooth.alpha_rounds import AlphaRound, iterate
from polhode.integrators.nonsmooth.contact_identity import identities
from polhode.integrators.nonsmooth.contact_record import ContactRecord, contacts_of, size_of
from polhode.integrators.nonsmooth.time_stepper import AbstractTimeStepper, between, without_numbers
from polhode.result_codes import Result
from polhode.systems.base import State
from polhode.systems.mechanical import AbstractMechanical

_ROUND_OFF = 1e-10
"""Speed, relative to the largest velocity, from which a contact approaches at the start."""

_FAILED = 1e-8
"""Change of velocities, relative to them, above which a step has failed after all rounds."""

_MISSED = 1e4
"""The same in parts of round-off of positions in a step."""

_INSIDE = 1e-10
"""Residual of joints, and depth of contacts in parts of the largest position, above which a step has failed."""


class NonsmoothGeneralizedAlpha(AbstractTimeStepper):
    r"""The nonsmooth generalized-α method: the form of `generalized-alpha` for bodies that touch.

    Contacts that stay closed, and joints, have forces λ in a smooth motion, on the level of accelerations; a and λ̄ are
    what the filter of generalized-α makes of v̇ and λ:

    $$M\dot v = f - B^T\lambda^B + W^T\lambda,\quad
    \tilde q = \mathrm{move}\bigl(q_0,\ hv_0 + h^2((\tfrac12-\beta)a_0 + \beta a_1)\bigr),\quad
    \tilde v = v_0 + h((1-\gamma)a_0 + \gamma a_1)$$

    What positions and velocities lack after it follows from two more problems, with M* = M + hγ′C + cK:

    $$q_1 = \mathrm{move}(\tilde q, U),\quad
    M^*U = -B^T\nu + W_N^T(\kappa - \bar\kappa) + \tfrac h2W_T^T(P_T - \bar P_T),\quad
    \Phi(q_1) = 0,\quad 0 \le g(q_1) \perp \kappa \ge 0,$$

    $$v_1 = \tilde v + V,\quad M^*V = -B^T\Lambda + W^T(P - \bar P),\quad B_1v_1 + \partial_t\Phi = 0,
    \quad \text{laws of impact and friction between } P \text{ and } v_1,$$

    where κ̄ and P̄ are those of λ̄.

    - Order: 2 for q, v, multipliers and P/h in smooth motion, sticking, sliding along curves and rolling included; 1
      across impacts and where sliding turns back.
    - Preserves: gaps and joints to round-off at the ends of steps, positions and velocities; at rest everything. It
      makes no claim of energy: high frequencies lose some, and steps in which contacts change their modes may gain a
      little.
    - Stiff springs and dampers don't bound the step: what they make of impacts is damped by `rho_inf`, while methods
      of midpoints go on to ring.
    - A bounce that would be shorter than the step is none: so impacts that accumulate come to rest.
    - Derivatives: of the steps at fixed modes.
    - Steps are constant. Each takes 1 to 10 rounds: in each one iteration of Newton's method for every problem.
    - Coordinates whose rates are their velocities: absolute ones, those of joints, of rods and of flexible bodies.
    - Result codes: `contact_unsolved`, `contact_missed`, `newton_not_converged`, `too_many_contacts`,
      `nonfinite_state`.

    **Arguments:**

    - `rho_inf`: spectral radius at infinite frequency, in [0, 1].
    - `smooth_contacts`: whether contacts that stay closed have forces in the smooth motion. Without them contacts have
      impulses alone: of order 1 where they last, with rounds that cost less.
    - `max_rounds`: of the iteration in a step. - `tolerance`: of contact problems, relative.

    ??? cite "Reference"
        O. Brüls, V. Acary, A. Cardona, Simultaneous enforcement of constraints at position and velocity levels in the
        nonsmooth generalized-α scheme, Comput. Methods Appl. Mech. Engrg. 281 (2014); A. Cosimo, J. Galvez,
        F. J. Cavalieri, A. Cardona, O. Brüls, A robust nonsmooth generalized-α scheme for flexible systems with
        impacts, Multibody Syst. Dyn. 48 (2020).
    """

    one_step: ClassVar = False
    takes_holds: ClassVar = True

    rho_inf: float = eqx.field(static=True, default=0.9)
    smooth_contacts: bool = eqx.field(static=True, default=True)
    max_rounds: int = eqx.field(static=True, default=100)
    tolerance: float = eqx.field(static=True, default=1e-10)

    def promises_for(self, system: AbstractMechanical, state: State) -> dict[str, str]:
        return AbstractIntegrator.promises_for(self, system, state)

    @property
    def coefficients(self) -> Coefficients:
        """α_m, α_f, β and γ."""
        return Coefficients.optimal(self.rho_inf)

    def check(self, system: AbstractMechanical, t: Any, state: State) -> None:
        del t, state
        if not system.identity_kinematics:
            raise ValueError("velocities of these coordinates are not their rates; `moreau` takes them")

    starts_by_trial: ClassVar = False

    def init(self, system: AbstractMechanical, t: Array, h: Array, state: State) -> Carry:
        k, rows = size_of(system)
        present = contacts_of(system).present(system, t, state[0])
        memory = AlphaMemory.at_start(system.n, identities(contacts_of(system), present), max(rows, 3), k)
        # A step of no length has the accelerations and the forces of its start.
        last = self._iterate(system, t, jnp.zeros_like(h), state, memory)
        end = last.place
        # What arrives at the start has its impact in the first step.
        speed = present.kinematics.rows[:, 0] @ state[1] + present.kinematics.drift[:, 0]
        arrives = speed < -_ROUND_OFF * jnp.max(jnp.abs(state[1]), initial=0.0)
        mode = jnp.where(arrives & ~present.kinematics.held_slots(), OPEN, last.mode)
        impulses = jnp.where(arrives[:, None], 0.0, end.contacts.impulses)
        first = memory._replace(
            vdot=last.x.vdot, labels=last.labels, mode=mode, contacts=end.contacts._replace(impulses=impulses)
        )
        return Carry(state, first, ContactRecord(end.forces, end.slips, memory.dissipation).pack(end.joints))

    def _iterate(self, system: AbstractMechanical, t: Array, h: Array, state: State, memory: AlphaMemory) -> AlphaRound:
        (q, v), c = state, self.coefficients
        a = memory.vdot + h * memory.shift
        a_explicit = c.explicit(memory.vdot, a)
        prediction = Prediction(
            t + h, q, h * v + c.displacement(h, a, a_explicit), v + c.increment(h, a, a_explicit),
            position=h * h * (c.beta * c.ratio), velocity=h * (c.gamma * c.ratio),
        )  # fmt: skip
        step = AlphaStep(system, c, h, q, v, prediction, memory, self.smooth_contacts, self.tolerance)
        return iterate(step, self.max_rounds)

    def _advance(
        self,
        system: AbstractMechanical,
        t: Array,
        h: Array,
        state: State,
        memory: AlphaMemory,
        pressed: Bool[Array, " c"],
    ) -> tuple[Carry, StepInfo]:
        del pressed
        last = self._iterate(system, t, h, state, memory)
        end, taken = last.place, memory.dissipation + last.place.taken
        left = AlphaMemory(last.x.vdot, end.shift, last.labels, last.mode, end.contacts, taken)
        multipliers = ContactRecord(end.impulses / h, end.slips, taken).pack(end.joints)
        info = StepInfo(_result(system, t + h, last), newton_iterations=last.number, residual=last.change)
        return Carry((end.q, end.v), left, multipliers), info

    def interpolate(
        self, system: AbstractMechanical, t: Array, h: Array, carry0: Carry, carry1: Carry, s: Array
    ) -> State:
        """Along the motion of the step, with velocities between those of its ends."""
        del t, h
        return between(system, carry0.state, carry1.state, s)


def _result(system: AbstractMechanical, end: Array, last: AlphaRound) -> Array:
    q, v = last.place.q, last.place.v
    open_by = jnp.max(jnp.abs(system.constraint(end, q))) if system.m else jnp.zeros(())
    failed = last.change > _FAILED * last.size + _MISSED * last.noise
    failed = failed | (jnp.maximum(last.depth, open_by) > _INSIDE)
    code = jnp.where(failed, int(Result.newton_not_converged), 0)
    code = jnp.where(last.solved, code, int(Result.contact_unsolved))
    code = jnp.where(last.missed, int(Result.contact_missed), code)
    code = jnp.where(last.left_out, int(Result.too_many_contacts), code)
    return without_numbers(code, v, last.hold)
