"""Discs, tops and stones that roll and slide on a table, against theory and equations of their own."""

import numpy as np
import pytest
from reference_problems import energy
from scipy.integrate import solve_ivp
from scipy.optimize import minimize_scalar

import polhode as ph

G = 9.81
RADIUS, MASS = 0.0375, 0.44


def rolling_body(inertia, mass, contact, rolling=0.0):
    """Equations of a body that rolls on a plane, for the upward vector γ and the angular velocity in its frame.

    Angular momentum about the point of contact, as A. Borisov & I. Mamaev write it: contact: γ, γ̇ → r, ṙ.
    """

    def rate(t, y):
        up, w = y[:3], y[3:]
        turn = np.cross(up, w)
        r, slope = contact(up, turn)
        about = inertia + mass * ((r @ r) * np.eye(3) - np.outer(r, r))
        change = mass * (2 * (r @ slope) * np.eye(3) - np.outer(slope, r) - np.outer(r, slope))
        lever = mass * (np.cross(slope, np.cross(w, r)) + G * np.cross(r, up))
        free = np.linalg.solve(about, np.cross(about @ w, w) + lever - change @ w)
        if not rolling:
            return np.concatenate((turn, free))
        along = w - (w @ up) * up
        slowed = -rolling * np.linalg.solve(about, along / np.linalg.norm(along))

        def load(spin_rate):
            """m (g + z̈): the height is -r·γ, and its rate that of the velocity r × ω."""
            step = 1e-6
            heights = []
            for s in (-step, step):
                later, faster = up + s * turn, w + s * spin_rate
                arm, _ = contact(later, np.cross(later, faster))
                heights.append(np.cross(arm, faster) @ later)
            return mass * (G + (heights[1] - heights[0]) / (2 * step))

        rest, unit = load(free), load(free + slowed)
        normal = rest / (1 - (unit - rest))
        return np.concatenate((turn, free + normal * slowed))

    return rate


def edge_of_disc(up, turn):
    across, length = np.array([up[0], up[1], 0.0]), np.hypot(up[0], up[1])
    rate = (across @ turn) / length
    return -RADIUS * across / length, -RADIUS * (turn * [1, 1, 0] / length - across * rate / length**2)


def disc_at(angle):
    rate = np.sqrt(4 * G / (RADIUS * np.sin(angle)))
    return np.array([-np.sin(angle), 0, np.cos(angle), -rate * np.sin(angle), 0, 0]), rate


def azimuth(solution):
    R = np.asarray(solution.outputs["rotations"])[:, 0]
    return np.unwrap(np.arctan2(R[:, 1, 2], R[:, 0, 2]))


@pytest.mark.parametrize(
    ("method", "angle", "bound"),
    [
        ("moreau", 0.5, 3e-3),
        pytest.param("rattle", 0.5, 2e-4, marks=pytest.mark.exhaustive),
        pytest.param("rattle", 0.15, 3e-4, marks=pytest.mark.exhaustive),
        pytest.param("moreau", 0.15, 3e-3, marks=pytest.mark.exhaustive),
        pytest.param("rkmk4", 0.5, 3e-8, marks=pytest.mark.exhaustive),
    ],
)
@pytest.mark.exhaustive
def test_eulers_disc_goes_round_at_the_rate_of_its_angle(method, angle, bound):
    """Ω² sin α = 4g/a, as long as nothing takes energy; the centre stays. Of order 2 by time stepping, and 4."""
    _, rate = disc_at(angle)
    errors = []
    for h in (1e-3, 5e-4):
        problem = ph.problems.get("eulers-disc", angle=angle, rolling=0.0, duration=0.3)
        solution = ph.simulate(problem, integrator=method, h=h)
        errors.append(np.abs(np.asarray(solution.outputs["tilt"]) - angle).max())
        assert abs(np.ptp(azimuth(solution)) / 0.3 / rate - 1) < 10 * bound
        assert np.abs(np.asarray(solution.bodies["body"].position)[:, :2]).max() < 3 * bound * RADIUS
    assert errors[0] < bound
    assert np.log2(errors[0] / errors[1]) == pytest.approx(4 if method == "rkmk4" else 2, abs=0.3)


@pytest.mark.exhaustive
def test_a_coin_that_rolls_in_a_circle_presses_as_much_all_around():
    """Its lowest point comes to another slot at every quarter of the circle, at 45° for the first time."""
    lean, circle, mass, radius = np.radians(65), 0.5, 1.5, 0.2
    sine, cosine = np.sin(lean), np.cos(lean)
    # Ω² from the moments of weight and friction about the centre, with A = ¼mr² and C = ½mr².
    lever = (0.25 * radius * cosine + 1.5 * circle) * sine
    rate = np.sqrt(G * cosine / lever)
    axis, up = np.array([sine, 0, cosine]), np.array([-cosine, 0, sine])
    R = np.column_stack((-up, [0, 1, 0], axis))
    spin = np.array([0, 0, rate]) - rate * (circle / radius + cosine) * axis
    model = ph.Model(gravity=(0, 0, -G))
    model.ground.add_shape(ph.shapes.Plane())
    model.add_body(
        mass=mass, inertia=mass * radius**2 * np.array([0.25, 0.25, 0.5]), shape=ph.shapes.Disc(radius),
        position=(circle, 0, radius * sine), rotation=R,
        velocity=(0, rate * circle, 0), angular_velocity=R.T @ spin, name="coin",
    )  # fmt: skip
    model.contacts(friction=0.9)
    run = ph.simulate(model.problem("SO3xR3", t1=0.4, h=4e-3), "moreau")
    coin, contact, angle = run.bodies["coin"], run.contacts["coin"], rate * run.t
    assert angle[-1] > np.pi / 4
    assert np.all(contact.mode == "stick")
    around = np.stack((np.cos(angle), np.sin(angle)), axis=1)
    assert np.allclose(coin.position[:, :2], circle * around, rtol=0, atol=1e-4)
    assert np.allclose(contact.normal_force, mass * G, rtol=0, atol=2e-3)
    assert np.allclose(contact.friction_force, mass * rate**2 * circle, rtol=0, atol=2e-3)


@pytest.mark.exhaustive
def test_eulers_disc_settles_by_rolling_friction():
    """Against its own equations; √α falls about linearly, by 2/3 μ √(g/a) / a a second."""
    problem = ph.problems.get("eulers-disc", rolling=4e-4, duration=0.5)
    solution = ph.simulate(problem, integrator="rattle")
    start, _ = disc_at(0.3)
    inertia = MASS * RADIUS**2 * np.diag([0.25, 0.25, 0.5])
    exact = solve_ivp(
        rolling_body(inertia, MASS, edge_of_disc, 4e-4), (0, 0.5), start, rtol=1e-9, atol=1e-10, method="DOP853"
    )
    tilt = np.asarray(solution.outputs["tilt"])
    assert abs(tilt[-1] - np.arccos(exact.y[2, -1])) < 3e-4
    assert 0.3 - tilt[-1] > 0.01
    slow = np.sqrt(0.3) - 2 / 3 * 4e-4 * np.sqrt(G / RADIUS) / RADIUS * 0.5
    assert abs(np.sqrt(tilt[-1]) - slow) < 0.1 * (np.sqrt(0.3) - slow)
    taken = sum(np.asarray(part)[-1] for part in solution.dissipated.values())
    assert taken == pytest.approx(-np.diff(energy(solution)[[0, -1]])[0], rel=0.02)


M, R, ALPHA = 0.02, 0.02, 0.3
I3, I1 = 0.4 * M * R**2, 131 / 350 * M * R**2
WEIGHT = M * G * R**3 * ALPHA
RISES = np.sqrt(WEIGHT * (1 - ALPHA) ** 2 / (I1 - (1 - ALPHA) * I3)) / R
"""Spin above which upright spin is unstable."""
INVERTS = np.sqrt(WEIGHT * (1 + ALPHA) ** 4 / ((1 + ALPHA) * I3 - I1)) / (R * (1 - ALPHA))
"""The same above which the inverted one is stable, with the same integral of Jellett."""


def spun(spin, duration, **more):
    return ph.simulate(ph.problems.get("tippe-top", spin=spin, duration=duration, **more))


@pytest.mark.exhaustive
def test_a_tippe_top_turns_over_above_the_bounds_of_its_spin():
    upright, rises = (spun(share * RISES, 2.0).outputs["tilt"] for share in (0.9, 1.1))
    # Once the spin has its precession; the transient takes from both.
    quarter = len(rises) // 4
    assert upright[-1] < upright[2 * quarter] < upright[quarter]
    assert rises[-1] > rises[2 * quarter] > rises[quarter]
    leaning, inverted = (spun(share * INVERTS, 8.0) for share in (0.95, 1.1))
    assert np.pi - inverted.outputs["tilt"][-1] < 5e-3
    # At rest in the energy of its J, between both.
    J = np.asarray(leaning.outputs["jellett"])
    least = minimize_scalar(
        lambda c: J[-1] ** 2 / (2 * R**2 * (I1 * (1 - c**2) + I3 * (c - ALPHA) ** 2)) - M * G * R * ALPHA * c,
        bounds=(-1, 0), method="bounded",
    )  # fmt: skip
    assert leaning.outputs["tilt"][-1] == pytest.approx(np.arccos(least.x), abs=5e-3)
    for solution in (leaning, inverted):
        J = np.asarray(solution.outputs["jellett"])
        assert np.ptp(J) < 5e-5 * abs(J[0])
        # Control: the vertical angular momentum is not kept, and the spin about the axis turns round.
        spins = np.asarray(solution.bodies["body"].angular_velocity)[:, 2]
        assert spins[0] * spins[-1] < 0


@pytest.mark.exhaustive
def test_coulombs_friction_at_one_point_lets_a_top_roll_instead():
    """T. Kane and D. Levinson (1978); Jellett's integral holds to round-off through sliding and rolling."""
    model = ph.Model(gravity=(0, 0, -G))
    model.ground.add_shape(ph.shapes.Plane(name="table"))
    c, s = np.cos(0.1), np.sin(0.1)
    turn = np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])
    model.add_body(
        mass=M, inertia=(I1, I1, I3), shape=ph.shapes.Sphere(R, position=(0, 0, ALPHA * R)), rotation=turn,
        position=np.array([0, 0, R]) - ALPHA * R * turn[:, 2], angular_velocity=(0, 0, 150.0), name="body",
    )  # fmt: skip
    model.contacts(friction=0.3)
    solution = ph.simulate(model.problem("SO3xR3", t1=1.0, h=1e-3), integrator="rattle")
    rotations = np.asarray(solution.outputs["rotations"])[:, 0]
    axes, momentum = rotations[:, :, 2], np.asarray(solution.bodies["body"].angular_velocity) * [I1, I1, I3]
    J = np.einsum("kij,kj,ki->k", rotations, momentum, ALPHA * R * axes - [0, 0, R])
    assert np.ptp(J) < 1e-12 * abs(J[0])
    touch = solution.contacts["table", "body"]
    assert [str(touch.mode[k]) for k in (5, -1)] == ["slide", "stick"]
    assert np.max(axes[:, 0] ** 2 + axes[:, 1] ** 2) < 1.01 * s**2


INERTIA = np.diag([4e-4, 9e-3, 9.2e-3])
SURFACE = np.array([0.2, 0.04, 0.03])


def point_of_stone(up, turn):
    c, s = np.cos(0.1), np.sin(0.1)
    axes = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
    form = axes @ np.diag(SURFACE**2) @ axes.T
    size = np.sqrt(up @ form @ up)
    return -form @ up / size, -form @ turn / size + form @ up * (up @ form @ turn) / size**3


STONE = rolling_body(INERTIA, 1.0, point_of_stone)


def growth(spin):
    """Eigenvalues of small motions about spin, those that oscillate and have a positive imaginary part."""
    middle, step = np.array([0, 0, 1.0, 0, 0, spin]), 1e-6
    columns = [(STONE(0, middle + d) - STONE(0, middle - d)) / (2 * step) for d in step * np.eye(6)]
    values = np.linalg.eigvals(np.array(columns).T)
    return sorted(values[values.imag > 1], key=lambda value: value.imag)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("method", "bound"), [("rattle", 0.02), ("moreau", 0.02)])
def test_a_rattleback_grows_by_its_eigenvalues_and_reverses(method, bound):
    slow, fast = growth(3.0)
    assert fast == pytest.approx(4.314 + 37.57j, abs=0.01)
    assert slow == pytest.approx(-0.491 + 13.06j, abs=0.01)
    np.testing.assert_allclose(growth(-3.0), np.conj([-slow, -fast]), rtol=1e-6)
    h = 2e-3 if method == "rattle" else 1e-3
    small = ph.simulate(ph.problems.get("rattleback", wobble=1e-4, duration=1.2), integrator=method, h=h)
    wobble = np.asarray(small.bodies["body"].angular_velocity)[:, 0]
    late = np.asarray(small.t) > 0.6
    # Successive maxima of the rocking, after the other one has died away.
    peaks = np.flatnonzero(late[1:-1] & (wobble[1:-1] > wobble[:-2]) & (wobble[1:-1] > wobble[2:])) + 1
    times, sizes = np.asarray(small.t)[peaks], np.log(wobble[peaks])
    assert np.polyfit(times, sizes, 1)[0] == pytest.approx(fast.real, rel=0.05)
    assert 2 * np.pi / np.diff(times).mean() == pytest.approx(fast.imag, rel=0.03)
    whole = ph.simulate(ph.problems.get("rattleback", duration=2.0), integrator=method, h=h)
    exact = solve_ivp(STONE, (0, 2.0), [0, 0, 1, 0.05, 0.05, 3.0], rtol=1e-9, atol=1e-11, method="DOP853")
    assert exact.y[5, -1] < -2
    assert np.asarray(whole.bodies["body"].angular_velocity)[-1, 2] == pytest.approx(exact.y[5, -1], abs=bound)


@pytest.mark.exhaustive
@pytest.mark.parametrize("form", ["minimal", "SE3"])
def test_a_ball_that_rolls_doesnt_bounce_on_what_carries_it_in_axes_that_roll_too(form):
    """Velocities of the start, in axes that the middle of the step has turned, would approach the floor."""
    model = ph.Model(gravity=(0, 0, -G))
    model.ground.add_shape(ph.shapes.Plane())
    model.add_body(
        mass=1.0, inertia=(0.004,) * 3, shape=ph.shapes.Sphere(0.1), position=(0, 0, 0.1), velocity=(1, 0, 0),
        angular_velocity=(0, 10, 0), name="ball",
    )  # fmt: skip
    model.contacts(friction=0.5, restitution=0.5)
    run = ph.simulate(model.problem(form, t1=0.35, h=0.01), integrator="moreau")
    # Of order 2: without restitution the same, 6 mm with bounces.
    np.testing.assert_allclose(np.asarray(run.bodies["ball"].position)[:, 2], 0.1, atol=6e-5)
    np.testing.assert_allclose(np.asarray(run.contacts["ground", "ball"].force)[1:, 2], G, rtol=1e-3)
