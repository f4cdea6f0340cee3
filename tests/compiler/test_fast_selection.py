"""Code that is compiled with least effort is selected by LLVM's fast selector, all of it.

An instruction that it doesn't know leaves the rest of its block to the selector of optimised code, whose time grows
with the square of the block's length: one comparison of two truths made a loop of four bars take 57 s instead of one.
"""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from polhode.compiler.loops.row_map import RowMap

TRUTHS = {
    "eq": jax.lax.eq,
    "ne": jax.lax.ne,
    "lt": jax.lax.lt,
    "le": jax.lax.le,
    "gt": jax.lax.gt,
    "ge": jax.lax.ge,
    "chosen": lambda a, b: jnp.where(a, ~b, b),
    "by number": lambda a, b: jax.lax.select_n(a.astype(jnp.int32), b, ~b),
    "as a number": lambda a, b: a.astype(float) - b,
}

ALL = """
import jax, jax.numpy as jnp, llvmlite.binding as llvm, numpy as np
import polhode.compiler.llvm.jit as machine
from polhode.compiler.loops.row_map import RowMap
from polhode.compiler.llvm.types import UnsupportedNativeOperation
from programs import PROGRAMS, A, V
from test_fast_selection import TRUTHS

machine._OPTIMISED_AT_ONCE = 0
llvm.set_option("", "--pass-remarks-missed=sdagisel")
compiled = 0
for program in PROGRAMS.values():
    try:
        RowMap.of(lambda _, row, of=program: of(*row), (), (A, V))
    except UnsupportedNativeOperation:
        continue
    compiled += 1
for function in TRUTHS.values():
    RowMap.of(lambda _, x, of=function: of(x[0] > 0, x[1] > 0), (), V)
    compiled += 1
print(compiled)
"""


@pytest.mark.parametrize("name", TRUTHS)
def test_truths_are_compared_as_in_jax(name):
    rows = np.array(list(itertools.product([-1.0, 1.0], repeat=2)))

    def function(x):
        return TRUTHS[name](x[0] > 0, x[1] > 0)

    np.testing.assert_array_equal(RowMap.of(lambda _, x: function(x), (), rows[0])((), rows), jax.vmap(function)(rows))


@pytest.mark.exhaustive
def test_no_instruction_leaves_its_block_to_the_slow_selector():
    told = subprocess.run(
        [sys.executable, "-c", ALL], env=_where_tests_are(), capture_output=True, text=True, check=True
    )
    assert int(told.stdout) > 20
    assert "remark:" in told.stderr, "LLVM reports nothing, so this shows nothing"
    missed = {line for line in told.stderr.splitlines() if "FastISel missed:" in line}
    assert not missed


def _where_tests_are() -> dict[str, str]:
    here = Path(__file__).parent
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(here), str(here.parent), os.environ.get("PYTHONPATH", "")])}
