"""Stores with random damage: refused by name, or read as they were; what is salvaged is an exact prefix."""

from __future__ import annotations

import json
import shutil

import jax
import numpy as np

import polhode as ph
from polhode.runs import RunStore, documents
from polhode.runs.store import Checkpoint

REMEMBERED = Checkpoint({"progress-0": np.arange(3.0), "stand": np.array([0, 7])}, {"signatures": {"system": "x"}})


def written(path, spinning):
    """A store of several chunks and a checkpoint."""
    store = RunStore.create(path, {"problem": "made-by-hand", "promises": {}}, expected=400)
    store._expected = 100
    for part in (slice(0, 150), slice(150, None)):
        store.append(jax.tree.map(lambda x, part=part: x[part], spinning), checkpoint=lambda: REMEMBERED)
    store.close({"result": ph.Result.successful, "steps": 400, "t_reached": 2.0})


def damage(path, random) -> str:
    """One change to some file of a store; what it was, in words."""
    files = sorted(p for p in path.rglob("*") if p.is_file())
    file = files[int(random.integers(len(files)))]
    data = bytearray(file.read_bytes())
    name, kind = file.relative_to(path), int(random.integers(9))
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
            other = others[int(random.integers(len(others)))]
            shutil.copyfile(other, file)
            return f"{name} overwritten by {other.relative_to(path)}"
        case 6:
            file.write_bytes(random.bytes(len(data)))
            return f"{name} filled with noise"
        case 7:
            shutil.rmtree(file.parent)
            return f"folder of {name} deleted"
        case _:
            file.write_bytes(bytes(data) + b"more")
            return f"{name} longer"


def hostile(path, random) -> str:
    """Metadata that make no sense, with a digest that fits them."""
    content = json.loads((path / "zarr.json").read_text())
    attributes, arrays = content["attributes"], content["consolidated_metadata"]["metadata"]
    attributes.pop("digest")
    values = [None, -1, 0, 10**18, "x", [], {}, 1.5, True, [[]] * 3, "NaN", 2**63]
    value = values[int(random.integers(len(values)))]
    name = list(arrays)[int(random.integers(len(arrays)))]
    match int(random.integers(5)):
        case 0:
            key = list(attributes)[int(random.integers(len(attributes)))]
            attributes[key] = value
            said = f"attribute {key} = {value}"
        case 1:
            key = list(arrays[name])[int(random.integers(len(arrays[name])))]
            arrays[name][key] = value
            said = f"{key} of {name} = {value}"
        case 2:
            arrays[name]["shape"][int(random.integers(len(arrays[name]["shape"])))] = value
            said = f"shape of {name} with {value}"
        case 3:
            arrays.pop(name)
            said = f"without {name}"
        case _:
            attributes["structure"] = json.dumps({"tuple": [value] * 6})
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
    remembered = found.remembered()
    known = all(np.array_equal(remembered[name], value) for name, value in REMEMBERED.arrays.items())
    return exact and known and remembered["facts"] == REMEMBERED.facts


def test_no_damage_is_silent(tries, tmp_path, spin_frames):
    whole = spin_frames(400)
    written(tmp_path / "whole.zarr", whole)
    plain = ph.load(tmp_path / "whole.zarr").frames
    count, random = tries(650, 5)
    silent, raw, refused = [], [], 0
    for _ in range(count):
        path = tmp_path / "run.zarr"
        shutil.copytree(tmp_path / "whole.zarr", path)
        said = hostile(path, random) if random.random() < 0.25 else damage(path, random)
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
