"""Forces along sums of joint coordinates, as fixed tendons."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from polhode.exporters import forces
from polhode.exporters.body_tree import AffineCoordinate
from polhode.exporters.mjcf_document import Document
from polhode.forces.coordinate_forces import AbstractEffort, Stops
from polhode.joints.combination import Combination


@dataclasses.dataclass
class FixedTendon:
    """A fixed tendon under construction, which writers of forces accept in place of a joint."""

    name: str
    attributes: dict[str, Any] = dataclasses.field(default_factory=dict)
    transmission: ClassVar[str] = "tendon"


def effort(document: Document, name: str, part: Any, element: AbstractEffort) -> str:
    """A force along a `Combination`; returns what MJCF can't express of it, or ""."""
    if isinstance(element, Stops):
        return "how stiff stops of tendons are follows from all that they move, which is known to MuJoCo only"
    write = forces.EFFORTS.get(type(element))
    if write is None:
        return f"a {type(element).__name__} has no counterpart in MJCF"
    combination: Combination = part.joint
    terms = []
    for term in combination.terms(part.along):
        initial = term.pair.initial(term.name)
        along = document.tree.along(term.pair.coordinate(term.name), term.pair.bodies, initial)
        if along is None:
            return forces.NO_JOINT
        terms.append((float(term.ratio), along))
    tendon = FixedTendon(name)
    # ℓ = Σ rᵢ (±qᵢ + offsetᵢ)
    offset = sum(ratio * along.offset for ratio, along in terms)
    reason = write(document, name, AffineCoordinate(tendon, 1.0, offset), element)
    row = document.add(document.tendon, "fixed", {"name": name, **_lengths(tendon.attributes)})
    for ratio, along in terms:
        document.add(row, "joint", {"joint": along.joint.name, "coef": ratio * along.sign})
    return reason


def _lengths(attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes with the rest of a spring as a tendon's range of lengths, here of one length."""
    tendon_attributes = dict(attributes)
    if "springref" in tendon_attributes:
        tendon_attributes["springlength"] = np.full(2, tendon_attributes.pop("springref"))
    return tendon_attributes
