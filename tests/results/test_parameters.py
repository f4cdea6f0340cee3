"""Parameters of models reach problems, derivatives and batches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph


def arm(length, mass, stiffness):
    model = ph.Model(gravity=(0, 0, -9.81))
    inertia = mass * length**2 / 12
    rod = model.add_body(mass=mass, inertia=(0.01, inertia, inertia), position=(length / 2, 0, 0), name="rod")
    bob = model.add_point(mass=0.5, position=(length, 0, -0.4), name="bob")
    hinge = model.add(ph.joints.Revolute(model.ground, rod, point=(0, 0, 0), axis=(0, 1, 0), name="hinge"))
    string = {"first_point": (length, 0, 0), "second_point": bob.x}
    model.add(ph.joints.Distance(rod, bob, **string, name="string"))
    model.add(ph.forces.JointSpring(hinge, stiffness=stiffness, rest=np.sin(0.1 * length)))
    return model


@pytest.fixture(scope="module")
def model():
    return arm(ph.Parameter("length", 1.0), ph.Parameter("mass", 2.0), ph.Parameter("stiffness", 30.0))


@pytest.fixture(scope="module")
def problem(model):
    return model.problem("SE3", t1=0.04, h=4e-3)


def test_replacing_is_building_anew(model, problem):
    changed = problem.replace(length=1.3).replace(mass=3.0)
    assert changed.parameters == {"formulation": "SE3", "length": 1.3, "mass": 3.0, "stiffness": 30.0}
    by_hand = arm(1.3, 3.0, 30.0).problem("SE3", t1=0.04, h=4e-3)
    by_model = model.replace(length=1.3, mass=3.0).problem("SE3", t1=0.04, h=4e-3)
    for other in (changed, by_model):
        for a, b in zip(jax.tree.leaves(other.system), jax.tree.leaves(by_hand.system), strict=True):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
        for a, b in zip(jax.tree.leaves(other.state0), jax.tree.leaves(by_hand.state0), strict=True):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    assert model.parameters == {"length": 1.0, "mass": 2.0, "stiffness": 30.0}


@pytest.mark.exhaustive
def test_gradients_are_those_of_differences(problem):
    def angle(length, stiffness):
        changed = problem.replace(length=length, stiffness=stiffness)
        return ph.simulate(changed, save_every=None).joints["hinge"].angle[-1]

    gradient = jax.grad(angle, argnums=(0, 1))(1.0, 30.0)
    by_length = (angle(1.0 + 1e-5, 30.0) - angle(1.0 - 1e-5, 30.0)) / 2e-5
    by_stiffness = (angle(1.0, 30.0 + 1e-3) - angle(1.0, 30.0 - 1e-3)) / 2e-3
    np.testing.assert_allclose(gradient, (by_length, by_stiffness), rtol=1e-6)


@pytest.mark.exhaustive
def test_batches_are_runs_one_by_one(problem):
    def force(mass):
        run = ph.simulate(problem.replace(mass=mass), save_every=None)
        return run.joints["hinge"].angle

    masses = jnp.array([1.5, 2.0, 2.5])
    batch = jax.jit(jax.vmap(force))(masses)
    for mass, row in zip(masses, batch, strict=True):
        np.testing.assert_allclose(row, force(float(mass)), rtol=0, atol=1e-12)


def test_names_and_values_of_parameters_are_checked(model, problem):
    with pytest.raises(ValueError, match=r"no parameter 'lenght'\. Did you mean `length`"):
        model.replace(lenght=2.0)
    with pytest.raises(ValueError, match="Did you mean `length`"):
        problem.replace(lenght=2.0)
    with pytest.raises(ValueError, match="a word that Python takes"):
        ph.Parameter("my mass", 2.0)
    with pytest.raises(ValueError, match="must be finite"):
        ph.Parameter("mass", np.nan)
    two = ph.Model()
    two.add_point(mass=ph.Parameter("mass", 1.0), position=(0, 0, 0))
    two.add_point(mass=ph.Parameter("mass", 2.0), position=(1, 0, 0))
    with pytest.raises(ValueError, match="Two parameters are called 'mass'"):
        _ = two.parameters


def test_a_parameter_in_a_function_of_time_is_refused_not_ignored():
    model = ph.Model()
    point = model.add_point(mass=1.0, position=(0, 0, 0))
    force = ph.Parameter("force", 2.0)
    with pytest.raises(ValueError, match="would not see it change"):
        model.add(ph.forces.PointForce(point, lambda t: jnp.array([1.0, 0.0, 0.0]) * jnp.cos(t) * force))


@pytest.mark.parametrize("computed", [jnp.cos, jnp.asarray, lambda p: jnp.array([p, 0, 0]), jnp.sqrt])
def test_functions_of_jax_refuse_parameters_and_say_what_takes_them(computed):
    """They would freeze the number: a body placed by `jnp.array([length, 0, 0])` stayed where it was."""
    with pytest.raises(ValueError, match=r"`np.cos\(p\)`.* tuples for vectors"):
        computed(ph.Parameter("length", 2.0))


def test_numpy_takes_parameters():
    p = ph.Parameter("p", 4.0)
    for expression, value in ((np.cos(p), np.cos(9.0)), (p**0.5, 3.0), (2**p, 512.0), (abs(-p), 9.0)):
        assert expression.value({"p": 9.0}) == pytest.approx(value)


@pytest.mark.parametrize(
    "compute",
    [
        lambda p: ph.rotation_vector((0, 0, p)),
        lambda p: ph.rods.circular(p, youngs_modulus=1e7, density=1e3),
        lambda p: ph.rods.Section(stiffness=p * np.ones(6), mass=1.0, inertia=(1.0, 1.0, 2.0)),
    ],
)
def test_what_is_computed_at_once_refuses_parameters(compute):
    """Their defaults would stay in the model; numbers that JAX traces are taken."""
    with pytest.raises(ValueError, match="would not see a Parameter change"):
        compute(ph.Parameter("p", 0.1))
    jax.eval_shape(lambda p: (compute(p), p)[1], 0.1)
