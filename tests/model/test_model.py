"""Models: what they refuse, how they are assembled, and what they say about themselves."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from compiling import evaluated

import polhode as ph
from polhode.linalg.blocks import to_dense
from polhode.multibody.mechanism.poses import Pose
from polhode.systems.mechanical import AbstractMechanical

LIE_GROUPS = ("SO3xR3", "SE3", "S3xR3", "S3|xR3", "rotation-vector")
TOP = {"mass": 15.0, "inertia": (0.234375, 0.46875, 0.234375), "position": (0, 1, 0)}
SPIN = {"velocity": (4.61538, 0, 0), "angular_velocity": (0, 150, -4.61538)}
ZERO = jnp.zeros(())


def top(**changes):
    model = ph.Model(gravity=(0, 0, -9.81))
    body = model.add_body(**{**TOP, **SPIN, **changes})
    model.add(ph.joints.Spherical(model.ground, body, point=(0, 0, 0), name="tip"))
    return model


@pytest.mark.sampled(5)
@pytest.mark.parametrize("formulation", LIE_GROUPS)
def test_the_heavy_top_starts_with_the_published_multipliers(formulation):
    system, (q, v) = top().assemble(formulation)
    (vdot, multipliers), energy = evaluated(lambda v: (system.accelerations(ZERO, q, v), system.energy(ZERO, q, v)), v)
    np.testing.assert_allclose(multipliers, [0, 319.52598817, 317.26246154], atol=1e-8)
    np.testing.assert_allclose(vdot[0], 661.34616923, atol=1e-8)
    np.testing.assert_allclose(energy, 5435.696790865547, rtol=1e-14)


def mixed_model():
    """Two bodies in different coordinates, a mass point and a single coordinate."""
    model = ph.Model(gravity=(0.3, 0, -9.81))
    first = model.add_body(mass=2.0, inertia=(0.3, 0.4, 0.5), position=(1, 0, 0), name="first")
    second = model.add_body(
        mass=1.0,
        inertia=((0.2, 0.01, 0), (0.01, 0.3, 0.02), (0, 0.02, 0.25)),
        position=(2, 0.5, 0),
        rotation=ph.rotation_vector((0.3, -0.2, 0.9)),
        formulation="S3xR3",
        name="second",
    )
    point = model.add_point(mass=0.5, position=(3, 0, 1), name="point")
    model.add_coordinate(mass=4.0, value=0.7, velocity=-1.0, name="valve")
    model.add(ph.joints.Spherical(model.ground, first, point=(0, 0, 0), name="hip"))
    model.add(ph.joints.Spherical(first, second, point=(1.5, 0.2, 0), name="knee"))
    model.add(ph.joints.Spherical(second, point, point=(3, 0, 1), name="foot"))
    return model


@pytest.mark.exhaustive
def test_coordinates_of_all_kinds_mix_in_one_model():
    system, (q, v) = mixed_model().assemble("SE3")
    assert (system.n, system.m) == (6 + 6 + 3 + 1, 9)
    vdot, _ = evaluated(lambda v: system.accelerations(ZERO, q, v), v)
    assert system.pose(q, "valve").x[0] == 0.7
    np.testing.assert_allclose(vdot[-1], 0.0, atol=1e-14)  # gravity spares plain coordinates
    uniform = mixed_model()
    uniform.bodies[:] = [b if b.formulation is None else _with(b, None) for b in uniform.bodies]
    reference, (q1, v1) = _rebuild(uniform).assemble("SO3xR3")
    other, _ = evaluated(lambda v: reference.accelerations(ZERO, q1, v), v1)
    np.testing.assert_allclose(system.twist(q, vdot, "point").u, reference.twist(q1, other, "point").u, atol=1e-10)


def _with(body, formulation):
    import dataclasses

    return dataclasses.replace(body, formulation=formulation)


def _rebuild(model):
    """The same model with its joints on the replaced bodies."""
    new = ph.Model(gravity=model.gravity)
    new.bodies.extend(model.bodies)
    named = {b.name: b for b in model.bodies}
    for name, joint in model.parts:
        ends = [new.ground if b.name == "ground" else named[b.name] for b in joint.bodies]
        new.add(ph.joints.Spherical(*ends, point=joint.point, name=name))
    return new


OTHERS = [pytest.param(name, marks=pytest.mark.exhaustive) for name in LIE_GROUPS if name != "SE3"]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("formulation", ["SE3", *OTHERS])
def test_stacked_derivatives_equal_those_of_the_whole_system(formulation):
    """And the kinetic energy is that of the mass matrix."""
    system, (q, _) = mixed_model().assemble(formulation)
    rng = np.random.default_rng(3)
    step, v = 0.4 * rng.normal(size=system.n), rng.normal(size=system.n)
    plain, square, wide = AbstractMechanical, (system.n, system.n), (system.m, system.n)

    def evaluate(step, v):
        at = system.configuration.move(q, step)
        jacobians = [to_dense(B, wide) for B in (system.jacobian(ZERO, at), plain.jacobian(system, ZERO, at))]
        rates = [system.constraint_rate(ZERO, at, v), plain.constraint_rate(system, ZERO, at, v)]
        tangents = [
            [
                to_dense(K, square)
                for K in (getattr(system, name)(ZERO, at, v), getattr(plain, name)(system, ZERO, at, v))
            ]
            for name in ("stiffness", "damping")
        ]
        energies = [system.kinetic_energy(ZERO, at, v), 0.5 * v @ system.momentum(ZERO, at, v)]
        return jacobians, rates, tangents, energies

    jacobians, rates, tangents, energies = evaluated(evaluate, step, v)
    np.testing.assert_allclose(*jacobians, atol=1e-13)
    np.testing.assert_allclose(*rates, atol=1e-13)
    for stacked, whole in tangents:
        np.testing.assert_allclose(stacked, whole, atol=1e-12)
    np.testing.assert_allclose(*energies, rtol=1e-13)


def test_a_bare_model_reports_its_bodies_and_energy():
    system, state = top().assemble("SE3")
    outputs = {name: np.asarray(f(ZERO, state)) for name, f in system.outputs().items()}
    assert outputs["positions"].shape == (1, 3)
    assert outputs["rotations"].shape == (1, 3, 3)
    np.testing.assert_allclose(outputs["velocities"], [SPIN["velocity"]])
    np.testing.assert_allclose(outputs["angular_velocities"], [SPIN["angular_velocity"]])
    assert set(system.invariants()) == {"energy"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mass": 0.0}, "`mass` must be greater than zero"),
        ({"mass": np.nan}, "`mass` must be finite"),
        ({"inertia": (1.0, 1.0)}, "three principal moments"),
        ({"inertia": (1.0, 1.0, 3.0)}, "No distribution of mass"),
        ({"inertia": (1.0, 1.0, 0.0)}, "positive definite"),
        ({"inertia": ((1, 1, 0), (0, 1, 0), (0, 0, 1))}, "symmetric"),
        ({"rotation": (1.0, 1.0, 0, 0)}, "length 1"),
        ({"rotation": np.diag([1.0, 1, -1])}, "not a rotation matrix"),
        ({"rotation": (1.0, 2.0)}, "rotation_vector"),
        ({"position": (1, 2)}, "`position`"),
        ({"name": "ground"}, "taken"),
        ({"name": ""}, "`name` must be a word"),
        ({"name": 3}, "`name` must be a word"),
        ({"inertia": 1j * np.eye(3)}, "`inertia` must be numeric"),
        ({"inertia": [[1, 2], [1]]}, "`inertia`"),
        ({"inertia": None}, "`inertia`"),
        ({"rotation": None}, "`rotation`"),
        ({"rotation": [np.nan] * 4}, "`rotation`.*finite"),
        ({"formulation": "nope"}, "`formulation` must be one of"),
    ],
)
def test_bodies_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        ph.Model().add_body(**{**TOP, **changes})


def test_single_precision_is_made_exact():
    rng = np.random.default_rng(2)
    R = np.linalg.qr(rng.normal(size=(3, 3)))[0].astype(np.float32)
    R *= np.sign(np.linalg.det(R))
    inertia = R @ np.diag([1.0, 2.0, 2.5]).astype(np.float32) @ R.T
    inertia[0, 1] *= 1 + 2e-7
    body = ph.Model().add_body(mass=1.0, inertia=inertia, rotation=R)
    np.testing.assert_array_equal(body.inertia, body.inertia.T)
    np.testing.assert_allclose(body.R @ body.R.T, np.eye(3), atol=4e-16)
    np.testing.assert_allclose(body.R, R, atol=1e-6)
    joint = ph.joints.Generic(ph.Model().ground, body, point=body.x, axes=R)
    a = joint.place((Pose(jnp.zeros(3), jnp.eye(3)), Pose(body.x, body.R))).a
    np.testing.assert_allclose(a @ a.T, np.eye(3), atol=4e-16)
    np.testing.assert_allclose(a, -R[[1, 2, 0]], atol=1e-6)


def test_parts_must_belong_to_the_model():
    model, other = top(), ph.Model()
    stranger = other.add_body(**TOP)
    with pytest.raises(ValueError, match="not a body of this model"):
        model.add(ph.joints.Spherical(model.ground, stranger, point=(0, 0, 0)))
    with pytest.raises(ValueError, match="with itself"):
        model.add(ph.joints.Spherical(model.ground, model.ground, point=(0, 0, 0)))
    with pytest.raises(ValueError, match="add_body"):
        model.add(stranger)


def test_names_are_found_or_suggested():
    model = mixed_model()
    assert model.body("second").mass == 1.0
    with pytest.raises(
        ValueError, match=r"no body 'secnd'. Did you mean `second`\? It has first, second, point, valve"
    ):
        model.body("secnd")
    system, (q, _) = model.assemble()
    with pytest.raises(ValueError, match="no body `third`"):
        system.pose(q, "third")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"integrator": "herk9"}, "`integrator` must be one of.*Did you mean"),
        ({"outputs": lambda system: {"positions": lambda t, state: state}}, "'positions' of its own"),
        ({"outputs": lambda system: {"tip": 3.0}}, "'tip' must be a function"),
        ({"outputs": {"tip": 3.0}}, "`outputs` must be a function of the system"),
    ],
)
def test_problems_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        top().problem("SE3", t1=1.0, **changes)


@pytest.mark.exhaustive
def test_coordinates_with_other_velocities_get_an_explicit_method():
    problem = top(velocity=(0, 0, 0), angular_velocity=(0, 0, 0)).problem("euler-angles-kinematic", t1=0.02)
    run = ph.simulate(problem)
    assert run.stats["result"] == ph.Result.successful
    assert float(run.residuals["position"].max()) < 1e-9
    assert top().problem("SE3", t1=0.02).integrator == "generalized-alpha"


def test_unknown_formulations_and_empty_models_are_explained():
    with pytest.raises(ValueError, match="Did you mean `SE3`"):
        top().assemble("SE4")
    with pytest.raises(ValueError, match="`t0` must be finite"):
        top().assemble(t0=np.nan)
    with pytest.raises(ValueError, match="no bodies"):
        ph.Model().assemble()
