"""Room for fewer contacts than could touch: the nearest ones, which change along the motion."""

from __future__ import annotations

import itertools
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode import Result
from polhode.compiler import size_limits
from polhode.contact.distances import APART
from polhode.integrators.nonsmooth.contact_identity import Match, identities
from polhode.systems.mechanical.contact_set import AbstractContactSet, ContactKinematics, ContactLaw, PresentContacts


def feet(room: int | None, form: str = "SO3xR3") -> ph.Problem:
    """A cube with a sphere at each corner, dropped with spin on a floor, and a second one beside it."""
    model = ph.Model(gravity=(0, 0, -9.81))
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    corners = [0.1 * np.array(signs) for signs in itertools.product((-1, 1), repeat=3)]
    shapes = [ph.shapes.Sphere(0.02, position=corner, name=f"foot-{k}") for k, corner in enumerate(corners)]
    model.add_body(
        mass=2.0,
        inertia=(0.02, 0.02, 0.02),
        position=(0, 0, 0.25),
        rotation=ph.rotation_vector((0.4, 0.3, 0.1)),
        velocity=(2.0, 0.5, 0),
        angular_velocity=(2, 15, 3),
        shape=shapes,
        name="cube",
    )
    model.contacts(friction=0.5)
    if room is not None:
        model.limit_contacts(room)
    return model.problem(form, t1=0.8, h=0.005)


@pytest.mark.exhaustive
def test_the_nearest_contacts_give_the_motion_of_all():
    everything, few = (ph.simulate(feet(room)) for room in (8, 5))
    np.testing.assert_allclose(few.bodies["cube"].position, everything.bodies["cube"].position, atol=1e-9)
    force, own = (run.contacts["cube"].force for run in (few, everything))
    np.testing.assert_allclose(force, own, atol=1e-6 * np.max(np.abs(own)))
    # Each contact has its force at its own place, whichever slot it has taken; those of four feet are not determined.
    each, every = (run.contacts["cube"].normal_forces for run in (few, everything))
    determined = np.count_nonzero(every, axis=1) < 4
    assert np.count_nonzero(every[determined]) > 20
    np.testing.assert_allclose(each[determined], every[determined], atol=1e-6 * np.max(np.abs(own)))
    assert len(np.unique(every > 0, axis=0)) > 5, "the same contacts press all the time"


@pytest.mark.exhaustive
def test_the_first_forces_are_those_of_the_start():
    """A start at rest has its weight on the feet that stand, with room for just these."""
    model = ph.Model(gravity=(0, 0, -9.81))
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    places = [(x, y, z) for z in (0.1, -0.1) for x in (-0.1, 0.1) for y in (-0.1, 0.1)]
    shapes = [ph.shapes.Sphere(0.02, position=place) for place in places]
    model.add_body(mass=2.0, inertia=(0.02,) * 3, position=(0, 0, 0.12), shape=shapes, name="cube")
    model.contacts(friction=0.5)
    model.limit_contacts(4)
    run = ph.simulate(model.problem("SO3xR3", t1=0.05, h=0.01))
    forces = run.contacts["cube"].normal_forces
    np.testing.assert_allclose(forces[:, :4], 0.0, atol=1e-12)
    # Shares that nothing determines have round-off over the compliance that distributes them, sums do not.
    np.testing.assert_allclose(forces[:, 4:], 2 * 9.81 / 4, rtol=1e-8)
    np.testing.assert_allclose(np.sum(forces, axis=1), 2 * 9.81, rtol=1e-13)


class Pairs(AbstractContactSet):
    """Pairs of four slots each, of which nothing but their numbers matters."""

    law: ContactLaw = None
    count: int = 16

    @property
    def pair_numbers(self) -> np.ndarray:
        return np.repeat(np.arange(4), 4)

    def kinematics(self, system, t, q):
        raise NotImplementedError

    def gaps(self, system, t, q):
        raise NotImplementedError

    def at(self, number: Any, feature: Any, gap: Any = 0.0) -> PresentContacts:
        """Such contacts in a step."""
        zero, k = jnp.zeros((len(feature), 3)), len(feature)
        kinematics = ContactKinematics(gap + zero[:, 0], zero[:, :, None], zero, jnp.asarray(feature, jnp.int32))
        return PresentContacts(kinematics, None, number if number is None else jnp.asarray(number), zero[0, 0] + k)


@pytest.mark.exhaustive
def test_impulses_belong_to_features_of_pairs_whichever_slots_these_are_in():
    """A pair whose vertices change slots keeps them; another pair, a new feature and an empty slot have none."""
    pairs = Pairs()
    before = identities(pairs, pairs.at([5, 4, 8, 16], [7, 3, 7, 0], np.array([0, 0, 0, APART])))
    now = identities(pairs, pairs.at([4, 6, 7, 16], [7, 3, 2**31 - 1, 0], np.array([0, 0, 0, APART])))
    match = Match.of(now, before)
    assert match.recall(jnp.arange(1.0, 5.0)).tolist() == [1.0, 2.0, 0.0, 0.0]
    assert match.is_old.tolist() == [True, True, False, False]
    # Numbers from loops with a branch have a weak type, which gives way to the 32 bits of features.
    number = jnp.full(3, 2)
    assert number.weak_type
    assert identities(pairs, pairs.at(number, [0, 1, 2**31 - 1])).tolist() == [0, 1, 2**31 - 1]
    # Features of edges that cross lie 64 and 4096 apart, numbers of the same slot of two pairs of boxes 4.
    assert len({*identities(pairs, pairs.at([0, 4, 8, 12], [64 + 2 * 4096, 64 + 4096, 1 << 20, 0])).tolist()}) == 4


def balls() -> tuple[ph.Model, str]:
    """One that floats just above a floor, and one that falls on it from afar within a step."""
    model = ph.Model()
    model.ground.add_shape(ph.shapes.Plane())
    for name, x, gap, speed in (("near", 0.0, 1e-3, 0.0), ("fast", 1.0, 0.04, -10.0)):
        ball = ph.shapes.Sphere(0.1)
        model.add_body(mass=1.0, shape=ball, position=(x, 0, 0.1 + gap), velocity=(0, 0, speed), name=name)
    model.contacts(friction=0.5)
    return model, "SO3xR3"


def sliders() -> tuple[ph.Model, str]:
    """The same along two rails with stops."""
    model = ph.Model()
    for name, x, gap, speed in (("near", 0.0, 1e-3, 0.0), ("fast", 1.0, 0.04, -10.0)):
        body = model.add_body(
            mass=1.0, inertia=(1, 1, 1), position=(x, 0, 0.1 + gap), velocity=(0, 0, speed), name=name
        )
        rail = model.add(ph.joints.Prismatic(model.ground, body, point=(x, 0, 0.1 + gap), axis=(0, 0, 1)))
        model.add(ph.forces.JointStops(rail, (-gap, np.inf)))
    return model, "minimal"


@pytest.mark.exhaustive
@pytest.mark.parametrize("make", [balls, pytest.param(sliders, marks=pytest.mark.exhaustive)])
def test_room_is_for_what_closes_first(make):
    """Both stop at the floor; by gaps alone the fast one would be 1 cm beyond it before it is seen."""
    model, form = make()
    model.limit_contacts(1)
    run = ph.simulate(model.problem(form, t1=0.02, h=0.005))
    np.testing.assert_allclose(run.bodies["fast"].position[2:, 2], 0.1, atol=1e-12)
    np.testing.assert_allclose(run.bodies["near"].position[:, 2], 0.101, atol=1e-12)


@pytest.mark.exhaustive
def test_more_contacts_than_there_is_room_for_end_the_run():
    run = ph.simulate(feet(1), throw=False)
    assert run.stats["result"] == Result.too_many_contacts
    assert "limit_contacts" in Result.too_many_contacts.message


def test_rattle_takes_all_contacts():
    with pytest.raises(ValueError, match=r"room for 5 at a time.*limit_contacts\(8\)"):
        ph.simulate(feet(5), "rattle")


@pytest.mark.exhaustive
def test_steps_too_long_for_machine_code_are_announced(monkeypatch):
    monkeypatch.setattr(size_limits, "MACHINE_CODE", 300)
    monkeypatch.setattr(size_limits, "LINES", 300)
    model = ph.Model(gravity=(0, 0, -9.81))
    model.ground.add_shape(ph.shapes.Plane())
    # No other test has such a program, and this one is never kept.
    shapes = [ph.shapes.Sphere(0.1, position=(0.3 * k, 0, 0)) for k in range(2)]
    model.add_body(mass=1, inertia=(1, 1, 1), position=(0, 0, 0.2), shape=shapes)
    model.contacts(rolling=0.01)
    # Warnings are errors in tests: XLA doesn't begin.
    with pytest.raises(ph.CompileTimeWarning, match=r"with 2 contacts.*too many for machine code.*add_contact"):
        ph.simulate(model.problem(t1=0.1, h=0.01))


def test_inertias_of_rotors_need_no_room():
    """They are bodies of their own, which touch nothing."""

    def room(rotors: bool) -> int:
        model = ph.Model(gravity=(0, 0, -9.81))
        model.ground.add_shape(ph.shapes.Plane())
        balls = [ph.shapes.Sphere(0.1, position=(0.3 * k, 0, 0)) for k in range(20)]
        last = model.add_body(mass=1.0, inertia=(1, 1, 1), position=(0, 0, 1), shape=balls)
        for k in range(4):
            link = model.add_body(mass=1.0, inertia=(1, 1, 1), position=(k, 0, 2))
            joint = model.add(ph.joints.Revolute(last, link, point=(k, 0, 1.5), axis=(0, 1, 0)))
            if rotors:
                model.add(ph.joints.RotorInertia(joint, 0.1))
            last = link
        model.contacts(friction=0.5)
        return model.problem("minimal", t1=1.0, h=0.01).system.contact_set.room

    assert room(rotors=True) == room(rotors=False) == 8
