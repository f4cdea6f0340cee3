"""Who wrote a function, class or module: a user, this library, or one that it builds on."""

from __future__ import annotations

import functools
import site
import sys
import sysconfig
import types
import weakref
from pathlib import Path

from polhode.execution import kept


@functools.cache
def of_library(filename: str) -> bool:
    """Whether a file is part of Python, of an installed package or of polhode: not the user's own."""
    roots = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    roots |= {*site.getsitepackages(), str(Path(__file__).parents[1])}
    return filename.startswith(("<frozen", *(f"{root}/" for root in roots)))


def is_own_module(module: types.ModuleType) -> bool:
    """Whether a module is a user's own."""
    content = vars(module)
    where = content.get("__file__") or next(iter(content.get("__path__") or ()), None)
    return module.__name__ not in sys.builtin_module_names if where is None else not of_library(str(where))


_OWN: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()


def is_own(kind: type) -> bool:
    """Whether a class, or one that it inherits from, is a user's own."""
    found = _OWN.get(kind)
    if found is None:
        found = _OWN[kind] = any(is_own(base) for base in kind.__bases__) or is_written_by_user(kind)
    return found


def is_written_by_user(kind: type) -> bool:
    """Whether the module of a class, or for lack of one its package, is a user's own."""
    name = str(kind.__module__)
    while name not in sys.modules and "." in name:
        name = name.rpartition(".")[0]
    module = sys.modules.get(name)
    if module is None or ("__file__" not in vars(module) and "." in name):
        module = sys.modules.get(name.partition(".")[0])
    return module is None or is_own_module(module)


def is_of_libraries(kind: type) -> bool:
    """Whether a class belongs to polhode or what it builds on, with all that it inherits from."""
    return is_built_on(kind.__module__) and not is_own(kind)


def is_built_on(module: str | None) -> bool:
    """Whether a module belongs to a library whose version is part of what is kept on disk."""
    top = str(module).partition(".")[0]
    if top not in ("polhode", *kept.LIBRARIES) and top not in sys.stdlib_module_names:
        return False
    # A file of the user may have the name of a module of Python.
    found = sys.modules.get(top)
    return found is not None and not is_own_module(found)
