"""Benchmark tests of discrete elements after Chung and Ooi (Granular Matter 13, 2011), against closed forms.

Levers are those of the middle of the overlap, so that spins have terms of the order of the overlap over the radius,
which ∫δF dt gives in closed form: Hertz's law has v² = v₀²(1 - (δ/δₘ)^{5/2}).
"""

import numpy as np
import pytest
from scipy.special import gamma

import polhode as ph
from polhode import particles as pt

E, NU, MU, V = 1e13, 0.25, 0.3, 0.002
DENSITY = 2500.0
MODULUS = E / (2 * (1 - NU**2))
DURATION = 0.8 * np.sqrt(np.pi) * gamma(0.4) / gamma(0.9)
"""Contact time times v₀/δₘ: 2.943."""
MEAN_DEPTH = 0.5 * np.sqrt(np.pi) * gamma(1.4) / gamma(1.9)
"""∫δF dt over that of F, times 1/δₘ."""


def depth(mass, radius, speed):
    """Largest overlap δₘ."""
    return (15 * mass * speed**2 / (16 * MODULUS * np.sqrt(radius))) ** 0.4


def mass_of(radius):
    return DENSITY * 4 / 3 * np.pi * radius**3


def pairs(radii, spin):
    """Pairs far apart along e₂ that meet along e₁ with the speed V, the first with these spins."""
    r = np.asarray(radii, float)
    x = np.zeros((len(r), 2, 3))
    x[:, :, 1] = np.arange(len(r))[:, None]
    x[:, 1, 0] = r.sum(axis=1)
    v, omega = np.zeros_like(x), np.zeros_like(x)
    v[:, 0, 0], omega[:, 0, 1] = V, spin
    return r.reshape(-1), x.reshape(-1, 3), v.reshape(-1, 3), omega.reshape(-1, 3)


def collide(law, radii, spin=0.0, steps=4000):
    """States at half of the contact time of the first pair, and after all contacts."""
    r, x, v, omega = pairs(radii, spin)
    m = mass_of(r)
    system = pt.Particles(m, 0.4 * m * r**2, 2 * r, x, contact=law)
    one, other = m[:2]
    R = r[0] * r[1] / (r[0] + r[1])
    time = DURATION * depth(one * other / (one + other), R, V) / V
    run = ph.simulate(
        system,
        "rodrigues",
        state0=system.start(x, v, omega),
        t1=4 * time,
        h=time / steps,
        save_every=steps // 2,
    )
    return run, r, m


@pytest.mark.exhaustive
def test_spheres_that_hit_each_other():
    """Tests 1, 7 and 8: normal impacts of equal and unequal spheres, and with spins that slide throughout.

    Spheres are so hard that their line of centres doesn't turn meanwhile.
    """
    law = pt.ContactLaw(pt.Hertz(E, NU), pt.Mindlin(MU))
    radii = [(0.01, 0.01), (0.01, 0.02), (0.01, 0.01), (0.01, 0.015), (0.02, 0.01)]
    spin = np.array([0, 0, 0.6, -0.8, 0.7])
    run, r, m = collide(law, radii, spin)
    v, omega = (np.asarray(a).reshape(len(run.t), 5, 2, 3) for a in (run.state.v, run.state.omega))
    x = np.asarray(run.state.x).reshape(len(run.t), 5, 2, 3)
    r, m = r.reshape(5, 2), m.reshape(5, 2)
    R, M = r.prod(axis=1) / r.sum(axis=1), m.prod(axis=1) / m.sum(axis=1)
    deepest = depth(M, R, V)
    # At half of the contact time the first pair is at its largest overlap and at relative rest.
    assert 0.02 - (x[1, 0, 1, 0] - x[1, 0, 0, 0]) == pytest.approx(deepest[0], rel=1e-6)
    assert abs(v[1, 0, 1, 0] - v[1, 0, 0, 0]) < 2e-6 * V
    # Elastic along the normal, and the impulse along the plane of contact is μ times that of the normal.
    impulse = 2 * M * V
    np.testing.assert_allclose(v[-1, :, 0, 0], V - impulse / m[:, 0], rtol=1e-6, atol=1e-6 * V)
    np.testing.assert_allclose(v[-1, :, 1, 0], impulse / m[:, 1], rtol=1e-6)
    slides = -np.sign(spin) * MU * impulse
    np.testing.assert_allclose(v[-1, :, 0, 2], -slides / m[:, 0], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(v[-1, :, 1, 2], slides / m[:, 1], rtol=1e-6, atol=1e-9)
    for k in range(2):
        lever = r[:, k] - 0.5 * MEAN_DEPTH * deepest
        gain = slides * lever / (0.4 * m[:, k] * r[:, k] ** 2)
        before = spin if k == 0 else 0.0
        np.testing.assert_allclose(omega[-1, :, k, 1], before + gain, rtol=1e-6, atol=1e-7)
    balance = np.asarray(run.invariants["energy_balance"])
    assert abs(balance[-1] / balance[0] - 1) < 1e-9


@pytest.mark.exhaustive
def test_spheres_that_hit_a_wall():
    """Tests 2, 4, 5 and 6: normal impact, and oblique ones with sliding, at one speed and with spins."""
    law = pt.ContactLaw(pt.Hertz(E, NU), pt.Mindlin(MU))
    r, angles = 0.01, np.radians([0, 65, 70, 80, 85])
    # Constant speed at several angles from the normal, then constant normal speed with spins.
    slip = np.concatenate((V * np.sin(angles), np.zeros(3)))
    fall = np.concatenate((V * np.cos(angles), np.full(3, V)))
    spin = np.concatenate((np.zeros(5), [0.4, 0.8, -0.6]))
    n, m = len(slip), mass_of(r)
    x = np.stack((np.arange(n), np.zeros(n), np.full(n, r)), axis=1)
    system = pt.Particles(m, 0.4 * m * r**2, 2 * r, x, contact=law, walls=(pt.Plane(),))
    state = system.start(x, np.stack((slip, 0 * slip, -fall), 1), np.stack((0 * spin, spin, 0 * spin), 1))
    deepest = depth(m, r, fall)
    time = DURATION * deepest[0] / V
    run = ph.simulate(system, "rodrigues", state0=state, t1=3 * time, h=time / 20_000, save_every=10_000)
    v, omega = np.asarray(run.state.v), np.asarray(run.state.omega)
    assert abs(v[1, 0, 2]) < 1e-6 * V
    assert r - run.state.x[1, 0, 2] == pytest.approx(deepest[0], rel=1e-8)
    np.testing.assert_allclose(v[-1, :, 2], fall, rtol=1e-6)
    slides = np.sign(slip - spin * r) * 2 * MU * m * fall
    np.testing.assert_allclose(v[-1, :, 0], slip - slides / m, rtol=1e-6, atol=1e-9)
    lever = r - MEAN_DEPTH * deepest
    np.testing.assert_allclose(omega[-1, :, 1], spin + slides * lever / (0.4 * m * r * r), rtol=1e-6, atol=1e-7)


@pytest.mark.exhaustive
@pytest.mark.parametrize("e", [0.9, 0.6, 0.3])
def test_restitution_is_what_was_asked_for(e):
    """Test 3, for unequal spheres: Hertz with its dashpot, and Hooke's."""
    for normal in (pt.Hertz(E, NU, e), pt.Hooke(1e8, e)):
        ends = []
        for steps in (10_000, 20_000):
            run, _, _ = collide(pt.ContactLaw(normal), [(0.01, 0.02)], steps=steps)
            v = np.asarray(run.state.v[-1, :, 0])
            ends.append((v[1] - v[0]) / V)
        # Errors fall as h^1.25 where the dashpot grows as δ^¼, and as h where it begins at once.
        order = 1.25 if isinstance(normal, pt.Hertz) else 1.0
        better = ends[1] + (ends[1] - ends[0]) / (2**order - 1)
        assert better == pytest.approx(e, rel=2e-6)


def test_forces_are_those_of_hertz():
    law = pt.Hertz(E, NU)
    elastic = law.elastic(np.array([1e-6, 1e-5]), 0.005)
    np.testing.assert_allclose(
        elastic.force, 4 / 3 * MODULUS * np.sqrt(0.005) * np.array([1e-6, 1e-5]) ** 1.5, rtol=1e-14
    )
    np.testing.assert_allclose(elastic.energy, 0.4 * np.asarray(elastic.force) * [1e-6, 1e-5], rtol=1e-14)
