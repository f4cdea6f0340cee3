"""Checks that a load step stays on its branch of equilibria."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from polhode.analysis.statics._equations import Balance, Load, Tangent, largest
from polhode.linalg.blocks import Matrix
from polhode.linalg.kkt import AbstractKKT
from polhode.multibody.system import MultibodySystem
from polhode.spaces.base import AbstractSpace, Point, Vector
from polhode.systems.mechanical import AbstractMechanical, Multipliers

_MAX_BEND = 0.5
"""Share of a step by which it may differ from the mean of the slopes at its ends."""

_MAX_SLOPE = 2.1
"""Largest ratio of what the slope at an end promises to the step: 2 where a load begins to grow or ceases to."""

_MAX_OFFSET = 0.25
"""Share of a step by which the middle between its ends may be off the path."""

_MAX_KINK_STEP = 2.0**-8
"""Fraction of a load step below which a path may have a kink, as where a contact closes."""

_MAX_KINK_JUMP = 1.5
"""Largest ratio of a step over a kink to what the steeper end promises."""


_MAX_KINK_RATIO = 20.0
"""Largest ratio of the slopes to a step over a kink: at a limit point itself they promise anything."""


class End(NamedTuple):
    """An equilibrium on the path. - `slope`: how fast it moves with the load."""

    load: Load
    q: Point
    multipliers: Multipliers
    slope: Vector


class Sensitivity(NamedTuple):
    """The tangent at a place, and derivatives of the residuals along the load."""

    tangent: Tangent
    r: Vector
    gap: Multipliers


def sensitivity(balance: Balance, load: Load, change: Load, q: Point, multipliers: Multipliers) -> Sensitivity:
    """The sensitivity at one place, for a change of the load."""
    along = jax.jvp(lambda x: balance.residual(x, q, multipliers), (load,), (change,))[1]
    return Sensitivity(balance.tangent(load, q, multipliers), *along)


class Middle(NamedTuple):
    """Residuals and tangent in the middle between two equilibria, on the cubic through both; `excess` as in Newton's
    method, so that stresses are the mean of those at the ends."""

    r: Vector
    gap: Multipliers
    tangent: Tangent
    excess: Matrix


def middle(balance: Balance, first: End, last: End) -> Middle:
    """Residuals and tangent in the middle of a step; slopes are displacements over the whole step."""
    system = balance.system
    load = jax.tree.map(lambda a, b: (a + b) / 2, first.load, last.load)
    way = system.configuration.difference(first.q, last.q)
    q = system.configuration.move(first.q, way / 2 + (first.slope - last.slope) / 8)
    multipliers = (first.multipliers + last.multipliers) / 2
    ends = (system.stresses(end.load.t, end.q) for end in (first, last))
    excess = jax.tree.map(lambda a, b, c: (a + b) / 2 - c, *ends, system.stresses(load.t, q))
    stiff = system.stress_stiffness(load.t, q, excess)
    return Middle(*balance.residual(load, q, multipliers), balance.tangent(load, q, multipliers), stiff)


class Comparison(NamedTuple):
    """Largest rotations and lengths, shape (2,) each: of a step, and of what is compared with it.

    - `steep`: of the slopes at its ends. - `jump`: of the first correction for the new load at the first end.
    - `bent`: of the step less the mean of the slopes. - `off`: of the correction in its middle.
    """

    way: Array
    steep: Array
    jump: Array
    bent: Array
    off: Array


def compare(space: AbstractSpace, first: End, last: End, jump: Vector, off: Vector) -> Comparison:
    """The comparison of one step with its slopes and two corrections."""
    way = space.difference(first.q, last.q)
    steep = jnp.maximum(_sizes(space, first.slope), _sizes(space, last.slope))
    bent = way - (first.slope + last.slope) / 2
    return Comparison(_sizes(space, way), steep, *(_sizes(space, x) for x in (jump, bent, off)))


def continuous(c: Comparison, length: Float[Array, ""], floor: Float[Array, ""]) -> Bool[Array, ""]:
    """Whether a step goes along a branch: smoothly, or, if it is a short one, over a kink or a jump of the load.

    Beyond a limit point a step leads far, however short it is, and slopes don't promise that.
    """
    smooth = (
        (c.bent <= _MAX_BEND * c.way + floor)
        & (c.steep <= _MAX_SLOPE * c.way + floor)
        & (c.off <= _MAX_OFFSET * c.way + floor)
    )
    steep = jnp.maximum(c.steep, c.jump)
    kink = (
        (length <= _MAX_KINK_STEP)
        & (c.way <= _MAX_KINK_JUMP * steep + floor)
        & (steep <= _MAX_KINK_RATIO * c.way + floor)
    )
    return jnp.all(smooth) | jnp.all(kink)


def _sizes(space: AbstractSpace, theta: Vector) -> Float[Array, "2"]:
    """The largest rotation and the largest length in a displacement: their units differ."""
    blocks = np.repeat(np.arange(len(space.blocks)), space.blocks)
    norms = jnp.sqrt(jnp.zeros(len(space.blocks)).at[blocks].add(theta * theta))
    # At the origin lengths have no magnitude, rotations have.
    turns = space.scale(space.origin()) > 0
    return jnp.stack([jnp.max(jnp.where(kind, norms, 0.0), initial=0.0) for kind in (turns, ~turns)])


def has_no_flipped_joint(system: AbstractMechanical, t: Array, q: Point) -> Bool[Array, ""]:
    """Whether no joint is closed half a turn off, where residuals vanish as well."""
    if not isinstance(system, MultibodySystem):
        return jnp.ones((), bool)
    motion = system.motion(q)
    sides = [group.sides(t, motion).reshape(-1) for group in system.mechanism.joints]
    return jnp.all(jnp.concatenate((jnp.ones(1), *sides)) > 0)


def slope(solver: AbstractKKT, linear: Sensitivity) -> tuple[Any, Vector]:
    """Factors of the tangent, and the displacement that keeps the residuals zero."""
    factors = solver.factor(*linear.tangent)
    return factors, jnp.asarray(solver.solve(factors, -linear.r, -linear.gap)[0])


def displacement_floor(rtol: float, atol: float, q: Point) -> Float[Array, ""]:
    """Size below which displacements count as zero, from the tolerances of Newton's method."""
    return 1e3 * (rtol * largest(q) + atol)
