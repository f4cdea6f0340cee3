"""Bodies, joints and forces on Livens' principle: attitudes are unit quaternions, momenta variables of their own."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.jax_context import inside_transformation
from polhode.linalg.blocks import Blocks, Matrix
from polhode.linalg.kkt import AbstractKKT
from polhode.linalg.solver_choice import kkt_solver
from polhode.multibody.conversions.livens_angles import AbstractLivensModel, plain
from polhode.multibody.conversions.livens_joints import are_relative, as_defined, as_defined_where_complete
from polhode.multibody.coordinates.absolute import AbsoluteCoordinates
from polhode.multibody.formulations.lie_groups import DirectProduct
from polhode.multibody.formulations.linear import MassPoint
from polhode.multibody.mechanism.groups import BodyGroup, Slot
from polhode.multibody.system import MultibodySystem
from polhode.systems.base import Observable, State
from polhode.systems.conversion import AbstractReformulation
from polhode.systems.lagrangian import COARSE_TOLERANCE, Gaps, LivensState, check_gaps, check_momenta
from polhode.systems.quaternion_body import E, G, G_transposed

LIVENS = "livens"
Joints = Literal["invariant", "vector"]
JOINTS = get_args(Joints)


class LivensMultibody(AbstractLivensModel, AbstractReformulation):
    r"""Bodies, joints and forces on Livens' principle, for the energy–momentum method.

    States hold q = (x, quaternion) for every rigid body, v = q̇ and the momenta p; kinetic energy goes through Ω as in
    `systems.QuaternionBody`. Potentials and constraints of elements are averaged by discrete gradients in the positions
    and rotation matrices y = (x, R) of their bodies, through the relative pose $(R_a^T(x_b-x_a), R_a^TR_b)$, which is
    quadratic in them and invariant under rigid motions: forces of a pair are exactly opposite, with
    moments that cancel about any point. `joints` selects how that is transferred to quaternions:

    - "invariant": attitudes move with the mean angular velocity, $R_1 = \mathrm{cay}(c)R_0,\ c = hR_0\bar\Omega$ with
      $\bar\Omega = \tfrac12(\Omega_0+\Omega_1)$, and their angular momentum by the moments of all loads. Body-fixed
      points then move by c × r̄, r̄ = ½(R₀ + R₁)s, and loads act on that same lever: energy and angular momentum are
      both kept to round-off, and p = ∂L/∂v at the ends of steps. Quaternions alone can't do that: a step that turns by
      θ moves points by 2 tan(θ/2) n × r̄, but quaternions by 2 tan(θ/4) n ∘ q̄.
    - "vector": as published, Δq = h v̄ and levers R(q̄)s. The energy is kept, the angular momentum to O(h²) only; a part
      of v and p alternates from step to step and can grow until Newton's method finds no next step.

    - `base`: the bodies in coordinates (quaternion, x), on which everything but the steps is based. With invariant
      joints, residuals between two bodies are in the frame of the first, and multipliers with them.
    - `relative`: whether all joints depend on relative poses only.
    """

    kind_name: ClassVar = "model in quaternions on Livens' principle"

    base: MultibodySystem[AbsoluteCoordinates]
    joints: Joints = eqx.field(static=True)
    relative: bool = eqx.field(static=True)
    solver: AbstractKKT | None = None

    # --- sizes and states -------------------------------------------------------------------------------------------

    @property
    def bodies(self) -> tuple[BodyGroup, ...]:
        """Groups of bodies with the same coordinates."""
        return self.base.coordinates.bodies

    @property
    def d(self) -> int:
        """Number of increments of positions and attitudes."""
        return self.base.n

    @property
    def m(self) -> int:
        """Number of constraints of joints."""
        return self.base.m

    @property
    def n(self) -> int:
        """Number of coordinates: 7 for a rigid body."""
        return sum(group.count * _width(group) for group in self.bodies)

    @property
    def rheonomic(self) -> bool:
        """Whether joints depend on time."""
        return self.base.rheonomic

    @property
    def keeps_rates(self) -> bool:
        """Whether velocities satisfy the time derivatives of the joints at the ends of steps."""
        return self.m > 0 and self.joints == "invariant"

    @property
    def kept_momenta(self) -> tuple[str, ...]:
        """Invariants that energy–momentum steps keep besides the energy."""
        if not self.free:
            return ()
        return ("linear_momentum", "angular_momentum") if self.joints == "invariant" else ("linear_momentum",)

    @property
    def free(self) -> bool:
        """Whether nothing acts from outside: no gravity, no element on the ground, and forces of relative poses only.

        False for traced numbers inside JAX transformations.
        """
        on_ground = any(slot.group is None for group in self.base.mechanism.joints for slot in group.slots)
        return self.conservative and self.relative and not on_ground and self.base.mechanism.acts_inside

    @property
    def kkt(self) -> AbstractKKT:
        return self.solver if self.solver is not None else self.choose_solver()

    @property
    def dropped(self) -> dict[str, tuple[int, ...]]:
        """Redundant components that are not imposed, by the name of the joint."""
        return self.base.dropped

    @property
    def conservative(self) -> bool:
        """Whether energy is kept: all forces have potentials and no joint is driven."""
        return self.base.conservative

    def start(self, *state: Any) -> State:
        """The state that corresponds to a state (q, v) of `base`."""
        (points, flat), qs, vs, ps = state, [], [], []
        for group, point in zip(self.bodies, points[: len(self.bodies)], strict=True):
            v = group.velocities(flat)
            if is_rigid(group):
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
        start = LivensState(*(jnp.concatenate([a.reshape(-1) for a in part]) for part in (qs, vs, ps)))
        return self.with_turns(start, self.base.turns(points))

    def to_base(self, state: State) -> tuple[Any, Array]:
        points, velocities = [], []
        for group, q, v in zip(self.bodies, self.rows(state[0]), self.rows(state[1]), strict=True):
            if is_rigid(group):
                points.append((q[:, 3:], q[:, :3]))
                v = jnp.concatenate((2 * jax.vmap(G)(q[:, 3:], v[:, 3:]), v[:, :3]), axis=1)
            else:
                points.append(q)
            velocities.append(v.reshape(-1))
        return self.position(tuple(points), state), jnp.concatenate(velocities)

    def rows(self, flat: Array) -> list[Array]:
        """The coordinates of each group of bodies, a row for each body."""
        ends = np.cumsum([0] + [group.count * _width(group) for group in self.bodies])
        parts = [flat[a:b] for a, b in itertools.pairwise(ends)]
        return [part.reshape(group.count, -1) for part, group in zip(parts, self.bodies, strict=True)]

    # --- observation ------------------------------------------------------------------------------------------------

    def generalised_energy(self, t: Array, state: State) -> Float[Array, ""]:
        """E = p·v - T + V, which the energy–momentum method keeps."""
        _, v, p = plain(state)
        return p @ v - self.base.kinetic_energy(t, *self.to_base(state)) + self._potential(t, state)

    def _potential(self, t: Array, state: State) -> Float[Array, ""]:
        return self.base.potential_energy(t, self.to_base(state)[0])

    def linear_momentum(self, state: State) -> Float[Array, "3"]:
        """Σ p of all bodies in space."""
        parts = zip(self.bodies, self.rows(state[2]), strict=True)
        return sum((jnp.sum(p[:, :3], axis=0) for g, p in parts if g.formulation.n > 1), start=jnp.zeros(3))

    def angular_momentum(self, state: State) -> Float[Array, "3"]:
        """Σ x × p + ½E(q)p of all bodies in space, about the origin."""
        total = jnp.zeros(3)
        for group, q, p in zip(self.bodies, self.rows(state[0]), self.rows(state[2]), strict=True):
            if group.formulation.n > 1:
                total = total + jnp.sum(jnp.cross(q[:, :3], p[:, :3]), axis=0)
            if is_rigid(group):
                total = total + 0.5 * jnp.sum(jax.vmap(E)(q[:, 3:], p[:, 3:]), axis=0)
        return total

    def outputs(self) -> dict[str, Observable]:
        return {**self.convert_observables(self.base.outputs()), **self.balances()}

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
        return self.base.residuals(t, self.to_base(state))

    def check(self, t: float, state: State) -> None:
        if not (isinstance(state, tuple) and len(state) >= 3 and all(jnp.shape(x) == (self.n,) for x in state[:3])):
            raise ValueError(
                f"`state0` must be a LivensState (q, v, p) with arrays of shape ({self.n},); `system.start(q, v)` "
                "makes one from a state of `system.base`."
            )
        if inside_transformation():
            return
        q, v = base_state = self.to_base(state)
        if self.keeps_rates or not self.m:
            self.base.check(t, base_state)
        else:
            gaps, rates = self.base.violations(t, base_state)
            remedy = "`system.repaired(t, state0)` is the nearest state that keeps them."
            coordinates = jnp.concatenate([a.reshape(-1) for a in jax.tree.leaves(q)])
            check_gaps(
                Gaps("positions", gaps, coordinates, remedy),
                Gaps("velocities", rates, v, remedy, COARSE_TOLERANCE),
            )
        check_momenta(state[2], self.start(*base_state).p)

    @property
    def state_hint(self) -> str:
        return "`system.start(q, v)` makes a state from one of `system.base`."

    def repaired(self, t: float, state: State) -> State:
        """The nearest state that keeps the joints, with consistent momenta; see `MultibodySystem.repaired`."""
        return self.start(*self.base.repaired(t, self.to_base(state)))

    def joint_multipliers(self, t: Array, state: LivensState, multipliers: Array) -> dict[str, Array]:
        """Multipliers by joint as the joints define them: with invariant joints those of a run are in the frame of the
        first body, and averages over the step. Takes the frames of a run as well.
        """
        whole = self.base if self.base.complete is None else self.base.complete
        undone = whole.with_joints(tuple(map(as_defined, whole.mechanism.joints)))
        base = dataclasses.replace(self.base, complete=dataclasses.replace(undone, complete=None))
        q = self.to_base(state)[0] if jnp.ndim(state.q) == 1 else jax.vmap(self.to_base)(state)[0]
        return base.joint_multipliers(t, q, multipliers)

    # --- steps ------------------------------------------------------------------------------------------------------

    def rates(self, t: Array, state: LivensState) -> Float[Array, " m"]:
        """Time derivatives of the constraints of joints."""
        return self.base.constraint_rate(t, *self.to_base(state))

    def velocities(self, state: LivensState) -> Float[Array, " d"]:
        """Velocities (Ω, u) of all bodies, in whose terms impulses and rates are given."""
        return self.to_base(state)[1]

    def choose_solver(self) -> AbstractKKT:
        """The solver for the sparsity pattern of the blocks."""
        # Only the places of blocks matter, which don't take the derivatives of elements.
        inertia = [Blocks.zeros(g.columns, g.columns) for g in self.bodies]
        forces = [np.zeros(_square(g.slots)) for g in self.base.mechanism.forces]
        joints = []
        for group in self.base.mechanism.joints:
            rows = np.zeros((*group.rows.numbers.shape, 6 * len(group.slots)))
            joints.append((np.zeros(_square(group.slots)), rows, rows))
        A, P, _ = self.assemble_blocks(1.0, inertia, forces, joints)
        return kkt_solver(A, P, self.d, self.m, compliant=self.base.loops)

    def assemble_blocks(
        self, h: Any, inertia: Sequence[Blocks], forces: Sequence[Any], joints: Sequence[Sequence[Any]]
    ) -> tuple[Matrix, Matrix, Matrix]:
        """Matrices of a step of length h, from blocks of the inertia and the contributions of each group of elements.

        Derivatives of the momentum balance by the increments and, transposed, by the multipliers, and of the gaps by
        the increments.
        """
        A, P, Q = list(inertia), [], []
        for group, derivative in zip(self.base.mechanism.forces, forces, strict=True):
            A += self._element_blocks(group.slots, -derivative)
        for group, (derivative, rows, ends) in zip(self.base.mechanism.joints, joints, strict=True):
            A += self._element_blocks(group.slots, derivative)
            for k, slot in _body_slots(group.slots):
                columns = self.slot_columns(slot)
                place = slice(6 * k, 6 * k + 6)
                P.append(Blocks(h * rows[:, :, place][:, :, columns], group.rows, slot.columns))
                Q.append(Blocks(ends[:, :, place][:, :, columns], group.rows, slot.columns))
        return tuple(A), tuple(P), tuple(Q)

    def slot_columns(self, slot: Slot) -> np.ndarray:
        """Indices of the increments of the bodies at a slot in (rotation, translation)."""
        assert slot.group is not None
        group = self.bodies[slot.group]
        return np.arange(6) if is_rigid(group) else 3 + np.arange(group.formulation.n)

    def sum_on_increments(self, slots: tuple[Slot, ...], values: Float[Array, "elements 6slots"]) -> Float[Array, " d"]:
        """Sums of the contributions to each increment."""
        total = jnp.zeros(self.d)
        for k, slot in _body_slots(slots):
            total = total.at[slot.columns.numbers].add(values[:, 6 * k : 6 * k + 6][:, self.slot_columns(slot)])
        return total

    def _element_blocks(self, slots: tuple[Slot, ...], values: Float[Array, "elements r c"]) -> list[Blocks]:
        return [
            Blocks(
                values[:, 6 * i : 6 * i + 6, 6 * j : 6 * j + 6][:, self.slot_columns(a)][:, :, self.slot_columns(b)],
                a.columns,
                b.columns,
            )
            for i, a in _body_slots(slots)
            for j, b in _body_slots(slots)
        ]


def build(base: MultibodySystem[AbsoluteCoordinates], state: State, joints: str) -> tuple[LivensMultibody, State]:
    """The system on Livens' principle and its start, from the bodies in quaternions and positions."""
    checks.choice("joints", joints, JOINTS)
    for name, group, *_ in base.coordinates.places:
        form = base.coordinates.bodies[group].formulation
        if not isinstance(form, DirectProduct | MassPoint):
            raise ValueError(
                f"Body `{name}` has coordinates of its own, {type(form).__name__}; with "
                "formulation='livens' all rigid bodies are in quaternions. Leave its `formulation` out."
            )
    relative = are_relative(base, state)
    base = base.with_joints(tuple(map(as_defined_where_complete, base.mechanism.joints)))
    system = LivensMultibody(base, joints, relative)  # pyrefly: ignore[bad-argument-type]
    system = dataclasses.replace(system, solver=system.choose_solver())
    return system, system.start(*state)


def _body_slots(slots: tuple[Slot, ...]) -> list[tuple[int, Slot]]:
    return [(k, slot) for k, slot in enumerate(slots) if slot.group is not None]


def is_rigid(group: BodyGroup) -> bool:
    """Whether bodies are rigid, not mass points or single coordinates."""
    return group.formulation.rotates


def _width(group: BodyGroup) -> int:
    return 7 if is_rigid(group) else group.formulation.n


def _square(slots: tuple[Slot, ...]) -> tuple[int, int, int]:
    """The shape of the derivatives of all elements with respect to their nodes."""
    return slots[0].nodes.numbers.size, 6 * len(slots), 6 * len(slots)
