"""Runs of particles in machine code: what NumPy and XLA compute, and the same bytes every time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode import particles as pt
from polhode.compiler.cache import program_cache
from polhode.compiler.llvm import jit
from polhode.compiler.numpy.interpreter import from_jaxpr
from polhode.simulation.loops import native

H, STEPS = 1e-2, 40
AT = jnp.zeros(()), jnp.full((), H)


def pile(**changed):
    """Two blocks that meet above a floor: bonds break, lists are renewed, everything is damped."""
    low, high = pt.block((2, 2, 2), corner=(0, 0, 0.45)), pt.block((2, 2, 2), corner=(0.3, 0.2, 2.5))
    x = np.concatenate((low.positions, high.positions))
    pairs = np.concatenate((low.pairs, high.pairs + len(low.positions)))
    options = {
        "material": pt.BondMaterial(8.0, 100.0, 50.0, 0.3, 0.1, strength=pt.Strength(4.0, 3.0, 5.0)),
        "contact": 200.0,
        "contact_damping": 0.5,
        "walls": (pt.Plane(), pt.Cylinder(6.0)),
        "gravity": (0, 0, -1.0),
        "skin": 0.1,
    }
    system = pt.Particles(1.0, 0.1, np.linspace(0.9, 1.0, len(x)), x, pairs, **{**options, **changed})
    v = np.where(x[:, 2:] > 2, (0.0, 0.4, -3.0), (0.0, 0.0, 0.0))
    return system, system.start(x, v, np.sin(x))


def run(made, method="rodrigues", **options):
    system, state = made
    return ph.simulate(system, method, state0=state, h=H, **{"t1": STEPS * H, "save_every": 10, **options})


def by_numpy(made, method="rodrigues"):
    """The states of all steps, evaluated operation by operation, and how often lists were made."""
    (system, state), method = made, ph.integrators.get(method)
    leaves, structure = jax.tree.flatten(method.init(system, *AT, state))

    def step(*leaves):
        return jax.tree.leaves(method.step(system, *AT, jax.tree.unflatten(structure, leaves))[0])

    program = from_jaxpr(jax.make_jaxpr(step)(*leaves))
    now, states = list(map(np.asarray, leaves)), []
    for _ in range(STEPS):
        now = program(now)
        states.append(jax.tree.unflatten(structure, now))
    made_at = [np.asarray(s.memory.around.lists.at[2]).tobytes() for s in states] if system.touching else []
    return [s.state for s in states], len(set(made_at))


def parts(state):
    return [np.asarray(a) for a in state]


@pytest.fixture(autouse=True)
def made_anew(monkeypatch):
    """Every test begins with nothing compiled."""
    monkeypatch.setattr(program_cache, "_PROGRAMS", program_cache._Programs(program_cache.CAPACITY))


def differences(found, states):
    return max(
        np.abs(a[k] - b).max()
        for k in range(1, len(found.t))
        for a, b in zip(parts(found.state), parts(states[10 * k - 1]), strict=True)
    )


@pytest.mark.exhaustive
def test_everything_at_once_is_what_numpy_computes():
    made = pile()
    found, (states, searches) = run(made), by_numpy(made)
    assert found.stats["compiled"]["by"] != "xla"
    whole = np.asarray(found.state.whole)
    assert 0 < np.sum(whole[-1]) < whole.shape[1]
    assert searches > 2
    assert differences(found, states) < 1e-11
    # What they are compared by tells a force that is wrong by a millionth.
    other, _ = pile(contact=200.0 * (1 + 1e-6))
    assert differences(run((other, made[1])), states) > 1e-8


CASES = {
    "bonds alone": ({"contact": 0.0, "walls": ()}, "rodrigues"),
    "contacts of bonded particles": ({"bonded_contacts": True, "contact": 20.0}, "rodrigues"),
    "bonds that never break": ({"material": pt.BondMaterial(8.0, 100.0, 50.0), "shear": "literal"}, "rodrigues"),
    "rigid-verlet": ({"material": pt.BondMaterial(8.0, 100.0, 50.0), "contact_damping": 0.0}, "rigid-verlet"),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", CASES)
def test_every_part_is_what_numpy_computes(case):
    changed, method = CASES[case]
    made = pile(**changed)
    found = run(made, method)
    assert found.stats["compiled"]["by"] != "xla"
    assert differences(found, by_numpy(made, method)[0]) < 1e-11


@pytest.mark.exhaustive
def test_the_frames_and_outputs_are_those_of_xla(monkeypatch):
    made, saving = pile(), {"save_every": None, "save_at": np.linspace(0, STEPS * H, 17)}
    compiled = run(made, **saving)
    monkeypatch.setattr(native, "_native", lambda *_: (None,))
    other = run(made, **saving)
    assert (compiled.stats["compiled"]["by"], other.stats["compiled"]["by"]) != ("xla", "xla")
    for a, b in zip(parts(compiled.state), parts(other.state), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-11)


@pytest.mark.exhaustive
def test_the_same_bytes_whatever_the_effort_and_wherever_they_go(monkeypatch, tmp_path):
    made = pile()
    once = [a.tobytes() for a in parts(run(made).state)]
    monkeypatch.setattr(program_cache, "_PROGRAMS", program_cache._Programs(program_cache.CAPACITY))
    monkeypatch.setattr(jit, "_SECONDS_EACH", dict.fromkeys(range(3), 0.0))
    again = run(made)
    assert [a.tobytes() for a in parts(again.state)] == once
    first = run(made, t1=STEPS * H / 2, store=tmp_path / "run")
    assert len(first.t) == 1 + STEPS / 20
    resumed = ph.resume(tmp_path / "run", t1=STEPS * H, problem=made[0])
    assert [a.tobytes() for a in parts(resumed.state)] == once


@pytest.mark.exhaustive
def test_lists_that_are_full_end_the_run():
    found = run(pile(capacity=1), throw=False)
    assert found.stats["compiled"]["by"] != "xla"
    assert found.stats["result"] is ph.Result.too_many_neighbours
