"""Contacts of rods with bodies, with other rods and with themselves."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode import rods
from polhode.multibody.mechanism.groups import Motion
from polhode.multibody.mechanism.poses import Pose
from polhode.multibody.stability_limits import stability_limit
from polhode.rods.cells import neighbour_stretches
from polhode.spaces import quaternions

RADIUS, STIFFNESS = 0.01, 1e6
LIES = ph.rotation_vector((np.pi / 2, 0, 0))


def section(**options):
    return rods.circular(RADIUS, youngs_modulus=1e6, density=1000.0, **options)


def line(first, second, edges):
    return np.linspace(first, second, edges + 1)


def crossed_rods(place, depth, angle=np.pi / 2, height=0.0, **law):
    """Two straight rods, the second above the first at a place along it, pressed into each other."""
    model = ph.Model()
    along = np.array([np.cos(angle), np.sin(angle), 0.0])
    middle = np.array([place, 0.0, 2 * RADIUS - depth + height])
    below = model.add_rod(points=line((-0.5, 0, 0), (0.5, 0, 0), 5), section=section(), name="below")
    above = model.add_rod(
        points=line(middle - 0.31 * along, middle + 0.29 * along, 3), section=section(), name="above",
        velocity=(0.0, 0.0, -0.2),
    )  # fmt: skip
    law = {"law": "compliant", "stiffness": STIFFNESS, "exponent": 1.0, "friction": 0.0} | law
    model.add_contact(below, above, **law)
    return model, below, above


@pytest.fixture(scope="module")
def crossing():
    """Loads, forces of edges and energy of two rods as compiled functions of the motion of their nodes, and this."""
    model, _, _ = crossed_rods(0.0, 0.0)
    system, state = model.assemble()
    (pairs,) = system.mechanism.near_forces
    functions = jax.jit(lambda motion: (pairs.loads(motion), pairs.edge_forces(motion), pairs.potential(motion)))
    return functions, system.motion(*state)


def moved(motion, place, depth, angle):
    """The motion with the second rod elsewhere."""
    x, R = (np.array(each) for each in motion.poses)
    c, s = np.cos(angle - np.pi / 2), np.sin(angle - np.pi / 2)
    turn = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
    above = slice(6, -1)
    x[above] = x[above] @ turn.T + np.array([place, 0, -depth])
    R[above] = turn @ R[above]
    return Motion(Pose(jnp.asarray(x), jnp.asarray(R)), motion.twists)


@pytest.mark.exhaustive
def test_crossed_rods_push_with_the_integral_of_the_law_wherever_they_cross(crossing):
    functions, motion = crossing
    depth = 1e-4
    # ∫ k (2r - √(D² + x²)) dx over the length in contact, D the distance of the centre lines.
    D = 2 * RADIUS - depth
    x, w = np.polynomial.legendre.leggauss(20)
    half = np.sqrt(4 * RADIUS**2 - D**2)
    straight = STIFFNESS * half * w @ (2 * RADIUS - np.sqrt(D**2 + (half * x) ** 2))
    # The law of Hertz for E* = 2 k and a radius r, to the first order in the depth.
    assert straight == pytest.approx(8 / 3 * STIFFNESS * np.sqrt(RADIUS) * depth**1.5, rel=depth / RADIUS)
    # In the middle of an edge, a little beside a node, and at a node, where each edge alone has half of the contact.
    for place in (0.03, 0.1 - 1e-3, 0.1):
        _, forces, _ = functions(moved(motion, place, depth, np.pi / 2))
        below, above = np.sum(forces[:5], axis=0), np.sum(forces[5:], axis=0)
        # The normal turns along the contact, by the share of the depth in the distance.
        assert np.allclose(above, (0, 0, straight), rtol=0.7 * depth / RADIUS, atol=1e-9)
        assert np.allclose(below, -above, rtol=0, atol=1e-12)
        # At an angle the contact is longer.
        _, forces, _ = functions(moved(motion, place, depth, np.pi / 6))
        assert np.sum(forces[5:], axis=0)[2] == pytest.approx(2 * straight, rel=2 * depth / RADIUS)


@pytest.mark.exhaustive
def test_forces_are_those_of_the_energy_and_have_no_resultant(crossing):
    functions, motion = crossing
    motion = moved(motion, 0.1 - 1e-4, 2e-4, 1.0)
    rng = np.random.default_rng(0)
    spins, velocities = rng.normal(size=(2, len(motion.poses.x), 3)) * [[[1.0]], [[RADIUS]]]

    def there(s):
        turns = np.array([np.asarray(quaternions.to_matrix(quaternions.from_vector(s * w))) for w in spins])
        poses = Pose(motion.poses.x + s * velocities, jnp.einsum("nij,njk->nik", motion.poses.R, turns))
        return Motion(poses, motion.twists)

    here, step = there(1e-3), 1e-6
    slope = (functions(there(1e-3 + step))[2] - functions(there(1e-3 - step))[2]) / (2 * step)
    loads, _, _ = functions(here)
    power = np.sum(loads.torque * spins[:-1]) + np.sum(loads.force * velocities[:-1])
    assert abs(power) > 1e-4
    assert float(power) == pytest.approx(-float(slope), rel=2e-5)
    x, R = (each[:-1] for each in here.poses)
    moment = jnp.cross(x, loads.force) + jnp.einsum("nij,nj->ni", R, loads.torque)
    assert np.allclose(np.sum(loads.force, axis=0), 0, rtol=0, atol=1e-13)
    assert np.allclose(np.sum(moment, axis=0), 0, rtol=0, atol=1e-13)


@pytest.mark.exhaustive
def test_the_search_misses_no_pair():
    rng = np.random.default_rng(1)
    for scale in ((1, 1, 1), (8, 1, 0.01), (0, 0, 0)):
        x = rng.normal(size=(200, 3)) * scale
        order, first, last = (np.asarray(a) for a in neighbour_stretches(jnp.asarray(x), jnp.asarray(0.4)))
        met = [
            np.concatenate([order[a:b] for a, b in zip(*ends, strict=True)]) for ends in zip(first, last, strict=True)
        ]
        distances = np.linalg.norm(x[:, None] - x[None], axis=2)
        for here, others in enumerate(met):
            assert len(set(others)) == len(others)
            assert set(np.flatnonzero(distances[here] <= 0.4)) <= set(others)
        # The control: cells of half the size miss some.
        if scale == (1, 1, 1):
            order, first, last = (np.asarray(a) for a in neighbour_stretches(jnp.asarray(x), jnp.asarray(0.1)))
            few = [np.concatenate([order[a:b] for a, b in zip(*e, strict=True)]) for e in zip(first, last, strict=True)]
            assert any(set(np.flatnonzero(row <= 0.4)) - set(one) for row, one in zip(distances, few, strict=True))


@pytest.mark.exhaustive
def test_a_rod_touches_itself_but_not_its_neighbours():
    model = ph.Model()
    turn = np.linspace(0, np.pi, 9)
    bend = np.stack([0.4 + 0.03 * np.sin(turn), 0.03 * (1 - np.cos(turn)), 0 * turn], axis=1)
    back = line((0.35, 0.06, 0), (0.05, 0.0, 2 * RADIUS - 1e-4), 6)
    rod = model.add_rod(
        points=np.concatenate([line((0, 0, 0), (0.35, 0, 0), 7), bend, back]), section=section(), radius=RADIUS,
        reference="as-placed",
    )  # fmt: skip
    model.contacts(law="compliant", stiffness=STIFFNESS, exponent=1.0, friction=0.0)
    system, state = model.assemble()
    force, forces = rods.contact_forces(system, rod, rod)(0.0, state)
    assert np.allclose(force, 0, rtol=0, atol=1e-12)
    pressed = np.flatnonzero(np.abs(np.asarray(forces)[:, 2]) > 0)
    assert {0, 1} & {*pressed}
    assert pressed[-1] >= len(rod.edges) - 2
    assert not np.any(np.asarray(forces)[4:-6])


@pytest.mark.exhaustive
def test_the_floor_carries_all_of_a_rod():
    model = ph.Model(gravity=(0, 0, -9.81))
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    rod = model.add_rod(points=line((0, 0, RADIUS - 1e-5), (0.4, 0, RADIUS - 1e-5), 4), section=section(), name="rope")
    model.add_contact(model.ground, rod, law="compliant", stiffness=STIFFNESS, exponent=1.0, friction=0.0)
    system, state = model.assemble()
    still = rods.contact_forces(system, rod, model.ground)
    # Pressed as deep all along: the floor carries the length of the rod and of its round ends.
    assert np.allclose(still(0.0, state).force, (0, 0, STIFFNESS * 1e-5 * (0.4 + 2 * RADIUS)), rtol=1e-9, atol=1e-12)


def test_errors_name_the_remedy():
    model, below, above = crossed_rods(0.0, 0.0)
    with pytest.raises(ValueError, match="law='compliant'"):
        model.add_contact(below, above)
    with pytest.raises(ValueError, match="one number"):
        model.add_contact(below, above, law="compliant", stiffness=1.0, friction=(0.1, 0.2), slip_speed=0.1)
    with pytest.raises(ValueError, match="surface_velocity"):
        model.add_contact(below, above, law="compliant", stiffness=1.0, friction=0.0, surface_velocity=(1, 0, 0))
    with pytest.raises(ValueError, match="equilibria and modes"):
        ph.equilibrium(model.problem(t1=1.0))
    with pytest.raises(ValueError, match="jacfwd"):
        jax.grad(lambda h: jnp.sum(ph.simulate(model.problem(t1=1e-3, h=1e-4), "rkmk4").t) * h)(1.0)
    with pytest.raises(ValueError, match="'livens'"):
        model.assemble("livens")
    system, _ = model.assemble()
    with pytest.raises(ValueError, match=r"add_contact\(rod, other"):
        rods.contact_forces(system, below, model.ground)
    other = ph.Model()
    bare = rods.Section(stiffness=np.ones(6), mass=1.0, inertia=np.ones(3))
    thin = other.add_rod(points=line((0, 0, 0), (1, 0, 0), 2), section=bare)
    other.ground.add_shape(ph.shapes.Plane())
    with pytest.raises(ValueError, match="give `radius="):
        other.add_contact(thin, other.ground, law="compliant", stiffness=1.0, friction=0.0)
    with pytest.raises(ValueError, match="not a rod of this model"):
        other.add_contact(below, other.ground, law="compliant", stiffness=1.0, friction=0.0)
    other.add_rod(points=line((0, 0, 0), (1, 0, 0), 2), section=bare, radius=0.1)
    other.contacts()
    with pytest.raises(ValueError, match="give no `radius`"):
        other.assemble()


# The bound for explicit steps is that of contact all along the rods, of which little is touched here.
@pytest.mark.filterwarnings("ignore::polhode.StepSizeWarning")
@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["rkmk4", "generalized-alpha"])
def test_rods_that_collide_keep_momenta_and_energy(method):
    """Without damping energy is kept to the order of the method; with damping, the control, it is lost."""
    model, _, _ = crossed_rods(0.03, -1e-4)
    how = ph.integrators.get("generalized-alpha", rho_inf=1.0) if method == "generalized-alpha" else method
    run = ph.simulate(model.problem(t1=0.02, h=2e-5), how)
    mass = np.array([body.mass for body in model.bodies])
    momentum = np.einsum("b,bni->ni", mass, [run.bodies[body.name].velocity for body in model.bodies])
    assert np.allclose(momentum, momentum[0], rtol=0, atol=1e-14)
    energy, angular = (np.asarray(run.invariants[name]) for name in ("energy", "angular_momentum"))
    system, _ = model.assemble()
    (pairs,) = system.mechanism.near_forces
    potential = jax.jit(lambda state: pairs.potential(system.motion(*state)))
    stored = np.array([potential(jax.tree.map(lambda a, k=k: a[k], run.state)) for k in range(0, len(run.t), 20)])
    assert stored.max() > 0.01 * energy[0]
    assert np.max(np.abs(energy - energy[0])) < 1e-5 * energy[0]
    assert np.allclose(angular, angular[0], rtol=0, atol=1e-12)
    damped, _, _ = crossed_rods(0.03, -1e-4, damping=2.0)
    lost = ph.simulate(damped.problem(t1=0.02, h=2e-5), how)
    last = np.sum([lost.outputs[name][-1] for name in ("kinetic_energy", "potential_energy")])
    assert last < (1 - 1e-3) * energy[0]
    assert lost.audit().accurate


def tension_ratio(friction, count):
    """Of a rod over half of a drum that turns below it, held at one end and pulled at the other; and the pull."""
    drum_radius, radius, tail = 0.1, 1e-5, 0.02
    angles = np.linspace(np.pi, 0, count + 1)
    arc = (drum_radius + radius) * np.stack([np.cos(angles), 0 * angles, np.sin(angles)], axis=1)
    down = np.array([0, 0, -tail])
    points = np.concatenate([line(arc[0] + down, arc[0], 2)[:-1], arc, line(arc[-1], arc[-1] + down, 2)[1:]])
    thin = rods.Section(
        stiffness=(1e-8, 1e-8, 1e-8, 10.0, 10.0, 2e3), mass=0.01, inertia=(1e-8, 1e-8, 2e-8),
        damping=(1e-7, 1e-7, 1e-7, 0.05, 0.05, 1.0), radius=radius,
    )  # fmt: skip
    model = ph.Model()
    # So heavy that it goes on to turn.
    drum = model.add_body(
        mass=1e9, inertia=(1e9, 1e9, 1e9), angular_velocity=(0, 1, 0),
        shape=ph.shapes.Cylinder(drum_radius, 0.1, rotation=LIES), name="drum",
    )  # fmt: skip
    rope = model.add_rod(points=points, section=thin, clamped="first", name="rope", reference="as-placed")
    model.add(ph.forces.PointForce(rope.last, (0, 0, -1.0)))
    model.add_contact(
        drum, rope, law="compliant", stiffness=1e6, exponent=1.0, friction=friction, slip_speed=1e-4, damping=5.0
    )
    run = ph.simulate(model.problem(t1=0.2, h=5e-4), ph.integrators.get("generalized-alpha", rho_inf=0.5))
    system, _ = model.assemble()
    last = jax.tree.map(lambda a: a[-1], run.state)
    tension = np.asarray(rope.section_forces(system)(0.0, last, jnp.zeros(0)))[:, 5]
    return tension[0] / tension[-1], tension[-1]


@pytest.mark.exhaustive
def test_a_rod_on_a_drum_that_turns_has_the_ratio_of_euler_and_eytelwein():
    exact = np.exp(0.3 * np.pi)
    (coarse, _), (fine, pull) = (tension_ratio(0.3, count) for count in (24, 48))
    assert pull == pytest.approx(1.0, rel=1e-4)
    assert coarse == pytest.approx(exact, rel=1e-3)
    assert fine == pytest.approx(exact, rel=1e-4)


def test_limits_of_explicit_steps_know_contacts_between_rods():
    limits = []
    for stiffness in (1e8, 1e10):
        model, _, _ = crossed_rods(0.0, 0.0, stiffness=stiffness)
        limits.append(stability_limit(*_start(model)))
    assert limits[1].frequency == pytest.approx(10 * limits[0].frequency, rel=1e-6)
    # At least that of two parallel edges that press each other along their lengths.
    assert limits[0].frequency >= np.sqrt(2 * 1e8 / (1000 * np.pi * RADIUS**2))


def _start(model):
    system, state = model.assemble()
    return system, 0.0, state


@pytest.mark.exhaustive
def test_a_clamped_rod_lies_down_on_a_floor():
    count, radius, height, youngs_modulus, density, gravity = 20, 0.005, 0.02, 1e8, 1000.0, 9.81
    model = ph.Model(gravity=(0, 0, -gravity))
    model.ground.add_shape(ph.shapes.Plane(position=(0, 0, -radius - height)))
    section = rods.circular(radius, youngs_modulus=youngs_modulus, density=density)
    rope = model.add_rod(points=line((0, 0, 0), (1, 0, 0), count), section=section, clamped="first", name="rope")
    model.add_contact(rope, model.ground, law="compliant", stiffness=1e6, exponent=1, friction=0.0)
    rest = ph.equilibrium(model.problem(t1=1.0), max_iterations=100)
    floor = rods.contact_forces(model.assemble()[0], rope, model.ground)(0.0, rest.state).force
    weight = density * np.pi * radius**2 * gravity
    # A beam with both slopes zero at the ends of its free span, and no moment where it touches down.
    span = (72 * youngs_modulus * np.pi * radius**4 / 4 * height / weight) ** 0.25
    assert floor[2] == pytest.approx(weight * (1 - 2 / 3 * span), rel=2e-3)
    assert np.max(np.abs(rest.residual)) < 1e-9


def test_equilibria_refuse_friction_of_rods():
    model = ph.Model(gravity=(0, 0, -9.81))
    model.ground.add_shape(ph.shapes.Plane())
    section = rods.circular(0.01, youngs_modulus=1e7, density=1000)
    rope = model.add_rod(points=line((0, 0, 0.01), (1, 0, 0.01), 2), section=section, name="rope")
    model.add_contact(rope, model.ground, law="compliant", stiffness=1e6, friction=0.3, slip_speed=1e-3)
    with pytest.raises(ValueError, match="friction=0"):
        ph.equilibrium(model.problem(t1=1.0))
