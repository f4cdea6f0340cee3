"""Where loops are cut in joint coordinates: at the joints that impose the fewest constraints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph

POINTS = np.array([(0.0, 0.0, 0.0), (0.3, 0.0, 0.4), (1.5, 0.0, 0.6), (2.0, 0.0, 0.0)])
ACROSS = (0, 1, 0)


def bar(model: ph.Model, a: Any, b: Any, name: str) -> Any:
    return model.add_body(mass=1.0, inertia=(0.1, 0.12, 0.1), position=(a + b) / 2, name=name)


def universal_joint(first: Any, second: Any, point: Any, along: Any, name: str) -> ph.joints.Universal:
    return ph.joints.Universal(first, second, point, ACROSS, np.cross(ACROSS, along / np.linalg.norm(along)), name=name)


def slider_crank() -> ph.Model:
    model = ph.Model(gravity=(0, 0, -9.81))
    end = np.array((1.5, 0.0, 0.0))
    crank, rod = bar(model, *POINTS[:2], "crank"), bar(model, POINTS[1], end, "rod")
    piston = bar(model, end, end, "piston")
    model.add(ph.joints.Revolute(model.ground, crank, POINTS[0], ACROSS, name="crankshaft"))
    model.add(universal_joint(crank, rod, POINTS[1], end - POINTS[1], "pin"))
    model.add(ph.joints.Spherical(rod, piston, end, name="ball"))
    model.add(ph.joints.Prismatic(piston, model.ground, axis=(1, 0, 0), name="slide"))
    return model


def four_bar() -> ph.Model:
    model = ph.Model(gravity=(0, 0, -9.81))
    first, second, third = (bar(model, *POINTS[k : k + 2], f"bar{k}") for k in range(3))
    model.add(ph.joints.Revolute(model.ground, first, POINTS[0], ACROSS, name="left"))
    model.add(ph.joints.Spherical(first, second, POINTS[1], name="ball"))
    model.add(universal_joint(second, third, POINTS[2], POINTS[2] - POINTS[1], "cross"))
    model.add(ph.joints.Revolute(third, model.ground, POINTS[3], ACROSS, name="right"))
    return model


def platform() -> ph.Model:
    """A Stewart platform whose balls are at the ground, so that joints in their order would cut at cylinders."""
    model = ph.Model(gravity=(0, 0, -9.81))
    top = model.add_body(mass=5.0, inertia=(0.3, 0.3, 0.5), position=(0, 0, 1.0), name="platform")
    for k in range(6):
        side, turn = (-1) ** k, np.pi / 3 * k
        foot = np.array((np.cos(turn + 0.25 * side), np.sin(turn + 0.25 * side), 0.0))
        head = np.array((0.6 * np.cos(turn - 0.35 * side), 0.6 * np.sin(turn - 0.35 * side), 1.0))
        along = (head - foot) / np.linalg.norm(head - foot)
        normal = np.cross(along, (0, 0, 1.0)) / np.linalg.norm(np.cross(along, (0, 0, 1.0)))
        lower, upper = (
            bar(model, foot, (foot + head) / 2, f"lower{k}"),
            bar(model, (foot + head) / 2, head, f"upper{k}"),
        )
        model.add(ph.joints.Spherical(model.ground, lower, foot, name=f"ball{k}"))
        leg = model.add(ph.joints.Prismatic(lower, upper, axis=along, name=f"leg{k}"))
        model.add(ph.forces.JointSpring(leg, stiffness=400.0))
        model.add(ph.joints.Universal(upper, top, head, normal, np.cross(along, normal), name=f"cross{k}"))
    return model


def body_accelerations(system: Any, state: Any) -> np.ndarray:
    """Sizes of the accelerations of the centres, in ascending order: coordinates have orders of their own."""
    q, v = state
    rate = system.accelerations(jnp.zeros(()), q, v)[0]
    velocities = lambda s: system.motion(system.flow(q, v, s), v + s * rate).twists[1]  # noqa: E731
    return np.sort(np.linalg.norm(jax.jvp(velocities, (0.0,), (1.0,))[1], axis=1))


@pytest.mark.parametrize(
    ("make", "cut", "constraints"),
    [
        (slider_crank, {"ball"}, 3),
        pytest.param(four_bar, {"ball"}, 3, marks=pytest.mark.exhaustive),
        # One of the six legs carries the platform.
        pytest.param(platform, {f"ball{k}" for k in range(1, 6)}, 15, marks=pytest.mark.exhaustive),
    ],
)
@pytest.mark.exhaustive
def test_loops_are_cut_where_the_fewest_constraints_are_left(
    make: Callable[[], ph.Model], cut: set[str], constraints: int
) -> None:
    model = make()
    tree, absolute = model.assemble("minimal"), model.assemble("SO3xR3")
    assert set(tree[0].labels) == cut
    assert tree[0].m == constraints
    np.testing.assert_allclose(body_accelerations(*tree), body_accelerations(*absolute), atol=1e-10)


@pytest.mark.exhaustive
@pytest.mark.parametrize("make", [slider_crank, four_bar])
def test_both_coordinates_move_alike(make: Callable[[], ph.Model]) -> None:
    last = {}
    for formulation in ("minimal", "SO3xR3"):
        run = ph.simulate(make().problem(formulation, t1=0.2), "herk4", h=5e-4)
        last[formulation] = np.array([run.bodies[name].position[-1] for name in run.bodies])
    assert np.ptp(run.bodies[next(iter(run.bodies))].position, axis=0).max() > 1e-3
    np.testing.assert_allclose(last["minimal"], last["SO3xR3"], atol=1e-9)
