"""Who wrote a function, class or module: a user, this library, or one that is installed.

Users' code may be different the next time, so keys have all of its content; of installed code they have the name,
since traversing JAX would never end. A file is installed

- in a folder that Python has for packages: of this environment, of one below it, of the user;
- or by a distribution that says so, in any other folder of the search path (`pip install --target`, modules of
  clusters, archives): other files there are the user's own.

A project that is installed so that it can be edited lies in a folder of its own, and no list names its files: it is the
user's own, like a script. The dependencies of polhode (`disk_cache.LIBRARIES`) are too large for that, so they are
never traversed, wherever they are; but nothing that involves an editable one is stored for other processes, which would
know it by its version alone.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import os
import site
import sys
import sysconfig
import types
import weakref
from collections.abc import Iterator
from pathlib import Path

from polhode.compiler.cache import disk_cache

_FOLDERS = ("site-packages", "dist-packages")
"""Names of folders that Python, Debian and others have for packages."""


@functools.cache
def is_library_file(filename: str) -> bool:
    """Whether a file is part of Python, an installed package, polhode or a dependency: not the user's own."""
    if filename.startswith("<frozen") or is_installed(filename):
        return True
    return any(_is_below(filename, folder) for folder in _dependency_folders())


@functools.cache
def is_installed(filename: str) -> bool:
    """Whether a file is part of Python, of an installed package or of polhode, and so doesn't change."""
    if any(f"{os.sep}{name}{os.sep}" in filename for name in _FOLDERS) or any(
        _is_below(filename, x) for x in _python_folders()
    ):
        return True
    above = (os.path.abspath(entry) for entry in sys.path)
    return any(_top(filename, folder) in _distributed_names(folder) for folder in above if _is_below(filename, folder))


@functools.cache
def _python_folders() -> tuple[str, ...]:
    """Folders of Python's modules and of packages, and that of polhode, whose sources are part of every stored key."""
    folders = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    return (*folders, *site.getsitepackages(), site.getusersitepackages(), str(Path(__file__).parents[2]))


def _dependency_folders() -> Iterator[str]:
    """Folders of polhode's dependencies, as far as they are loaded."""
    for name in disk_cache.LIBRARIES:
        yield from map(str, getattr(sys.modules.get(name), "__path__", ()))


@functools.cache
def _distributed_names(folder: str) -> frozenset[str]:
    """Names directly in a folder, or archive, of the search path that distributions list as theirs."""
    names: set[str] = set()
    for distribution in importlib.metadata.distributions(path=[folder]):
        # Editable sources may have metadata beside them, but no list of installed files.
        with contextlib.suppress(OSError, UnicodeError):
            lines = (distribution.read_text("RECORD") or "").splitlines()
            names.update(line.lstrip('"').partition(",")[0].partition("/")[0] for line in lines)
    return frozenset(names)


def _is_below(filename: str, folder: str) -> bool:
    return filename.startswith(folder if folder.endswith(os.sep) else folder + os.sep)


def _top(filename: str, folder: str) -> str:
    """The first component of a file's path below a folder."""
    return filename[len(folder) :].lstrip(os.sep).partition(os.sep)[0]


def is_user_module(module: types.ModuleType) -> bool:
    """Whether a module is a user's own."""
    where = _place(module)
    return module.__name__ not in sys.builtin_module_names if where is None else not is_library_file(where)


def _place(module: types.ModuleType) -> str | None:
    """The file of a module, or else its first folder."""
    content = vars(module)
    where = content.get("__file__") or next(iter(content.get("__path__") or ()), None)
    return None if where is None else str(where)


_IS_USER_CLASS: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()


def is_user_class(kind: type) -> bool:
    """Whether a class, or one that it inherits from, is a user's own."""
    is_own = _IS_USER_CLASS.get(kind)
    if is_own is None:
        is_own = _IS_USER_CLASS[kind] = any(is_user_class(base) for base in kind.__bases__) or is_written_by_user(kind)
    return is_own


def is_written_by_user(kind: type) -> bool:
    """Whether the module of a class, or else its package, is a user's own."""
    name = str(kind.__module__)
    while name not in sys.modules and "." in name:
        name = name.rpartition(".")[0]
    module = sys.modules.get(name)
    if module is None or ("__file__" not in vars(module) and "." in name):
        module = sys.modules.get(name.partition(".")[0])
    return module is None or is_user_module(module)


def is_library_class(kind: type) -> bool:
    """Whether a class and all its bases belong to polhode or its dependencies."""
    return is_dependency(kind.__module__) and not is_user_class(kind)


def is_dependency(module: str | None) -> bool:
    """Whether a module belongs to a library whose version, as part of every stored key, determines its content."""
    top = str(module).partition(".")[0]
    if top not in ("polhode", *disk_cache.LIBRARIES) and top not in sys.stdlib_module_names:
        return False
    # A user's file may have the name of a module of Python.
    package = sys.modules.get(top)
    if package is None:
        return False
    where = _place(package)
    return top in sys.builtin_module_names if where is None else is_installed(where)
