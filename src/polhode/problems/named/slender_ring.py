"""A free ring that vibrates in its plane."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.model.model import Model
from polhode.problem import Observable, Reference
from polhode.problems._model_problem import AssembledSystem, ModelDraft
from polhode.problems._rods import equal_section, rod_problem
from polhode.problems.declaration import Count, Number, Positive, declare
from polhode.systems.base import State

_DOC = """A closed rod, a free circle without stress in the plane of e₁ and e₂, vibrates in a flexural mode.

At the start every node is at its place, with radial velocity V cos kφ, tangential velocity -(V/k) sin kφ, and the
turning that keeps the ring without shear and extension. Small vibrations of a thin ring have the frequencies
ω_k² = EI/(ρA R⁴) k²(k² - 1)²/(k² + 1) (A. Love, A Treatise on the Mathematical Theory of Elasticity, §293;
S. Timoshenko, Vibration Problems in Engineering), so that the output `amplitude` is V/ω_k after a quarter of the
period, within a fraction of order 1/n², (V/(ω_k R))² and ρI/(ρA R²).
"""


@declare("slender-ring", _DOC)
def slender_ring(
    n: Count = 16,
    formulation: str = "S3|xR3",
    mode: Count = 2,
    speed: Number = 0.1,
    radius: Positive = 1.0,
    bending_stiffness: Positive = 1.0,
    axial_stiffness: Positive = 1e4,
    mass: Any = 1.0,
    inertia: Positive = 2.5e-4,
    damping: Number = 0.0,
    constrained: Any = "both",
    duration: Positive = 2.5,
) -> ModelDraft:
    """A free ring that vibrates in its plane.

    **Arguments**, in any consistent units:

    - `n`: number of edges.
    - `formulation`: coordinates, as in `Model.assemble`.
    - `mode`: waves around the ring; k, at least 2 and less than n/2.
    - `speed`: radial velocity at the start; V.
    - `radius`: of the ring; R.
    - `bending_stiffness`: C^K; EI, all of it, of bending and torsion.
    - `axial_stiffness`: C^Γ; all of it, of shear and extension, unless constrained.
    - `mass`, `inertia`: per length.
    - `damping`: C_d, of strain rates; the stress has the part 2 C_d ẇ.
    - `constrained`: strains that are constrained away, as in `Model.add_rod`.
    - `duration`: end time.
    """
    k = mode
    phi = 2 * np.pi * np.arange(n) / n
    outward = np.stack((np.cos(phi), np.sin(phi), 0 * phi), axis=1)
    velocity, angular_velocity = _flexure(n, k)
    model = Model()
    rod = model.add_rod(
        points=radius * outward,
        normal=(0.0, 0.0, 1.0),
        section=equal_section(bending_stiffness, axial_stiffness, mass, inertia, damping),
        reference="as-placed",
        constrained=constrained,
        closed=True,
        velocity=speed * velocity,
        angular_velocity=speed / radius * angular_velocity[:, None] * jnp.array([1.0, 0.0, 0.0]),
        name="ring",
    )

    def deflection(system: AssembledSystem) -> dict[str, Observable]:
        poses = rod.poses(system)

        def amplitude(t: Array, state: State) -> Float[Array, ""]:
            away = jnp.sum(poses(t, state).x * outward, axis=1) - radius
            return 2 / n * away @ np.cos(k * phi)

        return {"amplitude": amplitude}

    numbers = speed, radius, bending_stiffness, mass, inertia, damping
    reference = _reference(n, k, *numbers) if constrained == "both" else {}
    return rod_problem(model, rod, deflection, trail="head", h=5e-3, reference=reference)


def _flexure(n: int, k: int) -> tuple[Float[np.ndarray, "n 3"], Float[np.ndarray, " n"]]:
    r"""Velocities of the nodes and their rates of turning for V = R = 1, without shear and extension of any edge.

    In the complex plane an edge whose tangents enclose the angle Δ leads by $\Delta s\,f(\Delta)\,e^{i\psi}$,
    f(Δ) = sin(Δ/2)/(Δ/2), along the mean ψ of their directions. Turning rates of two and more waves leave the ring
    closed.
    """
    if not 2 <= k < n / 2:
        raise ValueError(
            f"`mode` must be at least 2 and less than n/2 = {n / 2:g}, got {k}: mode 1 is a translation, and n edges "
            "can't show shorter waves."
        )
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


def _reference(n: int, k: int, *numbers: Any) -> dict[str, Reference]:
    """A quarter of the period of small vibrations, where they are small and the ring is thin."""
    if not checks.is_concrete(numbers):
        return {}
    speed, R, EI, mass, inertia, damping = (float(number) for number in numbers)
    omega = np.sqrt(EI / (mass * R**4) * k**2 * (k**2 - 1) ** 2 / (k**2 + 1))
    size = speed / omega
    if damping or abs(size) > 0.05 * R or inertia > 1e-3 * mass * R**2:
        return {}
    error = abs(size) * (k**2 * (inertia / (mass * R**2) + (size / R) ** 2) + 3 * k**2 / n**2)
    source = "A. Love, Treatise on the Mathematical Theory of Elasticity, §293: thin ring, small vibrations"
    return {
        "amplitude": {"t": float(0.5 * np.pi / omega), "value": float(size), "error": float(error), "source": source}
    }
