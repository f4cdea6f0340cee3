"""Largest sizes of programs for each back end, with the measurements behind them.

Operations are those of single numbers, in loops counted once; times are those of one core of a shared server.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

MACHINE_CODE = 600_000
"""Operations above which a program stays with XLA: compiling takes some 50 µs for each, so that is
30 s and more than a gigabyte. A step of a rod of 16 edges in `herk5` has 76,000, one of a loop of four bars in `eml`
53,000; one of a humanoid of 28 bodies with rotors, in absolute coordinates, has 340,000: 23 s of processor time to the
first result, with XLA 140 s; one of a convex mesh on a plane that carries a box, in `rkmk54`, has 520,000: 32 s, with
XLA more than 400."""

LINES = 800_000
"""The same for lines of text of loops over arrays, of which more are worth it: a step of a dog with 85 velocities and
24 contacts has 500,000, and takes a minute of processor time to the first result. XLA had none after many."""

XLA = 20_000
"""Operations of a step above which XLA compiles it on arrays: it takes 1.5 ms for each, half a minute in all."""

XLA_DIFFERENTIATED = XLA // 2
"""The same for a step that JAX differentiates, which triples its operations in reverse mode."""

XLA_LESS_WITH_LIBRARIES = 10
"""The factor by which the limit is lower for a step that calls a library: such a step runs as separate kernels, where
scalars pay for the smallest ones only."""

XLA_ROW = 200_000
"""Operations of a row in XLA's row loops, before simplification: it is compiled once for all rows."""

WORTH_TRYING = 8
"""How far the count before simplification may exceed a limit of XLA: that of multibody systems falls to a quarter."""

TRACED_OPERATIONS = 2 * MACHINE_CODE
"""The count before simplification above which no program on scalars is built for machine code."""

PROCEDURE = 1_000
"""Operations from which on a program that another one calls several times is compiled once. With its four calls in
`rkmk4` as long as one, a step of Talos in joint coordinates is compiled in 0.4 s instead of 6.6 and optimised in 13 s
instead of 76, one of ANYmal in 0.1 instead of 0.3 and 1.1 instead of 5, one of the Puma, with accelerations of 15,000,
in 0.25 instead of 0.6 and 2.4 instead of 16. Optimised steps of ANYmal and of a Panda take as long as before, within
the noise; those of the Puma took 17 µs instead of 15."""

NUMBERS = 2_000
"""Numbers that go into a program on scalars, or into a row of one: each takes an operation or more, even
if it is only moved. The equations of `equilibrium` take as many for a rod of some 20 edges."""

SCAN_NUMBERS = 5_000
"""The same for a row of a loop that NumPy would evaluate otherwise, at some 10 µs an operation."""

SCAN_OPERATIONS = 15_000
"""Operations of all rows from which on such a loop becomes machine code: NumPy would take 0.15 s."""

ROW = 50_000
"""Operations of a row, before they are simplified, above which it is a program on arrays inside one on arrays."""

ON_ARRAYS = 1_500
"""Numbers that go in, above which there are loops over elements. A step of a chain of 20 bodies takes 1,400: on scalars
it is compiled in 2.6 s and takes 56 µs in the end, on arrays in 1.4 s and 80 µs. From 30 bodies on both are better
there, as with rods of 8 edges in generalized-α, which takes 2,500."""

RECURSION = 20
"""Rows of a recursion, each of which needs the one before, above which programs are on arrays, however few numbers go
in: on scalars all rows are read and written one by one. A step of `rkmk4` of a chain of 20 links in joint coordinates
takes 16 µs as loops on arrays and is ready after 1.1 s, without loops on scalars 23 µs and 5.2 s."""

OPERATIONS_ON_ARRAYS = 20_000
"""Operations on whole arrays, above which scalars come first all the same: each becomes three to nine lines of text. A
step of a loop of four bars in `eml` has 24,000, which are 193,000 lines, but 53,000 operations on scalars; those of
rods and chains have 4,000 to 18,000, whatever the number of edges."""

SCALARS_EACH = 5
"""Operations on scalars for each one on arrays, up to which functions of rows are compiled sooner on scalars, whatever
number of parameters they share. Loads of joints of trees of 7 to 16 bodies have 2.4 to 5: 0.2 to 0.9 s on scalars, 0.4
to 1.8 s on arrays; outputs of rods, and of 10 bodies in absolute coordinates, have 5.5 to 9: 0.1 to 0.4 s on scalars,
0.1 to 0.2 s on arrays."""

SELECTED_NUMBERS = 300
"""Numbers of inputs, or of an array, up to which an index that depends on the data becomes a comparison with every
position. An inverse of 48 unknowns in a loop over its pivots took 20 µs on arrays, 400 µs on scalars."""


def is_long(tree: Any) -> bool:
    """Whether arrays hold more numbers than a program on scalars takes."""
    return sum(int(np.prod(np.shape(x))) for x in jax.tree.leaves(tree)) > NUMBERS
