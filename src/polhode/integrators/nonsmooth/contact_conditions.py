"""Conditions of a step of Moreau's method: which contacts close, and what velocities the laws aim at."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from polhode.systems.mechanical.contact_set import ContactLaw

CLOSED = 1e-9
"""Gap, in parts of the mean radius of shapes, up to which a contact counts as closed."""

CONVERGED = 1e-13
"""Change of velocities from round to round, relative to them, at which rounds end."""

FAILED = 1e-8
"""The same above which a step has failed after all rounds."""

RUNS_AWAY = 10.0
"""The same above which friction along a direction feeds what presses it, so that the round counts as unsolved: laws
that take energy change no velocity by more than twice what there is."""

FREE_ROUNDS = 4
STEADY_ROUNDS = 12
SETTLES = 0.7
"""Ratio of changes of two rounds up to which directions of friction settle, after a few rounds."""


class ContactConditions(NamedTuple):
    """With what velocity contacts should leave a step: at least one with which they just close by its end.

    - `target`: relative velocities without impulses, less those that the laws aim at.
    - `first_part`: impulses of impacts that this step completes.
    """

    target: Float[Array, "k rows"]
    first_part: Float[Array, "k rows"]


def close(
    h: Array,
    law: ContactLaw,
    gap: Float[Array, " k"],
    pressed: Bool[Array, " k"],
    first_part: Float[Array, "k rows"],
    before: Float[Array, "k rows"],
    without: Float[Array, "k rows"],
    last: Float[Array, "k rows"],
    closed: Array,
) -> ContactConditions:
    """The conditions of a step, from relative velocities before it, without impulses and in the last round.

    - `closed`: gap up to which a contact counts as closed.

    Shapes that overlap, as after an impact of edges that turn within a step, approach each other no further. That there
    is a motion which all contacts allow, rest, is what makes problems of heaps solvable: a demand to part would not.
    """
    approach = jnp.minimum(before[:, 0], 0.0)
    # Bodies that fall together don't approach each other before the lower one is stopped, as the last round says.
    nearest = jnp.minimum(jnp.minimum(approach, without[:, 0]), last[:, 0])
    reaches = gap + h * nearest <= closed
    # Those of a stack at rest, whose gaps are round-off, need no round each.
    weight = jnp.max(jnp.abs(without[:, 0] - before[:, 0]), initial=0.0)
    closes = reaches | (pressed & (gap <= h * weight))
    # A bounce that ends within the step is none.
    short = -2 * law.restitution * approach <= jnp.abs(without[:, 0] - before[:, 0])
    bounces = reaches & (approach < 0) & (law.restitution > 0) & ~short
    least = jnp.where(bounces, -law.restitution * approach, -jnp.maximum(gap, 0.0) / h)
    target = without.at[:, 0].add(-least)
    target = target.at[:, 1:3].add(law.tangential_restitution[:, None] * before[:, 1:3])
    return ContactConditions(target, jnp.where(closes[:, None], first_part, 0.0))
