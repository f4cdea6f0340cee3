"""Process-independent keys of values."""

from __future__ import annotations

import abc
import hashlib
import types
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from polhode.compiler.fingerprint.closures import FunctionIdentity
from polhode.compiler.fingerprint.inspection import JIT_FUNCTION, PLAIN, SCALARS, TYPES_AND_FUNCTIONS
from polhode.compiler.fingerprint.object_walk import AbstractObjectHasher, content_digest
from polhode.compiler.fingerprint.provenance import is_dependency, is_library_file


def fingerprint(value: Any) -> str:
    """Process-independent fingerprint of a value: arrays to nine digits, functions by their code."""
    return _FingerprintHasher(()).key(value)[0].hex()


def persistent_key(*values: Any) -> bytes | None:
    """Process-independent key of these values, for these versions of polhode's dependencies.

    None if user code or another library is reachable, whose behaviour a key can't cover.
    """
    walk = _PersistentHasher(())
    digest, _ = walk.key(values)
    return None if walk.local else digest


class _AbstractPersistentHasher(AbstractObjectHasher):
    """A traversal whose key is the same in every process, and ignores which parts are one object.

    Each part has a digest of its own, so equal parts count as one: a loaded program may share parts with its system
    that are equal to those of another system, but other objects.
    """

    def __init__(self, left_out: tuple[int, ...]) -> None:
        super().__init__(left_out)
        self._done: dict[int, bytes] = {}

    def key(self, function: Any) -> tuple[bytes, tuple[Any, ...]]:
        ancestors: dict[int, int] = {}
        stack = [(id(function), self._digest, self._parts(function, self._excluded_cells))]
        while stack and self._is_pending():
            try:
                value = next(stack[-1][2])
            except StopIteration:
                me, outer, _ = stack.pop()
                self._done[me] = self._digest.digest()
                ancestors.pop(me, None)
                if stack:
                    self._digest = outer
                    self._note("part", self._done[me])
                continue
            me = id(value)
            if me in self._done and not isinstance(value, SCALARS):
                self._note("part", self._done[me])
            elif me in ancestors:
                self._note("above", len(stack) - ancestors[me])
            else:
                ancestors[me] = len(stack)
                # Its address must stay in use.
                self._alive.append(value)
                stack.append((me, self._digest, self._parts(value, ())))
                self._digest = hashlib.blake2b(digest_size=16)
        return self._digest.digest(), ()

    @abc.abstractmethod
    def _is_pending(self) -> bool:
        """Whether the key isn't determined yet."""

    def _note_jit_function(self, jit_function: Any, owner: Any, parts: dict[str, Any]) -> None:
        pass

    def _is_repeated(self, value: Any) -> bool:
        # Repeated visits don't count.
        return False


class _FingerprintHasher(_AbstractPersistentHasher):
    """A traversal that rounds numbers, and identifies objects without attributes by their class."""

    def _note_identity(self, value: Any) -> None:
        kind = value if isinstance(value, type) else type(value)
        self._note(kind.__module__, kind.__qualname__, value.__name__ if isinstance(value, TYPES_AND_FUNCTIONS) else "")

    def _is_pending(self) -> bool:
        return True

    def _special(self, value: Any, left_out: tuple[int, ...]) -> None:
        return None

    def _text(self, f: types.FunctionType) -> Iterator[Any]:
        self._note(f.__qualname__)
        yield f.__code__

    def _digits(self, value: np.ndarray) -> np.ndarray:
        """Rounded numbers, without the digits that differ between processors."""
        if value.dtype.kind != "f" or not value.size or not np.isfinite(value).all():
            return value
        largest = float(np.max(np.abs(value)))
        self._note(f"{largest:.8e}")
        return np.round(value / (largest * 1e-9)) if largest > 0 else value

    def _sorted_members(self, values: Any) -> list[Any]:
        return sorted(values, key=fingerprint)

    def _content(self, value: Any) -> bytes | None:
        return None


class _PersistentHasher(_AbstractPersistentHasher):
    """A traversal whose key distinguishes values to the last bit, as long as no user code is reachable.

    `local`: whether any part has no process-independent key.
    """

    def __init__(self, left_out: tuple[int, ...]) -> None:
        super().__init__(left_out)
        self.local = False

    def _is_pending(self) -> bool:
        return not self.local

    def _note_identity(self, value: Any) -> None:
        value = value.__wrapped__ if isinstance(value, JIT_FUNCTION) else value
        module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        if isinstance(value, np.ufunc):
            module, name = "numpy", value.__name__
            is_portable = getattr(np, name, None) is value
        elif isinstance(value, TYPES_AND_FUNCTIONS):
            is_portable = is_dependency(module or "builtins")
        else:
            module, name = type(value).__module__, type(value).__qualname__
            is_portable = not isinstance(value, Tracer) and _is_pure_python(value)
        self.local = self.local or not is_portable
        self._note("named", module, name)

    def _special(self, value: Any, left_out: tuple[int, ...]) -> Iterator[Any] | None:
        if isinstance(value, SCALARS) and not is_dependency(type(value).__module__):
            self.local = True
        elif value is ... or value is NotImplemented:
            self._note(value)
        elif isinstance(value, types.ModuleType):
            self.local = self.local or not is_dependency(value.__name__)
            self._note("module", value.__name__)
        elif isinstance(value, FunctionIdentity):
            self._note("without", value.places)
            return self._parts(value.function, value.places)
        elif isinstance(value, types.FunctionType) and "<locals>" in value.__qualname__:
            return self._function(value, left_out)
        elif isinstance(value, jax.tree_util.PyTreeDef):
            tree: Any = value
            self._note("tree", tree.num_nodes)
            return iter((tree.node_data(), tree.children()))
        else:
            return None
        return iter(())

    def _text(self, f: types.FunctionType) -> Iterator[Any]:
        # Decorators give functions the module of another.
        self.local = self.local or not (is_dependency(f.__module__) and is_library_file(f.__code__.co_filename))
        self._note(f.__module__, f.__qualname__)
        yield f.__code__

    def _digits(self, value: np.ndarray) -> np.ndarray:
        return value

    def _sorted_members(self, values: Any) -> list[Any]:
        # Sets of other values have another order in every process.
        self.local = self.local or not set(map(type, values)) <= PLAIN
        return sorted(values, key=repr)

    def _content(self, value: Any) -> bytes | None:
        return content_digest(value)


def _is_pure_python(value: Any) -> bool:
    """Whether the class identifies an object without attributes: in libraries of pure Python."""
    return str(type(value).__module__).partition(".")[0] in ("polhode", "equinox")
