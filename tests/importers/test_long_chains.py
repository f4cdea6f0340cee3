"""Trees deeper than MuJoCo compiles, and what problems of files take."""

from __future__ import annotations

import numpy as np
import pytest
from against_mujoco import bodies_accelerations

import polhode as ph
from polhode.importers import deep_trees

LINK = (
    '<link name="l{0}"><inertial><origin xyz="0 .01 -.05"/><mass value=".1"/>'
    '<inertia ixx="1e-4" iyy="1.1e-4" izz="2e-5" ixy="0" ixz="0" iyz="0"/>'
    '</inertial></link><joint name="j{0}" type="{2}"><parent link="l{1}"/><child link="l{0}"/>'
    '<origin xyz="0 0 -.1" rpy=".1 0 .2"/><axis xyz="1 {3} 0"/>'
    '<limit effort="1" velocity="1" lower="-1" upper="1"/></joint>'
)


def chain(count):
    kinds = ("revolute", "prismatic", "fixed", "revolute")
    links = [LINK.format(i, i - 1, kinds[i % 4], i % 3) for i in range(1, count + 1)]
    return f'<robot name="chain"><link name="l0"/>{"".join(links)}</robot>'


def test_links_side_by_side_and_put_behind_one_another_are_the_same_machine(monkeypatch):
    start = {"positions": {"j3": 0.3, "j5": -0.1}, "velocities": {"j1": 0.7, "j8": -0.4}}
    nested = ph.load_model(chain(9), **start)
    monkeypatch.setattr(deep_trees, "DEEPEST", 3)
    flat = ph.load_model(chain(9), **start)
    for name in ("xpos", "xmat", "xanchor", "xaxis", "cdof", "subtree_com"):
        np.testing.assert_allclose(getattr(flat.start.data, name), getattr(nested.start.data, name), atol=1e-14)
    stops = [[part.stiffness for name, part in m.model.parts if name.endswith("stops")] for m in (flat, nested)]
    np.testing.assert_allclose(*stops, rtol=1e-12)
    problems = [machine.problem("minimal") for machine in (flat, nested)]
    found = [bodies_accelerations(problem.system, *problem.state0) for problem in problems]
    np.testing.assert_allclose(*found, rtol=1e-9, atol=1e-9)


@pytest.mark.exhaustive
def test_chains_that_mujoco_does_not_compile_load():
    machine = ph.load_model(chain(1500))
    assert len(machine.joints) == 1125
    problem = machine.problem(t1=0.01)
    assert problem.parameters["formulation"] == "SO3xR3"
    assert problem.outputs["joint_positions"](0.0, problem.state0).shape == (1125,)


def test_problems_of_files_take_what_those_of_models_take():
    machine = ph.load_model(chain(2))
    problem = machine.problem(
        "minimal",
        t1=0.5,
        h=0.01,
        t0=0.1,
        integrator="generalized-alpha",
        name="arm",
        outputs=lambda system: {"twice": lambda t, state: 2 * t},
        save_loads=True,
    )
    assert (problem.name, problem.h, problem.t_span, problem.integrator) == (
        "arm",
        0.01,
        (0.1, 0.5),
        "generalized-alpha",
    )
    assert {"twice", "joint_loads", "joint_positions"} <= problem.outputs.keys()
    assert problem.origin is None
    plain = machine.problem("minimal")
    assert (plain.origin, plain.h) == ("file", 0.002)
    assert plain.named.metadata["units"]["length"] == "m"


def test_values_in_time_are_asked_for_with_their_times():
    motor = (
        '<mujoco><worldbody><body><joint name="j"/><geom size=".1" pos="1 0 0"/></body></worldbody><actuator>'
        '<motor name="m" joint="j"/></actuator></mujoco>'
    )
    with pytest.raises(ValueError, match=r"control of actuator `m` .*ph\.PiecewiseLinear\(times, values\)"):
        ph.load_model(motor, controls={"m": np.zeros(3)})
    ph.load_model(motor, controls={"m": ph.PiecewiseLinear((0.0, 1.0), (0.0, 2.0))})
