"""Stores of ensembles whose frames nobody has computed, as `polhode.ensemble` writes them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from polhode.simulation.ensembles.batch import Batch
from polhode.simulation.ensembles.labels import Labels
from polhode.simulation.ensembles.store import EnsembleStore
from polhode.simulation.ensembles.store_claim import claim, create_or_open

COUNT, SIZE = 20, 8
"""Members, and those of a batch."""

TIMES = np.linspace(0, 1, 5)
NAMES = {"body": ["a", "β"], "component": ["x", "y", "z"]}
DIMENSIONS = {"outputs.positions": ("time", "body", "component"), "state": ("time",)}


def labels(shift: float = 0.0) -> Labels:
    """Of bodies, instants and a parameter."""
    words = {name: ((name,), np.array(values)) for name, values in NAMES.items()}
    numbers = {"member": (("member",), np.arange(COUNT)), "time": (("time",), TIMES)}
    mass = {"mass": (("member",), np.arange(COUNT) + shift)}
    return Labels(DIMENSIONS, {**numbers, **mass, **words}, {"outputs.positions": {"units": "m"}, "state": {}})


def batch(start: int, stop: int, shift: float = 0.0) -> Batch:
    """Members, every number of which is another one."""
    count, member = stop - start, np.arange(start, stop) + 1.0 + shift
    positions = member[:, None, None, None] + TIMES[None, :, None, None] + np.array([[1, 2, 3], [4, 5, 6]]) * 0.1
    state = member[:, None] * np.exp(-TIMES)
    ends = np.zeros(count, np.int32), np.arange(start, stop), np.full(count, TIMES[-1])
    return Batch({"time": np.tile(TIMES, (count, 1)), "outputs.positions": positions, "state": state}, *ends)


def write(path: Path, shift: float = 0.0, resume: bool = False, overwrite: bool = False, most: int = 3) -> list[int]:
    """A sweep: numbers of the batches that are not there yet and that are run, `most` of them, and how it ends."""
    made = []
    with claim(path, resume, overwrite) as place:
        assert place is not None
        told = {"ensemble": json.dumps(shift), "title": "by hand", "coordinates": "member time mass body component"}
        known = labels(shift)
        like = batch(0, 1)
        store = EnsembleStore.new(place, {**told, "units": known.units}, COUNT, SIZE, like, known)
        store = create_or_open(store, resume, known)
        members = []
        for number, which in enumerate(store.batches):
            there = store.batch(which)
            if there is None and len(made) < most:
                made.append(number)
                there = batch(which.start, which.stop, shift)
                store.put(which, there)
            members.append(there)
        if all(members):
            mean = np.concatenate([x.frames["state"] for x in members]).mean(axis=0)
            store.finish({"state.mean": (("time",), mean)}, "{}")
    return made
