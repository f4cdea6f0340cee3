"""Interface that header and source of exported code share: names, structs and declarations of functions."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, NamedTuple

from polhode.code_export.exported_step import ExportedStep
from polhode.code_export.structs import Member, members_of, named_members
from polhode.systems.mechanical import AbstractMechanical

_OTHER = re.compile(r"[^\w .,:;+()-]")
"""Characters that would end a comment or a string in C, or mean something else there."""


@dataclasses.dataclass(frozen=True, eq=False)
class Interface:
    """Names, structs and functions of exported code.

    - `name`: what all names begin with. - `problem`: the name of the problem, fit for comments and strings.
    - `parameters`, `inputs`, `outputs`, `state`, `carry`: members of the structs.
    - `restarts`: whether there are functions that rebuild what the method remembers.
    - `derivatives`: those of a step that there are.
    """

    name: str
    problem: str
    parameters: list[Member]
    inputs: list[Member]
    outputs: list[Member]
    state: list[Any]
    carry: list[Any]
    restarts: bool
    derivatives: tuple[str, ...]

    @classmethod
    def of(cls, step: ExportedStep, name: str, problem: str) -> Interface:
        parameters, inputs = (
            named_members(names, values)
            for names, values in zip((step.free.parameters, step.free.inputs), step.free.defaults, strict=True)
        )
        observed = step.observe.program.out_shape
        outputs = named_members([*observed], [*observed.values()])
        state, carry = _carry_members(step, name)
        # Names come from files, too, and this one is part of a comment and of a string.
        text = _OTHER.sub("_", problem)
        return cls(
            name, text, parameters, inputs, outputs, state, carry, step.restart is not None, tuple(step.derivatives)
        )

    @property
    def free(self) -> list[tuple[str, list[Member]]]:
        """Names and members of the structs of free numbers; those without members don't exist."""
        every = ("parameters", self.parameters), ("inputs", self.inputs)
        return [(what, members) for what, members in every if members]

    @property
    def pointers(self) -> list[str]:
        """Names of the arguments that all functions begin with."""
        return [what for what, _ in self.free]

    @property
    def arguments(self) -> list[str]:
        """Their declarations."""
        return [f"const {self.name}_{what} *{what}" for what in self.pointers]

    @property
    def structs(self) -> list[tuple[str, list[Any]]]:
        """Names and members of all structs, those before others that these contain."""
        return [("state", self.state), ("carry", self.carry), *self.free, ("outputs", self.outputs)]

    @property
    def signatures(self) -> dict[str, str]:
        """Declarations of the functions, by what they do."""
        n = self.name
        join, state = lambda *last: ", ".join((*self.arguments, *last)), f"const {n}_state *state"
        restarts = {
            "jump": f"void {n}_jump({join(f'{n}_carry *carry')})",
            "resize": f"void {n}_resize({join('double h', f'{n}_carry *carry')})",
        }
        return {
            "start": f"int32_t {n}_start({join('double t0', f'{n}_carry *carry')})",
            "start_from": f"int32_t {n}_start_from({join('double t0', state, f'{n}_carry *carry')})",
            "step": f"int32_t {n}_step({join(f'{n}_carry *carry')})",
            **(restarts if self.restarts else {}),
            **{key: text for key, text in self._derivatives.items() if key in self.derivatives},
            "read": f"void {n}_read({join(f'const {n}_carry *carry', f'{n}_outputs *outputs')})",
            "about": f"const char *{n}_about(void)",
            "hash": f"uint64_t {n}_model_hash(void)",
        }

    @property
    def _derivatives(self) -> dict[str, str]:
        """Declarations of the derivatives of a step."""
        n, now = self.name, (*self.arguments, f"const {self.name}_carry *carry")
        changes = [f"const {n}_{what} *d_{what}" for what in self.pointers]
        gradients = [f"{n}_{what} *d_{what}" for what in self.pointers]
        along = (*now, *changes, f"const {n}_carry *d_carry", f"{n}_carry *d_next")
        back = (*now, f"const {n}_carry *d_next", *gradients, f"{n}_carry *d_carry")
        return {
            "along": f"void {n}_step_along({', '.join(along)})",
            "back": f"void {n}_step_back({', '.join(back)})",
        }


class StructMember(NamedTuple):
    """A member that is a struct; its type begins with the name of the library."""

    name: str
    type: str

    @property
    def declaration(self) -> str:
        return f"{self.type} {self.name};"


def _carry_members(step: ExportedStep, name: str) -> tuple[list[Any], list[Any]]:
    """Members of the state and of all that is kept between steps, in the order of their slots."""
    p, parts = step.begin.progress, []
    state = p.carry.state
    run = step.task.run_system
    # A first-order system has the states of the mechanical one that it is made of.
    same = run.source if run.conversion.back is None else run.system
    is_pair = isinstance(same, AbstractMechanical) and isinstance(state, tuple)
    state_tree = dict(zip(("q", "v"), state, strict=True)) if is_pair and len(state) == 2 else state
    grid = ("t0", step.begin.t0), ("spacing", step.begin.spacing)
    for prefix, tree in (*grid, ("n", p.n), ("t", p.t), ("h", p.h)):
        parts += members_of(prefix, tree)
    inside = members_of("" if is_pair or not isinstance(state, tuple) else "x", state_tree)
    parts.append(StructMember("state", f"{name}_state"))
    rest = ("memory", p.carry.memory), ("multipliers", p.carry.multipliers), ("rejected", p.rejected)
    for prefix, tree in (*rest, ("newton", p.newton), ("error", p.error), ("result", p.result), ("events", p.events)):
        parts += members_of(prefix, tree)
    return inside, parts
