"""The floating frame of reference against its own Lagrangian, and what conserves or loses energy in it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from beams import Beam
from compiling import evaluated

import polhode as ph
from polhode.multibody import formulations
from polhode.multibody.formulations.floating_frame import FloatingFrame
from polhode.multibody.mechanism.poses import Wrench
from polhode.spaces.base import hat

NODES = {"root": 0, "middle": 2, "tip": 4}
NO_MASS = jnp.zeros(()), jnp.zeros((3, 3))
"""The inertia of rigid bodies, which flexible ones don't read."""


def part(**options: Any) -> ph.flexible.FlexiblePart:
    beam = Beam()
    given: dict[str, Any] = {"nodes": NODES, "interfaces": ("tip",), "modes": 3, **options}
    return ph.flexible.reduced(*beam.matrices(4), beam.points(4), **given)


def somewhere(form: FloatingFrame) -> tuple[Any, Any, Wrench]:
    """A state far from any symmetry, and loads on all nodes."""
    rng = np.random.default_rng(3)
    q = form.frame.space.exp(jnp.asarray(rng.standard_normal(6)))
    eta = jnp.asarray(0.05 * rng.standard_normal(form.modal.count))
    v = jnp.asarray(rng.standard_normal(form.n)) * 2.0
    loads = (jnp.asarray(rng.standard_normal((form.nodes, 3))) for _ in range(2))
    return (q, eta), v, Wrench(*loads)


def close(found: Any, expected: Any, rtol: float = 1e-11) -> None:
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * np.max(np.abs(expected)))


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["SO3xR3", "S3|xR3"])
@pytest.mark.parametrize("options", [{}, {"frame": "root", "damping": 0.01}], ids=["mean", "root"])
def test_forces_are_those_of_the_lagrangian(name, options):
    form = FloatingFrame(formulations.get(name), part(**options).modal)
    q, v, wrench = somewhere(form)
    idle = Wrench(jnp.zeros((form.nodes, 3)), jnp.zeros((form.nodes, 3)))

    def found(q, v):
        return form.force(q, v, idle, *NO_MASS), form.force(q, v, wrench, *NO_MASS)

    def expected(q, v):
        """Hamel's equations on the group: ∂L/∂θ + ad*_v p - (∂p/∂θ) v, and virtual work of the loads."""
        move, rest = form.space.move, jnp.zeros(form.n)
        momentum = lambda s: form.mass(move(q, s * v), *NO_MASS) @ v  # noqa: E731
        p, change = jax.jvp(momentum, (jnp.zeros(()),), (jnp.ones(()),))

        def lagrangian(theta):
            there = move(q, theta)
            return 0.5 * v @ form.mass(there, *NO_MASS) @ v - form.strain_energy(there)

        inner = jax.grad(lagrangian)(rest) + form.space.ad_dual(v, p) - change
        if form.modal.damping is not None:
            inner = inner.at[6:].add(-form.modal.damping @ v[6:])
        loads = jnp.concatenate((wrench.torque, wrench.force), axis=1)
        work = lambda w: sum(jnp.concatenate(form.at(k).twist(q, w)) @ loads[k] for k in range(form.nodes))  # noqa: E731
        return inner, inner + jax.grad(work)(rest)

    for a, b in zip(evaluated(found, q, v), evaluated(expected, q, v), strict=True):
        close(a, b)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["S3xR3", "SE3"])
@pytest.mark.parametrize("options", [{}, {"frame": "root", "damping": 0.01}], ids=["mean", "root"])
@pytest.mark.exhaustive
def test_tangents_are_derivatives(name, options):
    form = FloatingFrame(formulations.get(name), part(**options).modal)
    q, v, wrench = somewhere(form)

    def found(q, v):
        still = form.load_stiffness(q, wrench, *NO_MASS)
        return form.stiffness(q, v, wrench, *NO_MASS), form.damping(q, v, wrench, *NO_MASS), still

    def expected(q, v):
        along = lambda theta: form.force(form.space.move(q, theta), v, wrench, *NO_MASS)  # noqa: E731
        idle = Wrench(jnp.zeros((form.nodes, 3)), jnp.zeros((form.nodes, 3)))
        alone = lambda theta: along(theta) - form.force(form.space.move(q, theta), v, idle, *NO_MASS)  # noqa: E731
        rest = jnp.zeros(form.n)
        return (
            -jax.jacfwd(along)(rest),
            -jax.jacfwd(lambda u: form.force(q, u, wrench, *NO_MASS))(v),
            -jax.jacfwd(alone)(rest),
        )

    for a, b in zip(evaluated(found, q, v), evaluated(expected, q, v), strict=True):
        close(a, b)


@pytest.mark.parametrize("name", ["S3xR3", "SE3"])
def test_nodes_move_with_their_twists(name):
    form = FloatingFrame(formulations.get(name), part().modal)
    q, v, _ = somewhere(form)
    load = jnp.arange(1.0, 7.0)

    def seen(q, v):
        rows = []
        for node in map(form.at, range(form.nodes)):
            twist, R = node.twist(q, v), node.pose(q).R
            moved = lambda s, node=node: node.pose(form.space.move(q, s * v))  # noqa: E731
            rate = jax.jvp(moved, (jnp.zeros(()),), (jnp.ones(()),))[1]
            rows.append(
                (
                    (twist.u, R @ hat(twist.omega), R.T @ R),
                    (rate.x, rate.R, jnp.eye(3)),
                    (node.jacobian(q) @ v, node.body_jacobian(q) @ v, node.pull_back(q, load)),
                    (
                        jnp.concatenate(twist),
                        jnp.concatenate((twist.omega, R.T @ twist.u)),
                        node.jacobian(q).T @ load,
                    ),
                )
            )
        return rows

    for moving, rates, products, parts in evaluated(seen, q, v):
        jax.tree.map(close, (moving, products), (rates, parts))


def test_energy_and_momentum_split_at_the_centre_of_mass():
    for name, options in (("SO3xR3", {}), ("SE3", {"frame": "root"})):
        form = FloatingFrame(formulations.get(name), part(**options).modal)
        q, v, _ = somewhere(form)

        def seen(q, v, form=form):
            p = form.mass(q, *NO_MASS) @ v
            R, x = form.frame.pose(q[0]).R, form.frame.pose(q[0]).x
            centre, moving = form.pose(q), form.twist(q, v)
            push = p[3:6] if form.frame.twist_is_fixed else R @ p[3:6]
            about_origin = R @ p[:3] + jnp.cross(x, push)
            split = 0.5 * form.modal.mass * moving.u @ moving.u + form.relative_energy(q, v, NO_MASS[1])
            spun = R @ form.spin(q, v, NO_MASS[1]) + jnp.cross(centre.x, push)
            return (0.5 * p @ v, push, about_origin), (split, form.modal.mass * moving.u, spun)

        jax.tree.map(close, *evaluated(seen, q, v))
