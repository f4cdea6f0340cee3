"""Explicit methods with contacts: impacts and changes of modes located, modes held between them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference_problems import REFERENCES, energy, instants, position, run

import polhode as ph
from polhode.spaces import Rn
from polhode.systems.mechanical import FunctionContacts, Mechanical

G = 9.81


E = 0.3
FIRST = np.sqrt(2 / G)
"""The first impact of a ball that falls from 1 m."""


def ball() -> Mechanical:
    contacts = FunctionContacts(lambda t, q: q, number=1, restitution=E)
    return Mechanical(Rn(1), np.eye(1), lambda t, q, v: jnp.array([-G]), contact_set=contacts)


def impacts(count: int) -> np.ndarray:
    """Times of a geometric series."""
    return FIRST * (1 + 2 * np.concatenate(([0.0], np.cumsum(E ** np.arange(1.0, count)))))


def heights(t: np.ndarray) -> np.ndarray:
    """Parabolas between impacts, and rest after them."""
    starts = impacts(40)
    flight = np.searchsorted(starts, t) - 1
    since, speed = t - starts[np.maximum(flight, 0)], G * FIRST * E ** (flight + 1.0)
    return np.where(flight < 0, 1 - 0.5 * G * t**2, np.where(flight >= 38, 0.0, speed * since - 0.5 * G * since**2))


def oscillator(friction: float = 0.3) -> Mechanical:
    """A mass of 2 kg on a spring of 50 N/m, on a floor with dry friction; coordinates x and z."""
    contacts = FunctionContacts(lambda t, q: q[1:], lambda t, q, v: v[:1], number=1, friction=friction)

    def force(t, q, v):
        return jnp.stack([-50.0 * q[0], -2 * G + 0.0 * q[1]])

    return Mechanical(Rn(2), 2 * np.eye(2), force, contact_set=contacts)


def rod(friction: float) -> Mechanical:
    """A rod of 2 m whose lower tip touches a floor; coordinates x and z of its centre, and its angle."""
    contacts = FunctionContacts(
        lambda t, q: (q[1] - jnp.sin(q[2]))[None],
        lambda t, q, v: (v[0] + jnp.sin(q[2]) * v[2])[None],
        number=1,
        friction=friction,
    )
    mass = np.diag([1.0, 1.0, 1 / 3])
    return Mechanical(Rn(3), mass, lambda t, q, v: jnp.array([0.0, -G, 0.0]), contact_set=contacts)


def sliding_rod(angle: float, slip: float, rate: float) -> tuple[np.ndarray, np.ndarray]:
    q = np.array([0.0, np.sin(angle), angle])
    return q, np.array([slip - np.sin(angle) * rate, np.cos(angle) * rate, rate])


@pytest.mark.exhaustive
def test_infinitely_many_impacts_end_in_rest():
    """Impacts are a geometric series; energies and what impacts take close the balance to round-off."""
    solution = ph.simulate(ball(), "rk4", t1=1.5, h=0.1, state0=(np.array([1.0]), np.zeros(1)))
    height, t = np.asarray(solution.state[0])[:, 0], np.asarray(solution.t)
    located = instants(solution, "closes")
    assert 10 < len(located) < 20
    np.testing.assert_allclose(located[:10], impacts(10), atol=1e-10)
    np.testing.assert_allclose(height, heights(t), atol=1e-11)
    assert height[-1] == pytest.approx(0.0, abs=1e-14)
    assert solution.state[1][-1, 0] == pytest.approx(0.0, abs=1e-14)
    taken = solution.multipliers[:, -3:].sum(axis=1)
    np.testing.assert_allclose(0.5 * np.asarray(solution.state[1])[:, 0] ** 2 + G * height + taken, G, atol=1e-11)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("method", "steps", "error"),
    [("rk4", {"h": 0.02}, 3e-6), pytest.param("rkmk54", {"rtol": 1e-9}, 1e-8, marks=pytest.mark.exhaustive)],
)
def test_dry_friction_stops_where_the_spring_is_too_weak(method, steps, error):
    """Harmonic pieces, each half a period long; then nothing moves, to the last bit."""
    state = np.array([1.0, 0.0]), np.zeros(2)
    solution = ph.simulate(oscillator(), method, t1=3.0, state0=state, **steps)
    lost = 2 * 0.3 * 2 * G / 50.0
    assert solution.state[0][-1, 0] == pytest.approx(1.0 - 4 * lost, abs=error)
    assert np.all(np.asarray(solution.state[1])[-1] == 0)
    np.testing.assert_allclose(instants(solution, "changes"), 4 * np.pi / 5, atol=error)


@pytest.mark.exhaustive
def test_friction_that_locks_a_rod_is_an_impact_without_collision():
    """In Painlevé's region the laws have no solution for forces: an impulse stops the tip, which doesn't part."""
    with pytest.warns(ph.FrictionLockWarning, match=r"t = 0 friction of contact 0.*Painlevé"):
        solution = ph.simulate(rod(1.8), "rk4", t1=0.01, h=0.01, state0=sliding_rod(1.0, -7.0, -1.0))
    (instant,) = instants(solution, "closes")
    assert instant < 1e-6
    q, v = (np.asarray(x)[-1] for x in solution.state)
    assert v[0] + np.sin(q[2]) * v[2] == pytest.approx(0.0, abs=0.1)
    # From then on the tip falls freely from rest, but for the turn of the rod.
    assert v[1] - np.cos(1.0) * v[2] == pytest.approx(-G * 0.01, abs=1e-5)
    energy = [0.5 * (u[0] ** 2 + u[1] ** 2 + u[2] ** 2 / 3) for u in np.asarray(solution.state[1])]
    assert energy[0] - energy[-1] > 10.0


@pytest.mark.exhaustive
def test_a_run_goes_on_from_another_one_and_users_have_events():
    """Events of contacts are located beside others, and what is saved between steps knows of impacts."""
    top = ph.Event(lambda t, state: state[1][0], direction=-1, name="top")
    options = {"state0": (np.array([1.0]), np.zeros(1)), "events": [top]}
    whole = ph.simulate(ball(), "rk4", t1=0.8, save_at=np.linspace(0, 0.8, 33), h=0.1, **options)
    names = [whole.events.names[k] for k in np.asarray(whole.events.number)]
    assert names == ["contact closes", "top", "contact closes", "top"]
    np.testing.assert_allclose(np.asarray(whole.state[0])[:, 0], heights(np.asarray(whole.t)), atol=1e-12)
    part = ph.simulate(ball(), "rk4", t1=0.5, h=0.1, **options)
    rest = ph.simulate(ball(), "rk4", t1=0.8, h=0.1, initial=part, events=[top])
    np.testing.assert_allclose(rest.state[0][-1], whole.state[0][-1], atol=1e-13)


def test_limits_are_named():
    state = np.array([1.0]), np.zeros(1)
    with pytest.raises(ValueError, match=r"outside of jit.*moreau"):
        jax.jit(lambda v: ph.simulate(ball(), "rk4", t1=1.0, h=0.1, state0=(state[0], v)).t)(state[1])
    many = FunctionContacts(lambda t, q: jnp.broadcast_to(q, (40,)), number=40)
    heap = Mechanical(Rn(1), np.eye(1), lambda t, q, v: jnp.array([-G]), contact_set=many)
    with pytest.raises(ValueError, match=r"40 points.*moreau"):
        ph.simulate(heap, "rk4", t1=1.0, h=0.1, state0=state)
    with pytest.raises(ValueError, match=r"no error estimate.*rkmk54"):
        ph.simulate(ball(), "moreau", t1=1.0, rtol=1e-6, state0=state)


LOCATED = {
    "incline-stop": (1e-10, 1e-12, 1e-14, 1e-14),
    "curved-puck": (1e-8,),
    "billiard": (1e-8, 1e-8, 1e-6, 1e-13),
    "dry-oscillator": (1e-8, 1e-14, 1e-13),
    "belt": (1e-12, 1e-13),
    "cube-thrown": (1e-11, 1e-14, 1e-11),
    "rolls-30": (1e-12, 1e-12, 1e-11),
    "tripod": (1e-9, 1e-9, 1e-13),
    "bouncing-ball": (1e-12, 1e-14, 1e-11, 1e-14),
    "cradle-touching-3": (1e-12,),
    "cradle-apart-3": (1e-12,),
    "oblique-slides": (1e-9, 1e-9, 1e-9),
    "rocking-block": (1e-8, 1e-8, 1e-8),
    "ladder-70": (1e-8, 1e-9),
    "pendulum-wall": (1e-8, 1e-12),
    "woodpecker": (2e-4, 2e-4, 1.5e-4),
}
"""Largest errors with a tolerance of 1e-9."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", LOCATED)
@pytest.mark.parametrize("form", ["SO3xR3", "minimal"])
def test_reference_problems_at_a_tolerance(name, form):
    reference = REFERENCES[name]
    if form == "minimal" and not reference.joints:
        pytest.skip("no joints")
    errors = reference.errors(run(reference, "rkmk54", formulation=form, rtol=1e-9))
    outside = {
        what: error for (what, error), bound in zip(errors.items(), LOCATED[name], strict=True) if abs(error) > bound
    }
    assert not outside


@pytest.mark.exhaustive
def test_impacts_keep_the_order_of_the_method():
    """Times of four impacts of a pendulum against a wall."""
    steps = (0.08, 0.04, 0.02, 0.01)
    errors = [
        REFERENCES["pendulum-wall"].errors(run(REFERENCES["pendulum-wall"], "rkmk4", h, "minimal"))["times of impacts"]
        for h in steps
    ]
    np.testing.assert_allclose(np.log2(np.divide(errors[:-1], errors[1:])), 4.0, atol=0.3)


@pytest.mark.exhaustive
def test_a_block_rocks_until_it_stands():
    """Impacts at both edges accumulate; energies and what impacts take close the balance."""
    reference = REFERENCES["rocking-block"]._replace(t1=6.0)
    solution = run(reference, "rkmk54", rtol=1e-9)
    np.testing.assert_allclose(position(solution)[-1, 2], 0.6, atol=1e-12)
    assert np.max(np.abs(np.asarray(solution.bodies["body"].velocity)[-1])) < 1e-13
    balance = energy(solution) + sum(np.asarray(part) for part in solution.dissipated.values())
    assert np.ptp(balance) < 1e-7 * balance[0]
    assert len(instants(solution, "closes")) > 10
    audit = solution.audit()
    assert audit.accurate


@pytest.mark.exhaustive
def test_slides_of_corners_end_after_others_have_turned():
    """A box that spins on a floor stops: a corner whose slip turns by a right angle must not hide its end."""
    model = ph.Model(gravity=(0, 0, -G))
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    spin = {"velocity": (0.0136044, -0.000412206, 0), "angular_velocity": (0, 0, 0.0279363)}
    model.add_body(mass=2.0, shape=ph.shapes.Box((0.2, 0.3, 0.2)), position=(0, 0, 0.1), **spin, name="box")
    model.contacts(friction=0.3)
    end = ph.simulate(model.problem("SO3xR3", t1=0.02, h=0.01), "rkmk4").bodies["box"]
    assert np.max(np.abs(end.velocity[-1])) < 1e-12
    assert np.max(np.abs(end.angular_velocity[-1])) < 1e-12


@pytest.mark.exhaustive
def test_a_box_slides_on_a_box_that_slides_on_a_floor() -> None:
    """Patches of four points, in machine code: all stages and events share the code of one evaluation."""
    model = ph.Model(gravity=(0, 0, -G))
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    slab = model.add_body(mass=2, shape=ph.shapes.Box((1, 1, 0.2)), position=(0, 0, 0.1), name="slab")
    box = model.add_body(
        mass=1, shape=ph.shapes.Box((0.4, 0.4, 0.2)), position=(0, 0, 0.3), velocity=(1, 0, 0), name="box"
    )
    model.add_contact(model.ground, slab, friction=0.02)
    model.add_contact(slab, box, friction=0.2)
    solution = ph.simulate(model.problem(t1=0.2), "rkmk54", rtol=1e-8, atol=1e-10)
    assert solution.stats["compiled"] is not None
    accelerations = {"box": -0.2 * G, "slab": (0.2 * 1 - 0.02 * 3) * G / 2}
    for name, start in (("box", 1.0), ("slab", 0.0)):
        velocity = solution.bodies[name].velocity[-1, 0]
        np.testing.assert_allclose(velocity, start + 0.2 * accelerations[name], rtol=0, atol=1e-9)


@pytest.mark.exhaustive
def test_slips_and_forces_are_those_of_the_saved_instants() -> None:
    """A ball slides until it rolls, and steps of the method are as long as that."""
    friction, speed, radius = 0.1, 1.0, 0.1
    model = ph.Model(gravity=(0, 0, -G))
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    model.add_body(
        mass=1.0, shape=ph.shapes.Sphere(radius), position=(0, 0, radius), velocity=(speed, 0, 0), name="ball"
    )
    model.contacts(friction=friction)
    t = np.linspace(0, 0.5, 11)
    solution = ph.simulate(model.problem(t1=0.5), "rkmk54", rtol=1e-9, save_at=t)
    assert solution.stats["steps"] < 8
    contact = solution.contacts["floor", "ball"]
    # Friction slows the ball down, and turns it with 5/2 of that.
    rolls = 2 * speed / (7 * friction * G)
    np.testing.assert_allclose(contact.slip, np.maximum(speed - 3.5 * friction * G * t, 0.0), rtol=0, atol=1e-10)
    assert list(contact.mode) == ["slide" if time < rolls else "stick" for time in t]
    taken = friction * G * (speed * t - 1.75 * friction * G * t**2)
    total = 1 / 7 * speed**2
    np.testing.assert_allclose(solution.dissipated["sliding"], np.where(t < rolls, taken, total), rtol=0, atol=1e-9)
