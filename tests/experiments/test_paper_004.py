import pytest

import polhode as ph
from polhode import experiments


def test_the_experiments_are_listed():
    assert set(experiments.names("004")) >= {f"004-{k}" for k in range(1, 8)}


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("name", "checks", "figures"),
    [
        pytest.param(*row, marks=pytest.mark.exhaustive) if row[0] in ("004-2", "004-3", "004-4", "004-7") else row
        for row in (
            ("004-1", 18, 2),
            ("004-2", 11, 2),
            ("004-3", 20, 2),
            ("004-4", 4, 1),
            ("004-5", 10, 4),
            ("004-6", 10, 1),
            ("004-7", 23, 2),
        )
    ],
)
def test_experiments_reproduce_the_paper(name, checks, figures):
    report = ph.reproduce(name, progress=False)
    assert not [check for check in report.checks if not check["passed"]]
    assert len(report.checks) >= checks
    assert len(report.entries[0].outcome.figures) == figures
