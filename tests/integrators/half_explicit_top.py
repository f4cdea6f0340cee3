"""The heavy top as a constrained body in four configuration spaces, written so that it compiles quickly."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from polhode.linalg.blocks import dense_block, to_dense
from polhode.linalg.kkt import AbstractKKT
from polhode.spaces import S3R3, SE3
from polhode.spaces.base import cross, hat
from polhode.spaces.products import direct_s3_r3, direct_so3_r3
from polhode.systems.mechanical import AbstractMechanical

MASS = 15.0
ARM = np.array([0.0, 1.0, 0.0])
INERTIA = np.array([0.234375, 0.46875, 0.234375])
GRAVITY = np.array([0.0, 0.0, -9.81])
OMEGA = np.array([0.0, 150.0, -4.61538])
SPACES = {"SO3xR3": direct_so3_r3(), "S3xR3": direct_s3_r3(), "SE3": SE3(), "S3R3": S3R3()}


class LibraryKKT(AbstractKKT):
    """Calls LAPACK: slow in a step, but a hundredth of the operations to compile."""

    n: int = eqx.field(static=True)
    m: int = eqx.field(static=True)

    def factor(self, A, P, Q):
        n, m = self.n, self.m
        a, p, q = to_dense(A, (n, n)), to_dense(P, (m, n)), to_dense(Q, (m, n))
        return jnp.concatenate((jnp.concatenate((a, p.T), 1), jnp.concatenate((q, jnp.zeros((m, m))), 1)))

    def solve(self, factors, r, s):
        x = jnp.linalg.solve(factors, jnp.concatenate((r, s)))
        return x[: self.n], x[self.n :]


class Top(AbstractMechanical):
    """Φ = Rᵀx - X. Twists are (Ω, ẋ) on the direct products, else (Ω, Rᵀẋ).

    B is the exact gradient [(Rᵀx)~, Rᵀ or 1], or with `frozen` that of the literature, [X~, Rᵀ or 1], which is the same
    on the constraint.
    """

    name: str = eqx.field(static=True)
    mass_value: Any = MASS
    frozen: bool = eqx.field(static=True, default=False)

    @property
    def configuration(self):
        return SPACES[self.name]

    @property
    def direct(self):
        return "x" in self.name

    @property
    def n(self):
        return 6

    @property
    def m(self):
        return 3

    @property
    def kkt(self):
        return LibraryKKT(6, 3)

    def rotations(self):
        return self.configuration.spaces[0] if self.direct else self.configuration.rotations

    def mass(self, t, q):
        return dense_block(jnp.diag(jnp.concatenate((jnp.asarray(INERTIA), jnp.full(3, self.mass_value)))))

    def force(self, t, q, v):
        W, u = v[:3], v[3:]
        weight = self.mass_value * jnp.asarray(GRAVITY)
        gyroscopic = cross(INERTIA * W, W)
        if self.direct:
            return jnp.concatenate((gyroscopic, weight))
        return jnp.concatenate((gyroscopic, self.mass_value * cross(u, W) + self.rotations().Ad_dual(q[0], weight)))

    def constraint(self, t, q):
        return self.rotations().Ad_dual(q[0], q[1]) - ARM

    def jacobian(self, t, q):
        turned = hat(jnp.asarray(ARM) if self.frozen else self.rotations().Ad_dual(q[0], q[1]))
        moved = self.rotations().to_matrix(q[0]).T if self.direct else jnp.eye(3)
        return dense_block(jnp.concatenate((turned, moved), axis=1))


def start(system):
    """Upright in the body frame of t = 0, spinning about the arm."""
    velocity = jnp.concatenate((jnp.asarray(OMEGA), jnp.asarray(np.cross(OMEGA, ARM))))
    return (system.rotations().origin(), jnp.asarray(ARM)), velocity
