"""Flexible bodies of a model, from parts and their initial states."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import short_repr
from polhode.flexible.flexible_body import FlexibleBody
from polhode.flexible.flexible_part import FlexiblePart
from polhode.multibody.bodies import Body
from polhode.multibody.formulations.floating_frame import FloatingFrame
from polhode.multibody.formulations.lie_groups import DirectProduct
from polhode.multibody.mechanism.poses import Pose, Twist
from polhode.spaces.base import cross
from polhode.spaces.rotation_input import rotation_matrix
from polhode.spaces.rotations import SO3


def build(
    part: FlexiblePart,
    *,
    name: str,
    position: Any,
    rotation: Any,
    velocity: Any,
    angular_velocity: Any,
    amplitudes: Any,
    rates: Any,
) -> FlexibleBody:
    """See `Model.add_flexible`."""
    if not isinstance(part, FlexiblePart):
        raise ValueError(f"`part` must come from `polhode.flexible.reduced` or `from_modes`, got {short_repr(part)}.")
    modal = part.modal
    k = modal.count
    eta, rate = _amplitudes("amplitudes", amplitudes, k), _amplitudes("rates", rates, k)
    x = checks.array("position", position, (3,), "of the origin of the part's coordinates, inertial frame")
    u = checks.array("velocity", velocity, (3,), "of the origin of the part's coordinates, inertial frame")
    omega = checks.array("angular_velocity", angular_velocity, (3,), "body-fixed")
    R = rotation_matrix(rotation)
    form = FloatingFrame(DirectProduct(SO3()), modal)
    q = (R, x + R @ part.centre), eta
    v = jnp.concatenate((omega, u + R @ cross(omega, jnp.asarray(part.centre)), rate))
    pose, twist = form.pose(q), form.twist(q, v)
    frames = [(name, form.at(k + 1), modal.rotates[k + 1]) for k, name in enumerate(part.nodes)]
    return FlexibleBody(
        name=name,
        kind="flexible",
        mass=modal.mass,
        inertia=modal.inertia,
        x=pose.x,
        R=pose.R,
        u=twist.u,
        omega=twist.omega,
        modal=modal,
        amplitudes=eta,
        rates=rate,
        nodes=tuple(_node(name, node, turns, frame.pose(q), frame.twist(q, v)) for node, frame, turns in frames),
        called=part.nodes,
    )


def _node(body: str, name: str, turns: bool, pose: Pose, twist: Twist) -> Body:
    return Body(
        name=f"{body}-{name}",
        kind="rigid" if turns else "point",
        mass=jnp.zeros(()),
        inertia=jnp.zeros((3, 3)),
        x=pose.x,
        R=pose.R,
        u=twist.u,
        omega=twist.omega,
        carrier=body,
    )


def _amplitudes(name: str, values: Any, k: int) -> Float[Array, " k"]:
    return jnp.zeros(k) if values is None else checks.array(name, values, (k,), "one for each mode")
