"""Static equilibria: closed forms, convergence, load paths, derivatives and what is said of failures."""

from __future__ import annotations

import itertools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq

import polhode as ph
from polhode.analysis.statics import EquilibriumError, _equations, equilibrium
from polhode.linalg.dense import LapackKKT
from polhode.linalg.sparse import SparseKKT
from polhode.spaces import Rn
from polhode.systems.mechanical import Mechanical

M, L, G, SPRING = 2.0, 0.7, 9.81, 20.0


def held_pendulum(formulation: str = "SE3", stiffness: Any = SPRING, gravity: Any = G) -> tuple[Any, Any]:
    """A pendulum that starts horizontal and hangs on a torsional spring: k θ = m g l cos θ."""
    model = ph.Model(gravity=(0, 0, -gravity))
    body = model.add_body(mass=M, inertia=(0.1, 0.2, 0.15), position=(L, 0, 0), name="bob")
    model.add(ph.joints.Revolute(model.ground, body, point=(0, 0, 0), axis=(0, 1, 0), name="hinge"))
    model.add(ph.forces.TorsionalSpringDamper(model.ground, body, axis=(0, 1, 0), stiffness=stiffness))
    return model.assemble(formulation)


def angle(stiffness: float = SPRING) -> float:
    return float(brentq(lambda a: stiffness * a - M * G * L * np.cos(a), 0, np.pi / 2, xtol=1e-15))


FORMULATIONS = ("SO3xR3", "S3|xR3", "euler-parameters", "euler-angles-kinematic", "minimal")
SLOW = [pytest.param(name, marks=pytest.mark.exhaustive) for name in FORMULATIONS]


@pytest.mark.exhaustive
@pytest.mark.parametrize("formulation", ["SE3", *SLOW])
@pytest.mark.sampled(6)
def test_pendulum_on_a_spring(formulation: str) -> None:
    system, state = held_pendulum(formulation)
    result = equilibrium(system, state)
    expected = L * np.array([np.cos(angle()), 0, -np.sin(angle())])
    np.testing.assert_allclose(system.pose(result.state[0], "bob").x, expected, atol=1e-13)
    assert result.converged
    assert result.residual < 1e-12
    assert result.gap < 1e-14
    if formulation == "SE3":
        # The hinge carries the weight.
        R = np.asarray(system.pose(result.state[0], "bob").R)
        lift = -R @ np.asarray(system.constraint_force(0.0, result.state[0], result.multipliers))[3:]
        np.testing.assert_allclose(lift, (0, 0, M * G), atol=1e-12)
    np.testing.assert_array_equal(result.state[1], np.zeros(system.n))
    # Quadratic: the exact tangent, geometric stiffness of the hinge included.
    size = np.asarray(result.corrections[0][: int(result.iterations[0])])
    late = size[size < 0.02]
    assert len(late) >= 2
    assert np.all(late[1:] <= np.maximum(4 * late[:-1] ** 2, 1e-15))


@pytest.mark.exhaustive
def test_load_steps_end_where_one_step_does() -> None:
    system, state = held_pendulum()
    one, many = equilibrium(system, state), equilibrium(system, state, steps=4)
    np.testing.assert_allclose(many.loads, [0.25, 0.5, 0.75, 1.0])
    assert many.path.outputs["positions"].shape == (4, 1, 3)
    heights = np.asarray(many.path.outputs["positions"])[:, 0, 2]
    assert np.all(np.diff(heights) < 0)
    np.testing.assert_allclose(many.path.outputs["positions"][-1], one.path.outputs["positions"][-1], atol=1e-13)
    np.testing.assert_allclose(many.multipliers, one.multipliers, atol=1e-11)


def lifted(stiffness: Any = SPRING) -> tuple[Any, Any]:
    """A horizontal pendulum without weight that a growing force pulls up: k θ = t F l cos θ."""
    model = ph.Model()
    body = model.add_body(mass=M, inertia=(0.1, 0.2, 0.15), position=(L, 0, 0), name="bob")
    model.add(ph.joints.Revolute(model.ground, body, point=(0, 0, 0), axis=(0, -1, 0)))
    model.add(ph.forces.TorsionalSpringDamper(model.ground, body, axis=(0, -1, 0), stiffness=stiffness))
    model.add(ph.forces.PointForce(body, lambda t: jnp.array([0.0, 0.0, M * G]) * t))
    return model.assemble()


@pytest.mark.exhaustive
def test_a_path_along_times_is_the_curve_of_the_loads() -> None:
    system, state = lifted()
    times = np.array([0.0, 0.5, 1.0])
    result = equilibrium(system, state, times=times)
    angles = [brentq(lambda a, t=t: SPRING * a - t * M * G * L * np.cos(a), 0, np.pi / 2, xtol=1e-15) for t in times]
    np.testing.assert_allclose(result.path.outputs["positions"][:, 0, 2], L * np.sin(angles), atol=1e-13)
    np.testing.assert_allclose(result.t, 1.0)


def test_driven_constraints_are_taken_at_the_time() -> None:
    system = Mechanical(
        Rn(2), jnp.eye(2), lambda t, q, v: jnp.array([-q[0], -q[1]]), lambda t, q: jnp.stack((q[0] + q[1] - t,)), 1
    )
    start = (jnp.zeros(2), jnp.zeros(2))
    np.testing.assert_allclose(equilibrium(system, start, t=3.0).state[0], [1.5, 1.5], atol=1e-14)
    path = equilibrium(system, start, times=[1.0, 2.0]).path
    np.testing.assert_allclose(path.state[0], [[0.5, 0.5], [1, 1]], atol=1e-14)
    np.testing.assert_allclose(path.multipliers, [[-0.5], [-1]], atol=1e-14)


@pytest.mark.exhaustive
def test_derivatives_are_those_of_the_solution() -> None:
    def end(stiffness: Any, force: Any) -> Any:
        # A bead on a parabola between a spring and a force.
        system = Mechanical(
            Rn(2),
            jnp.eye(2),
            lambda t, q, v: jnp.stack((force - stiffness * q[0] ** 3, -1.0 - q[1])),
            lambda t, q: (q[1] - q[0] ** 2)[None],
            1,
        )
        return equilibrium(system, (jnp.ones(2), jnp.zeros(2)), steps=2).state[0]

    def place(stiffness: float, force: float) -> np.ndarray:
        # F - k x³ - (1 + x²) 2 x = 0.
        x = brentq(lambda x: force - stiffness * x**3 - 2 * x * (1 + x * x), 0, 10, xtol=1e-15)
        return np.array([x, x * x])

    at, step = (3.0, 2.0), 1e-5
    np.testing.assert_allclose(end(*at), place(*at), rtol=1e-13)
    rows = []
    for k in range(2):
        up, down = (place(*(x + sign * step * (i == k) for i, x in enumerate(at))) for sign in (1, -1))
        rows.append((up - down) / (2 * step))
    for differentiate in (jax.jacfwd, jax.jacrev):
        result = jax.jit(differentiate(end, (0, 1)))(*at)
        np.testing.assert_allclose(np.array(result), rows, rtol=1e-6)


@pytest.mark.exhaustive
def test_derivatives_with_respect_to_a_stiffness_of_a_model() -> None:
    @jax.jit
    @jax.value_and_grad
    def height(stiffness: Any) -> Any:
        system, state = held_pendulum("SE3", stiffness)
        return system.pose(equilibrium(system, state).state[0], "bob").x[2]

    step = 1e-4
    central = (-L * np.sin(angle(SPRING + step)) + L * np.sin(angle(SPRING - step))) / (2 * step)
    value, gradient = height(SPRING)
    np.testing.assert_allclose(value, -L * np.sin(angle()), atol=1e-14)
    np.testing.assert_allclose(gradient, central, rtol=1e-6)


def net(count: int) -> tuple[Any, Any]:
    """A string of points between two walls under its weight, the middle one held at a distance from the ground."""
    model = ph.Model(gravity=(0, 0, -1.0))
    points = [model.add_point(mass=1e-3, position=(k, 0, 0)) for k in range(1, count + 1)]
    ends = [model.ground, *points, model.ground]
    for k, (a, b) in enumerate(itertools.pairwise(ends)):
        spring = ph.forces.SpringDamper(
            a, b, stiffness=5.0, length=0.9, first_point=(k, 0, 0), second_point=(k + 1, 0, 0)
        )
        model.add(spring)
    middle = points[count // 2]
    model.add(
        ph.joints.Distance(
            model.ground, middle, first_point=(count // 2 + 1, 0, 2), second_point=(count // 2 + 1, 0, 0)
        )
    )
    return model.assemble()


@pytest.mark.exhaustive
def test_all_solvers_lead_to_the_same_string(monkeypatch: pytest.MonkeyPatch) -> None:
    system, state = net(60)
    on_host = equilibrium(system, state)
    assert float(on_host.state[0][0][:, 2].min()) < -0.01

    for largest, kind in ((10_000, LapackKKT), (10, SparseKKT)):
        monkeypatch.setattr(_equations, "DENSE", largest)
        chosen: list[Any] = []

        def traced(system: Any, q: Any, chosen: list[Any] = chosen) -> tuple[Any, Any]:
            chosen.append(_equations.solver_of(system, jnp.zeros(()), q))
            result = equilibrium(system, (q, state[1]))
            return result.state[0][0], result.multipliers

        places, multipliers = eqx.filter_jit(traced)(system, state[0])
        assert isinstance(chosen[0], kind)
        np.testing.assert_allclose(places, on_host.state[0][0], atol=1e-10)
        np.testing.assert_allclose(multipliers, on_host.multipliers, atol=1e-10)


@pytest.mark.exhaustive
def test_a_load_without_equilibrium_is_followed_to_its_end() -> None:
    # A torque T on a pendulum of weight w: sin θ = T / (w l) up to T = w l, reached at 1/1.6 of the time.
    limit = M * G * L
    model = ph.Model(gravity=(0, 0, -G))
    body = model.add_body(mass=M, inertia=(0.1, 0.2, 0.15), position=(0, 0, -L), name="bob")
    model.add(ph.joints.Revolute(model.ground, body, point=(0, 0, 0), axis=(0, 1, 0), name="hinge"))
    model.add(ph.forces.Torque(body, lambda t: jnp.array([0.0, 1.6 * limit * t, 0.0])))
    system, state = model.assemble()
    with pytest.raises(
        EquilibriumError, match=r"ends at t = 0\.62.*limit point.*`joints.PrescribedTranslation`"
    ) as caught:
        equilibrium(system, state, times=[0.2, 0.4, 0.9])
    path = caught.value.equilibrium.path
    assert len(path.t) == 3
    assert not caught.value.equilibrium.converged
    assert 0.6 < path.t[-1] <= 1 / 1.6
    turned = np.arctan2(-path.outputs["positions"][:, 0, 0], -path.outputs["positions"][:, 0, 2])
    np.testing.assert_allclose(np.sin(turned), 1.6 * np.asarray(path.t), atol=1e-9)


def test_motions_without_resistance_are_named() -> None:
    model = ph.Model()
    model.add_body(mass=1.0, inertia=(1, 1, 1), name="drifter")
    with pytest.raises(EquilibriumError, match=r"`drifter`.*Hold it by a joint or a spring"):
        equilibrium(*model.assemble())


@pytest.mark.exhaustive
def test_a_body_that_may_spin_is_named() -> None:
    model = ph.Model(gravity=(0, 0, -G))
    body = model.add_body(mass=1.0, inertia=(1, 1, 1), position=(0, 0, -1), name="spinner")
    model.add(ph.joints.Spherical(model.ground, body, point=(0, 0, 0)))
    with pytest.raises(EquilibriumError, match=r"nothing resists a motion in which `spinner` turns about \(0, 0, 1\)"):
        equilibrium(*model.assemble())


@pytest.mark.exhaustive
def test_a_taut_cable_that_can_not_stretch_says_so() -> None:
    model, points = ph.Model(gravity=(0, 0, -9.81)), np.linspace(0, 1, 5)[:, None] * (10.0, 0, 0)
    section = ph.rods.Section((10, 10, 1e2, 1e6, 1e6, 1e6), mass=0.5, inertia=(1e-3, 1e-3, 1e-3))
    cable = model.add_rod(points=points, normal=(0, 1, 0), section=section, constrained="inextensible", name="cable")
    for end, point in ((cable.first, points[0]), (cable.last, points[-1])):
        model.add(ph.joints.Spherical(model.ground, end, point=point))
    with pytest.raises(EquilibriumError, match="start with slack"):
        ph.equilibrium(model.problem(t1=1.0))


@pytest.mark.exhaustive
def test_remedies_name_the_shape_of_rods() -> None:
    model = ph.Model()
    section = ph.rods.Section((10, 10, 10, 1e3, 1e3, 1e3), mass=0.5, inertia=(1e-3, 1e-3, 1e-3))
    rod = model.add_rod(points=np.linspace(0, 1, 3)[:, None] * (1, 0, 0), normal=(0, 1, 0), section=section, name="r")
    model.add(ph.joints.Fixed(model.ground, rod.first, point=(0, 0, 0)))
    model.add(ph.forces.PointForce(rod.last, (0, 0, -20.0)))
    with pytest.raises(EquilibriumError, match=r"Give more `steps`.*another shape .*`rods.catenary`.*check whether"):
        equilibrium(*model.assemble(), max_iterations=1)


def test_bad_input_is_refused() -> None:
    system, state = held_pendulum()
    for options, message in (
        ({"steps": 0}, "`steps` must be an integer of at least 1"),
        ({"steps": 2, "times": [1.0]}, "`times` takes the place"),
        ({"times": []}, "at least one time"),
        ({"times": [np.nan]}, "finite"),
        ({"rtol": -1.0}, "`rtol` and `atol`"),
        ({"max_iterations": 0}, "`max_iterations`"),
    ):
        with pytest.raises(ValueError, match=message):
            equilibrium(system, state, **options)
    with pytest.raises(ValueError, match="needs `state0`"):
        equilibrium(system)
    with pytest.raises(ValueError, match="mechanical system, got VectorField"):
        equilibrium(ph.VectorField(Rn(1), lambda t, y: y))
