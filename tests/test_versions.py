"""What is asked of JAX and llvmlite, in little; `make lowest` runs it with the oldest versions that are allowed."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import polhode as ph

MAKEFILE = Path(__file__).parents[1] / "Makefile"
DEPENDENCIES = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]["dependencies"]


def bounds(name: str) -> Requirement:
    return next(found for text in DEPENDENCIES if (found := Requirement(text)).name == name)


@pytest.mark.parametrize("name", ["jax", "llvmlite"])
def test_installed_versions_are_within_bounds_that_end(name):
    allowed, here = bounds(name).specifier, importlib.metadata.version(name)
    assert here in allowed
    ends = [Version(one.version) for one in allowed if one.operator == "<"]
    assert ends
    assert all(Version(here) < end for end in ends)


@pytest.mark.parametrize("name", ["jax", "llvmlite"])
def test_the_oldest_versions_that_are_tried_are_those_that_are_allowed(name):
    lowest = re.search(rf"^LOWEST := .*\b{name}==(\S+)", MAKEFILE.read_text(), re.MULTILINE)
    assert lowest is not None
    first = next(Version(one.version) for one in bounds(name).specifier if one.operator == ">=")
    assert Version(lowest.group(1)) == first


@pytest.mark.parametrize(("name", "method"), [("heavy-top-constrained", "generalized-alpha"), ("heavy-top", "rkmk4")])
def test_machine_code_gives_what_xla_does(name, method):
    problem = ph.problems.get(name)
    run = lambda: ph.simulate(problem, method, h=1e-3, t1=0.02, save_every=None)  # noqa: E731
    native = run()
    assert native.stats["compiled"]["by"] in ("quick", "optimised")
    by_xla = jax.jit(lambda state: ph.simulate(problem, method, h=1e-3, t1=0.02, state0=state, save_every=None).state)
    for a, b in zip(jax.tree.leaves(native.state), jax.tree.leaves(by_xla(problem.state0)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)


def test_derivatives_by_machine_code_agree_with_differences():
    problem = ph.problems.get("heavy-top")
    q, v = problem.state0

    def reached(speed: jax.Array) -> jax.Array:
        end = ph.simulate(problem, "rkmk4", h=1e-3, t1=0.02, state0=(q, speed * v), save_every=None).state[1]
        return jnp.sum(end[-1] ** 2)

    slope = jax.grad(reached)(jnp.asarray(1.0))
    up, down = (reached(jnp.asarray(1.0 + d)) for d in (1e-5, -1e-5))
    np.testing.assert_allclose(slope, (up - down) / 2e-5, rtol=1e-8)


def test_a_rod_runs_row_by_row_and_hangs_in_equilibrium():
    rubber = ph.rods.circular(0.02, youngs_modulus=1e7, density=1000.0)
    model = ph.Model(gravity=(0, 0, -9.81))
    model.add_rod(points=np.linspace(0, 1, 13)[:, None] * (1.0, 0, 0), section=rubber, clamped="first")
    problem = model.problem(t1=0.01, h=1e-3)
    run = ph.simulate(problem, save_every=None)
    assert run.stats["result"] == 0
    assert run.outputs["positions"][-1, -1, 2] == pytest.approx(-0.5 * 9.81 * 0.01**2, rel=1e-2)
    still = ph.equilibrium(problem)
    assert still.residual < 1e-8
