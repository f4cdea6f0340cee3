"""Moreau–Jean time stepping on Lie groups."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from polhode.contact.contact_problem import ContactProblem
from polhode.contact.solver import solve
from polhode.integrators.base import Carry, StepInfo
from polhode.integrators.explicit.half_explicit_projection import explicit_rate
from polhode.integrators.implicit._implicit_differentiation import with_implicit_derivative
from polhode.integrators.nonsmooth.contact_record import ContactMemory, ContactRecord, contacts_of, dissipation
from polhode.integrators.nonsmooth.joint_projection import move_onto_joints
from polhode.integrators.nonsmooth.slide_directions import SlideDirections, against, narrow, persistent, slide
from polhode.integrators.nonsmooth.time_stepper import AbstractTimeStepper
from polhode.linalg.blocks import Matrix, apply, scale_matrix
from polhode.result_codes import Result
from polhode.spaces.base import Point, Vector
from polhode.systems.base import State
from polhode.systems.mechanical import AbstractMechanical, Multipliers
from polhode.systems.mechanical.contact_set import ContactKinematics, ContactLaw

_CLOSED = 1e-9
"""Gap, in the unit of length, up to which a contact counts as closed."""

_CONVERGED = 1e-13
"""Change of velocities from round to round, relative to them, at which rounds end."""

_FAILED = 1e-8
"""The same above which a step has failed after all rounds."""

_FREE_ROUNDS = 4
_STEADY_ROUNDS = 12
_SETTLES = 0.7
"""Ratio of changes of two rounds up to which directions of friction settle, after a few rounds."""


class _Impulses(NamedTuple):
    """Impulses of a step."""

    contacts: Float[Array, "k rows"]
    joints: Multipliers


class _Round(NamedTuple):
    """One round of the iteration for the velocity at the end of a step, x, with the impulses as `place`.

    - `slides`: contacts whose friction had a direction. - `may_slide`: those that may have one in the next round.
    """

    x: Vector
    place: _Impulses
    change: Array
    solved: Bool[Array, ""]
    slides: Bool[Array, " k"]
    may_slide: Bool[Array, " k"]
    number: Int[Array, ""]


class _Step(eqx.Module):
    """The data of a step, evaluated in its middle."""

    system: AbstractMechanical
    t: Array
    h: Array
    start: State
    middle: Point
    mass: Matrix
    columns: Matrix
    contacts: ContactKinematics
    law: ContactLaw
    pressed: Bool[Array, " k"]
    first_part: Float[Array, "k rows"]


class Moreau(AbstractTimeStepper):
    r"""The Moreau–Jean method, θ = ½, on Lie groups: impacts, contacts and friction without events.

    With q½ = move(q₀, ½hv₀) and W, B, M there, v̄ = ½(v₀ + v₁), q̄ = move(q₀, ½hv̄):

    $$M(v_1 - v_0) = h f(t_{1/2}, \bar q, \bar v) - B^T\Lambda + W^T P,\quad B(q_1)v_1 + \partial_t\Phi = 0,\quad
    q_1 = \mathrm{move}(q_{1/2}, \tfrac h2 v_1)$$

    and the laws between impulses P and relative velocities $u^- = Wv_0 + \chi$, $u^+ = Wv_1 + \chi$:
    $0 \le P_N \perp u_N^+ - \ell \ge 0$ and $P_T$ in the friction ellipse of $P_N$, against $u_T^+ + e_T u_T^-$. Here
    $\ell = e\langle -u_N^-\rangle$ for a contact that closes within the step, and $-g/h$ for one that does not bounce,
    so that it just closes at the middle of the next step: shapes do not enter each other beyond O(h²). Such an
    impact lasts two steps, and friction obeys its law for the sum of both impulses.

    - Order: 2 in smooth motion, sticking, sliding along curves and rolling included; 1 across impacts. Sliding that
      goes on takes the direction of the mean of u_T⁻ and u_T⁺ for its friction, without which the order would be 1.
    - Preserves: joints to round-off, positions and velocities; at rest everything, to the last bits; the linear
      momentum of free systems with inertial velocities, and of spheres the angular one, through impacts. Impulses
      add no energy beyond round-off, but m(gh)²/8 where a body that separates falls back within a step, and where
      friction meets restitutions that differ (the audit measures it).
      Other forces are those of an implicit midpoint rule: no stability limit of linear springs and dampers.
    - A bounce that would be shorter than the step is none: so impacts that accumulate come to rest.
    - Derivatives: of the steps at fixed modes. The step of a bounce is held, so a change of its time doesn't count:
      positions after bounces have the derivatives of the method, not those of the motion.
    - Steps are constant. Each takes 2 to 4 rounds of a contact problem, which Newton's method solves.
    - Result codes: `contact_unsolved`, `newton_not_converged`, `nonfinite_state`.

    **Arguments:**

    - `max_rounds`: of the iteration for the velocity at the end of a step.
    - `tolerance`: of the contact problem, relative.

    ??? cite "Reference"
        J. J. Moreau, Unilateral contact and dry friction in finite freedom dynamics (1988); M. Jean, The non-smooth
        contact dynamics method, Comput. Methods Appl. Mech. Engrg. 177 (1999).
    """

    max_rounds: int = eqx.field(static=True, default=40)
    tolerance: float = eqx.field(static=True, default=1e-10)

    def _advance(
        self,
        system: AbstractMechanical,
        t: Array,
        h: Array,
        state: State,
        memory: ContactMemory,
        pressed: Bool[Array, " c"],
    ) -> tuple[Carry, StepInfo]:
        q, v = state
        middle, at = system.flow(q, v, 0.5 * h), t + 0.5 * h
        present = contacts_of(system).present(system, at, middle)
        guess, _ = present.recall(memory.labels, memory.impulses)
        went_on, _ = present.recall(memory.labels, jnp.where(pressed, 1.0, 0.0))
        first_part, _ = present.recall(memory.labels, memory.first_part)
        step = _Step(
            system, at, h, state, middle, system.mass(at, middle),
            system.jacobian(at, middle), present.kinematics, present.law, went_on > 0, first_part,
        )  # fmt: skip
        last = self._iterate(step, guess)
        (impulses, joints), v1 = last.place, last.x
        q1, gap = _end(step, v1)
        before, after = _slips(step, v), _slips(step, v1)
        everywhere = lambda values: present.spread(values, contacts_of(system).count)  # noqa: E731
        taken = memory.dissipation + everywhere(dissipation(impulses, before, after))
        record = ContactRecord(everywhere(impulses / h), everywhere(after), taken)
        left = ContactMemory(impulses, present.labels, taken, _first_part(step, impulses, after))
        result = jnp.where(present.left_out <= _CLOSED, int(Result.too_many_contacts), _result(last, gap))
        carry = Carry((q1, v1), left, record.pack(joints / h))
        return carry, StepInfo(result.astype(jnp.int32), newton_iterations=last.number, residual=last.change)

    def _labels(self, system: AbstractMechanical, t: Array, h: Array, state: State) -> Int[Array, " c"]:
        q, v = state
        middle = system.flow(q, v, 0.5 * h)
        return contacts_of(system).present(system, t + 0.5 * h, middle).labels

    def _iterate(self, step: _Step, guess: Float[Array, "k rows"]) -> _Round:
        """The last round. Its derivative is that of the equation x = next round of x, with all modes as they are."""
        last = self._search(jax.tree.map(_freeze, step), jax.lax.stop_gradient(guess))
        held = last._replace(may_slide=last.slides, number=jnp.asarray(_FREE_ROUNDS))

        def equation(v: Vector) -> tuple[Vector, _Impulses]:
            again = self._round(step, _constant_factors(step), held._replace(x=v))
            return v - again.x, again.place

        return with_implicit_derivative(lambda *_: last, equation, lambda _, rest: rest, last.x, None)

    def _search(self, step: _Step, guess: Float[Array, "k rows"]) -> _Round:
        _, v = step.start
        size = 1.0 + jnp.max(jnp.abs(v), initial=0.0)
        none, place = jnp.zeros(len(guess), bool), _Impulses(guess, jnp.zeros(step.system.m))
        first = _Round(v, place, jnp.inf * size, jnp.asarray(True), none, none, jnp.asarray(0))

        def more(last: _Round) -> Array:
            scale = 1.0 + jnp.max(jnp.abs(last.x))
            return (last.change > _CONVERGED * scale) & (last.number < self.max_rounds)

        factors = _constant_factors(step)
        return jax.lax.while_loop(more, lambda last: self._round(step, factors, last), first)

    def _round(self, step: _Step, factors: Any, last: _Round) -> _Round:
        system, h, (q0, v0) = step.system, step.h, step.start
        mean = 0.5 * (v0 + last.x)
        place = system.flow(q0, mean, 0.5 * h)
        force = system.force(step.t, place, mean)
        unbalanced = h * force - apply(step.mass, last.x - v0, system.n)
        rate, rows = jnp.zeros(system.m), step.columns
        if system.m:
            q1, _ = _end(step, last.x)
            rows, end = system.jacobian(step.t + 0.5 * h, q1), step.t + 0.5 * h
            rate = -apply(rows, last.x, system.m) - explicit_rate(system, end, q1)
        if factors is None:
            # At the last velocity, as stops and dry friction may begin within the step.
            factors = _factor(step, _tangent(step, place, mean), rows)
        change, joints = system.kkt.solve(factors, unbalanced, rate)
        free = last.x + change
        W = step.contacts.rows.reshape(-1, system.n)
        none = jnp.zeros(system.m)
        moved, shares = jax.vmap(lambda row: system.kkt.solve(factors, row, none))(W)
        sliding = _slide_directions(step, last, free, moved)
        columns = sliding.combine(moved)
        problem, first_part = _problem(step, free, last, sliding, columns)
        solution = solve(problem, last.place.contacts + first_part, self.tolerance)
        own = solution.impulses - first_part
        velocity = free + own.reshape(-1) @ columns
        # Rounds that jump between two states, as with stops that begin and end, settle between them.
        damps = (last.number >= _STEADY_ROUNDS) & (last.number % 3 == 2)
        velocity = jnp.where(damps, 0.5 * (velocity + last.x), velocity)
        impulses = sliding.complete(own)
        joints = joints + impulses.reshape(-1) @ shares
        change = jnp.max(jnp.abs(velocity - last.x))
        # Where directions of friction don't settle, as of slow sliding, the law at the end of the step takes over.
        doubtful = (last.number >= _FREE_ROUNDS) & (last.number < _STEADY_ROUNDS)
        settles = ~doubtful | (change <= _SETTLES * last.change)
        place, on = _Impulses(impulses, joints), sliding.on
        return _Round(velocity, place, change, solution.solved, on, on & settles, last.number + 1)

    def interpolate(
        self, system: AbstractMechanical, t: Array, h: Array, carry0: Carry, carry1: Carry, s: Array
    ) -> State:
        """Along the motion of both halves of the step; velocities change in its middle."""
        del t
        (q0, v0), (_, v1) = carry0.state, carry1.state
        first, second = jnp.minimum(s, 0.5) * h, jnp.maximum(s - 0.5, 0.0) * h
        q = system.flow(system.flow(q0, v0, first), v1, second)
        return q, jnp.where(s < 0.5, v0, v1)


def _freeze(value: Any) -> Any:
    """Without derivatives; what has none stays as it is."""
    return jax.lax.stop_gradient(value) if isinstance(value, jax.Array) else value


def _constant_factors(step: _Step) -> Any:
    """Factors for all rounds; None where each has its own."""
    if step.system.m or step.system.has_loads:
        return None
    return _factor(step, step.mass, step.columns)


def _factor(step: _Step, tangent: Matrix, rows: Matrix) -> Any:
    return step.system.kkt.factor(tangent, step.columns, rows)


def _tangent(step: _Step, q: Point, v: Vector) -> Matrix:
    """M + ½hC + ¼h²K, or M alone where only weight and inertia act."""
    system, h = step.system, step.h
    if not system.has_loads:
        return step.mass
    damping = scale_matrix(system.damping(step.t, q, v), 0.5 * h)
    if not system.identity_kinematics:
        return (*step.mass, *damping)
    return (*step.mass, *damping, *scale_matrix(system.stiffness(step.t, q, v), 0.25 * h**2))


def _slips(step: _Step, v: Vector) -> Float[Array, "k rows"]:
    return step.contacts.rows @ v + step.contacts.drift


def _slide_directions(step: _Step, last: _Round, free: Vector, moved: Float[Array, "k_rows n"]) -> SlideDirections:
    """Friction of contacts that slide before and after, against the mean of both velocities.

    Where it would press a contact more than its normal force opens it (Painlevé's region), nothing slides on.
    """
    before, after = _slips(step, step.start[1])[:, 1:3], _slips(step, last.x)[:, 1:3]
    # Friction with a bound of its own is along a line.
    goes_on = step.pressed & (step.first_part[:, 0] == 0) & ~step.contacts.held_slots()
    on = persistent(narrow(goes_on, last.may_slide, last.number), before, after, _slips(step, free))
    drag, W = against(step.law, before + after), step.contacts.rows
    own = jnp.einsum("kn,kin->ki", W[:, 0], moved.reshape(W.shape)[:, :3])
    opens = own[:, 0] + jnp.sum(drag * own[:, 1:], axis=1) > 0
    return slide(on & opens, drag)


def _first_part(step: _Step, impulses: Float[Array, "k rows"], after: Float[Array, "k rows"]) -> Array:
    """Impulses of contacts that go on to close in the next step."""
    begins = ~step.pressed & (impulses[:, 0] > 0) & (step.contacts.gap > _CLOSED) & (after[:, 0] < 0)
    # Friction with a bound of its own has that in each step.
    held = step.contacts.held_slots()[:, None] & (jnp.arange(impulses.shape[1]) > 0)
    return jnp.where(begins[:, None] & ~held, impulses, 0.0)


def _problem(
    step: _Step, free: Vector, last: _Round, sliding: SlideDirections, columns: Float[Array, "k_rows n"]
) -> tuple[ContactProblem, Float[Array, "k rows"]]:
    """The contact problem of a round, for sums of impulses of this step and those of impacts that it completes.

    Laws of friction hold for the sum: where the slip reverses within an impact, they would give another one for parts.
    """
    h, law, (k, rows, n) = step.h, step.law, step.contacts.rows.shape
    before, without = _slips(step, step.start[1]), _slips(step, free)
    approach = jnp.minimum(before[:, 0], 0.0)
    gap = step.contacts.gap
    # Bodies that fall together don't approach each other before the lower one is stopped, as the last round says.
    nearest = jnp.minimum(jnp.minimum(approach, without[:, 0]), _slips(step, last.x)[:, 0])
    reaches = gap + h * nearest <= _CLOSED
    # Those of a stack at rest, whose gaps are round-off, need no round each.
    weight = jnp.max(jnp.abs(without[:, 0] - before[:, 0]), initial=0.0)
    closes = reaches | (step.pressed & (gap <= h * weight))
    # A bounce that ends within the step is none.
    short = -2 * law.restitution * approach <= jnp.abs(without[:, 0] - before[:, 0])
    bounces = reaches & (approach < 0) & (law.restitution > 0) & ~short
    least = jnp.where(bounces, -law.restitution * approach, -jnp.maximum(gap, 0.0) / h)
    target = without.at[:, 0].add(-least)
    target = target.at[:, 1:3].add(law.tangential_restitution[:, None] * before[:, 1:3])
    first_part = jnp.where(closes[:, None], step.first_part, 0.0)
    delassus = step.contacts.rows.reshape(-1, n) @ columns.T
    problem = ContactProblem(
        delassus=delassus,
        velocity=target.reshape(-1) - delassus @ first_part.reshape(-1),
        friction=sliding.friction(law),
        drilling=law.drilling,
        rolling=law.rolling,
        active=closes,
        compliance=jnp.zeros(k * rows),
        least=first_part[:, 0],
        hold=None if step.contacts.hold is None else h * step.contacts.hold,
    )
    return problem, first_part


def _end(step: _Step, v1: Vector) -> tuple[Point, Array]:
    """The position at the end of the step, on the joints, and what residual of them is left."""
    system, end = step.system, step.t + 0.5 * step.h
    q = system.flow(step.middle, v1, 0.5 * step.h)
    if not system.m:
        return q, jnp.zeros(())
    factors = system.kkt.factor(step.mass, step.columns, step.columns)
    return move_onto_joints(system, end, q, factors)


def _result(last: _Round, gap: Array) -> Array:
    scale = 1.0 + jnp.max(jnp.abs(last.x))
    failed = (last.change > _FAILED * scale) | (gap > 1e-9)
    code = jnp.where(failed, int(Result.newton_not_converged), 0)
    code = jnp.where(last.solved, code, int(Result.contact_unsolved))
    return jnp.where(jnp.isfinite(jnp.sum(last.x)), code, int(Result.nonfinite_state)).astype(jnp.int32)
