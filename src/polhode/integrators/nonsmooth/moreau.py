"""Moreau–Jean time stepping on Lie groups."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from polhode.contact.scales import Scales
from polhode.contact.solver import INCONSISTENT, SAME, solve
from polhode.contact.sparse.sparse_solver import ACCEPTED
from polhode.integrators.base import AbstractIntegrator, Carry, StepInfo, VelocityJump
from polhode.integrators.implicit._implicit_differentiation import freeze, with_implicit_derivative
from polhode.integrators.nonsmooth.contact_conditions import (
    CONVERGED,
    FAILED,
    FREE_ROUNDS,
    RUNS_AWAY,
    SETTLES,
    STEADY_ROUNDS,
)
from polhode.integrators.nonsmooth.contact_identity import Match, identities
from polhode.integrators.nonsmooth.contact_record import ContactMemory, ContactRecord, contacts_of, dissipation
from polhode.integrators.nonsmooth.long_ways import have_passed, radii_of
from polhode.integrators.nonsmooth.midpoint_laws import (
    End,
    Round,
    StepImpulses,
    find_closed,
    first_parts,
    pose_problem,
    slide_directions,
    spread_jams,
)
from polhode.integrators.nonsmooth.midpoint_step import (
    MidpointStep,
    constant_factors,
    move_freely,
    respond,
    touch_tolerance,
)
from polhode.integrators.nonsmooth.outlook import locate_impact, look_ahead, without_impact
from polhode.integrators.nonsmooth.sparse_moreau import SparseMoreau
from polhode.integrators.nonsmooth.time_stepper import AbstractTimeStepper, without_numbers
from polhode.result_codes import Result
from polhode.systems.base import AbstractSystem, State
from polhode.systems.mechanical import AbstractMechanical, Multipliers
from polhode.systems.mechanical.contact_set import PresentContacts


class Moreau(AbstractTimeStepper):
    r"""The Moreau–Jean method, θ = ½, on Lie groups: impacts, contacts and friction without events.

    With q½ = move(q₀, ½hv₀) and W, B, M there, v̄ = ½(v₀ + v₁), q̄ = move(q₀, ½hv̄):

    $$M(v_1 - v_0) = h f(t_{1/2}, \bar q, \bar v) - B^T\Lambda + W^T P,\quad B(q_1)v_1 + \partial_t\Phi = 0,\quad
    q_1 = \mathrm{move}(\mathrm{move}(q_{1/2}, \tau v_1 - \tau M^{-1}W^TP), (\tfrac h2 - \tau) v_1)$$

    and the laws between impulses P and relative velocities $u^- = Wv_0 + \chi$, $u^+ = Wv_1 + \chi$:
    $0 \le P_N \perp u_N^+ - \ell \ge 0$ and $P_T$ in the friction ellipse of $P_N$, against $u_T^+ + e_T u_T^-$.
    Without a bounce ℓ is such that the gap just closes at the middle of the next step, by the gap there and not by its
    rate alone. Such an impact lasts two steps, and friction obeys its law for the sum of both impulses. A bounce has
    $\ell = e\langle -u_N^-\rangle$. If nothing else that touches is coupled with it, it acts at its instant, τ after
    the middle: with W, u⁻ and u⁺ of that instant. τ = 0 for all others.

    - Order: 2 in smooth motion, sticking, sliding along curves and rolling included, and across bounces of bodies that
      touch nothing else; 1 across other impacts, and across bounces of spinning bodies in joint coordinates, whose
      gyroscopic forces change with the impact. Sliding that goes on takes the direction of the mean of u_T⁻ and u_T⁺
      for its friction, without which the order would be 1.
    - Preserves: joints to round-off, positions and velocities; at rest everything, to the last bits; the linear
      momentum of free systems with inertial velocities, and of spheres the angular one, through impacts. Impulses
      add no energy beyond round-off, but m(gh)²/8 where a body that separates falls back within a step, and where
      friction meets restitutions that differ (the audit measures it).
      Other forces are those of an implicit midpoint rule: no stability limit of linear springs and dampers.
    - A body that rolls or slides over flush seams of shapes feels nothing of them, with any step.
    - A bounce that would be shorter than the step is none: so impacts that accumulate come to rest. Nor is one that no
      impulse within the cone of friction gives, as of a lever that jams, or for which there is no room, as in a slit:
      what touches there stops.
    - Derivatives: of the steps at fixed modes, with those of the instants of bounces of bodies that touch nothing else.
      Of other bounces the step is held: positions after these have derivatives of the method, not of the motion.
    - Steps are constant. Each takes 2 to 4 rounds of a contact problem, which Newton's method solves.
    - Result codes: `contact_unsolved`, `contact_missed`, `too_many_contacts`, `newton_not_converged`,
      `nonfinite_state`.

    **Arguments:**

    - `max_rounds`: of the iteration for the velocity at the end of a step.
    - `tolerance`: of the contact problem, relative.
    - `heap_tolerance`: of many bodies in lists, the relative residual up to which a step is accepted after many sweeps
      (after 150 of them a hundredth of it). Steps beyond 1e-8 are counted by the audit, as `coarse_steps`. Smaller ones
      make heaps slower, and end runs by `contact_unsolved` where sweeps don't come so far.
    - `smoothing`: an energy κ, for optimisation. Contacts repel each other from afar, with a force κ/g at the gap g:
      what rests floats at κ over its weight. Friction rounds off where it would stick, so that held bodies creep. Then
      positions depend smoothly on parameters, and derivatives tell also how to make or to break a contact. The motion
      is that of the laws as κ → 0, of order 1 where friction turns; reduce κ while an optimiser goes on.

    ??? cite "Reference"
        J. J. Moreau, Unilateral contact and dry friction in finite freedom dynamics (1988); M. Jean, The non-smooth
        contact dynamics method, Comput. Methods Appl. Mech. Engrg. 177 (1999).
    """

    takes_holds: ClassVar = True
    takes_grips: ClassVar = True
    takes_bearings: ClassVar = True

    max_rounds: int = eqx.field(static=True, default=40)
    tolerance: float = eqx.field(static=True, default=1e-10)
    smoothing: float = eqx.field(static=True, default=0.0)
    heap_tolerance: float = eqx.field(static=True, default=ACCEPTED)

    def __check_init__(self) -> None:
        if not 0 < self.heap_tolerance < 1:
            raise ValueError(f"`heap_tolerance` is relative, between 0 and 1, got {self.heap_tolerance!r}.")
        if not 0 <= self.smoothing < float("inf"):
            raise ValueError(f"`smoothing` must be an energy, 0 for the laws themselves, got {self.smoothing!r}.")

    def check(self, system: AbstractMechanical, t: Any, state: State) -> None:
        del t, state
        is_listed = system.has_contacts and contacts_of(system).is_listed
        if self.heap_tolerance != ACCEPTED and not is_listed:
            raise ValueError(
                f"`heap_tolerance`, here {self.heap_tolerance!r}, is for many free bodies, whose contacts are in "
                "lists; contacts of these are solved to `tolerance`. Leave it out."
            )
        if self.smoothing and is_listed:
            raise ValueError(
                "`smoothing` is for contacts in fixed slots, and these bodies are so many that theirs are in lists; "
                "leave it out, or name the pairs that matter by `add_contact`"
            )

    def for_system(self, system: AbstractSystem) -> AbstractIntegrator:
        """The form for many bodies, where these are in lists."""
        listed = isinstance(system, AbstractMechanical) and system.has_contacts and contacts_of(system).is_listed
        if not listed or self.smoothing:
            return self
        return SparseMoreau(max_rounds=self.max_rounds, tolerance=self.tolerance, heap_tolerance=self.heap_tolerance)

    def _advance(
        self,
        system: AbstractMechanical,
        t: Array,
        h: Array,
        state: State,
        memory: ContactMemory,
        pressed: Bool[Array, " c"],
    ) -> tuple[Carry, StepInfo]:
        step, present, labels, guess = self._begin(system, t, h, state, memory, pressed)
        last = self._iterate(step, guess)
        (impulses, joints, before, after, jump), (v1, shift, _) = last.place, last.x
        q1, gap = step.end(v1, shift)
        slips, work = step.slips_at_end(v1), dissipation(impulses, before, after)
        rows = slips.shape[1]
        everywhere = present.spread(jnp.concatenate((impulses / h, slips, work), axis=1), contacts_of(system).count)
        taken = memory.dissipation + everywhere[:, 2 * rows :]
        record = ContactRecord(everywhere[:, :rows], everywhere[:, rows : 2 * rows], taken)
        left = ContactMemory(
            impulses, labels, taken, first_parts(step, impulses, step.slips(v1)), step.impact_share, jump
        )
        spheres = radii_of(contacts_of(system), present.number)
        missed = jnp.any(have_passed(h, step.contacts.gap, before, *spheres) & ~step.pressed)
        result = jnp.where(missed, int(Result.contact_missed), _result(step, last, gap))
        is_full = present.left_out <= jnp.max(step.touch_gap, initial=0.0)
        result = jnp.where(is_full, int(Result.too_many_contacts), result)
        carry = Carry((q1, v1), left, record.pack(joints / h))
        return carry, StepInfo(result.astype(jnp.int32), newton_iterations=last.number, residual=last.change)

    def _begin(
        self,
        system: AbstractMechanical,
        t: Array,
        h: Array,
        state: State,
        memory: ContactMemory,
        pressed: Bool[Array, " c"],
    ) -> tuple[MidpointStep, PresentContacts, Int[Array, " c"], Float[Array, "c rows"]]:
        """The data of a step, its contacts with their labels, and a guess of their impulses."""
        q, v = state
        middle, at = system.flow(q, v, 0.5 * h), t + 0.5 * h
        present = contacts_of(system).present(system, at, middle, h * v)
        labels = identities(contacts_of(system), present)
        match = Match.of(labels, memory.labels)
        guess, first_part = match.recall(memory.impulses), match.recall(memory.first_part)
        went_on = match.recall(jnp.where(pressed, 1.0, 0.0)) > 0
        scales = Scales.of(system, middle, present.number)
        bend, turn = look_ahead(system, at, h, state, middle, present, went_on, scales)
        step = MidpointStep(
            system, at, h, state, middle, system.mass(at, middle), system.jacobian(at, middle),
            contacts=present.kinematics, law=present.law, bend=bend, turn=turn,
            scales=scales, touch_gap=touch_tolerance(h, scales, present.kinematics, v), pressed=went_on,
            first_part=first_part,
            impact=without_impact(len(bend), system.n),
            smoothing=jnp.asarray(self.smoothing) if self.smoothing else None,
        )  # fmt: skip
        return locate_impact(step, present), present, labels, guess

    def _iterate(self, step: MidpointStep, guess: Float[Array, "k rows"]) -> Round:
        """The last round. Its derivative is that of the equation x = next round of x, with all modes as they are."""
        last = self._search(freeze(step), jax.lax.stop_gradient(guess))
        held = last._replace(may_slide=last.slides, number=jnp.asarray(FREE_ROUNDS))

        def equation(x: End) -> tuple[End, StepImpulses]:
            again = self._round(step, constant_factors(step), held._replace(x=x))
            return jax.tree.map(jnp.subtract, x, again.x), again.place

        return with_implicit_derivative(lambda *_: last, equation, lambda _, rest: rest, last.x, None)

    def _search(self, step: MidpointStep, guess: Float[Array, "k rows"]) -> Round:
        _, v = step.start
        none, slips = jnp.zeros(len(guess), bool), step.slips(v)
        place = StepImpulses(guess, jnp.zeros(step.system.m), slips, slips, jnp.zeros_like(v))
        start = End(v, jnp.zeros_like(v), _read(step, place.joints))
        no = jnp.asarray(False)
        first = Round(
            start, place, jnp.asarray(jnp.inf), jnp.zeros(()), ~no, none, none, none, keep=jnp.asarray(SAME), wedged=no,
            jammed=none, number=jnp.asarray(0),
        )  # fmt: skip

        # Friction of the first round knows no forces of joints.
        least = 2 if contacts_of(step.system).reads_joint_forces else 0

        def more(last: Round) -> Array:
            return ((last.change > CONVERGED * last.size) | (last.number < least)) & (last.number < self.max_rounds)

        factors = constant_factors(step)
        return jax.lax.while_loop(more, lambda last: self._round(step, factors, last), first)

    def _round(self, step: MidpointStep, factors: Any, last: Round) -> Round:
        (k, rows, _), (_, v0) = step.contacts.rows.shape, step.start
        step = step.with_friction_at(last.x.velocity, last.x.joints)
        free = move_freely(step, factors, last.x.velocity, last.x.shift)
        closed = find_closed(step, last, free.velocity)
        response = respond(step, free.factors, closed.acts)
        sliding = slide_directions(step, last, free.velocity, response.moved)
        columns = sliding.combine(response.moved)
        problem, first_part = pose_problem(step, free.velocity, closed, sliding, columns, last.jammed)
        solution = solve(problem, last.place.contacts + first_part, self.tolerance, last.keep)
        own = solution.impulses - first_part
        velocity = free.velocity + own.reshape(-1) @ columns
        # Rounds that jump between two states, as with stops that begin and end, settle between them.
        damps = (last.number >= STEADY_ROUNDS) & (last.number % 3 == 2)
        velocity = jnp.where(damps, 0.5 * (velocity + last.x.velocity), velocity)
        impulses = sliding.complete(own)
        delay = jnp.where(step.impact_rows, step.impact.delay[:, None], 0.0)
        shift = (delay * impulses).reshape(-1) @ response.moved
        joints = free.joints + impulses.reshape(-1) @ response.shares
        # Another round has the law at the end of the step alone; if that has none, others have it without bounces.
        size, change = step.norm(v0) + step.norm(free.velocity - v0), step.norm(velocity - last.x.velocity)
        slides = jnp.any(sliding.on)
        fails = ~solution.solved | (slides & ~(change <= RUNS_AWAY * size))
        jammed = jnp.where(fails & ~slides, spread_jams(last.jammed, solution.misses, problem), last.jammed)
        again = fails & (slides | jnp.any(jammed & ~last.jammed))
        change = jnp.where(again, jnp.inf, change)
        # Where directions of friction don't settle, as of slow sliding, the law at the end of the step takes over.
        doubtful = (last.number >= FREE_ROUNDS) & (last.number < STEADY_ROUNDS)
        settles = ~doubtful | (change <= SETTLES * last.change)
        # Loads work along the shift as well. Gyroscopic forces don't, though they change the velocity of an impact.
        lost = delay * (response.moved @ step.impact.loads).reshape(k, rows)
        jump = jnp.where(step.impact_rows, impulses, 0.0).reshape(-1) @ response.moved
        place = StepImpulses(impulses, joints, step.slips(v0) + lost, step.slips(velocity) + lost, jump)
        end = End(velocity, shift, _read(step, joints))
        # From what solves nothing no round should begin.
        end, place = jax.tree.map(lambda new, old: jnp.where(again, old, new), (end, place), (last.x, last.place))
        wedged, number = last.wedged | (fails & slides), last.number + 1
        # Impulses that no law determines would go on to change, and velocities with them by what is left of the laws.
        keeps = (number >= FREE_ROUNDS) & solution.solved & ~solution.determined
        least = jnp.where(number >= STEADY_ROUNDS, INCONSISTENT, SAME)
        keep = jnp.where(keeps, jnp.maximum(2 * solution.residual, least), SAME)
        return Round(
            end, place, change, size, solution.solved, sliding.on, sliding.on & settles, closed.reaches, keep, wedged,
            jammed, number,
        )  # fmt: skip

    def jump_within(self, system: AbstractMechanical, h: Array, carry0: Carry, carry1: Carry) -> VelocityJump | None:
        if not contacts_of(system).law.bounces:
            return None
        (q0, v0), (_, v1), impact = carry0.state, carry1.state, carry1.memory
        share, jump = impact.impact_share, impact.impact_jump
        gain = share * (v1 - jump - v0)
        # Along the parabola on which the impact has been located.
        instant = (share - 0.5) * h
        place = system.flow(system.flow(q0, v0, 0.5 * h), instant * v0 + 0.5 * share * h * gain, 1.0)
        return VelocityJump(share, (place, v0 + gain), (place, v0 + gain + jump))

    def interpolate(
        self, system: AbstractMechanical, t: Array, h: Array, carry0: Carry, carry1: Carry, s: Array
    ) -> State:
        """Along the motion of both halves of the step; velocities change in its middle."""
        del t
        (q0, v0), (q1, v1) = carry0.state, carry1.state
        middle, late, space = system.flow(q0, v0, 0.5 * h), jnp.maximum(s - 0.5, 0.0), system.configuration
        # Joints and impacts out of the middle change the end of this motion.
        change = space.difference(system.flow(middle, v1, 0.5 * h), q1)
        second = space.move(system.flow(middle, v1, late * h), 2 * late * change)
        first = system.flow(q0, v0, s * h)
        return jax.tree.map(lambda a, b: jnp.where(s < 0.5, a, b), (first, v0), (second, v1))


def _read(step: MidpointStep, joints: Multipliers) -> Multipliers:
    """Impulses of joints as far as friction grows with them."""
    return joints if contacts_of(step.system).reads_joint_forces else joints[:0]


def _result(step: MidpointStep, last: Round, gap: Array) -> Array:
    failed = (last.change > FAILED * last.size) | (gap > 1e-9)
    code = jnp.where(failed, int(Result.newton_not_converged), 0)
    code = jnp.where(last.solved, code, int(Result.contact_unsolved))
    return without_numbers(code, last.x.velocity, step.contacts.hold)
