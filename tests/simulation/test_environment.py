"""Where nothing can be computed as it should be, runs say so instead of computing."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

import polhode as ph
from polhode.spaces import Rn

DECAY = ph.VectorField(Rn(1), lambda t, y: -y)


def run(**given):
    return ph.simulate(DECAY, "rk4", **{"h": 0.1, "t1": 1.0, "state0": jnp.ones(1), **given})


@pytest.mark.exhaustive
def test_importing_computes_nothing():
    code = "import polhode; from jax._src import xla_bridge; assert not xla_bridge.backends_are_initialized()"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=100)


def test_lost_double_precision_is_refused():
    jax.config.update("jax_enable_x64", False)
    try:
        with pytest.raises(RuntimeError, match="jax_enable_x64"):
            run()
    finally:
        jax.config.update("jax_enable_x64", True)
    assert run().state.dtype == jnp.float64


def test_lost_double_precision_is_refused_by_problems_modes_and_equilibria():
    model = ph.Model()
    model.add_coordinate(mass=1.0)
    system, state = model.assemble()
    jax.config.update("jax_enable_x64", False)
    try:
        for call in (lambda: ph.problems.get("heavy-top"), lambda: ph.modes(system, state)):
            with pytest.raises(RuntimeError, match="jax_enable_x64"):
                call()
        with pytest.raises(RuntimeError, match="jax_enable_x64"):
            ph.equilibrium(system, state)
    finally:
        jax.config.update("jax_enable_x64", True)


def test_interpreted_runs_are_refused():
    with jax.disable_jit(), pytest.raises(RuntimeError, match="disable_jit"):
        run()


FORK = """
import os, signal, sys
import numpy as np
import polhode as ph
from polhode.spaces import Rn
decay = ph.VectorField(Rn(1), lambda t, y: -y)
run = lambda: ph.simulate(decay, "rk4", h=0.1, t1=1.0, state0=np.ones(1))
if {first}:
    run()
child = os.fork()
if child == 0:
    signal.alarm(60)
    try:
        run()
    except RuntimeError as error:
        print("refused:", error)
        sys.stdout.flush()
        os._exit(3)
    os._exit(0)
print("status", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.exhaustive
@pytest.mark.sampled(2)
@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="processes are not forked here")
@pytest.mark.parametrize(("first", "status"), [(True, 3), (False, 0)])
def test_a_process_forked_after_a_run_says_what_to_do(first, status):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK.format(first=first)], capture_output=True, text=True, timeout=100
    )
    assert f"status {status}" in done.stdout, done.stdout + done.stderr
    assert ("spawn" in done.stdout) == first


@pytest.mark.parametrize(("t0", "h"), [(1e16, 1e-3), (1e9, 1e-8), (-1e16, 1e-3)])
def test_times_that_can_not_be_distinguished_are_refused(t0, h):
    with pytest.raises(ValueError, match="apart"):
        run(t0=t0, t1=t0 + 4.0, h=h)
