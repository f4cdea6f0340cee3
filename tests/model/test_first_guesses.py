"""Names that many try first are answered with the right call."""

import numpy as np
import pytest

import polhode as ph


def swing():
    model = ph.Model(gravity=(0, 0, -9.81))
    bob = model.add_body(mass=1.0, inertia=(0.01, 0.02, 0.03), position=(1, 0, 0))
    hinge = model.add(ph.joints.Revolute(model.ground, bob, point=(0, 0, 0), axis=(0, 1, 0)))
    return model, hinge


@pytest.mark.parametrize(
    ("look", "said"),
    [
        (lambda: ph.joints.Gear, r"joints.Combination\(\[first, second\]"),
        (lambda: ph.joints.Revolut, "Did you mean `Revolute`"),
        (lambda: ph.forces.Spring, "`JointSpring`"),
        (lambda: ph.Motor, "polhode.forces"),
        (lambda: swing()[0].draw, r"`model.show\(\)`.*simulate\(model.problem\(t1=…\)\)`, then `run.show\(\)`"),
        (lambda: swing()[0].add_bodies, "Did you mean `add_body`"),
        (lambda: swing()[0].problem(t1=0.1).render, r"`problem.show\(\)`.*`run.show\(\)`"),
        (lambda: ph.simulate(swing()[0].problem(t1=0.01)).view, r"`run.show\(\)`.*`run.plot"),
    ],
)
def test_attributes(look, said):
    with pytest.raises(AttributeError, match=said):
        look()


def test_arguments_of_bodies():
    with pytest.raises(TypeError, match=r"no argument 'colour'. Shapes have colours .* blocks"):
        ph.Model().add_body(mass=1.0, inertia=(1, 1, 1), colour="red")
    with pytest.raises(ValueError, match="`shape` takes one or several of"):
        ph.Model().add_body(mass=1.0, inertia=(1, 1, 1), shape="box")
    with pytest.raises(TypeError, match="Did you mean `velocity`"):
        ph.Model().add_body(mass=1.0, inertia=(1, 1, 1), velocities=(0, 0, 0))


def test_combinations_and_systems_are_no_parts():
    model, hinge = swing()
    with pytest.raises(ValueError, match=r"forces.JointSpring\(combination, stiffness=…\).*couples two joints"):
        model.add(ph.joints.Combination([hinge], [1.0]))
    with pytest.raises(ValueError, match="`add_particles`"):
        model.add(ph.particles.Particles(1.0, 0.1, 0.1, [(0, 0, 0)]))


def test_laws_of_springs_are_linear():
    _, hinge = swing()
    with pytest.raises(ValueError, match=r"the law is linear.*`JointControl`"):
        ph.forces.JointSpring(hinge, stiffness=lambda s: s**3)


@pytest.mark.exhaustive
def test_rods_with_too_few_edges_say_so_where_a_run_fails():
    """A ring of five edges turns by 2π/5 at each."""
    model = ph.Model()
    angles = 2 * np.pi * np.arange(6) / 5
    section = ph.rods.circular(radius=0.01, youngs_modulus=1e7, density=1000.0)
    model.add_rod(
        points=np.stack([np.cos(angles), np.sin(angles), 0.01 * angles], axis=1), section=section, name="whip"
    )
    system, state = model.assemble("SE3")
    assert "turns by 1.26 rad, and 4 more edges by over 1 rad: use more edges" in system.diagnose(0.0, state)
    assert "from `whip-" in system.diagnose(0.0, state)
