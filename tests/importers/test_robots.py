"""URDF as it is found: links without mass, roots of all kinds, floating joints anywhere, inertias that can't be."""

from __future__ import annotations

import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from against_mujoco import at_random, largest_difference, load_at, read

import polhode as ph

HEAVY = (
    '<link name="{}"><inertial><origin xyz="0.1 0.2 -0.3" rpy="0.3 -0.2 0.5"/><mass value="2"/>'
    '<inertia ixx="0.3" iyy="0.4" izz="0.5" ixy="0.01" ixz="-0.02" iyz="0.03"/></inertial></link>'
)
LIGHT = '<link name="{}"/>'
JOINT = (
    '<joint name="{}" type="{}"><origin xyz="0.3 -0.2 0.5" rpy="0.2 0.7 -0.4"/><parent link="{}"/><child link="{}"/>'
    '<axis xyz="{}"/><limit effort="1" velocity="1"/><dynamics damping="{}"/></joint>'
)


def robot(path, *parts):
    path.write_text(f'<robot name="r">{"".join(parts)}</robot>')
    return path


def mjcf(path, bodies):
    path.write_text(f'<mujoco><compiler angle="radian" autolimits="true"/><worldbody>{bodies}</worldbody></mujoco>')
    return path


def accelerations(problem):
    """Joint accelerations at the start."""
    system, (q, v) = problem.system, problem.state0
    return np.asarray(system.accelerations(0.0, q, v)[0])


def chain(path, massless):
    """base - a - b - c; `massless` links have neither mass nor inertia."""
    links = [(LIGHT if name in massless else HEAVY).format(name) for name in ("base", "a", "b", "c")]
    joints = [
        JOINT.format("first", "revolute", "base", "a", "0 0 1", 0.2),
        JOINT.format("second", "prismatic", "a", "b", "1 0 0", 0.3),
        JOINT.format("third", "continuous", "b", "c", "0 1 1", 0.1),
    ]
    return robot(path, *links, *joints)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", [1, 2])
def test_everything_is_where_mujoco_puts_it(tmp_path, seed):
    path = robot(
        tmp_path / "r.urdf",
        *(HEAVY.format(name) for name in ("base", "a", "b", "c", "d")),
        JOINT.format("hinge", "revolute", "base", "a", "1 2 3", 0.2),
        JOINT.format("slide", "prismatic", "a", "b", "0 0 1", 0.3),
        JOINT.format("weld", "fixed", "b", "c", "0 0 1", 0.0),
        JOINT.format("plane", "planar", "c", "d", "3 2 1", 0.0),
    )
    model = read(path)
    data = at_random(model, seed)
    machine = load_at(path, model, data)
    assert [item.what for item in machine.not_carried] == []
    assert largest_difference(machine.problem("minimal"), model, data) < 1e-12


def test_links_without_mass_move_with_what_they_carry(tmp_path):
    path = chain(tmp_path / "r.urdf", {"base", "b"})
    start = {"positions": {"first": 0.3, "second": -0.2, "third": 0.7}, "velocities": {"first": 1.0, "third": -2.0}}
    found = accelerations(ph.load_model(path, **start).problem("minimal"))
    assert len(found) == 3
    # A mass that vanishes: accelerations tend to those without it, in proportion.
    text = path.read_text()
    gaps = []
    for mass in (1e-4, 1e-5):
        light = HEAVY.format("b").replace("0.1 0.2 -0.3", "0 0 0").replace('mass value="2"', f'mass value="{mass}"')
        for number in ("0.3", "0.4", "0.5", "0.01", "-0.02", "0.03"):
            light = light.replace(f'"{number}"', f'"{float(number) * mass}"')
        path.write_text(text.replace(LIGHT.format("b"), light))
        gaps.append(np.abs(accelerations(ph.load_model(path, **start).problem("minimal")) - found).max())
    assert 0 < gaps[1] < gaps[0] / 9 < 1e-3


def test_links_without_mass_need_joint_coordinates(tmp_path):
    machine = ph.load_model(chain(tmp_path / "r.urdf", {"base", "b"}))
    with pytest.raises(ValueError, match=r"Body\('b'\) has no mass.*formulation='minimal'"):
        machine.problem("SE3")
    assert machine.problem().parameters["formulation"] == "minimal"


def test_motions_without_inertia_are_named(tmp_path):
    rod = HEAVY.replace("rpy", "was").replace("0.1 0.2 -0.3", "0 0 0").replace('"0.3"', '"0"')
    rod = rod.replace('"0.01"', '"0"').replace('"-0.02"', '"0"').replace('"0.03"', '"0"').replace('"0.5"', '"0.4"')
    path = robot(
        tmp_path / "r.urdf",
        LIGHT.format("base"),
        rod.format("a"),
        '<joint name="spin" type="continuous"><parent link="base"/><child link="a"/><axis xyz="1 0 0"/></joint>',
    )
    with pytest.raises(ValueError, match="moves with `spin` of `a` has no mass or inertia"):
        ph.load_model(path).problem("minimal")
    path.write_text(path.read_text().replace("1 0 0", "0 1 0"))
    assert accelerations(ph.load_model(path).problem("minimal")) == pytest.approx(0.0, abs=1e-12)


def test_stops_along_which_nothing_has_inertia_are_listed(tmp_path):
    point = '<link name="a"><inertial><mass value="1"/></inertial></link>'
    ends = '<parent link="base"/><child link="a"/>'
    spin = f'<joint name="spin" type="revolute">{ends}<limit lower="-1" upper="1"/></joint>'
    machine = ph.load_model(robot(tmp_path / "r.urdf", LIGHT.format("base"), point, spin))
    assert {item.what: item.names for item in machine.not_carried} == {"limits of joints": ("spin",)}
    with pytest.raises(ValueError, match="moves with `spin` of `a` has no mass or inertia"):
        machine.problem("minimal")


@pytest.mark.exhaustive
def test_spherical_joints_are_balls(tmp_path):
    path = robot(
        tmp_path / "r.urdf",
        LIGHT.format("base"),
        HEAVY.format("a"),
        HEAVY.format("b"),
        JOINT.format("hinge", "continuous", "base", "a", "0 0.6 0.8", 0.1),
        JOINT.format("neck", "spherical", "a", "b", "0 0 1", 0.3),
    )
    # MuJoCo reads spherical joints as balls too.
    model = mujoco.MjModel.from_xml_path(str(path))
    model.dof_damping[:] = 0.1, 0.3, 0.3, 0.3
    data = at_random(model, 3)
    machine = load_at(path, model, data)
    assert [machine.joints[name].kind for name in machine.joints] == ["hinge", "ball"]
    for formulation in ("minimal", "S3xR3"):
        assert largest_difference(machine.problem(formulation), model, data) < 1e-10


@pytest.mark.sampled(2)
@pytest.mark.parametrize("base", [LIGHT, HEAVY])
@pytest.mark.parametrize("name", ["world", "base"])
def test_any_root_floats(tmp_path, base, name):
    path = robot(
        tmp_path / "r.urdf",
        base.format(name),
        HEAVY.format("a"),
        HEAVY.format("b"),
        JOINT.format("mount", "fixed", name, "a", "0 0 1", 0),
        JOINT.format("hinge", "revolute", "a", "b", "0 0 1", 0),
    )
    assert len(accelerations(ph.load_model(path).problem("minimal"))) == 1
    free = ph.load_model(path, floating=True).problem("minimal")
    assert len(accelerations(free)) == 7
    # In free fall nothing turns.
    np.testing.assert_allclose(np.sort(np.abs(accelerations(free)))[:4], 0, atol=1e-12)


def test_floating_joints_may_be_anywhere(tmp_path):
    parts = (
        *(HEAVY.format(name) for name in ("base", "a", "b", "c")),
        JOINT.format("mount", "fixed", "base", "a", "0 0 1", 0),
        JOINT.format("free", "floating", "a", "b", "0 0 1", 0),
        JOINT.format("loose", "floating", "b", "c", "0 0 1", 0),
    )
    machine = ph.load_model(robot(tmp_path / "r.urdf", *parts))
    assert list(machine.joints) == ["free", "loose_TX", "loose_TY", "loose_TZ", "loose_R"]
    problem = machine.problem()
    run = ph.simulate(problem, t1=0.1, h=1e-2)
    fallen = np.asarray(run.outputs["positions"][-1] - run.outputs["positions"][0])
    np.testing.assert_allclose(fallen, [[0, 0, -9.81 * 0.01 / 2]] * 2, atol=1e-12)


def test_nothing_to_let_go_is_said(tmp_path):
    path = robot(
        tmp_path / "r.urdf",
        LIGHT.format("world"),
        HEAVY.format("a"),
        JOINT.format("hinge", "revolute", "world", "a", "0 0 1", 0),
    )
    with pytest.raises(ValueError, match="`floating` has no link to let go"):
        ph.load_model(path, floating=True)


def test_inertias_are_judged_with_all_that_is_fixed_to_them(tmp_path):
    flat = HEAVY.replace('"0.5"', '"5"')
    hinge, weld = (
        JOINT.format("j", "revolute", "base", "a", "0 0 1", 0),
        JOINT.format("w", "fixed", "a", "b", "1 0 0", 0),
    )
    path = robot(tmp_path / "r.urdf", LIGHT.format("base"), flat.format("a"), LIGHT.format("b"), hinge, weld)
    with pytest.raises(ValueError, match=r"`a` with b, which are fixed to it, has .*check_inertia"):
        ph.load_model(path, check_inertia=True)
    with pytest.warns(UserWarning, match=r"`a` with b, which are fixed to it, has .*taken as they are"):
        found = accelerations(ph.load_model(path).problem("minimal"))
    assert np.isfinite(found).all()
    sphere = HEAVY.format("b").replace('"0.3"', '"9"').replace('"0.4"', '"9"').replace('"0.5"', '"9"')
    path.write_text(path.read_text().replace(LIGHT.format("b"), sphere))
    ph.load_model(path, check_inertia=True)


@pytest.mark.parametrize(
    ("inertia", "about_y"),
    [
        ('fullinertia="1 1.5 5 0.1 0.2 0.3"', 1.5),
        # Turned by 0.3 about x: cos² of the moment about y and sin² of that about z.
        ('diaginertia="1 1.5 5" euler="0.3 0 0"', 1.5 * np.cos(0.3) ** 2 + 5 * np.sin(0.3) ** 2),
    ],
)
def test_mjcf_inertias_need_not_be_ones_that_mujoco_accepts(tmp_path, inertia, about_y):
    body = f'<body name="a"><joint name="j" axis="0 1 0"/><inertial pos="0.1 0 0" mass="2" {inertia}/></body>'
    path = mjcf(tmp_path / "r.xml", body)
    with pytest.raises(ValueError, match="check_inertia=False"):
        ph.load_model(path, check_inertia=True)
    with pytest.warns(UserWarning, match="taken as they are"):
        found = accelerations(ph.load_model(path).problem("minimal"))
    np.testing.assert_allclose(found, 0.2 * 9.81 / (about_y + 0.02), rtol=1e-12)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "joints",
    [
        # Axes that don't meet, that are parallel, that are not perpendicular; a slide between hinges and around one.
        '<joint name="a" axis="1 0 0" pos="0 0 .3"/><joint name="b" axis="0 1 0" stiffness="3"/>',
        '<joint name="a" axis="1 0 0" pos="0 0 .3"/><joint name="b" axis="1 0 0" armature="0.1"/>',
        '<joint name="a" axis="1 0 0"/><joint name="b" axis="1 1 0" damping="0.2"/>',
        '<joint name="a" axis="1 0 0"/><joint name="s" type="slide" axis="0 1 0"/><joint name="b" axis="0 0 1"/>',
        '<joint name="s" type="slide" axis="0 1 0"/><joint name="a"/><joint name="t" type="slide" axis="0 1 1"/>',
        '<joint name="a" axis="1 0 0"/><joint name="b" axis="0 1 0"/><joint name="c" axis="0 0 1" pos="0 .1 0"/>',
    ],
)
def test_joints_of_one_body_may_be_any(tmp_path, joints):
    path = mjcf(
        tmp_path / "r.xml",
        '<body name="arm" euler="0.1 0.2 0.3"><joint name="first" axis="0 1 1"/><geom size="0.2" pos="0.3 0 0"/>'
        f'<body name="hand" pos="1 0 0">{joints}<geom type="box" size="0.1 0.2 0.3" pos="0.1 0.2 0"/></body></body>',
    )
    model = read(path)
    data = at_random(model, 4)
    machine = load_at(path, model, data)
    assert set(machine.joints) == {mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_JOINT, j) for j in range(model.njnt)}
    assert all(joint.measured for joint in machine.joints.values())
    problem = machine.problem("minimal")
    assert problem.system.m == 0
    assert largest_difference(problem, model, data) < 1e-11


SERVO = """<mujoco><compiler angle="radian"/><worldbody>
<body name="upper"><joint name="shoulder" axis="0 1 0" armature="0.2" damping="0.3"/><geom size="0.1" pos="0.3 0 0"/>
<body name="lower" pos=".6 0 0"><joint name="reach" type="slide" axis="1 0.5 0"/><geom size="0.1" pos=".2 0 .1"/></body>
</body>
</worldbody>{}</mujoco>"""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("formulation", ["minimal", "SO3xR3"])
def test_controllers_take_the_joints_of_a_file_and_its_zero(tmp_path, formulation):
    path, servo = tmp_path / "r.xml", tmp_path / "servo.xml"
    servo.write_text(
        SERVO.format(
            '<actuator><position joint="shoulder" kp="40" kv="3"/><position joint="reach" kp="90" kv="2"/></actuator>'
        )
    )
    path.write_text(SERVO.format(""))
    model = read(servo)
    data = at_random(model, 3)
    data.ctrl[:] = 0.7, -0.1
    mujoco.mj_forward(model, data)
    machine = load_at(path, read(path), data)
    for name, kp, kv, target in (("shoulder", 40, 3, 0.7), ("reach", 90, 2, -0.1)):
        joint = machine.joints[name]
        machine.model.add(ph.forces.PD(joint, kp, kv, target=target))
    problem = machine.problem(formulation)
    assert largest_difference(problem, model, data) < 1e-10
    system, state = problem.system, problem.state0
    angle = machine.joints["shoulder"].angle(system, 0.0, state)
    assert float(angle) == pytest.approx(data.qpos[0], abs=1e-12)
    assert float(machine.joints["reach"].rate(system, 0.0, state)) == pytest.approx(data.qvel[1], abs=1e-12)


def test_angles_count_turns_from_the_zero_of_the_file(tmp_path):
    path = mjcf(tmp_path / "r.xml", '<body name="top"><joint name="axle" axis="0 0 1"/><geom size="0.1"/></body>')
    machine = ph.load_model(path, positions={"axle": 7.0}, velocities={"axle": 20.0})
    run = ph.simulate(machine.problem(t1=1.0), h=0.1)
    turned = 7.0 + 20.0 * np.asarray(run.t)
    np.testing.assert_allclose(run.outputs["joint_positions"][:, 0], turned, rtol=1e-13)
    axle = machine.joints["axle"]
    np.testing.assert_allclose(axle.angle(machine.problem(t1=1.0).system, run.t, run.state), turned, rtol=1e-13)


LIMITED = """<mujoco><compiler angle="radian" autolimits="true"/><worldbody>
<body name="upper"><joint name="shoulder" axis="0 1 0" actuatorfrcrange="-3 2"/><geom size="0.1" pos="0.3 0 0"/>
<body name="lower" pos="0.6 0 0"><joint name="reach" type="slide" axis="1 0.5 0"/><geom size="0.1"/></body></body>
<body name="loose" pos="0 3 0"><joint type="free" name="float" damping="0.7"/>
<geom type="box" size="0.1 0.2 0.3" pos="0.2 0 0"/></body></worldbody><actuator>
<general name="turn" joint="shoulder" gainprm="5" biastype="affine" biasprm="0.3 -2 -0.4" gear="-1.5" ctrlrange="-1 1"/>
<general name="pull" joint="reach" gainprm="7" forcerange="-4 6" gear="2"/></actuator></mujoco>"""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("formulation", ["minimal", "SO3xR3"])
@pytest.mark.parametrize("controls", [(0.2, 0.4), (5.0, -3.0), (-5.0, 3.0)])
def test_actuators_with_limits_and_dampers_of_free_bodies(tmp_path, formulation, controls):
    path = tmp_path / "r.xml"
    path.write_text(LIMITED)
    model = read(path)
    data = at_random(model, 5)
    data.ctrl[:] = controls
    mujoco.mj_forward(model, data)
    given = {"turn": controls[0], "pull": lambda t: controls[1] * jnp.cos(t)}
    machine = load_at(path, model, data, controls=given)
    assert [item.what for item in machine.not_carried] == ["contacts"]
    assert largest_difference(machine.problem(formulation), model, data) < 1e-10
    with pytest.raises(ValueError, match=r"no actuator `turnn`\. Did you mean `turn`"):
        ph.load_model(path, controls={"turnn": 1.0})


def test_ranges_of_joints_end_in_stops_and_dry_friction_holds(tmp_path):
    body = (
        '<body name="a"><joint name="rail" type="slide" axis="1 0 0" range="-0.1 0.2" solreflimit="-4e4 0" '
        'solimplimit="1 1 0.1" frictionloss="{}"/><geom size="0.1" mass="2"/></body>'
    )
    path = mjcf(tmp_path / "r.xml", body.format(0))
    start = {"positions": {"rail": 0.2}, "velocities": {"rail": 3.0}}
    machine = ph.load_model(path, **start)
    assert [item.what for item in machine.not_carried] == []
    run = ph.simulate(machine.problem(t1=np.pi / 200), h=np.pi / 2e5)
    # A quarter of a period with the stiffness per mass 4e4.
    np.testing.assert_allclose(run.outputs["joint_positions"][-1], 0.2 + 3.0 / 200 * np.sin(np.pi), atol=1e-6)
    assert np.max(run.outputs["joint_positions"]) == pytest.approx(0.2 + 3.0 / 200, rel=1e-6)
    free = ph.load_model(path, limits=False, **start)
    assert ph.simulate(free.problem(t1=0.1)).outputs["joint_positions"][-1, 0] == pytest.approx(0.5, abs=1e-12)
    path = mjcf(tmp_path / "rough.xml", body.format(4.0))
    run = ph.simulate(ph.load_model(path, velocities={"rail": 0.2}).problem(t1=0.2))
    # It stops after v²/2 of its deceleration 2, but for what it creeps at the stick velocity.
    assert run.outputs["joint_positions"][-1, 0] == pytest.approx(0.01, abs=2e-4)
    assert abs(run.outputs["joint_velocities"][-1, 0]) < 1e-3


def test_limits_the_wrong_way_round_are_left_out_with_a_warning(tmp_path):
    hinge = JOINT.format("j", "revolute", "base", "a", "0 0 1", 0).replace("<limit", '<limit lower="1" upper="-1"')
    path = robot(tmp_path / "r.urdf", LIGHT.format("base"), HEAVY.format("a"), hinge)
    with pytest.warns(UserWarning, match="lower limit 1 above the upper one -1"):
        ph.load_model(path)
