"""From a model to a tree of links: which joint carries which body, and where the frames of the links lie."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.execution.once import interpreted
from polhode.linalg.blocks import Indices, to_dense
from polhode.model.layout import AbstractLayout, Placed
from polhode.model.spanning import Attachment, spanning
from polhode.model.ties import Ties
from polhode.multibody import consistency
from polhode.multibody.bodies import SINGLE, Body
from polhode.multibody.conversions.cotangent import ToHamiltonian
from polhode.multibody.conversions.joint_lagrangian import ToJointLagrangian
from polhode.multibody.conversions.turning_body import ToTurningBody
from polhode.multibody.groups import Slot
from polhode.multibody.mechanism import Mechanism
from polhode.multibody.parts import AbstractJoint
from polhode.multibody.poses import Pose, Twist
from polhode.multibody.tree.along import AbstractAlong, CoordinateIndex, JointEffort, JointFeedback, JointRotor
from polhode.multibody.tree.coordinates import JointTree
from polhode.multibody.tree.links import Inertia, Link
from polhode.multibody.tree.motions import (
    AbstractJointMotion,
    AbstractRelativeMotion,
    FreeMotion,
    PointMotion,
)
from polhode.multibody.tree.tied import TiedTree, tied
from polhode.spaces.base import Point, cross
from polhode.systems.base import State

if TYPE_CHECKING:
    from polhode.forces.joint_control import JointControl
    from polhode.forces.joint_forces import AbstractJointForce
    from polhode.joints.measured import AbstractMeasuredPair, Term
    from polhode.joints.rotor import AttachedRotor
    from polhode.model.model import Model

MINIMAL = "minimal"
"""The name of joint coordinates for `Model.assemble`."""

_SINGULAR = 1e-12
"""Smallest eigenvalue of a mass matrix with ones on the diagonal from which velocities can be told of momenta."""

_INVOLVED = 0.3
"""Least part of the largest component of a motion without inertia with which a joint is named."""


class _Placed(NamedTuple):
    """A link with what its initial state needs: its frame at the start, inertial."""

    link: Link
    body: Body
    frame: Pose


class TreeLayout(AbstractLayout):
    """Which body of a model is which link, and the joints that are left over."""

    written_as = (ToHamiltonian, ToJointLagrangian, ToTurningBody)

    def __init__(self, model: Model, repair: bool) -> None:
        for body in model.bodies:
            if body.formulation is not None:
                raise ValueError(
                    f"{body!r} asks for the coordinates {body.formulation!r}, but formulation='minimal' takes those of "
                    "the joints for all bodies. Leave `formulation` of the body out, or assemble in other coordinates."
                )
        self.repair = repair
        self.placed: list[_Placed] = []
        self.carrying: set[str] = set()
        self.efforts: list[AbstractAlong] = []
        self._ties = Ties(self._may_follow)
        self._carried: dict[int, int] = {}
        self._numbers: dict[str, int] = {"ground": -1}
        order = spanning(model)
        self._carried_rotors = _carried_rotors(model, order)
        rotors = {id(part.rotor) for part, _, _ in self._carried_rotors.values()}
        for attachment in order:
            if id(attachment.body) not in rotors:
                self._place(*attachment)
        self.carrying |= self._carried_rotors.keys()

    def _place(self, body: Body, name: str, joint: Any, allowed: AbstractJointMotion | None) -> None:
        """Hang a body on the tree by a joint, or leave it free."""
        if allowed is None:
            parent, frame = -1, Pose(body.x, body.R)
            motion: AbstractRelativeMotion = (
                FreeMotion() if body.kind == "rigid" else PointMotion(3 if body.kind == "point" else 1)
            )
        else:
            self.carrying.add(name)
            self._carried[id(joint)] = len(self.placed)
            parent = self._numbers[(joint.first if joint.second is body else joint.second).name]
            frame = allowed.initial
            motion = allowed.on(self.placed[parent].frame if parent >= 0 else Pose(jnp.zeros(3), jnp.eye(3)))
        first = self.placed[-1].link.last if self.placed else 0
        centre, attitude, inertia = _seen_from(frame, Pose(body.x, body.R), jnp.asarray(body.mass), body.inertia)
        link = Link(
            motion=motion,
            inertia=inertia,
            centre=centre,
            attitude=attitude,
            name=body.name,
            joint=name,
            parent=parent,
            weight=0.0 if body.kind in SINGLE else 1.0,
            energetic=body.kind != "integral",
            first=first,
            last=first + motion.n,
        )
        self._numbers[body.name] = len(self.placed)
        self.placed.append(_Placed(link, body, frame))

    def remaining(self, elements: Sequence[Placed]) -> list[Placed]:
        """The elements that the tree doesn't hold: as joints, coordinates that follow others, forces along some."""
        left = []
        for name, part, element in elements:
            if name in self.carrying or self._ties_up(part):
                continue
            effort = self._effort(part, element)
            if effort is None:
                left.append((name, part, element))
            else:
                self.efforts.append(effort)
        return left

    def _effort(self, part: Any, element: Any) -> AbstractAlong | None:
        """Forces along coordinates of the tree, or None for anything else."""
        from polhode.forces.joint_control import JointControl
        from polhode.forces.joint_forces import AbstractJointForce

        if isinstance(part, JointControl):
            return self._feedback(part, element)
        return self._along(part, element) if isinstance(part, AbstractJointForce) else None

    def _along(self, part: AbstractJointForce, element: Any) -> JointEffort | None:
        from polhode.forces.efforts import AbstractEffort
        from polhode.joints.relative import Angle

        terms = part.joint.terms(part.along)
        places = self._places_of(terms)
        if places is None or not isinstance(element, AbstractEffort):
            return None
        ratios = jnp.stack([term.ratio for term in terms])
        turns = isinstance(element.coordinate, Angle)
        return JointEffort(element, part.joint.initial(part.along), ratios, places, turns)

    def _feedback(self, part: JointControl, element: Any) -> JointFeedback | None:
        sums = part.terms()
        terms = list(itertools.chain(*sums))
        places = self._places_of(terms)
        if places is None:
            return None
        rows = np.repeat(np.arange(len(sums)), list(map(len, sums)))
        ratios = jnp.zeros((len(sums), len(terms)))
        ratios = ratios.at[rows, np.arange(len(terms))].set(jnp.stack([term.ratio for term in terms]))
        return JointFeedback(element, jnp.stack([joint.initial() for joint in part.joints]), ratios, places)

    def _places_of(self, terms: Sequence[Term]) -> tuple[CoordinateIndex, ...] | None:
        """Where the tree has coordinates of joints; None unless it has all of them."""
        found = [place for place in map(self._place_of, terms) if place is not None]
        return tuple(found) if len(found) == len(terms) else None

    def _place_of(self, term: Term) -> CoordinateIndex | None:
        """Where the tree has a coordinate of a joint; None if it hasn't."""
        number = self._carried.get(id(term.pair.carrier))
        if number is None:
            return None
        link = self.placed[number].link
        component = _component(term.pair, term.name, link.motion)
        return None if component is None else CoordinateIndex(number, component, link.first + component)

    def _ties_up(self, part: Any) -> bool:
        """Whether coordinates of the tree follow others as a part demands."""
        from polhode.joints.coupling import CoupledJoints

        relation = part.relation() if isinstance(part, CoupledJoints) else None
        places = None if relation is None else self._places_of(relation.terms)
        if relation is None or places is None:
            return False
        ratios: dict[CoordinateIndex, float] = collections.defaultdict(float)
        value = relation.value
        for place, term in zip(places, relation.terms, strict=True):
            ratios[place] += float(term.ratio)
            value -= float(term.ratio * term.pair.initial(term.name))
        return self._ties.add(ratios, value)

    def _may_follow(self, place: CoordinateIndex) -> bool:
        """Whether a coordinate is alone in its joint, and not the last one of all."""
        alone = self.placed[place.link].link.motion.n == 1
        return alone and self.placed[-1].link.last - len(self._ties.following) > 1

    def kind(self, body: Body) -> int | None:
        return None if body.kind == "ground" else 0

    def slot(self, bodies: Sequence[Body]) -> Slot:
        """One end of several elements; all bodies are links, or all are the ground."""
        nodes = np.array([self._numbers[body.name] for body in bodies])
        nodes = np.where(nodes < 0, len(self.placed), nodes)
        columns = Indices(np.zeros((len(bodies), 0), dtype=int))
        return Slot(self.kind(bodies[0]), Indices(nodes), Indices(nodes), columns)

    def finished(
        self, mechanism: Mechanism, labels: tuple[str, ...]
    ) -> tuple[JointTree | TiedTree, Mechanism, tuple[str, ...]]:
        if self.placed[-1].link.last == 0:
            raise ValueError("Fixed joints hold all bodies of the model, so no joint coordinate is left to move.")
        return self._coordinates(), mechanism, labels

    def _coordinates(self) -> JointTree | TiedTree:
        tree = JointTree(tuple(placed.link for placed in self.placed), tuple(self.efforts), self._rotors())
        return tied(tree, [(place, found.ratios, found.offset) for place, found in self._ties.following.items()])

    def _rotors(self) -> tuple[JointRotor, ...]:
        found = []
        for part, joint, component in self._carried_rotors.values():
            place = self.placed[self._carried[id(joint)]].link.first + component
            found.append(JointRotor(jnp.asarray(part.rotor.mass), place))
        return tuple(found)

    def start(self) -> State:
        """Joint coordinates at the start. Raises UnfitStart, naming a joint, for velocities that it doesn't allow."""
        points: list[Any] = []
        velocities: list[Array] = []
        following = {place.link for place in self._ties.following}
        for number, (link, body, frame) in enumerate(self.placed):
            point = _origin(link.motion, body)
            if link.motion.n and number not in following:
                points.append(point)
            velocities.append(self._velocity(link, body, frame, point))
        if not all(body.inert for _, body, _ in self.placed):
            self._check_mass(tuple(points))
        if not self.repair:
            self._check_following(velocities)
        kept = [v for number, v in enumerate(velocities) if number not in following]
        return tuple(points), jnp.concatenate(kept)

    def _check_following(self, velocities: Sequence[Array]) -> None:
        """Raises UnfitStart, naming the joints, if some that follow others start elsewhere or with another velocity."""
        rates = jnp.concatenate(velocities)
        if not checks.is_concrete(rates):
            return
        apart = self._ties.violations(np.zeros(len(rates)))
        slips = self._ties.violations(np.asarray(rates), constant=False)
        off = [
            f"the coordinate of `{self.placed[place.link].link.joint}` is off by {gap:.3g}, its velocity by "
            f"{slips[place]:.3g}"
            for place, gap in apart.items()
            if max(abs(gap), abs(slips[place])) > consistency.POSITION_TOLERANCE
        ]
        if off:
            said = f"Joints that follow others start elsewhere: {'; '.join(off)}."
            raise consistency.UnfitStart(
                f"{said} Correct them, or let `assemble(repair=True)` take those that fit.", own=said
            )

    def _check_mass(self, q: Point) -> None:
        """Raises ValueError, naming the joints, if some velocities meet no inertia at the start."""
        tree = self._coordinates()
        links = [placed.link for placed in self.placed]
        M = np.asarray(_mass(tree, q))
        size = np.sqrt(np.maximum(np.diag(M), 0.0))
        scale = np.where(size > 0, size, 1.0)
        values, vectors = np.linalg.eigh(M / np.outer(scale, scale))
        if values[0] > _SINGULAR:
            return
        rows = np.abs(vectors[:, 0]) > _INVOLVED * np.max(np.abs(vectors[:, 0]))
        moved = [f"`{link.joint}` of `{link.name}`" for link in links if rows[tree.columns(link.name)].any()]
        raise ValueError(
            f"What moves with {', '.join(moved)} has no mass or inertia there, or a negative one, at the start. Give "
            "the bodies behind it a mass and an inertia, or fix them."
        )

    def _velocity(self, link: Link, body: Body, frame: Pose, point: Any) -> Float[Array, " n"]:
        omega, u = _link_twist(link, body, frame)
        if link.parent >= 0:
            parent = self.placed[link.parent]
            omega0, u0 = _link_twist(*parent)
            F = parent.frame.R
        else:
            omega0, u0, F = jnp.zeros(3), jnp.zeros(3), jnp.eye(3)
        v, gap, wanted = _nearest(link.motion, point, (omega, u), (omega0, u0), F)
        if not self.repair and checks.is_concrete(gap):
            speed = max(1.0, float(jnp.max(jnp.abs(wanted))))
            if not float(jnp.max(jnp.abs(gap))) <= consistency.POSITION_TOLERANCE * speed:
                turn, slip = float(jnp.linalg.norm(gap[:3])), float(jnp.linalg.norm(gap[3:]))
                raise consistency.UnfitStart(
                    f"The initial velocities do not fit the joint `{link.joint}` that carries `{body.name}`: the "
                    f"relative angular velocity is off by {turn:.3g}, the relative velocity by {slip:.3g}. Correct "
                    "them, or let `assemble(repair=True)` take the nearest that fit."
                )
        return v


@interpreted
def _nearest(
    motion: AbstractRelativeMotion, point: Any, own: tuple[Array, Array], carrier: tuple[Array, Array], F: Array
) -> tuple[Array, Array, Array]:
    """The velocities of a joint nearest to those of its bodies, what they leave, and what was wanted of them.

    `F`: the rotation of the link that carries it, whose twist has its angular velocity in its own frame.
    """
    (omega, u), (omega0, u0) = own, carrier
    r, A = motion.pose(point)
    wanted = jnp.concatenate((omega - omega0 @ A, (u - u0) @ F - cross(omega0, r)))
    none = jnp.zeros((motion.n, 3))
    turning, sliding = motion.turning(point), motion.sliding(point)
    rows = jnp.concatenate((none if turning is None else turning, none if sliding is None else sliding), axis=1)
    v = jnp.linalg.solve(rows @ rows.T, rows @ wanted) if motion.n else jnp.zeros(0)
    return v, wanted - v @ rows, wanted


class _CarriedRotor(NamedTuple):
    """A rotor that a joint of the tree carries, and the component of the joint's coordinates that it turns with."""

    part: AttachedRotor
    joint: AbstractJoint
    component: int


def _carried_rotors(model: Model, order: Sequence[Attachment]) -> dict[str, _CarriedRotor]:
    """Rotors that add to the diagonal of the mass matrix, by name; nothing else may act on their coordinates."""
    from polhode.joints.rotor import AttachedRotor

    motions = {id(attachment.joint): attachment.motion for attachment in order}
    used = collections.Counter(id(body) for _, part in model.parts for body in part.bodies)
    found: dict[str, _CarriedRotor] = {}
    for name, part in model.parts:
        if not isinstance(part, AttachedRotor) or used[id(part.rotor)] > 1:
            continue
        joint = part.whole.joint.carrier
        motion = motions.get(id(joint))
        component = None if motion is None else _component(part.whole.joint, part.whole.coordinate, motion)
        if joint is not None and component is not None:
            found[name] = _CarriedRotor(part, joint, component)
    return found


def _component(joint: AbstractMeasuredPair, coordinate: str | None, motion: AbstractRelativeMotion) -> int | None:
    """Which coordinate of a motion one of the pair's is, up to a constant; None if it is none of them."""
    name = joint.name_in_carrier(coordinate)
    return motion.names.index(name) if name in motion.names else None


def _origin(motion: AbstractRelativeMotion, body: Body) -> Any:
    if isinstance(motion, FreeMotion):
        return body.R, body.x
    if isinstance(motion, PointMotion):
        return body.x[: motion.size]
    return motion.space.origin()


def _link_twist(link: Link, body: Body, frame: Pose) -> Twist:
    """Angular velocity in the frame of the link, inertial velocity of its origin, at the start."""
    return _twist(link.attitude, link.centre, frame.R, body.omega, body.u)


@interpreted
def _twist(attitude: Array, centre: Array, R: Array, omega: Array, u: Array) -> Twist:
    turning = attitude @ omega
    return Twist(turning, u - R @ cross(turning, centre))


@interpreted
def _mass(tree: JointTree | TiedTree, q: Point) -> Array:
    return to_dense(tree.mass(q), (tree.n, tree.n))


@interpreted
def _seen_from(frame: Pose, body: Pose, mass: Array, inertia: Array) -> tuple[Array, Array, Inertia]:
    """Centre of mass, attitude and inertia of a body in the frame of its link."""
    centre, attitude = (body.x - frame.x) @ frame.R, frame.R.T @ body.R
    own = attitude @ inertia @ attitude.T
    second = 0.5 * jnp.trace(own) * jnp.eye(3) - own + mass * jnp.outer(centre, centre)
    return centre, attitude, Inertia(mass, mass * centre, second)
