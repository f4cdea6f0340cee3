"""A clamped rod that an end moment rolls up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from polhode import checks
from polhode.forces import Torque
from polhode.model.model import Model
from polhode.problem import Problem, Reference
from polhode.problems._model_problem import model_problem, same_numbers
from polhode.problems._rods import outputs_and_scene
from polhode.problems.registry import register
from polhode.rods.section import Section

_DOC = """A straight rod along e₁ without shear, clamped at its first node, is rolled up by a moment at its other end.

The constant moment 2π EI/L about e₂ bends the rod to a closed circle at rest, on every edge by the same angle. Suddenly
applied, and with much rotary inertia, it makes the rod pass that circle with overshoot; Kelvin–Voigt damping brings it
back.

Rod of the test "roll-up manoeuvre" in D. Tumiotto and co-authors, Half-explicit Runge–Kutta Lie group integrators for
constrained mechanical systems and beams, Figs. 9 to 12: N = 8, L = 10, ρA = 1, ρI = 10, C^K = 500, C^Γ = 1e4. The
damping is that of the authors' code, which adds 2 C_d ẇ to the stress with C_d = 50; some of its configurations have
100.

Parameters: `n`, `formulation`, `damping` (C_d), `bending_stiffness` (all of C^K), `axial_stiffness` (all of C^Γ),
`length`, `mass` and `inertia` (per length), `constrained`, `constrained_stress`, `duration`. Units as in the paper.
"""

_SOURCE = "independent integration in absolute coordinates with SciPy's DOP853 at 1e-13"
_TIP = {50.0: (4.446636931, 0.0, -3.468547040), 100.0: (5.308112301451, 0.0, -4.200304179856)}
"""Tip at t = 1, by damping."""


@register("roll-up")
def roll_up(
    n: int = 8,
    formulation: str = "S3|xR3",
    damping: Any = 50.0,
    bending_stiffness: Any = 500.0,
    axial_stiffness: Any = 1e4,
    length: Any = 10.0,
    mass: Any = 1.0,
    inertia: Any = 10.0,
    constrained: Any = "kirchhoff",
    constrained_stress: bool = False,
    duration: Any = 5.0,
) -> Problem:
    """A clamped rod that an end moment rolls up.

    **Arguments:**

    - `n`: number of edges.
    - `formulation`: coordinates, as in `Model.assemble`.
    - `damping`: C_d; the stress has the part 2 C_d ẇ.
    - `bending_stiffness`, `axial_stiffness`: C^K of bending and torsion, C^Γ of shear and extension.
    - `length`: of the rod.
    - `mass`, `inertia`: per length.
    - `constrained`, `constrained_stress`: strains that are constrained away, as in `Model.add_rod`.
    - `duration`: end time.
    """
    return _make(dict(locals()))


def _make(p: Mapping[str, Any], redundant: Any = "error") -> Problem:
    n = checks.count("n", p["n"], "number of edges")
    checks.positive("duration", p["duration"], (), "end time")
    length = checks.positive("length", p["length"], (), "of the rod")
    model = Model()
    rod = model.add_rod(
        points=jnp.linspace(0.0, 1.0, n + 1)[:, None] * length * jnp.array([1.0, 0.0, 0.0]),
        section=material(p),
        constrained=p["constrained"],
        constrained_stress=p["constrained_stress"],
        clamped="first",
        name="rod",
    )
    model.add(Torque(rod.last, 2 * jnp.pi * p["bending_stiffness"] / length * jnp.array([0.0, 1.0, 0.0])))

    return model_problem(
        "roll-up",
        _make,
        p,
        model,
        redundant,
        *outputs_and_scene(rod),
        doc=_DOC,
        h=2.0**-8,
        reference=_reference(p),
        method="herk5",
    )


def material(p: Mapping[str, Any]) -> Section:
    """The section with equal numbers for all directions that both published tests have."""
    K, G = (
        checks.positive(name, p[name], (), symbol) * jnp.ones(3)
        for name, symbol in (("bending_stiffness", "C^K"), ("axial_stiffness", "C^Γ"))
    )
    inertia = checks.positive("inertia", p["inertia"], (), "per length") * jnp.ones(3)
    damping = checks.array("damping", p["damping"], (), "C_d, of strain rates")
    return Section(jnp.concatenate((K, G)), p["mass"], inertia, damping=2 * damping)


def _reference(p: Mapping[str, Any]) -> dict[str, Reference]:
    apart = ("formulation", "damping", "duration")
    usual = same_numbers(p, _DEFAULTS, apart) and p["constrained"] == "kirchhoff" and checks.is_concrete(p["damping"])
    if not usual:
        return {}
    tip = _TIP.get(float(p["damping"]))
    return {} if tip is None else {"tip": {"t": 1.0, "value": tip, "error": 1e-9, "source": _SOURCE}}


_DEFAULTS = {
    "n": 8,
    "bending_stiffness": 500.0,
    "axial_stiffness": 1e4,
    "length": 10.0,
    "mass": 1.0,
    "inertia": 10.0,
}
