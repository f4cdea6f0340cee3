"""Compliant contacts of a model: forces between pairs of shapes, with names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp

from polhode.assembly.contacts import pairs_of, plain_shape
from polhode.forces.compliant_contact import CompliantContact

if TYPE_CHECKING:
    from polhode.multibody.parts import ModelParts


def compliant_contacts(model: ModelParts) -> list[tuple[str, CompliantContact]]:
    """The contacts with names for results: that of the rule, or those of both bodies, "ground/ball"; and a number for
    the second of a name, "ground/ball-2", as of a body with several shapes.
    """
    names = {name for name, _ in model.parts}
    contacts = []
    gravity = jnp.sqrt(jnp.sum(jnp.square(jnp.asarray(model.gravity))))
    for pair in pairs_of(model, "compliant"):
        label = pair.rule.name or f"{pair.first.name}/{pair.second.name}"
        name, number = label, 1
        while name in names:
            number += 1
            name = f"{label}-{number}"
        names.add(name)
        shapes = plain_shape(pair.first_shape), plain_shape(pair.second_shape)
        contacts.append((name, CompliantContact(pair.first, pair.second, *shapes, pair.rule, gravity, name)))
    return contacts
