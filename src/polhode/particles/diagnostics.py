"""Initial states, energies and stable steps of systems of spheres."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.compiler.cache.program_cache import xla_jit
from polhode.particles import bonds, contacts
from polhode.particles.bonds import Pair
from polhode.particles.interactions import CONTACT_OUTPUTS, OVERLAP, AbstractSphereInteractions
from polhode.particles.laws.contact_law import ContactLaw
from polhode.particles.laws.hooke import Hooke
from polhode.particles.wall_contacts import Course, courses
from polhode.particles.walls import POSE, MovingWall
from polhode.spaces.component_arrays import Vectors, columns, select
from polhode.systems.base import Observable, State
from polhode.systems.separable import Loads, Motion, PoseComponents
from polhode.time_functions import breakpoints_of

Rate = Literal["frequency", "damping_rate"]

CROWD = 3.0
"""Rate at which dashpots slow down a grain in a packing, over that of one contact."""


class ContactNetwork(NamedTuple):
    """Contacts of particles with each other.

    - `pairs`: numbers of both, shape (m, 2). - `overlaps`: of their surfaces, shape (m,). - `normals`: from the second
      to the first, shape (m, 3).
    """

    pairs: np.ndarray
    overlaps: np.ndarray
    normals: np.ndarray


def stress(force_moments: Any, inside: Any, volume: Any) -> np.ndarray:
    """Mean stress of a region after Love and Weber, Σ f ⊗ (point of contact - centre) / V; pressure is negative.

    **Arguments:**

    - `force_moments`: of all particles, shape (..., n, 3, 3), as `run.outputs["force_moments"]` has them.
    - `inside`: which of them are in the region, shape (n,), or the share of each that is. - `volume`: V.

    ??? cite "Reference"
        C. Goldhirsch, Stress, stress asymmetry and couple stress, Granular Matter 12 (2010).
    """
    share = checks.numbers("inside", np.asarray(inside, float), "share of each particle in the region")
    moments = np.asarray(force_moments)
    if moments.shape[-3:] != (*share.shape, 3, 3):
        raise ValueError(f"`force_moments` must have shape (..., {len(share)}, 3, 3), got {moments.shape}.")
    V = float(checks.positive("volume", volume, (), "of the region"))
    return np.einsum("n,...nij->...ij", share, moments) / V


class AbstractParticles(AbstractSphereInteractions):
    """A system of spheres with inputs and outputs in the order of the user, whatever the order of storage."""

    @abc.abstractmethod
    def to_storage_order(self, a: Array) -> Array:
        """A field of the particles in the order of states, from that of the user."""

    @property
    @abc.abstractmethod
    def intact(self) -> Array:
        """1 for each bond, in the order of states."""

    @abc.abstractmethod
    def of_particles(self, a: Array) -> Array:
        """A field of the particles of a state, in the order of the user."""

    @abc.abstractmethod
    def of_bonds(self, a: Array) -> Array:
        """A field of the bonds of a state, in the order of the user."""

    @abc.abstractmethod
    def user_number(self, which: int) -> int:
        """The user's number of a particle."""

    @property
    def noun(self) -> str:
        """The name of a particle in messages."""
        return "particle" if self.groups is None else "sphere"

    @property
    def state_hint(self) -> str:
        return "`system.start(positions, velocities, angular_velocities)` makes one."

    def start(self, positions: Any, velocities: Any = 0.0, angular_velocities: Any = 0.0, rotations: Any = None) -> Any:
        """An initial state; velocities have shape (n, 3), or (3,) for all, `rotations` are quaternions (n, 4)."""
        dtype, n = self.masses.dtype, self.n
        fields = (
            ("positions", positions, 3),
            ("velocities", velocities, 3),
            ("angular_velocities", angular_velocities, 3),
        )
        for name, value, width in (*fields, ("rotations", rotations, 4)):
            shapes = ((n, width),) if name in ("positions", "rotations") else ((n, 3), (3,), ())
            shape = () if value is None else checks.shape(name, value, "a row for each particle")
            if value is not None and shape not in shapes:
                raise ValueError(f"`{name}` must have shape {shapes[0]}, a row for each particle, got {shape}.")
        parts = [jnp.broadcast_to(jnp.asarray(a, dtype), (n, 3)) for a in (velocities, angular_velocities)]
        q = jnp.zeros((n, 4), dtype).at[:, 0].set(1) if rotations is None else jnp.asarray(rotations, dtype)
        whole = () if self.limits is None and not self.has_history else (self.intact,)
        accounts = ()
        if self.has_history:
            still = jnp.zeros(POSE, dtype).at[3].set(1)
            accounts = (
                jnp.zeros(len(self.stored_names) + len(self.flow_names), dtype),
                jnp.tile(still, self.moving_walls),
                jnp.zeros((n, CONTACT_OUTPUTS) if self.contact_outputs else 0, dtype),
            )
        places = map(self.to_storage_order, (jnp.asarray(positions, dtype), q, *parts))
        state = self.states(*places, *whole, *accounts)
        if "numerical" in self.lost_names and self.bonds:
            # Accounts have it without the energy of bonds, see `accounts_after`.
            k = len(self.stored_names) + self.lost_names.index("numerical")
            state = state._replace(accounts=state.accounts.at[k].set(sum(self._bond_energies(state))))
        return state

    def check(self, t: float, state: State) -> None:
        """Refuses overlaps with particles or walls by more than 0.3 of the reach, which would burst apart.

        Also refuses bonds without length, which have no direction.
        """
        if not checks.is_concrete(self, state):
            return
        x = jnp.asarray(state[0])
        active = self.active(columns(x), t)
        if self.release is not None:
            self._check_waiting(self.release, t, state)
        i, j = np.asarray(self.pairs).T
        # Bonds that fill up the blocks of devices have the same particle at both ends.
        away = np.stack(self.apart(columns(x[i]), columns(x[j])), axis=1)
        length = np.where(i == j, np.inf, np.linalg.norm(away, axis=1))
        if np.any(length == 0):
            raise ValueError(f"{self._both(*self.pairs[int(np.argmin(length))])} are bonded and at the same place.")
        if self.touches_bonded and self.bonds:
            depth = 1 - length / np.asarray(0.5 * jnp.sum(self.diameters[self.pairs], axis=1))
            self._refuse_overlap(depth, lambda k: f"{self._both(*self.pairs[k])}, whose bond doesn't keep them apart,")
        if self.touching:
            room = self.n if self.n < 64 else 4 * self.capacity
            depth, members = map(np.asarray, _overlaps(self, x, room, active))
            self._refuse_overlap(depth, lambda k: self._both(k % self.n, members.reshape(-1)[k]))
        ways: Sequence[Course | None] = (None,) * len(self.walls)
        if self.wall_law is not None:
            ways, _ = courses(self.walls, self._motion_at_rest(t, state), jnp.asarray(state[6]))
        for wall, way in zip(self.walls, ways, strict=True):
            points, law = self.wrap(columns(x)), self.wall_law or ContactLaw(Hooke(1.0))
            points = points if way is None else way.wall.local(way.start, points)
            memory = wall.start(law, self.n, x.dtype)
            there = True if active is None else active
            approaches = wall.meet(points, points, 0.5 * self.diameters, memory, there).approaches
            depth = np.concatenate([np.atleast_2d(np.asarray(1 - 2 * m.distance / self.diameters)) for m in approaches])
            names = self.noun.capitalize(), type(wall.at_rest).__name__
            which = lambda k, names=names: f"{names[0]} {self.user_number(k % self.n)} and a {names[1]}"  # noqa: E731
            self._refuse_overlap(depth, which)

    def _check_waiting(self, release: Array, t: float, state: State) -> None:
        waits = np.asarray(release > t)
        moves = waits & np.any(np.concatenate([np.asarray(part) for part in state[2:4]], axis=1) != 0, axis=1)
        if np.any(moves):
            first = int(np.argmax(moves))
            raise ValueError(
                f"Particle {first} is released at {float(release[first]):.4g}, after the start at {float(t):.4g}, "
                "and must wait at rest. Give it no velocity; to throw it in, let it fall from further up."
            )

    def _motion_at_rest(self, t: Any, state: State) -> Motion:
        """No motion at a state."""
        x, q, v, omega = (columns(jnp.asarray(part)) for part in state[:4])
        zero = (jnp.zeros_like(self.masses),) * 3
        return Motion(PoseComponents(x, q), v, omega, jnp.zeros((), x[0].dtype), Loads(zero, zero), jnp.asarray(t))

    def _both(self, i: Any, j: Any) -> str:
        return f"{self.noun.capitalize()}s {{}} and {{}}".format(*sorted(self.user_number(int(k)) for k in (i, j)))

    def _refuse_overlap(self, depth: np.ndarray, who: Callable[[int], str]) -> None:
        if not depth.size or not np.max(depth) > OVERLAP:
            return
        raise ValueError(
            f"{who(int(np.argmax(depth)))} overlap by {np.max(depth):.0%} of their reach at the start; there are "
            f"{np.count_nonzero(np.any(np.atleast_2d(depth) > OVERLAP, axis=0))} overlaps of more than 30 %, which "
            f"would burst apart. Move {self.noun}s, or make them smaller."
        )

    # --- outputs ------------------------------------------------------------------------------------------------------

    def energies(self, state: State) -> dict[str, Array]:
        """Energy by part: translation, rotation, bending, axial, shear, contact, wall, gravity.

        That of contacts is NaN for states in which more than `capacity` particles touch one, from which no run starts.
        """
        x = columns(state[0])
        bending, axial, shear = self._bond_energies(state)
        stored = self._accounts(state, self.stored_names, 0)
        height = sum(self.masses * g * a for g, a in zip(self.gravity, x, strict=True))
        return {
            "translation": self.translational_energy(state),
            "rotation": self.rotational_energy(state),
            "bending": bending,
            "axial": axial,
            "shear": shear,
            "contact": self._contact_energy(x, state) if self.law is None else stored["contact"],
            "wall": self._wall_energy(x) if self.wall_law is None else stored["wall"],
            "gravity": -jnp.sum(height),
            **{name: value for name, value in stored.items() if name not in ("contact", "wall")},
        }

    def _bond_energies(self, state: State) -> tuple[Array, ...]:
        """Of bending, stretching and shear."""
        x, q = columns(state[0]), columns(state[1])
        i, j = self.pairs[:, 0], self.pairs[:, 1]
        d = self.apart(select(x, i), select(x, j))
        parts = bonds.energies(self.shear, self.per_bond, Pair(d, select(q, i), select(q, j), 1.0))
        whole = state[4] if len(state) > 4 else 1.0
        return tuple(jnp.sum(whole * part) for part in parts)

    def _accounts(self, state: State, names: tuple[str, ...], first: int) -> dict[str, Array]:
        return {name: state[5][first + k] for k, name in enumerate(names)}

    def dissipation(self, state: State) -> dict[str, Array]:
        """Energy that contacts with history dissipated since the start, by kind: damping, cohesion, sliding, rolling,
        twisting, breaking of bonds, as far as there are any; and numerical, what steps of finite length do to the
        energy of contacts, of either sign."""
        lost = self._accounts(state, self.lost_names, len(self.stored_names))
        if "numerical" in lost and self.bonds:
            lost["numerical"] = lost["numerical"] - sum(self._bond_energies(state))
        return lost

    def wall_work(self, state: State) -> Array:
        """Work that walls in motion did since the start."""
        return state[5][-1] if self.moving_walls else jnp.zeros((), self.masses.dtype)

    def contact_network(self, state: State, t: Any = None) -> ContactNetwork:
        """Pairs of particles whose surfaces overlap in a state, each once, in order of their numbers.

        `t`: the time of the state, which is needed if particles wait for their `release`. Raises ValueError without.
        """
        x = columns(jnp.asarray(state[0]))
        if self.release is not None and t is None:
            raise ValueError("Which particles have been released depends on time. Give `t`, the time of the state.")
        room = self.n if self.n < 64 else 4 * self.capacity
        lists, code = self.search(x, room, active=self.active(x, t))
        if int(code):
            raise ValueError("More particles touch one than there is room for. Build the system with more `capacity`.")
        members = np.asarray(lists.members)
        one = np.broadcast_to(np.arange(self.n), members.shape)
        first = one < members
        pairs = np.stack((one[first], members[first]), axis=1)
        pairs = pairs[np.lexsort(pairs.T[::-1])]
        ends = (columns(jnp.asarray(state[0])[pairs[:, k]]) for k in range(2))
        d = np.stack(self.apart(*ends), axis=1).reshape(-1, 3)
        length = np.linalg.norm(d, axis=1)
        overlap = np.asarray(self.diameters)[pairs].mean(axis=1) - length
        touch = overlap > 0
        return ContactNetwork(pairs[touch], overlap[touch], d[touch] / length[touch, None])

    def _contact_energy(self, x: Vectors, state: State) -> Array:
        total = jnp.zeros((), self.masses.dtype)
        if self.touching:
            # Without the skin: the lists of a run have room for all particles in contact.
            lists, code = self.search(x, self.capacity)
            delta = contacts.overlap(self.apart(x, select(x, lists.members)), self.reach(lists.members))[0]
            energy = 0.5 * jnp.sum(contacts.hertz_energy(self.contact, delta))
            total = jnp.where(code == 0, energy, jnp.nan)
        if self.touches_bonded:
            reach = 0.5 * (self.diameters[self.pairs[:, 0]] + self.diameters[self.pairs[:, 1]])
            d = self.apart(*(select(x, self.pairs[:, k]) for k in range(2)))
            energy = contacts.hertz_energy(self.contact, contacts.overlap(d, reach)[0])
            whole = state[4] if len(state) > 4 else 1.0
            total = total + jnp.sum(energy if self.bonded_contacts else (1 - whole) * energy)
        return total

    def _wall_energy(self, x: Vectors) -> Array:
        total = jnp.zeros((), self.masses.dtype)
        for distance, _ in self.faces(x):
            delta = jnp.maximum(1 - 2 * distance / self.diameters, 0.0)
            total = total + jnp.sum(contacts.hertz_energy(self.wall_contact, delta))
        return total

    def potential_energy(self, state: State) -> Float[Array, ""]:
        kinetic = ("translation", "rotation")
        total: Any = sum(value for name, value in self.energies(state).items() if name not in kinetic)
        return total

    @property
    def conservative(self) -> bool:
        """Whether nothing is damped and nothing breaks."""
        return not self.damped and self.limits is None and not self.lost_names and not self.moving_walls

    @property
    def kept_momenta(self) -> tuple[str, ...]:
        if not self.free:
            return ()
        if self.repeats is not None:
            # Levers over the period make angular momentum depend on the choice of images.
            return ("linear_momentum",)
        return ("linear_momentum", "spin" if self.shear == "literal" else "angular_momentum")

    def outputs(self) -> dict[str, Observable]:
        observables: dict[str, Any] = {
            "positions": lambda t, s: self.of_particles(s[0]),
            "angular_velocities": lambda t, s: self.of_particles(s[3]),
            "energies": lambda t, s: self.energies(s),
            "linear_momentum": lambda t, s: self.linear_momentum(s),
            "spin": lambda t, s: self.spin(s),
            "angular_momentum": lambda t, s: self.angular_momentum(s),
        }
        if self.has_history:
            observables["dissipation"] = lambda t, s: self.dissipation(s)
        if self.moving_walls:
            observables["wall_work"] = lambda t, s: self.wall_work(s)
        if self.contact_outputs:
            observables["contact_counts"] = lambda t, s: s[7][:, 9]
            observables["force_moments"] = lambda t, s: s[7][:, :9].reshape(self.n, 3, 3)
        return observables if self.limits is None else {**observables, "whole": lambda t, s: self.of_bonds(s[4])}

    def breakpoints(self) -> tuple[float, ...]:
        return breakpoints_of(*(wall for wall in self.walls if isinstance(wall, MovingWall)))

    @property
    def picture(self) -> dict[str, Any] | None:
        """Spheres, with gravity downwards."""
        if not checks.is_concrete(self.diameters, self.gravity):
            return None
        g = np.asarray(self.gravity, float)
        up = -g / np.linalg.norm(g) if g.any() else np.array([0.0, 0.0, 1.0])
        diameters = np.asarray(self.of_particles(self.diameters), float).tolist()
        cloud = {"name": "particles", "rows": list(range(self.n)), "diameters": diameters, "colour": "#4477aa"}
        return {"up": up.tolist(), "bodies": [], "lines": [], "trails": [], "clouds": [cloud]}

    def invariants(self) -> dict[str, Observable]:
        energy = super().invariants() if self.conservative else {}
        outputs = self.outputs()
        if self.has_history and self.lost_names and not self.damped:
            balance = lambda s: self.energy(s) + sum(self.dissipation(s).values()) - self.wall_work(s)  # noqa: E731
            energy = {"energy_balance": lambda t, s: balance(s)}
        return {**energy, **{name: outputs[name] for name in self.kept_momenta}}

    # --- stable steps -----------------------------------------------------------------------------------------------

    @property
    def has_stiff_forces(self) -> bool:
        return self.bonds > 0 or self.touching or bool(self.walls) or self.damped

    def frequency(self) -> Float[Array, ""]:
        """An upper bound of the frequencies of stretching and bending at rest, in radians per unit of time."""
        k, has_bond = self.constants, self.slots.sign != 0
        axial = jnp.max(2 * jnp.sum(has_bond * k.axial / k.length**2, axis=0) / self.masses, initial=0.0)
        bending = jnp.max(2 * jnp.sum(has_bond * k.bending, axis=0) / self.inertias, initial=0.0)
        return jnp.sqrt(jnp.maximum(axial, bending))

    def contact_frequency(self, velocities: Any) -> Float[Array, ""]:
        """Frequency of contacts at the depth where they stop the fastest of these velocities, shape (n, 3)."""
        v = jnp.asarray(velocities)
        speed = lambda v: jnp.sqrt(jnp.max(jnp.sum(v * v, axis=1)))  # noqa: E731
        m, D = jnp.min(self.masses), jnp.min(self.diameters)

        def hertz(K: Array, mass: Array, speed: Array, reach: Array) -> Array:
            depth = (1.25 * mass * speed**2 / jnp.where(K > 0, K, 1.0)) ** 0.4
            return jnp.sqrt(1.5 * K * jnp.sqrt(depth) / mass) / reach

        if self.has_history:
            return self._of_laws(v, "frequency")
        pairs = hertz(self.contact, 0.5 * m, 2 * speed(v - jnp.mean(v, axis=0)), D) if self.n > 1 else jnp.zeros(())
        return jnp.maximum(pairs, hertz(self.wall_contact, m, speed(v), 0.5 * D)) if self.walls else pairs

    def _of_laws(self, v: Array, rate: Rate) -> Array:
        """The largest frequency or damping rate of a contact that stops the fastest of these velocities."""
        speed = lambda v: jnp.sqrt(jnp.max(jnp.sum(v * v, axis=1)))  # noqa: E731
        lever = jnp.max(self.masses * (0.5 * self.diameters) ** 2 / self.inertias)
        speeds = 2 * speed(v - jnp.mean(v, axis=0)), speed(v)
        return self.law_rate(rate, jnp.min(self.masses), lever, speeds)

    def law_rate(self, rate: Rate, mass: Any, lever: Any, speeds: tuple[Any, Any]) -> Array:
        """The largest frequency or damping rate of contacts that stop these speeds, of particles and at walls, for
        bodies of this mass; `lever`: m r²/J."""
        largest = jnp.zeros(())
        if self.law is not None and self.n > 1:
            largest = getattr(self.law, rate)(0.5 * mass, lever, 0.25 * jnp.max(self.diameters), speeds[0])
        if self.wall_law is not None:
            at_wall = getattr(self.wall_law, rate)(mass, lever, 0.5 * jnp.max(self.diameters), speeds[1])
            largest = jnp.maximum(largest, at_wall)
        return largest

    def damping_rate(self) -> Float[Array, ""]:
        """An upper bound of the rates at which dampers of bonds and one contact slow particles down."""
        rates = [jnp.zeros(())]
        if self.dampers is not None:
            has_bond = self.slots.sign != 0
            over = zip(self.dampers, (self.masses, self.inertias), strict=True)
            rates += [jnp.max(2 * jnp.sum(has_bond * c, axis=0) / inertia, initial=0.0) for c, inertia in over]
        if self.contact_damping is not None:
            rates.append(2 * self.contact_damping / jnp.min(self.masses))
        return jnp.max(jnp.stack(rates))

    def explicit_limit(self, t: float, state: State, h: float, share: float = 1.0) -> str:
        bonds, contacts, rate = map(float, (self.frequency(), self.contact_frequency(state[2]), self.damping_rate()))
        dashpots = float(self._of_laws(jnp.asarray(state[2]), "damping_rate")) if self.has_history else 0.0
        # Dashpots see velocities predicted by the loads before, which needs h below 1 over the rate; in a packing the
        # rates of neighbours add up, to about three times that of one contact.
        dashpots *= CROWD if self.n > 2 else 1.0
        limits = {
            f"Dashpots of contacts that stop the speeds of the start slow grains down at up to {dashpots:.4g} per unit "
            "of time where many touch": 1 / dashpots if dashpots else np.inf,
            f"The stiffest bonds swing with up to {bonds:.4g} per unit of time": 2 / bonds if bonds else np.inf,
            f"Contacts that stop the speeds of the start swing with up to {contacts:.4g} per unit of time": (
                2 / contacts if contacts else np.inf
            ),
            f"Dampers slow particles down at up to {rate:.4g} per unit of time": 4 / rate if rate else np.inf,
        }
        return limit_message(limits, h, share)


def limit_message(limits: dict[str, float], h: float, share: float) -> str:
    """Causes that are too fast for a step, by the limits of steps for each; empty if none is."""
    cause, limit = min(limits.items(), key=lambda item: item[1])
    if abs(h) <= share * limit:
        return ""
    return (
        f"{cause}, so that explicit methods need steps below {limit:.3g}; h = {abs(h):.4g}. Take half of that "
        "limit or less."
    )


@xla_jit
def _overlaps(system: AbstractParticles, positions: Array, room: int, active: Array | None) -> tuple[Array, Array]:
    """δ of every particle with up to `room` others, shape (room, n), and their numbers."""
    x = columns(positions)
    members = system.search(x, room, active=active)[0].members
    d = system.apart(x, select(x, members))
    depth = contacts.overlap(d, system.reach(members))[0]
    # Contacts at one place have no direction and no force.
    together = (d[0] == 0) & (d[1] == 0) & (d[2] == 0) & (members != jnp.arange(system.n))
    return jnp.where(together, 1.0, depth), members
