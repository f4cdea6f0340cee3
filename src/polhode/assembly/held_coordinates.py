"""Positions and velocities that closing the joints of a model leaves unchanged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import short_repr
from polhode.compiler.numpy_jit import numpy_jit
from polhode.jax_context import warn
from polhode.multibody import consistent_start
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.elements import AbstractConstraintElement
from polhode.multibody.mechanism.poses import Pose, Poses, Twist, Twists
from polhode.multibody.parts import AbstractJoint
from polhode.systems.base import State
from polhode.systems.lagrangian import StartWarning

if TYPE_CHECKING:
    from polhode.joints.relative import AbstractRelativeCoordinate
    from polhode.multibody.parts import ModelParts
    from polhode.multibody.system import MultibodySystem


class HeldCoordinate(AbstractConstraintElement):
    """Constraint that a relative coordinate has its initial value."""

    coordinate: AbstractRelativeCoordinate
    value: Float[Array, ""]

    @property
    def size(self) -> int:
        return 1

    def residual(self, t: Array, poses: Poses) -> Float[Array, "1"]:
        del t
        return self.coordinate.difference(poses, self.value)[None]


class HeldQuantity(AbstractJoint):
    """A quantity that closing the joints leaves unchanged.

    **Arguments:**

    - `name`: for messages.
    - `bodies`: the two bodies of the relative pose.
    - `element`: its residual is zero if the position is held, its rate unchanged if the velocity is.
    - `position`, `velocity`: whether each is held.
    """

    def __init__(
        self,
        name: str,
        bodies: tuple[Body, Body],
        element: AbstractConstraintElement,
        *,
        position: bool = True,
        velocity: bool = True,
    ) -> None:
        self.name: str | None = name
        self._bodies, self.element = bodies, element
        self.position, self.velocity = position, velocity

    @property
    def bodies(self) -> tuple[Body, ...]:
        return self._bodies

    def place(self, poses: Poses) -> AbstractConstraintElement:
        del poses
        return self.element

    def rates(self) -> np.ndarray:
        """The rates of the element at the initial velocities of the bodies."""
        twists = tuple(Twist(body.omega, body.u) for body in self._bodies)
        return np.asarray(_rate(self.element, _initial_poses(self._bodies), twists))


@numpy_jit
def _rate(element: AbstractConstraintElement, poses: Poses, twists: Twists) -> Array:
    return element.rate(jnp.zeros(()), poses, twists)


def held_coordinate(
    name: str, coordinate: AbstractRelativeCoordinate, bodies: tuple[Body, Body], *, position: bool, velocity: bool
) -> HeldQuantity:
    """A relative coordinate of two bodies, at its initial value."""
    element = HeldCoordinate(coordinate, coordinate.difference(_initial_poses(bodies), 0.0))
    return HeldQuantity(name, bodies, element, position=position, velocity=velocity)


def held_pose(name: str, bodies: tuple[Body, Body], *, position: bool, velocity: bool) -> HeldQuantity:
    """The initial pose of the second body relative to the first."""
    from polhode.joints import Fixed

    element = Fixed(*bodies).place(_initial_poses(bodies))
    return HeldQuantity(name, bodies, element, position=position, velocity=velocity)


def held_attitude(name: str, bodies: tuple[Body, Body], *, position: bool, velocity: bool) -> HeldQuantity:
    """The initial attitude of the second body relative to the first."""
    from polhode.joints import Generic

    element = Generic(*bodies, point=bodies[1].x, fixed=("rx", "ry", "rz")).place(_initial_poses(bodies))
    return HeldQuantity(name, bodies, element, position=position, velocity=velocity)


def resolve_held(model: ModelParts, hold: Sequence[str | HeldQuantity]) -> tuple[HeldQuantity, ...]:
    """The joint coordinates and bodies named in `hold`. Raises ValueError for other names."""
    if isinstance(hold, str) or not isinstance(hold, Sequence):
        raise ValueError(f"`hold` must be a list of names of joints and bodies, got {short_repr(hold)}.")
    quantities: list[HeldQuantity] = []
    joints = {name: part for name, part in model.parts if isinstance(part, AbstractJoint)}
    bodies = {body.name: body for body in model.bodies}
    for each in hold:
        if isinstance(each, HeldQuantity):
            quantities.append(each)
        elif each in joints:
            quantities += _held_joint(each, joints[each])
        elif each in bodies:
            quantities.append(held_pose(each, (model.ground, bodies[each]), position=True, velocity=True))
        else:
            names = (*joints, *bodies)
            raise ValueError(
                f"`hold` names {short_repr(each)}, which is no joint or body.{checks.nearest(each, names)}"
            )
    return tuple(quantities)


def _held_joint(name: str, joint: Any) -> list[HeldQuantity]:
    coordinates = joint.coordinates() if hasattr(joint, "coordinates") else {}
    if not coordinates:
        raise ValueError(f"`hold` names the joint `{name}`, which has no coordinate of its own; name its body.")
    return [
        held_coordinate(name, coordinate, joint.bodies, position=True, velocity=True)
        for coordinate in coordinates.values()
    ]


def _initial_poses(bodies: tuple[Body, ...]) -> Poses:
    return tuple(Pose(body.x, body.R) for body in bodies)


def repair_holding(
    system: MultibodySystem,
    system_holding: Callable[[Sequence[HeldQuantity]], MultibodySystem],
    t: float,
    state: State,
    quantities: Sequence[HeldQuantity],
) -> State:
    """`consistent_start.repair_state` among the states that keep the held quantities.

    `system_holding` returns the system with the constraints that hold them. A quantity that can't be held together with
    the joints and the quantities before it is given up, and a `StartWarning` names it.
    """
    q, v = state

    def at(which: Sequence[HeldQuantity]) -> Any:
        return consistent_start.close_on_branch(system_holding(which), t, q)

    positions = _compatible([h for h in quantities if h.position], at)
    q = at(positions)

    def fit_velocities(which: Sequence[HeldQuantity]) -> Any:
        # Rates of the joints are zero.
        rates = np.concatenate([np.zeros(system.m), *(h.rates() for h in which)])
        return consistent_start.consistent_velocities(system_holding(which), t, q, v, rates)

    velocities = _compatible([h for h in quantities if h.velocity], fit_velocities)
    v = fit_velocities(velocities)
    changes = [
        _describe_change(system_holding([h]), h, t, (q, v))
        for h in quantities
        if h not in positions or h not in velocities
    ]
    messages = [each for each in changes if each]
    if messages:
        warn(
            f"The joints can't be closed with all that was given: {', '.join(messages)}. Look at the start of the run, "
            "or give values that fit.",
            StartWarning,
        )
    return q, v


def _describe_change(with_it: MultibodySystem, quantity: HeldQuantity, t: float, state: State) -> str:
    """The change of a quantity that should be held, in words; "" if there is none."""
    size = quantity.element.size
    gap, rate = (np.asarray(each)[-size:] for each in consistent_start.violations(with_it, jnp.asarray(t), *state))
    messages = []
    for what, is_held, value in (
        ("position", quantity.position, gap),
        ("velocity", quantity.velocity, rate - quantity.rates()),
    ):
        change = float(np.max(np.abs(value)))
        if is_held and change > consistent_start.POSITION_TOLERANCE:
            messages.append(f"the {what} of `{quantity.name}` changes by {change:.3g}")
    return " and ".join(messages)


def _compatible(
    quantities: Sequence[HeldQuantity], attempt: Callable[[Sequence[HeldQuantity]], Any]
) -> list[HeldQuantity]:
    """Quantities that can be held together, added greedily in order."""

    def works(which: Sequence[HeldQuantity]) -> bool:
        try:
            attempt(which)
        except ValueError:
            return False
        return True

    if not quantities or works(quantities):
        return list(quantities)
    compatible: list[HeldQuantity] = []
    for each in quantities:
        if works([*compatible, each]):
            compatible.append(each)
    return compatible
