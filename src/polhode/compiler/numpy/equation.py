"""An operation as the rules see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np


class Equation(Protocol):
    """One operation of a program: its primitive's name and parameters, in which programs are functions of lists."""

    name: str
    params: dict[str, Any]

    @property
    def outs(self) -> Sequence[Any]:
        """Shapes and types of the results."""
        ...


Rule = Callable[[Any, list[np.ndarray]], Sequence[Any]]
