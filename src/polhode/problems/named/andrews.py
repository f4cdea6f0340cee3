"""Andrews' squeezing mechanism: seven plane bodies in three loops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode import checks
from polhode.forces import SpringDamper, Torque
from polhode.joints import Revolute
from polhode.model.model import Model
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.poses import Pose
from polhode.problem import Observable, Reference
from polhode.problems._closed_loops import Poses, bar, meet, placements
from polhode.problems._model_problem import AssembledSystem, ModelDraft, polyline, scene_body
from polhode.problems._unwrapped_angles import SHARE, CountTurns
from polhode.problems.declaration import Check, Positive, declare
from polhode.systems.base import State
from polhode.viewing.scene import scene

_DOC = """Seven bodies K1 … K7 in the plane, hinged at O, F, E, B, G, H and A, driven by a torque on K1 against a
spring.

The benchmark of W. Schiehlen (Multibody Systems Handbook, 1990) with the data of E. Hairer & G. Wanner (Solving
Ordinary Differential Equations II, VII.7) in their notation. K1 turns about O at the origin, K2 joins it at F and K3,
K4, K6 at E; K3 turns about B, and a spring pulls its point D towards C; K5 and K7 turn about A, K4 joins K5 at G, K6
joins K7 at H. The mechanism starts at rest and is followed over 0.03 s, in which K1 turns two and a half times.

All hinges are spatial revolute joints, 50 constraints of which 41 are independent; those that follow from others are
found and left out. Output `angles` is (β, Θ, γ, φ, δ, Ω, ε); to count turns of β, one hundredth of the inertia of K1
is carried by a coordinate that is constrained to it.
"""

_REFERENCE: dict[str, Reference] = {
    "angles": {
        "t": 0.03,
        "value": (
            15.8107711951537,
            -15.7563710584118,
            0.0408222401196458,
            -0.5347301163420795,
            0.5244099658799541,
            0.5347301163420795,
            1.0480807410419379,
        ),
        "error": 1e-13,
        "source": "reduction to one degree of freedom, extrapolated in 80-bit arithmetic; the Test Set for IVP Solvers "
        "(F. Mazzia, C. Magherini), PSIDE at 1e-14, has a β larger by 1.1e-9",
    }
}


def positions(p: Mapping[str, Any]) -> Poses:
    """β → poses of K1 to K7; NaN where the loops can't be closed."""

    def poses(beta: Array) -> dict[str, Pose]:
        O = jnp.zeros(2)  # noqa: E741
        F = p["rr"] * jnp.stack((jnp.cos(beta), jnp.sin(beta)))
        E = meet(F, p["d"], p["B"], p["ss"], 1.0)
        G, H = meet(p["A"], p["zt"], E, p["e"], 1.0), meet(p["A"], p["u"], E, p["zf"], -1.0)
        return {
            "K1": bar(O, F, (p["ra"], 0.0)),
            "K2": bar(F, E, (p["da"], 0.0)),
            "K3": bar(p["B"], E, (p["sa"], p["sb"])),
            "K4": bar(G, E, (p["e"] - p["ea"], 0.0)),
            "K5": bar(p["A"], G, (p["ta"], p["tb"])),
            "K6": bar(H, E, (p["zf"] - p["fa"], 0.0)),
            "K7": bar(p["A"], H, (p["ua"], p["ub"])),
        }

    return poses


PlanePoint = Annotated[Any, Check(checks.array, "point of the plane")]
Scalar = Annotated[Any, Check(checks.array, "a number")]


@declare("andrews", _DOC)
def andrews(
    formulation: str = "SO3xR3",
    A: PlanePoint = (-0.06934, -0.00227),
    B: PlanePoint = (-0.03635, 0.03273),
    C: PlanePoint = (0.014, 0.072),
    d: Scalar = 28e-3,
    da: Scalar = 115e-4,
    e: Scalar = 2e-2,
    ea: Scalar = 1421e-5,
    rr: Scalar = 7e-3,
    ra: Scalar = 92e-5,
    ss: Scalar = 35e-3,
    sa: Scalar = 1874e-5,
    sb: Scalar = 1043e-5,
    sc: Scalar = 18e-3,
    sd: Scalar = 2e-2,
    ta: Scalar = 2308e-5,
    tb: Scalar = 916e-5,
    u: Scalar = 4e-2,
    ua: Scalar = 1228e-5,
    ub: Scalar = 449e-5,
    zf: Scalar = 2e-2,
    zt: Scalar = 4e-2,
    fa: Scalar = 1421e-5,
    masses: Positive = (0.04325, 0.00365, 0.02373, 0.00706, 0.07050, 0.00706, 0.05498),
    inertias: Positive = (2.194e-6, 4.410e-7, 5.255e-6, 5.667e-7, 1.169e-5, 5.667e-7, 1.912e-5),
    stiffness: Scalar = 4530.0,
    rest_length: Scalar = 0.07785,
    torque: Scalar = 0.033,
    crank_angle: Scalar = -0.0617138900142764496358948458001,
    duration: Positive = 0.03,
) -> ModelDraft:
    """Andrews' squeezing mechanism.

    **Arguments**, in SI units:

    - `formulation`: coordinates of the bodies, as in `Model.assemble`.
    - `A`, `B`, `C`: fixed points in the plane, shape (2,).
    - `d`, `da`, `e`, `ea`, `rr`, `ra`, `ss`, `sa`, `sb`, `sc`, `sd`, `ta`, `tb`, `u`, `ua`, `ub`, `zf`, `zt`, `fa`:
      lengths, in the letters of Hairer and Wanner.
    - `masses`: K1 to K7; shape (7,).
    - `inertias`: K1 to K7, about the centres of mass; shape (7,).
    - `stiffness`, `rest_length`: of the spring from C to D.
    - `torque`: on K1.
    - `crank_angle`: β at the start; the other angles follow from it.
    - `duration`: end time.
    """
    model, mechanism = _assemble({name: x for name, x in locals().items() if name != "formulation"})
    return ModelDraft(
        model,
        mechanism.outputs,
        mechanism.parts,
        h=3e-5,
        redundant="minimum-norm",
        up=(0.0, 1.0, 0.0),
        reference=_REFERENCE,
        independent_of=("formulation", "duration"),
    )


_HINGES = (
    ("O", None, "K1"),
    ("F", "K1", "K2"),
    ("B", None, "K3"),
    ("E", "K3", "K2"),
    ("E", "K3", "K4"),
    ("E", "K3", "K6"),
    ("G", "K5", "K4"),
    ("H", "K7", "K6"),
    ("A", None, "K5"),
    ("A", None, "K7"),
)
"""Points with the two bodies that they join; None is the ground."""


def _assemble(n: Mapping[str, Any]) -> tuple[Model, _Mechanism]:
    """The model with these parameters."""
    start = placements(positions, (n,), n["crank_angle"], 0.0)
    if checks.is_concrete(start) and not all(bool(jnp.isfinite(at.position).all()) for at in start.values()):
        raise ValueError("The loops can't be closed with these lengths at this `crank_angle`; change one of them.")
    model = Model()
    share, counter_inertia = jnp.array([1.0, 1.0, 1.0 - SHARE]), SHARE * n["inertias"][0]
    K = {
        name: model.add_body(
            mass=n["masses"][i],
            inertia=n["inertias"][i] * (share if i == 0 else jnp.ones(3)),
            name=name,
            check_inertia=False,
            **at._asdict(),
        )
        for i, (name, at) in enumerate(start.items())
    }
    counter = model.add_coordinate(mass=counter_inertia, value=n["crank_angle"], name="beta")
    mechanism = _Mechanism(K, counter, _points(n), jnp.append(n["C"], 0.0))
    place = {name: K[body].x + K[body].R @ s for name, (body, s) in mechanism.points.items()}
    z = jnp.array([0.0, 0.0, 1.0])
    for point, first, second in _HINGES:
        one = model.ground if first is None else K[first]
        model.add(Revolute(one, K[second], point=place[point], axis=z, name=f"{point}-{second}"))
    model.add(CountTurns(model.ground, K["K1"], counter, axis=z, name="turns"))
    ends, length = (mechanism.C, place["D"]), n["rest_length"]
    model.add(SpringDamper(model.ground, K["K3"], *ends, n["stiffness"], length=length, name="spring"))
    model.add(Torque(K["K1"], n["torque"] * z, frame="body", name="drive"))
    return model, mechanism


def _points(n: Mapping[str, Array]) -> dict[str, tuple[str, Float[Array, "3"]]]:
    """Points by their letters: the body that carries each, and where on it, from its centre of mass."""

    def local(body: str, along: Any, across: Any = 0.0) -> Float[Array, "3"]:
        """A point of a body from its place in the frame at the first hinge."""
        return jnp.stack([jnp.asarray(x, dtype=float) for x in (along, across, 0.0)]) - _centre(n, body)

    return {
        "O": ("K1", local("K1", 0.0)),
        "F": ("K1", local("K1", n["rr"])),
        "E": ("K3", local("K3", n["ss"])),
        "B": ("K3", local("K3", 0.0)),
        "G": ("K5", local("K5", n["zt"])),
        "H": ("K7", local("K7", n["u"])),
        "A": ("K5", local("K5", 0.0)),
        "D": ("K3", local("K3", n["sc"], n["sd"])),
    }


class _Mechanism(NamedTuple):
    """Bodies K1 to K7, the coordinate that counts turns of β, points on bodies, and where the spring is fixed."""

    K: Mapping[str, Body]
    counter: Body
    points: Mapping[str, tuple[str, Float[Array, "3"]]]
    C: Float[Array, "3"]

    def where(self, system: AssembledSystem, name: str) -> Observable:
        """The place of a point."""
        body, s = self.points[name]

        def there(t: Array, state: State) -> Float[Array, "3"]:
            x, R = system.pose_in(state, self.K[body])
            return x + R @ s

        return there

    def angles(self, system: AssembledSystem) -> Observable:
        """(β, Θ, γ, φ, δ, Ω, ε)."""

        def values(t: Array, state: State) -> Float[Array, "7"]:
            beta = system.pose_in(state, self.counter).x[0]
            R = {name: system.pose_in(state, body).R for name, body in self.K.items()}
            k2, k3, k4, k5, k6, k7 = (jnp.arctan2(R[f"K{i}"][1, 0], R[f"K{i}"][0, 0]) for i in range(2, 8))
            quarter = jnp.pi / 2
            epsilon = k7 + quarter
            parts = (k2 + jnp.pi, k3 + quarter, k4 + quarter - k5, k5, k6 - epsilon, epsilon)
            theta, *others = (jnp.arctan2(jnp.sin(x), jnp.cos(x)) for x in parts)
            return jnp.stack((beta, theta - beta, *others))

        return values

    def outputs(self, system: AssembledSystem) -> dict[str, Observable]:
        """Angles and points."""
        return {
            "angles": self.angles(system),
            "joint_points": lambda t, state: jnp.stack([self.where(system, name)(t, state) for name in self.points]),
        }

    def parts(self, system: AssembledSystem) -> tuple[scene.Body | scene.Line | scene.Trail, ...]:
        """Its picture: bodies as dots, lines between points, the spring."""
        boxes = tuple(scene_body(system, body, 0.006 * jnp.ones(3), "ellipsoid") for body in self.K.values())
        lines = tuple(
            polyline(line, tuple(self.where(system, end) for end in line))
            for line in ("OF", "FE", "BE", "BD", "DE", "GE", "AG", "HE", "AH")
        )
        spring = polyline("spring", (lambda t, state: self.C, self.where(system, "D")), "#cc6677", coil=True)
        return *boxes, *lines, spring


def _centre(n: Mapping[str, Array], body: str) -> Float[Array, "3"]:
    """Centre of mass in the frame at the first hinge."""
    zero = jnp.zeros(())
    centres = {"K1": (n["ra"], zero), "K3": (n["sa"], n["sb"]), "K5": (n["ta"], n["tb"]), "K7": (n["ua"], n["ub"])}
    return jnp.stack((*centres[body], zero))
