"""Several devices: the same motion, breakage and neighbours as on one, with the work divided among them."""

import dataclasses
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from polhode import particles as pt
from polhode.particles import sharding
from polhode.particles.halo import halo


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Results of `sharded_runs.py` and the programs that its drivers were compiled to: on one device, on four, …"""
    folder = tmp_path_factory.mktemp("sharded")
    flags = (
        "--xla_force_host_platform_device_count=4",
        f"--xla_dump_to={folder / 'programs'} --xla_dump_hlo_as_text --xla_dump_hlo_module_re=.*_run_block.*",
    )
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": " ".join((os.environ.get("XLA_FLAGS", ""), *flags))}
    # Programs that are found in a cache are not compiled, and not written down.
    env.pop("JAX_COMPILATION_CACHE_DIR", None)
    script = Path(__file__).with_name("sharded_runs.py")
    done = subprocess.run(
        [sys.executable, script, folder], env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads((folder / "results.json").read_text())
    programs = sorted((folder / "programs").glob("*after_optimizations.txt"))
    assert len(programs) == 4, "each run is compiled once"
    names = ("collision", "collision on four", "ring", "ring on four")
    found["programs"] = dict(zip(names, (p.read_text() for p in programs), strict=True))
    return found


def _collectives(program):
    """Kind and shape of what devices exchange, without numbers that are known to all."""
    found = re.findall(r"= (\w+\[[\d,]+\])\S* (all-\w+|collective-permute|reduce-scatter)(?:-start)?\(", program)
    return {(kind, shape) for shape, kind in found}


@pytest.mark.exhaustive
def test_the_same_collision_with_bonds_that_break_across_domains(runs):
    found = runs["collision"]
    assert found["broken"] > 10
    assert found["broken_across"] > 2
    assert found["close_across"] > 2
    assert found["contact_energy"] > 1
    assert max(found["differences"]) < 1e-12
    assert max(found["outputs"]) < 1e-12
    assert max(found["energies"]) < 1e-12
    assert max(found["invariants"]) < 1e-12
    assert found["same_whole"]
    assert found["same_lists"]
    assert found["known"]


@pytest.mark.exhaustive
def test_domains_are_compact(runs):
    """Boxes around the four domains fill the space about once, though particles are numbered at random."""
    assert runs["collision"]["compact"] < 0.45


@pytest.mark.exhaustive
def test_runs_in_single_precision_and_into_stores(runs):
    found = runs["ring"]
    assert found["dtype"] == "float32"
    assert found["moved"] > 0.1
    assert max(found["differences"]) < 1e-5
    assert found["stored"]
    assert found["same_start"]


@pytest.mark.exhaustive
def test_states_stay_on_their_devices(runs):
    assert all(runs["collision"]["spread"])
    assert runs["collision"]["lists_spread"]
    assert all(runs["ring"]["spread"])


@pytest.mark.exhaustive
def test_no_device_computes_more_than_its_share(runs):
    """No real array of the compiled driver has all particles; the program for one device shows what that looks like."""
    n = runs["ring"]["n"]
    whole, share = rf"f32\[(\d+,)*{n}(,\d+)*\]", rf"f32\[(\d+,)*{n // 4}(,\d+)*\]"
    one, four = runs["programs"]["ring"], runs["programs"]["ring on four"]
    assert len(re.findall(whole, one)) > 100
    assert not re.search(whole, four)
    assert len(re.findall(share, four)) > 100


@pytest.mark.exhaustive
def test_devices_exchange_ends_of_bonds_and_places(runs):
    """In the ring one particle each way; in the collision besides that the places of all, for contacts and lists."""
    kinds = {"all-gather", "collective-permute"}
    ring = _collectives(runs["programs"]["ring on four"])
    assert ring == {("collective-permute", "f32[7,1]"), ("collective-permute", "f32[9,1]")}
    found = _collectives(runs["programs"]["collision on four"])
    assert {kind for kind, _ in found} == kinds
    n = runs["collision"]["n"]
    assert {shape for kind, shape in found if kind == "all-gather"} == {f"f64[3,{n}]"}
    sent = [shape for kind, shape in found if kind == "collective-permute"]
    assert all(re.fullmatch(r"f64\[[17],\d+\]", shape) for shape in sent)
    assert not _collectives(runs["programs"]["collision"])


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("uneven", r"52 particles can't be spread evenly over 3 devices.*\[:2\]`, or add 2 more"),
        ("none", "at least one of `jax.devices"),
        ("number", "at least one of `jax.devices"),
        ("twice", "a device more than once"),
        ("again", "isn't sharded yet, got ShardedParticles"),
        ("system", "must be a `Particles`"),
        ("state", r"must have shape \(52, 3\)"),
        ("traced", "outside jit, grad and vmap"),
    ],
)
def test_refusals(runs, name, message):
    assert re.search(message, runs["refusals"][name])


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_what_devices_read_is_what_they_are_sent(count):
    """Sending as in `Halo.read`, with numbers for items, of which every device reads some at random."""
    rng = np.random.default_rng(count)
    size = 7
    tables = [rng.integers(0, count * size, (k, count * width)) for k, width in ((3, size), (2, 4))]
    tables[0][:, :size] %= size
    plan, found = halo(SimpleNamespace(size=count), size, *tables)
    items = np.arange(count * size).reshape(count, size)
    seen = [list(own) for own in items]
    for send, route in zip(plan.sends, plan.routes, strict=True):
        rows = send.reshape(count, -1)
        received = {there: items[here, rows[here]] for here, there in route}
        for device in range(count):
            seen[device].extend(received.get(device, np.full(rows.shape[1], -1)))
    for table, places in zip(tables, found, strict=True):
        reader = np.arange(table.shape[1]) * count // table.shape[1]
        read = [[seen[reader[c]][places[r, c]] for c in range(table.shape[1])] for r in range(len(table))]
        assert np.array_equal(read, table)
    sent = sum(len(route) * send.size // count for send, route in zip(plan.sends, plan.routes, strict=True))
    assert sent <= count * (count - 1) * size
    assert all(here != there for route in plan.routes for here, there in route)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 6, 8])
def test_domains_and_their_bonds_have_the_same_size(count):
    lay = pt.block((6, 5, 4))
    shuffled = np.random.default_rng(count).permutation(120)
    x, pairs = lay.positions[np.argsort(shuffled)], shuffled[lay.pairs]
    new = sharding._Numbers(x, pairs, count)
    assert np.array_equal(np.sort(new.particles), np.arange(120))
    assert np.array_equal(new.particles[new.place], np.arange(120))
    assert np.array_equal(new.bonds[new.of_slots], np.arange(len(pairs)))
    assert np.array_equal(new.particles[new.pairs[new.of_slots]], pairs)
    rows = new.pairs.reshape(count, new.block, 2)
    assert np.all(rows[:, :, 0] // (120 // count) == np.arange(count)[:, None])
    # The last of every block is a filling, and no filling has a length.
    assert np.all(new.bonds.reshape(count, -1)[:, -1] == len(pairs))
    assert np.all(np.diff(new.pairs[new.bonds == len(pairs)], axis=1) == 0)
    cut = np.sum(np.ptp(new.pairs // (120 // count), axis=1) > 0)
    assert cut <= {1: 0, 2: 20, 3: 40, 5: 90, 6: 84, 8: 88}[count]
    assert sharding._Numbers(x, np.zeros((0, 2), int), count).pairs.shape == (0, 2)


def test_all_parts_of_a_system_are_known():
    """A part that is added to `Particles` and not spread would be read by the wrong numbers."""
    known = {*sharding._OF_PARTICLES, *sharding._OF_SLOTS, *sharding._OF_BONDS, *sharding._EVERYWHERE}
    arrays = {f.name for f in dataclasses.fields(pt.Particles) if not f.metadata.get("static")}
    assert arrays == known
