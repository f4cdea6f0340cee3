"""Solvers are chosen from where the blocks of the matrices lie, without computing what is in them."""

import jax
import jax.numpy as jnp
import pytest

import polhode as ph
from polhode.execution.eager import uncompiled
from polhode.multibody.absolute import _matrices


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["slider-crank", "puma", "flying-spaghetti", "roll-up", "heavy-top-constrained"])
def test_an_outlined_system_has_the_same_blocks(name):
    with uncompiled():
        system = ph.problems.get(name).system
        at = jnp.zeros(()), system.configuration.origin(), jnp.zeros(system.n)
    mechanisms = system.mechanism, system.mechanism.outlined()
    blocks, outlined = (jax.eval_shape(_matrices, system.coordinates, m, *at) for m in mechanisms)
    assert jax.tree.structure(blocks) == jax.tree.structure(outlined)
    assert [(x.shape, x.dtype) for x in jax.tree.leaves(blocks)] == [
        (x.shape, x.dtype) for x in jax.tree.leaves(outlined)
    ]
    assert len(jax.tree.leaves(blocks[0])) > 0
