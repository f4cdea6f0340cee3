import pytest

import polhode as ph
from polhode import experiments

FAST = ["002-3", "002-10"]


def failed(report):
    return [check for check in report.checks if not check["passed"]]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", FAST)
def test_fast_experiments_reproduce_the_paper(name, tmp_path):
    report = ph.reproduce(name, out=tmp_path, progress=False)
    assert not failed(report)
    assert len(report.checks) >= 8
    figures = list((tmp_path / "figures" / name).iterdir())
    assert len(figures) == len(report.entries[0].outcome.figures) > 0
    assert list((tmp_path / "data" / name).iterdir())
    assert report.path.read_text().count("<img") == len(figures)


@pytest.mark.exhaustive
@pytest.mark.sampled(6)
# 002-6 takes minutes, and 002-7 runs the same code; `polhode reproduce` has it.
@pytest.mark.parametrize(
    "name",
    [
        *("002-4", "002-5", "002-7"),
        *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("002-8", "002-9")),
    ],
)
def test_long_experiments_reproduce_the_paper(name):
    report = ph.reproduce(name, progress=False)
    assert not failed(report)
    assert report.entries[0].outcome.figures


def test_the_experiments_with_explicit_methods_are_listed():
    assert set(experiments.names("002")) >= {f"002-{k}" for k in range(3, 11)}
