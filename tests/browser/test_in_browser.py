"""Pages as a browser shows them: what they draw is what was computed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import polhode as ph
from polhode.frames import Frames
from polhode.problems.rebuild import rebuild
from polhode.solution import show
from polhode.solution.live_run import StoredRun
from polhode.solution.solution import Solution
from polhode.viewing.page import page
from polhode.viewing.scene.scene import Cloud, Scene

ASSETS = Path(os.environ.get("POLHODE_SCREENSHOTS", "/nonexistent"))
POSITIONS = (0.0, 0.21, 0.5, 0.77, 1.0)


def arm(h: float, t1: float = 2.0) -> Solution:
    """A double pendulum with names."""
    model = ph.Model(gravity=(0, 0, -9.81))
    upper = model.add_body(mass=2, inertia=(0.01, 0.2, 0.2), position=(0.5, 0, 0), name="upper arm")
    lower = model.add_body(mass=1, inertia=(0.005, 0.1, 0.1), position=(1.5, 0, 0), name="forearm")
    model.add(ph.joints.Revolute(model.ground, upper, point=(0, 0, 0), axis=(0, 1, 0), name="shoulder"))
    model.add(ph.joints.Revolute(upper, lower, point=(1, 0, 0), axis=(0, 1, 0), name="elbow"))
    model.add(ph.forces.SpringDamper(model.ground, lower, (2, 0, 1), (2, 0, 0), 5.0, length=0.5, name="spring"))
    return ph.simulate(model.problem("SE3", t1=t1), "generalized-alpha", h=h)


@pytest.fixture(scope="module")
def swing() -> Solution:
    return arm(5e-3)


def written(path: Path, *runs: Solution, labels: tuple[str, ...] = ()) -> str:
    path.write_text(page.document([(run, show.scene_of(run)) for run in runs], labels), encoding="utf-8")
    return path.as_uri()


def screenshot(browser, name: str) -> None:
    if ASSETS.is_dir():
        browser.picture(ASSETS / f"{name}.png")


def test_poses_and_plots_follow_the_slider(browser, swing, tmp_path):
    url = written(tmp_path / "arm.html", swing)
    browser.open(f"{url}#theme=light&t=0&arrows=joint+force&arrows=linear+momentum")
    assert browser.requests == [url] or all(request.split("#")[0] == url for request in browser.requests)
    assert browser.complaints == []
    assert browser.run("document.getElementById('clock').textContent") == "t = 0"
    t = np.asarray(swing.t)
    for part in POSITIONS:
        browser.run(
            f"(() => {{ const s = document.getElementById('slider'); s.value = {part};"
            "s.dispatchEvent(new Event('input')); })()"
        )
        browser.drawn()
        now = browser.run("polhode.time")
        assert now == pytest.approx(part * t[-1], abs=1e-3)
        k = int(np.argmin(np.abs(t - now)))
        poses = browser.run("polhode.poses()")
        assert set(poses) == {"upper arm", "forearm"}
        for name, pose in poses.items():
            body = swing.bodies[name]
            # Between two frames a page mixes their poses.
            moved = np.max(np.abs(np.diff(body.position, axis=0)))
            np.testing.assert_allclose(pose["x"], body.position[k], atol=1e-5 + moved)
            np.testing.assert_allclose(pose["R"], body.rotation[k], atol=1e-5 + 2 * moved)
        read = browser.run("polhode.readings")
        assert read["kinetic energy"][""] == pytest.approx(
            float(swing.outputs["kinetic_energy"][k]), rel=1e-5, abs=1e-6
        )
        assert read["elbow · angle"][""] == pytest.approx(float(swing.joints["elbow"].angle[k]), abs=1e-6)
    browser.run("polhode.seek(0.8)")
    browser.drawn()
    screenshot(browser, "page")


def test_a_frame_of_the_store_is_drawn_to_seven_digits(browser, swing, tmp_path):
    browser.open(f"{written(tmp_path / 'arm.html', swing)}#t=0")
    for k in (0, 57, 400):
        browser.run(f"polhode.seek({float(swing.t[k])!r})")
        browser.drawn()
        pose = browser.run("polhode.poses()")["forearm"]
        np.testing.assert_allclose(pose["x"], swing.bodies["forearm"].position[k], atol=2e-5)
        np.testing.assert_allclose(pose["R"], swing.bodies["forearm"].rotation[k], atol=5e-5)


def test_any_quantity_can_be_plotted_and_removed(browser, swing, tmp_path):
    browser.open(f"{written(tmp_path / 'arm.html', swing)}#theme=dark&t=0.4&plot=elbow+·+force")
    titles = set(browser.run("polhode.titles()"))
    assert {"elbow · force", "forearm · velocity", "shoulder · power", "spring · moment", "spring · power"} <= titles
    browser.run("document.getElementById('chooser').open = true")
    browser.run("(() => { const f = document.getElementById('filter'); f.value = 'FORE velo'; f.oninput(); })()")
    listed = browser.run("[...document.querySelectorAll('#quantities label')].map((x) => x.textContent.trim())")
    assert listed == ["forearm · angular velocity", "forearm · velocity"]
    browser.run("document.querySelectorAll('#quantities input')[1].click()")
    browser.drawn()
    k = int(np.argmin(np.abs(np.asarray(swing.t) - browser.run("polhode.time"))))
    read = browser.run("polhode.readings")
    np.testing.assert_allclose(
        list(read["forearm · velocity"].values()), swing.bodies["forearm"].velocity[k], atol=1e-5
    )
    browser.run("polhode.choose('spring · elongation', true)")
    browser.drawn()
    shown = browser.run("polhode.readings")["spring · elongation"][""]
    assert shown == pytest.approx(float(swing.forces["spring"].elongation[k]), rel=1e-5)
    screenshot(browser, "choose")
    browser.run("document.querySelector('[aria-label=\"forearm · velocity\"] .close').click()")
    browser.drawn()
    assert "forearm · velocity" not in browser.run("polhode.readings")
    assert browser.complaints == []


def test_two_runs_overlaid_and_side_by_side(browser, swing, tmp_path):
    coarse = arm(0.05)
    browser.open(f"{written(tmp_path / 'two.html', swing, coarse, labels=('fine', 'coarse'))}#theme=light&t=0.9")
    read = browser.run("polhode.readings")["kinetic energy"]
    assert set(read) == {"fine", "coarse"}
    assert read["coarse"] == pytest.approx(float(coarse.outputs["kinetic_energy"][36]), rel=1e-5)
    assert browser.run("document.querySelectorAll('.audit').length") == 2
    screenshot(browser, "two")
    browser.run(
        "[...document.querySelectorAll('#options label')].find((x) => x.textContent.includes('side'))"
        ".firstChild.click()"
    )
    browser.drawn()
    widths = browser.run("[...document.querySelectorAll('.view')].map((x) => x.clientWidth)")
    assert len(widths) == 2
    assert min(widths) > 300
    screenshot(browser, "side-by-side")
    assert browser.complaints == []


def test_rods_are_coloured_by_strain(browser, tmp_path):
    run = ph.simulate(ph.problems.get("cantilever", n=8), t1=0.2, save_every=10)
    browser.open(f"{written(tmp_path / 'rod.html', run)}#theme=light&t=1&tint=curvature")
    assert browser.run("document.getElementById('scale').hidden") is False
    assert browser.run("document.getElementById('scale-name').textContent") == "curvature"
    w = np.asarray(run.outputs["strains"])
    largest = np.max(np.linalg.norm(w[:, :, :2] - w[0, :, :2], axis=2))
    shown = float(browser.run("document.getElementById('scale-high').textContent"))
    assert shown == pytest.approx(largest, rel=0.02)
    assert browser.complaints == []


def test_joints_are_marked_and_can_be_left_out(browser, swing, tmp_path):
    url = written(tmp_path / "arm.html", swing)

    def picture() -> np.ndarray:
        browser.drawn()
        browser.picture(tmp_path / "seen.png")
        return np.asarray(Image.open(tmp_path / "seen.png").convert("RGB"), dtype=int)

    browser.open(f"{url}#t=0.3&theme=light")
    marked = picture()
    browser.run(
        "[...document.querySelectorAll('#options label')].find((x) => x.textContent.includes('joints and supports'))"
        ".firstChild.click()"
    )
    bare = picture()
    changed = np.argwhere(np.abs(marked - bare).max(axis=2) > 40)
    assert len(changed) > 500
    box = browser.run("JSON.parse(JSON.stringify(document.querySelector('.view').getBoundingClientRect()))")
    inside = [box["top"], box["left"]] <= changed.min(axis=0)
    assert inside.all()
    browser.open(f"{url}#t=0.3&theme=light&joints=0")
    assert np.abs(picture() - bare).max() == 0
    assert browser.complaints == []


def test_keys_and_widths(browser, swing, tmp_path):
    url = written(tmp_path / "arm.html", swing)
    browser.open(f"{url}#t=0.5", width=420, height=800)
    assert browser.run("document.documentElement.scrollWidth") <= 420
    press = "dispatchEvent(new KeyboardEvent('keydown', {{key: '{}', bubbles: true}}))"
    target = "document.body."
    browser.run(target + press.format("ArrowRight"))
    assert browser.run("polhode.time") == pytest.approx(1.01)
    browser.run(target + press.format("End"))
    assert browser.run("polhode.time") == pytest.approx(2.0)
    browser.run(target + press.format("t"))
    assert browser.run("document.documentElement.dataset.theme") in ("light", "dark")
    screenshot(browser, "narrow")


def test_a_live_run_is_followed(browser, tmp_path):
    path = tmp_path / "run.zarr"
    problem = rebuild({"problem": "heavy-top", "parameters": {"duration": 1.0}})
    assert problem is not None
    ph.simulate(problem, h=1e-3, t1=0.3, store=path)
    source = StoredRun(path)

    class Going(StoredRun):
        def look(self) -> tuple[str, bool]:
            # Asked first: a word that was read before the end must not come with "nothing goes on".
            now = going[0]
            return super().look()[0], now

    going = [True]
    server = show.serve([Going(source.path)], ["top"])
    try:
        browser.open(f"{server.url}#theme=light")
        assert browser.run("document.getElementById('badge').textContent") == "running"
        assert browser.run("polhode.time") == pytest.approx(0.3)
        ph.resume(path, t1=0.6)
        browser.until("polhode.runs[0].moments.at(-1) > 0.59")
        assert browser.run("polhode.time") == pytest.approx(0.6)
        ph.resume(path, t1=0.7)
        # Not before: a page that hears that nothing goes on any more doesn't ask again.
        going[0] = False
        browser.until("document.getElementById('badge').textContent === 'successful'")
        assert {url.split("?")[0] for url in browser.requests} <= {
            f"{server.url}#theme=light",
            server.url,
            f"{server.url}data",
        }
        assert browser.complaints == []
    finally:
        server.close()


def cloud(n: int, frames: int = 24) -> tuple[Solution, Scene]:
    """Spheres that turn about a common axis, known in closed form."""
    t = np.linspace(0.0, 4.0, frames)
    start = np.random.default_rng(1).uniform(-1, 1, (n, 3))
    c, s = np.cos(t)[:, None], np.sin(t)[:, None]
    x = np.stack([c * start[:, 0] - s * start[:, 1], s * start[:, 0] + c * start[:, 1], 0 * c + start[:, 2]], axis=2)
    run = Solution(Frames(t, {"x": x}, {}, {}, {}, None), {"result": ph.Result.successful}, {"problem": "cloud"})
    return run, Scene((Cloud("particles", lambda t, state: state["x"], np.full(n, 0.02)),))


def test_a_hundred_thousand_particles(browser, tmp_path, capsys):
    run, scene = cloud(100_000)
    path = tmp_path / "cloud.html"
    path.write_text(page.page(run, scene), encoding="utf-8")
    browser.open(f"{path.as_uri()}#theme=light&t=0.3", 1000, 700)
    browser.run("polhode.seek(0); polhode.play(true)")
    time.sleep(2.0)
    before, began = browser.run("polhode.drawn"), time.monotonic()
    time.sleep(1.5)
    rate = (browser.run("polhode.drawn") - before) / (time.monotonic() - began)
    word = browser.run("document.getElementById('word').textContent")
    with capsys.disabled():
        print(f"\n100,000 particles: {rate:.0f} pictures a second in software. {word}")
    assert rate > 20 or "particles is drawn, to keep the motion smooth" in word
    screenshot(browser, "particles")
    assert browser.complaints == []


@pytest.mark.parametrize("name", ["<!--<script>", "</script><b>&"])
def test_names_that_look_like_tags(browser, spin_solution, tmp_path, name):
    run = Solution(spin_solution.frames, spin_solution.stats, {**spin_solution.meta, "problem": name})
    path = tmp_path / "odd.html"
    path.write_text(page.page(run), encoding="utf-8")
    browser.open(path.as_uri())
    assert browser.run("document.getElementById('title').textContent") == name
    assert browser.complaints == []
