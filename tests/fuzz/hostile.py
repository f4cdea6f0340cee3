"""Values that nobody should hand in."""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import pathlib

import jax.numpy as jnp
import numpy as np


class Colour(enum.Enum):
    red = 1


class Shy:
    def __repr__(self):
        raise RuntimeError("no name")


class Odd:
    def __array__(self, dtype=None, copy=None):
        raise ZeroDivisionError("no numbers either")


def _nested(depth, leaf):
    for _ in range(depth):
        leaf = [leaf]
    return leaf


NEVER_NUMBERS = {
    "None in a list": [None, 1.0, 2.0],
    "word": "1e3",
    "empty word": "",
    "bytes": b"12",
    "truth": True,
    "truths": np.array([True, False, True]),
    "complex": 1 + 2j,
    "complex array": np.array([1.0, 2.0, 3j]),
    "masked": np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0]),
    "words": np.array(["1", "2", "3"]),
    "objects": np.array([object()] * 3),
    "dates": np.array(["2020-01-01"] * 3, dtype="datetime64[D]"),
    "dictionary": {},
    "dictionary of odd keys": {1: 2, "a": 3},
    "set": {1.0, 2.0},
    "generator": (x for x in range(3)),
    "function": lambda *x: 1.0,
    "class": int,
    "object": object(),
    "shy": Shy(),
    "odd": Odd(),
    "enum": Colour.red,
    "fraction": fractions.Fraction(1, 3),
    "decimal": decimal.Decimal("0.5"),
    "date": datetime.date(2020, 1, 1),
    "path": pathlib.Path("/"),
    "nan": np.nan,
    "inf": np.inf,
    "nan array": np.array([1.0, np.nan, 2.0]),
    "ragged": [[1.0], [2.0, 3.0]],
    "deep": _nested(3000, 1.0),
    "huge": 10**400,
    "huge and negative": -(10**400),
    "beyond all digits": 10**5000,
    "huge ones": [10**400, 1.0, 2.0],
    "huge objects": np.array([10**30, -(10**400), 5], dtype=object),
    "ellipsis": ...,
    "slice": slice(0, 1),
    "module": np,
}
"""What is no finite real number, nor a list of them."""

STRANGE = {
    **NEVER_NUMBERS,
    "None": None,
    "zero": 0,
    "negative": -1.5,
    "tiny": 1e-310,
    "large": 1e300,
    "integer": 3,
    "large integer": 10**20,
    "empty list": [],
    "empty tuple": (),
    "empty array": np.zeros(0),
    "three": [1.0, 2.0, 3.0],
    "matrix": np.eye(3),
    "wrong shape": np.ones((2, 5)),
    "jax array": jnp.ones(3),
    "jax integers": jnp.arange(3),
    "single precision": np.float32(0.5),
    "0-d": np.array(0.5),
    "script": "<!--<script>alert(1)</script>",
    "null byte": "a\0b",
    "path up": "../../x",
    "long word": "w" * 5000,
    "unicode": "ω̃ 🛰",
    "list of words": ["a", "b"],
    "list of lists of words": [["a"], ["b", "c"]],
    "escape": "a\x1b[2J\u202eb",
    "formula": "=1+1",
    "markup": "[/]",
    "surrogate": "\udc80",
    "a body": "body",
    "bodies": "bodies",
    "a joint": "hinge",
}
"""All of them, and others that fit in some places and not in others."""


def pick(random, values):
    """One of the values by name."""
    name = list(values)[int(random.integers(len(values)))]
    return name, values[name]
