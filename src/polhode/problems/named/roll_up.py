"""A clamped rod that an end moment rolls up."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from polhode import checks
from polhode.forces import Torque
from polhode.model.model import Model
from polhode.problem import Reference
from polhode.problems._model_problem import ModelDraft
from polhode.problems._rods import equal_section, rod_problem
from polhode.problems.declaration import Count, Number, Positive, declare

_DOC = """A straight rod along e₁ without shear, clamped at its first node, is rolled up by a moment at its other end.

The constant moment 2π EI/L about e₂ bends the rod to a closed circle at rest, on every edge by the same angle. Suddenly
applied, and with much rotary inertia, it makes the rod pass that circle with overshoot; Kelvin–Voigt damping brings it
back.

Rod of the test "roll-up manoeuvre" in D. Tumiotto and co-authors, Half-explicit Runge–Kutta Lie group integrators for
constrained mechanical systems and beams, Figs. 9 to 12: N = 8, L = 10, ρA = 1, ρI = 10, C^K = 500, C^Γ = 1e4. The
damping is that of the authors' code, which adds 2 C_d ẇ to the stress with C_d = 50; some of its configurations have
100.
"""

_SOURCE = "independent integration in absolute coordinates with SciPy's DOP853 at 1e-13"
_TIP = {50.0: (4.446636931, 0.0, -3.468547040), 100.0: (5.308112301451, 0.0, -4.200304179856)}
"""Tip at t = 1, by damping."""


@declare("roll-up", _DOC)
def roll_up(
    n: Count = 8,
    formulation: str = "S3|xR3",
    damping: Number = 50.0,
    bending_stiffness: Positive = 500.0,
    axial_stiffness: Positive = 1e4,
    length: Positive = 10.0,
    mass: Any = 1.0,
    inertia: Positive = 10.0,
    constrained: Any = "kirchhoff",
    constrained_stress: bool = False,
    duration: Positive = 5.0,
) -> ModelDraft:
    """A clamped rod that an end moment rolls up.

    **Arguments**, in the paper's units:

    - `n`: number of edges.
    - `formulation`: coordinates, as in `Model.assemble`.
    - `damping`: C_d, of strain rates; the stress has the part 2 C_d ẇ.
    - `bending_stiffness`: C^K; all of it, of bending and torsion.
    - `axial_stiffness`: C^Γ; all of it, of shear and extension, unless constrained.
    - `length`: of the rod.
    - `mass`, `inertia`: per length.
    - `constrained`, `constrained_stress`: strains that are constrained away, as in `Model.add_rod`.
    - `duration`: end time.
    """
    model = Model()
    rod = model.add_rod(
        points=jnp.linspace(0.0, 1.0, n + 1)[:, None] * length * jnp.array([1.0, 0.0, 0.0]),
        section=equal_section(bending_stiffness, axial_stiffness, mass, inertia, damping),
        constrained=constrained,
        constrained_stress=constrained_stress,
        clamped="first",
        name="rod",
    )
    model.add(Torque(rod.last, 2 * jnp.pi * bending_stiffness / length * jnp.array([0.0, 1.0, 0.0])))

    return rod_problem(
        model,
        rod,
        h=2.0**-8,
        method="herk5",
        reference=_reference(damping),
        independent_of=("formulation", "damping", "constrained_stress", "duration"),
    )


def _reference(damping: Any) -> dict[str, Reference]:
    tip = _TIP.get(float(damping)) if checks.is_concrete(damping) else None
    return {} if tip is None else {"tip": {"t": 1.0, "value": tip, "error": 1e-9, "source": _SOURCE}}
