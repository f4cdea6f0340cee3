"""Studies of constrained systems: references, multipliers, cost."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode.analysis.studies import lyapunov, predictability, references

T1 = 0.4


def pendulum(reference=None):
    """A point mass on a rod of length 1."""
    rod = lambda t, x: 0.5 * (x @ x - 1.0)[None]  # noqa: E731
    weight = lambda t, x, v: jnp.array([0.0, -9.81])  # noqa: E731
    return ph.Problem(
        name="rod",
        system=ph.systems.Mechanical(ph.spaces.Rn(2), jnp.eye(2), weight, rod, 1),
        state0=(jnp.array([1.0, 0.0]), jnp.array([0.0, 4.0])),
        t_span=(0.0, T1),
        parameters={},
        doc="A pendulum.",
        outputs={"bob": lambda t, state: state[0], "speed": lambda t, state: state[1]},
        invariants={},
        reference=reference or {},
        integrator="generalized-alpha",
        h=0.01,
    )


@pytest.mark.exhaustive
def test_half_explicit_methods_and_their_multipliers():
    study = ph.studies.convergence(pendulum(), "herk3", [0.02, 0.01, 0.005])
    assert set(study.errors) == {"bob", "speed", "multipliers"}
    assert study.reference == "herk5 with h = 0.00125"
    assert study.orders["bob"] == pytest.approx(3, abs=0.25)
    assert study.orders["multipliers"] == pytest.approx(3, abs=0.25)


@pytest.mark.exhaustive
def test_implicit_methods_and_their_multipliers():
    alpha = ph.integrators.get("generalized-alpha", start="perturbed")
    study = ph.studies.convergence(pendulum(), alpha, [0.01, 0.005, 0.0025], outputs=["bob", "multipliers"])
    assert study.reference == "herk5 with h = 0.000625"
    assert study.orders["bob"] == pytest.approx(2, abs=0.05)
    assert study.errors["multipliers"][-1] == pytest.approx(study.errors["multipliers"][-2] / 4, rel=0.1)


def test_methods_of_order_five_are_measured_too():
    study = ph.studies.convergence(pendulum(), "herk5", [0.04, 0.02, 0.01], outputs=["bob", "multipliers"])
    assert study.reference == "herk5 with h = 0.00125, the method that is studied"
    assert study.orders["bob"] > 4.7
    assert study.orders["multipliers"] == pytest.approx(5, abs=0.3)


def reference_plan(problem, name, names=None, reference=None):
    outputs = references.measurable(problem, names, reference)
    return references.plan(problem, [ph.integrators.get(name)], outputs, T1, reference)


def test_references_are_judged_before_anything_is_run():
    assert reference_plan(pendulum(), "herk4").method == "herk5"
    assert reference_plan(ph.problems.get("free-rigid-body"), "rkmk6", ["rotation"]).method == "rkmk5"
    assert reference_plan(ph.problems.get("free-rigid-body"), "herk5", ["rotation"]).method == "rkmk6"

    class Other(ph.systems.AbstractSystem):
        @property
        def state_space(self):
            return ph.spaces.Rn(2)

        def residuals(self, t, state):
            return {"manifold": jnp.zeros(())}

    with pytest.raises(ValueError, match=r"no method of high order for Other.*Pass the exact values"):
        reference_plan(dataclasses.replace(pendulum(), system=Other()), "herk4")
    with pytest.raises(ValueError, match="no output 'bop'; it has bob, speed, multipliers"):
        ph.studies.convergence(pendulum(), "herk3", [0.1, 0.05], outputs=["bop"])
    with pytest.raises(ValueError, match="lacks the output 'speed'"):
        ph.studies.convergence(pendulum(), "herk3", [0.1, 0.05], reference={"bob": np.zeros(2)})


def test_known_values_need_no_run_and_others_are_computed():
    published = {"bob": {"t": T1, "value": (0.6, 0.8), "error": 1e-12, "source": "a table"}}
    plan = reference_plan(pendulum(published), "herk3")
    assert (set(plan.values), plan.missing) == ({"bob"}, ("speed", "multipliers"))
    assert reference_plan(pendulum(published), "herk3", ["bob"]).missing == ()
    vague = {"bob": {**published["bob"], "error": 1e-9}}
    assert reference_plan(pendulum(vague), "herk3").values == {}
    reference = {"bob": np.zeros(2), "speed": np.zeros(2)}
    assert reference_plan(pendulum(), "herk3", None, reference).missing == ()


def test_a_failing_reference_says_what_to_do(monkeypatch):
    solution = ph.simulate(pendulum(), "herk1", h=0.1, save_every=None)

    def fail(*arguments, **options):
        raise ph.SimulationError("singular_constraints: so it is.", solution)

    monkeypatch.setattr(references, "simulate", fail)
    with pytest.raises(ph.SimulationError, match=r"a run of herk5 .*failed: singular_constraints.*`reference`"):
        reference_plan(pendulum(), "herk3").carry_out(pendulum(), 0.1, T1)


def double_pendulum(t1, angles=(2.0, 2.5)):
    """Two point masses of 1 on rods of 1, g = 1: angles from the vertical and their rates."""

    def field(t, y):
        a, b, u, w = y
        d, s = a - b, jnp.sin(a - b)
        below = 2 - jnp.cos(d) ** 2
        first = -(jnp.sin(2 * d) * u**2 / 2 + s * w**2 + 2 * jnp.sin(a) - jnp.sin(b) * jnp.cos(d)) / below
        return jnp.stack([u, w, first, s * u**2 - jnp.sin(b) - first * jnp.cos(d)])

    system, start = ph.VectorField(ph.spaces.Rn(4), field), np.array([*angles, 0, 0])
    outputs = {"angles": lambda t, y: y[:2]}
    return ph.Problem("double", system, start, (0.0, t1), {}, "", outputs, {}, {}, "rk4", 0.02)


def test_errors_beyond_the_lyapunov_time_are_warned_of():
    long, steps = double_pendulum(100.0), [0.02, 0.01]
    with pytest.warns(ph.studies.ChaosWarning, match="times the Lyapunov time"):
        ph.studies.convergence(long, "rk4", steps)
    with pytest.warns(ph.studies.ChaosWarning, match="times the Lyapunov time"):
        ph.studies.work_precision(long, ["rk4"], steps=steps)


def test_errors_within_it_and_of_regular_motions_are_not(monkeypatch):
    # Warnings are errors in tests.
    monkeypatch.setattr(predictability, "growth", None)
    ph.studies.convergence(double_pendulum(1.0), "rk4", [0.02, 0.01])
    ph.studies.work_precision(double_pendulum(1.0), ["rk4"], steps=[0.02, 0.01])
    ph.studies.convergence(double_pendulum(100.0), "rk4", [0.02, 0.01], chaos=False)
    ph.studies.work_precision(double_pendulum(100.0), ["rk4"], steps=[0.02, 0.01], chaos=False)


def test_motions_that_part_slowly_are_looked_at_and_not_warned_of(monkeypatch):
    result = []
    monkeypatch.setattr(
        predictability, "lyapunov", lambda *reference, **how: result.append(lyapunov(*reference, **how)) or result[-1]
    )
    system = ph.VectorField(ph.spaces.Rn(2), lambda t, y: jnp.stack([y[1], -jnp.sin(y[0])]))
    outputs = {"angle": lambda t, y: y[0]}
    swing = ph.Problem("swing", system, np.array([2.5, 0]), (0.0, 300.0), {}, "", outputs, {}, {}, "rk4", 0.05)
    # With these steps the phase is lost, and neighbouring swings part in proportion to time.
    study = ph.studies.convergence(swing, "rk4", [0.5, 0.4])
    assert study.errors["angle"].max() > 0.5
    (grown,) = result
    assert grown.growth[-1] > 3
    assert not grown.chaotic


def test_work_of_implicit_methods_counts_their_iterations():
    rows = ph.studies.work_precision(pendulum(), ["generalized-alpha", "herk3"], steps=[0.01])
    work = {row["integrator"]: row["evaluations"] for row in rows}
    assert work["generalized-alpha"] >= 2 * 40
    assert work["herk3"] == 3 * 40
    assert rows[1]["error"]["multipliers"] < 1e-2 < rows[0]["error"]["multipliers"]
