"""Coefficients of generalized-α methods."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Array


class Coefficients(NamedTuple):
    """α_m, α_f, β and γ of the method, and what follows from them."""

    alpha_m: float
    alpha_f: float
    beta: float
    gamma: float

    @classmethod
    def optimal(cls, rho_inf: float) -> Coefficients:
        """Order 2 with the least damping of low frequencies for a given one at infinity (Chung and Hulbert)."""
        alpha_m, alpha_f = (2 * rho_inf - 1) / (rho_inf + 1), rho_inf / (rho_inf + 1)
        gamma = 0.5 - alpha_m + alpha_f
        return cls(alpha_m, alpha_f, (gamma + 0.5) ** 2 / 4, gamma)

    @property
    def ratio(self) -> float:
        """∂a/∂v̇ at the end of a step."""
        return (1 - self.alpha_f) / (1 - self.alpha_m)

    @property
    def shift(self) -> float:
        """Δ: aₙ is the acceleration at tₙ + Δh, to second order."""
        return self.alpha_m - self.alpha_f

    @property
    def position_error(self) -> float:
        """Local error of the increment in units of h³v̈."""
        return self.beta + self.shift / 2 - 1 / 6

    @property
    def velocity_error(self) -> float:
        """Local error of the velocity in units of h³v⃛."""
        D = self.shift
        # aₙ = v̇(tₙ + Δh) + κ h²v⃛ once the recurrence of a has settled.
        kappa = (1 - self.alpha_f) / 2 - (1 - self.alpha_m) * (1 + D) ** 2 / 2 - self.alpha_m * D**2 / 2
        return (D * D + 2 * self.gamma * D + self.gamma) / 2 + kappa - 1 / 6

    def explicit(self, rate: Array, mean: Array) -> Array:
        """The filtered rate at the end of a step without its part by the rate there, from both at its start."""
        return (self.alpha_f * rate - self.alpha_m * mean) / (1 - self.alpha_m)

    def increment(self, h: Array, start: Array, end: Array) -> Array:
        """The change of what has these filtered rates."""
        return h * ((1 - self.gamma) * start + self.gamma * end)

    def displacement(self, h: Array, start: Array, end: Array) -> Array:
        """The change of what has them as second derivatives, by these."""
        return h * h * ((0.5 - self.beta) * start + self.beta * end)
