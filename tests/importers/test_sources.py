"""Models from paths, from text, from specifications and from macros."""

from __future__ import annotations

import sys
import types
from typing import Any
from xml.dom import minidom

import numpy as np
import pytest
from against_mujoco import EXAMPLES

import polhode as ph
from polhode.importers._mujoco import mujoco

BOB = """<mujoco model="pendulum"><worldbody><body name="bob"><joint name="pivot" axis="0 1 0"/>
<geom type="capsule" fromto="0 0 0 0 0 -1" size="0.02"/></body></worldbody></mujoco>"""
STILL = """<robot name="brick"><link name="base"/><link name="brick"><inertial><mass value="2"/>
<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="glue" type="fixed"><parent link="base"/><child link="brick"/></joint></robot>"""
MACRO = """<robot name="brick" xmlns:xacro="http://www.ros.org/wiki/xacro"><xacro:property name="m" value="${1 + 1}"/>
<link name="brick"><inertial><mass value="${m}"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
</link></robot>"""


def same(one, other):
    assert list(one.joints) == list(other.joints)
    for a, b in zip(one.model.bodies, other.model.bodies, strict=True):
        assert a.name == b.name
        for field in ("mass", "inertia", "x", "R", "u", "omega"):
            np.testing.assert_array_equal(getattr(a, field), getattr(b, field))


def test_text_is_read_as_its_file_is(tmp_path):
    arm = EXAMPLES / "arm.urdf"
    loaded = ph.load_model(arm.read_text())
    same(loaded, ph.load_model(arm))
    assert loaded.source == "XML text"
    assert loaded.name == "arm"
    (tmp_path / "bob.xml").write_text(BOB)
    given: Any = {"positions": {"pivot": 0.3}, "velocities": {"pivot": -1.0}}
    same(ph.load_model(f"\n  {BOB}", **given), ph.load_model(tmp_path / "bob.xml", **given))


def test_specifications_are_read_and_stay_as_they_are():
    spec = mujoco.MjSpec.from_string(BOB)
    spec.body("bob").explicitinertial, spec.body("bob").mass, spec.body("bob").inertia = True, 3.0, [1, 1, 1]
    before = spec.to_xml() if spec.compile() else ""
    loaded = ph.load_model(spec, check_inertia=False)
    assert spec.to_xml() == before
    assert float(loaded.model.bodies[0].mass) == 3.0
    assert (loaded.name, loaded.source, loaded.parameters["path"]) == ("pendulum", "`mujoco.MjSpec`", None)
    assert loaded.problem().origin is None


def test_stored_runs_of_text_are_gone_on_with(tmp_path):
    problem = ph.load_model(BOB, positions={"pivot": 0.5}).problem(t1=0.01)
    ph.simulate(problem, store=tmp_path / "run.zarr")
    longer = ph.resume(tmp_path / "run.zarr", 0.02)
    assert longer.stats["t_reached"] == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<mujoco><worldbody>", "XML text is not well-formed"),
        ("<svg/>", "XML text has the root <svg>"),
        ("<mujoco><worldbody><box/></worldbody></mujoco>", "XML text can't be read: "),
        ("<mujoco><worldbody><body/></worldbody></mujoco>", "XML text: There are no moving bodies"),
        (BOB.replace("pivot", "p", 1), "XML text: There is no joint `pivot`"),
    ],
)
def test_messages_say_that_it_was_text(text, said):
    with pytest.raises(ValueError, match="XML text") as error:
        ph.load_model(text, positions={"pivot": 1.0})
    assert said in str(error.value)


def test_robots_that_stand_still_are_let_go():
    with pytest.raises(ValueError, match="floating=True, which lets its root link go"):
        ph.load_model(STILL)
    assert [body.name for body in ph.load_model(STILL, floating=True).model.bodies] == ["base"]
    loose = ph.load_model(STILL.replace('"base"', '"world"'), floating=True)
    assert [body.name for body in loose.model.bodies] == ["brick"]
    with pytest.raises(ValueError, match="no link to let go"):
        ph.load_model('<robot name="none"><link name="world"/></robot>')


def _module(expand):
    """Stands for the package where it isn't installed, with its interface."""
    module: Any = types.ModuleType("xacro")
    module.filestack = []

    def process_file(name, **options):
        module.filestack[:] = [name]
        return expand(minidom.parse(name))

    module.process_file, module.process_doc = process_file, expand
    return module


def _twice(document):
    robot = document.documentElement
    for node in list(robot.childNodes):
        if node.nodeName.startswith("xacro:"):
            robot.removeChild(node)
    robot.getElementsByTagName("mass")[0].setAttribute("value", "2")
    return document


def _refusing(document):
    raise NameError("name 'n' is not defined\nwhen evaluating")


def test_macro_files_are_expanded(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "xacro", _module(_twice))
    path = tmp_path / "brick.urdf.xacro"
    path.write_text(MACRO)
    loaded = ph.load_model(path, floating=True)
    assert float(loaded.model.bodies[0].mass) == 2.0
    assert loaded.parameters["path"] == str(path)
    same(loaded, ph.load_model(MACRO, floating=True))


def test_errors_in_macros_are_told(tmp_path, monkeypatch):
    module = _module(_refusing)
    monkeypatch.setitem(sys.modules, "xacro", module)
    (tmp_path / "a.xacro").write_text(MACRO)
    for given, called in ((tmp_path / "a.xacro", f"`{tmp_path}/a.xacro`"), (MACRO, "XML text")):
        with pytest.raises(ValueError, match="xacro can't expand it") as error:
            ph.load_model(given)
        assert str(error.value) == f"{called}: xacro can't expand it: name 'n' is not defined when evaluating"
    monkeypatch.setitem(sys.modules, "xacro", None)
    with pytest.raises(ValueError, match=r"pip install xacro"):
        ph.load_model(MACRO)


def test_the_package_for_macros_itself(tmp_path):
    pytest.importorskip("xacro")
    (tmp_path / "a.xacro").write_text(MACRO)
    for given in (tmp_path / "a.xacro", MACRO):
        assert float(ph.load_model(given, floating=True).model.bodies[0].mass) == 2.0
    (tmp_path / "a.xacro").write_text(MACRO.replace("1 + 1", "1 + n"))
    with pytest.raises(ValueError, match=r"xacro can't expand it.*'n' is not defined"):
        ph.load_model(tmp_path / "a.xacro")


@pytest.mark.exhaustive
def test_runs_of_files_that_save_loads_resume_with_them(tmp_path):
    problem = ph.load_model(EXAMPLES / "arm.urdf").problem(t1=0.02, h=1e-3, save_loads=True)
    ph.simulate(problem, t1=0.01, store=tmp_path / "run.zarr")
    longer, whole = ph.resume(tmp_path / "run.zarr", 0.02), ph.simulate(problem)
    for name, loads in whole.outputs["joint_loads"].items():
        np.testing.assert_allclose(longer.outputs["joint_loads"][name], loads, atol=1e-9)
