"""Keys of fast rotations against the motion itself."""

import numpy as np
import pytest

from polhode.viewing.scene.rotation_keys import between


def about(axis, angles):
    half = 0.5 * np.asarray(angles)[:, None]
    return np.concatenate((np.cos(half), np.sin(half) * axis), axis=1)


@pytest.mark.parametrize("rate", [40.0, -90.0, 31.0, 2 * np.pi / 0.1])
def test_keys_of_fast_spins_follow_the_spin(rate):
    """At frames every 0.1 the shortest way is the wrong one: 40 rad/s are 4 rad from frame to frame."""
    axis, t = np.array([2.0, -1.0, 2.0]) / 3, np.linspace(0, 1, 11)
    keys = between(t, about(axis, rate * t), np.full((11, 3), rate * axis))
    assert keys is not None
    exact = about(axis, rate * keys.t)
    assert np.abs(np.sum(keys.q * exact, axis=1)) == pytest.approx(1, abs=1e-12)
    # Players interpolate on the shorter way: half way between keys it has to be the way of the body.
    middle = keys.q[1:] + keys.q[:-1]
    middle /= np.linalg.norm(middle, axis=1, keepdims=True)
    exact = about(axis, rate * 0.5 * (keys.t[1:] + keys.t[:-1]))
    assert np.abs(np.sum(middle * exact, axis=1)) == pytest.approx(1, abs=1e-12)


def test_slow_motions_need_no_keys():
    axis, t = np.array([0.0, 0.0, 1.0]), np.linspace(0, 1, 11)
    assert between(t, about(axis, 10 * t), np.full((11, 3), 10 * axis)) is None
    assert between(t, about(axis, 90 * t), None) is None
