"""Forces of a run by name: what charts show of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from polhode.viewing.joints import Quantity, known

if TYPE_CHECKING:
    from polhode.named.forces import ForceResults
    from polhode.solution import Solution


def quantities(solution: Solution) -> Iterator[Quantity]:
    """Loads, efforts, power and lengths of all forces that have a name, as far as the run has them."""
    for name, force in solution.forces.items():
        for label, values, kind in _loads(force):
            if len(values):
                yield Quantity(name, label, np.asarray(values), kind)
        for label, values in known(force, "efforts").items():
            angle = label in force.angles
            said = ("torque" if angle else "effort") if len(force.names) == 1 else f"effort along {label}"
            yield Quantity(name, said, np.asarray(values), "moment" if angle else "force")
        for label, values in known(force, "measures").items():
            yield Quantity(name, label, np.asarray(values), "angle" if label in force.angles else "length")


def _loads(force: ForceResults) -> Iterator[tuple[str, np.ndarray, str]]:
    """Label, values and kind of its loads and its power: by body where there are more than two."""
    if len(force.bodies) > 2:
        for body, values in known(force, "forces").items():
            yield f"force on {body}", values, "force"
        for body, values in known(force, "moments").items():
            yield f"moment on {body}", values, "moment"
    else:
        yield "force", known(force, "force"), "force"
        yield "moment", known(force, "moment"), "moment"
    yield "power", known(force, "power"), "power"
