"""Half-explicit tableaus: exact order conditions, counted trees, and tableaus that are refused."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

from polhode import integrators
from polhode.integrators.tableaus import half_explicit as he
from polhode.integrators.tableaus import half_explicit_conditions as conditions
from polhode.integrators.tableaus.half_explicit_conditions import Surd
from polhode.integrators.tableaus.runge_kutta import DORMAND_PRINCE

AUTHORS = [he.EULER, he.HEUN, he.MIDPOINT, he.THIRD, he.FOURTH, he.FIFTH]
EXTENDED = [he.HEUN_EXTENDED, he.THIRD_EXTENDED, he.FOURTH_EXTENDED, he.FIFTH_EXTENDED]


def ids(tableau):
    return tableau.name


def test_numbers_of_trees():
    assert [len(conditions.meagre_trees(p)) for p in range(1, 6)] == [1, 3, 22, 192, 1972]
    assert [len(conditions.fat_trees(p)) for p in range(1, 5)] == [2, 13, 112, 1131]
    assert all(conditions.meagre_order(t) == 4 for t in conditions.meagre_trees(4))
    assert all(conditions.fat_order(u) == 3 for u in conditions.fat_trees(3))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("tableau", AUTHORS + EXTENDED, ids=ids)
def test_all_conditions_hold_exactly(tableau):
    tableau.verify()
    exact = tableau.conditions()
    assert exact.contraction() == 0
    assert all(isinstance(x, Fraction | Surd) for row in tableau.rows for x in row)


@pytest.mark.parametrize("tableau", AUTHORS, ids=ids)
def test_multipliers_of_the_authors_lose_one_order(tableau):
    assert tableau.multiplier_order == max(tableau.order - 1, 1)


@pytest.mark.parametrize("tableau", EXTENDED, ids=ids)
def test_extended_multipliers_have_the_order_of_the_state(tableau):
    assert tableau.multiplier_order == tableau.order
    base = AUTHORS[[0, 1, 3, 4, 5][tableau.order - 1]]
    assert tableau.rows[: tableau.stages] == base.rows[: base.stages]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("tableau", "y_broken", "z_broken"),
    [
        (he.HEUN, 18, 2),
        (he.MIDPOINT, 18, 2),
        (he.THIRD, 136, 13),
        (he.FOURTH, 1682, 32),
        (he.HEUN_EXTENDED, 18, 4),
        (he.THIRD_EXTENDED, 136, 32),
        (he.FOURTH_EXTENDED, 1682, 450),
    ],
    ids=lambda x: getattr(x, "name", x),
)
def test_claimed_orders_are_the_best(tableau, y_broken, z_broken):
    """Conditions of the next order that fail, counted."""
    exact = tableau.conditions()
    assert len(list(exact.broken_in_y(tableau.order + 1))) == y_broken
    assert len(list(exact.broken_in_z(tableau.multiplier_order))) == z_broken


def test_order_five_is_the_best_of_dormand_and_prince():
    """The quadrature condition of order 6, Σ b c⁵ = 1/6, and that of order 5 for the authors' multipliers."""
    b, c = he.FIFTH.rows[5], [Fraction(0), *map(sum, he.FIFTH.rows[:5])]
    assert sum(x * y**4 for x, y in zip(b, c, strict=True)) == Fraction(1, 5)
    assert sum(x * y**5 for x, y in zip(b, c, strict=True)) != Fraction(1, 6)
    assert len(list(he.FIFTH.conditions().broken_in_z(4))) == 290


@pytest.mark.parametrize("tableau", [he.FIFTH, he.FIFTH_EXTENDED], ids=ids)
def test_embedded_solution(tableau):
    """Order 4 with the stage that is solved again."""
    assert tableau.embedded_conditions().y_order(5) == 4
    np.testing.assert_allclose([float(x) for x in tableau.b_hat], DORMAND_PRINCE.b_hat, rtol=0, atol=1e-16)
    np.testing.assert_allclose(tableau.A[:7, :6], DORMAND_PRINCE.A[:, :6], rtol=0, atol=1e-15)


def test_numbers_with_the_root_of_three():
    x, y = Surd(Fraction(1, 2), Fraction(-1, 3)), Surd(Fraction(2), Fraction(5))
    for exact, rounded in [(x + y, float(x) + float(y)), (x * y, float(x) * float(y)), (x / y, float(x) / float(y))]:
        assert float(exact) == pytest.approx(rounded, rel=1e-14)
    assert x / y * y == x
    assert 1 - x == Surd(Fraction(1, 2), Fraction(1, 3))
    assert 1 / x == Surd(Fraction(1), Fraction(0)) / x
    assert hash(Surd(Fraction(2), Fraction(0))) == hash(Fraction(2))
    assert he.FOURTH.c[5] == pytest.approx((3 - np.sqrt(3)) / 6, abs=1e-16)


def replace_entry(tableau, row, column, value):
    rows = [list(r) for r in tableau.rows]
    rows[row][column] = value
    return dataclasses.replace(tableau, rows=tuple(map(tuple, rows)))


def test_wrong_coefficients_are_refused():
    with pytest.raises(ValueError, match="conditions hold up to"):
        replace_entry(he.THIRD, 1, 0, Fraction(1, 9))
    with pytest.raises(ValueError, match="conditions hold up to 2 and 1 only"):
        dataclasses.replace(he.HEUN, multiplier_order=2)
    with pytest.raises(ValueError, match="must not be zero"):
        replace_entry(he.HEUN, 1, 1, Fraction(0))
    with pytest.raises(ValueError, match="lengths 1, 2"):
        dataclasses.replace(he.HEUN, d=(Fraction(1),))
    # Conditions above order 3 are left to `verify`.
    for claim in ({"order": 5}, {"multiplier_order": 4}):
        with pytest.raises(ValueError, match="hold up to 4 and 3 only"):
            dataclasses.replace(he.FOURTH, **claim).verify()
    with pytest.raises(ValueError, match="b_hat has order 4, not 5"):
        dataclasses.replace(he.FIFTH, order_hat=5).verify()


def test_a_multiplier_that_amplifies_its_error_is_refused():
    """With s̄ = 2 multipliers of order 2 force R = -1."""
    with pytest.raises(ValueError, match="grow from step to step"):
        dataclasses.replace(he.HEUN, d=(Fraction(-1), Fraction(2)))


def test_names_families_and_variants():
    assert integrators.get("herk2", family="authors").tableau is he.HEUN
    assert integrators.get("herk2", family="authors", variant="midpoint").tableau is he.MIDPOINT
    assert integrators.get("herk1", family="authors").tableau is integrators.get("herk1").tableau
    assert integrators.get("herk5").tableau is integrators.get("herk5").tableau
    assert integrators.get("herk5").error_order is None
    assert integrators.get("herk54").error_order == 4
    with pytest.raises(ValueError, match="must be one of 'authors'"):
        integrators.get("herk3", family="author")
    with pytest.raises(ValueError, match="`variant` must be"):
        integrators.get("herk2", variant="midpoint")
    with pytest.raises(ValueError, match=r"has no option `familly`. Did you mean `family`\?"):
        integrators.get("herk3", familly="authors")
    with pytest.raises(ValueError, match="`projection` must be"):
        integrators.get("herk3", projection="velocity")
    with pytest.raises(ValueError, match="`tolerance` must be positive"):
        integrators.get("herk3", tolerance=0.0)
