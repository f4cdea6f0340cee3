"""Measurements of every method of the registry: the cells of the table of methods."""

from __future__ import annotations

import dataclasses
import functools
import gc
import warnings
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from compiling import quick
from tumbling import VALUES, Form, form_of

import polhode as ph
from polhode.compiler import batched_function, size_limits
from polhode.compiler.cache import program_cache
from polhode.compiler.llvm import jit
from polhode.compiler.numpy.eager import eager_numpy
from polhode.compiler.numpy.interpreter import from_jaxpr
from polhode.integrators import AbstractIntegrator, Carry, StepInfo
from polhode.simulation.loops import native, traced

METHODS = [name for name in ph.integrators.names() if not ph.integrators.get(name).needs_contacts]
"""All methods but those that take only bodies that touch each other, which `tests/contact` measures."""

COUNTS = {1: 1600, 2: 800, 3: 200, 4: 100, 5: 80, 6: 40}
"""Order → steps a second at which methods are in their asymptotic range, and their errors above round-off."""

STEPS, H = 200, 5e-3
"""Of the runs that back ends make."""

COARSE = {1: 2e-3}
"""Order → step at which promises are held to; those not named take `_COARSE`, at which the energy swings visibly."""

_COARSE = 0.02

EQUAL = 1e-11
"""Largest difference of states between back ends after 200 steps."""

EXACT = 1e-10
"""Largest difference of derivatives between back ends, relative to the gradient."""

_ROUND_OFF = 1000 * float(np.finfo(float).eps) / H**2

MULTIPLIERS = dict.fromkeys(("generalized-alpha", "emh", "mph"), _ROUND_OFF)
"""The same of multipliers, by methods that find them from constraints of positions: they are accelerations, differences
of positions over h², and so is what rounding leaves in them."""

ROUND_OFF = {"generalized-alpha": _ROUND_OFF}
"""Of derivatives. Those of multipliers alone reach 6e-10 in reverse mode; of states they are exact to 2e-13."""

DERIVATIVES = 1e-6
"""Largest error of derivatives, relative to the gradient; what differences leave is 1e-8."""


@dataclasses.dataclass(frozen=True)
class Row:
    """A method of the registry and the form of the tumbling body that it takes."""

    name: str
    method: AbstractIntegrator
    form: Form

    @classmethod
    def of(cls, name: str) -> Row:
        """Raises LookupError for methods that no system of the table suits."""
        method = ph.integrators.get(name)
        return cls(name, method, form_of(method))

    @property
    def light(self) -> Row:
        """The same with the lightest form."""
        return dataclasses.replace(self, form=self.form.lighter or self.form)

    def run(self, h: float, t1: float, values: Any = VALUES, **how: Any) -> ph.Solution:
        system, state, _ = self.form.make(values)
        return ph.simulate(system, self.method, h=h, t1=t1, state0=state, **how)


class PerturbedMethod(AbstractIntegrator):
    """A method whose every step is off by `size`·h^`power`: the control, which must fail."""

    method: AbstractIntegrator
    size: float
    power: int = eqx.field(static=True)

    @property
    def kinds(self) -> Any:
        return self.method.kinds

    @property
    def promises(self) -> Any:
        return self.method.promises

    @property
    def promises_at_steps(self) -> Any:
        return self.method.promises_at_steps

    def promises_for(self, system: Any, state: Any) -> dict[str, str]:
        return self.method.promises_for(system, state)

    @property
    def order(self) -> int:
        return self.method.order

    @property
    def evaluations(self) -> int:
        return self.method.evaluations

    def init(self, system: Any, t: Any, h: Any, state: Any) -> Carry:
        return self.method.init(system, t, h, state)

    def newton_tolerance(self, h: float | None) -> float:
        return self.method.newton_tolerance(h)

    def step(self, system: Any, t: Any, h: Any, carry: Carry) -> tuple[Carry, StepInfo]:
        carry, info = self.method.step(system, t, h, carry)
        off = self.size * h**self.power

        def perturb(x: Any) -> Any:
            return x + off * (x + jnp.cos(1 + jnp.arange(x.size)).reshape(x.shape))

        return carry._replace(state=jax.tree.map(perturb, carry.state)), info

    def interpolate(self, system: Any, t: Any, h: Any, carry0: Carry, carry1: Carry, s: Any) -> Any:
        return self.method.interpolate(system, t, h, carry0, carry1, s)


# --- orders -----------------------------------------------------------------------------------------------------------


def orders(row: Row) -> dict[str, float]:
    """Observed orders of attitude, velocity and, where there are any, multipliers: from two steps, at t = 1."""
    count = COUNTS[row.method.order]
    coarse, fine = (_errors(row, n) for n in (count, 2 * count))
    return {part: float(np.log2(coarse[part] / fine[part])) for part in coarse}


def _errors(row: Row, count: int) -> dict[str, float]:
    form = row.form
    run = _whole(row.run(1 / count, 1.0, save_every=count + 1 - form.averages))
    result = form.view(jax.tree.map(lambda x: x[-1], run.state), VALUES)
    exact = form.motion(1.0)
    errors = {
        part: float(np.linalg.norm(np.asarray(a) - b))
        for part, a, b in zip(("attitude", "velocity"), result, exact[:2], strict=True)
    }
    if form.multipliers is None:
        return errors
    exact_multipliers = form.multipliers(form.motion(1.0 - form.steps_before_end / count))
    found_multipliers = np.mean(run.multipliers[-form.averages :], axis=0)
    return {**errors, "multipliers": float(np.linalg.norm(found_multipliers - exact_multipliers))}


def _whole(run: ph.Solution) -> ph.Solution:
    """The run, if it got to its end: a signal ends one without an error."""
    assert run.stats["result"] is ph.Result.successful, run.stats
    return run


def keeps_order(row: Row, result: dict[str, float]) -> bool:
    """Whether all observed orders are that which the method declares."""
    allowed = 0.15 if row.method.order < 5 else 0.3
    return all(abs(order - row.method.order) < allowed for order in result.values())


# --- promises ---------------------------------------------------------------------------------------------------------


def promises(row: Row) -> dict[str, tuple[str, str]]:
    """Quantity → what the method promises of it, and what the audit says of 500 coarse steps."""
    run = _audit_run(row)
    return {r.quantity: (r.promise, r.verdict) for r in run.audit() if r.promise is not None}


def wrongly_promised(row: Row) -> dict[str, str]:
    """Verdicts on what the method does not promise, as if it had promised to keep it to round-off."""
    run = _audit_run(row)
    others = [r.quantity for r in run.audit() if r.promise is None]
    meta = {**run.meta, "promises": dict.fromkeys(others, "round-off")}
    return {r.quantity: r.verdict for r in ph.Solution(run.frames, run.stats, meta).audit() if r.quantity in others}


@functools.lru_cache(maxsize=1)
def _audit_run(row: Row) -> ph.Solution:
    h = COARSE.get(row.method.order, _COARSE)
    return ph.simulate(row.form.problem(), row.method, h=h, t1=500 * h)


# --- back ends --------------------------------------------------------------------------------------------------------


def on_host(row: Row, values: Any = VALUES) -> Carry:
    """State and multipliers after 200 steps in machine code."""
    return jax.tree.map(np.asarray, _end(_whole(_run(row, values))))


def _run(row: Row, values: Any) -> ph.Solution:
    return row.run(H, STEPS * H, values, save_every=None)


def _end(run: ph.Solution) -> Carry:
    return Carry(*jax.tree.map(lambda x: x[-1], (run.state, None, run.multipliers)))


def is_machine_code() -> bool:
    """Whether all steps that this process knows of are machine code, and there are some."""
    steps = [result for key, result in program_cache._PROGRAMS._programs.items() if key[0] is native._native]
    return bool(steps) and all(marching is not None for (marching,) in steps)


def by_xla(row: Row) -> Carry:
    """The same as where there is no compiler of machine code."""
    with (
        mock.patch.object(native, "_native", _nothing),
        mock.patch.object(batched_function, "_native", return_value=None),
    ):
        return on_host(row)


def _nothing(inputs: Any, rest: Any, *beside: Any) -> tuple[None]:
    return (None,)


def by_numpy(row: Row) -> Carry:
    """The same, operation by operation, as starts are computed."""
    system, state, _ = row.form.make(VALUES)
    with eager_numpy():
        carry = row.method.init(system, jnp.zeros(()), jnp.asarray(H), state)
    leaves, structure = jax.tree.flatten(carry)

    def step(t: Any, *leaves: Any) -> Any:
        moved, _ = row.method.step(system, t, jnp.asarray(H), jax.tree.unflatten(structure, leaves))
        return jax.tree.leaves(moved)

    program = from_jaxpr(jax.make_jaxpr(step)(jnp.zeros(()), *leaves))
    values = [np.asarray(x) for x in leaves]
    with np.errstate(all="ignore"):
        for k in range(STEPS):
            values = program([np.asarray(k * H), *values])
    return jax.tree.unflatten(structure, values)._replace(memory=None)


def difference(a: Any, b: Any) -> float:
    """Largest difference of two trees of numbers, in units of the larger of 1 and their components."""
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return max((float(np.max(np.abs(x - y)) / max(1.0, float(np.max(np.abs(y))))) for x, y in pairs), default=0.0)


def gap(a: Carry, b: Carry) -> dict[str, float]:
    """How far states and multipliers differ."""
    return {"state": difference(a.state, b.state), "multipliers": difference(a.multipliers, b.multipliers)}


def is_equal(row: Row, result: dict[str, float]) -> bool:
    """Whether that is rounding."""
    return result["state"] < EQUAL and result["multipliers"] < MULTIPLIERS.get(row.name, EQUAL)


# --- runs that go on --------------------------------------------------------------------------------------------------


def differing_bytes(row: Row, store: Path | None = None) -> int:
    """Of all frames of a run that goes on from its middle, in memory or from a store, and of one that never stopped."""
    system, *_ = row.form.make(VALUES)
    whole, half = row.run(H, STEPS * H), row.run(H, STEPS // 2 * H, store=store, overwrite=store is not None)
    if store is None:
        on = ph.simulate(system, initial=half, t1=STEPS * H)
    else:
        on = ph.resume(store, STEPS * H, problem=system)
    frames = [(x.t, x.state, x.multipliers) for x in (_whole(on), _whole(whole))]
    last = min(len(part[0]) for part in frames)
    pairs = zip(*(jax.tree.leaves(jax.tree.map(lambda x: x[-last:], part)) for part in frames), strict=True)
    assert last > STEPS // 2
    return sum(_count_differences(*map(np.asarray, pair)) for pair in pairs)


def _count_differences(a: np.ndarray, b: np.ndarray) -> int:
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    return sum(x != y for x, y in zip(a.tobytes(), b.tobytes(), strict=True))


# --- transformations --------------------------------------------------------------------------------------------------

BATCH = VALUES * np.array([[1.0, 1.0, 1.0], [1.1, 0.9, 1.05]])
DIRECTION = np.array([0.3, -0.5, 0.8])


def on_arrays() -> Any:
    """XLA compiles in a fraction of the time what stays on arrays, as steps of many operations do for users."""
    return mock.patch.multiple(size_limits, XLA=0, XLA_DIFFERENTIATED=0)


def run_batch(row: Row) -> Carry:
    """States and multipliers after 200 steps by XLA, of two members under `vmap`."""
    with on_arrays():
        return jax.tree.map(np.asarray, quick(jax.vmap(lambda values: _end(_run(row, values))), jnp.asarray(BATCH)))


def gap_of_batch(row: Row, result: Carry) -> dict[str, float]:
    """Largest differences of a member of the batch from a run of its own in machine code."""
    members = [jax.tree.map(lambda x, k=k: x[k], result) for k in range(len(BATCH))]
    gaps = [gap(member, on_host(row, v)) for member, v in zip(members, BATCH, strict=True)]
    return {part: max(result[part] for result in gaps) for part in gaps[0]}


class Derivatives(NamedTuple):
    """Of a number made of attitude, velocity and multipliers after 200 steps: its gradient, and along `DIRECTION`."""

    reverse: np.ndarray
    forward: float


def derivatives(row: Row) -> Derivatives:
    """By mass, length and speed, as users take them: in machine code."""
    values = jnp.asarray(VALUES)
    with mock.patch.object(traced, "_expression", _refuse if jit.llvm else traced._expression):
        reverse = jax.grad(lambda values: _number(row, values))(values)
        _, forward = jax.jvp(lambda values: _number(row, values), (values,), (jnp.asarray(DIRECTION),))
    return Derivatives(np.asarray(reverse), float(forward))


def _refuse(*_: Any) -> Any:
    raise AssertionError("The derivative is no machine code.")


def derivatives_by_xla(row: Row) -> Derivatives:
    """The same, taken by JAX and compiled by XLA."""
    with on_arrays(), warnings.catch_warnings():
        # The limit of nothing that is set here would have all programs called long.
        warnings.simplefilter("ignore", ph.CompileTimeWarning)
        return _complete(np.asarray(quick(jax.grad(lambda values: _number(row, values)), jnp.asarray(VALUES))))


def _complete(gradient: np.ndarray) -> Derivatives:
    return Derivatives(gradient, float(gradient @ DIRECTION))


def by_differences(row: Row) -> Derivatives:
    """From central differences of runs in machine code, extrapolated once: independent of JAX's derivatives."""

    def slopes(e: float) -> np.ndarray:
        ends = [[float(_number(row, VALUES + s * e * d)) for s in (1, -1)] for d in np.eye(3)]
        return np.array([(after - before) / (2 * e) for after, before in ends])

    return _complete((4 * slopes(1e-3) - slopes(2e-3)) / 3)


def _number(row: Row, values: Any) -> Any:
    end = _end(_run(row, values))
    attitude, velocity = row.form.view(end.state, values)
    parts = [jnp.ravel(attitude), jnp.ravel(velocity)]
    parts += [] if end.multipliers is None else [0.1 * end.multipliers]
    flat = jnp.concatenate(parts)
    return flat @ jnp.cos(jnp.arange(flat.size))


def errors_of_derivatives(result: Derivatives, exact: Derivatives) -> dict[str, float]:
    """Relative to the size of the gradient."""
    size = np.linalg.norm(exact.reverse)
    return {
        "reverse": float(np.linalg.norm(result.reverse - exact.reverse) / size),
        "forward": abs(result.forward - exact.forward) / size,
    }


def is_exact(row: Row, errors: dict[str, float]) -> bool:
    """Whether that is rounding."""
    return max(errors.values()) < ROUND_OFF.get(row.name, EXACT)


def forget() -> None:
    """Drops compiled programs: those of one method are of no use to another."""
    _audit_run.cache_clear()
    program_cache._PROGRAMS._programs.clear()
    jax.clear_caches()
    gc.collect()
