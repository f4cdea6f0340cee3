"""Default coordinates and method of models. docs/choose.md has the measurements that support the rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode import checks
from polhode.assembly.absolute_assembly import WithoutInertia
from polhode.assembly.assembly import AssembledSystem
from polhode.assembly.compliant_friction import has_exact_friction
from polhode.assembly.joint_contacts import has_bearings, has_joint_contacts
from polhode.assembly.mixed_assembly import ABSOLUTE
from polhode.assembly.rule_table import has_rigid_contacts
from polhode.assembly.spanning_tree import has_loops, spanning_tree
from polhode.assembly.tree_assembly import MINIMAL
from polhode.compiler.numpy_jit import numpy_jit
from polhode.integrators.base import AbstractIntegrator
from polhode.integrators.compatibility import IncompatibleSystem, convert_for
from polhode.linalg.blocks import to_dense
from polhode.linalg.solver_choice import has_few_operations
from polhode.multibody.conversions.livens import LIVENS, LivensMultibody
from polhode.multibody.conversions.separable import SEPARABLE, SeparableMultibody
from polhode.multibody.system import MultibodySystem
from polhode.spaces.base import Point, Vector
from polhode.systems.base import State
from polhode.systems.mechanical import AbstractMechanical
from polhode.systems.vector_field import VectorField

if TYPE_CHECKING:
    from polhode.multibody.parts import ModelParts

COUPLED = 900
"""Pairs of joint velocities of which one carries the other, up to which trees are in joint coordinates in implicit
methods: the tangent grows with them. In quick code, absolute coordinates second: a chain of 30 has 465 and starts in
4.8 and 3.1 s of generalized-α with steps of 79 and 410 µs, one of 40 has 820, 7.4 and 3.6 s, 172 and 380 µs; Talos has
282, 17 and 8 s, 0.12 and 4.3 ms; a dog of 61 links, which has 865 and no absolute coordinates, starts in 24 s with
steps of 0.5 ms. Explicit methods have no bound: steps of `rkmk4` take 0.7 to 1.2 µs a link in chains of 10 to 100."""

COUPLED_BEHIND_FOLLOWERS = 1_500
"""The same in explicit methods where coordinates follow others, so that M is factorised. A guess, not a measurement: a
chain of 54 links has as many, and M unrolled grows with their squares."""

LARGEST_TREE_BESIDE = 8
"""The same beside rods, flexible bodies and particles, where steps are implicit: the tangent of a tree of 7 links takes
8 s to compile instead of 4 in absolute coordinates, one of 14 links some minutes."""

_MAX_RATE_TIMES_STEP = 1.0
"""The largest product of step and fastest rate with which an explicit method is chosen; they are stable up to 2.5."""

_CHANGE = 1e-6
"""Step of differences in positions and velocities."""

_NAMED = 6
"""Joints that close loops, of which the reason has the names."""

_DENSE = 200
"""Number of velocities up to which the fastest rate is computed."""


class ChosenModel(NamedTuple):
    """A model in the coordinates that were chosen.

    - `formulation`: their name. - `reason`: why.
    """

    system: AssembledSystem
    state: State
    formulation: str
    reason: str


class _Candidate(NamedTuple):
    formulation: str
    reason: str
    kind: type[AssembledSystem]


def assemble_default(
    model: ModelParts,
    assemble: Callable[[str], tuple[AssembledSystem, State]],
    integrator: str | None,
    t0: float,
    h: float,
) -> ChosenModel:
    """The model in the first coordinates that can represent it, that suit its size, and that the method accepts.

    `integrator`: the method; None for the one of `method_for` with steps `h`.

    Raises the ValueError of the last coordinates if none can.
    """
    from polhode import integrators

    method = None if integrator is None else integrators.get(integrator)
    against: list[str] = []
    spare: ChosenModel | None = None
    failure: ValueError | None = None
    for formulation, why, _ in _candidates(model, method):
        try:
            system, state = assemble(formulation)
        except ValueError as error:
            against.append(f"`{formulation}` can't be taken: {_first_sentence(error)}")
            # After joint coordinates have failed, they are no remedy.
            failure = error if failure is None or not isinstance(error, WithoutInertia) else failure
            continue
        reasons = [*against, why]
        if isinstance(system, MultibodySystem) and not why:
            reasons = [*against, _describe_joint_coordinates(model, system)]
        model_choice = ChosenModel(system, state, formulation, f"`{formulation}`: {'; '.join(reasons)}")
        against_size = _against_size(model, model_choice, integrator, t0, h)
        if not against_size and (method is None or _takes(method, system, t0, state)):
            return model_choice
        against.append(against_size or f"`{integrator}` doesn't take `{formulation}`")
        spare = spare or model_choice
    if spare is not None:
        # The run raises the error, with the methods that it accepts.
        return spare
    assert failure is not None
    raise failure


def method_for(
    system: AssembledSystem, state: State, t0: float, h: float, published: str | None = None
) -> tuple[str, str]:
    """The integrator for a system, and why it is chosen.

    - `published`: the method of the literature for the problem, if known.
    """
    if isinstance(system, LivensMultibody):
        return "eml", "energy and momenta to round-off"
    if isinstance(system, SeparableMultibody):
        return ("rodrigues", "explicit, for spheres") if system.spherical else ("rigid-verlet", "explicit, for bodies")
    from polhode import integrators

    if system.has_contacts:
        if published is not None and integrators.get(published).takes_contacts:
            return published, "the method of the literature"
        if system.shape_contacts is None:
            return "moreau", "joints have stops or dry friction, and stick"
        listed = system.shape_contacts.is_listed
        many = "; they are many and free, so pairs are in lists and impulses are found without matrices"
        return "moreau", f"bodies touch, with impacts and friction{many if listed else ''}"
    if published is not None and (system.identity_kinematics or not integrators.get(published).implicit):
        return published, "the method of the literature"
    if not system.identity_kinematics:
        return ("herk4" if system.m else "rkmk4"), "explicit; implicit methods don't take rates of these coordinates"
    if system.m:
        return "generalized-alpha", "there are constraints"
    if system.has_stiff_forces:
        return "generalized-alpha", "it steps over waves in elastic elements, which bound explicit steps"
    rate = fastest(system, t0, state)
    if rate is None:
        return "rkmk4", "explicit and of order 4: no constraints; how fast it is at the start was not found"
    if rate * h > _MAX_RATE_TIMES_STEP:
        held = " with all stops" if system.has_onsets else ""
        return (
            "generalized-alpha",
            f"the fastest motion at the start, {rate:.2g} per time{held}, would bound explicit steps",
        )
    return "rkmk4", f"explicit and of order 4: no constraints, and nothing too fast for steps of {h:g}"


def fastest(system: MultibodySystem, t0: float, state: State) -> float | None:
    """The fastest oscillation or decay of the motion linearised at a state without constraints, as a rate.

    Stops count as if they held, actuators and controllers as if they were within their limits: they will be in a run.

    0 where there are no loads but gravity; None where numbers are traced, or there are too many, or it can't be found.
    """
    if not _has_loads(system):
        return 0.0
    if system.n > _DENSE or not checks.is_concrete(system, state):
        return None
    n = system.n
    try:
        M, slopes = (np.asarray(x) for x in _linearise(system.stiffest().in_loops(), jnp.asarray(t0), *state))
        # As a system of first order in small changes of positions and of velocities.
        rates = np.vstack((np.eye(n, 2 * n, n), np.linalg.solve(M, slopes.T)))
        return float(np.max(np.abs(np.linalg.eigvals(rates))))
    except Exception:
        # The estimate must not refuse a model, whatever a user's force does: the run reports errors.
        return None


def _has_loads(system: MultibodySystem) -> bool:
    """Whether there are loads besides gravity."""
    return bool(system.mechanism.forces) or system.coordinates.has_own_loads


@numpy_jit
def _linearise(system: MultibodySystem, t: Array, q: Point, v: Vector) -> tuple[Array, Array]:
    """The mass matrix, and derivatives of the forces by positions and velocities, one per row.

    By central differences, which are traced faster than derivatives.
    """
    n = system.n

    def loads(change: Vector) -> Vector:
        return system.force(t, system.configuration.move(q, change[:n]), v + change[n:])

    steps = _CHANGE * jnp.eye(2 * n)
    ahead, behind = jnp.split(jax.vmap(loads)(jnp.concatenate((steps, -steps))), 2)
    slopes = (ahead - behind) / (2 * _CHANGE)
    return to_dense(system.mass(t, q), (n, n)), slopes


def _candidates(model: ModelParts, method: AbstractIntegrator | None) -> list[_Candidate]:
    """Coordinates in the order in which they are tried."""
    against = _against_a_tree(model)
    joint = _Candidate(MINIMAL, "", MultibodySystem)
    absolute = _Candidate(ABSOLUTE, against or "absolute coordinates", MultibodySystem)
    usual = [absolute, joint] if against else [joint, absolute]
    if method is None or has_rigid_contacts(model) or has_joint_contacts(model) or has_exact_friction(model):
        return usual
    special = (_Candidate(LIVENS, "", LivensMultibody), _Candidate(SEPARABLE, "", SeparableMultibody))
    own = [one._replace(reason="the coordinates that the method takes") for one in special]
    return [one for one in [*usual, *own] if _is_compatible(method, one.kind)] or usual


def _against_a_tree(model: ModelParts) -> str:
    """The reason against joint coordinates; "" if there is none."""
    count = sum(attachment.motion is not None for attachment in spanning_tree(model))
    own = _own_coordinates(model)
    if has_bearings(model):
        return "friction of joints grows with their forces, multipliers of absolute coordinates"
    if not count:
        return own or "no joint carries a body"
    if own and count > LARGEST_TREE_BESIDE:
        return f"{count} bodies in a tree beside others have dense tangents, in absolute coordinates sparse ones"
    return ""


def _against_size(model: ModelParts, choice: ChosenModel, integrator: str | None, t0: float, h: float) -> str:
    """The reason against a large tree in joint coordinates and a method; "" if there is none."""
    from polhode import integrators

    system = choice.system
    if choice.formulation != MINIMAL or not isinstance(system, MultibodySystem):
        return ""
    # Beside rods, flexible bodies and particles the size of the tree alone is bounded, before.
    if system.m and not _own_coordinates(model) and not has_few_operations(system.kkt):
        # Such as a tower of three Stewart platforms: not ready after 95 s, in absolute coordinates after 48.
        return f"loops couple so many of its {system.n} joint velocities that steps would factorise dense matrices"
    pairs = _coupled_pairs(model)
    if pairs <= COUPLED:
        return ""
    if integrator is None and system.n > _DENSE and _has_loads(system):
        return f"whether loads are too fast for explicit steps isn't checked for {system.n} joint velocities"
    name = integrator or method_for(system, choice.state, t0, h)[0]
    if integrators.get(name).implicit or system.m:
        return f"`{name}` would factorise dense matrices of {pairs} pairs of joint velocities, sparse ones of bodies"
    if system.coordinates.has_dependent_coordinates and pairs > COUPLED_BEHIND_FOLLOWERS:
        return f"coordinates that follow others make mass matrices of {pairs} pairs of joint velocities"
    return ""


def _coupled_pairs(model: ModelParts) -> int:
    """Number of pairs of joint velocities of which one carries the other, or itself."""
    depths: dict[str, int] = {}
    pairs = 0
    for attachment in spanning_tree(model):
        if attachment.motion is not None:
            n, below = attachment.motion.n, depths.get(attachment.parent.name, 0)
            depths[attachment.body.name] = below + n
            pairs += n * below + n * (n + 1) // 2
    return pairs


def _own_coordinates(model: ModelParts) -> str:
    """Which bodies have coordinates of their own, in words; "" if there are none."""
    bodies = [body for body in model.bodies if body.has_own_coordinates]
    kinds = (
        ("some bodies ask for coordinates of their own", [b.formulation is not None for b in bodies]),
        ("flexible bodies have absolute coordinates and those of their modes", [b.kind == "flexible" for b in bodies]),
        ("nodes of rods are free bodies with sparse matrices", [b.rod is not None for b in bodies]),
        ("particles are free bodies with sparse matrices", [b.diameter is not None for b in bodies]),
    )
    return "; ".join(reason for reason, which in kinds if any(which))


def _is_compatible(method: AbstractIntegrator, kind: type[AssembledSystem]) -> bool:
    """Whether a method may take systems of a class, or what they are converted to."""
    first_order = issubclass(kind, AbstractMechanical) and VectorField in method.kinds
    return first_order or any(issubclass(kind, accepted_kind) for accepted_kind in method.kinds)


def _takes(method: AbstractIntegrator, system: AssembledSystem, t0: float, state: State) -> bool:
    """Whether a method takes a system, or a conversion of it."""
    try:
        convert_for(system, method, t0, state, check_state=True)
    except IncompatibleSystem:
        return False
    return True


def _describe_joint_coordinates(model: ModelParts, system: MultibodySystem) -> str:
    """Sentence on the coordinates of the joints, and on the constraints left: how many, and of which parts."""
    own, m = _own_coordinates(model), system.m
    names = [f"`{name}`" for name in dict.fromkeys(system.labels)]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    which = f", of {', '.join(names[:_NAMED])}{more}" if names else ""
    phrase = "no constraint is" if not m else "1 constraint is" if m == 1 else f"{m} constraints are"
    carried = f"joints carry what they can, {own}" if own else "the joints carry the bodies"
    cut = "; loops are cut where joints impose the fewest" if names and has_loops(model) else ""
    return f"{carried}, and {phrase} left{which}{cut}"


def _first_sentence(error: ValueError) -> str:
    return str(error).partition(". ")[0].rstrip(".")
