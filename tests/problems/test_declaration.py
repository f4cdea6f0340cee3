"""Declarations of problems: signature and docstring say what checks, errors, texts and references use."""

import inspect
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from polhode import problems
from polhode.problems.declaration import Count, Declaration, Directions, Draft, Number, Positive, declare
from polhode.problems.registry import builder_of
from polhode.spaces import Rn
from polhode.systems.vector_field import VectorField

FALL = {"height": {"t": 1.0, "value": 0.5, "error": 1e-9, "source": "closed form"}}


def falling(count: Count = 2, heights: Positive = (1.0, 2.0), gravity: Number = 9.81, up: Directions = (0.0, 1.0),
            name: Any = "stone", duration: Positive = 1.0) -> Draft:  # fmt: skip
    """Stones that fall.

    **Arguments**, in SI units:

    - `count`: number of stones; they don't meet.
    - `heights`: of both stones. Above the floor.
    - `gravity`: downwards.
    - `up`: the direction
      of heights.
    - `name`, `duration`: end time; and what they are called.
    """
    assert isinstance(count, int)
    return Draft(
        system=VectorField(Rn(2), lambda t, x: -gravity * jnp.ones(2)),
        state0=heights,
        outputs={"height": lambda t, x: x[0], "name": lambda t, x: name},
        invariants={},
        integrator="rkmk4",
        h=0.1,
        reference=FALL,
        independent_of=("name", "duration"),
    )


DECLARATION = Declaration("falling", "Stones fall.\n", falling)


@pytest.fixture(scope="module")
def fall():
    from polhode.problems import registry

    before = dict(registry._BUILDERS)
    yield declare("falling-stones", "Stones fall.\n")(falling)
    registry._BUILDERS.clear()
    registry._BUILDERS.update(before)


@pytest.mark.parametrize("name", problems.names())
def test_every_parameter_of_every_problem_has_its_meaning(name):
    builder = inspect.unwrap(builder_of(name))
    declaration = Declaration(name, "", builder)
    assert set(declaration.meanings) == set(inspect.signature(builder).parameters)
    assert all(declaration.meanings.values())
    assert inspect.signature(builder_of(name)).return_annotation == "Problem"


def test_meanings_end_where_the_explanation_begins():
    assert DECLARATION.meanings == {
        "count": "number of stones",
        "heights": "of both stones",
        "gravity": "downwards",
        "up": "the direction of heights",
        "name": "end time",
        "duration": "end time",
    }
    assert DECLARATION.doc.startswith("Stones fall.\n\nParameters, in SI units:\n\n- `count`: number of stones; they")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"count": 0}, r"`count` must be an integer of at least 1 \(number of stones\), got 0\."),
        ({"heights": 1.0}, r"`heights` must be an array of shape \(2,\) \(of both stones\), got shape \(\)\."),
        ({"heights": (1.0, -1.0)}, r"`heights` must be greater than zero \(of both stones\), got \(1\.0, -1\.0\)\."),
        ({"gravity": "strong"}, r"`gravity` must be numeric \(downwards\), got 'strong'\."),
        ({"up": (1.0, 1.0)}, r"`up` must hold unit vectors \(the direction of heights\)"),
        ({"duration": 0}, r"`duration` must be greater than zero \(end time\), got 0\."),
        ({"hieghts": (1.0, 1.0)}, r"no parameter `hieghts`\. Did you mean `heights`\?"),
    ],
)
def test_errors_say_what_the_parameter_means(fall, wrong, message):
    with pytest.raises(ValueError, match=message):
        problems.get("falling-stones", **wrong)


def test_a_problem_has_the_parameters_as_they_were_passed(fall):
    problem = fall(3, [1, 2], duration=2)
    assert problem.parameters == {
        **{"count": 3, "heights": [1, 2], "gravity": 9.81},
        **{"up": (0.0, 1.0), "name": "stone", "duration": 2},
    }
    assert (problem.name, problem.t_span, problem.doc) == ("falling-stones", (0.0, 2), DECLARATION.doc)
    np.testing.assert_array_equal(problem.state0, [1.0, 2.0])
    assert problem.replace(heights=(4.0, 5.0)).state0[1] == 5.0
    with pytest.raises(TypeError, match=r"falling\(\) got an unexpected keyword argument 'height'"):
        fall(height=1.0)


def test_references_hold_at_the_defaults_alone(fall):
    assert fall().reference == fall(name="brick", duration=3.0).reference == FALL
    assert fall(heights=np.array([1.0, 2.0])).reference == FALL
    for other in ({"gravity": 1.62}, {"heights": (1.0, 2.5)}, {"count": 3}):
        assert not fall(**other).reference


def test_traced_numbers_have_no_reference(fall):
    import jax

    seen = []

    def value(gravity):
        problem = fall(gravity=gravity)
        seen.append(problem.reference)
        return problem.system.field(jnp.asarray(0.0), problem.state0)[0]

    assert jax.grad(value)(2.0) == -1.0
    assert seen == [{}]


@pytest.mark.parametrize(
    ("name", "parameter", "value", "words"),
    [
        ("bend-45", "damping", "abc", "must be numeric"),
        ("bend-45", "damping", -0.1, "must not be negative"),
        ("torus", "shearing", -1.0, r"must not be negative \(K\^m, K\^a and K\^s of the bonds\)"),
        ("falling-block", "strength", -1.0, "must be greater than zero"),
        ("falling-block", "strength", [1.0, 2.0], "must be a number"),
        ("falling-block", "strength", np.nan, "must be finite"),
    ],
)
def test_errors_have_the_parameter_s_own_name(name, parameter, value, words):
    with pytest.raises(ValueError, match=f"`{parameter}` {words}"):
        problems.get(name, **{parameter: value})
