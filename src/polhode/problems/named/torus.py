"""A ring of bonded particles thrown against a wall."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from polhode import checks
from polhode.checks import short_repr
from polhode.particles import BondMaterial, Particles, Plane, builders
from polhode.problems._particles import particle_draft
from polhode.problems.declaration import Draft, NotNegative, Number, Positive, declare

_DOC = """A closed chain of bonded spheres in the plane of e₁ and e₂ flies against the wall x = 0 and bounces off.

Source: C. Baker & M. Gonzalez, *Explicit variational time integrator based on rescaled Rodrigues parameters*, the
particle-binder system: n = 80, m = J = 1, diameter of the ring 3, of the particles 3 sin(π/n), K^m = 10,
K^a = K^s = 200, K^pp = 2100, v = (-1, 0, 0). Not given there: the plane of the ring, its distance from the wall (here
it touches at t = 0, two particles at a time) and the wall's law (here that of contacts with half a diameter). Contacts
act between bonded particles as well.

Bonds stretch with frequencies of up to 2 √K^a/D_p = 240, so that explicit steps must be below 8.3e-3: the paper's 1e-2
diverges at once. With ten times the diameter (`diameter=30`) its steps and claims hold.

The law of shear that the paper prints (`shear="literal"`) keeps ΣJΩ, but a rigid rotation costs energy; "objective"
keeps Σ(x × mv + JΩ).
"""


@declare("torus", _DOC)
def torus(
    n: int = 80,
    shear: str = "objective",
    wall: bool = True,
    diameter: Any = 3.0,
    bending: NotNegative = 10.0,
    axial: NotNegative = 200.0,
    shearing: NotNegative = 200.0,
    contact: NotNegative = 2100.0,
    speed: Number = 1.0,
    duration: Positive = 10.0,
    dtype: str = "float64",
) -> Draft:
    """The ring of particles against a wall.

    **Arguments**, in any consistent units:

    - `n`: number of particles.
    - `shear`: "objective" or "literal".
    - `wall`: whether there is one at x = 0.
    - `diameter`: of the circle of their centres.
    - `bending`, `axial`, `shearing`: K^m, K^a and K^s of the bonds; energies.
    - `contact`: K^pp of particles and wall; an energy.
    - `speed`: speed towards the wall.
    - `duration`: end time.
    - `dtype`: "float64" or "float32".
    """
    checks.choice("shear", shear, ("objective", "literal"))
    if not isinstance(wall, bool | np.bool_):
        raise ValueError(f"`wall` must be True or False (whether there is one), got {short_repr(wall)}.")
    ring = builders.torus(n, diameter)
    reach = 0.5 * ring.diameters[0] - ring.positions[:, 0].min()
    x = ring.positions + np.array([reach, 0.0, 0.0])
    system = Particles(
        1.0,
        1.0,
        ring.diameters,
        x,
        ring.pairs,
        BondMaterial(bending, axial, shearing),
        shear=shear,  # pyrefly: ignore[bad-argument-type]
        contact=contact,
        bonded_contacts=True,
        skin=0.6,
        walls=(Plane((0.0, 0.0, 0.0), (1.0, 0.0, 0.0)),) if wall else (),
        dtype=dtype,
    )
    state0 = system.start(x, jnp.stack((-speed, jnp.zeros(()), jnp.zeros(()))))
    return particle_draft(system, state0, h=1e-3)
