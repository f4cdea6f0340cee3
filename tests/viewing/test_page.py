from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode.solution.solution import Solution
from polhode.viewing.page.page import page
from polhode.viewing.scene.sampled_motion import sample
from polhode.viewing.scene.scene import Body, Line, Scene, Trail


def pose(t, state):
    return state[0][:, 0] + jnp.array([0.0, 0.0, t]), state[0]


def ends(t, state):
    del t
    return jnp.stack([jnp.zeros(3), state[0][:, 0]])


SCENE = Scene(
    (Body("ring", "cylinder", (1.0, 1.0, 0.2), pose), Line("stem", ends), Trail("tip"), Trail("nodes", index=1)),
    up=(0.0, 0.0, 2.0),
)


def unpack(text):
    """The first run of a page, and its floats by [place in bytes, count]."""
    shown = json.loads(re.search(r'<script type="application/json" id="run">(.*?)</script>', text, re.S)[1])
    data = base64.b64decode(re.search(r'<script type="text/plain" id="data">(.*?)</script>', text, re.S)[1])
    return shown["runs"][0], lambda place: np.frombuffer(data, "<f4", place[1], place[0])


def rotation_matrices(q):
    w, x, y, z = q.T
    return np.stack(
        [
            1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
            2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
            2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
        ],
        axis=1,
    ).reshape(-1, 3, 3)  # fmt: skip


def test_the_page_holds_the_motion(spin_solution):
    run, numbers = unpack(page(spin_solution, SCENE))
    t, rotation = spin_solution.t, spin_solution.state.rotation
    np.testing.assert_allclose(numbers(run["times"]), t, rtol=1e-6)
    (body,) = run["scene"]["bodies"]
    position = numbers(body["position"]).reshape(-1, 3)
    np.testing.assert_allclose(position, rotation[:, :, 0] + np.outer(t, [0, 0, 1]), atol=1e-6)
    quaternions = numbers(body["quaternion"]).reshape(-1, 4)
    np.testing.assert_allclose(rotation_matrices(quaternions), rotation, atol=1e-6)
    assert np.all(np.sum(quaternions[1:] * quaternions[:-1], axis=1) > 0.9)
    (line,) = run["scene"]["lines"]
    np.testing.assert_allclose(numbers(line["points"]).reshape(-1, 2, 3)[:, 1], rotation[:, :, 0], atol=1e-6)
    np.testing.assert_allclose(
        numbers(run["scene"]["trails"][1]["points"]).reshape(-1, 3), 2 * rotation[:, :, 0], atol=1e-6
    )


def test_the_view_contains_everything(spin_solution):
    run, _ = unpack(page(spin_solution, SCENE))
    centre, radius, floor = (np.array(run["scene"][key]) for key in ("centre", "radius", "floor"))
    tips = 2 * spin_solution.state.rotation[:, :, 0]
    assert np.all(np.linalg.norm(tips - centre, axis=1) <= radius + 1e-9)
    assert floor <= 0


def test_the_page_needs_no_network_and_no_escape_is_left_out(spin_solution):
    meta = {**spin_solution.meta, "problem": "</script><b>&"}
    text = page(Solution(spin_solution.frames, spin_solution.stats, meta), SCENE)
    assert not re.search(r"https?://|@import|\bsrc=|\bhref=|\bfetch\(|XMLHttpRequest|import\(", text)
    assert text.count("</script>") == 3
    assert unpack(text)[0]["title"] == "</script><b>&"
    assert "<title>&lt;/script&gt;&lt;b&gt;&amp; · polhode</title>" in text


def test_a_name_cannot_open_a_comment_that_swallows_the_page(spin_solution):
    # Inside a script element `<!--<script>` hides the closing tag that comes next: the page was blank.
    meta = {**spin_solution.meta, "problem": "<!--<script>"}
    text = page(Solution(spin_solution.frames, spin_solution.stats, meta), SCENE)
    scripts = text[text.index('<script type="application/json"') :]
    assert "<!--" not in scripts
    assert scripts.count("<script") == scripts.count("</script>") == 3
    assert unpack(text)[0]["title"] == "<!--<script>"


def test_remarks_on_accuracy_are_shown(spin_frames, spin_solution):
    frames = spin_frames()
    frames = frames._replace(invariants={"energy": 4.5 + 2.0 * frames.t})
    solution = Solution(frames, spin_solution.stats, spin_solution.meta)
    run, _ = unpack(page(solution))
    assert run["audit"]["remarks"] == list(solution.audit().remarks)
    assert "the step is too large" in run["audit"]["remarks"][0]


def test_audit_and_result_are_shown(spin_solution):
    run, _ = unpack(page(spin_solution))
    assert run["scene"] is None
    assert run["badge"] == {"text": "successful", "good": True}
    assert [row[-1] for row in run["audit"]["rows"]] == [row.verdict for row in spin_solution.audit().rows]
    assert [each["text"] for each in run["audit"]["sentences"]] == [
        "Energy drifted by 1e-9 (2e-10 of its size), as promised (to swing without growing).",
        "Momentum did not drift, not promised.",
        "The manifold residual stayed below 1e-16, as promised (to round-off).",
    ]
    named = {**spin_solution.meta, "names": {"units": {"length": "m", "mass": "kg", "time": "s", "force": "N"}}}
    run, _ = unpack(page(Solution(spin_solution.frames, spin_solution.stats, named)))
    assert run["audit"]["sentences"][0]["text"].startswith("Energy drifted by 1e-9 J (2e-10 of its size), as")
    failed = Solution(
        spin_solution.frames, {**spin_solution.stats, "result": ph.Result.nonfinite_state}, spin_solution.meta
    )
    assert unpack(page(failed))[0]["badge"] == {"text": "nonfinite state", "good": False}


def test_long_runs_are_thinned_but_keep_their_extremes(spin_frames, spin_solution):
    frames = spin_frames(100_000)
    energy = frames.invariants["energy"].copy()
    energy[77_777] += 1.0
    frames = frames._replace(invariants={"energy": energy})
    text = page(Solution(frames, spin_solution.stats, spin_solution.meta), SCENE)
    assert len(text) < 1_500_000
    run, numbers = unpack(text)
    drift = next(chart for chart in run["charts"] if chart["title"] == "Drift of invariants")
    assert numbers(drift["curves"][0]["values"]).max() == pytest.approx(1.0)
    times = numbers(drift["t"])
    assert np.all(np.diff(times) >= 0)
    assert (times[0], times[-1]) == (0.0, 2.0)


def test_a_run_that_blew_up_shows_what_was_finite(spin_solution):
    rotation = spin_solution.state.rotation.copy()
    rotation[40:] = np.nan
    frames = spin_solution.frames._replace(state=spin_solution.state._replace(rotation=rotation))
    run, numbers = unpack(page(Solution(frames, spin_solution.stats, spin_solution.meta), SCENE))
    assert len(numbers(run["times"])) == 40
    assert np.all(np.isfinite(numbers(run["scene"]["bodies"][0]["quaternion"])))
    frames = jax.tree.map(lambda x: x[40:], frames)
    with pytest.raises(ValueError, match="no finite frame"):
        page(Solution(frames, spin_solution.stats, spin_solution.meta), SCENE)


def test_runs_backward_in_time_are_shown_forward(spin_frames, spin_solution):
    frames = spin_frames(50, 2.0, 0.0)
    motion = sample(SCENE, Solution(frames, spin_solution.stats, spin_solution.meta))
    assert np.all(np.diff(motion.t) > 0)
    np.testing.assert_allclose(motion.trails[0], frames.outputs["tip"][::-1])


def test_quaternions_of_half_turns(spin_solution):
    # At rotation angle π the diagonal formula for w divides by zero.
    turns = np.stack([np.diag(d) for d in ([1.0, -1, -1], [-1.0, 1, -1], [-1.0, -1, 1], [1.0, 1, 1])])
    frames = spin_solution.frames._replace(
        t=np.arange(4.0), state=(turns, np.zeros((4, 3))), outputs={"tip": turns[:, :, 0], "nodes": turns[:, :, :2]}
    )
    motion = sample(Scene(SCENE.parts[:1]), Solution(frames, {}, {}))
    np.testing.assert_allclose(rotation_matrices(motion.quaternions[0]), turns, atol=1e-15)


@pytest.mark.skipif(shutil.which("node") is None, reason="node parses the scripts")
def test_the_scripts_parse(tmp_path, spin_solution):
    text = page(spin_solution, SCENE)
    (tmp_path / "page.js").write_text(re.findall(r"<script>(.*?)</script>", text, re.S)[-1])
    subprocess.run(["node", "--check", tmp_path / "page.js"], check=True)
