"""Impacts on stops that a joint comes to rest on, and starts beyond stops: nothing passes through in silence."""

from __future__ import annotations

import numpy as np
import pytest

import polhode as ph

ARM = """<mujoco><compiler angle="radian"/><default><geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03"/></default>
<worldbody><body name="a" pos="0 0 1"><joint name="i" axis="0 1 0"/><geom/>
<body name="b" pos="0.3 0 0"><joint name="j" axis="0 1 0"/><geom/></body></body></worldbody></mujoco>"""


def stopped(upper=1.0):
    """An arm that falls on the stop of its first joint, with the second one between stops, and all of these."""
    arm = ph.load_model(ARM)
    return arm, [
        *ph.events.stop(arm.joints["i"], -1.0, upper, 0.5, name="i"),
        *ph.events.stop(arm.joints["j"], -0.5, 0.5, 0.3, name="j"),
    ]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("formulation", "method", "steps"),
    [
        ("minimal", "bdf", {"rtol": 1e-8}),
        ("SO3xR3", "rkmk54", {"rtol": 1e-8}),
        ("SO3xR3", "rkmk4", {"h": 0.002}),
        ("SO3xR3", "bdf", {"rtol": 1e-8}),
    ],
)
@pytest.mark.exhaustive
def test_what_comes_to_rest_on_a_stop_stays_there_and_does_not_fall_through(formulation, method, steps):
    arm, events = stopped()
    run = ph.simulate(arm.problem(formulation, t1=0.6), method, events=events, **steps)
    # Without stops it is beyond both limits by then.
    beyond = np.abs(np.asarray(run.outputs["joint_positions"])) - np.array([1.0, 0.5])
    assert beyond.max() < 1e-5
    assert len(run.events.t) < 200
    closed = {name: bool(contact.closed[-1]) for name, contact in run.contacts.items()}
    assert closed == {"i lower": False, "i upper": True, "j lower": False, "j upper": True}
    assert np.abs(run.outputs["joint_velocities"][-1]).max() < 1e-8
    # The stop of the first joint carries the moment of both links, that of the second one the moment of its own.
    np.testing.assert_allclose(run.contacts["i upper"].force[-1], run.contacts["i upper"].force[-2], rtol=1e-6)
    assert run.contacts["i upper"].force[-1] > run.contacts["j upper"].force[-1] > 0


def test_starts_beyond_a_stop_are_refused_by_name():
    arm, events = stopped(upper=-0.2)
    with pytest.raises(ValueError, match=r"gap of event `i upper` is -0\.2 at the start"):
        ph.simulate(arm.problem("minimal", t1=0.1), events=events)


@pytest.mark.exhaustive
def test_ranges_of_a_file_are_rigid_stops():
    arm = ph.load_model(ARM.replace('name="i" axis="0 1 0"', 'name="i" axis="0 1 0" range="-1 0.5"'), limits=False)
    joint = arm.joints["i"]
    assert joint.limits == (-1.0, 0.5)
    assert arm.joints["j"].limits == (-np.inf, np.inf)
    stop = ph.events.stop(joint, *joint.limits, restitution=1.0)
    run = ph.simulate(arm.problem("minimal", t1=0.4), "rkmk4", h=0.002, events=stop)
    assert run.events.name[0] == "stop upper"
    assert joint.value(arm.problem("minimal").system, 0.0, run.events.before)[0] == pytest.approx(0.5, abs=1e-10)
    # Impacts without loss keep the energy.
    energy = run.outputs["kinetic_energy"] + run.outputs["potential_energy"]
    np.testing.assert_allclose(energy, energy[0], atol=1e-6)


@pytest.mark.exhaustive
def test_what_starts_on_a_stop_and_leaves_it_meets_it_again():
    arm = ph.load_model(ARM, positions={"i": 1.0}, velocities={"i": -1.0})
    events = ph.events.stop(arm.joints["i"], upper=1.0, restitution=1.0, name="i")
    run = ph.simulate(arm.problem("minimal", t1=0.2), "rkmk4", h=0.001, events=events)
    assert len(run.events.t) > 0
    assert np.max(run.outputs["joint_positions"][:, 0]) < 1 + 1e-12
