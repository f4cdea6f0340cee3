"""Names, options and what is said about wrong ones."""

import pytest

from polhode import integrators


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


@pytest.mark.parametrize(
    ("name", "options", "said"),
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
        ("generalized-alpha", {"constraint": "index-1"}, r"`constraint` must be 'index-3' or 'stabilized-index-2'"),
        ("rkmk4", {"coordinates": "polar"}, r"`coordinates` must be 'exp' or 'cayley' or 'second-kind'"),
        ("herk2", {"family": 1}, r"`family` must be a word"),
    ],
)
def test_wrong_options_are_named_for_what_they_are(name, options, said):
    with pytest.raises(ValueError, match=said):
        integrators.get(name, **options)
