"""Values that users' functions capture, as part of the identity of programs.

Compiled programs are found again by what they were made from. A function is told from others by its code and by the
values of everything that it captures: variables of enclosing functions, defaults, attributes of the object that it
belongs to and of its class, and globals of the user's own modules, in their turn with what they capture. Equal
functions share a program, and a captured number that has changed since makes a new one. The rule is documented in
`docs/extend.md`.
"""

from __future__ import annotations

import abc
import array
import collections
import contextlib
import functools
import hashlib
import site
import sys
import sysconfig
import threading
import types
import weakref
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from polhode.execution import kept
from polhode.unchanging import ByObject, Contents

P = ParamSpec("P")
T = TypeVar("T")

_MOST = 200_000
"""Values that are looked at behind one function; beyond that, an object is told by its identity."""


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """A function of this library as compiled programs, which see what users' functions in its arguments capture.

    Arrays are inputs; everything else tells programs from each other. Of all programs, the last `KEPT` stay in memory.
    """

    @functools.wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> T:
        others = _others((args, options))
        inputs, rest = eqx.partition(settled((args, options)), eqx.is_array)
        leaves, structure = jax.tree.flatten(rest)
        program = _PROGRAMS.find((function, others, _exact(leaves), structure), lambda: _program(function, rest))
        return program(inputs)

    return call


def found(
    make: Callable[..., T], *args: Any, keeping: kept.Keeping[T] | None = None, beside: tuple[Any, ...] = ()
) -> tuple[T, Any]:
    """The result of `make(inputs, rest)` for arguments like these, and their arrays, which may differ.

    `eqx.combine(inputs, rest)` are the arguments. As `compiled` it sees what users' functions capture. `keeping` says
    how it is kept between processes, unless there is something of the user's in it. `make` gets what is `beside` too,
    which tells nothing apart: it must not matter for what is made.
    """
    inputs, rest, shapes, key = _parted(args)
    return _PROGRAMS.find((make, *key), lambda: _made(make, inputs, rest, shapes, keeping, beside)), inputs


class Arguments:
    """Arguments of what is called again and again with one system.

    Modules of this library without functions are gone through once, as long as they live.

    - `arrays`: those that are inputs of programs.
    """

    def __init__(self, *args: Any) -> None:
        self._args = args
        self.arrays: list[Any] = []
        leaves, structure = jax.tree.flatten(args, is_leaf=_is_module)
        key: list[Hashable] = [structure, _others(args) if any(map(_is_own, _kinds(structure))) else None]
        for leaf in leaves:
            if isinstance(leaf, np.ndarray | jax.Array):
                self.arrays.append(leaf)
                key.append(_shape(leaf))
            else:
                part = _part(leaf)
                self.arrays += part.arrays
                key += (part.key, part.shapes())
        self._key = tuple(key)

    def found(self, make: Callable[..., T], keeping: kept.Keeping[T] | None = None) -> T:
        """The program that `found` would return."""
        return _PROGRAMS.find((make, self._key), lambda: _made(make, *_parted(self._args)[:3], keeping, ()))


def _made(
    make: Callable[..., T],
    inputs: Any,
    rest: Any,
    shapes: Any,
    keeping: kept.Keeping[T] | None,
    beside: tuple[Any, ...],
) -> T:
    if keeping is None:
        return make(inputs, rest, *beside)
    return kept.recalled(lasting(make, rest, shapes), lambda: make(inputs, rest, *beside), keeping, inputs)


def _parted(args: Any) -> tuple[Any, Any, Any, tuple[Hashable, ...]]:
    """The arrays of arguments and the rest of them, as trees, types of the arrays, and the identity of the program."""
    others = _others(args)
    leaves, structure = jax.tree.flatten(settled(args), is_leaf=lambda x: x is None)
    is_array = list(map(eqx.is_array, leaves))
    inputs = jax.tree.unflatten(structure, [x if there else None for x, there in zip(leaves, is_array, strict=True)])
    others_than_arrays = [None if there else x for x, there in zip(leaves, is_array, strict=True)]
    # Where an array is, and where there is nothing, can't be seen from the rest.
    shapes = tuple(_shape(x) if there else x is None for x, there in zip(leaves, is_array, strict=True))
    rest = jax.tree.unflatten(structure, others_than_arrays)
    return inputs, rest, shapes, (others, _exact(others_than_arrays), structure, shapes)


def _shape(x: Any) -> tuple[Any, ...]:
    return x.shape, str(x.dtype), bool(getattr(x, "weak_type", False))


class _Part:
    """One of the arguments of a program.

    - `arrays`: in the order of the tree. - `key`: what tells programs apart besides their types.
    """

    __slots__ = ("_shapes", "arrays", "key")

    def __init__(self, leaves: list[Any], *key: Hashable) -> None:
        self.arrays = [x for x in leaves if eqx.is_array(x)]
        self.key = _Hashed((_exact([_ARRAY if eqx.is_array(x) else x for x in leaves]), *key))
        # Only JAX's arrays stay as they are.
        self._shapes = tuple(map(_shape, self.arrays)) if all(isinstance(x, jax.Array) for x in self.arrays) else None

    def shapes(self) -> tuple[Any, ...]:
        """Shapes and types of the arrays as they are now."""
        return tuple(map(_shape, self.arrays)) if self._shapes is None else self._shapes


class _Hashed:
    """A key whose hash is worked out once; the same object is equal without a look."""

    __slots__ = ("_hash", "_key")

    def __init__(self, key: Hashable) -> None:
        self._key, self._hash = key, hash(key)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, _Hashed) and self._hash == other._hash and self._key == other._key)

    def __hash__(self) -> int:
        return self._hash


_ARRAY = "array"
"""Stands for an array among what tells programs apart."""


def _is_module(node: Any) -> bool:
    return isinstance(node, eqx.Module)


def _part(value: Any) -> _Part:
    known = _SETTLED.of(value) if isinstance(value, eqx.Module) else None
    if known is not None:
        return known
    leaves, structure = jax.tree.flatten(settled(value))
    return _Part(leaves, _others(value), structure)


def _settled_for_good(value: Any) -> _Part | None:
    """A module as a part of arguments, if it stays what it is as long as it lives."""
    return _Part(*jax.tree.flatten(value)) if lasts(value) else None


def lasts(tree: Any) -> bool:
    """Whether a tree stays what it is as long as it lives, but for the numbers in its arrays."""
    leaves, structure = jax.tree.flatten(tree, is_leaf=_is_holder)
    known = (leaf.lasts if isinstance(leaf, AbstractHolder) else isinstance(leaf, _KNOWN) for leaf in leaves)
    return all(known) and all(map(_stays, _kinds(structure)))


def _kinds(structure: Any) -> set[type]:
    """The classes of what holds others in a tree."""
    found, pending = set(), [structure]
    while pending:
        node = pending.pop()
        data = node.node_data()
        if data is not None:
            found.add(data[0])
            pending += node.children()
    return found


def _stays(kind: type) -> bool:
    """Whether what holds others holds the same ones as long as it lives."""
    return kind in (tuple, type(None)) or (issubclass(kind, eqx.Module | tuple) and _is_of_libraries(kind))


def _exact(leaves: list[Any]) -> tuple[Any, ...]:
    """Leaves that equal each other only if they are the same: 1 is not True, and 0.0 not -0.0."""
    return tuple((type(x), repr(x) if isinstance(x, float | complex) else x) for x in leaves)


def _program(function: Callable[..., Any], rest: Any) -> Callable[[Any], Any]:
    """A compiled function of its array arguments, with the others as they are."""

    def run(inputs: Any) -> Any:
        args, options = eqx.combine(inputs, rest)
        return function(*args, **options)

    # The name under which profiles and dumps of XLA show it.
    run.__name__ = run.__qualname__ = getattr(function, "__name__", "run")
    return jax.jit(run)


def signature(value: Any) -> str:
    """A name for what a value is made of, the same in every process: arrays to nine digits, functions by their code."""
    return _SignatureWalk(()).key(value)[0].hex()


def lasting(*values: Any) -> bytes | None:
    """A name for these values, the same in every process with these versions of the libraries that polhode builds on.

    None if anything of a user is among them, or of other libraries: what it does may depend on more than can be seen.
    """
    walk = _LastingWalk(())
    digest, _ = walk.key(values)
    return None if walk.local else digest


class _Programs:
    """The programs used last. Nothing else refers to them, so that what is dropped gives its memory back."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._found: collections.OrderedDict[Hashable, Any] = collections.OrderedDict()
        self._lock = threading.Lock()

    def find(self, key: Hashable, make: Callable[[], T]) -> T:
        """The program of that key, made if it is not there."""
        with self._lock:
            program = self._found.pop(key, None)
        # Outside, because making one takes seconds, and may look for another.
        program = make() if program is None else program
        with self._lock:
            self._found[key] = program
            while len(self._found) > self._kept:
                self._found.popitem(last=False)
        return program

    def clear(self) -> None:
        with self._lock:
            self._found.clear()


KEPT = 128
"""Programs in memory; each takes some megabytes."""

_PROGRAMS = _Programs(KEPT)


def forget() -> None:
    """Drop all programs from memory; they are made or loaded again when they are needed."""
    _PROGRAMS.clear()


def settled(tree: Any) -> Any:
    """`tree` with all its functions as they are now: their captured values become part of their identity.

    Functions become `Captured`, and modules that hold functions among their static parts are made anew. Captured
    modules and traced values become inputs of compiled programs, all other captured values constants of them.
    """
    return jax.tree.map(_settle, tree, is_leaf=_is_holder)


def _others(tree: Any) -> Hashable:
    """Identity of a program besides functions: users' classes, static parts of their modules, plain objects."""
    leaves, structure = jax.tree.flatten(tree)
    found = [leaf for leaf in leaves if not (isinstance(leaf, _KNOWN) or is_function(leaf))]
    pending = [structure]
    while pending:
        structure = pending.pop()
        data = structure.node_data()
        if data is not None and _is_own(data[0]):
            found.append(data)
        pending += structure.children()
    return _Walk(()).key(found) if found else None


class AbstractHolder(eqx.Module):
    """A module with functions among its static parts."""

    def renewed(self) -> Any:
        """The same with the values that its functions capture now."""
        raise TypeError(f"{type(self).__name__} does not say how it is renewed.")

    @property
    def lasts(self) -> bool:
        """Whether they capture nothing that may change."""
        return False


class Captured(eqx.Module):
    """A function with its captured values.

    **Arguments:**

    - `cells`: what becomes an input: modules, functions and traced values out of enclosing functions, by position.
    - `identity`: the rest.
    """

    cells: tuple[Any, ...]
    identity: Identity = eqx.field(static=True)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self.identity.bound(self.cells)(*arguments, **options)


class Identity:
    """A function told from others by its code and by values that it captures, besides those at `places`."""

    def __init__(self, function: Callable[..., Any], places: tuple[int, ...]) -> None:
        self.function, self.places = function, places
        self._originals = tuple(_content(_closure(function)[place]) for place in places)
        self._key = _Walk(places).key(function)

    def again(self, cells: tuple[Any, ...]) -> Callable[..., Any]:
        """The function with these contents of its cells, but for those that have been given others since."""
        now = [_content(_closure(self.function)[place]) for place in self.places]
        current = zip(now, self._originals, cells, strict=True)
        return self.bound(tuple(cell if a is b else a for a, b, cell in current))

    def bound(self, cells: tuple[Any, ...]) -> Callable[..., Any]:
        """The function with other contents of the cells at `places`."""
        if not self.places:
            return self.function
        f: Any = self.function
        closure = list(_closure(f))
        for place, value in zip(self.places, cells, strict=True):
            closure[place] = types.CellType(value)
        made = types.FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, tuple(closure))
        made.__kwdefaults__ = f.__kwdefaults__
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and self.places == other.places and self._key == other._key

    def __hash__(self) -> int:
        return hash((self.places, self._key))

    def __repr__(self) -> str:
        return repr(self.function)


def _is_holder(node: Any) -> bool:
    return isinstance(node, AbstractHolder | Captured)


def _settle(leaf: Any) -> Any:
    if isinstance(leaf, AbstractHolder):
        return leaf.renewed()
    if isinstance(leaf, Captured):
        return _captured(leaf.identity.again(leaf.cells))
    return _captured(leaf) if is_function(leaf) else leaf


def is_function(value: Any) -> bool:
    """Whether a leaf of a tree is something to call."""
    return callable(value) and not isinstance(value, type | jax.Array | np.ndarray)


def _captured(function: Any) -> Any:
    if _is_fixed(function):
        return function
    cells: dict[int, Any] = {}
    if isinstance(function, types.FunctionType):
        for place, cell in enumerate(_closure(function)):
            value = _content(cell)
            if _is_input(value):
                cells[place] = settled(value)
    return Captured(tuple(cells.values()), Identity(function, tuple(cells)))


def _is_input(value: Any) -> bool:
    """Whether a captured value becomes an input of compiled programs."""
    if isinstance(value, types.FunctionType):
        return not _is_fixed(value)
    if isinstance(value, _FILTER_JITTED):
        # What it compiled is made anew where it is walked through, which inputs are not.
        return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(value))
    return isinstance(value, eqx.Module | Tracer)


def _closure(function: Any) -> tuple[types.CellType, ...]:
    return getattr(function, "__closure__", None) or ()


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _is_fixed(value: Any) -> bool:
    """Whether a function can't change: it belongs to a library and captures nothing."""
    if isinstance(value, types.FunctionType):
        code = value.__code__
        return value.__closure__ is None and code.co_name != "<lambda>" and _of_library(code.co_filename)
    if isinstance(value, types.BuiltinFunctionType):
        return value.__self__ is None or isinstance(value.__self__, types.ModuleType | type)
    return _is_fixed(value.__wrapped__) if isinstance(value, _JITTED) else isinstance(value, np.ufunc)


@functools.cache
def _of_library(filename: str) -> bool:
    """Whether a file is part of Python, of an installed package or of polhode: not the user's own."""
    roots = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    roots |= {*site.getsitepackages(), str(Path(__file__).parent)}
    return filename.startswith(("<frozen", *(f"{root}/" for root in roots)))


def _is_own_module(module: types.ModuleType) -> bool:
    """Whether a module is a user's own."""
    content = vars(module)
    where = content.get("__file__") or next(iter(content.get("__path__") or ()), None)
    return module.__name__ not in sys.builtin_module_names if where is None else not _of_library(str(where))


_OWN: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()


def _is_own(kind: type) -> bool:
    """Whether a class, or one that it inherits from, is a user's own."""
    found = _OWN.get(kind)
    if found is None:
        found = _OWN[kind] = any(_is_own(base) for base in kind.__bases__) or _is_written_by_user(kind)
    return found


def _is_written_by_user(kind: type) -> bool:
    """Whether the module of a class, or for lack of one its package, is a user's own."""
    name = str(kind.__module__)
    while name not in sys.modules and "." in name:
        name = name.rpartition(".")[0]
    module = sys.modules.get(name)
    if module is None or ("__file__" not in vars(module) and "." in name):
        module = sys.modules.get(name.partition(".")[0])
    return module is None or _is_own_module(module)


def _is_of_libraries(kind: type) -> bool:
    return _is_built_on(kind.__module__) and not _is_own(kind)


_CONTENTS = Contents(_is_of_libraries)

_SETTLED: ByObject[_Part | None] = ByObject(_settled_for_good)


class _Same:
    """An object told by its identity, and kept alive as long as something is told by it."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


class _Walk:
    """One pass through everything behind a value.

    `renewing`: helpers that a user has compiled are traced anew where what they capture has changed.
    """

    def __init__(self, left_out: tuple[int, ...], renewing: bool = True) -> None:
        self._left_out, self._renewing = left_out, renewing
        self._digest = hashlib.blake2b(digest_size=16)
        self._objects: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._alive: list[Any] = []

    def key(self, function: Any) -> tuple[bytes, tuple[Any, ...]]:
        """Equal for functions with equal code and equal captured values."""
        pending = [self._parts(function, self._left_out)]
        while pending:
            try:
                value = next(pending[-1])
            except StopIteration:
                pending.pop()
                self._note("end")
                continue
            pending.append(self._parts(value, ()))
        return self._digest.digest(), tuple(self._objects)

    def _note(self, *words: Any) -> None:
        for word in words:
            self._digest.update(word if isinstance(word, bytes) else repr(word).encode())
            self._digest.update(b"\0")

    def _same(self, value: Any) -> None:
        self._note("object", len(self._objects))
        self._objects.append(_Same(value))

    def _parts(self, value: Any, left_out: tuple[int, ...]) -> Iterator[Any]:
        """Notes what a value is by itself; yields what it is made of."""
        if isinstance(value, _SCALARS):
            self._note(type(value).__name__, value if isinstance(value, bytes) else repr(value))
            return
        if id(value) in self._numbers:
            self._note("again", self._numbers[id(value)])
            return
        self._numbers[id(value)] = len(self._numbers)
        self._alive.append(value)
        if len(self._numbers) > _MOST or isinstance(value, Tracer) or _is_fixed(value):
            self._same(value)
        elif isinstance(value, type):
            yield from self._class(value)
        elif isinstance(value, np.ndarray | jax.Array | array.array):
            if isinstance(value, np.ndarray) and type(value) is not np.ndarray:
                self._note(type(value).__qualname__)
                yield np.ma.getmaskarray(value)
            yield from self._array(_as_array(value))
        elif isinstance(value, types.FunctionType):
            yield from self._function(value, left_out)
        elif isinstance(value, types.CodeType):
            yield from self._code(value)
        elif isinstance(value, types.MethodType | types.BuiltinFunctionType):
            self._note("method", value.__name__)
            yield from (getattr(value, "__func__", None), value.__self__)
        elif isinstance(value, types.ModuleType):
            self._note("module", value.__name__)
            if _is_own_module(value):
                yield {name: item for name, item in vars(value).items() if not _is_special(name)}
        elif isinstance(value, functools.partial):
            self._note("partial")
            yield from (value.func, value.args, value.keywords)
        elif isinstance(value, _COLLECTIONS):
            yield from self._collection(value)
        elif (content := self._content(value)) is not None:
            self._note("content", content)
        else:
            yield from self._object(value)

    def _array(self, value: np.ndarray) -> Iterator[Any]:
        self._note("array", value.dtype.str if value.dtype.kind in "biufcSU" else repr(value.dtype), value.shape)
        if value.dtype.hasobject:
            yield from value.flat
        else:
            self._note(np.ascontiguousarray(value).tobytes())

    def _collection(self, value: Any) -> Iterator[Any]:
        self._note(type(value).__name__, len(value), getattr(value, "maxlen", None))
        if isinstance(value, set | frozenset):
            # Their order differs from process to process, not within one.
            yield from self._items(self._ordered(value))
        elif isinstance(value, dict | types.MappingProxyType):
            yield from self._items(list(value))
            yield from self._items(list(value.values()))
        else:
            yield from self._items(value)
        if type(value) not in _COLLECTIONS:
            yield type(value)
            yield _attributes(value)

    def _ordered(self, values: Any) -> list[Any]:
        return sorted(values, key=repr)

    def _content(self, value: Any) -> bytes | None:
        """A digest of an object of the library that doesn't change, made once."""
        return _CONTENTS.digest(value)

    def _items(self, values: Any) -> Iterator[Any]:
        """Plain values count as one, since there may be many."""
        kinds = set(map(type, values))
        if kinds == {float}:
            yield from self._array(np.fromiter(values, float, len(values)))
        elif kinds <= _PLAIN:
            self._note(repr(list(values)))
        else:
            yield from values

    def _class(self, kind: type) -> Iterator[Any]:
        """The attributes and methods of a user's class."""
        self._same(kind)
        if not _is_own(kind):
            return
        yield type(kind)
        yield from kind.__bases__
        if _is_written_by_user(kind):
            for name, value in vars(kind).items():
                if name != "_abc_impl" and (not _is_special(name) or callable(value)):
                    self._note("attribute", name)
                    yield value

    def _function(self, f: types.FunctionType, left_out: tuple[int, ...]) -> Iterator[Any]:
        self._note("function")
        yield from self._text(f)
        yield f.__defaults__
        yield f.__kwdefaults__
        yield vars(f)
        own = not _of_library(f.__code__.co_filename)
        modules: list[types.ModuleType] = []
        for place, cell in enumerate(_closure(f)):
            if place not in left_out:
                yield from self._unless_module(_content(cell), modules)
        if own:
            yield from self._globals(f, modules)

    def _text(self, f: types.FunctionType) -> Iterator[Any]:
        """The code of a function."""
        self._objects.append(f.__code__)
        yield from ()

    def _code(self, code: types.CodeType) -> Iterator[Any]:
        """The code of a function, wherever it is written, also in those that are defined in it."""
        self._note("code", code.co_code, code.co_names, code.co_flags & _FLAGS, code.co_exceptiontable)
        self._note(code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
        self._note(code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount])
        yield code.co_consts

    def _globals(self, f: types.FunctionType, modules: list[types.ModuleType]) -> Iterator[Any]:
        """Objects that a function finds by names: in its own module, in those that it imports and in those given."""
        names = sorted(_names(f.__code__))
        modules += _imported(f, names)
        for name in names:
            if name in f.__globals__:
                self._note("global", name)
                yield from self._unless_module(f.__globals__[name], modules)
        known: set[int] = set()
        while modules:
            module = modules.pop()
            if id(module) in known or not _is_own_module(module):
                continue
            known.add(id(module))
            for name in names:
                if name in vars(module):
                    self._note("member", module.__name__, name)
                    yield from self._unless_module(vars(module)[name], modules)

    def _unless_module(self, value: Any, modules: list[types.ModuleType]) -> Iterator[Any]:
        """Only the names that are used count of modules, which are set aside for that."""
        if isinstance(value, types.ModuleType):
            self._note("module", value.__name__)
            modules.append(value)
        else:
            yield value

    def _object(self, value: Any) -> Iterator[Any]:
        """Anything else: its class, and its attributes if it has any that can be seen."""
        yield type(value)
        found = _attributes(value)
        if not _is_own(type(value)):
            if "_identity" in found:
                # Made from this alone, by which it is also compared.
                yield found["_identity"]
                return
            # What a library's object has worked out follows from the rest, and may not have been asked for yet.
            found = {name: x for name, x in found.items() if not _is_worked_out(type(value), name)}
        jitted = value if isinstance(value, _JITTED) else found.get("_cached")
        if isinstance(jitted, _JITTED):
            # By `jax.jit`, or by `eqx.filter_jit`, which shares what it has compiled.
            found = {"": value.__wrapped__} if jitted is value else {**found, "_cached": None}
            if self._renewing:
                _renew(jitted, value, found)
        yield found
        content = _content_of(value, found)
        yield content
        if not found and not isinstance(content, np.ndarray):
            self._same(value)


class _AbstractLastingWalk(_Walk):
    """A pass whose key is the same in every process, and tells nothing of which parts are one object.

    Each part has a digest of its own, so equal parts count as one. What a program that was found has in common with
    the system that it was made for first is equal to that of another system, but another object.
    """

    def __init__(self, left_out: tuple[int, ...]) -> None:
        super().__init__(left_out, renewing=False)
        self._done: dict[int, bytes] = {}

    def key(self, function: Any) -> tuple[bytes, tuple[Any, ...]]:
        above: dict[int, int] = {}
        pending = [(id(function), self._digest, self._parts(function, self._left_out))]
        while pending and self._goes_on():
            try:
                value = next(pending[-1][2])
            except StopIteration:
                me, outer, _ = pending.pop()
                self._done[me] = self._digest.digest()
                above.pop(me, None)
                if pending:
                    self._digest = outer
                    self._note("part", self._done[me])
                continue
            me = id(value)
            if me in self._done and not isinstance(value, _SCALARS):
                self._note("part", self._done[me])
            elif me in above:
                self._note("above", len(pending) - above[me])
            else:
                above[me] = len(pending)
                # What is told by its identity here must live as long.
                self._alive.append(value)
                pending.append((me, self._digest, self._parts(value, ())))
                self._digest = hashlib.blake2b(digest_size=16)
        return self._digest.digest(), ()

    def _goes_on(self) -> bool:
        """Whether there is anything to be found out yet."""
        return True

    @abc.abstractmethod
    def _same(self, value: Any) -> None: ...

    def _parts(self, value: Any, left_out: tuple[int, ...]) -> Iterator[Any]:
        # How often it was met says nothing.
        self._numbers.pop(id(value), None)
        yield from super()._parts(value, left_out)

    def _text(self, f: types.FunctionType) -> Iterator[Any]:
        self._note(f.__qualname__)
        yield f.__code__


class _SignatureWalk(_AbstractLastingWalk):
    """A pass for which last digits count for nothing, and objects without attributes are told by their class."""

    def _same(self, value: Any) -> None:
        kind = value if isinstance(value, type) else type(value)
        self._note(kind.__module__, kind.__qualname__, value.__name__ if isinstance(value, _NAMED) else "")

    def _array(self, value: np.ndarray) -> Iterator[Any]:
        yield from super()._array(self._rounded(value))

    def _rounded(self, value: np.ndarray) -> np.ndarray:
        """Whole numbers in place of digits that other processors may find otherwise."""
        if value.dtype.kind != "f" or not value.size or not np.isfinite(value).all():
            return value
        largest = float(np.max(np.abs(value)))
        self._note(f"{largest:.8e}")
        return np.round(value / (largest * 1e-9)) if largest > 0 else value

    def _ordered(self, values: Any) -> list[Any]:
        return sorted(values, key=signature)

    def _content(self, value: Any) -> bytes | None:
        return None


class _LastingWalk(_AbstractLastingWalk):
    """A pass whose key tells values from each other to the last bit, unless anything of a user is among them.

    `local`: whether anything is known to this process alone.
    """

    def __init__(self, left_out: tuple[int, ...]) -> None:
        super().__init__(left_out)
        self.local = False

    def _goes_on(self) -> bool:
        return not self.local

    def _same(self, value: Any) -> None:
        value = value.__wrapped__ if isinstance(value, _JITTED) else value
        module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        if isinstance(value, np.ufunc):
            module, name = "numpy", value.__name__
            known = getattr(np, name, None) is value
        elif isinstance(value, _NAMED):
            known = _is_built_on(module or "builtins")
        else:
            module, name = type(value).__module__, type(value).__qualname__
            known = not isinstance(value, Tracer) and _is_all_seen(value)
        self.local = self.local or not known
        self._note("named", module, name)

    def _parts(self, value: Any, left_out: tuple[int, ...]) -> Iterator[Any]:
        if isinstance(value, _SCALARS) and not _is_built_on(type(value).__module__):
            self.local = True
        elif value is ... or value is NotImplemented:
            self._note(value)
        elif isinstance(value, types.ModuleType):
            self.local = self.local or not _is_built_on(value.__name__)
            self._note("module", value.__name__)
        elif isinstance(value, Identity):
            self._note("without", value.places)
            yield from self._parts(value.function, value.places)
        elif isinstance(value, types.FunctionType) and "<locals>" in value.__qualname__:
            yield from self._function(value, left_out)
        elif isinstance(value, jax.tree_util.PyTreeDef):
            tree: Any = value
            self._note("tree", tree.num_nodes)
            yield tree.node_data()
            yield tree.children()
        else:
            yield from super()._parts(value, left_out)

    def _text(self, f: types.FunctionType) -> Iterator[Any]:
        # Decorators give functions the module of another.
        self.local = self.local or not (_is_built_on(f.__module__) and _of_library(f.__code__.co_filename))
        self._note(f.__module__)
        yield from super()._text(f)

    def _collection(self, value: Any) -> Iterator[Any]:
        # Sets of anything but plain values come in another order in every process.
        self.local = self.local or (isinstance(value, set | frozenset) and not set(map(type, value)) <= _PLAIN)
        yield from super()._collection(value)


def _is_built_on(module: str | None) -> bool:
    """Whether a module belongs to a library whose version is part of what is kept on disk."""
    top = str(module).partition(".")[0]
    if top not in ("polhode", *kept.LIBRARIES) and top not in sys.stdlib_module_names:
        return False
    # A file of the user may have the name of a module of Python.
    found = sys.modules.get(top)
    return found is not None and not _is_own_module(found)


def _is_all_seen(value: Any) -> bool:
    """Whether an object without attributes is told by its class: of libraries that are all Python."""
    return str(type(value).__module__).partition(".")[0] in ("polhode", "equinox")


_FLAGS = 0x3FF
"""Flags of code that say what it does, not how it was compiled."""

_SCALARS = (type(None), bool, int, float, complex, str, bytes, np.generic)
_PLAIN = {type(None), bool, int, float, complex, str, bytes}
_KNOWN = (*_SCALARS, np.ndarray, jax.Array)
_COLLECTIONS = (list, tuple, dict, set, frozenset, collections.deque, types.MappingProxyType)
_NAMED = (type, types.FunctionType, types.BuiltinFunctionType, np.ufunc)
_JITTED: Any = type(jax.jit(len))
_FILTER_JITTED: Any = type(eqx.filter_jit(len))

_TRACED: weakref.WeakKeyDictionary[Any, dict[int, int]] = weakref.WeakKeyDictionary()
"""Of functions that users have compiled: what they captured when they were looked at last."""


def _renew(jitted: Any, owner: Any, parts: dict[str, Any]) -> None:
    """Makes JAX forget the traces of a compiled function of a user if what it captures has changed.

    `owner` is what holds the compiled function, or that itself; several may share one.
    """
    key = hash(_Walk((), renewing=False).key(parts))
    known = _TRACED.setdefault(jitted, {})
    if known.get(id(owner)) != key:
        known[id(owner)] = key
        jitted.clear_cache()


def _as_array(value: Any) -> np.ndarray:
    """The numbers of an array; those of a key for random numbers are what it is made from."""
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.extended):
        named = np.array(list(str(value.dtype).encode()), np.uint32)
        value = np.concatenate((named, np.asarray(jax.random.key_data(value)).reshape(-1)))
    return np.asarray(value)


def _attributes(value: Any) -> dict[str, Any]:
    """The contents of an object itself: attributes past `__getattr__` and properties."""
    found: dict[str, Any] = {}
    for kind in type(value).__mro__:
        for name in _slots(kind):
            try:
                found[name] = vars(kind)[name].__get__(value)
            except AttributeError:
                continue
    with contextlib.suppress(AttributeError):
        found.update(object.__getattribute__(value, "__dict__"))
    return found


def _is_worked_out(kind: type, name: str) -> bool:
    return isinstance(getattr(kind, name, None), functools.cached_property)


_SLOTS: weakref.WeakKeyDictionary[type, tuple[str, ...]] = weakref.WeakKeyDictionary()


def _slots(kind: type) -> tuple[str, ...]:
    found = _SLOTS.get(kind)
    if found is None:
        # Offsets in memory are the same in all objects.
        members = ((name, value) for name, value in vars(kind).items() if not name.endswith("offset__"))
        found = tuple(name for name, value in members if isinstance(value, types.MemberDescriptorType))
        _SLOTS[kind] = found
    return found


def _content_of(value: Any, found: dict[str, Any]) -> Any:
    """An object besides its attributes: its numbers as an array, or, without any, what a copy is made of."""
    kind = type(value)
    try:
        if hasattr(kind, "__array__"):
            return np.asarray(value)
        if not found and (kind.__reduce__, kind.__reduce_ex__) != (object.__reduce__, object.__reduce_ex__):
            return value.__reduce_ex__(4)
    except Exception:
        # Such objects are told by what else is known of them.
        return None
    return None


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _imported(f: types.FunctionType, names: list[str]) -> list[types.ModuleType]:
    """Modules, from where a function stands, with names that it uses: it may import them itself."""
    package = str(f.__globals__.get("__package__") or "").split(".")
    origins = ["", *(".".join(package[:n]) + "." for n in range(1, len(package) + 1) if package[0])]
    found = [sys.modules.get(origin + name) for name in names for origin in origins]
    return [module for module in found if isinstance(module, types.ModuleType)]


def _names(code: types.CodeType) -> set[str]:
    """Names that a function and those defined in it look up outside themselves."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found
