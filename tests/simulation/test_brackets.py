"""Brackets of event times: roots are enclosed as narrowly as requested, after few trials."""

import jax.numpy as jnp
import numpy as np
import pytest

from polhode.compiler.numpy.eager import eager_numpy
from polhode.simulation.events.bracket import Bracket

WIDTH, ROOT = 1e-8, 0.3177
BISECTIONS = int(np.ceil(np.log2(1 / WIDTH)))


def search(function, rate=None):
    """The bracket of a function on [0, 1], and the number of trials."""
    known = (lambda s: ()) if rate is None else (lambda s: (jnp.asarray(rate(s)),))
    value = lambda s: jnp.asarray(function(s))  # noqa: E731
    bracket, count = Bracket.of(jnp.zeros(()), jnp.ones(()), value(0.0), value(1.0), *known(1.0)), 0
    while bracket.high - bracket.low > WIDTH:
        s = float(bracket.next(jnp.asarray(WIDTH)))
        assert bracket.low < s < bracket.high
        bracket, count = bracket.narrow(jnp.asarray(s), value(s), *known(s)), count + 1
    return bracket, count


@pytest.mark.parametrize("with_rates", [False, True])
@pytest.mark.parametrize(
    ("function", "rate", "most"),
    [
        (lambda s: np.sin(0.5 * (ROOT - s)), lambda s: -0.5 * np.cos(0.5 * (ROOT - s)), 5),
        (lambda s: np.exp(-30 * s) - np.exp(-30 * ROOT), lambda s: -30 * np.exp(-30 * s), 20),
        (lambda s: 1.0 if s < ROOT else -1.0, lambda s: 0.0, BISECTIONS),
        (lambda s: (ROOT - s) ** 9, lambda s: -9 * (ROOT - s) ** 8, 3 * BISECTIONS),
    ],
)
@eager_numpy()
def test_roots_are_enclosed_after_few_trials(function, rate, most, with_rates):
    bracket, count = search(function, rate if with_rates else None)
    assert bracket.low <= ROOT <= bracket.high
    assert count <= most
