"""What an imported arm gains in energy is the work of its drives less what dampers, friction and stops take.

Energies are MuJoCo's, at the joint positions and velocities of a run; powers are written down here, from the numbers
in the file. Work is integrated over the steps by Boole's rule, whose errors are of order six.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, NamedTuple

import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import polhode as ph
from polhode.forces.joint_forces import JointStops

ARM = """<mujoco><compiler angle="radian" autolimits="true"/><option><flag energy="enable"/></option>
<default><geom type="capsule" size="0.04" density="900" contype="0" conaffinity="0"/></default><worldbody>
<body name="upper" pos="0 0 1"><joint name="shoulder" axis="0 1 0" damping="0.6" frictionloss="0.8" armature="0.05"
  range="-1.5 1.5"/><geom fromto="0 0 0 0.4 0.05 0"/>
<body name="lower" pos="0.4 0.05 0"><joint name="elbow" axis="0 1 0.3" damping="0.3" frictionloss="0.5" armature="0.2"
  stiffness="2" springref="0.2" range="-1.5 1.2" solreflimit="-1000 -20"/><geom fromto="0 0 0 0.3 0 0.05"/>
<body name="hand" pos="0.3 0 0.05"><joint name="reach" type="slide" axis="1 0 0.2" armature="2" damping="4"
  frictionloss="1" range="-0.5 0.5"/><geom fromto="0 0 0 0.1 0.03 0"/></body></body></body></worldbody>
<actuator><position name="lift" joint="shoulder" kp="60" kv="5"/>
<position name="bend" joint="elbow" kp="50" kv="2" forcerange="-20 20"/>
<velocity name="push" joint="reach" kv="15"/></actuator></mujoco>"""
STICK = 1.0
DAMPING, FRICTION = np.array([0.6, 0.3, 4.0]), np.array([0.8, 0.5, 1.0])
LOWER, UPPER = np.array([-1.5, -1.5, -0.5]), np.array([1.5, 1.2, 0.5])
END = 0.8


class Motion(NamedTuple):
    """Where the elbow starts, and its control; the other joints have the same in all motions."""

    elbow: float
    control: float


FREE = Motion(0.3, 0.6)
"""Within all limits."""
PRESSED = Motion(1.3, 3.0)
"""The elbow is in its stop all the time, and its drive pushes as hard as it can."""
ARRIVING = Motion(0.9, 3.0)
"""The elbow runs into its stop."""


@functools.cache
def imported(motion: Motion) -> Any:
    controls = {"lift": lambda t: 0.5 * jnp.sin(3 * t), "bend": motion.control, "push": lambda t: 0.3 * jnp.sin(4 * t)}
    start = {"shoulder": 0.2, "elbow": motion.elbow, "reach": 0.02}
    rates = {"shoulder": 0.5, "elbow": 0.3}
    # What starts in its stop is told.
    told = pytest.warns(ph.StartWarning, match="`elbow` at 1.3, range -1.5 … 1.2 rad")
    with told if motion is PRESSED else contextlib.nullcontext():
        return ph.load_model(ARM, positions=start, velocities=rates, controls=controls, stick_velocity=STICK)


def powers(motion: Motion, t: np.ndarray, s: np.ndarray, v: np.ndarray) -> dict[str, np.ndarray]:
    """By what acts, shape (n,)."""
    bend = np.clip(50 * (motion.control - s[:, 1]) - 2 * v[:, 1], -20, 20)
    drives = (60 * (0.5 * np.sin(3 * t) - s[:, 0]) - 5 * v[:, 0], bend, 15 * (0.3 * np.sin(4 * t) - v[:, 2]))
    stops = {part.joint.name: part for _, part in imported(motion).model.parts if isinstance(part, JointStops)}
    k, d = np.array([(stops[n].stiffness, stops[n].damping) for n in ("shoulder", "elbow", "reach")]).T
    below, above = np.maximum(LOWER - s, 0), np.maximum(s - UPPER, 0)
    fully = stops["elbow"].onset
    pushed = np.maximum(k * below - d * np.minimum(below / fully, 1) * v, 0)
    pushed -= np.maximum(k * above + d * np.minimum(above / fully, 1) * v, 0)
    return {
        "dampers": -(v**2) @ DAMPING,
        "friction": -(v * np.tanh(v / STICK)) @ FRICTION,
        "drives": np.sum(v.T * drives, axis=0),
        "stops": np.sum(v * pushed, axis=1),
    }


def energies(s: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Potential of weight and springs, and kinetic energy with that of rotors, shape (n, 2)."""
    model = mujoco.MjModel.from_xml_string(ARM)
    data = mujoco.MjData(model)
    found = []
    for data.qpos[:], data.qvel[:] in zip(s, v, strict=True):
        mujoco.mj_forward(model, data)
        found.append(data.energy.copy())
    return np.array(found)


def work(power: np.ndarray, h: float) -> float:
    """Boole's rule, over four intervals at a time."""
    pieces = np.stack([power[i : len(power) - 4 + i : 4] for i in range(5)], axis=1)
    return float(np.sum(pieces @ np.array([7, 32, 12, 32, 7])) * 2 * h / 45)


def gap(motion: Motion, h: float, without: str = "") -> float:
    """Energy gained less the work done, relative to the largest work of anything."""
    run = ph.simulate(imported(motion).problem("minimal", t1=END), "rkmk4", h=h)
    t, s, v = (np.asarray(x) for x in (run.t, run.outputs["joint_positions"], run.outputs["joint_velocities"]))
    ends = np.sum(energies(s[[0, -1]], v[[0, -1]]), axis=1)
    each = {what: work(power, h) for what, power in powers(motion, t, s, v).items()}
    total = sum(done for what, done in each.items() if what != without)
    return abs(ends[1] - ends[0] - total) / max(map(abs, each.values()))


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("motion", [FREE, PRESSED])
def test_the_balance_of_power_closes_to_the_order_of_the_method(motion):
    machine = imported(motion)
    assert machine.not_carried == []
    gaps = np.array([gap(motion, END / n) for n in (640, 1280, 2560)])
    np.testing.assert_allclose(np.log2(gaps[:-1] / gaps[1:]), 4.0, atol=0.15)
    assert gaps[-1] < 1e-10


def test_energies_are_among_the_outputs():
    run = ph.simulate(imported(FREE).problem("minimal", t1=END), "rkmk4", h=END / 40)
    wanted = energies(*(np.asarray(run.outputs[name]) for name in ("joint_positions", "joint_velocities")))
    found = np.stack([np.asarray(run.outputs[f"{kind}_energy"]) for kind in ("potential", "kinetic")], axis=1)
    # Where a potential has its zero is a matter of taste.
    np.testing.assert_allclose(found[:, 0] - found[0, 0], wanted[:, 0] - wanted[0, 0], atol=1e-12)
    np.testing.assert_allclose(found[:, 1], wanted[:, 1], atol=1e-12)
    assert np.ptp(wanted, axis=0).min() > 0.5


@pytest.mark.exhaustive
@pytest.mark.parametrize("without", ["dampers", "friction", "drives", "stops"])
def test_without_any_of_the_powers_it_stays_open(without):
    gaps = [gap(PRESSED, END / n, without) for n in (640, 1280)]
    assert min(gaps) > 0.05
    assert gaps[1] == pytest.approx(gaps[0], rel=1e-6)


@pytest.mark.exhaustive
def test_where_a_stop_is_run_into_it_closes_to_order_two():
    # The force of a stop begins with a kink, somewhere in a step, and its damper with another where it is all there.
    ns = (3200, 12800, 51200)
    largest = [max(gap(ARRIVING, END / (n + 4 * k)) for k in range(8)) * n**2 for n in ns]
    np.testing.assert_allclose(largest, np.mean(largest), rtol=0.2)
