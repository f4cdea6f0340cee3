"""Units for model exchange, solved by CVODE of FMPy, have the motions of `simulate`, and exact derivatives."""

from __future__ import annotations

import shutil
import subprocess
import zipfile

import jax
import numpy as np
import pytest

import polhode as ph

fmpy = pytest.importorskip("fmpy")
validation = pytest.importorskip("fmpy.validation")

COMPILER = shutil.which("cc") or ""
H = 2.0**-8
TOLERANCE = 1e-9

needs_compiler = pytest.mark.skipif(not COMPILER, reason="there is no C compiler `cc`")


def body():
    """A free body that turns and is pushed."""
    model = ph.Model(gravity=(0, 0, -9.81))
    mass, torque = ph.Parameter("mass", 2.0), ph.Parameter("torque", 0.1)
    free = model.add_body(mass=mass, inertia=(0.1, 0.2, 0.3), angular_velocity=(3.0, 0.5, 0.1), name="body")
    model.add(ph.forces.Torque(free, (0, torque, 0)))
    return model.problem("SO3xR3", t1=1.0)


def pendulum(formulation="minimal"):
    """A pendulum with a motor."""
    model = ph.Model(gravity=(0, 0, -9.81))
    torque = ph.Parameter("torque", 0.0)
    arm = model.add_body(mass=1.0, inertia=(0.1, 0.1, 0.1), position=(0.5, 0, 0), name="arm")
    model.add(ph.joints.Revolute(model.ground, arm, point=(0, 0, 0), axis=(0, 1, 0), name="hinge"))
    model.add(ph.forces.Torque(arm, (0, torque, 0)))
    return model.problem(formulation, t1=1.0)


def solve(unit, output, tolerance=TOLERANCE, **arguments):
    """The values of an output by CVODE."""
    rows = fmpy.simulate_fmu(
        str(unit),
        fmi_type="ModelExchange",
        stop_time=1.0,
        output_interval=2.0**-5,
        relative_tolerance=tolerance,
        output=[output],
        **arguments,
    )
    # Rows at events are besides.
    grid = np.abs(rows["time"] * 32 - np.round(rows["time"] * 32)) < 1e-9
    times, first = np.unique(np.round(rows["time"][grid] * 32), return_index=True)
    assert len(times) == 33
    return rows[output][grid][first]


@needs_compiler
@pytest.mark.exhaustive
@pytest.mark.parametrize("fmi", ["3.0", "2.0"])
def test_a_solver_of_another_program_has_the_motion_of_a_run(fmi, tmp_path):
    unit = ph.export_code(
        pendulum(), "rkmk4", tmp_path / "arm.fmu", h=H, inputs="torque", name="arm", exchange=True, fmi=fmi
    )
    assert validation.validate_fmu(str(unit)) == []
    name = "joint_positions.hinge.angle"
    run = ph.simulate(pendulum(), "rkmk4", h=2.0**-10).outputs["joint_positions"][::32, 0]
    np.testing.assert_allclose(solve(unit, name), run, atol=100 * TOLERANCE)
    # An input that jumps, and the run that begins there.
    jump = np.array([(0.0, 0.0), (0.5, 0.0), (0.5, 2.0), (1.0, 2.0)], dtype=[("time", float), ("torque", float)])
    middle = jax.tree.map(lambda x: x[512], ph.simulate(pendulum(), "rkmk4", h=2.0**-10).state)
    pushed = ph.simulate(pendulum().replace(torque=2.0), "rkmk4", h=2.0**-10, t0=0.5, t1=1.0, state0=middle)
    last = pushed.outputs["joint_positions"][::32, 0]
    np.testing.assert_allclose(solve(unit, name, input=jump)[16:], last, atol=100 * TOLERANCE)
    assert abs(last[-1] - run[-1]) > 0.1


@needs_compiler
@pytest.mark.exhaustive
@pytest.mark.parametrize("fmi", ["3.0", "2.0"])
def test_impacts_happen_where_a_solver_ends_its_step(fmi, tmp_path):
    events = ph.events.impact(lambda t, state, system: 1.2 - state[0][0][0], restitution=0.7, rests_below=1e-3)
    unit = ph.export_code(
        pendulum(), "rkmk4", tmp_path / "hit.fmu", h=H, name="hit", exchange=True, events=events, fmi=fmi
    )
    assert validation.validate_fmu(str(unit)) == []
    run = ph.simulate(pendulum(), "rkmk4", h=2.0**-10, events=events)
    assert len(run.events) >= 1
    angle = run.outputs["joint_positions"][::32, 0]
    np.testing.assert_allclose(solve(unit, "joint_positions.hinge.angle"), angle, atol=100 * TOLERANCE)
    free = ph.simulate(pendulum(), "rkmk4", h=2.0**-10).outputs["joint_positions"][::32, 0]
    assert np.max(np.abs(free - angle)) > 0.1
    # One that ends the run.
    stop = ph.Event(lambda t, state: t - 0.4, terminal=True, name="stop")
    unit = ph.export_code(pendulum(), "rkmk4", tmp_path / "end.fmu", h=H, exchange=True, events=stop, fmi=fmi)
    rows = fmpy.simulate_fmu(str(unit), fmi_type="ModelExchange", stop_time=1.0, output_interval=2.0**-5)
    assert rows["time"][-1] == pytest.approx(0.4, abs=1e-9)


class Model:
    """An instance for model exchange."""

    def __init__(self, unit, folder, fmi="3.0"):
        description = fmpy.read_model_description(str(unit))
        place = fmpy.extract(str(unit), str(folder))
        self.variables = {v.name: v for v in description.modelVariables}
        self.at = {v.name: v.valueReference for v in description.modelVariables}
        kind = fmpy.fmi3.FMU3Model if fmi == "3.0" else fmpy.fmi2.FMU2Model
        token = description.instantiationToken if fmi == "3.0" else description.guid
        name = description.modelExchange.modelIdentifier
        self.slave = kind(guid=token, unzipDirectory=place, modelIdentifier=name, instanceName="one")
        self.slave.instantiate()
        self.count = description.numberOfContinuousStates

    def begin(self):
        self.slave.enterInitializationMode()
        self.slave.exitInitializationMode()
        flags = self.slave.updateDiscreteStates()
        self.slave.enterContinuousTimeMode()
        return flags

    def size(self, name):
        return int(np.prod(self.variables[name].shape, dtype=int))

    def get(self, *names):
        return np.array(self.slave.getFloat64([self.at[n] for n in names], nValues=sum(map(self.size, names))))

    def states(self):
        values = (fmpy.fmi3.c_double * self.count)()
        self.slave.getContinuousStates(values, self.count)
        return np.array(values)

    def set_states(self, values):
        self.slave.setContinuousStates((fmpy.fmi3.c_double * self.count)(*values), self.count)

    def refuses(self, call, *arguments):
        with pytest.raises(fmpy.fmi1.FMICallException):
            call(*arguments)


@needs_compiler
@pytest.mark.exhaustive
def test_rotations_go_back_to_their_space_and_functions_keep_to_their_modes(tmp_path):
    unit = ph.export_code(
        body(), "rkmk4", tmp_path / "body.fmu", h=H, inputs="torque", parameters="mass", name="body", exchange=True
    )
    assert validation.validate_fmu(str(unit)) == []
    run = ph.simulate(body(), "rkmk4", h=2.0**-10, t1=1.0)
    rotations = solve(unit, "rotations.body")
    np.testing.assert_allclose(rotations, run.outputs["rotations"][::32, 0], atol=1e-6)
    one = Model(unit, tmp_path / "unit")
    slave = one.slave
    one.refuses(slave.enterContinuousTimeMode)
    one.refuses(one.states)
    flags = one.begin()
    assert not any(flags[:5])
    one.refuses(slave.updateDiscreteStates)
    start = one.states()
    assert slave.completedIntegratorStep() == (False, False)
    away = start.copy()
    away[0] += 1e-3
    one.set_states(away)
    assert one.get("residuals.manifold")[0] > 1e-3
    assert slave.completedIntegratorStep() == (True, False)
    slave.enterEventMode()
    one.refuses(one.set_states, start)
    assert slave.updateDiscreteStates()[3] is True
    assert one.get("residuals.manifold")[0] < 1e-14
    slave.enterContinuousTimeMode()
    assert np.max(np.abs(one.states() - away)) < 2e-3
    # States of the unit, and those for co-simulation beside.
    one.set_states(start)
    kept = slave.getFMUState()
    one.set_states(away)
    slave.setFMUState(kept)
    np.testing.assert_array_equal(one.states(), start)
    slave.terminate()
    one.refuses(slave.setTime, 1.0)
    rows = fmpy.simulate_fmu(
        str(unit), fmi_type="CoSimulation", stop_time=1.0, step_size=8 * H, output_interval=8 * H, output=["states.v"]
    )
    expected = ph.simulate(body(), "rkmk4", h=H, t1=1.0)
    np.testing.assert_array_equal(rows["states.v"], np.asarray(expected.state[1])[::8])


@needs_compiler
@pytest.mark.exhaustive
def test_directional_and_adjoint_derivatives(tmp_path):
    """Against differences of the unit, and against JAX."""
    problem = body()
    unit = ph.export_code(
        problem,
        "rkmk4",
        tmp_path / "body.fmu",
        h=H,
        inputs="torque",
        parameters="mass",
        exchange=True,
        derivatives=("along", "back"),
    )
    assert validation.validate_fmu(str(unit)) == []
    one = Model(unit, tmp_path / "unit")
    one.begin()
    states = [name for name in one.at if name.startswith("states.")]
    rates, outputs = [f"der({name})" for name in states], ["rotations.body", "velocities.body", "kinetic_energy"]
    unknowns, knowns = [*rates, *outputs], [*states, "torque"]
    start = one.states()
    generator = np.random.default_rng(2)
    v = generator.normal(size=len(start) + 1)

    def at(step):
        one.slave.setFloat64([one.at["torque"]], [0.1 + step * v[-1]])
        one.set_states(start + step * v[:-1])
        return one.get(*unknowns)

    differences = (at(1e-5) - at(-1e-5)) / 2e-5
    values = at(0.0)
    sizes = len(values)
    seen = [[one.at[name] for name in names] for names in (unknowns, knowns)]
    along = np.array(one.slave.getDirectionalDerivative(*seen, v.tolist(), sizes))
    np.testing.assert_allclose(along, differences, atol=1e-8 * np.max(np.abs(along)))
    w = generator.normal(size=sizes)
    back = np.array(one.slave.getAdjointDerivative(*seen, w.tolist(), len(v)))
    assert back @ v == pytest.approx(w @ along, rel=1e-12)
    # JAX differentiates the model itself, also with respect to what is fixed in a run.
    state = problem.state0

    def field(mass, torque, state):
        system = problem.replace(mass=mass, torque=torque).system
        velocity = system.velocity(0.0, state)
        return jax.jvp(lambda s: system.state_space.move(state, s * velocity), (0.0,), (1.0,))[1]

    leaves, structure = jax.tree.flatten(state)
    parts = np.split(v[:-1], np.cumsum([np.size(x) for x in leaves])[:-1])
    change = structure.unflatten([x.reshape(np.shape(y)) for x, y in zip(parts, leaves, strict=True)])
    _, exact = jax.jvp(field, (2.0, 0.1, state), (0.7, v[-1], change))
    flat = np.concatenate([np.ravel(x) for x in jax.tree.leaves(exact)])
    seed = [one.at[name] for name in [*knowns, "mass"]]
    mine = one.slave.getDirectionalDerivative(seen[0][: len(rates)], seed, [*v, 0.7], len(start))
    np.testing.assert_allclose(mine, flat, atol=1e-13 * np.max(np.abs(flat)))
    assert np.max(np.abs(flat)) > 0.1
    # What is no argument, no result, or has another size.
    one.refuses(one.slave.getDirectionalDerivative, seen[1], seen[0], w.tolist(), len(v))
    one.refuses(one.slave.getDirectionalDerivative, *seen, v.tolist(), sizes - 1)
    one.refuses(one.slave.getAdjointDerivative, *seen, w.tolist()[1:], len(v))


@needs_compiler
@pytest.mark.exhaustive
def test_derivatives_of_outputs_of_units_for_co_simulation_and_of_the_version_before(tmp_path):
    unit = ph.export_code(
        pendulum(), "rkmk4", tmp_path / "a.fmu", h=H, inputs="torque", exchange=True, derivatives="along", fmi="2.0"
    )
    assert validation.validate_fmu(str(unit)) == []
    one = Model(unit, tmp_path / "unit", "2.0")
    one.slave.setupExperiment()
    one.slave.enterInitializationMode()
    one.slave.exitInitializationMode()
    one.slave.newDiscreteStates()
    one.slave.enterContinuousTimeMode()
    rate = one.at["der(states.v[1])"]
    change = one.slave.getReal([rate])[0]
    one.slave.setReal([one.at["torque"]], [1.0])
    (slope,) = one.slave.getDirectionalDerivative([rate], [one.at["torque"]], [1.0])
    assert slope == pytest.approx(one.slave.getReal([rate])[0] - change, rel=1e-12)
    assert slope == pytest.approx(1 / (0.1 + 0.25), rel=1e-12)
    unit = ph.export_code(pendulum(), "rkmk4", tmp_path / "b.fmu", h=H, inputs="torque", derivatives="along")
    description = fmpy.read_model_description(str(unit))
    at = {v.name: v.valueReference for v in description.modelVariables}
    assert description.modelExchange is None
    assert "states.v" not in at
    place = fmpy.extract(str(unit), str(tmp_path / "other"))
    slave = fmpy.fmi3.FMU3Slave(
        guid=description.instantiationToken,
        unzipDirectory=place,
        modelIdentifier=description.coSimulation.modelIdentifier,
        instanceName="one",
    )
    slave.instantiate()
    slave.enterInitializationMode()
    slave.exitInitializationMode()
    slave.doStep(0.0, 5 * H)
    # Poses at a communication point don't depend on loads there.
    assert slave.getDirectionalDerivative([at["positions.arm"]], [at["torque"]], [1.0], 3) == [0.0] * 3
    with pytest.raises(fmpy.fmi1.FMICallException):
        slave.getAdjointDerivative([at["positions.arm"]], [at["torque"]], [1.0] * 3, 1)


_MAIN = """
#include "instance.h"
void *fmi3InstantiateModelExchange(const char *, const char *, const char *, bool, bool, void *, void *);
int fmi3EnterInitializationMode(void *, bool, double, double, bool, double);
int fmi3ExitInitializationMode(void *);
int fmi3UpdateDiscreteStates(void *, bool *, bool *, bool *, bool *, bool *, double *);
int fmi3EnterEventMode(void *);
int fmi3EnterContinuousTimeMode(void *);
int fmi3CompletedIntegratorStep(void *, bool, bool *, bool *);
int fmi3GetContinuousStates(void *, double *, size_t);
int fmi3SetContinuousStates(void *, const double *, size_t);
int fmi3GetContinuousStateDerivatives(void *, double *, size_t);
int fmi3GetEventIndicators(void *, double *, size_t);
int fmi3SetTime(void *, double);
int fmi3GetDirectionalDerivative(void *, const uint32_t *, size_t, const uint32_t *, size_t, const double *, size_t,
                                 double *, size_t);
int fmi3GetAdjointDerivative(void *, const uint32_t *, size_t, const uint32_t *, size_t, const double *, size_t,
                             double *, size_t);
void fmi3FreeInstance(void *);
int main(void) {
  bool a, b, c, d, e;
  double next, x[MODEL_STATES], rate[MODEL_STATES], z[MODEL_INDICATORS + 1], in[64] = {1.0}, out[64];
  void *u = fmi3InstantiateModelExchange("x", MODEL_TOKEN, "", false, true, NULL, NULL);
  int bad = fmi3EnterInitializationMode(u, true, 1e-4, 0.0, false, 0.0) | fmi3ExitInitializationMode(u);
  uint32_t state = 0, derivative = 0;
  for (uint32_t r = MODEL_VARIABLES; r > 0; --r) {
    if (variables[r - 1].kind == STATE) { state = r; }
    if (variables[r - 1].kind == RATE) { derivative = r; }
  }
  const size_t size = variables[state - 1].size;
  bad |= fmi3UpdateDiscreteStates(u, &a, &b, &c, &d, &e, &next) | fmi3EnterContinuousTimeMode(u);
  for (int k = 1; k <= 200; ++k) {
    bad |= fmi3GetContinuousStates(u, x, MODEL_STATES) | fmi3GetContinuousStateDerivatives(u, rate, MODEL_STATES);
    for (int i = 0; i < MODEL_STATES; ++i) { x[i] += 0.005 * rate[i]; }
    bad |= fmi3SetTime(u, 0.005 * k) | fmi3SetContinuousStates(u, x, MODEL_STATES);
    bad |= fmi3GetEventIndicators(u, z, MODEL_INDICATORS);
    bad |= fmi3CompletedIntegratorStep(u, true, &a, &b);
    if (a || (MODEL_INDICATORS > 0 && z[0] < 0.0)) {
      bad |= fmi3EnterEventMode(u) | fmi3UpdateDiscreteStates(u, &a, &b, &c, &d, &e, &next);
      bad |= fmi3EnterContinuousTimeMode(u);
    }
    bad |= fmi3GetDirectionalDerivative(u, &derivative, 1, &state, 1, in, size, out, size);
    bad |= fmi3GetAdjointDerivative(u, &derivative, 1, &state, 1, in, size, out, size);
  }
  fmi3FreeInstance(u);
  return bad;
}
"""


@needs_compiler
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["rotations", "impacts"])
def test_sources_are_strict_and_sanitizers_find_nothing(name, tmp_path, monkeypatch):
    impact = ph.events.impact(lambda t, state, system: 1.2 - state[0][0][0], restitution=0.7, rests_below=1e-3)
    problem, events = (body(), ()) if name == "rotations" else (pendulum(), impact)
    monkeypatch.setattr("polhode.code_export.c_compiler.find", lambda: None)
    both = ("along", "back")
    unit = ph.export_code(
        problem, "rkmk4", tmp_path / "x.fmu", h=H, inputs="torque", exchange=True, events=events, derivatives=both
    )
    with zipfile.ZipFile(unit) as archive:
        archive.extractall(tmp_path)
    sources = tmp_path / "sources"
    strict = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off")
    for file in ("fmi3.c", "model.c", "equations.c"):
        subprocess.run([COMPILER, *strict, "-O1", "-c", file], check=True, cwd=sources)
    (sources / "main.c").write_text(_MAIN)
    flags = ("-std=c99", "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    files = ("main.c", "fmi3.c", "model.c", "equations.c")
    subprocess.run([COMPILER, *flags, *files, "-o", "main", "-lm"], check=True, cwd=sources)
    subprocess.run([sources / "main"], check=True)


def test_what_solvers_of_others_cannot_follow_is_refused(tmp_path):
    def refused(match, problem, method="rkmk4", file="x.fmu", **arguments):
        with pytest.raises(ValueError, match=match):
            ph.export_code(problem, method, tmp_path / file, h=H, **arguments)
        assert not list(tmp_path.iterdir())

    top = ph.problems.get("heavy-top")
    refused("`exchange` is for units", top, file="x.c", exchange=True)
    refused("`exchange` must be True or False", top, exchange="yes")
    refused("don't keep the constraints .*Leave out `exchange`", pendulum("SO3xR3"), exchange=True)
    refused('FMI 2.0 has no derivatives "back"', top, derivatives="back", fmi="2.0")
