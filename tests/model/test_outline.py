"""Solvers are chosen from where the blocks of the matrices lie, without computing what is in them."""

import jax
import jax.numpy as jnp
import pytest

import polhode as ph
from polhode.compiler.numpy.eager import eager_numpy
from polhode.linalg.blocks import pattern


def matrices(coordinates, mechanism, t, q, v):
    A = coordinates.mass(q) + coordinates.damping(mechanism, t, q, v)
    if coordinates.identity_kinematics:
        A = A + coordinates.stiffness(mechanism, t, q, v)
    return A, coordinates.jacobian(mechanism, t, q)


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    ("name", "formulation"),
    [
        ("slider-crank", "S3xR3"), ("slider-crank", "euler-parameters"), ("puma", "SE3"), ("flying-spaghetti", None),
        ("roll-up", None), ("heavy-top-constrained", None), ("flexible-slider-crank", None), ("andrews", None),
    ],
)  # fmt: skip
def test_an_outline_has_the_places_of_all_blocks(name, formulation):
    with eager_numpy():
        options = {} if formulation is None else {"formulation": formulation}
        system = ph.problems.get(name, **options).system
        at = jnp.zeros(()), system.configuration.origin(), jnp.zeros(system.n)
    found = jax.eval_shape(matrices, system.coordinates, system.mechanism, *at)
    for outline, matrix in zip(system.coordinates.outline(system.mechanism), found, strict=True):
        assert {*pattern(outline)} == {*pattern(matrix)}
        assert len(outline) > 0
