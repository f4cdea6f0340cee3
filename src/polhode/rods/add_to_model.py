"""Adds rods to models: checks points, frames and sections, and builds nodes and edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import short_repr
from polhode.compiler.numpy_jit import numpy_jit
from polhode.multibody.bodies import Body, ShapeAdder
from polhode.multibody.mechanism.poses import Pose
from polhode.rods.edge import Edge, EdgeConstraint, EdgeShape
from polhode.rods.rod import Rod, halves
from polhode.rods.section import STRAINS, Section
from polhode.rods.shape import Frames, Points, frames_along, given_frames, points_of
from polhode.rods.strain import MEASURES, AbstractStrain

if TYPE_CHECKING:
    from polhode.multibody.parts import ModelParts

ConstrainedStrains = Literal["none", "kirchhoff", "inextensible", "both"] | Sequence[str]
CONSTRAINT_PRESETS: dict[str, tuple[int, ...]] = {
    "none": (),
    "kirchhoff": (3, 4),
    "inextensible": (5,),
    "both": (3, 4, 5),
}
ENDS = ("first", "last")
STRAIGHT = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
"""w⁰ of a straight rod without twist."""


def build(
    model: ModelParts,
    *,
    name: str,
    points: Any,
    section: Section | Sequence[Section],
    rotations: Any,
    normal: Any,
    reference: Any,
    lengths: Any,
    constrained: ConstrainedStrains,
    constrained_stress: bool,
    strain: str,
    clamped: str | Sequence[str],
    closed: bool,
    velocity: Any,
    angular_velocity: Any,
    radius: Any,
) -> Rod:
    """Adds nodes and edges to a model; see `Model.add_rod`."""
    for option, value in (("closed", closed), ("constrained_stress", constrained_stress)):
        if not isinstance(value, bool):
            raise ValueError(f"`{option}` must be True or False, got {short_repr(value)}.")
    if rotations is not None and normal is not None:
        raise ValueError("`normal` is for frames along the points; give it or `rotations`.")
    radius = None if radius is None else checks.positive("radius", radius, (), "of a rod, for contact")
    x = points_of(points, closed)
    count = len(x)
    N = count if closed else count - 1
    if closed and count < 3:
        raise ValueError(f"A closed rod needs at least 3 nodes, got {count}.")
    R = frames_along(x, normal, closed) if rotations is None else given_frames(rotations, x, closed)
    measure = MEASURES[checks.choice("strain", strain, MEASURES)]()
    ends = _clamped_ends(clamped, closed)
    which = _constrained_components(constrained)
    # NumPy's arrays are indexed and stacked much faster.
    x, R = checks.readable((x, R))
    start = _increments(measure, x, R, closed)
    ds, rest = _rest(reference, lengths, start, N)
    sections = _sections(section, N)
    masses, inertias = _lumps(sections, ds, closed)
    v = _nodal("velocity", velocity, count, "of the nodes, inertial frame")
    omega = _nodal("angular_velocity", angular_velocity, count, "of the nodes, in their own frames")

    start_poses = Pose(x, R)
    nodes = _nodes(model, name, ends, start_poses, (masses, inertias), (v, omega))
    clamped_poses = [_clamped_pose(nodes, start_poses, i) for i in range(count)]
    shapes = [EdgeShape(measure, (clamped_poses[e], clamped_poses[(e + 1) % count]), rest[e], ds[e]) for e in range(N)]
    edges = _add_edges(model, name, nodes, shapes, sections, which, constrained_stress)
    places = Pose(jnp.asarray(x), jnp.asarray(R))
    return Rod(name, tuple(nodes), places, tuple(edges), jnp.asarray(ds), sections, which, radius)


def _nodes(
    model: ModelParts, name: str, ends: Sequence[str], at: Pose, inertia: tuple[Any, Any], velocities: tuple[Any, Any]
) -> list[Body]:
    """Free nodes as new bodies of the model, clamped ends as its ground."""
    count = len(at.x)
    clamped_nodes = {0} if "first" in ends else set()
    clamped_nodes |= {count - 1} if "last" in ends else set()
    if len(clamped_nodes) == count:
        raise ValueError("A rod of one edge that is clamped at both ends can't move; use more edges or clamp one end.")
    (masses, inertias), (v, omega) = inertia, velocities
    register = model.register
    return [
        model.ground
        if i in clamped_nodes
        else register.take(
            Body(
                name=register.name(f"{name}-node-{i}", "node"),
                kind="rigid",
                mass=masses[i],
                inertia=inertias[i],
                x=at.x[i],
                R=at.R[i],
                u=v[i],
                omega=omega[i],
                rod=name,
                attach=ShapeAdder(model.add_shape),
            )
        )
        for i in range(count)
    ]


def _clamped_pose(nodes: Sequence[Body], at: Pose, i: int) -> Pose | None:
    """The pose of a clamped node; None for a free one."""
    return Pose(at.x[i], at.R[i]) if nodes[i].kind == "ground" else None


def _add_edges(
    model: ModelParts,
    name: str,
    nodes: Sequence[Body],
    shapes: Sequence[EdgeShape],
    sections: Sequence[Section],
    constrained: tuple[int, ...],
    constrained_stress: bool,
) -> list[Edge]:
    """Adds an edge from each node to the next one, and its constraint if strains are `constrained`."""
    free = np.ones(6)
    if not constrained_stress:
        free[list(constrained)] = 0.0
    edges = []
    for e, (shape, section) in enumerate(zip(shapes, sections, strict=True)):
        first, second = nodes[e], nodes[(e + 1) % len(nodes)]
        edges.append(_edge(first, second, shape, section, free, f"{name}-edge-{e + 1}"))
        model.add(edges[-1])
        if constrained:
            model.add(EdgeConstraint(first, second, shape, constrained, f"{edges[-1].name}-constraint"))
    return edges


def _edge(first: Body, second: Body, shape: EdgeShape, section: Section, free: np.ndarray, name: str) -> Edge:
    """An edge with the stiffness and damping of its free strains."""
    damping = None if section.damping is None else _mask(section.damping, free)
    return Edge(first, second, shape, _mask(section.stiffness, free), damping, name)


def _clamped_ends(value: str | Sequence[str], closed: bool) -> tuple[str, ...]:
    if not isinstance(value, str | Sequence):
        raise ValueError(f'`clamped` must be "first", "last" or a tuple of these, got {short_repr(value)}.')
    ends = (value,) if isinstance(value, str) else tuple(value)
    for end in ends:
        checks.choice("clamped", end, ENDS)
    if closed and "last" in ends:
        raise ValueError("A closed rod has no last node; clamp the first one, or hold another by `joints.Fixed`.")
    return ends


def _constrained_components(value: ConstrainedStrains) -> tuple[int, ...]:
    if isinstance(value, str) and value not in STRAINS:
        return CONSTRAINT_PRESETS[checks.choice("constrained", value, (*CONSTRAINT_PRESETS, *STRAINS))]
    if not isinstance(value, str | Sequence):
        raise ValueError(
            f"`constrained` must be one of {', '.join(CONSTRAINT_PRESETS)}, or names out of {', '.join(STRAINS)}, got "
            f"{short_repr(value)}."
        )
    names = [checks.choice("constrained", name, STRAINS) for name in ((value,) if isinstance(value, str) else value)]
    if len(set(names)) == len(STRAINS):
        raise ValueError(
            "With all six strains in `constrained` the rod is a rigid body. Use `add_body`, or leave a strain free."
        )
    return tuple(sorted({STRAINS.index(name) for name in names}))


@numpy_jit
def _increments(strain: AbstractStrain, x: Points, R: Frames, closed: bool) -> Float[Array, "N 6"]:
    """Increments d of the edges at the start."""
    first = Pose(x, R) if closed else Pose(x[:-1], R[:-1])
    second = Pose(jnp.roll(x, -1, axis=0), jnp.roll(R, -1, axis=0)) if closed else Pose(x[1:], R[1:])
    return jax.vmap(lambda p: strain.increment(p).vector)((first, second))


def _rest(reference: Any, lengths: Any, start: Float[Array, "N 6"], N: int) -> tuple[Any, Any]:
    """Δs and d⁰ of the edges, as NumPy arrays unless they are traced."""
    ds = jnp.linalg.norm(start[:, 3:], axis=1)
    if lengths is not None:
        meaning = "of the edges without stress"
        shape = checks.shape("lengths", lengths, meaning) and (N,)
        ds = jnp.broadcast_to(checks.positive("lengths", lengths, shape, meaning), (N,))
    if isinstance(reference, str):
        if checks.choice("reference", reference, ("straight", "as-placed")) == "straight":
            w0 = jnp.broadcast_to(jnp.asarray(STRAIGHT), (N, 6))
        else:
            w0 = start / ds[:, None]
    else:
        meaning = "strains without stress (K1, K2, K3, G1, G2, G3)"
        shape = (6,) if len(checks.shape("reference", reference, meaning)) == 1 else (N, 6)
        strains = checks.array("reference", reference, shape, meaning)
        if checks.is_concrete(strains) and not np.all(np.asarray(strains)[..., 5] > 0):
            raise ValueError(
                "`reference` must have a positive third component of the extension, G3 = 1 for a rod that is not "
                f"stretched against its `lengths`; got {np.min(np.asarray(strains)[..., 5]):g}."
            )
        w0 = jnp.broadcast_to(strains, (N, 6))
        if lengths is None:
            ds = ds / jnp.linalg.norm(w0[:, 3:], axis=1)
    return checks.readable((ds, ds[:, None] * w0))


def _sections(section: Section | Sequence[Section], N: int) -> tuple[Section, ...]:
    sections = tuple(section) if isinstance(section, Sequence) else (section,) * N
    if len(sections) != N or not all(isinstance(s, Section) for s in sections):
        raise ValueError(
            f"`section` must be one `rods.Section` or one for each of the {N} edges, as `rods.circular`, `rods.tube` "
            f"and `rods.rectangle` make them, got {short_repr(section)}."
        )
    return sections


def _lumps(sections: Sequence[Section], ds: Any, closed: bool) -> tuple[Any, Any]:
    """Masses and inertias of the nodes: half of the edges beside them (trapezoidal rule)."""
    mass = checks.stack([s.mass for s in sections]) * ds
    inertia = checks.stack([s.inertia for s in sections]) * jnp.asarray(ds)[:, None, None]
    return checks.readable((halves(mass, closed), halves(inertia, closed)))


def _nodal(name: str, value: Any, count: int, meaning: str) -> Any:
    shape = (3,) if len(checks.shape(name, value, meaning)) == 1 else (count, 3)
    return checks.readable(jnp.broadcast_to(checks.array(name, value, shape, meaning), (count, 3)))


def _mask(matrix: Any, free: np.ndarray) -> Any:
    product = checks.readable(matrix) * (free[:, None] * free)
    if isinstance(product, np.ndarray):
        # Read-only, so that it counts as constant; see `polhode.compiler.fingerprint.object_cache`.
        product.setflags(write=False)
    return product
