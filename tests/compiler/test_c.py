"""Programs printed in C and compiled by the system's compiler give the bytes of machine code."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_array_programs import PROGRAMS, WHERE, N, X

import polhode as ph
from polhode.compiler.arrays import entry_points
from polhode.compiler.arrays.llvm_printer import compile_function
from polhode.compiler.c.array_printer import print_file
from polhode.compiler.c.expressions import literal
from polhode.compiler.cache import disk_cache, program_cache
from polhode.compiler.llvm.types import UnsupportedNativeOperation
from polhode.compiler.loops import step_loop
from polhode.compiler.loops.row_map import RowMap

COMPILER = shutil.which("cc")
FLAGS = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-Wno-unused", "-ffp-contract=off", "-fPIC", "-shared")

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")


@pytest.fixture
def in_c(monkeypatch, tmp_path):
    """From now on functions are compiled by the C compiler, in place of LLVM; gives their texts."""
    texts = []

    def compiled(function, tell=None, long=False):
        code = compile_function(function, tell, long)
        file = print_file(function)
        texts.append(file.text)
        source, library = tmp_path / f"{len(texts)}.c", tmp_path / f"{len(texts)}.so"
        source.write_text(file.text)
        subprocess.run([COMPILER, *FLAGS, "-O0", source, "-o", library, "-lm"], check=True)
        run = ctypes.CDLL(str(library)).run
        run.restype, run.argtypes = ctypes.c_int64, [ctypes.c_void_p] * (len(function.arguments) + 1)
        # Called with a table of constants too, which are part of the text here.
        code._call, code._workspace = lambda *pointers: run(*pointers[:-1]), file.workspace
        code._pending_text = None
        return code

    def begin():
        monkeypatch.setattr(disk_cache, "is_on", lambda: False)
        monkeypatch.setattr(program_cache, "_PROGRAMS", program_cache._Programs(program_cache.CAPACITY))
        monkeypatch.setattr(entry_points, "compile_function", compiled)
        monkeypatch.setattr(step_loop, "compile_function", compiled)
        return texts

    return begin


def bytes_of(tree):
    return [np.asarray(x).tobytes() for x in jax.tree.leaves(tree)]


@pytest.mark.sampled(29)
@pytest.mark.parametrize("name", PROGRAMS)
def test_array_programs_have_the_bytes_of_machine_code(name, in_c):
    def results():
        return bytes_of(RowMap.of(lambda _, row: PROGRAMS[name](*row), (), (X[0], WHERE[0]))((), (X, WHERE)))

    expected, texts = results(), in_c()
    assert results() == expected
    assert len(texts) == 1


RUNS = {
    "chain": lambda: ph.simulate(ph.problems.get("body-chain", n=30), "herk4", h=1e-3, t1=0.02),
    "rod": lambda: ph.simulate(ph.problems.get("flying-spaghetti", n=24), "generalized-alpha", h=1e-3, t1=0.02),
    "particles": lambda: ph.simulate(ph.problems.get("torus"), t1=0.02),
    "grains": lambda: ph.simulate(ph.problems.get("grain-pile"), t1=0.02),
    "top": lambda: ph.simulate(ph.problems.get("heavy-top"), "rkmk4", h=1e-3, t1=0.1),
    "four-bar": lambda: ph.simulate(ph.problems.get("planar-four-bar"), "generalized-alpha", h=1e-3, t1=0.1),
}


@pytest.mark.parametrize("name", [pytest.param(x, marks=[] if x == "top" else pytest.mark.exhaustive) for x in RUNS])
def test_runs_have_the_bytes_of_machine_code(name, in_c):
    expected = bytes_of(RUNS[name]().frames)
    texts = in_c()
    assert bytes_of(RUNS[name]().frames) == expected
    assert texts
