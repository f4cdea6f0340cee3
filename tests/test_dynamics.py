"""`problem.dynamics` against closed forms, against Pinocchio, and in both kinds of coordinates."""

import importlib.metadata

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph

G, MASSES, CENTRES, LENGTH, INERTIAS = 9.81, (1.2, 0.7), (0.3, 0.4), 0.8, (0.05, 0.08)


def double_pendulum(angles=(0.0, 0.0)):
    """Two rods on hinges about y, at these relative angles from hanging down."""
    model = ph.Model(gravity=(0, 0, -G))
    below, pivot, turn = model.ground, np.zeros(3), 0.0
    for k, name in enumerate(("upper", "lower")):
        turn += angles[k]
        R = np.array([[np.cos(turn), 0, np.sin(turn)], [0, 1, 0], [-np.sin(turn), 0, np.cos(turn)]])
        place = {"position": pivot - CENTRES[k] * R[:, 2], "rotation": R, "name": name}
        rod = model.add_body(mass=MASSES[k], inertia=(0.9 * INERTIAS[k], INERTIAS[k], 0.9 * INERTIAS[k]), **place)
        hinge = model.add(ph.joints.Revolute(below, rod, point=pivot, axis=(0, 1, 0), name=f"hinge {name}"))
        below, pivot = rod, pivot - LENGTH * R[:, 2]
    model.add(ph.forces.JointSpring(hinge, stiffness=3.0, damping=0.2))
    return model


def closed_form(angles, rates):
    """M, and bias without the spring."""
    (m1, m2), (c1, c2), (i1, i2) = MASSES, CENTRES, INERTIAS
    across, outer = m2 * LENGTH * c2 * np.cos(angles[1]), i2 + m2 * c2**2
    corner = outer + across
    M = np.array([[i1 + m1 * c1**2 + m2 * LENGTH**2 + outer + 2 * across, corner], [corner, outer]])
    h = -m2 * LENGTH * c2 * np.sin(angles[1])
    gyroscopic = h * np.array([2 * rates[0] * rates[1] + rates[1] ** 2, -(rates[0] ** 2)])
    lower = m2 * c2 * G * np.sin(angles.sum())
    return M, gyroscopic + np.array([(m1 * c1 + m2 * LENGTH) * G * np.sin(angles[0]) + lower, lower])


ANGLES, RATES = np.array([0.7, -1.9]), np.array([1.3, -2.1])


def test_double_pendulum_has_its_closed_forms():
    dynamics = double_pendulum().problem("minimal", t1=1.0, h=0.01).dynamics
    state = (tuple(jnp.array([a]) for a in ANGLES), jnp.asarray(RATES))
    M, bias = closed_form(ANGLES, RATES)
    spring = np.array([0.0, 3.0 * ANGLES[1] + 0.2 * RATES[1]])
    torque = np.array([0.4, -0.9])
    same = {"rtol": 1e-13, "atol": 1e-13}
    np.testing.assert_allclose(dynamics.mass(state), M, **same)
    np.testing.assert_allclose(dynamics.bias(state), bias + spring, **same)
    np.testing.assert_allclose(dynamics.without_loads().bias(state), bias, **same)
    acceleration = np.linalg.solve(M, torque - bias - spring)
    np.testing.assert_allclose(dynamics.forward(state, torque), acceleration, **same)
    np.testing.assert_allclose(dynamics.inverse(state, acceleration), torque, **same)
    assert isinstance(dynamics.forward(state), np.ndarray)
    assert dynamics.multipliers(state).shape == (0,)
    # The end of the lower rod, from its angles.
    first, second = ANGLES[0], ANGLES.sum()
    outer = LENGTH * np.array([-np.cos(second), 0, np.sin(second)])
    inner = LENGTH * np.array([-np.cos(first), 0, np.sin(first)])
    end = dynamics.jacobian(state, "lower", (0, 0, CENTRES[1] - LENGTH))
    np.testing.assert_allclose(end.linear, np.stack([inner + outer, outer], axis=1), **same)
    np.testing.assert_allclose(end.angular, [[0, 0], [1, 1], [0, 0]], **same)


@pytest.mark.exhaustive
def test_functions_are_traced_in_batches_and_derivatives():
    dynamics = double_pendulum().problem("minimal", t1=1.0, h=0.01).dynamics

    def acceleration(angles, torque):
        return dynamics.forward(((angles[:1], angles[1:]), jnp.asarray(RATES)), torque)

    def exact(angles, torque):
        M, bias = closed_form(angles, RATES)
        return np.linalg.solve(M, torque - bias - np.array([0.0, 3.0 * angles[1] + 0.2 * RATES[1]]))

    torque, step = np.array([0.4, -0.9]), 1e-5
    several = ANGLES + np.array([[0.0, 0.0], [0.3, 0.1]])
    batch = jax.jit(jax.vmap(lambda a: acceleration(a, torque)))(several)
    np.testing.assert_allclose(batch, [exact(a, torque) for a in several], rtol=1e-12)
    by_torque = jax.jacrev(acceleration, 1)(jnp.asarray(ANGLES), jnp.asarray(torque))
    np.testing.assert_allclose(by_torque, np.linalg.inv(closed_form(ANGLES, RATES)[0]), rtol=1e-12)
    for transform in (jax.jacrev, jax.jacfwd):
        by_angles = transform(acceleration)(jnp.asarray(ANGLES), jnp.asarray(torque))
        columns = [(exact(ANGLES + e, torque) - exact(ANGLES - e, torque)) / (2 * step) for e in step * np.eye(2)]
        np.testing.assert_allclose(by_angles, np.stack(columns, axis=1), rtol=1e-8, atol=1e-7)


@pytest.mark.exhaustive
def test_absolute_coordinates_say_the_same():
    model = double_pendulum(ANGLES)
    tree, absolute = (model.problem(form, t1=1.0, h=0.01) for form in ("minimal", "SO3xR3"))

    def jacobian(problem, state):
        return np.concatenate([np.concatenate(problem.dynamics.jacobian(state, name)) for name in ("upper", "lower")])

    def across(problem, state, state_of_tree):
        """From velocities of the tree to those of the other coordinates."""
        return np.linalg.solve(jacobian(problem, state), jacobian(tree, state_of_tree))

    at_rest = tree.state0[0], jnp.asarray(RATES)
    T = across(absolute, absolute.state0, at_rest)
    state = absolute.state0[0], jnp.asarray(T @ RATES)
    np.testing.assert_allclose(T.T @ absolute.dynamics.mass(state) @ T, tree.dynamics.mass(at_rest), rtol=1e-12)
    B = absolute.dynamics.constraint_jacobian(state)
    np.testing.assert_allclose(B @ T, 0, atol=1e-13)
    a, multipliers = absolute.dynamics.forward(state), absolute.dynamics.multipliers(state)
    np.testing.assert_allclose(absolute.dynamics.inverse(state, a) + B.T @ multipliers, 0, atol=1e-11)
    # Turning about one axis, angular accelerations are those of the joints.
    ways = [absolute.dynamics.jacobian(state, name).angular @ a for name in ("upper", "lower")]
    np.testing.assert_allclose(np.array(ways)[:, 1], np.cumsum(tree.dynamics.forward(at_rest)), rtol=1e-11)


def test_wrong_arguments_are_named():
    problem = double_pendulum().problem("minimal", t1=1.0, h=0.01)
    with pytest.raises(ValueError, match="no body `middle`; it has upper, lower"):
        problem.dynamics.jacobian(problem.state0, "middle")
    with pytest.raises(ValueError, match=r"`body` must be .*, got 0"):
        problem.dynamics.jacobian(problem.state0, 0)
    with pytest.raises(ValueError, match="`effort` must"):
        problem.dynamics.forward(problem.state0, [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="coordinates \\(q, v\\)"):
        _ = ph.problems.get("heavy-top").dynamics


def file_of(name):
    """A file of the package of robots, which has no module of that name to import."""
    try:
        files = importlib.metadata.files("example-robot-data") or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("example-robot-data is not installed")
    (file,) = [file for file in files if str(file).endswith(name)]
    return str(file.locate())


def joint_values(system, q, joints):
    """Coordinates of joints in this order, each of one freedom."""
    values = {joint: value for (joint, _), value in system.coordinates.joint_coordinates(q).items() if joint in joints}
    return jnp.stack([values[joint] for joint in joints])


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "floating"),
    [("panda_description/urdf/panda.urdf", False), ("anymal_c_simple_description/urdf/anymal.urdf", True)],
)
def test_robots_agree_with_pinocchio(name, floating):
    pinocchio = pytest.importorskip("pinocchio")
    path = file_of(name)
    base = [pinocchio.JointModelFreeFlyer()] if floating else []
    robot = pinocchio.buildModelFromUrdf(path, *base)
    data = robot.createData()
    problem = ph.load_model(path, **({"floating": True} if floating else {})).problem("minimal")
    system, dynamics = problem.system, problem.dynamics.without_loads()
    rng = np.random.default_rng(3)
    v = jnp.asarray(rng.normal(size=system.n))
    q = system.configuration.move(problem.state0[0], jnp.asarray(rng.normal(size=system.n)))
    root, joints = system.names[0], list(robot.names)[1 + floating :]
    x0, R0 = system.pose(problem.state0[0], root)
    origin = -R0.T @ x0

    def whole(s):
        """Positions and velocities of Pinocchio at q moved along s v, and the matrix to its velocities from v."""
        there = system.flow(q, v, s)
        along = lambda u: joint_values(system, system.flow(there, u, 1.0), joints)  # noqa: E731
        angles, T = joint_values(system, there, joints), jax.jacfwd(along)(jnp.zeros(system.n))
        if not floating:
            return angles, None, T
        x, R = system.pose(there, root)
        J = dynamics.jacobian((there, v), root, origin)
        turned = R @ R0.T
        T = jnp.concatenate((turned.T @ J.linear, turned.T @ J.angular, T))
        return angles, (x + R @ origin, turned), T

    angles, frame, T = jax.jit(whole)(0.0)
    drift = jax.jit(lambda s: jax.jvp(lambda s: whole(s)[2] @ v, (s,), (1.0,))[1])(0.0)
    place = np.asarray(angles)
    if floating:
        turn = pinocchio.Quaternion(np.asarray(frame[1]))
        place = np.concatenate([frame[0], turn.coeffs(), place])
    state, rates = (q, v), np.asarray(T @ v)
    upper = np.triu(pinocchio.crba(robot, data, place))
    M = upper + np.triu(upper, 1).T
    T = np.asarray(T)
    scale = np.abs(M).max()
    np.testing.assert_allclose(dynamics.mass(state), T.T @ M @ T, rtol=1e-12, atol=1e-12 * scale)
    bias = pinocchio.nonLinearEffects(robot, data, place, rates)
    expected = T.T @ (bias + M @ np.asarray(drift))
    size = np.abs(expected).max()
    np.testing.assert_allclose(dynamics.bias(state), expected, rtol=1e-12, atol=1e-12 * size)
    a = rng.normal(size=system.n)
    torque = T.T @ pinocchio.rnea(robot, data, place, rates, T @ a + np.asarray(drift))
    np.testing.assert_allclose(dynamics.inverse(state, a), torque, rtol=1e-12, atol=1e-12 * np.abs(torque).max())
    np.testing.assert_allclose(dynamics.forward(state, torque), a, rtol=1e-9, atol=1e-10)
