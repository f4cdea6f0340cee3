"""Energy–momentum steps of bodies with joints: balances of momenta and closed joints, as sums of few-body blocks."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.integrators.energy_momentum.discrete_gradients import (
    mean_gradient,
    middle_gradient,
    motion_gradients,
    rolling_gradient,
    slip_over_step,
)
from polhode.integrators.energy_momentum.rotation_update import (
    ROTATION_UPDATES,
    AbstractRotationUpdate,
    NodeStep,
    rotate_quaternion,
)
from polhode.linalg.blocks import Blocks, Matrix, accumulate
from polhode.multibody.conversions.livens import LivensMultibody, is_rigid
from polhode.multibody.mechanism.elements import AbstractForceElement, InFirstFrame
from polhode.multibody.mechanism.groups import BodyGroup, ForceGroup, JointGroup, Slot
from polhode.multibody.mechanism.poses import Pose, Twist, Wrench, axial
from polhode.spaces.base import cross
from polhode.systems.lagrangian import LivensState
from polhode.systems.quaternion_body import E, G_transposed

Increments = Float[Array, " d"]
Velocities = Float[Array, " n"]
Multipliers = Float[Array, " m"]


class Balance(NamedTuple):
    """Momentum gained over a step less all impulses, shape (d,), and the size of the terms."""

    value: Increments
    size: Float[Array, ""]


class BodiesStep(eqx.Module):
    """A step of bodies on Livens' principle, in d increments of positions and attitudes and m multipliers.

    Conditions on the coordinates of single bodies, |q| = 1, are met by every increment.
    """

    system: LivensMultibody

    @property
    def rotation_update(self) -> AbstractRotationUpdate:
        """Updates of attitudes, and the levers that loads act on."""
        return ROTATION_UPDATES[self.system.joints]

    # --- a step -----------------------------------------------------------------------------------------------------

    def guess(self, h: Array, state: LivensState) -> Increments:
        """Initial guess of the increments."""
        parts = []
        for group, q, v in zip(self.system.bodies, self.system.rows(state.q), self.system.rows(state.v), strict=True):
            if is_rigid(group):
                turn = 0.5 * h * jax.vmap(E)(q[:, 3:], v[:, 3:])
                v = jnp.concatenate((turn, h * v[:, :3]), axis=1)
            else:
                v = h * v
            parts.append(v.reshape(-1))
        return jnp.concatenate(parts)

    def end_state(self, h: Array, state: LivensState, x: Increments) -> LivensState:
        """The end of a step."""

        def body(q0: Array, v0: Array, p0: Array, x: Array, inertia: Array) -> tuple[Array, Array, Array]:
            turn, move = x[:3], x[3:]
            quaternion = rotate_quaternion(turn, q0[3:])
            v_turn, p_turn = self.rotation_update.end_rates(h, q0[3:], v0[3:], p0[3:], turn, inertia)
            v1 = jnp.concatenate((2 * move / h - v0[:3], v_turn))
            return jnp.concatenate((q0[:3] + move, quaternion)), v1, p_turn

        parts: list[tuple[Array, Array, Array]] = []
        for group, q, v, p in self._bodies(state):
            u = group.velocities(x)
            if is_rigid(group):
                q1, v1, p_turn = jax.vmap(body)(q, v, p, u, group.inertia)
                p_move = 2 * group.mass[:, None] / h * u[:, 3:] - p[:, :3]
                parts.append((q1, v1, jnp.concatenate((p_move, p_turn), axis=1)))
            else:
                parts.append((q + u, 2 * u / h - v, 2 * group.moving_mass[:, None] / h * u - p))
        return LivensState(*(jnp.concatenate([a.reshape(-1) for a in part]) for part in zip(*parts, strict=True)))

    def balance(self, t: Array, h: Array, state: LivensState, x: Increments, multipliers: Multipliers) -> Balance:
        """The balance of momenta over the step, which vanishes with the constraints; t is the time at its start."""
        inertia, size = self._inertia(h, state, x)
        middle = t + 0.5 * h
        total, nodes = inertia, self._nodes(state)
        for group in self.system.base.mechanism.forces:
            impulse = self._each_force(group, middle, h, nodes, x)
            total = total - self.system.sum_on_increments(group.slots, impulse)
            size = size + _size(impulse)
        weight = self._weight(h)
        reaction = jnp.zeros_like(total)
        for group in self.system.base.mechanism.joints:
            impulse = self._each_joint(group, middle, h, nodes, x, multipliers)[0]
            reaction = reaction + self.system.sum_on_increments(group.slots, impulse)
        return Balance(total - weight + reaction, size + _size(weight) + _size(reaction))

    def gaps(self, t: Array, h: Array, state: LivensState, x: Increments) -> Multipliers:
        """The constraints at the end of the step."""
        q1 = self.system.to_base((self._end_coordinates(state, x), state.v))[0]
        motion = self.system.base.motion(q1)
        residuals = [(group.rows, group.residuals(t + h, motion)) for group in self.system.base.mechanism.joints]
        middle, nodes = t + 0.5 * h, self._nodes(state)
        rolling = [group for group in self.system.base.mechanism.joints if group.nonholonomic]
        slips = [(group.rows, self._slips(group, middle, h, nodes, x)) for group in rolling]
        return accumulate(self.system.m, [*residuals, *slips])

    def reaction(self, t: Array, state: LivensState, multipliers: Multipliers) -> Array:
        """Bᵀμ, by the gradient of μ·Φ, which costs less than the derivatives of all components."""
        motion, total = self.system.base.motion(*self.system.to_base(state)), jnp.zeros(self.system.d)

        def rolling(element: Any, poses: tuple[Pose, ...], twists: tuple[Twist, ...], force: Array) -> Array:
            gradients = jax.grad(lambda twists: force @ group.rate(element, t, poses, twists))(twists)
            return jnp.concatenate([jnp.concatenate(g) for g in gradients])

        def impulse(element: Any, poses: tuple[Pose, ...], force: Array) -> Array:
            gradients = jax.grad(lambda poses: force @ group.residual(element, t, poses))(poses)
            pairs = zip(poses, gradients, strict=True)
            return jnp.concatenate([jnp.concatenate((axial(pose.R.T @ g.R), g.x)) for pose, g in pairs])

        for group in self.system.base.mechanism.joints:
            force = multipliers[group.rows.numbers]
            if group.nonholonomic:
                # Of twists, in which rates are affine.
                parts = group.elements, motion.at(group.slots), motion.twists_at(group.slots), force
                total = total + self.system.sum_on_increments(group.slots, jax.vmap(rolling)(*parts))
                continue
            parts = group.elements, motion.at(group.slots), force
            total = total + self.system.sum_on_increments(group.slots, jax.vmap(impulse)(*parts))
        return total

    def apply_impulse(self, state: LivensState, impulse: Array) -> LivensState:
        """The state after an impulse."""
        vs, ps = [], []
        for group, q, v, p in self._bodies(state):
            momentum, change = group.velocities(impulse), group.velocities(self.velocity_change(impulse))
            if is_rigid(group):
                turn = 0.5 * jax.vmap(G_transposed)(q[:, 3:], change[:, :3])
                change = jnp.concatenate((change[:, 3:], turn), axis=1)
                spin = 2 * jax.vmap(G_transposed)(q[:, 3:], momentum[:, :3])
                momentum = jnp.concatenate((momentum[:, 3:], spin), axis=1)
            vs.append((v + change).reshape(-1))
            ps.append((p + momentum).reshape(-1))
        return LivensState(state.q, jnp.concatenate(vs), jnp.concatenate(ps))

    def velocity_change(self, impulse: Array) -> Array:
        """M⁻¹ times an impulse on the velocities (Ω, u) of `base`; zero without mass."""
        parts = []
        for group in self.system.bodies:
            part, mass = group.velocities(impulse), group.moving_mass[:, None]
            if is_rigid(group):
                spin = jax.vmap(lambda J, b: _inverse(J) @ b)(group.inertia, part[:, :3])
                part = jnp.concatenate((spin, part[:, 3:] / mass), axis=1)
            else:
                part = jnp.where(mass > 0, part / jnp.where(mass > 0, mass, 1.0), 0.0)
            parts.append(part.reshape(-1))
        return jnp.concatenate(parts)

    def matrices(
        self, t: Array, h: Array, state: LivensState, x: Increments, multipliers: Multipliers
    ) -> tuple[Matrix, Matrix, Matrix]:
        """Derivatives of the balance by x, transposed that by λ, and of the gaps by x."""
        middle, nodes = t + 0.5 * h, self._nodes(state)
        mechanism = self.system.base.mechanism
        forces = [self._each_force(g, middle, h, nodes, x, differentiate=True) for g in mechanism.forces]
        joints = [self._each_joint(g, middle, h, nodes, x, multipliers, differentiate=True) for g in mechanism.joints]
        return self.system.assemble_blocks(
            h, self._inertia_blocks(h, state, x), forces, [parts[1:] for parts in joints]
        )

    def impulse_matrices(
        self, t: Array, h: Array, start: LivensState, end: LivensState, share: Float[Array, ""]
    ) -> tuple[Matrix, Matrix, Matrix]:
        """M, (σB₀ + B₁)/2 and B₁ for velocities (Ω, u), with σ the `share` of impulses at the start."""
        q0, q1 = self.system.to_base(start)[0], self.system.to_base(end)[0]
        before, after = self.system.base.jacobian(t, q0), self.system.base.jacobian(t + h, q1)
        both = tuple(
            Blocks(0.5 * (share * a.values + b.values), b.rows, b.cols) for a, b in zip(before, after, strict=True)
        )
        return self.system.base.mass(t, q1), both, after

    # --- parts of a step --------------------------------------------------------------------------------------------

    def _bodies(self, state: LivensState) -> list[tuple[BodyGroup, Array, Array, Array]]:
        return list(zip(self.system.bodies, *(self.system.rows(part) for part in state), strict=True))

    def _end_coordinates(self, state: LivensState, x: Increments) -> Array:
        parts = []
        for group, q in zip(self.system.bodies, self.system.rows(state.q), strict=True):
            u = group.velocities(x)
            if is_rigid(group):
                q1 = jnp.concatenate((q[:, :3] + u[:, 3:], jax.vmap(rotate_quaternion)(u[:, :3], q[:, 3:])), axis=1)
            else:
                q1 = q + u
            parts.append(q1.reshape(-1))
        return jnp.concatenate(parts)

    def _body_balance(self, h: Array, q0: Array, v0: Array, p0: Array, x: Array, mass: Array, inertia: Array) -> Array:
        """Changes of the angular and linear momentum of one rigid body over the step."""
        turn, move = x[:3], x[3:]
        rotation = self.rotation_update.momentum_gain(h, q0[3:], v0[3:], p0[3:], turn, inertia)
        return jnp.concatenate((rotation, 2 * mass / h * move - 2 * p0[:3]))

    def _inertia(self, h: Array, state: LivensState, x: Increments) -> tuple[Increments, Float[Array, ""]]:
        parts, size = [], jnp.zeros(())
        for group, q, v, p in self._bodies(state):
            u = group.velocities(x)
            if is_rigid(group):
                change = jax.vmap(lambda *row: self._body_balance(h, *row))(q, v, p, u, group.mass, group.inertia)
            else:
                change = 2 * group.moving_mass[:, None] / h * u - 2 * p
            parts.append(change.reshape(-1))
            size = size + 2 * _size(p)
        return jnp.concatenate(parts), size

    def _inertia_blocks(self, h: Array, state: LivensState, x: Increments) -> list[Blocks]:
        blocks = []
        for group, q, v, p in self._bodies(state):
            if is_rigid(group):
                derivative = jax.jacfwd(self._body_balance, argnums=4)
                rows = q, v, p, group.velocities(x), group.mass, group.inertia
                values = jax.vmap(derivative, in_axes=(None, 0, 0, 0, 0, 0, 0))(h, *rows)
            else:
                values = 2 * group.moving_mass[:, None, None] / h * jnp.eye(group.formulation.n)
            blocks += group.blocks(values)
        return blocks

    def _weight(self, h: Array) -> Increments:
        parts = []
        for group in self.system.bodies:
            force = h * group.weight[:, None] * self.system.base.mechanism.gravity
            if is_rigid(group):
                force = jnp.concatenate((jnp.zeros_like(force), force), axis=1)
            parts.append(force[:, : group.formulation.n].reshape(-1))
        return jnp.concatenate(parts)

    def _nodes(self, state: LivensState) -> Float[Array, "bodies 7"]:
        """Coordinates (x, quaternion) of all bodies at the start, with the ground as the last row."""
        unit = jnp.array([1.0, 0.0, 0.0, 0.0])
        rows = []
        for group, q in zip(self.system.bodies, self.system.rows(state.q), strict=True):
            if not is_rigid(group):
                x = jnp.zeros((group.count, 3)).at[:, : q.shape[1]].set(q)
                q = jnp.concatenate((x, jnp.broadcast_to(unit, (group.count, 4))), axis=1)
            rows.append(q)
        return jnp.concatenate((*rows, jnp.concatenate((jnp.zeros(3), unit))[None]))

    def _increments(self, slots: tuple[Slot, ...], x: Increments) -> Float[Array, "elements 6slots"]:
        """(turn, move) of the nodes of all elements."""
        count = slots[0].nodes.numbers.size
        rows = []
        for slot in slots:
            row = jnp.zeros((count, 6))
            if slot.group is not None:
                row = row.at[:, self.system.slot_columns(slot)].set(x[slot.columns.numbers])
            rows.append(row)
        return jnp.concatenate(rows, axis=1)

    def _node_steps(self, h: Array, q: Float[Array, "slots 7"], x: Float[Array, " 6slots"]) -> tuple[NodeStep, ...]:
        return tuple(self.rotation_update.node_step(h, q[k], x[6 * k : 6 * k + 6]) for k in range(len(q)))

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
            return h * self._load(element, group.relative, t, self._node_steps(h, q, x))

        function = jax.jacfwd(impulse) if differentiate else impulse
        q = jnp.stack([nodes[slot.nodes.numbers] for slot in group.slots], axis=1)
        return jax.vmap(function)(self._increments(group.slots, x), q, group.elements)

    def _load(self, element: AbstractForceElement, relative: bool, t: Array, s: tuple[NodeStep, ...]) -> Array:
        """Moments and forces on the nodes: the discrete gradient of the potential, all else in the middle."""
        potential = lambda poses: element.potential(t, poses)  # noqa: E731
        total = jnp.zeros(6 * len(s))
        if element.uses_poses:
            total = total - motion_gradients(mean_gradient(potential, relative, s), s)
        if element.conservative:
            return total
        poses, twists = tuple(n.middle for n in s), tuple(n.twist for n in s)
        rest = [
            self._nonpotential_load(w, g, n)
            for w, g, n in zip(element.wrenches(t, poses, twists), jax.grad(potential)(poses), s, strict=True)
        ]
        return total + jnp.concatenate(rest)

    def _nonpotential_load(self, wrench: Wrench, gradient: Pose, node: NodeStep) -> Float[Array, "6"]:
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
            """Gradient of the residual, or of its product with a force."""
            s, element = self._node_steps(h, q, x), element.inner if relative else element

            def f(poses: tuple[Pose, ...]) -> Array:
                residual = group.residual(element, t, poses)
                return residual if force is None else force @ residual

            total = motion_gradients(middle_gradient(f, s) if plain else mean_gradient(f, relative, s), s)
            if not rolls:
                return total
            rows = rolling_gradient(group, element, t, s)
            return total + (rows if force is None else force @ rows)

        def impulse(x: Array, q: Array, element: Any, force: Array) -> Array:
            return h * gradient(x, q, element, force)

        def gap(x: Array, q: Array, element: Any) -> Array:
            s = self._node_steps(h, q, x)
            residual = group.residual(element, t + 0.5 * h, tuple(n.end for n in s))
            return residual + slip_over_step(group, element, t, h, s) if rolls else residual

        u = self._increments(group.slots, x)
        q = jnp.stack([nodes[slot.nodes.numbers] for slot in group.slots], axis=1)
        force = multipliers[group.rows.numbers]
        impulses = jax.vmap(impulse)(u, q, group.elements, force)
        if not differentiate:
            return (impulses,)
        derivative = jax.vmap(jax.jacfwd(impulse))(u, q, group.elements, force)
        rows = jax.vmap(gradient)(u, q, group.elements)
        return impulses, derivative, rows, jax.vmap(jax.jacfwd(gap))(u, q, group.elements)

    def _slips(
        self, group: JointGroup, t: Array, h: Array, nodes: Array, x: Increments
    ) -> Float[Array, "elements kept"]:
        """Slip of nonholonomic components over a step whose middle is at t."""
        q = jnp.stack([nodes[slot.nodes.numbers] for slot in group.slots], axis=1)
        slip = lambda x, q, element: slip_over_step(group, element, t, h, self._node_steps(h, q, x))  # noqa: E731
        return jax.vmap(slip)(self._increments(group.slots, x), q, group.elements)


def _inverse(J: Float[Array, "3 3"]) -> Float[Array, "3 3"]:
    """The inverse by cofactors: no library call for three rows."""
    rows = jnp.stack((cross(J[1], J[2]), cross(J[2], J[0]), cross(J[0], J[1])))
    return rows.T / (J[0] @ rows[0])


def _size(x: Array) -> Float[Array, ""]:
    return jnp.sqrt(jnp.sum(x * x))
