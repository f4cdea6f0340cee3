"""Both published beam tests against an integration that shares no code with the library."""

import functools
import json

import numpy as np
import pytest
from absolute_route import follow
from store_published_motion import BEAMS, STORED

import polhode as ph

PROBLEMS = {
    "roll-up, damping 100": ("roll-up", {"damping": 100.0}, 2.0**-10),
    "roll-up, damping 50": ("roll-up", {"damping": 50.0}, 2.0**-10),
    "spaghetti": ("flying-spaghetti", {}, 2.0**-11),
}
PUBLISHED = {
    "roll-up, damping 100": (5.308112301451, 0.0, -4.200304179856),
    "spaghetti": (0.119376245475, 7.975109412123, -0.017197969555),
}
STATED = json.loads(STORED.read_text(encoding="utf-8"))


@functools.cache
def library(name):
    """One object of a problem for all tests, whose runs share compiled programs."""
    problem, parameters, _ = PROBLEMS[name]
    return ph.problems.get(problem, **parameters)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_stored_motion_is_the_published_one(name):
    np.testing.assert_allclose(STATED[name]["positions"][0][-1], PUBLISHED[name], rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_stored_motion_says_how_exact_it_is(name):
    assert max(STATED[name]["change of positions with the tolerance"]) < 1e-11
    assert max(STATED[name]["change of multipliers with the tolerance"]) < 1e-7
    assert max(STATED[name]["largest shear"]) < 1e-12


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("spaghetti", marks=pytest.mark.exhaustive),
        pytest.param("roll-up, damping 100", marks=pytest.mark.exhaustive),
    ],
)
def test_half_explicit_order_5_follows_the_stored_motion(name):
    h = PROBLEMS[name][-1]
    run = ph.simulate(library(name), "herk5", h=h, t1=5.0, save_every=round(0.5 / h))
    rows = [int(np.flatnonzero(np.asarray(run.t) == t)[0]) for t in STATED["times"]]
    np.testing.assert_allclose(np.asarray(run.outputs["nodes"])[rows], STATED[name]["positions"], rtol=0, atol=1e-9)
    found, known = (
        np.reshape(x, (len(rows), -1, 2)) for x in (np.asarray(run.multipliers)[rows], STATED[name]["multipliers"])
    )
    # The axes of the sections may be turned about the rod, by the same angle everywhere.
    np.testing.assert_allclose(np.linalg.norm(found, axis=2), np.linalg.norm(known, axis=2), rtol=0, atol=1e-6)
    assert np.max(run.residuals["velocity"]) < 1e-9
    assert np.max(run.residuals["position"]) < 1e-10


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["roll-up, damping 100", "spaghetti"])
def test_the_absolute_route_itself_agrees(name):
    (state,) = follow(BEAMS[name](), [0.3], 1e-11)
    run = ph.simulate(library(name), "herk5", h=PROBLEMS[name][-1], t1=0.3, save_every=None)
    np.testing.assert_allclose(np.asarray(run.outputs["nodes"])[-1], state.x.T, rtol=0, atol=1e-9)
