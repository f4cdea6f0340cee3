"""Rods: sections, strains, edges, and what `add_rod` makes of points."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import evaluated

import polhode as ph
from polhode.linalg.blocks import to_dense
from polhode.multibody.mechanism.poses import Pose, Twist
from polhode.multibody.stability_limits import stability_limit
from polhode.rods.edge import EdgeShape, ElasticEdge
from polhode.rods.strain import MEASURES
from polhode.spaces import S3R3, quaternions
from polhode.systems.mechanical import AbstractMechanical
from polhode.viewing.scene.model_scene import to_dict

SECTION = ph.rods.Section(stiffness=(500, 400, 300, 1e3, 2e3, 1.5e3), mass=1.0, inertia=(10, 11, 12))


def pose(seed, size=1.0):
    rng = np.random.default_rng(seed)
    R = quaternions.to_matrix(quaternions.from_vector(jnp.asarray(rng.normal(size=3))))
    return Pose(jnp.asarray(size * rng.normal(size=3)), R)


def move_rod(by, pose):
    return Pose(by.x + by.R @ pose.x, by.R @ pose.R)


def near(pose, d):
    step = S3R3().exp(jnp.asarray(d))
    return Pose(pose.x + pose.R @ step[1], pose.R @ quaternions.to_matrix(step[0]))


# --- sections -------------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_sections_have_the_numbers_of_textbooks():
    E, rho = 2.0, 3.0
    full = ph.rods.circular(0.5, youngs_modulus=E, density=rho, poisson=0.25)
    A, second = np.pi / 4, np.pi / 64
    kappa = 6 * 1.25 / (7 + 1.5)
    expected = [E * second, E * second, 0.8 * 2 * second, kappa * 0.8 * A, kappa * 0.8 * A, E * A]
    np.testing.assert_allclose(np.diag(full.stiffness), expected, rtol=1e-14)
    np.testing.assert_allclose(np.diag(full.inertia), [rho * second, rho * second, 2 * rho * second], rtol=1e-14)
    assert float(full.mass) == pytest.approx(rho * A, rel=1e-14)
    square = ph.rods.rectangle(2.0, 2.0, youngs_modulus=E, shear_modulus=1.0, density=rho)
    # Saint-Venant: J = 0.140577 a⁴ for a square of side a.
    np.testing.assert_allclose(np.diag(square.stiffness)[:3], [E * 16 / 12, E * 16 / 12, 0.1405770 * 16], rtol=1e-6)
    flat = ph.rods.rectangle(4.0, 1.0, youngs_modulus=E, shear_modulus=1.0, density=rho)
    np.testing.assert_allclose(np.diag(flat.stiffness)[:3], [E * 4 / 12, E * 64 / 12, 0.2808 * 4], rtol=1e-4)
    thin = ph.rods.tube(1.0, 0.999, youngs_modulus=E, density=rho)
    np.testing.assert_allclose(np.diag(thin.stiffness)[0], E * np.pi * 0.9995**3 * 0.001, rtol=1e-6)
    # Cowper's limit for thin tubes, ν = 0.3: 2 (1 + ν)/(4 + 3ν).
    G = E / 2.6
    np.testing.assert_allclose(
        np.diag(thin.stiffness)[3] / (G * np.diag(thin.stiffness)[5] / E), 2 * 1.3 / 4.9, rtol=1e-5
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stiffness": (1, 1, 1, 1, 1, -1)}, "positive definite"),
        ({"stiffness": (1, 1, 1, 1, 1, 0)}, "hold them with `constrained` in `add_rod`"),
        ({"stiffness": np.eye(6) + np.eye(6, k=1)}, "symmetric"),
        ({"stiffness": (1, 1, 1)}, "must be .*shape"),
        ({"mass": 0.0}, "mass per length"),
        ({"inertia": (1, 1, 0)}, "rotary inertia"),
        ({"damping": (-1, 0, 0, 0, 0, 0)}, "positive semidefinite"),
        ({"stiffness": (1, 1, 1, 1, 1, np.nan)}, "finite"),
    ],
)
def test_materials_that_there_are_not_are_refused(change, message):
    given = {"stiffness": (1, 1, 1, 1, 1, 1), "mass": 1.0, "inertia": (1, 1, 1), **change}
    with pytest.raises(ValueError, match=message):
        ph.rods.Section(**given)


def test_tubes_and_poisson_numbers_are_checked():
    with pytest.raises(ValueError, match="smaller than `outer_radius`"):
        ph.rods.tube(1.0, 1.0, youngs_modulus=1.0, density=1.0)
    with pytest.raises(ValueError, match=r"at most 0\.5"):
        ph.rods.circular(1.0, youngs_modulus=1.0, density=1.0, poisson=0.6)


# --- strains --------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(36)
@pytest.mark.parametrize("angle", [1e-12, 1e-8, 1e-4, 0.1, 1.0, 3.0])
@pytest.mark.parametrize("length", [1e-6, 1.0, 1e3])
@pytest.mark.parametrize("name", MEASURES)
def test_strains_do_not_see_rigid_motion(name, angle, length):
    strain, axis = MEASURES[name](), np.array([0.48, -0.6, 0.64])
    first = Pose(jnp.zeros(3), pose(1).R)
    second = near(first, np.concatenate((angle * axis, length * np.array([0.1, 0.2, 1.0]))))
    d = strain.increment((first, second)).vector
    for seed in range(3):
        by = pose(10 + seed, size=length)
        again = strain.increment((move_rod(by, first), move_rod(by, second))).vector
        np.testing.assert_allclose(again[:3], d[:3], rtol=0, atol=2e-15 * max(angle, 1.0))
        np.testing.assert_allclose(again[3:], d[3:], rtol=0, atol=2e-14 * length)


@pytest.mark.parametrize("d", [(0.3, -0.2, 0.4, 0.1, -0.2, 1.0), (1e-9, 0, 0, 0, 0, 2.0), (2.0, 1.0, -1.5, 0, 0, 1e-3)])
def test_the_helical_increment_is_the_logarithm(d):
    first = pose(3)
    found = MEASURES["SE3"]().increment((first, near(first, d))).vector
    np.testing.assert_allclose(found, d, rtol=0, atol=3e-15)


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.exhaustive
def test_loads_rates_and_rows_belong_to_the_same_increment(name):
    strain, first = MEASURES[name](), pose(4)
    poses = first, near(first, (0.5, -0.3, 0.2, 0.1, 0.2, 0.8))
    rng = np.random.default_rng(1)
    twists = tuple(Twist(*jnp.asarray(rng.normal(size=(2, 3)))) for _ in range(2))
    stress, d = jnp.asarray(rng.normal(size=6)), strain.increment(poses)
    rate = strain.rate(poses, twists, d)

    def after(s):
        return tuple(
            Pose(p.x + s * w.u, p.R @ quaternions.to_matrix(quaternions.from_vector(s * w.omega)))
            for p, w in zip(poses, twists, strict=True)
        )

    step = 1e-4
    # Fourth-order differences.
    at = {k: strain.increment(after(k * step)).vector for k in (-2, -1, 1, 2)}
    differences = (8 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12 * step)
    np.testing.assert_allclose(rate, differences, rtol=0, atol=1e-10)
    power = sum(
        load.torque @ w.omega + load.force @ w.u for load, w in zip(strain.loads(poses, d, stress), twists, strict=True)
    )
    np.testing.assert_allclose(power, -stress @ rate, rtol=0, atol=1e-14)
    rows = strain.rows(poses, (3, 4, 5))
    along = sum(row @ jnp.concatenate(w) for row, w in zip(rows, twists, strict=True))
    np.testing.assert_allclose(along, rate[3:], rtol=0, atol=1e-14)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.exhaustive
def test_loads_derive_from_the_potential(name):
    first = pose(5)
    poses = first, near(first, (0.4, 0.3, -0.2, 0.1, 0.0, 0.9))
    shape = EdgeShape(MEASURES[name](), (None, None), jnp.array([0.1, 0, 0, 0, 0, 1.0]), jnp.asarray(1.0))
    edge, zero = ElasticEdge(shape, SECTION.stiffness), jnp.zeros(())
    for k in range(2):
        for j, e in enumerate(np.eye(6)):

            def energy(s, k=k, e=e):
                turned = poses[k].R @ quaternions.to_matrix(quaternions.from_vector(s * jnp.asarray(e[:3])))
                there = Pose(poses[k].x + s * jnp.asarray(e[3:]), turned)
                return edge.potential(zero, tuple(there if i == k else p for i, p in enumerate(poses)))

            load = jnp.concatenate(edge.wrenches(zero, poses, ())[k])[j]
            np.testing.assert_allclose(load, -jax.grad(energy)(0.0), rtol=0, atol=1e-11)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("formulation", "damping"), [("S3|xR3", None), pytest.param("SO3xR3", 30.0, marks=pytest.mark.exhaustive)]
)
def test_the_tangent_in_closed_form_is_the_derivative(formulation, damping):
    section = ph.rods.Section(stiffness=np.diag(SECTION.stiffness), mass=1.0, inertia=(10, 11, 12), damping=damping)
    model = ph.Model()
    model.add_rod(points=np.linspace(0, 1, 2)[:, None] * (2.0, 0, 0), section=section)
    system, (q, v) = model.assemble(formulation)
    t, key = jnp.zeros(()), jax.random.key(2)
    q = system.configuration.move(q, 0.4 * jax.random.normal(key, (system.n,)))
    v = jax.random.normal(jax.random.key(3), (system.n,))
    for way in ("stiffness", "damping"):
        found, expected = (
            evaluated(lambda q, v, f=f: to_dense(f(t, q, v), (system.n, system.n)), q, v)
            for f in (getattr(system, way), lambda *a, w=way: getattr(AbstractMechanical, w)(system, *a))
        )
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13 * max(1.0, np.abs(expected).max()))


# --- rods of models -------------------------------------------------------------------------------------------------


def test_nodes_carry_the_mass_beside_them():
    model = ph.Model()
    rod = model.add_rod(points=[(0, 0, 0), (1, 0, 0), (3, 0, 0)], section=SECTION, name="cable")
    assert [body.name for body in rod.nodes] == ["cable-node-0", "cable-node-1", "cable-node-2"]
    np.testing.assert_allclose([body.mass for body in rod.nodes], [0.5, 1.5, 1.0])
    np.testing.assert_allclose(rod.nodes[1].inertia, 1.5 * np.diag([10, 11, 12]))
    np.testing.assert_allclose(rod.lengths, [1, 2])
    np.testing.assert_allclose(rod.arc_lengths, [0, 1, 3])
    assert rod.first is model.body("cable-node-0")
    # The third axis is along the rod.
    np.testing.assert_allclose(rod.last.R[:, 2], [1, 0, 0], atol=1e-15)


@pytest.mark.exhaustive
def test_arcs_of_circles_have_constant_curvature():
    angles = np.linspace(0, np.pi / 2, 7)
    arc = 2.0 * np.stack((np.sin(angles), np.zeros(7), 1 - np.cos(angles)), axis=1)
    model = ph.Model()
    rod = model.add_rod(points=arc, section=SECTION, reference="as-placed")
    system, state = model.assemble()
    strains = rod.strains(system)(0.0, state)
    assert float(jnp.sum(rod.lengths)) == pytest.approx(np.pi, rel=1e-14)
    np.testing.assert_allclose(np.linalg.norm(strains[:, :3], axis=1), 0.5, rtol=0, atol=1e-13)
    np.testing.assert_allclose(strains[:, 3:], np.tile([0, 0, 1.0], (6, 1)), rtol=0, atol=1e-13)
    assert float(system.potential_energy(jnp.zeros(()), state[0])) < 1e-24
    assert np.max(np.abs(system.force(jnp.zeros(()), *state))) < 1e-10


@pytest.mark.exhaustive
def test_closed_rods_return_to_their_first_node():
    angles = np.arange(8) * np.pi / 4
    ring = np.stack((np.cos(angles), np.sin(angles), 0 * angles), axis=1)
    model = ph.Model()
    rod = model.add_rod(points=ring, section=SECTION, reference="as-placed", closed=True)
    system, state = model.assemble("S3|xR3")
    assert len(rod.edges) == len(rod.nodes) == 8
    assert rod.closed
    assert rod.points(system)(0.0, state).shape == (9, 3)
    assert float(jnp.sum(rod.lengths)) == pytest.approx(2 * np.pi, rel=1e-13)
    np.testing.assert_allclose(sum(float(b.mass) for b in rod.nodes), 2 * np.pi, rtol=1e-13)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"points": [(0, 0, 0), (1, 0, 0), (1, 0, 0)]}, "Edge 2 of the rod has no length .*nodes 1 and 2"),
        ({"points": [(0, 0, 0)]}, "shape"),
        ({"points": [(0, 0, 0), (1, 0, 0), (0.5, 0, 0)]}, "turns back on itself at node 1"),
        ({"constrained": ph.rods.STRAINS}, "rigid body"),
        ({"constrained": "kirchof"}, "Did you mean `kirchhoff`"),
        ({"constrained": ("K1", "G7")}, "one of"),
        ({"section": [SECTION]}, "one for each of the 2 edges"),
        ({"clamped": "start"}, "`first`, `last`"),
        ({"lengths": (1.0, 0.0)}, "greater than zero"),
        ({"reference": "bent"}, "one of"),
        ({"rotations": np.zeros((3, 3, 3))}, "not a rotation matrix"),
        ({"normal": (1, 0, 0)}, "parallel to the rod"),
        ({"strain": "R3"}, "one of"),
        ({"points": [(0, 0, 0), (1, 0, 0)], "clamped": ("first", "last")}, "can't move"),
    ],
)
def test_rods_that_make_no_sense_are_refused(change, message):
    given = {"points": [(0, 0, 0), (1, 0, 0), (2, 0, 0)], "section": SECTION, **change}
    with pytest.raises(ValueError, match=message):
        ph.Model().add_rod(**given)


def test_constraints_without_freedom_are_named():
    model = ph.Model()
    model.add_rod(
        points=[(0, 0, 0), (1, 0, 0), (2, 0, 0)],
        section=SECTION,
        constrained=("K1", "K2", "K3", "G1", "G2"),
        clamped=("first", "last"),
        name="beam",
    )
    with pytest.raises(ValueError, match=r"redundant: .*beam-edge-2-constraint"):
        model.assemble()


@pytest.mark.exhaustive
@pytest.mark.parametrize(("damping", "rate"), [(None, 0.0), (200.0, 4 * 200 / (10 / 3) ** 2)])
def test_the_stiffest_wave_is_that_of_the_mesh(damping, rate):
    section = ph.rods.Section(stiffness=(500, 500, 500, 1e4, 1e4, 1e4), mass=1.0, inertia=(10, 10, 10), damping=damping)
    model = ph.Model()
    model.add_rod(points=np.linspace(0, 1, 4)[:, None] * (10.0, 0, 0), section=section, constrained="kirchhoff")
    system, state = model.assemble("S3|xR3")
    found = stability_limit(system, 0.0, state)
    # 2 √(EA/ρA)/Δs and 4 D/(ρA Δs²) of a row of masses.
    assert found.frequency == pytest.approx(2 * 100 / (10 / 3), rel=1e-9)
    assert found.rate == pytest.approx(rate, rel=1e-9)
    assert all(name.startswith("rod-1-node") for name in found.bodies)


@pytest.mark.exhaustive
def test_section_forces_balance_the_loads_on_the_nodes():
    model = ph.Model()
    points = [(0, 0, 0), (1, 0, 0), (2, 0, 0)]
    rod = model.add_rod(points=points, section=SECTION, constrained="kirchhoff", clamped="first")
    system, (q, v) = model.assemble("SO3xR3")
    q = system.configuration.move(q, 0.2 * jax.random.normal(jax.random.key(0), (system.n,)))
    t, multipliers = jnp.zeros(()), jnp.array([3.0, -2.0, 1.0, 4.0])
    stress = rod.section_forces(system)(t, (q, v), multipliers)
    np.testing.assert_array_equal(stress[:, 3:5].reshape(-1), multipliers)
    x, R = rod.poses(system)(t, (q, v))
    strain, nodes = MEASURES["SE3"](), np.zeros((3, 6))
    for e in range(2):
        ends = Pose(x[e], R[e]), Pose(x[e + 1], R[e + 1])
        for k, load in enumerate(strain.loads(ends, strain.increment(ends), stress[e])):
            nodes[e + k] += np.concatenate(load)
    total = system.force(t, q, v) - system.constraint_force(t, q, multipliers)
    np.testing.assert_allclose(nodes[1:].reshape(-1), total, rtol=0, atol=1e-12)


def test_rods_are_drawn_as_lines_from_node_to_node():
    model = ph.Model()
    rod = model.add_rod(points=[(1, 0, 0), (2, 0, 0), (3, 0, 0)], section=SECTION, clamped="first", name="cable")
    model.add_body(mass=1.0, inertia=(1, 1, 1), name="load")
    found = to_dict(model, [body.name for body in model.bodies])
    assert [body["name"] for body in found["bodies"]] == ["load"]
    (line,) = found["lines"]
    assert line["name"] == "cable"
    assert line["rows"] == [-1, 0, 1]
    np.testing.assert_array_equal(line["points"], [[1, 0, 0], [0, 0, 0], [0, 0, 0]])
    assert rod.last.rod == "cable"


# --- motion ---------------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_orders_on_a_tumbling_rod_and_in_other_coordinates():
    rod = ph.problems.get("flying-spaghetti", n=2, load=2000.0)
    tip = {}
    for order, steps in ((2, (640, 1280)), (3, (320, 640)), (4, (160, 320)), (5, (160, 320))):
        tip[order] = [
            ph.simulate(rod, f"herk{order}", h=0.5 / n, t1=0.5, save_every=n).outputs["nodes"][-1] for n in steps
        ]
    exact = ph.simulate(rod, "herk5", h=0.5 / 1280, t1=0.5, save_every=1280)
    for order, (coarse, fine) in tip.items():
        errors = [np.max(np.abs(x - exact.outputs["nodes"][-1])) for x in (coarse, fine)]
        assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.35)
    assert np.max(exact.residuals["velocity"]) < 1e-13
    assert np.max(exact.residuals["position"]) < 1e-12
    other = ph.problems.get("flying-spaghetti", n=2, load=2000.0, formulation="SO3xR3")
    run = ph.simulate(other, "herk5", h=0.5 / 640, t1=0.5, save_every=640)
    np.testing.assert_allclose(run.outputs["nodes"][-1], exact.outputs["nodes"][-1], rtol=0, atol=1e-9)


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore:XLA compiles this derivative:polhode.CompileTimeWarning")
def test_tips_have_gradients_and_batches():
    def tip(stiffness, load):
        problem = ph.problems.get("flying-spaghetti", n=1, bending_stiffness=stiffness, load=load)
        run = ph.simulate(problem, "herk3", h=0.02, t1=0.4, save_every=20)
        return run.outputs["tip"][-1]

    point = jnp.array([500.0, 2000.0])
    gradient = jax.jit(jax.jacfwd(lambda p: tip(*p)))(point)
    value = jax.jit(lambda p: tip(*p))
    for k, step in enumerate((0.05, 0.2)):
        e = step * jnp.eye(2)[k]
        difference = (8 * (value(point + e) - value(point - e)) - (value(point + 2 * e) - value(point - 2 * e))) / (
            12 * step
        )
        np.testing.assert_allclose(gradient[:, k], difference, rtol=0, atol=1e-6 * np.abs(gradient[:, k]).max())
    several = jnp.stack((jnp.linspace(400.0, 600.0, 256), jnp.linspace(1500.0, 2500.0, 256)), axis=1)
    batch = jax.jit(jax.vmap(value))(several)
    assert batch.shape == (256, 3)
    np.testing.assert_allclose(batch[100], value(several[100]), rtol=0, atol=1e-12)
