import jax
import jax.numpy as jnp
import numpy as np
import pytest

from polhode import problems
from polhode.viewing.scene.scene import Body, Line, Trail

EVERY = [
    *(("free-rigid-body", {"formulation": f}) for f in ("SO3", "S3", "coadjoint")),
    *(("heavy-top", {"formulation": f}) for f in ("SO3", "S3", "lie-poisson")),
    ("pendulum-chain", {"start": "level"}),
    ("quadrotors", {}),
]

OUTPUTS = {
    "free-rigid-body": {"angular_velocity": (3,), "rotation": (3, 3)},
    "heavy-top": {"centre_of_mass": (3,), "axis": (3,), "angular_velocity": (3,), "rotation": (3, 3)},
    "pendulum-chain": {"directions": (2, 3), "angular_velocities": (2, 3), "positions": (2, 3)},
    "quadrotors": {"load": (3,), "load_target": (3,), "links": (2, 3), "tracking_error": (), "link_targets": (2, 3)},
}

WRONG = [
    ("free-rigid-body", {"formulation": "livens-form"}, "SO3.*S3.*coadjoint"),
    ("free-rigid-body", {"inertia": (1, 2, 0)}, "greater than zero"),
    ("free-rigid-body", {"inertia": np.eye(3)}, r"shape \(3,\).*got shape \(3, 3\)"),
    ("free-rigid-body", {"angular_velocity": (1, np.nan, 0)}, "finite"),
    ("free-rigid-body", {"angular_velocity": "fast"}, "numeric"),
    ("free-rigid-body", {"duration": -1.0}, "greater than zero"),
    ("heavy-top", {"formulation": "Lie-Poisson"}, "Did you mean `lie-poisson`"),
    ("heavy-top", {"data": "F"}, "fixed-point"),
    ("heavy-top", {"mass": -1.0}, "greater than zero"),
    ("heavy-top", {"mass": (1.0, 2.0)}, "vmap"),
    ("heavy-top", {"axis": (0, 2, 0)}, "Divide each"),
    ("heavy-top", {"weight": 1.0}, "no parameter `weight`"),
    ("pendulum-chain", {"n": 0}, "at least 1"),
    ("pendulum-chain", {"n": 2.5}, "integer"),
    ("pendulum-chain", {"length": "units"}, "Did you mean `unit`"),
    ("pendulum-chain", {"length": [1.0, 2.0, 3.0]}, "one for each of the 2 rods"),
    ("pendulum-chain", {"masses": [1.0, -2.0]}, "greater than zero"),
    ("pendulum-chain", {"start": "random"}, "paper.*level"),
    ("pendulum-chain", {"q": [[1, 0, 0], [0, 2, 0]]}, "unit vectors"),
    ("pendulum-chain", {"q": [[1, 0, 0], [0, 1, 0]], "omega": [[1, 0, 0], [0, 0, 1]]}, "perpendicular.*Subtract"),
    ("quadrotors", {"links": np.zeros((2, 3))}, "unit vectors"),
    ("quadrotors", {"masses": (1.0,)}, r"shape \(2,\)"),
    ("quadrotors", {"formation": ((0, 0, 1), (0, 0, 1))}, "two different directions"),
    ("quadrotors", {"formation": ((0, 0.6, 0.8), (0.6, 0, 0.8))}, "plane with e3"),
    ("quadrotors", {"path": 3.0}, "callable"),
    ("quadrotors", {"controller": lambda t, state: None}, "AbstractController"),
]


def test_names():
    assert {name for name, _ in EVERY} <= set(problems.names())


@pytest.mark.parametrize(("name", "parameters", "message"), WRONG)
def test_bad_parameters_are_named_with_a_remedy(name, parameters, message):
    with pytest.raises(ValueError, match=message):
        problems.get(name, **parameters)


@pytest.mark.parametrize(("name", "parameters"), EVERY)
@pytest.mark.sampled(8)
def test_shapes_and_scene(name, parameters):
    problem = problems.get(name, **parameters)
    result = {key: np.shape(output(0.0, problem.state0)) for key, output in problem.outputs.items()}
    assert result == OUTPUTS[name]
    assert problem.system.field(jnp.asarray(0.0), problem.state0).shape == (problem.system.space.dim,)
    assert problem.system.space.residual(problem.state0) < 1e-15
    assert len(problem.doc) > 200
    assert set(problem.reference) <= set(problem.outputs)
    for part in problem.scene.parts:
        if isinstance(part, Body):
            position, rotation = part.pose(0.0, problem.state0)
            assert (position.shape, rotation.shape, np.shape(part.size)) == ((3,), (3, 3), (3,))
            assert np.all(np.asarray(part.size) > 0)
        elif isinstance(part, Line):
            assert part.points(0.0, problem.state0).shape[1:] == (3,)
        else:
            assert isinstance(part, Trail)
            value = problem.outputs[part.output](0.0, problem.state0)
            assert (value if part.index is None else value[part.index]).shape == (3,)


def numeric(parameters):
    """The parameters that can be differentiated, as arrays."""
    chosen = {}
    for key, value in parameters.items():
        if key not in ("n", "duration") and value is not None and not isinstance(value, str):
            chosen[key] = jnp.asarray(value, float)
    return chosen


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "parameters"), EVERY)
def test_gradients_with_respect_to_every_number(name, parameters):
    """Through the builder, at the start (zero rotation, zero velocity where the problem starts at rest)."""
    problem = problems.get(name, **parameters)
    numbers = numeric(problem.parameters)
    weights = jnp.cos(jnp.arange(problem.system.space.dim))

    @jax.jit
    def value(numbers, away):
        changed = problem.replace(**numbers)
        state = changed.system.space.move(changed.state0, away * weights)
        return changed.system.field(jnp.asarray(0.1), state) @ weights

    differentiate = jax.jit(jax.grad(value))
    gradient, at_start = differentiate(numbers, 0.1), differentiate(numbers, 0.0)
    assert all(bool(jnp.all(jnp.isfinite(g))) for g in (*gradient.values(), *at_start.values()))
    assert sum(bool(jnp.any(g != 0)) for g in gradient.values()) >= len(numbers) - 1
    for key, start in numbers.items():
        direction = jnp.ones_like(start)
        step = 1e-6 * max(1.0, float(jnp.max(jnp.abs(start))))
        up, down = ({**numbers, key: start + sign * step * direction} for sign in (1, -1))
        difference = float(value(up, 0.1) - value(down, 0.1)) / (2 * step)
        size = float(jnp.sum(jnp.abs(gradient[key]))) + abs(float(value(numbers, 0.1)))
        assert abs(float(jnp.sum(gradient[key])) - difference) < 2e-7 * size, key


@pytest.mark.exhaustive
def test_batch_of_masses_equals_a_loop():
    problem = problems.get("heavy-top")
    accelerate = lambda mass: problem.replace(mass=mass).system.field(jnp.asarray(0.0), problem.state0)  # noqa: E731
    masses = jnp.array([1.0, 5.0, 15.0])
    np.testing.assert_allclose(jax.vmap(accelerate)(masses), jnp.stack([accelerate(m) for m in masses]), rtol=1e-15)


def test_a_problem_prints_in_one_line():
    problem = problems.get("heavy-top", formulation="S3")
    assert repr(problem).startswith("Problem('heavy-top', VectorField, t = 0 … 1, rkmk4 with h = 0.0001, outputs: ")
    assert "\n" not in repr(problem)
    seen = []

    def of_duration(duration):
        seen.append(repr(problem.replace(duration=duration)))
        return duration

    jax.eval_shape(of_duration, 1.0)
    assert "t = 0 … traced" in seen[0]


@pytest.mark.parametrize("name", ["andrews", "slider-crank"])
@pytest.mark.parametrize("formulation", [1 + 2j, None, 3.0])
def test_a_formulation_that_is_none_is_named(name, formulation):
    with pytest.raises(ValueError, match="`formulation` must be"):
        problems.get(name, formulation=formulation)
