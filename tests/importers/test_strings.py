"""Spatial tendons through sites, over pulleys and around geoms beside MuJoCo."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from against_mujoco import at_random, largest_difference, load_at, smooth

import polhode as ph

ARM = """<mujoco><compiler angle="radian"/><option gravity="1 0.5 -9.81"/>
<default><geom contype="0" conaffinity="0"/></default><worldbody>
<site name="hook" pos="-0.6 0.1 0.5"/><site name="high" pos="0.5 0.2 0.8"/>
<geom name="post" type="sphere" size="0.15" pos="-0.1 0.1 0.3"/>
<body name="one"><joint name="first" axis="0 1 0" damping="0.1"/><geom type="box" size="0.05 0.1 0.3" pos="0 0 -0.3"/>
  <geom name="drum" type="cylinder" size="0.12 0.3" pos="0.05 0 -0.75" euler="1.4 0.2 0"/>
  <geom name="ball" type="sphere" size="0.1" pos="0 0.05 -0.3"/>
  <site name="back" pos="-0.3 0.02 -0.8"/><site name="front" pos="0.25 0.1 -0.3"/><site name="top" pos="0.02 0.1 -0.1"/>
  <body name="two" pos="0.05 0 -0.8"><joint name="second" axis="0 1 0.3"/>
  <geom type="box" size="0.05 0.1 0.2" pos="0 0.05 -0.3"/>
  <site name="foot" pos="0.1 0.1 -0.5"/><site name="knee" pos="-0.02 -0.05 -0.25"/></body></body>
<body name="three" pos="0.6 0 0.2"><joint name="slide" type="slide" axis="1 0 1"/><geom type="box" size="0.1 0.1 0.2"/>
  <site name="end" pos="0 0.1 -0.2"/></body></worldbody>
<tendon><spatial name="t" {}>{}</spatial></tendon>{}</mujoco>"""
SITES = '<site site="hook"/><site site="top"/><site site="foot"/>'
PATHS = {
    "sites": f'{SITES}<site site="end"/>',
    "pulley": f'{SITES}<pulley divisor="2"/><site site="high"/><site site="end"/><pulley divisor="3"/>'
    '<site site="knee"/><site site="end"/>',
    "cylinder": '<site site="top"/><geom geom="drum"/><site site="foot"/>',
    "side of a cylinder": '<site site="top"/><geom geom="drum" sidesite="back"/><site site="foot"/>',
    "sphere": '<site site="hook"/><geom geom="post"/><site site="foot"/><geom geom="ball"/><site site="end"/>',
    "side of a sphere": '<site site="hook"/><geom geom="ball" sidesite="front"/><site site="knee"/>',
}
FORCES = {
    "spring": ('stiffness="70" damping="3" springlength="0.4"', ""),
    "slack": ('stiffness="70" springlength="0.3 0.5"', ""),
    "actuator": (
        "",
        '<actuator><general name="pull" tendon="t" gear="3" gainprm="2" biastype="affine" biasprm="0.4 -5 -0.7" '
        'forcerange="-8 8"/></actuator>',
    ),
}


def compiled(text):
    return smooth(mujoco.MjModel.from_xml_string(text))


def string_of(imported):
    """The string along which the force of an imported tendon acts."""
    return next(part.joint for _, part in imported.model.parts if "t " in f"{part.name} " and part.name[0] in "tp")
