"""Actuators of a file whose controls depend on positions and rates of its joints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.forces.coordinate_forces import Actuation
from polhode.forces.joint_control import JointControl
from polhode.forces.joint_forces import Actuator
from polhode.importers.joints import FileJoint
from polhode.multibody.mechanism.user_functions import takes_arguments


def is_feedback(control: Any) -> TypeGuard[Callable[..., Any]]:
    """Whether a control is a function of (t, positions, rates), not of time alone."""
    return takes_arguments(control, 3)


class FeedbackActuator(NamedTuple):
    """An actuator with zero control, and its control: a function of (t, positions, rates) by name."""

    actuator: Actuator
    control: Callable[[Any, Mapping[str, Any], Mapping[str, Any]], Any]


class _Servos(eqx.Module):
    """Forces of actuators from the coordinates of the joints followed by those of the actuators."""

    controls: tuple[Callable[..., Any], ...]
    elements: tuple[Actuation, ...]
    names: tuple[str, ...] = eqx.field(static=True)

    def __call__(self, t: Array, s: Float[Array, " n"], rates: Float[Array, " n"]) -> Float[Array, " n"]:
        at, rates_by_name = dict(zip(self.names, s, strict=False)), dict(zip(self.names, rates, strict=False))
        forces = []
        for k, (control, element) in enumerate(zip(self.controls, self.elements, strict=True), len(self.names)):
            u = jnp.asarray(control(t, at, rates_by_name), float)
            forces.append(element.actuator_force(u, s[k], rates[k]))
        return jnp.concatenate((jnp.zeros(len(self.names)), jnp.stack(forces)))


def controller(joints: Sequence[FileJoint], actuators: Sequence[FeedbackActuator], name: str) -> JointControl:
    """A controller with all of these actuators; `joints` are those with a coordinate."""
    elements = tuple(actuator.place(()) for actuator, _ in actuators)
    servos = _Servos(tuple(control for _, control in actuators), elements, tuple(joint.name for joint in joints))
    return JointControl([*joints, *(actuator.joint for actuator, _ in actuators)], servos, name=name)
