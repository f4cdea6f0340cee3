"""Reverse derivatives of runs outside `jit`: by machine code, against the same as an expression of JAX."""

from __future__ import annotations

import contextlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode.simulation.derivatives import checkpointed_run, run_derivative
from polhode.simulation.loops import traced

# Some are compared with those of JAX, by XLA.
pytestmark = pytest.mark.filterwarnings("ignore:XLA compiles this derivative:polhode.CompileTimeWarning")

START = jnp.array([15.0, 9.81, 1.0])


@pytest.fixture
def expressions(monkeypatch):
    """How often a run became an expression of JAX."""
    count = []
    original = traced._expression

    def counting(*arguments):
        count.append(1)
        return original(*arguments)

    monkeypatch.setattr(traced, "_expression", counting)
    return count


def weighed(frames):
    """A number that depends on every number of a tree."""
    leaves = jax.tree.leaves(frames)
    return sum(jnp.sum(jnp.sin(jnp.arange(x.size).reshape(x.shape) + 1.0) * x) for x in leaves)


def top(values, integrator="rkmk4", **how):
    """All frames of a heavy top, from its mass, gravity, length and spin."""
    problem = ph.problems.get("heavy-top", formulation="S3")
    q, omega = problem.state0
    changed = problem.replace(mass=values[0], gravity=values[1], length=values[2])
    return ph.simulate(changed, integrator, state0=(q, omega * values[2]), **{"h": 2e-3, "t1": 0.03, **how})


@pytest.mark.exhaustive
def test_gradient_of_everything_saved_equals_that_of_the_expression(expressions):
    def function(values):
        run = top(values, "lie-euler", save_every=4)
        return weighed((run.state, run.outputs, run.invariants))

    native = jax.grad(function)(START)
    assert not expressions
    np.testing.assert_allclose(native, jax.jit(jax.grad(function))(START), rtol=1e-10)
    assert expressions


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "how",
    [
        {"save_at": [0.0, 0.0103, 0.02, 0.03]},
        {"integrator": "rkmk54", "h": None, "rtol": 1e-7, "save_every": None, "max_steps": 32},
        {"integrator": "rkmk54", "h": None, "rtol": 1e-7, "save_at": [0.0, 0.0103, 0.03], "max_steps": 32},
        {"breakpoints": [0.0071, 0.02]},
        {"t0": 0.03, "t1": 0.0, "save_every": 4},
    ],
    ids=["at times", "controlled", "controlled, at times", "breakpoints", "backward in time"],
)
def test_every_way_of_stepping_and_saving_has_the_gradient_of_the_expression(how, expressions):
    function = lambda values: weighed(top(values, **how).state)  # noqa: E731
    native, forward = jax.grad(function)(START), jax.jacfwd(function)(START)
    assert not expressions
    np.testing.assert_allclose(native, jax.jit(jax.grad(function))(START), rtol=1e-10)
    np.testing.assert_allclose(forward, native, rtol=1e-10)


@pytest.mark.exhaustive
def test_several_derivatives_at_once_are_those_one_after_the_other(expressions):
    ends = lambda values: top(values, "lie-euler", save_every=None).outputs["axis"][-1]  # noqa: E731
    rows = jnp.stack([jax.grad(lambda values, k=k: ends(values)[k])(START) for k in range(3)])
    np.testing.assert_allclose(jax.jacrev(ends)(START), rows, rtol=1e-10)
    np.testing.assert_allclose(jax.jacfwd(ends)(START), rows, rtol=1e-10)
    assert not expressions


@pytest.mark.exhaustive
def test_derivatives_along_a_direction_are_those_of_differences(expressions):
    """Of every state, output and invariant of a run with error control and times to save, with its steps held fixed."""
    way = jnp.array([1.0, -2.0, 0.3])

    def function(values, integrator="rkmk54", **how):
        run = top(values, integrator, **{"save_at": [0.0, 0.0103, 0.02, 0.03], **how})
        return weighed((run.state, run.outputs, run.invariants))

    _, slope = jax.jvp(lambda values: function(values, h=None, rtol=1e-10, max_steps=64), (START,), (way,))
    assert not expressions
    e = 1e-4
    ends = [function(START + sign * e * way, "rkmk6", h=2e-4) for sign in (1, -1)]
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * e), rtol=1e-6)


@pytest.mark.exhaustive
def test_derivatives_in_batches_are_those_one_by_one():
    """Values that differ from row to row are not known, so that this is an expression."""
    slope = jax.grad(lambda values: weighed(top(values, "lie-euler", h=0.01, save_every=None).state))
    several = jnp.stack((START, 1.1 * START))
    np.testing.assert_allclose(jax.vmap(slope)(several), jnp.stack(list(map(slope, several))), rtol=1e-10)


def test_gradient_of_what_does_not_depend_on_anything_is_zero(expressions):
    assert jax.grad(lambda x: x * 0 + weighed(top(START).state))(1.0) == 0
    assert not expressions


@pytest.mark.exhaustive
def test_values_under_a_gradient_are_those_of_the_run():
    value, _ = jax.value_and_grad(lambda values: weighed(top(values).outputs))(START)
    assert float(value) == float(weighed(top(START).outputs))


@pytest.mark.exhaustive
def test_second_derivatives_are_expressions(expressions):
    end = lambda mass: top(START.at[0].set(mass), "lie-euler", save_every=None).outputs["axis"][-1, 2]  # noqa: E731
    second = jax.grad(jax.grad(end))(15.0)
    assert expressions
    e = 1e-3
    np.testing.assert_allclose(second, (jax.grad(end)(15.0 + e) - jax.grad(end)(15.0 - e)) / (2 * e), rtol=1e-5)


def test_captured_values_have_their_gradient_in_machine_code(expressions):
    def end(torque):
        field = ph.VectorField(ph.spaces.S2(), lambda t, q: torque * q[::-1])
        start = jnp.array([0.6, 0.0, 0.8])
        return ph.simulate(field, "lie-euler", h=0.1, t1=0.3, state0=start, save_every=None).state[-1] @ START

    slope = jax.grad(end)(0.7)
    assert not expressions
    np.testing.assert_allclose(slope, (end(0.7 + 1e-5) - end(0.7 - 1e-5)) / 2e-5, rtol=1e-8)


def test_runs_that_fail_are_expressions(expressions):
    field = ph.VectorField(ph.spaces.Rn(1), lambda t, q: q * q)

    def end(x):
        return ph.simulate(field, "rk4", h=0.1, t1=3.0, state0=jnp.array([x]), save_every=None).stats["result"]

    with contextlib.suppress(TypeError):
        jax.vjp(end, 2.0)
    assert expressions


@pytest.mark.parametrize(("few", "bound"), [(1, 70), (1024, 1000)])
@pytest.mark.exhaustive
def test_checkpoints_are_about_as_many_as_steps_between_them(monkeypatch, few, bound):
    """Or fewer, where a stretch is short anyway."""
    monkeypatch.setattr(checkpointed_run, "_FIRST_STEPS", few)
    seen = []
    original = checkpointed_run.CheckpointedRun.of.__func__

    def spy(cls, *parts):
        seen.append(original(cls, *parts))
        return seen[-1]

    monkeypatch.setattr(run_derivative.CheckpointedRun, "of", classmethod(spy))
    jax.grad(lambda values: weighed(top(values, h=3e-5, save_every=None).state))(START)
    (run,) = seen
    numbers = [checkpoint.n for checkpoint in run.checkpoints] + [1000]
    assert len(run.checkpoints) == 1 if few > 1000 else 10 < len(run.checkpoints) <= 70
    assert max(np.diff(numbers)) <= bound


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "save",
    [{"save_every": 7}, {"save_at": [0.0, 0.0006, 0.0012, 0.00331, 0.00333, 0.01, 0.0201, 0.03]}],
    ids=["at steps", "at times"],
)
@pytest.mark.parametrize("breakpoints", [(), (0.0051, 0.02)], ids=["one segment", "three segments"])
def test_derivatives_do_not_depend_on_where_checkpoints_are(monkeypatch, save, breakpoints):
    """Each frame belongs to one stretch of steps: at checkpoints, at breakpoints, inside of steps."""
    function = lambda x: weighed(top(x, "lie-euler", h=6e-4, breakpoints=breakpoints, **save).state)  # noqa: E731
    whole = jax.grad(function)(START)
    monkeypatch.setattr(checkpointed_run, "_FIRST_STEPS", 1)
    reverse, forward = jax.grad(function)(START), jax.jacfwd(function)(START)
    np.testing.assert_allclose(reverse, whole, rtol=1e-12)
    np.testing.assert_allclose(forward, whole, rtol=1e-10)


def bar(method, options, formulation, parameters):
    """The last states of a tumbling bar, from its mass, its length and its spin."""
    mass, length, spin = parameters
    model = ph.Model(gravity=(0, 0, -9.81))
    omega = jnp.stack((0.3 * spin, -0.5 * spin, spin))
    centre = length * jnp.array([1.0, 0.2, 0.0])
    body = model.add_body(
        mass=mass,
        inertia=jnp.array([0.05, 0.09, 0.1]),
        position=centre,
        velocity=jnp.cross(omega, centre),
        angular_velocity=omega,
    )
    model.add(ph.joints.Spherical(model.ground, body, point=jnp.zeros(3)))
    system, state0 = model.assemble(formulation)
    integrator = ph.integrators.get(method, **options)
    return weighed(ph.simulate(system, integrator, h=0.02, t1=0.08, state0=state0, save_every=None).state)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("method", "options", "formulation"),
    [
        ("herk2", {}, "S3xR3"),
        ("generalized-alpha", {}, "S3xR3"),
        ("generalized-alpha", {"newton": "modified", "constraint": "stabilized-index-2"}, "S3xR3"),
        ("eml", {}, "livens"),
    ],
)
def test_constrained_methods_have_the_gradient_of_the_expression(method, options, formulation, expressions):
    function = lambda x: bar(method, options, formulation, x)  # noqa: E731
    x = jnp.array([1.3, 0.8, 1.5])
    result, forward = jax.grad(function)(x), jax.jacfwd(function)(x)
    assert not expressions
    np.testing.assert_allclose(forward, result, rtol=1e-10)
    np.testing.assert_allclose(result, jax.jit(jax.grad(function))(x), rtol=1e-10)


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["generalized-alpha", "herk4"])
def test_gradients_of_systems_that_are_loops_over_arrays(method, expressions):
    """Of a chain just long enough for that: by differences, and forward as backward."""
    chain = ph.problems.get("body-chain", n=30, formulation="SO3xR3")

    def function(gravity):
        run = ph.simulate(chain.replace(gravity=gravity), method, h=2e-3, t1=0.02, save_every=5)
        return weighed((run.state, run.outputs))

    native = jax.grad(function)(9.81)
    _, forward = jax.jvp(function, (9.81,), (1.0,))
    assert not expressions
    np.testing.assert_allclose(forward, native, rtol=1e-10)
    np.testing.assert_allclose(native, (function(9.91) - function(9.71)) / 0.2, rtol=1e-6)


@pytest.mark.exhaustive
def test_outputs_that_capture_a_body_do_not_capture_its_model(expressions):
    """Otherwise a derivative by gravity would be that of an expression of JAX."""
    chain = ph.problems.get("body-chain", n=2, formulation="minimal")

    def height(gravity):
        return ph.simulate(chain.replace(gravity=gravity), "rkmk4", h=2e-3, t1=0.02).outputs["tip"][-1, 2]

    jax.grad(height)(9.81)
    assert not expressions


@pytest.mark.exhaustive
def test_outputs_may_capture_objects_with_traced_numbers():
    def last_momentum(mass):
        model = ph.Model(gravity=(0, 0, -10.0))
        ball = model.add_body(mass=mass, inertia=(1, 1, 1), name="ball")

        def outputs(system):
            return {"momentum": lambda t, state: ball.mass * system.twist_in(state, "ball").u[2]}

        problem = model.problem("SO3xR3", t1=0.5, h=0.1, outputs=outputs)
        return ph.simulate(problem, "rkmk4").outputs["momentum"][-1]

    # m v with v = -g t: the momentum's derivative is the velocity.
    np.testing.assert_allclose(jax.grad(last_momentum)(2.0), -5.0, rtol=1e-12)
    np.testing.assert_allclose(jax.jvp(last_momentum, (2.0,), (1.0,))[1], -5.0, rtol=1e-12)


class _Moved(eqx.Module):
    """A place that moves at the velocity of a table."""

    velocity: ph.PiecewiseLinear

    def __call__(self, t, y):
        return jnp.reshape(self.velocity(t), (1,)) + 0.0 * y


@pytest.mark.exhaustive
def test_gradients_by_the_points_of_a_long_table_are_weights_of_simpson_in_machine_code(monkeypatch):
    """Steps end at each fourth point: a step of the classical method is Simpson's rule on every second one."""
    monkeypatch.setattr(traced, "_expression", lambda *_: pytest.fail("It is a program of XLA."))
    steps, h = 100, 0.01
    times = np.linspace(0, 1, 4 * steps + 1)

    def end(values):
        system = ph.VectorField(ph.spaces.Rn(1), _Moved(ph.PiecewiseLinear(times, values)))
        return ph.simulate(system, "rkmk4", state0=jnp.zeros(1), t1=1.0, h=h, save_every=None).state[-1, 0]

    weights = np.zeros(len(times))
    weights[::4], weights[2::4] = h / 3, 4 * h / 6
    weights[[0, -1]] = h / 6
    values = jnp.asarray(np.cos(3 * times))
    np.testing.assert_allclose(jax.grad(end)(values), weights, atol=1e-12)
    direction = np.sin(40 * times)
    np.testing.assert_allclose(jax.jvp(end, (values,), (jnp.asarray(direction),))[1], weights @ direction, atol=1e-12)
