"""Stores with random damage: refused by name, or read as they were; what is salvaged is an exact prefix."""

from __future__ import annotations

import json
import os
import shutil
import socket

import ensembles_by_hand as by_hand
import jax
import numpy as np
import pytest

import polhode as ph
from polhode.solution.live_run import StoredRun
from polhode.storage import RunStore, documents
from polhode.storage.checkpoint import Checkpoint
from polhode.viewing.page.payload import payload

REMEMBERED = Checkpoint({"progress-0": np.arange(3.0), "stand": np.array([0, 7])}, {"signatures": {"system": "x"}})


def written(path, spinning):
    """A store of several chunks and a checkpoint."""
    store = RunStore.create(path, {"problem": "made-by-hand", "promises": {}}, expected=400)
    store._expected = 100
    for part in (slice(0, 150), slice(150, None)):
        store.append(jax.tree.map(lambda x, part=part: x[part], spinning), checkpoint=lambda: REMEMBERED)
    store.close({"result": ph.Result.successful, "steps": 400, "t_reached": 2.0})


def damage(path, other, random) -> str:
    """One change to some file of a store; what it was, in words. `other` is a store of the same kind."""
    files = sorted(p for p in path.rglob("*") if p.is_file())
    file = files[int(random.integers(len(files)))]
    data = bytearray(file.read_bytes())
    name, kind = file.relative_to(path), int(random.integers(12))
    match kind:
        case 0 | 1 | 2 if data:
            at, bit = int(random.integers(len(data))), int(random.integers(8))
            data[at] ^= 1 << bit
            file.write_bytes(data)
            return f"bit {bit} of byte {at} of {name}"
        case 3:
            cut = int(random.integers(len(data) + 1))
            file.write_bytes(data[:cut])
            return f"{name} cut at {cut}"
        case 4:
            file.unlink()
            return f"{name} deleted"
        case 5:
            others = [p for p in files if p != file]
            source = others[int(random.integers(len(others)))]
            shutil.copyfile(source, file)
            return f"{name} overwritten by {source.relative_to(path)}"
        case 6:
            file.write_bytes(random.bytes(len(data)))
            return f"{name} filled with noise"
        case 7:
            shutil.rmtree(file.parent)
            return f"folder of {name} deleted"
        case 8 if (other / name).is_file():
            shutil.copyfile(other / name, file)
            return f"{name} of another store"
        case 9 | 10:
            file.unlink()
            (os.mkfifo if kind == 9 else socket_at)(file)
            return f"{name} is a {'pipe' if kind == 9 else 'socket'}"
        case _:
            file.write_bytes(bytes(data) + b"more")
            return f"{name} longer"


def socket_at(path) -> None:
    """A socket, whose name may not be as long as a path."""
    here = os.getcwd()
    try:
        os.chdir(path.parent)
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def hostile(path, random) -> str:
    """Metadata that make no sense, or other sense, with a digest that fits them."""
    content = json.loads((path / "zarr.json").read_text())
    attributes, arrays = content["attributes"], content["consolidated_metadata"]["metadata"]
    attributes.pop("digest")
    values = [None, -1, 0, 10**18, "x", [], {}, 1.5, True, [[]] * 3, "NaN", 2**63]
    value = values[int(random.integers(len(values)))]
    name = list(arrays)[int(random.integers(len(arrays)))]
    match int(random.integers(6)):
        case 5:
            arrays[name]["attributes"] = {"scale_factor": 2.0, "add_offset": value}
            said = f"{name} scaled"
        case 0:
            key = list(attributes)[int(random.integers(len(attributes)))]
            attributes[key] = value
            said = f"attribute {key} = {value}"
        case 1:
            key = list(arrays[name])[int(random.integers(len(arrays[name])))]
            arrays[name][key] = value
            said = f"{key} of {name} = {value}"
        case 2:
            shape = arrays[name]["shape"]
            shape[int(random.integers(len(shape)))] = value
            said = f"shape of {name} with {value}"
        case 3:
            arrays.pop(name)
            said = f"without {name}"
        case _:
            attributes["structure" if "structure" in attributes else "members"] = json.dumps({"tuple": [value] * 6})
            said = f"structure of {value}"
    (path / "zarr.json").write_bytes(documents.document(attributes, arrays))
    return said


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def goes_on(path, plain) -> bool:
    """Whether a store that was opened to be gone on with has all of its frames, and what the method remembers."""
    store, found = RunStore.reopen(path)
    store.release()
    exact = store.length == len(plain.t) and same(ph.load(path).frames, plain)
    remembered = found.read_checkpoint()
    known = all(np.array_equal(remembered[name], value) for name, value in REMEMBERED.arrays.items())
    return exact and known and remembered["facts"] == REMEMBERED.facts


def test_no_damage_of_a_run_is_silent(tries, tmp_path, spin_frames):
    whole = spin_frames(400)
    written(tmp_path / "whole.zarr", whole)
    written(tmp_path / "other.zarr", jax.tree.map(lambda x: x + 0.5, whole))
    plain = ph.load(tmp_path / "whole.zarr").frames
    count, random = tries(500, 5)
    silent, raw, refused = [], [], 0
    for _ in range(count):
        path = tmp_path / "run.zarr"
        shutil.copytree(tmp_path / "whole.zarr", path)
        said = hostile(path, random) if random.random() < 0.25 else damage(path, tmp_path / "other.zarr", random)
        for salvage in (False, True):
            try:
                found = ph.load(path, salvage=salvage)
                n = len(found.t)
                exact = same(found.frames, jax.tree.map(lambda x, n=n: x[:n], plain))
                if not exact or (n < 400 and not (salvage and "damage" in found.stats)):
                    silent.append(f"{said}, salvage={salvage}: {n} frames")
            except ph.StoreError as error:
                refused += 1
                if str(path) not in str(error):
                    raw.append(f"{said}: no name of the store: {error}")
            except Exception as error:
                raw.append(f"{said}, salvage={salvage}: {type(error).__name__}: {error}")
        try:
            if not goes_on(path, plain):
                silent.append(f"{said}: reopened with other frames or another checkpoint")
        except ph.StoreError as error:
            if str(path) not in str(error):
                raw.append(f"{said}: no name of the store: {error}")
        except Exception as error:
            raw.append(f"{said}, reopened: {type(error).__name__}: {error}")
        shutil.rmtree(path, ignore_errors=True)
    assert not silent, "\n".join(silent)
    assert not raw, "\n".join(raw)
    assert refused > count / 2


def differences(found, wanted) -> list[str]:
    """Variables and labels that are there and have other values than they had, of members that count as run."""
    ran = found["result"].values == 0
    odd = [] if set(found["result"].values[~ran]) <= {-1} else ["result"]
    for name, x in found.variables.items():
        good = slice(None) if "member" not in x.dims or name in found.coords else ran
        same = x.dims == wanted[name].dims and np.array_equal(x.values[good], wanted[name].values[good])
        rest = x.values[~ran] if good is ran and x.dtype.kind == "f" else np.full(1, np.nan)
        odd += [] if same and np.isnan(rest).all() else [str(name)]
    return odd


@pytest.mark.parametrize("batches", [3, 2], ids=["finished", "cut off"])
@pytest.mark.exhaustive
def test_no_damage_of_an_ensemble_is_silent(tries, tmp_path, batches):
    by_hand.write(tmp_path / "whole.zarr")
    by_hand.write(tmp_path / "other.zarr", shift=0.5, most=batches)
    by_hand.write(tmp_path / "begun.zarr", most=batches)
    wanted, begun = (ph.load_ensemble(tmp_path / f"{name}.zarr").load() for name in ("whole", "begun"))
    count, random = tries(250, batches)
    silent, raw, lost, refused = [], [], [], 0
    for _ in range(count):
        path = tmp_path / "sweep.zarr"
        shutil.copytree(tmp_path / "begun.zarr", path)
        forged = random.random() < 0.25
        said = hostile(path, random) if forged else damage(path, tmp_path / "other.zarr", random)
        for salvage in (False, True):
            try:
                found = ph.load_ensemble(path, salvage=salvage)
                silent += [f"{said}, salvage={salvage}: {name}" for name in differences(found, wanted)]
                told = "damage" in found.attrs
                # A batch without its receipt has not been run, as long as the sweep has not ended.
                missing = set(found.variables) != set(begun.variables) or (found["result"] != begun["result"]).any()
                if missing and not told and not ((batches < 3 and "batch" in said) or "deleted" in said):
                    silent.append(f"{said}, salvage={salvage}: something is missing")
            except ph.StoreError as error:
                refused += 1
                raw += [] if str(path) in str(error) else [f"{said}: no name of the store: {error}"]
            except Exception as error:
                raw.append(f"{said}, salvage={salvage}: {type(error).__name__}: {error}")
        try:
            by_hand.write(path, resume=True)
            lost += [f"{said}: {name}" for name in differences(ph.load_ensemble(path), wanted)]
            lost += [] if (ph.load_ensemble(path)["result"] == 0).all() else [f"{said}: members are missing"]
        except ph.StoreError as error:
            lost += [] if forged else [f"{said}: can't be gone on with: {error}"]
        except Exception as error:
            raw.append(f"{said}, gone on with: {type(error).__name__}: {error}")
        shutil.rmtree(path, ignore_errors=True)
    assert not silent, "\n".join(silent)
    assert not raw, "\n".join(raw)
    assert not lost, "\n".join(lost)
    assert refused > count / 2


ODD = (None, -1, 0, 10**18, "x", [], {}, 1.5, True, [[]] * 3, "NaN", 2**63, "Infinity", {"a": 1}, [1, 2], ["x"])


def places(value, at=()):
    """All entries of nested lists and dicts, the first ones of long lists."""
    inside = value.items() if isinstance(value, dict) else enumerate(value[:4]) if isinstance(value, list) else ()
    for key, each in inside:
        yield (*at, key)
        yield from places(each, (*at, key))


def retold(path, random) -> str:
    """Another description of a run, with a digest that fits it; what it was, in words."""
    attributes, arrays = documents.contents(path, documents.RUN)
    name = "stats" if random.random() < 0.3 else "meta"
    content = json.loads(attributes[name])
    known = [place for place in places(content) if place[0] != "method"]
    tops = sorted({place[0] for place in known})
    top = tops[int(random.integers(len(tops)))]
    known = [place for place in known if place[0] == top]
    *way, last = known[int(random.integers(len(known)))]
    node, value = content, ODD[int(random.integers(len(ODD)))]
    for key in way:
        node = node[key]
    node[last] = value
    attributes[name] = json.dumps(content)
    (path / "zarr.json").write_bytes(documents.document(attributes, arrays))
    return f"{name} {[*way, last]} = {value}"


def looks(path, folder):
    """Everything that users do with a run in a store."""
    run = ph.load(path)
    str(run.audit())
    run.to_xarray()
    repr(run)
    run._repr_html_()
    str(run.events)
    assert [run.bodies[name].position.shape for name in run.bodies]
    assert [run.joints[name].angle.shape for name in run.joints]
    source = StoredRun(path)
    source.look()
    payload([source.read()])
    for ending in ("csv", "html", "glb"):
        ph.export(run, folder / f"run.{ending}")


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore:The page has charts only")
def test_what_a_store_says_of_its_run_is_held_to_its_types(tries, tmp_path):
    model = ph.Model(gravity=(0, 0, -9.81))
    arm = model.add_body(mass=1.0, inertia=(0.1, 0.1, 0.02), position=(0, 0, -0.5), name="arm")
    model.add(ph.joints.Revolute(model.ground, arm, point=(0, 0, 0), axis=(0, 1, 0), name="hinge"))
    event = ph.Event(lambda t, state: t - 0.0205, name="late")
    ph.simulate(
        model.problem("SE3", t1=0.05),
        "generalized-alpha",
        h=1e-3,
        save_every=10,
        events=event,
        store=tmp_path / "whole.zarr",
    )
    looks(tmp_path / "whole.zarr", tmp_path)
    count, random = tries(250, 6)
    raw = []
    for _ in range(count):
        path = tmp_path / "run.zarr"
        shutil.copytree(tmp_path / "whole.zarr", path)
        said = retold(path, random)
        try:
            looks(path, tmp_path)
        except ph.StoreError as error:
            raw += [] if str(path) in str(error) else [f"{said}: no name of the store: {error}"]
        except Exception as error:
            raw.append(f"{said}: {type(error).__name__}: {error}")
        shutil.rmtree(path)
    assert not raw, "\n".join(raw)
