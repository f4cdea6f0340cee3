"""Clumps as a system: rigid bodies of spheres with contacts and walls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import short_repr
from polhode.particles.clump import Clump
from polhode.particles.clump_members import Members
from polhode.particles.diagnostics import CROWD, ContactNetwork, limit_message
from polhode.particles.interactions import CONTACT_OUTPUTS, GrainStates
from polhode.particles.laws.contact_law import ContactLaw
from polhode.particles.system import Particles
from polhode.particles.walls import POSE, AbstractWall
from polhode.spaces.component_arrays import add, columns, dot, rate_of, rows, spin_of, subtract
from polhode.spaces.linear import Rn
from polhode.spaces.powers import power
from polhode.spaces.products import product
from polhode.spaces.rotations import S3
from polhode.systems.base import Observable, State
from polhode.systems.separable import (
    AbstractSeparable,
    BodyStates,
    Loads,
    Motion,
    PoseComponents,
    Rates,
    Rest,
    Surroundings,
)


class Clumps(AbstractSeparable):
    r"""n rigid bodies of spheres with contacts, walls and gravity, for `rigid-verlet`.

    Spheres touch those of other bodies and walls as `Particles` do, each with its own history; those of one body don't
    touch each other. Their loads are summed up to a force and a moment about the centre of mass. Bodies have three
    moments of inertia, and principal axes that turn with them. In laws of contact R is the radius of a sphere and m the
    mass of its body, so a restitution is that of an impact through both centres of mass.

    States hold centres of mass and the attitudes of principal axes. `start` and outputs have attitudes of the frames in
    which the clumps were described.

    **Arguments:**

    - `shapes`: one `Clump` for all bodies, or a sequence of them with `kinds`, shape (n,), that says which.
    - `positions`: centres of mass, shape (n, 3). - `rotations`: quaternions (w, x, y, z), shape (n, 4), of the frames
      of the clumps; None for none. Both only say how many neighbours spheres have at the start.
    - `contact`: `ContactLaw` between spheres, or None for none. - `wall_contact`: of walls; None for that of spheres.
    - `walls`, `gravity`, `period`, `skin`, `capacity`, `contact_outputs`: see `Particles`; force moments are those of
      bodies, about their centres of mass, and numbers of contacts those of all their spheres.

    - Momenta kept to round-off: Σmv without walls and gravity, then also Σ(x × mv + JΩ) in open space.

    Raises ValueError for shapes that don't fit, and walls without a law.
    """

    masses: Float[Array, " n"]
    inertias: Float[Array, "n 3"]
    gravity: Float[Array, "3"]
    axes: Float[Array, "n 4"]
    members: Members
    spheres: Particles

    def __init__(
        self,
        shapes: Clump | Sequence[Clump],
        positions: Any,
        rotations: Any = None,
        kinds: Any = None,
        contact: ContactLaw | None = None,
        wall_contact: ContactLaw | None = None,
        walls: Sequence[AbstractWall] = (),
        gravity: Any = (0.0, 0.0, 0.0),
        period: Any = None,
        skin: float = 0.2,
        capacity: int | None = None,
        contact_outputs: bool = False,
    ) -> None:
        x = checks.numbers("positions", positions, "centres of mass of the clumps").astype(float)
        if x.ndim != 2 or x.shape[1] != 3 or not len(x):
            raise ValueError(f"`positions` must have shape (n, 3), one row for each clump, got {x.shape}.")
        for name, law in (("contact", contact), ("wall_contact", wall_contact)):
            if not (law is None or isinstance(law, ContactLaw)):
                raise ValueError(f"`{name}` must be a `ContactLaw` or None, got {short_repr(law)}.")
        choices = _shapes(shapes)
        which = _kinds(kinds, len(x), len(choices))
        self.masses = jnp.asarray([choice.mass for choice in choices])[which]
        self.inertias = jnp.asarray(np.array([choice.moments for choice in choices]))[which]
        self.gravity = checks.array("gravity", gravity, (3,), "acceleration by gravity")
        self.axes = jnp.asarray(np.array([_quaternion(choice.axes) for choice in choices]))[which]
        self.members = Members.of_clumps(choices, which)
        owners = self.members.owners
        self.spheres = Particles(
            self.masses[owners],
            jnp.min(self.inertias, axis=1)[owners],
            np.concatenate([choices[k].diameters for k in which]),
            rows(self.members.places(PoseComponents(columns(jnp.asarray(x)), self._attitudes(rotations))).x),
            contact=0.0 if contact is None else contact,
            wall_contact=wall_contact,
            walls=walls,
            period=period,
            skin=skin,
            capacity=capacity,
            contact_outputs=contact_outputs,
            groups=owners,
        )

    def _attitudes(self, rotations: Any) -> tuple[Array, ...]:
        """Of the principal axes, from those of the frames of the clumps."""
        if rotations is None:
            return columns(self.axes)
        q = checks.array("rotations", rotations, (self.n, 4), "quaternions of the clumps")
        return columns(jax.vmap(S3().compose)(q / jnp.linalg.norm(q, axis=1, keepdims=True), self.axes))

    # --- states -------------------------------------------------------------------------------------------------------

    @property
    def has_history(self) -> bool:
        return self.spheres.has_history

    @property
    def states(self) -> Any:
        return GrainStates if self.has_history else BodyStates

    @property
    def state_hint(self) -> str:
        return "`system.start(positions, velocities, angular_velocities, rotations)` makes one."

    @property
    def state_space(self) -> Any:
        space, of = super().state_space, self.spheres
        if not self.has_history:
            return space
        accounts = len(of.stored_names) + len(of.flow_names)
        contacts = power(Rn(CONTACT_OUTPUTS), self.n) if of.contact_outputs else Rn(0)
        return product(*space.spaces, Rn(0), Rn(accounts), Rn(POSE * of.moving_walls), contacts)

    def start(self, positions: Any, velocities: Any = 0.0, angular_velocities: Any = 0.0, rotations: Any = None) -> Any:
        """An initial state, by centres of mass, shape (n, 3); velocities have shape (n, 3), or (3,) for all.

        `rotations`: quaternions (w, x, y, z) of the frames of the clumps, shape (n, 4); None for none.
        """
        n = self.n
        x = checks.array("positions", positions, (n, 3), "centres of mass of the clumps")
        rates = []
        for name, value in (("velocities", velocities), ("angular_velocities", angular_velocities)):
            shape = checks.shape(name, value, "a row for each clump")
            if shape not in ((n, 3), (3,), ()):
                raise ValueError(f"`{name}` must have shape {(n, 3)}, a row for each clump, got {shape}.")
            rates.append(jnp.broadcast_to(jnp.asarray(value, float), (n, 3)))
        state = BodyStates(x, rows(self._attitudes(rotations)), *rates)
        if not self.has_history:
            return state
        memory = self.spheres.start(jnp.zeros((self.spheres.n, 3)))
        contacts = jnp.zeros((n, CONTACT_OUTPUTS)) if self.spheres.contact_outputs else jnp.zeros(0)
        return GrainStates(*state, memory.whole, memory.accounts, memory.poses, contacts)

    def sphere_states(self, state: State) -> Any:
        """The state of the spheres as particles, in the order of the bodies."""
        x, q, v, omega = map(columns, state[:4])
        places, levers = self.members.places(PoseComponents(x, q)), self.members.levers(q)
        rates = self.members.rates(Rates(v, omega), levers)
        parts = BodyStates(rows(places.x), rows(places.q), rows(rates.v), rows(rates.omega))
        if not self.has_history:
            return parts
        empty = jnp.zeros((self.spheres.n, CONTACT_OUTPUTS) if self.spheres.contact_outputs else 0)
        return GrainStates(*parts, state[4], state[5], state[6], empty)

    def check(self, t: float, state: State) -> None:
        """Refuses overlaps of spheres of different bodies, or with walls, by more than 0.3 of the reach."""
        self.spheres.check(t, self.sphere_states(jax.tree.map(jnp.asarray, state)))

    # --- loads --------------------------------------------------------------------------------------------------------

    def surroundings(self, places: PoseComponents, rest: Rest, t: Any) -> Surroundings:
        if not self.has_history:
            return super().surroundings(places, rest, t)
        return self.spheres.surroundings(self.members.places(places), rest, t)

    def after_move(self, places: PoseComponents, rest: Rest, around: Surroundings, t: Any) -> tuple[Rest, Surroundings]:
        if not self.has_history:
            return rest, around
        return self.spheres.after_move(self.members.places(places), rest, around, t)

    def loads(self, places: PoseComponents, rest: Rest, around: Surroundings) -> Loads:
        """Gravity, which is all that acts without contacts."""
        del places, rest, around
        return Loads(tuple(self.masses * g for g in self.gravity), (jnp.zeros_like(self.masses),) * 3)

    def loads_after(self, motion: Motion, rest: Rest, around: Surroundings) -> tuple[Loads, Rest, Surroundings]:
        gravity = self.loads(motion.places, rest, around)
        if not self.has_history:
            return gravity, rest, around
        before = around.lists.sums
        members, levers = self.members.motion(motion, self.masses, self.inertias)
        total, poses, around = self.spheres.contact_sums(members, rest, around)
        zero = (jnp.zeros_like(self.spheres.masses),) * 3
        on_spheres = total.sums.add_to(Loads(zero, zero))
        force, moment = self.members.sum_loads(on_spheres, levers)
        loads = Loads(add(force, gravity.force), moment)
        accounts = self.spheres.accounts_after(
            members, rest[1], before, total, lambda: self._kick_energy(motion, loads) + self._drift_energy(motion)
        )
        contacts = rest[3]
        if self.spheres.contact_outputs:
            arms = (*(f * r for f in on_spheres.force for r in levers), jnp.zeros_like(zero[0]))
            contacts = rows(self.members.sum(add(total.tensor, arms)))
        return loads, (rest[0], accounts, poses, contacts), around

    def _kick_energy(self, motion: Motion, loads: Loads) -> Array:
        """Gain of kinetic energy in a step beyond the work of the loads at both ends along the velocities there:
        h²/8 (F₁²/m - F₀²/m), and the same of moments with the inertias at both ends."""
        if motion.start is None:
            return jnp.zeros_like(motion.h)
        J = columns(self.inertias)
        gain = jnp.zeros_like(motion.h)
        for sign, (force, moment), q in ((-1, motion.before, motion.start), (1, loads, motion.places.q)):
            turn = dot(moment, rate_of(J, q, moment))
            gain = gain + sign * jnp.sum(dot(force, force) / self.masses + turn)
        return 0.125 * motion.h**2 * gain

    def _drift_energy(self, motion: Motion) -> Array:
        """Change of rotational energy in a free rotation, which methods keep with their order only."""
        if motion.ends is None:
            return jnp.zeros_like(motion.h)
        first, last = (rates.omega for rates in motion.ends)
        spin = spin_of(columns(self.inertias), motion.places.q, last)
        return 0.5 * jnp.sum(dot(spin, subtract(last, first)))

    # --- outputs ------------------------------------------------------------------------------------------------------

    def energies(self, state: State) -> dict[str, Array]:
        """Energy by part: translation, rotation, gravity, and what contacts store."""
        height = sum(self.masses * g * a for g, a in zip(self.gravity, columns(state[0]), strict=True))
        stored = {name: state[5][k] for k, name in enumerate(self.spheres.stored_names)} if self.has_history else {}
        parts = {"translation": self.translational_energy(state), "rotation": self.rotational_energy(state)}
        return {**parts, "gravity": -jnp.sum(height), **stored}

    def dissipation(self, state: State) -> dict[str, Array]:
        """Energy that contacts dissipated since the start, by kind; see `Particles`. What finite steps do to the energy
        of free rotations is numerical, too."""
        first = len(self.spheres.stored_names)
        return {name: state[5][first + k] for k, name in enumerate(self.spheres.lost_names)} if self.has_history else {}

    def wall_work(self, state: State) -> Array:
        """Work that walls in motion did since the start."""
        return state[5][-1] if self.spheres.moving_walls else jnp.zeros(())

    def attitudes(self, state: State) -> Float[Array, "n 4"]:
        """Quaternions of the frames of the clumps."""
        return jax.vmap(lambda q, axes: S3().compose(q, S3().inverse(axes)))(state[1], self.axes)

    def sphere_positions(self, state: State) -> Float[Array, "m 3"]:
        """Centres of all spheres, in the order of the bodies."""
        return rows(self.members.places(PoseComponents(columns(state[0]), columns(state[1]))).x)

    def contact_network(self, state: State) -> ContactNetwork:
        """Pairs of spheres whose surfaces overlap in a state; `members.owners` has the numbers of their bodies."""
        return self.spheres.contact_network(self.sphere_states(jax.tree.map(jnp.asarray, state)))

    def potential_energy(self, state: State) -> Float[Array, ""]:
        kinetic = ("translation", "rotation")
        total: Any = sum(value for name, value in self.energies(state).items() if name not in kinetic)
        return total

    @property
    def kept_momenta(self) -> tuple[str, ...]:
        if self.spheres.walls or not (checks.is_concrete(self.gravity) and not np.any(np.asarray(self.gravity))):
            return ()
        return ("linear_momentum",) if self.spheres.repeats is not None else ("linear_momentum", "angular_momentum")

    def outputs(self) -> dict[str, Observable]:
        of = self.spheres
        observables: dict[str, Any] = {
            "positions": lambda t, s: s[0],
            "quaternions": lambda t, s: self.attitudes(s),
            "angular_velocities": lambda t, s: s[3],
            "sphere_positions": lambda t, s: self.sphere_positions(s),
            "energies": lambda t, s: self.energies(s),
            "linear_momentum": lambda t, s: self.linear_momentum(s),
            "angular_momentum": lambda t, s: self.angular_momentum(s),
        }
        if self.has_history:
            observables["dissipation"] = lambda t, s: self.dissipation(s)
        if of.moving_walls:
            observables["wall_work"] = lambda t, s: self.wall_work(s)
        if of.contact_outputs:
            observables["contact_counts"] = lambda t, s: s[7][:, 9]
            observables["force_moments"] = lambda t, s: s[7][:, :9].reshape(self.n, 3, 3)
        return observables

    def invariants(self) -> dict[str, Observable]:
        outputs, energy = self.outputs(), super().invariants()
        if self.has_history and self.spheres.lost_names:
            balance = lambda s: self.energy(s) + sum(self.dissipation(s).values()) - self.wall_work(s)  # noqa: E731
            energy = {"energy_balance": lambda t, s: balance(s)}
        return {**energy, **{name: outputs[name] for name in self.kept_momenta}}

    def breakpoints(self) -> tuple[float, ...]:
        return self.spheres.breakpoints()

    @property
    def picture(self) -> dict[str, Any] | None:
        """Spheres, with gravity downwards."""
        if not checks.is_concrete(self.spheres.diameters, self.gravity):
            return None
        g = np.asarray(self.gravity)
        up = -g / np.linalg.norm(g) if g.any() else np.array([0.0, 0.0, 1.0])
        diameters = np.asarray(self.spheres.diameters).tolist()
        cloud = {"name": "spheres", "rows": list(range(self.spheres.n)), "diameters": diameters, "colour": "#4477aa"}
        cloud["output"] = "sphere_positions"
        return {"up": up.tolist(), "bodies": [], "lines": [], "trails": [], "clouds": [cloud]}

    # --- stable steps -------------------------------------------------------------------------------------------------

    @property
    def has_stiff_forces(self) -> bool:
        return self.has_history

    def explicit_limit(self, t: float, state: State, h: float, share: float = 1.0) -> str:
        """Causes for which a step is too long: contacts and dashpots at the first speeds, on the longest levers."""
        if not self.has_history:
            return ""
        speed = lambda v: float(jnp.sqrt(jnp.max(jnp.sum(v * v, axis=1))))  # noqa: E731
        arm = float(jnp.max(jnp.sum(self.members.arms**2, axis=1))) ** 0.5
        radius, mass = 0.5 * float(jnp.max(self.spheres.diameters)), float(jnp.min(self.masses))
        least = float(jnp.min(self.inertias))
        # A force far from the centre of mass meets 1/m + arm²/J along the normal, and along the surface with its lever.
        light = mass / (1 + mass * arm**2 / least)
        lever = (1 + mass * (arm + radius) ** 2 / least) * light / mass - 1
        v, spin = jnp.asarray(state[2]), speed(jnp.asarray(state[3])) * arm
        speeds = 2 * (speed(v - jnp.mean(v, axis=0)) + spin), speed(v) + spin
        swing = float(self.spheres.law_rate("frequency", light, lever, speeds))
        rate = float(self.spheres.law_rate("damping_rate", light, lever, speeds))
        rate *= CROWD if self.spheres.n > 2 else 1.0
        limits = {
            f"Dashpots of contacts that stop the speeds of the start slow clumps down at up to {rate:.4g} per unit of "
            "time where many touch": 1 / rate if rate else np.inf,
            f"Contacts that stop the speeds of the start swing with up to {swing:.4g} per unit of time": (
                2 / swing if swing else np.inf
            ),
        }
        return limit_message(limits, h, share)


def _shapes(shapes: Clump | Sequence[Clump]) -> list[Clump]:
    choices = [shapes] if isinstance(shapes, Clump) else list(shapes) if np.iterable(shapes) else []
    if not choices or not all(isinstance(choice, Clump) for choice in choices):
        raise ValueError(f"`shapes` must be a `Clump` or a sequence of them, got {short_repr(shapes)}.")
    return choices


def _kinds(kinds: Any, n: int, count: int) -> np.ndarray:
    """The number of the shape of each body."""
    if kinds is None:
        if count > 1:
            raise ValueError(f"There are {count} shapes; `kinds` must say which each body has.")
        return np.zeros(n, int)
    numbers = checks.numbers("kinds", kinds, "the number of the shape of each clump")
    if numbers.shape != (n,) or np.any(numbers != np.floor(numbers)) or np.any((numbers < 0) | (numbers >= count)):
        raise ValueError(f"`kinds` must have shape ({n},) with numbers from 0 to {count - 1}, one for each clump.")
    return numbers.astype(int)


def _quaternion(R: np.ndarray) -> np.ndarray:
    """(w, x, y, z) of a rotation matrix."""
    return np.roll(scipy.spatial.transform.Rotation.from_matrix(R).as_quat(), 1)
