"""The law of a contact: what acts along the normal, along the plane of contact, and against rolling and twisting."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from polhode.checks import is_zero, short_repr
from polhode.contact.vectors import root
from polhode.particles.laws.capillary import CapillaryBridge
from polhode.particles.laws.normal import AbstractNormal, Elastic
from polhode.particles.laws.resistance import RollingResistance, TwistingResistance
from polhode.particles.laws.slider import Slider, slide
from polhode.particles.laws.tangential import AbstractTangential
from polhode.particles.laws.touch import Touch
from polhode.spaces.component_arrays import Vectors, add, cross, dot, scale


class History(NamedTuple):
    """Memory of contacts; parts that a law doesn't need are empty.

    - `adheres`, `wet`: 1 while an adhesive contact or a bridge holds, one array or none. - `tangential`, `rolling`:
      displacements of the springs in the plane of contact, three components. - `twisting`: of that about the normal.
    """

    adheres: tuple[Array, ...]
    wet: tuple[Array, ...]
    tangential: Vectors
    rolling: Vectors
    twisting: tuple[Array, ...]


FORCES = ("elastic", "damping", "sliding")
"""Kinds of forces at the point of contact: of the normal spring and of bridges, of the normal dashpot, tangential."""

MOMENTS = ("rolling", "twisting")
"""Kinds of moments besides."""


class Action(NamedTuple):
    """Forces on here at the point of contact and moments on here besides, by kind; the history after, and energies.

    - `stored`: energies at the end of the step, by name. - `lost`: what was lost where contacts were made or torn.
    """

    forces: dict[str, Vectors]
    moments: dict[str, Vectors]
    history: History
    stored: dict[str, Array]
    lost: dict[str, Array]

    @property
    def force(self) -> Vectors:
        """The sum of all forces."""
        first, *others = self.forces.values()
        for force in others:
            first = add(first, force)
        return first


class ContactLaw(eqx.Module):
    """The law of contacts between particles, or of particles with walls; parts that are None cost nothing.

    **Arguments:**

    - `normal`: `Hooke`, `Hertz` or `JKR`. - `tangential`: `TangentialSpring` or `Mindlin`.
    - `rolling`: `RollingResistance`. - `twisting`: `TwistingResistance`. - `bridge`: `CapillaryBridge`.

    Friction is at most μ times the force with which the bodies press on each other, elastic and by damping, without the
    pull of a bridge; with `JKR` the elastic force and twice the pull-off force.

    Raises ValueError for parts of other kinds, and for parts that don't go together.
    """

    normal: AbstractNormal
    tangential: AbstractTangential | None
    rolling: RollingResistance | None
    twisting: TwistingResistance | None
    bridge: CapillaryBridge | None
    is_damped: bool = eqx.field(static=True)

    def __init__(
        self,
        normal: AbstractNormal,
        tangential: AbstractTangential | None = None,
        rolling: RollingResistance | None = None,
        twisting: TwistingResistance | None = None,
        bridge: CapillaryBridge | None = None,
    ) -> None:
        parts = (
            ("normal", normal, AbstractNormal, "`Hooke`, `Hertz` or `JKR`"),
            ("tangential", tangential, AbstractTangential, "`TangentialSpring` or `Mindlin`, or None"),
            ("rolling", rolling, RollingResistance, "a `RollingResistance`, or None"),
            ("twisting", twisting, TwistingResistance, "a `TwistingResistance`, or None"),
            ("bridge", bridge, CapillaryBridge, "a `CapillaryBridge`, or None"),
        )
        for name, part, kind, description in parts:
            if not isinstance(part, kind) and (part is not None or name == "normal"):
                raise ValueError(f"`{name}` must be {description}, got {short_repr(part)}.")
        if tangential is not None:
            tangential.check(normal)
        if bridge is not None and normal.sticks:
            raise ValueError("A dry adhesive contact and a bridge don't go together. Take `Hertz` with the bridge.")
        self.normal, self.tangential, self.rolling = normal, tangential, rolling
        self.twisting, self.bridge = twisting, bridge
        dampers = (
            0.0 if rolling is None else rolling.rolling_damping,
            0.0 if twisting is None else twisting.twisting_damping,
        )
        self.is_damped = normal.is_damped or not all(map(is_zero, dampers))

    @property
    def energy_names(self) -> tuple[str, ...]:
        """Names of the energies that contacts store."""
        return ("contact", *(name for name, part in self._springs if part is not None))

    @property
    def kinds(self) -> tuple[str, ...]:
        """Those of `FORCES` and `MOMENTS` that it has."""
        there = ("elastic", *(name for name in self.loss_names if name != "cohesion"))
        return tuple(kind for kind in (*FORCES, *MOMENTS) if kind in there)

    @property
    def loss_names(self) -> tuple[str, ...]:
        """Names of the energies that contacts dissipate."""
        sticks = self.normal.sticks or self.bridge is not None
        of_normal = [("damping", self.normal.is_damped), ("cohesion", sticks)]
        sliders = [("sliding" if name == "tangential" else name, part is not None) for name, part in self._springs]
        return tuple(name for name, there in (*of_normal, *sliders) if there)

    @property
    def _springs(self) -> tuple[tuple[str, Any], ...]:
        return ("tangential", self.tangential), ("rolling", self.rolling), ("twisting", self.twisting)

    def reach(self, radius: Any) -> Any:
        """Distance of the surfaces to which contacts and bridges hold."""
        return self.normal.reach(radius) if self.bridge is None else self.bridge.reach

    def frequency(self, mass: Any, lever: Any, radius: Any, speed: Any) -> Array:
        """Largest frequency of a contact that stops this speed, which explicit steps have to resolve.

        `lever`: m r²/J of the bodies, by which friction is stiffer.
        """
        normal = self.normal
        stiffness = normal.stiffest(mass, radius, speed)
        largest = stiffness
        if self.tangential is not None:
            elastic = Elastic(stiffness, stiffness, stiffness)
            largest = jnp.maximum(largest, (1 + lever) * self.tangential.stiffness(normal, elastic))
        ratio = normal.dashpot * normal.ratio
        return jnp.sqrt(largest / mass) * (ratio + jnp.sqrt(1 + ratio * ratio))

    def damping_rate(self, mass: Any, lever: Any, radius: Any, speed: Any) -> Array:
        """The largest rate at which dashpots of one contact slow down what moves in it, as deep as for `frequency`."""
        normal, rates = self.normal, [jnp.zeros(())]
        c = 2 * normal.dashpot * normal.ratio * jnp.sqrt(mass * normal.stiffest(mass, radius, speed))
        rates.append(c)
        if self.tangential is not None:
            rates.append((1 + lever) * self.tangential.tangential_damping * c)
        rates += [] if self.rolling is None else [lever * self.rolling.rolling_damping]
        rates += [] if self.twisting is None else [lever * self.twisting.twisting_damping]
        return jnp.max(jnp.stack([jnp.asarray(rate, float) for rate in rates])) / mass

    def start(self, shape: tuple[int, ...], dtype: Any) -> History:
        """The history of contacts without one."""
        zeros = lambda there, count: (jnp.zeros(shape, dtype),) * count if there else ()  # noqa: E731
        return History(
            zeros(self.normal.sticks, 1),
            zeros(self.bridge is not None, 1),
            zeros(self.tangential is not None, 3),
            zeros(self.rolling is not None, 3),
            zeros(self.twisting is not None, 1),
        )

    def act(self, touch: Touch, history: History) -> Action:
        """Forces and moments at the end of a step, from the history at its start."""
        normal, n = self.normal, touch.normal
        elastic, before, adheres = self._elastic(touch, history)
        c = 2 * normal.dashpot * normal.ratio * root(touch.mass * elastic.stiffness)
        stored, lost, forces, moments = {"contact": elastic.energy}, {}, {}, {}
        press = elastic.force
        if normal.is_damped:
            press = press - c * touch.parting
            press = press if normal.sticks else jnp.maximum(press, 0.0)
            forces["damping"] = scale(press - elastic.force, n)
        push, wet = elastic.force, ()
        if normal.sticks:
            was, now = history.adheres[0] > 0, adheres[0] > 0
            lost["cohesion"] = _jump(was != now, touch, before, elastic)
        if self.bridge is not None:
            wet, pull, energy, loss = _bridge(self.bridge, touch, history.wet[0])
            push, stored["contact"], lost["cohesion"] = push + pull, stored["contact"] + energy, loss
        forces["elastic"], springs = scale(push, n), {}
        limit = press + 2 * normal.pull_off(touch.radius) * adheres[0] if normal.sticks else press
        limit = jnp.maximum(limit, 0.0)
        if self.tangential is not None:
            k = self.tangential.stiffness(normal, elastic)
            damping = self.tangential.tangential_damping * c if normal.is_damped else 0.0 * c
            slider = Slider(k, damping, self.tangential.friction * limit)
            keep = self.tangential.keep(before.stiffness, elastic.stiffness)
            slip = slide(slider, touch.carry(history.tangential), keep, touch.slide, touch.slip)
            forces["sliding"], springs["tangential"], stored["tangential"] = slip
        holds = elastic.stiffness > 0
        if self.rolling is not None:
            r = self.rolling
            slider = _resist(r.rolling_stiffness, r.rolling_damping, r.rolling_friction * limit, holds)
            way = touch.along_tangent(scale(touch.radius, cross(touch.turn, touch.middle)))
            rate = scale(touch.radius, cross(touch.spin, n))
            slip = slide(slider, touch.carry(history.rolling), 1.0, way, rate)
            moments["rolling"] = scale(touch.radius, cross(n, slip.force))
            springs["rolling"], stored["rolling"] = slip.spring, slip.energy
        if self.twisting is not None:
            r = self.twisting
            slider = _resist(r.twisting_stiffness, r.twisting_damping, r.twisting_friction * limit, holds)
            way, rate = touch.radius * dot(touch.turn, touch.middle), touch.radius * dot(touch.spin, n)
            slip = slide(slider, history.twisting, 1.0, (way,), (rate,))
            moments["twisting"] = scale(touch.radius * slip.force[0], n)
            springs["twisting"], stored["twisting"] = slip.spring, slip.energy
        after = History(adheres, wet, *(springs.get(name, ()) for name in ("tangential", "rolling", "twisting")))
        return Action(forces, moments, after, stored, lost)

    def _elastic(self, touch: Touch, history: History) -> tuple[Elastic, Elastic, tuple[Array, ...]]:
        """Elastic forces at the end and at the start of the step, and whether the contact adheres at the end."""
        law = self.normal
        if not law.sticks:
            return law.elastic(touch.overlap, touch.radius), law.elastic(touch.before, touch.radius), ()
        was = history.adheres[0] > 0
        now = (touch.overlap > 0) | (was & (touch.overlap > -law.reach(touch.radius)))
        at = lambda there, overlap: Elastic(  # noqa: E731
            *(jnp.where(there, part, 0.0) for part in law.elastic(jnp.where(there, overlap, 0.0), touch.radius))
        )
        return at(now, touch.overlap), at(was, touch.before), (now.astype(touch.overlap.dtype),)


def _jump(changes: Array, touch: Touch, before: Elastic, after: Elastic) -> Array:
    """Energy that is lost when a contact is made or torn: work of the mean force less what is stored."""
    work = 0.5 * (before.force + after.force) * (touch.overlap - touch.before)
    return jnp.where(changes & (touch.h != 0), work - after.energy + before.energy, 0.0)


def _bridge(bridge: CapillaryBridge, touch: Touch, wet: Array) -> tuple[tuple[Array, ...], Array, Array, Array]:
    """Whether a bridge is there at the end, its force and energy, and what was lost when it formed or broke."""
    was = wet > 0
    now = (touch.overlap >= 0) | (was & (-touch.overlap < bridge.reach))

    def at(there: Array, overlap: Array) -> Elastic:
        force, energy = bridge.force(overlap, touch.radius)
        return Elastic(jnp.where(there, force, 0.0), force, jnp.where(there, energy, 0.0))

    after, before = at(now, touch.overlap), at(was, touch.before)
    return (now.astype(wet.dtype),), after.force, after.energy, _jump(was != now, touch, before, after)


def _resist(stiffness: Array, damping: Array, limit: Array, holds: Array) -> Slider:
    return Slider(jnp.where(holds, stiffness, 0.0), jnp.where(holds, damping, 0.0), limit)
