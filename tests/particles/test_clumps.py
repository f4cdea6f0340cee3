"""Clumps against closed forms, single spheres, and motions of the same laws by SciPy."""

import jax.numpy as jnp
import meshio
import numpy as np
import pytest
import scipy
from scipy.spatial.transform import Rotation

import polhode as ph
from polhode import particles as pt
from polhode.particles.laws.restitution import damping_ratio

E, NU, G = 1e6, 0.3, 9.81
MODULUS, SHEAR = E / (2 * (1 - NU**2)), 2 * (1 - NU) / (2 - NU)
R = 0.005


def move(system, state, **options):
    return ph.simulate(system, "rigid-verlet", state0=state, **options)


def change(motion, name):
    return float(np.max(np.ptp(np.asarray(motion.invariants[name]), axis=0)))


def corner():
    """Three spheres of unequal sizes that overlap: no axis of symmetry."""
    return pt.Clump.from_density(
        [[0, 0, 0], [1.4 * R, 0.2 * R, 0], [0.3 * R, 1.3 * R, 0.5 * R]], [2 * R, 0.009, 0.008], 2500
    )


def dumbbell():
    return pt.Clump.from_density([[-R, 0, 0], [R, 0, 0]], 2 * R, 2500)


def test_masses_are_those_of_the_sum_and_of_the_union():
    big, small, d, rho = 1.0, 0.7, 1.1, 3.0
    u = np.array([0.3, 0.5, -0.8]) / np.linalg.norm([0.3, 0.5, -0.8])
    x, sizes = np.array([[0.2, -0.1, 0.3], [0.2, -0.1, 0.3] + d * u]), [2 * big, 2 * small]
    both = 4 / 3 * np.pi * (big**3 + small**3)
    lens = np.pi * (big + small - d) ** 2 * (d * d + 2 * d * (big + small) - 3 * (big - small) ** 2) / (12 * d)
    union = pt.Clump.from_density(x, sizes, rho)
    assert union.mass == pytest.approx(rho * (both - lens), rel=1e-10)
    # The same body as two caps of revolution, by one integral along their axis.
    cut = 0.5 * (d * d + big**2 - small**2) / d
    parts = [(-big, cut, lambda s: big**2 - s * s), (cut, d + small, lambda s: small**2 - (s - d) ** 2)]

    def along(f):
        return sum(scipy.integrate.quad(lambda s, w=w: np.pi * f(s, w(s)), a, b)[0] for a, b, w in parts)

    middle = along(lambda s, w: s * w) / along(lambda s, w: w)
    np.testing.assert_allclose(union.centre, x[0] + middle * u, atol=1e-10)
    polar = rho * along(lambda s, w: 0.5 * w * w)
    across = rho * along(lambda s, w: 0.25 * w * w + (s - middle) ** 2 * w)
    inertia = across * np.eye(3) + (polar - across) * np.outer(u, u)
    np.testing.assert_allclose(union.inertia, inertia, atol=1e-9 * across)
    np.testing.assert_allclose((union.axes * union.moments) @ union.axes.T, union.inertia, atol=1e-14 * across)
    masses = rho * 4 / 3 * np.pi * np.array([big, small]) ** 3
    sum_ = pt.Clump.from_density(x, sizes, rho, overlap="sum")
    arms = x - masses @ x / masses.sum()
    own = 0.4 * masses @ np.array([big, small]) ** 2 * np.eye(3)
    steiner = sum(m * (a @ a * np.eye(3) - np.outer(a, a)) for m, a in zip(masses, arms, strict=True))
    np.testing.assert_allclose(sum_.inertia, own + steiner, rtol=1e-12)
    assert sum_.mass == pytest.approx(masses.sum(), rel=1e-14)


def test_a_union_of_many_balls_is_where_it_is_turned_to_and_counts_points_once():
    rng = np.random.default_rng(3)
    x, sizes = np.array([[0, 0, 0], [0.8, 0, 0], [0.3, 0.7, 0], [0, 0, 0.1]]), [1.4, 1.1, 1.2, 0.5]
    body = pt.Clump.from_density(x, sizes, 1.0)
    Q = Rotation.from_rotvec([0.4, 1.0, -0.3]).as_matrix()
    turned = pt.Clump.from_density(x @ Q.T, sizes, 1.0)
    assert turned.mass == pytest.approx(body.mass, rel=1e-9)
    np.testing.assert_allclose(turned.centre, Q @ body.centre, atol=1e-9)
    np.testing.assert_allclose(turned.inertia, Q @ body.inertia @ Q.T, atol=1e-9)
    points = rng.uniform(-0.8, 1.5, (400_000, 3))
    inside = np.any([np.sum((points - c) ** 2, axis=1) < 0.25 * d * d for c, d in zip(x, sizes, strict=True)], axis=0)
    assert body.mass == pytest.approx(2.3**3 * inside.mean(), rel=8e-3)


def test_what_no_clump_is_is_named():
    ball = pt.Clump([[0, 0, 0]], 2 * R, 1.0, (1.0, 1.0, 1.0))
    for make, message in (
        (lambda: pt.Clump([[0, 0, 0]], 2 * R, 1.0, (1.0, 1.0, 3.0)), "larger than the sum"),
        (lambda: pt.Clump([[0, 0, 0]], 2 * R, 1.0, np.arange(9.0).reshape(3, 3)), "symmetric"),
        (lambda: pt.Clump([0, 0, 0], 2 * R, 1.0, (1.0, 1.0, 1.0)), r"shape \(k, 3\)"),
        (lambda: pt.Clump.from_density([[0, 0, 0]], 2 * R, 1.0, "twice"), "overlap"),
        (lambda: pt.Clumps([ball, ball], np.zeros((2, 3))), "`kinds` must say"),
        (lambda: pt.Clumps(ball, np.zeros((2, 3)), kinds=[0, 1]), "numbers from 0 to 0"),
        (lambda: pt.Clumps("ball", np.zeros((2, 3))), "must be a `Clump`"),
        (lambda: pt.Clumps(ball, np.zeros((2, 3)), contact=1.0), "`ContactLaw` or None"),
        (lambda: pt.Clumps(ball, np.zeros((2, 3)), walls=pt.Plane()), "Walls need"),
        (lambda: pt.Particles(1.0, 1.0, 1.0, np.zeros((2, 3)), groups=[0.5, 1]), "a whole number for each"),
    ):
        with pytest.raises(ValueError, match=message):
            make()


@pytest.mark.exhaustive
def test_starts_that_would_burst_and_methods_that_do_not_fit_are_named():
    law = pt.ContactLaw(pt.Hooke(1e3))
    pair = pt.Clumps(dumbbell(), np.zeros((2, 3)), contact=law)
    with pytest.raises(ValueError, match="Spheres 0 and 3 overlap by 50%"):
        pair.check(0.0, pair.start([[0, 0, 0], [-3 * R, 0, 0]]))
    grain = pt.Particles(1.0, 1.0, 1.0, [[0.0, 0, 0], [2.0, 0, 0]], contact=law)
    with pytest.raises(ValueError, match="of `Clumps` only"):
        ph.integrators.get("rigid-verlet").check(grain, 0.0, None)


@pytest.mark.exhaustive
def test_a_free_clump_tumbles_as_jacobis_functions_say():
    """Order 2; axes and attitudes in the frame in which the clump was described."""
    body = corner()
    A, B, C = np.sort(body.moments)
    Q = body.axes[:, np.argsort(body.moments)]
    Q[:, 2] *= np.sign(np.linalg.det(Q))
    # Started on an axis of the middle moment crossed: ω = (a cn, -b sn, c dn) about the sorted axes.
    a, c = 2.0, 3.0
    b = a * np.sqrt(A * (C - A) / (B * (C - B)))
    rate = c * np.sqrt((C - A) * (C - B) / (A * B))
    m = A * (B - A) * a * a / (C * (C - B) * c * c)
    q0 = Rotation.from_rotvec([0.3, -0.5, 0.9])
    errors = []
    for h in (2e-2, 1e-2):
        system = pt.Clumps(body, np.zeros((1, 3)))
        start = system.start(np.zeros((1, 3)), 0.0, [q0.apply(Q @ [a, 0, c])], [np.roll(q0.as_quat(), 1)])
        motion = move(system, start, t1=4.0, h=h, save_every=round(0.2 / h))
        sn, cn, dn, _ = scipy.special.ellipj(rate * np.asarray(motion.t), m)
        exact = np.stack((a * cn, -b * sn, c * dn), axis=1)
        if abs(A * np.gradient(exact[:, 0], motion.t)[1] - (B - C) * exact[1, 1] * exact[1, 2]) > 0.5 * A * rate * a:
            exact[:, 1] *= -1
        turn = Rotation.from_quat(np.roll(np.asarray(motion.outputs["quaternions"])[:, 0], -1, axis=1))
        omega = turn.inv().apply(np.asarray(motion.outputs["angular_velocities"])[:, 0]) @ Q
        # The angular momentum stands still in space, so that these attitudes are right but for turns about it.
        spin = turn.apply(exact * [A, B, C] @ Q.T)
        errors.append((np.abs(omega - exact).max(), np.abs(spin - spin[0]).max() / np.linalg.norm(spin[0])))
        assert change(motion, "angular_momentum") < 1e-13 * np.linalg.norm(spin[0])
        x = np.asarray(motion.outputs["sphere_positions"])
        arms = turn.as_matrix()[:, None] @ (body.centres - body.centre)[:, :, None]
        np.testing.assert_allclose(x, arms[..., 0], atol=1e-15)
    assert errors[1][0] < 5e-3
    for fine, coarse in zip(errors[1], errors[0], strict=True):
        assert coarse / fine == pytest.approx(4, rel=0.05)


@pytest.mark.exhaustive
def test_a_clump_of_one_sphere_is_a_sphere():
    """A pair that hits a wall, spins, rolls and slides: with friction, resistances and dashpots, to round-off."""
    m = 2500 * 4 / 3 * np.pi * R**3
    law = pt.ContactLaw(
        pt.Hertz(E, NU, 0.6),
        pt.Mindlin(0.3),
        pt.RollingResistance(50.0, 0.1, 0.02),
        pt.TwistingResistance(50.0, 0.1, 0.02),
    )
    x = np.array([[0, 0, 1.02 * R], [1.3 * R, 0.4 * R, 2.7 * R]])
    v, w = [[0.1, 0, -0.2], [-0.2, 0, -0.3]], [[30, 20, -40], [0, -60, 10.0]]
    options = {"contact": law, "walls": (pt.Plane(),), "gravity": (0, 0, -G), "contact_outputs": True}
    spheres = pt.Particles(m, 0.4 * m * R**2, 2 * R, x, **options)
    clumps = pt.Clumps(pt.Clump.from_density([[0, 0, 0]], 2 * R, 2500), x, **options)
    runs = {"t1": 0.02, "h": 1e-5, "save_every": 50}
    one = ph.simulate(spheres, "rodrigues", state0=spheres.start(x, v, w), **runs)
    other = move(clumps, clumps.start(x, v, w), **runs)
    assert one.outputs["contact_counts"].sum() > 4
    for name in ("x", "v", "omega", "accounts", "contacts"):
        a, b = (np.asarray(getattr(motion.state, name)) for motion in (one, other))
        np.testing.assert_allclose(b, a, rtol=0, atol=1e-12 * np.abs(a).max())
    for name, values in one.outputs["dissipation"].items():
        assert other.outputs["dissipation"][name][-1] == pytest.approx(values[-1], rel=1e-9, abs=1e-16), name


class Body:
    """A clump for references by SciPy: y = centre, quaternion (scalar last), velocity, angular velocity on the body."""

    def __init__(self, clump):
        self.mass, self.inertia, self.arms = clump.mass, clump.inertia, clump.centres - clump.centre
        self.radii = 0.5 * clump.diameters

    def read(self, y):
        """Centre, rotation, velocity, angular velocity in space."""
        turn = Rotation.from_quat(y[3:7] / np.linalg.norm(y[3:7])).as_matrix()
        return y[:3], turn, y[7:10], turn @ y[10:13]

    def rates(self, y, force, moment):
        _, turn, v, _ = self.read(y)
        w, q = y[10:13], y[3:7]
        dq = 0.5 * np.append(q[3] * w + np.cross(q[:3], w), -q[:3] @ w)
        dw = np.linalg.solve(self.inertia, turn.T @ moment - np.cross(w, self.inertia @ w))
        return np.concatenate((v, dq, force / self.mass, dw))


def integrate(rates, y, times):
    return scipy.integrate.solve_ivp(
        rates, (0, times[-1]), y, "DOP853", t_eval=times, rtol=1e-10, atol=1e-12, max_step=2e-4
    ).y.T


def bounce(body, ratio, y):
    """Rates of one clump above a plane without friction: Hertz with a dashpot that never pulls."""
    x, turn, v, w = body.read(y)
    force, moment = np.array([0, 0, -G * body.mass]), np.zeros(3)
    for arm, radius in zip(body.arms @ turn.T, body.radii, strict=True):
        depth = radius - (x + arm)[2]
        if depth > 0:
            stiff = 2 * MODULUS * np.sqrt(radius * depth)
            c = 2 * np.sqrt(5 / 6) * ratio * np.sqrt(body.mass * stiff)
            push = max(2 / 3 * stiff * depth - c * (v + np.cross(w, arm))[2], 0.0) * np.array([0, 0, 1])
            force, moment = force + push, moment + np.cross(arm, push)
    return body.rates(y, force, moment)


@pytest.mark.exhaustive
@pytest.mark.parametrize("restitution", [1.0, 0.6])
def test_a_dumbbell_that_falls_on_a_plane_without_friction(restitution):
    """It bounces off both ends, as a motion of the same law by SciPy does; order 2 without the dashpot, whose force
    begins like a fourth root."""
    clump = dumbbell()
    body, x, ratio = Body(clump), np.array([[0, 0, 2 * R]]), float(damping_ratio("restitution", restitution))
    q, w = Rotation.from_rotvec([0.1, 0.45, 0.2]), np.array([5.0, 8, -3])
    times = np.linspace(0, 0.04, 9)
    y = integrate(
        lambda t, y: bounce(body, ratio, y),
        np.concatenate((x[0], q.as_quat(), [0.1, 0, -0.2], q.inv().apply(w))),
        times,
    )
    law = pt.ContactLaw(pt.Hertz(E, NU, restitution))
    system = pt.Clumps(clump, x, contact=law, walls=(pt.Plane(),), gravity=(0, 0, -G), contact_outputs=True)
    errors = []
    for h in (4e-5, 1e-5) if restitution == 1 else (1e-5, 2.5e-6):
        start = system.start(x, (0.1, 0, -0.2), w, [np.roll(q.as_quat(), 1)])
        motion = move(system, start, t1=0.04, h=h, save_every=round(0.005 / h))
        spin = [body.read(each)[3] for each in y]
        errors.append(
            (
                np.abs(np.asarray(motion.state.x)[:, 0] - y[:, :3]).max() / R,
                np.abs(np.asarray(motion.state.omega)[:, 0] - spin).max() / np.abs(spin).max(),
            )
        )
        if restitution < 1:
            assert change(motion, "energy_balance") < 1e-12 * motion.invariants["energy_balance"][0]
            assert motion.outputs["dissipation"]["damping"][-1] > 0.1 * motion.invariants["energy_balance"][0]
    coarse, fine = np.array(errors)
    assert np.all(fine < (1e-6 if restitution == 1 else 5e-5))
    # Steps are a fourth; spins are within ten times the tolerance of SciPy's.
    assert np.all(coarse > ((14, 10) if restitution == 1 else (3, 3)) * fine)


class Impact:
    """Rates of two clumps that hit each other without slip: Hertz and Mindlin's springs, whose forces end y."""

    def __init__(self, one, other):
        self.bodies, self.touches = (one, other), set()

    def __call__(self, t, y):
        bodies = self.bodies
        states = [body.read(y[13 * k : 13 * k + 13]) for k, body in enumerate(bodies)]
        springs = y[26:].reshape(len(bodies[0].radii), len(bodies[1].radii), 3)
        loads, rates = np.zeros((2, 2, 3)), np.zeros_like(springs)
        for i, j in np.ndindex(springs.shape[:2]):
            arms = [turn @ body.arms[k] for body, k, (_, turn, *_) in zip(bodies, (i, j), states, strict=True)]
            radii = bodies[0].radii[i], bodies[1].radii[j]
            d = states[0][0] + arms[0] - states[1][0] - arms[1]
            depth = sum(radii) - np.linalg.norm(d)
            if depth > 0:
                self.touches.add((i, j))
                force, rates[i, j], points = self.contact(states, arms, radii, d, springs[i, j])
                loads[0] += force, np.cross(points[0], force)
                loads[1] -= force, np.cross(points[1], force)
        ends = [body.rates(y[13 * k : 13 * k + 13], *loads[k]) for k, body in enumerate(bodies)]
        return np.concatenate((*ends, rates.reshape(-1)))

    def contact(self, states, arms, radii, d, f):
        """Force on the first body, rate of the spring's force f, and the point of contact from both centres."""
        length, radius = np.linalg.norm(d), 1 / (1 / radii[0] + 1 / radii[1])
        n, depth = d / length, sum(radii) - length
        points = arms[0] - (radii[0] - depth / 2) * n, arms[1] + (radii[1] - depth / 2) * n
        (_, _, va, wa), (_, _, vb, wb) = states
        apart = va + np.cross(wa, arms[0]) - vb - np.cross(wb, arms[1])
        slip = va + np.cross(wa, points[0]) - vb - np.cross(wb, points[1])
        slip = slip - slip @ n * n
        speed, tilt = -apart @ n, (apart - apart @ n * n) / length
        stiff = 2 * MODULUS * np.sqrt(radius * depth)
        df = SHEAR * stiff * slip - f @ tilt * n + 0.5 * (wa + wb) @ n * np.cross(n, f)
        df = df + (0.5 * f * speed / depth if speed < 0 else 0.0)
        return 2 / 3 * stiff * depth * n - f, df, points


@pytest.mark.exhaustive
def test_two_clumps_that_hit_each_other_obliquely():
    """Velocities and spins after an impact without slip are those of the same law by SciPy."""
    shapes = corner(), dumbbell()
    bodies = [Body(shape) for shape in shapes]
    turns = Rotation.from_rotvec([[0.3, -0.2, 0.5], [0.1, 0.9, -0.4]])
    x = np.array([[0, 0, 0], [3.2 * R, 0.9 * R, 0.7 * R]])
    v, w = np.array([[0.5, 0.1, 0], [-0.5, -0.2, 0.3]]), np.array([[20.0, 10, -30], [5, -20, 15]])
    y = [np.concatenate((x[k], turns[k].as_quat(), v[k], turns[k].inv().apply(w[k]))) for k in range(2)]
    impact, end = Impact(*bodies), 8e-3
    y = integrate(impact, np.concatenate((*y, np.zeros(18))), [0, end])[-1]
    assert len(impact.touches) >= 1
    exact = [bodies[k].read(y[13 * k : 13 * k + 13]) for k in range(2)]
    law = pt.ContactLaw(pt.Hertz(E, NU), pt.Mindlin(1e6))
    system = pt.Clumps(shapes, x, kinds=[0, 1], contact=law)
    errors = []
    for h in (16e-6, 1e-6):
        start = system.start(x, v, w, np.roll(turns.as_quat(), 1, axis=1))
        motion = move(system, start, t1=end, h=h, save_every=500)
        last = [np.asarray(part)[-1] for part in (motion.state.v, motion.state.omega)]
        changes = [np.abs(last[0] - v).max(), np.abs(last[1] - w).max()]
        assert changes[1] > 10
        difference = [np.abs(last[k] - [each[2 + k] for each in exact]).max() for k in range(2)]
        errors.append(np.array(difference) / changes)
        for name in system.kept_momenta:
            size = np.abs(motion.invariants[name]).max()
            assert change(motion, name) < 1e-12 * size
    assert max(errors[-1]) < 1e-5
    assert np.all(errors[0] > 10 * errors[-1])


def touches(x, radii, owners):
    """How many spheres of others each body has overlaps with in each frame."""
    d = np.linalg.norm(x[:, :, None] - x[:, None], axis=-1)
    touch = (d < radii[:, None] + radii) & (owners[:, None] != owners)
    return touch


@pytest.mark.exhaustive
def test_many_clumps_keep_their_balance_miss_no_contact_and_resume(tmp_path):
    """Shapes of two kinds with friction and resistances in a box whose floor shakes; a thin skin, fast clumps."""
    rng, n = np.random.default_rng(5), 18
    lattice = np.stack(np.meshgrid(*(np.arange(3),) * 3, indexing="ij"), -1).reshape(-1, 3)[:n] * 4.2 * R + 2.4 * R
    shapes, kinds = (corner(), dumbbell()), np.arange(n) % 2
    law = pt.ContactLaw(pt.Hertz(E, NU, 0.8), pt.Mindlin(0.4), pt.RollingResistance(50.0, 0.1, 0.02))
    floor = pt.MovingWall(pt.Plane(), lambda t: (0.3, 0, 0.2 * jnp.cos(200 * t)))
    side = 13.2 * R
    walls = (floor, pt.Box((0, 0, -np.inf), (side, side, side)))
    options = {"walls": walls, "skin": 0.05, "contact_outputs": True, "gravity": (0, 0, -G)}
    turns = Rotation.random(n, random_state=7)
    q = np.roll(turns.as_quat(), 1, axis=1)
    system = pt.Clumps(shapes, lattice, q, kinds, contact=law, **options)
    state = system.start(lattice, rng.normal(0, 0.5, (n, 3)), rng.normal(0, 30, (n, 3)), q)
    motion = move(system, state, t1=0.06, h=2e-5, save_every=20)
    owners, radii = np.asarray(system.members.owners), 0.5 * np.asarray(system.spheres.diameters)
    x = np.asarray(motion.outputs["sphere_positions"])
    each = touches(x, radii, owners).sum(axis=2)
    height = x - np.asarray(motion.state.poses)[:, None, 2:3] * [0, 0, 1]
    each = each + (height < radii[:, None]).sum(axis=2) + (x > side - radii[:, None]).sum(axis=2)
    counts = np.stack([each[:, owners == k].sum(axis=1) for k in range(n)], axis=1)
    np.testing.assert_array_equal(motion.outputs["contact_counts"], counts)
    assert counts.sum() > 300
    lost = {name: float(values[-1]) for name, values in motion.outputs["dissipation"].items()}
    assert min(lost["damping"], lost["sliding"], lost["rolling"]) > 1e-7
    assert abs(lost["numerical"]) < 0.02 * lost["damping"]
    scale = float(np.sum(0.5 * system.masses * np.sum(np.asarray(state.v) ** 2, axis=1)))
    assert abs(motion.outputs["wall_work"][-1]) > 1e-3 * scale
    assert change(motion, "energy_balance") < 1e-12 * scale
    last = type(motion.state)(*(part[-1] for part in motion.state))
    network = system.contact_network(last)
    assert len(network.pairs) == touches(x[-1:], radii, owners).sum() / 2
    move(system, state, t1=0.03, h=2e-5, save_every=20, store=tmp_path / "run")
    resumed = ph.resume(tmp_path / "run", t1=0.06, problem=system)
    for a, b in zip(resumed.state, motion.state, strict=True):
        assert np.asarray(a)[-1].tobytes() == np.asarray(b)[-1].tobytes()


@pytest.mark.exhaustive
def test_pictures_have_the_spheres_where_they_are(tmp_path):
    clump = corner()
    x = np.array([[0, 0, 0], [6 * R, 0, 0]])
    system = pt.Clumps(clump, x)
    motion = move(system, system.start(x, 0.0, (0, 0, 5.0)), t1=0.1, h=0.02)
    x = motion.outputs["sphere_positions"]
    turned = Rotation.from_rotvec([0, 0, 0.1]).apply(clump.centres - clump.centre)
    assert np.abs(x[1, 3:] - [6 * R, 0, 0] - turned).max() < 0.05 * R
    assert np.abs(x[-1] - x[0]).max() > 0.3 * R
    ph.export(motion, tmp_path / "clumps.pvd")
    mesh = meshio.read(tmp_path / "clumps" / f"{len(motion.t) - 1:05d}.vtu")
    np.testing.assert_allclose(mesh.points, x[-1], atol=1e-15)
    np.testing.assert_allclose(mesh.point_data["diameter"], np.tile(clump.diameters, 2))
    ph.export(motion, tmp_path / "clumps.html")
    assert "spheres" in (tmp_path / "clumps.html").read_text(encoding="utf-8")
