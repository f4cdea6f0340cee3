"""Calls of the public interface with values that nobody should hand in: refused by name, or right.

Every call has arguments that work; one or two of them are replaced. What may come of that is a result, or one of the
errors that the library documents. Anything else is a defect: raw errors of Python, NumPy and JAX, crashes, and numbers
made of what is none.
"""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import jax
import pytest
from calls import CALLS, Call
from hostile import NEVER_NUMBERS, STRANGE, pick
from more_calls import MORE

import polhode as ph

DOCUMENTED = (ValueError, ph.StoreError, ph.SimulationError, ph.EquilibriumError)
ALL = [*CALLS, *MORE]
REFUSED = (ph.load, ph.load_ensemble, ph.resume, ph.load_model, ph.reproduce, ph.equilibrium, ph.modes)
"""Functions whose arguments here name nothing that is there."""


def replaced(call: Call, random) -> tuple[dict[str, Any], str, bool]:
    """Arguments of which one or two are strange; what was done, in words; and whether it must be refused."""
    arguments, said, never = dict(call.arguments), [], False
    names = list(arguments)
    for name in random.permutation(names)[: 1 + int(random.random() < 0.25)]:
        what, value = pick(random, NEVER_NUMBERS if random.random() < 0.4 else STRANGE)
        arguments[name] = value
        said.append(f"{name} = {what}")
        never = never or (name in call.numeric and what in NEVER_NUMBERS)
    return arguments, ", ".join(said), never


def outcome(call: Call, arguments: dict[str, Any]) -> BaseException | None:
    with warnings.catch_warnings(), contextlib.suppress(KeyError):
        warnings.simplefilter("ignore")
        try:
            call.function(**arguments)
        except Exception as error:
            return error
        return None
    return KeyError("raw")


@pytest.mark.sampled(84)
@pytest.mark.parametrize("call", ALL, ids=lambda call: getattr(call.function, "__name__", "call"))
def test_the_calls_work_as_they_are(call):
    if call.function in REFUSED or {"part", "file"} & call.arguments.keys():
        return
    error = outcome(call, call.arguments)
    assert error is None, error


def test_no_call_ends_in_a_raw_error_or_takes_what_is_no_number(tries, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    count, random = tries(8_000, 1, 120)
    raw, taken = [], []
    for k in range(count):
        call = ALL[int(random.integers(len(ALL)))]
        arguments, said, never = replaced(call, random)
        error = outcome(call, arguments)
        name = getattr(call.function, "__qualname__", str(call.function))
        if error is not None and not isinstance(error, DOCUMENTED):
            raw.append(f"{name}({said}): {type(error).__name__}: {str(error)[:100]}")
        elif error is None and never:
            taken.append(f"{name}({said})")
        if k % 200 == 199:
            jax.clear_caches()
    assert not [*raw, *taken], "\n".join(["raw errors:", *sorted(set(raw)), "taken:", *sorted(set(taken))])
    assert list(tmp_path.iterdir()) == []
