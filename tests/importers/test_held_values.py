"""Closing loops leaves the positions and velocities that a user has given, or says what it changes."""

from __future__ import annotations

import copy
import re

import numpy as np
import pytest
from against_mujoco import EXAMPLES
from scipy.spatial.transform import Rotation

import polhode as ph

FOUR_BAR = EXAMPLES / "four_bar.xml"
ORDER = ("crank", "coupler", "rocker")
BOTH = ("minimal", pytest.param("SE3", marks=pytest.mark.exhaustive))

HANGING = """<mujoco><default><geom type="box" size="0.05 0.1 0.3" contype="0" conaffinity="0"/></default><worldbody>
<body name="one"><joint name="ball" type="ball"/><geom pos="0 0 -0.3"/></body>
<body name="two" pos="0 0 -1"><freejoint name="free"/><geom/></body></worldbody>
<equality><connect body1="one" body2="two" anchor="0 0 -0.6"/></equality></mujoco>"""


def start(formulation, **given):
    """Joint positions and velocities at the start, by name."""
    problem = ph.load_model(FOUR_BAR, **given).problem(formulation, t1=0.1)
    return read(problem.outputs, problem.state0)


def read(outputs, state):
    found = (np.asarray(outputs[name](0.0, state)) for name in ("joint_positions", "joint_velocities"))
    return tuple(dict(zip(ORDER, values, strict=True)) for values in found)


def apart(positions):
    """From the coupler's end of the pin to that of the rocker, by the lengths in the file."""
    crank, coupler, rocker = (positions[name] for name in ORDER)

    def turned(angle, vector):
        return Rotation.from_rotvec((0, angle, 0)).apply(vector)

    end = turned(crank, (0, 0, 0.3)) + turned(crank + coupler, (0.8, 0, 0.2))
    return np.array((0.8, 0, 0)) + turned(rocker, (0, 0, 0.5)) - end


def rate(positions, velocities):
    """How fast the pin opens."""
    ahead, behind = ({n: positions[n] + s * velocities[n] for n in ORDER} for s in (1e-5, -1e-5))
    return (apart(ahead) - apart(behind)) / 2e-5


def check_closed(positions, velocities):
    np.testing.assert_allclose(apart(positions), 0, atol=1e-9)
    np.testing.assert_allclose(rate(positions, velocities), 0, atol=1e-8)


@pytest.mark.exhaustive
@pytest.mark.parametrize("formulation", BOTH)
@pytest.mark.sampled(6)
def test_what_is_given_is_held_without_a_word(formulation):
    for given in (
        {"velocities": {"crank": 4.0}},
        {"velocities": {"rocker": 1.0}},
        {"positions": {"crank": 0.3}, "velocities": {"crank": 4.0}},
        {"positions": {"rocker": 0.2}, "velocities": {"crank": -3.0}},
    ):
        found = start(formulation, **given)
        for kept, values in zip(found, (given.get("positions", {}), given["velocities"]), strict=True):
            assert {name: kept[name] for name in values} == pytest.approx(values, abs=1e-9)
        check_closed(*found)


@pytest.mark.exhaustive
def test_without_holding_the_nearest_state_is_another_one():
    """The control: the loop does change what isn't held."""
    imported = ph.load_model(FOUR_BAR, velocities={"crank": 4.0})
    outputs = imported.problem(t1=0.1).outputs
    _, state = imported.model.assemble("minimal", repair=True, redundant="minimum-norm")
    positions, velocities = read(outputs, state)
    check_closed(positions, velocities)
    assert abs(velocities["crank"] - 4.0) > 0.1


@pytest.mark.parametrize("formulation", BOTH)
@pytest.mark.exhaustive
def test_what_cannot_be_held_is_said_with_its_change(formulation):
    """The first that is given stays; for the others it says what changes, and by how much."""
    first, second = {"crank": 0.3, "rocker": 0.1}, {"crank": 4.0, "rocker": 1.0}
    for order in (("crank", "rocker"), ("rocker", "crank")):
        given = {"positions": {n: first[n] for n in order}, "velocities": {n: second[n] for n in order}}
        with pytest.warns(ph.StartWarning) as said:
            positions, velocities = start(formulation, **given)
        check_closed(positions, velocities)
        (kept, lost), (message,) = order, [str(each.message) for each in said]
        assert (positions[kept], velocities[kept]) == pytest.approx((first[kept], second[kept]), abs=1e-9)
        changes = re.findall(r"the (position|velocity) of `(\w+)` changes by ([\d.e+-]*\d)", message)
        assert [change[:2] for change in changes] == [("position", lost), ("velocity", lost)]
        sizes = (abs(positions[lost] - first[lost]), abs(velocities[lost] - second[lost]))
        assert min(sizes) > 0.05
        # Three digits are said; of angles half the distance of the points on a circle and such are near enough.
        assert [float(change[2]) for change in changes] == pytest.approx(sizes, rel=2e-2)


def hung(tmp_path, **given):
    path = tmp_path / "hanging.xml"
    path.write_text(HANGING)
    problem = ph.load_model(path, **given).problem("minimal", t1=0.1)
    system, state = problem.system, problem.state0
    tips = [
        np.asarray(system.pose(state[0], name).x + system.pose(state[0], name).R @ np.array(arm))
        for name, arm in (("one", (0, 0, -0.3)), ("two", (0, 0, 0.4)))
    ]
    np.testing.assert_allclose(tips[0], tips[1], atol=1e-9)
    return system, state


@pytest.mark.exhaustive
def test_attitudes_and_poses_are_held_too(tmp_path):
    half = Rotation.from_rotvec((0.4, 0, 0))
    quaternion, spin = half.as_quat(scalar_first=True), (0.1, 0.2, 0.3)
    system, state = hung(tmp_path, positions={"ball": quaternion}, velocities={"ball": spin})
    np.testing.assert_allclose(system.pose(state[0], "one").R, half.as_matrix(), atol=1e-9)
    np.testing.assert_allclose(system.twist(*state, "one").omega, spin, atol=1e-9)
    # The free body gives way.
    assert np.linalg.norm(system.pose(state[0], "two").x - np.array((0, 0, -1))) > 0.05
    # It can't be where the other one doesn't reach.
    with pytest.warns(ph.StartWarning, match="the position of `free` changes by 0.1"):
        hung(tmp_path, positions={"free": (0, 0, -1.1, 1, 0, 0, 0)})


def crossed_linkage():
    """A rod on a hinge and another one that should be pinned to its end, but is a little off."""
    model = ph.Model(gravity=(0, 0, -9.81))
    one, two = (
        model.add_body(mass=1.0, inertia=(0.1, 0.2, 0.3), position=(x, 0, z), angular_velocity=(0, s, 0), name=name)
        for name, x, z, s in (("one", 0.5, 0, 2.0), ("two", 1.5, 0.1, 1.0))
    )
    model.add(ph.joints.Revolute(model.ground, one, point=(0, 0, 0), axis=(0, 1, 0), name="shoulder"))
    model.add(ph.joints.Spherical(one, two, point=(1, 0, 0), name="elbow"))
    model.add(ph.joints.PointOnLine(model.ground, two, point=(2, 0, 0), axis=(1, 0, 0), name="line"))
    return model


def test_a_model_of_ones_own_holds_what_it_is_told():
    model = crossed_linkage()
    for hold in ((), ("shoulder",)):
        system, state = model.assemble("SE3", repair=True, hold=hold)
        spin = float(system.twist(*state, "one").omega[1])
        assert (abs(spin - 2.0) < 1e-9) == bool(hold)
    with pytest.raises(ValueError, match=r"`hold` names 'shoulders', which is no joint or body.*`?shoulder"):
        model.assemble("SE3", repair=True, hold=["shoulders"])
    with pytest.raises(ValueError, match="`hold` says what `repair=True` must not change"):
        model.assemble("SE3", hold=["shoulder"])
    with pytest.raises(ValueError, match="the joint `elbow`, which has no coordinate of its own; name its body"):
        model.assemble("SE3", repair=True, hold=["elbow"])


def test_names_of_a_file_that_are_not_there_are_answered_with_near_ones():
    imported = copy.deepcopy(ph.load_model(FOUR_BAR))
    with pytest.raises(KeyError, match=r"no joint of the file 'rockr'\. Did you mean `rocker`"):
        imported.joints["rockr"]
    with pytest.raises(KeyError, match=r"no link or body of the file 'cranc'\. Did you mean `crank`"):
        imported.links["cranc"]
    assert imported.joints.get("rockr") is None
    assert "rockr" not in imported.joints
