"""Runs on four simulated devices and on one, and what came of them, for `test_sharding.py`.

Devices are made when JAX starts, so this is a process of its own: `python sharded_runs.py FOLDER` writes results.json.
"""

import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import polhode as ph
from polhode import particles as pt
from polhode.particles import interactions
from polhode.simulation.loops import host, native

# Compiles in half the time; the sums are the same.
interactions._UNROLL = 1

ENDS = []
"""What the driver had at the end of each run, on its devices."""


def _kept(*args, _run=host.run):
    outcome = _run(*args)
    ENDS.append(outcome.progress.carry)
    return outcome


host.run = _kept
# On one device too, so that programs of XLA are compared with each other.
native._native = lambda *_: (None,)


def _spread(tree):
    """Whether each array is on all devices, and on each only its share along the axis of particles."""
    return [len(a.sharding.device_set) == len(jax.devices()) and not a.sharding.is_fully_replicated for a in tree]


def _differences(one, many):
    """Largest difference relative to the largest value, of each part of the states of all frames."""
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(many), strict=True)
    return [float(np.max(np.abs(a - b)) / max(np.max(np.abs(a)), 1e-300)) for a, b in pairs]


def _lists(carry):
    """Neighbours of each particle."""
    return [set(map(int, column)) - {i} for i, column in enumerate(np.asarray(carry.memory.around.lists.members).T)]


def collision():
    """Two bonded blocks, not sorted by place, hit each other and lose bonds."""
    lay = pt.block((6, 3, 3))
    x = lay.positions + np.where(lay.positions[:, :1] > 2.5, [[0.3, 0.4, 0.1]], 0.0)
    pairs = lay.pairs[np.abs(lay.pairs[:, 0] - lay.pairs[:, 1]) < 9]
    pairs = np.concatenate((pairs, [(i, i + 9) for k in (0, 9, 27, 36) for i in range(k, k + 9)]))
    order = np.random.default_rng(3).permutation(len(x))[: len(x) - len(x) % 4]
    number = np.full(len(x), -1)
    number[order] = np.arange(len(order))
    pairs = number[pairs]
    pairs, x = pairs[np.all(pairs >= 0, axis=1)], x[order]
    material = pt.BondMaterial(2.0, 200.0, 100.0, strength=pt.Strength(tension=6.0, moment=0.8, shear=6.0))
    system = pt.Particles(1.0, 0.1, np.linspace(0.9, 1.0, len(x)), x, pairs, material, contact=200.0)
    towards = np.where(x[:, :1] < 2.6, [[1.5, 0.0, 0.0]], [[-1.5, 0.0, 0.0]])
    start = system.start(x, towards, 0.3 * np.sin(np.arange(3 * len(x)).reshape(-1, 3)))
    many, spread = pt.sharded(system, start)
    run = {"t1": 0.6, "h": 2e-3, "save_every": 100}
    a = ph.simulate(system, "rodrigues", state0=start, **run)
    b = ph.simulate(many, "rodrigues", state0=spread, **run)
    first, last = ENDS[-2:]
    home = np.asarray(many.place) // (len(x) // 4)
    user = np.argsort(np.asarray(many.place))
    here, there = _lists(first), _lists(last)
    extent = [np.prod(np.ptp(x[home == k], axis=0) + 1) for k in range(4)]
    broken = np.asarray(a.outputs["whole"])[-1] == 0
    found = {
        "differences": _differences(a.state, many.original(b.state)),
        "outputs": _differences(
            [a.outputs[k] for k in ("positions", "whole")], [b.outputs[k] for k in ("positions", "whole")]
        ),
        "invariants": _differences(a.invariants, b.invariants),
        "energies": _differences(a.outputs["energies"], b.outputs["energies"]),
        "same_whole": bool(np.all(a.outputs["whole"] == b.outputs["whole"])),
        "broken": int(np.sum(broken)),
        "broken_across": int(np.sum(home[pairs[broken, 0]] != home[pairs[broken, 1]])),
        "contact_energy": float(np.max(a.outputs["energies"]["contact"])),
        "close_across": sum(int(home[i] != home[j]) for i, others in enumerate(here) for j in others),
        "same_lists": [{user[j] for j in there[p]} for p in many.place] == here,
        "compact": float(np.mean(extent) / np.prod(np.ptp(x, axis=0) + 1)),
        "spread": _spread((*last.state, *last.memory.loads.force, *last.memory.around.lists.at)),
        "lists_spread": _spread([last.memory.around.lists.members])[0],
        "known": [many.user_number(k) for k in np.asarray(many.place)] == list(range(len(x))),
        "n": len(x),
    }
    return found, refusals(system, start, many, spread)


def ring(folder):
    """A damped ring in single precision, streamed into a store."""
    lay = pt.torus(88, 10.0)
    material = pt.BondMaterial(1.0, 50.0, 50.0, bending_damping=0.1)
    system = pt.Particles(1.0, 0.1, lay.diameters, lay.positions, lay.pairs, material, dtype="float32")
    start = system.start(lay.positions, np.sin(lay.positions), 0.2)
    many, spread = pt.sharded(system, start)
    run = {"t1": 0.25, "h": 1e-3, "save_every": 50}
    a = ph.simulate(system, "rodrigues", state0=start, **run)
    b = ph.simulate(many, "rodrigues", state0=spread, store=folder / "ring.zarr", **run)
    loaded = ph.load(folder / "ring.zarr")
    again = many.start(lay.positions, np.sin(lay.positions), 0.2)
    return {
        "differences": _differences(a.state, many.original(b.state)),
        "stored": bool(np.all(np.asarray(loaded.outputs["positions"]) == b.outputs["positions"])),
        "moved": float(np.max(np.abs(a.state[0][-1] - lay.positions))),
        "dtype": str(b.state[0].dtype),
        "spread": _spread(ENDS[-1].state),
        "same_start": all(bool(jnp.all(p == q)) for p, q in zip(again, spread, strict=True)),
        "n": 88,
    }


def refusals(system, start, many, spread):
    two = jax.devices()[:2]
    tries = {
        "uneven": lambda: pt.sharded(system, start, jax.devices()[:3]),
        "none": lambda: pt.sharded(system, start, []),
        "number": lambda: pt.sharded(system, start, 2),
        "twice": lambda: pt.sharded(system, start, two[:1] * 2),
        "again": lambda: pt.sharded(many, spread, two),
        "system": lambda: pt.sharded(ph.problems.get("heavy-top").system, start, two),
        "state": lambda: pt.sharded(system, start._replace(x=start.x[:3]), two),
        "traced": lambda: jax.jit(lambda v: pt.sharded(system, start._replace(v=v), two)[1])(start.v),
    }
    said = {}
    for name, attempt in tries.items():
        try:
            attempt()
            said[name] = ""
        except ValueError as error:
            said[name] = str(error)
    return said


if __name__ == "__main__":
    out = Path(sys.argv[1])
    results, refused = collision()
    (out / "results.json").write_text(json.dumps({"collision": results, "ring": ring(out), "refusals": refused}))
