"""Walls that move and turn, and walls of triangles, against closed forms."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy

import polhode as ph
from polhode import particles as pt

R, M, G, K = 0.01, 0.01, 9.81, 1e4
J = 0.4 * M * R * R
LEVER = R - M * G / K


def balls(x, law, *walls, gravity=(0, 0, -G), **options):
    return pt.Particles(M, J, 2 * R, x, contact=law, walls=walls, gravity=gravity, **options)


def patch(m=7, size=0.1):
    """A plane square of irregular triangles."""
    rng = np.random.default_rng(0)
    along = np.linspace(-size, size, m)
    x = np.stack((*np.meshgrid(along, along, indexing="ij"), np.zeros((m, m))), -1)
    x[1:-1, 1:-1, :2] += 0.4 * size / m * rng.uniform(-1, 1, (m - 2, m - 2, 2))
    i, j = (a.reshape(-1) for a in np.meshgrid(np.arange(m - 1), np.arange(m - 1), indexing="ij"))
    a, b, c, d = i * m + j, (i + 1) * m + j, (i + 1) * m + j + 1, i * m + j + 1
    first = np.where((i + j)[:, None] % 2, np.stack((a, b, c), 1), np.stack((a, b, d), 1))
    second = np.where((i + j)[:, None] % 2, np.stack((a, c, d), 1), np.stack((b, c, d), 1))
    return x.reshape(-1, 3), np.concatenate((first, second))


def run(system, state, **options):
    return ph.simulate(system, "rodrigues", state0=state, **options)


@pytest.mark.exhaustive
def test_a_belt_of_triangles_takes_a_ball_along():
    """It slides with v = μgt until v = V/(1 + ml²/J), and rolls from then on."""
    V, mu = 0.4, 0.3
    law = pt.ContactLaw(pt.Hooke(K, 0.3), pt.TangentialSpring(K, mu))
    x = np.array([[-0.02, 0.003, LEVER], [0.01, -0.04, LEVER]])
    system = balls(x, law, pt.MovingWall(pt.Mesh(*patch()), velocity=(V, 0, 0)))
    motion = run(system, system.start(x), t1=0.2, h=2e-5, save_every=500)
    v, t = np.asarray(motion.state.v[:, :, 0]), np.asarray(motion.t)
    rolls = V / (1 + M * LEVER**2 / J)
    slides = t < 0.99 * rolls / (mu * G)
    np.testing.assert_allclose(v[slides], np.broadcast_to(mu * G * t[slides, None], v[slides].shape), rtol=1e-12)
    np.testing.assert_allclose(v[-1], rolls, rtol=1e-9)
    np.testing.assert_allclose(motion.state.omega[-1, :, 1] * LEVER, rolls - V, rtol=1e-9)
    assert np.abs(motion.state.x[:, :, 2] - LEVER).max() < 1e-15
    # The belt does the work μmg V t until the balls roll, half of which is lost but for what they gain.
    work = float(motion.outputs["wall_work"][-1])
    assert work == pytest.approx(2 * M * rolls * V, rel=1e-5)
    balance = np.asarray(motion.invariants["energy_balance"])
    assert np.ptp(balance) < 1e-5 * work
    assert np.asarray(motion.state.poses[-1])[:4] == pytest.approx((0.2 * V, 0, 0, 1), rel=1e-12)


@pytest.mark.exhaustive
def test_triangles_of_a_plane_are_a_plane():
    """Balls that roll over edges and corners, one that bounces on a corner and one that slides."""
    law = pt.ContactLaw(pt.Hooke(K), pt.TangentialSpring(K, 0.5), pt.RollingResistance(1e3, 0.01))
    corners, triangles = patch()
    x = np.array([[-0.08, -0.05, LEVER], [-0.08, 0.03, LEVER], [*corners[17, :2], LEVER + 0.002], [0.05, -0.08, LEVER]])
    v = np.array([[1.0, 0.3, 0], [0.8, 0, 0], [0, 0, 0], [0, 1.0, 0]])
    spin = np.cross([0, 0, 1], v) / LEVER
    spin[3] = 0
    ends = []
    for wall in (pt.Mesh(corners, triangles), pt.Plane()):
        system = balls(x, law, wall)
        ends.append(run(system, system.start(x, v, spin), t1=0.15, h=2e-5, save_every=500).state)
    assert np.abs(np.asarray(ends[0].x) - np.asarray(ends[1].x)).max() < 1e-14
    assert np.abs(np.asarray(ends[0].omega) - np.asarray(ends[1].omega)).max() < 1e-9


@pytest.mark.exhaustive
def test_edges_and_corners_count_once():
    """A ball at rest on an apex where six triangles meet, on a ridge and on a rim; and one that goes over a ridge."""
    angle = np.arange(6) * np.pi / 3
    hat = np.stack((0.05 * np.cos(angle), 0.05 * np.sin(angle), np.full(6, -0.02)), 1)
    corners = np.concatenate(([[0, 0, 0]], hat))
    apex = pt.Mesh(corners, [(0, 1 + k, 1 + (k + 1) % 6) for k in range(6)])
    roof = [[0.1, 0, 0], [0.2, 0, 0], [0.1, 0.05, -0.02], [0.2, 0.05, -0.02], [0.1, -0.05, -0.02], [0.2, -0.05, -0.02]]
    ridge = pt.Mesh(roof, [(0, 1, 2), (1, 3, 2), (0, 4, 1), (1, 4, 5)])
    rim = pt.Mesh([[0.3, 0, 0], [0.4, 0, 0], [0.3, 0, -0.1]], [(0, 1, 2)])
    law = pt.ContactLaw(pt.Hooke(K), pt.TangentialSpring(K, 5.0))
    x = np.array([[0, 0, LEVER], [0.15, 0, LEVER], [0.35, 0, LEVER]])
    system = balls(x, law, apex, ridge, rim)
    end = run(system, system.start(x), t1=0.01, h=2e-5, save_every=None).state
    assert np.abs(end.x[-1] - x).max() < 1e-15
    # Over the ridge, from slope to slope, without slip: the energy is kept as on a plane, and it turns about the edge.
    way = np.array([0, 0.05, -0.02]) / np.hypot(0.05, 0.02)
    up = np.array([0, 0.02, 0.05]) / np.hypot(0.05, 0.02)
    down = np.array([1.0, -1.0, 1.0])
    press = M * G * up[2] / K
    place = np.array([0.15, 0, 0]) + (0.006 * way + (R - press) * up) * down
    v = -0.2 * way * down
    system = balls(place[None], law, ridge)
    spin = np.cross(up * down, v) / (R - press)
    one = run(system, system.start(place[None], v, spin), t1=0.08, h=1e-5, save_every=100)
    balance = np.asarray(one.invariants["energy_balance"])
    assert np.ptp(balance) < 1e-6 * 0.7 * M * 0.04
    y, z = np.asarray(one.state.x[:, 0, 1:]).T
    height = np.hypot(y, z)
    on_edge = (np.abs(y) < R * up[1]) & (z > 0)
    assert on_edge.sum() > 3
    assert np.all((height[on_edge] > 0.99 * R) & (height[on_edge] <= R + 1e-6))


@pytest.mark.exhaustive
def test_a_ball_rests_in_a_box_that_turns():
    """Both side walls and the floor press as the circular motion asks for."""
    w, half, centre = 3.0, 0.05, np.array([0.02, 0.01, 0])
    box = pt.Box((-half, -half, 0), (half, half, np.inf))
    turn = pt.MovingWall(box, angular_velocity=(0, 0, w), centre=centre)
    law = pt.ContactLaw(pt.Hooke(K, 0.5), pt.TangentialSpring(K, 0.4), pt.RollingResistance(1e3, 0.1))
    # k δ = m w² (half - R + δ - c) along both axes.
    r = [(K * (half - R) - M * w * w * c) / (K - M * w * w) for c in centre[:2]]
    x = np.array([[r[0], r[1], LEVER]])
    start = x - centre
    system = balls(x, law, turn)
    state = system.start(x, np.cross((0, 0, w), start), (0, 0, w))
    worst = []
    for h in (2e-5, 1e-5):
        motion = run(system, state, t1=2 * np.pi / w, h=h, save_every=2000)
        angle = -w * np.asarray(motion.t)
        c, s = np.cos(angle), np.sin(angle)
        d = np.asarray(motion.state.x[:, 0]) - centre
        seen = np.stack((c * d[:, 0] - s * d[:, 1], s * d[:, 0] + c * d[:, 1], d[:, 2]), 1)
        worst.append(np.abs(seen - start).max())
        assert np.abs(motion.state.omega[:, 0] - np.array([0, 0, w])).max() < 1e-6
        assert abs(motion.outputs["wall_work"][-1]) < 1e-9 * M * G
    assert worst[0] < 1e-9
    assert np.asarray(motion.state.poses[-1])[3:] == pytest.approx((-1, 0, 0, 0), abs=1e-9)


@pytest.mark.exhaustive
def test_a_ball_bounces_on_a_plate_that_vibrates():
    """The orbit of period one of the bouncing ball map, and the same law by SciPy."""
    e, f = 0.5, 25.0
    w, law = 2 * np.pi * f, pt.Hertz(1e8, 0.3, e)
    A = 0.075 / w  # stable: Aω² sin φ < 2g(1+e²)/(1+e)²
    fly = 1 / f
    speed = 0.5 * G * fly
    V = speed * (1 - e) / (1 + e)
    phase = np.arccos(V / (A * w)) / w
    modulus, ratio = float(law.modulus), float(law.ratio)
    plate = pt.MovingWall(pt.Plane(), velocity=lambda t: (0.0, 0.0, A * w * jnp.cos(w * t)))
    x = np.array([[0, 0, R + A * np.sin(w * phase)]])
    system = balls(x, pt.ContactLaw(law), plate)
    state = system.start(x, (0, 0, -speed))._replace(poses=jnp.asarray([0, 0, A * np.sin(w * phase), 1, 0, 0, 0]))
    end = phase + 0.5 * fly
    one, two = (run(system, state, t0=phase, t1=end, h=h, save_every=None).state for h in (4e-6, 2e-6))

    def rates(t, y):
        depth, parting = R + A * np.sin(w * t) - y[0], y[1] - A * w * np.cos(w * t)
        stiffness = 2 * modulus * np.sqrt(R * max(depth, 0.0))
        dashpot = 2 * np.sqrt(5 / 6) * ratio * np.sqrt(M * stiffness)
        push = max(2 / 3 * stiffness * depth - dashpot * parting, 0.0)
        return y[1], push / M - G

    peer = scipy.integrate.solve_ivp(
        rates, (phase, end), (x[0, 2], -speed), "DOP853", rtol=1e-12, atol=1e-14, max_step=2e-5
    )
    # The dashpot grows as δ^¼ from first touch, so that errors fall as h^1.25.
    better = lambda a, b: float(b + (b - a) / (2**1.25 - 1))  # noqa: E731
    assert better(one.x[-1, 0, 2], two.x[-1, 0, 2]) == pytest.approx(peer.y[0, -1], abs=3e-8)
    assert better(one.v[-1, 0, 2], two.v[-1, 0, 2]) == pytest.approx(peer.y[1, -1], abs=2e-6)
    assert two.poses[-1, 2] == pytest.approx(A * np.sin(w * end), abs=1e-15)
    # Stiff contacts follow the map: half a flight after the fifth impact it is at the height of the orbit.
    motion = run(system, state, t0=phase, t1=phase + 4.5 * fly, h=4e-6, save_every=5000)
    assert motion.state.x[-1, 0, 2] - x[0, 2] == pytest.approx(speed**2 / (2 * G), rel=0.1)
    balance, work = np.asarray(motion.invariants["energy_balance"]), float(motion.outputs["wall_work"][-1])
    assert np.ptp(balance) < 1e-3 * work


def test_what_walls_can_not_do_is_named():
    corners, triangles = patch(2)
    law = pt.ContactLaw(pt.Hooke(K))
    x = np.array([[0, 0, R]])
    cases = (
        (lambda: balls(x, 3.0, pt.MovingWall(pt.Plane())), "needs a `ContactLaw`"),
        (lambda: balls(x, 3.0, pt.Mesh(corners, triangles)), "needs a `ContactLaw`"),
        (lambda: pt.MovingWall(pt.MovingWall(pt.Plane())), "doesn't move by itself"),
        (lambda: pt.MovingWall(pt.Plane(), velocity=lambda t: t), "must be three numbers"),
        (lambda: pt.Mesh(corners, [(0, 1, 9)]), "numbers of vertices from 0 to 3"),
        (lambda: pt.Mesh(corners, [(0, 1, 1)]), "has no area"),
        (lambda: pt.Mesh([*corners, [0, 0, 1]], [(0, 1, 2), (0, 1, 3), (1, 0, 4)]), "share the edge"),
        (lambda: pt.Mesh.load("nowhere.stl"), "can't be read"),
        (
            lambda: ph.Model().add_particles(
                x, masses=1, inertias=1, diameters=1, walls=(pt.Mesh(corners, triangles),), contact=2.0
            ),
            "models take",
        ),
    )
    for make, message in cases:
        with pytest.raises(ValueError, match=message):
            make()
    sunk = balls(x, law, pt.Mesh(corners, triangles))
    with pytest.raises(ValueError, match="Particle 0 and a Mesh overlap"):
        run(sunk, sunk.start(x - (0, 0, 0.4 * R)), t1=1e-3, h=1e-4)


@pytest.mark.exhaustive
def test_grains_in_a_drum(tmp_path):
    """History of walls and of pairs resumes to the byte, energy is accounted for, and stress is what carries."""
    law = pt.ContactLaw(pt.Hertz(1e6, 0.3, 0.6), pt.Mindlin(0.5), pt.RollingResistance(100.0, 0.1, 0.05))
    drum = pt.MovingWall(pt.Cylinder(0.06, axis=(0, 1, 0)), angular_velocity=lambda t: (0, 4 * jnp.tanh(5 * t), 0))
    ends = pt.Plane((0, -0.021, 0), (0, 1, 0)), pt.Plane((0, 0.021, 0), (0, -1, 0))
    grid = np.stack(np.meshgrid(np.arange(-1, 2), np.arange(-0.5, 1), np.arange(-2, 1), indexing="ij"), -1)
    x = 0.0202 * grid.reshape(-1, 3) * (1, 0.99, 1) + (0, 0, 0.002)

    def tumble(**options):
        system = balls(x, law, drum, *ends, contact_outputs=True)
        options = {"t1": 0.6, "h": 2e-5, "save_every": 5000, **options}
        return system, run(system, system.start(x), **options)

    system, one = tumble()
    work, lost = float(one.outputs["wall_work"][-1]), sum(float(a[-1]) for a in one.outputs["dissipation"].values())
    balance = np.asarray(one.invariants["energy_balance"])
    assert lost > 1e-4
    assert work > 1e-4
    assert np.ptp(balance) < 1e-3 * lost
    tumble(t1=0.3, store=tmp_path / "run")
    resumed = ph.resume(tmp_path / "run", t1=0.6, problem=system)
    for a, b in zip(resumed.state, one.state, strict=True):
        assert np.asarray(a)[-1].tobytes() == np.asarray(b)[-1].tobytes()
    network = system.contact_network([part[-1] for part in one.state])
    counts = np.asarray(one.outputs["contact_counts"])[-1]
    assert np.all(counts >= np.bincount(network.pairs.reshape(-1), minlength=len(x)))
    assert len(network.pairs) > 0


@pytest.mark.exhaustive
def test_the_stress_of_a_column_is_its_weight():
    """Two balls on a plate that rises evenly: the force moment of each is its loads times the distances of contacts."""
    law = pt.ContactLaw(pt.Hooke(K, 0.05))
    x = np.array([[0, 0, R], [0, 0, 3 * R]])
    system = balls(x, law, pt.Plane(), contact_outputs=True)
    one = run(system, system.start(x), t1=0.1, h=1e-4, save_every=None)
    moments = np.asarray(one.outputs["force_moments"])[-1]
    half = 0.5 * M * G / K
    lower = -2 * M * G * (R - 4 * half) - M * G * (R - half)
    np.testing.assert_allclose(moments[:, 2, 2], (lower, -M * G * (R - half)), rtol=1e-9)
    np.testing.assert_array_equal(np.asarray(one.outputs["contact_counts"])[-1], (2, 1))
    volume = (2 * R) ** 2 * 4 * R
    sigma = pt.stress(moments, [True, True], volume)
    assert sigma[2, 2] == pytest.approx(moments[:, 2, 2].sum() / volume)
    state = [part[-1] for part in one.state]
    np.testing.assert_array_equal(system.contact_network(state).pairs, [[0, 1]])
    assert system.contact_network(state).overlaps[0] == pytest.approx(2 * half, rel=1e-9)
