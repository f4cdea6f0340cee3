"""Problems of contact, impact and friction with exact motions, as models, and the errors of runs of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import polhode as ph
from polhode.spaces import Rn
from polhode.systems.mechanical import FunctionContacts, Mechanical

G = 9.81
DOWN = (0.0, 0.0, -G)
Errors = dict[str, float]


class Reference(NamedTuple):
    """A problem: its title, the model, the end of its run, and what to compare with.

    - `build`: () → a model, or () → (system, state).
    - `errors`: a run → measured minus exact values, each under its own label.
    - `joints`: whether it has coordinates of joints.
    """

    title: str
    build: Callable[[], Any]
    t1: float
    errors: Callable[[Any], Errors]
    joints: bool = False
    h: float = 0.01


def run(
    reference: Reference,
    method: str = "moreau",
    h: float | None = None,
    formulation: str = "SO3xR3",
    rtol: float | None = None,
) -> Any:
    """A run of a reference problem, with its own step by default, or with a tolerance."""
    built, h = reference.build(), reference.h if h is None else h
    steps = {"h": h} if rtol is None else {"rtol": rtol}
    if isinstance(built, ph.Model):
        return ph.simulate(built.problem(formulation, t1=reference.t1, h=h), integrator=method, **steps)
    system, state = built
    return ph.simulate(system, method, t1=reference.t1, state0=state, **steps)


def instants(solution: Any, name: str) -> np.ndarray:
    """Times at which a contact "closes" or "changes", of runs that locate these."""
    events = solution.events
    here = [events.names[k] == f"contact {name}" for k in np.asarray(events.number, int)]
    return np.asarray(events.t)[np.array(here, bool)]


def about_y(angle: float) -> np.ndarray:
    """The rotation about y that turns z towards x."""
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])


def tilted(degrees: float) -> tuple[float, float, float]:
    """Weight on an incline whose x-axis points downhill."""
    a = np.radians(degrees)
    return (G * np.sin(a), 0.0, -G * np.cos(a))


def on_floor(shape: Any, gravity: Any = DOWN, name: str = "body", **laws_and_body: Any) -> ph.Model:
    """A body on a floor; laws by the names that `Model.contacts` has, everything else is of the body."""
    laws = {key: laws_and_body.pop(key) for key in LAWS if key in laws_and_body}
    model = ph.Model(gravity=gravity)
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    model.add_body(shape=shape, name=name, **laws_and_body)
    model.contacts(**laws)
    return model


LAWS = ("friction", "restitution", "tangential_restitution", "drilling", "rolling")


def position(solution: Any, name: str = "body") -> np.ndarray:
    return np.asarray(solution.bodies[name].position)


def velocity(solution: Any, name: str = "body") -> np.ndarray:
    return np.asarray(solution.bodies[name].velocity)


def energy(solution: Any) -> np.ndarray:
    return np.asarray(solution.outputs["kinetic_energy"]) + np.asarray(solution.outputs["potential_energy"])


def largest(values: Any) -> float:
    return float(np.max(np.abs(values)))


# --- one body, smooth motion ------------------------------------------------------------------------------------------


def incline() -> ph.Model:
    return on_floor(
        ph.shapes.Box((0.4, 0.3, 0.2)), tilted(20), mass=3.0, position=(0, 0, 0.1), velocity=(2, 0, 0), friction=0.5
    )


def incline_errors(solution: Any) -> Errors:
    """Constant accelerations g (sin α ∓ μ cos α); afterwards nothing moves."""
    a, x = np.radians(20), position(solution)
    stop = 2.0**2 / (2 * G * (0.5 * np.cos(a) - np.sin(a)))
    force = np.asarray(solution.contacts["floor", "body"].force)[-1]
    held = 3 * G * np.array([-np.sin(a), 0, np.cos(a)])
    rests = np.asarray(solution.t) > 2.0
    return {
        "place where it stops": x[-1, 0] - stop,
        "force at rest, relative": largest(force - held) / (3 * G),
        "motion at rest": largest(np.ptp(x[rests], axis=0)),
        "speed at rest": largest(velocity(solution)[rests]),
    }


def curved_puck() -> ph.Model:
    b = np.radians(70)
    return on_floor(
        ph.shapes.Sphere(0.1), tilted(25), mass=1.0, inertia=(1e9,) * 3, position=(0, 0, 0.1),
        velocity=(3 * np.cos(b), 3 * np.sin(b), 0), friction=0.7,
    )  # fmt: skip


def curved_puck_errors(solution: Any) -> Errors:
    """Quadrature of the hodograph v sin φ / tan(φ/2)ᵏ = const, k = μ / tan α."""
    end = [0.9239419283505015, 0.8512781413404468]
    return {"place after 1 s": float(np.linalg.norm(position(solution)[-1, :2] - end))}


def billiard() -> ph.Model:
    return on_floor(
        ph.shapes.Sphere(0.03), mass=0.17, position=(0, 0, 0.03), velocity=(2, 0.5, 0),
        angular_velocity=(10, -20, 5), friction=0.2,
    )  # fmt: skip


def billiard_errors(solution: Any) -> Errors:
    """The slip keeps its direction and falls by 7/2 μg."""
    x, v = position(solution), velocity(solution)
    spin = np.asarray(solution.outputs["rotations"])[-1, 0] @ np.asarray(solution.bodies["body"].angular_velocity)[-1]
    return {
        "place after 1 s": largest(x[-1, :2] - [1.4042806104670875, 0.3167017262975654]),
        "velocity when it rolls": largest(v[-1] - [1.2571428571428571, 0.2714285714285714, 0]),
        "spin about the vertical": float(spin[2] - 5.0),
        "slip when it rolls": float(np.asarray(solution.contacts["floor", "body"].slip)[-1]),
    }


def dry_oscillator() -> ph.Model:
    model = on_floor(ph.shapes.Box((0.4, 0.4, 0.04)), mass=2.0, position=(1, 0, 0.02), friction=0.3)
    model.add(ph.forces.Potential(model.body("body"), lambda t, poses: 25.0 * poses[0].x[0] ** 2, name="spring"))
    return model


def dry_oscillator_errors(solution: Any) -> Errors:
    """Harmonic pieces: 2μmg/k is lost each half swing, until the spring can't overcome friction."""
    x, rests = position(solution), np.asarray(solution.t) > 2.6
    return {
        "place where it rests": x[-1, 0] - 0.05824,
        "motion at rest": largest(np.ptp(x[rests], axis=0)),
        "speed at rest": largest(velocity(solution)[-1]),
    }


def belt() -> ph.Model:
    model = ph.Model(gravity=DOWN)
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    box = model.add_body(mass=2.0, shape=ph.shapes.Box((0.2, 0.2, 0.2)), position=(0, 0, 0.1), name="body")
    model.add_contact(model.ground, box, friction=0.35, surface_velocity=(2.0, 0, 0))
    return model


def belt_errors(solution: Any) -> Errors:
    """Acceleration μg up to the speed of the belt, 2 m/s."""
    x, t = position(solution), float(solution.t[-1])
    slides = 2.0 / (0.35 * G)
    return {
        "place": x[-1, 0] - (0.5 * 2.0 * slides + 2.0 * (t - slides)),
        "speed": largest(velocity(solution)[-1] - [2, 0, 0]),
    }


def cube() -> ph.Model:
    return on_floor(ph.shapes.Box((0.1, 0.1, 0.1)), mass=1.0, position=(0, 0, 0.05), velocity=(6, 0, 0), friction=0.5)


def cube_errors(solution: Any) -> Errors:
    """Balance of forces and moments: rear corners carry (1 - μ)/2 of the weight as it slides."""
    x, contact = position(solution), solution.contacts["floor", "body"]
    step = len(x) // 4
    points, forces = np.asarray(contact.points)[step], np.asarray(contact.normal_forces)[step]
    rear = forces[points[:, 0] < x[step, 0]].sum()
    return {
        "place where it stops": x[-1, 0] - 3.6697247706422016,
        "lift": largest(x[:, 2] - 0.05),
        "force on the rear edge, relative": float(rear / G - 0.25),
    }


def ball_downhill() -> ph.Model:
    return on_floor(ph.shapes.Sphere(1.0), tilted(30), mass=1.0, position=(0, 0, 1), friction=0.3)


def ball_downhill_errors(solution: Any) -> Errors:
    """g sin α / (1 + 2/5)."""
    a, t = G * np.sin(np.radians(30)) / 1.4, np.asarray(solution.t)
    force = np.asarray(solution.contacts["floor", "body"].force)[-1]
    return {
        "velocity": largest(velocity(solution)[:, 0] - a * t),
        "angular velocity": largest(np.asarray(solution.bodies["body"].angular_velocity)[:, 1] - a * t),
        "friction": float(force[0] + 0.4 * a),
    }


# --- forces at rest ---------------------------------------------------------------------------------------------------


def stack(masses: tuple[float, ...] = (5.0, 4.0, 3.0, 2.0, 1.0)) -> ph.Model:
    """Boxes on each other, the first lowest. Only neighbours may touch."""
    model = ph.Model(gravity=DOWN)
    below = model.ground
    below.add_shape(ph.shapes.Plane(name="floor"))
    for i, mass in enumerate(masses):
        box = model.add_body(
            mass=mass, shape=ph.shapes.Box((0.5, 0.4, 0.2)), position=(0, 0, 0.1 + 0.2 * i), name=f"box {i}"
        )
        model.add_contact(below, box, friction=0.5)
        below = box
    return model


def stack_errors(solution: Any) -> Errors:
    """Each box carries all above it."""
    names = list(solution.bodies)
    masses = np.array([5.0, 4.0, 3.0, 2.0, 1.0]) if len(names) == 5 else np.array([1.0, 1e4])
    carried = G * np.cumsum(masses[::-1])[::-1]
    below = ["floor", *names[:-1]]
    forces = [np.asarray(solution.contacts[pair].force)[1:, 2] for pair in zip(below, names, strict=True)]
    moved = max(largest(position(solution, name) - position(solution, name)[0]) for name in names)
    return {
        "forces, relative": max(largest(f / c - 1) for f, c in zip(forces, carried, strict=True)),
        "motion": moved,
    }


def tripod() -> ph.Model:
    model = ph.Model(gravity=DOWN)
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    table = model.add_body(mass=7.0, inertia=(0.5, 0.5, 0.5), position=(0.05, 0.02, 0.6), name="table")
    for i, (x, y) in enumerate(((0.5, 0.0), (-0.3, 0.4), (-0.2, -0.5))):
        table.add_shape(ph.shapes.Sphere(0.05, position=(x - 0.05, y - 0.02, 0.05 - 0.6), name=f"foot {i}"))
    model.add(ph.forces.PointForce(table, (3.0, 2.0, 0.0), name="push"))
    model.contacts(friction=0.8)
    return model


def tripod_errors(solution: Any) -> Errors:
    """Balance of forces and moments."""
    forces = np.array([np.asarray(solution.contacts["floor", f"foot {i}"].force)[1:] for i in range(3)])
    return {
        "normal forces": largest(forces[:, :, 2].T - [30.53175, 24.04725, 14.091]),
        "friction": largest(forces.sum(axis=0)[:, :2] + [3.0, 2.0]),
        "motion": largest(position(solution, "table") - position(solution, "table")[0]),
    }


def cylinders(between: float = 1.001, ground: float = 1.001) -> ph.Model:
    """Three cylinders in a pyramid, with friction as multiples of what they need."""
    model, r = ph.Model(gravity=DOWN), 0.1
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    shape, lies = ph.shapes.Cylinder(radius=r, length=0.3), ph.rotation_vector((np.pi / 2, 0, 0))
    places = {"left": (-r, 0, r), "right": (r, 0, r), "top": (0, 0, r + np.sqrt(3) * r)}
    left, right, top = (
        model.add_body(mass=1.0, shape=shape, position=x, rotation=lies, name=name) for name, x in places.items()
    )
    for low in (left, right):
        model.add_contact(low, top, friction=between * np.tan(np.radians(15)))
        model.add_contact(model.ground, low, friction=ground * np.tan(np.radians(15)) / 3)
    return model


def cylinders_errors(solution: Any) -> Errors:
    """Forces between cylinders are at 15° to the line of centres."""
    force = np.asarray(solution.contacts["floor", "left"].force)[-1]
    names = ("left", "right", "top")
    return {
        "force of the ground": float(force[2] - 14.715),
        "its friction": float(force[0] - 1.314290788874657),
        "speed": max(largest(velocity(solution, name)[-1]) for name in names),
    }


# --- impacts ----------------------------------------------------------------------------------------------------------


def bouncing_ball() -> ph.Model:
    return on_floor(ph.shapes.Sphere(0.1), mass=1.0, position=(0, 0, 1.1), friction=0.0, restitution=0.8)


def ball_height(t: np.ndarray) -> np.ndarray:
    """Parabolas whose speeds are a geometric series, at rest beyond the accumulation."""
    fall, e = np.sqrt(2.0 / G), 0.8
    z = 1.1 - 0.5 * G * np.minimum(t, fall) ** 2
    start, speed = fall, G * fall
    for _ in range(80):
        speed *= e
        end = start + 2 * speed / G
        inside = (t >= start) & (t < end)
        z = np.where(inside, 0.1 + speed * (t - start) - 0.5 * G * (t - start) ** 2, z)
        z = np.where(t >= end, 0.1, z)
        start = end
    return z


def bouncing_ball_errors(solution: Any) -> Errors:
    """A geometric series of impacts: all is over at 4.0637 s."""
    z, t = position(solution)[:, 2], np.asarray(solution.t)
    return {
        "height over time, m s": float(np.trapezoid(np.abs(z - ball_height(t)), t)),
        "height at rest": float(z[-1] - 0.1),
        "energy taken, at rest": float(np.asarray(solution.dissipated["impact"])[-1] - G),
        "lowest gap": float(min(z.min() - 0.1, 0.0)),
    }


def cradle(gap: float) -> ph.Model:
    model = ph.Model(gravity=(0, 0, 0))
    balls = [
        model.add_body(
            mass=1.0, shape=ph.shapes.Sphere(0.05), position=((0.1 + gap) * i, 0, 0),
            velocity=(1.0 if i == 0 else 0.0, 0, 0), name=f"ball {i}",
        ) for i in range(3)
    ]  # fmt: skip
    for first, second in itertools.pairwise(balls):
        model.add_contact(first, second, friction=0.0, restitution=1.0)
    return model


def cradle_errors(*after: float) -> Callable[[Any], Errors]:
    """Newton's law on all closed contacts at once, or exchanges one after the other."""

    def errors(solution: Any) -> Errors:
        speeds = [velocity(solution, f"ball {i}")[-1, 0] for i in range(3)]
        return {"velocities": largest(np.subtract(speeds, after))}

    return errors


def oblique() -> ph.Model:
    return on_floor(
        ph.shapes.Sphere(0.1), mass=1.0, inertia=(0.004,) * 3, position=(0, 0, 0.15), velocity=(3, 0, -2),
        angular_velocity=(0, -5, 0), friction=0.15, restitution=0.6,
    )  # fmt: skip


def oblique_errors(solution: Any) -> Errors:
    """Balance of impulses; it slides throughout. Horizontal velocities stay in flight."""
    v, spin = velocity(solution)[-1], np.asarray(solution.bodies["body"].angular_velocity)[-1]
    speed = np.sqrt(4 + 2 * G * 0.05)
    upwards = 0.6 * speed - G * (float(solution.t[-1]) - (speed - 2.0) / G)
    return {
        "horizontal velocity": v[0] - 2.464364302907284,
        "angular velocity": spin[1] - 8.390892427317905,
        "upward velocity": v[2] - upwards,
    }


def rocking_block() -> ph.Model:
    edge = np.array([0.2, 0, 0])
    centre = edge - about_y(0.15) @ np.array([0.2, 0, -0.6])
    return on_floor(ph.shapes.Box((0.4, 0.3, 1.2)), mass=1.0, position=centre, rotation=about_y(0.15), friction=0.8)


def rocking_block_errors(solution: Any) -> Errors:
    """Energy up to the impact; then angular momentum about the other edge: 1 - 1.5 sin²α of the rate."""
    rate, t = np.asarray(solution.bodies["body"].angular_velocity)[:, 1], np.asarray(solution.t)
    impact, located = int(np.argmin(rate)), instants(solution, "closes")
    time, ends = t[impact], (rate[impact], rate[min(impact + 2, len(rate) - 1)])
    if len(located):
        time = located[0]
        ends = tuple(
            np.asarray(state[1])[0].reshape(-1)[1] for state in (solution.events.before, solution.events.after)
        )
    return {
        "time of the impact": float(time - 0.3649245728131797),
        "rate before": ends[0] + 0.9228437990352428,
        "rate after": ends[1] + 0.7844172291799564,
    }


def ladder() -> ph.Model:
    model, r = ph.Model(gravity=DOWN), 0.01
    model.ground.add_shape(ph.shapes.Plane(point=(0, 0, -r), name="floor"))
    model.ground.add_shape(ph.shapes.Plane(point=(-r, 0, 0), normal=(1, 0, 0), name="wall"))
    a = np.radians(70)
    rod = model.add_body(
        mass=1.0, inertia=(1e-9, 1 / 3, 1 / 3), position=(np.cos(a), 0, np.sin(a)), rotation=about_y(a), name="body"
    )
    rod.add_shape(ph.shapes.Sphere(r, position=(1, 0, 0), name="foot"))
    rod.add_shape(ph.shapes.Sphere(r, position=(-1, 0, 0), name="head"))
    model.contacts(friction=0.0)
    return model


def ladder_errors(solution: Any) -> Errors:
    """Energy, and no force of the wall where sin θ = 2/3 sin θ₀."""
    t, wall = np.asarray(solution.t), np.asarray(solution.contacts["wall", "head"].normal_force)
    located = instants(solution, "changes")
    leaves = located[0] if len(located) else t[np.flatnonzero(wall > 0)[-1]]
    return {
        "time when it leaves": float(leaves - 0.5975278060711656),
        "horizontal speed then": velocity(solution)[-1, 0] - 1.344952577225294,
    }


def pendulum() -> ph.Model:
    """A ball on a rod whose centre a wall stops, where the rod is 0.3 rad beyond the vertical."""
    model, r = ph.Model(gravity=DOWN), 0.05
    across = np.array([np.cos(0.3), 0, -np.sin(0.3)])
    model.ground.add_shape(ph.shapes.Plane(point=-r * across, normal=across, name="wall"))
    ball = model.add_body(
        mass=1.0,
        shape=ph.shapes.Sphere(r),
        position=(np.sin(1.0), 0, -np.cos(1.0)),
        rotation=about_y(-1.0),
        name="ball",
    )
    model.add(ph.joints.Spherical(model.ground, ball, point=(0, 0, 0), name="pivot"))
    model.contacts(friction=0.0, restitution=0.7)
    return model


def pendulum_errors(solution: Any) -> Errors:
    """Quadrature of the energy integral."""
    t, force = np.asarray(solution.t), np.asarray(solution.contacts["wall", "ball"].normal_force)
    impacts = t[np.flatnonzero(force > 0)]
    located = instants(solution, "closes")
    impacts = located if len(located) else impacts
    exact = [0.6366935069084052, 1.9547800689445107, 3.3555785760121775, 4.86068140543261]
    impacts = impacts[np.diff(impacts, prepend=-1.0) > 0.1]
    x = position(solution, "ball")
    return {
        "times of impacts": largest(impacts[: len(exact)] - exact),
        "length": largest(np.linalg.norm(x, axis=1) - 1.0),
    }


# --- a toy with a limit cycle -----------------------------------------------------------------------------------------


def woodpecker() -> tuple[Any, Any]:
    """Three coordinates: height of the sleeve, its angle, the angle of the bird. Constants of Glocker (1995)."""
    m_sleeve, m_bird, j_sleeve, j_bird = 3e-4, 4.5e-3, 5e-9, 7e-7
    l_m, l_g, l_s, r_0, r_m, h_m, h_s, c = 0.01, 0.015, 0.0201, 0.0025, 0.0031, 0.0058, 0.02, 0.0056
    mass = np.array([
        [m_bird + m_sleeve, m_bird * l_m, m_bird * l_g],
        [m_bird * l_m, j_sleeve + m_bird * l_m**2, m_bird * l_m * l_g],
        [m_bird * l_g, m_bird * l_m * l_g, j_bird + m_bird * l_g**2],
    ])  # fmt: skip
    slips = np.array([[1, l_m, l_g - l_s], [1, r_m, 0], [1, r_m, 0]])

    def force(t: Any, q: Any, v: Any) -> Any:
        spring = c * (q[1] - q[2])
        weight = jnp.array([(m_bird + m_sleeve) * G, m_bird * G * l_m, m_bird * G * l_g])
        return -weight - jnp.stack([0.0 * q[0], spring, -spring])

    def gap(t: Any, q: Any) -> Any:
        return jnp.stack([l_m + l_g - l_s - r_0 - h_s * q[2], r_m - r_0 + h_m * q[1], r_m - r_0 - h_m * q[1]])

    contacts = FunctionContacts(
        gap, lambda t, q, v: jnp.asarray(slips) @ v, number=3, friction=0.3, restitution=np.array([0.5, 0, 0])
    )
    state = np.array([0, -0.1036, -0.2788]), np.array([-0.3411, 0, -7.4583])
    return Mechanical(Rn(3), mass, force, contact_set=contacts), state


def woodpecker_errors(solution: Any) -> Errors:
    """Period and drop of a cycle by time stepping of another code, to 5e-4 s and 2e-4 m."""
    t, q = np.asarray(solution.t), np.asarray(solution.state[0])
    rises = np.flatnonzero((q[:-1, 2] < -0.1) & (q[1:, 2] >= -0.1))
    share = (-0.1 - q[rises, 2]) / (q[rises + 1, 2] - q[rises, 2])
    times = t[rises] + share * (t[rises + 1] - t[rises])
    periods, drops = np.diff(times)[-6:], -np.diff(np.interp(times, t, q[:, 0]))[-6:]
    return {
        "period": periods.mean() - 0.1461,
        "period, spread": float(np.ptp(periods)),
        "drop": drops.mean() - 0.01953,
    }


REFERENCES = {
    "incline-stop": Reference("block on an incline: slides, stops, sticks", incline, 3.0, incline_errors),
    "curved-puck": Reference("puck whose path turns", curved_puck, 1.0, curved_puck_errors),
    "billiard": Reference("billiard ball: slides, then rolls", billiard, 1.0, billiard_errors),
    "dry-oscillator": Reference("mass on a spring with dry friction", dry_oscillator, 3.0, dry_oscillator_errors),
    "belt": Reference("box put on a belt", belt, 1.0, belt_errors),
    "cube-thrown": Reference("cube thrown along the floor", cube, 1.5, cube_errors),
    "rolls-30": Reference("ball that rolls downhill", ball_downhill, 1.0, ball_downhill_errors),
    "stack-5": Reference("stack of 5 boxes", stack, 1.0, stack_errors),
    "stack-1e4": Reference("box of 10,000 kg on one of 1 kg", lambda: stack((1.0, 1e4)), 1.0, stack_errors),
    "tripod": Reference("three-legged table that is pushed", tripod, 1.0, tripod_errors),
    "three-cylinders": Reference(
        "three cylinders, friction 0.1 % above both thresholds", cylinders, 1.0, cylinders_errors
    ),
    "bouncing-ball": Reference("bouncing ball, e = 0.8", bouncing_ball, 4.5, bouncing_ball_errors),
    "cradle-touching-3": Reference(
        "cradle, balls that touch", lambda: cradle(0.0), 0.1, cradle_errors(-1 / 3, 2 / 3, 2 / 3)
    ),
    "cradle-apart-3": Reference("cradle, balls apart", lambda: cradle(0.02), 0.1, cradle_errors(0, 0, 1)),
    "oblique-slides": Reference("oblique impact of a ball that spins", oblique, 0.1, oblique_errors, h=0.001),
    "rocking-block": Reference("rocking block", rocking_block, 0.5, rocking_block_errors, h=0.001),
    "ladder-70": Reference("ladder that leaves the wall", ladder, 0.64, ladder_errors, h=0.005),
    "pendulum-wall": Reference("pendulum against a wall", pendulum, 5.0, pendulum_errors, joints=True, h=0.001),
    "woodpecker": Reference("woodpecker toy", woodpecker, 2.0, woodpecker_errors, h=2e-5),
}  # fmt: skip
