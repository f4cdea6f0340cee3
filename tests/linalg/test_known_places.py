"""Elements of arrays at known places, against NumPy's own indexing."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from polhode.linalg.known_places import add_entries, set_entries, take, take_columns, take_entries

X = np.arange(24.0).reshape(4, 6)
ROWS, COLUMNS = np.array([2, 0, 2]), np.array([5, 1, 1])


@pytest.mark.parametrize("at", [(ROWS,), (ROWS, COLUMNS), np.ix_(ROWS, COLUMNS), (1, COLUMNS), (3, 2), (ROWS[:0],)])
def test_reads_and_writes_are_those_of_numpy(at):
    values = -1.0 - np.arange(X[at].size).reshape(X[at].shape)
    added, replaced = X.copy(), X.copy()
    np.add.at(added, at, values)
    assert np.array_equal(take_entries(X, *at), X[at])
    assert np.array_equal(add_entries(X, values, *at), added)
    places = np.unique(np.stack(np.broadcast_arrays(*at), -1).reshape(-1, len(at)), axis=0).T
    replaced[tuple(places)] = 0.5
    assert np.array_equal(set_entries(X, np.full(X[tuple(places)].shape, 0.5), *places), replaced)


def test_rows_and_columns():
    assert np.array_equal(take(X, ROWS), X[ROWS])
    assert np.array_equal(take_columns(X, COLUMNS), X[:, COLUMNS])
    assert take(X, np.arange(4)) is X
    assert take_columns(X, np.arange(6)) is X


def test_each_is_one_operation_and_stays_inside():
    for function in (lambda x: take_entries(x, ROWS, COLUMNS), lambda x: add_entries(x, x[0, :3], ROWS, COLUMNS)):
        names = [eqn.primitive.name for eqn in jax.make_jaxpr(function)(X).eqns]
        assert sum(name in ("gather", "scatter-add", "select_n", "lt") for name in names) == 1
    for outside in (-1, 4):
        with pytest.raises(IndexError, match="within an array of shape"):
            take_entries(X, np.array([outside]))
