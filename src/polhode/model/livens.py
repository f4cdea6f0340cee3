"""Bodies, joints and forces on Livens' principle: attitudes are unit quaternions, momenta variables of their own."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode._ambient import inside_transformation
from polhode.linalg.blocks import Blocks, Matrix, accumulate
from polhode.linalg.choose import kkt_solver
from polhode.linalg.kkt import AbstractKKT
from polhode.model.absolute import AbsoluteCoordinates
from polhode.model.elements import AbstractForceElement, InFirstFrame
from polhode.model.formulations.lie_groups import DirectProduct
from polhode.model.formulations.linear import MassPoint
from polhode.model.groups import BodyGroup, ForceGroup, JointGroup, Slot
from polhode.model.livens_gradients import (
    acting,
    are_relative,
    mean_gradient,
    middle_gradient,
    rolling_gradient,
    slipped,
    undressed,
    undressed_where_whole,
)
from polhode.model.livens_levers import LEVERS, AbstractLevers, Stretch, turned
from polhode.model.multibody import MultibodySystem
from polhode.model.poses import Pose, Twist, Wrench, axial
from polhode.spaces.base import cross
from polhode.spaces.linear import Rn
from polhode.spaces.products import product
from polhode.systems.base import Observable, State
from polhode.systems.lagrangian import COARSE_TOLERANCE, LivensState, check_gaps, check_momenta
from polhode.systems.moving_bodies import AbstractMovingBodies, Balance, Increments, Multipliers
from polhode.systems.quaternion_body import E, G, G_transposed

LIVENS = "livens"
Joints = Literal["invariant", "vector"]


class LivensMultibody(AbstractMovingBodies):
    r"""Bodies, joints and forces on Livens' principle, for the energy–momentum method.

    States hold q = (x, quaternion) for every rigid body, v = q̇ and the momenta p; kinetic energy goes through Ω as in
    `systems.QuaternionBody`. Potentials and constraints of elements are averaged by discrete gradients in the positions
    and rotation matrices y = (x, R) of their bodies, through the relative pose $(R_a^T(x_b-x_a), R_a^TR_b)$, which is
    quadratic in them and doesn't notice how the whole is turned: forces of a pair then are exactly opposite, with
    moments that cancel about any point. `joints` says how that is carried over to quaternions:

    - "invariant": attitudes move with the mean angular velocity, $R_1 = \mathrm{cay}(c)R_0,\ c = hR_0\bar\Omega$ with
      $\bar\Omega = \tfrac12(\Omega_0+\Omega_1)$, and their angular momentum by the moments of all loads. Body-fixed
      points then move by c × r̄, r̄ = ½(R₀ + R₁)s, and loads act on that same lever: energy and angular momentum are
      both kept to round-off, and p = ∂L/∂v at the ends of steps. Quaternions alone can't do that: a step that turns by
      θ moves points by 2 tan(θ/2) n × r̄, but quaternions by 2 tan(θ/4) n ∘ q̄.
    - "vector": as published, Δq = h v̄ and levers R(q̄)s. The energy is kept, the angular momentum to O(h²) only; a part
      of v and p alternates from step to step and can grow until Newton's method finds no next step.

    - `base`: the bodies in coordinates (quaternion, x), which everything but the steps is taken from. With invariant
      joints, residuals between two bodies are in the frame of the first, and multipliers with them.
    - `paired`: whether all joints see relative poses only.
    """

    base: MultibodySystem[AbsoluteCoordinates]
    joints: Joints = eqx.field(static=True)
    paired: bool = eqx.field(static=True)
    solver: AbstractKKT | None = None

    # --- sizes and states -------------------------------------------------------------------------------------------

    @property
    def bodies(self) -> tuple[BodyGroup, ...]:
        """Groups of bodies with the same coordinates."""
        return self.base.coordinates.bodies

    @property
    def d(self) -> int:
        return self.base.n

    @property
    def m(self) -> int:
        return self.base.m

    @property
    def n(self) -> int:
        """Number of coordinates: 7 for a rigid body."""
        return sum(group.count * _width(group) for group in self.bodies)

    @property
    def levers(self) -> AbstractLevers:
        """How attitudes move, and what loads act on."""
        return LEVERS[self.joints]

    @property
    def rheonomic(self) -> bool:
        return self.base.rheonomic

    @property
    def keeps_rates(self) -> bool:
        return self.m > 0 and self.joints == "invariant"

    @property
    def kept_momenta(self) -> tuple[str, ...]:
        if not self.free:
            return ()
        return ("linear_momentum", "angular_momentum") if self.joints == "invariant" else ("linear_momentum",)

    @property
    def free(self) -> bool:
        """Whether nothing acts from outside: no gravity, no element on the ground, and forces of relative poses only.

        Not known of numbers inside JAX transformations; then False.
        """
        held = any(slot.group is None for group in self.base.mechanism.joints for slot in group.slots)
        return self.conservative and self.paired and not held and self.base.mechanism.acts_inside

    @property
    def kkt(self) -> AbstractKKT:
        return self.solver if self.solver is not None else self.choose_solver()

    @property
    def dropped(self) -> dict[str, tuple[int, ...]]:
        """Redundant components that were left out, by the name of the joint."""
        return self.base.dropped

    @property
    def conservative(self) -> bool:
        """Whether energy is kept: all forces have potentials and no joint is driven."""
        return self.base.conservative

    @property
    def state_space(self) -> Any:
        return product(Rn(self.n), Rn(self.n), Rn(self.n))

    def start(self, *state: Any) -> LivensState:
        """The state that belongs to a state (q, v) of `base`."""
        (points, flat), qs, vs, ps = state, [], [], []
        for group, point in zip(self.bodies, points, strict=True):
            v = group.velocities(flat)
            if _rigid(group):
                quaternion, x = point
                turn = 0.5 * jax.vmap(G_transposed)(quaternion, v[:, :3])
                spin = jnp.einsum("nij,nj->ni", group.inertia, v[:, :3])
                qs.append(jnp.concatenate((x, quaternion), axis=1))
                vs.append(jnp.concatenate((v[:, 3:], turn), axis=1))
                momentum = group.mass[:, None] * v[:, 3:]
                ps.append(jnp.concatenate((momentum, 2 * jax.vmap(G_transposed)(quaternion, spin)), axis=1))
            else:
                qs.append(point)
                vs.append(v)
                ps.append(group.moving_mass[:, None] * v)
        return LivensState(*(jnp.concatenate([a.reshape(-1) for a in part]) for part in (qs, vs, ps)))

    def seen(self, state: State) -> tuple[Any, Array]:
        """The state (q, v) of `base` with these coordinates and velocities."""
        points, velocities = [], []
        for group, q, v in zip(self.bodies, self._rows(state[0]), self._rows(state[1]), strict=True):
            if _rigid(group):
                points.append((q[:, 3:], q[:, :3]))
                v = jnp.concatenate((2 * jax.vmap(G)(q[:, 3:], v[:, 3:]), v[:, :3]), axis=1)
            else:
                points.append(q)
            velocities.append(v.reshape(-1))
        return tuple(points), jnp.concatenate(velocities)

    def observed(self, observables: Mapping[str, Observable]) -> dict[str, Observable]:
        """Observables of `base` as ones of this system."""
        return {name: self.watched(f) for name, f in observables.items()}

    def watched(self, observable: Callable[[Array, Any], Any]) -> Callable[[Array, Any], Any]:
        """A function of (t, state) of `base` as one of this system."""
        return lambda t, state: observable(t, self.seen(state))

    def _rows(self, flat: Array) -> list[Array]:
        """The coordinates of each group of bodies, a row for each body."""
        ends = np.cumsum([0] + [group.count * _width(group) for group in self.bodies])
        parts = [flat[a:b] for a, b in itertools.pairwise(ends)]
        return [part.reshape(group.count, -1) for part, group in zip(parts, self.bodies, strict=True)]

    # --- what is seen -----------------------------------------------------------------------------------------------

    def generalised_energy(self, t: Array, state: State) -> Float[Array, ""]:
        """E = p·v - T + V, which the energy–momentum method keeps."""
        _, v, p = state
        return p @ v - self.base.kinetic_energy(t, *self.seen(state)) + self._potential(t, state)

    def _potential(self, t: Array, state: State) -> Float[Array, ""]:
        return self.base.potential_energy(t, self.seen(state)[0])

    def linear_momentum(self, state: State) -> Float[Array, "3"]:
        """Σ p of all bodies in space."""
        parts = zip(self.bodies, self._rows(state[2]), strict=True)
        return sum((jnp.sum(p[:, :3], axis=0) for g, p in parts if g.formulation.n > 1), start=jnp.zeros(3))

    def angular_momentum(self, state: State) -> Float[Array, "3"]:
        """Σ x × p + ½E(q)p of all bodies in space, about the origin."""
        total = jnp.zeros(3)
        for group, q, p in zip(self.bodies, self._rows(state[0]), self._rows(state[2]), strict=True):
            if group.formulation.n > 1:
                total = total + jnp.sum(jnp.cross(q[:, :3], p[:, :3]), axis=0)
            if _rigid(group):
                total = total + 0.5 * jnp.sum(jax.vmap(E)(q[:, 3:], p[:, 3:]), axis=0)
        return total

    def outputs(self) -> dict[str, Observable]:
        return {**self.observed(self.base.outputs()), **self.balances()}

    def balances(self) -> dict[str, Observable]:
        """Generalised energy and momenta, which need positions, velocities and momenta."""
        return {
            "generalised_energy": self.generalised_energy,
            "linear_momentum": lambda t, state: self.linear_momentum(state),
            "angular_momentum": lambda t, state: self.angular_momentum(state),
        }

    def invariants(self) -> dict[str, Observable]:
        if not self.conservative:
            return {}
        momenta = ("linear_momentum", "angular_momentum") if self.free else ()
        return {"energy": self.generalised_energy, **{name: self.balances()[name] for name in momenta}}

    def residuals(self, t: Array, state: State) -> dict[str, Array]:
        return self.base.residuals(t, self.seen(state))

    def breakpoints(self) -> tuple[float, ...]:
        return self.base.breakpoints()

    def failure(self, t: Array, state: State) -> Array | None:
        return self.base.failure(t, self.seen(state))

    def check(self, t: float, state: State) -> None:
        if not (isinstance(state, tuple) and len(state) == 3 and all(jnp.shape(x) == (self.n,) for x in state)):
            raise ValueError(
                f"`state0` must be a LivensState (q, v, p) with arrays of shape ({self.n},); `system.start(q, v)` "
                "makes one from a state of `system.base`."
            )
        if inside_transformation():
            return
        q, v = seen = self.seen(LivensState(*state))
        if self.keeps_rates or not self.m:
            self.base.check(t, seen)
        else:
            gaps, rates = self.base.violations(t, seen)
            remedy = "`system.repaired(t, state0)` is the nearest state that keeps them."
            check_gaps("positions", gaps, jnp.concatenate([a.reshape(-1) for a in jax.tree.leaves(q)]), remedy)
            check_gaps("velocities", rates, v, remedy, COARSE_TOLERANCE)
        check_momenta(state[2], self.start(*seen).p)

    @property
    def state_hint(self) -> str:
        return "`system.start(q, v)` makes a state from one of `system.base`."

    def repaired(self, t: float, state: LivensState) -> LivensState:
        """The nearest state that keeps the joints, with momenta that belong to it; see `MultibodySystem.repaired`."""
        return self.start(*self.base.repaired(t, self.seen(LivensState(*state))))

    def joint_multipliers(self, t: Array, state: LivensState, multipliers: Array) -> dict[str, Array]:
        """Multipliers by joint as the joints define them: with invariant joints those of a run are in the frame of the
        first body, and averages over the step. Takes the frames of a run as well.
        """
        whole = self.base if self.base.complete is None else self.base.complete
        undone = whole.with_joints(tuple(map(undressed, whole.mechanism.joints)))
        base = dataclasses.replace(self.base, complete=dataclasses.replace(undone, complete=None))
        state = LivensState(*state)
        q = self.seen(state)[0] if jnp.ndim(state.q) == 1 else jax.vmap(self.seen)(state)[0]
        return base.joint_multipliers(t, q, multipliers)

    def diagnose(self, t: float, state: State) -> str:
        return self.base.diagnose(t, self.seen(state))

    # --- a step -----------------------------------------------------------------------------------------------------

    def guess(self, h: Array, state: LivensState) -> Increments:
        found = []
        for group, q, v in zip(self.bodies, self._rows(state.q), self._rows(state.v), strict=True):
            if _rigid(group):
                turn = 0.5 * h * jax.vmap(E)(q[:, 3:], v[:, 3:])
                v = jnp.concatenate((turn, h * v[:, :3]), axis=1)
            else:
                v = h * v
            found.append(v.reshape(-1))
        return jnp.concatenate(found)

    def reached(self, h: Array, state: LivensState, x: Increments) -> LivensState:
        def body(q0: Array, v0: Array, p0: Array, x: Array, inertia: Array) -> tuple[Array, Array, Array]:
            turn, move = x[:3], x[3:]
            quaternion = turned(turn, q0[3:])
            v_turn, p_turn = self.levers.reached(h, q0[3:], v0[3:], p0[3:], turn, inertia)
            v1 = jnp.concatenate((2 * move / h - v0[:3], v_turn))
            return jnp.concatenate((q0[:3] + move, quaternion)), v1, p_turn

        parts: list[tuple[Array, Array, Array]] = []
        for group, q, v, p in self._bodies(state):
            u = group.velocities(x)
            if _rigid(group):
                q1, v1, p_turn = jax.vmap(body)(q, v, p, u, group.inertia)
                p_move = 2 * group.mass[:, None] / h * u[:, 3:] - p[:, :3]
                parts.append((q1, v1, jnp.concatenate((p_move, p_turn), axis=1)))
            else:
                parts.append((q + u, 2 * u / h - v, 2 * group.moving_mass[:, None] / h * u - p))
        return LivensState(*(jnp.concatenate([a.reshape(-1) for a in part]) for part in zip(*parts, strict=True)))

    def balance(self, t: Array, h: Array, state: LivensState, x: Increments, multipliers: Multipliers) -> Balance:
        inertia, size = self._inertia(h, state, x)
        middle = t + 0.5 * h
        total, nodes = inertia, self._nodes(state)
        for group in self.base.mechanism.forces:
            impulse = self._each_force(group, middle, h, nodes, x)
            total = total - self._gathered(group.slots, impulse)
            size = size + _size(impulse)
        weight = self._weight(h)
        reaction = jnp.zeros_like(total)
        for group in self.base.mechanism.joints:
            impulse = self._each_joint(group, middle, h, nodes, x, multipliers)[0]
            reaction = reaction + self._gathered(group.slots, impulse)
        return Balance(total - weight + reaction, size + _size(weight) + _size(reaction))

    def gaps(self, t: Array, h: Array, state: LivensState, x: Increments) -> Multipliers:
        q1 = self.seen((self._moved(state, x), state.v))[0]
        motion = self.base.motion(q1)
        closed = [(group.rows, group.residuals(t + h, motion)) for group in self.base.mechanism.joints]
        middle, nodes = t + 0.5 * h, self._nodes(state)
        rolling = [group for group in self.base.mechanism.joints if group.nonholonomic]
        slips = [(group.rows, self._slips(group, middle, h, nodes, x)) for group in rolling]
        return accumulate(self.m, [*closed, *slips])

    def rates(self, t: Array, state: LivensState) -> Multipliers:
        return self.base.constraint_rate(t, *self.seen(state))

    def reaction(self, t: Array, state: LivensState, multipliers: Multipliers) -> Array:
        """By the gradient of μ·Φ, which costs less than the derivatives of all components."""
        motion, total = self.base.motion(*self.seen(state)), jnp.zeros(self.d)

        def rolling(element: Any, poses: tuple[Pose, ...], twists: tuple[Twist, ...], force: Array) -> Array:
            gradients = jax.grad(lambda twists: force @ group.rate(element, t, poses, twists))(twists)
            return jnp.concatenate([jnp.concatenate(g) for g in gradients])

        def impulse(element: Any, poses: tuple[Pose, ...], force: Array) -> Array:
            gradients = jax.grad(lambda poses: force @ group.residual(element, t, poses))(poses)
            pairs = zip(poses, gradients, strict=True)
            return jnp.concatenate([jnp.concatenate((axial(pose.R.T @ g.R), g.x)) for pose, g in pairs])

        for group in self.base.mechanism.joints:
            force = multipliers[group.rows.numbers]
            if group.nonholonomic:
                # Of twists, in which rates are affine.
                parts = group.elements, motion.at(group.slots), motion.twists_at(group.slots), force
                total = total + self._gathered(group.slots, jax.vmap(rolling)(*parts))
                continue
            parts = group.elements, motion.at(group.slots), force
            total = total + self._gathered(group.slots, jax.vmap(impulse)(*parts))
        return total

    def kicked(self, state: LivensState, impulse: Array) -> LivensState:
        vs, ps = [], []
        for group, q, v, p in self._bodies(state):
            gained, change = group.velocities(impulse), group.velocities(self.gained(impulse))
            if _rigid(group):
                turn = 0.5 * jax.vmap(G_transposed)(q[:, 3:], change[:, :3])
                change = jnp.concatenate((change[:, 3:], turn), axis=1)
                spin = 2 * jax.vmap(G_transposed)(q[:, 3:], gained[:, :3])
                gained = jnp.concatenate((gained[:, 3:], spin), axis=1)
            vs.append((v + change).reshape(-1))
            ps.append((p + gained).reshape(-1))
        return LivensState(state.q, jnp.concatenate(vs), jnp.concatenate(ps))

    def velocities(self, state: LivensState) -> Array:
        return self.seen(state)[1]

    def gained(self, impulse: Array) -> Array:
        """M⁻¹ times an impulse on the velocities (Ω, u) of `base`; what has no mass is not moved."""
        parts = []
        for group in self.bodies:
            part, mass = group.velocities(impulse), group.moving_mass[:, None]
            if _rigid(group):
                spin = jax.vmap(lambda J, b: _inverse(J) @ b)(group.inertia, part[:, :3])
                part = jnp.concatenate((spin, part[:, 3:] / mass), axis=1)
            else:
                part = jnp.where(mass > 0, part / jnp.where(mass > 0, mass, 1.0), 0.0)
            parts.append(part.reshape(-1))
        return jnp.concatenate(parts)

    def matrices(
        self, t: Array, h: Array, state: LivensState, x: Increments, multipliers: Multipliers
    ) -> tuple[Matrix, Matrix, Matrix]:
        middle, nodes = t + 0.5 * h, self._nodes(state)
        forces = [self._each_force(g, middle, h, nodes, x, differentiate=True) for g in self.base.mechanism.forces]
        joints = [
            self._each_joint(g, middle, h, nodes, x, multipliers, differentiate=True)
            for g in self.base.mechanism.joints
        ]
        return self._matrices(h, self._inertia_blocks(h, state, x), forces, [parts[1:] for parts in joints])

    def impulse_matrices(
        self, t: Array, h: Array, start: LivensState, end: LivensState, share: Float[Array, ""]
    ) -> tuple[Matrix, Matrix, Matrix]:
        q0, q1 = self.seen(start)[0], self.seen(end)[0]
        before, after = self.base.jacobian(t, q0), self.base.jacobian(t + h, q1)
        both = tuple(
            Blocks(0.5 * (share * a.values + b.values), b.rows, b.cols) for a, b in zip(before, after, strict=True)
        )
        return self.base.mass(t, q1), both, after

    def choose_solver(self) -> AbstractKKT:
        """The solver that suits the places of the blocks."""
        # All that counts is where blocks lie, which is known without the derivatives of all elements.
        inertia = [
            block
            for g in self.bodies
            for block in g.blocks(jnp.zeros((*g.columns.numbers.shape, g.columns.numbers.shape[1])))
        ]
        forces = [np.zeros(_square(g.slots)) for g in self.base.mechanism.forces]
        joints = []
        for group in self.base.mechanism.joints:
            rows = np.zeros((*group.rows.numbers.shape, 6 * len(group.slots)))
            joints.append((np.zeros(_square(group.slots)), rows, rows))
        A, P, _ = self._matrices(1.0, inertia, forces, joints)
        return kkt_solver(A, P, self.d, self.m, compliant=self.base.loops)

    # --- parts of a step --------------------------------------------------------------------------------------------

    def _bodies(self, state: LivensState) -> list[tuple[BodyGroup, Array, Array, Array]]:
        return list(zip(self.bodies, *(self._rows(part) for part in state), strict=True))

    def _moved(self, state: LivensState, x: Increments) -> Array:
        parts = []
        for group, q in zip(self.bodies, self._rows(state.q), strict=True):
            u = group.velocities(x)
            if _rigid(group):
                q1 = jnp.concatenate((q[:, :3] + u[:, 3:], jax.vmap(turned)(u[:, :3], q[:, 3:])), axis=1)
            else:
                q1 = q + u
            parts.append(q1.reshape(-1))
        return jnp.concatenate(parts)

    def _body_balance(self, h: Array, q0: Array, v0: Array, p0: Array, x: Array, mass: Array, inertia: Array) -> Array:
        """Changes of the angular and linear momentum of one rigid body over the step."""
        turn, move = x[:3], x[3:]
        rotation = self.levers.gained(h, q0[3:], v0[3:], p0[3:], turn, inertia)
        return jnp.concatenate((rotation, 2 * mass / h * move - 2 * p0[:3]))

    def _inertia(self, h: Array, state: LivensState, x: Increments) -> tuple[Increments, Float[Array, ""]]:
        parts, size = [], jnp.zeros(())
        for group, q, v, p in self._bodies(state):
            u = group.velocities(x)
            if _rigid(group):
                change = jax.vmap(lambda *row: self._body_balance(h, *row))(q, v, p, u, group.mass, group.inertia)
            else:
                change = 2 * group.moving_mass[:, None] / h * u - 2 * p
            parts.append(change.reshape(-1))
            size = size + 2 * _size(p)
        return jnp.concatenate(parts), size

    def _inertia_blocks(self, h: Array, state: LivensState, x: Increments) -> list[Blocks]:
        found = []
        for group, q, v, p in self._bodies(state):
            if _rigid(group):
                derivative = jax.jacfwd(self._body_balance, argnums=4)
                rows = q, v, p, group.velocities(x), group.mass, group.inertia
                values = jax.vmap(derivative, in_axes=(None, 0, 0, 0, 0, 0, 0))(h, *rows)
            else:
                values = 2 * group.moving_mass[:, None, None] / h * jnp.eye(group.formulation.n)
            found += group.blocks(values)
        return found

    def _matrices(
        self, h: Any, inertia: Sequence[Blocks], forces: Sequence[Any], joints: Sequence[Sequence[Any]]
    ) -> tuple[Matrix, Matrix, Matrix]:
        """Those of `matrices`, from blocks of the inertia and the derivatives of each group of forces and joints."""
        A, P, Q = list(inertia), [], []
        for group, derivative in zip(self.base.mechanism.forces, forces, strict=True):
            A += self._blocks(group.slots, -derivative)
        for group, (derivative, rows, ends) in zip(self.base.mechanism.joints, joints, strict=True):
            A += self._blocks(group.slots, derivative)
            for k, slot in _moving(group.slots):
                columns = self._columns(slot)
                place = slice(6 * k, 6 * k + 6)
                P.append(Blocks(h * rows[:, :, place][:, :, columns], group.rows, slot.columns))
                Q.append(Blocks(ends[:, :, place][:, :, columns], group.rows, slot.columns))
        return tuple(A), tuple(P), tuple(Q)

    def _weight(self, h: Array) -> Increments:
        parts = []
        for group in self.bodies:
            force = h * group.weight[:, None] * self.base.mechanism.gravity
            if _rigid(group):
                force = jnp.concatenate((jnp.zeros_like(force), force), axis=1)
            parts.append(force[:, : group.formulation.n].reshape(-1))
        return jnp.concatenate(parts)

    def _nodes(self, state: LivensState) -> Float[Array, "bodies 7"]:
        """Coordinates (x, quaternion) of all bodies at the start, with the ground as the last row."""
        unit = jnp.array([1.0, 0.0, 0.0, 0.0])
        rows = []
        for group, q in zip(self.bodies, self._rows(state.q), strict=True):
            if not _rigid(group):
                x = jnp.zeros((group.count, 3)).at[:, : q.shape[1]].set(q)
                q = jnp.concatenate((x, jnp.broadcast_to(unit, (group.count, 4))), axis=1)
            rows.append(q)
        return jnp.concatenate((*rows, jnp.concatenate((jnp.zeros(3), unit))[None]))

    def _columns(self, slot: Slot) -> np.ndarray:
        """Which of (turn, move) are increments of the bodies at a slot."""
        assert slot.group is not None
        group = self.bodies[slot.group]
        return np.arange(6) if _rigid(group) else 3 + np.arange(group.formulation.n)

    def _increments(self, slots: tuple[Slot, ...], x: Increments) -> Float[Array, "elements 6slots"]:
        """(turn, move) of the nodes of all elements."""
        count = slots[0].nodes.numbers.size
        rows = []
        for slot in slots:
            row = jnp.zeros((count, 6))
            if slot.group is not None:
                row = row.at[:, self._columns(slot)].set(x[slot.columns.numbers])
            rows.append(row)
        return jnp.concatenate(rows, axis=1)

    def _gathered(self, slots: tuple[Slot, ...], values: Float[Array, "elements 6slots"]) -> Increments:
        """Sums of what acts on each increment."""
        total = jnp.zeros(self.d)
        for k, slot in _moving(slots):
            total = total.at[slot.columns.numbers].add(values[:, 6 * k : 6 * k + 6][:, self._columns(slot)])
        return total

    def _blocks(self, slots: tuple[Slot, ...], values: Float[Array, "elements r c"]) -> list[Blocks]:
        return [
            Blocks(
                values[:, 6 * i : 6 * i + 6, 6 * j : 6 * j + 6][:, self._columns(a)][:, :, self._columns(b)],
                a.columns,
                b.columns,
            )
            for i, a in _moving(slots)
            for j, b in _moving(slots)
        ]

    def _stretches(self, h: Array, q: Float[Array, "slots 7"], x: Float[Array, " 6slots"]) -> tuple[Stretch, ...]:
        return tuple(self.levers.stretch(h, q[k], x[6 * k : 6 * k + 6]) for k in range(len(q)))

    def _each_force(
        self,
        group: ForceGroup,
        t: Array,
        h: Array,
        nodes: Array,
        x: Increments,
        differentiate: bool = False,
    ) -> Array:
        """Impulses (moment, force) on the nodes of all elements, (elements, 6 slots), or their derivatives."""

        def impulse(x: Array, q: Array, element: AbstractForceElement) -> Array:
            return h * self._load(element, group.relative, t, self._stretches(h, q, x))

        function = jax.jacfwd(impulse) if differentiate else impulse
        q = jnp.stack([nodes[slot.nodes.numbers] for slot in group.slots], axis=1)
        return jax.vmap(function)(self._increments(group.slots, x), q, group.elements)

    def _load(self, element: AbstractForceElement, relative: bool, t: Array, s: tuple[Stretch, ...]) -> Array:
        """Moments and forces on the nodes: the discrete gradient of the potential, all else in the middle."""
        potential = lambda poses: element.potential(t, poses)  # noqa: E731
        total = jnp.zeros(6 * len(s))
        if element.uses_poses:
            total = total - acting(mean_gradient(potential, relative, s), s)
        if element.conservative:
            return total
        poses, twists = tuple(n.middle for n in s), tuple(n.twist for n in s)
        rest = [
            self._remaining(w, g, n)
            for w, g, n in zip(element.wrenches(t, poses, twists), jax.grad(potential)(poses), s, strict=True)
        ]
        return total + jnp.concatenate(rest)

    def _remaining(self, wrench: Wrench, gradient: Pose, node: Stretch) -> Float[Array, "6"]:
        """The part of a load without potential; moment in the inertial frame."""
        R = node.middle.R
        moment = R @ wrench.torque + axial(gradient.R @ R.T)
        return jnp.concatenate((node.share * moment, wrench.force + gradient.x))

    def _each_joint(
        self,
        group: JointGroup,
        t: Array,
        h: Array,
        nodes: Array,
        x: Increments,
        multipliers: Multipliers,
        differentiate: bool = False,
    ) -> tuple[Array, ...]:
        """Impulses h B̄ᵀλ on the nodes of all elements; their derivatives, B̄, and the derivatives of the ends' gaps."""
        relative, plain = isinstance(group.elements, InFirstFrame), group.elements.quadratic
        rolls = bool(group.nonholonomic)

        def gradient(x: Array, q: Array, element: Any, force: Array | None = None) -> Array:
            """Of the residual, or of its product with a force."""
            s, element = self._stretches(h, q, x), element.inner if relative else element

            def f(poses: tuple[Pose, ...]) -> Array:
                residual = group.residual(element, t, poses)
                return residual if force is None else force @ residual

            found = acting(middle_gradient(f, s) if plain else mean_gradient(f, relative, s), s)
            if not rolls:
                return found
            rows = rolling_gradient(group, element, t, s)
            return found + (rows if force is None else force @ rows)

        def impulse(x: Array, q: Array, element: Any, force: Array) -> Array:
            return h * gradient(x, q, element, force)

        def gap(x: Array, q: Array, element: Any) -> Array:
            s = self._stretches(h, q, x)
            closed = group.residual(element, t + 0.5 * h, tuple(n.end for n in s))
            return closed + slipped(group, element, t, h, s) if rolls else closed

        u = self._increments(group.slots, x)
        q = jnp.stack([nodes[slot.nodes.numbers] for slot in group.slots], axis=1)
        force = multipliers[group.rows.numbers]
        found = jax.vmap(impulse)(u, q, group.elements, force)
        if not differentiate:
            return (found,)
        derivative = jax.vmap(jax.jacfwd(impulse))(u, q, group.elements, force)
        rows = jax.vmap(gradient)(u, q, group.elements)
        return found, derivative, rows, jax.vmap(jax.jacfwd(gap))(u, q, group.elements)

    def _slips(
        self, group: JointGroup, t: Array, h: Array, nodes: Array, x: Increments
    ) -> Float[Array, "elements kept"]:
        """What nonholonomic components slip over a step whose middle is at t."""
        q = jnp.stack([nodes[slot.nodes.numbers] for slot in group.slots], axis=1)
        slip = lambda x, q, element: slipped(group, element, t, h, self._stretches(h, q, x))  # noqa: E731
        return jax.vmap(slip)(self._increments(group.slots, x), q, group.elements)


def build(base: MultibodySystem[AbsoluteCoordinates], state: State, joints: str) -> tuple[LivensMultibody, LivensState]:
    """The system on Livens' principle and its start, from the bodies in quaternions and positions."""
    checks.choice("joints", joints, LEVERS)
    for name, group, _ in base.coordinates.places:
        form = base.coordinates.bodies[group].formulation
        if not isinstance(form, DirectProduct | MassPoint):
            raise ValueError(
                f"Body `{name}` has coordinates of its own, {type(form).__name__}; with "
                "formulation='livens' all rigid bodies are in quaternions. Leave its `formulation` out."
            )
    relative = are_relative(base, state)
    base = base.with_joints(tuple(map(undressed_where_whole, base.mechanism.joints)))
    system = LivensMultibody(base, joints, relative)  # pyright: ignore[reportArgumentType]
    system = dataclasses.replace(system, solver=system.choose_solver())
    return system, system.start(*state)


def _inverse(J: Float[Array, "3 3"]) -> Float[Array, "3 3"]:
    """By cofactors: no library call for three rows."""
    rows = jnp.stack((cross(J[1], J[2]), cross(J[2], J[0]), cross(J[0], J[1])))
    return rows.T / (J[0] @ rows[0])


def _moving(slots: tuple[Slot, ...]) -> list[tuple[int, Slot]]:
    return [(k, slot) for k, slot in enumerate(slots) if slot.group is not None]


def _rigid(group: BodyGroup) -> bool:
    return isinstance(group.formulation, DirectProduct)


def _width(group: BodyGroup) -> int:
    return 7 if _rigid(group) else group.formulation.n


def _square(slots: tuple[Slot, ...]) -> tuple[int, int, int]:
    """The shape of the derivatives of all elements with respect to their nodes."""
    return slots[0].nodes.numbers.size, 6 * len(slots), 6 * len(slots)


def _size(x: Array) -> Float[Array, ""]:
    return jnp.sqrt(jnp.sum(x * x))
