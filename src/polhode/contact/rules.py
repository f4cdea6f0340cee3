"""Rules of a model: which shapes touch, and by which law."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from polhode import checks
from polhode.checks import short_repr
from polhode.contact.compliance import check_compliance

LAWS = ("rigid", "compliant")
IMPACT_LAWS = ("newton", "poisson")


@dataclasses.dataclass(frozen=True, eq=False)
class ContactRule:
    """Contacts between the shapes of some bodies.

    - `first`, `second`: bodies, or single shapes on them; None for all pairs of bodies with shapes.
    - `without`: pairs of bodies that pass through each other, among all pairs.
    - `friction`: coefficient, or two along the tangents. - `static_friction`: that at rest, from which it falls to
      `friction` over the `stribeck_speed`; None for the same. - `restitution`, `tangential_restitution`: from 0 to 1.
    - `impact_law`: what the restitution is one of: speeds, after Newton, or impulses, after Poisson.
    - `drilling`, `rolling`: lengths that bound moments by the normal force.
    - `surface_velocity`: of the surface of `first`, in its frame, shape (3,).
    - `of_rods`: whether `first` or `second` is a rod.
    - `law`: "rigid", or "compliant" with the numbers that follow; see `polhode.contact.compliance`.
    """

    first: Any = None
    second: Any = None
    without: Sequence[tuple[Any, Any]] = ()
    friction: Any = 0.5
    restitution: Any = 0.0
    tangential_restitution: Any = 0.0
    drilling: Any = 0.0
    rolling: Any = 0.0
    surface_velocity: Any = None
    name: str | None = None
    law: str = "rigid"
    stiffness: Any = None
    exponent: Any = 1.5
    damping: Any = 0.0
    impact_speed: Any = None
    slip_speed: Any = None
    static_friction: Any = None
    stribeck_speed: Any = None
    impact_law: str = "newton"
    of_rods: bool = False

    def __post_init__(self) -> None:
        checks.choice("law", self.law, LAWS)
        checks.choice("impact_law", self.impact_law, IMPACT_LAWS)
        if self.impact_law == "poisson" and (self.law != "rigid" or not checks.is_zero(self.tangential_restitution)):
            raise ValueError(
                "impact_law='poisson' is for rigid contacts without `tangential_restitution`: leave it out, or the "
                "other."
            )
        for what in ("restitution", "tangential_restitution"):
            value = getattr(self, what)
            checks.array(what, value, (), "of an impact, from 0 to 1")
            if checks.is_concrete(value) and not 0 <= float(np.asarray(value)) <= 1:
                raise ValueError(f"`{what}` must be from 0 (no bounce) to 1 (no loss), got {short_repr(value)}.")
        for what in ("drilling", "rolling"):
            value = getattr(self, what)
            checks.array(what, value, (), "a length: largest moment over the normal force")
            if checks.is_concrete(value) and not float(np.asarray(value)) >= 0:
                raise ValueError(f"`{what}` can't be negative, got {short_repr(value)}.")
        shape = np.shape(self.friction)
        if shape not in ((), (2,)):
            raise ValueError(
                f"`friction` must be a coefficient, or two along the tangents, got {short_repr(self.friction)}."
            )
        checks.array("friction", self.friction, shape, "coefficient of friction")
        if checks.is_concrete(self.friction) and not np.all(np.asarray(self.friction) >= 0):
            raise ValueError(f"`friction` can't be negative, got {short_repr(self.friction)}.")
        check_static_friction(self.friction, self.static_friction, self.stribeck_speed)
        if self.surface_velocity is not None:
            checks.array("surface_velocity", self.surface_velocity, (3,), "of the first body's surface, in its frame")
        check_compliance(self)

    @property
    def static_coefficients(self) -> Any:
        """Coefficients of friction at rest."""
        return self.friction if self.static_friction is None else self.static_friction

    @property
    def has_moments(self) -> bool:
        """Whether drilling or rolling is resisted."""
        return any(not checks.is_concrete(x) or float(np.asarray(x)) != 0 for x in (self.drilling, self.rolling))


def check_static_friction(friction: Any, static: Any, speed: Any) -> None:
    """Raises ValueError for a friction at rest below that of sliding, or without the speed over which it falls."""
    if static is None:
        if speed is not None:
            raise ValueError(
                f"`stribeck_speed` is that over which friction falls from `static_friction`, got {short_repr(speed)} "
                "without one: give it as well, or leave both out."
            )
        return
    shape = np.shape(static)
    if shape not in ((), np.shape(friction)):
        raise ValueError(f"`static_friction` must be a number, or as many as `friction` has, got {short_repr(static)}.")
    checks.array("static_friction", static, shape, "friction at rest")
    if checks.is_concrete(static, friction) and not np.all(np.asarray(static) >= np.asarray(friction)):
        raise ValueError(
            f"`static_friction` can't be below `friction`, {short_repr(friction)}, got {short_repr(static)}: "
            "what grows with the speed is a damper."
        )
    if speed is None:
        raise ValueError(
            "`static_friction` needs `stribeck_speed`, over which friction falls to that of sliding: some mm/s of dry "
            "metals, cm/s of rubber."
        )
    checks.positive("stribeck_speed", speed, (), "over which friction falls to that of sliding")
