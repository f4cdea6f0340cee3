"""The command `polhode sweep`."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import polhode as ph
from polhode.cli import app, sweep_parameters

TOP = ["sweep", "heavy-top", "--set", "formulation=S3", "--integrator", "rkmk4", "--step", "1e-3", "--t1", "0.004"]


def call(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)


def test_a_sweep_is_stored_and_gone_on_with(tmp_path):
    path = tmp_path / "tops.zarr"
    line = [*TOP, "--param", "mass=13:17:3", "--parameter", "length=0.9,1.1", "--out", path, "--json"]
    process = call(*line)
    assert process.exit_code == 0
    assert json.loads(process.stdout)["stats"]["members"] == 6
    report = ph.load_ensemble(path)
    assert report["mass"].values.tolist() == [13, 13, 15, 15, 17, 17]
    assert call(*line).exit_code == 2
    assert call(*line, "--resume").exit_code == 0
    np.testing.assert_array_equal(ph.load_ensemble(path)["state.1"], report["state.1"])


def test_failed_members_are_listed_with_their_parameters(tmp_path):
    table = tmp_path / "members.csv"
    table.write_text("mass,gravity\n15,9.81\n15,1e300\n")
    process = call(*TOP, "--samples", table, "--statistics")
    assert process.exit_code == 1
    assert "1 of 2 members did not reach" in process.stderr
    assert "gravity=1e+300" in process.stderr


def test_tables_of_spreadsheets_are_read_and_long_words_are_refused(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes("\ufeffmass, gravity\r\n1,2\r\n3,4\r\n".encode())
    assert sweep_parameters.table(path) == {"mass": [1.0, 3.0], "gravity": [2.0, 4.0]}
    path.write_text("mass\n" + "9" * 200_000)
    with pytest.raises(ValueError, match="can't be read as a table"):
        sweep_parameters.table(path)


def test_values_of_parameters():
    assert sweep_parameters.values("k", "1,2.5") == [1.0, 2.5]
    assert sweep_parameters.values("k", "0:1:3") == [0.0, 0.5, 1.0]
    drawn = sweep_parameters.draw("k", "normal:15:0.1")(np.random.default_rng(3))
    assert drawn == np.random.default_rng(3).normal(15, 0.1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "needs `--param"),
        (["--param", "mass"], "NAME=VALUES"),
        (["--param", "mass=1:2"], "LOW:HIGH:COUNT"),
        (["--param", "mass=1", "--seeds", "2"], "normal:MEAN:DEVIATION"),
        (["--param", "mass=1", "--param", "mass=2"], "twice"),
        (["--param", "mass=1", "--samples", "a.csv"], "not both"),
        (["--samples", "there-is-none.csv"], "can't be read"),
        (["--samples", "/dev/null"], "is empty"),
        (["--samples", "/dev/zero"], "can't be read"),
        (["--param", "mass=uniform:-1e308:1e308", "--seeds", "2"], "normal:MEAN:DEVIATION"),
        (["--param", "mass=normal:inf:1", "--seeds", "2"], "normal:MEAN:DEVIATION"),
        (["--param", "mass=1,2"], "--out"),
    ],
)
def test_wrong_usage_is_refused_before_anything_is_made(arguments, said):
    process = call("sweep", "heavy-top", *arguments)
    assert process.exit_code == 2
    assert said in process.stderr
