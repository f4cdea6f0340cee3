from __future__ import annotations

import csv
import dataclasses

import numpy as np
import pytest
import xarray as xr

import polhode as ph
from polhode.problems.rebuild import rebuild
from polhode.solution import export
from polhode.solution.picture import Picture
from polhode.solution.solution import Solution


def test_csv_has_every_number_to_the_last_digit(tmp_path, spin_solution):
    export(spin_solution, tmp_path / "run.csv")
    with (tmp_path / "run.csv").open() as file:
        header, *rows = csv.reader(file)
    assert header[0] == "time"
    assert {"tip.x", "rotation.xy", "energy", "momentum.z", "energies.kinetic", "multipliers.1"} <= set(header)
    assert not any(name.startswith("state") for name in header)
    numbers = np.array(rows, dtype=float)
    np.testing.assert_array_equal(numbers[:, header.index("tip.x")], spin_solution.outputs["tip"][:, 0])
    np.testing.assert_array_equal(numbers[:, header.index("nodes.1.z")], spin_solution.outputs["nodes"][:, 1, 2])
    assert numbers.shape == (64, len(spin_solution.to_pandas().columns))


def test_netcdf_is_the_same_data_set(tmp_path, spin_solution):
    export(spin_solution, tmp_path / "run.nc")
    with xr.open_dataset(tmp_path / "run.nc", engine="h5netcdf") as stored:
        xr.testing.assert_equal(stored.load(), spin_solution.to_xarray())


def test_png_is_a_picture(tmp_path, spin_solution):
    export(spin_solution, tmp_path / "run.png")
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")


def test_html_of_a_named_problem_shows_its_motion_after_a_round_trip(tmp_path):
    problem = ph.problems.get("heavy-top", mass=7.0)
    ph.simulate(problem, h=1e-3, t1=0.02, store=tmp_path / "run.zarr")
    loaded = ph.load(tmp_path / "run.zarr")
    assert rebuild(loaded.meta).parameters["mass"] == 7.0
    export(loaded, tmp_path / "run.html")
    assert '"shape": "ellipsoid"' in (tmp_path / "run.html").read_text()


def test_html_falls_back_to_charts(tmp_path, spin_solution):
    assert rebuild(spin_solution.meta) is None
    export(spin_solution, tmp_path / "run.html")
    assert '"scene": null' in (tmp_path / "run.html").read_text()
    odd = Solution(spin_solution.frames, spin_solution.stats, {**spin_solution.meta, "problem": "heavy-top"})
    odd = dataclasses.replace(odd, picture=Picture(odd.meta))
    with pytest.warns(UserWarning, match="charts only"):
        export(odd, tmp_path / "run.html")


def test_unknown_endings_are_refused(tmp_path, spin_solution):
    with pytest.raises(ValueError, match=r"\.csv, \.parquet, \.nc, \.png, \.html"):
        export(spin_solution, tmp_path / "run.xlsx")
