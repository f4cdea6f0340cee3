"""Units of other programs beside a problem: controllers, and systems that it is coupled to."""

from __future__ import annotations

import shutil
import zipfile

import jax
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import polhode as ph

pytest.importorskip("fmpy")

COMPILER = shutil.which("cc") or ""
H = 2.0**-9
ANGLE, AXLE = "joint_positions.hinge.angle", "joint_positions.axle.angle"

needs_compiler = pytest.mark.skipif(not COMPILER, reason="there is no C compiler `cc`")


def arm():
    """A pendulum with a spring to an angle outside."""
    model = ph.Model(gravity=(0, 0, -9.81))
    body = model.add_body(mass=1.0, inertia=(0.1, 0.1, 0.1), position=(0.5, 0, 0), name="arm")
    hinge = model.add(ph.joints.Revolute(model.ground, body, point=(0, 0, 0), axis=(0, 1, 0), name="hinge"))
    model.add(ph.forces.PD(hinge, 20.0, 0.0, target=ph.Parameter("target", 0.0)))
    return model.problem("minimal", t1=0.5)


def wheel():
    """A flywheel with a spring to an angle outside."""
    model = ph.Model()
    body = model.add_body(mass=1.0, inertia=(0.2, 0.2, 0.2), position=(0, 0, 0), name="wheel")
    axle = model.add(ph.joints.Revolute(model.ground, body, point=(0, 0, 0), axis=(0, 1, 0), name="axle"))
    model.add(ph.forces.PD(axle, ph.Parameter("stiffness", 5.0), 0.0, target=ph.Parameter("angle", 0.0)))
    return model.problem("minimal", t1=0.5)


@pytest.fixture(scope="module")
def unit(tmp_path_factory):
    """The flywheel as a unit of another program."""
    path = tmp_path_factory.mktemp("fmu") / "wheel.fmu"
    return ph.export_code(
        wheel(), "rkmk4", path, h=H / 4, inputs="angle", parameters="stiffness", name="wheel", exchange=True
    )


def together():
    """The angles of both at the end, by another program."""

    def rates(t, y):
        arm, wheel, arm_rate, wheel_rate = y
        spring = 20.0 * (wheel - arm)
        return arm_rate, wheel_rate, (0.5 * 9.81 * np.cos(arm) + spring) / 0.35, -spring / 0.2

    return solve_ivp(rates, (0.0, 0.5), np.zeros(4), rtol=1e-11, atol=1e-12).y[:2, -1]


WIRES = {"to_unit": {"angle": ANGLE}, "from_unit": {"target": AXLE}}


@needs_compiler
@pytest.mark.exhaustive
def test_a_problem_and_a_unit_tend_to_the_system_that_they_are(unit):
    """With order 1, that of the coupling; the equations of the unit may be solved by it or here."""
    exact, errors = together(), {}
    for every in (4, 2, 1):
        stepped = ph.load_fmu(unit, start={"stiffness": 20.0})
        run = ph.cosimulate(arm(), "rkmk4", stepped, h=H, every=every, **WIRES)
        assert run.t[-1] == 0.5
        assert len(run.t) == len(run.outputs[ANGLE]) == 256 // every + 1
        errors[every] = np.abs([run.outputs[ANGLE][-1], run.unit[AXLE][-1]] - exact)
    assert np.all(errors[1] < 0.02)
    for coarse, fine in ((4, 2), (2, 1)):
        np.testing.assert_allclose(errors[coarse] / errors[fine], 2.0, atol=0.15)
    solved = ph.load_fmu(unit, start={"stiffness": 20.0}, kind="model exchange", tolerance=1e-9)
    other = ph.cosimulate(arm(), "rkmk4", solved, h=H, every=2, **WIRES)
    stepped = ph.load_fmu(unit, start={"stiffness": 20.0}, kind="co-simulation")
    run = ph.cosimulate(arm(), "rkmk4", stepped, h=H, every=2, **WIRES)
    np.testing.assert_allclose(other.outputs[ANGLE], run.outputs[ANGLE], atol=1e-6)
    # Without its start value the spring is another one.
    soft = ph.cosimulate(arm(), "rkmk4", ph.load_fmu(unit), h=H, every=2, **WIRES)
    assert np.abs(soft.outputs[ANGLE] - run.outputs[ANGLE]).max() > 1e-2


@needs_compiler
@pytest.mark.exhaustive
def test_steps_between_communication_points_are_those_of_runs(unit):
    """By hand, with a run of each for every interval."""
    alone = ph.cosimulate(arm(), "generalized-alpha", ph.load_fmu(unit), h=H, every=8, **WIRES | {"from_unit": {}})
    expected = ph.simulate(arm(), "generalized-alpha", h=H).outputs["joint_positions"][::8, 0]
    np.testing.assert_array_equal(alone.outputs[ANGLE], expected)
    run = ph.cosimulate(arm(), "rkmk4", ph.load_fmu(unit, start={"stiffness": 20.0}), h=H, every=8, **WIRES)
    problems = [arm(), wheel().replace(stiffness=20.0)]
    states, angles = [p.state0 for p in problems], [0.0, 0.0]
    for k in range(6):
        for i, (name, step) in enumerate((("target", H), ("angle", H / 4))):
            problem = problems[i].replace(**{name: angles[1 - i]})
            t0, t1 = 8 * k * H, 8 * (k + 1) * H
            leg = ph.simulate(problem, "rkmk4", h=step, t0=t0, t1=t1, state0=states[i], save_every=None)
            states[i] = jax.tree.map(lambda x: x[-1], leg.state)
        angles = [float(state[0][0][0]) for state in states]
        assert run.outputs[ANGLE][k + 1] == pytest.approx(angles[0], rel=1e-12)
        assert run.unit[AXLE][k + 1] == pytest.approx(angles[1], rel=1e-12)
    assert abs(angles[0]) > 0.01


@needs_compiler
@pytest.mark.exhaustive
def test_wrong_names_shapes_and_platforms_are_refused_and_failures_reported(unit, tmp_path):
    loaded = ph.load_fmu(unit)
    with pytest.raises(ValueError, match=r"no variable of unit `wheel\.fmu` 'stifness'\. Did you mean `stiffness`"):
        ph.load_fmu(unit, start={"stifness": 1.0})
    refused("no input of the unit 'angel'.*Did you mean `angle`", unit=loaded, to_unit={"angel": ANGLE})
    refused("no output of the problem 'angle'.*`joint_positions", unit=loaded, to_unit={"angle": "angle"})
    refused("no output of the unit 'axle'", unit=loaded, from_unit={"target": "axle"})
    refused("no parameter 'targe'.*Did you mean `target`", unit=loaded, from_unit={"targe": AXLE})
    refused("must have the same number", unit=loaded, to_unit={"angle": "positions.arm"})
    refused("must have the same number", unit=loaded, from_unit={"target": "positions.wheel"})
    refused("`to_unit` must be a dictionary", unit=loaded, to_unit=[ANGLE])
    refused("must be a multiple of `every` steps", unit=loaded, every=7, **WIRES)
    taken = ph.load_fmu(unit, start={"joint_positions.axle.angle": 1.0})
    refused("computes `joint_positions.axle.angle` itself", unit=taken, **WIRES)
    # Without its library, with one for another platform, and for one kind only.
    for folder, words in (
        (None, "no library, and none for"),
        ("binaries/x86_64-windows/", "libraries for x86_64-windows, and"),
    ):
        other = tmp_path / "other.fmu"
        with zipfile.ZipFile(unit) as before, zipfile.ZipFile(other, "w") as after:
            for name in before.namelist():
                if not name.startswith("binaries/"):
                    after.writestr(name, before.read(name))
            if folder:
                after.writestr(f"{folder}wheel.dll", b"")
        with pytest.raises(ValueError, match=f"{words}.*fmpy compile"):
            ph.load_fmu(other)
    stop = ph.Event(lambda t, state: t - 0.1, terminal=True, name="stop")
    ends = ph.export_code(wheel(), "rkmk4", tmp_path / "ends.fmu", h=H, inputs="angle", events=stop)
    with pytest.raises(ValueError, match="is for co-simulation only"):
        ph.load_fmu(ends, kind="model exchange")
    with pytest.raises(ph.UnitError, match=r"`ends\.fmu` failed between t = 0\.09.*event_reached") as ended:
        ph.cosimulate(arm(), "rkmk4", ph.load_fmu(ends), h=H, **WIRES)
    # What was computed up to there is kept.
    before = ended.value.cosimulation
    assert 0.09 < before.t[-1] < 0.1
    assert len(before.t) == len(before.outputs[ANGLE]) == len(before.unit[AXLE]) > 40
    # Of the version before, whose units have numbers only.
    old = ph.export_code(
        wheel(), "rkmk4", tmp_path / "old.fmu", h=H / 4, inputs="angle", parameters="stiffness", fmi="2.0"
    )
    given = {"stiffness": 20.0}
    first = ph.cosimulate(arm(), "rkmk4", ph.load_fmu(old, start=given), h=H, every=8, **WIRES)
    second = ph.cosimulate(arm(), "rkmk4", ph.load_fmu(unit, start=given), h=H, every=8, **WIRES)
    np.testing.assert_array_equal(first.outputs[ANGLE], second.outputs[ANGLE])


def refused(match, kind=ValueError, **changes):
    arguments = {"h": H, "to_unit": {}, "from_unit": {}, **changes}
    problem = arguments.pop("problem", None) or arm()
    with pytest.raises(kind, match=match):
        ph.cosimulate(problem, "rkmk4", arguments.pop("unit", None), **arguments)


def test_files_that_are_no_units_are_refused(tmp_path):
    refused("`unit` must be a unit.*load_fmu")
    with pytest.raises(FileNotFoundError, match=r"no file .*none\.fmu"):
        ph.load_fmu(tmp_path / "none.fmu")
    (tmp_path / "x.fmu").write_text("no archive")
    with pytest.raises(ValueError, match=r"`x\.fmu` is no unit of FMI"):
        ph.load_fmu(tmp_path / "x.fmu")
