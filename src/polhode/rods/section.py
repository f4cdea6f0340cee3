"""Cross sections of rods: stiffness, inertia and damping."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.compiler.numpy.eager import eager_numpy

STRAINS = ("K1", "K2", "K3", "G1", "G2", "G3")
"""Bending about the first and second axis of the section, torsion; shear along both, extension."""

_REMEDY = "Build the model in a function of this number instead."


@dataclasses.dataclass(frozen=True, eq=False)
class Section:
    """Inertia and stiffness of a cross section of a rod, checked at construction.

    Strains are w = (K, Γ) = (bending about axes 1 and 2, torsion; shear along axes 1 and 2, extension) with the third
    axis along the rod: curvatures in rad per length, Γ without unit. The stress resultants are the moments and forces
    C (w - w⁰) + D ẇ.

    **Arguments:**

    - `stiffness`: C, diagonal (EI₁, EI₂, GJ, GA₁, GA₂, EA) of shape (6,), or symmetric (6, 6); positive definite.
    - `mass`: per length.
    - `inertia`: per length about the axes of the section, shape (3,), or (3, 3).
    - `damping`: D of a Kelvin–Voigt material, a number for all strains, shape (6,) or (6, 6); positive semidefinite.
      None or 0 for an elastic rod.
    - `radius`: half the thickness, for drawing and contact; 0 if not known.

    **Raises** ValueError for numbers that no material has.
    """

    stiffness: Any
    mass: Any
    inertia: Any
    damping: Any = None
    radius: Any = 0.0

    @eager_numpy()
    def __post_init__(self) -> None:
        checks.refuse_parameters(_REMEDY, **vars(self))
        put = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731
        put("stiffness", _matrix("stiffness", self.stiffness, "(EI1, EI2, GJ, GA1, GA2, EA) or a symmetric 6×6 matrix"))
        put("mass", checks.positive("mass", self.mass, (), "mass per length of a rod"))
        put("inertia", _inertia(self.inertia))
        damping = None if _vanishes(self.damping) else _matrix("damping", _per_strain(self.damping), "like `stiffness`")
        put("damping", damping)
        put("radius", checks.array("radius", self.radius, (), "half the thickness of a rod"))
        _definite("stiffness", self.stiffness, strictly=True)
        if damping is not None:
            _definite("damping", damping, strictly=False)


def circular(
    radius: Any,
    *,
    youngs_modulus: Any,
    density: Any,
    shear_modulus: Any = None,
    poisson: Any = 0.3,
    shear_correction: Any = None,
    damping: Any = None,
) -> Section:
    """A full circular section.

    **Arguments:**

    - `radius`: of the section.
    - `youngs_modulus`, `shear_modulus`: E and G; G = E/(2 (1 + ν)) by default.
    - `density`: mass per volume.
    - `poisson`: ν, for G and the shear correction.
    - `shear_correction`: κ in GA; 6 (1 + ν)/(7 + 6ν) of Cowper by default.
    - `damping`: as in `Section`.
    """
    checks.refuse_parameters(_REMEDY, **locals())
    radius = checks.positive("radius", radius, (), "of a circular section")
    area, second = jnp.pi * radius**2, 0.25 * jnp.pi * radius**4
    nu = _poisson(poisson)
    kappa = 6 * (1 + nu) / (7 + 6 * nu) if shear_correction is None else shear_correction
    shape = _Shape(area, second, second, 2 * second, kappa, kappa, radius)
    return _solid(shape, youngs_modulus, shear_modulus, nu, density, damping)


def tube(
    outer_radius: Any,
    inner_radius: Any,
    *,
    youngs_modulus: Any,
    density: Any,
    shear_modulus: Any = None,
    poisson: Any = 0.3,
    shear_correction: Any = None,
    damping: Any = None,
) -> Section:
    """A circular tube; arguments as for `circular`, κ of Cowper for hollow circles by default."""
    checks.refuse_parameters(_REMEDY, **locals())
    b = checks.positive("outer_radius", outer_radius, (), "of a tube")
    a = checks.positive("inner_radius", inner_radius, (), "of a tube")
    if checks.is_concrete(a, b) and not a < b:
        raise ValueError(f"`inner_radius` must be smaller than `outer_radius`, got {float(a):g} and {float(b):g}.")
    area, second = jnp.pi * (b**2 - a**2), 0.25 * jnp.pi * (b**4 - a**4)
    nu, m2 = _poisson(poisson), (a / b) ** 2
    hollow = 6 * (1 + nu) * (1 + m2) ** 2 / ((7 + 6 * nu) * (1 + m2) ** 2 + (20 + 12 * nu) * m2)
    kappa = hollow if shear_correction is None else shear_correction
    shape = _Shape(area, second, second, 2 * second, kappa, kappa, b)
    return _solid(shape, youngs_modulus, shear_modulus, nu, density, damping)


def rectangle(
    width: Any,
    height: Any,
    *,
    youngs_modulus: Any,
    density: Any,
    shear_modulus: Any = None,
    poisson: Any = 0.3,
    shear_correction: Any = None,
    damping: Any = None,
) -> Section:
    """A full rectangle, `width` along the first and `height` along the second axis of the section.

    Other arguments as for `circular`; κ = 10 (1 + ν)/(12 + 11ν) of Cowper by default. The torsion constant is that of
    Saint-Venant, as a series.
    """
    checks.refuse_parameters(_REMEDY, **locals())
    w = checks.positive("width", width, (), "of a rectangular section")
    h = checks.positive("height", height, (), "of a rectangular section")
    nu = _poisson(poisson)
    kappa = 10 * (1 + nu) / (12 + 11 * nu) if shear_correction is None else shear_correction
    shape = _Shape(w * h, w * h**3 / 12, h * w**3 / 12, _torsion_constant(w, h), kappa, kappa, 0.5 * jnp.minimum(w, h))
    return _solid(shape, youngs_modulus, shear_modulus, nu, density, damping)


@dataclasses.dataclass(frozen=True)
class _Shape:
    """Area, second moments about axes 1 and 2, torsion constant, shear corrections along axes 1 and 2, radius."""

    area: Any
    I1: Any
    I2: Any
    J: Any
    kappa1: Any
    kappa2: Any
    radius: Any


def _solid(shape: _Shape, youngs_modulus: Any, shear_modulus: Any, nu: Any, density: Any, damping: Any) -> Section:
    E = checks.positive("youngs_modulus", youngs_modulus, (), "force per area")
    G = E / (2 * (1 + nu)) if shear_modulus is None else checks.positive("shear_modulus", shear_modulus, (), "as E")
    rho = checks.positive("density", density, (), "mass per volume")
    stiffness = (
        E * shape.I1,
        E * shape.I2,
        G * shape.J,
        shape.kappa1 * G * shape.area,
        shape.kappa2 * G * shape.area,
        E * shape.area,
    )
    inertia = jnp.stack([jnp.asarray(x) for x in (rho * shape.I1, rho * shape.I2, rho * (shape.I1 + shape.I2))])
    return Section(jnp.stack([jnp.asarray(c) for c in stiffness]), rho * shape.area, inertia, damping, shape.radius)


def _torsion_constant(w: Array, h: Array) -> Array:
    """Saint-Venant's J = a b³ (1/3 - (64/π⁵) (b/a) Σ tanh((2k+1)πa/(2b))/(2k+1)⁵), a ≥ b, of a rectangle."""
    a, b = jnp.maximum(w, h), jnp.minimum(w, h)
    odd = 2 * jnp.arange(20) + 1.0
    series = jnp.sum(jnp.tanh(odd * jnp.pi * a / (2 * b)) / odd**5)
    return a * b**3 * (1 / 3 - 64 / jnp.pi**5 * (b / a) * series)


def _poisson(value: Any) -> Array:
    nu = checks.array("poisson", value, (), "Poisson's ratio")
    if checks.is_concrete(nu) and not -1 < float(nu) <= 0.5:
        raise ValueError(f"`poisson` must be greater than -1 and at most 0.5, got {float(nu):g}.")
    return nu


def _matrix(name: str, value: Any, meaning: str) -> Float[Array, "6 6"]:
    shape = checks.shape(name, value, meaning)
    if shape == (6,):
        return jnp.diag(checks.array(name, value, (6,), meaning))
    if shape != (6, 6):
        raise ValueError(f"`{name}` must be {meaning}, got shape {shape}.")
    matrix = checks.array(name, value, (6, 6), meaning)
    if checks.is_concrete(matrix):
        entries = np.asarray(matrix)
        if np.max(np.abs(entries - entries.T)) > 1e-9 * np.max(np.abs(entries), initial=0.0):
            raise ValueError(f"`{name}` must be symmetric, got {entries.tolist()}.")
    return 0.5 * (matrix + matrix.T)


def _definite(name: str, matrix: Any, strictly: bool) -> None:
    if not checks.is_concrete(matrix):
        return
    values = np.linalg.eigvalsh(_unitless(np.asarray(matrix)))
    if values[0] > 0 if strictly else values[0] >= -1e-12 * max(values[-1], 0.0):
        return
    requirement = "positive definite" if strictly else "positive semidefinite"
    remedy = (
        " Strains without stiffness make a rod a mechanism; give them any positive stiffness and hold them with "
        "`constrained` in `add_rod`."
    )
    raise ValueError(
        f"`{name}` must be {requirement}: with its diagonal scaled to 1 its eigenvalues are {values.tolist()}, its "
        f"diagonal is {np.diag(np.asarray(matrix)).tolist()}.{remedy if strictly else ''}"
    )


def _unitless(matrix: np.ndarray) -> np.ndarray:
    """The matrix with the absolute diagonal scaled to 1, so that moments and forces compare."""
    scale = np.sqrt(np.abs(np.diag(matrix)))
    scale = np.where(scale > 0, scale, 1.0)
    return matrix / scale[:, None] / scale


def _inertia(value: Any) -> Float[Array, "3 3"]:
    meaning = "per length about the axes of the section, (3,) or a symmetric 3×3 matrix"
    shape = checks.shape("inertia", value, meaning)
    if shape not in ((3,), (3, 3)):
        raise ValueError(f"`inertia` must be {meaning}, got shape {shape}.")
    moments = checks.array("inertia", value, shape, meaning)
    matrix = jnp.diag(moments) if moments.ndim == 1 else moments
    if checks.is_concrete(matrix) and not np.allclose(matrix, np.transpose(matrix), rtol=1e-9, atol=0):
        raise ValueError(f"`inertia` must be symmetric, got {np.asarray(matrix).tolist()}.")
    if checks.is_concrete(matrix) and not np.linalg.eigvalsh(np.asarray(matrix))[0] > 0:
        raise ValueError(
            f"`inertia` must be positive definite, got {np.asarray(matrix).tolist()}. Nodes turn, so they need rotary "
            "inertia; that of the section is density times its second moments of area."
        )
    return matrix


def _per_strain(value: Any) -> Any:
    return jnp.full(6, value) if checks.shape("damping", value, "of a section") == () else value


def _vanishes(value: Any) -> bool:
    return value is None or (checks.is_concrete(value) and not np.any(checks.numbers("damping", value, "of a section")))
