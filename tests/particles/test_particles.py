"""Systems of particles: neighbours, breakage, damping, precision, starts and failures."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode import particles as pt
from polhode.particles.neighbours import search
from polhode.spaces import component_arrays
from polhode.systems import BodyStates

_MATERIAL = pt.BondMaterial(bending=10.0, axial=200.0, shear=200.0)


def _ring(**options):
    ring = pt.torus(12, 3.0)
    return pt.Particles(1.0, 1.0, ring.diameters, ring.positions, ring.pairs, _MATERIAL, **options), ring


@pytest.mark.sampled(4)
@pytest.mark.parametrize("n", [1, 2, 50, 700])
@pytest.mark.exhaustive
def test_neighbours_are_those_of_all_pairs(n):
    rng = np.random.default_rng(n)
    x = rng.uniform(-3, 4, (n, 3)) * np.array([1.0, 0.3, 2.0])
    reach = rng.uniform(0.1, 0.5, n)
    found, code = search(component_arrays.columns(jnp.asarray(x)), jnp.asarray(reach), 2 * reach.max(), None, max(n, 1))
    members = np.asarray(found.members)
    for i in range(n):
        listed = [int(j) for j in members[:, i] if j != i]
        apart = np.linalg.norm(x - x[i], axis=1)
        wanted = set(np.flatnonzero(apart < reach + reach[i])) - {i}
        assert set(listed) == wanted
        assert len(listed) == len(wanted)
    assert int(code) == 0


@pytest.mark.exhaustive
def test_lists_are_renewed_before_anything_is_missed():
    """A gas of spheres in a box: the same motion as with lists that hold all pairs."""
    rng = np.random.default_rng(5)
    grid = np.stack(np.meshgrid(*(np.arange(4),) * 3, indexing="ij"), -1).reshape(-1, 3) * 1.1
    box = pt.Box((-0.6, -0.6, -0.6), (3.9, 3.9, 3.9))
    v = 2.0 * rng.standard_normal((64, 3))
    ends = []
    for skin, capacity in ((0.2, None), (20.0, 63)):
        system = pt.Particles(1.0, 0.1, 1.0, grid, contact=400.0, walls=(box,), skin=skin, capacity=capacity)
        start = system.start(grid, v)
        run = ph.simulate(system, "rodrigues", state0=start, t1=3.0, h=2e-3, save_every=50)
        ends.append(run)
    np.testing.assert_allclose(ends[0].state[0], ends[1].state[0], rtol=0, atol=1e-6)
    E = np.asarray(ends[0].invariants["energy"])
    assert np.max(np.abs(E / E[0] - 1)) < 1e-3
    moved = np.linalg.norm(ends[0].state[0][-1] - ends[0].state[0][0], axis=1)
    assert np.median(moved) > 1


@pytest.mark.exhaustive
def test_a_full_list_ends_the_run_with_its_remedy():
    x = np.array([[k * 1.05, 0.0, 0.0] for k in range(6)])
    system = pt.Particles(1.0, 0.1, 1.0, x, contact=400.0, capacity=1, skin=0.01)
    start = system.start(x, np.array([[3.0 - 1.2 * k, 0, 0] for k in range(6)]))
    with pytest.raises(ph.SimulationError, match="larger `capacity`"):
        ph.simulate(system, "rodrigues", state0=start, t1=2.0, h=1e-3)


@pytest.mark.exhaustive
def test_the_energy_of_contacts_is_never_cut_short():
    x = np.array([[0.0, 0, 0], [0.9, 0, 0], [0.45, 0.8, 0]])
    system = pt.Particles(1.0, 1.0, 1.0, x, contact=3.0, capacity=1)
    assert np.isnan(system.energies(system.start(x))["contact"])
    roomy = pt.Particles(1.0, 1.0, 1.0, x, contact=3.0, capacity=2)
    depth = 1 - np.linalg.norm(x[[0, 0, 1]] - x[[1, 2, 2]], axis=1)
    np.testing.assert_allclose(roomy.energies(roomy.start(x))["contact"], 0.4 * 3.0 * np.sum(depth**2.5), rtol=1e-12)


@pytest.mark.filterwarnings("ignore::polhode.StepSizeWarning")
@pytest.mark.exhaustive
def test_lost_particles_and_nan_are_named_and_what_was_computed_is_kept():
    x = np.array([[0.0, 0, 0], [1.5, 0, 0]])
    system = pt.Particles(1.0, 0.1, 1.0, x, contact=400.0)
    run = ph.simulate(
        system, "rodrigues", state0=system.start(x, [[0, 0, 0], [1e9, 0, 0]]), t1=1.0, h=1e-2, throw=False
    )
    assert ph.Result(run.stats["result"]) is ph.Result.lost_particles
    assert np.all(np.isfinite(run.state[0]))
    assert len(run.t) >= 1
    with np.errstate(all="ignore"):
        sharp = system.start(x, [[1e308, 0, 0], [-1e308, 0, 0]])
        run = ph.simulate(system, "rodrigues", state0=sharp, t1=100.0, h=10.0, throw=False)
    assert ph.Result(run.stats["result"]) is not ph.Result.successful


def _pulled_chain(pairs, order=None):
    """A chain whose ends are pulled apart: its middle bonds break."""
    x = pt.chain(6).positions
    strong = pt.BondMaterial(1.0, 100.0, 50.0)
    weak = pt.BondMaterial(1.0, 100.0, 50.0, strength=pt.Strength(tension=4.0))
    kinds = [1 if set(p) == {2, 3} else 0 for p in pairs]
    system = pt.Particles(1.0, 0.1, 1.0, x, pairs, (strong, weak), kinds)
    v = np.array([[-2.0, 0, 0]] * 3 + [[2.0, 0, 0]] * 3)
    return system, ph.simulate(system, "rodrigues", state0=system.start(x, v), t1=1.0, h=1e-3, save_every=10)


@pytest.mark.exhaustive
def test_bonds_break_where_they_are_weak_and_their_order_does_not_matter():
    chain = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
    system, run = _pulled_chain(chain)
    assert list(np.asarray(run.outputs["whole"])[-1]) == [1, 1, 0, 1, 1]
    assert np.all(np.diff(np.asarray(run.outputs["whole"]), axis=0) <= 0)
    assert "energy" not in run.invariants
    assert not system.conservative
    turned = [(b, a) for a, b in chain][::-1]
    other = _pulled_chain(turned)[1]
    np.testing.assert_allclose(other.state[0], run.state[0], rtol=0, atol=1e-12)
    assert np.ptp(np.asarray(run.outputs["linear_momentum"]), axis=0).max() < 1e-12


@pytest.mark.exhaustive
def test_damping_takes_energy_and_leaves_momenta():
    material = pt.BondMaterial(10.0, 200.0, 200.0, axial_damping=0.5, bending_damping=0.2)
    ring = pt.torus(12, 3.0)
    system = pt.Particles(1.0, 1.0, ring.diameters, ring.positions, ring.pairs, material)
    rng = np.random.default_rng(2)
    start = system.start(ring.positions, 0.3 * rng.standard_normal((12, 3)), 0.3 * rng.standard_normal((12, 3)))
    runs = [ph.simulate(system, "rodrigues", state0=start, t1=1.0, h=h, save_every=None) for h in (4e-3, 2e-3, 1e-3)]
    first = float(system.energy(start))
    last = [float(system.energy(BodyStates(*(a[-1] for a in run.state)))) for run in runs]
    assert last[-1] < 0.9 * first
    change = np.abs(np.diff(last))
    assert np.log2(change[0] / change[1]) == pytest.approx(2, abs=0.2)
    for name in ("linear_momentum", "angular_momentum"):
        assert np.ptp(np.asarray(runs[0].outputs[name]), axis=0).max() < 1e-12
    assert "energy" not in runs[0].invariants


@pytest.mark.exhaustive
def test_contacts_dissipate_on_walls_and_each_other():
    x = np.array([[0.0, 0, 0.6], [0.0, 0, 1.7]])
    floor = pt.Plane()
    lost = {}
    for c in (0.0, 3.0):
        system = pt.Particles(1.0, 0.1, 1.0, x, contact=500.0, contact_damping=c, walls=(floor,), gravity=(0, 0, -9.81))
        run = ph.simulate(system, "rodrigues", state0=system.start(x), t1=3.0, h=5e-4, save_every=20)
        E = sum(np.asarray(v) for v in run.outputs["energies"].values())
        lost[c] = float(1 - E[-1] / E[0])
        assert np.min(run.state[0][..., 2]) > 0
    assert abs(lost[0.0]) < 1e-5
    assert lost[3.0] > 0.1


@pytest.mark.exhaustive
def test_single_precision_follows_double_precision():
    ends = {}
    for dtype in ("float64", "float32"):
        system, ring = _ring(dtype=dtype, contact=2100.0)
        start = system.start(ring.positions, (-1.0, 0.2, 0.1), (0.1, 0.0, 0.3))
        run = ph.simulate(system, "rodrigues", state0=start, t1=1.0, h=1e-3, save_every=100)
        assert run.state[0].dtype == dtype
        ends[dtype] = run
    assert np.max(np.abs(ends["float32"].state[0] - ends["float64"].state[0])) < 1e-4
    E = {k: np.asarray(run.invariants["energy"]) for k, run in ends.items()}
    assert np.max(np.abs(E["float32"] / E["float32"][0] - 1)) < 1e-5


@pytest.mark.exhaustive
def test_steps_above_the_limit_of_the_stiffest_bond_are_said_before_the_run():
    system, ring = _ring()
    limit = 2 / float(system.frequency())
    with pytest.warns(ph.StepSizeWarning, match="stiffest bonds"):
        ph.simulate(system, "rodrigues", state0=system.start(ring.positions), t1=4 * limit, h=2 * limit)
    exact = 2 * np.sqrt(200.0) / ring.diameters[0]
    assert 2 / limit == pytest.approx(exact, rel=1e-12)


@pytest.mark.exhaustive
def test_the_estimated_limit_is_that_of_the_linearised_ring():
    """Largest frequency from the Hessian of the potential at rest."""
    system, ring = _ring()
    start = system.start(ring.positions)
    H = jax.hessian(lambda x: system.potential_energy(start._replace(x=x.reshape(-1, 3))))(start.x.reshape(-1))
    largest = float(np.sqrt(np.max(np.linalg.eigvalsh(H))))
    assert largest <= float(system.frequency()) <= 1.05 * largest


def test_overlapping_starts_are_refused():
    x = np.array([[0.0, 0, 0], [0.5, 0, 0], [5.0, 0, 0]])
    system = pt.Particles(1.0, 1.0, 1.0, x, contact=100.0)
    with pytest.raises(ValueError, match="Particles 0 and 1 overlap by 50%"):
        ph.simulate(system, "rodrigues", state0=system.start(x), t1=1.0, h=1e-3)


_WRONG = [
    ({"masses": [1.0, 2.0]}, r"`masses` must be an array of shape \(12,\)"),
    ({"inertias": 0.0}, "greater than zero"),
    ({"pairs": [(0, 12)]}, "from 0 to 11"),
    ({"pairs": [(3, 3)]}, "particle 3 to itself"),
    ({"pairs": [(0, 1), (1, 0)]}, "0 and 1 more than once"),
    ({"pairs": [(0, 1, 2)]}, r"shape \(m, 2\)"),
    ({"material": None}, "Bonds need a `material`"),
    ({"material": (_MATERIAL, _MATERIAL)}, "`kinds` must say which"),
    ({"material": (_MATERIAL, _MATERIAL), "kinds": [2] * 12}, "numbers from 0 to 1"),
    ({"shear": "litteral"}, "Did you mean `literal`"),
    ({"contact": -1.0}, "must not be negative"),
    ({"walls": ("floor",)}, "must be walls"),
    ({"dtype": "float16"}, "float32"),
    ({"positions": np.zeros((12, 2))}, r"shape \(n, 3\)"),
    ({"positions": np.full((12, 3), np.nan)}, "finite"),
    ({"positions": np.zeros((12, 3))}, "at the same place"),
]


@pytest.mark.parametrize(("changed", "message"), _WRONG)
def test_bad_systems_are_named_with_a_remedy(changed, message):
    ring = pt.torus(12, 3.0)
    given = {
        "masses": 1.0,
        "inertias": 1.0,
        "diameters": ring.diameters,
        "positions": ring.positions,
        "pairs": ring.pairs,
        "material": _MATERIAL,
    }
    with pytest.raises(ValueError, match=message):
        pt.Particles(**{**given, **changed})


def test_builders():
    chain = pt.chain(4, 0.5, (1, 0, 0), (0, 2, 0))
    np.testing.assert_allclose(chain.positions[-1], (1, 1.5, 0))
    assert chain.pairs.tolist() == [[0, 1], [1, 2], [2, 3]]
    ring = pt.torus(80, 3.0)
    np.testing.assert_allclose(np.linalg.norm(ring.positions[0] - ring.positions[-1]), ring.diameters[0], rtol=1e-12)
    block = pt.block((3, 4, 5))
    assert len(block.positions) == 60
    assert len(block.pairs) == 2 * 20 + 3 * 15 + 4 * 12
    reach = np.linalg.norm(block.positions[block.pairs[:, 0]] - block.positions[block.pairs[:, 1]], axis=1)
    np.testing.assert_allclose(reach, 1)
    more = pt.block((3, 4, 5), diagonals=True)
    reach = np.linalg.norm(more.positions[more.pairs[:, 0]] - more.positions[more.pairs[:, 1]], axis=1)
    assert set(np.round(reach, 6)) == {1.0, round(np.sqrt(2), 6)}
    assert len(np.unique(np.sort(more.pairs, axis=1), axis=0)) == len(more.pairs)


def test_packings_from_files(tmp_path):
    path = tmp_path / "grains.txt"
    path.write_text("# x y z d\n0 0 0 1\n1.02, 0, 0, 1\n\n3 0 0 1 # alone\n")
    layout = pt.packing(path)
    assert layout.positions.shape == (3, 3)
    assert layout.pairs.tolist() == [[0, 1]]
    path.write_text("0 0 0 1\n0 0 one 1\n")
    with pytest.raises(ValueError, match="Line 2 of"):
        pt.packing(path)
    with pytest.raises(ValueError, match="can't be read"):
        pt.packing(tmp_path / "none.txt")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pt.torus(2), "at least 3"),
        (lambda: pt.chain(0), "at least 1"),
        (lambda: pt.block((2, 2)), "three numbers"),
        (lambda: pt.chain(2, direction=(0, 0, 0)), "must not be zero"),
        (lambda: pt.Plane(normal=(0, 0, 0)), "must not be zero"),
        (lambda: pt.Box((0, 0, 0), (1, -1, 1)), "`lower` must be below"),
        (lambda: pt.Cylinder(-1.0), "greater than zero"),
        (lambda: pt.Strength(tension=0.0), "greater than zero, or infinite"),
        (lambda: pt.BondMaterial(-1.0, 1.0, 1.0), "must not be negative"),
        (lambda: pt.BondMaterial(1.0, 1.0, 1.0, strength=3.0), "must be a `Strength`"),
    ],
)
def test_bad_parts_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.exhaustive
def test_gradients_through_contacts_and_lists_match_differences():
    x = np.array([[0.0, 0, 0.45], [0.1, 0, 1.4]])

    def final(stiffness):
        system = pt.Particles(1.0, 0.1, 1.0, x, contact=stiffness, walls=(pt.Plane(),), gravity=(0, 0, -9.81))
        run = ph.simulate(system, "rodrigues", state0=system.start(x), t1=0.2, h=1e-3, save_every=None)
        return jnp.sum(run.state[0][-1])

    found, h = float(jax.grad(final)(500.0)), 1e-2
    assert found == pytest.approx(float((final(500 + h) - final(500 - h)) / (2 * h)), rel=1e-6)


@pytest.mark.exhaustive
def test_systems_are_made_inside_transformations():
    """A batch over the stiffness of bonds and contacts, against single runs."""
    ring = pt.torus(6, 3.0)

    def final(k):
        material = pt.BondMaterial(10.0, k, k)
        system = pt.Particles(
            1.0, 1.0, ring.diameters, ring.positions, ring.pairs, material, contact=10 * k, bonded_contacts=True
        )
        start = system.start(ring.positions, jnp.asarray(np.linspace(-1, 1, 18).reshape(6, 3)))
        return ph.simulate(system, "rodrigues", state0=start, t1=0.1, h=1e-2, save_every=None).state[0][-1]

    values = jnp.array([100.0, 200.0])
    batch = jax.jit(jax.vmap(final))(values)
    for k, found in zip(values, batch, strict=True):
        np.testing.assert_allclose(found, final(float(k)), rtol=0, atol=1e-12)


def _chain(**options):
    layout = pt.chain(4)
    material = pt.BondMaterial(1.0, 100.0, 100.0, axial_damping=0.1, bending_damping=0.05)
    return layout.positions, pt.Particles(1.0, 0.1, 1.0, layout.positions, layout.pairs, material, **options)


@pytest.mark.exhaustive
def test_dampers_keep_the_momentum_of_the_law_of_shear():
    v = np.random.default_rng(0).normal(size=(4, 3))
    for shear, kept in (("literal", "spin"), ("objective", "angular_momentum")):
        x, system = _chain(shear=shear)
        found = ph.simulate(system, "rodrigues", state0=system.start(x, v, v[::-1]), t1=1.0, h=2e-3).audit()
        assert {row.quantity: row.verdict for row in found}[kept] == "kept"
        assert {row.quantity for row in found if row.promise == "round-off"} == {kept, "linear_momentum", "manifold"}


@pytest.mark.exhaustive
def test_audits_know_single_precision():
    x, system = _chain(dtype="float32")
    v = np.random.default_rng(0).normal(size=(4, 3))
    run = ph.simulate(system, "rodrigues", state0=system.start(x, v, v[::-1]), t1=1.0, h=2e-3)
    assert run.audit()["angular_momentum"].max_drift > 1e-9
    assert run.audit().kept


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("options", "speed", "h", "message"),
    [
        ({"contact": 1e6}, 1.0, 5e-2, "Contacts that stop"),
        ({"wall_contact": 1e7, "walls": (pt.Plane((0, 0, -2)),)}, 1.0, 2e-2, "Contacts that stop"),
        ({"contact": 1.0, "contact_damping": 500.0}, 1.0, 1e-2, "Dampers slow"),
    ],
)
def test_steps_too_long_for_contacts_and_dampers_are_said(options, speed, h, message):
    x = np.array([[0.0, 0, 0], [1.2, 0, 0]])
    system = pt.Particles(1.0, 0.1, 1.0, x, **options)
    state = system.start(x, [[speed, 0, 0], [-speed, 0, 0]])
    with pytest.warns(ph.StepSizeWarning, match=message):
        ph.simulate(system, "rodrigues", state0=state, t1=2 * h, h=h)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ph.simulate(system, "rodrigues", state0=state, t1=0.1 * h, h=0.02 * h)


@pytest.mark.exhaustive
def test_the_estimated_frequency_of_a_contact_is_that_of_its_deepest_point():
    """Two spheres: the largest slope of the force over all distances that the speed can reach."""
    x = np.array([[0.0, 0, 0], [1.1, 0, 0]])
    system = pt.Particles(2.0, 0.1, 1.0, x, contact=50.0)
    state = system.start(x, [[0.4, 0, 0], [-0.4, 0, 0]])
    run = ph.simulate(system, "rodrigues", state0=state, t1=1.0, h=1e-4)
    depth = 1 - np.min(np.linalg.norm(run.state.x[:, 0] - run.state.x[:, 1], axis=1))
    slope = 1.5 * 50.0 * np.sqrt(depth)
    np.testing.assert_allclose(system.contact_frequency(state.v), np.sqrt(slope / 1.0), rtol=1e-3)


@pytest.mark.exhaustive
def test_who_flies_through_a_wall_is_lost():
    x = np.array([[0.0, 0, 0]])
    system = pt.Particles(1.0, 0.1, 1.0, x, walls=(pt.Box((-10,) * 3, (10,) * 3),), wall_contact=100.0)
    run = ph.simulate(system, "rodrigues", state0=system.start(x, (1e5, 0, 0)), t1=0.1, h=1e-3, throw=False)
    assert run.stats["result"] == ph.Result.lost_particles


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: pt.Particles(1.0, 0.1, 1.0, x, walls=(pt.Plane(),)), "wall_contact"),
        (lambda x: _start(x, walls=(pt.Plane((0, 0, 1)),), wall_contact=1.0), "Particle 0 and a Plane overlap by 3"),
        (lambda x: _start(0 * x, contact=1.0), "Particles 0 and 1 overlap by 100%"),
        (lambda x: _start(0 * x, **_BONDED), "Particles 0 and 1 are bonded and at the same place"),
        (lambda x: _start(x, **_BONDED, contact=1.0, bonded_contacts=True, diameters=3.0), "keep them apart"),
        (lambda x: pt.Particles(1.0, 0.1, 1.0, x).start(x, np.zeros((3, 3))), r"`velocities` must have shape \(2, 3\)"),
        (lambda x: pt.Particles(1.0, 0.1, 1.0, x).start(x[:1]), r"`positions` must have shape \(2, 3\)"),
        (lambda x: _start(x, dtype="float32", method="26", **_BONDED), "dtype='float64'"),
    ],
)
def test_starts_that_would_burst_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make(np.array([[0.0, 0, 0], [1.5, 0, 0]]))


_BONDED = {"pairs": [(0, 1)], "material": pt.BondMaterial(1.0, 1.0, 1.0)}


def _start(x, method="25", diameters=1.0, **options):
    apart = np.array([[0.0, 0, 0], [1.5, 0, 0]])
    system = pt.Particles(1.0, 0.1, diameters, apart, **options)
    return ph.simulate(system, ph.integrators.get("rodrigues", map=method), state0=system.start(x), h=1e-3, t1=1e-2)


@pytest.mark.exhaustive
def test_walls_may_be_given_alone():
    x = np.array([[0.0, 0, 1.0]])
    system = pt.Particles(1.0, 0.1, 1.0, x, walls=pt.Plane(), wall_contact=500.0, gravity=(0, 0, -9.81))
    run = ph.simulate(system, "rodrigues", state0=system.start(x), t1=2.0, h=1e-3)
    assert np.min(run.state.x[:, 0, 2]) > 0.2
    assert run.audit()["energy"].verdict == "kept"


@pytest.mark.exhaustive
def test_bonds_that_bear_everything_never_break():
    x, _ = _chain()
    for strength, conservative in ((pt.Strength(), True), (pt.Strength(moment=1e9), False)):
        material = pt.BondMaterial(1.0, 1.0, 1.0, strength=strength)
        system = pt.Particles(1.0, 0.1, 1.0, x, [(0, 1)], material)
        assert system.conservative == conservative
        assert len(system.start(x)) == (4 if conservative else 5)


@pytest.mark.parametrize(
    ("changed", "message"),
    [({"masses": "a"}, "`masses`"), ({"masses": None}, "`masses`"), ({"material": 5.0}, "`material`")],
)
def test_values_of_other_types_are_named(changed, message):
    x, _ = _chain()
    good = {"masses": 1.0, "inertias": 0.1, "diameters": 1.0, "positions": x, "pairs": [(0, 1)]}
    with pytest.raises(ValueError, match=message):
        pt.Particles(**{**good, "material": pt.BondMaterial(1.0, 1.0, 1.0), **changed})
