"""Explicit methods between impacts: contacts keep their modes within a step, and runs locate where these change."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.contact.contact_problem import slip_rows
from polhode.contact.held_contacts import Balance, HeldContacts
from polhode.integrators.base import AbstractIntegrator, Carry, StepInfo
from polhode.integrators.nonsmooth.contact_record import ContactRecord, contacts_of, size_of
from polhode.spaces.linear import Rn
from polhode.spaces.products import product
from polhode.systems.base import State
from polhode.systems.mechanical import AbstractMechanical
from polhode.systems.vector_field import VectorField

MOST_ROWS = 24
"""Rows of contacts whose modes are held at most: every stage of a step solves for the forces of all of them, and
programs for twice as many take minutes to compile."""


class _Memory(NamedTuple):
    """The memory of the explicit method, and the energy that contacts have taken by sliding and by rolling."""

    inner: Any
    work: Float[Array, " two_k"]


class LocatedContacts(AbstractIntegrator):
    r"""An explicit method for systems with contacts, whose modes stay as they are within a step.

    Accelerations are those of `HeldContacts`: closed contacts and sticking ones are constraints on accelerations,
    friction of sliding ones is in the equations. At the end of a step its state is moved to where closed gaps and
    joints are closed, and what sticks is at rest. `simulate` ends steps where a gap closes, a normal force vanishes,
    a contact begins to slide or stops sliding; there impacts are solved, and new modes begin.

    - Order: that of the method, for energies that contacts take as well; also across impacts, whose instants are
      located. Accumulating impacts end where the next flight would be shorter than 1e-7.
    - Preserves: the space, joints and closed gaps to round-off, and what sticks.
    - Result codes: `contact_unsolved`, `contact_modes_unsettled`.

    **Arguments:**

    - `method`: the explicit method.
    """

    kinds: ClassVar = (AbstractMechanical,)
    promises: ClassVar = {"manifold": "round-off", "position": "newton", "velocity": "newton"}
    promises_at_steps: ClassVar = True
    takes_contacts: ClassVar = True
    takes_holds: ClassVar = True
    takes_grips: ClassVar = True
    needs_contacts: ClassVar = True
    locates_contacts: ClassVar = True

    method: AbstractIntegrator

    @property
    def one_step(self) -> bool:
        return self.method.one_step

    @property
    def plain(self) -> AbstractIntegrator:
        return self.method

    @property
    def order(self) -> int:
        return self.method.order

    @property
    def error_order(self) -> int | None:
        return self.method.error_order

    @property
    def evaluations(self) -> int:
        return self.method.evaluations + 1

    @property
    def interpolation_order(self) -> int:
        return self.method.interpolation_order

    def newton_tolerance(self, h: float | None) -> float:
        del h
        return 1e-12

    def check(self, system: AbstractMechanical, t: Any, state: State) -> None:
        """Raises ValueError for more contacts than modes are held of."""
        del t, state
        contacts = contacts_of(system)
        if contacts.capacity < contacts.count or contacts.count * contacts.law.rows > MOST_ROWS:
            raise ValueError(
                "Explicit methods hold the modes of all contacts within their steps, of up to "
                f"{MOST_ROWS // contacts.law.rows} points, and {contacts.count} points of this system may touch, stops "
                "and dry friction of joints counted as one for each coordinate. Take "
                "`moreau` for so many."
            )

    def init(self, system: AbstractMechanical, t: Array, h: Array, state: State) -> Carry:
        k, _ = size_of(system)
        return self._begin(HeldContacts.of(system), t, h, state, jnp.zeros(2 * k))

    def restart(self, system: HeldContacts, t: Array, h: Array, carry: Carry) -> Carry:
        return self._begin(system, t, h, carry.state, carry.memory.work)

    def step(self, system: HeldContacts, t: Array, h: Array, carry: Carry) -> tuple[Carry, StepInfo]:
        new, info = self.method.step(_field(system), t, h, _inner(carry))
        (q, v), work = new.state
        left = self._begin(system, t + h, h, system.close(t + h, q, v), work)
        error = None if info.error is None else info.error[: system.state_space.dim]
        return left, info._replace(error=error)

    def _begin(self, system: HeldContacts, t: Array, h: Array, state: State, work: Float[Array, " two_k"]) -> Carry:
        """The carry at a state, with the record of its contacts."""
        memory = self.method.init(_field(system), t, h, (state, work)).memory
        return Carry(state, _Memory(memory, work), self._record(system, t, state, work))

    def _record(self, system: HeldContacts, t: Array, state: State, work: Float[Array, " two_k"]) -> Array:
        """Multipliers of joints and the record of contacts in a state."""
        balance = system.balance(t, *state)
        taken = system.losses.at[:, 1:].add(work.reshape(-1, 2))
        return ContactRecord(balance.forces, balance.slips, taken).pack(balance.joints)

    def interpolate(self, system: HeldContacts, t: Array, h: Array, carry0: Carry, carry1: Carry, s: Array) -> State:
        return self._within(system, t, h, carry0, carry1, s)[0]

    def multipliers_within(
        self, system: HeldContacts, t: Array, h: Array, carry0: Carry, carry1: Carry, s: Array
    ) -> Array:
        """Those of the state there: steps are long, and slips and forces change in them."""
        state, work = self._within(system, t, h, carry0, carry1, s)
        return self._record(system, t + s * h, state, work)

    def _within(
        self, system: HeldContacts, t: Array, h: Array, carry0: Carry, carry1: Carry, s: Array
    ) -> tuple[State, Float[Array, " two_k"]]:
        """The state within a step, and the energy that contacts have taken."""
        return self.method.interpolate(_field(system), t, h, _inner(carry0), _inner(carry1), s)


class _Motion(eqx.Module):
    """The velocity of the state, and the powers with which sliding and rolling take energy, of each contact."""

    system: HeldContacts

    def __call__(self, t: Array, point: tuple[State, Array]) -> Array:
        (q, v), _ = point
        balance: Balance = self.system.balance(t, q, v)
        taken = -balance.forces * balance.slips
        along = slip_rows(taken.shape[1])
        powers = jnp.stack((jnp.sum(taken[:, along], axis=1), jnp.sum(taken[:, along.stop :], axis=1)), axis=1)
        return jnp.concatenate((self.system.kinematics(q, v), balance.accelerations, powers.reshape(-1)))


def _field(system: HeldContacts) -> VectorField:
    k, _ = size_of(system)
    return VectorField(product(system.state_space, Rn(2 * k)), _Motion(system))


def _inner(carry: Carry) -> Carry:
    """The carry as the explicit method has it."""
    return Carry((carry.state, carry.memory.work), carry.memory.inner)
