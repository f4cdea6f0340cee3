import pytest

import polhode as ph
from polhode import experiments


def test_the_experiments_are_listed():
    assert set(experiments.names("003")) == {f"003-{k}" for k in range(1, 6)}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "checks", "figures"),
    [
        ("003-1", 28, 3),
        pytest.param("003-2", 9, 1, marks=pytest.mark.exhaustive),
        pytest.param("003-3", 7, 1, marks=pytest.mark.exhaustive),
        pytest.param("003-4", 10, 1, marks=pytest.mark.exhaustive),
        pytest.param("003-5", 10, 2, marks=pytest.mark.exhaustive),
    ],
)
@pytest.mark.filterwarnings("ignore::polhode.StepSizeWarning")
def test_experiments_reproduce_the_paper(name, checks, figures):
    report = ph.reproduce(name, progress=False)
    assert not [check for check in report.checks if not check["passed"]]
    assert len(report.checks) >= checks
    assert len(report.entries[0].outcome.figures) == figures
