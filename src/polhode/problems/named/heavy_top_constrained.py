"""The heavy top as a free body with a constraint at its tip."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode import checks
from polhode.joints._elements import FrameConstraint
from polhode.joints._pair import AbstractPairJoint, join
from polhode.joints.spherical import Spherical
from polhode.model.model import Model
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.elements import AbstractConstraintElement
from polhode.multibody.mechanism.poses import Poses, axial
from polhode.problem import Observable, Reference
from polhode.problems import heavy_top_motion
from polhode.problems._model_problem import AssembledSystem, ModelDraft, point_of, polyline, scene_body
from polhode.problems.declaration import Number, Positive, declare
from polhode.spaces.base import cross
from polhode.systems.base import State
from polhode.viewing.scene import scene

_DOC = """A rigid body under gravity whose tip is held at the origin by three constraints.

The benchmark top of O. Brüls & A. Cardona (2010) in absolute coordinates: m = 15, centre of mass at X = (0, 1, 0) in
the body frame, inertia about it diag(0.234375, 0.46875, 0.234375), g = 9.81 towards -e₃, R(0) = 1,
Ω(0) = (0, 150, -4.61538), ẋ(0) = R(0) (Ω(0) × X). It is the same motion as problem `heavy-top`.

The constraint is Φ = Rᵀx - X, in the body frame, as M. Arnold and co-authors take it for half-explicit methods: on
SE(3) and S³⋉R³ its gradient is constant along the motion. With `frame="inertial"` it is that of a spherical joint,
Φ = x - R X. Multipliers are minus the force of the support on the top, in the same frame.

`formulation="minimal"` with `frame="inertial"` takes the joint as a coordinate: a rotation about the tip, and no
constraint. In the other frames the joint is not one of those that carry a body, so the top is free with SO3xR3
coordinates and the constraint of that frame.
"""

_REFERENCE: dict[str, Reference] = {
    **heavy_top_motion.REFERENCE,
    "reaction": {
        "t": 1.0,
        "value": (-58.274563744197, -646.558311914525, -409.441408863465),
        "error": 1e-9,
        "source": heavy_top_motion.SOURCE,
    },
}


class _AbstractTip(AbstractConstraintElement):
    """The gap of a spherical joint seen from the second body: R₁ᵀ(x₁ - x₀ - R₀s₀) + s₁ = 0."""

    joint: FrameConstraint

    @property
    def size(self) -> int:
        return 3


class _TipInBody(_AbstractTip):
    def residual(self, t: Array, poses: Poses) -> Float[Array, "3"]:
        return poses[1].R.T @ self.joint.residual(t, poses)


class _TipWithConstantGradient(_AbstractTip):
    """The same gap with the derivative that it has on the constraint, X~ω + Rᵀẋ: the Jacobian of the authors' code."""

    def residual(self, t: Array, poses: Poses) -> Float[Array, "3"]:
        arm = -self.joint.s1

        @jax.custom_jvp
        def gap(x: Float[Array, "3"], R: Float[Array, "3 3"]) -> Float[Array, "3"]:
            return R.T @ x - arm

        @gap.defjvp
        def _(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
            (x, R), (dx, dR) = primals, tangents
            return R.T @ x - arm, cross(arm, 0.5 * axial(R.T @ dR)) + R.T @ dx

        return gap(*poses[1])


@dataclasses.dataclass(frozen=True, eq=False)
class _SphericalSeenFromBody(AbstractPairJoint):
    """A spherical joint whose residual and multipliers are in the frame of the second body; it carries no body.

    - `element`: `_TipInBody`, or `_TipWithConstantGradient` as paper 000 computes with it on direct products, for which
      the first body is the ground and the point the origin.
    """

    point: Any
    name: str | None = None
    element: Callable[[FrameConstraint], _AbstractTip] = _TipInBody

    def place(self, poses: Poses) -> _AbstractTip:
        return self.element(join(self, poses, self.point, pinned=True))


_JOINTS = {
    "body": _SphericalSeenFromBody,
    "inertial": Spherical,
    "body-constant": functools.partial(_SphericalSeenFromBody, element=_TipWithConstantGradient),
}


@declare("heavy-top-constrained", _DOC)
def heavy_top_constrained(
    formulation: str = "SO3xR3",
    frame: str = "body",
    mass: Any = 15.0,
    gravity: Number = 9.81,
    inertia: Positive = (0.234375, 0.46875, 0.234375),
    centre: Number = (0.0, 1.0, 0.0),
    angular_velocity: Number = (0.0, 150.0, -4.61538),
    duration: Positive = 1.0,
) -> ModelDraft:
    """The heavy top in absolute coordinates with its tip constrained.

    **Arguments**, in SI units:

    - `formulation`: coordinates of the body, as in `Model.assemble`. "minimal" is a rotation about the tip without
      constraints if `frame` is "inertial", otherwise a free body with the constraint of that frame.
    - `frame`: "body" for Φ = Rᵀx - X, "inertial" for Φ = x - R X, that of a spherical joint; "body-constant" for the
      first with B = [X~, Rᵀ], the derivative where Φ = 0 only; with it half-explicit methods drift linearly on direct
      products.
    - `mass`: of the top.
    - `gravity`: gravitational acceleration towards -e3.
    - `inertia`: principal moments about the centre of mass; shape (3,).
    - `centre`: centre of mass in the body frame; X, seen from the tip, shape (3,).
    - `angular_velocity`: body-fixed, at t = 0; Ω(0), shape (3,).
    - `duration`: end time.
    """
    checks.choice("frame", frame, _JOINTS)
    model = Model(gravity=-gravity * jnp.array([0.0, 0.0, 1.0]))
    top = model.add_body(
        mass=mass,
        inertia=inertia,
        position=centre,
        velocity=cross(angular_velocity, centre),
        angular_velocity=angular_velocity,
        name="top",
    )
    model.add(_JOINTS[frame](model.ground, top, point=(0.0, 0.0, 0.0), name="tip"))

    def outputs(system: AssembledSystem) -> dict[str, Observable]:
        return {
            "centre_of_mass": lambda t, state: system.pose_in(state, top).x,
            "angular_velocity": lambda t, state: system.twist_in(state, top).omega,
            "rotation": lambda t, state: system.pose_in(state, top).R,
            "reaction": _reaction(system, top, model.gravity),
        }

    def parts(system: AssembledSystem) -> tuple[scene.Body | scene.Line | scene.Trail, ...]:
        length = jnp.sqrt(centre @ centre)
        size = length * 0.7 - 0.6 * jnp.abs(centre)
        stem = polyline("stem", (lambda t, state: jnp.zeros(3), point_of(system, top, jnp.zeros(3))))
        return scene_body(system, top, size, "ellipsoid"), stem, scene.Trail("centre_of_mass")

    return ModelDraft(
        model,
        outputs,
        parts,
        h=1e-4,
        reference=_REFERENCE,
        independent_of=("formulation", "frame", "duration"),
    )


def _reaction(system: AssembledSystem, top: Body, gravity: Any) -> Observable:
    """Force of the support in the body frame, from the momentum: there may be no multipliers."""

    def reaction(t: Array, state: State) -> Array:
        q, v = state
        vdot = system.accelerations(t, q, v)[0]

        def velocity(s: Array) -> Array:
            return system.twist(system.flow(q, v, s), v + s * vdot, top).u

        acceleration = jax.jvp(velocity, (jnp.zeros(()),), (jnp.ones(()),))[1]
        return system.pose(q, top).R.T @ (top.mass * (acceleration - gravity))

    return reaction
