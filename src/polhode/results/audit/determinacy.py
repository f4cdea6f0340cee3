"""Which forces of contacts follow from the motion, and which are those of least norm among many."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from polhode.compiler.numpy.eager import eager_numpy
from polhode.contact.shape_contacts import ShapeContacts, frames_of
from polhode.linalg.blocks import to_dense
from polhode.results.contact_laws import contact_pairs
from polhode.results.derived_quantities import with_fixed_slots

if TYPE_CHECKING:
    from polhode.contact.distances import ContactPoints
    from polhode.multibody.system import MultibodySystem
    from polhode.results.protocols import Run

_SETS = 4
"""Sets of pressed points that are looked at."""

_LARGEST = 400
"""Unknowns and rows above which nothing is looked at: singular values take seconds."""

_INDEPENDENT = 1e-9
"""Singular value, relative to the largest, below which a combination of forces moves nothing."""


@eager_numpy()
def find_indeterminacy(
    run: Run, frames: np.ndarray, presses: np.ndarray, points: Callable[[int, np.ndarray], ContactPoints]
) -> tuple[int | None, str]:
    """The largest number of combinations of contact forces that move nothing, and a remark on pairs whose sum has them.

    None where the system of the run is not at hand, or is large. `presses`: which points press in these `frames`;
    `points`: those of some numbers in one of them.
    """
    reader = run.reader
    mechanism = None if reader is None or reader.obstacle is not None else reader.mechanism()
    if mechanism is None or mechanism[0].n > _LARGEST:
        return None, ""
    system, convert = with_fixed_slots(mechanism[0], run.multipliers), mechanism[1]
    # The largest sets of pressed points are the ones in doubt.
    _, first = np.unique(presses, axis=0, return_index=True)
    numbers = first[np.argsort(-np.sum(presses[first], axis=1), kind="stable")][:_SETS]
    count, names = 0, set()
    for k in numbers:
        if not presses[k].any() or 3 * np.sum(presses[k]) > _LARGEST:
            continue
        state = convert(jax.tree.map(lambda x, k=k: jnp.asarray(np.asarray(x)[frames[k]]), run.state))
        pressed = np.flatnonzero(presses[k])
        more, pairs = _of_state(run, system, float(run.t[frames[k]]), state, pressed, points(int(k), pressed))
        count, names = max(count, more), names | pairs
    remark = (
        f"forces of {', '.join(sorted(names))} are not determined by the motion: those of least norm are given"
        if names
        else ""
    )
    return count, remark


def _of_state(
    run: Run, system: MultibodySystem, t: float, state: Any, pressed: np.ndarray, points: ContactPoints
) -> tuple[int, set[str]]:
    contacts = system.shape_contacts
    assert isinstance(contacts, ShapeContacts)
    q, _ = state
    # A moment about the normal is no unknown of its own where nothing resists it.
    rows = np.asarray(contacts.of_points(jnp.asarray(pressed), points, system, q).rows)[:, :3]
    frictionless = np.all(np.asarray(contacts.law.static_friction)[pressed] == 0, axis=-1)
    is_unknown = np.broadcast_to(np.arange(3) == 0, (len(rows), 3)) | ~frictionless[:, None]
    W = (rows * is_unknown[..., None]).reshape(-1, system.n)
    if system.m:
        B = np.asarray(to_dense(system.jacobian(jnp.asarray(t), q), (system.m, system.n)))
        W = W - W @ np.linalg.pinv(B) @ B
    U, sizes, _ = np.linalg.svd(W, full_matrices=True)
    rank = int(np.sum(sizes > _INDEPENDENT * np.max(sizes, initial=1e-300)))
    null = U[:, rank:].reshape(len(rows), 3, -1) * is_unknown[..., None]
    null = null[..., np.linalg.norm(null, axis=(0, 1)) > 0.5]
    forces = np.einsum("pia,pij->apj", null, np.asarray(frames_of(points)))
    names = np.array(
        [pair["rule"] or "/".join(pair["bodies"]) for pair in contact_pairs(run) for _ in range(pair["points"][1])]
    )[pressed]
    uncertain = {
        str(name) for name in set(names.tolist()) if np.max(np.abs(forces[:, names == name].sum(1)), initial=0.0) > 1e-6
    }
    return int(is_unknown.sum()) - rank, uncertain
