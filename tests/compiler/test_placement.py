"""Where computing happens on machines with an accelerator, of which only the name is made up here."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode.compiler import placement

CPU = jax.devices("cpu")[0]


@pytest.fixture
def accelerator(monkeypatch):
    """JAX says that its first device is an accelerator."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")


def chosen():
    return getattr(jax.config, "jax_default_device")  # noqa: B009


def test_an_accelerator_is_not_used_unless_asked_for(accelerator):
    assert not placement.on_processor()
    with placement.default_device_for(jnp.ones(3), np.ones(2), "words"):
        assert chosen() == CPU
        assert placement.on_processor()
    assert chosen() is None
    assert placement.on_host((jnp.ones(3),))


def test_the_device_that_the_user_names_stays(accelerator, monkeypatch):
    with jax.default_device("cpu"), placement.default_device_for():
        assert chosen() == "cpu"
        assert placement.device_array(np.arange(3.0)).device == CPU
    monkeypatch.setattr(placement, "_default_device", lambda: "gpu")
    assert not placement.on_processor()
    assert not placement.on_host((jnp.ones(3),))


def test_arrays_that_were_put_on_a_device_stay_there(accelerator, monkeypatch):
    monkeypatch.setattr(placement, "_is_near", lambda x: x.ndim != 2)
    with placement.default_device_for(jnp.ones(3), jnp.ones((2, 2))):
        assert chosen() == CPU
    assert not placement.on_host((jnp.ones((2, 2)),))
    assert placement.on_host((jnp.ones(2),))


def test_transformations_are_left_alone(accelerator):
    @jax.jit
    def function(x):
        with placement.default_device_for(x):
            assert chosen() is None
        return x

    function(1.0)


def test_runs_are_those_of_a_machine_without(monkeypatch):
    problem = ph.problems.get("free-rigid-body")
    here = ph.simulate(problem, h=0.01, t1=0.05)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    there = ph.simulate(ph.problems.get("free-rigid-body"), h=0.01, t1=0.05)
    assert there.stats["compiled"]["by"] != "xla"
    for x, y in zip(jax.tree.leaves(here.state), jax.tree.leaves(there.state), strict=True):
        np.testing.assert_array_equal(x, y)
