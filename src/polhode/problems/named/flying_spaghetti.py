"""A free rod that is pushed and turned at one end."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from polhode.forces import PointForce, Torque
from polhode.model.model import Model
from polhode.problem import Observable, Reference
from polhode.problems._model_problem import AssembledSystem, ModelDraft
from polhode.problems._rods import Tent, equal_section, linear_momentum, rod_problem
from polhode.problems.declaration import Count, Number, Positive, declare

_DOC = """A free straight rod without shear, from (6, 0, 0) to (0, 8, 0), is pushed and turned at its first node.

The force g(t) (1/10, 0, 0) and the moment g(t) (0, -1/2, -1), both inertial, act on node 0; g rises to 200 at t = 2.5
and falls to 0 at t = 5. The motion is in space. At t = 5 the linear momentum is (50, 0, 0) and the centre of mass at
(15.5, 4, 0).

The "flying spaghetti" of J. C. Simo & L. Vu-Quoc (1988) as used by D. Tumiotto and co-authors, Half-explicit
Runge–Kutta Lie group integrators for constrained mechanical systems and beams, equation (24) and Figs. 9 to 11: N = 16,
L = 10, ρA = 1, ρI = 10, C^K = 500, C^Γ = 1e4, no damping.
"""

_REFERENCE: dict[str, Reference] = {
    "tip": {
        "t": 1.0,
        "value": (0.119376245475, 7.975109412123, -0.017197969555),
        "error": 1e-11,
        "source": "independent integration in absolute coordinates with SciPy's DOP853 at 1e-13",
    }
}


@declare("flying-spaghetti", _DOC)
def flying_spaghetti(
    n: Count = 16,
    formulation: str = "S3|xR3",
    damping: Number = 0.0,
    bending_stiffness: Positive = 500.0,
    axial_stiffness: Positive = 1e4,
    mass: Any = 1.0,
    inertia: Positive = 10.0,
    load: Number = 200.0,
    constrained: Any = "kirchhoff",
    constrained_stress: bool = False,
    duration: Positive = 5.0,
) -> ModelDraft:
    """A free rod that is pushed and turned at one end.

    **Arguments**, in the paper's units:

    - `n`: number of edges.
    - `formulation`: coordinates, as in `Model.assemble`.
    - `damping`: C_d, of strain rates; the stress has the part 2 C_d ẇ.
    - `bending_stiffness`: C^K; all of it, of bending and torsion.
    - `axial_stiffness`: C^Γ; all of it, of shear and extension, unless constrained.
    - `mass`, `inertia`: per length.
    - `load`: greatest value of g.
    - `constrained`, `constrained_stress`: strains that are constrained away, as in `Model.add_rod`.
    - `duration`: end time.
    """
    model = Model()
    s = jnp.linspace(0.0, 1.0, n + 1)[:, None]
    rod = model.add_rod(
        points=(1 - s) * jnp.array([6.0, 0.0, 0.0]) + s * jnp.array([0.0, 8.0, 0.0]),
        section=equal_section(bending_stiffness, axial_stiffness, mass, inertia, damping),
        constrained=constrained,
        constrained_stress=constrained_stress,
        name="rod",
    )
    middle = jnp.asarray(2.5)
    model.add(PointForce(rod.first, Tent(jnp.array([0.1, 0.0, 0.0]), load, middle)))
    model.add(Torque(rod.first, Tent(jnp.array([0.0, -0.5, -1.0]), load, middle)))

    def momentum(system: AssembledSystem) -> dict[str, Observable]:
        return {"linear_momentum": linear_momentum(system, model.bodies)}

    return rod_problem(
        model,
        rod,
        momentum,
        h=2.0**-8,
        method="herk5",
        reference=_REFERENCE,
        independent_of=("formulation", "constrained_stress", "duration"),
    )
