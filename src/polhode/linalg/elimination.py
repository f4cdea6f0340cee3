"""Block-sparse elimination for chains, trees and loops of bodies: many small parts at a time."""

from __future__ import annotations

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.linalg import small
from polhode.linalg.blocks import Matrix
from polhode.linalg.kkt import AbstractKKT
from polhode.linalg.segment_sum import take
from polhode.linalg.symbolic import Plan


class BatchFactors(NamedTuple):
    """Factors of one batch: of the pivots, what is below them, and the solutions for what is right of them."""

    lu: Float[Array, "s s g"]
    below: Float[Array, "d s g"]
    right: Float[Array, "s d g"]


class EliminationKKT(AbstractKKT):
    r"""Eliminates bodies and joints in rounds, all parts of a round that are not coupled at once.

    The order (`elimination_rounds`) is static and needs no pivoting: it is stable while A is positive definite up to
    perturbations and the constraints are independent. On open chains it is cyclic reduction: O(n) operations in
    O(log n) rounds. On scalars, structural zeros vanish and what remains is a sparse elimination without overhead.
    """

    n: int = eqx.field(static=True)
    m: int = eqx.field(static=True)
    plan: Plan = eqx.field(static=True)

    def factor(self, A: Matrix, P: Matrix, Q: Matrix, E: Float[Array, " m"] | None = None) -> Float[Array, " numbers"]:
        values = [g.values for g in (*A, *P, *Q)] + ([] if E is None else [-E])
        left = self.plan.reading(A, P, Q, E is not None)(values)
        factors = []
        for now in self.plan.rounds:
            flat = jnp.concatenate((left, jnp.array([0.0, 1.0])))
            factors.append([])
            changes = []
            for batch in now.batches:
                lu = small.factor(take(flat, batch.pivot))
                below = take(flat, batch.below)
                right = small.solve(lu, take(flat, batch.right))
                factors[-1].append(BatchFactors(lu, below, right))
                changes.append(-small.product(below, right))
            left = now.matrix([left, *changes])
        # As one array: loops that keep factors copy every array of a carry again and again.
        return jnp.concatenate([part.reshape(-1) for part in jax.tree.leaves(factors)])

    def _parts(self, factors: Float[Array, " numbers"]) -> list[list[BatchFactors]]:
        begin, parts = 0, []
        for now in self.plan.rounds:
            parts.append([])
            for batch in now.batches:
                found = []
                for shape in (batch.pivot.shape, batch.below.shape, batch.right.shape):
                    end = begin + math.prod(shape)
                    found.append(factors[begin:end].reshape(shape))
                    begin = end
                parts[-1].append(BatchFactors(*found))
        return parts

    def solve(
        self, factors: Float[Array, " numbers"], r: Float[Array, " n"], s: Float[Array, " m"]
    ) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
        parts = self._parts(factors)
        left = jnp.concatenate((r, s))
        halfway: list[list[Array]] = []
        for now, done in zip(self.plan.rounds, parts, strict=True):
            flat = jnp.append(left, 0.0)
            sides = [take(flat, batch.unknowns) for batch in now.batches]
            halfway.append([small.solve(f.lu, side[:, None]) for f, side in zip(done, sides, strict=True)])
            changes = [-small.product(f.below, x) for f, x in zip(done, halfway[-1], strict=True)]
            left = now.vector([left, *changes])
        known = jnp.zeros(0)
        for now, done, ready in zip(reversed(self.plan.rounds), reversed(parts), reversed(halfway), strict=True):
            found = [x[:, 0] for x in ready]
            if known.size:
                later = [take(known, batch.neighbours)[:, None] for batch in now.batches]
                found = [x - small.product(f.right, y)[:, 0] for x, f, y in zip(found, done, later, strict=True)]
            known = jnp.concatenate([known, *(x.reshape(-1) for x in found)])
        solution = take(known, self.plan.where)
        return solution[: self.n], solution[self.n :]
