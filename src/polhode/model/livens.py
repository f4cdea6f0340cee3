"""Bodies, joints and forces on Livens' principle: attitudes are unit quaternions, momenta variables of their own."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.linalg.blocks import Blocks, Matrix, accumulate
from polhode.linalg.choose import kkt_solver
from polhode.linalg.kkt import AbstractKKT
from polhode.model.elements import AbstractForceElement, Pose, Poses, Twist, Wrench, axial
from polhode.model.formulations.lie_groups import DirectProduct
from polhode.model.formulations.linear import MassPoint
from polhode.model.groups import BodyGroup, ForceGroup, JointGroup, Slot
from polhode.model.multibody import MultibodySystem
from polhode.spaces import quaternions
from polhode.spaces.base import hat
from polhode.spaces.linear import Rn
from polhode.spaces.products import product
from polhode.systems.base import Observable, State
from polhode.systems.discrete_gradients import Gonzalez
from polhode.systems.lagrangian import LivensState
from polhode.systems.moving_bodies import AbstractMovingBodies, Balance, Increments, Multipliers
from polhode.systems.quaternion_body import E, E_transposed, G, G_transposed

LIVENS = "livens"
JOINTS = ("invariant", "vector")
Levers = Literal["invariant", "vector"]


class Stretch(NamedTuple):
    """A node over a step: poses at both ends, the matrix that its loads act on, and its motion in the middle."""

    start: Pose
    end: Pose
    lever: Float[Array, "3 3"]
    middle: Pose
    twist: Twist
    share: Float[Array, ""]


class LivensMultibody(AbstractMovingBodies):
    r"""What `Model.assemble(formulation="livens")` makes, for the energy–momentum method.

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

    - `base`: the bodies in coordinates (quaternion, x), which everything but the steps is taken from.
    """

    base: MultibodySystem
    joints: Levers = eqx.field(static=True)
    objective: tuple[tuple[bool, ...], tuple[bool, ...]] = eqx.field(static=True)
    solver: AbstractKKT | None = None

    # --- sizes and states -------------------------------------------------------------------------------------------

    @property
    def d(self) -> int:
        return self.base.n

    @property
    def m(self) -> int:
        return self.base.m

    @property
    def n(self) -> int:
        """Number of coordinates: 7 for a rigid body."""
        return sum(group.count * _width(group) for group in self.base.bodies)

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
        for group, point in zip(self.base.bodies, points, strict=True):
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
        for group, q, v in zip(self.base.bodies, self._rows(state[0]), self._rows(state[1]), strict=True):
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
        ends = np.cumsum([0] + [group.count * _width(group) for group in self.base.bodies])
        parts = [flat[a:b] for a, b in itertools.pairwise(ends)]
        return [part.reshape(group.count, -1) for part, group in zip(parts, self.base.bodies, strict=True)]

    # --- what is seen -----------------------------------------------------------------------------------------------

    def generalised_energy(self, t: Array, state: State) -> Float[Array, ""]:
        """E = p·v - T + V, which the energy–momentum method keeps."""
        _, v, p = state
        return p @ v - self.base.kinetic_energy(t, *self.seen(state)) + self._potential(t, state)

    def _potential(self, t: Array, state: State) -> Float[Array, ""]:
        return self.base.potential_energy(t, self.seen(state)[0])

    def linear_momentum(self, state: State) -> Float[Array, "3"]:
        """Σ p of all bodies in space."""
        parts = zip(self.base.bodies, self._rows(state[2]), strict=True)
        return sum((jnp.sum(p[:, :3], axis=0) for g, p in parts if g.formulation.n > 1), start=jnp.zeros(3))

    def angular_momentum(self, state: State) -> Float[Array, "3"]:
        """Σ x × p + ½E(q)p of all bodies in space, about the origin."""
        total = jnp.zeros(3)
        for group, q, p in zip(self.base.bodies, self._rows(state[0]), self._rows(state[2]), strict=True):
            if group.formulation.n > 1:
                total = total + jnp.sum(jnp.cross(q[:, :3], p[:, :3]), axis=0)
            if _rigid(group):
                total = total + 0.5 * jnp.sum(jax.vmap(E)(q[:, 3:], p[:, 3:]), axis=0)
        return total

    def outputs(self) -> dict[str, Observable]:
        return {**self.observed(self.base.outputs()), **self.balances()}

    def balances(self) -> dict[str, Observable]:
        """What only positions, velocities and momenta together tell."""
        return {
            "generalised_energy": self.generalised_energy,
            "linear_momentum": lambda t, state: self.linear_momentum(state),
            "angular_momentum": lambda t, state: self.angular_momentum(state),
        }

    def invariants(self) -> dict[str, Observable]:
        return {"energy": self.generalised_energy} if self.conservative else {}

    def residuals(self, t: Array, state: State) -> dict[str, Array]:
        q, _ = self.seen(state)
        found = {"manifold": self.base.configuration.residual(q)}
        return {**found, "position": jnp.max(jnp.abs(self.base.constraint(t, q)))} if self.m else found

    def check(self, t: float, state: State) -> None:
        if not (isinstance(state, tuple) and len(state) == 3 and all(jnp.shape(x) == (self.n,) for x in state)):
            raise ValueError(
                f"`state0` must be a LivensState (q, v, p) with arrays of shape ({self.n},); `system.start(q, v)` "
                "makes one from a state of `system.base`."
            )
        self.base.check(t, self.seen(state))

    def diagnose(self, t: float, state: State) -> str:
        return self.base.diagnose(t, self.seen(state))

    # --- a step -----------------------------------------------------------------------------------------------------

    def guess(self, h: Array, state: LivensState) -> Increments:
        found = []
        for group, q, v in zip(self.base.bodies, self._rows(state.q), self._rows(state.v), strict=True):
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
            v_turn, p_turn = self._turning(h, q0[3:], v0[3:], p0[3:], turn, inertia)
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
        for group, relative in zip(self.base.forces, self.objective[0], strict=True):
            impulse = self._each_force(group, relative, middle, h, nodes, x)
            total = total - self._gathered(group.slots, impulse)
            size = size + _size(impulse)
        weight = self._weight(h)
        reaction = jnp.zeros_like(total)
        for group, relative in zip(self.base.joints, self.objective[1], strict=True):
            impulse = self._each_joint(group, relative, middle, h, nodes, x, multipliers)[0]
            reaction = reaction + self._gathered(group.slots, impulse)
        return Balance(total - weight + reaction, size + _size(weight) + _size(reaction))

    def gaps(self, t: Array, h: Array, state: LivensState, x: Increments) -> Multipliers:
        q1 = self.seen((self._moved(state, x), state.v))[0]
        motion = self.base.motion(q1)
        parts = []
        for group, relative in zip(self.base.joints, self.objective[1], strict=True):
            residual = self._residual(group, relative, t + h)
            parts.append((group.rows, jax.vmap(residual)(group.elements, motion.at(group.slots))))
        return accumulate(self.m, parts)

    def matrices(
        self, t: Array, h: Array, state: LivensState, x: Increments, multipliers: Multipliers
    ) -> tuple[Matrix, Matrix, Matrix]:
        middle, nodes = t + 0.5 * h, self._nodes(state)
        A, P, Q = self._inertia_blocks(h, state, x), [], []
        for group, relative in zip(self.base.forces, self.objective[0], strict=True):
            derivative = self._each_force(group, relative, middle, h, nodes, x, differentiate=True)
            A += self._blocks(group.slots, -derivative)
        for group, relative in zip(self.base.joints, self.objective[1], strict=True):
            arguments = group, relative, middle, h, nodes, x, multipliers
            _, derivative, rows, ends = self._each_joint(*arguments, differentiate=True)
            A += self._blocks(group.slots, derivative)
            for k, slot in _moving(group.slots):
                columns = self._columns(slot)
                place = slice(6 * k, 6 * k + 6)
                P.append(Blocks(h * rows[:, :, place][:, :, columns], group.rows, slot.columns))
                Q.append(Blocks(ends[:, :, place][:, :, columns], group.rows, slot.columns))
        return tuple(A), tuple(P), tuple(Q)

    def choose_solver(self) -> AbstractKKT:
        """The solver that suits the places of the blocks."""
        one, flat = jnp.ones(()), jnp.zeros(self.n)
        state = LivensState(flat, flat, flat)
        shapes = jax.eval_shape(lambda: self.matrices(one, one, state, jnp.zeros(self.d), jnp.zeros(self.m))[:2])
        A, P = jax.tree.map(lambda block: jnp.zeros(block.shape), shapes)
        return kkt_solver(A, P, self.d, self.m)

    # --- parts of a step --------------------------------------------------------------------------------------------

    def _bodies(self, state: LivensState) -> list[tuple[BodyGroup, Array, Array, Array]]:
        return list(zip(self.base.bodies, *(self._rows(part) for part in state), strict=True))

    def _ratio(self, turn: Float[Array, "3"]) -> Array:
        """By how much more body-fixed points move than quaternions: 1/(1 - tan²(θ/4)), or 1 as published."""
        return 1 / (1 - turn @ turn) if self.joints == "invariant" else jnp.ones(())

    def _moved(self, state: LivensState, x: Increments) -> Array:
        parts = []
        for group, q in zip(self.base.bodies, self._rows(state.q), strict=True):
            u = group.velocities(x)
            if _rigid(group):
                q1 = jnp.concatenate((q[:, :3] + u[:, 3:], jax.vmap(turned)(u[:, :3], q[:, 3:])), axis=1)
            else:
                q1 = q + u
            parts.append(q1.reshape(-1))
        return jnp.concatenate(parts)

    def _turning(self, h: Array, q0: Array, v0: Array, p0: Array, turn: Array, inertia: Array) -> tuple[Array, Array]:
        """v₁ and p₁ of an attitude."""
        q1 = turned(turn, q0)
        if self.joints == "invariant":
            omega = self._next_rate(h, q0, v0, turn)
            return 0.5 * G_transposed(q1, omega), 2 * G_transposed(q1, inertia @ omega)
        v1 = 2 / h * (q1 - q0) - v0
        spin = inertia @ (G(q0, v0) + G(q1, v1))
        return v1, 2 * G_transposed(q0 + q1, spin) - p0

    def _next_rate(self, h: Array, q0: Array, v0: Array, turn: Array) -> Float[Array, "3"]:
        """Ω₁ from the mean R₀ᵀc/h of both, which is R₁ᵀc/h as well."""
        c = 4 * self._ratio(turn) * turn
        return 2 / h * quaternions.rotate(quaternions.conjugate(q0), c) - 2 * G(q0, v0)

    def _body_balance(self, h: Array, q0: Array, v0: Array, p0: Array, x: Array, mass: Array, inertia: Array) -> Array:
        """What turns and moves one rigid body: the changes of its angular and linear momentum."""
        turn, move = x[:3], x[3:]
        q1 = turned(turn, q0[3:])
        if self.joints == "invariant":
            rate = self._next_rate(h, q0[3:], v0[3:], turn)
            rotation = quaternions.rotate(q1, inertia @ rate) - 0.5 * E(q0[3:], p0[3:])
        else:
            change, middle = q1 - q0[3:], 0.5 * (q0[3:] + q1)
            v1 = 2 / h * change - v0[3:]
            spin = inertia @ (G(q0[3:], v0[3:]) + G(q1, v1))
            # ½E(q̄)(Δp - h ∂T/∂q)
            rotation = E(middle, 2 * G_transposed(middle, spin) + G_transposed(change, spin) - p0[3:])
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

    def _weight(self, h: Array) -> Increments:
        parts = []
        for group in self.base.bodies:
            force = h * group.weight[:, None] * self.base.gravity
            if _rigid(group):
                force = jnp.concatenate((jnp.zeros_like(force), force), axis=1)
            parts.append(force[:, : group.formulation.n].reshape(-1))
        return jnp.concatenate(parts)

    def _nodes(self, state: LivensState) -> Float[Array, "bodies 7"]:
        """Coordinates (x, quaternion) of all bodies at the start, with the ground as the last row."""
        unit = jnp.array([1.0, 0.0, 0.0, 0.0])
        rows = []
        for group, q in zip(self.base.bodies, self._rows(state.q), strict=True):
            if not _rigid(group):
                x = jnp.zeros((group.count, 3)).at[:, : q.shape[1]].set(q)
                q = jnp.concatenate((x, jnp.broadcast_to(unit, (group.count, 4))), axis=1)
            rows.append(q)
        return jnp.concatenate((*rows, jnp.concatenate((jnp.zeros(3), unit))[None]))

    def _columns(self, slot: Slot) -> np.ndarray:
        """Which of (turn, move) are increments of the bodies at a slot."""
        assert slot.group is not None
        group = self.base.bodies[slot.group]
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

    def _stretch(self, h: Array, q0: Float[Array, "7"], x: Float[Array, "6"]) -> Stretch:
        turn, move = x[:3], x[3:]
        quaternion = turned(turn, q0[3:])
        start = Pose(q0[:3], quaternions.to_matrix(q0[3:]))
        end = Pose(q0[:3] + move, quaternions.to_matrix(quaternion))
        middle = 0.5 * (q0[3:] + quaternion)
        square = middle @ middle
        R = _matrix(middle)
        omega = 4 * self._ratio(turn) / h * turn
        whole = self.joints == "invariant"
        return Stretch(
            start=start,
            end=end,
            lever=0.5 * (start.R + end.R) if whole else R,
            middle=Pose(0.5 * (start.x + end.x), R / square),
            twist=Twist(R.T @ omega / square, move / h),
            share=jnp.ones(()) if whole else square,
        )

    def _stretches(self, h: Array, q: Float[Array, "slots 7"], x: Float[Array, " 6slots"]) -> tuple[Stretch, ...]:
        return tuple(self._stretch(h, q[k], x[6 * k : 6 * k + 6]) for k in range(len(q)))

    def _each_force(
        self,
        group: ForceGroup,
        relative: bool,
        t: Array,
        h: Array,
        nodes: Array,
        x: Increments,
        differentiate: bool = False,
    ) -> Array:
        """Impulses (moment, force) on the nodes of all elements, (elements, 6 slots), or their derivatives."""

        def impulse(x: Array, q: Array, element: AbstractForceElement) -> Array:
            return h * self._load(element, relative, t, self._stretches(h, q, x))

        function = jax.jacfwd(impulse) if differentiate else impulse
        q = jnp.stack([nodes[slot.nodes.numbers] for slot in group.slots], axis=1)
        return jax.vmap(function)(self._increments(group.slots, x), q, group.elements)

    def _load(self, element: AbstractForceElement, relative: bool, t: Array, s: tuple[Stretch, ...]) -> Array:
        """Moments and forces on the nodes: the discrete gradient of the potential, all else in the middle."""
        potential = lambda poses: element.potential(t, poses)  # noqa: E731
        total = jnp.zeros(6 * len(s))
        if element.uses_poses:
            total = total - _acting(mean_gradient(potential, relative, s), s)
        if element.conservative:
            return total
        poses, twists = tuple(n.middle for n in s), tuple(n.twist for n in s)
        rest = [
            self._remaining(w, g, n)
            for w, g, n in zip(element.wrenches(t, poses, twists), jax.grad(potential)(poses), s, strict=True)
        ]
        return total + jnp.concatenate(rest)

    def _remaining(self, wrench: Wrench, gradient: Pose, node: Stretch) -> Float[Array, "6"]:
        """What a load has besides minus the gradient of the potential; moment in the inertial frame."""
        R = node.middle.R
        moment = R @ wrench.torque + axial(gradient.R @ R.T)
        return jnp.concatenate((node.share * moment, wrench.force + gradient.x))

    def _residual(self, group: JointGroup, relative: bool, t: Array) -> Callable[[Any, Poses], Array]:
        """The residual of an element between poses; `relative`: in the frame of the first node."""

        def residual(element: Any, poses: Poses) -> Array:
            return group.residual(element, t, _from_first(poses) if relative else poses)

        return residual

    def _each_joint(
        self,
        group: JointGroup,
        relative: bool,
        t: Array,
        h: Array,
        nodes: Array,
        x: Increments,
        multipliers: Multipliers,
        differentiate: bool = False,
    ) -> tuple[Array, ...]:
        """Impulses h B̄ᵀλ on the nodes of all elements; their derivatives, B̄, and the derivatives of the ends' gaps."""
        ends = self._residual(group, relative, t + 0.5 * h)
        plain = self._residual(group, False, t)

        def gradient(x: Array, q: Array, element: Any) -> Array:
            s = self._stretches(h, q, x)
            return _acting(mean_gradient(lambda poses: plain(element, poses), relative, s), s)

        def impulse(x: Array, q: Array, element: Any, force: Array) -> Array:
            return h * force @ gradient(x, q, element)

        def gap(x: Array, q: Array, element: Any) -> Array:
            return ends(element, tuple(s.end for s in self._stretches(h, q, x)))

        u = self._increments(group.slots, x)
        q = jnp.stack([nodes[slot.nodes.numbers] for slot in group.slots], axis=1)
        force = multipliers[group.rows.numbers]
        found = jax.vmap(impulse)(u, q, group.elements, force)
        if not differentiate:
            return (found,)
        derivative = jax.vmap(jax.jacfwd(impulse))(u, q, group.elements, force)
        rows = jax.vmap(gradient)(u, q, group.elements)
        return found, derivative, rows, jax.vmap(jax.jacfwd(gap))(u, q, group.elements)


def build(base: MultibodySystem, state: State, joints: str) -> tuple[LivensMultibody, LivensState]:
    """The system on Livens' principle and its start, from the bodies in quaternions and positions."""
    checks.choice("joints", joints, JOINTS)
    for name, group, _ in base.places:
        if not isinstance(base.bodies[group].formulation, DirectProduct | MassPoint):
            raise ValueError(
                f"Body `{name}` has coordinates of its own, {type(base.bodies[group].formulation).__name__}; with "
                "formulation='livens' all rigid bodies are in quaternions. Leave its `formulation` out."
            )
    objective = (
        tuple(_is_objective(base, group, state, lambda e, p: e.potential(jnp.zeros(()), p)) for group in base.forces),
        tuple(
            joints == "invariant"
            # Components of a residual turn with the frame: those that are left of a joint must all be there.
            and len(group.kept) == group.elements.size
            and _is_objective(base, group, state, lambda e, p: jnp.sum(e.residual(jnp.zeros(()), p) ** 2))
            for group in base.joints
        ),
    )
    system = LivensMultibody(base, joints, objective)  # pyright: ignore[reportArgumentType]
    system = dataclasses.replace(system, solver=system.choose_solver())
    return system, system.start(*state)


def turned(x: Float[Array, "3"], q: Float[Array, "4"]) -> Float[Array, "4"]:
    """q turned by the rotation vector ϑ in the inertial frame, x = tan(|ϑ|/4) ϑ/|ϑ|."""
    square = x @ x
    return (1 - square) / (1 + square) * q + 2 / (1 + square) * E_transposed(q, x)


def mean_gradient(f: Callable[[Poses], Array], relative: bool, s: tuple[Stretch, ...]) -> tuple[Pose, ...]:
    """The discrete gradient of a function of poses along (x, R) of each node, leading axes those of its value."""
    start, end = tuple(n.start for n in s), tuple(n.end for n in s)
    if not relative or len(s) == 1:
        found = Gonzalez()(lambda y: f(_unflat(y)), _flat(start), _flat(end))
        return _unflat(found)
    of_pair = Gonzalez()(lambda y: f((_ORIGIN, _unflat(y)[0])), _between(start), _between(end))
    middle = jax.tree.map(lambda a, b: 0.5 * (a + b), start, end)
    J = jax.jacfwd(lambda y: _between(_unflat(y)))(_flat(middle))
    return _unflat(of_pair @ J)


_ORIGIN = Pose(np.zeros(3), np.eye(3))  # pyright: ignore[reportArgumentType]


def _between(poses: Poses) -> Float[Array, "12"]:
    """(R_aᵀ(x_b - x_a), R_aᵀR_b), quadratic in the poses."""
    a, b = poses
    return jnp.concatenate((a.R.T @ (b.x - a.x), (a.R.T @ b.R).reshape(-1)))


def _from_first(poses: Poses) -> Poses:
    return (_ORIGIN, _unflat(_between(poses))[0]) if len(poses) == 2 else poses


def _flat(poses: Poses) -> Array:
    return jnp.concatenate([jnp.concatenate((pose.x, pose.R.reshape(-1))) for pose in poses])


def _unflat(y: Array) -> Poses:
    parts = [y[..., 12 * k : 12 * k + 12] for k in range(y.shape[-1] // 12)]
    return tuple(Pose(p[..., :3], p[..., 3:].reshape(*p.shape[:-1], 3, 3)) for p in parts)


def _acting(gradients: tuple[Pose, ...], s: tuple[Stretch, ...]) -> Array:
    """Gradients along turns in the inertial frame and moves of each node, of shape (…, 6 nodes)."""

    def one(gradient: Pose, lever: Float[Array, "3 3"]) -> Array:
        A = gradient.R @ lever.T
        turn = jnp.stack((A[..., 2, 1] - A[..., 1, 2], A[..., 0, 2] - A[..., 2, 0], A[..., 1, 0] - A[..., 0, 1]), -1)
        return jnp.concatenate((turn, gradient.x), axis=-1)

    return jnp.concatenate([one(g, n.lever) for g, n in zip(gradients, s, strict=True)], axis=-1)


def _matrix(q: Float[Array, "4"]) -> Float[Array, "3 3"]:
    """|q|² times the rotation matrix."""
    w, v = q[0], q[1:]
    return (w * w - v @ v) * jnp.eye(3) + 2 * jnp.outer(v, v) + 2 * w * hat(v)


def _moving(slots: tuple[Slot, ...]) -> list[tuple[int, Slot]]:
    return [(k, slot) for k, slot in enumerate(slots) if slot.group is not None]


def _rigid(group: BodyGroup) -> bool:
    return isinstance(group.formulation, DirectProduct)


def _width(group: BodyGroup) -> int:
    return 7 if _rigid(group) else group.formulation.n


def _size(x: Array) -> Float[Array, ""]:
    return jnp.sqrt(jnp.sum(x * x))


def _is_objective(
    base: MultibodySystem, group: ForceGroup | JointGroup, state: State, f: Callable[[Any, Poses], Array]
) -> bool:
    """Whether a function of two poses sees their relative pose only, tried out at a disturbed start."""
    if len(group.slots) != 2:
        return False
    if not checks.is_concrete(base, state):
        return True
    rng = np.random.default_rng(0)

    def disturbed(pose: Pose) -> Pose:
        turn = quaternions.to_matrix(quaternions.from_increment(jnp.asarray(0.3 * rng.standard_normal(3))))
        return Pose(pose.x + 0.1 * rng.standard_normal(3), pose.R @ turn)

    nodes = base.motion(state[0]).at(group.slots)
    poses = tuple(disturbed(p) if slot.group is not None else p for p, slot in zip(nodes, group.slots, strict=True))
    here, there = (np.asarray(jax.vmap(f)(group.elements, p)) for p in (poses, jax.vmap(_from_first)(poses)))
    return bool(np.all(np.abs(here - there) <= 1e-9 * (1 + np.abs(here))))
