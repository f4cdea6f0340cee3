"""A free ring that vibrates in its plane."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.model.model import Model
from polhode.problem import Observable, Problem, Reference
from polhode.problems._model_problem import AssembledSystem, model_problem
from polhode.problems._rods import rod_outputs, rod_scene
from polhode.problems.named.roll_up import material
from polhode.problems.registry import register
from polhode.systems.base import State
from polhode.viewing.scene import scene

_DOC = """A closed rod, a free circle without stress in the plane of e₁ and e₂, vibrates in a flexural mode.

At the start every node is at its place, with radial velocity V cos kφ, tangential velocity -(V/k) sin kφ, and the
turning that keeps the ring without shear and extension. Small vibrations of a thin ring have the frequencies
ω_k² = EI/(ρA R⁴) k²(k² - 1)²/(k² + 1) (A. Love, A Treatise on the Mathematical Theory of Elasticity, §293;
S. Timoshenko, Vibration Problems in Engineering), so that the output `amplitude` is V/ω_k after a quarter of the
period, within a fraction of order 1/n², (V/(ω_k R))² and ρI/(ρA R²).

Parameters: `n`, `formulation`, `mode` (k, from 2), `speed` (V), `radius` (R), `bending_stiffness` (all of C^K, EI),
`axial_stiffness` (all of C^Γ, unless constrained), `mass` and `inertia` (per length), `damping` (C_d), `constrained`,
`duration`. Any consistent units.
"""


@register("slender-ring")
def slender_ring(
    n: int = 16,
    formulation: str = "S3|xR3",
    mode: int = 2,
    speed: Any = 0.1,
    radius: Any = 1.0,
    bending_stiffness: Any = 1.0,
    axial_stiffness: Any = 1e4,
    mass: Any = 1.0,
    inertia: Any = 2.5e-4,
    damping: Any = 0.0,
    constrained: Any = "both",
    duration: Any = 2.5,
) -> Problem:
    """A free ring that vibrates in its plane.

    **Arguments:**

    - `n`: number of edges.
    - `formulation`: coordinates, as in `Model.assemble`.
    - `mode`: number k of waves around the ring, at least 2 and less than n/2.
    - `speed`: V, radial velocity at the start.
    - `radius`: R.
    - `bending_stiffness`, `axial_stiffness`: C^K of bending and torsion, C^Γ of shear and extension.
    - `mass`, `inertia`: per length.
    - `damping`: C_d; the stress has the part 2 C_d ẇ.
    - `constrained`: strains that are constrained away, as in `Model.add_rod`.
    - `duration`: end time.
    """
    return _make(dict(locals()))


def _make(p: Mapping[str, Any], redundant: Any = "error") -> Problem:
    n = checks.count("n", p["n"], "number of edges")
    k = checks.count("mode", p["mode"], "waves around the ring")
    if not 2 <= k < n / 2:
        raise ValueError(
            f"`mode` must be at least 2 and less than n/2 = {n / 2:g}, got {k}: mode 1 is a translation, and n edges "
            "can't show shorter waves."
        )
    checks.positive("duration", p["duration"], (), "end time")
    radius = checks.positive("radius", p["radius"], (), "of the ring")
    phi = 2 * np.pi * np.arange(n) / n
    outward = np.stack((np.cos(phi), np.sin(phi), 0 * phi), axis=1)
    speed = checks.array("speed", p["speed"], (), "radial velocity at the start")
    velocity, angular_velocity = _flexure(n, k)
    model = Model()
    rod = model.add_rod(
        points=radius * outward,
        normal=(0.0, 0.0, 1.0),
        section=material(p),
        reference="as-placed",
        constrained=p["constrained"],
        closed=True,
        velocity=speed * velocity,
        angular_velocity=speed / radius * angular_velocity[:, None] * jnp.array([1.0, 0.0, 0.0]),
        name="ring",
    )

    def outputs(system: AssembledSystem) -> dict[str, Observable]:
        poses = rod.poses(system)

        def amplitude(t: Array, state: State) -> Float[Array, ""]:
            away = jnp.sum(poses(t, state).x * outward, axis=1) - radius
            return 2 / n * away @ np.cos(k * phi)

        return {**rod_outputs(system, rod), "amplitude": amplitude}

    def parts(system: AssembledSystem) -> tuple[scene.Body | scene.Line | scene.Trail, ...]:
        return rod_scene(outputs(system), rod, "head")

    return model_problem(
        "slender-ring",
        _make,
        p,
        model,
        redundant,
        outputs,
        parts,
        doc=_DOC,
        h=5e-3,
        reference=_reference(p),
    )


def _flexure(n: int, k: int) -> tuple[Float[np.ndarray, "n 3"], Float[np.ndarray, " n"]]:
    r"""Velocities of the nodes and their rates of turning for V = R = 1, without shear and extension of any edge.

    In the complex plane an edge whose tangents enclose the angle Δ leads by $\Delta s\,f(\Delta)\,e^{i\psi}$,
    f(Δ) = sin(Δ/2)/(Δ/2), along the mean ψ of their directions. Turning rates of two and more waves leave the ring
    closed.
    """
    phi = 2 * np.pi * np.arange(n) / n
    rate, half = np.sin(k * phi), np.pi / n
    after = np.roll(rate, -1)
    f = np.sin(half) / half
    slope = 0.5 * (np.cos(half) / half - np.sin(half) / half**2)
    direction = 1j * np.exp(1j * (phi + half))
    edges = 2 * half * (slope * (after - rate) + 0.5j * f * (after + rate)) * direction
    z = np.concatenate(([0.0], np.cumsum(edges)[:-1]))
    z = z - np.mean(z)
    speed = 2 / n * np.real(z * np.exp(-1j * phi)) @ np.cos(k * phi)
    return np.stack((z.real, z.imag, 0 * phi), axis=1) / speed, rate / speed


def _reference(p: Mapping[str, Any]) -> dict[str, Reference]:
    """A quarter of the period of small vibrations, where they are small and the ring is thin."""
    numbers = [p[name] for name in ("speed", "radius", "bending_stiffness", "mass", "inertia", "damping")]
    if p["constrained"] != "both" or not checks.is_concrete(numbers):
        return {}
    speed, R, EI, mass, inertia, damping = (float(number) for number in numbers)
    k = p["mode"]
    omega = np.sqrt(EI / (mass * R**4) * k**2 * (k**2 - 1) ** 2 / (k**2 + 1))
    size = speed / omega
    if damping or abs(size) > 0.05 * R or inertia > 1e-3 * mass * R**2:
        return {}
    error = abs(size) * (k**2 * (inertia / (mass * R**2) + (size / R) ** 2) + 3 * k**2 / p["n"] ** 2)
    source = "A. Love, Treatise on the Mathematical Theory of Elasticity, §293: thin ring, small vibrations"
    return {
        "amplitude": {"t": float(0.5 * np.pi / omega), "value": float(size), "error": float(error), "source": source}
    }
