"""Checks of the input for particles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import short_repr
from polhode.particles.bonds import BondMaterial
from polhode.particles.laws.contact_law import ContactLaw
from polhode.particles.walls import AbstractWall, Plane

_ROUNDING = 1e-10
"""Rounding of times, relative."""


def per_particle(name: str, value: Any, n: int, description: str) -> Float[Array, " n"]:
    """Positive numbers, one for each particle or one for all."""
    if checks.shape(name, value, description) == ():
        return jnp.broadcast_to(checks.positive(name, value, (), description), (n,))
    return checks.positive(name, value, (n,), description)


def walls_of(walls: Sequence[AbstractWall], contact: Any, has_law: bool = False) -> tuple[AbstractWall, ...]:
    """Walls as a tuple. Raises ValueError for others, for a contact constant of zero, and for a law that's missing."""
    walls = (walls,) if isinstance(walls, AbstractWall) else walls
    if not isinstance(walls, Sequence) or any(not isinstance(wall, AbstractWall) for wall in walls):
        raise ValueError(f"`walls` must be walls of `polhode.particles`, such as `Plane`, got {short_repr(walls)}.")
    for wall in walls:
        if wall.needs_law and not has_law:
            raise ValueError(
                f"A `{type(wall).__name__}` needs a `ContactLaw` as `wall_contact` (or `contact`) of `Particles`: "
                "a constant has no friction, and models take `Plane`, `Box` and `Cylinder` at rest."
            )
    if walls and checks.is_concrete(contact) and not np.any(np.asarray(contact)):
        raise ValueError("Walls need `wall_contact` (or `contact`) greater than zero, or they push nobody back.")
    return tuple(walls)


def release_times(release: Any, n: int, has_law: bool, links: np.ndarray) -> Array | None:
    """A time for each particle. Raises ValueError for other shapes, without a law, and for particles with bonds."""
    if release is None:
        return None
    times = checks.array("release", release, (n,), "time from which on each particle acts")
    _needs_law("release", has_law)
    if len(links):
        raise ValueError("`release` is for particles without bonds. Leave out `pairs`, or let all begin at once.")
    # Times on the grid of steps, whose sums are round: runs and runs that are resumed let go at the same step.
    return times - _ROUNDING * jnp.abs(times)


def group_numbers(groups: Any, n: int) -> Array | None:
    """A whole number for each particle; None for no groups."""
    if groups is None:
        return None
    numbers = checks.numbers("groups", groups, "the number of the group of each particle")
    if numbers.shape != (n,) or np.any(numbers != np.floor(numbers)):
        raise ValueError(f"`groups` must have shape ({n},), a whole number for each particle, got {numbers.shape}.")
    return jnp.asarray(numbers, jnp.int32)


def outlet_planes(outlets: Any, has_law: bool) -> tuple[Plane, ...]:
    """Planes as a tuple. Raises ValueError for others, and without a law."""
    planes = (outlets,) if isinstance(outlets, Plane) else outlets
    if not isinstance(planes, Sequence) or any(not isinstance(plane, Plane) for plane in planes):
        raise ValueError(f"`outlets` must be `Plane`s of `polhode.particles`, got {short_repr(outlets)}.")
    if planes:
        _needs_law("outlets", has_law)
    return tuple(planes)


def _needs_law(name: str, has_law: bool) -> None:
    if not has_law:
        raise ValueError(
            f"`{name}` needs a `ContactLaw` as `contact`: contacts by a constant are between all at all times."
        )


def contact_laws(contact: Any, wall_contact: Any, damping: Any) -> tuple[ContactLaw | None, ContactLaw | None]:
    """The laws of contacts with history, of particles and of walls; None where constants say it all.

    Raises ValueError if one is a law and the other a number, and for damping besides a law.
    """
    at_walls = contact if wall_contact is None else wall_contact
    law, wall_law = (value if isinstance(value, ContactLaw) else None for value in (contact, at_walls))
    if law is not None and wall_law is None:
        raise ValueError(f"`wall_contact` must be a `ContactLaw` as `contact` is, got {short_repr(wall_contact)}.")
    if law is None and wall_law is not None and not checks.is_zero(contact):
        raise ValueError(f"`contact` must be a `ContactLaw` as `wall_contact` is, or zero, got {short_repr(contact)}.")
    if (law is not None or wall_law is not None) and not checks.is_zero(damping):
        raise ValueError("`contact_damping` goes with constants. A `ContactLaw` has its `restitution` instead.")
    return law, wall_law


def cast_law(law: ContactLaw | None, kind: Any) -> ContactLaw | None:
    """The law with numbers of this type."""
    return jax.tree.map(lambda a: a.astype(kind), law)


def period_of(period: Any) -> tuple[np.ndarray | None, tuple[bool, bool, bool] | None]:
    """Lengths, infinite along open axes, and which axes repeat; None for open space."""
    if period is None:
        return None, None
    lengths = checks.numbers("period", period, "lengths after which space repeats").astype(float)
    if lengths.shape != (3,) or not np.all(lengths > 0):
        raise ValueError(
            f"`period` must be three numbers greater than zero, infinite along open axes, got {short_repr(period)}."
        )
    x, y, z = map(bool, np.isfinite(lengths))
    return (lengths, (x, y, z)) if x or y or z else (None, None)


def nearest_image(d: np.ndarray, box: np.ndarray | None) -> np.ndarray:
    """The shortest of the vectors to all images, shape (n, 3)."""
    if box is None:
        return d
    lengths = np.where(np.isfinite(box), box, 1.0)
    return d - np.where(np.isfinite(box), lengths * np.round(d / lengths), 0.0)


def check_period(box: Any, reach: float) -> None:
    """Raises ValueError if a particle reaches two images of another."""
    least = float(np.min(box))
    if not least >= 2 * reach:
        raise ValueError(
            f"`period` must be at least {2 * reach:.4g}, twice the largest diameter with the skin and the reach of "
            f"attraction, got {least:.4g}: a particle would touch two images of another. Repeat the particles, or take "
            "a smaller `skin`."
        )


def not_negative(name: str, value: Any) -> Array:
    """A number of at least zero."""
    return checks.not_negative(name, value, (), "constant of contacts")


def bond_pairs(pairs: Any, n: int) -> np.ndarray:
    """Two different particles for each bond, each pair once."""
    numbers = checks.numbers("pairs", pairs, "two particles for each bond")
    numbers = numbers.reshape(-1, 2) if numbers.size == 0 else numbers
    if numbers.ndim != 2 or numbers.shape[1] != 2 or not np.isfinite(numbers).all():
        raise ValueError(f"`pairs` must have shape (m, 2), two particles for each bond, got {numbers.shape}.")
    whole = numbers.astype(np.int64)
    if np.any(whole != numbers) or np.any((whole < 0) | (whole >= n)):
        raise ValueError(f"`pairs` must be numbers of particles from 0 to {n - 1}.")
    if np.any(whole[:, 0] == whole[:, 1]):
        raise ValueError(f"`pairs` bonds particle {whole[whole[:, 0] == whole[:, 1]][0, 0]} to itself.")
    sorted_pairs = np.sort(whole, axis=1)
    _, count = np.unique(sorted_pairs, axis=0, return_counts=True)
    if np.any(count > 1):
        twice = np.unique(sorted_pairs, axis=0)[count > 1][0]
        raise ValueError(f"`pairs` bonds particles {twice[0]} and {twice[1]} more than once.")
    return whole


def materials(material: Any, m: int) -> list[BondMaterial]:
    """The materials of bonds as a list."""
    if material is None:
        if m:
            raise ValueError("Bonds need a `material`: a `BondMaterial`, or a sequence of them with `kinds`.")
        return [BondMaterial(0.0, 0.0, 0.0)]
    choices = [material] if isinstance(material, BondMaterial) else list(material) if np.iterable(material) else []
    if not choices or not all(isinstance(k, BondMaterial) for k in choices):
        raise ValueError(f"`material` must be a `BondMaterial` or a sequence of them, got {short_repr(material)}.")
    return choices


def bond_kinds(kinds: Any, m: int, count: int) -> np.ndarray:
    """The number of the material of each bond."""
    if kinds is None:
        if count > 1:
            raise ValueError(f"There are {count} materials; `kinds` must say which each bond is made of.")
        return np.zeros(m, int)
    numbers = np.asarray(kinds)
    if numbers.shape != (m,) or np.any(numbers != numbers.astype(int)) or np.any((numbers < 0) | (numbers >= count)):
        raise ValueError(f"`kinds` must have shape ({m},) with numbers from 0 to {count - 1}, one for each bond.")
    return numbers.astype(int)
