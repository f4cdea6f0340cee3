"""Shared parts of problems with rods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode import checks
from polhode.model.model import Model
from polhode.multibody.bodies import Body
from polhode.problem import Observable
from polhode.problems._model_problem import AssembledSystem, ModelDraft
from polhode.rods.rod import Rod
from polhode.rods.section import Section
from polhode.systems.base import State
from polhode.viewing.scene import rod_tints, scene


class Tent(eqx.Module):
    """g(t) times a direction: g rises from 0 to `peak` at `middle` and falls to 0 at 2 `middle`.

    **Arguments:**

    - `direction`: shape (3,).
    - `peak`, `middle`: of g.
    """

    direction: Float[Array, "3"]
    peak: Array
    middle: Array

    @property
    def breakpoints(self) -> tuple[Array, Array]:
        """Where g has kinks."""
        return self.middle, 2 * self.middle

    def __call__(self, t: Array) -> Float[Array, "3"]:
        return jnp.maximum(self.peak * (1 - jnp.abs(t - self.middle) / self.middle), 0.0) * self.direction


def rod_outputs(system: AssembledSystem, rod: Rod) -> dict[str, Observable]:
    """Positions of both ends, of all nodes, strains, and the energies."""
    points = rod.points(system)
    last = len(rod.nodes) - 1

    def end(row: int) -> Observable:
        return lambda t, state: points(t, state)[row]

    return {
        "tip": end(last),
        "head": end(0),
        "nodes": points,
        "strains": rod.strains(system),
        "kinetic_energy": lambda t, state: system.kinetic_energy(t, *state),
        "potential_energy": system.outputs()["potential_energy"],
    }


def rod_scene(outputs: Mapping[str, Observable], rod: Rod, trail: str = "tip") -> tuple[scene.Line | scene.Trail, ...]:
    """A tube through the nodes that strains can colour, and where its end went."""
    rest = checks.stack([edge.shape.rest / edge.shape.length for edge in rod.edges])

    def strain_measures(t: Array, state: State) -> Float[Array, "N 4"]:
        return rod_tints.components(outputs["strains"](t, state) - rest)

    tints = scene.Tints(rod_tints.NAMES[:4], rod_tints.KINDS[:4], strain_measures)
    return scene.Line("rod", outputs["nodes"], tints=tints), scene.Trail(trail)


def rod_problem(
    model: Model,
    rod: Rod,
    more: Callable[[AssembledSystem], Mapping[str, Observable]] = lambda system: {},
    bodies: Callable[[AssembledSystem], tuple[scene.Part, ...]] = lambda system: (),
    trail: str = "tip",
    **settings: Any,
) -> ModelDraft:
    """The draft of a problem with a rod.

    **Arguments:**

    - `more`, `bodies`: outputs and parts of the scene besides those of the rod.
    - `trail`: output whose way is drawn.
    - `settings`: other fields of `ModelDraft`.
    """

    def outputs(system: AssembledSystem) -> dict[str, Observable]:
        return {**rod_outputs(system, rod), **more(system)}

    def parts(system: AssembledSystem) -> tuple[scene.Part, ...]:
        return *bodies(system), *rod_scene(outputs(system), rod, trail)

    return ModelDraft(model, outputs, parts, **settings)


def equal_section(
    bending_stiffness: Array, axial_stiffness: Array, mass: Any, inertia: Array, damping: Array
) -> Section:
    """The section with equal numbers for all directions that the published tests have."""
    stiffness = jnp.concatenate((bending_stiffness * jnp.ones(3), axial_stiffness * jnp.ones(3)))
    return Section(stiffness, mass, inertia * jnp.ones(3), damping=2 * damping)


def linear_momentum(system: AssembledSystem, bodies: Sequence[Body]) -> Observable:
    """Σ m u of all bodies of a model, shape (3,), inertial frame."""
    mass_of = {body.name: body.mass for body in bodies}
    masses = checks.stack([mass_of[name] for name in system.names])

    def momentum(t: Array, state: State) -> Float[Array, "3"]:
        del t
        twists = system.motion(*state).twists
        assert twists is not None
        return masses @ twists.u[:-1]

    return momentum
