"""Spanning tree of the joints: the joint that carries each body, and its motion."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp

from polhode import checks
from polhode.multibody import consistent_start
from polhode.multibody.bodies import Body
from polhode.multibody.coordinates.tree.motions import AbstractJointMotion
from polhode.multibody.mechanism.poses import Pose
from polhode.multibody.parts import AbstractJoint

if TYPE_CHECKING:
    from polhode.multibody.parts import ModelParts

_TRIAL_SIZES = (0.3, 1.1)
"""Lengths of the trial motions for the constraint of a user's joint."""


class Attachment(NamedTuple):
    """A body with the joint that carries it and its motion; the body's name and None if no joint does."""

    body: Body
    name: str
    joint: Any
    motion: AbstractJointMotion | None

    @property
    def parent(self) -> Body:
        """The body on which the joint carries this one."""
        return next(end for end in self.joint.bodies if end is not self.body)


def spanning_tree(model: ModelParts) -> list[Attachment]:
    """Bodies of a spanning tree, parents first, without those that have coordinates of their own.

    Loops are cut at the joints that impose the fewest constraints; of equal ones, at those that come last.
    """
    joints = [(name, part) for name, part in model.parts if isinstance(part, AbstractJoint)]
    first = _tree_of(model, joints)
    if not has_loops(model):
        return first
    kept = _stiffest_forest(joints, {x.name: x.motion for x in first if x.motion is not None})
    other = _tree_of(model, [(name, joint) for name, joint in joints if name in kept])
    # A joint of a user may carry one of its bodies only.
    return other if _count_carried(other) == _count_carried(first) else first


def _count_carried(order: list[Attachment]) -> int:
    return sum(attachment.motion is not None for attachment in order)


def _stiffest_forest(joints: list[tuple[str, AbstractJoint]], first: dict[str, AbstractJointMotion]) -> set[str]:
    """Names of the joints of a spanning forest that have the fewest freedoms together, by Kruskal's algorithm.

    - `first`: motions of the joints of another one, which are preferred to others with as many freedoms.
    """
    ranked: list[tuple[int, bool, str, AbstractJoint]] = []
    for name, joint in joints:
        motion = first.get(name) or _carrying_motion(joint, joint.bodies[-1])
        if motion is not None:
            ranked.append((motion.n, name not in first, name, joint))
    parts, kept = _Components(), set[str]()
    for _, _, name, joint in sorted(ranked, key=lambda one: one[:2]):
        if parts.connect({body.name for body in joint.bodies}):
            kept.add(name)
    return kept


class _Components:
    """Connected components of names."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}

    def connect(self, names: Collection[str]) -> bool:
        """Connects names; whether none of them were connected before."""
        first, *others = {self._root(name) for name in names}
        self._parent.update(dict.fromkeys(others, first))
        return len(others) + 1 == len(names)

    def _root(self, name: str) -> str:
        while name in self._parent:
            name = self._parent[name]
        return name


def _tree_of(model: ModelParts, joints: list[tuple[str, AbstractJoint]]) -> list[Attachment]:
    """The spanning tree that grows along joints in their order."""
    candidates = list(joints)
    order: list[Attachment] = []
    reached = {model.ground.name}
    for root in (model.ground, *(body for body in model.bodies if not body.has_own_coordinates)):
        if root.name not in reached:
            order.append(Attachment(root, root.name, None, None))
            reached.add(root.name)
        grew = True
        while grew:
            grew = False
            for name, joint in list(candidates):
                outside = [body for body in joint.bodies if body.name not in reached]
                if len(outside) != 1:
                    continue
                candidates.remove((name, joint))
                motion = _carrying_motion(joint, outside[0])
                if motion is not None:
                    order.append(Attachment(outside[0], name, joint, motion))
                    reached.add(outside[0].name)
                    grew = True
    return order


def _carrying_motion(joint: AbstractJoint, body: Body) -> AbstractJointMotion | None:
    """The motion with which a joint carries a body; None if the joint remains a constraint."""
    # Joints are imported only when a model has some.
    from polhode import joints

    if len(joint.bodies) != 2 or any(end.kind not in ("rigid", "ground") for end in joint.bodies):
        return None
    if any(end.has_own_coordinates for end in joint.bodies):
        return None
    kind = type(joint)
    of_library = kind in vars(joints).values()
    if not of_library and _overrides(kind, "place", "motion"):
        # The motion of the base class may not fit another constraint.
        return None
    motion = joint.motion(body)
    if motion is not None and not of_library:
        _check_motion(joint, motion, body)
    return motion


def _overrides(kind: type, name: str, other: str) -> bool:
    """Whether a class overrides `name` in a more derived class than `other`."""
    where = [next(i for i, c in enumerate(kind.__mro__) if n in vars(c)) for n in (name, other)]
    return where[0] < where[1]


def _check_motion(joint: AbstractJoint, motion: AbstractJointMotion, body: Body) -> None:
    """Raises ValueError unless the motion of a user's joint agrees with its constraint."""
    other = next(end for end in joint.bodies if end is not body)
    element = joint.place(tuple(Pose(end.x, end.R) for end in joint.bodies))
    what = f"`motion` of {type(joint).__name__}"
    if element.driven:
        raise ValueError(f"{what} must be None: its constraint depends on time.")
    if element.size + motion.n != 6:
        raise ValueError(
            f"{what} has {motion.n} degrees of freedom and its constraint leaves {6 - element.size}; they must be the "
            "same, or `motion` must be None."
        )
    if not checks.is_concrete(element, motion):
        return
    frame, space = motion.initial, motion.space
    centre, attitude = (body.x - frame.x) @ frame.R, frame.R.T @ body.R
    for size in _TRIAL_SIZES:
        x, R = motion.pose(space.move(space.origin(), size * jnp.cos(jnp.arange(1.0, motion.n + 1))))
        displaced = {body.name: Pose(x + R @ centre, R @ attitude), other.name: Pose(other.x, other.R)}
        gap = element.residual(jnp.zeros(()), tuple(displaced[end.name] for end in joint.bodies))
        if not float(jnp.max(jnp.abs(gap), initial=0.0)) <= consistent_start.POSITION_TOLERANCE:
            raise ValueError(
                f"{what} leads off its constraint, by {float(jnp.max(jnp.abs(gap))):.3g} after a motion of {size:g}. "
                "Correct it, or return None to keep the joint as a constraint."
            )


def has_loops(model: ModelParts) -> bool:
    """Whether some joints close a loop."""
    parts = _Components()
    # Of several bodies, some may be connected already.
    return not all(
        parts.connect({body.name for body in part.bodies}) for _, part in model.parts if isinstance(part, AbstractJoint)
    )
