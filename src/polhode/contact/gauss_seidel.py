"""Projected Gauss–Seidel sweeps over contacts."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array

from polhode.contact.contact_problem import UnitProblem, discs
from polhode.contact.laws import Impulses, disc_factor, radii, raise_to_bound


def gauss_seidel(problem: UnitProblem, z: Impulses, sweeps: Array) -> Impulses:
    """Impulses after a number of sweeps: one contact after the other, its normal impulse before the others."""
    k, rows = z.shape
    table = problem.matrix.reshape(k, rows, -1)
    velocity = problem.velocity.reshape(k, rows)
    hold = jnp.full(k, -1.0) if problem.hold is None else problem.hold
    contacts = (jnp.arange(k), table, velocity, problem.step, problem.least, hold)

    def of_contact(z: Impulses, contact: tuple[Array, ...]) -> tuple[Impulses, None]:
        i, matrix, velocity, step, least, hold = contact
        here = (jnp.arange(k) == i)[:, None]
        own = jnp.sum(jnp.where(here, z, 0.0), axis=0)
        w = matrix @ z.reshape(-1) + velocity
        block = jnp.sum(jnp.where(here[None], matrix.reshape(rows, k, rows), 0.0), axis=1)
        normal = raise_to_bound(own[0] - step[0] * w[0], least, step[0], problem.smoothing)
        w = w + block[:, 0] * (normal - own[0])
        parts = [normal[None]]
        for disc in discs(rows):
            a = own[disc] - step[disc] * w[disc]
            length = jnp.sqrt(jnp.sum(a * a))
            radius = radii(normal, None if problem.hold is None else hold)
            new = disc_factor(length, radius, step[disc.start], problem.smoothing) * a
            w = w + block[:, disc] @ (new - own[disc])
            parts.append(new)
        return jnp.where(here, jnp.concatenate(parts), z), None

    def sweep(loop: tuple[Impulses, Array]) -> tuple[Impulses, Array]:
        z, count = loop
        return jax.lax.scan(of_contact, z, contacts)[0], count + 1

    return jax.lax.while_loop(lambda loop: loop[1] < sweeps, sweep, (z, jnp.zeros((), int)))[0]
