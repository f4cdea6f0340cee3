"""Just-in-time compilation of LLVM's intermediate representation."""

from __future__ import annotations

import ctypes
import functools
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from polhode.compiler.compile_report import CompileReport
from polhode.compiler.llvm.ir_builder import IRBuilder
from polhode.compiler.llvm.short_blocks import with_short_blocks
from polhode.jax_context import IS_KNOWN, NEWEST, warn

try:
    import llvmlite.binding as llvm
except (ImportError, OSError):
    llvm: Any = None

_OPTIMISED_AT_ONCE = 3000
"""Operations up to which code is optimised before it first runs."""

_O0, _O1, _O2 = range(3)
"""Optimisation levels; at -O2 the loop vectoriser runs before code generation, which changes no result either."""

_SECONDS_EACH = {_O1: 5e-5, _O2: 1.2e-4}
"""Approximate compile time of an operation; code that has run that long at a lower level is compiled at this one."""


class CompiledFunction:
    """A function in machine code, which lives as long as this object.

    Tiered compilation: large functions are compiled at -O0 at first, and at the next level in a background thread once
    their run time exceeds its expected compile time. Results are the same to the last bit: every operation is one of
    IEEE 754, in the order of the text.

    **Arguments:**

    - `builder`: with the text of the function, its workspace and tables.
    - `pointers`: names of its array arguments.
    - `result`: the integer that it returns.
    - `tell`: called with a report before compilation.
    - `long`: whether it has loops over many elements, which -O2 vectorises.
    - `at_once`: whether it is optimised before it first runs, whatever its size: -O0 takes longer for vectors.
      Instructions are scheduled for few registers, which is of no use for scalars: RKMK 4 of a heavy top takes
      0.033 µs a step and run instead of 0.042.
    """

    def __init__(
        self,
        builder: IRBuilder,
        pointers: Sequence[str],
        result: str,
        tell: Callable[[CompileReport], None] | None = None,
        long: bool = False,
        at_once: bool = False,
    ) -> None:
        self._count, self._workspace, self._tables = len(pointers) + 2, builder.workspace, builder.tables
        lines = len(builder.lines) + len(builder.module_lines)
        small = at_once or lines <= _OPTIMISED_AT_ONCE
        text = builder.function(pointers, result)
        self._objects: list[bytes] = []
        self._operations, self._level = lines, _O1 if small else _O0
        self._generation = _O2 if at_once else _O0
        if tell is not None:
            tell(self.report)
        self._engine, self._call = self._compile(text, self._level)
        self._best = _O2 if long else _O1
        self._pending_text = text if self._level < self._best else None
        self._seconds_left = self._next_seconds()
        self.when_improved: Callable[[], None] = _nothing

    def __getstate__(self) -> tuple[Any, ...]:
        text = None if self._pending_text is None else zlib.compress(self._pending_text.encode(), 1)
        code = self._count, self._workspace, self._tables, self._objects[-1], text, self._seconds_left
        return (*code, self._operations, self._level, self._best)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._count, self._workspace, self._tables, data, text, self._seconds_left, *form = state
        self._operations, self._level, self._best = form
        self._generation = _O0
        self._objects, self._pending_text = [data], None if text is None else zlib.decompress(text).decode()
        self._engine, self._call = self._load(data)
        self.when_improved = _nothing

    @property
    def report(self) -> CompileReport:
        """Report of its current optimisation level."""
        return CompileReport(self._operations, "quick" if self._level == _O0 else "optimised", kept=False)

    def __call__(self, *arrays: np.ndarray) -> int:
        """Runs it on contiguous arrays of slots of eight bytes, without the GIL."""
        return next(self.calls(*arrays))

    def calls(self, *arrays: np.ndarray) -> Iterator[int]:
        """Runs it once for every result that is requested; arrays may change in between."""
        everything = *arrays, np.empty(self._workspace, np.int64), self._tables
        pointers = [x.ctypes.data for x in everything]
        while True:
            # Processor time, so that other load on the machine doesn't trigger compilation.
            began = time.thread_time()
            result = self._call(*pointers)
            self._seconds_left -= time.thread_time() - began
            text, self._pending_text = (
                (self._pending_text, None) if self._seconds_left < 0 else (None, self._pending_text)
            )
            if text is not None:
                threading.Thread(target=self._improve, args=(text,), name="polhode-compiler").start()
            yield result

    def _improve(self, text: str) -> None:
        engine, self._call = self._compile(text, self._level + 1)
        self._level += 1
        # The previous code may still be running in another thread.
        self._engine = self._engine, engine
        if self._level < self._best:
            self._seconds_left, self._pending_text = self._next_seconds(), text
        self.when_improved()

    def _next_seconds(self) -> float:
        """Approximate compile time at the next level, in seconds."""
        return self._operations * _SECONDS_EACH[min(self._level + 1, self._best)]

    def _compile(self, text: str, level: int) -> tuple[Any, Callable[..., int]]:
        target = _target(max(level, self._generation))
        module = llvm.parse_assembly(with_short_blocks(text) if level == _O0 else text)
        if level == _O2:
            # With unrolling, loops take five times as long to compile, and are no faster.
            options = llvm.create_pipeline_tuning_options(speed_level=1)
            options.loop_vectorization, options.loop_unrolling, options.loop_interleaving = True, False, False
            pass_builder = llvm.create_pass_builder(target, options)
            pass_builder.getModulePassManager().run(module, pass_builder)
        engine = llvm.create_mcjit_compiler(module, target)
        # A reference to `self` would be a cycle, which frees the memory late.
        objects = self._objects
        engine.set_object_cache(lambda _, data: objects.append(data))
        return engine, self._function(engine)

    def _load(self, data: bytes) -> tuple[Any, Callable[..., int]]:
        """Code that was compiled before."""
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target(_O0))
        engine.add_object_file(llvm.ObjectFileRef.from_data(data))
        return engine, self._function(engine)

    def _function(self, engine: Any) -> Callable[..., int]:
        engine.finalize_object()
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * self._count)
        return kind(engine.get_function_address("run"))


def _nothing() -> None:
    pass


@functools.cache
def is_compiler_missing() -> bool:
    """Whether there is no compiler, or none for this version of JAX, of which it warns once."""
    if not IS_KNOWN:
        warn(
            f"JAX {jax.__version__} is not known to this polhode, which works with 0.10 to "
            f"{'.'.join(map(str, NEWEST))}, so runs are compiled by XLA: slower to begin and, for small systems, "
            "slower to run, with the same results up to rounding. `pip install --upgrade polhode`, or an older JAX.",
            RuntimeWarning,
        )
        return True
    if llvm is None:
        warn(
            "llvmlite can't be imported, so runs are compiled by XLA: slower to begin and, for small systems, slower "
            "to run, with the same results up to rounding. `pip install llvmlite` where there is a build of it.",
            RuntimeWarning,
        )
    return llvm is None


@functools.cache
def vector_width() -> int:
    """Doubles in a vector of the size that is fastest on this processor."""
    _initialise()
    return 8 if llvm.get_host_cpu_features().get("avx512f", False) else 4


@functools.cache
def _initialise() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def _target(level: int) -> Any:
    """The target machine of this processor with all its features. Each engine needs its own."""
    _initialise()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=level,
        codemodel="jitdefault",
        reloc="default",
    )
