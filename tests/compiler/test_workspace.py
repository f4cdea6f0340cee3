"""Machine code reads nothing from its workspace but what it has written there."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import polhode as ph
from polhode.compiler.llvm import jit
from polhode.compiler.llvm.ir_builder import IRBuilder

RUNS = {
    "rod": lambda: ph.simulate(ph.problems.get("roll-up", n=2), "generalized-alpha", h=1e-3, t1=0.02),
    "loop": lambda: ph.simulate(ph.problems.get("four-bar-loop"), "eml", h=1e-2, t1=0.1),
    "long rod": lambda: ph.simulate(ph.problems.get("flying-spaghetti", n=24), "generalized-alpha", h=1e-3, t1=0.02),
    "long chain": lambda: ph.simulate(ph.problems.get("body-chain", n=30), "herk4", h=1e-3, t1=0.02),
    "bonds and contacts": lambda: ph.simulate(ph.problems.get("torus"), t1=0.02),
    "grains": lambda: ph.simulate(ph.problems.get("grain-pile"), t1=0.02),
}


# Where all is in registers, as in the loop, there is no workspace.
LONG = ("loop", "rod", "grains", "long rod", "bonds and contacts")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.exhaustive) if name in LONG else name for name in RUNS]
)
def test_what_lies_in_the_workspace_before_does_not_matter(name, monkeypatch):
    found = []
    for bits in (np.float64(np.nan).view(np.int64), np.float64(1e300).view(np.int64), np.int64(-1), np.int64(3)):
        monkeypatch.setattr(jit, "np", _Filled(bits))
        found.append(RUNS[name]())
        monkeypatch.undo()
    assert found[0].stats["compiled"]["by"] != "xla"
    for other in found[1:]:
        for x, y in zip(jax.tree.leaves(found[0].frames), jax.tree.leaves(other.frames), strict=True):
            assert np.asarray(x).tobytes() == np.asarray(y).tobytes()


def test_what_reads_more_is_told_from_the_rest(monkeypatch):
    w = IRBuilder()
    w.workspace = 1
    w.store("%out", 0, "i64", w.load("%workspace", 0, "i64"))
    code, found = jit.CompiledFunction(w, ("out",), "0"), np.zeros(1, np.int64)
    for bits in (3, 7):
        monkeypatch.setattr(jit, "np", _Filled(bits))
        code(found)
        assert found[0] == bits


class _Filled:
    """NumPy, whose new arrays are full of the same bits."""

    def __init__(self, bits):
        self._bits = bits

    def __getattr__(self, name):
        return getattr(np, name)

    def empty(self, shape, dtype):
        return np.full(shape, self._bits, dtype)
