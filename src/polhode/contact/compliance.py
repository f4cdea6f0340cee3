"""Numbers of compliant contacts: stiffness from materials, damping from restitution."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import is_zero, short_repr

_ITERATIONS = 60
_NEARLY_ELASTIC = 1e-4
"""1 - e below which damping is a series: the equation has a double root at e = 1."""


def hertz_stiffness(young: Any, poisson: Any, radii: Any) -> Float[Array, ""]:
    r"""The stiffness $k = \tfrac43 E^*\sqrt{R^*}$ of two spheres after H. Hertz, whose force is $k\,\delta^{3/2}$.

    With $1/E^* = \sum (1-\nu_i^2)/E_i$ and $1/R^* = \sum 1/R_i$.

    **Arguments:**

    - `young`, `poisson`: E and ν of both materials, each one number or two.
    - `radii`: two; `inf` for a plane, negative for the inside of a sphere.

    **Raises** ValueError for numbers that make no sense.
    """
    young, poisson, radii = (
        _two(name, value, meaning)
        for name, value, meaning in (
            ("young", young, "moduli of elasticity, force per area"),
            ("poisson", poisson, "ratios of lateral contraction"),
            ("radii", radii, "of two spheres"),
        )
    )
    curvature = jnp.sum(1 / radii)
    if checks.is_concrete(young) and not np.all(np.asarray(young) > 0):
        raise ValueError(f"`young` must be positive, got {_list(young)}.")
    if checks.is_concrete(poisson) and not np.all((np.asarray(poisson) > -1) & (np.asarray(poisson) <= 0.5)):
        raise ValueError(f"`poisson` must be above -1 and at most 1/2, got {_list(poisson)}.")
    if checks.is_concrete(curvature) and not float(curvature) > 0:
        raise ValueError(
            f"`radii` must have a positive sum of curvatures 1/R, got {_list(radii)}: Hertz's "
            "law is for surfaces that touch in a point. For others give `stiffness` itself."
        )
    return 4 / 3 / jnp.sum((1 - poisson**2) / young) / jnp.sqrt(curvature)


def impact_damping(restitution: Any, speed: Any) -> Float[Array, ""]:
    r"""The damping c with which a force $k\delta^p(1 + c\dot\delta)$ has a restitution at an impact speed.

    The restitution e of this law (K. Hunt & F. Crossley, 1975) depends on d = c v alone, not on stiffness, exponent or
    mass: $\ln\frac{1 + d}{1 - e d} = d\,(1 + e)$. Slower impacts are thrown back with more. Near e = 1
    it is $d = \tfrac32(1-e)$; no damping has e = 0.

    **Raises** ValueError for a restitution that is not above 0 and at most 1, and for a speed that is not positive.
    """
    e = checks.array("restitution", restitution, (), "speed after over speed before")
    v = checks.positive("speed", speed, (), "before impact")
    if checks.is_concrete(e) and not 0 < float(e) <= 1:
        raise ValueError(
            f"`restitution` of a compliant contact must be above 0 and at most 1, got {short_repr(restitution)}: its "
            "elastic force always throws back something. Give a small one, or law='rigid'."
        )
    return _scaled_damping(e) / v


def _scaled_damping(e: Array) -> Array:
    """c v, by Newton's method for s = -ln(1 - e d), which grows like d itself; from above, where it is convex."""
    elastic = 1 - e < _NEARLY_ELASTIC
    regular = jnp.where(elastic, 0.5, e)
    fixed = jax.lax.stop_gradient(regular)
    s = (1 + fixed) / fixed
    for _ in range(_ITERATIONS):
        s = _newton(s, fixed)
    # One more step has the derivative by e.
    root = -jnp.expm1(-_newton(s, regular)) / regular
    return jnp.where(elastic, 1.5 * (1 - e) * (2 - e), root)


def _newton(s: Array, e: Array) -> Array:
    left = jnp.exp(-s)
    d = -jnp.expm1(-s) / e
    return s - (jnp.log1p(d) + s - d * (1 + e)) / (1 + left / e * (1 / (1 + d) - (1 + e)))


def _two(name: str, value: Any, meaning: str) -> Float[Array, "2"]:
    shape = np.shape(value)
    if shape not in ((), (2,)):
        raise ValueError(f"`{name}` must be two numbers ({meaning}), got {short_repr(value)}.")
    if name == "radii" and checks.is_concrete(value):
        # Infinite ones are planes.
        return jnp.broadcast_to(jnp.asarray(value, float), (2,))
    return jnp.broadcast_to(checks.array(name, value, shape, meaning), (2,))


def _list(values: Any) -> str:
    return short_repr(np.asarray(values).tolist())


def check_compliance(rule: Any) -> None:
    """Raises ValueError for numbers of a contact rule that its law doesn't have, or that make no sense."""
    extras = {name: getattr(rule, name) for name in ("stiffness", "impact_speed", "slip_speed")}
    extras |= {} if is_zero(rule.damping) else {"damping": rule.damping}
    extras = {name: value for name, value in extras.items() if value is not None}
    if rule.law == "rigid":
        if extras:
            name, value = next(iter(extras.items()))
            raise ValueError(
                f"`{name}` is for compliant contacts, got {short_repr(value)}: give law='compliant' as well, or leave "
                "it out."
            )
        return
    if rule.stiffness is None:
        raise ValueError(
            "law='compliant' needs `stiffness`, force per depth to the power `exponent`; of two spheres "
            "`polhode.forces.hertz_stiffness(young, poisson, radii)` has it."
        )
    checks.positive("stiffness", rule.stiffness, (), "force per depth to the power `exponent`")
    _check_least("exponent", rule.exponent, 1.0, "power of the depth; smaller ones are infinitely stiff at touch")
    _check_least("damping", rule.damping, 0.0, "time per length")
    for name in ("tangential_restitution", "drilling", "rolling", "static_friction"):
        if not is_zero(getattr(rule, name) or 0.0):
            raise ValueError(
                f"Compliant contacts have no `{name}`, got {short_repr(getattr(rule, name))}: leave it out, or take "
                "law='rigid'."
            )
    _check_restitution(rule)
    if rule.slip_speed is not None:
        checks.positive("slip_speed", rule.slip_speed, (), "at which friction has 0.7 of its bound")


def _check_restitution(rule: Any) -> None:
    """Restitution is a damping, and belongs to an impact speed."""
    if is_zero(rule.restitution) and rule.impact_speed is None:
        return
    if not is_zero(rule.damping):
        raise ValueError(
            f"Give `damping`, here {short_repr(rule.damping)}, or `restitution` at an `impact_speed`, which makes it."
        )
    if rule.impact_speed is None:
        raise ValueError(
            f"The restitution of compliant contacts depends on the speed: give the `impact_speed` at which it is "
            f"{short_repr(rule.restitution)}, or `damping` itself."
        )
    impact_damping(rule.restitution, rule.impact_speed)


def _check_least(name: str, value: Any, least: float, meaning: str) -> None:
    checks.array(name, value, (), meaning)
    if checks.is_concrete(value) and not float(np.asarray(value)) >= least:
        raise ValueError(f"`{name}` must be at least {least:g} ({meaning}), got {short_repr(value)}.")
