"""Audits: what a method promised to keep against what a run measured.

The rules, so that a verdict can be checked by hand; n is the number of steps, ε = 2.2e-16, and drift is the largest
absolute change of an invariant since the first frame, or a residual itself:

- "round-off" is kept while drift ≤ s·ε·(100 + 8n). Rounding errors of a step are a few units in the last place. They
  usually add up like √n, but on steady motions every step repeats the same error and they add up like n, so 8 units a
  step is the smallest allowance that is never wrong. A method that leaves a sphere by 1e-8 in less than five
  million steps is found out.
- "newton" is kept while a residual is ≤ 10·s·τ and the drift of an invariant ≤ s·τ·(10 + n), with the tolerance τ of
  the nonlinear solve: constraints are solved in each step, errors of invariants add up. The equations are solved
  at the ends of steps. Where `save_at` has times between, more than that is the error of interpolation there:
  the verdict is "between steps", unless frames that do lie on steps break the promise. The same
  goes for every promise of methods on Livens' principle, whose interpolation keeps nothing exactly.
- "bounded" is kept unless the drift exceeds the round-off allowance and one of three things happens. (a) *It wanders
  one way*: the run is cut into 16 blocks, the means of consecutive blocks always move in the same direction, and the
  whole move is larger than the half range within a typical block. A random walk, whose moves have random signs, is
  called broken less than once in a thousand runs, and so would be a bounded oscillation of which the run sees half a
  period or less: so where no component of the state crosses the middle of its range three times, by a tenth of that
  range, the verdict is "undecided" instead.
  (b) *It swings ever wider*: the range within a block grows from each block to the next and at least doubles.
  (c) *It explodes*: the last quarter is more than 20 times as far off as the first half.

Besides, everything that is audited is something that the exact motion keeps: so its drift says how accurate the run is,
whatever the method promises. The drift relative to a size is "accurate" up to 1e-3, "coarse" up to 1e-2 and "wrong"
beyond, and remarks say the last two in words. Drifts within the round-off allowance, if that is at most 1e-3 s, are
accurate in any case. The size is

- of energies, where the output kinetic_energy is reported and anything moves, the largest of the range of the kinetic
  energy, that of potential_energy, and 1 % of the largest kinetic energy. Where a potential has its zero makes no
  difference to these;
- of linear_momentum and angular_momentum, where the kinetic energy T is reported, the magnitude at the start or, if
  larger, 2T at the start over the largest magnitude in the first state: momenta of single bodies may cancel;
- of other invariants the magnitude at the start, but at least 10 % of the largest magnitude in the first state;
- of residuals s; and of what `meta["scales"]` names, what it says.

Invariants say nothing of errors along the surfaces that they define, such as a phase that lags.

The scale s is 1 for "manifold"; for other residuals the largest magnitude in the first state, or 1 where that is less
(joint coordinates at rest are 0); and for an energy the largest magnitude of its start and of the
outputs kinetic_energy and potential_energy, where these are reported and not zero; for other invariants the largest
magnitude that they start with, or where they start at zero (to 1e-6 of the largest magnitude in the state), what
residuals have. `meta["scales"]` (quantity → s) says better
where the state has mixed or unusual units.

Momenta of bodies that no joint ties to the ground, and the energy where loads do work, are rows as well: less the
impulse and the work of loads, integrated over the frames; what these leave uncertain doesn't count. The size of momenta
is then the largest of a single body and of the whole, relative to the centre of mass, and impulses count; that of the
energy includes the work. A remark names the body that turns fastest where it turns by more than 0.05 rad in a step and
momenta or energy are inaccurate.

Where bodies touch, the energy is balanced with what contacts have dissipated, and rows say how the laws of contact and
friction hold at the ends of steps: "friction_cone" and "sticking" (the path of points that stick) are imposed by the
equations of a step, and broken above 1e-8 of the largest normal force, or of the size of a body; "unsolved_steps" above
0. "contact_work" and "energy_rise" (gains from frame to frame), "penetration" and "complementarity" (gaps of points
that press in two frames in a row) are judged by accuracy alone.

Joints of a URDF that move faster than its velocity limits, which nothing keeps, are remarked on too.

What events have changed in an invariant, such as the energy at impacts, is taken out: drifts are those between them.
"""

from polhode.results.audit.table import Audit as Audit
from polhode.results.audit.table import Row as Row
from polhode.results.audit.verdicts import audit as audit
