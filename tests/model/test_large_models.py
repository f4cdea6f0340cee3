"""What is done for large models side by side agrees with the plain way for each of its parts."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy

import polhode as ph
from polhode.joints._frames import axis, frame
from polhode.multibody import consistent_start, redundant_constraints
from polhode.multibody.mechanism.poses import Pose
from polhode.multibody.redundant_constraints import _solve_blocks
from polhode.multibody.stability_limits import _Columns, _largest, stability_limit
from polhode.results.observer import BatchedObserver, Observer


@pytest.mark.parametrize("sizes", [(6,) * 40, (1, 6, 3, 6, 2), (40, 6)])
def test_matrices_in_blocks_are_solved_as_a_whole(sizes):
    rng = np.random.default_rng(1)
    n = sum(sizes)
    order = rng.permutation(n)
    blocks = [(lambda a: a @ a.T + np.eye(len(a)))(rng.standard_normal((s, s))) for s in sizes]
    diagonal = scipy.sparse.block_diag([scipy.sparse.coo_array(block) for block in blocks], format="csc")
    M = scipy.sparse.csc_array(diagonal[order][:, order])
    rhs = scipy.sparse.random_array((n, 17), density=0.2, rng=rng, format="csc")
    np.testing.assert_allclose(_solve_blocks(M, rhs).toarray(), np.linalg.solve(M.toarray(), rhs.toarray()), atol=1e-12)


@pytest.mark.parametrize("convert", [np.asarray, scipy.sparse.csc_array])
def test_parts_of_matrices(convert):
    rng = np.random.default_rng(2)
    whole = np.where(rng.random((12, 12)) < 0.3, rng.standard_normal((12, 12)), 0.0)
    looked, columns = _Columns(convert(whole)), np.array([7, 2, 9])
    rows, values = looked.part(columns)
    np.testing.assert_array_equal(rows, np.flatnonzero((whole[:, columns] != 0).any(axis=1)))
    np.testing.assert_array_equal(values, whole[rows][:, columns])
    np.testing.assert_array_equal(looked.square(columns), whole[np.ix_(columns, columns)])
    np.testing.assert_array_equal(looked.entries, (whole != 0).sum(axis=1))


def test_largest_eigenvalues_of_several():
    rng = np.random.default_rng(3)
    Z, K, M = rng.standard_normal((5, 6, 4)), rng.standard_normal((5, 6, 6)), rng.standard_normal((5, 6, 6))
    K, M = K + K.swapaxes(1, 2), M @ M.swapaxes(1, 2) + np.eye(6)
    K[4] = -np.eye(6)
    wanted = [
        max(scipy.linalg.eigh(z.T @ k @ z, z.T @ m @ z, eigvals_only=True)[-1], 0)
        for z, k, m in zip(Z, K, M, strict=True)
    ]
    np.testing.assert_allclose(_largest(Z, K, M), wanted, rtol=1e-10)
    assert wanted[4] == 0


@pytest.mark.parametrize("direction", [(0.0, 0.0, 2.0), (1.0, -2.0, 0.5), (1e-200, 3e-200, 0.0)])
def test_frames_are_the_same_traced_and_not(direction):
    known = frame(axis("axis", direction))
    assert isinstance(known, np.ndarray)
    traced = jax.jit(lambda d: frame(axis("axis", d)))(jnp.array(direction))
    np.testing.assert_allclose(known, traced, atol=1e-15)
    np.testing.assert_allclose(known @ known.T, np.eye(3), atol=1e-15)
    np.testing.assert_allclose(np.linalg.det(known), 1.0, atol=1e-15)


def test_names_by_number_skip_those_that_are_taken():
    model = ph.Model()
    model.add_point(mass=1.0, position=(0, 0, 0), name="point-2")
    assert [model.add_point(mass=1.0, position=(k, 0, 0)).name for k in range(3)] == ["point-1", "point-3", "point-4"]
    with pytest.raises(ValueError, match="greater than zero"):
        model.add_point(mass=-1.0, position=(0, 0, 0))
    assert model.add_point(mass=1.0, position=(4, 0, 0)).name == "point-5"
    assert model.body("point-3") is model.bodies[2]


def test_bodies_of_other_models_are_refused_whatever_their_name():
    model, other = ph.Model(), ph.Model()
    for each in (model, other):
        each.add_point(mass=1.0, position=(0, 0, 0), name="same")
    with pytest.raises(ValueError, match="not a body of this model"):
        model.add(ph.joints.Distance(model.ground, other.body("same"), first_point=(0, 0, 1), second_point=(0, 0, 0)))


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("count", [1, 5])
def test_outputs_of_large_systems_are_those_of_each_state(count):
    problem = ph.problems.get("body-chain", n=420)
    rng = np.random.default_rng(4)
    t = np.linspace(0.0, 1.0, count)
    state = jax.tree.map(lambda x: np.stack([np.asarray(x)] * count), problem.state0)
    state = state[0], rng.standard_normal(state[1].shape)
    watch = BatchedObserver(Observer(problem.system, problem.outputs, problem.invariants), 4)
    seen = watch.frames(t, state, None)
    points = seen.outputs["hinges"]
    assert points.shape == (count, 421, 3)
    np.testing.assert_allclose(np.linalg.norm(np.diff(points, axis=1), axis=2), 0.5, rtol=1e-12)
    centres = 0.5 * (points[:, 1:, 2] + points[:, :-1, 2])
    moving = state[1].reshape(count, 420, 6)
    inertia = np.diagonal(np.asarray(problem.system.coordinates.bodies[0].inertia), axis1=1, axis2=2)
    # Angular velocities come first, in the axes of the rods, in which the inertia is diagonal; masses are 1.
    kinetic = 0.5 * (inertia * moving[:, :, :3] ** 2 + moving[:, :, 3:] ** 2).sum(axis=(1, 2))
    np.testing.assert_allclose(seen.invariants["energy"], kinetic + 9.81 * centres.sum(axis=1), rtol=1e-12)


def pair_of_bodies():
    model = ph.Model()
    place = {"position": (0.3, -0.2, 0.5), "rotation": ph.rotation_vector((0.2, 0.4, -0.1))}
    return model, [model.add_body(mass=1.0, inertia=(1.0, 1.2, 1.3), **place) for _ in range(2)]


def test_joints_become_what_they_were_checked_with():
    _, bodies = pair_of_bodies()
    joint = ph.joints.Revolute(*bodies, point=(0.1, 0.2, 0.3), axis=(1.0, 2.0, 2.0))
    anew = joint.place(tuple(Pose(body.x, body.R) for body in bodies))
    assert joint.initial_element() is joint.initial_element()
    jax.tree.map(np.testing.assert_array_equal, joint.initial_element(), anew)
    e = np.asarray(joint.initial_element().a) @ np.asarray(bodies[0].R).T
    np.testing.assert_allclose(e @ (np.array([1.0, 2.0, 2.0]) / 3), 0, atol=1e-15)


def test_driven_joints_are_placed_with_what_their_functions_capture_now():
    _, bodies = pair_of_bodies()
    gain = [1.0]
    joint = ph.joints.PrescribedRotation(*bodies, axis=(0, 0, 1), angle=lambda t: gain[0] * t)
    assert joint.initial_element() is not joint.initial_element()


@pytest.mark.parametrize("formulation", ["minimal", "SO3xR3"])
def test_what_has_no_constraints_is_not_asked_for_any(formulation, monkeypatch):
    def asked(*_):
        raise AssertionError("matrices of all bodies were made")

    monkeypatch.setattr(redundant_constraints, "metric", asked)
    monkeypatch.setattr(consistent_start, "_constraint_values", asked)
    model, _ = pair_of_bodies()
    system, (_, v) = model.assemble(formulation=formulation)
    assert (system.m, system.n) == (0, len(v)) == (0, 12)


def test_a_chain_in_joint_coordinates_starts_with_the_velocities_of_its_bodies():
    """Rates of two skew hinges, from the velocities of rigid bodies that they give."""
    axes, points = np.array([(0.0, 0, 1), (0, 1.0, 0)]), np.array([(0.0, 0, 0), (1.0, 0, 0)])
    rates = np.array([0.7, -1.3])
    omega1 = rates[0] * axes[0]
    omega2 = omega1 + rates[1] * axes[1]
    u1 = np.cross(omega1, [0.5, 0, 0])
    u2 = np.cross(omega1, points[1]) + np.cross(omega2, [0.5, 0, 0])
    model = ph.Model()
    before = model.ground
    for k, (u, omega) in enumerate(((u1, omega1), (u2, omega2))):
        given = {"position": (0.5 + k, 0, 0), "velocity": u, "angular_velocity": omega}
        body = model.add_body(mass=1.0, inertia=(1.0, 1.2, 1.3), **given)
        model.add(ph.joints.Revolute(before, body, point=points[k], axis=axes[k]))
        before = body
    _, (_, v) = model.assemble(formulation="minimal")
    np.testing.assert_allclose(v, rates, atol=1e-13)


@pytest.mark.parametrize("formulation", ["minimal", "SO3xR3"])
def test_loads_without_stiffness_bound_no_step(formulation):
    """A point force depends on the pose, and in joint coordinates elements have no blocks of their own."""
    model = ph.Model()
    arm = model.add_body(mass=1.0, inertia=(0.1, 0.1, 0.1), position=(0.5, 0, 0))
    model.add(ph.joints.Revolute(model.ground, arm, point=(0, 0, 0), axis=(0, 1, 0)))
    model.add(ph.forces.PointForce(arm, lambda t: jnp.array([1.0, 0, 0])))
    system, state = model.assemble(formulation)
    assert system.explicit_limit(0.0, state, 0.01) == ""


def test_stiff_elements_bound_steps_in_joint_coordinates_too():
    """An arm on a spring with a damper, then with a spring along its angle; a ball on a compliant floor."""
    frequency, rate, lever, inertia = 2000.0, 300.0, 0.8, 0.35
    model = ph.Model()
    arm = model.add_body(mass=1.0, inertia=(0.1, 0.1, 0.1), position=(0.5, 0, 0), name="arm")
    hinge = model.add(ph.joints.Revolute(model.ground, arm, point=(0, 0, 0), axis=(0, 1, 0)))
    stiffness, damping = (x * inertia / lever**2 for x in (frequency**2, rate))
    ends = (lever, 0, -1), (lever, 0, 0)
    model.add(ph.forces.SpringDamper(model.ground, arm, *ends, stiffness=stiffness, damping=damping))
    limit = stability_limit(*_in_joint_coordinates(model))
    np.testing.assert_allclose((limit.frequency, limit.rate), (frequency, rate), rtol=1e-9)
    assert limit.bodies == ("arm",)
    model.add(ph.forces.JointSpring(hinge, stiffness=3 * frequency**2 * inertia))
    limit = stability_limit(*_in_joint_coordinates(model))
    np.testing.assert_allclose(limit.frequency, 2 * frequency, rtol=1e-9)


def test_compliant_contacts_bound_steps_in_all_coordinates():
    """A foot over the floor, on a leg with a hinge: not touching yet."""
    model = ph.Model()
    model.ground.add_shape(ph.shapes.Plane())
    foot = model.add_body(
        shape=ph.shapes.Sphere(0.05), mass=1.0, inertia=(0.1,) * 3, position=(0.5, 0, 0.1), name="foot"
    )
    model.add(ph.joints.Revolute(model.ground, foot, point=(0, 0, 0.5), axis=(0, 1, 0)))
    model.contacts(law="compliant", stiffness=1e6, friction=0, exponent=1)
    limits = [stability_limit(system, 0.0, state) for system, state in map(model.assemble, ("minimal", "SO3xR3"))]
    # At a height of 0.4 below the hinge and a lever of 0.5 to the normal.
    expected = np.sqrt(1e6 * 0.5**2 / (0.1 + 0.5**2 + 0.4**2))
    np.testing.assert_allclose([limit.frequency for limit in limits], expected, rtol=1e-6)
    assert [limit.bodies for limit in limits] == [("foot",)] * 2


def _in_joint_coordinates(model):
    system, state = model.assemble("minimal")
    return system, 0.0, state
