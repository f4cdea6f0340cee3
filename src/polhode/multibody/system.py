"""Multibody systems: a mechanism in coordinates."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.contact.combined_contacts import CombinedContacts
from polhode.contact.shape_contacts import ShapeContacts
from polhode.contact.sparse.listed_contacts import ListedContacts
from polhode.linalg.blocks import Matrix, accumulate, to_dense
from polhode.linalg.kkt import AbstractKKT
from polhode.multibody import consistent_start, contact_states, redundant_constraints
from polhode.multibody.abstract_system import AbstractMultibodySystem
from polhode.multibody.bodies import Body
from polhode.multibody.compliant_friction import CompliantFriction
from polhode.multibody.coordinates.base import AbstractCoordinates
from polhode.multibody.counted_angles import TurnCounter
from polhode.multibody.joint_contacts import JointContacts
from polhode.multibody.mechanism.groups import JointGroup, Motion
from polhode.multibody.mechanism.mechanism import Mechanism
from polhode.multibody.mechanism.poses import Pose, Twist
from polhode.multibody.mechanism.user_functions import Function
from polhode.multibody.pivot_contacts import PivotContacts
from polhode.multibody.stability_limits import stability_limit
from polhode.result_codes import Result
from polhode.spaces.base import AbstractSpace, Point, Vector
from polhode.systems.base import AbstractConversion, Observable, State
from polhode.systems.mechanical import Multipliers
from polhode.systems.mechanical.contact_set import AbstractContactSet
from polhode.systems.mechanical.tangent import Tangent, Weights
from polhode.time_functions import breakpoints_of, kinks_of

_OPEN = 1e-9
"""Gap of a constraint that was left out, relative to the larger of 1 and the largest coordinate, above which it is
open."""

_MAX_GAP_RATIO = 100.0
"""Largest ratio of gaps of redundant constraints to those of the constraints that imply them."""

Coordinates = TypeVar("Coordinates", bound=AbstractCoordinates, covariant=True)


def split_state(state: State) -> tuple[Point, Vector]:
    """(q, v) of a state. Raises ValueError for states of other kinds of systems."""
    if hasattr(state, "_fields"):
        raise ValueError(
            f"The state is a {type(state).__name__} ({', '.join(state._fields)}), as the method of its run writes it; "
            "bodies and joints are read in states (q, v). Read them from the run: `run.joints[…]`, `run.bodies[…]`."
        )
    q, v = state
    return q, v


class MultibodySystem(AbstractMultibodySystem, Generic[Coordinates]):
    """Bodies, joints and forces as a mechanical system in coordinates of a user's choice.

    Constraints are numbered joint by joint in the order in which joints were added, then come those among the
    coordinates themselves.

    - `mechanism`: joints, forces and gravity. - `coordinates`: the bodies.
    - `labels`: name of the joint of each constraint.
    - `redundant`, `complete`: redundant components left out, by joint, and the system that still has them.
    - `order`: names of bodies in the order of the model, for rows of outputs; others come last.
    - `loops`: whether bodies and joints form loops, whose constraints may lose rank in some positions.
    - `counter`: counts the angles of joints that are no coordinates, which are at the end of q; None without any.
    - `conversion_types`: make the conversions to systems of other kinds.
    - `solver`: of its saddle-point systems; `solvable` chooses it.
    - `shape_contacts`: contacts of the shapes of its bodies, with unilateral laws and friction; None without any.
    - `joint_contacts`: rigid stops and dry friction of joints; None without any.
    - `compliant_friction`: exact friction of compliant contacts; None without any.
    - `pivot_contacts`: dry friction of joints that turn in several directions; None without any.
    """

    kind_name: ClassVar = "multibody system"

    mechanism: Mechanism
    coordinates: Coordinates
    labels: tuple[str, ...] = eqx.field(static=True)
    redundant: tuple[tuple[str, tuple[int, ...]], ...] = eqx.field(static=True)
    complete: MultibodySystem[Coordinates] | None
    loops: bool = eqx.field(static=True)
    counter: TurnCounter | None = None
    order: tuple[str, ...] = eqx.field(static=True, default=())
    conversion_types: tuple[Callable[[MultibodySystem], AbstractConversion], ...] = eqx.field(static=True, default=())
    solver: AbstractKKT | None = None
    shape_contacts: ShapeContacts | ListedContacts | None = None
    joint_contacts: JointContacts | None = None
    pivot_contacts: PivotContacts | None = None
    compliant_friction: CompliantFriction | None = None

    # --- sizes ------------------------------------------------------------------------------------------------------

    @property
    def configuration(self) -> AbstractSpace:
        return self.coordinates.space

    @property
    def n(self) -> int:
        return self.coordinates.n

    @property
    def m(self) -> int:
        return len(self.labels)

    @property
    def contact_set(self) -> AbstractContactSet | None:
        """All contacts: those of shapes, friction of compliant ones, then turning joints, and along coordinates."""
        parts = [part for part in self._contact_parts if part is not None]
        return functools.reduce(CombinedContacts.of, parts) if parts else None

    @property
    def _contact_parts(
        self,
    ) -> tuple[ShapeContacts | ListedContacts | CompliantFriction | PivotContacts | JointContacts | None, ...]:
        return self.shape_contacts, self.compliant_friction, self.pivot_contacts, self.joint_contacts

    @property
    def has_holds(self) -> bool:
        return self.joint_contacts is not None or self.pivot_contacts is not None

    @property
    def has_grips(self) -> bool:
        return self.compliant_friction is not None

    @property
    def has_poisson_impacts(self) -> bool:
        return self.contact_set is not None and self.contact_set.law.is_poisson

    @property
    def has_bearings(self) -> bool:
        return self.joint_contacts is not None and self.joint_contacts.bearings is not None

    @property
    def connected_by_contacts(self) -> set[tuple[int, int]]:
        """Pairs of rows of a motion between which contacts act; the ground has the last one."""
        return {pair for part in self._contact_parts if part is not None for pair in part.connected_rows}

    @property
    def nonholonomic(self) -> np.ndarray:
        return self.mechanism.nonholonomic

    @property
    def rheonomic(self) -> bool:
        return self.mechanism.driven

    @property
    def has_costly_tangent(self) -> bool:
        return self.coordinates.has_costly_tangent

    @property
    def identity_kinematics(self) -> bool:
        return self.coordinates.identity_kinematics

    @property
    def conservative(self) -> bool:
        """Whether energy is kept: all forces have potentials and no joint is driven."""
        return self.mechanism.conservative and self.coordinates.conservative

    @property
    def has_loads(self) -> bool:
        return bool(self.mechanism.forces) or self.coordinates.has_own_loads or self.coordinates.has_strain_energy

    @property
    def inert(self) -> bool:
        """Whether all velocities have kinetic energy; those of integrals have none."""
        return self.coordinates.inert

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the bodies in the order of the rows of `motion`."""
        return self.coordinates.names

    @property
    def shown(self) -> tuple[str, ...]:
        """Names of the bodies with positions in space: rows of the outputs, in the order of the model.

        `names` are in the order of the coordinates.
        """
        rank = {name: k for k, name in enumerate(self.order)}
        return tuple(sorted(self.coordinates.shown, key=lambda name: rank.get(name, len(rank))))

    # --- motion and energies ----------------------------------------------------------------------------------------

    @property
    def screws(self) -> np.ndarray:
        return self.coordinates.screws

    def kinematics(self, q: Point, v: Vector) -> Vector:
        return self.coordinates.kinematics(q, v)

    def motion(self, q: Point, v: Vector | None = None) -> Motion:
        """Poses and, with v, twists of all bodies and of the ground."""
        return self.coordinates.motion(q, v)

    def pose(self, q: Point, body: Body | str) -> Pose:
        """Position of the centre of mass and rotation matrix of one body."""
        return self.coordinates.pose(q, body)

    def twist(self, q: Point, v: Vector, body: Body | str) -> Twist:
        """Angular velocity (body frame) and velocity (inertial frame) of one body."""
        return self.coordinates.twist(q, v, body)

    def poses_in(self, state: State) -> Pose:
        """Positions of the centres of mass and rotations of all bodies, the ground last, in a state, (q, v)."""
        q, _ = split_state(state)
        return self.motion(q).poses

    def pose_in(self, state: State, body: Body | str) -> Pose:
        """Position of the centre of mass and rotation of a body in a state, (q, v)."""
        q, _ = split_state(state)
        return self.pose(q, body)

    def twist_in(self, state: State, body: Body | str) -> Twist:
        """Inertial velocity of the centre of mass and body-fixed angular velocity of a body in a state, (q, v)."""
        q, v = split_state(state)
        return self.twist(q, v, body)

    def columns(self, body: Body | str) -> np.ndarray:
        """Which components of v belong to one body; in joint coordinates, those of the joint that carries it."""
        return self.coordinates.columns(body)

    def kinetic_energy(self, t: Array, q: Point, v: Vector) -> Float[Array, ""]:
        """Of all bodies."""
        del t
        return self.coordinates.kinetic_energy(q, v)

    def potential_energy(self, t: Array, q: Point) -> Float[Array, ""]:
        """Potential energy of gravity, elements and deformations."""
        of_places = self.near(q).potential(t, self.motion(q))
        return of_places + self.coordinates.strain_energy(q) if self.coordinates.has_strain_energy else of_places

    def potential(self, t: Array, motion: Motion) -> Float[Array, ""]:
        """Potential energy of a motion, without deformations of bodies."""
        return self.coordinates.weight(motion, self.mechanism.gravity) + self.mechanism.potential(t, motion)

    def energy(self, t: Array, q: Point, v: Vector) -> Float[Array, ""]:
        """Kinetic plus potential energy."""
        return self.kinetic_energy(t, q, v) + self.potential_energy(t, q)

    # --- turns --------------------------------------------------------------------------------------------------------

    def as_state(self, state: Any, name: str) -> State:
        """See `AbstractSystem.as_state`.

        States of the same bodies with counted angles are accepted where none are counted, as after a release of joints.
        """
        bare = self.configuration.origin()
        # States with names for their parts are those of other systems.
        plain = type(state) is tuple and len(state) == 2 and isinstance(state[0], tuple)
        if plain and self.counter is None and isinstance(bare, tuple) and len(state[0]) == len(bare) + 1:
            *q, angles = state[0]
            # Counted angles come last, in one row; arrays of bodies have an axis for these besides.
            state = (tuple(q) if np.ndim(angles) == 1 else state[0]), state[1]
        return super().as_state(state, name)

    @property
    def counts(self) -> bool:
        return self.counter is not None

    def turns(self, q: Point) -> Float[Array, " k"]:
        """The counted angles."""
        return q[-1] if self.counter is not None else jnp.zeros(0)

    def with_turns(self, q: Point, turns: Float[Array, " k"]) -> Point:
        """A position without counted angles, with these added."""
        return q if self.counter is None else (*q, turns)

    def with_initial_turns(self, state: State) -> State:
        """A state with counted angles near those at the start of the model."""
        if self.counter is None:
            return state
        q, v = state
        return self.with_turns(q, self.counter.values(self.motion(q), self.counter.angles.reference)), v

    def near(self, q: Point) -> MultibodySystem[Coordinates]:
        """The system with references of all angles from q, for callers that evaluate its mechanism."""
        if self.counter is None:
            return self
        return dataclasses.replace(self, mechanism=self._mechanism(q), counter=self.counter.near(self.turns(q)))

    def count_turns(self, before: State, after: State, h: Any) -> State:
        if self.counter is None:
            return after
        (q0, v0), (q1, v1) = before, after
        return (*q1[:-1], self.counter.later(self.motion(q0, v0), q0[-1], self.motion(q1, v1), h)), v1

    @property
    def has_onsets(self) -> bool:
        return self.mechanism.has_onsets or self.coordinates.has_onsets

    def onset_rate(self, state: State, sense: Array) -> Float[Array, ""]:
        q, v = state
        own = self.coordinates.onset_rate(q, v, sense)
        if not self.mechanism.has_onsets:
            return own
        return jnp.maximum(own, self._mechanism(q).onset_rate(self.motion(q, v), sense))

    def turn_failure(self, before: State, after: State) -> Array | None:
        if self.counter is None:
            return None
        change = self.turns(after[0]) - self.turns(before[0])
        own = [] if self.joint_contacts is None else self.joint_contacts.half_turn_flags(jnp.abs(change) > jnp.pi)
        return self.mechanism.half_turn_result(change, own)

    def joint_coordinate(
        self, q: Point, joint: str | None, name: str, bodies: tuple[str, ...]
    ) -> Float[Array, ""] | None:
        """A relative coordinate of a joint of the model, turns included, zero at the start; None if unknown.

        A joint without a name is identified by its bodies.
        """
        value = self.coordinates.joint_coordinate(q, joint, name, bodies)
        number = None if value is not None or self.counter is None else self.counter.number(joint, name, bodies)
        if number is None or self.counter is None:
            return value
        return self.counter.sign(number) * self.counter.values(self.motion(q), self.turns(q))[number]

    def joint_coordinates(self, q: Point) -> dict[tuple[str, str], Float[Array, ""]]:
        """All known joint coordinates, by the names of joint and coordinate."""
        coordinates = dict(self.coordinates.joint_coordinates(q))
        if self.counter is not None:
            values = self.counter.values(self.motion(q), self.turns(q))
            for number, name in enumerate(self.counter.names):
                if name is not None and name.joint is not None:
                    coordinates.setdefault((name.joint, name.coordinate), name.sign * values[number])
        return coordinates

    def _mechanism(self, q: Point) -> Mechanism:
        """The mechanism with references of its angles from q."""
        return self.mechanism.near(self.turns(q)) if self.mechanism.reads_turns else self.mechanism

    # --- equations of motion ----------------------------------------------------------------------------------------

    def mass(self, t: Array, q: Point) -> Matrix:
        del t
        return self.coordinates.mass(q)

    def momentum(self, t: Array, q: Point, v: Vector) -> Vector:
        del t
        return self.coordinates.momentum(q, v)

    def force(self, t: Array, q: Point, v: Vector) -> Vector:
        return self.coordinates.force(self._mechanism(q), t, q, v)

    def balance(self, t: Array, q: Point, v: Vector, acceleration: Vector) -> Vector:
        return self.coordinates.balance(self._mechanism(q), t, q, v, acceleration)

    def inverse_mass(self, t: Array, q: Point) -> Callable[[Vector], Vector] | None:
        del t
        return self.coordinates.inverse_mass(q)

    def constraint(self, t: Array, q: Point) -> Multipliers:
        residuals = self._mechanism(q).residuals(t, self.motion(q))
        return accumulate(self.m, residuals + self.coordinates.internal_residuals(q))

    def constraint_rate(self, t: Array, q: Point, v: Vector) -> Multipliers:
        rates = self._mechanism(q).rates(t, self.motion(q, v))
        return accumulate(self.m, rates + self.coordinates.internal_rates(q, v))

    def curvature(self, t: Array, q: Point, v: Vector) -> Multipliers:
        if not self.m:
            return jnp.zeros(0)
        terms = self.coordinates.curvature(self._mechanism(q), t, q, v)
        return super().curvature(t, q, v) if terms is None else accumulate(self.m, terms)

    def jacobian(self, t: Array, q: Point) -> Matrix:
        if not self.m:
            return ()
        blocks = self.coordinates.jacobian(self._mechanism(q), t, q)
        return super().jacobian(t, q) if blocks is None else blocks

    def jacobian_terms(self, t: Array, q: Point) -> Float[Array, "m n"] | None:
        """In joint coordinates the norms of ∂Φ̇/∂twists times those of ∂twists/∂v, body by body."""
        if self.coordinates.joint_tree is None:
            return None
        poses, mechanism = self.motion(q).poses, self._mechanism(q)

        def twists(v: Vector) -> Twist:
            return self._twists((q, v))

        def rates(twists: Twist) -> Multipliers:
            return accumulate(self.m, mechanism.rates(t, Motion(poses, twists)))

        still = jnp.zeros(self.n)
        of_velocities, of_twists = jax.jacfwd(twists)(still), jax.jacfwd(rates)(twists(still))
        # Scalar products of vectors of these lengths, which may be perpendicular.
        sizes = (
            (jnp.linalg.norm(C, axis=2), jnp.linalg.norm(J, axis=1))
            for C, J in zip(of_twists, of_velocities, strict=True)
        )
        return sum((C @ J for C, J in sizes), start=jnp.zeros((self.m, self.n)))

    def stiffness(self, t: Array, q: Point, v: Vector) -> Matrix:
        blocks = self.coordinates.stiffness(self._mechanism(q), t, q, v)
        return super().stiffness(t, q, v) if blocks is None else blocks

    def damping(self, t: Array, q: Point, v: Vector) -> Matrix:
        blocks = self.coordinates.damping(self._mechanism(q), t, q, v)
        return super().damping(t, q, v) if blocks is None else blocks

    def tangent(self, t: Array, q: Point, v: Vector, increment: Vector | None, weights: Weights) -> Tangent:
        at_once = self.coordinates.tangent(self._mechanism(q), t, q, v, increment, weights)
        return super().tangent(t, q, v, increment, weights) if at_once is None else at_once

    def geometric_stiffness(self, t: Array, q: Point, multipliers: Multipliers) -> Matrix:
        blocks = self.coordinates.geometric_stiffness(self._mechanism(q), t, q, multipliers)
        return super().geometric_stiffness(t, q, multipliers) if blocks is None else blocks

    def stresses(self, t: Array, q: Point) -> tuple[Array, ...]:
        return self.coordinates.stresses(self._mechanism(q), t, q)

    def stress_stiffness(self, t: Array, q: Point, stresses: tuple[Array, ...]) -> Matrix:
        return self.coordinates.stress_stiffness(self._mechanism(q), t, q, stresses)

    @property
    def kkt(self) -> AbstractKKT:
        return self.solver if self.solver is not None else self._choose_solver()

    def solvable(self) -> MultibodySystem[Coordinates]:
        """The system with its linear solver chosen once, which takes a moment."""
        return dataclasses.replace(self, solver=self._choose_solver())

    def _choose_solver(self) -> AbstractKKT:
        return self.coordinates.choose_solver(self.mechanism, self.m, self.loops)

    def conversions(self) -> tuple[AbstractConversion, ...]:
        return (*super().conversions(), *(make(self) for make in self.conversion_types))

    def in_loops(self) -> MultibodySystem:
        """The same system with recursions along trees as loops: for what is evaluated less often than steps are."""
        complete = None if self.complete is None else self.complete.in_loops()
        return dataclasses.replace(self, coordinates=self.coordinates.in_loops(), complete=complete)

    def stiffest(self) -> MultibodySystem:
        """The system with the largest derivatives that its loads have in a run, for limits of the step."""
        mechanism, coordinates = self.mechanism.stiffest(), self.coordinates.stiffest()
        return dataclasses.replace(self, mechanism=mechanism, coordinates=coordinates)

    def with_joints(self, joints: tuple[JointGroup, ...], labels: tuple[str, ...] | None = None) -> MultibodySystem:
        """The system with other joints, and with other labels if these are given."""
        mechanism = dataclasses.replace(self.mechanism, joints=joints)
        return dataclasses.replace(self, mechanism=mechanism, labels=self.labels if labels is None else labels)

    @property
    def has_stiff_forces(self) -> bool:
        return self.coordinates.local and (self.mechanism.has_stiff_forces or self.coordinates.has_strain_energy)

    @property
    def has_reverse_derivative(self) -> bool:
        # The search for pairs has loops of unknown length.
        return not self.mechanism.near_forces

    def explicit_limit(self, t: float, state: State, h: float, share: float = 1.0) -> str:
        limit = stability_limit(self, t, state)
        if not h > share * limit.step:
            return ""
        between = " and ".join(f"`{name}`" for name in limit.bodies)
        decay = f" and decays at up to {limit.rate:.3g} per time" if limit.rate else ""
        return (
            f"The stiffest element at t = {t:.4g}, on {between}, oscillates at up to {limit.frequency:.3g} rad per time"
            f"{decay}, stops as if they held: explicit methods of order 3 to 5 need steps of about {limit.step:.2g} or "
            f"less, lower orders much smaller ones, and the step was {h:.2g}. Take such a step, error control, or "
            "`generalized-alpha`, or constrain stiff strains away."
        )

    # --- joints -----------------------------------------------------------------------------------------------------

    @property
    def dropped(self) -> dict[str, tuple[int, ...]]:
        """Redundant components that are not imposed, by the name of the joint; `assemble(redundant=...)` takes it."""
        return dict(self.redundant)

    def joint_multipliers(self, t: Array, q: Point, multipliers: Multipliers) -> dict[str, Array]:
        """Multipliers by joint. Where constraints are redundant, those of least norm with the same forces.

        Takes the frames of a run as well: everything with a leading axis, as in `solution.t`, `solution.state[0]` and
        `solution.multipliers`; then values have it too.
        """
        # Those of contacts follow.
        multipliers = jnp.asarray(multipliers)[..., : self.m]
        labels = np.array(self.labels if self.complete is None else self.complete.labels)
        if self.complete is not None:
            extend = self._least_multipliers
            if multipliers.ndim == 2:
                t, extend = jnp.broadcast_to(jnp.asarray(t), multipliers.shape[:1]), jax.vmap(extend)
            multipliers = extend(t, q, multipliers)
        return {name: multipliers[..., np.flatnonzero(labels == name)] for name in dict.fromkeys(labels.tolist())}

    def with_redundant(
        self, t: Array, q: Point, multipliers: Multipliers
    ) -> tuple[MultibodySystem[Coordinates], Multipliers]:
        """The system with all constraints, and its multipliers: those of least norm with the same forces."""
        if self.complete is None:
            return self, multipliers
        return self.complete, self._least_multipliers(t, q, multipliers)

    def _least_multipliers(self, t: Array, q: Point, multipliers: Multipliers) -> Float[Array, " all"]:
        r"""Of all constraints, redundant ones included: those of least norm with the same forces.

        With rows $A = CB$ of all constraints, those that are imposed among them, $A^T\lambda = B^T\mu$ is
        $C^T\lambda = \mu$, and $\lambda = C(C^TC)^{-1}\mu$ has the least norm.
        """
        assert self.complete is not None
        A = to_dense(self.complete.jacobian(t, q), (self.complete.m, self.n))
        B = to_dense(self.jacobian(t, q), (self.m, self.n))
        C = jnp.linalg.solve(B @ B.T, B @ A.T).T
        return C @ jnp.linalg.solve(C.T @ C, multipliers)

    def residuals(self, t: Array, state: State) -> dict[str, Array]:
        """Of all constraints, redundant ones included."""
        norms = super().residuals(t, state)
        if self.complete is not None:
            q, v = state
            norms["position"] = jnp.max(jnp.abs(self.complete.constraint(t, q)))
            norms["velocity"] = jnp.max(jnp.abs(self.complete.constraint_rate(t, q, v)))
        return norms

    def breakpoints(self) -> tuple[float, ...]:
        """Those of all functions of time in forces, joints and controllers."""
        return breakpoints_of(*self._functions())

    def kinks(self) -> tuple[float, ...]:
        """Those of all functions of time in forces, joints and controllers."""
        return kinks_of(*self._functions())

    def _functions(self) -> list[Function]:
        leaves = jax.tree.leaves(self, is_leaf=lambda node: isinstance(node, Function))
        return [leaf for leaf in leaves if isinstance(leaf, Function)]

    def failure(self, t: Array, state: State) -> Array | None:
        """`joints_open` where redundant constraints, which no method imposes, open although the others hold."""
        if self.complete is None:
            return None
        q, _ = state
        sizes = [jnp.max(jnp.abs(part), initial=0.0) for part in jax.tree.leaves(q)]
        size = jnp.maximum(1.0, jnp.max(jnp.stack(sizes)))
        violation = jnp.max(jnp.abs(self.constraint(t, q)), initial=0.0)
        is_open = jnp.max(jnp.abs(self.complete.constraint(t, q))) > _OPEN * size + _MAX_GAP_RATIO * violation
        return jnp.where(is_open, int(Result.joints_open), 0).astype(jnp.int32)

    def violations(self, t: float, state: State) -> tuple[np.ndarray, np.ndarray]:
        """Φ and dΦ/dt of all constraints, redundant ones included."""
        # The system whose start was checked at assembly, for which this is compiled already.
        whole = self._whole
        gaps, rates, *_ = consistent_start.violations(whole, jnp.asarray(t), *state)
        return np.asarray(gaps), np.asarray(rates)

    def name_violations(self, values: np.ndarray) -> str:
        return consistent_start.worst_violations(self._whole.labels, values)

    @property
    def start_remedy(self) -> str:
        return (
            "`system.repaired(t, state0)` is the nearest state that keeps them; joints that depend on time need a "
            "start of their time, `assemble(t0=…)`."
        )

    def repaired(self, t: float, state: State) -> State:
        """The nearest state, in the metric of the mass matrix, that keeps the constraints at time t.

        Raises ValueError, naming the joints and the gaps that remain, if they can't be closed from there.
        """
        return consistent_start.repair_state(self._whole, self._whole.labels, t, state)

    @property
    def _whole(self) -> MultibodySystem:
        """The system with redundant constraints, and before `assemble` chose a `solver` for it."""
        return dataclasses.replace(self, solver=None) if self.complete is None else self.complete

    def check(self, t: float, state: State) -> None:
        super().check(t, state)
        contact_states.check_start(self, state)

    def diagnose(self, t: float, state: State) -> str:
        """Describes contacts, open joints, dependent constraints, rods that turn too far, and the fastest body."""
        findings = []
        gaps = self.violations(t, state)[0]
        if np.max(np.abs(gaps), initial=0.0) > _OPEN:
            findings.append(f"the joints are open: {self.name_violations(gaps)}")
        findings += contact_states.findings(self, t, state)
        findings += consistent_start.coarse_rod_edges(self, state)
        if self.m and np.isfinite(gaps).all():
            rows, explanation = redundant_constraints.dependence(self, self.labels, t, state)
            nearly = "" if len(rows) else consistent_start.nearly_dependent_joints(self, self.labels, t, state)
            findings += [f"the position is singular: {explanation}"] if len(rows) else [nearly] if nearly else []
            q, v = state
            _, multipliers = self.accelerations(jnp.asarray(t), q, v)
            forces = self.joint_multipliers(jnp.asarray(t), q, multipliers)
            sizes = {name: float(np.linalg.norm(force)) for name, force in forces.items()}
            most = max(sizes, key=lambda name: sizes[name])
            findings.append(f"`{most}` carries most (|multipliers| = {sizes[most]:.3g})")
        speeds = np.linalg.norm(np.concatenate(self._twists(state), axis=1)[:-1], axis=1)
        findings.append(f"the fastest body is `{self.names[int(np.argmax(speeds))]}` (|twist| = {np.max(speeds):.3g})")
        findings += self._fastest_angle(state)
        return f"At t = {t:.6g} {'; '.join(findings)}."

    def _fastest_angle(self, state: State) -> list[str]:
        """Describes the joint whose counted angle changes fastest; empty without counted angles."""
        if self.counter is None:
            return []
        rates = np.abs(np.asarray(self.counter.rates(self.motion(*state))))
        number = int(np.argmax(rates))
        name = self.counter.names[number]
        between = "" if name is None else f" of `{name.joint or ' and '.join(name.bodies)}`"
        return [f"the fastest angle{between} turns at {rates[number]:.3g} rad per time"]

    # --- observation ------------------------------------------------------------------------------------------------

    def outputs(self) -> dict[str, Observable]:
        """Positions, rotations, velocities and body-fixed angular velocities of the bodies that `shown` names, and
        the energies of all.
        """
        row = {name: k for k, name in enumerate(self.names)}
        rows = np.array([row[name] for name in self.shown], dtype=int)
        return {
            "positions": lambda t, state: self.poses_in(state).x[rows],
            "rotations": lambda t, state: self.poses_in(state).R[rows],
            "velocities": lambda t, state: self._twists(state).u[rows],
            "angular_velocities": lambda t, state: self._twists(state).omega[rows],
            "kinetic_energy": lambda t, state: self.kinetic_energy(t, *state),
            "potential_energy": lambda t, state: self._potential(t, *state),
        }

    def invariants(self) -> dict[str, Observable]:
        """The energy, if it is kept, and the momenta of isolated mechanisms in absolute coordinates.

        Contacts take from the energy, and give momenta to the ground.
        """
        if not self.conservative:
            return {}
        energy: dict[str, Observable] = {"energy": lambda t, state: self.energy(t, *state)}
        grounded = False
        if self.contact_set is not None:
            energy, grounded = {}, any(len(self.names) in pair for pair in self.connected_by_contacts)
        if grounded or not (self.mechanism.isolated and self.coordinates.has_momenta):
            return energy
        linear, angular = (lambda t, state, k=k: self.coordinates.momenta(*state)[k] for k in range(2))
        return {**energy, "linear_momentum": linear, "angular_momentum": angular}

    @property
    def kept_momenta(self) -> tuple[str, ...]:
        invariants, constant = self.invariants(), self.coordinates.constant_momenta
        # Joints and forces act in other positions than those in which the angular momentum is measured.
        alone = not self.mechanism.joints and not self.mechanism.forces
        return tuple(name for name in constant if name in invariants and (alone or name != "angular_momentum"))

    def _potential(self, t: Array, q: Point, v: Vector) -> Float[Array, ""]:
        del v
        return self.potential_energy(t, q)

    def _twists(self, state: State) -> Twist:
        twists = self.motion(*state).twists
        assert twists is not None
        return twists
