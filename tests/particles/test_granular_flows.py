"""What many grains do together: Janssen's silo, Beverloo's hopper, and the slope in a drum that turns."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy

import polhode as ph
from polhode import particles as pt

D, DENSITY, G, MU = 0.01, 2500.0, 9.81, 0.5
M = DENSITY * np.pi / 6 * D**3
J = 0.1 * M * D**2
K = 2e3
LAW = pt.ContactLaw(pt.Hooke(K, 0.4), pt.TangentialSpring(K * 2 / 7, MU, 0.2))
H = 0.1 * np.sqrt(M / K)


def column(n, radius, low=D):
    """Loose layers of n grains in a cylinder, a little disordered."""
    rng = np.random.default_rng(0)
    grid = np.arange(-radius + 0.6 * D, radius, 1.08 * D)
    layer = np.stack(np.meshgrid(grid, grid, indexing="ij"), -1).reshape(-1, 2)
    layer = layer[np.hypot(*layer.T) < radius - 0.56 * D]
    z = low + 1.08 * D * np.arange(-(-n // len(layer)))
    x = np.concatenate([np.column_stack((layer, np.full(len(layer), a))) for a in z])[:n]
    return x + 0.03 * D * rng.uniform(-1, 1, x.shape)


def run(system, state, t1, frames, h=H):
    steps = round(t1 / h / frames) * frames
    return ph.simulate(system, "rodrigues", state0=state, t1=steps * h, h=h, save_every=steps // frames)


@pytest.mark.exhaustive
def test_the_pressure_in_a_silo_saturates_as_janssen_says():
    """Walls that rise slowly carry grains: dσ/dz = -ρg + 2τ/R with τ = μ'Kσ has σ = ρgλ(1 - exp(-z/λ)), λ = R/(2μ'K).

    The friction μ' that walls have is taken from their work, since balls roll along them; K from the stresses.
    """
    R, speed = 3 * D, 0.02
    x = column(340, R)
    tube = pt.MovingWall(pt.Cylinder(R), lambda t: (0.0, 0.0, speed * jnp.clip(10 * (t - 0.35), 0, 1)))
    system = heap(x, pt.Plane(), tube, contact_outputs=True)
    motion = run(system, system.start(x), 0.8, 160)
    t, work = np.asarray(motion.t), np.asarray(motion.outputs["wall_work"])
    late = np.flatnonzero(t > 0.55)
    z, moments = np.asarray(motion.state.x)[late, :, 2], np.asarray(motion.outputs["force_moments"])[late]
    edges = np.linspace(D, 0.8 * z.max(), 9)
    volume = np.pi * R**2 * np.diff(edges) * len(late)
    which = np.digitize(z, edges) - 1
    sums = lambda values: np.array([values[which == k].sum(axis=0) for k in range(8)])  # noqa: E731
    sigma, unit = -sums(moments) / volume[:, None, None], np.mean(G * M * sums(np.ones_like(z)) / volume)
    down, aside = sigma[:, 2, 2], 0.5 * (sigma[:, 0, 0] + sigma[:, 1, 1])

    def pressure(height, length, top):
        return unit * length * (1 - np.exp(-(top - height) / length))

    (length, top), _ = scipy.optimize.curve_fit(pressure, 0.5 * (edges[1:] + edges[:-1]), down, (0.05, z.max()))
    np.testing.assert_allclose(down, pressure(0.5 * (edges[1:] + edges[:-1]), length, top), rtol=0.12)
    assert top == pytest.approx(z.max(), rel=0.05)
    # Less than half of what a liquid of that weight would press with.
    assert down[0] < 0.5 * unit * top
    carried = (work[late[-1]] - work[late[0]]) / (t[late[-1]] - t[late[0]]) / speed
    mean = np.mean(pressure(np.linspace(0, top, 200), length, top))
    ratio = np.mean(aside / down)
    friction = carried / (2 * np.pi * R * top) / (ratio * mean)
    assert friction < MU
    assert length == pytest.approx(R / (2 * friction * ratio), rel=0.2)
    assert np.ptp(motion.invariants["energy_balance"]) < 1e-11 * work[-1]


def annulus(inner, outer, segments=24):
    """A plane ring of triangles."""
    angle, k = 2 * np.pi / segments * np.arange(segments), np.arange(segments)
    ring = np.stack((np.cos(angle), np.sin(angle), 0 * angle), axis=1)
    after = (k + 1) % segments
    triangles = np.stack((k, after, k + segments), axis=1), np.stack((after, after + segments, k + segments), axis=1)
    return pt.Mesh(np.concatenate((inner * ring, outer * ring)), np.concatenate(triangles))


def flow(orifice, n=750, R=5 * D):
    """Grains per time through an orifice of this diameter in a floor, and the density above; grains leave below it."""
    x = column(n, R)
    system = heap(x, annulus(0.5 * orifice, R + D), pt.Cylinder(R), outlets=(pt.Plane((0, 0, -2 * D)),))
    motion = run(system, system.start(x), 0.45, 18)
    z, t = np.asarray(motion.state.x)[:, :, 2], np.asarray(motion.t)
    flows = t > 0.2
    inside = (z > 2 * D) & (z < 4 * D)
    density = M * np.mean(np.sum(inside[flows], axis=1)) / (np.pi * R**2 * 2 * D)
    assert np.ptp(motion.invariants["energy_balance"]) < 1e-11 * motion.outputs["dissipation"]["sliding"][-1]
    return np.polyfit(t[flows], np.sum(z < 0, axis=1)[flows], 1)[0], density


@pytest.mark.exhaustive
def test_hoppers_flow_as_beverloo_says():
    """W = C ρ√g (D₀ - kd)^{5/2} with the usual C = 0.58 and k = 1.4."""
    sizes = D * np.array([4.5, 6.0])
    rates, densities = np.array([flow(size) for size in sizes]).T
    free = sizes - 1.4 * D
    np.testing.assert_allclose(M * rates, 0.58 * densities * np.sqrt(G) * free**2.5, rtol=0.15)
    assert np.log(rates[1] / rates[0]) / np.log(free[1] / free[0]) == pytest.approx(2.5, abs=0.3)


def heap(x, *walls, law=LAW, **options):
    return pt.Particles(M, J, D, x, contact=law, walls=walls, gravity=(0, 0, -G), **options)
