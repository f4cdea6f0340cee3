"""Whether contacts of a model have fixed slots, or are those of lists that are renewed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polhode.assembly.contacts import build_contacts
from polhode.assembly.coordinate_layout import AbstractLayout
from polhode.assembly.listed_contacts import build_listed_contacts
from polhode.assembly.rule_table import RuleTable
from polhode.contact.shape_contacts import ShapeContacts
from polhode.contact.sparse.listed_contacts import ListedContacts

if TYPE_CHECKING:
    from polhode.multibody.parts import ModelParts


def build_contact_set(model: ModelParts, layout: AbstractLayout) -> ShapeContacts | ListedContacts | None:
    """The contacts of a model in the rows of a layout; None where nothing can touch."""
    if not any(rule.law == "rigid" for rule in model.contact_rules):
        return None
    table = RuleTable.of(model)
    if not table.with_law(model, "rigid").any():
        return None
    return build_listed_contacts(model, layout, table) or build_contacts(model, layout)
