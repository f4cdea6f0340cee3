"""Eigenfrequencies and shapes of small vibrations about an equilibrium."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from polhode import checks
from polhode.analysis.statics import _diagnosis, _eigenvalues, _linearisation
from polhode.analysis.statics._equations import largest
from polhode.analysis.statics._steady_motion import deviations
from polhode.analysis.statics.equilibrium import mechanical
from polhode.compiler.numpy.eager import eager_numpy
from polhode.compiler.numpy_jit import numpy_jit
from polhode.compiler.placement import with_default_device
from polhode.jax_context import check_environment, inside_transformation
from polhode.linalg.blocks import Matrix
from polhode.linalg.host import to_sparse
from polhode.multibody.mechanism.poses import Twist
from polhode.multibody.system import MultibodySystem
from polhode.problem import Problem
from polhode.spaces.base import Point
from polhode.systems.base import State
from polhode.systems.mechanical import AbstractMechanical

_DENSE = 300
"""Unknowns up to which all modes are found at once: below about a second."""

_OFF = 1e-6
"""Distance from equilibrium, as a fraction of the largest coordinate, up to which a state counts as one."""

_SPARSE_NUMBER = 10


@dataclasses.dataclass(frozen=True, eq=False)
class Modes:
    r"""Solutions $\delta q = \mathrm{Re}(\varphi e^{st})$ of the linearised equations, sorted by |s|.

    Without damping that is by frequency.

    - `eigenvalues`: s, one of each conjugate pair, shape (k,). Real ones stand by themselves; without damping the
      growing one stands for the pair ±σ.
    - `shapes`: φ as velocities, shape (k, n), with φᴴMφ = 1; real without damping and follower loads.
    - `system`, `q`: what was linearised, and where.
    """

    eigenvalues: Complex[np.ndarray, " k"]
    shapes: np.ndarray
    system: AbstractMechanical
    q: Point

    def __repr__(self) -> str:
        return f"Modes({len(self.eigenvalues)}: {', '.join(f'{x:.6g}' for x in self.frequencies[:12])} rad per time)"

    @property
    def frequencies(self) -> Float[np.ndarray, " k"]:
        """ω = Im s, angle per time; 0 for rigid-body modes and for motions that do not oscillate."""
        return np.imag(self.eigenvalues)

    @property
    def hertz(self) -> Float[np.ndarray, " k"]:
        """ω / 2π."""
        return self.frequencies / (2 * np.pi)

    @property
    def damping(self) -> Float[np.ndarray, " k"]:
        """Damping ratios -Re s / |s|, 0 where s = 0. Negative: flutter where ω > 0, divergence (-1) where ω = 0."""
        sizes = np.abs(self.eigenvalues)
        return np.where(sizes > 0, -np.real(self.eigenvalues) / np.where(sizes > 0, sizes, 1.0), 0.0)

    @property
    def stable(self) -> bool:
        """Whether no mode grows by more than 1e-9 of the largest |s| reported."""
        return bool(np.all(np.real(self.eigenvalues) <= 1e-9 * np.max(np.abs(self.eigenvalues), initial=0.0)))

    def displacements(self) -> Twist:
        """Displacements of the bodies in each mode, in the order of `system.names`: rotations in the frames of the
        bodies and translations in the inertial frame, shapes (k, bodies, 3). For models only.
        """
        system, q = self.system, self.q
        if not isinstance(system, MultibodySystem):
            raise ValueError(f"{type(system).__name__} has no bodies; its shapes are in `shapes`.")

        shapes: tuple[Any, ...] = tuple(map(np.ascontiguousarray, (np.real(self.shapes), np.imag(self.shapes))))
        parts = [_twists(system, q, part) for part in shapes]
        # But for the ground, which comes last.
        real, imaginary = (jax.tree.map(lambda x: np.asarray(x)[:, :-1], part) for part in parts)
        return jax.tree.map(lambda a, b: a + 1j * b if b.any() else a, real, imaginary)

    @eager_numpy()
    def moved(self, number: int, amplitude: float, phase: float = 0.0) -> Point:
        """The configuration displaced by amplitude · Re(φ e^{i phase}) of mode `number`; for drawings."""
        shape = jnp.asarray((amplitude * np.exp(1j * phase) * self.shapes[number]).real)
        return self.system.configuration.move(self.q, self.system.kinematics(self.q, shape))


@with_default_device
@eager_numpy()
def modes(
    problem: Problem | AbstractMechanical,
    state: State = None,
    *,
    t: float | None = None,
    number: int | None = None,
    multipliers: Any = None,
    anyway: bool = False,
) -> Modes:
    r"""Small vibrations about an equilibrium.

    $M\delta\dot v + C\,\delta v + (K + K_\lambda)\,\delta q + B^T\delta\lambda = 0,\ B\,\delta q = 0$ with the
    geometric stiffness $K_\lambda = \partial(B^T\lambda)/\partial q$ of the constraint forces.

    Without damping and follower loads that is a symmetric problem with real shapes; otherwise eigenvalues and shapes
    are complex. About a steady motion (v ≠ 0) the equations of motion are linearised as a whole, in a frame in which
    their coefficients are constant, as `polhode.linearise` has it: frequencies of a rotor are those of its whirl.

    **Arguments:**

    - `problem`: a `Problem`, or a bare mechanical system with `state`.
    - `state`: (q, v), an equilibrium as `polhode.equilibrium` returns it; the problem's start by default.
    - `t`: time of loads and constraints, by default the problem's first or 0.
    - `number`: how many of the lowest modes, by default all; of systems with more than 600 unknowns, 10.
    - `multipliers`: λ at the state; by default those of the equations of motion.
    - `anyway`: linearise about a state that is no equilibrium, as if it were held there; of a motion that is not steady
      the coefficients at this instant, in the frame that the coordinates have.

    Small systems are solved densely, larger ones by Lanczos' method in O(N). Runs on the host, outside `jax.jit`.

    **Raises** ValueError for bad input, and for a state that is no equilibrium or no steady motion, with the reason.
    """
    check_environment()
    system, _ = mechanical(problem)
    as_problem = problem if isinstance(problem, Problem) else None
    if state is None and as_problem is None:
        raise ValueError("A bare system needs `state`, an equilibrium (q, v); a Problem brings its own.")
    if inside_transformation():
        raise ValueError("Modes are found on the host; call `modes` outside jit, grad and vmap.")
    q, v = system.as_state(state if as_problem is None or state is not None else as_problem.state0, "state")
    time = float(t if t is not None else as_problem.t_span[0] if as_problem else 0.0)
    if number is not None:
        checks.count("number", number, "modes")
    if multipliers is not None:
        multipliers = checks.array("multipliers", multipliers, (system.m,), "one for each constraint")
    if float(np.max(np.abs(v), initial=0.0)) > 0:
        spectrum, M = _about_motion(system, time, (q, v), anyway), _mass(system, time, q)
    else:
        linear = _linearisation.about(system, time, q, multipliers)
        unknowns = system.n + system.m
        count = number or (None if unknowns <= _DENSE else _SPARSE_NUMBER)
        by_lanczos = unknowns > _DENSE and count is not None and 2 * count + 4 < system.n
        result = _eigenvalues.lowest(linear, count) if by_lanczos and count else _eigenvalues.dense(linear)
        (spectrum, off), M = result, linear.M
        if not anyway and not np.max(np.abs(off), initial=0.0) <= _OFF * float(largest(q)):
            raise ValueError(_no_equilibrium(system, q, linear.r))
    shapes = _normalise(spectrum.shapes.T, M)
    return Modes(spectrum.eigenvalues[:number], shapes[:number], system, q)


def _about_motion(system: AbstractMechanical, t: float, state: State, anyway: bool) -> _linearisation.Spectrum:
    about = deviations(system, t, state)
    if about.unsteady and not anyway:
        raise ValueError(
            f"The state moves and is no steady motion: {about.unsteady}. Pass v = 0 for an equilibrium, or the state "
            "of a steady motion; `anyway=True` takes the coefficients at this instant, which say nothing about "
            "stability."
        )
    return _eigenvalues.about_motion(about.A, about.basis[: system.configuration.dim])


def _no_equilibrium(system: AbstractMechanical, q: Point, r: np.ndarray) -> str:
    return (
        f"The state is no equilibrium; {_diagnosis.describe_imbalance(system, r, np.zeros(0))}. Find one with "
        "`polhode.equilibrium(system, state)` and pass its `state`, or linearise here with `anyway=True`."
    )


def _mass(system: AbstractMechanical, t: float, q: Point) -> Any:
    return to_sparse(_masses(system, jnp.asarray(t), q), (system.n, system.n))


@numpy_jit
def _masses(system: AbstractMechanical, t: Array, q: Point) -> Matrix:
    return system.mass(t, q)


@numpy_jit
def _twists(system: MultibodySystem, q: Point, velocities: Any) -> Any:
    return jax.vmap(lambda v: system.motion(q, v).twists)(velocities)


def _normalise(shapes: np.ndarray, M: Any) -> np.ndarray:
    """Rows with φᴴMφ = 1 whose largest component is real and positive."""
    rows = []
    for shape in shapes:
        largest_one = shape[np.argmax(np.abs(shape))]
        phased = shape * np.conj(largest_one) / abs(largest_one)
        rows.append(phased / np.sqrt((np.conj(phased) @ (M @ phased)).real))
    return np.array(rows) if rows else shapes
