"""Stops of files are as stiff as MuJoCo's: for the inertia along a joint while all others are free."""

import mujoco
import numpy as np
import pytest

import polhode as ph
from polhode.file_warning import ModelFileWarning
from polhode.forces import JointStops

TREE = """<mujoco><compiler angle="radian" autolimits="true"/><default><joint range="-1 1"/>
<geom type="capsule" fromto="0 0 0 0 0 -0.4" size="0.03"/></default><worldbody><body><freejoint/><geom size="0.1"/>
<body pos="0.1 0 0"><joint name="a" axis="1 0 0" armature="0.01"/><joint name="b" axis="0 1 0"/>
  <joint name="c" axis="0 0 1"/><geom/>
  <body pos="0 0 -0.4" euler="0.4 0.2 0"><joint name="d" axis="0 1 0.3"/><geom/>
    <body pos="0 0 -0.4"><joint name="e" type="slide" axis="0 0.2 1" armature="0.2"/><geom/></body></body></body>
<body pos="-0.1 0 0"><joint name="ball" type="ball" range="0 3"/><geom/>
  <body pos="0 0 -0.4"><joint name="f" axis="0 1 0"/><geom mass="1e-3"/></body></body>
</body></worldbody></mujoco>"""


def test_stops_have_the_stiffness_of_the_inverse_mass_matrix_and_go_back_into_files():
    model = mujoco.MjModel.from_xml_string(TREE)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    M = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, M)
    names = "abcdef"
    numbers = [model.joint(name).dofadr[0] for name in names]
    inertias, masses = 1 / np.diag(np.linalg.inv(M))[numbers], np.diag(M)[numbers]
    assert np.min(inertias / masses) < 0.1

    imported = ph.load_model(TREE)
    stops = {str(part.name)[0]: part for _, part in imported.model.parts if isinstance(part, JointStops)}
    stiffness = 1 / (0.95 * 0.02) ** 2
    np.testing.assert_allclose([stops[name].stiffness for name in names], stiffness * inertias, rtol=1e-9)

    with pytest.warns(ModelFileWarning, match="for the inertia along the joint at the start"):
        text = imported.to_mjcf()
    again = mujoco.MjModel.from_xml_string(text)
    solref = np.array([again.joint(name).solref for name in names])
    np.testing.assert_allclose(-solref, np.tile([[0.02**-2, 2 / 0.02]], (6, 1)), rtol=1e-9)
