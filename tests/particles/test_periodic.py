"""Space that repeats: search against all pairs, and runs against images side by side."""

import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode import particles as pt
from polhode.particles.neighbours import Period, search
from polhode.spaces.component_arrays import columns


@pytest.mark.exhaustive
def test_no_pair_is_missed():
    """Against all pairs, with one, two, three and many cells along axes that repeat or are open."""
    rng = np.random.default_rng(1)
    lengths = np.array([2.1, 3.3, 7.0])
    for repeats in ((True, True, True), (False, True, True)):
        x = lengths * rng.uniform(-1, 2, (150, 3))
        reach = rng.uniform(0.3, 0.5, 150)
        period = Period(tuple(jnp.asarray(a) for a in lengths), repeats)
        lists, code = search(columns(jnp.asarray(x)), jnp.asarray(reach), 1.0, None, 60, period=period)
        assert int(code) == 0
        d = x[:, None] - x
        d -= np.where(repeats, lengths * np.round(d / lengths), 0.0)
        touch = (np.linalg.norm(d, axis=2) < reach[:, None] + reach) & ~np.eye(150, dtype=bool)
        listed = np.zeros((150, 150), int)
        members = np.asarray(lists.members)
        np.add.at(listed, (np.broadcast_to(np.arange(150), members.shape), members), 1)
        np.fill_diagonal(listed, 0)
        assert touch.sum() > 300
        np.testing.assert_array_equal(listed, touch)
        # Without the period pairs across the boundary are missing.
        open_lists, _ = search(columns(jnp.asarray(x)), jnp.asarray(reach), 1.0, None, 60)
        assert int((np.asarray(open_lists.members) != np.arange(150)).sum()) < touch.sum()


LAW = pt.ContactLaw(pt.Hertz(1e4, 0.3, 0.8), pt.Mindlin(0.5), pt.RollingResistance(500, 0.1, 0.5))


def gas(copies=1):
    """Grains that touch across the faces of a box of length 4, or the same twice side by side in one of 8."""
    rng = np.random.default_rng(2)
    lattice = np.stack(np.meshgrid(*(np.arange(4),) * 3, indexing="ij"), -1).reshape(-1, 3) + 0.25
    x, v = lattice + 0.03 * rng.standard_normal((64, 3)), rng.standard_normal((64, 3))
    spin = rng.standard_normal((64, 3))
    x = np.concatenate([x + np.array([4.0 * k, 0, 0]) for k in range(copies)])
    v, spin = (np.concatenate([a] * copies) for a in (v - v.mean(axis=0) + (3, 0, 0), spin))
    system = pt.Particles(1.0, 0.1, 0.99, x, contact=LAW, period=(4.0 * copies, 4.0, 4.0), skin=0.1)
    return system, system.start(x, v, spin)


def move(made, **options):
    return ph.simulate(made[0], "rodrigues", state0=made[1], **{"h": 1e-3, "t1": 1.5, "save_every": 250, **options})


@pytest.mark.exhaustive
def test_images_side_by_side_move_alike(tmp_path):
    """Grains pass through the box and their contacts' history with them; resumed runs are equal to the byte."""
    one, two = move(gas()), move(gas(2))
    x = np.asarray(one.state.x)
    assert np.ptp(x[-1] - x[0], axis=0).max() > 1.0
    assert (x[-1] - x[0]).mean(axis=0)[0] > 4.0
    both = np.asarray(two.state.x)[:4]
    np.testing.assert_allclose(both[:, :64], x[:4], atol=1e-9)
    np.testing.assert_allclose(both[:, 64:] - (4.0, 0, 0), x[:4], atol=1e-9)
    momentum = np.asarray(one.outputs["linear_momentum"])
    assert np.ptp(momentum, axis=0).max() < 1e-12
    assert min(float(lost[-1]) for lost in one.outputs["dissipation"].values()) > 0
    move(gas(), t1=0.6, store=tmp_path / "run")
    resumed = ph.resume(tmp_path / "run", t1=1.5, problem=gas()[0])
    for a, b in zip(resumed.state, one.state, strict=True):
        assert np.asarray(a)[-1].tobytes() == np.asarray(b)[-1].tobytes()


@pytest.mark.exhaustive
def test_periods_that_are_too_short_are_refused():
    x = np.array([[0.0, 0, 0], [1, 0, 0]])
    with pytest.raises(ValueError, match="touch two images"):
        pt.Particles(1.0, 0.1, 1.0, x, contact=LAW, period=(2.0, np.inf, np.inf))
    with pytest.raises(ValueError, match="three numbers greater than zero"):
        pt.Particles(1.0, 0.1, 1.0, x, contact=LAW, period=(2.0, 3.0))
    system = pt.Particles(1.0, 0.1, 1.0, x + np.array([0.1, 0, 0]), contact=LAW, period=(3.0, np.inf, 3.0))
    with pytest.raises(ValueError, match="overlap"):
        system.check(0.0, system.start(x * (2.5, 0, 0)))
