"""The score to expect on new data: the best one, less what the choice among many has added to it.

What more rows will add is said by `learning`.

A best score is the largest of many numbers with errors, so it is too large on average.  How much
too large shows on draws of the rows with replacement: on each the best point is chosen anew, by the
rows that were drawn, and what it is worth on those that were left out counts (bootstrap bias
corrected cross-validation, Tsamardinos, Greasidou and Borboudakis, 2018).  The outputs of all
points on all rows are known, so nothing is trained for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import norm
from sklearn import config_context, metrics

from .outside import OutOfFold

LEVEL = 0.9
RESAMPLES = 500
CALLS = 40  # draws for a function that must be called for each of them and every point,
CANDIDATES = 10  # of which the best so many are considered
# Errors of the rows of a fold have a machine in common, and the machines of folds most of their
# rows.  Draws of rows do not see that, and their standard errors are too small by this factor, as
# measured by `benchmarks run estimate` on the sets of half A, and checked on half B.
DEPENDENCE = 1.25
UNITS = 500  # most groups of rows that are drawn as one
ENTRIES = 4_000_000  # numbers that are held at once

# scores between two numbers; others have no bounds, or one only
SHARES = (
    metrics.balanced_accuracy_score, metrics.f1_score, metrics.fbeta_score,
    metrics.precision_score, metrics.recall_score, metrics.jaccard_score, metrics.roc_auc_score,
    metrics.average_precision_score,
)  # fmt: skip
BOUNDS = {
    metrics.accuracy_score: (0.0, 1.0),
    metrics.matthews_corrcoef: (-1.0, 1.0),
    **dict.fromkeys(SHARES, (0.0, 1.0)),
}


@dataclass(frozen=True)
class ScoreEstimate:
    """The score to expect on new data, as :class:`GradientSearchCV` has it in `score_estimate_`.

    The interval is one for the expected score of the refitted model: that on infinitely many new
    rows.  A score on few of them varies more; `interval` has an argument for that.

    Attributes
    ----------
    score : float
        The estimate: `best_score` less `optimism`, and `gain` more.
    low, high : float
        Ends of the interval.
    level : float
        How often such intervals hold what they are for, 0.9.
    std_error : float
        Standard error of the score of the chosen point.
    best_score : float
        The score of the chosen point, by which it was chosen.
    optimism : float
        By how much that is too large on average, because it is the best of many.
    gain : float
        By how much it is too small, because folds are trained on fewer rows than the refitted
        model.  Zero where that is not known.
    n_points : int
        How many points there were to choose from, looks at all rows included.
    n_samples : int
        The rows that they were scored on; groups of them if there were any.
    bounds : tuple of float or None
        What the score lies between, if it does.
    rarest : int
        Rows of the class that has the fewest; `n_samples` for a regression or the accuracy.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> from hypermargin import GradientSearchCV
    >>> X, y = load_iris(return_X_y=True)
    >>> expected = GradientSearchCV(SVC(), cv=5).fit(X, y).score_estimate_
    >>> bool(expected.low < expected.score < expected.high)
    True
    """

    score: float
    low: float
    high: float
    level: float
    std_error: float
    best_score: float
    optimism: float
    gain: float
    n_points: int
    n_samples: int
    bounds: tuple[float, float] | None
    rarest: int

    def interval(
        self, level: float | None = None, n_test: int | None = None
    ) -> tuple[float, float]:
        """Return the interval at another level, or for the score on a test of so many rows.

        Parameters
        ----------
        level : float, default=None
            Between 0 and 1; None for 0.9.
        n_test : int, default=None
            Rows of a test; its score varies by itself.  None is for the expected score.

        Returns
        -------
        low, high : float
        """
        z = norm.ppf(0.5 + 0.5 * (self.level if level is None else level))
        more = 1.0 if n_test is None else 1.0 + self.n_samples / n_test
        if self.bounds is None:
            half = z * self.std_error * np.sqrt(more)
            return float(self.score - half), float(self.score + half)
        # Wilson's interval of a share: it has a width where no row was wrong, too
        low, high = self.bounds
        share = np.clip((self.score - low) / (high - low), 0.0, 1.0)
        variance, error = share * (1.0 - share), self.std_error / (high - low)
        rows = min(variance / error**2, self.n_samples) if error > 0 else self.rarest
        rows = max(rows, 1.0) / more
        centre = (share + z**2 / (2 * rows)) / (1 + z**2 / rows)
        half = z * np.sqrt(variance / rows + z**2 / (4 * rows**2)) / (1 + z**2 / rows)
        ends = np.clip([centre - half, centre + half], 0.0, 1.0).round(12)
        return float(low + (high - low) * ends[0]), float(low + (high - low) * ends[1])

    def __str__(self) -> str:
        return (
            f"{self.score:.4g} is the score to expect on new data, with {100 * self.level:.0f} % "
            f"confidence {self.low:.4g} to {self.high:.4g}; the best of {self.n_points} points had "
            f"{self.best_score:.4g}, of which {self.optimism:.2g} comes from choosing it, and with "
            f"all rows the model is expected to gain {self.gain:.2g}."
        )


@dataclass(frozen=True)
class Comparison:
    """The tuned model beside the estimator as it was given, on the same folds.

    Attributes
    ----------
    score : float
        What to expect of the tuned model, trained as in the folds: `score_estimate_` without its
        `gain`, and with no more of its `optimism` than `std_error`.
    default : float
        Mean score of the estimator with its own parameters.
    difference : float
        The first less the second.
    std_error : float
        Standard error of the difference; both have the same rows, so it is less than theirs.  It
        is zero where no row tells the two apart; then there is no difference.
    """

    score: float
    default: float
    difference: float
    std_error: float

    def __str__(self) -> str:
        if self.std_error == 0.0:
            return (
                f"The tuned model scores the {self.default:.4g} of the estimator as it was given: "
                "no row of the folds tells them apart."
            )
        more = "more" if self.difference >= 0 else "less"
        return (
            f"The tuned model is expected to score {abs(self.difference):.2g} {more} than the "
            f"{self.default:.4g} of the estimator as it was given, with a standard error of "
            f"{self.std_error:.2g}."
        )


def compare(expected: ScoreEstimate, tuned: OutOfFold, default: OutOfFold) -> Comparison:
    """Compare an estimate with the score of another point on the same folds.

    The choice was among many points, but it has gained over this one no more than their scores
    differ by chance; it has gained nothing where the two are right and wrong on the same rows.
    """
    both = tuned.beside(default)
    drawn = draws(both, seed=0)
    score = float(both.found[1])
    apart = drawn[:, 0] - drawn[:, 1]
    if (np.abs(apart) <= 1e-12 * (1.0 + np.abs(drawn[:, 1]))).all():  # but for rounding
        return Comparison(score, score, 0.0, 0.0)
    error = DEPENDENCE * float(np.nanstd(apart, ddof=1))
    tuned_score = expected.best_score - min(expected.optimism, error)
    return Comparison(tuned_score, score, tuned_score - score, error)


def estimate(outside: OutOfFold, gain: float = 0.0, seed: int = 0) -> ScoreEstimate:
    """Return the score to expect of the chosen point, by drawing rows with replacement.

    `gain` is what it gains by the rows that folds are not trained on.
    """
    few = outside if outside.is_fast else outside.among_best(CANDIDATES)
    chosen, scores = few.chosen, few.found
    drawn = draws(few, seed)
    drawn = drawn[np.isfinite(drawn).all(axis=1)]
    there, each = best_of(few, drawn), np.arange(len(drawn))
    (best,) = best_of(few, scores[None])  # a look may be above the chosen point by chance
    # What a score gains on the rows that were drawn it loses on those that were left out: on these
    # it is twice that on all rows less that on the drawn ones, to first order.  Thus they need no
    # scores of their own, which are of few rows; r2 and F are too low on few.  What a fixed point
    # gains is zero on average; without its chance few draws will do.
    gained = np.mean(drawn[each, there] - drawn[:, best])
    lost = np.mean(scores[best] - scores[there])
    optimism = max(float(gained + 2.0 * lost), 0.0)
    bounds = BOUNDS.get(outside.function)
    score = float(np.clip(scores[chosen] - optimism + gain, *(bounds or (-np.inf, np.inf))))
    found = ScoreEstimate(
        score, np.nan, np.nan, LEVEL,
        DEPENDENCE * float(np.std(drawn[:, chosen], ddof=1)), float(scores[chosen]), optimism, gain,
        outside.n_points, outside.n_units, bounds, outside.rarest,
    )  # fmt: skip
    low, high = found.interval()
    return replace(found, low=low, high=high)


def best_of(outside: OutOfFold, scores: np.ndarray) -> np.ndarray:
    """Return the number of the point that the search would choose by every row of scores."""
    order = np.arange(outside.n_points)
    if not outside.selection.first:
        order = np.argsort(outside.losses, kind="stable")
    in_order = scores[:, order]
    best = in_order.max(axis=1, keepdims=True)
    return order[(in_order >= best - 1e-12 * (1.0 + np.abs(best))).argmax(axis=1)]


def draws(outside: OutOfFold, seed: int) -> np.ndarray:
    """Return the scores of all points on draws of the rows, or of groups of them."""
    rng = np.random.default_rng(seed)
    unit, n_units = outside.units(UNITS, rng)
    n_draws = RESAMPLES if outside.is_fast else CALLS
    size = max(1, min(n_draws, ENTRIES // len(unit)))
    found, equal = [], np.full(n_units, 1.0 / n_units)
    with config_context(assume_finite=True, skip_parameter_validation=True):
        for begin in range(0, n_draws, size):
            counts = rng.multinomial(n_units, equal, size=min(size, n_draws - begin))
            found.append(outside.scores(counts[:, unit].astype(float)))
    return np.concatenate(found)
