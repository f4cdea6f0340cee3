"""Names, options and errors for wrong ones."""

import pytest

from polhode import integrators
from polhode.integrators.explicit.half_explicit import HalfExplicit
from polhode.integrators.explicit.rkmk import RKMK
from polhode.integrators.implicit.generalized_alpha import GeneralizedAlpha
from polhode.integrators.tableaus.half_explicit import THIRD
from polhode.integrators.tableaus.runge_kutta import RK4
from polhode.integrators.variational.rodrigues import Rodrigues
from polhode.integrators.variational.symmetric_composition import SymmetricComposition
from polhode.integrators.variational.symplectic import SymplecticLieGroup


@pytest.mark.parametrize("name", integrators.names())
def test_defaults_are_accepted_as_options(name):
    method = integrators.get(name, **integrators.options(name))
    assert type(method) is type(integrators.get(name))
    assert method.order == integrators.get(name).order
    assert method.promises == integrators.get(name).promises


def test_options_are_those_of_the_class_and_of_the_name():
    assert integrators.options("herk3")["family"] == "multiplier-order-p"
    assert integrators.options("herk3")["projection"] == "none"
    assert integrators.options("lie-midpoint")["dexpinv"] == "none"
    assert "tableau" not in integrators.options("rkmk4")


STRANGE = [float("inf"), float("nan"), "small", True]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("generalized-alpha", {"rho": 0.5}, r"no option `rho`. Did you mean `rho_inf`\? It has rho_inf, newton, "),
        ("cf4", {"order": 3}, r"Integrator `cf4` has no option `order`. It has none"),
        ("rkmk4", {"tableau": None}, r"no option `tableau`. It has dexpinv, coordinates"),
        ("generalized-alpha", {"rho_inf": "0.9"}, r"`rho_inf` must be a number for .*, got '0.9'"),
        ("generalized-alpha", {"rho_inf": True}, r"`rho_inf` must be a number for .*, got True"),
        ("generalized-alpha", {"rho_inf": 2}, r"`rho_inf` must be .*in \[0, 1\], got 2"),
        ("generalized-alpha", {"rtol": "small"}, r"`rtol` must be a number.*got 'small'"),
        ("herk2", {"variant": 1}, r"`variant` must be a word or None for .*, got 1"),
        ("generalized-alpha", {"max_iterations": 2.5}, r"`max_iterations` must be a whole number"),
        ("generalized-alpha", {"tangent_operator": 1}, r"`tangent_operator` must be true or false"),
        ("generalized-alpha", {"constraint": "index-1"}, r"`constraint` must be 'automatic' or 'index-3' or"),
        ("rkmk4", {"coordinates": "polar"}, r"`coordinates` must be 'exp' or 'cayley' or 'second-kind'"),
        ("herk2", {"family": 1}, r"`family` must be a word"),
        *(("generalized-alpha", {name: value}, f"`{name}` must be") for name in ("rtol", "atol") for value in STRANGE),
        *(("herk3", {"tolerance": value}, "`tolerance` must be") for value in STRANGE),
    ],
)
def test_wrong_options_are_named_for_what_they_are(name, options, message):
    with pytest.raises(ValueError, match=message):
        integrators.get(name, **options)


@pytest.mark.parametrize("value", [float("inf"), float("nan"), "small", True, [1.0]])
@pytest.mark.parametrize(
    ("make", "option"),
    [
        (GeneralizedAlpha, "rho_inf"),
        (GeneralizedAlpha, "rtol"),
        (GeneralizedAlpha, "atol"),
        (GeneralizedAlpha, "max_iterations"),
        (lambda **given: HalfExplicit(THIRD, **given), "tolerance"),
        (lambda **given: RKMK(RK4, **given), "first_same_as_last"),
        (lambda **given: RKMK(RK4, **given), "coordinates"),
        (lambda **given: SymmetricComposition(SymplecticLieGroup(0.5), **given), "target"),
        (SymplecticLieGroup, "theta"),
        (Rodrigues, "phi"),
    ],
)
def test_constructors_refuse_numbers_that_are_none(make, option, value):
    if option == "first_same_as_last" and value is True:
        pytest.skip("is one of its values")
    with pytest.raises(ValueError, match=f"`{option}` must be"):
        make(**{option: value})
