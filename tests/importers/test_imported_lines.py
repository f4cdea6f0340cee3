"""Tendons between two sites are springs and dampers between points, or rods; others are named."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from against_mujoco import at_random, largest_difference, load_at, smooth

import polhode as ph

HUNG = """<mujoco><compiler angle="radian"/><option gravity="0.5 0.2 -9.81"/>
<default><geom type="box" size="0.05 0.1 0.3" contype="0" conaffinity="0"/></default><worldbody>
<site name="hook" pos="0.5 0.2 1"/>
<body name="one"><joint name="first" axis="0 1 0"/><geom pos="0 0 -0.3"/><site name="end" pos="0.1 0 -0.6"/>
  <site name="top" pos="0 0 0.1"/>
  <body name="two" pos="0.2 0 -0.8"><joint name="second" axis="0 1 0.3"/><geom pos="0 0.1 -0.3"/>
  <site name="foot" pos="0 0.1 -0.5"/></body></body></worldbody>
<tendon><spatial name="line" {}><site site="hook"/><site site="foot"/></spatial>
<spatial name="inner" stiffness="3"><site site="top"/><site site="end"/></spatial></tendon>{}</mujoco>"""


@pytest.mark.exhaustive
def test_a_tendon_between_two_sites_pulls_as_in_mujoco():
    text = HUNG.format('stiffness="30" damping="2" springlength="0.7"', "")
    model = smooth(mujoco.MjModel.from_xml_string(text))
    data = at_random(model, 4)
    imported = load_at(text, model, data)
    assert not imported.not_carried
    assert largest_difference(imported.problem("minimal"), model, data) < 1e-10
    # The spring is missed where it is not there.
    without = load_at(HUNG.format("", ""), model, data)
    assert largest_difference(without.problem("minimal"), model, data) > 1e-2


def test_a_tendon_of_constant_length_is_a_rod():
    held = '<equality><tendon name="rod" tendon1="line" polycoef="0.1 0 0 0 0"/></equality>'
    problem = ph.load_model(HUNG.format("", held), velocities={"first": 1.0}).problem(t1=0.05)
    assert set(problem.system.labels) == {"rod"}
    system, (q, _) = problem.system, problem.state0
    foot = system.pose(q, "two")
    # The centre of mass is that of the box.
    end = foot.x + foot.R @ np.array((0, 0, -0.2))
    at_reference = np.linalg.norm((0.5 - 0.2, 0.2 - 0.1, 1 + 0.8 + 0.5))
    assert np.linalg.norm(end - np.array((0.5, 0.2, 1))) == pytest.approx(at_reference + 0.1, abs=1e-9)


def test_what_springs_are_not_is_named():
    text = HUNG.format('armature="0.3" stiffness="3"', "")
    (lost,) = (item for item in ph.load_model(text).not_carried if item.what == "tendons")
    assert lost.names == ("line",)
    assert "armature" in lost.reason
