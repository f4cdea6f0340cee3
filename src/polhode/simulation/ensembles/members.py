"""The members of an ensemble: their parameters and starts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from polhode import checks
from polhode.checks import short_repr
from polhode.problem import Problem


class Members(NamedTuple):
    """Parameters, starts and seeds in which the members of an ensemble differ.

    - `count`: how many there are. - `parameters`: name → (count, …). - `states`: stacked starts, or None.
    - `seeds`: (count,), or None.
    """

    count: int
    parameters: dict[str, np.ndarray]
    states: Any
    seeds: np.ndarray | None

    @classmethod
    def of(cls, problem: Problem, parameters: Any, samples: Any, states: Any, seeds: Any) -> Members:
        """Raises ValueError for what makes no ensemble of the problem."""
        if parameters is None and samples is None and states is None:
            raise ValueError("An ensemble needs `parameters`, `samples` or `states`, by which its members differ.")
        if parameters is not None and samples is not None:
            raise ValueError("Give `parameters`, of which all combinations are run, or `samples`, one for each member.")
        if callable(samples) != (seeds is not None):
            raise ValueError("`seeds` go with a function as `samples`, which makes parameters of a generator.")
        seed_numbers = None
        if callable(samples):
            seed_numbers = _seeds(seeds)
            samples = _draw_samples(samples, seed_numbers)
        arrays = (
            _grid(_named_arrays("parameters", parameters))
            if parameters is not None
            else _named_arrays("samples", samples or {})
        )
        for name, values in arrays.items():
            _check(problem, name, values)
        sizes = {name: len(values) for name, values in arrays.items()}
        if states is not None:
            states = jax.tree.map(np.asarray, states)
            leaves = jax.tree.leaves(states)
            if not all(x.ndim for x in leaves):
                raise ValueError(
                    f"`states` must be starts stacked along a first axis of members, got {short_repr(states)}."
                )
            sizes |= {f"states[{k}]": len(x) for k, x in enumerate(leaves)}
        if not sizes:
            raise ValueError(
                "An ensemble needs at least one name in `parameters` or `samples`, or an array of `states`."
            )
        if len(set(sizes.values())) != 1:
            raise ValueError(f"Members differ in number: {', '.join(f'{n} of {k}' for k, n in sizes.items())}.")
        (count,) = set(sizes.values())
        if count == 0:
            raise ValueError("An ensemble needs at least one member.")
        return cls(count, arrays, states, seed_numbers)

    def of_members(self, which: Any) -> tuple[dict[str, Any], Any]:
        """Parameters and start of one member, or those of several, stacked."""
        parameters = {name: values[which] for name, values in self.parameters.items()}
        return parameters, jax.tree.map(lambda x: x[which], self.states)

    def extremes(self) -> list[int]:
        """Members at the ends: the first, the last, and those with the least and the largest of each number."""
        numbers = {0, self.count - 1}
        for values in self.parameters.values():
            if values.ndim == 1:
                numbers |= {int(values.argmin()), int(values.argmax())}
        return sorted(numbers)


def _named_arrays(what: str, values_by_name: Any) -> dict[str, np.ndarray]:
    if not isinstance(values_by_name, Mapping):
        raise ValueError(f"`{what}` must map names of parameters to their values, got {short_repr(values_by_name)}.")
    arrays = {}
    for name, values in values_by_name.items():
        arrays[name] = checks.numbers(f"{what}[{name!r}]", values, "a list of numbers or of arrays of one shape")
        if arrays[name].ndim == 0:
            raise ValueError(f"`{what}[{name!r}]` must be a list of numbers or of arrays of one shape.")
    return arrays


_MOST = 10_000_000
"""Members, so that a number with too many zeros is refused before memory runs out."""


def _grid(axes: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """All combinations, the last parameter changing fastest."""
    count = math.prod(len(values) for values in axes.values())
    if count > _MOST:
        raise ValueError(f"An ensemble has at most {_MOST} members, and the combinations of `parameters` are {count}.")
    places = list(itertools.product(*(range(len(values)) for values in axes.values())))
    columns = np.array(places, int).reshape(len(places), len(axes)).T
    return {name: values[at] for (name, values), at in zip(axes.items(), columns, strict=True)}


def _seeds(seeds: Any) -> np.ndarray:
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        return np.arange(checks.count("seeds", seeds, "members", most=_MOST))
    numbers = np.asarray(seeds)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or (numbers < 0).any():
        raise ValueError(f"`seeds` must be a number of members or a list of whole numbers, got {short_repr(seeds)}.")
    return numbers


def _draw_samples(draw: Callable[..., Any], seeds: np.ndarray) -> dict[str, np.ndarray]:
    samples = [draw(np.random.default_rng(int(seed))) for seed in seeds]
    for seed, each in zip(seeds, samples, strict=True):
        if not isinstance(each, Mapping):
            raise ValueError(f"`samples` must return names of parameters with their values, got {short_repr(each)}.")
        if _shapes(each) != _shapes(samples[0]):
            raise ValueError(
                f"`samples` must return the same names and shapes for every member; got {_shapes(each)} for the seed "
                f"{seed}, and {_shapes(samples[0])} for the first one."
            )
    return {name: np.stack([np.asarray(each[name]) for each in samples]) for name in (samples[0] if samples else {})}


def _shapes(sample: Mapping[Any, Any]) -> dict[Any, tuple[int, ...]]:
    return {name: np.shape(value) for name, value in sample.items()}


def _check(problem: Problem, name: str, values: np.ndarray) -> None:
    if name not in problem.parameters:
        near = checks.nearest(name, list(problem.parameters))
        raise ValueError(f"Problem `{problem.name}` has no parameter `{name}`.{near}")
    usual = np.asarray(problem.parameters[name])
    if usual.dtype.kind not in "fiu" or usual.shape != values.shape[1:]:
        raise ValueError(
            f"Parameter `{name}` of problem `{problem.name}` is {short_repr(problem.parameters[name])}; members can "
            f"have numbers of shape {usual.shape} only, got {values.shape[1:]}. Make an ensemble for each of its words."
        )
