"""What was found out about a model is found again in the next process, for the same numbers and nothing else."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode.compiler.cache import disk_cache, persistent_memo
from polhode.multibody import redundant_constraints


@pytest.fixture
def always_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(disk_cache, "folder", lambda: tmp_path / "programs")
    monkeypatch.setattr(persistent_memo, "_WORTH_STORING", -1.0)


def four_bar(mass=1.0, load=None):
    """A planar four-bar loop of hinges in space: three of its constraints follow from the others."""
    model = ph.Model(gravity=(0, -9.81, 0))
    corners = [np.array(p, float) for p in ((0, 0, 0), (0, 1, 0), (2, 1.5, 0), (2, 0, 0))]
    bodies = [model.ground]
    for a, b in itertools.pairwise(corners):
        bodies.append(model.add_body(mass=mass, inertia=(1.0, 1.0, 1.0), position=0.5 * (a + b)))
    for first, second, corner in zip(bodies, (*bodies[1:], model.ground), corners, strict=True):
        model.add(ph.joints.Revolute(first, second, point=corner, axis=(0, 0, 1)))
    if load is not None:
        model.add(ph.forces.PointForce(bodies[1], load))
    system, state = model.assemble(redundant="minimum-norm")
    return system.complete, state


def found(system, state):
    start = redundant_constraints.dependence(system, system.labels, 0.0, state)
    return redundant_constraints._persistent_rows(system, system.labels, 0.0, state, start)


def no_looking(*_):
    raise AssertionError("looked at positions around once more")


def test_positions_around_are_looked_at_once(always_kept, monkeypatch):
    system, state = four_bar()
    first = found(system, state)
    assert len(first.rows) == 3
    B = redundant_constraints.dense(redundant_constraints.metric(system, jnp.zeros(()), state[0])[1])
    assert np.linalg.matrix_rank(B) == len(B) - 3 == np.linalg.matrix_rank(np.delete(B, first.rows, axis=0))
    monkeypatch.setattr(redundant_constraints, "_nearby_positions", no_looking)
    again = found(*four_bar())
    np.testing.assert_array_equal(again.rows, first.rows)
    assert again.explanation == first.explanation


def test_other_numbers_are_looked_at(always_kept, monkeypatch):
    four_bar()
    monkeypatch.setattr(redundant_constraints, "_nearby_positions", no_looking)
    four_bar()
    with pytest.raises(AssertionError, match="once more"):
        four_bar(mass=np.nextafter(1.0, 2.0))


def test_what_holds_functions_of_users_is_looked_at_every_time(always_kept, monkeypatch):
    def load(t):
        return jnp.array([0.0, 1.0, 0.0]) * t

    four_bar(load=load)
    monkeypatch.setattr(redundant_constraints, "_nearby_positions", no_looking)
    with pytest.raises(AssertionError, match="once more"):
        four_bar(load=load)


def test_what_is_quick_and_what_is_traced_is_not_kept(always_kept, monkeypatch):
    names = persistent_memo.memoised_on_disk(redundant_constraints._names)
    monkeypatch.setattr(persistent_memo, "_WORTH_STORING", 60.0)
    assert names(("a", "b"), np.array([1])) == ["b"]
    assert disk_cache.files() == []
    monkeypatch.setattr(persistent_memo, "_WORTH_STORING", -1.0)
    jax.jit(lambda x: names(("a", "b"), np.array([1])) and x)(1.0)
    assert disk_cache.files() == []
    assert names(("a", "b"), np.array([1])) == names(("a", "b"), np.array([1])) == ["b"]
    assert len(disk_cache.files()) == 1
