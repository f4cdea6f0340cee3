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
from polhode.linalg.known_places import take
from polhode.linalg.symbolic import Plan


class BatchFactors(NamedTuple):
    """Factors of one batch: of the pivots, the blocks below them, and the solutions for the blocks right of them."""

    lu: Float[Array, "s s g"]
    below: Float[Array, "d s g"]
    right: Float[Array, "s d g"]


class EliminationKKT(AbstractKKT):
    r"""Eliminates bodies and joints in rounds, all parts of a round that are not coupled at once.

    The order (`elimination_rounds`) is static and needs no pivoting: it is stable while A is positive definite up to
    perturbations and the constraints are independent. On open chains it is cyclic reduction: O(n) operations in
    O(log n) rounds. On scalars, structural zeros vanish which leaves a sparse elimination without overhead.
    """

    n: int = eqx.field(static=True)
    m: int = eqx.field(static=True)
    plan: Plan = eqx.field(static=True)

    def factor(self, A: Matrix, P: Matrix, Q: Matrix, E: Float[Array, " m"] | None = None) -> Float[Array, " numbers"]:
        values = [g.values for g in (*A, *P, *Q)] + ([] if E is None else [-E])
        entries = self.plan.gather_sum(A, P, Q, E is not None)(values)
        factors = []
        for now in self.plan.rounds:
            flat = jnp.concatenate((entries, jnp.array([0.0, 1.0])))
            factors.append([])
            changes = []
            for batch in now.batches:
                lu = small.factor(take(flat, batch.pivot))
                below = take(flat, batch.below)
                right = small.solve(lu, take(flat, batch.right))
                factors[-1].append(BatchFactors(lu, below, right))
                changes.append(-small.product(below, right))
            entries = now.matrix([entries, *changes])
        # As one array: loops that keep factors copy every array of a carry again and again.
        return jnp.concatenate([part.reshape(-1) for part in jax.tree.leaves(factors)])

    def _parts(self, factors: Float[Array, " numbers"]) -> list[list[BatchFactors]]:
        begin, parts = 0, []
        for now in self.plan.rounds:
            parts.append([])
            for batch in now.batches:
                arrays = []
                for shape in (batch.pivot.shape, batch.below.shape, batch.right.shape):
                    end = begin + math.prod(shape)
                    arrays.append(factors[begin:end].reshape(shape))
                    begin = end
                parts[-1].append(BatchFactors(*arrays))
        return parts

    def solve(
        self, factors: Float[Array, " numbers"], r: Float[Array, " n"], s: Float[Array, " m"]
    ) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
        parts = self._parts(factors)
        rhs = jnp.concatenate((r, s))
        halfway: list[list[Array]] = []
        for now, factors_here in zip(self.plan.rounds, parts, strict=True):
            flat = jnp.append(rhs, 0.0)
            sides = [take(flat, batch.unknowns) for batch in now.batches]
            halfway.append([small.solve(f.lu, side[:, None]) for f, side in zip(factors_here, sides, strict=True)])
            changes = [-small.product(f.below, x) for f, x in zip(factors_here, halfway[-1], strict=True)]
            rhs = now.vector([rhs, *changes])
        unknowns = jnp.zeros(0)
        for now, factors_here, ready in zip(
            reversed(self.plan.rounds), reversed(parts), reversed(halfway), strict=True
        ):
            values = [x[:, 0] for x in ready]
            if unknowns.size:
                later = [take(unknowns, batch.neighbours)[:, None] for batch in now.batches]
                values = [
                    x - small.product(f.right, y)[:, 0] for x, f, y in zip(values, factors_here, later, strict=True)
                ]
            unknowns = jnp.concatenate([unknowns, *(x.reshape(-1) for x in values)])
        solution = take(unknowns, self.plan.where)
        return solution[: self.n], solution[self.n :]
