"""Laws of contacts with history against closed forms and solutions by SciPy."""

import functools
import itertools
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy

import polhode as ph
from polhode import particles as pt
from polhode.particles import interactions
from polhode.particles.laws.restitution import damping_ratio, restitution

R, M = 0.01, 0.01
E, NU, MU = 1e8, 0.3, 0.3
MODULUS, SHEAR = E / (2 * (1 - NU**2)), 2 * (1 - NU) / (2 - NU)


@functools.cache
def adhesion() -> pt.JKR:
    return pt.JKR(E, 5.0, NU)


@pytest.mark.exhaustive
def test_damping_gives_the_restitution_it_was_made_for():
    """The linear oscillator that is cut where the force vanishes, by SciPy; and back, on both sides of ζ = 1."""
    for e in (0.8, np.exp(-2), 0.05):
        ratio = float(damping_ratio("restitution", e))
        assert float(restitution(ratio)) == pytest.approx(e, rel=1e-13)

        def released(t, y, c=2 * ratio):
            return y[0] + c * y[1] if t > 1e-9 else 1.0

        released.terminal = True
        end = scipy.integrate.solve_ivp(
            lambda t, y, c=2 * ratio: (y[1], -y[0] - c * y[1]),
            (0, 20),
            (0, 1),
            "DOP853",
            events=released,
            rtol=1e-12,
            atol=1e-13,
        )
        assert -end.y[1, -1] == pytest.approx(e, rel=1e-9)


@pytest.mark.exhaustive
def test_the_tension_of_adhesion_is_that_of_johnson_kendall_and_roberts():
    radius = R / 2
    tear = float(adhesion().reach(radius))
    assert tear == pytest.approx(0.75 * (np.pi**2 * 25.0 * radius / MODULUS**2) ** (1 / 3), rel=1e-12)

    def force(d):
        return float(adhesion().elastic(jnp.asarray(d), radius).force)

    pull = scipy.optimize.minimize_scalar(force, bounds=(-tear, 0), method="bounded", options={"xatol": 1e-15})
    assert -pull.fun == pytest.approx(1.5 * np.pi * 5.0 * radius, rel=1e-10)
    # At the tear the force is 5/9 of that.
    assert -force(-tear) == pytest.approx(5 / 9 * 1.5 * np.pi * 5.0 * radius, rel=1e-6)
    depth = np.linspace(-0.999 * tear, 1e-4, 7)
    a = np.asarray(adhesion().contact_radius(jnp.asarray(depth), radius))
    np.testing.assert_allclose(a**2 / radius - np.sqrt(2 * np.pi * 5.0 * a / MODULUS), depth, rtol=0, atol=1e-18)
    for low, high in itertools.pairwise(depth):
        work = scipy.integrate.quad(force, low, high, epsabs=0, epsrel=1e-12)[0]
        gain = np.diff(adhesion().elastic(jnp.asarray([low, high]), radius).energy)[0]
        assert gain == pytest.approx(work, rel=1e-9)
    assert float(adhesion().elastic(jnp.zeros(()), radius).energy) == pytest.approx(0, abs=1e-20)


def test_a_bridge_pulls_until_it_breaks_and_its_energy_is_its_work():
    bridge, radius = pt.CapillaryBridge(1e-9, 0.07, 0.3), R / 2
    assert float(bridge.force(jnp.zeros(()), radius)[0]) == pytest.approx(-4 * np.pi * radius * 0.07 * np.cos(0.3))
    assert float(bridge.reach) == pytest.approx(1.15e-3)
    H = 3e-4
    force = -2 * np.pi * R * 0.07 * np.cos(0.3) * (1 - 1 / np.sqrt(1 + 2e-9 / (np.pi * R * H**2)))
    assert float(bridge.force(jnp.asarray(-H), radius)[0]) == pytest.approx(force, rel=1e-12)
    work = scipy.integrate.quad(lambda H: -float(bridge.force(jnp.asarray(-H), radius)[0]), 0, H)[0]
    assert float(bridge.force(jnp.asarray(-H), radius)[1]) == pytest.approx(work, rel=1e-10)


def impact(tangent):
    """Velocity along the wall and angular velocity after an impact with this one and unit normal speed."""
    k = 4 / 3 * MODULUS * np.sqrt(R)

    def of(y):
        return (max(y[0], 0.0), y[1], y[2] - (R - y[0]) * y[3], y[4])

    def rates(y, s):
        d, v, slip, f = of(y)
        press, stiff = k * d**1.5, SHEAR * 2 * MODULUS * np.sqrt(R * d)
        spring = stiff * slip + (0.5 * f * v / d if v < 0 and d > 0 else 0.0)
        f = s * MU * press if s else f
        return (
            v,
            -press / M,
            -f / M,
            (R - d) * f / (0.4 * M * R * R),
            s * MU * k * 1.5 * d**0.5 * v if s else spring,
        ), spring

    def phase(t, y, s):
        if s:

            def over(t, y):
                return s * rates(y, s)[1] - MU * k * 1.5 * max(y[0], 0.0) ** 0.5 * y[1]
        else:

            def over(t, y):
                return MU * k * max(y[0], 0.0) ** 1.5 - abs(y[4])

        def end(t, y):
            return y[0]

        for event in (over, end):
            event.terminal, event.direction = True, -1
        found = scipy.integrate.solve_ivp(
            lambda t, y: rates(y, s)[0], (t, 1.0), y, "DOP853", events=(over, end), rtol=1e-10, atol=1e-14
        )
        return found.t[-1], found.y[:, -1], len(found.t_events[1]) > 0

    # At first touch friction is SHEAR tan(angle) times the normal force, unless it slips.
    d = 1e-12
    s = 1 if SHEAR * tangent > MU else 0
    y = np.array([d, 1.0, tangent, 0.0, min(SHEAR * tangent, MU) * k * d**1.5])
    t, done = 0.0, False
    for _ in range(8):
        t, y, done = phase(t, y, s)
        if done:
            return y[2], y[3]
        s = 0 if s else int(np.sign(y[4]))
    raise AssertionError("the impact has no end")


@pytest.fixture(scope="module")
def impacts():
    """Spheres far apart that hit a wall at all angles at once."""
    angles = np.radians([1, 5, 10, 20, 30, 45, 60, 75, 85])
    x = np.stack((np.arange(9), np.zeros(9), np.full(9, R)), axis=1)
    law = pt.ContactLaw(pt.Hertz(E, NU), pt.Mindlin(MU))
    system = pt.Particles(M, 0.4 * M * R * R, 2 * R, x, contact=law, walls=(pt.Plane(),))
    # All touch at once: angles by speed along the wall.
    state = system.start(x, np.stack((np.tan(angles), 0 * angles, -np.ones(9)), axis=1))
    run = ph.simulate(system, "rodrigues", state0=state, t1=1.05e-3, h=2.5e-8, save_every=6000)
    return angles, system, run


@pytest.mark.exhaustive
def test_oblique_impacts_at_all_angles_are_those_of_scipy(impacts):
    angles, _, run = impacts
    found = np.stack((run.state.v[-1, :, 0], run.state.omega[-1, :, 1]), axis=1)
    for k in range(len(angles)):
        np.testing.assert_allclose(found[k], impact(np.tan(angles[k])), rtol=1e-6)
    # Full sliding: the impulse is μ times the normal one, 2mv, whatever the law.
    assert found[-1, 0] == pytest.approx(np.tan(angles[-1]) - 2 * MU, rel=1e-6)


@pytest.mark.exhaustive
def test_energy_of_impacts_is_kept_or_accounted_for(impacts):
    _, _system, run = impacts
    balance = np.asarray(run.invariants["energy_balance"])
    E0 = balance[0]
    assert abs(balance[-1] / E0 - 1) < 1e-9
    lost = {name: float(values[-1]) for name, values in run.outputs["dissipation"].items()}
    assert lost["sliding"] > 1e-3 * E0
    assert abs(lost["numerical"]) < 1e-9 * E0
    # Without the account of sliding the balance is open: what the assertion above would miss.
    assert abs(balance[-1] - lost["sliding"] - E0) > 1e-3 * E0
    assert set(run.outputs["energies"]) >= {"contact", "wall", "tangential"}


@pytest.mark.exhaustive
def test_a_ball_rolls_to_rest():
    g, k, roll, v0 = 9.81, 1e4, 0.05, 0.5
    law = pt.ContactLaw(pt.Hooke(k, 0.3), pt.TangentialSpring(k, 0.9), pt.RollingResistance(5e3, roll, 5.0))
    depth = M * g / k
    lever = R - depth
    x = np.array([[0.0, 0, lever]])
    system = pt.Particles(M, 0.4 * M * R * R, 2 * R, x, contact=law, walls=(pt.Plane(),), gravity=(0, 0, -g))
    state = system.start(x, (v0, 0, 0), (0, v0 / lever, 0))
    run = ph.simulate(system, "rodrigues", state0=state, t1=2.0, h=2e-5, save_every=2500)
    v = np.asarray(run.state.v[:, 0, 0])
    slower = roll * M * g * R / (0.4 * M * R * R / lever + M * lever)
    assert (v[6] - v[14]) / (run.t[14] - run.t[6]) == pytest.approx(slower, rel=1e-8)
    # At rest; the spring has turned it back by a little.
    assert np.abs(v[-8:]).max() < 1e-9
    assert run.state.x[-1, 0, 0] == pytest.approx(v0**2 / (2 * slower), rel=1e-3)
    lost = {name: float(values[-1]) for name, values in run.outputs["dissipation"].items()}
    assert lost["rolling"] == pytest.approx(0.7 * M * v0**2, rel=1e-2)


def clusters(**changed):
    """Two groups of grains of several sizes that collide."""
    rng = np.random.default_rng(3)
    lattice = np.stack(np.meshgrid(*(np.arange(2),) * 3, indexing="ij"), -1).reshape(-1, 3) * 1.02
    x = np.concatenate((lattice, lattice + np.array([0.3, 0.2, 2.1])))
    law = pt.ContactLaw(
        pt.Hertz(1e4, NU, 0.7), pt.Mindlin(0.5), pt.RollingResistance(500, 0.1, 0.5), pt.TwistingResistance(500, 0.1)
    )
    options = {"contact": law, "skin": 0.02, "capacity": 15, **changed}
    system = pt.Particles(rng.uniform(0.8, 1.2, 16), 0.1, rng.uniform(0.9, 1.0, 16), x, **options)
    v = np.where(x[:, 2:] > 1.5, (0.1, 0.4, -2.0), (0.0, 0.0, 0.5)) + 0.1 * rng.standard_normal((16, 3))
    return system, system.start(x, v, rng.standard_normal((16, 3)))


def collide(made, **options):
    system, state = made
    return ph.simulate(system, "rodrigues", state0=state, **{"h": 1e-3, "t1": 1.5, "save_every": 100, **options})


@pytest.mark.exhaustive
def test_history_follows_neighbours_and_momenta_are_kept(tmp_path):
    run = collide(clusters())
    whole = collide(clusters(skin=9.0))  # never renewed: all pairs
    assert np.abs(run.state.x - whole.state.x).max() < 1e-10
    momentum, angular = (np.asarray(run.outputs[name]) for name in ("linear_momentum", "angular_momentum"))
    assert np.ptp(momentum, axis=0).max() < 1e-12
    assert np.ptp(angular, axis=0).max() < 1e-12
    balance = np.asarray(run.invariants["energy_balance"])
    lost = {name: float(values[-1]) for name, values in run.outputs["dissipation"].items()}
    assert min(lost.values()) > 0
    assert np.abs(balance / balance[0] - 1).max() < 1e-3 < sum(lost.values()) / balance[0]
    collide(clusters(), t1=0.7, store=tmp_path / "run")
    resumed = ph.resume(tmp_path / "run", t1=1.5, problem=clusters()[0])
    for a, b in zip(resumed.state, run.state, strict=True):
        assert np.asarray(a)[-1].tobytes() == np.asarray(b)[-1].tobytes()


@pytest.mark.exhaustive
def test_history_that_is_dropped_with_the_lists_shows(monkeypatch):
    run = collide(clusters())

    def forget(old, new):
        return interactions.ContactMemory(
            new.members, new.at, new.longest, *(interactions.jax.tree.map(jnp.zeros_like, old)[3:])
        )

    # Another capacity: programs are remembered by their arrays.
    monkeypatch.setattr(interactions, "follow", forget)
    assert np.abs(collide(clusters(capacity=13)).state.x - run.state.x).max() > 1e-6


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pt.Hertz(1e8, 0.7), "`poisson` must be above -1"),
        (lambda: pt.Hertz(1e8, restitution=0.0), "greater than 0 and at most 1"),
        (lambda: pt.Hooke(-1.0), "greater than zero"),
        (lambda: pt.ContactLaw(pt.Hooke(1.0), pt.Mindlin(0.3)), "needs the radius of the contact"),
        (lambda: pt.ContactLaw(3.0), "`normal` must be `Hooke`"),
        (lambda: pt.ContactLaw(adhesion(), bridge=pt.CapillaryBridge(1.0, 1.0)), "don't go together"),
        (lambda: pt.CapillaryBridge(1.0, 1.0, 2.0), "below π/2"),
        (lambda: clusters(wall_contact=3.0), "`wall_contact` must be a `ContactLaw`"),
        (lambda: clusters(contact_damping=3.0), "has its `restitution` instead"),
        (lambda: clusters(contact=2.0, wall_contact=pt.ContactLaw(pt.Hooke(1.0))), "`contact` must be a `ContactLaw`"),
        (lambda: ph.simulate(clusters()[0], "rigid-verlet", state0=clusters()[1], t1=1.0, h=0.1), "with history"),
    ],
)
def test_what_does_not_go_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.exhaustive
def test_two_devices_and_one_move_grains_alike():
    """In a process of its own, which has two devices."""
    code = (
        "import sys, numpy as np; sys.path.insert(0, sys.argv[1]); import test_contact_laws as t\n"
        "from polhode import particles as pt\n"
        "one = t.collide(t.clusters(), t1=1.2); system, state = pt.sharded(*t.clusters())\n"
        "two = system.original(t.collide((system, state), t1=1.2).state)\n"
        "print(max(float(np.abs(np.asarray(a) - np.asarray(b)).max(initial=0)) for a, b in zip(two, one.state)))"
    )
    flags = " ".join((os.environ.get("XLA_FLAGS", ""), "--xla_force_host_platform_device_count=2"))
    command = [sys.executable, "-c", code, str(Path(__file__).parent)]
    done = subprocess.run(command, env={**os.environ, "XLA_FLAGS": flags}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert float(done.stdout.split()[-1]) < 1e-12


LAWS = {
    "hertz": lambda x: pt.ContactLaw(pt.Hertz(1e4, 0.3, 0.7), pt.Mindlin(x)),
    "hooke": lambda x: pt.ContactLaw(
        pt.Hooke(1e3, 0.7), pt.TangentialSpring(500.0, x), pt.RollingResistance(100.0, 0.1, x),
        pt.TwistingResistance(100.0, 0.1, x),
    ),
    "jkr": lambda x: pt.ContactLaw(pt.JKR(1e4, x, 0.3), pt.Mindlin(0.3)),
    "bridge": lambda x: pt.ContactLaw(pt.Hertz(1e4, 0.3, 0.7), pt.Mindlin(0.3), bridge=pt.CapillaryBridge(x, 1e-3)),
}  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.parametrize("law", LAWS)
def test_derivatives_are_those_of_the_motion(law):
    """Of impacts of two grains and with a wall, forward and reverse; forward ones were no numbers."""
    x = np.array([[0, 0, 0], [1.01, 0.2, 0]])

    def end(parameter):
        system = pt.Particles(
            1.0, 0.1, 1.0, x, contact=LAWS[law](parameter), walls=(pt.Plane((0, 0, -0.52), (0, 0, 1)),)
        )
        v, omega = np.array([[1.0, 0, -0.3], [-1.0, 0, 0.3]]), np.array([[0, 0, 0.3], [0.1, 0.2, 0]])
        run = ph.simulate(system, "rodrigues", h=1e-3, t1=0.15, state0=system.start(x, v, omega), save_every=None)
        return run.state.v[-1, 0, 1] + run.state.omega[-1, 0, 2] + run.state.x[-1, 1, 2]

    step = 1e-6
    difference = (end(0.2 + step) - end(0.2 - step)) / (2 * step)
    for derivative in (jax.grad(end)(0.2), jax.jvp(end, (0.2,), (1.0,))[1]):
        assert derivative == pytest.approx(difference, rel=1e-6, abs=1e-9)
