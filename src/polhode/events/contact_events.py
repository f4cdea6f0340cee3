"""Events at which bodies with shapes touch and part."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode import checks
from polhode.checks import short_repr
from polhode.contact.shape_contacts import ShapeContacts, ShapePair
from polhode.events.event import Event
from polhode.name_errors import UnknownName
from polhode.systems.base import State


class _LeastGap(eqx.Module):
    """By how much the least gap between two bodies or shapes is more than a distance."""

    distance: Array
    first: str = eqx.field(static=True)
    second: str = eqx.field(static=True)

    def __call__(self, t: Array, state: State, system: Any) -> Array:
        contacts = getattr(system, "shape_contacts", None)
        if not isinstance(contacts, ShapeContacts):
            raise UnknownName("Nothing touches by names: no body has a shape that a rule lets touch another one.")
        numbers = [k for k, pair in enumerate(contacts.pairs) if self._is_of(pair)]
        if not numbers:
            pairs = "; ".join(dict.fromkeys(map(str, contacts.pairs)))
            raise UnknownName(f"No rule lets {self.first!r} and {self.second!r} touch; these may touch: {pairs}.")
        return jnp.min(contacts.gaps(system, t, state[0])[np.array(numbers)]) - self.distance

    def _is_of(self, pair: ShapePair) -> bool:
        ends = {pair.first, pair.first_shape}, {pair.second, pair.second_shape}
        return any(self.first in one and self.second in other for one, other in (ends, ends[::-1]))


def contact(
    first: Any, second: Any, *, distance: Any = 1e-6, terminal: bool = False, tolerance: float = 1e-12
) -> list[Event]:
    """Two events for `simulate`: "first/second closes" and "first/second opens", where a gap passes a distance.

    They have no action: laws of contacts are those of the method.

    **Arguments:**

    - `first`, `second`: bodies of a model, or names of bodies or shapes; "ground" for the ground.
    - `distance`: positive; of gaps that count as open. `moreau` turns a body that bounces up to a step before the
      surface where something else touches it then: take more than the way of a step for that.
    - `terminal`, `tolerance`: as for `polhode.Event`.

    Raises ValueError for invalid values, `simulate` for names between which no rule is.
    """
    names = [end if isinstance(end, str) else getattr(end, "name", None) for end in (first, second)]
    for end, name in zip((first, second), names, strict=True):
        if not isinstance(name, str):
            raise ValueError(
                f"A contact is between bodies of a model, or names of bodies or shapes, got {short_repr(end)}."
            )
    one, other = map(str, names)
    gap = _LeastGap(jnp.asarray(checks.positive("distance", distance, (), "gap that counts as open")), one, other)
    kinds = (("closes", -1), ("opens", 1))
    return [
        Event(gap, direction=sign, terminal=terminal, tolerance=tolerance, name=f"{one}/{other} {kind}")
        for kind, sign in kinds
    ]
