"""Keys of values that are valid in this process."""

from __future__ import annotations

import types
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from polhode.compiler.fingerprint.object_walk import AbstractObjectHasher, content_digest


class _Same:
    """An object compared by identity, which stays alive as long as the key."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


class ObjectHasher(AbstractObjectHasher):
    """A traversal whose key is valid in this process: functions and objects without attributes count by identity.

    `clears_traces`: whether jitted functions of users are retraced where their captured values have changed.
    """

    def __init__(self, left_out: tuple[int, ...], clears_traces: bool = True) -> None:
        super().__init__(left_out)
        self._clears_traces = clears_traces

    def key(self, function: Any) -> tuple[bytes, tuple[Any, ...]]:
        stack = [self._parts(function, self._excluded_cells)]
        while stack:
            try:
                value = next(stack[-1])
            except StopIteration:
                stack.pop()
                self._note("end")
                continue
            stack.append(self._parts(value, ()))
        return self._digest.digest(), tuple(self._objects)

    def _note_identity(self, value: Any) -> None:
        self._note("object", len(self._objects))
        self._objects.append(_Same(value))

    def _is_repeated(self, value: Any) -> bool:
        number = self._numbers.get(id(value))
        if number is not None:
            self._note("again", number)
        return number is not None

    def _special(self, value: Any, left_out: tuple[int, ...]) -> None:
        return None

    def _note_jit_function(self, jit_function: Any, owner: Any, parts: dict[str, Any]) -> None:
        if self._clears_traces:
            _clear_stale_traces(jit_function, owner, parts)

    def _text(self, f: types.FunctionType) -> Iterator[Any]:
        self._objects.append(f.__code__)
        yield from ()

    def _digits(self, value: np.ndarray) -> np.ndarray:
        return value

    def _sorted_members(self, values: Any) -> list[Any]:
        return sorted(values, key=repr)

    def _content(self, value: Any) -> bytes | None:
        return content_digest(value)


_CAPTURED_KEYS: weakref.WeakKeyDictionary[Any, dict[int, int]] = weakref.WeakKeyDictionary()
"""By jitted functions of users and their owners: the last keys of the captured values."""


def _clear_stale_traces(jit_function: Any, owner: Any, parts: dict[str, Any]) -> None:
    """Clears the traces of a user's jitted function if its captured values have changed.

    `owner` holds the jitted function, or is that itself; several may share one.
    """
    key = hash(ObjectHasher((), clears_traces=False).key(parts))
    keys = _CAPTURED_KEYS.setdefault(jit_function, {})
    if keys.get(id(owner)) != key:
        keys[id(owner)] = key
        jit_function.clear_cache()
