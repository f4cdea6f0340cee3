"""Text of LLVM's intermediate representation to functions of this process."""

from __future__ import annotations

import ctypes
import functools
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polhode._ambient import warn
from polhode.execution.writer import Writer

try:
    import llvmlite.binding as llvm
except (ImportError, OSError):
    llvm: Any = None

_AT_ONCE = 3000
"""Operations up to which code is compiled with some effort before it first runs."""

_SECONDS_EACH = 5e-5
"""For an operation, about, when it is compiled with some effort: after that long it is worth it."""

_LEAST, _SOME = 0, 1


class Code:
    """A function in machine code, which lives as long as this object.

    Large functions are compiled with least effort first, and with more in another thread once they have run for as long
    as that takes. What they compute is the same to the last bit: every operation is one of IEEE 754, in the order of
    the text.

    **Arguments:**

    - `writer`: with the text of the function, and what it needs.
    - `pointers`: names of the arrays that it takes.
    - `returned`: the whole number that it returns.
    """

    def __init__(self, writer: Writer, pointers: Sequence[str], returned: str) -> None:
        self._count, self._workspace = len(pointers) + 1, writer.workspace
        small = len(writer.lines) <= _AT_ONCE
        text = writer.function(pointers, returned)
        self._engine, self._call = self._compiled(text, _SOME if small else _LEAST)
        self._again = None if small else text
        self._worth = len(writer.lines) * _SECONDS_EACH

    def __call__(self, *arrays: np.ndarray) -> int:
        """Run it on contiguous arrays of slots of eight bytes; other threads go on meanwhile."""
        call, workspace, began = self._call, np.empty(self._workspace, np.int64), time.perf_counter()
        result = call(*(x.ctypes.data for x in (*arrays, workspace)))
        self._worth -= time.perf_counter() - began
        if self._worth < 0 and self._again is not None:
            text, self._again = self._again, None
            threading.Thread(target=self._improve, args=(text,)).start()
        return result

    def _improve(self, text: str) -> None:
        engine, self._call = self._compiled(text, _SOME)
        # The code before may still be running in another thread.
        self._engine = self._engine, engine

    def _compiled(self, text: str, effort: int) -> tuple[Any, Callable[..., int]]:
        module = llvm.parse_assembly(text)
        engine = llvm.create_mcjit_compiler(module, _target(effort))
        engine.finalize_object()
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * self._count)
        return engine, kind(engine.get_function_address("run"))


@functools.cache
def missing() -> bool:
    """Whether there is no compiler here, which is said once."""
    if llvm is None:
        warn(
            "llvmlite can't be imported, so runs are compiled by XLA: slower to begin and, for small systems, slower "
            "to run, with the same results up to rounding. `pip install llvmlite` where there is a build of it.",
            RuntimeWarning,
        )
    return llvm is None


@functools.cache
def _ready() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def _target(effort: int) -> Any:
    """The processor that this runs on, with all that it can do. Each engine takes one for itself."""
    _ready()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=effort,
        codemodel="jitdefault",
        reloc="default",
    )
