"""Joint equalities, welds and connections are exact: against fewest coordinates, or by what they hold together."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from against_mujoco import at_random, load_at, read
from compiling import evaluated

import polhode as ph
from polhode.spaces import quaternions

GEARED = """<mujoco><compiler angle="radian"/><option gravity="1 0 -9.81"/>
<default><geom type="box" size="0.05 0.1 0.3" contype="0" conaffinity="0"/></default><worldbody>
<body name="one"><joint name="first" axis="0 1 0" damping="0.1"/><geom pos="0 0 -0.4"/>
  <body name="two" pos="0 0 -0.8"><joint name="second" axis="0 1 0.3" ref="0.2"/><geom pos="0 0.05 -0.3"/></body></body>
<body name="three" pos="1 0 0"><joint name="slide" type="slide" axis="1 0 1"/><geom pos="0 0.2 0"/></body>
</worldbody><equality><joint {}/></equality></mujoco>"""

GEAR = 'joint1="second" joint2="first" polycoef="0.1 1.5 0 0 0"'
RACK = 'joint1="slide" joint2="second" polycoef="0 0.25 0 0 0"'

BODY = """<inertial><origin xyz="0 0 -0.4"/><mass value="2"/>
<inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>"""
MIMIC = f"""<robot name="mimic"><link name="base"/><link name="one">{BODY}</link><link name="two">{BODY}</link>
<joint name="first" type="continuous"><parent link="base"/><child link="one"/><axis xyz="0 1 0"/></joint>
<joint name="second" type="continuous"><parent link="one"/><child link="two"/><origin xyz="0 0 -0.8"/>
<axis xyz="0 1 0"/><mimic joint="first" multiplier="-2" offset="0.3"/></joint></robot>"""

WELDED = """<mujoco><compiler angle="radian"/>
<default><geom type="box" size="0.05 0.1 0.3" contype="0" conaffinity="0"/></default><worldbody>
<body name="one"><joint name="pivot" axis="0 1 0"/><geom pos="0 0 -0.3"/>{}</body>{}</worldbody>{}</mujoco>"""
SECOND = '<body name="two" pos="0.3 0.1 -0.2" euler="0.3 0.2 -0.1">{}<geom/></body>'

TIED = """<mujoco><default><geom type="box" size="0.05 0.1 0.3" contype="0" conaffinity="0"/></default><worldbody>
<body name="one"><joint name="pivot" axis="0 1 0"/><geom pos="0 0 -0.3"/><site name="end" pos="0.1 0 -0.6"/></body>
<body name="two" pos="0.1 0 -1"><freejoint/><geom/><site name="top" pos="0 0 0.4"/></body></worldbody>
<equality><connect name="tie" site1="end" site2="top"/></equality></mujoco>"""


def acceleration(system, q, v):
    return system.accelerations(jnp.zeros(()), q, v)[0]


def exact_accelerations(model, data, slope):
    """Joint accelerations by MuJoCo's masses and forces if the first equality held exactly."""
    mass = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, mass)
    row = np.zeros((1, model.nv))
    row[0, model.eq_obj1id[0]], row[0, model.eq_obj2id[0]] = 1.0, -slope
    matrix = np.block([[mass, row.T], [row, np.zeros((1, 1))]])
    return np.linalg.solve(matrix, np.append(data.qfrc_smooth, 0.0))[: model.nv]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("text", "name", "follows", "slope"),
    [
        pytest.param(GEARED.format(GEAR), "gear.xml", (1, 0), 1.5, marks=pytest.mark.exhaustive),
        pytest.param(GEARED.format(RACK), "rack.xml", (2, 1), 0.25, marks=pytest.mark.exhaustive),
        (MIMIC, "mimic.urdf", (1, 0), -2.0),
    ],
)
def test_coupled_joints_move_as_one(tmp_path, text, name, follows, slope):
    path = tmp_path / name
    path.write_text(text)
    model = read(path)
    assert (model.eq_obj1id[0], model.eq_obj2id[0]) == follows
    data = at_random(model, 1)
    y, x = follows
    # On the coupling, with its velocity; MuJoCo counts both from the reference positions.
    data.qpos[y] = model.qpos0[y] + np.polyval(model.eq_data[0, 4::-1], data.qpos[x] - model.qpos0[x])
    data.qvel[y] = slope * data.qvel[x]
    mujoco.mj_forward(model, data)
    problem = load_at(path, model, data).problem(t1=0.2)
    system, (q, v) = problem.system, problem.state0
    assert (system.n, system.m) == (model.nv - 1, 0)
    a = acceleration(system, q, v)
    # Rates of single hinges and slides are the velocities of the tree, up to their order and signs.
    found = problem.outputs["joint_velocities"](0.0, (q, a))
    wanted = exact_accelerations(model, data, slope)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10 * np.max(np.abs(wanted)))
    np.testing.assert_allclose(problem.outputs["joint_positions"](0.0, (q, v)), data.qpos, atol=1e-12)


@pytest.mark.exhaustive
def test_coupled_angles_far_apart_meet_and_not_half_a_turn_apart(tmp_path):
    path = tmp_path / "far.xml"
    path.write_text(GEARED.format('joint1="second" joint2="first"'))
    # Both are measured from where the file has them, the second from 0.2.
    problem = ph.load_model(path, positions={"second": 3.1}).problem(t1=1.0)
    first, second, _ = problem.outputs["joint_positions"](0.0, problem.state0)
    assert float(second - 0.2) == pytest.approx(float(first), abs=1e-8)


@pytest.mark.exhaustive
def test_welded_bodies_are_one(tmp_path):
    nested = tmp_path / "nested.xml"
    nested.write_text(WELDED.format(SECOND.format(""), "", ""))
    welded = tmp_path / "welded.xml"
    weld = '<equality><weld body1="one" body2="two"/></equality>'
    welded.write_text(WELDED.format("", SECOND.format("<freejoint/>"), weld))
    rates = []
    for path, constraints in ((nested, 0), (welded, 6)):
        model = ph.load_model(path, velocities={"pivot": 1.5}).model
        system, (q, v) = model.assemble("minimal", repair=True)
        assert system.m == constraints
        rates.append(system.twist(q, acceleration(system, q, v), "one").omega)
    np.testing.assert_allclose(rates[1], rates[0], rtol=0, atol=1e-11 * float(np.max(np.abs(rates[0]))))


@pytest.mark.exhaustive
def test_sites_stay_connected(tmp_path):
    path = tmp_path / "tied.xml"
    path.write_text(TIED)
    imported = ph.load_model(path, velocities={"pivot": 2.0})
    problem = imported.problem(t1=0.1)
    assert (problem.system.m, set(problem.system.labels)) == (3, {"tie"})
    solution = ph.simulate(problem, h=2e-3)
    assert np.max(solution.residuals["position"]) < 1e-10
    # In the frames of the centres of mass.
    places = np.array([(0.1, 0, -0.3), (0, 0, 0.4)])
    turns = jax.vmap(jax.vmap(quaternions.to_matrix))(solution.outputs["quaternions"])
    ends = solution.outputs["positions"] + np.einsum("tbij,bj->tbi", turns, places)
    np.testing.assert_allclose(ends[:, 1], ends[:, 0], atol=1e-10)
    assert abs(solution.outputs["joint_positions"][-1, 0]) > 0.1


FINGERS = """<mujoco><compiler angle="radian"/><option gravity="1 0.5 -9.81"/>
<default><geom type="box" size="0.05 0.1 0.3" contype="0" conaffinity="0"/></default><worldbody>
<body name="one"><joint name="a" axis="0 1 0" damping="0.2" armature="0.03"/><geom pos="0 0 -0.4"/>
  <body name="two" pos="0 0 -0.8"><joint name="b" axis="0 1 0.3" stiffness="3" springref="0.4" armature="0.1"/>
  <geom pos="0 0.05 -0.3"/><body name="three" pos="0 0 -0.7"><joint name="c" type="slide" axis="1 0 1" damping="1"/>
  <geom pos="0 0.2 0"/></body></body></body>
<body name="four" pos="1 0 0"><joint name="d" axis="1 0 0" range="-3 0.1" limited="true"/><geom pos="0 0.2 0"/></body>
</worldbody><tendon><fixed name="sum"><joint joint="a" coef="1"/><joint joint="d" coef="0.5"/></fixed></tendon>
<actuator><motor joint="b" name="drive"/></actuator>
<equality><joint joint1="b" joint2="a" polycoef="0.1 1.5 0 0 0"/><joint joint1="c" joint2="b" polycoef="0 -0.2 0 0 0"/>
{}</equality></mujoco>"""


@pytest.mark.parametrize(
    ("last", "velocities"),
    [
        pytest.param('<joint joint1="d" joint2="a" polycoef="0.05 -0.7 0 0 0"/>', 1, marks=pytest.mark.exhaustive),
        pytest.param('<tendon tendon1="sum" polycoef="0.05 0 0 0 0"/>', 1, marks=pytest.mark.exhaustive),
        pytest.param('<joint joint1="d" polycoef="0.2 0 0 0 0"/>', 1, marks=pytest.mark.exhaustive),
        pytest.param("", 2, marks=pytest.mark.exhaustive),
    ],
)
def test_chains_of_followers_move_as_constraints_make_them(last, velocities):
    """Several followers of one joint and of followers, with springs, stops, rotors and drives on them."""
    imported = ph.load_model(FINGERS.format(last), positions={"a": 0.3}, velocities={"a": 0.7}, controls={"drive": 2.0})
    found = []
    for formulation, constraints in (("minimal", 0), ("S3xR3", None)):
        system, (q, v) = imported.model.assemble(formulation, repair=True, hold=imported.held)
        assert system.m == constraints or (constraints is None and system.m > 0)
        found.append((system, q, v, acceleration(system, q, v)))
    tree, q, v, _ = found[0]
    assert tree.n == velocities
    free, p, w, _ = found[1]
    for joint in imported.joints.values():
        for name in joint.coordinates():
            values = [joint.value(s, 0.0, (x, u), name) for s, x, u, _ in found]
            assert float(values[0]) == pytest.approx(float(values[1]), abs=1e-9)
            rates = [joint.rate(s, 0.0, (x, u), name) for s, x, u, _ in found]
            assert float(rates[0]) == pytest.approx(float(rates[1]), abs=1e-9)
    # The angular acceleration of a body is the rate of its angular velocity, in whatever coordinates.
    for body in (body for body in imported.model.bodies if body.kind == "rigid"):
        one, other = (twist_rate(body.name, *each) for each in found)
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-9)
    np.testing.assert_allclose(tree.kinetic_energy(0.0, q, v), free.kinetic_energy(0.0, p, w), rtol=1e-12)


def twist_rate(body, system, q, v, acceleration):
    """Angular acceleration and acceleration of the centre of mass."""

    def twist(h):
        return jnp.concatenate(system.twist(system.flow(q, v, h), v + h * acceleration, body))

    return jax.jvp(twist, (0.0,), (1.0,))[1]


@pytest.mark.exhaustive
def test_joints_transmit_the_same_loads_whether_followers_are_coordinates_or_not():
    couplings = '<joint joint1="d" joint2="a" polycoef="0.05 -0.7 0 0 0"/>'
    imported = ph.load_model(FINGERS.format(couplings), positions={"a": 0.3}, velocities={"a": 0.7}, limits=False)
    found = {}
    for formulation in ("minimal", "S3xR3"):
        problem = imported.problem(formulation, t1=1.0)
        values = functools.partial(problem.named.readings.values, problem.system, jnp.zeros(()))
        found[formulation] = problem, evaluated(values, *problem.state0)
    problem, loads = found["minimal"]
    other, expected = found["S3xR3"]
    assert problem.system.m == 0
    assert other.system.m > 20
    names = [[joint.part for joint in each.named.readings.joints] for each in (problem, other)]
    for name in "abcd":
        own, its = (numbers.index(name) for numbers in names)
        for values, exact in (
            (loads.joint_forces, expected.joint_forces),
            (loads.joint_moments, expected.joint_moments),
        ):
            np.testing.assert_allclose(values[own], exact[its], atol=1e-9 * np.abs(exact).max())
            assert np.abs(values[own]).max() > 1


@pytest.mark.exhaustive
def test_velocities_given_to_followers_drive_what_they_follow():
    problem = ph.load_model(FINGERS.format(""), velocities={"c": 0.3}).problem(t1=0.1)
    rates = dict(zip("abcd", problem.outputs["joint_velocities"](0.0, problem.state0), strict=True))
    assert (float(rates["c"]), float(rates["a"])) == pytest.approx((0.3, -1.0), abs=1e-12)


def test_starts_that_do_not_follow_are_refused_by_name():
    with pytest.raises(ValueError, match=r"follow others start elsewhere: the coordinate of `b` is off.*repair=True"):
        ph.load_model(FINGERS.format(""), positions={"a": 0.0, "b": 0.0}).model.assemble("minimal")


@pytest.mark.exhaustive
def test_followers_keep_the_energy_balance():
    text = FINGERS.format("")
    for lossy in ('damping="0.2"', 'damping="1"', '<motor joint="b" name="drive"/>'):
        text = text.replace(lossy, "")
    imported = ph.load_model(text, positions={"a": 0.8}, limits=False)
    run = ph.simulate(imported.problem(t1=1.0), "rkmk4", h=1e-3)
    energy = run.invariants["energy"]
    assert np.ptp(energy) < 1e-9 * np.max(np.abs(energy))


CURVES = [
    pytest.param('joint1="second" joint2="first" polycoef="0 1 0.5 0 0"', marks=pytest.mark.exhaustive),
    'joint1="slide" joint2="second" polycoef="0 0.1 0 -0.3 0.2"',
    pytest.param('joint1="second" joint2="first" polycoef="0.1 1.1234567 0 0 0"', marks=pytest.mark.exhaustive),
]


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.exhaustive
def test_curved_couplings_and_any_ratio_are_carried(tmp_path, curve):
    """The velocity and acceleration of the follower are those of its polynomial."""
    imported = ph.load_model(GEARED.format(curve), positions={"first": 0.4}, velocities={"first": 0.9})
    assert not [item for item in imported.not_carried if "equality" in item.what]
    m = imported.start.compiled
    y, x = int(m.eq_obj1id[0]), int(m.eq_obj2id[0])
    p = np.polynomial.Polynomial(m.eq_data[0, :5])
    problem = imported.problem("minimal", t1=0.1)
    q, v = problem.state0
    at, rate = (np.asarray(problem.outputs[name](0.0, (q, v))) for name in ("joint_positions", "joint_velocities"))
    change = np.asarray(problem.outputs["joint_velocities"](0.0, (q, acceleration(problem.system, q, v))))
    s = at[x] - m.qpos0[x]
    np.testing.assert_allclose(at[y] - m.qpos0[y], p(s), atol=1e-9)
    np.testing.assert_allclose(rate[y], p.deriv()(s) * rate[x], atol=1e-9)
    np.testing.assert_allclose(change[y], p.deriv()(s) * change[x] + p.deriv(2)(s) * rate[x] ** 2, atol=1e-8)


FAR = MIMIC.replace('offset="0.3"', 'offset="9"')


@pytest.mark.exhaustive
@pytest.mark.sampled(6)
@pytest.mark.parametrize("formulation", ["SO3xR3", "minimal"])
@pytest.mark.parametrize(
    ("positions", "velocities", "expected"),
    [
        ({"first": 0.4}, {"first": 3.0}, (0.4, 8.2, 3.0, -6.0)),
        ({"second": 20.0}, {"second": 5.0}, (-5.5, 20.0, -2.5, 5.0)),
        ({}, {}, (0.0, 9.0, 0.0, 0.0)),
    ],
)
def test_what_follows_starts_turns_away(
    formulation: str, positions: dict[str, float], velocities: dict[str, float], expected: tuple[float, ...]
) -> None:
    """Nobody but the equation says in which turn a follower starts, or what moves by itself a given one leaves."""
    robot = ph.load_model(FAR, positions=positions, velocities=velocities)
    problem = robot.problem(formulation)
    outputs = {name: f(0.0, problem.state0) for name, f in problem.outputs.items() if name.startswith("joint_")}
    found = (*outputs["joint_positions"], *outputs["joint_velocities"])
    np.testing.assert_allclose(found, expected, atol=1e-9)


TURNING = """<mujoco><option gravity="0 0 0"/><worldbody>
<body name="A"><joint name="x" type="hinge" axis="0 0 1"/><inertial pos="0 0 0" mass="1" diaginertia=".1 .1 .1"/></body>
<body name="B" pos="2 0 0"><joint name="y" type="slide" axis="1 0 0"/>
<inertial pos="0 0 0" mass="2" diaginertia=".1 .1 .1"/></body>
</worldbody>{}</mujoco>"""
RACK = '<equality><joint joint1="y" joint2="x" polycoef="0 0.3 0 0 0"/></equality>'
MOTOR = '<actuator><position joint="x" kp="1e-9"/></actuator>'


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", [RACK, pytest.param(MOTOR, marks=pytest.mark.exhaustive)], ids=["rack", "motor"])
def test_turns_of_a_hinge_along_which_the_file_acts_are_read_in_absolute_coordinates(part, tmp_path):
    path = tmp_path / "gear.xml"
    path.write_text(TURNING.format(part))
    model = ph.load_model(path)
    problem, hinge = model.problem("SO3xR3", t1=4.0, h=0.02), model.joints["x"]
    q, v = problem.state0
    # Bodies A and B have (Ω, u) each.
    start = (q, v.at[2].set(4.0).at[9].set(1.2))
    passes = ph.Event(lambda t, state, system: hinge.angle(system, t, state) - 9.0, name="passes")
    stop = ph.events.stop(hinge, upper=12.0, restitution=0.5)
    run = ph.simulate(problem, "herk4", state0=start, events=[passes, stop])
    np.testing.assert_allclose(run.events.t, [9 / 4, 3.0], rtol=1e-6)
    assert run.joints["x"].angle[-1] == pytest.approx(12 - 2.0, abs=1e-5)
    assert hinge.angle(problem.system, run.t, run.state)[-1] == pytest.approx(12 - 2.0, abs=1e-5)
