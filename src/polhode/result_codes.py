"""Result codes of a run: what happened, the usual cause, and what to try."""

from __future__ import annotations

import enum


class Result(enum.IntEnum):
    """Outcome of a step or a run. `Result(code).message` explains it; `successful` is the only good one."""

    successful = 0
    nonfinite_state = 1
    max_steps_reached = 2
    step_too_small = 3
    newton_not_converged = 4
    singular_constraints = 5
    interrupted = 6
    store_failed = 7
    unexpected_error = 8
    turn_too_large = 9
    too_many_neighbours = 10
    lost_particles = 11
    joints_open = 12
    event_reached = 13
    events_accumulate = 14
    half_turn_passed = 15
    contact_unsolved = 16
    too_many_contacts = 17
    contact_modes_unsettled = 18
    invalid_friction = 19
    contact_missed = 20
    inlet_blocked = 21

    @property
    def message(self) -> str:
        return _MESSAGES[self]

    # Without these, enumerations of integers print as numbers.
    def __str__(self) -> str:
        return self.name

    def __format__(self, spec: str) -> str:
        return format(self.name, spec)


_MESSAGES = {
    Result.successful: "The run reached the end of its span.",
    Result.nonfinite_state: (
        "The state became infinite or NaN. Usual causes: a step too large for the stiffness or the speed of the "
        "system, or a singular force. Try a step ten times smaller, or control by `rtol` with a method that "
        "estimates its error."
    ),
    Result.max_steps_reached: (
        "The run needed more steps than `max_steps`. Raise `max_steps`, loosen `rtol` and `atol`, or use a method of "
        "higher order."
    ),
    Result.step_too_small: (
        "Error control asked for a step below the resolution of time. Usual causes: a singularity of the force, "
        "discontinuous right-hand sides, or tolerances below round-off. Loosen `rtol` and `atol` or check the model."
    ),
    Result.newton_not_converged: (
        "Newton's method did not converge. Usual causes: step too large, inconsistent initial state, redundant "
        "constraints. First try half the step."
    ),
    Result.singular_constraints: (
        "The equations of a step are singular: constraints are redundant or in a singular configuration, or neither "
        "mass nor forces fix some coordinate."
    ),
    Result.interrupted: "The run was interrupted; everything computed so far is kept.",
    Result.store_failed: "The store could not be written; everything computed so far is kept in memory.",
    Result.turn_too_large: (
        "A body turns too fast for this map, which needs h|Ω| < 1. Take a smaller step, or map='25', which takes any."
    ),
    Result.too_many_neighbours: (
        "A particle has more neighbours than there is room for. Build the system with a larger `capacity`; if "
        "particles overlap deeply, they move too far in a step: take a smaller one, or stiffer contacts."
    ),
    Result.lost_particles: (
        "Particles are so far from each other that cells of the size of a particle can't be numbered any more: some "
        "have been thrown out. Usual causes: overlapping starts, a step above the stability limit, walls with holes."
    ),
    Result.joints_open: (
        "Constraints that were left out because they followed from others have opened, so they did not follow. Usual "
        "causes: drives that contradict each other, a singular position that the mechanism leaves another way, or a "
        "step too large. Try a smaller step, or take a part of what opens out of the model."
    ),
    Result.event_reached: "A terminal event ended the run before the end of its span; `solution.events` has it.",
    Result.events_accumulate: (
        "Events follow each other faster than time can tell apart, or there are `max_events` of them. Usual cause: "
        "impacts that come to rest. Make an impact below some speed terminal, or let its `change` of the system hold "
        "what rests. If there are so many events, raise `max_events`."
    ),
    Result.half_turn_passed: (
        "An angle that forces or couplings read changes by more than half a turn in a step, in which they read it "
        "within half a turn of where the step starts. Take a smaller step, or joint coordinates, "
        '`formulation="minimal"`, where the joints that carry bodies have angles without such a limit.'
    ),
    Result.contact_unsolved: (
        "No solution of the laws of contact and friction in a step was found. Usual causes: shapes that overlap at the "
        "start, a body that is wedged so that friction locks it (Painlevé's region), very different masses in contact. "
        "Try a smaller step, or less friction there."
    ),
    Result.contact_missed: (
        "Shapes passed through each other, as they go farther in a step than they are thick. Take a step of their "
        "thickness over their speed, or `rkmk54` with `rtol`, which locates impacts of a few bodies."
    ),
    Result.too_many_contacts: (
        "More points touch than there is room for. Make room by `model.limit_contacts(…)` before `problem`; if shapes "
        "overlap deeply, take a smaller step."
    ),
    Result.contact_modes_unsettled: (
        "Contacts changed their modes again and again at one instant: none of open, sticking and sliding lasted. Usual "
        "cause: forces that jump, or friction that locks and frees a contact in turn. Take `moreau`, whose steps "
        "balance impulses and hold no modes."
    ),
    Result.invalid_friction: (
        "The largest friction of a joint, a function of time such as that of a brake or a clutch, is negative or no "
        "number within this step. Let it be zero where nothing brakes, as by `jnp.maximum(…, 0)`."
    ),
    Result.inlet_blocked: (
        "A particle was to be released where another one is. Leave more time between those that wait at one place, or "
        "spread them over a larger inlet."
    ),
    Result.unexpected_error: "An unforeseen error ended the run; everything computed so far is kept.",
}


TIMES = ("problem_time_s", "build_time_s", "compile_time_s", "wall_time_s")
"""Names of the times in `stats`, in their order."""
