"""The path of a search over the contours of two hyperparameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.interpolate import RBFInterpolator

from .reading import beside_best, best_params, check_name, fitted, flat, is_log, tuned
from .style import BEST, BLACK, MAP, Display

SURFACE = 60  # points of an interpolated surface, in each direction
GRID = 12  # points of one that is evaluated
FEWEST_POINTS = 6  # points that a surface can be made of


@dataclass(eq=False, repr=False)
class PathDisplay(Display):
    """The path of a search over the contours of its loss, for two hyperparameters.

    Contours are interpolated between the points that the search has visited, or evaluated afresh
    where data are given; the label of the colours says which.

    Parameters
    ----------
    names : tuple of str
        The two hyperparameters.
    points : ndarray of shape (n_points, 2)
        Visited points, in their order.
    values : ndarray of shape (n_points,)
        The loss there.
    looks : ndarray of shape (n_points,)
        Which of them were rough looks.
    best : ndarray of shape (2,)
        The best point.
    grid : tuple of ndarray or None
        Values of both hyperparameters and the loss at each pair; None where points are too few.
    about : str
        What the colours mean.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        What was drawn on.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> from hypermargin import GradientSearchCV
    >>> from hypermargin.plot import PathDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> search = GradientSearchCV(SVC(), cv=5).fit(X, y)
    >>> PathDisplay.from_estimator(search, "C", "gamma").ax_.get_xlabel()
    'C'
    """

    names: tuple[str, str]
    points: np.ndarray
    values: np.ndarray
    looks: np.ndarray
    best: np.ndarray
    grid: tuple[np.ndarray, np.ndarray, np.ndarray] | None
    about: str

    @classmethod
    def from_estimator(
        cls,
        search: Any,
        x: str | None = None,
        y: str | None = None,
        *,
        data: tuple | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw the path of a fitted search.

        Parameters
        ----------
        search : GradientSearchCV
            A search that was fitted.
        x, y : str, default=None
            Names of hyperparameters, as in `best_params_`; those of an array are "gamma[0]" and so
            on.  None for the first two.
        data : tuple (X, y), default=None
            The data of the search.  If they are given, contours are those of fresh evaluations at
            12 x 12 points, other hyperparameters being as they are at the best point.
        ax : matplotlib Axes, default=None
            Where to draw; None for a new figure.

        Returns
        -------
        display : PathDisplay
        """
        names = tuned(fitted(search))
        if x is not None and x == y:
            raise ValueError(f"x={x!r} and y={y!r} are the same; give two different names.")
        if data is not None:
            _check_data(search, data)
        chosen = [check_name(search, name) for name in (x, y) if name is not None]
        chosen += [name for name in names if name not in chosen][: 2 - len(chosen)]
        if len(chosen) < 2:
            raise ValueError(
                f"a path needs two hyperparameters, and this search has varied {names}; "
                "HyperparameterDisplay shows one."
            )
        rows = [r for r in beside_best(search) if set(chosen) <= set(flat(r["params"]))]
        rows = [row for row in rows if np.isfinite(row["objective"])]
        points = np.array([[flat(row["params"])[name] for name in chosen] for row in rows])
        best = np.array([flat(best_params(search))[name] for name in chosen])
        values = _on_one_level(rows)
        if data is None:
            grid = _surface(points, values)
            about = f"smooth loss, interpolated from {len(points)} visited points"
        else:
            grid = _evaluated(search, (chosen[0], chosen[1]), points, data)
            about = f"smooth loss, evaluated at {GRID} x {GRID} points"
        looks = np.array([row["look"] for row in rows])
        shown = cls((chosen[0], chosen[1]), points, values, looks, best, grid, about)
        return shown.plot(ax=ax)

    def _draw(self, ax: Any) -> None:
        for axis, values in zip("xy", self.points.T):
            if is_log(values):
                ax.set(**{f"{axis}scale": "log"})
        if self.grid is not None:
            self._contours(ax)
        looks, on_path = self.points[self.looks], self.points[~self.looks]
        ax.plot(*looks.T, "o", color="white", markeredgecolor="0.2", markersize=4, label="looks")
        for number, descent in enumerate(self._descents()):
            label = None if number else "evaluations"
            ax.plot(*descent.T, "-", color=BLACK, linewidth=0.8, marker="s", markersize=4.5,
                    markerfacecolor="white", label=label)  # fmt: skip
        ax.plot(*self.best, linestyle="none", label="best", **BEST)
        # one mark for each point, without a colour: what a report shows when it is pointed at
        every = ax.scatter(*np.concatenate([looks, on_path]).T, s=60, alpha=0.0, zorder=6)
        every.set_gid("points-of-path")
        ax.set(xlabel=self.names[0], ylabel=self.names[1])
        ax.legend(loc="best", fontsize="small", framealpha=0.9)

    def _contours(self, ax: Any) -> None:
        """Draw levels that lie closer near the least loss, where the choice is made."""
        assert self.grid is not None
        x, y, loss = self.grid
        lowest, highest = np.nanmin(loss), np.nanmax(loss)
        if highest <= lowest:
            return
        levels = lowest + (highest - lowest) * np.linspace(0, 1, 13) ** 2
        filled = ax.contourf(x, y, loss, levels, cmap=MAP, alpha=0.85)
        ax.contour(x, y, loss, levels, colors="white", linewidths=0.4)
        bar = ax.figure.colorbar(filled, ax=ax, format="%.3g")
        bar.set_label(self.about, fontsize="small")

    def _descents(self) -> list[np.ndarray]:
        """Return the points of every descent; one begins where a look has been."""
        looks = {tuple(p) for p in self.points[self.looks]}
        found: list[list[np.ndarray]] = []
        for point in self.points[~self.looks]:
            if not found or tuple(point) in looks:
                found.append([])
            found[-1].append(point)
        return [np.array(descent) for descent in found]


def _on_one_level(rows: list[dict[str, Any]]) -> np.ndarray:
    """Return losses, those on fewer rows moved by what losses differ in the median."""
    values = np.array([row["objective"] for row in rows], dtype=float)
    sizes = np.array([row["n_samples"] for row in rows])
    whole = np.median(values[sizes == sizes.max()])
    for size in set(sizes) - {sizes.max()}:
        values[sizes == size] += whole - np.median(values[sizes == size])
    return values


def _axis(values: np.ndarray, n: int, margin: float = 0.0) -> np.ndarray:
    """Return numbers from the least to the largest value, or a bit beyond."""
    low, high = values.min(), values.max()
    if is_log(values):
        beyond = (high / low) ** margin
        return np.geomspace(low / beyond, high * beyond, n)
    return np.linspace(low - margin * (high - low), high + margin * (high - low), n)


def _surface(points: np.ndarray, values: np.ndarray) -> tuple | None:
    """Return a smooth surface through the visited points."""
    scale = [np.log if is_log(column) else np.asarray for column in points.T]
    at = np.stack([f(column) for f, column in zip(scale, points.T)], axis=1)
    spread = at.std(axis=0)
    if len(np.unique(at, axis=0)) < FEWEST_POINTS or not (spread > 0).all():
        return None
    unique, first = np.unique(at / spread, axis=0, return_index=True)
    smooth = RBFInterpolator(unique, values[first], smoothing=1e-3, kernel="thin_plate_spline")
    x, y = (_axis(column, SURFACE, margin=0.04) for column in points.T)
    mesh = np.stack(np.meshgrid(scale[0](x), scale[1](y)), axis=-1).reshape(-1, 2) / spread
    found = smooth(mesh).reshape(len(y), len(x))
    return x, y, np.clip(found, values.min(), values.max())  # splines may overshoot


def _check_data(search: Any, data: Any) -> None:
    """Refuse data that are not those of the search, as far as their size tells."""
    if not isinstance(data, (tuple, list)) or len(data) != 2:
        raise ValueError("data must be a tuple of X and y, as they were given to fit.")
    here, there = len(data[1]), int(np.max(search.cv_results_["n_samples"]))
    if here != there:
        raise ValueError(f"data has {here} rows; the search was fitted on {there}.")


def _evaluated(search: Any, names: tuple[str, str], points: np.ndarray, data: tuple) -> tuple:
    """Evaluate a grid of the two, with all else as it is at the best point."""
    x, y = (_axis(column, GRID) for column in points.T)
    space = {name: [value] for name, value in search.best_params_.items()}
    space |= {names[0]: x.tolist(), names[1]: y.tolist()}
    fresh = type(search)(
        search.estimator, space, scoring=search.scoring, cv=search.cv, n_jobs=search.n_jobs,
        criterion=search.criterion, pooled=search.pooled, rank=search.rank, refit=False,
    ).fit(*data)  # fmt: skip
    found = {
        (params[names[0]], params[names[1]]): loss
        for params, loss in zip(fresh.cv_results_["params"], fresh.cv_results_["objective"])
    }
    return x, y, np.array([[found[one, other] for one in x] for other in y])
