"""The laws of contacts as projections, in units in which all friction coefficients are 1."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from polhode.contact.contact_problem import OPEN, SLIDE, STICK, UnitProblem, discs, slip_rows
from polhode.contact.smoothed_laws import disc_scale, positive_part

Impulses = Float[Array, "k rows"]


class LawNumbers(Protocol):
    """Numbers of a scaled problem in its laws: see `UnitProblem`."""

    @property
    def least(self) -> Float[Array, " k"]: ...
    @property
    def present(self) -> Bool[Array, "k rows"]: ...
    @property
    def step(self) -> Impulses: ...
    @property
    def hold(self) -> Float[Array, " k"] | None: ...
    @property
    def smoothing(self) -> Array | None: ...


class Projection(NamedTuple):
    """Projections of arguments a = z − ρw: normal ones to z_N ≥ m, others to discs of radius z_N, or of H.

    - `value`. - `derivative`: with respect to a, a block for each contact. - `by_bound`: with respect to m.
    - `by_hold`: with respect to H.
    """

    value: Impulses
    derivative: Float[Array, "k rows rows"]
    by_bound: Impulses
    by_hold: Impulses


def velocities(problem: UnitProblem, z: Impulses) -> Impulses:
    """w = Az + c."""
    return (problem.matrix @ z.reshape(-1) + problem.velocity).reshape(z.shape)


def radii(normal: Float[Array, "..."], hold: Float[Array, "..."] | None) -> Float[Array, "..."]:
    """Bounds of friction: H, or the normal impulse. A negative one, where bounds allow it, leaves no friction."""
    pressed = jnp.maximum(normal, 0.0)
    return pressed if hold is None else jnp.where(hold >= 0, hold, pressed)


def raise_to_bound(normal: Array, least: Array, step: Array, smoothing: Array | None) -> Array:
    """Normal impulses not below their bounds, from arguments of the projection with factors ρ."""
    if smoothing is None:
        return jnp.maximum(normal, least)
    return least + positive_part(normal - least, step * smoothing)[0]


def disc_factor(length: Array, radius: Array, step: Array, smoothing: Array | None) -> Array:
    """Factors by which vectors of these lengths come into a disc."""
    if smoothing is not None:
        return disc_scale(length, radius, step * smoothing)[0]
    slides = length > radius
    return jnp.where(slides, radius / jnp.where(slides, length, 1.0), 1.0)


def project(a: Impulses, problem: LawNumbers) -> Impulses:
    """The projections themselves."""
    normal = raise_to_bound(a[:, 0], problem.least, problem.step[:, 0], problem.smoothing)
    parts = [normal[:, None]]
    radius = radii(normal, problem.hold)
    for disc in discs(a.shape[1]):
        factor = disc_factor(_lengths(a[:, disc]), radius, problem.step[:, disc.start], problem.smoothing)
        parts.append(factor[:, None] * a[:, disc])
    return jnp.concatenate(parts, axis=1)


def residual(problem: LawNumbers, z: Impulses, w: Impulses) -> Impulses:
    """F = z − projection of (z − ρw), zero where the laws hold.

    It is ρw where the projection changes nothing: of a difference, impulses beyond 10¹⁶ would leave nothing.
    """
    way = problem.step * w
    a = z - way
    value = project(a, problem)
    if problem.smoothing is not None:
        return z - value
    radius = radii(value[:, 0], problem.hold)
    parts = [jnp.where(a[:, :1] > problem.least[:, None], way[:, :1], z[:, :1] - problem.least[:, None])]
    for disc in discs(a.shape[1]):
        inside = (_lengths(a[:, disc]) <= radius)[:, None]
        parts.append(jnp.where(inside, way[:, disc], z[:, disc] - value[:, disc]))
    return jnp.concatenate(parts, axis=1)


def linearise(problem: LawNumbers, z: Impulses, w: Impulses) -> Projection:
    """The projections with their derivatives; rows that are not present have none."""
    if problem.smoothing is not None:
        return _linearise_smoothed(problem, z - problem.step * w, problem.smoothing)
    a = z - problem.step * w
    k, rows = a.shape
    value, free = project(a, problem), a[:, 0] > problem.least
    radius = radii(value[:, 0], problem.hold)
    held = jnp.zeros(k, bool) if problem.hold is None else problem.hold >= 0
    blocks = [_block(free[:, None, None].astype(float), 0, rows)]
    by_bound, by_hold = [(~free)[:, None].astype(float)], [jnp.zeros((k, 1))]
    for disc in discs(rows):
        part = a[:, disc]
        length = _lengths(part)
        slides, pressed = length > radius, radius > 0
        unit = jnp.where(slides, 1 / jnp.where(slides, length, 1.0), 0.0)[:, None] * part
        width = disc.stop - disc.start
        across = jnp.eye(width) - unit[:, :, None] * unit[:, None, :]
        ratio = jnp.where(slides, radius / jnp.where(slides, length, 1.0), 1.0)
        inner = jnp.where(pressed, ratio, 0.0)[:, None, None] * jnp.where(slides[:, None, None], across, jnp.eye(width))
        by_normal = jnp.where((free & pressed & ~held)[:, None], unit, 0.0)
        left = jnp.concatenate((by_normal[:, :, None], jnp.zeros((k, width, disc.start - 1)), inner), axis=2)
        blocks.append(_block(left, 0, rows))
        by_bound.append(jnp.where((~free & pressed & ~held)[:, None], unit, 0.0))
        by_hold.append(jnp.where((pressed & held)[:, None], unit, 0.0))
    derivative = jnp.where(problem.present[:, :, None], jnp.concatenate(blocks, axis=1), 0.0)
    bounds = (jnp.where(problem.present, jnp.concatenate(parts, axis=1), 0.0) for parts in (by_bound, by_hold))
    return Projection(value, derivative, *bounds)


def _linearise_smoothed(problem: LawNumbers, a: Impulses, smoothing: Array) -> Projection:
    k, rows = a.shape
    _, rises = positive_part(a[:, 0] - problem.least, problem.step[:, 0] * smoothing)
    value = project(a, problem)
    radius = radii(value[:, 0], problem.hold)
    held = jnp.zeros(k, bool) if problem.hold is None else problem.hold >= 0
    blocks, by_bound, by_hold = [_block(rises[:, None, None], 0, rows)], [1 - rises[:, None]], [jnp.zeros((k, 1))]
    for disc in discs(rows):
        part, width = a[:, disc], disc.stop - disc.start
        length = _lengths(part)
        unit = part / jnp.where(length > 0, length, 1.0)[:, None]
        factor, by_length, by_radius = disc_scale(length, radius, problem.step[:, disc.start] * smoothing)
        over = jnp.where(radius > 0, factor / jnp.where(radius > 0, radius, 1.0), 0.0)
        along = (over * by_length * length)[:, None, None] * unit[:, :, None] * unit[:, None, :]
        inner = factor[:, None, None] * (jnp.eye(width) - along)
        wider = (over * (1 - factor * by_radius))[:, None] * part
        pressed = jnp.where(held[:, None], 0.0, wider)
        none = jnp.zeros((k, width, disc.start - 1))
        left = jnp.concatenate(((pressed * rises[:, None])[:, :, None], none, inner), axis=2)
        blocks.append(_block(left, 0, rows))
        by_bound.append(pressed * (1 - rises[:, None]))
        by_hold.append(jnp.where(held[:, None], wider, 0.0))
    derivative = jnp.where(problem.present[:, :, None], jnp.concatenate(blocks, axis=1), 0.0)
    bounds = (jnp.where(problem.present, jnp.concatenate(parts, axis=1), 0.0) for parts in (by_bound, by_hold))
    return Projection(value, derivative, *bounds)


def modes(problem: UnitProblem, z: Impulses, w: Impulses) -> Int[Array, " k"]:
    """The mode of each contact: one slides if its tangential impulse is at the bound."""
    a = z - problem.step * w
    radius = radii(jnp.maximum(a[:, 0], problem.least), problem.hold)
    slides: Bool[Array, " k"] = jnp.ones(len(radius), bool)
    if a.shape[1] > 1:
        along = slip_rows(a.shape[1])
        slides = (_lengths(a[:, along]) > radius) | ~jnp.any(problem.present[:, along], axis=1)
    return jnp.where(radius > 0, jnp.where(slides, SLIDE, STICK), OPEN)


def _lengths(part: Float[Array, "k w"]) -> Float[Array, " k"]:
    return jnp.abs(part[:, 0]) if part.shape[1] == 1 else jnp.sqrt(jnp.sum(part * part, axis=1))


def _block(values: Float[Array, "k w c"], first: int, rows: int) -> Float[Array, "k w rows"]:
    k, width, count = values.shape
    return jnp.concatenate((jnp.zeros((k, width, first)), values, jnp.zeros((k, width, rows - first - count))), axis=2)
