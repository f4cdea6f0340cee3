"""Constants of programs: zeros, ones and equal numbers of a model's arrays, which make no result another one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode.compiler.cache import program_cache
from polhode.compiler.loops.packed_layout import Layout
from polhode.compiler.number_pattern import ARGUMENTS, NumberPattern
from polhode.compiler.scalars.graph import is_known
from polhode.compiler.trace import on_scalars, trace
from polhode.simulation.loops import native

A = np.array([[0.0, -0.0, 1.0], [-1.0, 0.3, 0.3], [-0.3, np.nan, np.nan]])
OPTIONS = {"h": 1e-3, "t1": 0.02, "save_every": 10}
AXES = np.array([[0.0, 1.0, 0.0], [0.6, 0.0, 0.8], [0.48, 0.64, 0.6]])


@pytest.fixture(scope="module")
def top():
    return ph.problems.get("heavy-top", formulation="S3")


def codes(pattern):
    return np.frombuffer(pattern.codes, np.int32).tolist()


def test_zeros_ones_and_equal_numbers_of_arrays_are_constants():
    model = {"array": A, "by itself": np.array(0.0), "counts": np.array([0, 1]), "more": np.array([0.3, 2.0, 2.0])}
    parts = (np.zeros(2), model)
    pattern = NumberPattern.of(parts, 1)
    # Slots of the array begin at 2, those of the others at 11, 12 and 14; NaN equals nothing.
    expected = [0, 1, -1, -1, -2, -3, 6, 6, 8, 9, 10, 11, 12, 13, 14, 15, 15]
    assert codes(pattern) == expected
    assert codes(NumberPattern.of(parts, 1, wrt=(0,))) == [*range(15), 15, 15]
    assert NumberPattern.of((np.zeros(2), {}), 1) == ARGUMENTS


def test_what_holds_for_other_arguments_too():
    parts, layout = (A[:2],), Layout((A[:2],))
    pattern = NumberPattern.of(parts, 0)
    assert pattern.common(layout.pack((A[:2],))) is pattern
    same = np.where(A[:2] == 0.3, 7.0, A[:2])
    assert pattern.common(layout.pack((same,))) is pattern
    other = np.array([[0.0, 0.0, 2.0], [-1.0, 0.3, 0.4]])
    rows = np.stack([layout.pack((same,)), layout.pack((other,))])
    assert codes(pattern.common(rows)) == [-1, -1, 2, -3, 4, 5]
    with pytest.raises(ValueError, match="differ from its constants"):
        pattern.check(layout.pack((other,)))
    assert ARGUMENTS.common(rows) is ARGUMENTS


def test_constants_leave_programs_without_their_operations():
    program = trace(lambda a, x: a @ x, A[:2], np.zeros(3))
    pattern = NumberPattern.of((A[:2],), 0)
    folded = on_scalars(program, A[:2], np.zeros(3), pattern=pattern)
    whole = on_scalars(program, A[:2], np.zeros(3))
    assert len(folded.inputs) == len(whole.inputs)
    # -x + 0.3 y + 0.3 z is left, and x.
    assert (whole.size, folded.size) == (10, 5)
    assert not any(is_known(x) for x in folded.outputs)


def test_a_number_that_moves_from_zero_is_honoured(top, monkeypatch):
    top = top.replace(inertia=(5.0, 6.0, 7.0))
    runs = [ph.simulate(top.replace(axis=axis), "rkmk4", **OPTIONS) for axis in AXES]
    ensemble = ph.ensemble(top, "rkmk4", samples={"axis": AXES}, **OPTIONS)
    assert ensemble.stats["by"] == "lanes"
    for k, run in enumerate(runs):
        alone = run.to_xarray()
        assert set(alone.data_vars) <= set(ensemble.dataset.data_vars)
        for name in alone.data_vars:
            np.testing.assert_array_equal(ensemble.dataset[name][k].values, alone[name].values, err_msg=name)
    ends = [np.concatenate([np.ravel(x[-1]) for x in jax.tree.leaves(run.frames.state)]) for run in runs]
    # So that constants of another run would be noticed.
    assert min(np.abs(a - b).max() for k, a in enumerate(ends) for b in ends[:k]) > 1e-4
    monkeypatch.setattr(native, "pattern_of", lambda inputs: ARGUMENTS)
    plain = ph.simulate(top.replace(axis=AXES[0]), "rkmk4", **OPTIONS)
    assert plain.stats["compiled"]["operations"] > runs[0].stats["compiled"]["operations"]
    for a, b in zip(jax.tree.leaves(plain.frames.state), jax.tree.leaves(runs[0].frames.state), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["axis", "inertia"])
def test_derivatives_by_numbers_that_are_zero_or_equal(top, name):
    """Of the axis two numbers are zero and one is one; two moments of inertia are equal."""
    value, direction = np.asarray(top.parameters[name], float), np.array([0.3, -0.2, 0.7])

    def end(numbers):
        numbers = numbers / jnp.linalg.norm(numbers) if name == "axis" else numbers
        state = ph.simulate(top.replace(**{name: numbers}), "rkmk4", h=1e-3, t1=0.02, save_every=None).frames.state
        return sum(jnp.sum(x[-1] * jnp.arange(1.0, 1 + x[-1].size)) for x in jax.tree.leaves(state))

    gradient = jax.grad(end)(jnp.asarray(value))
    step = 1e-5
    difference = (end(value + step * direction) - end(value - step * direction)) / (2 * step)
    assert abs(difference) > 1e-3
    np.testing.assert_allclose(gradient @ direction, difference, rtol=1e-6)


def test_a_sweep_through_many_patterns_gets_one_program_for_the_rest(monkeypatch):
    monkeypatch.setattr(program_cache, "_PROGRAMS", program_cache._Programs(8))
    monkeypatch.setattr(program_cache, "_PATTERNS", program_cache._Patterns(8))
    built = []

    def build(inputs, rest, pattern):
        built.append(pattern)
        return pattern

    def find(numbers):
        return program_cache.find_program(build, (numbers,), pattern=lambda inputs: NumberPattern.of(inputs[0], 0))[0]

    patterns = [find(np.array(x)) for x in ([2.0, 3.0], [0.0, 3.0], [2.0, 0.0], [2.0, 2.0], [1.0, 3.0], [2.0, 1.0])]
    assert patterns[4:] == [ARGUMENTS, ARGUMENTS]
    assert len(set(patterns)) == len(built) == program_cache.PATTERNS + 1
    assert find(np.array([0.0, 5.0])) == patterns[1]
    # Another kind of arguments counts by itself.
    assert find(np.array([1.0, 0.0, 3.0])) != ARGUMENTS
