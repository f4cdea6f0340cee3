import numpy as np
import pytest

import polhode as ph
from polhode import experiments
from polhode.experiments.papers.heavy_top_symplectic_energies import Changes


def test_the_experiments_are_listed():
    assert set(experiments.names("002")) >= {"002-1", "002-2"}


@pytest.mark.parametrize(
    ("name", "count"),
    [pytest.param("002-1", 28, marks=pytest.mark.exhaustive), pytest.param("002-2", 30, marks=pytest.mark.exhaustive)],
)
def test_symplectic_methods_reproduce_paper_002(name, count, tmp_path):
    report = ph.reproduce(name, out=tmp_path, progress=False)
    assert not [check for check in report.checks if not check["passed"]]
    assert len(report.checks) >= count
    assert len(list((tmp_path / "figures" / name).iterdir())) == 2


T = np.linspace(0, 60, 6001)


@pytest.mark.parametrize(
    ("energy", "drift"),
    [(np.sin(9 * T) ** 2, 0.0), (T, 2 / 3), (-T, -2 / 3), (0.1 * T / 60 + np.sin(9 * T) ** 2, 0.061)],
)
def test_drift_is_told_from_oscillation(energy, drift):
    run = Changes(T, energy, energy, energy)
    assert run.drift == pytest.approx(drift, abs=0.005)
