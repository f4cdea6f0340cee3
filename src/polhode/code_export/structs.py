"""Trees of arrays as structs in C, whose members are numbers of eight bytes in the order of the tree."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

_RESERVED = frozenset(
    (
        *("auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern"),
        *("float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short", "signed"),
        *("sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while", "bool"),
        *("true", "false", "and", "or", "not", "xor", "class", "delete", "new", "this", "template", "operator"),
        *("private", "public", "protected", "namespace", "using", "try", "catch", "throw", "virtual", "friend"),
        *("explicit", "export", "typename", "mutable", "asm", "wchar_t"),
    )
)
"""Words that C and C++ keep for themselves."""


class Member(NamedTuple):
    """A member of a struct: its name, whether it is a `double`, and its shape."""

    name: str
    is_float: bool
    shape: tuple[int, ...]

    @property
    def declaration(self) -> str:
        dims = "".join(f"[{n}]" for n in self.shape)
        return f"{'double' if self.is_float else 'int64_t'} {self.name}{dims};"

    @property
    def labels(self) -> list[str]:
        """The names of its numbers."""
        return ["".join((self.name, *(f"[{k}]" for k in index))) for index in np.ndindex(self.shape)]


def identifier(name: str) -> str:
    """A name as one of C."""
    word = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_") or "x"
    return f"{'_' if word[0].isdigit() else ''}{word}{'_' if word in _RESERVED else ''}"


def members_of(prefix: str, tree: Any) -> list[Member]:
    """The members for the leaves of a tree, named after their paths, without those that have no elements."""
    paths, leaves = [], []
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        if np.size(leaf):
            paths.append("_".join((*([prefix] if prefix else []), *map(_key, path))))
            leaves.append(leaf)
    return named_members(paths, leaves)


def named_members(names: Sequence[str], values: Sequence[Any]) -> list[Member]:
    """Members for arrays of these names."""
    taken: set[str] = set()
    out: list[Member] = []
    for name, value in zip(names, values, strict=True):
        word = _other(identifier(name), taken)
        taken.add(word)
        array = np.asarray(value) if not hasattr(value, "dtype") else value
        out.append(Member(word, array.dtype == np.float64, tuple(array.shape)))
    return out


def struct(name: str, members: Sequence[str]) -> str:
    """A struct with declarations of its members."""
    return "\n".join(("typedef struct {", *(f"  {each}" for each in members), f"}} {name};"))


def _other(name: str, taken: set[str]) -> str:
    """The name, or with a number if it is taken."""
    word, k = name, 2
    while word in taken:
        word, k = f"{name}_{k}", k + 1
    return word


def _key(key: Any) -> str:
    for attribute in ("name", "key", "idx"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)
