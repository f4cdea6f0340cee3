from __future__ import annotations

import io

import matplotlib
import matplotlib.pyplot
import numpy as np
import pytest
from matplotlib.text import Text

import polhode as ph
from polhode.frames import Frames
from polhode.solution.solution import Solution
from polhode.viewing import plots
from polhode.viewing.charts.chart_series import catalogue, charts


def test_a_run_shows_outputs_drifts_residuals(spin_solution):
    titles = [chart.title for chart in charts(spin_solution)]
    assert titles == [
        "energies · kinetic", "energies · potential", "nodes", "tip", "Drift of invariants", "Residuals", "Multipliers",
    ]  # fmt: skip
    figure = plots.run(spin_solution)
    assert [axis.get_title("left").lower() for axis in figure.axes] == [title.lower() for title in titles]
    drift = figure.axes[4]
    assert drift.get_yscale() == "log"
    assert [line.get_label() for line in drift.lines] == ["energy", "momentum (zero)"]
    expected = np.abs(spin_solution.invariants["energy"] - spin_solution.invariants["energy"][0])
    drawn = drift.lines[0].get_ydata()
    np.testing.assert_allclose(drawn[1:], expected[1:])
    # Zero has no place on a logarithmic axis.
    assert np.isnan(drawn[0])


def test_of_many_points_the_last_one_is_shown(spin_solution):
    tip = spin_solution.outputs["tip"]
    frames = spin_solution.frames._replace(outputs={"positions": np.stack([0 * tip, 0 * tip, tip], axis=1)})
    chart = charts(Solution(frames, {}, {}))[0]
    assert chart.title == "positions, last of 3"
    np.testing.assert_array_equal(chart.curves["y"], tip[:, 1])


def test_adaptive_runs_show_their_steps(spin_solution):
    t = np.array([0.0, 0.1, 0.3, 0.7])
    frames = Frames(t, None, {}, {}, {}, None)
    (chart,) = charts(Solution(frames, {}, {"rtol": 1e-6}))
    np.testing.assert_allclose(chart.curves["step"], [0.1, 0.2, 0.4])
    assert charts(Solution(frames, {}, {"h": 0.1})) == []
    with pytest.raises(ValueError, match="nothing to draw"):
        plots.run(Solution(frames, {}, {"h": 0.1}))


def test_convergence_draws_a_triangle_for_each_order():
    h = 2.0 ** -np.arange(3, 9)
    curves = {"a": (h, h), "b": (h, 5 * h**4 + 1e-12), "c": (h, 2 * h**4), "d": (h, 0 * h)}
    figure = plots.convergence(curves, "error of the tip")
    (axis,) = figure.axes
    assert axis.get_ylabel() == "error of the tip"
    assert [text.get_text() for text in axis.texts] == ["1", "4"]
    triangles = [line for line in axis.lines if line.get_label().startswith("_")]
    for line, order in zip(triangles, [1, 4], strict=True):
        x, y = np.log(line.get_xdata()), np.log(line.get_ydata())
        assert (y[2] - y[0]) / (x[2] - x[0]) == pytest.approx(order)
    figure.savefig(io.BytesIO(), format="png")


def test_long_runs_keep_their_extremes_and_nothing_is_drawn_as_such(spin_frames, spin_solution):
    frames = spin_frames(60_000)
    energy = frames.invariants["energy"].copy()
    energy[44_447] += 1.0
    still = {name: 0 * values for name, values in frames.residuals.items()}
    frames = frames._replace(invariants={"energy": energy, "momentum": 0 * energy}, residuals=still)
    axes = {
        axis.get_title("left"): axis for axis in plots.run(Solution(frames, {}, spin_solution.meta)).axes
    }  # fmt: skip
    drift = axes["Drift of invariants"]
    assert np.nanmax(drift.lines[0].get_ydata()) == pytest.approx(1.0)
    assert len(drift.lines[0].get_xdata()) < 10_000
    assert [line.get_label() for line in drift.lines] == ["energy", "momentum (zero)"]
    assert [text.get_text() for text in axes["Residuals"].texts] == ["exactly zero"]
    assert len(axes["Residuals"].get_yticks()) == 0


@pytest.mark.exhaustive
def test_every_joint_and_force_of_many_can_be_chosen():
    model = ph.Model(gravity=(0, 0, -9.81))
    before = model.ground
    for k in range(70):
        body = model.add_body(mass=1, inertia=(0.1, 0.1, 0.1), position=(k + 0.5, 0, 0))
        joint = model.add(ph.joints.Revolute(before, body, point=(k, 0, 0), axis=(0, 1, 0), name=f"j{k}"))
        model.add(ph.forces.JointSpring(joint, 1.0, name=f"s{k}"))
        before = body
    titles = {chart.title for chart in catalogue(ph.simulate(model.problem(t1=0.002, h=1e-3)))}
    assert {f"j{k} · power" for k in range(70)} | {f"s{k} · torque" for k in range(70)} <= titles


def test_titles_of_long_names_stay_within_their_panels(spin_solution):
    tip = spin_solution.outputs["tip"]
    names = {f"{'a very long name ' * 5}of it {k}": tip for k in range(7)}
    figure = plots.run(Solution(spin_solution.frames._replace(outputs=names), {}, {}))
    figure.set_dpi(60)
    figure.draw_without_rendering()
    shown = ((axis.get_title("left"), axis.get_children()) for axis in figure.axes)
    titles = [text for title, inside in shown for text in inside if isinstance(text, Text) and text.get_text() == title]
    assert len(titles) == len(figure.axes)
    boxes = [title.get_window_extent() for title in titles]
    assert not [1 for k, one in enumerate(boxes) for other in boxes[:k] if one.overlaps(other)]
    assert len({title.get_text() for title in titles}) == len(titles)
    assert min(axis.get_window_extent().width for axis in figure.axes) > 60 * 3.5


def test_plotting_leaves_global_state_alone(spin_solution):
    before, figures = dict(matplotlib.rcParams), matplotlib.pyplot.get_fignums()
    plots.run(spin_solution)
    plots.convergence({"a": (np.array([0.1, 0.2, 0.4]), np.array([1.0, 2.0, 4.0]))})
    assert dict(matplotlib.rcParams) == before
    assert matplotlib.pyplot.get_fignums() == figures
