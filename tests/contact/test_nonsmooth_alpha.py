"""Generalized-α with contacts: elastic machines, stiff ones, its memory, and what the name stands for."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference_problems import REFERENCES, run
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import polhode as ph
from polhode.integrators.nonsmooth.contact_identity import Match
from polhode.integrators.nonsmooth.slide_directions import least_speed, mean_drag, persistent
from polhode.spaces import Rn
from polhode.systems.mechanical import FunctionContacts, Mechanical

G = 9.81


def alpha(rho_inf: float = 0.8, **options: Any) -> Any:
    return ph.integrators.get("generalized-alpha", rho_inf=rho_inf, **options)


def two_masses(k: float, d: float = 0.0) -> Mechanical:
    """10 kg on a spring of length 1 on 1 kg, above a floor at 0."""

    def force(t: Any, q: Any, v: Any) -> Any:
        spring = k * (1.0 - (q[0] - q[1])) - d * (v[0] - v[1])
        return jnp.stack([spring - 10 * G, -spring - G])

    contacts = FunctionContacts(lambda t, q: q[1:], number=1)
    return Mechanical(Rn(2), jnp.diag(jnp.array([10.0, 1.0])), force, contact_set=contacts)


def simulate(system: Any, method: Any, t1: float, h: float, v: float = -1.0) -> Any:
    return ph.simulate(system, method, t1=t1, h=h, state0=(jnp.array([1.1, 0.1]), jnp.array([v, v])))


def hop(k: float, d: float, t1: float) -> np.ndarray:
    """(q, v) of the two masses by SciPy, from event to event."""

    def flight(t: float, y: np.ndarray) -> list[float]:
        spring = k * (1.0 - (y[0] - y[1])) - d * (y[2] - y[3])
        return [y[2], y[3], spring / 10 - G, -spring - G]

    def stance(t: float, y: np.ndarray) -> list[float]:
        return [y[2], 0.0, (k * (1.0 - y[0]) - d * y[2]) / 10 - G, 0.0]

    def lands(t: float, y: np.ndarray) -> float:
        return y[1]

    def lifts(t: float, y: np.ndarray) -> float:
        return k * (1.0 - y[0]) - d * y[2] + G

    for event in (lands, lifts):
        event.terminal, event.direction = True, -1
    t, y, flies = 0.0, np.array([1.1, 0.1, -1.0, -1.0]), True
    while t < t1:
        end = solve_ivp(
            flight if flies else stance, (t, t1), y, events=lands if flies else lifts, rtol=1e-12, atol=1e-13
        )
        t, y, flies = end.t[-1], end.y[:, -1].copy(), not flies
        if not flies:
            y[[1, 3]] = 0.0
    return y


@pytest.mark.exhaustive
def test_an_elastic_machine_that_hops_moves_as_by_scipy():
    """Two masses land, stand and lift off; an error of the step's size across impacts."""
    system, errors = two_masses(2e3, 20.0), []
    exact = hop(2e3, 20.0, 0.6)
    for h in (4e-3, 1e-3, 2.5e-4):
        q, v = simulate(system, alpha(), 0.6, h).state
        errors.append(np.abs(np.concatenate((q[-1], v[-1])) - exact).max())
    assert errors[0] < 0.1
    assert errors[1] < 0.5 * errors[0]
    assert errors[2] < 0.5 * errors[1]


@pytest.mark.exhaustive
def test_a_stiff_machine_comes_to_rest_where_midpoints_ring():
    """Springs whose period is a tenth of the step: forces on the floor in the last tenth of a second."""
    system = two_masses(1e7)
    ringing = {}
    for name, method in (("moreau", "moreau"), ("alpha", alpha(0.5))):
        end = simulate(system, method, 1.0, 0.01)
        forces = np.asarray(end.multipliers)[-10:, 0]
        ringing[name] = np.ptp(forces) / (11 * G)
        q, v = (np.asarray(x) for x in end.state)
        assert q[:, 1].min() > -1e-9
        if name == "alpha":
            np.testing.assert_allclose(forces, 11 * G, rtol=1e-9)
            np.testing.assert_allclose(q[-1], (1 - 10 * G / 1e7, 0.0), atol=1e-12)
            assert np.abs(v[-1]).max() < 1e-9
    assert ringing["moreau"] > 0.1


@pytest.mark.exhaustive
@pytest.mark.parametrize("smooth", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
def test_sliding_along_a_curve_is_of_order_2_with_forces_in_the_smooth_motion(smooth):
    puck, steps = REFERENCES["curved-puck"], (0.02, 0.01, 0.005)
    runs = [run(puck, alpha(smooth_contacts=smooth), h) for h in steps]
    errors = [puck.errors(each)["place after 1 s"] for each in runs]
    np.testing.assert_allclose(np.log2(np.divide(errors[:-1], errors[1:])), 2.0 if smooth else 1.0, atol=0.02)
    if smooth:
        assert errors[0] < 3e-4
    weight = G * np.cos(np.radians(25))
    for each in runs:
        touch = each.contacts["floor", "body"]
        np.testing.assert_allclose(np.asarray(touch.normal_force)[1:], weight, rtol=1e-11)
        assert np.abs(touch.gap).max() < 1e-15


@pytest.mark.exhaustive
def test_forces_of_a_slide_are_of_order_2():
    """Friction of a step is the mean of its direction: against quadrature by steps of a hundredth."""
    puck = REFERENCES["curved-puck"]._replace(t1=0.4)
    fine = np.asarray(run(puck, alpha(), 1e-4).contacts["floor", "body"].force)[1:]
    errors = []
    for h in (0.02, 0.01):
        means = fine.reshape(-1, round(h / 1e-4), 3).mean(axis=1)
        forces = np.asarray(run(puck, alpha(), h).contacts["floor", "body"].force)[1:]
        errors.append(np.abs(forces - means)[3:].max())
    assert errors[1] < 0.3 * errors[0]


@pytest.fixture(scope="module")
def problem():
    model = ph.Model(gravity=(0, 0, -G), units="SI")
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    friction, speed = ph.Parameter("friction", 0.1), ph.Parameter("speed", 2.0)
    ball = ph.shapes.Sphere(0.1)
    model.add_body(mass=2.0, shape=ball, position=(0, 0, 0.1), velocity=(speed, 0, 0), name="ball")
    model.contacts(friction=friction, restitution=0.5)
    return model.problem(integrator="generalized-alpha", t1=0.2, h=0.01)


def assert_same_bytes(a: Any, b: Any) -> None:
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert np.asarray(x).tobytes() == np.asarray(y).tobytes()


@pytest.mark.exhaustive
def test_runs_go_on_to_the_same_bytes(problem, tmp_path):
    whole = ph.simulate(problem)
    ph.simulate(problem, store=tmp_path / "run.zarr", max_steps=7, throw=False)
    assert_same_bytes(ph.resume(tmp_path / "run.zarr", problem=problem, max_steps=1000).frames, whole.frames)
    extended = ph.simulate(problem, initial=ph.simulate(problem, t1=0.1), t1=0.2)
    assert_same_bytes(*(jax.tree.map(lambda x: x[-1], each.frames) for each in (extended, whole)))
    audit = whole.audit()
    assert audit.kept, audit
    assert audit["contact_work"].promise is None
    assert audit["energy"].promise is None


@pytest.mark.exhaustive
def test_members_of_ensembles_are_single_runs(problem):
    samples = {"friction": np.array([0.05, 0.1, 0.3]), "speed": np.array([1.0, 2.0, 5.0])}
    members = ph.ensemble(problem, samples=samples, save_every=10)
    assert members.stats["by"] == "lanes"
    for k in range(3):
        alone = ph.simulate(problem.replace(**{name: x[k] for name, x in samples.items()}), save_every=10).to_xarray()
        for name in ("state.1", "outputs.positions"):
            np.testing.assert_array_equal(members.dataset[name][k].values, alone[name].values)


@pytest.mark.exhaustive
def test_derivatives_of_sliding_are_those_of_its_closed_form(problem):
    """x = vt - μgt²/2."""

    def end(values: Any) -> Any:
        friction, speed = values
        return ph.simulate(problem.replace(friction=friction, speed=speed)).bodies["ball"].position[-1, 0]

    start = jnp.array([0.1, 2.0])
    np.testing.assert_allclose(jax.grad(end)(start), (-G * 0.2**2 / 2, 0.2), atol=1e-12)
    np.testing.assert_allclose(jax.jacfwd(end)(start), (-G * 0.2**2 / 2, 0.2), atol=1e-12)


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["moreau", "generalized-alpha"])
def test_a_rod_that_falls_on_a_stop_moves_as_with_small_steps(method):
    """A cantilever of rubber whose end hits a floor, by steps that are far beyond its waves."""
    model = ph.Model(gravity=(0, 0, -G), units="SI")
    model.ground.add_shape(ph.shapes.Plane(point=(0, 0, -0.1), name="floor"))
    section = ph.rods.circular(radius=0.02, youngs_modulus=1e8, density=1000.0, damping=2e-3)
    points = np.linspace(0, 1, 7)[:, None] * (1.0, 0, 0)
    rod = model.add_rod(points=points, section=section, clamped="first", name="rod")
    model.add_shape(rod.last, ph.shapes.Sphere(0.02, name="tip"))
    model.add_contact(model.ground, rod.last, friction=0.3)

    def heights(method: Any, h: float) -> np.ndarray:
        whole = ph.simulate(model.problem("SO3xR3", t1=0.6, h=h), method, save_every=round(8e-3 / h))
        assert np.asarray(whole.contacts["floor", "tip"].gap).min() > -1e-9
        return np.asarray(whole.bodies[rod.last.name].position)[:, 2]

    exact = heights("rattle", 2e-5)
    method = alpha() if method == "generalized-alpha" else method
    errors = [np.abs(heights(method, h) - exact).mean() for h in (8e-3, 1e-3)]
    assert errors[0] < 2e-3
    assert errors[1] < 0.15 * errors[0]


def test_contacts_in_other_slots_of_their_pair_are_the_same():
    match = Match.of(jnp.asarray([7, 4, -3, 9]), jnp.asarray([4, -2, 7, -4]))
    np.testing.assert_array_equal(match.recall(jnp.asarray([1.0, 2.0, 3.0, 4.0])), (3, 1, 0, 0))
    np.testing.assert_array_equal(match.is_old, (True, True, False, False))
    assert match.rest(jnp.asarray([1.0, 2.0, 3.0, 4.0])) == 6.0


def test_the_name_stands_for_the_form_that_the_system_needs(problem):
    method = alpha(0.7)
    form = method.for_system(problem.system)
    assert type(form) is not type(method)
    assert form.rho_inf == 0.7
    assert form.for_system(problem.system) is form
    assert ph.integrators.name_of(alpha(0.9).for_system(problem.system)) == "generalized-alpha"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"newton": "full"}, "no option `newton`, got 'full'"),
        ({"constraint": "stabilized-index-2"}, "no option `constraint`"),
        ({"rho_inf": 1.5}, "`rho_inf` must be a number in"),
        ({"smooth_contacts": 1}, "`smooth_contacts` must be"),
    ],
)
def test_options_that_mean_nothing_with_contacts_are_refused(problem, options, said):
    with pytest.raises(ValueError, match=said):
        ph.simulate(problem, ph.integrators.get("generalized-alpha", **options))


def test_what_it_cannot_do_is_refused(problem):
    with pytest.raises(ValueError, match="Nothing touches here"):
        ph.simulate(ph.problems.get("heavy-top-constrained"), alpha(smooth_contacts=False))
    with pytest.raises(ValueError, match=r"no error estimate.*, dopri5\.$"):
        ph.simulate(problem, "generalized-alpha", rtol=1e-6, atol=1e-6)
    model = ph.Model(gravity=(0, 0, -G))
    model.ground.add_shape(ph.shapes.Plane())
    model.add_body(mass=1.0, shape=ph.shapes.Sphere(0.1), position=(0, 0, 0.1))
    model.contacts()
    angles = model.problem("euler-angles-kinematic", t1=0.1, h=0.01)
    with pytest.raises(ValueError, match="`moreau` takes them"):
        ph.simulate(angles, "generalized-alpha")


@pytest.mark.exhaustive
def test_a_ball_that_rolls_does_not_bounce_in_its_own_frame():
    """Velocities in the frame of a body turn with it: contacts that stay closed approach only seemingly."""
    model = ph.Model(gravity=(0, 0, -G))
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    shape = ph.shapes.Sphere(0.1)
    model.add_body(
        mass=2.0, shape=shape, position=(0, 0, 0.1), velocity=(1, 0, 0), angular_velocity=(0, 10, 0), name="ball"
    )
    model.contacts(friction=0.5, restitution=0.8)
    run = ph.simulate(model.problem("minimal", t1=0.2, h=0.01), alpha())
    np.testing.assert_allclose(run.bodies["ball"].position[:, 2], 0.1, atol=1e-12)
    np.testing.assert_allclose(run.contacts["floor", "ball"].normal_force, 2 * G, rtol=2e-3)
    assert abs(run.dissipated["impact"][-1]) < 1e-9


@pytest.mark.exhaustive
@pytest.mark.parametrize("friction", [0.0, 0.4])
@pytest.mark.parametrize(
    "shape", [ph.shapes.Ellipsoid((0.2, 0.15, 0.1)), ph.shapes.Box((0.3, 0.2, 0.1))], ids=["ellipsoid", "box"]
)
def test_bodies_that_spin_hit_each_other(shape: Any, friction: float) -> None:
    """Places and normals of edges turn with the end of the step, and friction turns the body away from them."""
    model = ph.Model()
    model.add_body(
        mass=2.0, shape=ph.shapes.Box((0.4, 0.2, 0.2)), velocity=(1, 0, 0.1), angular_velocity=(1, 2, 0.5), name="a"
    )
    model.add_body(
        mass=1.0, shape=shape, position=(0.8, 0.05, 0.02), velocity=(-1, 0.1, 0), angular_velocity=(0, 1, 3), name="b"
    )
    model.contacts(friction=friction, restitution=0.5)
    for h in (0.01, 0.005, 0.0025):
        solution = ph.simulate(model.problem(t1=0.4, h=h), integrator="generalized-alpha")
        a, b = solution.bodies["a"].velocity, solution.bodies["b"].velocity
        assert a[-1, 0] < 0.5
        np.testing.assert_allclose(2 * a[-1] + b[-1], 2 * a[0] + b[0], rtol=0, atol=1e-12)


def shaken_puck(tilt: float, size: float, pulse: float) -> ph.Model:
    """A puck of 2 kg on an incline, under a force along it that turns its sliding; one point of contact, no turning."""
    model = ph.Model(gravity=(G * np.sin(tilt), 0, -G * np.cos(tilt)), units="SI")
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    sole = ph.shapes.Sphere(0.1, name="sole")
    puck = model.add_body(mass=2.0, inertia=(1e12,) * 3, shape=sole, position=(0, 0, 0.1), name="puck")
    model.add(ph.forces.PointForce(puck, lambda t: size * jnp.stack([jnp.sin(pulse * t), 0 * t, 0 * t])))
    model.contacts(friction=0.3)
    return model


def slide_to_and_fro(times: np.ndarray, tilt: float, size: float, pulse: float) -> np.ndarray:
    """Places and velocities of this puck, which never stops for long after it has begun; from turn to turn."""
    gravity, friction = G * np.sin(tilt), 0.3 * G * np.cos(tilt)
    begin: Any = brentq(lambda t: gravity + size / 2 * np.sin(pulse * t) - friction, 0.0, 0.5 * np.pi / pulse)
    x, way, states = 0.0, 1.0, np.zeros((2, len(times)))
    while begin < times[-1]:
        rate, phase = gravity - way * friction, pulse * begin

        def speed(t: Any, begin: float = begin, rate: float = rate, phase: float = phase) -> Any:
            return rate * (t - begin) - size / (2 * pulse) * (np.cos(pulse * t) - np.cos(phase))

        def place(t: Any, x: float = x, begin: float = begin, rate: float = rate, phase: float = phase) -> Any:
            s = t - begin
            swing = (np.sin(pulse * t) - np.sin(phase)) / pulse - np.cos(phase) * s
            return x + 0.5 * rate * s**2 - size / (2 * pulse) * swing

        fine = begin + np.linspace(0.0, 2 * np.pi / pulse, 2001)[5:]
        first = np.argmax(way * speed(fine) < 0)
        end: Any = brentq(speed, fine[first - 1], fine[first])
        inside = (times >= begin) & (times <= end)
        states[:, inside] = place(times[inside]), speed(times[inside])
        x, begin, way = float(place(end)), end, -way
    return states


SHAKEN = (np.radians(4), 24.0, 25.0)


@pytest.mark.exhaustive
@pytest.mark.parametrize("steps", [500, 4000])
def test_friction_stays_in_its_cone_where_sliding_turns(steps):
    """Forces on the edge of the cone in all steps, and a motion as exact as the turns within steps allow."""
    h = 1.0 / steps
    whole = ph.simulate(shaken_puck(*SHAKEN).problem(t1=1.0, h=h), "generalized-alpha")
    touch: Any = whole.contacts["floor", "sole"]
    force = np.asarray(touch.force)
    normal, friction = force[:, 2], np.hypot(force[:, 0], force[:, 1])
    np.testing.assert_allclose(normal, 2 * G * np.cos(SHAKEN[0]), rtol=1e-9)
    assert (friction - 0.3 * normal).max() < 1e-9 * normal.max()
    audit = whole.audit()
    assert audit.kept, audit
    places, speeds = slide_to_and_fro(np.asarray(whole.t), *SHAKEN)
    # A turn within a step has friction of one sign for the whole of it.
    assert np.abs(np.asarray(whole.bodies["puck"].velocity)[:, 0] - speeds).max() < 2 * 0.3 * G * h
    assert np.abs(np.asarray(whole.bodies["puck"].position)[:, 0] - places).max() < 0.3 * G * h


@pytest.mark.exhaustive
def test_mean_friction_is_in_the_cone():
    """Means that leave the ellipse of their normal force, that are inside of it, or without a normal force."""
    friction = jnp.asarray([0.3, 0.2]) * jnp.ones((4, 1))
    end = jnp.asarray([[-0.3, 0.0]]) * jnp.ones((4, 1))
    means = jnp.asarray([[2.0, 0.6006, 0.0], [2.0, 0.1, -0.3], [-1e-3, 0.2, 0.1], [1.0, 0.3, 0.2]])
    drag = mean_drag(means, end, friction)
    expected = [(0.3, 0.0), (0.05, -0.15), (-0.3, 0.0), (0.3 / np.sqrt(2), 0.2 / np.sqrt(2))]
    np.testing.assert_allclose(drag, expected, rtol=1e-14)
    assert not np.any(mean_drag(means, 0.0 * end, 0.0 * friction))


@pytest.mark.exhaustive
def test_contacts_that_do_not_act_on_each_other_have_speeds_of_their_own():
    """A fast body elsewhere does not say from which speed another one slides."""
    together = jnp.asarray([[True, True, False], [True, True, False], [False, False, True]])
    without = jnp.asarray([[1.0, 0, 0], [0.1, 0, 0], [1e3, 0, 0]])
    np.testing.assert_allclose(least_speed(without, together), (1e-8, 1e-8, 1e-5))
    slip = jnp.asarray([[1e-6, 0.0], [1e-6, 0.0], [1e-6, 0.0]])
    slides = persistent(jnp.ones(3, bool), slip, slip, without, together)
    np.testing.assert_array_equal(slides, (True, True, False))
    np.testing.assert_array_equal(persistent(jnp.ones(3, bool), slip, slip, without), False)


@pytest.mark.exhaustive
def test_a_rolling_ball_of_unequal_inertias_begins_to_slide():
    """Its friction is at the bound where its slip begins: rounds crept towards that and ended unsolved."""
    tilt = ph.rotation_vector((0, 0.1, 0))
    model = ph.Model(gravity=(0, 0, -G))
    model.ground.add_shape(ph.shapes.Plane(rotation=tilt, name="floor"))
    ball = model.add_body(
        mass=2.0, inertia=(0.02, 0.03, 0.04), shape=ph.shapes.Sphere(0.1), position=tilt @ np.array([0, 0, 0.25]),
        velocity=(1.5, 0.4, 0), angular_velocity=(4, -6, 8), name="ball",
    )  # fmt: skip
    model.add_contact(model.ground, ball, friction=0.25, restitution=0.6)
    ends = []
    for method, options in (("generalized-alpha", {"h": 2.5e-3}), ("rkmk54", {"rtol": 1e-9})):
        run = ph.simulate(model.problem("SO3xR3", t1=1.5), method, **options)
        ends.append(run.bodies["ball"].position[-1])
    assert run.contacts["floor", "ball"].mode[-1] == "slide"
    # Bounces before are of order 1.
    np.testing.assert_allclose(ends[0], ends[1], atol=2e-2)
    assert run.audit().accurate


@pytest.mark.exhaustive
@pytest.mark.parametrize("spin", [(2.0, 3.0, 1.0), (-3.0, 1.0, 4.0), (1.0, -2.0, 0.5)])
@pytest.mark.parametrize("friction", [0.1, 0.5])
def test_cylinders_that_tumble_onto_their_flat_ends_go_on(spin, friction):
    model = ph.Model(gravity=(0, 0, -9.81), units="SI")
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    can = model.add_body(
        mass=1.0, shape=ph.shapes.Cylinder(0.1, 0.2), position=(0, 0, 0.25), velocity=(1, 0.3, -0.5),
        rotation=ph.rotation_vector((0.3, 0.4, 0.2)), angular_velocity=spin, name="can",
    )  # fmt: skip
    model.add_contact(model.ground, can, friction=friction)
    run = ph.simulate(model.problem("SO3xR3", t1=0.5), "generalized-alpha", h=2e-3)
    # Plastic impacts bring it to rest, or to a slide, on an end or on its side.
    assert run.t[-1] == pytest.approx(0.5)
    assert np.min(run.contacts["ground", "can"].gap) > -1e-10
