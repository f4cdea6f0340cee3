"""Ensembles: every member is the run that it would be alone, whatever becomes of the others."""

import concurrent.futures
from typing import Any

import jax
import numpy as np
import pytest

import polhode as ph
from polhode.compiler.loops.simd_step_loop import SimdStepLoop
from polhode.simulation.ensembles.compiled_members import MemberRequest, Program
from polhode.simulation.ensembles.executors import CompiledExecutor, SerialExecutor
from polhode.simulation.ensembles.members import Members
from polhode.simulation.loops import native, transitions
from polhode.simulation.save_schedule import SaveSchedule
from polhode.simulation.step_request import StepRequest

MASSES = np.linspace(13.0, 17.0, 11)


@pytest.fixture(scope="module")
def top():
    return ph.problems.get("heavy-top", formulation="S3")


def same_as_alone(ensemble, member, alone):
    single = alone.to_xarray()
    for name in set(single.data_vars) & set(ensemble.dataset.data_vars):
        np.testing.assert_array_equal(ensemble.dataset[name][member].values, single[name].values, err_msg=name)


def test_members_are_single_runs_to_the_last_bit(top):
    options = {"h": 1e-3, "t1": 0.03, "save_every": 10}
    result = ph.ensemble(top, "rkmk4", parameters={"mass": MASSES}, **options)
    assert result.stats["by"] == "lanes"
    assert result.stats["starts"] == "machine code"
    assert result.dataset.sizes["member"] == 11
    assert result.dataset.sizes["time"] == 4
    for k in (0, 4, 10):
        same_as_alone(result, k, ph.simulate(top.replace(mass=MASSES[k]), "rkmk4", **options))


@pytest.mark.exhaustive
def test_lanes_that_need_other_steps_are_single_runs_too(top):
    options = {"rtol": 1e-6, "t1": 0.05, "save_at": [0.02, 0.05]}
    speeds = np.array([[0.0, 150.0, -4.6], [0.0, 20.0, -1.0], [3.0, 400.0, 9.0]])
    result = ph.ensemble(top, "rkmk54", samples={"angular_velocity": speeds}, **options)
    assert len(set(result.dataset["steps"].values.tolist())) == 3
    for k in range(3):
        same_as_alone(result, k, ph.simulate(top.replace(angular_velocity=speeds[k]), "rkmk54", **options))


def test_members_that_fail_end_alone(top):
    speeds = np.array([[0.0, 150.0, -4.6], [0.0, 1e200, 1e200], [0.0, 20.0, -1.0]])
    options = {"h": 1e-3, "t1": 0.02, "save_every": 5}
    result = ph.ensemble(top, "rkmk4", samples={"angular_velocity": speeds}, **options)
    assert [failed["member"] for failed in result.failed] == [1]
    assert result.failed[0]["result"] == ph.Result.nonfinite_state
    for text in (repr(result), result._repr_html_()):
        assert "3, 1 failed; `failed` names them" in text
        assert "angular_velocity" in text
        assert "Dimensions" not in text
    assert result.failed[0]["parameters"]["angular_velocity"] == speeds[1].tolist()
    assert np.isnan(result.dataset["state.1"][1, -1]).all()
    for k in (0, 2):
        same_as_alone(result, k, ph.simulate(top.replace(angular_velocity=speeds[k]), "rkmk4", **options))


def test_statistics_are_those_of_all_frames(top):
    options = {"samples": {"mass": 15 + np.random.default_rng(3).normal(size=300)}, "h": 1e-3, "t1": 0.02}
    kept = ph.ensemble(top, "rkmk4", **options).dataset["outputs.centre_of_mass"]
    report = ph.ensemble(top, "rkmk4", keep=False, quantiles=(0.1, 0.5), bins=64, workers=2, **options).dataset
    assert "outputs.centre_of_mass" not in report
    of = {word: report[f"outputs.centre_of_mass.{word}"].values for word in ("mean", "variance", "min", "max")}
    np.testing.assert_allclose(of["mean"], kept.mean("member"), rtol=0, atol=1e-14)
    np.testing.assert_allclose(of["variance"], kept.var("member", ddof=1), rtol=1e-9, atol=1e-30)
    np.testing.assert_array_equal(of["min"], kept.min("member"))
    np.testing.assert_array_equal(of["max"], kept.max("member"))
    counts, edges = (report[f"outputs.centre_of_mass.{word}"].values for word in ("histogram", "edges"))
    assert (counts.sum(axis=-1) == 300).all()
    for n, q in enumerate((0.1, 0.5)):
        exact = np.quantile(kept.values, q, axis=0, method="inverted_cdf")
        off = np.abs(report["outputs.centre_of_mass.quantiles"].values[n] - exact)
        assert (off <= 1.01 * (edges[..., 1] - edges[..., 0]) + 1e-15).all()


def test_starts_and_seeds_make_members(top):
    states = jax.tree.map(lambda x: np.stack([x, x]), top.state0)
    assert ph.ensemble(top, states=states, h=1e-3, t1=0.002).dataset.sizes["member"] == 2

    def draw(random):
        return {"mass": 15 + random.random(), "length": 1 + random.random()}

    result = ph.ensemble(top, samples=draw, seeds=[5, 9], h=1e-3, t1=0.002).dataset
    assert result["seed"].values.tolist() == [5, 9]
    assert result["mass"][1] == 15 + np.random.default_rng(9).random()


def request(top, t1=0.01, every=5):
    return MemberRequest(top, "rkmk4", None, t1, StepRequest(h=1e-3), SaveSchedule(every, None))


def by_steps_of_single_runs(top, members, wanted):
    program = Program(wanted, members)
    member = program.first
    progress, pattern = transitions.begin(*member.steps, member.state0, False), program.steps.pattern
    loop, _ = native.steps(*member.steps, progress, pattern=lambda _: pattern)
    assert loop is not None
    program.steps, program.why_no_lanes = loop, "a test"
    return CompiledExecutor(program, wanted)


def test_what_lanes_cannot_take_is_run_alone(top):
    # The second one fails.
    speeds = np.array([[0.0, 150.0, -4.6], [0.0, 1e200, 1e200], [0.0, 20.0, -1.0]])
    members, wanted = Members.of(top, None, {"angular_velocity": speeds}, None, None), request(top)
    program = Program(wanted, members)
    assert isinstance(program.steps, SimdStepLoop)
    lanes = CompiledExecutor(program, wanted).batch(slice(0, 3), bool)
    assert lanes.result.tolist() == [0, ph.Result.nonfinite_state, 0]
    for ways in (SerialExecutor(wanted, members, "a test", 3), by_steps_of_single_runs(top, members, wanted)):
        alone = ways.batch(slice(0, 3), bool)
        assert alone.frames.keys() == lanes.frames.keys()
        for name, x in alone.frames.items():
            np.testing.assert_array_equal(lanes.frames[name][::2], x[::2], err_msg=name)
        np.testing.assert_array_equal(alone.steps, lanes.steps)
        np.testing.assert_array_equal(alone.result, lanes.result)


def test_members_that_lack_an_invariant_have_no_numbers_there(top):
    axes = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    data = ph.ensemble(top, parameters={"axis": axes}, h=1e-3, t1=0.002, save_every=1).dataset
    assert np.isnan(data["invariants.spin_momentum"]).any("time").values.tolist() == [False, True, False]
    assert not np.isnan(data["invariants.energy"]).any()


def test_steps_of_single_runs_stop_between_blocks(top):
    members, asked = Members.of(top, {"mass": MASSES[:3]}, None, None, None), []
    ways = by_steps_of_single_runs(top, members, request(top, 1e6, 1000_000_000))

    def interrupted():
        asked.append(1)
        return len(asked) > 3

    result = ways.batch(slice(0, 3), interrupted)
    assert (result.result == int(ph.Result.interrupted)).all()
    assert 0 < result.steps[0] < 1e9
    assert result.steps[1:].tolist() == [0, 0]


def test_single_runs_stop_where_they_are_when_all_are_to_stop(top):
    members = Members.of(top, {"mass": MASSES[:3]}, None, None, None)
    ways = SerialExecutor(request(top, 100.0, 100), members, "a test", 1001)
    asked = []

    def interrupted():
        asked.append(1)
        return len(asked) > 3

    # In another thread, as in an ensemble, where no signal is heard.
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        result = pool.submit(ways.batch, slice(0, 3), interrupted).result(60)
    assert (result.result == int(ph.Result.interrupted)).all()
    assert 0 < result.steps[0] < 100_000
    assert result.steps[1:].tolist() == [0, 0]
    assert ways.like(lambda: True).frames.keys() == result.frames.keys()


@pytest.mark.parametrize("options", [{"h": 1e-3, "save_every": 5}, {"rtol": 1e-6, "save_at": [0.01, 0.02]}])
@pytest.mark.exhaustive
def test_on_devices_members_are_single_runs_up_to_rounding(top, options, tmp_path):
    method = "rkmk4" if "h" in options else "rkmk54"
    speeds = np.array([[0.0, 150.0, -4.6], [0.0, 1e200, 1e200], [0.0, 20.0, -1.0]])
    asked = {"samples": {"angular_velocity": speeds}, "t1": 0.02, **options}
    result = ph.ensemble(top, method, by="devices", out=tmp_path / "e.zarr", **asked)
    lanes = ph.ensemble(top, method, by="lanes", **asked)
    assert (result.stats["by"], lanes.stats["by"]) == ("devices", "lanes")
    for name in ("result", "steps", "t_reached"):
        np.testing.assert_array_equal(result.dataset[name], lanes.dataset[name])
    for name, expected in lanes.dataset.data_vars.items():
        size = np.nanmax(np.abs(expected[[0, 2]].values), initial=1.0)
        np.testing.assert_allclose(result.dataset[name], expected, rtol=0, atol=1e-12 * size, err_msg=name)
    assert np.isnan(result.dataset["state.1"][1, -1]).all()


@pytest.mark.exhaustive
def test_starts_are_members_on_devices_too(top):
    states = jax.tree.map(lambda x: np.stack([x, x, x]), top.state0)
    result = ph.ensemble(top, "rkmk4", by="devices", states=states, h=1e-3, t1=0.002).dataset
    alone = ph.simulate(top, "rkmk4", h=1e-3, t1=0.002, save_every=None)
    np.testing.assert_allclose(result["state.1"][2, -1], alone.state[1][-1], rtol=1e-13)


def test_what_devices_cannot_take_is_refused(top):
    with pytest.raises(ValueError, match=r"Member 1: .*mass"):
        ph.ensemble(top, "rkmk4", by="devices", parameters={"mass": [1.0, -2.0]}, h=1e-3, t1=0.01)
    wrong: dict[str, Any] = {"by": "gpu"}
    with pytest.raises(ValueError, match="`by` must be one of `lanes`, `devices`"):
        ph.ensemble(top, "rkmk4", parameters={"mass": [1.0]}, h=1e-3, t1=0.01, **wrong)


@pytest.mark.exhaustive
def test_members_whose_outputs_are_functions_begin_by_machine_code():
    crank = ph.problems.get("slider-crank")
    duration = crank.parameters["duration"] * np.linspace(0.9, 1.1, 5)
    result = ph.ensemble(crank, "generalized-alpha", parameters={"duration": duration}, h=1e-4, t1=0.002)
    assert result.stats["starts"] == "machine code"
    assert result.failed == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs `parameters`"),
        ({"parameters": {"mas": [1.0]}}, "no parameter `mas`"),
        ({"samples": {"mass": [1.0, 2.0], "length": [1.0]}}, "differ in number"),
        ({"parameters": {"mass": [1.0, -2.0]}}, "Member 1: .*mass"),
        ({"parameters": {"mass": [1.0]}, "keep": False}, "nothing would be left"),
        ({"parameters": {"mass": [1.0]}, "resume": True}, "`out`"),
        ({"parameters": {"inertia": [1.0, 2.0]}}, "shape"),
        ({"parameters": {}}, "at least one name"),
        ({"states": 1.0}, "stacked along a first axis"),
        ({"samples": lambda random: None, "seeds": 2}, "must return names of parameters with their values"),
        ({"samples": lambda random: {"mass": [1.0] * random.integers(9)}, "seeds": 9}, "same names and shapes"),
        ({"parameters": {"mass": [1.0]}, "workers": 0}, "`workers` must be an integer of at least 1"),
        ({"parameters": {"mass": [1.0]}, "workers": False}, "`workers` must be an integer of at least 1"),
        ({"parameters": {"mass": [1.0]}, "progress": 3}, "`progress` must be a function"),
    ],
)
def test_bad_input_is_refused(top, options, message):
    with pytest.raises(ValueError, match=message):
        ph.ensemble(top, "rkmk4", h=1e-3, t1=0.01, **options)
