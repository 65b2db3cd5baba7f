"""Optimisers: they see only `value_and_grad(theta)`, a start, bounds and a tolerance.

Asking again for a point that was evaluated before costs nothing.  A function may have a method
`unless(theta, enough)`, which leaves the gradient out, None, if `enough` says so of the value: that
of the last point is of no use, and may be half of the work.  An optimiser may also be handed
the curvature that it found on a similar objective, relative to the value there, and be told how
many evaluations it may make at most.  To add one, write a function of this signature and list it in
`OPTIMISERS`; the contract tests of optimisers pick it up.  A user's own is called as
`scipy.optimize.minimize` is, and needs no list.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize

from .._core.compiled import compiled
from .._core.region import Region

STEPS = 5, 5  # most evaluations: a first number, and so many for each hyperparameter
MUCH = 4.0  # gains of so many times the tolerance are worth another evaluation
FEW = 6  # hyperparameters up to which a full model is the default
MOST_IN_MODEL = 30  # for which there can be one: it has as many numbers as a symmetric matrix

ValueAndGrad = Callable[[np.ndarray], tuple[float, np.ndarray]]


@dataclass(frozen=True)
class Found:
    """Where an optimiser ended; `curvature` is the Hessian divided by the value, if it has one."""

    theta: np.ndarray
    value: float
    curvature: np.ndarray | None = None


Optimiser = Callable[
    [ValueAndGrad, np.ndarray, np.ndarray, float, np.ndarray | None, int | None],
    Found,
]


class Enough(Exception):
    """A run was followed for as long as it may be."""


def _bfgs(
    method: str,
    value_and_grad: ValueAndGrad,
    start: np.ndarray,
    bounds: np.ndarray,
    tol: float,
    curvature: np.ndarray | None = None,
    most: int | None = None,
    reach: float = 2.0,
) -> Found:
    """BFGS or L-BFGS-B, ended by the rule of Keerthi et al.: |f_new - f_old| <= tol |f_old|.

    Smooth errors are flat far from the data's scale, and there quasi-Newton directions run straight
    into the corners, where training is slow.  So every run is kept inside a box of half-width
    `reach` around its start; a run that ends on the side of that box is followed by another one.
    """
    theta = np.clip(start, *bounds.T)
    while True:
        low = np.maximum(bounds[:, 0], theta - reach)
        high = np.minimum(bounds[:, 1], theta + reach)
        before = value_and_grad(theta)[0]
        theta = _run_in_box(method, value_and_grad, theta, np.column_stack([low, high]), tol)
        after = value_and_grad(theta)[0]
        inside = (theta > low) | (low == bounds[:, 0])
        inside &= (theta < high) | (high == bounds[:, 1])
        if inside.all() or before - after <= tol * abs(before):
            return Found(theta, after)


lbfgs: Optimiser = partial(_bfgs, "L-BFGS-B")
bfgs: Optimiser = partial(_bfgs, "BFGS")


def _run_in_box(
    method: str, value_and_grad: ValueAndGrad, start: np.ndarray, box: np.ndarray, tol: float
) -> np.ndarray:
    """One run of SciPy's, of which BFGS knows no bounds.

    The objective is rescaled so that the first step has length one: with bounds on all sides SciPy
    takes the bare gradient as its first step, and smooth errors have tiny gradients.
    """
    value, gradient = value_and_grad(start)
    norm = float(np.linalg.norm(_projected(start, gradient, box)))
    if not np.isfinite(value) or norm == 0.0:
        return start
    previous, clipped = value, _clipped(value_and_grad, box)

    def scaled(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = clipped(theta)
        return value / norm, gradient / norm

    def check(intermediate_result: Any) -> None:
        nonlocal previous
        value = intermediate_result.fun * norm
        if abs(previous - value) <= tol * abs(previous):
            raise StopIteration
        previous = value

    how: dict[str, Any] = {"options": {"gtol": 1e-6}}
    if method == "L-BFGS-B":
        how = {"bounds": box, "options": {"maxls": 10, "ftol": 0.0, "gtol": 1e-6}}
    found = minimize(scaled, start, jac=True, method=method, callback=check, **how)
    return np.clip(found.x, *box.T)


def _clipped(value_and_grad: ValueAndGrad, box: np.ndarray) -> ValueAndGrad:
    """Return the function whose value beyond the box is that of the nearest point in it."""

    def of_nearest(theta: np.ndarray) -> tuple[float, np.ndarray]:
        inside = np.clip(theta, *box.T)
        value, gradient = value_and_grad(inside)
        return value, np.where(theta == inside, gradient, 0.0)

    return of_nearest


def _projected(theta: np.ndarray, gradient: np.ndarray, box: np.ndarray) -> np.ndarray:
    """Return the part of the gradient along which the box lets theta descend."""
    low, high = box.T
    stuck = ((theta <= low) & (gradient > 0)) | ((theta >= high) & (gradient < 0))
    return np.where(stuck, 0.0, gradient)


def quadratic_model(
    value_and_grad: ValueAndGrad,
    start: np.ndarray,
    bounds: np.ndarray,
    tol: float,
    curvature: np.ndarray | None = None,
    most: int | None = None,
    region: Region | None = None,
) -> Found:
    """Trust-region steps on a quadratic model that is fitted to all values and gradients seen.

    For few hyperparameters: an evaluation costs training on all folds, the model next to nothing,
    so every step should use all that is known.  Values count relative to the best one.  It ends
    when the model promises, or a step has brought, no more than the fraction `tol` of the value
    (Keerthi et al.'s rule, asked of the model as well), when the radius is too small to matter,
    or after a number of evaluations (15 for two hyperparameters); if `most` is given, after so many
    unless the last one has gained much; then the start is known to be good, and the first step is
    shorter.  Steps stay in the region, if there is one.
    """
    radius = 0.8 if most is None else 0.6
    limit = STEPS[0] + STEPS[1] * len(start)
    enough = most = limit if most is None else most
    smallest = min(0.02, np.sqrt(tol))  # a curvature of one promises half of tol there
    prior = 0.1 * np.eye(len(start)) if curvature is None else _soften(curvature)
    inside = partial(_inside, bounds, region)
    theta = inside(start)
    best = (theta, *value_and_grad(theta))
    seen, halved = [best], None
    while True:
        theta, value, gradient = best
        scale = abs(value) or 1.0
        H = _fit_curvature(seen, best, scale, prior)
        low = np.maximum(bounds[:, 0] - theta, -radius)
        high = np.minimum(bounds[:, 1] - theta, radius)
        box = np.column_stack([low, high])
        step, promise = _minimise_model(gradient / scale, H, box, theta, region)
        if promise <= tol and len(seen) == 1 and promise > 0.0:
            step *= max(1.0, 0.25 / np.abs(step).max())  # a first model deserves one check
        elif promise <= tol and halved is not None and len(seen) < enough:
            step = halved  # on stairs, which corners make, a slope says nothing of the way down
        elif promise <= tol or radius < smallest or len(seen) >= enough:
            return Found(theta, value, H)
        new = inside(theta + step)
        ends = partial(_is_last, value, scale, tol, promise, len(seen) + 1, most, limit)
        found, slope = _evaluate(value_and_grad, new, ends)
        gain = (value - found) / scale
        if slope is None:
            return Found(new, found, H) if gain > 0.0 else Found(theta, value, H)
        seen.append((new, found, slope))
        halved = step if gain > 0.5 else None
        enough = limit if gain > MUCH * tol else most
        length = np.abs(step).max()
        if gain < 0.25 * promise:
            radius = 0.5 * length
        elif gain > 0.7 * promise and length > 0.9 * radius:
            radius = min(1.0, 1.5 * radius)
        if gain > 0.0:
            best = seen[-1]
            if gain <= tol:
                return Found(best[0], best[1], H)


def _is_last(
    value: float,
    scale: float,
    tol: float,
    promise: float,
    n_seen: int,
    most: int,
    limit: int,
    found: float,
) -> bool:
    """Whether a model that has seen so many points ends with what the last of them has gained.

    So it does if that is little, after a step that promised little or gained at least something.
    """
    gain = (value - found) / scale
    if gain <= tol and (gain > 0.0 or promise <= tol):
        return True
    return n_seen >= (limit if gain > MUCH * tol else most)


def _evaluate(
    value_and_grad: ValueAndGrad, theta: np.ndarray, enough: Callable[[float], bool]
) -> tuple[float, np.ndarray | None]:
    """Return the value and the gradient, which may be left out if the value is enough."""
    unless = getattr(value_and_grad, "unless", None)
    return value_and_grad(theta) if unless is None else unless(theta, enough)


def _soften(curvature: np.ndarray) -> np.ndarray:
    """Bound the eigenvalues of a curvature from fewer rows, which is mostly too stiff."""
    values, vectors = np.linalg.eigh(curvature)
    return (vectors * np.clip(values, 0.03, 0.2)) @ vectors.T


def _fit_curvature(seen: list, best: tuple, scale: float, prior: np.ndarray) -> np.ndarray:
    """Return the symmetric H that fits best to the prior and to what other points say of it.

    A point at distance d from the best one says  H d = change of the gradient  and
    d'Hd / 2 = rise beyond the linear one; both count less from far away, where f is not quadratic.
    """
    p = len(prior)
    rows, cols = np.triu_indices(p)
    basis = np.zeros((len(rows), p, p))
    basis[np.arange(len(rows)), rows, cols] = 1.0
    basis[np.arange(len(rows)), cols, rows] = 1.0
    equations, answers = [0.15 * np.eye(len(rows))], [0.15 * prior[rows, cols]]
    for theta, value, gradient in seen:
        d = theta - best[0]
        length = float(np.linalg.norm(d))
        if length < 1e-6 or not np.isfinite(value) or abs(value) > 100 * scale:
            continue
        weight = 1.0 / (length * (0.3 + length) ** 2)
        equations.append(weight * (basis @ d).T)
        answers.append(weight * (gradient - best[2]) / scale)
        equations.append(weight / length * 0.5 * np.atleast_2d(d @ (basis @ d).T))
        rise = value - best[1] - best[2] @ d
        answers.append(np.array([weight / length * rise / scale]))
    entries = np.linalg.lstsq(np.vstack(equations), np.concatenate(answers), rcond=None)[0]
    return np.tensordot(entries, basis, axes=1)


def _inside(bounds: np.ndarray, region: Region | None, theta: np.ndarray) -> np.ndarray:
    """Return the nearest point that may be evaluated."""
    return np.clip(theta, *bounds.T) if region is None else region.nearest(theta)


def _minimise_model(
    g: np.ndarray, H: np.ndarray, box: np.ndarray, theta: np.ndarray, region: Region | None
) -> tuple[np.ndarray, float]:
    """Minimise g'd + d'Hd/2 over a box, and a region around theta; return d and the decrease."""
    descent = np.clip(-g / max(float(np.abs(g).max()), 1e-300), *box.T)
    starts = np.zeros(len(g)), descent
    if region is None:
        runs = [_coordinate_descent(g, H, box, d) for d in starts]
    else:
        around = box + theta[:, None]

        def model(x: np.ndarray) -> tuple[float, np.ndarray]:
            d = x - theta
            return float(g @ d + 0.5 * d @ H @ d), g + H @ d

        ends = [region.least(model, theta + d, around) for d in starts]
        runs = [np.zeros(len(g)), *(end - theta for end in ends if region.holds(end))]
    d = min(runs, key=lambda d: float(g @ d + 0.5 * d @ H @ d))
    return d, max(0.0, -float(g @ d + 0.5 * d @ H @ d))


@compiled
def _coordinate_descent(g, H, box, start):
    """Minimise along one coordinate after the other, also where the model curves downwards."""
    d = start.copy()
    for _ in range(500):
        moved = 0.0
        for i in range(len(g)):
            low, high = box[i]
            slope = g[i] - H[i, i] * d[i]
            for j in range(len(g)):
                slope += H[i, j] * d[j]
            if H[i, i] > 1e-12:
                new = min(max(-slope / H[i, i], low), high)
            else:  # the better end
                worth = slope * (high - low) + 0.5 * H[i, i] * (high**2 - low**2)
                new = high if worth < 0.0 else low
            moved = max(moved, abs(new - d[i]))
            d[i] = new
        if moved < 1e-9:
            break
    return d


def of_user(
    function: Callable[..., Any], most_calls: float, region: Region | None = None
) -> Optimiser:
    """Return the optimiser that a user's function is, called as `scipy.optimize.minimize`.

    Points outside of the bounds, or of a region, count as the nearest ones inside.  It ends after
    so many calls, and where it ends is the best point that it has seen.
    """

    def optimise(
        value_and_grad: ValueAndGrad, start: np.ndarray, bounds: np.ndarray, *_: Any
    ) -> Found:
        clipped, seen = _clipped(value_and_grad, bounds), list[Found]()
        inside = partial(_inside, bounds, region)
        limits = {} if region is None else {"constraints": region.as_scipy()}

        def fun(theta: Any) -> tuple[float, np.ndarray]:
            theta = _checked(function, theta, start.shape)
            if len(seen) >= most_calls:
                raise Enough
            value, gradient = clipped(theta if region is None else inside(theta))
            seen.append(Found(inside(theta), value))
            return value, gradient

        with suppress(Enough):
            found = function(fun, inside(start), jac=True, bounds=bounds.copy(), **limits)
            if not hasattr(found, "x"):
                raise TypeError(
                    f"optimiser={function!r} returned {type(found).__name__}; it must return what "
                    "scipy.optimize.minimize does, with the point that it found as x."
                )
            fun(found.x)
        return min(seen, key=lambda end: end.value)

    return optimise


def _checked(function: Any, theta: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return a point that a user's optimiser has asked for or found, or say what is wrong."""
    point = np.array(theta, dtype=float)
    if point.shape != shape or not np.isfinite(point).all():
        raise ValueError(
            f"optimiser={function!r} has come to the point {theta!r}; points are finite and of "
            f"shape {shape}."
        )
    return point


OPTIMISERS: dict[str, Optimiser] = {"model": quadratic_model, "lbfgs": lbfgs, "bfgs": bfgs}

Asked = str | Callable[..., Any]  # "auto", a name in OPTIMISERS, or a user's function


def check_optimiser(asked: Asked) -> None:
    """Say which optimisers there are, if this is none of them."""
    if not callable(asked) and asked not in ("auto", *OPTIMISERS):
        raise ValueError(
            f"optimiser={asked!r} must be 'auto', one of {list(OPTIMISERS)} or a function that is "
            "called as scipy.optimize.minimize."
        )


def choose_optimiser(
    asked: Asked, n_dimensions: int, most_calls: float, region: Region | None = None
) -> Optimiser:
    """Return the optimiser for so many hyperparameters: a full model is for few of them.

    A user's own ends after so many calls.  A region is for the model, or a user's own.
    """
    if callable(asked):
        return of_user(asked, most_calls, region)
    if region is not None:
        if asked not in ("auto", "model"):
            raise ValueError(
                f"optimiser={asked!r} knows no constraints; use 'model', or a function of "
                "scipy.optimize.minimize that takes them."
            )
        if n_dimensions > MOST_IN_MODEL:
            raise ValueError(
                f"constraints of method='gradient' are for at most {MOST_IN_MODEL} "
                f"hyperparameters, the space has {n_dimensions}; give an optimiser of your own "
                "that takes them."
            )
        return partial(quadratic_model, region=region)
    if asked == "model" and n_dimensions > MOST_IN_MODEL:
        raise ValueError(
            f"optimiser='model' is for at most {MOST_IN_MODEL} hyperparameters, the space has "
            f"{n_dimensions}; use 'lbfgs'."
        )
    if asked == "auto":
        asked = "model" if n_dimensions <= FEW else "lbfgs"
    return OPTIMISERS[asked]
