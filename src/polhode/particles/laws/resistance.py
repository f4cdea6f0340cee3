"""Resistance to rolling and to twisting: a spring, a dashpot and a slider."""

from __future__ import annotations

from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from polhode import checks


class RollingResistance(eqx.Module):
    """A moment against rolling, R* times the force of a spring, a dashpot and a slider.

    The spring is as long as the distance rolled, ∫R*(ω₁-ω₂)×n dt, and slips at `rolling_friction` times the normal
    force.

    **Arguments:**

    - `rolling_stiffness`: force per length. - `rolling_friction`: dimensionless. - `rolling_damping`: force per speed.

    ??? cite "Reference"
        S. Luding, Cohesive, frictional powders: contact models for tension, Granular Matter 10 (2008). Y. Wang, F.
        Alonso-Marroquin, W. Guo, Rolling and sliding in 3-D discrete element models, Particuology 23 (2015).
    """

    rolling_stiffness: Float[Array, ""]
    rolling_friction: Float[Array, ""]
    rolling_damping: Float[Array, ""]

    def __init__(self, rolling_stiffness: Any, rolling_friction: Any, rolling_damping: Any = 0.0) -> None:
        self.rolling_stiffness = checks.positive("rolling_stiffness", rolling_stiffness, (), "force per length")
        self.rolling_friction = checks.not_negative("rolling_friction", rolling_friction, (), "coefficient")
        self.rolling_damping = checks.not_negative("rolling_damping", rolling_damping, (), "force per speed")


class TwistingResistance(eqx.Module):
    """A moment against turning about the normal, R* times the force of a spring, a dashpot and a slider.

    The spring is as long as ∫R*(ω₁-ω₂)·n dt, and slips at `twisting_friction` times the normal force.

    **Arguments:**

    - `twisting_stiffness`: force per length. - `twisting_friction`: dimensionless. - `twisting_damping`: force per
      speed.
    """

    twisting_stiffness: Float[Array, ""]
    twisting_friction: Float[Array, ""]
    twisting_damping: Float[Array, ""]

    def __init__(self, twisting_stiffness: Any, twisting_friction: Any, twisting_damping: Any = 0.0) -> None:
        self.twisting_stiffness = checks.positive("twisting_stiffness", twisting_stiffness, (), "force per length")
        self.twisting_friction = checks.not_negative("twisting_friction", twisting_friction, (), "coefficient")
        self.twisting_damping = checks.not_negative("twisting_damping", twisting_damping, (), "force per speed")
