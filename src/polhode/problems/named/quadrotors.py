"""Two quadrotors carrying a load along a parabola."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode import checks
from polhode.checks import short_repr
from polhode.problem import Observable, Reference
from polhode.problems.declaration import Directions, Draft, Number, Positive, declare
from polhode.problems.quadrotor_control import Gains, LoadTracking, PolynomialPath
from polhode.problems.quadrotor_model import (
    SPACE,
    AbstractController,
    ControlledTransport,
    Transport,
    TransportParameters,
    by_name,
    to_point,
)
from polhode.systems.base import State
from polhode.systems.vector_field import VectorField
from polhode.viewing.scene.scene import Body, Line, Scene, Trail

_DOC = """Two quadrotors carry a point load on massless rods along a given path; e₃ points downwards, along gravity.

State: (y, v, R₁, Ω₁, R₂, Ω₂, (q₁, ω₁), (q₂, ω₂)), see `Transport`. The load hangs at y, quadrotor i is at
y_i = y - L_i q_i. The thrusts are free vectors given by the control law; the quadrotors turn under the constant
`moment` and their attitudes do not steer.

Source: E. Celledoni, E. Çokaj, A. Leone, D. Murari & B. Owren, *Lie group integrators for mechanical systems*, §6;
numbers and control law from the authors' code, after T. Lee, K. Sreenath & V. Kumar (CDC 2013). Here the derivatives
of the desired directions come from automatic differentiation along the closed loop.
"""

_SIN80, _COS80 = float(np.sin(np.radians(80))), float(np.cos(np.radians(80)))
_SIN30, _COS30 = 0.5, float(np.sqrt(0.75))


@declare("quadrotors", _DOC)
def quadrotors(
    load_mass: Positive = 0.4,
    masses: Positive = (0.755, 0.755),
    lengths: Positive = (0.6, 0.8),
    inertia: Positive = (0.0820, 0.0845, 0.1377),
    gravity: Number = 9.81,
    load: Number = (-2.0, 0.0, 0.0),
    links: Directions = ((_SIN80, 0.0, _COS80), (-_SIN80, 0.0, _COS80)),
    path: Any = ((-2.5, 0.0, -0.75), (1.0, 0.0, -5.0), (0.0, 0.0, 1.0)),
    k_y: Any = 12.0,
    k_v: Any = 5.0,
    k_q: Any = 16.0,
    k_omega: Any = 5.0,
    formation: Any = ((_SIN30, 0.0, _COS30), (-_SIN30, 0.0, _COS30)),
    side: Any = (0.0, -1.0, 0.0),
    moment: Any = (1.0, 1.0, 1.0),
    controller: AbstractController | None = None,
    duration: Positive = 5.0,
) -> Draft:
    """Two quadrotors carrying a load.

    **Arguments**, in SI units:

    - `load_mass`: mass of the load.
    - `masses`: masses of the quadrotors; shape (2,).
    - `lengths`: lengths of the rods; shape (2,).
    - `inertia`: principal moments of a quadrotor; shape (3,), of either.
    - `gravity`: gravitational acceleration along +e3.
    - `load`: position of the load at t = 0; at rest, shape (3,).
    - `links`: directions of the rods at t = 0; at rest, shape (2, 3).
    - `path`: polynomial coefficients, lowest power first, shape (k, 3), or a callable t → (3,).
    - `k_y`, `k_v`, `k_q`, `k_omega`: gains of the control law.
    - `formation`: desired directions r_i of the rods, shape (2, 3).
    - `side`: vector s that orients the formation, shape (3,).
    - `moment`: on each quadrotor, shape (3,).
    - `controller`: an `AbstractController` in place of the law of the paper, which `k_y` to `moment` belong to.
    - `duration`: end time.
    """
    values = dict(locals())
    inertias = jnp.stack((inertia, inertia))
    model = TransportParameters(load_mass=load_mass, masses=masses, lengths=lengths, inertias=inertias, gravity=gravity)
    target = _path(path)
    law = _tracking_controller(model, target, values) if controller is None else controller
    if not isinstance(law, AbstractController):
        raise ValueError(
            f"`controller` must be an AbstractController, got {short_repr(controller)}. Subclass it with __call__."
        )
    rest = jnp.zeros((2, 3))
    start = Transport(
        load=load,
        load_velocity=jnp.zeros(3),
        attitudes=jnp.stack((jnp.eye(3), jnp.eye(3))),
        body_rates=rest,
        links=links,
        link_rates=rest,
    )
    return Draft(
        system=VectorField(SPACE, ControlledTransport(model, law)),
        state0=to_point(start),
        outputs=_outputs(law, target),
        invariants={},
        reference=_REFERENCE,
        independent_of=(),
        integrator="rkmk4",
        h=2.5e-3,
        scene=_scene(model),
    )


def _path(path: Any) -> Callable[[Array], Array]:
    if callable(path):
        return cast(Callable[[Array], Array], path)
    shape = checks.shape("path", path, "polynomial coefficients")
    rows = shape[0] if len(shape) == 2 else 0
    if rows == 0:
        raise ValueError(
            f"`path` must be a callable t → (3,) or polynomial coefficients (k, 3), got {short_repr(path)}."
        )
    return PolynomialPath(checks.array("path", path, (rows, 3), "polynomial coefficients, lowest power first"))


def _tracking_controller(
    model: TransportParameters, path: Callable[[Array], Array], values: dict[str, Any]
) -> LoadTracking:
    formation = checks.unit_vectors("formation", values["formation"], (2, 3), "desired directions of the rods")
    if checks.is_concrete(values["formation"]):
        r1, r2 = np.asarray(values["formation"], float)
        normal = np.cross(r1, r2)
        if np.linalg.norm(normal) < 1e-6 or abs(normal[2]) > 1e-8 or min(abs(r1[2]), abs(r2[2])) < 1e-6:
            raise ValueError(
                f"`formation` must be two different directions in a plane with e3, neither of them horizontal, got "
                f"{short_repr(values['formation'])}; otherwise the rods cannot hold the load. Try (±sin 30°, 0, cos "
                "30°)."
            )
    return LoadTracking(
        model=model,
        gains=Gains(*(checks.array(k, values[k], (), "gain") for k in ("k_y", "k_v", "k_q", "k_omega"))),
        path=path,
        formation=formation,
        side=checks.array("side", values["side"], (3,), "vector that orients the formation"),
        moment=checks.array("moment", values["moment"], (3,), "moment on each quadrotor"),
    )


def _outputs(law: AbstractController, path: Callable[[Array], Array]) -> dict[str, Observable]:
    def tracking_error(t: Array, state: State) -> Array:
        return jnp.linalg.norm(by_name(state).load - path(t))

    outputs: dict[str, Observable] = {
        "load": lambda t, state: by_name(state).load,
        "load_target": lambda t, state: path(t),
        "links": lambda t, state: by_name(state).links,
        "tracking_error": tracking_error,
    }
    if isinstance(law, LoadTracking):
        outputs["link_targets"] = lambda t, state: law.desired_links(t, by_name(state))
    return outputs


_REFERENCE: dict[str, Reference] = {
    "load": {
        "t": 5.0,
        "value": (2.50000419292935, 2.8429807073937608e-06, -0.7500509327906254),
        "error": 1e-9,
        "source": "DOP853 on the same equations with derivatives of the law by hand; data of the authors' code",
    },
}


def _scene(model: TransportParameters) -> Scene:
    span = jnp.max(model.lengths)

    def position(state: State, i: int) -> Array:
        now = by_name(state)
        return now.load - model.lengths[i] * now.links[i]

    def craft(i: int) -> Body:
        def pose(t: Array, state: State) -> tuple[Array, Array]:
            return position(state, i), by_name(state).attitudes[i]

        return Body(f"quadrotor {i + 1}", "box", span * jnp.array([0.5, 0.5, 0.1]), pose)

    def load_pose(t: Array, state: State) -> tuple[Array, Array]:
        return by_name(state).load, jnp.eye(3)

    def rods(t: Array, state: State) -> Array:
        return jnp.stack((position(state, 0), by_name(state).load, position(state, 1)))

    return Scene(
        parts=(
            Body("load", "ellipsoid", 0.2 * span * jnp.ones(3), load_pose, colour="#ccbb44"),
            craft(0),
            craft(1),
            Line("rods", rods),
            Trail("load"),
            Trail("load_target", colour="#bbbbbb"),
        ),
        up=(0.0, 0.0, -1.0),
    )
