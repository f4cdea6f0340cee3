"""Joint equalities, welds and connections are exact: against fewest coordinates, or by what they hold together."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from against_mujoco import at_random, loaded, read

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


@pytest.mark.sampled(2)
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
    problem = loaded(path, model, data).problem(t1=0.2)
    system, (q, v) = problem.system, problem.state0
    assert system.m == 1
    a = acceleration(system, q, v)
    # Rates of single hinges and slides are the velocities of the tree, up to their order and signs.
    found = problem.outputs["joint_velocities"](0.0, (q, a))
    wanted = exact_accelerations(model, data, slope)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10 * np.max(np.abs(wanted)))
    np.testing.assert_allclose(problem.outputs["joint_positions"](0.0, (q, v)), data.qpos, atol=1e-12)


def test_coupled_angles_far_apart_meet_and_not_half_a_turn_apart(tmp_path):
    path = tmp_path / "far.xml"
    path.write_text(GEARED.format('joint1="second" joint2="first"'))
    # Both are measured from where the file has them, the second from 0.2.
    problem = ph.load_model(path, positions={"second": 3.1}).problem(t1=1.0)
    first, second, _ = problem.outputs["joint_positions"](0.0, problem.state0)
    assert float(second - 0.2) == pytest.approx(float(first), abs=1e-8)


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


def test_what_can_not_be_coupled_is_named(tmp_path):
    path = tmp_path / "curved.xml"
    path.write_text(GEARED.format('name="curve" joint1="second" joint2="first" polycoef="0 1 0.5 0 0"'))
    (lost,) = (item for item in ph.load_model(path).not_carried if item.what == "joint equality")
    assert lost.names == ("curve",)
    assert "in proportion" in lost.reason
