"""Deformable bodies with small deformations: a floating frame, and amplitudes of modes in it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.multibody.formulations.base import AbstractFormulation
from polhode.multibody.formulations.floating_node import FloatingNode, Frame, frame_and_modes
from polhode.multibody.formulations.modal_body import ModalBody
from polhode.multibody.mechanism.poses import Pose, Twist, Wrench
from polhode.spaces.base import AbstractGroup, Point, Vector, cross, hat


class FloatingFrame(AbstractFormulation):
    r"""A floating frame of reference: q = (q of a rigid frame, η), v = (v of the frame, η̇).

    With the angular velocity ω, the velocity U of the frame in its own axes and s = Sη, all of the modes' inertia is in

    $$2T = \omega^T\Theta\omega + m|U|^2 + \dot\eta^TM\dot\eta
    + 2U\cdot(\omega\times s + S\dot\eta) + 2\omega^TH\dot\eta,$$

    and Boltzmann–Hamel's equations of this T are the equations of motion, without approximation. T itself takes
    deformations as linear in η: a bent beam becomes no shorter, so rotation does not stiffen it.

    The first node is the centre of mass with the axes of the frame, where gravity acts.

    **Arguments:**

    - `frame`: coordinates of the frame. - `modal`: the body.
    """

    frame: Frame
    modal: ModalBody

    @property
    def likeness(self) -> Hashable:
        # Bodies with the same modes are stacked.
        return self.frame, id(self.modal)

    @property
    def space(self) -> AbstractGroup:
        return frame_and_modes(self.frame, self.modal.count)

    @property
    def nodes(self) -> int:
        return self.modal.points.shape[0]

    @property
    def deforms(self) -> bool:
        return True

    @property
    def dissipative(self) -> bool:
        return self.modal.damping is not None

    @property
    def moves_with_twist(self) -> bool:
        return self.frame.moves_with_twist

    def at(self, node: int) -> FloatingNode:
        modal = self.modal
        turn = modal.turns[node] if modal.rotates[node] else None
        return FloatingNode(self.frame, modal.points[node], modal.shapes[node], turn)

    def pose(self, q: Point) -> Pose:
        return self.at(0).pose(q)

    def twist(self, q: Point, v: Vector) -> Twist:
        return self.at(0).twist(q, v)

    def jacobian(self, q: Point) -> Float[Array, "6 n"]:
        return self.at(0).jacobian(q)

    def from_pose(self, pose: Pose) -> Point:
        return self.frame.from_pose(pose), jnp.zeros(self.modal.count)

    def from_twist(self, q: Point, twist: Twist) -> Vector:
        return jnp.concatenate((self.frame.from_twist(q[0], twist), jnp.zeros(self.modal.count)))

    def deformed_state(
        self, pose: Pose, twist: Twist, eta: Float[Array, " k"], rate: Float[Array, " k"]
    ) -> tuple[Any, Any]:
        """The state with given pose and twist of the centre of mass, amplitudes and their rates."""
        centre, drift = (self.modal.first_moments @ part / self.modal.mass for part in (eta, rate))
        rigid = self.frame.from_pose(Pose(pose.x - pose.R @ centre, pose.R))
        u = twist.u - pose.R @ (cross(twist.omega, centre) + drift)
        return (rigid, eta), jnp.concatenate((self.frame.from_twist(rigid, Twist(twist.omega, u)), rate))

    # --- energies and momenta ---------------------------------------------------------------------------------------

    def relative_energy(self, q: Point, v: Vector, inertia: Float[Array, "3 3"]) -> Float[Array, ""]:
        del inertia
        omega, rate = v[:3], v[6:]
        eta, modal = q[1], self.modal
        spin, drift = self._momenta(eta, omega, rate)
        return 0.5 * (
            omega @ (spin + modal.coupling(eta) @ rate) + rate @ modal.modal_mass @ rate - drift @ drift / modal.mass
        )

    def spin(self, q: Point, v: Vector, inertia: Float[Array, "3 3"]) -> Float[Array, "3"]:
        del inertia
        eta, omega, rate = q[1], v[:3], v[6:]
        spin, drift = self._momenta(eta, omega, rate)
        return spin - cross(self.modal.first_moments @ eta, drift) / self.modal.mass

    def strain_energy(self, q: Point) -> Float[Array, ""]:
        return 0.5 * q[1] @ self.modal.stiffness @ q[1]

    def inner_tangents(self) -> tuple[Float[Array, "n n"], Float[Array, "n n"]]:
        whole, modes = jnp.zeros((self.n, self.n)), slice(self.n - self.modal.count, self.n)
        damping = self.modal.damping
        lossy = whole if damping is None else whole.at[modes, modes].set(damping)
        return whole.at[modes, modes].set(self.modal.stiffness), lossy

    def _momenta(self, eta: Array, omega: Array, rate: Array) -> tuple[Float[Array, "3"], Float[Array, "3"]]:
        """Angular momentum about the origin of the frame, and momentum, at zero velocity of the frame."""
        modal = self.modal
        theta = modal.moments(eta, modal.slopes(eta))
        first = modal.first_moments
        return theta @ omega + modal.coupling(eta) @ rate, cross(omega, first @ eta) + first @ rate

    # --- equations of motion ----------------------------------------------------------------------------------------

    def mass(self, q: Point, mass: Array, inertia: Float[Array, "3 3"]) -> Float[Array, "n n"]:
        del mass, inertia
        rigid, eta = q
        modal = self.modal
        theta, H = modal.moments(eta, modal.slopes(eta)), modal.coupling(eta)
        lever, first = hat(modal.first_moments @ eta), modal.first_moments
        if self.frame.twist_is_fixed:
            R = self.frame.pose(rigid).R
            lever, first = lever @ R.T, R @ first
        return jnp.block(
            [
                [theta, lever, H],
                [lever.T, modal.mass * jnp.eye(3), first],
                [H.T, first.T, modal.modal_mass],
            ]
        )

    def force(self, q: Point, v: Vector, wrench: Wrench, mass: Array, inertia: Float[Array, "3 3"]) -> Vector:
        """f of one body, from loads on all its nodes, of shape (nodes, 3) each."""
        del mass, inertia
        total = self._inner(q, v)
        for node, load in enumerate(self._rows(wrench)):
            total = total + self.at(node).pull_back(q, load)
        return total

    def load_stiffness(self, q: Point, wrench: Wrench, mass: Array, inertia: Float[Array, "3 3"]) -> Array:
        del mass, inertia
        total = jnp.zeros((self.n, self.n))
        for node, load in enumerate(self._rows(wrench)):
            total = total - self.at(node).load_slopes(q, load)
        return total

    def stiffness(
        self, q: Point, v: Vector, wrench: Wrench, mass: Array, inertia: Float[Array, "3 3"]
    ) -> Float[Array, "n n"]:
        (rigid, eta), omega, rate, modal = q, v[:3], v[6:], self.modal
        W = hat(omega)
        quadratic = 2.0 * jnp.einsum("abij,j->abi", modal.inertia_curvatures, omega)
        slopes = modal.inertia_slopes @ omega + jnp.einsum("abi,b->ai", quadratic, eta) + modal.spin_slopes @ rate
        moment = -W @ slopes.T - jnp.einsum("abi,a->ib", quadratic, rate)
        force = -W @ W @ modal.first_moments
        by_rotation = jnp.zeros((3, 3))
        if self.frame.twist_is_fixed:
            R = self.frame.pose(rigid).R
            by_rotation, force = -R @ hat(self._centrifugal_force(eta, omega, rate)), R @ force
        else:
            moment = moment + hat(cross(omega, v[3:6])) @ modal.first_moments
        zero, none = jnp.zeros((3, 3)), jnp.zeros((3, eta.size))
        slope = jnp.block(
            [
                [zero, zero, moment],
                [by_rotation, zero, force],
                [none.T, none.T, 0.5 * quadratic @ omega - modal.stiffness],
            ]
        )
        return self.load_stiffness(q, wrench, mass, inertia) - slope

    def damping(
        self, q: Point, v: Vector, wrench: Wrench, mass: Array, inertia: Float[Array, "3 3"]
    ) -> Float[Array, "n n"]:
        del wrench, mass, inertia
        (rigid, eta), omega, rate, modal = q, v[:3], v[6:], self.modal
        W, S, s, drift = hat(omega), modal.first_moments, modal.first_moments @ eta, modal.first_moments @ rate
        slopes = modal.slopes(eta)
        theta, H, spin = modal.moments(eta, slopes), modal.coupling(eta), self._momenta(eta, omega, rate)[0]
        spin_rates = modal.spin_slopes @ rate
        H_rate = jnp.einsum("a,aik->ik", rate, modal.spin_slopes)
        modal_slopes = slopes @ omega + spin_rates
        blocks = [
            [hat(spin) - W @ theta - jnp.einsum("a,aij->ij", rate, slopes), jnp.zeros((3, 3))],
            [hat(cross(omega, s)) + W @ hat(s) + 2.0 * hat(drift), jnp.zeros((3, 3))],
            [modal_slopes - H_rate.T, jnp.zeros((eta.size, 3))],
        ]
        modes = [-W @ H - modal_slopes.T - H_rate, -2.0 * W @ S, self._swirl(omega)]
        if modal.damping is not None:
            modes[2] = modes[2] - modal.damping
        if self.frame.twist_is_fixed:
            R = self.frame.pose(rigid).R
            blocks[1][0], modes[1] = R @ blocks[1][0], R @ modes[1]
        else:
            levers = hat(s), modal.mass * jnp.eye(3), S.T
            for row, lever in zip(blocks, levers, strict=True):
                row[0], row[1] = row[0] + lever @ hat(v[3:6]), row[1] - lever @ W
        return -jnp.block([[*row, mode] for row, mode in zip(blocks, modes, strict=True)])

    def _inner(self, q: Point, v: Vector) -> Vector:
        """Inertia forces at zero accelerations, and those of stiffness and damping."""
        (rigid, eta), omega, rate, modal = q, v[:3], v[6:], self.modal
        slopes = modal.slopes(eta)
        spin = self._momenta(eta, omega, rate)[0]
        moment = -cross(omega, spin) - rate @ (slopes @ omega + modal.spin_slopes @ rate)
        force = self._centrifugal_force(eta, omega, rate)
        modal_force = 0.5 * slopes @ omega @ omega + self._swirl(omega) @ rate - modal.stiffness @ eta
        if modal.damping is not None:
            modal_force = modal_force - modal.damping @ rate
        if self.frame.twist_is_fixed:
            return jnp.concatenate((moment, self.frame.pose(rigid).R @ force, modal_force))
        # The frame accelerates by U̇ + ω × U.
        first, steady = modal.first_moments, cross(omega, v[3:6])
        return jnp.concatenate(
            (moment - cross(first @ eta, steady), force - modal.mass * steady, modal_force - first.T @ steady)
        )

    def _centrifugal_force(self, eta: Array, omega: Array, rate: Array) -> Float[Array, "3"]:
        """Resultant of centrifugal and Coriolis forces."""
        first = self.modal.first_moments
        return -cross(omega, cross(omega, first @ eta) + 2.0 * (first @ rate))

    def _swirl(self, omega: Array) -> Float[Array, "k k"]:
        """The skew matrix of Coriolis forces among modes."""
        coriolis = jnp.einsum("i,aik->ak", omega, self.modal.spin_slopes)
        return coriolis - coriolis.T

    def _rows(self, wrench: Wrench) -> Float[Array, "nodes 6"]:
        return jnp.concatenate((wrench.torque, wrench.force), axis=1)
