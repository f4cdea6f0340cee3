"""Contacts of a state: shapes that overlap at the start, and what may have made a step fail."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from polhode import checks
from polhode.compiler.numpy.eager import eager_numpy
from polhode.contact.contact_problem import ContactProblem, is_paradoxical
from polhode.contact.distances import APART
from polhode.jax_context import outside_trace
from polhode.linalg.blocks import to_dense
from polhode.systems.base import State
from polhode.systems.mechanical.abstract import START_TOLERANCE

_MOST_NAMES = 5
"""Contacts that a message names."""

_NEAR = 1e-3
"""Gap, relative to the largest coordinate or 1 where that is less, up to which points are said to touch."""


@eager_numpy()
def check_start(system: Any, state: State) -> None:
    """Raises ValueError if shapes overlap by more than `START_TOLERANCE`, naming them, with the depth and a remedy."""
    (q, _) = state
    if not checks.is_concrete(system, state):
        return
    # Also where a function under `jax.jit` simulates a system from outside it.
    with outside_trace():
        stops, depths = (_depths(contacts, system, q) for contacts in (system.joint_contacts, system.shape_contacts))
    if stops:
        beyond = ", ".join(f"{name} by {depth:.3g}" for name, depth in [*stops.items()][:_MOST_NAMES])
        raise ValueError(
            f"Coordinates start beyond rigid stops: {beyond}. Start within the limits, or give the stops a "
            "`stiffness`, with which they are elastic."
        )
    if not depths:
        return
    names = sorted(depths, key=lambda name: -depths[name])
    more = f", and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    overlaps = ", ".join(f"{name} by {depths[name]:.3g}" for name in names[:_MOST_NAMES])
    raise ValueError(
        f"Shapes overlap at the start: {overlaps}{more}. Move the bodies apart, so that gaps are not negative; or "
        "leave the pair out, `model.contacts(without=[(first, second)])`, if these bodies are to pass through each "
        "other."
    )


def _depths(contacts: Any, system: Any, q: Any) -> dict[str, float]:
    """How deep contacts overlap by more than `START_TOLERANCE`, by their names."""
    if contacts is not None and contacts.is_listed:
        contacts = contacts.near(system.motion(q).poses, 0.0)
    if contacts is None:
        return {}
    gaps = np.asarray(contacts.gaps(system, jnp.zeros(()), q))
    depths: dict[str, float] = {}
    for k in np.flatnonzero(~(gaps >= -START_TOLERANCE)):
        name = contacts.name(k)
        depths[name] = max(depths.get(name, 0.0), -float(gaps[k]))
    return depths


@eager_numpy()
def findings(system: Any, t: float, state: State) -> list[str]:
    """Describes what touches, and contacts in Painlevé's region."""
    contacts, (q, v) = system.contact_set, state
    if contacts is None or not all(np.isfinite(np.asarray(x)).all() for x in jax.tree.leaves((q, v))):
        return []
    if contacts.is_listed:
        return _of_many(contacts, system, q)
    places = contacts.kinematics(system, jnp.asarray(t), q)
    size = max(1.0, *(float(np.max(np.abs(np.asarray(x)), initial=0.0)) for x in jax.tree.leaves(q)))
    touches = np.asarray(places.gap) <= _NEAR * size
    if not touches.any():
        nearest = int(np.argmin(np.asarray(places.gap)))
        if places.gap[nearest] > 0.1 * APART:
            return []
        return [f"nearest to touching are {contacts.name(nearest)}, {float(places.gap[nearest]):.3g} apart"]
    names = list(dict.fromkeys(contacts.name(k) for k in np.flatnonzero(touches)))
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    result = [f"in touch are {'; '.join(names[:_MOST_NAMES])}{more}"]
    deepest = int(np.argmin(np.asarray(places.gap)))
    if places.gap[deepest] < -START_TOLERANCE:
        result.append(f"{contacts.name(deepest)} overlap by {-float(places.gap[deepest]):.3g}")
    W = np.asarray(places.rows).reshape(-1, system.n)
    delassus = jnp.asarray(_delassus(system, t, state, W))
    problem = ContactProblem(
        delassus, jnp.zeros(len(W)), contacts.law.static_friction, jnp.asarray(touches), hold=places.hold
    )
    locked = [contacts.name(k) for k in np.flatnonzero(np.asarray(is_paradoxical(problem)))]
    if locked:
        result.append(
            f"friction between {'; '.join(dict.fromkeys(locked))} presses them more than their normal force opens them "
            "(Painlevé's region), where forces may have no solution: less friction there helps"
        )
    return result


def _of_many(contacts: Any, system: Any, q: Any) -> list[str]:
    """Describes the pairs that overlap most, of contacts in lists."""
    near = contacts.near(system.motion(q).poses, 0.0)
    if near is None:
        return []
    gaps = np.asarray(near.points(system.motion(q)).gap)
    deepest = np.argsort(gaps)[:_MOST_NAMES]
    names = [f"{near.pairs[k]} by {-gaps[k]:.3g}" for k in deepest.tolist() if gaps[k] < -START_TOLERANCE]
    return [f"overlapping are {'; '.join(names)}"] if names else []


def _delassus(system: Any, t: float, state: State, W: np.ndarray) -> np.ndarray:
    """W A Wᵀ, A the response of velocities to impulses under the constraints."""
    q, _ = state
    M = np.asarray(to_dense(system.mass(jnp.asarray(t), q), (system.n, system.n)))
    A = np.linalg.pinv(M)
    if system.m:
        B = np.asarray(to_dense(system.jacobian(jnp.asarray(t), q), (system.m, system.n)))
        A = A - A @ B.T @ np.linalg.pinv(B @ A @ B.T) @ B @ A
    return W @ A @ W.T
