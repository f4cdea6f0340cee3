"""A step looks at near pairs only: contacts and rows are those of all pairs."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph


def crawler() -> ph.Problem:
    """A body on hinged legs above a floor, whose shapes touch each other, too; some are far away."""
    model = ph.Model(gravity=(0, 0, -9.81))
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    trunk = model.add_body(mass=2.0, inertia=(0.1,) * 3, position=(0, 0, 0.5), shape=ph.shapes.Sphere(0.1))
    for k, x in enumerate((-0.3, 0.1, 0.4)):
        shape = ph.shapes.Capsule(0.05, 0.3) if k else ph.shapes.Sphere(0.06)
        leg = model.add_body(mass=0.5, inertia=(0.01,) * 3, position=(x, 0.1 * k, 0.3), shape=shape, name=f"leg {k}")
        model.add(ph.joints.Revolute(trunk, leg, point=(x, 0, 0.45), axis=(0, 1, 0.2 * k)))
    model.contacts(friction=0.5)
    model.limit_contacts(4)
    return model.problem("minimal", t1=1.0, h=0.01)


@pytest.mark.exhaustive
def test_near_pairs_and_their_rows_are_those_of_all():
    system = crawler().system
    contacts, (q, v) = system.contact_set, crawler().state0
    assert contacts.count > 4, "all contacts are looked at"
    q = system.flow(q, 0.3 * jnp.sin(1.0 + jnp.arange(len(v))), jnp.asarray(1.0))
    for reach in (True, False):
        if not reach:
            groups = tuple(type(g)(g.first, g.second, g.first_nodes, g.second_nodes) for g in contacts.groups)
            contacts = dataclasses.replace(contacts, groups=groups)
        present = jax.jit(lambda q, contacts=contacts: contacts.present(system, jnp.zeros(()), q))(q)
        everything = contacts.kinematics(system, jnp.zeros(()), q)
        order = np.argsort(everything.gap, stable=True)
        assert present.number is not None
        np.testing.assert_array_equal(present.number, order[:4])
        np.testing.assert_allclose(present.kinematics.gap, everything.gap[order[:4]], rtol=0, atol=1e-14)
        np.testing.assert_allclose(present.kinematics.rows, everything.rows[order[:4]], rtol=0, atol=1e-14)
        # What is left out is known to be apart, not how far.
        assert everything.gap[order[3]] <= present.left_out <= everything.gap[order[4]] + 1e-14
        np.testing.assert_array_equal(present.law.friction, 0.5)
