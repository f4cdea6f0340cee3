"""The audit of contacts, each verdict with a run that it must not pass."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from touching_models import G, arm_on_table, box_on_floor

import polhode as ph
from polhode.integrators.nonsmooth.contact_record import ContactRecord, unpack
from polhode.result_codes import Result


@pytest.fixture(scope="module")
def slide():
    """A box that slides at 0.5 m/s and comes to rest after 0.17 s."""
    return ph.simulate(box_on_floor(velocity=(0.5, 0, 0)).problem("SO3xR3", t1=0.3, h=0.01))


def with_record(run: Any, change: Callable[[ContactRecord], ContactRecord]) -> Any:
    """The run with other numbers of its contacts."""
    sizes = run.meta["names"]["contacts"]
    joints, record = unpack(np.array(run.multipliers), len(sizes["joints"]), sizes["count"], sizes["rows"])
    parts = [np.asarray(part).reshape(len(run.t), -1) for part in change(record)]
    return dataclasses.replace(run, saved=run.saved._replace(multipliers=np.concatenate((joints, *parts), axis=1)))


def with_state(run: Any, shift: Callable[[np.ndarray], np.ndarray]) -> Any:
    """The run with bodies elsewhere."""
    (((R, x),), v) = run.state
    return dataclasses.replace(run, saved=run.saved._replace(state=(((R, shift(np.array(x))),), v)))


def test_a_good_run_keeps_everything(slide):
    audit = slide.audit()
    assert audit.kept
    assert audit.accurate
    assert audit.remarks == ()
    energy = slide.outputs["kinetic_energy"][0]
    assert audit["energy"].max_drift <= 1e-10 * energy
    for name in ("friction_cone", "sticking", "unsolved_steps"):
        assert audit[name].verdict == "kept"
    for name in ("penetration", "complementarity", "contact_work", "energy_rise"):
        assert audit[name].relative < 1e-12
    # 4 points with 3 forces each, 6 equations of a body.
    assert audit["undetermined_forces"].max_drift == 6
    assert "invariants.energy" not in slide.columns()


def test_the_balance_of_energy_sees_dissipation_that_is_not_there(slide):
    wrong = with_record(slide, lambda r: r._replace(dissipation=0.9 * r.dissipation))
    row = wrong.audit()["energy"]
    assert row.accuracy == "wrong"
    assert row.relative == pytest.approx(0.1, rel=1e-6)


@pytest.mark.exhaustive
def test_contacts_that_add_energy_are_seen(slide):
    def drop(record):
        taken = np.array(record.dissipation)
        taken[25:] -= 0.05 * taken[-1].sum() / taken[-1].size
        return record._replace(dissipation=taken)

    wrong = with_record(slide, drop)
    row = wrong.audit()["contact_work"]
    assert row.accuracy == "wrong"
    assert "at t = 0.25: contacts add energy" in row.remark


def test_rises_of_the_energy_are_seen(slide):
    kinetic = np.array(slide.outputs["kinetic_energy"])
    kinetic[25:] += 0.05 * kinetic[0]
    outputs = {**slide.outputs, "kinetic_energy": kinetic}
    wrong = dataclasses.replace(slide, saved=slide.saved._replace(outputs=outputs))
    assert wrong.audit()["energy_rise"].accuracy == "wrong"


def test_penetration_is_measured(slide):
    row = with_state(slide, lambda x: x - np.array((0, 0, 0.01))).audit()["penetration"]
    assert row.max_drift == pytest.approx(0.01)
    assert row.accuracy == "wrong"
    assert "ground/box" in row.remark


def test_forces_at_a_distance_are_seen(slide):
    row = with_state(slide, lambda x: x + np.array((0, 0, 0.01))).audit()["complementarity"]
    assert row.accuracy == "wrong"
    assert "without touching" in row.remark


@pytest.mark.parametrize("change", [lambda f: f * (1, 1.01, 1), lambda f: f * (-1, 0, 0)])
def test_forces_outside_of_the_cone_are_broken(slide, change):
    wrong = with_record(slide, lambda r: r._replace(forces=change(r.forces)))
    row = wrong.audit()["friction_cone"]
    assert row.verdict == "broken"
    assert row.remark


def tumbling(shape: Any, restitution: float, friction: float) -> ph.Model:
    """A body that falls on a floor, and rolls over it from impact to impact."""
    model = ph.Model(gravity=(0, 0, -G), units="SI")
    model.ground.add_shape(ph.shapes.Plane())
    model.add_body(
        mass=2.0, shape=shape, position=(0, 0, 0.6), velocity=(1.5, 0.3, 0), angular_velocity=(3, 5, 1), name="body"
    )
    model.contacts(friction=friction, restitution=restitution)
    return model


_FAST = (ph.shapes.Box((0.3, 0.2, 0.1)), 0.5, 0.4)
_TURNS_BACK = (ph.shapes.Box((0.3, 0.2, 0.1)), 0.0, 0.4)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("integrator", "drop", "save_every"),
    [
        # The second step of an impact without a bounce, without its first.
        ("moreau", _FAST, 3),
        # Friction of the first half of a step in which an impact elsewhere lifts the point.
        ("rattle", _TURNS_BACK, 1),
        # Slips that turn between frames.
        ("rattle", _FAST, 3),
    ],
)
def test_right_runs_with_many_impacts_break_nothing(integrator, drop, save_every):
    run = ph.simulate(tumbling(*drop).problem("SO3xR3", t1=2.0, h=0.01), integrator, save_every=save_every)
    assert run.dissipated["impact"][-1] > 1.0
    audit = run.audit()
    assert audit.kept, audit
    assert not [row for row in audit.rows if row.accuracy == "wrong"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("integrator", ["moreau", pytest.param("rattle", marks=pytest.mark.exhaustive)])
def test_forces_outside_of_the_cone_are_broken_between_sparse_frames(integrator):
    sparse = ph.simulate(box_on_floor(velocity=(0.5, 0, 0)).problem("SO3xR3", t1=0.3, h=0.01), integrator, save_every=4)
    assert sparse.audit()["friction_cone"].verdict == "kept"
    wrong = with_record(sparse, lambda r: r._replace(forces=r.forces * (1, 1.01, 1)))
    assert wrong.audit()["friction_cone"].verdict == "broken"


@pytest.mark.exhaustive
def test_impacts_of_rattle_take_what_the_energy_loses():
    """Of a box whose corners strike the floor: the balance closes to what the smooth motion loses, with order 2."""
    drifts = []
    for h in (0.01, 0.005):
        run = ph.simulate(tumbling(*_TURNS_BACK).problem("SO3xR3", t1=0.55, h=h), "rattle")
        assert run.dissipated["impact"][-1] > 5.0
        assert np.diff(sum(run.dissipated.values())).min() > -1e-12
        drifts.append(run.audit()["energy"].max_drift)
    assert drifts[0] < 1e-3
    assert drifts[1] < 0.5 * drifts[0]


def test_creep_is_broken(slide):
    def creep(record):
        slips = np.array(record.slips)
        # At rest friction is inside of the cone, as gravity needs none.
        slips[-8:, :, 1] = 1e-4
        return record._replace(slips=slips)

    row = with_record(slide, creep).audit()["sticking"]
    assert row.verdict == "broken"
    # 7 steps of 10 ms at 0.1 mm/s, after the one in which it begins, which may be that of a slide.
    assert row.max_drift == pytest.approx(7e-6, rel=1e-6)
    assert "creep" in row.remark


@pytest.mark.exhaustive
def test_unsolved_steps_are_counted(slide):
    stats = {**slide.stats, "result": Result.contact_unsolved}
    audit = dataclasses.replace(slide, stats=stats).audit()
    assert audit["unsolved_steps"].verdict == "broken"
    assert not audit.kept
    assert "t = 0.3" in audit["unsolved_steps"].remark


@pytest.mark.exhaustive
def test_forces_that_the_motion_leaves_open_are_named():
    audit = ph.simulate(arm_on_table().problem("SO3xR3", t1=0.02, h=0.01)).audit()
    # Friction across the plane of the arm and the hinges carry the same.
    assert audit["undetermined_forces"].max_drift == 1
    assert any("ground/lower are not determined" in remark for remark in audit.remarks)
    model = ph.Model(gravity=(0, 0, -G))
    model.ground.add_shape(ph.shapes.Plane())
    model.add_body(mass=1.0, shape=ph.shapes.Sphere(0.1), position=(0, 0, 0.1), name="ball")
    model.contacts()
    alone = ph.simulate(model.problem("SO3xR3", t1=0.02, h=0.01)).audit()
    assert alone["undetermined_forces"].max_drift == 0
    assert alone.remarks == ()


@pytest.mark.exhaustive
def test_impacts_and_joints_close_the_balance():
    """A ball that bounces: what impacts take is (1 − e²) of the energy of each, and the balance closes."""
    model = ph.Model(gravity=(0, 0, -G), units="SI")
    model.ground.add_shape(ph.shapes.Plane())
    model.add_body(mass=1.0, shape=ph.shapes.Sphere(0.1), position=(0, 0, 0.6), name="ball")
    model.contacts(restitution=0.5, friction=0.2)
    run = ph.simulate(model.problem("SO3xR3", t1=0.6, h=0.01))
    assert run.audit()["energy"].max_drift < 1e-10 * G * 0.5
    fall = G * 0.5
    assert run.dissipated["impact"][-1] == pytest.approx(0.75 * fall, rel=0.1)
    assert run.dissipated["sliding"][-1] == pytest.approx(0, abs=1e-12)


def free_balls(inertia: Any) -> ph.Model:
    model = ph.Model(gravity=(0, 0, 0), units="SI")
    for name, mass, radius, x, v, spin in (
        ("a", 1.0, 0.2, (0, 0, 0), (1.0, 0.1, 0), (1, 2, 3)),
        ("b", 2.0, 0.25, (0.6, 0.1, 0.05), (-0.3, 0, 0.1), (-3, 0, 1)),
    ):
        shape = ph.shapes.Sphere(radius)
        model.add_body(
            mass=mass, inertia=inertia, shape=shape, position=x, velocity=v, angular_velocity=spin, name=name
        )
    model.contacts(friction=0.4, restitution=0.6)
    return model


@pytest.mark.exhaustive
def test_momenta_of_free_balls_hold_through_impacts():
    problem = free_balls((0.02, 0.02, 0.02)).problem("SO3xR3", t1=0.4, h=0.01)
    assert set(problem.invariants) == {"linear_momentum", "angular_momentum"}
    run = ph.simulate(problem)
    assert run.dissipated["impact"][-1] > 0.1
    assert run.dissipated["sliding"][-1] > 0.01
    audit = run.audit()
    for name in ("linear_momentum", "angular_momentum"):
        assert (audit[name].promise, audit[name].verdict) == ("round-off", "kept")
        assert audit[name].max_drift < 1e-14
    # Tops whose momentum of spin turns with them are promised less.
    tops = ph.simulate(free_balls((0.02, 0.03, 0.04)).problem("SO3xR3", t1=0.4, h=0.01)).audit()
    assert (tops["linear_momentum"].promise, tops["angular_momentum"].promise) == ("round-off", None)


def test_the_ground_takes_momenta_and_contacts_take_energy():
    assert dict(box_on_floor().problem("SO3xR3", t1=1.0).invariants) == {}
    bare = box_on_floor()
    bare.contact_rules.clear()
    assert "energy" in bare.problem("SO3xR3", t1=1.0).invariants
