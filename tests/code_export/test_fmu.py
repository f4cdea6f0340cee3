"""Units of FMI 3.0, run by FMPy, have the bytes of `simulate`, and keep to the states that the standard gives them."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import jax
import numpy as np
import pytest

import polhode as ph

fmpy = pytest.importorskip("fmpy")
validation = pytest.importorskip("fmpy.validation")
fmi3 = pytest.importorskip("fmpy.fmi3")

COMPILER = shutil.which("cc") or ""
H = 2.0**-8

needs_compiler = pytest.mark.skipif(not COMPILER, reason="there is no C compiler `cc`")


def arm(target=0.5):
    """An arm whose motor follows a target, which is an input."""
    model = ph.Model(gravity=(0, 0, -9.81), units="SI")
    body = model.add_body(mass=ph.Parameter("mass", 2.0), inertia=(0.01, 0.2, 0.2), position=(0.5, 0, 0), name="arm")
    hinge = model.add(ph.joints.Revolute(model.ground, body, point=(0, 0, 0), axis=(0, -1, 0), name="shoulder"))
    model.add(ph.forces.PD(hinge, 60.0, 9.0, target=ph.Parameter("target", target)))
    return model.problem("minimal", t1=1.0)


@pytest.fixture(scope="module")
def unit(tmp_path_factory):
    """A unit of the arm."""
    path = tmp_path_factory.mktemp("fmu") / "arm.fmu"
    return ph.export_code(arm(), "rkmk4", path, h=H, inputs="target", parameters="mass", name="arm")


class Instance:
    """An instance of a unit, and its value references by name."""

    def __init__(self, path, folder):
        description = fmpy.read_model_description(str(path))
        # Files of a library that is in use must not change.
        place = folder / "unit"
        if not place.exists():
            fmpy.extract(str(path), str(place))
        self.at = {v.name: v.valueReference for v in description.modelVariables}
        self.slave = fmi3.FMU3Slave(
            guid=description.instantiationToken,
            unzipDirectory=str(place),
            modelIdentifier=description.coSimulation.modelIdentifier,
            instanceName="one",
        )
        self.slave.instantiate()

    def begin(self):
        self.slave.enterInitializationMode()
        self.slave.exitInitializationMode()

    def get(self, name, size=1):
        return self.slave.getFloat64([self.at[name]], nValues=size)

    def set(self, name, value):
        self.slave.setFloat64([self.at[name]], [value])

    def refuses(self, call, *arguments):
        with pytest.raises(fmpy.fmi1.FMICallException):
            call(*arguments)


@needs_compiler
def test_a_unit_is_valid_and_has_the_bytes_of_its_run(unit, tmp_path):
    assert validation.validate_fmu(str(unit)) == []
    description = fmpy.read_model_description(str(unit))
    angle = next(v for v in description.modelVariables if v.name == "joint_positions.shoulder.angle")
    assert (angle.causality, angle.unit) == ("output", "rad")
    speed = next(u for u in description.unitDefinitions if u.name == "m/s").baseUnit
    assert (speed.m, speed.s, speed.kg) == (1, -1, 0)
    run = ph.simulate(arm(), "rkmk4", h=H)
    found = fmpy.simulate_fmu(
        str(unit), stop_time=1.0, step_size=8 * H, output_interval=8 * H, output=[angle.name, "positions.arm"]
    )
    assert len(found["time"]) == 33
    np.testing.assert_array_equal(found[angle.name], run.outputs["joint_positions"][::8, 0])
    np.testing.assert_array_equal(found["positions.arm"], run.outputs["positions"][::8, 0])

    one = Instance(unit, tmp_path)
    slave = one.slave
    one.refuses(slave.doStep, 0.0, H)
    one.refuses(one.get, angle.name)
    one.set("mass", 3.0)
    one.begin()
    one.refuses(one.set, "mass", 2.0)
    one.refuses(slave.enterInitializationMode)
    one.refuses(slave.doStep, 0.5, H)
    one.refuses(slave.getInt32, [1])
    # Between steps of the code, and then on another grid, with a target that jumps.
    slave.doStep(0.0, 7.3 * H)
    one.set("target", -0.5)
    state = slave.getFMUState()
    data = slave.serializeFMUState(state)
    slave.doStep(7.3 * H, 32 * H)
    first = one.get(angle.name)
    assert one.get("time") == [39.3 * H]
    slave.setFMUState(slave.deserializeFMUState(data))
    slave.doStep(7.3 * H, 32 * H)
    assert one.get(angle.name) == first
    one.refuses(slave.deserializeFMUState, bytes(len(data)))
    slave.terminate()
    one.refuses(slave.doStep, 39.3 * H, H)
    slave.reset()
    one.begin()
    assert one.get("target") == [0.5]
    slave.freeInstance()
    assert first == [pytest.approx(after_a_jump("rkmk4", -0.5), rel=1e-12)]
    assert abs(first[0] - after_a_jump("rkmk4", 0.5)) > 1e-3


def after_a_jump(method, target):
    """The angle of a heavier arm after 7.3 steps, and 32 more with another target."""
    state, t = None, 0.0
    for count, h, value in ((7, H, 0.5), (1, 7.3 * H - 7 * H, 0.5), (32, H, target)):
        problem = arm(value).replace(mass=3.0)
        state = problem.state0 if state is None else state
        run = ph.simulate(problem, method, h=h, t0=t, t1=t + count * h, state0=state, save_every=None)
        state, t = jax.tree.map(lambda x: x[-1], run.state), t + count * h
    return run.outputs["joint_positions"][-1, 0]


# --- long ones --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def implicit_unit(tmp_path_factory):
    """A unit whose method remembers what is rebuilt after jumps."""
    path = tmp_path_factory.mktemp("fmu") / "arm.fmu"
    return ph.export_code(arm(), "generalized-alpha", path, h=H, inputs="target", parameters="mass", name="arm")


@needs_compiler
@pytest.mark.exhaustive
def test_archives_have_the_same_bytes_each_time(implicit_unit, tmp_path):
    again = ph.export_code(
        arm(), "generalized-alpha", tmp_path / "other.fmu", h=H, inputs="target", parameters="mass", name="arm"
    )
    assert again.read_bytes() == implicit_unit.read_bytes()


@needs_compiler
@pytest.mark.exhaustive
def test_inputs_that_jump_and_steps_of_other_lengths(implicit_unit, tmp_path):
    one = Instance(implicit_unit, tmp_path)
    one.set("mass", 3.0)
    one.begin()
    one.slave.doStep(0.0, 7.3 * H)
    one.set("target", -0.5)
    one.slave.doStep(7.3 * H, 32 * H)
    angle = one.get("joint_positions.shoulder.angle")[0]
    assert angle == pytest.approx(after_a_jump("generalized-alpha", -0.5), rel=1e-9)
    assert abs(angle - after_a_jump("generalized-alpha", 0.5)) > 1e-3


@needs_compiler
@pytest.mark.exhaustive
@pytest.mark.parametrize("size", [1, 7, 0.3])
def test_communication_steps_are_multiples_and_parts_of_steps(size, implicit_unit, tmp_path):
    one = Instance(implicit_unit, tmp_path)
    one.begin()
    for k in range(20):
        one.slave.doStep(k * size * H, size * H)
    run = ph.simulate(arm(), "generalized-alpha", h=min(size, 1) * H, t1=20 * size * H, save_every=None)
    assert one.get("time") == [pytest.approx(20 * size * H, rel=1e-14)]
    angle, expected = one.get("joint_positions.shoulder.angle")[0], run.outputs["joint_positions"][-1, 0]
    assert angle == (expected if size >= 1 else pytest.approx(expected, rel=1e-6))


_CONTINUE = """
import sys
sys.path.insert(0, {folder!r})
import test_fmu
one = test_fmu.Instance({unit!r}, test_fmu.Path({place!r}))
one.begin()
data = open({data!r}, "rb").read()
one.slave.setFMUState(one.slave.deserializeFMUState(data))
one.slave.doStep(10 * test_fmu.H, 10 * test_fmu.H)
print(one.get("joint_positions.shoulder.angle")[0].hex())
"""


@needs_compiler
@pytest.mark.exhaustive
def test_a_hundred_instances_and_a_state_in_another_process(implicit_unit, tmp_path):
    instances = [Instance(implicit_unit, tmp_path / "one")]
    instances += [Instance(implicit_unit, tmp_path / "one") for _ in range(99)]
    for k, one in enumerate(instances):
        one.set("target", k / 100)
        one.begin()
    for step in range(10):
        for one in instances:
            one.slave.doStep(step * H, H)
    angles = [one.get("joint_positions.shoulder.angle")[0] for one in instances]
    assert np.all(np.diff(angles) > 0)
    middle = instances[50].slave
    data = tmp_path / "state"
    data.write_bytes(bytes(middle.serializeFMUState(middle.getFMUState())))
    middle.doStep(10 * H, 10 * H)
    code = _CONTINUE.format(
        folder=str(Path(__file__).parent), unit=str(implicit_unit), place=str(tmp_path / "two"), data=str(data)
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == instances[50].get("joint_positions.shoulder.angle")[0].hex()


_MAIN = """
#include "instance.h"
#include <stdio.h>
#include <stdlib.h>
void *fmi3InstantiateCoSimulation(const char *, const char *, const char *, bool, bool, bool, bool, const uint32_t *,
                                  size_t, void *, void *, void *);
int fmi3EnterInitializationMode(void *, bool, double, double, bool, double);
int fmi3ExitInitializationMode(void *);
int fmi3DoStep(void *, double, double, bool, bool *, bool *, bool *, double *);
int fmi3SetFloat64(void *, const uint32_t *, size_t, const double *, size_t);
int fmi3GetFloat64(void *, const uint32_t *, size_t, double *, size_t);
int fmi3GetFMUState(void *, void **);
int fmi3SetFMUState(void *, void *);
int fmi3FreeFMUState(void *, void **);
void fmi3FreeInstance(void *);
int main(void) {
  bool a, b, c;
  double last, value = 0.1, all[64];
  void *state = NULL, *u = fmi3InstantiateCoSimulation("x", MODEL_TOKEN, "", false, true, false, false, NULL, 0, NULL,
                                                       NULL, NULL);
  int bad = fmi3EnterInitializationMode(u, false, 0.0, 0.0, false, 0.0) | fmi3ExitInitializationMode(u);
  for (int k = 0; k < 100; ++k) {
    const uint32_t target = 2;
    value = -value;
    if (k % 10 == 0) { bad |= fmi3SetFloat64(u, &target, 1, &value, 1); }
    bad |= fmi3DoStep(u, k * 0.01, 0.01, true, &a, &b, &c, &last);
    for (uint32_t r = 0; r <= MODEL_VARIABLES; ++r) {
      size_t size = r == 0 ? 1 : variables[r - 1].size;
      bad |= fmi3GetFloat64(u, &r, 1, all, size);
    }
    if (k == 50) { bad |= fmi3GetFMUState(u, &state) | fmi3SetFMUState(u, state) | fmi3FreeFMUState(u, &state); }
  }
  fmi3FreeInstance(u);
  return bad;
}
"""


@needs_compiler
@pytest.mark.exhaustive
def test_sources_are_strict_and_sanitizers_find_nothing(implicit_unit, tmp_path):
    with zipfile.ZipFile(implicit_unit) as archive:
        archive.extractall(tmp_path)
    sources = tmp_path / "sources"
    strict = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off")
    for name in ("fmi3.c", "model.c", "equations.c"):
        subprocess.run([COMPILER, *strict, "-O1", "-c", name], check=True, cwd=sources)
    (sources / "main.c").write_text(_MAIN)
    flags = ("-std=c99", "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    subprocess.run(
        [COMPILER, *flags, "main.c", "fmi3.c", "model.c", "equations.c", "-o", "main", "-lm"], check=True, cwd=sources
    )
    subprocess.run([sources / "main"], check=True)


@needs_compiler
@pytest.mark.exhaustive
def test_units_of_the_version_before_have_the_same_bytes(tmp_path):
    unit = ph.export_code(
        arm(), "generalized-alpha", tmp_path / "arm.fmu", h=H, inputs="target", parameters="mass", name="arm", fmi="2.0"
    )
    assert validation.validate_fmu(str(unit)) == []
    names = ["joint_positions.shoulder.angle", "rotations.arm[1,3]"]
    given = {"mass": 3.0, "target": 0.5}
    rows = fmpy.simulate_fmu(
        str(unit), stop_time=1.0, step_size=8 * H, output_interval=8 * H, output=names, start_values=given
    )
    run = ph.simulate(arm().replace(mass=3.0), "generalized-alpha", h=H)
    np.testing.assert_allclose(rows[names[0]], run.outputs["joint_positions"][::8, 0], rtol=1e-12)
    np.testing.assert_allclose(rows[names[1]], run.outputs["rotations"][::8, 0, 0, 2], rtol=1e-12)
    run = ph.simulate(arm(), "generalized-alpha", h=H)
    rows = fmpy.simulate_fmu(str(unit), stop_time=1.0, step_size=8 * H, output_interval=8 * H, output=names)
    np.testing.assert_array_equal(rows[names[0]], run.outputs["joint_positions"][::8, 0])
    description = fmpy.read_model_description(str(unit))
    at = {v.name: v.valueReference for v in description.modelVariables}[names[0]]
    place = fmpy.extract(str(unit), str(tmp_path / "unit"))
    slave = fmpy.fmi2.FMU2Slave(guid=description.guid, unzipDirectory=place, modelIdentifier="arm", instanceName="one")
    slave.instantiate()
    slave.setupExperiment()
    slave.enterInitializationMode()
    slave.exitInitializationMode()
    slave.doStep(0.0, 10 * H)
    data = slave.serializeFMUstate(slave.getFMUstate())
    slave.doStep(10 * H, 10 * H)
    angle = slave.getReal([at])
    slave.setFMUstate(slave.deSerializeFMUstate(data))
    slave.doStep(10 * H, 10 * H)
    assert slave.getReal([at]) == angle == [run.outputs["joint_positions"][20, 0]]


@needs_compiler
@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_build_description_is_enough_for_others_to_compile_it(implicit_unit, tmp_path):
    """FMPy compiles the sources itself."""
    from fmpy.build import build_platform_binary

    folder = fmpy.extract(str(implicit_unit), str(tmp_path / "unit"))
    (library,) = (tmp_path / "unit" / "binaries").rglob("arm.*")
    before = Instance(implicit_unit, tmp_path / "mine")
    library.unlink()
    build_platform_binary(folder)
    assert library.exists()
    other = tmp_path / "other.fmu"
    with zipfile.ZipFile(other, "w") as archive:
        for path in (tmp_path / "unit").rglob("*"):
            archive.write(path, path.relative_to(tmp_path / "unit"))
    after = Instance(other, tmp_path / "theirs")
    for one in (before, after):
        one.begin()
        one.slave.doStep(0.0, 100 * H)
    assert after.get("joint_positions.shoulder.angle") == before.get("joint_positions.shoulder.angle")


@needs_compiler
@pytest.mark.exhaustive
def test_a_step_that_fails_is_discarded_with_its_reason(tmp_path):
    """An event that is terminal ends the run within a step; the state of the unit is the last good one."""
    stop = ph.Event(lambda t, state: t - 10.5 * H, terminal=True, name="stop")
    path = ph.export_code(arm(), "rkmk4", tmp_path / "arm.fmu", h=H, events=stop, name="arm")
    one = Instance(path, tmp_path / "unit")
    one.begin()
    one.slave.doStep(0.0, 10 * H)
    last = fmi3.c_double()
    flags = [fmi3.c_bool() for _ in range(3)]
    status = one.slave.dll.fmi3DoStep(one.slave.component, 10 * H, H, True, *map(ctypes.byref, (*flags, last)))
    assert (status, flags[1].value) == (2, True)
    assert last.value == one.get("time")[0]
    assert 10 * H <= last.value < 11 * H
