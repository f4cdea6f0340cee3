"""Results of a run by the names of bodies."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.multibody.measurements.joints import JointMeasurements
from polhode.multibody.system import MultibodySystem
from polhode.results.by_name import ByName
from polhode.results.protocols import ResultView
from polhode.results.quantity import NO_MODEL, AbstractComputation, AbstractNamedResults, Quantity, model_names
from polhode.results.quaternion_series import library, matrices, quaternions, without_jumps


class BodyMotion(AbstractComputation):
    """Poses and twists of all bodies that have a place."""

    system: MultibodySystem
    readings: JointMeasurements
    axes: ClassVar = {
        "positions": ("body", "component"),
        "velocities": ("body", "component"),
        "angular_velocities": ("body", "component"),
        "rotations": ("body", "inertial_axis", "body_axis"),
        "quaternions": ("body", "quaternion"),
    }

    def __call__(self, t: Array, q: Any, v: Array) -> dict[str, Array]:
        del t
        rows = np.array([self.system.names.index(name) for name in self.readings.bodies], dtype=int)
        motion = self.system.motion(q, v)
        poses, twists = motion.poses, motion.twists
        assert twists is not None
        values = poses.x[rows], poses.R[rows], twists.u[rows], twists.omega[rows]
        return dict(zip(("positions", "rotations", "velocities", "angular_velocities"), values, strict=True))


class BodyEnergies(AbstractComputation):
    """Kinetic energies of all bodies that have a place."""

    system: MultibodySystem
    readings: JointMeasurements
    axes: ClassVar = {"body_kinetic_energies": ("body",)}

    def __call__(self, t: Array, q: Any, v: Array) -> dict[str, Array]:
        rows = [self.system.names.index(name) for name in self.readings.bodies]
        deformable = self.system.coordinates.has_deformable_bodies
        values = self._in_own_coordinates(rows, t, q, v) if deformable else self._rigid(np.array(rows, int), q, v)
        return {"body_kinetic_energies": values}

    def _rigid(self, rows: np.ndarray, q: Any, v: Array) -> Float[Array, " bodies"]:
        twists = self.system.motion(q, v).twists
        assert twists is not None
        mass, J = self.system.coordinates.masses[rows], self.system.coordinates.inertias[rows]
        omega, u = twists.omega[rows], twists.u[rows]
        return 0.5 * (mass * jnp.sum(u * u, axis=1) + jnp.einsum("ni,nij,nj->n", omega, J, omega))

    def _in_own_coordinates(self, rows: list[int], t: Array, q: Any, v: Array) -> Float[Array, " bodies"]:
        """Half of velocities times momenta: with bodies that deform, each has coordinates of its own."""
        coordinates = self.system.coordinates
        products = 0.5 * v * jax.grad(lambda v: self.system.kinetic_energy(t, q, v))(v)
        nodes = {row for _, row in coordinates.connected_rows}
        columns = [np.array([], int) if k in nodes else coordinates.columns(self.system.names[k]) for k in rows]
        return jnp.stack([jnp.sum(products[own]) for own in columns])


def _rotation(body: BodyResults) -> Any:
    outputs, row = body._run.outputs, body._description["row"]
    if "rotations" not in outputs and "quaternions" in outputs:
        return matrices(outputs["quaternions"][..., row, :])
    return body._array("rotations", BodyMotion)[..., row, :, :]


def _orientation(body: BodyResults) -> Any:
    outputs, row = body._run.outputs, body._description["row"]
    if "quaternions" in outputs:
        return without_jumps(outputs["quaternions"][..., row, :])
    return without_jumps(quaternions(body.rotation))


class BodyResults(AbstractNamedResults):
    """A body in all saved instants of a run; leading axis n. Everything in the inertial frame unless it says otherwise.

    - `spatial_angular_velocity` (n, 3): in the inertial frame. - `speed` (n,): magnitude of the velocity.
    - `x`, `y`, `z` (n,): components of the position.
    """

    _what = "body"
    # Charts have the motion of bodies from its outputs, which systems without names have as well.
    position = Quantity(
        "length", array="positions", computation=BodyMotion, components="xyz", column="", title=None,
        doc="(n, 3): of the centre of mass.",
    )  # fmt: skip
    orientation = Quantity(
        "", _orientation, array=("quaternions", "rotations"), components="wxyz", column="q", title=None,
        doc="(n, 4): unit quaternion (w, x, y, z) from the body frame to the inertial one, without jumps of sign.",
    )  # fmt: skip
    rotation = Quantity(
        "", _rotation, array=("rotations", "quaternions"), computation=BodyMotion, column=None, title=None,
        doc="(n, 3, 3): the same as a matrix.",
    )  # fmt: skip
    velocity = Quantity(
        "velocity", array="velocities", computation=BodyMotion, components="xyz", column="v", title=None,
        doc="(n, 3): of the centre of mass.",
    )  # fmt: skip
    angular_velocity = Quantity(
        "spin", array="angular_velocities", computation=BodyMotion, components="xyz", column="omega_", title=None,
        doc="(n, 3): body-fixed, as everywhere in polhode.",
    )  # fmt: skip
    kinetic_energy = Quantity(
        "energy", array="body_kinetic_energies", computation=BodyEnergies,
        doc="(n,): of its translation and rotation, and of the deformation of a flexible body.",
    )  # fmt: skip

    quaternion = property(lambda self: self.orientation, doc="The orientation.")
    x = property(lambda self: self.position[..., 0], doc="First component of the position.")
    y = property(lambda self: self.position[..., 1], doc="Second component of the position.")
    z = property(lambda self: self.position[..., 2], doc="Third component of the position.")

    @property
    def spatial_angular_velocity(self) -> Float[Array, "n 3"]:
        xp = library(self.rotation)
        return xp.einsum("...ij,...j->...i", self.rotation, self.angular_velocity)

    @property
    def speed(self) -> Float[Array, " n"]:
        return library(self.velocity).linalg.norm(self.velocity, axis=-1)

    def __repr__(self) -> str:
        return f"<{self._title}: {', '.join(self._quantities)}>"


def bodies(run: ResultView) -> ByName[BodyResults]:
    """The bodies of a run."""
    names = list(model_names(run).get("bodies", ()))
    rows = {name: {"row": row} for row, name in enumerate(names)}
    return ByName("body", names, lambda name: run.classes.bodies(run, name, rows[name]), NO_MODEL, model_names(run))
