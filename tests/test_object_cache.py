"""Which objects count as unchanging, and that what they hold tells them apart."""

from __future__ import annotations

import dataclasses
import gc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode.compiler.fingerprint import FunctionIdentity
from polhode.compiler.fingerprint.object_walk import _FROZEN_DIGESTS
from polhode.joints._elements import FrameConstraint
from polhode.multibody.bodies import Body, ground


def element(**changed: Any) -> FrameConstraint:
    given = dict(s0=jnp.zeros(3), s1=jnp.ones(3), directions=jnp.zeros((0, 3)), a=jnp.eye(3)[:2], b=jnp.eye(3)[1:])
    return FrameConstraint(**{**given, **changed}, pinned=True)


def test_equal_objects_have_equal_digests():
    assert _FROZEN_DIGESTS.digest(element()) == _FROZEN_DIGESTS.digest(element())
    assert _FROZEN_DIGESTS.digest(ground()) == _FROZEN_DIGESTS.digest(ground())


@pytest.mark.parametrize(
    "other",
    [
        dict(s1=jnp.ones(3).at[2].set(np.nextafter(1.0, 2.0))),
        dict(s0=-jnp.zeros(3)),
        dict(s0=jnp.zeros(3, int)),
        dict(a=jnp.eye(3)[:1], b=jnp.eye(3)[1:2]),
    ],
)
def test_every_number_and_type_tells(other):
    assert _FROZEN_DIGESTS.digest(element(**other)) != _FROZEN_DIGESTS.digest(element())


def test_what_can_be_changed_has_none():
    writeable = np.zeros(3)
    part = writeable[:2]
    part.setflags(write=False)
    assert _FROZEN_DIGESTS.digest(element(s0=writeable)) is None
    assert _FROZEN_DIGESTS.digest(element(s0=part)) is None
    assert _FROZEN_DIGESTS.digest(dataclasses.replace(ground(), mass=[1.0])) is None
    whole = np.zeros(3)
    whole.setflags(write=False)
    assert _FROZEN_DIGESTS.digest(element(s0=whole)) is not None


def test_classes_of_users_have_none():
    class Own(Body):
        pass

    class Module(eqx.Module):
        x: float

    assert _FROZEN_DIGESTS.digest(Own(*vars(ground()).values())) is None
    assert _FROZEN_DIGESTS.digest(Module(1.0)) is None


def test_traced_values_have_none():
    seen = []

    @jax.jit
    def look(x):
        seen.append(_FROZEN_DIGESTS.digest(element(s0=x)))
        return x

    look(jnp.zeros(3))
    assert seen == [None]


@pytest.mark.exhaustive
def test_nothing_is_kept_of_objects_that_are_gone():
    gc.collect()
    before = len(_FROZEN_DIGESTS._entries)
    for _ in range(50):
        _FROZEN_DIGESTS.digest(element())
    gc.collect()
    assert len(_FROZEN_DIGESTS._entries) <= before


def test_functions_see_which_body_they_captured():
    def reading(body):
        return FunctionIdentity(lambda: body.mass, ())

    model = ph.Model()
    bodies = [model.add_point(mass=m, position=(x, 0, 0), name=f"p{k}") for k, (m, x) in enumerate([(1, 0), (1, 1)])]
    assert reading(bodies[0]) == reading(bodies[0])
    assert reading(bodies[0]) != reading(bodies[1])
