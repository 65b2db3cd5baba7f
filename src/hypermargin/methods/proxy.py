"""A cheap stand-in for the folds: a machine of the squared loss on some of a fold's training rows.

Its leave-one-out loss has a closed form, with the gradient by every hyperparameter of the kernel,
so that widths can be learned from few rows in the time of a few evaluations; and on the validation
rows of the fold, whose labels they have not seen, it can be asked what they are worth.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from .._core.budget import OutOfTime
from .._core.space import FeatureArray, Params, Space
from ..adapters.base import Targets
from ..criteria.base import tally_matrix
from ..problems.base import Problem
from ..problems.leave_one_out import LeaveOneOut, LeftOut, Trained
from .objective import FAILED, Objective, SearchEnded
from .optimisers import Enough, ValueAndGrad, choose_optimiser, lbfgs
from .parts import Held

RIDGES = 1e-6, 1e2  # for kernels whose values are about one
RIDGE = 0.1  # to begin with
WORTH = 0.1  # a step that gains less, in standard errors of the loss, is the last one
LEAST_LOSS = 1e-12  # loss that is told from none
DRAWS = 50  # of the rows, for the standard error of a difference


def columns_of(targets: Targets) -> tuple[np.ndarray, np.ndarray | None]:
    """Return targets of the squared loss, and T if criteria read outputs @ T.

    Of more than two classes each has a column that tells it from the rest.
    """
    y = targets.y
    if targets.classes is None:
        return y.reshape(len(y), -1), None
    n_classes = len(targets.classes)
    if n_classes == 2:
        return np.where(y == 1, 1.0, -1.0)[:, None], None
    columns = np.where(y[:, None] == np.arange(n_classes), 1.0, -1.0)
    return columns, 0.5 * tally_matrix(n_classes * (n_classes - 1) // 2).T


def coordinates_of(space: Space, problem: Problem) -> np.ndarray:
    """Return the coordinates of the hyperparameters of the kernel."""
    own = [h.own for h in space.hyperparameters for _ in h.ranges]
    kernel: Any = getattr(problem, "kernel")  # noqa: B009 (linear problems have none)
    return np.flatnonzero([name in kernel.hyperparameters for name in own])


class Proxy:
    """The leave-one-out loss of a part's machine, by the kernel's coordinates and log(ridge).

    `base` is a point of the space at which all features have the same width.  What is minimised
    has a penalty on widths whose ratios are not those of the base.
    """

    def __init__(self, objective: Objective, held: Held, base: np.ndarray):
        self.objective, self.held, self.base = objective, held, base
        self.space, problem = objective.space, objective.prepared.problem
        self.kernel: Any = getattr(problem, "kernel")  # noqa: B009
        self.which = coordinates_of(self.space, problem)
        self.widths = widths_in(self.space, self.which)
        self.columns, self.T = columns_of(objective.prepared.targets)
        place = np.full(objective.prepared.n_rows, -1)
        place[held.design.rows] = np.arange(len(held.design.rows))
        self.points = held.design.points.take(place[held.test])
        train = held.design.points.take(place[held.train])
        self.machine = LeaveOneOut(self.kernel, train, self.columns[held.train], held.weight)
        self.values = {**problem.values, **held.design.fixed}
        self.bounds = np.vstack([self.space.bounds[self.which], np.log(RIDGES)])
        self.penalty = 0.0

    def params(self, z: np.ndarray) -> Params:
        theta = self.base.copy()
        theta[self.which] = z[:-1]
        return self.space.params(theta)

    def own(self, params: Params) -> Params:
        """Return the values of all that the kernel has."""
        values = {**self.values, **params}
        return {name: values[name] for name in self.kernel.hyperparameters}

    def pull(self, params: Params, by_kernel: Params) -> np.ndarray:
        """Return a gradient by the coordinates of the kernel."""
        nothing = {h.own: np.zeros_like(params[h.own]) for h in self.space.hyperparameters}
        return self.space.pull(params, {**nothing, **by_kernel})[self.which]

    def left_out(self, z: np.ndarray) -> LeftOut:
        return self.machine.evaluate(self.own(self.params(z)), float(np.exp(z[-1])))

    def trained(self, z: np.ndarray) -> Trained:
        return self.machine.train(self.own(self.params(z)), float(np.exp(z[-1])))

    def __call__(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the loss with its penalty, and the gradient."""
        held, objective = self.held, self.objective
        try:
            objective.budget.check()
            left = self.left_out(z)
        except FloatingPointError:
            return FAILED, np.zeros(len(z))
        except OutOfTime:
            raise SearchEnded from None
        weight = np.maximum(objective.weight[held.train], 0.0)
        value, delta = self.loss(left.outputs, held.train, weight)
        by_kernel, by_ridge = left.pullback(delta if self.T is None else delta @ self.T.T)
        gradient = np.append(self.pull(self.params(z), by_kernel), by_ridge)
        for part in self.widths:
            off = z[part] - self.base[self.which][part]
            off -= off.mean()
            value += self.penalty * float(np.mean(off**2))
            gradient[part] += 2.0 * self.penalty * off / len(part)
        return value, gradient

    def loss(
        self, outputs: np.ndarray, rows: np.ndarray, weight: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """Apply the criterion of the search to outputs at rows of the data."""
        read = outputs if self.T is None else outputs @ self.T
        value, delta = self.objective.criterion(
            read, self.objective.prepared.targets.y[rows], weight
        )
        return float(value), delta

    def one_width(self) -> tuple[float, np.ndarray]:
        """Return the least loss with one width for all features, and where it is."""
        return self.settled(np.append(self.base[self.which], np.log(RIDGE)))

    def settled(self, begin: np.ndarray, tol: float | None = None) -> tuple[float, np.ndarray]:
        """Return the least loss with widths of given ratios, and where it is."""
        tied = self.space.tied
        assert tied is not None
        moves = tied.owner[self.which]
        owner = np.where(moves < 0, -1, np.searchsorted(np.unique(moves[moves >= 0]), moves))
        owner = np.append(owner, owner.max() + 1)
        return minimise_tied(self, owner, begin, self.bounds, tol or self.objective.tol)

    def error(self, value: float) -> float:
        """Return the standard error of a loss on the rows that are learned from."""
        return standard_error(self.objective, value, len(self.held.train))

    def each_width(self, starts: Sequence[np.ndarray], trial: int, most: int) -> np.ndarray:
        """Return where a descent ends that gives each feature its own width.

        All starts are followed for some evaluations, and the best of them further.
        """
        runs = [Few(self, trial, start) for start in starts]
        for run in runs:
            self._follow(run)
        best = min(runs, key=lambda run: run.best[0])
        best.left += most - trial
        self._follow(best)
        return best.best[1]

    def _follow(self, run: Few) -> None:
        start = run.best[1]
        with suppress(Enough):
            tol = max(self.objective.tol, worth(self.penalty, run(start)[0]))
            lbfgs(run, start, self.bounds, tol, None, None)

    def bold(self) -> np.ndarray:
        """Return a start with the usual width and a ridge that fits the labels closely."""
        usual = self.space.first_look.mean(axis=1)[self.which]
        return np.append(np.clip(usual, *self.bounds[:-1].T), np.log(RIDGE))

    def outputs(self, z: np.ndarray) -> np.ndarray:
        """Return outputs at the rows that are held out."""
        return self.trained(z).predict(self.points)

    def gain(
        self, before: np.ndarray, after: np.ndarray, draws: int = DRAWS
    ) -> tuple[float, float]:
        """Return the logarithm of the ratio of losses of two sets of outputs, and its error.

        The loss is what outputs leave `unexplained` of labels; of other targets it is the
        criterion.  Rows are drawn with replacement, within classes, the same for both.  (A ratio,
        because a few rows may have most of the loss: then both losses, and their difference, depend
        on them.)
        """
        held, rng = self.held.test, np.random.RandomState(0)
        targets = self.objective.prepared.targets
        strata = [np.arange(len(held))]
        if targets.classes is not None:
            strata = [np.flatnonzero(targets.y[held] == k) for k in np.unique(targets.y[held])]

        def ratio(at: np.ndarray) -> float:
            rows, weight = held[at], self.objective.weight[held[at]]
            losses = [self.missed(out[at], rows, weight) for out in (before, after)]
            one, other = np.maximum(losses, LEAST_LOSS)
            return float(np.log(one / other))

        drawn = [
            ratio(np.concatenate([s[rng.randint(len(s), size=len(s))] for s in strata]))
            for _ in range(draws)
        ]
        return ratio(np.arange(len(held))), float(np.std(drawn))

    def missed(self, outputs: np.ndarray, rows: np.ndarray, weight: np.ndarray) -> float:
        """Return the loss that two sets of outputs are compared by.

        Errors are few: the ratio of two shares of errors, smooth or not, has a standard error three
        times as large as that of two variances.
        """
        if self.objective.prepared.targets.classes is None:
            return self.loss(outputs, rows, weight)[0]
        return unexplained(outputs.reshape(len(rows), -1), self.columns[rows], weight)

    def over_chance(self, outputs: np.ndarray) -> tuple[float, float]:
        """Return by how much the loss is less than with rows in another order, and its deviation.

        Outputs that say nothing of the rows have the same loss in any order.
        """
        held, rng = self.held.test, np.random.RandomState(0)
        weight = self.objective.weight[held]
        chance = [
            self.loss(outputs[rng.permutation(len(held))], held, weight)[0] for _ in range(DRAWS)
        ]
        return float(np.mean(chance)) - self.loss(outputs, held, weight)[0], float(np.std(chance))


def unexplained(outputs: np.ndarray, targets: np.ndarray, weight: np.ndarray) -> float:
    """Return the variance of targets that is left by rising lines through outputs.

    It does not depend on the scale of outputs, on which classes do not depend either.
    """
    share = weight / weight.sum()
    outputs, targets = outputs - share @ outputs, targets - share @ targets
    slope = np.maximum(share @ (outputs * targets), 0.0)
    spread = np.maximum(share @ outputs**2, np.finfo(float).tiny)
    return float((share @ targets**2 - slope**2 / spread).sum())


def standard_error(objective: Objective, value: float, n_rows: int) -> float:
    """Return that of a loss: of an error as a share of the rows, else as a mean of squares."""
    if objective.prepared.targets.classes is None:
        return value * np.sqrt(2.0 / n_rows)
    share = np.clip(value, 1.0 / n_rows, 0.5)
    return float(np.sqrt(share * (1.0 - share) / n_rows))


def worth(error: float, value: float) -> float:
    """Return the relative gain below which a step shows nothing, by the loss's standard error."""
    return WORTH * error / value if value > 0.0 else 0.0


class Few:
    """A function that may be evaluated at so many points, with the best of them."""

    def __init__(self, function: ValueAndGrad, most: float, start: np.ndarray):
        self.function, self.left = function, most
        self.best: tuple[float, np.ndarray] = (np.inf, start)
        self._known: dict[bytes, tuple[float, np.ndarray]] = {}

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        key = theta.tobytes()
        if key not in self._known:
            if self.left <= 0:
                raise Enough
            self.left -= 1
            self._known[key] = value, _ = self.function(theta)
            if value < self.best[0]:
                self.best = value, theta.copy()
        return self._known[key]


def widths_in(space: Space, which: np.ndarray) -> list[np.ndarray]:
    """Return the places of the widths of features among some coordinates, array by array."""
    found, first = [], 0
    for h in space.hyperparameters:
        if isinstance(h, FeatureArray):
            inside = np.isin(which, np.arange(first, first + len(h.ranges)))
            found.append(np.flatnonzero(inside))
        first += len(h.ranges)
    return found


def minimise_tied(
    function: ValueAndGrad,
    owner: np.ndarray,
    begin: np.ndarray,
    bounds: np.ndarray,
    tol: float,
    most: int | None = None,
) -> tuple[float, np.ndarray]:
    """Minimise a function of which coordinates with the same owner move together.

    Those that have none, -1, stay where they begin.
    """
    n_owners, moves = int(owner.max()) + 1, owner >= 0
    room = bounds - begin[:, None]
    # where some of them cannot move, the others still can
    low = np.array([room[owner == k, 0].min() for k in range(n_owners)])
    high = np.array([room[owner == k, 1].max() for k in range(n_owners)])

    def full(shift: np.ndarray) -> np.ndarray:
        return np.clip(begin + np.append(shift, 0.0)[owner], *bounds.T)

    def of_few(shift: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = function(full(shift))
        return value, np.bincount(owner[moves], gradient[moves], minlength=n_owners)

    optimise = choose_optimiser("auto", n_owners, np.inf)
    around = np.column_stack([low, high])
    found = optimise(of_few, np.zeros(n_owners), around, tol, None, most)
    return found.value, full(found.theta)
