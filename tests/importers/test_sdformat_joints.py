"""Joints of SDFormat: against URDF, models made in Python, and motions in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from against_mujoco import bodies_accelerations
from scipy.spatial.transform import Rotation
from sdf_files import accelerations, axis, joint, link, load, matrix, model, place, pose, sdf

import polhode as ph

G = 9.8
GROUND = "world"
STILL, WALL = '<model name="still"><static>1</static><link name="wall"/></model>', "still::wall"
"""A child that never moves."""


def body_accelerations(problem):
    values = bodies_accelerations(problem.system, *problem.state0)
    return dict(zip(problem.system.names, values, strict=False))


def rates(problem):
    return np.asarray(problem.outputs["joint_velocities"](0.0, problem.state0))


def test_a_robot_moves_as_from_urdf():
    inertial = (0.1, 0.2, -0.3, 0.3, -0.2, 0.5)
    heavy = {"mass": 2.0, "products": (0.01, -0.02, 0.03), "at": inertial}
    dynamics = "<dynamics><damping>0.3</damping></dynamics>"
    at = (0.3, -0.2, 0.5, 0.2, 0.7, -0.4)
    text = sdf('<world name="w"><gravity>0 0 -9.81</gravity><model name="r">', *(
        link("base"), joint("mount", "fixed", GROUND, "base"),
        link("a", pose(at, "base"), **heavy), joint("hinge", "revolute", "base", "a", axis((1, 2, 3), dynamics)),
        link("b", pose(at, "a"), **heavy), joint("slide", "prismatic", "a", "b", axis((0, 0, 1), dynamics)),
        link("c", pose(at, "b"), **heavy), joint("weld", "fixed", "b", "c"),
        link("d", pose(at, "c"), **heavy), joint("turn", "continuous", "c", "d", axis((0, 1, 1), dynamics)),
    ), "</model></world>")  # fmt: skip
    mass = (
        '<inertial><origin xyz="0.1 0.2 -0.3" rpy="0.3 -0.2 0.5"/><mass value="2"/>'
        '<inertia ixx="0.3" iyy="0.4" izz="0.5" ixy="0.01" ixz="-0.02" iyz="0.03"/></inertial>'
    )
    between = (
        '<joint name="{}" type="{}"><origin xyz="0.3 -0.2 0.5" rpy="0.2 0.7 -0.4"/><parent link="{}"/>'
        '<child link="{}"/><axis xyz="{}"/><dynamics damping="0.3"/></joint>'
    )
    urdf = '<robot name="r"><link name="base"/>' + "".join(f'<link name="{n}">{mass}</link>' for n in "abcd")
    urdf += between.format("hinge", "continuous", "base", "a", "1 2 3") + between.format(
        "slide", "prismatic", "a", "b", "0 0 1"
    )
    urdf += (
        between.format("weld", "fixed", "b", "c", "0 0 1")
        + between.format("turn", "continuous", "c", "d", "0 1 1")
        + "</robot>"
    )
    start = {"hinge": (0.4, 1.0), "slide": (-0.3, 0.5), "turn": (0.7, -2.0)}
    found = load(
        text, **{w: {f"r::{n}": s[i] for n, s in start.items()} for i, w in enumerate(("positions", "velocities"))}
    )
    known = load(urdf, **{w: {n: s[i] for n, s in start.items()} for i, w in enumerate(("positions", "velocities"))})
    assert not found.not_carried
    expected = accelerations(known.problem("minimal"))
    assert accelerations(found.problem("minimal")) == pytest.approx(expected, abs=1e-12 * np.max(np.abs(expected)))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "thread", ["<screw_thread_pitch>0.5</screw_thread_pitch>", f"<thread_pitch>{-4 * np.pi:.17g}</thread_pitch>"]
)
def test_a_nut_on_a_right_handed_screw_sinks_as_it_turns_back(thread):
    nut = link("nut", mass=2.0, moments=(0.1, 0.1, 0.05))
    loaded = load(
        model(nut, joint("thread", "screw", GROUND, "nut", axis((0, 0, 1)), thread)), velocities={"thread": 3.0}
    )
    problem = loaded.problem()
    # (I + m c²) q'' = -m g c, with the displacement c of a radian.
    c = 0.5 / (2 * np.pi)
    assert rates(problem) == pytest.approx([3.0, 3.0 * c])
    expected = -2.0 * G * c / (0.05 + 2.0 * c**2)
    values = body_accelerations(problem)["nut"]
    assert values[[2, 5]] == pytest.approx([expected, c * expected])


def test_a_left_handed_screw_of_old_files_goes_down():
    nut = joint("thread", "screw", GROUND, "nut", axis((0, 0, 1)), "<thread_pitch>4</thread_pitch>")
    assert load(model(link("nut"), nut), positions={"thread": 1.0}).links["nut"].x[2] == pytest.approx(-0.25)


@pytest.mark.parametrize("kind", ["universal", "revolute2"])
@pytest.mark.parametrize("ends", [(GROUND, "l"), ("l", WALL)])
def test_two_axes_turn_in_a_row_in_both_directions(kind, ends):
    first, second = np.array([0, 0.6, 0.8]), np.array([1.0, 0, 0]) if kind == "universal" else np.array([0.6, 0.8, 0])
    fork = joint("j", kind, *ends, axis(first), axis(second, tag="axis2"))
    loaded = load(model(STILL, link("l"), fork), positions={"j_axis": 0.4, "j_axis2": -0.7})
    turn = Rotation.from_rotvec(0.4 * first) * Rotation.from_rotvec(-0.7 * second)
    if ends[0] == "l":
        turn = turn.inv()
    assert place(loaded, "l")[:3, :3] == pytest.approx(turn.as_matrix(), abs=1e-14)


@pytest.mark.parametrize("kind", ["revolute", "prismatic"])
def test_joints_count_from_parent_to_child_whichever_is_fixed(kind):
    at = np.array([0.3, 0.1, -0.2, 0.5, -0.4, 0.2])
    parts = link("l", pose(at)), axis((0, 0, 1))
    loaded = load(model(STILL, parts[0], joint("j", kind, "l", WALL, pose(at, "l"), parts[1])), positions={"j": 0.3})
    # Where the joint is, seen from the link: the world has moved by +0.3.
    moved = np.array([0, 0, 0, 0, 0, 0.3]) if kind == "revolute" else np.array([0, 0, 0.3, 0, 0, 0])
    X = matrix(at)
    expected = X @ X @ np.linalg.inv(matrix(moved)) @ np.linalg.inv(X @ X) @ X
    assert place(loaded, "l") == pytest.approx(expected, abs=1e-14)


def test_springs_dampers_and_starts_of_older_files():
    inside = (
        "<initial_position>0.3</initial_position><dynamics><damping>0.4</damping><spring_stiffness>5</spring_stiffness>"
    )
    inside += (
        "<spring_reference>0.1</spring_reference></dynamics><limit><effort>7</effort><velocity>2</velocity></limit>"
    )
    wheel = model(link("l", mass=1), joint("j", "revolute", GROUND, "l", axis((0, 0, 1), inside)), version="1.6")
    loaded = load(wheel, velocities={"j": 1.5})
    assert loaded.joints["j"].start == 0.3
    assert loaded.joints["j"].force_limits == (-7, 7)
    assert loaded.joints["j"].velocity_limit == 2
    assert accelerations(loaded.problem("minimal")) == pytest.approx([(-5 * 0.2 - 0.4 * 1.5) / 0.5])
    assert load(wheel, positions={"j": -0.2}).joints["j"].start == -0.2


def test_limits_are_stops_and_equal_ones_a_lock():
    def wheel(lower, upper):
        limit = axis((0, 0, 1), f"<limit><lower>{lower}</lower><upper>{upper}</upper></limit>")
        return ph.load_model(model(link("l"), joint("j", "revolute", GROUND, "l", limit)))

    assert wheel(-1, 2).joints["j"].limits == (-1, 2)
    assert wheel(-1e16, 1e16).joints["j"].limits == (-np.inf, np.inf)
    text = wheel(-1, "inf").parameters["path"]
    with pytest.warns(ph.StartWarning, match="`j` at -1, range -1 … inf rad"):
        one_sided = ph.load_model(text, positions={"j": -1.0001})
    assert 0 < accelerations(one_sided.problem("minimal"))[0] < np.inf
    locked = wheel(0.2, 0.2).problem()
    assert np.asarray(locked.outputs["joint_positions"](0.0, locked.state0)) == pytest.approx([0.2])
    with pytest.warns(ph.importers.ModelFileWarning, match="Joint `j` has its lower limit 1 above the upper one 0"):
        wheel(1, 0)


def test_mimics_follow_about_a_reference():
    mimic = '<mimic joint="j"><multiplier>2</multiplier><offset>0.3</offset><reference>0.1</reference></mimic>'
    again = mimic.replace('"j"', '"k"')
    parts = (
        link("a"), joint("j", "revolute", GROUND, "a", axis((0, 0, 1))),
        link("b"), joint("k", "revolute", GROUND, "b", axis((0, 0, 1), mimic)),
        link("c"), joint("u", "universal", GROUND, "c", axis((1, 0, 0)), axis((0, 1, 0), again, tag="axis2")),
    )  # fmt: skip
    loaded = load(model(*parts), positions={"j": 0.6}, velocities={"j": 1.0})
    problem = loaded.problem()
    expected = [0.6, 2 * 0.5 + 0.3, 0.0, 2 * (1.3 - 0.1) + 0.3]
    assert np.asarray(problem.outputs["joint_positions"](0.0, problem.state0)) == pytest.approx(expected)
    assert rates(problem) == pytest.approx([1, 2, 0, 4])


def test_gearboxes_turn_against_each_other():
    spring = "<dynamics><spring_stiffness>3</spring_stiffness></dynamics>"
    parts = (
        link("a", mass=1, moments=(1, 1, 0.5)), joint("j", "revolute", GROUND, "a", axis((0, 0, 1), spring)),
        link("b", mass=1, moments=(1, 1, 0.2)), STILL, joint("k", "continuous", "b", WALL, axis((0, 0, 1))),
        joint("gears", "gearbox", "a", "b", axis((0, 0, 1)), axis((0, 0, -1), tag="axis2"),
              "<gearbox_ratio>4</gearbox_ratio><gearbox_reference_body>world</gearbox_reference_body>"),
    )  # fmt: skip
    loaded = load(model(*parts), positions={"j": 0.1}, velocities={"j": 1.0})
    assert not loaded.not_carried
    problem = loaded.problem()
    # About -z the second wheel turns by -4 times the angle, so by 4 about z; its joint counts from it to the world.
    assert rates(problem) == pytest.approx([1, -4])
    assert body_accelerations(problem)["a"][2] == pytest.approx(-3 * 0.1 / (0.5 + 16 * 0.2))


LOOP = "<physics><simbody><must_be_loop_joint>true</must_be_loop_joint></simbody></physics>"


def four_bars(extra=""):
    about = axis((0, 1, 0), "<dynamics><damping>0.1</damping></dynamics>")

    def pin(name, kind, parent, child, x, z):
        place = pose((x, 0, z, 0, 0, 0), "__model__")
        return joint(name, kind, parent, child, place, about, extra * (name == "j1"))

    return model(
        link("a", pose((0, 0, 0.5, 0, 0, 0)), mass=1), link("b", pose((0.5, 0, 1, 0, 0, 0)), mass=2),
        link("c", pose((1, 0, 0.5, 0, 0, 0)), mass=3, at=(0.1, 0, 0, 0, 0, 0)),
        pin("j1", "revolute", GROUND, "a", 0, 0), pin("j2", "revolute", "a", "b", 0, 1),
        pin("j3", "revolute", "b", "c", 1, 1), pin("j4", "revolute", GROUND, "c", 1, 0),
    )  # fmt: skip


def four_bars_in_python():
    built = ph.Model(gravity=(0, 0, -G))
    moving = {"inertia": (0.3, 0.4, 0.5), "angular_velocity": (0, 1, 0)}
    a = built.add_body(name="a", mass=1, position=(0, 0, 0.5), velocity=(0.5, 0, 0), **moving)
    b = built.add_body(name="b", mass=2, position=(0.5, 0, 1), velocity=(1, 0, 0), inertia=moving["inertia"])
    c = built.add_body(name="c", mass=3, position=(1.1, 0, 0.5), velocity=(0.5, 0, -0.1), **moving)
    for first, second, point in (
        (built.ground, a, (0, 0, 0)),
        (a, b, (0, 0, 1)),
        (b, c, (1, 0, 1)),
        (built.ground, c, (1, 0, 0)),
    ):
        pin = built.add(ph.joints.Revolute(first, second, point=point, axis=(0, 1, 0)))
        built.add(ph.forces.JointSpring(pin, stiffness=0.0, damping=0.1))
    return built.problem("SE3", t1=1.0, redundant="minimum-norm")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("extra", "bodies"),
    [
        ("", ["a", "b", "c", "c (j4)"]),
        pytest.param(LOOP, ["c", "b", "a", "a (j1)"], marks=pytest.mark.exhaustive),
    ],
)
def test_loops_are_closed_by_cutting_a_link(extra, bodies):
    loaded = load(four_bars(extra), velocities={"j1": 1.0})
    assert [body.name for body in loaded.model.bodies if body.kind == "rigid"] == bodies
    problem, expected = loaded.problem("minimal"), body_accelerations(four_bars_in_python())
    assert rates(problem) == pytest.approx(
        [{"j1": 1, "j2": -1, "j3": 1, "j4": 1}[name] for name in loaded.joints], abs=1e-12
    )
    found = body_accelerations(problem)
    for name in "abc":
        assert found[name] == pytest.approx(expected[name], abs=1e-9)


def chain_to_a_wall(kind):
    """Three links from the origin by (1, 0) and (1, 1) to (0, 1)."""
    parts = (
        link("a"), link("b", pose((1, 0, 0, 0, 0, 0))), link("c", pose((1, 1, 0, 0, 0, 0))),
        joint("first", "ball", GROUND, "a"), joint("second", "revolute", "a", "b", axis((0, 0, 1))),
        joint("third", "revolute", "b", "c", axis((0, 0, 1))),
        STILL, joint("last", kind, "c", WALL, pose((-1, 0, 0, 0, 0, 0), "c"), LOOP),
    )  # fmt: skip
    return model(*parts)


@pytest.mark.exhaustive
def test_balls_close_loops_without_a_cut():
    loaded = load(chain_to_a_wall("ball"), positions={"second": 0.2})
    assert [body.name for body in loaded.model.bodies if body.kind == "rigid"] == ["a", "b", "c"]
    problem = loaded.problem()
    end = problem.system.pose(problem.state0[0], "c")
    assert np.asarray(end.x - end.R[:, 0]) == pytest.approx([0, 1, 0], abs=1e-9)
    assert np.asarray(problem.outputs["joint_positions"](0.0, problem.state0))[0] == pytest.approx(0.2)


def test_fixed_joints_close_loops_without_a_cut():
    loaded = load(chain_to_a_wall("fixed"))
    assert [body.name for body in loaded.model.bodies if body.kind == "rigid"] == ["a", "b", "c"]
    assert body_accelerations(loaded.problem("SE3"))["c"] == pytest.approx(np.zeros(6), abs=1e-9)


def test_weight_is_the_worlds_and_links_may_be_without():
    two = link("a") + link("b", "<gravity>false</gravity>")
    old = "<physics><gravity>0 0 -2</gravity><max_step_size>0.005</max_step_size></physics>"
    for gravity, g in (("", [0, 0, -9.8]), ("<gravity>1 2 3</gravity>", [1, 2, 3]), (old, [0, 0, -2])):
        loaded = load(sdf(f'<world name="w">{gravity}<model name="m">{two}</model></world>'))
        found = body_accelerations(loaded.problem("SE3"))
        assert found["m::a"][3:] == pytest.approx(g)
        assert found["m::b"] == pytest.approx(np.zeros(6), abs=1e-14)
    assert loaded.timestep == 0.005


BOX = (
    '<collision name="box">{}<density>500</density><geometry><box><size>0.2 0.4 0.6</size></box></geometry></collision>'
)
ROD = (
    '<collision name="rod"><geometry><capsule><radius>0.1</radius><length>0.5</length></capsule></geometry></collision>'
)


def test_masses_of_shapes():
    loaded = load(model(link("a", BOX.format(pose((0, 0, 1, 0, 0, 0.3))), '<inertial auto="true"/>'),
                        link("b", ROD, '<inertial auto="true"><mass>3</mass></inertial>'), version="1.11"))  # fmt: skip
    a, b = loaded.links["a"], loaded.links["b"]
    assert (a.mass, *a.x) == pytest.approx((24.0, 0, 0, 1))
    moments = np.diag([0.4**2 + 0.6**2, 0.2**2 + 0.6**2, 0.2**2 + 0.4**2]) * 24 / 12
    turn = Rotation.from_euler("z", 0.3).as_matrix()
    assert np.asarray(a.inertia) == pytest.approx(turn @ moments @ turn.T)
    # Against points all over the capsule.
    points = np.random.default_rng(3).uniform(-1, 1, (400_000, 3)) * (0.1, 0.1, 0.35)
    inside = points[np.hypot(np.hypot(*points.T[:2]), np.maximum(np.abs(points[:, 2]) - 0.25, 0)) < 0.1]
    squares = np.mean(inside**2, axis=0)
    assert np.diag(b.inertia) == pytest.approx(3 * (np.sum(squares) - squares), rel=5e-3)


def test_worlds_have_joints_between_models():
    models = "".join(f'<model name="{name}">{link("l")}</model>' for name in "ab")
    pin = joint("j", "prismatic", "a::l", "b::l", axis((0, 0, 1)))
    loaded = load(sdf(f'<world name="w">{models}{pin}</world>', version="1.11"), positions={"j": 0.5})
    assert [*loaded.joints] == ["a::l", "j"]
    assert loaded.links["b::l"].x[2] == pytest.approx(0.5)


def test_old_joints_may_have_the_names_of_links():
    parts = (
        joint("a", "revolute", "a", "b", axis((0, 0, 1))),
        link("a"),
        link("b"),
        joint("b", "ball", "b", "c"),
        link("c"),
    )
    loaded = load(model(*parts, version="1.6"))
    assert [(name, each.kind) for name, each in loaded.joints.items()] == [
        ("a (free)", "free"),
        ("a", "hinge"),
        ("b", "ball"),
    ]


@pytest.mark.exhaustive
def test_long_chains_hang_together():
    count = 260
    links = [link("l0")] + [link(f"l{i}", pose((1, 0, 0, 0, 0, 0), f"l{i - 1}")) for i in range(1, count)]
    pins = [joint(f"j{i}", "revolute", f"l{i - 1}" if i else GROUND, f"l{i}", axis((0, 0, 1))) for i in range(count)]
    loaded = load(model(*links, *pins), positions={f"j{i}": 0.01 for i in range(count)})
    end = sum(np.exp(1j * 0.01 * i) for i in range(1, count))
    assert np.asarray(loaded.links[f"l{count - 1}"].x)[:2] == pytest.approx([end.real, end.imag], abs=1e-9)
