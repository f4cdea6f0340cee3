"""Checked input for particles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import short_repr
from polhode.particles.bonds import BondMaterial
from polhode.particles.walls import AbstractWall


def per_particle(name: str, value: Any, n: int, meaning: str) -> Float[Array, " n"]:
    """Positive numbers, one for each particle or one for all."""
    if checks.shape(name, value, meaning) == ():
        return jnp.broadcast_to(checks.positive(name, value, (), meaning), (n,))
    return checks.positive(name, value, (n,), meaning)


def walls_of(walls: Sequence[AbstractWall], contact: Any) -> tuple[AbstractWall, ...]:
    """Walls that push with this constant, or ValueError."""
    walls = (walls,) if isinstance(walls, AbstractWall) else walls
    if not isinstance(walls, Sequence) or any(not isinstance(wall, AbstractWall) for wall in walls):
        raise ValueError(f"`walls` must be walls of `polhode.particles`, such as `Plane`, got {short_repr(walls)}.")
    if walls and checks.is_concrete(contact) and not np.any(np.asarray(contact)):
        raise ValueError("Walls need `wall_contact` (or `contact`) greater than zero, or they push nobody back.")
    return tuple(walls)


def not_negative(name: str, value: Any) -> Array:
    """A number of at least zero."""
    found = checks.array(name, value, (), "constant of contacts")
    if checks.is_concrete(value) and np.asarray(value) < 0:
        raise ValueError(f"`{name}` must not be negative (constant of contacts), got {short_repr(value)}.")
    return found


def bond_pairs(pairs: Any, n: int) -> np.ndarray:
    """Two different particles for each bond, each pair once."""
    found = checks.numbers("pairs", pairs, "two particles for each bond")
    found = found.reshape(-1, 2) if found.size == 0 else found
    if found.ndim != 2 or found.shape[1] != 2 or not np.isfinite(found).all():
        raise ValueError(f"`pairs` must have shape (m, 2), two particles for each bond, got {found.shape}.")
    whole = found.astype(np.int64)
    if np.any(whole != found) or np.any((whole < 0) | (whole >= n)):
        raise ValueError(f"`pairs` must be numbers of particles from 0 to {n - 1}.")
    if np.any(whole[:, 0] == whole[:, 1]):
        raise ValueError(f"`pairs` bonds particle {whole[whole[:, 0] == whole[:, 1]][0, 0]} to itself.")
    ordered = np.sort(whole, axis=1)
    _, count = np.unique(ordered, axis=0, return_counts=True)
    if np.any(count > 1):
        twice = np.unique(ordered, axis=0)[count > 1][0]
        raise ValueError(f"`pairs` bonds particles {twice[0]} and {twice[1]} more than once.")
    return whole


def materials(material: Any, m: int) -> list[BondMaterial]:
    """The materials that bonds may be made of."""
    if material is None:
        if m:
            raise ValueError("Bonds need a `material`: a `BondMaterial`, or a sequence of them with `kinds`.")
        return [BondMaterial(0.0, 0.0, 0.0)]
    found = [material] if isinstance(material, BondMaterial) else list(material) if np.iterable(material) else []
    if not found or not all(isinstance(k, BondMaterial) for k in found):
        raise ValueError(f"`material` must be a `BondMaterial` or a sequence of them, got {short_repr(material)}.")
    return found


def bond_kinds(kinds: Any, m: int, count: int) -> np.ndarray:
    """Which of `count` materials each bond is made of."""
    if kinds is None:
        if count > 1:
            raise ValueError(f"There are {count} materials; `kinds` must say which each bond is made of.")
        return np.zeros(m, int)
    found = np.asarray(kinds)
    if found.shape != (m,) or np.any(found != found.astype(int)) or np.any((found < 0) | (found >= count)):
        raise ValueError(f"`kinds` must have shape ({m},) with numbers from 0 to {count - 1}, one for each bond.")
    return found.astype(int)
