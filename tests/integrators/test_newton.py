"""When Newton's method ends: at tolerances, at round-off that stiffness magnifies, and not before."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

import polhode as ph
from polhode.contact.system import UnilateralSystem
from polhode.integrators.implicit._equations import AbstractEquations, Residual
from polhode.integrators.implicit._newton import Kind, Newton, NewtonResult, solve

EPS = 2.0**-52
STIFF = 1e6
PLACES = np.linspace(0.6, 0.9, 40)
"""Whose units of round-off are all the same."""
FORCES = np.cos(np.arange(40.0))
ROUND_OFF = STIFF * EPS / 2 * np.sqrt(40)
"""At most: places are rounded to half a unit, in [0.5, 1] of 2⁻⁵³."""


class Springs(AbstractEquations):
    """k (q - q₀) = f with q = q₀ + x rounded to its last place; `noisy`: whether the equations tell of that."""

    stiffness: Array
    noisy: bool = eqx.field(static=True)

    def place(self, x: Array) -> Array:
        return jnp.asarray(PLACES) + x

    def residual(self, place: Array, x: Array) -> Residual:
        size = jnp.ones(())
        noise = (self.stiffness / 8 * np.sqrt(40),) if self.noisy else None
        return Residual((self.stiffness * (place - PLACES) - FORCES,), (size,), (size,), noise)

    def factor(self, place: Array, x: Array) -> Array:
        return self.stiffness

    def correct(self, factors: Array, parts: tuple[Array, ...]) -> Array:
        return -parts[0] / factors

    def negligible(self, place: Array, correction: Array) -> Array:
        return jnp.max(jnp.abs(correction)) <= 8 * EPS


@jax.jit
def springs(equations: Springs, factors: Array) -> NewtonResult:
    return solve(equations, jnp.zeros(40), factors, Newton("modified", 1e-13, 1e-13))


@pytest.mark.exhaustive
def test_kept_factors_are_trusted_at_the_round_off_that_stiffness_magnifies() -> None:
    kept = jnp.asarray(1.001 * STIFF)
    result = springs(Springs(jnp.asarray(STIFF), True), kept)
    assert int(result.result) == 0
    assert float(result.factors) == 1.001 * STIFF
    assert int(result.iterations) <= 5
    assert float(result.residual) < 2 * ROUND_OFF
    # The control: who knows nothing of round-off makes a new factorisation there.
    control = springs(Springs(jnp.asarray(STIFF), False), kept)
    assert float(control.factors) == STIFF
    assert int(control.iterations) > int(result.iterations)


@pytest.mark.parametrize("stale", [1.5, 3.0, 30.0, 1e6])
def test_kept_factors_that_no_longer_serve_are_not_trusted(stale: float) -> None:
    result = springs(Springs(jnp.asarray(STIFF), True), jnp.asarray(stale * STIFF))
    assert int(result.result) == 0
    assert float(result.residual) < 2 * ROUND_OFF
    np.testing.assert_allclose(result.x, FORCES / STIFF, rtol=0, atol=2 * EPS)


class Chain(AbstractEquations):
    """Four equations, each of which feels the error of the next unknown. The matrix leaves that out, so that every
    iteration solves one more of them, from the last to the first.
    """

    solution: Array

    def place(self, x: Array) -> Array:
        return x

    def residual(self, place: Array, x: Array) -> Residual:
        error = x - self.solution
        felt = jnp.array([0.05, 1e-3, 1e-2, 0.0]) * jnp.append(error[1:], 0.0)
        return Residual(tuple(jnp.split(error + felt, 4)), (jnp.ones(()),) * 4, (jnp.ones(()),) * 4)

    def factor(self, place: Array, x: Array) -> Array:
        return jnp.ones(4)

    def correct(self, factors: Array, parts: tuple[Array, ...]) -> Array:
        return -jnp.concatenate(parts) / factors

    def negligible(self, place: Array, correction: Array) -> Array:
        return jnp.zeros((), bool)


def test_an_iteration_that_brings_a_part_to_its_floor_is_not_taken_for_stagnation() -> None:
    """In the third one the first equation stays at 5e-7, tolerances being 1e-10, and the second is met."""
    solution = jnp.array([1.0, 0.0, 0.0, 1.0])
    result = jax.jit(lambda a: solve(Chain(a), jnp.zeros(4), None, Newton("full", 1e-10, 1e-10)))(solution)
    assert int(result.result) == 0
    assert int(result.iterations) == 4
    np.testing.assert_allclose(result.x, solution, rtol=0, atol=1e-15)


class StickEquations(AbstractEquations):
    """m v + F tanh(v/v_s) = L of several bodies on their own, with v_s far below L/m."""

    load: Array

    def place(self, x: Array) -> Array:
        return x

    def residual(self, place: Array, x: Array) -> Residual:
        return Residual((0.1 * x + 10 * jnp.tanh(x / 1e-3) - self.load,), (jnp.ones(()),), (jnp.ones(()),))

    def factor(self, place: Array, x: Array) -> Array:
        return 0.1 + 1e4 / jnp.cosh(x / 1e-3) ** 2

    def correct(self, factors: Array, parts: tuple[Array, ...]) -> Array:
        return -parts[0] / factors

    def negligible(self, place: Array, correction: Array) -> Array:
        return jnp.max(jnp.abs(correction)) <= EPS * 1e-3


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["full", "modified"])
@pytest.mark.parametrize("guess", [0.01, 1.0, 100.0])
def test_what_sticks_is_found_from_far_away(kind: Any, guess: float) -> None:
    """There tangents lead to and fro between both directions of slip, and never to rest."""
    load = np.array([3.0, -8.0, 9.9, 12.0, 0.0])
    start = guess * jnp.array([1.0, 1.0, -1.0, 0.3, 1.0])
    kept = jnp.full(5, 1e4) if kind == "modified" else None

    def search(iterations: int, second: Any) -> NewtonResult:
        newton = Newton(kind, 1e-12, 1e-12, iterations)
        return jax.jit(lambda load, kept: solve(StickEquations(load), start, kept, newton, second))(load, kept)

    result = search(40, jnp.zeros(5))
    assert int(result.result) == 0
    np.testing.assert_allclose(0.1 * result.x + 10 * np.tanh(np.asarray(result.x) / 1e-3), load, rtol=0, atol=1e-10)
    # The control: before it starts again it has not come near.
    assert float(search(5, jnp.zeros(5)).residual) > 1


@pytest.mark.exhaustive
def test_long_rods_keep_factors_at_round_off_and_lose_nothing() -> None:
    """Residuals reach the round-off of places, magnified by the stiffness of short edges, at the second or third."""
    n = 128
    problem = ph.problems.get("flying-spaghetti", n=n)
    ((turns, places),), v = problem.state0
    another = ((turns, places * (1 + EPS * (-1.0) ** np.arange(n + 1)[:, None])),), v

    def end(state0: Any = None, **options: Any) -> tuple[np.ndarray, np.ndarray, float]:
        method = ph.integrators.get("generalized-alpha", rho_inf=0.9, **options)
        h = 10 / n / 200
        run = ph.simulate(problem, method, h=h, t1=60 * h, save_every=None, state0=state0)
        return np.asarray(run.outputs["nodes"][-1]), np.asarray(run.state[1])[-1], run.stats["newton_iterations"]

    full, rounded, modified = end(), end(another), end(newton="modified")
    # Full Newton needs two from its prediction; kept factors at most one more, without factoring.
    assert modified[2] <= full[2] + 1
    for ours, others, moved in zip(modified[:2], full[:2], rounded[:2], strict=True):
        # No farther than full Newton is from itself if the start is rounded otherwise.
        assert np.abs(ours - others).max() < 2 * np.abs(moved - others).max()


class Cubes(AbstractEquations):
    """x³ = 1."""

    def place(self, x: Array) -> Array:
        return x

    def residual(self, place: Array, x: Array) -> Residual:
        return Residual((x**3 - 1,), (jnp.ones(()),), (jnp.ones(()),))

    def factor(self, place: Array, x: Array) -> Array:
        return 3 * x**2

    def correct(self, factors: Array, parts: tuple[Array, ...]) -> Array:
        return -parts[0] / factors

    def negligible(self, place: Array, correction: Array) -> Array:
        return jnp.max(jnp.abs(correction)) <= 8 * EPS


@pytest.mark.exhaustive
def test_simplified_iterations_keep_factors_that_serve_and_renew_others() -> None:
    def end_of(kind: Kind, start: float) -> NewtonResult:
        newton = Newton(kind, 1e-14, 1e-14, 40)
        return jax.jit(lambda x: solve(Cubes(), x, None, newton))(jnp.full(1, start))

    kinds: tuple[Kind, ...] = ("full", "simplified")
    ends = {(kind, start): end_of(kind, start) for kind in kinds for start in (1.001, 10.0)}
    for (_, start), end in ends.items():
        assert int(end.result) == 0
        np.testing.assert_allclose(end.x, 1.0, rtol=0, atol=1e-14 * start**3)
    # From near by the factors of the start reduce the error by 2e-3 an iteration, from afar by 1e-2 only.
    near, far = (int(ends["simplified", start].iterations) for start in (1.001, 10.0))
    assert int(ends["full", 1.001].iterations) < near <= 5
    assert far <= int(ends["full", 10.0].iterations) + 6


@pytest.mark.exhaustive
def test_simplified_iterations_that_fail_are_followed_by_full_ones() -> None:
    def end_of(kind: Kind, most: int) -> NewtonResult:
        newton = Newton(kind, 1e-14, 1e-14, most)
        return jax.jit(lambda x: solve(Cubes(), x, None, newton))(jnp.full(1, 10.0))

    most = int(end_of("full", 40).iterations)
    assert int(end_of("simplified", 40).iterations) > most
    full, simplified = end_of("full", most), end_of("simplified", most)
    assert int(full.result) == int(simplified.result) == 0
    assert np.array_equal(full.x, simplified.x)
    assert int(simplified.iterations) == 2 * most
    assert int(end_of("simplified", most - 1).result) == int(ph.Result.newton_not_converged)


@pytest.mark.exhaustive
def test_a_stiff_arm_takes_the_steps_of_full_iterations() -> None:
    """Joints that stick and stops: the first step of this arm takes 43 iterations, most of them a part of the last."""
    model, before, random = ph.Model(gravity=(0, 0, -9.81)), None, np.random.default_rng(3)
    for k in range(5):
        axis, place = random.normal(size=3), (0.25 + 0.5 * k, 0, 0)
        body = model.add_body(mass=1.0, inertia=(0.02, 0.03, 0.025), position=place, velocity=(0, 0, 0))
        joint = model.add(ph.joints.Revolute(before or model.ground, body, point=(0.5 * k, 0, 0), axis=axis))
        model.add(ph.forces.JointStops(joint, limits=(-0.1, 0.1), stiffness=2e3))
        model.add(ph.forces.JointFriction(joint, friction=0.5, stick_velocity=1e-4))
        before = body
    problem = model.problem("minimal", t1=0.1, h=0.02)

    def run(newton: Any) -> Any:
        method = ph.integrators.GeneralizedAlpha(newton=newton)
        return ph.simulate(problem, method, save_every=None)

    automatic, full = run("automatic"), run("full")
    for ours, others in zip(jax.tree.leaves(automatic.state), jax.tree.leaves(full.state), strict=True):
        np.testing.assert_allclose(ours, others, rtol=0, atol=1e-8)
    assert automatic.stats["newton_iterations"] < full.stats["newton_iterations"] + 2


@pytest.mark.exhaustive
def test_trees_have_costly_tangents_beside_rods_and_with_closed_contacts() -> None:
    model = ph.Model()
    body = model.add_body(mass=1.0, inertia=(0.1, 0.2, 0.15), position=(0.5, 0, 0), velocity=(0, 0, 0))
    model.add(ph.joints.Revolute(model.ground, body, point=(0, 0, 0), axis=(0, 1, 0)))
    section = ph.rods.Section(stiffness=(2e4, 2e4, 2e4, 200.0, 200.0, 200.0), mass=1.0, inertia=(2e-3, 1e-3, 1e-3))
    rod = model.add_rod(points=((1.0, 0, 0), (1.5, 0, 0), (2.0, 0, 0)), section=section)
    model.add(ph.joints.Fixed(body, rod.first))
    for formulation, costly in (("minimal", True), ("SO3xR3", False)):
        system: Any = model.problem(formulation, t1=0.1, h=0.01).system
        assert system.has_costly_tangent == costly
        assert UnilateralSystem(system, (), jnp.zeros(0, bool)).has_costly_tangent == costly


@pytest.mark.exhaustive
def test_joint_coordinates_take_simplified_iterations_by_default() -> None:
    model = ph.Model(gravity=(0, 0, -9.81))
    before = model.ground
    for k in range(3):
        body = model.add_body(mass=1.0, inertia=(0.1, 0.2, 0.15), position=(0.5 + k, 0, 0), velocity=(0, 0, 0))
        point = (float(k), 0.0, 0.0)
        ball, hinge = ph.joints.Spherical, ph.joints.Revolute
        model.add(hinge(before, body, point=point, axis=(0, 1, k)) if k else ball(before, body, point=point))
        before = body

    def end(formulation: str, **options: Any) -> np.ndarray:
        problem = model.problem(formulation, t1=0.1, h=0.01)
        run = ph.simulate(problem, ph.integrators.GeneralizedAlpha(**options), save_every=None)
        return np.concatenate([np.ravel(x) for x in jax.tree.leaves(run.state)])

    chosen, full = end("minimal"), end("minimal", newton="full")
    assert np.array_equal(chosen, end("minimal", newton="simplified"))
    np.testing.assert_allclose(chosen, full, rtol=0, atol=1e-10)
    assert not np.array_equal(chosen, full)
    assert np.array_equal(end("SO3xR3"), end("SO3xR3", newton="full"))


class OneUnknown(AbstractEquations):
    """One equation that a function gives, with its derivative as the matrix."""

    function: Any = eqx.field(static=True)

    def place(self, x: Array) -> Array:
        return x

    def residual(self, place: Array, x: Array) -> Residual:
        size = jnp.ones(())
        return Residual((self.function(place),), (size,), (size,))

    def factor(self, place: Array, x: Array) -> Array:
        return jax.jacfwd(self.function)(place)[0, 0]

    def correct(self, factors: Array, parts: tuple[Array, ...]) -> Array:
        return -parts[0] / factors

    def negligible(self, place: Array, correction: Array) -> Array:
        return jnp.max(jnp.abs(correction)) <= 8 * EPS


def _search_from(function: Any, kind: Kind, guess: float, second: float) -> NewtonResult:
    equations, newton = OneUnknown(function), Newton(kind, 1e-12, 1e-12, 60)
    start = jnp.array([guess])
    kept = equations.factor(start, start) if kind == "modified" else None
    return jax.jit(lambda x, y: solve(equations, x, kept, newton, y))(start, jnp.array([second]))


@pytest.mark.parametrize("kind", ["full", "simplified", "modified"])
@pytest.mark.parametrize("guess", [10.0, -1.0])
@pytest.mark.sampled(3)
def test_a_guess_that_leads_to_no_numbers_is_followed_by_the_second_one(kind: Kind, guess: float) -> None:
    """From 10 the first correction leads to the logarithm of -13; -1 has none itself."""
    result = _search_from(jnp.log, kind, guess, 0.01)
    assert int(result.result) == 0
    assert float(result.x[0]) == pytest.approx(1, abs=1e-11)


@pytest.mark.parametrize("kind", ["full", "simplified", "modified"])
@pytest.mark.exhaustive
def test_corrections_cut_to_nothing_are_no_solution(kind: Kind) -> None:
    result = _search_from(lambda x: x * x + 1, kind, jnp.inf, 1e-3)
    assert int(result.result) == int(ph.Result.newton_not_converged)


def test_a_correction_that_led_far_away_loosens_no_tolerance() -> None:
    """From 1e-6 away from where its derivative vanishes, the first correction leads to a residual of 1e12."""
    result = _search_from(lambda x: x * x - 1, "full", 1e-6, 0.5)
    assert int(result.result) == 0
    assert float(result.x[0]) == pytest.approx(1, abs=1e-10)
