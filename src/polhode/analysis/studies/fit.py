"""Parameters of a problem from measured motion, by nonlinear least squares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy import optimize, stats

from polhode import checks
from polhode.analysis.studies.fit_result import Fit
from polhode.analysis.studies.measured_data import Series, series_of
from polhode.compiler.placement import with_default_device
from polhode.integrators.base import AbstractIntegrator
from polhode.jax_context import check_environment, inside_transformation
from polhode.problem import Problem
from polhode.simulation.run import SimulationError
from polhode.simulation.simulate import simulate

_RANK_TOLERANCE = 1e-10
"""Fraction of the largest singular value below which the data don't determine a combination of parameters."""


@with_default_device
def fit(
    problem: Problem | Sequence[Problem],
    data: Any,
    parameters: str | Sequence[str] | Mapping[str, Any],
    *,
    sigma: float | Mapping[str, Any] | None = None,
    integrator: AbstractIntegrator | str | None = None,
    h: float | None = None,
    confidence: float = 0.95,
    missing: bool = False,
    max_runs: int = 100,
) -> Fit:
    r"""Fit parameters of a problem to measured motion.

    Least squares of $(y_\text{measured} - y(p)) / \sigma$ by a trust-region method (`scipy.optimize.least_squares`),
    with the exact derivatives of the discrete runs with respect to the parameters.

    **Arguments:**

    - `problem`: with the first guess as its parameters; or several problems, one for each data set, such as runs of one
      model from different starts.
    - `data`: name → values, `"time"` (n,) among them, as `to_pandas` and `to_xarray` name things: "pin.angle",
      "pin.rate", "arm.x", or an output of the problem with shape (n, …). A mapping, a `pandas.DataFrame`, or the path
      of a CSV file with names in its first line; a sequence of such for several problems. Times are any in the span of
      the run; between steps the method interpolates.
    - `parameters`: names of numeric parameters of the problem (`polhode.Parameter` for models), or
      name → (lower, upper).
    - `sigma`: standard deviation of the noise, one for all data or by name. Without, the noise is taken as equal in all
      data and estimated from the residuals.
    - `integrator`, `h`: as for `polhode.simulate`, by default the problem's.
    - `confidence`: of the intervals, in (0, 1). They are Student's with estimated noise, and normal with `sigma`; exact
      in the limit of small noise, where the model is linear over the interval.
    - `missing`: leave out values that are NaN; otherwise they are refused.
    - `max_runs`: of the model, derivatives not counted.

    **Returns** a `Fit`; look at `converged`. Parameters with which a run fails are stepped back from.

    **Raises** ValueError for bad input, before any run, and for parameters that the data don't depend on at the start,
    by name; `SimulationError` if the first run fails.

    ??? cite "Reference"
        G. A. F. Seber, C. J. Wild, Nonlinear Regression, Wiley (1989), §5.1: intervals from the linearisation.
    """
    check_environment()
    if inside_transformation():
        raise ValueError("`fit` runs on the host; call it outside jit, grad and vmap.")
    several = isinstance(problem, (list, tuple))
    problems: list[Any] = list(problem) if several else [problem]
    for each in problems:
        if not isinstance(each, Problem):
            raise checks.not_a_problem(each, "a Problem or a list of them")
    sets = checks.as_list("data", data, "of data sets, one for each problem") if several else [data]
    if len(sets) != len(problems) or not problems:
        raise ValueError(f"There are {len(problems)} problems and {len(sets)} data sets; give one for each.")
    if not 0 < checks.number("confidence", confidence, "of the intervals") < 1:
        raise ValueError(f"`confidence` must lie between 0 and 1, got {confidence}.")
    checks.count("max_runs", max_runs, "runs of the model")
    unknowns = _Unknowns.of(problems, parameters)
    series = [series_of(p, d, sigma, missing=missing) for p, d in zip(problems, sets, strict=True)]
    count, size = sum(s.count for s in series), len(unknowns.names)
    if count <= size:
        raise ValueError(
            f"{count} measured values can't tell {size} parameters and their deviations; there must be more."
        )
    model = _Model(problems, series, unknowns, integrator, h)
    start = np.clip(unknowns.start, *_inside(unknowns))
    _check_sensitivity(unknowns, model.derivative(start))
    slope: Any = model.derivative
    optimum = optimize.least_squares(
        model.residual, start, jac=slope, bounds=(unknowns.lower, unknowns.upper), x_scale="jac",
        xtol=1e-12, ftol=1e-12, gtol=1e-12, max_nfev=max_runs,
    )  # fmt: skip
    return _fit_result(model, optimum, confidence, estimated=sigma is None)


class _Unknowns(NamedTuple):
    """The fitted parameters as one vector: names, shapes, first guesses and bounds."""

    shapes: dict[str, tuple[int, ...]]
    names: tuple[str, ...]
    start: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    @classmethod
    def of(cls, problems: Sequence[Problem], parameters: Any) -> _Unknowns:
        bounds = dict(parameters) if isinstance(parameters, Mapping) else {}
        requested_names = (
            [parameters]
            if isinstance(parameters, str)
            else list(bounds) or checks.as_list("parameters", parameters, "names")
        )
        if not requested_names:
            raise ValueError("Name at least one parameter to fit.")
        shapes, names, start, lower, upper = {}, [], [], [], []
        for name in requested_names:
            value = _number_of(problems, name)
            low, high = _bounds(name, bounds.get(name), value)
            shapes[name] = value.shape
            names += (
                [name] if not value.shape else [f"{name}[{', '.join(map(str, k))}]" for k in np.ndindex(value.shape)]
            )
            start.append(value.ravel())
            lower.append(low.ravel())
            upper.append(high.ravel())
        return cls(shapes, tuple(names), *(np.concatenate(x) for x in (start, lower, upper)))

    def values(self, flat: Any) -> dict[str, Any]:
        """Name → number or array."""
        values, first = {}, 0
        for name, shape in self.shapes.items():
            size = int(np.prod(shape))
            values[name] = flat[first : first + size].reshape(shape)
            first += size
        return values


def _number_of(problems: Sequence[Problem], name: Any) -> np.ndarray:
    for problem in problems:
        if name not in problem.parameters:
            names = ", ".join(sorted(problem.parameters)) or "none"
            raise ValueError(
                f"Problem `{problem.name}` has no parameter {checks.short_repr(name)}; it has {names}."
                f"{checks.nearest(name, problem.parameters) if isinstance(name, str) else ''} Numbers of models become "
                "parameters by `polhode.Parameter(name, value)`."
            )
    return checks.numbers(name, problems[0].parameters[name], "a parameter to fit")


def _bounds(name: str, bounds: Any, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if bounds is None:
        return np.full(value.shape, -np.inf), np.full(value.shape, np.inf)
    pair = checks.as_list(name, bounds, "lower and upper bound")
    if len(pair) != 2:
        raise ValueError(f"Bounds of `{name}` must be two numbers, lower and upper, got {checks.short_repr(bounds)}.")
    low, high = (np.broadcast_to(checks.numbers(name, x, "a bound"), value.shape) for x in pair)
    if not (np.all(low < high) and np.all((low <= value) & (value <= high))):
        raise ValueError(
            f"Bounds of `{name}`, {checks.short_repr(bounds)}, must enclose its first guess, "
            f"{checks.short_repr(value)}."
        )
    return low, high


def _inside(unknowns: _Unknowns) -> tuple[np.ndarray, np.ndarray]:
    """Bounds moved inwards a little, for the start of the optimiser."""
    room = np.where(np.isfinite(unknowns.upper - unknowns.lower), 1e-8 * (unknowns.upper - unknowns.lower), 0.0)
    return unknowns.lower + room, unknowns.upper - room


class _Model:
    """Residuals in units of σ as a function of the parameters, and their derivatives."""

    def __init__(
        self,
        problems: Sequence[Problem],
        series: Sequence[Series],
        unknowns: _Unknowns,
        integrator: Any,
        h: float | None,
    ) -> None:
        self.problems, self.series, self.unknowns = problems, series, unknowns
        self._how = {"integrator": integrator, "h": h}
        self.runs = self.gradients = 0

    def problems_with(self, flat: Any) -> list[Problem]:
        """The problems with other parameters."""
        return [p.replace(**self.unknowns.values(flat)) for p in self.problems]

    def _residual(self, flat: Array) -> Array:
        parts = []
        for problem, series in zip(self.problems_with(flat), self.series, strict=True):
            run = simulate(problem, **self._how, t1=series.end, save_at=series.t)
            parts.append(series.residual(run))
        return jnp.concatenate(parts)

    def residual(self, flat: np.ndarray) -> np.ndarray:
        """Residuals; infinite where a run fails, so that the optimiser takes a smaller step."""
        self.runs += 1
        try:
            return np.asarray(self._residual(jnp.asarray(flat)))
        except SimulationError:
            if self.runs == 1:
                raise
            return np.full(sum(s.count for s in self.series), np.inf)

    def derivative(self, flat: np.ndarray) -> np.ndarray:
        """Of the residuals, (values, parameters)."""
        self.gradients += 1
        return np.asarray(jax.jacfwd(self._residual)(jnp.asarray(flat)))


def _check_sensitivity(unknowns: _Unknowns, J: np.ndarray) -> None:
    sizes = np.linalg.norm(J, axis=0)
    if not np.all(np.isfinite(sizes)):
        raise ValueError("The derivatives of the first run are not finite; begin with other values or a smaller step.")
    insensitive = [name for name, size in zip(unknowns.names, sizes, strict=True) if size == 0.0]
    if insensitive:
        raise ValueError(
            f"The data don't depend on {', '.join(insensitive)} at the first guess; leave it out, or measure more."
        )


def _fit_result(model: _Model, optimum: Any, confidence: float, *, estimated: bool) -> Fit:
    unknowns, k = model.unknowns, len(optimum.x)
    spare = len(optimum.fun) - k
    noise = float(np.sqrt(2 * optimum.cost / spare))
    scale = np.linalg.norm(optimum.jac, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    _, sizes, right = np.linalg.svd(optimum.jac / scale, full_matrices=False)
    determined = sizes > _RANK_TOLERANCE * sizes[0]
    inverse = (right[determined].T / sizes[determined] ** 2) @ right[determined] / np.outer(scale, scale)
    covariance = inverse * (noise**2 if estimated else 1.0)
    is_undetermined = np.any(np.abs(right[~determined]) > 1e-6, axis=0)
    deviations = np.where(is_undetermined, np.inf, np.sqrt(np.diag(covariance)))
    quantile = float(stats.t.ppf(0.5 + confidence / 2, spare) if estimated else stats.norm.ppf(0.5 + confidence / 2))
    reach = quantile * deviations
    values = {n: (float(v) if np.ndim(v) == 0 else np.asarray(v)) for n, v in unknowns.values(optimum.x).items()}
    problems = model.problems_with(optimum.x)
    residuals, rest = [], optimum.fun
    for series in model.series:
        residuals.append(series.unpack(rest[: series.count]))
        rest = rest[series.count :]
    return Fit(
        values=values,
        problem=problems[0] if len(problems) == 1 else problems,
        names=unknowns.names,
        deviations=deviations,
        covariance=covariance,
        intervals=np.stack((optimum.x - reach, optimum.x + reach), axis=1),
        confidence=confidence,
        at_bound=optimum.active_mask != 0,
        residuals=tuple(residuals),
        noise=noise,
        cost=float(optimum.cost),
        runs=model.runs,
        gradients=model.gradients,
        converged=bool(optimum.success),
        message=str(optimum.message),
    )
