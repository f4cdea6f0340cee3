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
NUMBERS = (
    '<mujoco><worldbody><body name="b" pos="{}"><joint name="j"/><inertial pos="0 0 0" mass="{}" '
    'diaginertia="1 1 1"/></body></worldbody></mujoco>'
)
ITSELF = '<mimic joint="j"/><limit'
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
        ("self.urdf", f"<robot name='r'>{FULL}{JOINT.replace('<limit', ITSELF)}</robot>", "mimics"),
        ("nan.xml", NUMBERS.format("nan 0 0", 1), "`pos` of body `b` must be finite, got"),
        ("inf.xml", NUMBERS.format("0 0 0", "inf"), "`mass` of body `b` must be finite, got"),
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


@pytest.mark.parametrize(
    ("within", "said"),
    [
        ('<dynamics damping="-1" friction="0.2"/>', "damping of joint `j` is -1"),
        ('<dynamics damping="1" friction="-0.2"/>', "friction of joint `j` is -0.2"),
        ('<limit lower="0.2" upper="0.2" effort="1" velocity="1"/>', "lower limit 0.2 equal to the upper one 0.2"),
    ],
)
def test_what_is_read_without_is_warned_of(within, said):
    joint = JOINT.replace('<limit effort="1" velocity="1"/>', within)
    with pytest.warns(ph.importers.ModelFileWarning, match=said) as caught:
        ph.load_model(f"<robot name='r'>{FULL}{joint}</robot>")
    assert len(caught) == 1


def test_what_no_coordinates_can_have_is_not_sent_to_other_coordinates():
    point = LINK.format('<inertial><mass value="1"/></inertial>')
    with pytest.raises(ValueError, match="What moves with `j` of `b` has no mass or inertia there"):
        ph.load_model(f"<robot name='r'>{point}{JOINT}</robot>").problem()
