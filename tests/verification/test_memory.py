"""Memory after many runs, long runs and many models in one process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

START = """
import resource, sys
import jax.numpy as jnp, numpy as np
import polhode as ph
from polhode.spaces import Rn

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20

def largest():
    # That of `resource` begins with what the process had that started this one.
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))
"""

REBUILT = """
def one(k):
    model = ph.Model(gravity=(0, 0, -9.81))
    arm = model.add_body(mass=1.0 + k / 1000, inertia=(0.1, 0.2, 0.2), position=(0.5, 0, 0))
    model.add(ph.joints.Revolute(model.ground, arm, point=(0, 0, 0), axis=(0, 1, 0)))
    model.add(ph.forces.PointForce(arm, lambda t: jnp.array([1.0, 0.0, 0.0])))
    ph.simulate(model.problem("minimal", t1=0.02), "rkmk4", h=0.01)

for k in range({n}):
    one(k)
    if k == 99:
        before = resident()
print(resident() - before)
"""

CAPTURED = """
def one(k):
    system = ph.VectorField(Rn(1), lambda t, y: -k * y)
    ph.simulate(system, "rk4", h=0.5, t1=1.0, state0=np.ones(1))

for k in range({n}):
    one(0.1 + k)
    if k == 149:
        before = resident()
print(resident() - before)
"""

FRAMES = """
decay = ph.VectorField(Rn(1), lambda t, y: -1e-3 * y)
run = ph.simulate(decay, "lie-euler", h=1e-3, t1={n} * 1e-3, state0=np.ones(1), store=sys.argv[1])
print(largest())
# Times are read as one array, which takes 8 bytes a frame: that is no longer the run.
assert len(run.t) == {n} + 1
assert abs(float(run.state[-1, 0]) - (1 - 1e-6) ** {n}) < 1e-9
again = ph.load(sys.argv[1])
assert float(again[{n} // 2].state[0, 0]) == float(run.state[{n} // 2, 0])
print(largest())
"""


def printed(script: str, *arguments: str) -> list[float]:
    environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(START + script), *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=1500,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [float(line) for line in done.stdout.split()]


pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="memory is read from /proc")


@pytest.mark.exhaustive
def test_a_thousand_models_stay_within_200_mb_of_the_first_hundred():
    (growth,) = printed(REBUILT.format(n=1000))
    assert growth < 200


@pytest.mark.exhaustive
def test_programs_for_ever_new_numbers_are_given_back():
    (growth,) = printed(CAPTURED.format(n=500))
    assert growth < 200


@pytest.mark.exhaustive
def test_ten_million_frames_with_a_store_need_less_than_500_mb(tmp_path):
    running, read = printed(FRAMES.format(n=10_000_000), str(tmp_path / "run.zarr"))
    assert running < 500
    assert read < 500


@pytest.mark.exhaustive
def test_frames_in_a_store_do_not_stay_in_memory(tmp_path):
    # What waits for the disk is bounded, and more than that is reached by both.
    few = printed(FRAMES.format(n=2_000_000), str(tmp_path / "few.zarr"))[0]
    many = printed(FRAMES.format(n=10_000_000), str(tmp_path / "many.zarr"))[0]
    # In memory the frames between would take 192 MB and, while they are put together, as much again.
    assert many - few < 48
