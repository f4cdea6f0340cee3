"""Particles of a model: bodies that are spheres, with bonds and contacts between them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from polhode import checks
from polhode.checks import short_repr
from polhode.multibody.bodies import Body
from polhode.particles.bond_elements import Bond
from polhode.particles.bonds import BondMaterial
from polhode.particles.checks import bond_kinds, bond_pairs, materials, not_negative, per_particle, walls_of
from polhode.particles.contact_elements import SphereContact, WallContact
from polhode.particles.interactions import OVERLAP
from polhode.particles.walls import AbstractSmoothWall, AbstractWall

if TYPE_CHECKING:
    from polhode.multibody.parts import ModelParts

_PAIRS = 20_000
"""Contacts that a model takes: one element for each pair."""


@dataclasses.dataclass(frozen=True, eq=False)
class ParticleGroup:
    """Particles of a model, as `Model.add_particles` returns them.

    - `name`: of the group; its particles are "name-0", …
    - `bodies`: one for each particle, for joints, forces, bonds and outputs.
    - `bonds`: the bonds between them.
    """

    name: str
    bodies: tuple[Body, ...]
    bonds: tuple[Bond, ...]

    def __repr__(self) -> str:
        return f"ParticleGroup({short_repr(self.name)}, {len(self.bodies)} particles, {len(self.bonds)} bonds)"


def build(
    model: ModelParts,
    name: str,
    positions: Any,
    *,
    masses: Any,
    inertias: Any,
    diameters: Any,
    pairs: Any,
    material: BondMaterial | Sequence[BondMaterial] | None,
    kinds: Any,
    contact: Any,
    contact_damping: Any,
    bonded_contacts: bool,
    walls: Sequence[AbstractWall],
    wall_contact: Any,
    velocities: Any,
    angular_velocities: Any,
) -> ParticleGroup:
    """Adds particles to a model; see `Model.add_particles`."""
    shape = checks.shape("positions", positions, "centres of the particles")
    if len(shape) != 2 or shape[1] != 3 or not shape[0]:
        raise ValueError(f"`positions` must have shape (n, 3), one row for each particle, got {shape}.")
    n = shape[0]
    x = _readable(checks.array("positions", positions, (n, 3), "centres of the particles"))
    mass = _readable(per_particle("masses", masses, n, "mass of each particle"))
    inertia = _readable(per_particle("inertias", inertias, n, "moment of inertia of each particle"))
    diameter = _readable(per_particle("diameters", diameters, n, "diameter of each particle"))
    u, w = _each("velocities", velocities, n), _each("angular_velocities", angular_velocities, n)
    K, damping = not_negative("contact", contact), not_negative("contact_damping", contact_damping)
    at_walls = K if wall_contact is None else not_negative("wall_contact", wall_contact)
    links = bond_pairs(pairs, n)
    contact_pairs = _contact_pairs(n, links, contact, bonded_contacts)
    if checks.is_concrete(x, diameter) and contact_pairs:
        _check_overlaps(x, diameter, contact_pairs)
    choices = materials(material, len(links))
    which = bond_kinds(kinds, len(links), len(choices))

    bodies = tuple(
        _particle(model, f"{name}-{i}", (mass[i], inertia[i]), diameter[i], (x[i], u[i], w[i])) for i in range(n)
    )
    bonds = tuple(
        model.add(Bond(bodies[i], bodies[j], choices[kind], name=f"{name}-bond-{k}"))
        for k, ((i, j), kind) in enumerate(zip(links, which, strict=True))
    )
    for i, j in contact_pairs:
        reach = 0.5 * (diameter[i] + diameter[j])
        model.add(SphereContact(bodies[i], bodies[j], K, reach, damping, f"{name}-contact-{i}-{j}"))
    smooth = (wall for wall in walls_of(walls, at_walls) if isinstance(wall, AbstractSmoothWall))
    for k, wall in enumerate(smooth):
        for i, body in enumerate(bodies):
            model.add(WallContact(body, wall, at_walls, 0.5 * diameter[i], damping, f"{name}-wall-{k}-{i}"))
    return ParticleGroup(name, bodies, bonds)


def _particle(
    model: ModelParts, name: str, inertia: tuple[Any, Any], diameter: Any, motion: tuple[Any, Any, Any]
) -> Body:
    """A new body of the model: mass and moment of inertia, and position, velocity and angular velocity."""
    (mass, moment), (x, u, omega) = inertia, motion
    R: Any = np.eye(3)
    unique_name = model.register.name(name, "particle")
    return model.register.take(Body(unique_name, "rigid", mass, moment * np.eye(3), x, R, u, omega, diameter=diameter))


def _check_overlaps(x: np.ndarray, diameter: np.ndarray, pairs: list[tuple[int, int]]) -> None:
    i, j = np.array(pairs).T
    depth = 1 - 2 * np.linalg.norm(x[i] - x[j], axis=1) / (diameter[i] + diameter[j])
    k = int(np.argmax(depth))
    if depth[k] > OVERLAP:
        raise ValueError(
            f"Particles {i[k]} and {j[k]} overlap by {depth[k]:.0%} of their reach at the start, and would burst "
            "apart. Move them, or make them smaller."
        )


def _contact_pairs(n: int, links: np.ndarray, contact: Any, bonded_contacts: bool) -> list[tuple[int, int]]:
    """Pairs with a contact."""
    if checks.is_concrete(contact) and not np.any(np.asarray(contact)):
        return []
    if n * (n - 1) // 2 > _PAIRS:
        raise ValueError(
            f"{n} particles make {n * (n - 1) // 2:,} pairs, and a model takes a contact for each of at most "
            f"{_PAIRS:,}. Leave out `contact`, or simulate the particles by themselves with "
            "`polhode.particles.Particles`, which finds neighbours."
        )
    without_contact = set() if bonded_contacts else {(min(i, j), max(i, j)) for i, j in links.tolist()}
    return [pair for pair in itertools.combinations(range(n), 2) if pair not in without_contact]


def _each(name: str, value: Any, n: int) -> Any:
    shape = (3,) if len(checks.shape(name, value, "of particles")) == 1 else (n, 3)
    return _readable(jnp.broadcast_to(checks.array(name, value, shape, "of particles, inertial frame"), (n, 3)))


def _readable(values: Any) -> Any:
    """The values as NumPy arrays, unless they are traced."""
    return np.asarray(values) if checks.is_concrete(values) else values
