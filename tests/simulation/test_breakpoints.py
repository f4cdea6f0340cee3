"""Instants at which loads jump or have kinks: hit exactly, with nothing of what comes after in the step before."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph

PULSE = ph.PiecewiseLinear((0.7, 0.7, 0.702, 0.702), (0.0, 500.0, 500.0, 0.0))
"""An impulse of 1 within 2 ms."""


class _Along(eqx.Module):
    function: ph.PiecewiseLinear

    @property
    def breakpoints(self):
        return self.function.breakpoints

    def __call__(self, t):
        return self.function(t) * jnp.array([1.0, 0.0, 0.0])


def _push(body, force):
    return ph.forces.PointForce(body, _Along(force))


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["rkmk54", "herk54", "generalized-alpha", "dopri5"])
def test_error_control_does_not_step_over_a_short_pulse(method):
    model = ph.Model()
    body = model.add_body(mass=2.0, inertia=(1, 1, 1))
    model.add(_push(body, PULSE))
    problem = model.problem("SE3", t1=2.0)
    run = ph.simulate(problem, method, rtol=1e-6)
    assert run.outputs["velocities"][-1, 0, 0] == pytest.approx(0.5, rel=1e-6)
    assert {0.7, 0.702} <= set(np.asarray(run.t).tolist())
    # The same load without its breakpoints is not seen at all.
    blind = ph.Model()
    other = blind.add_body(mass=2.0, inertia=(1, 1, 1))
    blind.add(ph.forces.PointForce(other, lambda t: PULSE(t) * jnp.array([1.0, 0, 0])))
    blind_problem = blind.problem("SE3", t1=2.0)
    missed = ph.simulate(blind_problem, method, rtol=1e-6)
    assert abs(missed.outputs["velocities"][-1, 0, 0] - 0.5) > 0.1
    report = ph.simulate(blind_problem, method, rtol=1e-6, breakpoints=(0.7, 0.702, 99.0))
    assert report.outputs["velocities"][-1, 0, 0] == pytest.approx(0.5, rel=1e-6)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("h", [0.1, 0.0137])
@pytest.mark.parametrize("method", ["rkmk4", "herk4", "generalized-alpha"])
def test_constant_steps_end_at_breakpoints_on_and_off_their_grid(method, h):
    model = ph.Model()
    body = model.add_body(mass=2.0, inertia=(1, 1, 1))
    model.add(_push(body, ph.PiecewiseLinear((0.3, 0.3, 0.8, 0.8), (0.0, 4.0, 4.0, 0.0))))
    run = ph.simulate(model.problem("SE3", t1=1.0), method, h=h)
    # Constant forces between jumps: every method of order 2 is exact.
    assert run.outputs["velocities"][-1, 0, 0] == pytest.approx(1.0, abs=1e-12)
    assert run.outputs["positions"][-1, 0, 0] == pytest.approx(0.25 + 0.2, abs=1e-12)
    assert {0.3, 0.8, 1.0} <= set(np.asarray(run.t).tolist())
    assert np.max(np.diff(run.t)) <= h * (1 + 1e-12)


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("method", ["rkmk4", "herk4"])
def test_the_order_is_kept_across_kinks_off_the_grid(method):
    """A load like a saw tooth on a pendulum; without breakpoints orders fall to 2."""
    saw = ph.PiecewiseLinear((0.0, 0.37, 0.37, 0.83), (0.0, 30.0, -20.0, 10.0))

    def end(h, load, **how):
        model = ph.Model(gravity=(0, 0, -9.81))
        body = model.add_body(mass=2.0, inertia=(0.1, 0.2, 0.3), position=(0.5, 0, 0))
        model.add(ph.joints.Revolute(model.ground, body, point=(0, 0, 0), axis=(0, 1, 0)))
        model.add(ph.forces.PointForce(body, load))
        form = "minimal" if method == "rkmk4" else "SE3"
        run = ph.simulate(model.problem(form, t1=1.0), method, h=h, save_every=None, **how)
        return np.asarray(run.outputs["positions"][-1, 0])

    reference = end(5e-4, _Along(saw))
    plain = lambda t: saw(t) * jnp.array([1.0, 0.0, 0.0])  # noqa: E731
    known = [np.max(np.abs(end(h, _Along(saw)) - reference)) for h in (0.01, 0.005)]
    unknown = [np.max(np.abs(end(h, plain) - reference)) for h in (0.01, 0.005)]
    assert np.log2(known[0] / known[1]) > 3.5
    assert known[1] < 0.02 * unknown[1]


@pytest.mark.exhaustive
def test_frames_between_steps_next_to_a_jump_are_right_on_both_sides():
    model = ph.Model()
    body = model.add_body(mass=2.0, inertia=(1, 1, 1))
    model.add(_push(body, ph.PiecewiseLinear((0.3, 0.3), (0.0, 4.0))))
    at = np.array([0.25, 0.29, 0.3, 0.31, 0.37])
    for how in ({"h": 0.1}, {"rtol": 1e-6}):
        run = ph.simulate(model.problem("SE3", t1=1.0), "herk54", save_at=at, **how)
        late = np.maximum(at - 0.3, 0)
        np.testing.assert_allclose(run.outputs["velocities"][:, 0, 0], 2 * late, atol=1e-12)
        np.testing.assert_allclose(run.outputs["positions"][:, 0, 0], late**2, atol=1e-12)


def test_backward_runs_hit_them_too():
    field = lambda t, y: jnp.where(t < 0.55, 1.0, 3.0)[None]  # noqa: E731
    line = ph.VectorField(ph.spaces.Rn(1), field)
    run = ph.simulate(line, "rkmk4", state0=jnp.zeros(1), t0=1.0, t1=0.0, h=0.1, breakpoints=[0.55])
    assert run.state[-1, 0] == pytest.approx(-(0.45 * 3 + 0.55))
    ahead = ph.simulate(line, "rkmk54", state0=jnp.zeros(1), t1=1.0, rtol=1e-6, breakpoints=[0.55])
    assert ahead.state[-1, 0] == pytest.approx(0.55 + 1.35, abs=1e-13)


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("how", [{"h": 0.1}, {"rtol": 1e-8, "save_every": None, "max_steps": 200}])
def test_they_hold_inside_transformations(how):
    def end(height):
        pulse = ph.PiecewiseLinear((0.33, 0.33, 0.4, 0.4), height * jnp.array([0.0, 1.0, 1.0, 0.0]))
        line = ph.VectorField(ph.spaces.Rn(1), lambda t, y: pulse(t)[None] - y)
        return ph.simulate(line, "rkmk54", state0=jnp.ones(1), t1=1.0, breakpoints=pulse.breakpoints, **how).state[
            -1, 0
        ]

    rise = np.exp(-0.6) - np.exp(-0.67)
    assert jax.jit(end)(20.0) == pytest.approx(np.exp(-1) + 20 * rise, abs=1e-7)
    assert jax.grad(end)(20.0) == pytest.approx(rise, abs=1e-7)


def test_bad_breakpoints_are_refused():
    line = ph.VectorField(ph.spaces.Rn(1), lambda t, y: -y)
    for bad in ([np.nan], ["x"], 3.0, [[1.0]], [np.inf]):
        with pytest.raises(ValueError, match="breakpoints"):
            ph.simulate(line, "rkmk4", state0=jnp.ones(1), t1=1.0, h=0.1, breakpoints=bad)
    for times, values in [((1.0,), (1.0,)), ((1.0, 0.0), (1.0, 2.0)), ((0, 0, 0), (1, 2, 3)), ((0, 1), (1, 2, 3))]:
        with pytest.raises(ValueError, match="times"):
            ph.PiecewiseLinear(times, values)


@pytest.mark.exhaustive
def test_piecewise_linear_functions_go_through_their_points():
    f = ph.PiecewiseLinear((0.0, 1.0, 1.0, 3.0), (0.0, 2.0, 5.0, 1.0))
    t = jnp.array([-1.0, 0.0, 0.5, np.nextafter(1.0, 0), 1.0, 2.0, 3.0, 9.0])
    np.testing.assert_allclose(jax.vmap(f)(t), [0, 0, 1, 2, 5, 3, 1, 1], atol=1e-12)
    v = ph.PiecewiseLinear((0.0, 1.0), ((0, 0, 0), (1, 2, 3)))
    np.testing.assert_allclose(v(jnp.asarray(0.5)), [0.5, 1, 1.5])


def test_problems_name_their_breakpoints():
    assert ph.problems.get("flying-spaghetti", n=2).system.breakpoints() == (2.5, 5.0)


@pytest.mark.exhaustive
def test_problems_that_name_breakpoints_are_run():
    run = ph.simulate(ph.problems.get("flying-spaghetti", n=2), t1=0.004, h=1e-3)
    assert run.stats["result"] is ph.Result.successful
