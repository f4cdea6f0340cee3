"""Problems with rods: static shapes of the literature, frequencies of a ring, motions that keep their energy."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import evaluated
from scipy.integrate import quad
from scipy.optimize import brentq

import polhode as ph
from polhode import problems
from polhode.problems.named.cantilever import _reference as cantilever_reference
from polhode.viewing.scene.scene import Body, Line, Trail

ROD = {"tip": (3,), "head": (3,), "kinetic_energy": (), "potential_energy": ()}
SMALL: dict[str, dict[str, Any]] = {
    "cantilever": {"n": 4},
    "bend-45": {"n": 4},
    "hanging-cable": {"n": 4},
    "slender-ring": {"n": 8},
    "whirling-cable": {"n": 4},
}
MORE: dict[str, dict[str, tuple[int, ...]]] = {
    "cantilever": {"nodes": (5, 3), "strains": (4, 6)},
    "bend-45": {"nodes": (5, 3), "strains": (4, 6)},
    "hanging-cable": {"nodes": (5, 3), "strains": (4, 6), "middle": (3,)},
    "slender-ring": {"nodes": (9, 3), "strains": (8, 6), "amplitude": ()},
    "whirling-cable": {"nodes": (5, 3), "strains": (4, 6), "box": (3,), "vertical_angular_momentum": ()},
}

WRONG = [
    ("cantilever", {"n": 0}, "at least 1"),
    ("cantilever", {"length": -1.0}, "`length` must be greater than zero"),
    ("cantilever", {"constrained": "shear"}, "`constrained` must be one of"),
    ("bend-45", {"side": 0.0}, "`side` must be greater than zero"),
    ("hanging-cable", {"angle": 3.2}, "less than π"),
    ("slender-ring", {"mode": 1}, "mode 1 is a translation"),
    ("slender-ring", {"n": 6, "mode": 3}, "less than n/2 = 3"),
    ("whirling-cable", {"body_size": (1.0, 1.0)}, r"shape \(3,\)"),
    ("whirling-cable", {"formulation": "SE"}, "Did you mean `SE3`"),
]


@cache
def small_problem(name: str) -> ph.Problem:
    return problems.get(name, **SMALL[name])


@pytest.mark.parametrize(("name", "parameters", "message"), WRONG)
def test_bad_parameters_are_named_with_a_remedy(name: str, parameters: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        problems.get(name, **parameters)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SMALL)
def test_start_outputs_and_scene(name: str) -> None:
    problem = small_problem(name)
    start = jnp.zeros(()), problem.state0
    result = {key: jax.eval_shape(output, *start).shape for key, output in problem.outputs.items()}
    assert result == ROD | MORE[name]
    assert all(
        float(value) < 1e-13
        for value in evaluated(lambda t, state: problem.system.residuals(t, state), *start).values()
    )
    assert set(problem.invariants) == {"energy"}
    assert len(problem.doc) > 200
    assert set(problem.reference) <= set(problem.outputs)
    assert problem.integrator in ph.integrators.names()
    for part in problem.scene.parts:
        if isinstance(part, Body):
            assert jax.eval_shape(part.pose, *start)[0].shape == (3,)
        elif isinstance(part, Line):
            assert jax.eval_shape(part.points, *start).shape == MORE[name]["nodes"]
        else:
            assert isinstance(part, Trail)
            assert part.output in problem.outputs


def elastica(load: float) -> tuple[float, float]:
    """Tip displacements of an inextensible cantilever of length and stiffness 1: θ' = √(2P (sin α - sin θ))."""

    def along(alpha: float, weight: Any) -> float:
        def integrand(y: float) -> float:
            # θ = α - y² takes the root at the end away; sin α - sin θ as a product.
            x = 0.5 * y * y
            return weight(alpha - 2 * x) * 2 / np.sqrt(np.cos(alpha - x) * np.sinc(x / np.pi))

        return quad(integrand, 0, np.sqrt(alpha), epsabs=1e-12)[0] / np.sqrt(2 * load)

    alpha: Any = brentq(lambda a: along(a, lambda _: 1.0) - 1, 1e-3, np.pi / 2 - 1e-6, xtol=1e-13)
    return 1 - along(alpha, np.cos), along(alpha, np.sin)


def catenary(length: float, span: float, n: int) -> np.ndarray:
    """Points at equal distances along it, (n + 1, 2), between (∓span/2, 0)."""
    a: Any = brentq(lambda a: 2 * a * np.sinh(0.5 * span / a) - length, 0.1 * span, 100 * span, xtol=1e-14)
    s = np.linspace(-0.5, 0.5, n + 1) * length
    return np.stack((a * np.arcsinh(s / a), np.hypot(a, s) - np.hypot(a, 0.5 * length)), axis=1)


@pytest.mark.exhaustive
def test_references_are_those_of_independent_solutions() -> None:
    for load in (1.0, 2.0, 5.0, 10.0):
        towards, across = elastica(load)
        tip = np.asarray(cantilever_reference(4, load, 1.0, 1.0)["tip"]["value"])
        np.testing.assert_allclose(tip, (1 - towards, 0, -across), atol=6e-6)
    assert not cantilever_reference(4, 3.0, 1.0, 1.0)
    cable = small_problem("hanging-cable")
    ends = np.asarray(cable.outputs["nodes"](jnp.zeros(()), cable.state0))[[0, -1]]
    sag = catenary(1.0, ends[1, 0] - ends[0, 0], 4)[2]
    np.testing.assert_allclose(np.asarray(cable.reference["middle"]["value"])[[0, 2]], sag, atol=1e-12)


@pytest.mark.parametrize(
    "n", [pytest.param(4, marks=pytest.mark.exhaustive), pytest.param(8, marks=pytest.mark.exhaustive)]
)
def test_cantilever_takes_the_shape_of_the_elastica_at_second_order(n: int) -> None:
    problem = problems.get("cantilever", n=n)
    towards, across = elastica(10.0)
    tip = np.asarray(ph.equilibrium(problem, steps=4).path.outputs["tip"][-1])
    error = np.linalg.norm(tip - [1 - towards, 0, -across])
    assert 0.15 < n**2 * error < 0.25
    assert error < problem.reference["tip"]["error"]


@pytest.mark.exhaustive
def test_bend_of_45_degrees_ends_where_the_literature_says() -> None:
    problem = problems.get("bend-45")
    result = ph.equilibrium(problem, steps=4)
    tip = np.asarray(result.path.outputs["tip"][-1])
    np.testing.assert_allclose(tip, problem.reference["tip"]["value"], rtol=0.01)


@pytest.mark.exhaustive
def test_bend_of_45_degrees_converges_at_second_order() -> None:
    tips = [ph.equilibrium(problems.get("bend-45", n=n), steps=4).path.outputs["tip"][-1] for n in (4, 8, 16)]
    coarse, fine = (np.linalg.norm(np.subtract(*pair)) for pair in pairwise(tips))
    assert 3.8 < coarse / fine < 4.2


@pytest.mark.exhaustive
@pytest.mark.parametrize("n", [8])
def test_hanging_cable_takes_the_shape_of_the_catenary(n: int) -> None:
    problem = problems.get("hanging-cable", n=n, bending_stiffness=1e-4)
    nodes = np.asarray(ph.equilibrium(problem, steps=2).path.outputs["nodes"][-1])
    exact = catenary(1.0, nodes[-1, 0] - nodes[0, 0], n)
    np.testing.assert_allclose(nodes[:, 1], 0, atol=1e-10)
    error = np.max(np.linalg.norm(nodes[:, [0, 2]] - exact, axis=1))
    assert error < problem.reference["middle"]["error"]


@pytest.mark.parametrize(
    "n", [pytest.param(16, marks=pytest.mark.exhaustive), pytest.param(32, marks=pytest.mark.exhaustive)]
)
def test_frequencies_of_the_ring_converge_at_second_order(n: int) -> None:
    problem = problems.get("slender-ring", n=n, speed=0.0, inertia=1e-6)
    result = ph.modes(problem, number=14).frequencies
    # Rigid motions, then two modes in the plane and two out of it for each k; with GJ = EI all four are the same.
    k = np.array([2.0, 3.0])
    errors = result[6:].reshape(2, 4) / (k * (k**2 - 1) / np.sqrt(k**2 + 1))[:, None] - 1
    np.testing.assert_array_equal(result[:6], 0)
    assert np.all(np.abs(n**2 * errors - [[6.8], [16.0]]) < [[0.4], [1.5]])


@cache
def run(name: str, h: float, t1: float = 0.25, integrator: str = "herk3") -> ph.Solution:
    return ph.simulate(small_problem(name), integrator, h=h, t1=t1, save_every=round(0.025 / h))


def drift(solution: ph.Solution, name: str = "energy") -> float:
    values = np.asarray({**solution.outputs, **solution.invariants}[name])
    return float(np.max(np.abs(values - values[0])))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "h"),
    [("cantilever", 2.5e-3), ("hanging-cable", 1.25e-3), ("slender-ring", 5e-3), ("whirling-cable", 1e-3)],
)
def test_energy_is_kept_up_to_the_order_of_the_method(name: str, h: float) -> None:
    coarse, fine = run(name, h), run(name, h / 2)
    exchanged = drift(fine, "kinetic_energy")
    assert drift(coarse) < 1e-4 * exchanged
    assert drift(coarse) > 6 * drift(fine)
    assert float(np.max(fine.residuals["position"])) < 1e-7


@pytest.mark.exhaustive
def test_the_whirling_body_keeps_its_angular_momentum_and_two_methods_agree() -> None:
    fine = run("whirling-cable", 5e-4)
    momentum = np.asarray(fine.outputs["vertical_angular_momentum"])
    assert np.ptp(momentum) < 1e-7 * momentum[0]
    place = np.asarray(fine.outputs["box"])
    # Without the cable's pull the box would fly on along a parabola.
    assert np.linalg.norm(place[-1] - place[0] - [0, 6 * 1.1 * 0.25, -0.5 * 9.81 * 0.25**2]) > 0.5
    errors = []
    for h in (1e-3, 5e-4):
        other = run("whirling-cable", h, integrator="generalized-alpha")
        errors.append(np.max(np.abs(np.asarray(other.outputs["box"]) - place)))
    assert errors[1] < 1e-4
    assert errors[0] / errors[1] > 3.4
