"""Andrews' mechanism with one degree of freedom, by a route of its own: loops closed in the complex plane, Lagrange's
equation of T = ½M(β)β̇², extrapolation of the midpoint rule, all in extended precision (80 bits on x86-64)."""

from __future__ import annotations

from typing import Any

import numpy as np

REAL, COMPLEX = np.longdouble, np.clongdouble

_LENGTHS = {
    **{"d": "28e-3", "da": "115e-4", "e": "2e-2", "ea": "1421e-5", "rr": "7e-3", "ra": "92e-5", "ss": "35e-3"},
    **{"sa": "1874e-5", "sb": "1043e-5", "sc": "18e-3", "sd": "2e-2", "ta": "2308e-5", "tb": "916e-5", "u": "4e-2"},
    **{"ua": "1228e-5", "ub": "449e-5", "zf": "2e-2", "zt": "4e-2", "fa": "1421e-5"},
}
P = {letter: REAL(value) for letter, value in _LENGTHS.items()}
MASSES = [REAL(x) for x in ("0.04325", "0.00365", "0.02373", "0.00706", "0.07050", "0.00706", "0.05498")]
INERTIAS = [REAL(x) for x in ("2.194e-6", "4.410e-7", "5.255e-6", "5.667e-7", "1.169e-5", "5.667e-7", "1.912e-5")]
STIFFNESS, REST, TORQUE = REAL("4530"), REAL("0.07785"), REAL("0.033")
START = REAL("-0.0617138900142764496358948458001")
PI = REAL("3.14159265358979323846264338327950288")


def point(x: str, y: str) -> Any:
    return COMPLEX(REAL(x)) + COMPLEX(1j) * COMPLEX(REAL(y))


A, B, C = point("-0.06934", "-0.00227"), point("-0.03635", "0.03273"), point("0.014", "0.072")


class Jet:
    """A complex number with its first and second derivative along β."""

    def __init__(self, value: Any, first: Any = 0, second: Any = 0) -> None:
        self.value, self.first, self.second = COMPLEX(value), COMPLEX(first), COMPLEX(second)

    def __add__(self, other: Any) -> Jet:
        other = _jet(other)
        return Jet(self.value + other.value, self.first + other.first, self.second + other.second)

    def __sub__(self, other: Any) -> Jet:
        return self + _jet(other) * -1

    def __mul__(self, other: Any) -> Jet:
        (a, b, c), (x, y, z) = self.parts, _jet(other).parts
        return Jet(a * x, a * y + b * x, a * z + 2 * b * y + c * x)

    def __truediv__(self, other: Any) -> Jet:
        a, b, c = _jet(other).parts
        return self * Jet(1 / a, -b / a**2, 2 * b**2 / a**3 - c / a**2)

    @property
    def parts(self) -> tuple[Any, Any, Any]:
        return self.value, self.first, self.second

    def root(self) -> Jet:
        r = np.sqrt(self.value)
        b = self.first / (2 * r)
        return Jet(r, b, (self.second - 2 * b * b) / (2 * r))

    def conjugate(self) -> Jet:
        return Jet(*(np.conj(x) for x in self.parts))


def _jet(x: Any) -> Jet:
    return x if isinstance(x, Jet) else Jet(x)


def meet(P: Jet, r: Any, Q: Jet, s: Any, side: int) -> Jet:
    """Where two circles meet, left (1) or right (-1) of the way from P to Q."""
    way = Q - P
    square = way * way.conjugate()
    along = (square + (r * r - s * s)) / (square * 2)
    across = (Jet(r * r) / square - along * along).root()
    return P + along * way + across * way * (side * 1j)


def bodies(beta: Any) -> list[tuple[Jet, Jet]]:
    """Centre of mass and direction of K1 to K7."""
    turn = np.cos(beta) + 1j * np.sin(beta)
    origin, F = Jet(0), Jet(turn, 1j * turn, -turn) * P["rr"]
    E = meet(F, P["d"], Jet(B), P["ss"], 1)
    G, H = meet(Jet(A), P["zt"], E, P["e"], 1), meet(Jet(A), P["u"], E, P["zf"], -1)

    def bar(start: Jet, end: Jet, length: Any, along: Any, across: Any = 0) -> tuple[Jet, Jet]:
        direction = (end - start) * (1 / length)
        return start + direction * (along + 1j * across), direction

    return [
        bar(origin, F, P["rr"], P["ra"]),
        bar(F, E, P["d"], P["da"]),
        bar(Jet(B), E, P["ss"], P["sa"], P["sb"]),
        bar(G, E, P["e"], P["e"] - P["ea"]),
        bar(Jet(A), G, P["zt"], P["ta"], P["tb"]),
        bar(H, E, P["zf"], P["zf"] - P["fa"]),
        bar(Jet(A), H, P["u"], P["ua"], P["ub"]),
    ]


def acceleration(beta: Any, speed: Any) -> Any:
    """β̈ from M β̈ + ½M' β̇² = τ - V'."""
    M, slope = REAL(0), REAL(0)
    placed = bodies(beta)
    for (x, turned), m, J in zip(placed, MASSES, INERTIAS, strict=True):
        a, b, c = turned.parts
        rate, change = (-1j * b / a).real, (-1j * (c / a - (b / a) ** 2)).real
        M += m * abs(x.first) ** 2 + J * rate**2
        slope += 2 * (m * (np.conj(x.first) * x.second).real + J * rate * change)
    D = Jet(B) + placed[2][1] * (P["sc"] + 1j * P["sd"]) - C
    length = abs(D.value)
    pull = STIFFNESS * (length - REST) * (np.conj(D.value) * D.first).real / length
    return (TORQUE - pull - slope * speed**2 / 2) / M


def end(duration: str = "0.03", steps: int = 150, columns: int = 8) -> tuple[Any, Any]:
    """β and β̇ after a start at rest."""
    H, y = REAL(duration) / steps, np.array([START, REAL(0)])
    f = lambda y: np.array([y[1], acceleration(y[0], y[1])])  # noqa: E731
    parts = [2 * (j + 1) for j in range(columns)]
    for _ in range(steps):
        slope, table = f(y), []
        for j, n in enumerate(parts):
            h = H / n
            before, now = y, y + h * slope
            for _ in range(1, n):
                before, now = now, before + 2 * h * f(now)
            row = [(before + now + h * f(now)) / 2]
            for q in range(j):
                row.append(row[q] + (row[q] - table[q]) / ((REAL(n) / REAL(parts[j - q - 1])) ** 2 - 1))
            table = row
        y = table[-1]
    return y[0], y[1]


def angles(beta: Any) -> np.ndarray:
    """(β, Θ, γ, φ, δ, Ω, ε) of Hairer and Wanner."""
    k = [np.arctan2(turned.value.imag, turned.value.real) for _, turned in bodies(beta)]
    wrap = lambda x: np.arctan2(np.sin(x), np.cos(x))  # noqa: E731
    epsilon = wrap(k[6] + PI / 2)
    others = (wrap(k[2] + PI / 2), wrap(k[3] + PI / 2 - k[4]), wrap(k[4]), wrap(k[5] - epsilon), epsilon)
    return np.array([beta, wrap(k[1] + PI) - beta, *others], dtype=float)
