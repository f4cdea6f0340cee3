"""Which shapes of a model touch, by the numbers of its rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Int

from polhode.assembly.contacts import joint_pairs, shapes_of
from polhode.contact.shapes import AbstractShape
from polhode.multibody.bodies import Body

if TYPE_CHECKING:
    from polhode.multibody.parts import ModelParts


class RuleTable(NamedTuple):
    """Shapes of a model with their bodies, and the number of the last rule that names two of them, -1 for none."""

    shapes: list[tuple[Body, AbstractShape]]
    rules: Int[np.ndarray, "s s"]

    @classmethod
    def of(cls, model: ModelParts) -> RuleTable:
        """The table of a model."""
        bodies = [body for body in (model.ground, *model.bodies) if body.shapes]
        shapes = [(body, shape) for body in bodies for shape in body.shapes]
        place = {(id(body), id(shape)): k for k, (body, shape) in enumerate(shapes)}
        owner = np.array([id(body) for body, _ in shapes])
        rules = np.full((len(shapes),) * 2, -1, np.int32)
        joined = joint_pairs(model)
        of_body: dict[int, np.ndarray] = {number: np.flatnonzero(owner == number) for number in set(owner.tolist())}
        for number, rule in enumerate(model.contact_rules):
            if rule.of_rods:
                continue
            if rule.first is not None:
                first, second = (
                    [place[id(b), id(s)] for b, s in shapes_of(model, end)] for end in (rule.first, rule.second)
                )
                rules[np.ix_(first, second)] = rules[np.ix_(second, first)] = number
                continue
            every = owner[:, None] != owner[None, :]
            for pair in [frozenset((id(a), id(b))) for a, b in rule.without] + list(joined):
                one, other = (of_body.get(end, np.zeros(0, int)) for end in (*pair, *pair)[:2])
                every[np.ix_(one, other)] = every[np.ix_(other, one)] = False
            rules[every] = number
        return cls(shapes, rules)

    def with_law(self, model: ModelParts, law: str) -> np.ndarray:
        """Which shapes touch by rules with a law, shape (s, s)."""
        laws = np.array([rule.law == law for rule in model.contact_rules] + [False])
        return laws[self.rules]


def has_rigid_contacts(model: ModelParts) -> bool:
    """Whether some shapes touch by unilateral laws."""
    if not any(rule.law == "rigid" for rule in model.contact_rules):
        return False
    return bool(np.any(RuleTable.of(model).with_law(model, "rigid")))
