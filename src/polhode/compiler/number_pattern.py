"""Which numbers of a model are 0, 1 or -1, or occur twice in an array: those are constants of programs.

Frames, axes and moments of inertia consist of such numbers for the most part. With them as arguments, as all others
are, a step of a robot has half as many operations again, most of them products with zeros.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from polhode.compiler.fingerprint.closures import Closure
from polhode.compiler.fingerprint.provenance import is_user_class

CONSTANTS = (0.0, 1.0, -1.0)
"""Numbers that are constants of a program."""

_LARGEST = 1000
"""Numbers of an array above which all of them are arguments, as in tables."""


class NumberPattern(NamedTuple):
    """Which numbers of the first argument of a program are constants, or equal to others.

    Numbers of derivatives, numbers that stand alone (masses, stiffnesses, angles: what sweeps and fits change) and
    those that users' code reads are arguments in any case.

    - `codes`: of 32 bits, one for each slot of the argument: the number of the first slot with the same number, or
      -1 - k for the constant k. Empty where all are arguments.
    """

    codes: bytes

    @classmethod
    def of(cls, parts: Sequence[Any], model: int, wrt: Collection[int] = ()) -> NumberPattern:
        """The pattern of an argument that consists of parts, of which `parts[model]` has the numbers of a model.

        `wrt`: leaves of the model with respect to which there will be derivatives.
        """
        sizes = [[np.size(x) for x in jax.tree.leaves(part)] for part in parts]
        codes = np.arange(sum(map(sum, sizes)), dtype=np.int32)
        first = sum(map(sum, sizes[:model]))
        starts = itertools.accumulate(sizes[model], initial=first)
        leaves = zip(_leaves(parts[model]), starts, sizes[model], strict=False)
        eligible = [
            (np.asarray(x).reshape(-1), np.arange(at, at + size))
            for k, ((x, is_own), at, size) in enumerate(leaves)
            if is_own and k not in wrt and 1 < size <= _LARGEST and x.dtype == np.float64
        ]
        if not eligible:
            return ARGUMENTS
        numbers, slots = map(np.concatenate, zip(*eligible, strict=True))
        owners = np.repeat(np.arange(len(eligible)), [len(x) for x, _ in eligible])
        codes[slots] = slots[_first_equal(numbers, owners)]
        for k, constant in enumerate(CONSTANTS):
            codes[slots[numbers == constant]] = -1 - k
        return cls(codes.tobytes())

    @property
    def _codes(self) -> np.ndarray:
        return np.frombuffer(self.codes, np.int32)

    def replace(self, elements: list[Any], first: int) -> list[Any]:
        """The elements of a leaf that begins in slot `first`, with constants, and equal ones as one."""
        codes = self._codes[first : first + len(elements)].tolist()
        if not codes:
            return elements
        return [elements[code - first] if code >= 0 else np.float64(CONSTANTS[-1 - code]) for code in codes]

    def check(self, slots: np.ndarray) -> np.ndarray:
        """Packed arguments of a program with these constants. Raises ValueError for others."""
        if self.common(slots) is not self:
            raise ValueError("Arguments of a program differ from its constants.")
        return slots

    def common(self, slots: np.ndarray) -> NumberPattern:
        """The part of the pattern that holds for packed arguments too, (…, slots); itself where all are like it."""
        codes = self._codes
        if not codes.size:
            return self
        places = np.flatnonzero(codes != np.arange(codes.size))
        numbers = np.ascontiguousarray(slots.reshape(-1, codes.size)).view(np.float64)
        expected = numbers[:, np.maximum(codes[places], 0)]
        for k, constant in enumerate(CONSTANTS):
            expected[:, codes[places] == -1 - k] = constant
        differs = (numbers[:, places] != expected).any(0)
        if not differs.any():
            return self
        codes = codes.copy()
        codes[places[differs]] = places[differs]
        return NumberPattern(codes.tobytes())


ARGUMENTS = NumberPattern(b"")
"""All numbers are arguments."""


def _first_equal(numbers: np.ndarray, owners: np.ndarray) -> np.ndarray:
    """For each number the position of the first equal one with the same owner."""
    order = np.lexsort((numbers, owners))
    is_new = np.ones(len(order), bool)
    # Not by differences: limits may be infinite.
    is_new[1:] = (numbers[order[1:]] != numbers[order[:-1]]) | (owners[order[1:]] != owners[order[:-1]])
    result = np.empty_like(order)
    # The sort is stable, so the first of a run is the first of all.
    result[order] = order[is_new][np.cumsum(is_new) - 1]
    return result


def _leaves(model: Any) -> Iterator[tuple[Any, bool]]:
    """The arrays of a model, and of each whether no code of users reads it."""
    for node in jax.tree.leaves(model, is_leaf=_is_of_user):
        if _is_of_user(node):
            yield from ((x, False) for x in jax.tree.leaves(node))
        else:
            yield node, True


def _is_of_user(node: Any) -> bool:
    return isinstance(node, Closure) or is_user_class(type(node))
