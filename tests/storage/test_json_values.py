from __future__ import annotations

import json
import math

import jax.numpy as jnp
import numpy as np

import polhode as ph
from polhode.json_values import from_plain, to_plain


def test_everything_becomes_json_and_numbers_come_back():
    value = {
        "array": jnp.arange(3.0),
        "scalar": np.float64(0.1),
        "count": np.int64(3),
        "flag": np.bool_(True),
        "result": ph.Result.max_steps_reached,
        "odd": (math.inf, -math.inf, None),
        4: "key",
    }
    restored = from_plain(json.loads(json.dumps(to_plain(value), allow_nan=False)))
    assert restored == {
        "array": [0.0, 1.0, 2.0],
        "scalar": 0.1,
        "count": 3,
        "flag": True,
        "result": "max_steps_reached",
        "odd": [math.inf, -math.inf, None],
        "4": "key",
    }
    assert math.isnan(from_plain(to_plain(math.nan)))
