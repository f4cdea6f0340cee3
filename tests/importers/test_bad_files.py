from __future__ import annotations

import sys

import pytest

import polhode as ph

LINK = '<link name="a"/><link name="b">{}</link>'
JOINT = '<joint name="j" type="revolute"><parent link="a"/><child link="b"/><limit effort="1" velocity="1"/></joint>'
MASS = '<inertial><mass value="1"/><inertia ixx="{}" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
FULL = LINK.format(MASS.format(1))
BACK = JOINT.replace('"a"', '"c"').replace('"b"', '"a"').replace('"c"', '"b"').replace('"j"', '"k"')
AGAIN = JOINT.replace('"j"', '"k"')
SCREW, LOST = JOINT.replace("revolute", "screw"), JOINT.replace('child link="b"', 'child link="c"')


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("none.urdf", None, "There is no file"),
        ("bad.urdf", "<robot name='r'><link>", "not well-formed"),
        ("other.xml", "<svg/>", "root <svg>"),
        ("arm.step", "", "known endings: .urdf, .xml, .mjcf"),
        ("arm.xacro", "", "xacro arm.xacro > arm.urdf"),
        ("light.urdf", f"<robot name='r'>{LINK.format('')}{JOINT}</robot>", "`b` moves but has no mass"),
        ("twice.urdf", f"<robot name='r'>{FULL}{JOINT}{JOINT}</robot>", "Two <joint>s have the name `j`"),
        ("loop.urdf", f"<robot name='r'>{FULL}{JOINT}{AGAIN}</robot>", "child of two joints"),
        ("apart.urdf", f"<robot name='r'>{FULL}</robot>", "more than one root link: a, b"),
        ("round.urdf", f"<robot name='r'>{FULL}{JOINT}{BACK}</robot>", "around in a circle"),
        ("kind.urdf", f"<robot name='r'>{FULL}{SCREW}</robot>", "has the type 'screw'"),
        ("end.urdf", f"<robot name='r'>{FULL}{LOST}</robot>", "is the link 'c'"),
        ("word.urdf", f"<robot name='r'>{LINK.format(MASS.format('x'))}{JOINT}</robot>", "takes 1 finite number(s)"),
        (
            "stopped.xml",
            '<mujoco><option timestep="0"/><worldbody><body><joint/><geom size="1"/></body></worldbody></mujoco>',
            "stopped.xml`: `timestep` of <option> must be greater than zero",
        ),
        ("still.xml", "<mujoco><worldbody><body/></worldbody></mujoco>", "no moving bodies"),
    ],
)
def test_files_that_cannot_be_read_are_explained(tmp_path, name, text, said):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=r".*") as error:
        ph.load_model(tmp_path / name)
    assert said in str(error.value)


def test_unknown_joints_are_answered_with_the_nearest(tmp_path):
    (tmp_path / "r.urdf").write_text(f"<robot name='r'>{LINK.format(MASS.format(1))}{JOINT}</robot>")
    with pytest.raises(ValueError, match="no joint `k`"):
        ph.load_model(tmp_path / "r.urdf", positions={"k": 1.0})
    with pytest.raises(ValueError, match=r"takes 1 finite number\(s\)"):
        ph.load_model(tmp_path / "r.urdf", positions={"j": [1.0, 2.0]})


def test_mimics_that_lead_nowhere_are_listed(tmp_path):
    joint = JOINT.replace("<limit", '<mimic joint="k"/><limit')
    (tmp_path / "r.urdf").write_text(f"<robot name='r'>{FULL}{joint}</robot>")
    (found,) = (item for item in ph.load_model(tmp_path / "r.urdf").not_carried if item.what == "mimic")
    assert found.names == ("j after k",)


@pytest.mark.parametrize(
    ("path", "given", "said"),
    [
        (None, {}, "`path` must be"),
        ("r.urdf", {"positions": [1]}, "`positions`"),
        ("r.urdf", {"velocities": 3}, "`vel"),
    ],
)
def test_arguments_of_other_kinds_are_named(path, given, said):
    with pytest.raises(ValueError, match=said):
        ph.load_model(path, **given)


def test_without_mujoco_the_command_that_helps_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("polhode.importers.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(ImportError, match=r"pip install 'polhode\[import\]'"):
        ph.load_model("arm.urdf")
