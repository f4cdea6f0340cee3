"""The ledger of contacts: what walls put in is stored or lost, by kinds that are what the physics says."""

import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode import particles as pt

R, M, G, K = 0.01, 0.01, 9.81, 1e4
J = 0.4 * M * R * R


def move(system, state, **options):
    return ph.simulate(system, "rodrigues", state0=state, **options)


def ends(motion):
    """What was lost by kind and what walls did at the end, and the largest change of the balance."""
    lost = {name: float(values[-1]) for name, values in motion.outputs["dissipation"].items()}
    work = float(motion.outputs["wall_work"][-1]) if "wall_work" in motion.outputs else 0.0
    return lost, work, float(np.ptp(motion.invariants["energy_balance"]))


@pytest.mark.exhaustive
def test_a_plate_that_shakes_grains():
    """Closed to round-off whatever the step; what steps do to the energy is named, and falls with their square."""
    law = pt.ContactLaw(pt.Hertz(1e6, 0.3, 0.6), pt.Mindlin(0.5), pt.RollingResistance(100.0, 0.1, 0.05))
    plate = pt.MovingWall(pt.Plane(), lambda t: (0.2 * jnp.sin(60 * t), 0, 0.3 * jnp.cos(40 * t)))
    x = np.array([[0, 0, 0.99 * R], [0.0195, 0.001, R], [0.01, 0.0, 0.0275]])
    system = pt.Particles(M, J, 2 * R, x, contact=law, walls=(plate,), gravity=(0, 0, -G))
    state = system.start(x, (0.1, 0, 0), (0, 5, 0))
    steps = []
    for h in (4e-5, 2e-5):
        lost, work, change = ends(move(system, state, t1=0.08, h=h, save_every=round(1e-3 / h)))
        assert abs(work) > 1e-3
        assert change < 1e-12 * abs(work)
        assert min(lost["damping"], lost["sliding"], lost["rolling"]) > 1e-5
        steps.append(lost["numerical"])
    assert abs(steps[0]) > 1e-9 > 1e-12 * abs(work)
    assert abs(steps[1]) < 0.5 * abs(steps[0])


@pytest.mark.exhaustive
def test_a_ball_on_a_belt_loses_half_of_what_the_belt_does():
    """It slides until v = V/(1 + mR²/J): the belt does μmgVt, of which half is lost by sliding."""
    V, mu = 0.4, 0.3
    law = pt.ContactLaw(pt.Hooke(1e6, 0.3), pt.TangentialSpring(1e6, mu))
    lever = R - M * G / 1e6
    x = np.array([[0, 0, lever]])
    belt = pt.MovingWall(pt.Plane(), velocity=(V, 0, 0))
    system = pt.Particles(M, J, 2 * R, x, contact=law, walls=(belt,), gravity=(0, 0, -G))
    motion = move(system, system.start(x), t1=0.1, h=2e-6, save_every=500)
    lost, work, change = ends(motion)
    rolls = V / (1 + M * lever**2 / J)
    assert work == pytest.approx(M * rolls * V, rel=1e-5)
    assert lost["sliding"] == pytest.approx(0.5 * M * rolls * V, rel=1e-5)
    assert change < 1e-11 * work
    assert abs(lost["numerical"]) < 1e-9 * work
    # What an account left out would leave open.
    assert np.ptp(motion.invariants["energy_balance"] - motion.outputs["dissipation"]["sliding"]) > 0.1 * work


@pytest.mark.exhaustive
@pytest.mark.parametrize("normal", [pt.Hooke(K, 0.6), pt.Hertz(1e7, 0.3, 0.6)])
def test_damping_is_what_restitution_takes(normal):
    x = np.array([[0, 0, R]])
    system = pt.Particles(M, J, 2 * R, x, contact=pt.ContactLaw(normal), walls=(pt.Plane(),))
    ratios = []
    for h in (4e-7, 2e-7):
        lost, _, change = ends(move(system, system.start(x, (0, 0, -1)), t1=0.01, h=h, save_every=None))
        ratios.append(lost["damping"] / (0.5 * M))
        assert change < 1e-13
    assert ratios[-1] == pytest.approx(1 - 0.6**2, rel=1e-3)


@pytest.mark.exhaustive
def test_bonds_that_break_and_then_slide():
    """A bonded block falls on a floor: bonds, breakage and friction in one balance, and ends that broke touch."""
    block = pt.block((3, 3, 3), diameter=2 * R, corner=(0, 0, 1.2 * R))
    material = pt.BondMaterial(2e-4, 0.5, 0.2, strength=pt.Strength(tension=1.0, moment=0.01, shear=2.0))
    law = pt.ContactLaw(pt.Hertz(1e6, 0.3, 0.6), pt.Mindlin(0.5))
    options = {"pairs": block.pairs, "material": material, "contact": law, "contact_outputs": True}
    x = block.positions
    system = pt.Particles(M, J, block.diameters, x, walls=(pt.Plane(),), gravity=(0, 0, -G), **options)
    motion = move(system, system.start(x, (0.5, 0.2, -1.0)), t1=0.2, h=2e-5, save_every=100)
    lost, _, change = ends(motion)
    whole = np.asarray(motion.outputs["whole"])
    assert 10 < np.sum(whole[-1] == 0) < len(block.pairs)
    assert min(lost["breaking"], lost["sliding"], lost["damping"]) > 1e-3
    assert change < 1e-12 * lost["breaking"]
    # From the contacts that the run has: all pairs without a bond that holds, and the floor.
    touches = touching_pairs(np.asarray(motion.state.x), np.full(27, R))
    for k in range(len(whole)):
        i, j = block.pairs[whole[k] > 0].T
        touches[k, i, j] = touches[k, j, i] = False
    floor = np.asarray(motion.state.x)[:, :, 2] < R
    np.testing.assert_array_equal(motion.outputs["contact_counts"], touches.sum(axis=2) + floor)
    i, j = block.pairs.T
    assert touches[:, i, j].sum() > 0
    # A run that begins where bonds are broken already has their ends as neighbours.
    k = int(np.argmax(touches[:, i, j].any(axis=1)))
    state = type(motion.state)(*(part[k] for part in motion.state))
    again = move(system, state, t1=2e-5, h=2e-5, save_every=None)
    np.testing.assert_array_equal(again.outputs["contact_counts"][0], motion.outputs["contact_counts"][k])


def touching_pairs(x, radius, period=None, active=None):
    """Which of all pairs overlap in each frame, shape (frames, n, n)."""
    d = x[:, :, None] - x[:, None]
    d -= 0.0 if period is None else period * np.round(d / period)
    touches = np.linalg.norm(d, axis=-1) < radius[:, None] + radius
    touches[:, np.arange(len(radius)), np.arange(len(radius))] = False
    return touches if active is None else touches & active[:, :, None] & active[:, None]


@pytest.mark.exhaustive
@pytest.mark.parametrize("period", [None, np.array([5.0, 6.0, 7.0])])
def test_no_contact_is_ever_missed(period):
    """Diameters from 0.3 to 1.2, fast grains, a thin skin: contacts in each frame against all pairs."""
    rng = np.random.default_rng(4)
    n = 60
    lattice = np.stack(np.meshgrid(*(np.arange(4),) * 3, indexing="ij"), -1).reshape(-1, 3)[:n] * 1.24 + 0.6
    sizes = rng.uniform(0.3, 1.2, n)
    law = pt.ContactLaw(pt.Hooke(1e3, 0.9), pt.TangentialSpring(300.0, 0.4))
    walls = (pt.Box((0, 0, 0), (5, 5, 5)),) if period is None else ()
    options = {"walls": walls, "period": period, "skin": 0.03, "contact_outputs": True}
    system = pt.Particles(sizes**3, 0.1 * sizes**5, sizes, lattice, contact=law, **options)
    state = system.start(lattice, 2 * rng.standard_normal((n, 3)), rng.standard_normal((n, 3)))
    motion = move(system, state, t1=4.0, h=5e-4, save_every=10)
    x = np.asarray(motion.state.x)
    counts = touching_pairs(x, 0.5 * sizes, period).sum(axis=2)
    if period is None:
        counts = counts + (x < 0.5 * sizes[:, None]).sum(axis=2) + (x > 5 - 0.5 * sizes[:, None]).sum(axis=2)
    np.testing.assert_array_equal(motion.outputs["contact_counts"], counts)
    assert counts.sum() > 3000
    assert ends(motion)[2] < 1e-11 * motion.invariants["energy_balance"][0]


@pytest.mark.exhaustive
def test_adhesion_holds_up_to_its_pull_off_force():
    """The law at its largest tension, a³ = 9πwR²/(8E*); and a ceiling that rises faster and faster with a ball below.

    The ball parts when its mass times the acceleration αt is that force, and keeps the velocity ½αt² of then.
    """
    w = 0.5
    adhesion = pt.JKR(1e6, w, 0.3, restitution=0.3)
    force, modulus = 1.5 * np.pi * w * R, float(adhesion.modulus)
    a = (9 * np.pi * w * R**2 / (8 * modulus)) ** (1 / 3)
    depth = a**2 / R - np.sqrt(2 * np.pi * w * a / modulus)
    assert float(adhesion.pull_off(R)) == pytest.approx(force, rel=1e-15)
    assert float(adhesion.elastic(jnp.asarray(depth), R).force) == pytest.approx(-force, rel=1e-10)
    x, forces = np.array([[0, 0, -R + 1e-9]]), []
    for rate in (0.5, 0.25):
        ceiling = pt.MovingWall(pt.Plane((0, 0, 0), (0, 0, -1)), lambda t, a=rate: (0, 0, 0.5 * a * t * t))
        system = pt.Particles(M, J, 2 * R, x, contact=pt.ContactLaw(adhesion), walls=(ceiling,))
        motion = move(system, system.start(x), t1=3.0 / rate, h=5e-4, save_every=200)
        v = np.asarray(motion.state.v)[:, 0, 2]
        assert np.ptp(v[-3:]) == 0
        forces.append(M * np.sqrt(2 * rate * v[-1]))
        lost, work, change = ends(motion)
        assert change < 1e-12 * work
        assert lost["cohesion"] > 0
    # The neck that gives way needs a time that goes as rate^(-1/5), so that forces are too large by rate^(4/5).
    assert forces[1] + (forces[1] - forces[0]) / (2**0.8 - 1) == pytest.approx(force, rel=5e-3)


@pytest.mark.exhaustive
def test_impacts_without_slip_are_those_of_two_oscillators():
    """From 1° to 89°, so hard that levers are radii: s'' = -k s (1/m + R²/J) over half a period of the normal one.

    The tangential force ends at once with the contact, in the middle of a step here, where its impulse is of second
    order.
    """
    k, kt, speed = 1e10, 7e9, 1e-3
    angles = np.radians(np.linspace(1, 89, 23))
    n = len(angles)
    x = np.stack((np.arange(n), np.zeros(n), np.full(n, R)), axis=1)
    law = pt.ContactLaw(pt.Hooke(k), pt.TangentialSpring(kt, 1e9, 0.0))
    system = pt.Particles(M, J, 2 * R, x, contact=law, walls=(pt.Plane(),))
    along = speed * np.tan(angles)
    time = np.pi * np.sqrt(M / k)
    motion = move(
        system,
        system.start(x, np.stack((along, 0 * along, np.full(n, -speed)), axis=1)),
        t1=4800 * time / 4000.5,
        h=time / 4000.5,
        save_every=None,
    )
    slip = 1 / M + R**2 / J
    impulse = along / slip * (1 - np.cos(np.sqrt(kt * slip) * time))
    v, omega = np.asarray(motion.state.v[-1]), np.asarray(motion.state.omega[-1])
    np.testing.assert_allclose(v[:, 2], speed, rtol=1e-6)
    np.testing.assert_allclose(v[:, 0], along - impulse / M, rtol=1e-6)
    np.testing.assert_allclose(omega[:, 1], R * impulse / J, rtol=1e-6)


@pytest.mark.exhaustive
def test_grains_that_come_and_go(tmp_path):
    """Let in one after the other at one place, they roll down a slope, off an outlet, and fall freely."""
    n, outlet = 12, 0.2
    law = pt.ContactLaw(pt.Hertz(1e6, 0.3, 0.6), pt.Mindlin(0.5))
    x, release = np.tile([[0.1, 0, 0.05]], (n, 1)), 0.10003 * np.arange(n)
    walls = (pt.Plane((0, 0, 0), (0.2, 0, 1)), pt.Plane((0, -0.015, 0), (0, 1, 0)), pt.Plane((0, 0.015, 0), (0, -1, 0)))

    def pour(release, t1=1.25, **options):
        flow = {"release": release, "outlets": pt.Plane((outlet, 0, 0), (-1, 0, 0)), "contact_outputs": True}
        system = pt.Particles(M, J, 2 * R, x, contact=law, walls=walls, gravity=(0, 0, -G), **flow)
        return system, move(system, system.start(x), t1=t1, h=2e-5, save_every=250, **options)

    system, motion = pour(release)
    place, t = np.asarray(motion.state.x), np.asarray(motion.t)
    active = (release <= t[:, None]) & (place[:, :, 0] < outlet)
    assert active[-1].sum() not in (0, n)
    waits = release > t[:, None]
    assert np.all(place[waits] == x[0])
    assert np.all(np.asarray(motion.state.v)[waits] == 0)
    distances = (place - [0, -0.015, 0])[:, :, 1], (-place + [0, 0.015, 0])[:, :, 1]
    distances = (*distances, place @ [0.2, 0, 1] / np.hypot(0.2, 1))
    counts = touching_pairs(place, np.full(n, R), None, active).sum(axis=2)
    counts = counts + sum((distance < R) & active for distance in distances)
    np.testing.assert_array_equal(motion.outputs["contact_counts"], counts)
    fallen = place[-1, :, 0] > outlet + 0.1
    np.testing.assert_allclose(
        np.asarray(motion.state.v)[-1, fallen, 2] - np.asarray(motion.state.v)[-2, fallen, 2], -G * (t[-1] - t[-2])
    )
    # Times on the grid of steps; histories of contacts go on.
    on_grid = 0.1 * np.arange(n)
    _, whole = pour(on_grid, t1=0.5)
    pour(on_grid, t1=0.25, store=tmp_path / "run")
    resumed = ph.resume(tmp_path / "run", t1=0.5, problem=pour(on_grid, t1=0.01)[0])
    for a, b in zip(resumed.state, whole.state, strict=True):
        assert np.asarray(a)[-1].tobytes() == np.asarray(b)[-1].tobytes()
    scale = np.abs(motion.outputs["energies"]["gravity"]).max()
    assert ends(motion)[2] < 1e-12 * scale
    assert len(system.contact_network([part[-1] for part in motion.state], t[-1]).pairs) == np.sum(
        touching_pairs(place[-1:], np.full(n, R), None, active[-1:]) / 2
    )
    with pytest.raises(ValueError, match="Give `t`"):
        system.contact_network([part[-1] for part in motion.state])
    with pytest.raises(ph.SimulationError, match="inlet_blocked"):
        pour(0.1 * release)


def test_what_inlets_and_outlets_can_not_do_is_named():
    x, law = np.array([[0, 0, 0.0], [1, 0, 0]]), pt.ContactLaw(pt.Hooke(K))
    make = lambda **options: pt.Particles(M, J, 2 * R, x, **{"contact": law, **options})  # noqa: E731
    bond = {"pairs": [(0, 1)], "material": pt.BondMaterial(1.0, 1.0, 1.0)}
    for options, message in (
        ({"release": [0.0]}, "`release` must be an array of shape"),
        ({"release": [0.0, 1.0], "contact": 1.0}, "needs a `ContactLaw`"),
        ({"release": [0.0, 1.0], **bond}, "without bonds"),
        ({"outlets": pt.Box((0, 0, 0), (1, 1, 1))}, "must be `Plane`s"),
        ({"outlets": (pt.Plane(),), "contact": 1.0}, "needs a `ContactLaw`"),
    ):
        with pytest.raises(ValueError, match=message):
            make(**options)
    system = make(release=[0.0, 1.0])
    with pytest.raises(ValueError, match="must wait at rest"):
        system.check(0.0, system.start(x, (1.0, 0, 0)))
