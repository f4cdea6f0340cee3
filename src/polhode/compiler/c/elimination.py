"""Elimination of trees in C, as loops over a local array."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polhode.compiler.c.code_tree import Line

if TYPE_CHECKING:
    from polhode.compiler.c.scalar_printer import ScalarPrinter
    from polhode.compiler.scalars.program import Operation


def elimination(w: ScalarPrinter, operation: Operation) -> None:
    """The entries of the factors."""
    plan = operation.params["plan"]
    count, stride = plan.unknowns, plan.longest
    places, pivots = plan.places(stride), 2 * count * stride
    depths = w.constants(("depths", plan), plan.depths)
    carriers = w.constants(("carriers", plan), plan.carriers(stride))
    with w.together():
        a = w.array("double", pivots + count)
        for x, place in zip(operation.operands, places, strict=True):
            w.body.append(Line(w.operand(x), a, place=f"[{place}]"))
        k, p, q = (w.new_name("i") for _ in range(3))

        def subtract(at: str, c: str, r: str) -> None:
            w.body.append(Line(f"{a}[{at}] - {a}[{c}] * {a}[{r}]", a, place=f"[{at}]"))

        w.open(f"for (int64_t {k} = {count - 1}; {k} >= 0; --{k})", k)
        pivot, row, column = f"{pivots} + {k}", f"{2 * stride} * {k}", f"{2 * stride} * {k} + {stride}"
        w.body.append(Line(f"1.0 / {a}[{pivot}]", a, place=f"[{pivot}]"))
        w.open(f"for (int64_t {p} = 0; {p} < {depths}[{k}]; ++{p})", p)
        at = f"{column} + {p}"
        w.body.append(Line(f"{a}[{at}] * {a}[{pivot}]", a, place=f"[{at}]"))
        w.close()
        w.open(f"for (int64_t {p} = 0; {p} < {depths}[{k}]; ++{p})", p)
        i = f"{carriers}[{stride} * {k} + {p}]"
        subtract(f"{pivots} + {i}", f"{column} + {p}", f"{row} + {p}")
        w.open(f"for (int64_t {q} = 0; {q} < {p}; ++{q})", q)
        subtract(f"{2 * stride} * {i} + {q}", f"{column} + {p}", f"{row} + {q}")
        subtract(f"{2 * stride} * {i} + {stride} + {q}", f"{column} + {q}", f"{row} + {p}")
        for _ in range(3):
            w.close()
        for v, place in zip(operation.results, places, strict=True):
            w.define(v, f"{a}[{place}]")
