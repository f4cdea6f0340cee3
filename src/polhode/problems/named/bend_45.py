"""A rod bent to an eighth of a circle, with a force out of its plane."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from polhode import checks
from polhode.forces import PointForce
from polhode.model.model import Model
from polhode.problem import Problem, Reference
from polhode.problems._model_problem import model_problem, same_numbers
from polhode.problems._rods import outputs_and_scene
from polhode.problems.registry import register
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

Parameters: `n`, `formulation`, `load` (P), `radius` (R), `angle`, `side`, `youngs_modulus`, `shear_modulus`, `density`,
`damping` (C_d), `duration`. Units as in the paper (inch, pound).
"""

_SOURCE = "J. C. Simo & L. Vu-Quoc (1986), static, 8 linear elements"
_TIPS = {300.0: (22.33, 58.84, 40.08), 450.0: (18.62, 52.32, 48.39), 600.0: (15.79, 47.23, 53.37)}


@register("bend-45")
def bend_45(
    n: int = 8,
    formulation: str = "S3|xR3",
    load: Any = 600.0,
    radius: Any = 100.0,
    angle: Any = math.pi / 4,
    side: Any = 1.0,
    youngs_modulus: Any = 1e7,
    shear_modulus: Any = 5e6,
    density: Any = 1.0,
    damping: Any = 0.0,
    duration: Any = 10.0,
) -> Problem:
    """A curved rod with a force out of its plane.

    **Arguments:**

    - `n`: number of edges.
    - `formulation`: coordinates, as in `Model.assemble`.
    - `load`: P, towards e₃.
    - `radius`, `angle`: R, and the part of the circle, rad.
    - `side`: of the square section.
    - `youngs_modulus`, `shear_modulus`: E and G.
    - `density`: mass per volume.
    - `damping`: C_d; the stress has the part 2 C_d ẇ.
    - `duration`: end time.
    """
    return _make(dict(locals()))


def _make(p: Mapping[str, Any], redundant: Any = "error") -> Problem:
    n = checks.count("n", p["n"], "number of edges")
    checks.positive("duration", p["duration"], (), "end time")
    radius = checks.positive("radius", p["radius"], (), "of the circle")
    angle = checks.positive("angle", p["angle"], (), "part of the circle, rad")
    load = checks.array("load", p["load"], (), "force on the tip towards e3")
    angles = jnp.linspace(0.0, 1.0, n + 1) * angle
    model = Model()
    rod = model.add_rod(
        points=radius * jnp.stack((1 - jnp.cos(angles), jnp.sin(angles), jnp.zeros(n + 1)), axis=1),
        normal=(0.0, 0.0, 1.0),
        section=_section(p),
        reference="as-placed",
        clamped="first",
        name="rod",
    )
    model.add(PointForce(rod.last, load * jnp.array([0.0, 0.0, 1.0]), name="load"))

    return model_problem(
        "bend-45",
        _make,
        p,
        model,
        redundant,
        *outputs_and_scene(rod),
        doc=_DOC,
        h=0.01,
        reference=_reference(p),
    )


def _section(p: Mapping[str, Any]) -> Section:
    """EI = Ea⁴/12, GJ = Ga⁴/6, no shear correction: the numbers of the references, not of `rods.rectangle`."""
    a: Array = checks.positive("side", p["side"], (), "of the square section")
    E = checks.positive("youngs_modulus", p["youngs_modulus"], (), "force per area")
    G = checks.positive("shear_modulus", p["shear_modulus"], (), "force per area")
    rho = checks.positive("density", p["density"], (), "mass per volume")
    area, second = a**2, a**4 / 12
    stiffness = jnp.stack((E * second, E * second, 2 * G * second, G * area, G * area, E * area))
    inertia = rho * second * jnp.array([1.0, 1.0, 2.0])
    return Section(stiffness, rho * area, inertia, 2 * jnp.asarray(p["damping"], dtype=float), 0.5 * a)


def _reference(p: Mapping[str, Any]) -> dict[str, Reference]:
    if not same_numbers(p, _DEFAULTS, ()) or not checks.is_concrete(p["load"]):
        return {}
    tip = _TIPS.get(float(p["load"]))
    return {} if tip is None else {"tip": {"t": math.inf, "value": tip, "error": 0.5, "source": _SOURCE}}


_DEFAULTS = {"radius": 100.0, "angle": math.pi / 4, "side": 1.0, "youngs_modulus": 1e7, "shear_modulus": 5e6}
