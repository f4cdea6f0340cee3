"""What is measured of every method of the registry: the cells of the table of methods."""

from __future__ import annotations

import dataclasses
import functools
import gc
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from compiling import quick
from tumbling import VALUES, Form, form_of

import polhode as ph
from polhode import captured
from polhode.driver import host
from polhode.execution.eager import uncompiled
from polhode.execution.listing import listed
from polhode.integrators import AbstractIntegrator, Carry, StepInfo

COUNTS = {1: 1600, 2: 800, 3: 200, 4: 100, 5: 80, 6: 40}
"""Order → steps a second at which methods are in their asymptotic range, and their errors above round-off."""

STEPS, H = 200, 5e-3
"""Of the runs that back ends make."""

FEW = 20
"""Of those by NumPy, which takes some milliseconds a step, and is there for what runs once."""

COARSE = {1: 2e-3}
"""Order → step at which promises are held to; those not named take `_COARSE`, at which the energy swings visibly."""

_COARSE = 0.02


EQUAL = 1e-11
"""Largest difference of states between back ends after 200 steps."""

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


class Perturbed(AbstractIntegrator):
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

    def promised(self, system: Any, state: Any) -> dict[str, str]:
        return self.method.promised(system, state)

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

        def moved(x: Any) -> Any:
            return x + off * (x + jnp.cos(1 + jnp.arange(x.size)).reshape(x.shape))

        return carry._replace(state=jax.tree.map(moved, carry.state)), info

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
    run = _whole(row.run(1 / count, 1.0, save_every=count + 1 - form.averaged))
    found = form.seen(jax.tree.map(lambda x: x[-1], run.state), VALUES)
    exact = form.motion(1.0)
    errors = {
        part: float(np.linalg.norm(np.asarray(a) - b))
        for part, a, b in zip(("attitude", "velocity"), found, exact[:2], strict=True)
    }
    if form.multipliers is None:
        return errors
    exact_multipliers = form.multipliers(form.motion(1.0 - form.behind / count))
    found_multipliers = np.mean(run.multipliers[-form.averaged :], axis=0)
    return {**errors, "multipliers": float(np.linalg.norm(found_multipliers - exact_multipliers))}


def _whole(run: ph.Solution) -> ph.Solution:
    """The run, if it got to its end: a signal ends one without an error."""
    assert run.stats["result"] is ph.Result.successful, run.stats
    return run


def keeps_order(row: Row, found: dict[str, float]) -> bool:
    """Whether all observed orders are that which the method declares."""
    allowed = 0.15 if row.method.order < 5 else 0.3
    return all(abs(order - row.method.order) < allowed for order in found.values())


# --- promises ---------------------------------------------------------------------------------------------------------


def promises(row: Row) -> dict[str, tuple[str, str]]:
    """Quantity → what the method promises of it, and what the audit says of 500 coarse steps."""
    run = _audited(row)
    return {r.quantity: (r.promise, r.verdict) for r in run.audit() if r.promise is not None}


def wrongly_promised(row: Row) -> dict[str, str]:
    """Verdicts on what the method does not promise, as if it had promised to keep it to round-off."""
    run = _audited(row)
    others = [r.quantity for r in run.audit() if r.promise is None]
    meta = {**run.meta, "promises": dict.fromkeys(others, "round-off")}
    return {r.quantity: r.verdict for r in ph.Solution(run.frames, run.stats, meta).audit() if r.quantity in others}


@functools.lru_cache(maxsize=1)
def _audited(row: Row) -> ph.Solution:
    h = COARSE.get(row.method.order, _COARSE)
    return ph.simulate(row.form.problem(), row.method, h=h, t1=500 * h)


# --- back ends --------------------------------------------------------------------------------------------------------


def on_host(row: Row, count: int = STEPS, values: Any = VALUES) -> Carry:
    """State and multipliers after some steps in machine code."""
    run = _whole(row.run(H, count * H, values, save_every=None))
    return Carry(*jax.tree.map(lambda x: np.asarray(x)[-1], (run.state, None, run.multipliers)))


def is_machine_code() -> bool:
    """Whether all steps that this process knows of are machine code, and there are some."""
    steps = [found for key, found in captured._PROGRAMS._found.items() if key[0] is host._native]
    return bool(steps) and all(marching is not None for (marching,) in steps)


def by_numpy(row: Row, count: int = FEW) -> Carry:
    """The same, operation by operation, as starts are computed."""
    system, state, _ = row.form.make(VALUES)
    with uncompiled():
        carry = row.method.init(system, jnp.zeros(()), jnp.asarray(H), state)
    leaves, structure = jax.tree.flatten(carry)

    def step(t: Any, *leaves: Any) -> Any:
        moved, _ = row.method.step(system, t, jnp.asarray(H), jax.tree.unflatten(structure, leaves))
        return jax.tree.leaves(moved)

    program = listed(jax.make_jaxpr(step)(jnp.zeros(()), *leaves))
    values = [np.asarray(x) for x in leaves]
    with np.errstate(all="ignore"):
        for k in range(count):
            values = program([np.asarray(k * H), *values])
    return jax.tree.unflatten(structure, values)._replace(memory=None)


def difference(a: Carry, b: Carry) -> float:
    """Largest difference of two states, in units of the larger of 1 and their components."""
    pairs = zip(jax.tree.leaves(a.state), jax.tree.leaves(b.state), strict=True)
    return max(float(np.max(np.abs(x - y)) / max(1.0, float(np.max(np.abs(y))))) for x, y in pairs)


# --- transformations --------------------------------------------------------------------------------------------------

BATCH = VALUES * np.array([[1.0, 1.0, 1.0], [1.1, 0.9, 1.05]])
DIRECTION = np.array([0.3, -0.5, 0.8])


def batched(row: Row) -> Carry:
    """States and multipliers after 200 steps by XLA, of two members under `vmap`."""

    def end(values: Any) -> Carry:
        run = row.run(H, STEPS * H, values, save_every=None)
        return Carry(*jax.tree.map(lambda x: x[-1], (run.state, None, run.multipliers)))

    return jax.tree.map(np.asarray, quick(jax.vmap(end), jnp.asarray(BATCH)))


def gap_of_batch(row: Row, found: Carry) -> float:
    """Largest difference of a member of the batch from a run of its own in machine code."""
    members = [jax.tree.map(lambda x, k=k: x[k], found) for k in range(len(BATCH))]
    return max(difference(m, on_host(row, values=v)) for m, v in zip(members, BATCH, strict=True))


class Derivatives(NamedTuple):
    """Of a number made of attitude, velocity and multipliers after 200 steps: its gradient, and along `DIRECTION`."""

    reverse: np.ndarray
    forward: float


def derivatives(row: Row) -> Derivatives:
    """By mass, length and speed, as users take them."""

    def value(values: Any) -> Any:
        run = row.run(H, STEPS * H, values, save_every=None)
        return _seen_at_end(row, *jax.tree.map(lambda x: x[-1], (run.state, run.multipliers)), values)

    values = jnp.asarray(VALUES)
    reverse = quick(jax.grad(value), values)
    forward = quick(lambda v, d: jax.jvp(value, (v,), (d,))[1], values, jnp.asarray(DIRECTION))
    return Derivatives(np.asarray(reverse), float(forward))


def _seen_at_end(row: Row, state: Any, multipliers: Any, values: Any) -> Any:
    attitude, velocity = row.form.seen(state, values)
    parts = [jnp.ravel(attitude), jnp.ravel(velocity)]
    parts += [] if multipliers is None else [0.1 * multipliers]
    flat = jnp.concatenate(parts)
    return flat @ jnp.cos(jnp.arange(flat.size))


def by_differences(row: Row) -> Derivatives:
    """From central differences of runs in machine code, extrapolated once: independent of JAX's derivatives."""

    def value(values: np.ndarray) -> float:
        end = on_host(row, values=values)
        return float(_seen_at_end(row, end.state, end.multipliers, values))

    def slopes(e: float) -> np.ndarray:
        return np.array([(value(VALUES + e * d) - value(VALUES - e * d)) / (2 * e) for d in np.eye(3)])

    gradient = (4 * slopes(1e-3) - slopes(2e-3)) / 3
    return Derivatives(gradient, float(gradient @ DIRECTION))


def errors_of_derivatives(found: Derivatives, exact: Derivatives) -> dict[str, float]:
    """Relative to the size of the gradient."""
    size = np.linalg.norm(exact.reverse)
    return {
        "reverse": float(np.linalg.norm(found.reverse - exact.reverse) / size),
        "forward": abs(found.forward - exact.forward) / size,
    }


def forget() -> None:
    """Drops compiled programs: those of one method are of no use to another."""
    _audited.cache_clear()
    captured._PROGRAMS._found.clear()
    jax.clear_caches()
    gc.collect()
