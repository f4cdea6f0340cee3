"""Small programs on arrays, with which what compiles and evaluates programs is tried."""

import jax
import jax.numpy as jnp
import numpy as np

RNG = np.random.default_rng(3)
A = jnp.asarray(RNG.normal(size=(3, 3)))
V = jnp.asarray(RNG.normal(size=3))

PROGRAMS = {
    "matmul": lambda a, v: (a @ v, a.T @ a, jnp.einsum("ij,kj->ik", a, a), v @ v, jnp.outer(v, v)),
    "copies": lambda a, v: (
        a[1:, ::2],
        jnp.concatenate([v, v[::-1]]),
        jnp.stack([v, v], 1),
        a.T,
        jnp.pad(v, 2),
        a.ravel(),
    ),
    "broadcast": lambda a, v: (a[:, None] * v, v[:, None] + v, jnp.ones((2, 3)) * v),
    "reductions": lambda a, v: (a.sum(0), a.max(), a.min(1), a.prod(), jnp.all(v > 0), jnp.any(v > 9), a.mean()),
    "where": lambda a, v: (jnp.where(v > 0, v, -v), jnp.clip(v, -0.1, 0.1), jnp.sign(v), jnp.isfinite(v)),
    "functions": lambda a, v: (jnp.sin(v), jnp.sqrt(v * v), v**3, jnp.exp(v), jnp.arctan2(v, 1 + v * v), v / 3 % 2),
    "gather": lambda a, v: (v[jnp.array([2, 0])], a[jnp.array([0, 1]), jnp.array([1, 2])], v.at[1].set(7.0)),
    "scatter": lambda a, v: (
        v.at[jnp.array([2, 0])].set(v[:2]),
        a.at[np.array([0, 2]), :2].set(a[1:, 1:]),
        a.at[np.array([[0], [2]]), np.array([[1, 0]])].set(2.0),
        v.at[np.array([1, 7])].set(3.0, mode="drop"),
        v.at[np.array([1, 7])].set(3.0, mode="clip"),
        jax.lax.dynamic_update_slice(a, v[None, :2], (2, 1)),
    ),
    "scatter and combine": lambda a, v: (
        v.at[np.array([0, 2, 0])].add(a[0]),
        jnp.zeros((4, 4)).at[np.array([[1], [3], [1]]), np.array([[0, 2, 0]])].add(a),
        v.at[np.array([1, 7])].add(3.0, mode="drop"),
        v.at[np.array([1, 7])].add(3.0, mode="clip"),
        v.at[1:].multiply(a[0, 1:]),
        v.at[np.array([1, 1])].subtract(v[:2]),
        a.at[:, 1].max(v),
        a.at[np.array([1, 2])].min(v),
    ),
    "scatter at unknown places": lambda a, v: (
        v.at[(v > 0).astype(int)].add(a[0]),
        v.at[jnp.argmax(v)].set(2.0),
    ),
    "derivatives of indexing": lambda a, v: (
        jax.grad(lambda v: jnp.sum(v[np.array([0, 2, 2])] ** 2))(v),
        jax.jacrev(lambda v: v.at[np.array([0, 2])].add(v[:2] * v[1]))(v),
        jax.vmap(lambda v: v.at[np.array([0, 0])].add(v[1:]))(a),
    ),
    "cumulative": lambda a, v: (
        jnp.cumsum(a, 0),
        jnp.cumprod(v),
        jax.lax.cummax(a, axis=1, reverse=True),
        jax.lax.cummin(v),
        jnp.cumsum(v[:0]),
    ),
    "position of the largest": lambda a, v: (
        jnp.argmax(a, 0),
        jnp.argmin(v),
        jnp.argmax(jnp.array([1.0, jnp.nan, 2.0, jnp.nan]) * v[0]),
    ),
    "batched products": lambda a, v: (
        jnp.einsum("nij,nj->ni", jnp.stack([a, a.T]), jnp.stack([v, 2 * v])),
        jnp.einsum("nij,nik->jkn", jnp.stack([a, a.T]), jnp.stack([a, a])),
        jax.vmap(jnp.matmul, (0, None))(a, a),
    ),
    "linear algebra": lambda a, v: (jnp.linalg.solve(a, v), jnp.linalg.inv(a), jnp.linalg.det(a)),
    "loop": lambda a, v: jax.lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, a @ c[1] / 3), (0, v)),
    "loops of a batch": lambda a, v: jax.vmap(
        lambda a, x: jax.lax.while_loop(lambda c: c[0] < 9, lambda c: (c[0] + 2 + c[0] % 3, a @ c[1] / 3), (x, v)),
    )(jnp.stack([a, a.T]), jnp.array([1, 7])),
    "cond": lambda a, v: jax.lax.cond(v[0] > 0, lambda: v, lambda: a @ v),
    "known cond": lambda a, v: jax.lax.switch(1, [lambda: v, lambda: a @ v]),
    "scan": lambda a, v: jax.lax.scan(lambda c, x: (a @ c, c + x), v, jnp.arange(4.0)),
    "derivative": lambda a, v: (jax.jacfwd(lambda v: a @ v * v[0])(v), jax.grad(lambda v: jnp.sum(jnp.sin(a @ v)))(v)),
    "integers": lambda a, v: (jnp.arange(3) // 2, jnp.int64(7) % 3 + (v > 0).astype(int)),
    "zeros and ones": lambda a, v: (0.0 * v, 1.0 * v, v + 0.0, 0.0 - v, 0.0 / v, v / 1.0, jnp.eye(3) @ v),
    "empty": lambda a, v: (v[:0].sum(), jnp.zeros((0, 2)), v[:0] * 2),
    "barrier": lambda a, v: jax.lax.optimization_barrier((a + 1, v @ a)),
    "constant": lambda a, v: (jnp.arange(3.0), 2.5),
}
