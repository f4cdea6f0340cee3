"""The compliant law of rods: forces per length from depths, and from velocities."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import is_zero
from polhode.contact.compliance import impact_damping
from polhode.contact.rules import ContactRule

Vector3 = Float[Array, "3"]
Scalar = Float[Array, ""]


class LineLaw(eqx.Module):
    r"""Normal forces per length $k\delta^p\langle 1 + c\dot\delta\rangle$ and friction.

    **Arguments:**

    - `stiffness`, `exponent`: k, force per length and per depth to the power p.
    - `damping`: c, time per length; None without.
    - `friction`, `slip_speed`: μ, and v_s over which it builds up; None without. Friction without a speed is exact,
      and no force of this law.
    """

    stiffness: Scalar
    exponent: Scalar
    damping: Scalar | None
    friction: Scalar | None
    slip_speed: Scalar | None

    @classmethod
    def of(cls, rule: ContactRule) -> LineLaw:
        """The law of a rule of a model."""
        number = lambda name: checks.array(name, getattr(rule, name), (), "of the contact")  # noqa: E731
        if rule.impact_speed is not None:
            damping = impact_damping(rule.restitution, rule.impact_speed)
        else:
            damping = number("damping")
        rubs = not is_zero(rule.friction)
        return cls(
            number("stiffness"),
            number("exponent"),
            None if is_zero(damping) else damping,
            number("friction") if rubs else None,
            number("slip_speed") if rubs and rule.slip_speed is not None else None,
        )

    @property
    def elastic(self) -> bool:
        """Whether forces have a potential."""
        return self.damping is None and self.slip_speed is None

    @property
    def sticks(self) -> bool:
        """Whether friction is exact."""
        return self.friction is not None and self.slip_speed is None

    def energy(self, gap: Array) -> Array:
        """Energy per length."""
        return self.stiffness * _power(gap, self.exponent + 1) / (self.exponent + 1)

    def push(self, gap: Array) -> Array:
        """The elastic force per length along the normal."""
        return self.stiffness * _power(gap, self.exponent)

    def force(self, gap: Scalar, normal: Vector3, relative: Vector3) -> Vector3:
        """Force per length on the second surface. - `relative`: its velocity against the first one."""
        along = relative @ normal
        push = self.push(gap) * self._share(along)
        if self.friction is None or self.slip_speed is None:
            return push * normal
        across = relative - along * normal
        return push * (normal - self.friction * across / jnp.sqrt(across @ across + self.slip_speed**2))

    def stiffness_tangent(self, gap: Scalar, normal: Vector3, relative: Vector3) -> Array:
        """Minus the derivative of `force` along the way of the second surface, (3, 3).

        What turns with the normal and what friction takes from the depth are left out: it is positive semidefinite.
        """
        touches = gap < 0
        slope = self.exponent * self.stiffness * jnp.where(touches, -gap, 1.0) ** (self.exponent - 1)
        return jnp.where(touches, slope, 0.0) * self._share(relative @ normal) * jnp.outer(normal, normal)

    def damping_tangent(self, gap: Scalar, normal: Vector3, relative: Vector3) -> Array:
        """Minus its derivative along the velocity of the second surface, without what friction takes from damping."""
        push, along, across = self.push(gap), relative @ normal, jnp.outer(normal, normal)
        share, D = self._share(along), jnp.zeros((3, 3))
        if self.damping is not None:
            D = D + jnp.where(share > 0, self.damping * push, 0.0) * across
        if self.friction is not None and self.slip_speed is not None:
            slip = relative - along * normal
            speed = jnp.sqrt(slip @ slip + self.slip_speed**2)
            D = D + self.friction * push * share / speed * (jnp.eye(3) - across - jnp.outer(slip, slip) / speed**2)
        return D

    def _share(self, along: Scalar) -> Scalar:
        """The factor of damping on the elastic force."""
        return jnp.ones(()) if self.damping is None else jnp.maximum(1 - self.damping * along, 0.0)

    def stiffest(self, depth: Scalar, change: Scalar, normal: Vector3, relative: Vector3) -> Vector3:
        """Changes of the force at a `depth` without slip, for limits of the step.

        - `change`: of the gap; `relative`: of the velocity.
        """
        slope = self.exponent * self.stiffness * depth ** (self.exponent - 1)
        pressure = self.stiffness * depth**self.exponent
        along = relative @ normal
        push = -slope * change
        if self.damping is not None:
            push = push - self.damping * pressure * along
        force = push * normal
        if self.friction is not None and self.slip_speed is not None:
            force = force - self.friction * pressure / self.slip_speed * (relative - along * normal)
        return force


def _power(gap: Array, exponent: Array) -> Array:
    """⟨δ⟩ to a power, with finite derivatives of every order where there is no contact."""
    touches = gap < 0
    return jnp.where(touches, jnp.where(touches, -gap, 1.0) ** exponent, 0.0)


def depth_of_impact(law: LineLaw, mass: Any, square_speed: Any, gravity: Any) -> Array:
    """The depth of an impact of a mass per length at a speed, and under its weight."""
    p = law.exponent
    impact = ((p + 1) * mass * square_speed / (2 * law.stiffness)) ** (1 / (p + 1))
    return impact + (mass * gravity / law.stiffness) ** (1 / p)
