"""Random saddle-point systems with the structures that models have."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from polhode.linalg import Blocks, Indices
from polhode.linalg.blocks import Matrix, to_dense


class KKTSystem(NamedTuple):
    A: Matrix
    P: Matrix
    Q: Matrix
    n: int
    m: int

    def dense(self) -> np.ndarray:
        out = np.zeros((self.n + self.m, self.n + self.m))
        out[: self.n, : self.n] = to_dense(self.A, (self.n, self.n))
        out[: self.n, self.n :] = to_dense(self.P, (self.m, self.n)).T
        out[self.n :, : self.n] = to_dense(self.Q, (self.m, self.n))
        return out

    def with_values(self, values) -> "KKTSystem":
        A, P, Q = (
            tuple(Blocks(v, g.rows, g.cols) for v, g in zip(given, matrix, strict=True))
            for given, matrix in zip(values, self[:3], strict=True)
        )
        return self._replace(A=A, P=P, Q=Q)

    def values(self):
        return tuple(tuple(g.values for g in matrix) for matrix in self[:3])

    def right_sides(self) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(5)
        return rng.normal(size=self.n), rng.normal(size=self.m)


def connected_system(bodies, joints, springs=(), size=3, nonsymmetric=True) -> KKTSystem:
    """`joints`: (bodies, rows); `springs`: pairs of bodies; each body has `size` velocities."""
    rng = np.random.default_rng(7)
    own = np.arange(bodies * size).reshape(bodies, size)
    A = [_square(_definite(rng, bodies, size), own)]
    if len(springs):
        places = np.array([np.concatenate(own[list(pair)]) for pair in springs])
        A.append(_square(0.2 * _definite(rng, len(springs), 2 * size), places))
    P, Q, m = [], [], 0
    for nodes, rows in joints:
        places = np.concatenate(own[list(nodes)])[None]
        values = rng.normal(size=(1, rows, places.size))
        at = Indices(np.arange(m, m + rows)[None])
        P.append(Blocks(jnp.asarray(values), at, Indices(places)))
        other = values + nonsymmetric * 0.1 * rng.normal(size=values.shape)
        Q.append(Blocks(jnp.asarray(other), at, Indices(places)))
        m += rows
    return KKTSystem(tuple(A), tuple(P), tuple(Q), bodies * size, m)


def _definite(rng, count, size):
    a = rng.normal(size=(count, size, size))
    return a @ a.mT + size * np.eye(size) + 0.1 * rng.normal(size=a.shape)


def _square(values, places) -> Blocks:
    return Blocks(jnp.asarray(values), Indices(places), Indices(places))


def chain(bodies, rows=2, **options) -> KKTSystem:
    return connected_system(bodies, [((0,), rows), *(((k, k + 1), rows) for k in range(bodies - 1))], **options)


STRUCTURES = {
    "free body": connected_system(1, []),
    "three free bodies": connected_system(3, []),
    "chain": chain(5),
    "mixed joints": connected_system(3, [((0,), 1), ((0, 1), 2), ((1, 2), 1), ((2,), 2)]),
    "loop": connected_system(5, [((0,), 2), *(((k, k + 1), 2) for k in range(4)), ((4,), 1)]),
    "tree": connected_system(7, [((max(0, (k - 1) // 2), k) if k else (0,), 2) for k in range(7)]),
    "star": connected_system(7, [((0, k), 1) for k in range(1, 4)]),
    "springs": connected_system(4, [((0, 1), 2), ((2, 3), 1)], springs=[(0, 2), (1, 3), (1, 2)]),
    "chain with springs": chain(4, springs=[(k, k + 1) for k in range(3)]),
    "three bodies in one joint": connected_system(3, [((0,), 1), ((0, 1, 2), 2)]),
    "symmetric": chain(2, nonsymmetric=False),
    "one row each": chain(3, rows=1, size=2),
}
