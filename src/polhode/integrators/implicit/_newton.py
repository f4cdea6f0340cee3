"""Newton's method for the equations of one implicit step, full or modified, differentiable at the solution."""

from __future__ import annotations

from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from polhode import checks
from polhode.checks import short_repr
from polhode.integrators.base import plain_number
from polhode.integrators.implicit._equations import AbstractEquations, Factors, Place, Residual, TracedOnce, Unknowns
from polhode.integrators.implicit._implicit_differentiation import with_implicit_derivative
from polhode.result_codes import Result

Kind = Literal["full", "simplified", "modified"]

PATIENCE: dict[Kind, int] = {"full": 5, "simplified": 5, "modified": 15}
"""Iterations after which every correction has to reduce the residual."""


class Newton(eqx.Module):
    r"""Settings of Newton's method: when to stop, and when to refactorise.

    An iteration is converged when every part of the residual is at most $\max(\mathtt{rtol}\,\|F_0\|,
    \mathtt{atol}\cdot\text{scale}, 32\,\varepsilon\,\text{magnitude})$ in the Euclidean norm, where F₀ is the
    larger of the first two residuals, but no larger than the terms of the present one, and ε = 2⁻⁵²; or when it
    stagnates so close to that (within a factor of 10⁴ of the tolerances) that only round-off inside the system's
    own functions can be left, or with corrections that no longer move the positions, whose round-off stiff forces
    magnify. With kept factors, stagnation counts only where residuals are no larger than the round-off that the
    equations give; there from the second iteration on corrections that don't move positions are the last ones. One
    iteration is always made.

    "full" factorises in every iteration. "simplified" factorises at the start of each step, and again where four more
    iterations that reduce the residual as the last one did would not be enough. Where it fails, the step starts again
    with full iterations, `max_iterations` of them. "modified" keeps the factors, over steps as well: they are renewed
    in the next iteration when the residual, in units of its tolerance, fell by less than one half from the second
    iteration on, and after `lifetime` iterations. If it grew by more than a factor of two, the step starts again from
    the predictor with new factors. After a second such restart, or 15 iterations, every iteration factorises.

    With a second guess, `second`, the search restarts from it if residuals still grow after 5 iterations, with
    factors of the last place where they are simplified, 15 of "modified", or if they are not finite, at the first
    guess too. From then on it factorises in every iteration and takes no correction that makes the residual larger
    in units of its tolerance, but a quarter of it, and so on. Dry friction and stops need that, where Newton's
    method would go to and fro between two sides of a bend.
    """

    kind: Kind = eqx.field(static=True, default="full")
    rtol: float = eqx.field(static=True, default=1e-10)
    atol: float = eqx.field(static=True, default=1e-10)
    max_iterations: int = eqx.field(static=True, default=25)
    lifetime: int = eqx.field(static=True, default=8)

    def __check_init__(self) -> None:
        checks.choice("newton", self.kind, tuple(PATIENCE))
        for name, value in (("rtol", self.rtol), ("atol", self.atol)):
            plain_number(name, value, "tolerance of Newton's method")
        if not (self.rtol >= 0 and self.atol >= 0 and self.rtol + self.atol > 0):
            raise ValueError(
                f"`rtol` and `atol` must be numbers, not negative and not both zero, got {short_repr(self.rtol)} and "
                f"{short_repr(self.atol)}."
            )
        checks.count("max_iterations", self.max_iterations, "Newton iterations in a step")

    @property
    def keeps_factors(self) -> bool:
        """Whether factors are handed on from step to step."""
        return self.kind == "modified"


class NewtonResult(NamedTuple):
    """Result of Newton's method.

    - `x`, `place`: the solution. - `iterations`: int32. - `residual`: the largest norm of a part.
    - `factors`: those used last, for modified Newton; otherwise None. - `result`: a `Result` code.
    """

    x: Unknowns
    place: Place
    iterations: Array
    residual: Float[Array, ""]
    factors: Factors
    result: Array


class _Loop(NamedTuple):
    """`earlier`: iterations before simplified ones were given up. Others are of the present attempt."""

    x: Unknowns
    place: Place
    parts: tuple[Array, ...]
    norms: Array
    worst: Float[Array, ""]
    first: Array
    iterations: Array
    earlier: Array
    age: Array
    restarts: Array
    factors: Factors
    renew: Array
    guarded: Array
    again: Array
    applied: Unknowns
    excess: Array
    settled: Array
    converged: Array
    result: Array


def solve(
    equations: AbstractEquations, guess: Unknowns, factors: Factors, newton: Newton, second: Unknowns = None
) -> NewtonResult:
    """The solution of F(x) = 0 near `guess`.

    `second` is the guess of a restart if the search from `guess` fails; None: no restart. `factors` are those of
    an earlier solution if `newton` keeps them, otherwise None. The derivative is that of the solution, by the implicit
    function theorem, whatever way led there.
    """
    equations = TracedOnce.of(equations)

    def equation(x: Unknowns) -> tuple[tuple[Array, ...], Place]:
        place = equations.place(x)
        return equations.residual(place, x).parts, place

    def precondition(x: Unknowns, parts: tuple[Array, ...]) -> Unknowns:
        correction = equations.correct(equations.factor(equations.place(x), x), parts)
        return jax.tree.map(jnp.negative, correction)

    return with_implicit_derivative(
        lambda x, old_factors: _search(equations, newton, second, x, old_factors),
        equation,
        precondition,
        guess,
        factors,
    )


class _Search(NamedTuple):
    """Data that all iterations share.

    - `second`: the guess of a restart; None without one. - `near`: the residual where present factors were
      made, for its sizes; None before there is one.
    """

    equations: AbstractEquations
    newton: Newton
    second: Unknowns
    near: Residual | None = None


def _search(
    equations: AbstractEquations, newton: Newton, second: Unknowns, guess: Unknowns, factors: Factors
) -> NewtonResult:
    place = equations.place(guess)
    search = _Search(equations, newton, second)
    zero, false = jnp.zeros((), jnp.int32), jnp.zeros((), bool)
    parts = jax.tree.map(lambda x: jnp.zeros(x.shape), jax.eval_shape(equations.residual, place, guess).parts)
    norms = jnp.zeros(len(parts))
    start = _Loop(
        x=guess,
        place=place,
        parts=parts,
        norms=norms,
        worst=jnp.zeros(()),
        first=norms,
        iterations=zero,
        earlier=zero,
        age=zero,
        restarts=zero,
        factors=factors if newton.keeps_factors else None,
        renew=false,
        guarded=false,
        again=false,
        applied=None if second is None else jax.tree.map(jnp.zeros_like, guess),
        excess=false,
        settled=false,
        converged=false,
        result=zero,
    )
    if newton.kind != "simplified":
        search, start = _begin(search, start)
    step = {"full": _full_iteration, "simplified": _simplified_iterations, "modified": _modified_iteration}[newton.kind]
    end = jax.lax.while_loop(_continues, lambda loop: step(search, start, loop), start)
    # Where an iterate is not finite nothing can be differentiated, not even results that nobody uses.
    finite = jnp.isfinite(sum(jnp.sum(part) for part in jax.tree.leaves(end.x)) + jnp.sum(end.norms))
    x, place = jax.tree.map(lambda a, b: jnp.where(finite, a, b), (end.x, end.place), (start.x, start.place))
    return NewtonResult(x, place, end.earlier + end.iterations, jnp.max(end.norms), end.factors, end.result)


def _begin(search: _Search, loop: _Loop) -> tuple[_Search, _Loop]:
    """The search with the residual of a place, and the loop there."""
    residual = search.equations.residual(loop.place, loop.x)
    norms = _norms(residual)
    is_first = loop.iterations == 0
    first = jnp.where(is_first, norms, loop.first)
    worst = _worst(search.newton, norms, _reference(first, residual), _floor(search.newton, residual))
    failed = is_first & ~jnp.isfinite(jnp.sum(norms))
    if search.second is not None:
        loop = loop._replace(guarded=loop.guarded | failed, again=loop.again | failed)
        failed = jnp.zeros((), bool)
    return search._replace(near=residual), loop._replace(
        parts=residual.parts,
        norms=norms,
        # What lies along the correction that was taken last is compared with the place before.
        worst=jnp.where(loop.excess, loop.worst, worst),
        first=first,
        result=jnp.where(failed, int(Result.nonfinite_state), loop.result).astype(jnp.int32),
    )


def _continues(loop: _Loop) -> Array:
    return ~loop.converged & (loop.result == 0)


def _floor(newton: Newton, residual: Residual) -> Array:
    """The absolute tolerance of each part."""
    round_off = 32 * jnp.finfo(float).eps * jnp.stack(residual.magnitudes)
    return jnp.maximum(round_off, newton.atol * jnp.stack(residual.scales))


def _reference(first: Array, residual: Residual) -> Array:
    """The sizes that `rtol` is relative to: the first residuals, but for those of a correction that led far away.

    A residual is no larger than its terms; from a place where these are larger than they are here nothing follows for
    this one.
    """
    lengths = jnp.sqrt(jnp.array([float(part.size) for part in residual.parts]))
    return jnp.minimum(first, lengths * jnp.stack(residual.magnitudes))


def _worst(newton: Newton, norms: Array, reference: Array, floor: Array) -> Float[Array, ""]:
    """The largest part in units of its tolerance."""
    return jnp.max(norms / jnp.maximum(jnp.maximum(newton.rtol * reference, floor), jnp.finfo(float).tiny))


def _norms(residual: Residual) -> Array:
    return jnp.stack([jnp.sqrt(jnp.sum(part * part)) for part in residual.parts])


def _if_finite(norms: Array) -> Array:
    """Norms of residuals, zero where they are not finite."""
    return jnp.where(jnp.isfinite(norms), norms, 0.0)


def _full_iteration(search: _Search, start: _Loop, loop: _Loop) -> _Loop:
    new = _update(search, loop, search.equations.factor(loop.place, loop.x), jnp.ones((), bool))
    return new if search.second is None else _guard(search.newton, loop, new)


def _simplified_iterations(search: _Search, start: _Loop, loop: _Loop) -> _Loop:
    """Iterations with the factors of one place, as long as they serve: those are no values that a loop hands on.

    Where they fail they become full ones: a new search that nothing distinguishes from one of that kind. The residual
    is evaluated beside the factors, with which it shares places and forces, so that code has these once.
    """
    search, loop = _begin(search, loop)
    factors = search.equations.factor(loop.place, loop.x)
    is_full = loop.restarts > 0

    def iterate(state: tuple[_Loop, Array]) -> tuple[_Loop, Array]:
        loop, fresh = state
        new = _update(search, loop, factors, fresh)
        ratio = new.worst / jnp.maximum(loop.worst, jnp.finfo(float).tiny)
        new = new._replace(renew=~(new.worst * ratio**4 <= 1) | is_full)
        return new if search.second is None else _guard(search.newton, loop, new, fresh), jnp.zeros((), bool)

    serves = lambda state: _continues(state[0]) & ~state[0].renew  # noqa: E731
    fresh = jnp.ones((), bool)
    new = jax.lax.while_loop(serves, iterate, (loop._replace(renew=~fresh), fresh))[0]
    again = start._replace(earlier=new.iterations, restarts=new.restarts + 1)
    failed = (new.result != 0) & ~is_full
    return jax.tree.map(lambda a, b: jnp.where(failed, a, b), again, new)


def _modified_iteration(search: _Search, start: _Loop, loop: _Loop) -> _Loop:
    equations, newton = search.equations, search.newton
    factors = jax.lax.cond(
        loop.renew,
        lambda place, x, old: equations.factor(place, x),
        lambda place, x, old: old,
        loop.place,
        loop.x,
        loop.factors,
    )
    age = jnp.where(loop.renew, 0, loop.age)
    new = _update(search, loop, factors, loop.renew)
    ratio = new.worst / jnp.maximum(loop.worst, jnp.finfo(float).tiny)
    grew = ~(ratio <= 2) & ~loop.renew & ~new.converged & ~new.settled
    slow = (ratio > 0.5) & (new.iterations > 1)
    again = start._replace(
        iterations=new.iterations,
        restarts=loop.restarts + 1,
        renew=jnp.ones((), bool),
        factors=factors,
        result=jnp.where(new.iterations >= newton.max_iterations, new.result, 0).astype(jnp.int32),
    )
    hopeless = (loop.restarts > 1) | (new.iterations >= PATIENCE["modified"])
    new = new._replace(age=age + 1, renew=slow | (age + 1 >= newton.lifetime) | hopeless)
    if search.second is not None:
        new = _guard(newton, loop, new)
        grew = grew & ~new.guarded
    return jax.tree.map(lambda a, b: a if a is b else jnp.where(grew, a, b), again, new)


def _guard(newton: Newton, loop: _Loop, new: _Loop, fresh: ArrayLike = True) -> _Loop:
    """`new`, safeguarded: it restarts from `second`, or goes back along the correction, where it fails."""
    end = new.converged | (new.iterations >= newton.max_iterations) | (new.result == int(Result.singular_constraints))
    not_finite = ~jnp.isfinite(new.worst)
    in_vain = (new.iterations >= PATIENCE[newton.kind]) & fresh & (new.worst >= loop.worst)
    from_second = ~loop.guarded & (not_finite | in_vain) & ~end
    excess = loop.guarded & ~loop.again & ~(new.worst < loop.worst) & ~end
    return new._replace(
        guarded=loop.guarded | from_second,
        again=from_second,
        excess=excess,
        renew=new.renew | from_second | loop.guarded,
        # The bound is that of the place before.
        worst=jnp.where(excess, loop.worst, new.worst),
        result=jnp.where(from_second | excess, 0, new.result).astype(jnp.int32),
    )


def _update(search: _Search, loop: _Loop, factors: Factors, fresh: Array) -> _Loop:
    """One correction and its tests of convergence; `fresh`: whether the factors are those of this place."""
    equations, newton, second, near = search
    correction = equations.correct(factors, loop.parts)
    dx = last_correction = correction
    if second is not None:
        # A quarter of the last correction instead.
        dx = jax.tree.map(lambda new, old: jnp.where(loop.excess, -0.75 * old, new), correction, loop.applied)
        last_correction = jax.tree.map(
            lambda new, old: jnp.where(loop.excess, 0.25 * old, new), correction, loop.applied
        )
    x = jax.tree.map(jnp.add, loop.x, dx)
    if second is not None:
        x = jax.tree.map(lambda x, y: jnp.where(loop.again, y, x), x, second)
    place = equations.place(x)
    assert near is not None
    residual = equations.residual_near(place, x, near)
    norms = _norms(residual)
    iterations = loop.iterations + 1
    first = jnp.where(iterations == 1, jnp.maximum(_if_finite(loop.first), _if_finite(norms)), loop.first)
    floor, reference = _floor(newton, residual), _reference(first, residual)
    worst = _worst(newton, norms, reference, floor)
    converged = worst <= 1
    round_off = equations.amplified_round_off(factors, residual)
    noise_sizes = residual.noise if round_off is None else round_off
    noise = 0.0 if noise_sizes is None else 32 * jnp.finfo(float).eps * jnp.stack(noise_sizes)
    # A slow iteration with kept factors says little about round-off where that is smaller.
    low = jnp.all(norms <= 8 * floor + noise)
    # An iteration that brings one part to its floor has helped, and may help the others next.
    stagnates = (fresh | low) & jnp.all((norms > 0.5 * loop.norms) | (loop.norms <= floor))
    # A restart has not settled, however small the correction would have been, nor has what went back a part of one.
    settled = equations.negligible(place, dx) & ~loop.again & ~loop.excess
    within = 1e4 * jnp.maximum(newton.rtol * reference, newton.atol * jnp.stack(residual.scales)) + floor + noise
    close = jnp.all(norms <= within) | settled
    converged = converged | (stagnates & close & ((iterations > 2) | (low & settled)))
    if round_off is not None:
        # Positions that round-off holds in their places don't answer to corrections as the matrix supposes: iterations
        # would go on to get better slowly, at something that is round-off.
        converged = converged | (low & settled & (iterations > 1))
    singular = ~jnp.isfinite(sum(jnp.sum(part) for part in jax.tree.leaves(dx)))
    # Far from any solution a matrix may be anything.
    singular = singular & ~jnp.any(loop.norms > 100 * loop.first) & ~loop.again
    failed = ~jnp.isfinite(jnp.sum(norms)) | (iterations >= newton.max_iterations)
    result = jnp.where(
        converged,
        0,
        jnp.where(singular, int(Result.singular_constraints), jnp.where(failed, int(Result.newton_not_converged), 0)),
    )
    return loop._replace(
        x=x,
        place=place,
        parts=residual.parts,
        norms=norms,
        worst=worst,
        first=first,
        iterations=iterations,
        applied=None if second is None else last_correction,
        factors=factors if newton.keeps_factors else None,
        settled=settled,
        converged=converged,
        result=result.astype(jnp.int32),
    )
