"""Tableaus and schemes prove their order, and refuse wrong coefficients."""

import dataclasses

import numpy as np
import pytest

from polhode.integrators.explicit import commutator_free
from polhode.integrators.tableaus import runge_kutta
from polhode.integrators.tableaus.runge_kutta import Tableau

ALL = [t for t in vars(runge_kutta).values() if isinstance(t, Tableau)]


@pytest.mark.parametrize("tableau", ALL, ids=lambda t: t.name)
def test_declared_order_is_the_exact_order(tableau):
    with pytest.raises(ValueError, match=f"order-{tableau.order + 1} condition"):
        dataclasses.replace(tableau, order=tableau.order + 1, dense=None)


def test_number_of_trees():
    assert [len(runge_kutta._trees(p)) for p in range(1, 7)] == [1, 1, 2, 4, 9, 20]


def test_wrong_weight_is_refused():
    with pytest.raises(ValueError, match="misses an order-1 condition"):
        Tableau("wrong", np.zeros((1, 1)), np.array([0.9]), order=1)


def test_implicit_tableau_is_refused():
    with pytest.raises(ValueError, match="strictly lower triangular"):
        Tableau("implicit", np.array([[0.5]]), np.array([1.0]), order=1)


def test_dense_output_of_dormand_prince_has_order_four_everywhere():
    t = runge_kutta.DORMAND_PRINCE
    for sigma in (0.2, 0.5, 0.9):
        weights = t.dense @ sigma ** np.arange(1, 5)
        for order in range(1, 5):
            for tree in runge_kutta._trees(order):
                exact = sigma ** runge_kutta._size(tree) / runge_kutta._density(tree)
                assert weights @ runge_kutta._elementary_weight(tree, t.A) == pytest.approx(exact, abs=1e-14)


def test_scheme_with_wrong_nodes_is_refused():
    with pytest.raises(ValueError, match="sum to"):
        dataclasses.replace(commutator_free.CF4, c=(0, 1 / 2, 1 / 3, 1))
