"""Coordinates and methods of models whose users name none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polhode as ph
from polhode import particles as pt
from polhode.assembly import default_choice
from polhode.linalg import solver_choice

SECTION = ph.rods.Section(stiffness=(1.0, 1.0, 1.0, 1e3, 1e3, 1e3), mass=1.0, inertia=(0.1, 0.1, 0.2))


def chain(count=2, **given) -> Any:
    """Bars on hinges, one behind the other."""
    model = ph.Model(gravity=(0, 0, -9.81))
    before = model.ground
    for k in range(count):
        bar = model.add_body(mass=1.0, inertia=(0.01, 0.1, 0.1), position=(k + 0.5, 0, 0), **given)
        model.add(ph.joints.Revolute(before, bar, point=(k, 0, 0), axis=(0, 1, 0), name=f"hinge-{k}"))
        before = bar
    return model


def sprung(stiffness) -> Any:
    """A mass on a slide and a spring along it."""
    model = ph.Model()
    body = model.add_body(mass=2.0, inertia=(1.0, 1.0, 1.0), position=(1.0, 0, 0))
    model.add(ph.joints.Prismatic(model.ground, body, axis=(1, 0, 0)))
    model.add(ph.forces.SpringDamper(model.ground, body, (0, 0, 0), (1.0, 0, 0), stiffness=stiffness, damping=0.0))
    return model


def door() -> Any:
    """Two hinges on one axis: the second follows from the first."""
    model = ph.Model(gravity=(0, 0, -9.81))
    leaf = model.add_body(mass=20.0, inertia=(1.0, 5.0, 6.0), position=(0.45, 0, 1))
    for height in (0.2, 1.8):
        model.add(ph.joints.Revolute(model.ground, leaf, point=(0, 0, height), axis=(0, 0, 1), name=f"at-{height}"))
    return model


def choice_of(problem):
    return problem.parameters["formulation"], problem.integrator


def test_joints_that_carry_bodies_give_joint_coordinates():
    problem = chain().problem(t1=0.02, h=1e-2)
    assert choice_of(problem) == ("minimal", "rkmk4")
    assert "no constraint is left" in problem.choice.coordinates
    assert str(problem.choice) in repr(problem)
    meta = ph.simulate(problem).meta
    assert meta["choice"] == {"coordinates": problem.choice.coordinates, "method": problem.choice.method}


def test_a_reason_for_a_method_is_not_told_of_another_one():
    meta = ph.simulate(chain().problem(t1=0.02, h=1e-2), "rkmk3").meta
    assert list(meta["choice"]) == ["coordinates"]


@pytest.mark.exhaustive
def test_a_closed_loop_keeps_the_constraints_that_close_it(monkeypatch):
    problem = door().problem(t1=1.0, redundant="minimum-norm")
    assert (problem.parameters["formulation"], problem.system.m) == ("minimal", 0)
    model = chain(3)
    last = model.bodies[-1]
    model.add(ph.joints.Spherical(model.ground, last, point=(3, 0, 0)))
    closed = model.problem(t1=1.0, redundant="minimum-norm")
    assert choice_of(closed) == ("minimal", "generalized-alpha")
    assert f"{closed.system.m} constraints are left" in closed.choice.coordinates
    # As if there were so many loops that elimination along branches took too many operations.
    monkeypatch.setattr(solver_choice, "BRANCH_OPERATIONS", 0)
    entangled = model.problem(t1=1.0, redundant="minimum-norm")
    assert choice_of(entangled) == ("SO3xR3", "generalized-alpha")
    assert "would factorise dense matrices" in entangled.choice.coordinates


def test_free_bodies_and_rods_get_absolute_coordinates():
    free = ph.Model()
    free.add_body(mass=1.0, inertia=(1.0, 1.0, 1.0))
    assert choice_of(free.problem(t1=1.0)) == ("SO3xR3", "rkmk4")
    rod = ph.Model()
    rod.add_rod(points=((0, 0, 0), (1, 0, 0), (2, 0, 0)), section=SECTION, clamped="first")
    assert choice_of(rod.problem(t1=1.0)) == ("SO3xR3", "generalized-alpha")


def test_trees_beside_others_keep_joint_coordinates(monkeypatch):
    grains = chain(1)
    grains.add_particles(((0, 0, 1), (0, 0, 2)), masses=1.0, inertias=0.1, diameters=0.5, pairs=[(0, 1)],
                         material=pt.BondMaterial(1.0, 1.0, 1.0))  # fmt: skip
    problem = grains.problem(t1=1.0)
    assert choice_of(problem) == ("minimal", "generalized-alpha")
    assert "particles are free bodies" in problem.choice.coordinates
    assert [link.name for link in problem.system.coordinates.tree.links] == ["body-1"]
    panel = chain(1)
    rod = panel.add_rod(points=((1, 0, 0), (2, 0, 0), (3, 0, 0)), section=SECTION)
    panel.add(ph.joints.Fixed(panel.bodies[0], rod.first))
    # Six constraints hold it, no loop.
    assert choice_of(panel.problem(t1=1.0)) == ("minimal", "generalized-alpha")
    monkeypatch.setattr(default_choice, "LARGEST_TREE_BESIDE", 0)
    assert choice_of(grains.problem(t1=1.0)) == ("SO3xR3", "generalized-alpha")


def test_large_trees_get_absolute_coordinates_for_implicit_methods_only(monkeypatch):
    monkeypatch.setattr(default_choice, "COUPLED", 3)
    formulation = lambda model, method=None: model.problem(t1=1.0, integrator=method).parameters["formulation"]  # noqa: E731
    assert [formulation(chain(n), "generalized-alpha") for n in (2, 3)] == ["minimal", "SO3xR3"]
    assert [formulation(chain(3), method) for method in (None, "rkmk4", "dopri5")] == ["minimal"] * 3
    stiff = chain(3)
    stiff.add(ph.forces.JointSpring(stiff.parts[0][1], stiffness=1e9))
    problem = stiff.problem(t1=1.0)
    assert choice_of(problem) == ("SO3xR3", "generalized-alpha")
    assert "`generalized-alpha` would factorise dense matrices of 6 pairs" in problem.choice.coordinates
    monkeypatch.setattr(default_choice, "_DENSE", 2)
    assert "isn't checked for 3 joint velocities" in stiff.problem(t1=1.0).choice.coordinates


def test_what_is_asked_for_is_never_changed():
    problem = chain().problem("SE3", t1=1.0, integrator="herk4")
    assert choice_of(problem) == ("SE3", "herk4")
    assert str(problem.choice) == ""
    free = ph.Model()
    free.add_body(mass=1.0, inertia=(1.0, 1.0, 1.0))
    assert "choice" not in ph.simulate(free.problem("S3xR3", t1=0.1, integrator="rkmk4")).meta
    # Of one body too.
    mixed = chain(2, formulation="S3xR3").problem(t1=1.0)
    assert mixed.parameters["formulation"] == "SO3xR3"
    assert isinstance(mixed.system.coordinates.bodies[0].formulation.rotations, ph.spaces.S3)
    assert "of their own" in mixed.choice.coordinates


@pytest.mark.parametrize(("method", "formulation"), [("eml", "livens"), ("herk3", "minimal"), ("rkmk6", "minimal")])
def test_coordinates_are_such_as_the_method_takes(method, formulation):
    problem = chain(1).problem(t1=1.0, integrator=method)
    assert choice_of(problem) == (formulation, method)
    assert not problem.choice.method


def test_methods_without_joints_are_refused_for_models_with_some():
    free = ph.Model()
    free.add_body(mass=1.0, inertia=(1.0, 1.0, 1.0))
    assert choice_of(free.problem(t1=1.0, integrator="rigid-verlet")) == ("separable", "rigid-verlet")
    with pytest.raises(ValueError, match="the model has joints"):
        chain(1).problem(t1=1.0, integrator="rigid-verlet")


def test_the_next_coordinates_are_taken_where_the_first_cant_be():
    """Constraints that are known to be redundant in absolute coordinates, which joint coordinates don't have."""
    system, _ = door().assemble("SO3xR3", redundant={"at-0.2": (0, 1, 2, 3, 4)})
    problem = door().problem(t1=1.0, redundant=system.dropped)
    assert problem.parameters["formulation"] == "SO3xR3"
    assert problem.system.dropped == system.dropped
    assert "`minimal` can't be taken: `redundant` names 'at-0.2'" in problem.choice.coordinates


def test_starts_that_fit_no_coordinates_are_refused():
    with pytest.raises(ValueError, match="repair=True"):
        chain(1, velocity=(0, 3.0, 0)).problem(t1=1.0)


def test_the_fastest_motion_decides_on_explicit_steps():
    slow, fast = 2.0 * 400.0**2, 2.0 * 4000.0**2
    system, state = sprung(slow).assemble("minimal")
    # A mass on a spring: ω² = k/m.
    assert default_choice.fastest(system, 0.0, state) == pytest.approx(400.0, rel=1e-6)
    assert sprung(slow).problem(t1=1.0).integrator == "rkmk4"
    stiff = sprung(fast).problem(t1=0.5)
    assert stiff.integrator == "generalized-alpha"
    assert "4e+03 per time" in stiff.choice.method
    assert sprung(fast).problem(t1=1.0, h=1e-4).integrator == "rkmk4"
    run = ph.simulate(stiff, state0=(stiff.state0[0], np.array([1e-3])))
    assert np.max(np.abs(run.outputs["velocities"])) < 1.01e-3


@pytest.mark.sampled(2)
@pytest.mark.parametrize("force", ["stops", "servo", "friction"])
def test_stiffness_that_comes_later_decides_on_explicit_steps(force):
    """Stops far off, a servo beyond its largest force, and dry friction in motion are stiff later in a run."""
    model = ph.Model()
    body = model.add_body(mass=2.0, inertia=(1.0, 1.0, 1.0), position=(1.0, 0, 0), velocity=(3.0, 0, 0))
    slide = model.add(ph.joints.Prismatic(model.ground, body, axis=(1, 0, 0)))
    stiff = 2.0 * 4000.0**2
    model.add(
        {
            "stops": lambda: ph.forces.JointStops(slide, (-1.0, 0.01), stiffness=stiff),
            "servo": lambda: ph.forces.PD(slide, stiff, 0.0, target=1.0, force_limits=(-5.0, 5.0)),
            "friction": lambda: ph.forces.JointFriction(slide, 8.0, stick_velocity=1e-3),
        }[force]()
    )
    problem = model.problem(t1=0.05)
    assert problem.integrator == "generalized-alpha"
    # Stops are named where there are some.
    assert ("4e+03 per time with all stops," if force == "stops" else "4e+03 per time,") in problem.choice.method
    if force == "stops":
        run = ph.simulate(problem)
        assert np.max(run.outputs["positions"][:, 0, 0]) < 1.011
        with pytest.raises(ph.SimulationError, match=r"stiffest element at t = .*4e\+03.* stops as if they held"):
            ph.simulate(problem, "rkmk4", h=0.005, t1=5.0)


@pytest.mark.parametrize(("formulation", "method"), [("SO3xR3", "generalized-alpha"), ("livens", "eml")])
def test_the_method_of_the_literature_is_recommended_in_coordinates_that_take_it(formulation, method):
    problem = ph.problems.rotor(formulation=formulation)
    assert problem.integrator == method
    # Of a model of a user's own nothing is published.
    own = default_choice.method_for(problem.system, problem.state0, 0.0, problem.h)[0]
    assert own == ("eml" if formulation == "livens" else "rkmk4")
