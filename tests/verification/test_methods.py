"""The table of methods: every method of the registry on a tumbling body, with every back end.

Orders of attitude, velocity and multipliers, promises; equality of machine code, XLA and NumPy, of batches and loops,
of runs that go on and runs that never stopped; derivatives in both modes, against XLA's and against differences. A new
name in the registry is in the table at once, and fails until some form of the body suits it. Each cell is shown to fail
where it must. `docs/methods.md` has the figures; `write_methods_page.py` makes it.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import cells
import jax
import pytest
from cells import METHODS, PerturbedMethod, Row
from tumbling import MOVING

from polhode import integrators
from polhode.compiler.llvm import jit
from polhode.systems.base import AbstractSystem

PAGE = Path(__file__).parents[2] / "docs" / "methods.md"


@pytest.fixture(scope="module", params=METHODS)
def row(request):
    """All cells of a row follow each other, and share the programs of its method."""
    yield Row.of(request.param)
    cells.forget()


@pytest.mark.sampled(16)
def test_order(row):
    result = cells.orders(row)
    assert cells.keeps_order(row, result), result
    assert cells.is_machine_code() or jit.llvm is None


@pytest.mark.sampled(20)
def test_promises(row):
    for quantity, (promise, verdict) in cells.promises(row).items():
        assert verdict == "kept", (quantity, promise)
    # The control: what not even the exact motion keeps.
    assert cells.wrongly_promised(row)[MOVING] == "broken"


@pytest.mark.exhaustive
def test_perturbed_methods_lose_their_order_and_their_promises(row):
    # Large beside the method's own error, but not so large that a step of order 1 fails.
    size = 100.0 if row.name == "bdf" else 10.0 if row.method.order >= 4 else 1.0
    slower = dataclasses.replace(row, method=PerturbedMethod(row.method, size, row.method.order))
    result = cells.orders(slower)
    assert not cells.keeps_order(slower, result)
    assert max(result["attitude"], result["velocity"]) < row.method.order - 0.5
    spoilt = dataclasses.replace(row, method=PerturbedMethod(row.method, 1e-4, 0))
    assert {verdict for _, verdict in cells.promises(spoilt).values()} <= {"broken"}


@pytest.mark.sampled(42)
def test_numpy_computes_what_runs_compute(row):
    row = row.light
    result = cells.by_numpy(row)
    assert cells.is_equal(row, cells.gap(cells.on_host(row), result))
    # The control: a start that is off by a little more than what is allowed.
    assert not cells.is_equal(row, cells.gap(cells.on_host(row, cells.VALUES * [1 + 1e-9, 1, 1]), result))


@pytest.mark.sampled(42)
def test_xla_computes_what_machine_code_computes(row):
    row = row.light
    result = cells.by_xla(row)
    assert cells.is_equal(row, cells.gap(cells.on_host(row), result))
    assert not cells.is_equal(row, cells.gap(cells.on_host(row, cells.VALUES * [1 + 1e-9, 1, 1]), result))


@pytest.mark.exhaustive
@pytest.mark.sampled(42)
def test_batches_are_loops(row):
    row = row.light
    result = cells.run_batch(row)
    assert cells.is_equal(row, cells.gap_of_batch(row, result))
    # The control: members in each other's place.
    assert not cells.is_equal(row, cells.gap_of_batch(row, jax.tree.map(lambda x: x[::-1], result)))


@pytest.mark.sampled(18)
def test_runs_that_go_on_have_the_bytes_of_those_that_never_stopped(row):
    assert cells.differing_bytes(row) == 0


@pytest.mark.sampled(21)
def test_stored_runs_that_go_on_have_the_bytes_of_those_that_never_stopped(row, tmp_path):
    assert cells.differing_bytes(row, tmp_path / "run.zarr") == 0


@pytest.mark.exhaustive
@pytest.mark.sampled(42)
def test_derivatives_are_those_of_differences(row):
    row = row.light
    result, exact = cells.derivatives(row), cells.by_differences(row)
    errors = cells.errors_of_derivatives(result, exact)
    assert max(errors.values()) < cells.DERIVATIVES, errors
    # The control: a little off.
    off = cells.Derivatives(result.reverse * (1 + 1e-5), result.forward + 1e-5 * max(abs(exact.reverse)))
    assert min(cells.errors_of_derivatives(off, exact).values()) > cells.DERIVATIVES


@pytest.mark.exhaustive
@pytest.mark.sampled(42)
def test_derivatives_are_those_of_xla(row):
    row = row.light
    result, exact = cells.derivatives(row), cells.derivatives_by_xla(row)
    assert cells.is_exact(row, cells.errors_of_derivatives(result, exact))
    # The control: a little off.
    off = cells.Derivatives(result.reverse * (1 + 1e-8), result.forward * (1 + 1e-8))
    assert not cells.is_exact(row, cells.errors_of_derivatives(off, exact))


class Elsewhere(AbstractSystem):
    """A kind of system of which the table knows nothing."""


@pytest.mark.parametrize("kinds", [(), (Elsewhere,)])
def test_methods_of_other_kinds_are_not_in_the_table(kinds, monkeypatch):
    method = integrators.get("rkmk4")
    monkeypatch.setattr(type(method), "kinds", kinds)
    with pytest.raises(LookupError, match="add one to `FORMS`"):
        Row.of("rkmk4")


def test_every_method_is_in_the_table():
    assert [Row.of(name).name for name in METHODS] == list(METHODS)


def test_the_page_has_a_line_for_each_method():
    page, _, rest = PAGE.read_text(encoding="utf-8").partition("\n## Back ends")
    lines = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    assert sorted(lines) == sorted(METHODS)
    figures = re.findall(r"^\| `([^`]+)` \|", rest, re.MULTILINE)
    assert figures == list(METHODS)
    choose = (PAGE.parent / "choose.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in choose for name in lines)
