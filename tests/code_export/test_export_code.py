"""Exported steps, compiled by the system's compiler, have the bytes of `simulate`."""

from __future__ import annotations

import ctypes
import dataclasses
import re
import shutil
import subprocess

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

import polhode as ph
from polhode.cli import app
from polhode.code_export import c_compiler

COMPILER = shutil.which("cc") or ""
STRICT = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off")
STATE = 5
"""Numbers before the state: the start of the grid and its spacing, the number of the step, time and step."""

needs_compiler = pytest.mark.skipif(not COMPILER, reason="there is no C compiler `cc`")


class Exported:
    """An exported step, compiled."""

    def __init__(self, folder, problem, method, h, *options, **arguments):
        self.source = ph.export_code(problem, method, folder / "model.c", h=h, name="model", **arguments)
        self.header = self.source.with_suffix(".h").read_text()
        self.library = folder / f"model{len(list(folder.iterdir()))}.so"
        flags = (*STRICT, *options, "-fPIC", "-shared", "-fstack-usage")
        subprocess.run([COMPILER, *flags, self.source, "-o", self.library, "-lm"], check=True, cwd=folder)
        self.functions = ctypes.CDLL(str(self.library))
        self.values = [(ctypes.c_double * 50)(), (ctypes.c_double * 50)()][: "inputs" in arguments]
        self.values += [] if "parameters" not in arguments else [(ctypes.c_double * 50)()]

    def call(self, name, *arguments):
        return getattr(self.functions, f"model_{name}")(*self.values, *arguments)

    def start(self, t0=0.0):
        carry = (ctypes.c_int64 * 500_000)()
        assert self.call("start", ctypes.c_double(t0), carry) == 0
        return carry

    def steps(self, carry, count):
        for _ in range(count):
            assert self.call("step", carry) == 0

    def read(self, carry):
        labels = re.search(r"output_names\[.*?\] = \{(.*?)\};", self.source.read_text(), re.DOTALL)
        names, out = re.findall(r'"(.*?)"', labels[1]), (ctypes.c_double * 100_000)()
        self.call("read", carry, out)
        return dict(zip(names, out, strict=False))

    @property
    def stack(self):
        return int(re.search(r"at most (\d+) bytes", self.header)[1])


def last(solution):
    """The last state, as its bytes."""
    return b"".join(np.ascontiguousarray(np.asarray(x)[-1]).tobytes() for x in jax.tree.leaves(solution.state))


def state_of(carry, size):
    return np.frombuffer(carry, np.int64)[STATE : STATE + size // 8].tobytes()


def check_bytes(folder, problem, method=None, h=2.0**-10, count=200, options=("-O1",), **arguments):
    """The exported step against the run; returns both."""
    t0 = float(problem.t_span[0])
    run = ph.simulate(problem, method, h=h, t0=t0, t1=t0 + count * h, save_every=None, **arguments)
    assert float(run.meta["h"]) == h
    step = Exported(folder, problem, method, h, *options, **arguments)
    carry, expected = step.start(t0), last(run)
    assert state_of(carry, len(expected)) != expected
    step.steps(carry, count)
    assert state_of(carry, len(expected)) == expected
    return step, carry, run


@needs_compiler
def test_a_top_has_the_bytes_of_its_run_and_its_outputs(tmp_path):
    # Its name must end neither the comment nor the string that it is part of.
    top = dataclasses.replace(ph.problems.get("heavy-top"), name='a "top" */\n\\')
    step, carry, run = check_bytes(tmp_path, top, "rkmk4", options=("-O2",))
    assert step.header.startswith("/* a _top_ ")
    outputs = step.read(carry)
    assert outputs["invariants_energy"] == pytest.approx(run.invariants["energy"][-1], rel=1e-13)
    assert outputs["centre_of_mass[2]"] == pytest.approx(run.outputs["centre_of_mass"][-1, 2], rel=1e-13)
    assert outputs["residuals_manifold"] == pytest.approx(float(run.residuals["manifold"][-1]), abs=1e-14)
    # Two models at once don't disturb each other.
    first, second = step.start(), step.start()
    for _ in range(3):
        step.steps(first, 50)
        step.steps(second, 20)
    step.steps(first, 50)
    step.steps(second, 140)
    assert bytes(first) == bytes(second)
    # Begun elsewhere in time, the same motion.
    later = step.start(2.0)
    step.steps(later, 200)
    state = slice(8 * STATE, 8 * STATE + 96)
    np.testing.assert_array_equal(np.frombuffer(bytes(later)[state]), np.frombuffer(bytes(first)[state]))
    symbols = subprocess.run(["nm", "-D", "--undefined-only", step.library], capture_output=True, text=True, check=True)
    assert not {"malloc", "calloc", "realloc", "free"} & set(re.findall(r"\w+", symbols.stdout))
    frames = [int(line.split("\t")[1]) for path in tmp_path.glob("*.su") for line in path.read_text().splitlines()]
    assert max(frames) < sum(frames) <= step.stack


def arm(formulation="minimal"):
    """A pendulum with a motor."""
    model = ph.Model(gravity=(0, 0, -9.81))
    length, torque = ph.Parameter("length", 1.0), ph.Parameter("torque", 0.0)
    body = model.add_body(
        mass=ph.Parameter("mass", 1.0), inertia=(0.1, 0.1, 0.1), position=(length / 2, 0, 0), name="arm"
    )
    model.add(ph.joints.Revolute(model.ground, body, point=(0, 0, 0), axis=(0, 1, 0), name="hinge"))
    model.add(ph.forces.Torque(body, (0, torque, 0)))
    return model.problem(formulation, t1=1.0)


@needs_compiler
@pytest.mark.exhaustive
def test_parameters_and_inputs_have_the_bytes_of_a_run_with_their_values(tmp_path):
    problem, h = arm(), 2.0**-10
    step = Exported(tmp_path, problem, "generalized-alpha", h, "-O1", inputs="torque", parameters=["mass", "length"])
    parameters, inputs = step.values = [(ctypes.c_double * 2)(2.5, 0.7), (ctypes.c_double * 1)(0.3)]

    def run(torque, **where):
        other = problem.replace(mass=2.5, length=0.7, torque=torque)
        return ph.simulate(other, "generalized-alpha", h=h, save_every=None, **where)

    first = run(0.3, t1=100 * h)
    carry, expected = step.start(), last(first)
    step.steps(carry, 100)
    assert state_of(carry, len(expected)) == expected
    # An input that jumps, and the run that begins there.
    inputs[0] = -0.5
    step.call("jump", carry)
    step.steps(carry, 100)
    second = run(-0.5, t0=100 * h, t1=200 * h, state0=jax.tree.map(lambda x: x[-1], first.state))
    assert state_of(carry, len(expected)) == last(second)
    assert last(second) != last(run(0.3, t0=100 * h, t1=200 * h, state0=jax.tree.map(lambda x: x[-1], first.state)))
    assert parameters[0] == 2.5


@needs_compiler
@pytest.mark.exhaustive
@pytest.mark.parametrize(("method", "formulation"), [("rkmk4", "minimal"), ("generalized-alpha", "SO3xR3")])
def test_derivatives_of_a_step(method, formulation, tmp_path):
    """They are differences of the exported step itself, and those back are those along transposed."""
    step = Exported(
        tmp_path,
        arm(formulation),
        method,
        2.0**-6,
        "-O1",
        inputs="torque",
        parameters=["mass", "length"],
        derivatives=("along", "back"),
    )
    base = np.array([1.3, 0.7, 0.3])
    step.values = [(ctypes.c_double * 2)(*base[:2]), (ctypes.c_double * 1)(*base[2:])]
    carry = step.start()
    step.steps(carry, 5)
    members = re.search(r"typedef struct \{([^}]*)\} model_state", step.header)[1].split(";")[:-1]
    count = sum(np.prod([int(n) for n in re.findall(r"\[(\d+)\]", each)], dtype=int) for each in members)
    state, whole = slice(STATE, STATE + count), len(carry)

    def changed(change):
        """The state after a step, with other parameters, inputs and state before."""
        values = base + change[:3]
        step.values = [(ctypes.c_double * 2)(*values[:2]), (ctypes.c_double * 1)(*values[2:])]
        other = type(carry).from_buffer_copy(carry)
        np.frombuffer(other)[state] += change[3:]
        step.steps(other, 1)
        return np.frombuffer(other)[state].copy()

    generator = np.random.default_rng(1)
    v, w = generator.normal(size=3 + count), generator.normal(size=count)
    differences = (changed(1e-5 * v) - changed(-1e-5 * v)) / 2e-5
    changed(np.zeros(3 + count))
    seeds = [(ctypes.c_double * 2)(*v[:2]), (ctypes.c_double * 1)(*v[2:3])]
    seed, after, before = ((ctypes.c_double * whole)() for _ in range(3))
    np.frombuffer(seed)[state] = v[3:]
    step.call("step_along", carry, *seeds, seed, after)
    along = np.frombuffer(after)[state].copy()
    np.testing.assert_allclose(along, differences, atol=1e-7 * np.max(np.abs(differences)))
    assert np.max(np.abs(along - v[3:])) > 1e-3
    np.frombuffer(seed)[state] = w
    gradients = [(ctypes.c_double * 2)(), (ctypes.c_double * 1)()]
    step.call("step_back", carry, seed, *gradients, before)
    back = np.concatenate([*map(np.frombuffer, gradients), np.frombuffer(before)[state]])
    assert back @ v == pytest.approx(w @ along, rel=1e-11)


@needs_compiler
@pytest.mark.exhaustive
def test_arrays_become_loops(tmp_path):
    step, *_ = check_bytes(tmp_path, ph.problems.get("torus"), h=2.0**-13, count=20, options=("-O0",))
    assert "for (int64_t" in step.source.read_text()
    assert len(step.source.read_text()) < 1_000_000


@needs_compiler
@pytest.mark.exhaustive
def test_events_of_the_model_happen_within_steps(tmp_path):
    events = ph.events.impact(lambda t, state, system: 1.2 - state[0][0][0], restitution=0.7, rests_below=1e-3)
    _, _, run = check_bytes(tmp_path, arm(), "rkmk4", 2.0**-8, options=("-O0",), events=events)
    assert len(run.events) == 1


def refused(match, tmp_path, problem, method=None, h=1e-3, file="x.c", **arguments):
    with pytest.raises(ValueError, match=match):
        ph.export_code(problem, method, tmp_path / file, h=h, **arguments)
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_exported_is_refused_by_name_with_a_remedy(tmp_path):
    top = ph.problems.get("heavy-top")
    refused("`derivatives` must be", tmp_path, top, derivatives="forward")
    refused("`derivatives` must be a list", tmp_path, top, derivatives=None)
    refused("`fmi` is the version of a unit", tmp_path, top, fmi="2.0")
    refused("must end in .c, .so", tmp_path, top, file="x.zip")
    refused("`h` must be positive", tmp_path, top, h=-1.0)
    refused("Did you mean `mass`", tmp_path, top, parameters=["masss"])
    refused("'formulation' .* no number", tmp_path, top, parameters=["formulation"])
    refused("'mass' is named twice", tmp_path, top, parameters=["mass"], inputs="mass")
    refused("Did you mean `axis`", tmp_path, top, outputs=["axes"])
    refused("`name` must be a word that C takes", tmp_path, top, name="2-top")
    refused("`problem` must be a Problem", tmp_path, top.system)
    refused("t = 2.5, 5, .* name it in `inputs`", tmp_path, ph.problems.get("flying-spaghetti", n=2))
    rests = ph.events.impact(lambda t, state, system: 1.2 - state[0][0][0])
    refused("may come to rest.*`rests_below`", tmp_path, arm(), "rkmk4", events=rests)
    change = ph.Event(lambda t, state: state[0][0][0] - 1.2, change=lambda t, state, system: system, name="switch")
    refused("`switch` changes the system.*`inputs`", tmp_path, arm(), "rkmk4", events=change)
    push = ph.Event(lambda t, state: t - 0.1, lambda t, state: (state[0], np.array(state[1])), name="push")
    refused("action of event `push` can't be traced.*TracerArray.*jax.numpy", tmp_path, top, "rkmk4", events=push)
    refused("`bdf` can't take this VectorField.*Integrators for it", tmp_path, top, "bdf")
    refused("Of duration .* can stay free: `t1` is traced", tmp_path, top, "rkmk4", parameters="duration")


def test_missing_folders_and_compilers_are_named_before_anything_is_computed(tmp_path, monkeypatch):
    top = ph.problems.get("heavy-top")
    monkeypatch.setattr("polhode.code_export.export_code.ExportedStep", None)
    for file in ("none/x.c", "none/x.so", "none/x.fmu"):
        with pytest.raises(FileNotFoundError, match=r"no folder `.*none`"):
            ph.export_code(top, None, tmp_path / file, h=1e-3)
    monkeypatch.setenv("CC", "no-such-compiler -O3")
    refused("no C compiler `no-such-compiler -O3`.*ends in .c", tmp_path, top, file="x.so")
    monkeypatch.setenv("CC", "cc 'quoted")
    refused("CC of the environment is no command.*No closing quotation", tmp_path, top, file="x.so")
    monkeypatch.setenv("CC", " ")
    assert c_compiler.find() == ("cc" if COMPILER else None)


@pytest.mark.exhaustive
def test_functions_that_call_python_are_refused(tmp_path):
    model = ph.Model()
    body = model.add_body(mass=1.0, inertia=(1.0, 1.0, 1.0), name="body")
    shape = jax.ShapeDtypeStruct((3,), float)
    model.add(ph.forces.Torque(body, lambda t: jax.pure_callback(lambda t: np.zeros(3), shape, t)))
    refused("there is no C for pure_callback.*without callbacks", tmp_path, model.problem(t1=1.0))


@needs_compiler
def test_the_command_writes_a_program_that_prints_outputs(tmp_path):
    file = tmp_path / "top.c"
    words = CliRunner().invoke(app, ["code", "heavy-top", "--method", "rkmk4", "--step", "0.001", "--out", str(file)])
    assert words.exit_code == 0, words.stderr
    program = tmp_path / "top"
    subprocess.run([COMPILER, *STRICT, "-DHEAVY_TOP_MAIN", file, "-o", program, "-lm"], check=True)
    table = subprocess.run([program, "20", "10"], capture_output=True, text=True, check=True).stdout.splitlines()
    assert table[0].split(",")[:2] == ["t", "angular_velocity[0]"]
    assert [row.split(",")[0] for row in table[1:]] == ["0", "0.01", "0.02"]
    wrong = CliRunner().invoke(app, ["code", "heavy-top", "--out", "top.zip"])
    assert wrong.exit_code == 2


# --- long ones --------------------------------------------------------------------------------------------------------

MODELS = ("pendulum-3d", "steady-precession")


def model_for(method):
    """A problem that a method takes."""
    quadratic = ph.problems.get("heavy-top", formulation="quadratic")
    first = ph.problems.get("heavy-top"), arm("SO3xR3"), *map(ph.problems.get, MODELS)
    for problem in (*first, quadratic, arm(), with_stops()):
        if any(row.suited and row.name == method for row in ph.integrators.suited(problem.system, problem.state0)):
            return problem
    raise AssertionError(f"no model for {method}")


def with_stops():
    """An arm whose joint has rigid stops."""
    model = ph.Model(gravity=(0, 0, -9.81))
    body = model.add_body(mass=1.0, inertia=(0.1, 0.1, 0.1), position=(0.5, 0, 0), name="arm")
    hinge = model.add(ph.joints.Revolute(model.ground, body, point=(0, 0, 0), axis=(0, 1, 0), name="hinge"))
    model.add(ph.forces.JointStops(hinge, (-2.0, 1.0), restitution=0.5))
    return model.problem(t1=2.0)


@needs_compiler
@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ph.integrators.names())
def test_every_method_has_the_bytes_of_its_run(method, tmp_path):
    check_bytes(tmp_path, model_for(method), method)


def dropped(shape):
    """A body that falls on the floor, slides and rolls."""
    model = ph.Model(gravity=(0, 0, -9.81))
    motion = {"velocity": (1.0, 0.2, -1.0), "angular_velocity": (1.0, 2.0, 0.5)}
    model.add_body(mass=1.0, inertia=(0.01, 0.012, 0.015), position=(0, 0, 0.3), shape=shape, name="body", **motion)
    model.ground.add_shape(ph.shapes.Plane())
    model.contacts(friction=0.5, restitution=0.3)
    return model.problem("SO3xR3", t1=1.0)


LARGE = {
    "slider-crank": lambda: (ph.problems.get("slider-crank"), "generalized-alpha"),
    "four bars": lambda: (ph.problems.get("planar-four-bar"), "herk4"),
    "puma": lambda: (ph.problems.get("puma"), "generalized-alpha"),
    "rod": lambda: (ph.problems.get("whirling-cable", n=12), None),
    "grains": lambda: (ph.problems.get("grain-pile"), None),
    "stops": lambda: (with_stops(), "moreau"),
    "ball": lambda: (dropped(ph.shapes.Sphere(0.1)), "moreau"),
    "box": lambda: (dropped(ph.shapes.Box((0.2, 0.3, 0.4))), "moreau"),
}


@needs_compiler
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("level", ["-O1", "-O2"])
def test_large_models_have_the_bytes_of_their_runs(name, level, tmp_path):
    problem, method = LARGE[name]()
    h = 2.0**-14 if method is None else 2.0**-10
    check_bytes(tmp_path, problem, method, h, options=(level,))


_DERIVATIVES = """
#include "model.h"
#include <string.h>
int main(void) {
  model_parameters p = model_default_parameters, d_p = {1.0, 1.0}, g_p;
  model_inputs u = model_default_inputs, d_u = {1.0}, g_u;
  model_carry carry, seed, next;
  int32_t bad = model_start(&p, &u, 0.0, &carry);
  memset(&seed, 0, sizeof seed);
  for (int n = 0; n < 200 && !bad; ++n) {
    model_step_along(&p, &u, &carry, &d_p, &d_u, &seed, &next);
    bad = model_step(&p, &u, &carry);
    seed = next;
    model_step_back(&p, &u, &carry, &seed, &g_p, &g_u, &next);
  }
  return bad;
}
"""


@needs_compiler
@pytest.mark.exhaustive
@pytest.mark.parametrize(("method", "formulation"), [("rkmk4", "minimal"), ("generalized-alpha", "SO3xR3")])
def test_sanitizers_find_nothing_in_derivatives(method, formulation, tmp_path):
    file, free = tmp_path / "model.c", {"inputs": "torque", "parameters": ["mass", "length"]}
    ph.export_code(arm(formulation), method, file, h=1e-3, name="model", derivatives=("along", "back"), **free)
    (tmp_path / "main.c").write_text(_DERIVATIVES)
    flags = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    files = (tmp_path / "main.c", file)
    subprocess.run([COMPILER, *STRICT, *flags, *files, "-o", tmp_path / "program", "-lm"], check=True)
    subprocess.run([tmp_path / "program"], check=True)


@needs_compiler
@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["rkmk4", "generalized-alpha", "moreau"])
def test_sanitizers_find_nothing(method, tmp_path):
    file = tmp_path / "model.c"
    ph.export_code(with_stops() if method == "moreau" else arm("SO3xR3"), method, file, h=1e-3, name="model")
    program, flags = tmp_path / "model", ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    subprocess.run([COMPILER, *STRICT, *flags, "-DMODEL_MAIN", file, "-o", program, "-lm"], check=True)
    table = subprocess.run([program, "500"], capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(table) == 502
