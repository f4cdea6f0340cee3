"""A free rod that is pushed and turned at one end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from polhode import checks
from polhode.forces import PointForce, Torque
from polhode.model.model import Model
from polhode.problem import Observable, Problem, Reference
from polhode.problems._model_problem import AssembledSystem, model_problem, same_numbers
from polhode.problems._rods import Tent, linear_momentum, rod_outputs, rod_scene
from polhode.problems.named.roll_up import material
from polhode.problems.registry import register
from polhode.viewing.scene import scene

_DOC = """A free straight rod without shear, from (6, 0, 0) to (0, 8, 0), is pushed and turned at its first node.

The force g(t) (1/10, 0, 0) and the moment g(t) (0, -1/2, -1), both inertial, act on node 0; g rises to 200 at t = 2.5
and falls to 0 at t = 5. The motion is in space. At t = 5 the linear momentum is (50, 0, 0) and the centre of mass at
(15.5, 4, 0).

The "flying spaghetti" of J. C. Simo & L. Vu-Quoc (1988) as used by D. Tumiotto and co-authors, Half-explicit
Runge–Kutta Lie group integrators for constrained mechanical systems and beams, equation (24) and Figs. 9 to 11: N = 16,
L = 10, ρA = 1, ρI = 10, C^K = 500, C^Γ = 1e4, no damping.

Parameters: `n`, `formulation`, `damping` (C_d), `bending_stiffness` (all of C^K), `axial_stiffness` (all of C^Γ),
`mass` and `inertia` (per length), `load` (greatest g), `constrained`, `constrained_stress`, `duration`.
Units as in the paper.
"""

_TIP = (0.119376245475, 7.975109412123, -0.017197969555)


@register("flying-spaghetti")
def flying_spaghetti(
    n: int = 16,
    formulation: str = "S3|xR3",
    damping: Any = 0.0,
    bending_stiffness: Any = 500.0,
    axial_stiffness: Any = 1e4,
    mass: Any = 1.0,
    inertia: Any = 10.0,
    load: Any = 200.0,
    constrained: Any = "kirchhoff",
    constrained_stress: bool = False,
    duration: Any = 5.0,
) -> Problem:
    """A free rod that is pushed and turned at one end.

    **Arguments:**

    - `n`: number of edges.
    - `formulation`: coordinates, as in `Model.assemble`.
    - `damping`: C_d; the stress has the part 2 C_d ẇ.
    - `bending_stiffness`, `axial_stiffness`: C^K of bending and torsion, C^Γ of shear and extension.
    - `mass`, `inertia`: per length.
    - `load`: greatest value of g.
    - `constrained`, `constrained_stress`: strains that are constrained away, as in `Model.add_rod`.
    - `duration`: end time.
    """
    return _make(dict(locals()))


def _make(p: Mapping[str, Any], redundant: Any = "error") -> Problem:
    n = checks.count("n", p["n"], "number of edges")
    checks.positive("duration", p["duration"], (), "end time")
    load = checks.array("load", p["load"], (), "greatest value of g")
    model = Model()
    s = jnp.linspace(0.0, 1.0, n + 1)[:, None]
    rod = model.add_rod(
        points=(1 - s) * jnp.array([6.0, 0.0, 0.0]) + s * jnp.array([0.0, 8.0, 0.0]),
        section=material(p),
        constrained=p["constrained"],
        constrained_stress=p["constrained_stress"],
        name="rod",
    )
    middle = jnp.asarray(2.5)
    model.add(PointForce(rod.first, Tent(jnp.array([0.1, 0.0, 0.0]), load, middle)))
    model.add(Torque(rod.first, Tent(jnp.array([0.0, -0.5, -1.0]), load, middle)))

    def outputs(system: AssembledSystem) -> dict[str, Observable]:
        return {**rod_outputs(system, rod), "linear_momentum": linear_momentum(system, model.bodies)}

    def parts(system: AssembledSystem) -> tuple[scene.Body | scene.Line | scene.Trail, ...]:
        return rod_scene(outputs(system), rod)

    return model_problem(
        "flying-spaghetti",
        _make,
        p,
        model,
        redundant,
        outputs,
        parts,
        doc=_DOC,
        h=2.0**-8,
        reference=_reference(p),
        method="herk5",
    )


def _reference(p: Mapping[str, Any]) -> dict[str, Reference]:
    if not same_numbers(p, _DEFAULTS, ("formulation", "constrained", "duration")) or p["constrained"] != "kirchhoff":
        return {}
    source = "independent integration in absolute coordinates with SciPy's DOP853 at 1e-13"
    return {"tip": {"t": 1.0, "value": _TIP, "error": 1e-11, "source": source}}


_DEFAULTS = {
    "n": 16,
    "damping": 0.0,
    "bending_stiffness": 500.0,
    "axial_stiffness": 1e4,
    "mass": 1.0,
    "inertia": 10.0,
    "load": 200.0,
}
