"""A rod bent to an eighth of a circle, with a force out of its plane."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from polhode import checks
from polhode.forces import PointForce
from polhode.model.model import Model
from polhode.problem import Reference
from polhode.problems._model_problem import ModelDraft
from polhode.problems._rods import rod_problem
from polhode.problems.declaration import Count, NotNegative, Number, Positive, declare
from polhode.rods.section import Section

_DOC = """A rod that is an eighth of a circle without stress, clamped at its first node, is bent out of its plane.

The circle has its centre at (R, 0, 0); the rod starts at the origin along e₂ and carries the force P e₃ on its end,
which bends and twists it. The 45° bend of K.-J. Bathe & S. Bolourchi, Large displacement analysis of three-dimensional
beam structures, Int. J. Numer. Methods Eng. 14 (1979), 961-986: R = 100, square section of side 1, E = 1e7, G = 5e6.
References are static positions of the tip (t = ∞, for `polhode.equilibrium`) from J. C. Simo & L. Vu-Quoc, A
three-dimensional finite-strain rod model, part II, Comput. Methods Appl. Mech. Eng. 58 (1986), 79-116, who take
GJ = G/6 and the whole section in shear; other authors differ by up to 1 %.

The test is static; the density is chosen. From rest under the whole force the rod swings about the static shape, and
keeps its energy without damping.
"""

_SOURCE = "J. C. Simo & L. Vu-Quoc (1986), static, 8 linear elements"
_TIPS = {300.0: (22.33, 58.84, 40.08), 450.0: (18.62, 52.32, 48.39), 600.0: (15.79, 47.23, 53.37)}


@declare("bend-45", _DOC)
def bend_45(
    n: Count = 8,
    formulation: str = "S3|xR3",
    load: Number = 600.0,
    radius: Positive = 100.0,
    angle: Positive = math.pi / 4,
    side: Positive = 1.0,
    youngs_modulus: Positive = 1e7,
    shear_modulus: Positive = 5e6,
    density: Positive = 1.0,
    damping: NotNegative = 0.0,
    duration: Positive = 10.0,
) -> ModelDraft:
    """A curved rod with a force out of its plane.

    **Arguments**, in the paper's units (inch, pound):

    - `n`: number of edges.
    - `formulation`: coordinates, as in `Model.assemble`.
    - `load`: force on the tip towards e3; P.
    - `radius`: of the circle; R.
    - `angle`: part of the circle, rad.
    - `side`: of the square section.
    - `youngs_modulus`, `shear_modulus`: force per area; E and G.
    - `density`: mass per volume.
    - `damping`: C_d; the stress has the part 2 C_d ẇ.
    - `duration`: end time.
    """
    angles = jnp.linspace(0.0, 1.0, n + 1) * angle
    model = Model()
    rod = model.add_rod(
        points=radius * jnp.stack((1 - jnp.cos(angles), jnp.sin(angles), jnp.zeros(n + 1)), axis=1),
        normal=(0.0, 0.0, 1.0),
        section=_section(side, youngs_modulus, shear_modulus, density, damping),
        reference="as-placed",
        clamped="first",
        name="rod",
    )
    model.add(PointForce(rod.last, load * jnp.array([0.0, 0.0, 1.0]), name="load"))

    return rod_problem(
        model,
        rod,
        h=0.01,
        reference=_reference(load),
        independent_of=("n", "formulation", "load", "density", "damping", "duration"),
    )


def _section(a: Array, E: Array, G: Array, rho: Array, damping: Array) -> Section:
    """EI = Ea⁴/12, GJ = Ga⁴/6, no shear correction: the numbers of the references, not of `rods.rectangle`."""
    area, second = a**2, a**4 / 12
    stiffness = jnp.stack((E * second, E * second, 2 * G * second, G * area, G * area, E * area))
    inertia = rho * second * jnp.array([1.0, 1.0, 2.0])
    return Section(stiffness, rho * area, inertia, 2 * damping, 0.5 * a)


def _reference(load: Any) -> dict[str, Reference]:
    tip = _TIPS.get(float(load)) if checks.is_concrete(load) else None
    return {} if tip is None else {"tip": {"t": math.inf, "value": tip, "error": 0.5, "source": _SOURCE}}
