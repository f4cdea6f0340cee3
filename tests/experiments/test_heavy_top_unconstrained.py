import pytest

import polhode as ph


@pytest.mark.exhaustive
def test_the_top_without_constraints_reproduces_paper_001(tmp_path):
    report = ph.reproduce("001-2", out=tmp_path, progress=False)
    assert not [check for check in report.checks if not check["passed"]]
    assert len(report.checks) >= 25
    assert len(list((tmp_path / "figures" / "001-2").iterdir())) == 4
