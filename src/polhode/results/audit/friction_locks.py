"""Slides that friction ends because it presses more than normal forces open: Painlevé's region."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from polhode.compiler.numpy.eager import eager_numpy
from polhode.contact.shape_contacts import ShapeContacts
from polhode.linalg.blocks import to_dense
from polhode.results.contact_laws import contact_pairs
from polhode.results.derived_quantities import with_fixed_slots

if TYPE_CHECKING:
    from polhode.contact.distances import ContactPoints
    from polhode.results.protocols import Run

_MOST_FRAMES = 4
"""Frames that are looked at, those with the fastest slips: each takes half a second for a robot."""

_LARGEST = 400
"""Unknowns above which nothing is looked at."""

_SLIDES = 1e-6
"""Slip, relative to the largest velocity of the run, from which a contact slides."""


@eager_numpy()
def find_locks(
    run: Run,
    frames: np.ndarray,
    presses: np.ndarray,
    slips: np.ndarray,
    points: Callable[[int, np.ndarray], ContactPoints],
) -> str:
    """A remark on contacts that slid in Painlevé's region and stuck a frame later; empty without any.

    - `frames`: of the run. - `presses`: which points press in them, and `slips`: their sliding speeds, shapes (n, p).
    - `points`: those of some numbers in one of the frames.
    """
    reader = run.reader
    mechanism = None if reader is None or reader.obstacle is not None else reader.mechanism()
    if mechanism is None or mechanism[0].n > _LARGEST:
        return ""
    system, convert = with_fixed_slots(mechanism[0], run.multipliers), mechanism[1]
    contacts = system.shape_contacts
    assert isinstance(contacts, ShapeContacts)
    # What stops in the first step has slips of round-off alone.
    largest = max(np.max(np.abs(np.asarray(x)), initial=0.0) for x in (slips, *jax.tree.leaves(run.state[1])))
    least = _SLIDES * largest
    # The record of the start is that of a trial step, at whose end a lock has stopped the slip.
    slides = (slips[:-1] > least) | (np.arange(len(slips) - 1) == 0)[:, None]
    stops = presses[:-1] & slides & presses[1:] & (slips[1:] <= least)
    names = [pair["rule"] or "/".join(pair["bodies"]) for pair in contact_pairs(run) for _ in range(pair["points"][1])]
    lost = np.max(np.where(stops, slips[:-1], -1.0), axis=1, initial=-1.0)
    lost[:1] = np.where(stops[:1].any(axis=1), np.inf, -1.0)
    fastest = np.argsort(-lost, kind="stable")[:_MOST_FRAMES]
    for k in np.sort(fastest[lost[fastest] >= 0]):
        q, v = convert(jax.tree.map(lambda x, k=k: jnp.asarray(np.asarray(x)[frames[k]]), run.state))
        t = jnp.asarray(float(run.t[frames[k]]))
        stopped = np.flatnonzero(stops[k])
        number = jnp.asarray(stopped)
        at = contacts.of_points(number, points(int(k), stopped), system, q)
        now = np.asarray(at.rows) @ np.asarray(v) + np.asarray(at.drift)
        rows, friction = np.asarray(at.rows)[:, :3], contacts.law.of(number).at_slips(jnp.asarray(now)).friction
        friction, slid = np.asarray(friction), now[:, 1:3]
        scaled = friction * slid
        sizes = np.where(np.linalg.norm(slid, axis=1) > least, np.linalg.norm(scaled, axis=1), 0.0)
        inverse = np.linalg.pinv(np.asarray(to_dense(system.mass(t, q), (system.n, system.n))))
        if system.m:
            B = np.asarray(to_dense(system.jacobian(t, q), (system.m, system.n)))
            inverse = inverse - inverse @ B.T @ np.linalg.pinv(B @ inverse @ B.T) @ B @ inverse
        own = np.einsum("kn,nm,kim->ki", rows[:, 0], inverse, rows)
        drag = -friction * scaled / np.where(sizes > 0, sizes, 1.0)[:, None]
        locks = (sizes > 0) & (own[:, 0] + np.sum(drag * own[:, 1:], axis=1) <= 0)
        if locks.any():
            name = names[stopped[np.argmax(locks)]]
            return (
                f"friction of {name} locked it at t = {float(t):.6g}: it pressed more than the normal force opens "
                "(Painlevé's region), where forces have no solution, or several, and an impulse stops the slip"
            )
    return ""
