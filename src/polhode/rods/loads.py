"""Loads and contact along a rod, as parts on its nodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import short_repr
from polhode.compiler.numpy.eager import eager_numpy
from polhode.forces.loads import FRAMES, Frame, PointForce, Torque
from polhode.forces.plane_contact import PlaneContact
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.user_functions import Function, check_shape, result_shapes
from polhode.multibody.parts import AbstractComposite, AbstractPart
from polhode.rods.rod import Rod


class AtNode(eqx.Module):
    """The load on one node as a function of time, from a load per length (s, t).

    **Arguments:**

    - `function`: (s, t) → shape (3,).
    - `s`: place of the node along the rod without stress.
    - `weight`: length of the rod that belongs to the node.
    """

    function: Function
    s: Float[Array, ""]
    weight: Float[Array, ""]

    def __call__(self, t: Array) -> Float[Array, "3"]:
        return self.weight * self.function(self.s, t)


@dataclasses.dataclass(frozen=True, eq=False)
class DistributedLoad(AbstractComposite):
    """Force and moment per length of a rod, such as wind, pressure or the weight of water on it.

    Each node takes the load of half of the edges beside it (trapezoidal rule, second order in the edge length); what
    belongs to a clamped end goes to the ground. A constant inertial force has a potential and keeps the energy.

    **Arguments:**

    - `rod`: as `Model.add_rod` returns it.
    - `force`, `moment`: per length of the rod without stress, shape (3,), or functions (s, t) that return it, with the
      place s along the rod without stress, from 0. Written with `jax.numpy`; numbers in fields of an `equinox.Module`
      can be differentiated with respect to.
    - `frame`: "inertial", or "body" for loads that turn with the nodes; their third axis is along the rod.
    - `name`: of the parts on the nodes, "name-force-0", "name-moment-0", …; numbered by the model if None.

    **Raises** ValueError for loads of another shape, and if there is neither force nor moment.
    """

    rod: Rod
    force: Callable[[Array, Array], Any] | Any = None
    moment: Callable[[Array, Array], Any] | Any = None
    frame: Frame = "inertial"
    name: str | None = None

    @eager_numpy()
    def __post_init__(self) -> None:
        _is_rod(self, self.rod)
        checks.choice("frame", self.frame, FRAMES)
        if self.force is None and self.moment is None:
            raise ValueError("A DistributedLoad needs `force`, `moment` or both, each per length of the rod.")
        for name in ("force", "moment"):
            self._density(name)

    def parts(self) -> Sequence[AbstractPart]:
        return [
            *(PointForce(body, load, frame=self.frame, name=name) for body, load, name in self._on_nodes("force")),
            *(Torque(body, load, frame=self.frame, name=name) for body, load, name in self._on_nodes("moment")),
        ]

    def _on_nodes(self, name: str) -> Iterable[tuple[Body, Any, str | None]]:
        """The free nodes, the load on each, and the name of the part."""
        density = self._density(name)
        if density is None:
            return
        for i, (body, s, weight) in enumerate(_free_nodes(self.rod)):
            load = AtNode(density, s, weight) if isinstance(density, Function) else weight * density
            yield body, load, checks.extend_name(self.name, f"-{name}-{i}")

    def _density(self, name: str) -> Function | Float[Array, "3"] | None:
        value, meaning = getattr(self, name), f"{name} per length of the rod, {self.frame} frame"
        if value is None:
            return None
        if not callable(value):
            return checks.array(name, value, (3,), meaning)
        function = Function(value)
        check_shape(self, name, result_shapes(self, name, function, jnp.zeros(()), jnp.zeros(())), (3,), meaning)
        return function


@dataclasses.dataclass(frozen=True, eq=False)
class RodContact(AbstractComposite):
    """Contact of a rod with a fixed plane: a `forces.PlaneContact` at each node.

    The stiffness is per length, so that the line load by which the plane carries a rod that lies on it does not depend
    on the number of edges. Between nodes the rod may pass through the plane.

    **Arguments:**

    - `rod`: as `Model.add_rod` returns it.
    - `point`, `normal`: a point of the plane and its direction to the free side, shape (3,), inertial frame.
    - `stiffness`: force per length of the rod without stress, per depth to the power `exponent`.
    - `radius`: of the rod; by default that of its sections, the larger one of the edges beside each node.
    - `damping`, `exponent`: as in `forces.PlaneContact`.
    - `name`: of the parts on the nodes, "name-0", …; numbered by the model if None.

    **Raises** ValueError for numbers that make no sense.
    """

    rod: Rod
    point: Any
    normal: Any
    stiffness: Any
    radius: Any = None
    damping: Any = 0.0
    exponent: Any = 1.0
    name: str | None = None

    @eager_numpy()
    def __post_init__(self) -> None:
        _is_rod(self, self.rod)
        checks.positive("stiffness", self.stiffness, (), "per length of the rod")
        self.parts()

    def parts(self) -> Sequence[AbstractPart]:
        radii = self._radii()
        stiffness = jnp.asarray(self.stiffness, dtype=float)
        return [
            PlaneContact(
                body,
                self.point,
                self.normal,
                weight * stiffness,
                radius,
                self.damping,
                self.exponent,
                checks.extend_name(self.name, f"-{i}"),
            )
            for i, (body, radius, weight) in enumerate(_free_nodes(self.rod, radii))
        ]

    def _radii(self) -> Float[Array, " nodes"]:
        count = len(self.rod.nodes)
        if self.radius is not None:
            return jnp.broadcast_to(checks.array("radius", self.radius, (), "of the rod"), (count,))
        edges = jnp.stack([jnp.asarray(section.radius, dtype=float) for section in self.rod.sections])
        if self.rod.closed:
            return jnp.maximum(edges, jnp.roll(edges, 1))
        return jnp.maximum(jnp.concatenate((edges[:1], edges)), jnp.concatenate((edges, edges[-1:])))


def _free_nodes(rod: Rod, values: Float[Array, " nodes"] | None = None) -> Iterable[tuple[Body, Array, Array]]:
    """Free nodes, with a value each (by default the place along the rod) and the length that belongs to them."""
    each = zip(rod.nodes, rod.arc_lengths if values is None else values, rod.node_lengths, strict=True)
    return (row for row in each if row[0].kind != "ground")


def _is_rod(part: AbstractComposite, value: Any) -> None:
    if not isinstance(value, Rod):
        raise ValueError(
            f"`rod` of {type(part).__name__} must be a rod as `Model.add_rod` returns it, got {short_repr(value)}. On "
            "single bodies use `forces.PointForce`, `forces.Torque` and `forces.PlaneContact`."
        )
