"""The form of rules: the results of an equation from its operands, by NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polhode.compiler.array_program import Equation

Rule = Callable[[Equation, list[np.ndarray]], Sequence[Any]]
"""In its parameters programs are functions of lists, see `interpreter.Interpreter`."""
