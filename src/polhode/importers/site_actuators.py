"""Actuators of MuJoCo with a force and torque at a site, along axes of the site or of a fixed site."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.forces.loads import PointForce, Torque
from polhode.importers._mujoco import mujoco
from polhode.importers.construction import Construction
from polhode.importers.feedback import is_feedback
from polhode.multibody.bodies import Body
from polhode.time_functions import breakpoints_of, kinks_of


class _Thrust(eqx.Module):
    """clip(k clip(u(t)) + b₀) along a fixed vector."""

    control: Callable[..., Any]
    gain: Float[Array, ""]
    bias: Float[Array, ""]
    control_limits: Float[Array, "2"]
    force_limits: Float[Array, "2"]
    along: Float[Array, "3"]

    def __call__(self, t: Array) -> Float[Array, "3"]:
        u = jnp.clip(jnp.asarray(self.control(t), float), *self.control_limits)
        return jnp.clip(self.gain * u + self.bias, *self.force_limits) * self.along

    @property
    def breakpoints(self) -> tuple[float, ...]:
        """Breakpoints of the control."""
        return breakpoints_of(self.control)

    @property
    def kinks(self) -> tuple[float, ...]:
        """Kinks of the control."""
        return kinks_of(self.control)


def is_at_site(m: Any, i: int) -> bool:
    """Whether an actuator acts at a site."""
    return int(m.actuator_trntype[i]) == int(mujoco.mjtTrn.mjTRN_SITE)


def reason_not_carried(construction: Construction, i: int, control: Any) -> str:
    """Why an affine actuator at a site is not carried, or ""."""
    m = construction.start.compiled
    if np.any(m.actuator_biasprm[i, 1:3]) or is_feedback(control):
        return "at sites only forces as functions of time are carried"
    axes = int(m.actuator_trnid[i, 1])
    if axes >= 0 and construction.start.carrier(int(m.site_bodyid[axes])):
        return "at sites only forces along axes of the site itself or of one that stands still are carried"
    return ""


def add(construction: Construction, i: int, control: Any, limits: tuple[Any, Any], name: str) -> None:
    """Adds force and torque of an actuator at a site; `limits`: of control and force."""
    m, data = construction.start.compiled, construction.start.data
    site, axes = (int(number) for number in m.actuator_trnid[i])
    number = int(m.site_bodyid[site])
    body, inertial = construction.body(number), axes >= 0
    if body is construction.model.ground:
        return
    turn = data.site_xmat[axes if inertial else site].reshape(3, 3)
    force, torque = (turn @ part for part in np.split(m.actuator_gear[m.actuator_outadr[i]], 2))
    if not inertial:
        force, torque = (construction.direction(number, vector) for vector in (force, torque))
    bias = m.actuator_biasprm[i, 0] * (m.actuator_biastype[i] != mujoco.mjtBias.mjBIAS_NONE)
    gain, offset, most, strongest = (jnp.asarray(value) for value in (m.actuator_gainprm[i, 0], bias, *limits))

    def along(vector: np.ndarray) -> Any:
        whole = _Thrust(
            control if callable(control) else lambda t: control, gain, offset, most, strongest, jnp.asarray(vector)
        )
        return whole if callable(control) else np.asarray(whole(jnp.zeros(())))

    frame = "inertial" if inertial else "body"
    if np.any(force):
        point = data.site_xpos[site].copy()
        construction.model.add(PointForce(body, along(force), point, frame, construction.free_name(name, "force")))
    if np.any(torque):
        construction.model.add(Torque(body, along(torque), frame, construction.free_name(f"{name} torque", "force")))


def add_compensation(construction: Construction) -> None:
    """Adds forces of gravity compensation at the centres of mass of bodies."""
    m = construction.start.compiled
    for number in np.flatnonzero(m.body_gravcomp):
        body: Body = construction.body(int(number))
        inertial, pose = construction.start.inertial(int(number)), construction.start.pose(int(number))
        force = -float(m.body_gravcomp[number]) * inertial.mass * np.asarray(construction.model.gravity)
        if body is not construction.model.ground and np.any(force):
            name = construction.start.name(mujoco.mjtObj.mjOBJ_BODY, int(number))
            point = pose.x + pose.R @ inertial.centre
            construction.model.add(PointForce(body, force, point, name=construction.free_name(f"{name} lift", "force")))
