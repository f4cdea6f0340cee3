"""Fields as users write them: closures, wrong shapes, integer arithmetic, and runs that stop inside transformations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph

R3 = ph.spaces.Rn(3)


def end(field, **how):
    how = {"integrator": "rkmk4", "h": 0.05, "t1": 1.0, "state0": np.ones(3), **how}
    return ph.simulate(ph.VectorField(R3, field), save_every=None, **how).state[-1]


@pytest.mark.exhaustive
@pytest.mark.parametrize("how", [{}, {"integrator": "rkmk54", "h": None, "rtol": 1e-9, "max_steps": 64}])
def test_a_closure_over_a_traced_value_is_differentiated(how):
    f = lambda a: end(lambda t, q: a * q, **how).sum()  # noqa: E731
    expected = 3 * np.exp(0.5)
    assert float(jax.grad(f)(0.5)) == pytest.approx(expected, rel=1e-6)
    assert float(jax.jvp(f, (0.5,), (1.0,))[1]) == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(jax.vmap(f)(jnp.array([0.5, 0.5])), [expected, expected], rtol=1e-6)
    assert float(jax.jit(f)(0.5)) == pytest.approx(expected, rel=1e-6)


def test_known_integers_are_divided_as_by_jax():
    rates = (np.arange(3) - 5) // 2
    measured = end(lambda t, q: ((jnp.arange(3) - 5) // 2).astype(float) * q, integrator="rkmk6")
    np.testing.assert_allclose(measured, np.exp(rates), rtol=1e-6)
    measured = end(lambda t, q: jax.lax.div(jnp.arange(3) - 5, jnp.full(3, 2)).astype(float) * q, integrator="rkmk6")
    np.testing.assert_allclose(measured, np.exp([-2, -2, -1]), rtol=1e-6)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (lambda t, q: q[0], r"must return one array of shape \(3,\).*got shape \(\)"),
        (lambda t, q: q[:1], r"got shape \(1,\)"),
        (lambda t, q: q[:2], r"got shape \(2,\)"),
        (lambda t, q: [q[0], q[1], q[2]], "got list"),
        (lambda t, q: None, "got NoneType"),
        (lambda q: q, "can't be traced by JAX at the initial state: TypeError"),
        (lambda t, q: np.sin(np.asarray(q)), "can't be traced by JAX"),
        (5, "must be a function"),
    ],
)
def test_a_wrong_field_is_explained(field, message):
    with pytest.raises(ValueError, match=message):
        end(field)
    with pytest.raises(ValueError, match=message):
        jax.jit(lambda start: end(field, state0=start))(np.ones(3))


@pytest.mark.exhaustive
def test_times_that_a_traced_run_does_not_reach_are_not_made_up():
    def run(start):
        system = ph.VectorField(R3, lambda t, q: -q)
        return ph.simulate(system, "rkmk54", rtol=1e-9, t1=5.0, state0=start, save_at=[0.01, 5.0], max_steps=4)

    solution = jax.jit(run)(jnp.ones(3))
    assert int(solution.stats["result"]) == ph.Result.max_steps_reached
    assert np.isfinite(solution.state[0]).all()
    assert np.isnan(solution.state[1]).all()


def test_traced_step_sizes_and_times_are_explained():
    with pytest.raises(ValueError, match="`h` is traced by JAX"):
        jax.grad(lambda h: end(lambda t, q: -q, h=h).sum())(0.1)


def test_a_reflection_is_no_rotation():
    system = ph.VectorField(ph.spaces.SO3(), lambda t, R: jnp.ones(3))
    with pytest.raises(ValueError, match="off SO3"):
        ph.simulate(system, "rkmk4", h=0.1, t1=1.0, state0=-np.eye(3))


def test_absurdly_many_steps_are_refused():
    with pytest.raises(ValueError, match="take a larger step"):
        end(lambda t, q: -q, h=1e-30)


def test_tolerances_choose_a_method_that_takes_them():
    run = ph.simulate(ph.problems.get("heavy-top", formulation="S3"), rtol=1e-4, t1=0.01, save_every=None)
    assert run.meta["integrator"]["name"] == "rkmk54"


def test_a_store_is_replaced_only_on_request(tmp_path):
    system = ph.VectorField(R3, lambda t, q: -q)
    how = {"h": 0.1, "t1": 1.0, "state0": np.ones(3), "store": tmp_path / "run.zarr"}
    ph.simulate(system, "rkmk4", **how)
    with pytest.raises(ph.StoreError, match="overwrite"):
        ph.simulate(system, "rkmk4", **how)
    ph.simulate(system, "rkmk3", overwrite=True, **how)
    assert ph.load(tmp_path / "run.zarr").meta["integrator"]["name"] == "rkmk3"
