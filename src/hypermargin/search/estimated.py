"""What to expect of a search's best point on new data."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import numpy as np
from sklearn.metrics._scorer import _PassthroughScorer
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils.validation import check_is_fitted

from .estimate import Comparison, ScoreEstimate, compare, estimate
from .learning import gain
from .log import Log, Run
from .outside import BestOutputs, Given, OutOfFold, keep, leading_scorer
from .records import Record

# rows up to which what the outputs are read with is kept after a search: reading them would take a
# part of its time, and the data are small; so are the values of these rows
SMALL_ENOUGH, FEW_VALUES = 4_000, 10_000_000


def outside_of(log: Log, best: Record, groups: Any, by_function: bool) -> OutOfFold | str:
    """Return what is to be kept of the outputs of all points that could be chosen.

    A string says why there is nothing.
    """
    prepared, scoring = log.run_of(best).prepared, log.scoring
    if by_function:
        return "refit is a function, and how it would choose on other rows is not known"
    if not scoring.reads_outputs:
        return "scores are those of models that were fitted in every fold, and not read off outputs"
    if log.selection.by_loss:
        return "the best point was chosen by the criterion; give a score as scoring, too"
    if prepared is None or best.outputs is None or not best.succeeded:
        return "the best point has no outputs"
    if prepared.foreign:
        return f"the score of fold {min(prepared.foreign)} is not read off outputs"
    kept = [r for r in log.kept() if r.outputs is not None and r.succeeded]
    try:
        points = [_given(log, record) for record in kept]
    except Exception as error:  # scorers of users raise what they like; scores were error_score
        return f"the score cannot be computed ({error})"
    looks = _looks(log, kept, best.n_samples)
    points += looks.values()
    kept += looks
    scorer = leading_scorer(scoring.scorer, log.leading, prepared.model.whole)
    strange = set(points[0][0][2]) - {*scorer._kwargs, "sample_weight"}
    if strange:
        return f"the score also depends on {sorted(strange)}, which are not kept"
    classes = None if prepared.targets.several else prepared.targets.classes
    return keep(
        points, scorer, classes, best.outputs.test, [r.objective for r in kept],
        [r.score for r in kept], kept.index(best), log.selection, groups,
    )  # fmt: skip


def _given(log: Log, record: Record) -> list[Given]:
    """Return what the score's function is given of a record, fold by fold."""
    prepared = log.run_of(record).prepared
    assert prepared is not None and record.outputs is not None
    return log.scoring.given(prepared, record.outputs, log.leading)


def _looks(log: Log, kept: list[Record], n_samples: int) -> dict[Record, list[Given]]:
    """Return the looks at all rows: evaluations began at the best, so the choice was among them."""
    looks = [
        record
        for record in log.records
        if record.look and record.n_samples == n_samples
        and record.outputs is not None and record.succeeded and record not in kept
    ]  # fmt: skip
    try:
        return {record: _given(log, record) for record in looks}
    except Exception:  # nobody has asked for their scores
        return {}


def best_outputs(run: Run, record: Record) -> BestOutputs | None:
    """Return the out-of-fold outputs of the best point of a classifier, for pictures of them."""
    prepared, evaluation = run.prepared, record.outputs
    if prepared is None or evaluation is None or prepared.targets.classes is None:
        return None
    if prepared.targets.several or prepared.foreign or prepared.model.own_methods:
        return None
    folds = range(len(evaluation.test))
    read, _ = prepared.contrasted(evaluation.outputs, folds)
    values = {**prepared.problem.values, **run.point(record)}
    threshold = float(np.asarray(values.get("threshold", 0.0)).item())
    rows = np.concatenate(evaluation.test)
    return BestOutputs(
        read + threshold, prepared.targets.y[rows], prepared.sample_weight[rows],
        np.repeat(folds, [len(test) for test in evaluation.test]), prepared.targets.classes,
        threshold,
    )  # fmt: skip


class Estimated(BaseSearchCV):
    """A search that tells what to expect on new data."""

    rank: int | None
    _outside: OutOfFold | str | Callable[[], OutOfFold | str]
    _gain: float | Callable[[Any], float]
    _score_estimate: ScoreEstimate | None
    _best_outputs: BestOutputs | None

    def _keep_outputs(self, log: Log, best: Record | None, groups: Any) -> None:
        """Keep what an estimate needs; it is made when somebody asks for it."""
        self._outside, self._score_estimate = (
            "several scores without refit have no best point",
            None,
        )
        self._gain = 0.0
        self._best_outputs = None if best is None else best_outputs(log.run_of(best), best)
        if best is not None:
            self._outside = partial(outside_of, log, best, groups, callable(self.refit))
            # the gain shrinks faster with the rows than the error of the score does
            X = log.scoring.X
            values = X.nnz if hasattr(X, "nnz") else np.prod(np.shape(X), dtype=float)
            if best.n_samples > SMALL_ENOUGH or values > FEW_VALUES:
                self._read_outputs()
            else:
                self._gain = partial(gain, log, best)

    def _keep_no_outputs(self, why: str) -> None:
        """Say why there is no estimate."""
        self._outside, self._score_estimate, self._best_outputs = why, None, None
        self._gain = 0.0

    def _read_outputs(self) -> OutOfFold | str:
        """Return what was kept; it is read off the search once."""
        if callable(self._outside):
            self._outside = self._outside()
        return self._outside

    def _read_gain(self) -> float:
        """Return what all rows are worth beside those of a fold; that takes about an evaluation."""
        if callable(self._gain):
            self._gain = 0.0 if isinstance(self._read_outputs(), str) else self._gain(self)
        return self._gain

    def __getstate__(self) -> Any:
        if hasattr(self, "_outside"):  # a search itself cannot be pickled
            self._read_gain()
            self._read_outputs()
        return super().__getstate__()

    def _kept_outputs(self, what: str) -> OutOfFold:
        check_is_fitted(self, "cv_results_")
        if isinstance(self._read_outputs(), str):
            raise AttributeError(f"There is no {what}: {self._outside}.")
        return cast(OutOfFold, self._outside)

    @property
    def score_estimate_(self) -> ScoreEstimate:
        """The score to expect on new data, with an interval."""
        outside = self._kept_outputs("score_estimate_")
        if self._score_estimate is None:
            self._score_estimate = estimate(outside, self._read_gain())
            # the others have served: with all their outputs a model would be large
            self._outside = outside.only(np.array([outside.chosen]))
        return self._score_estimate

    def compare_default(self, X: Any, y: Any = None, **params: Any) -> Comparison:
        """Compare the tuned model with the estimator as it was given, on the same folds.

        This takes one more evaluation, a fit in every fold.

        Parameters
        ----------
        X, y, **params
            As they were given to `fit`.

        Returns
        -------
        comparison : Comparison
            The score that the estimator has with its own parameters (`default`), the `difference`
            of `score_estimate_` to it, and the `std_error` of that.  As a string it is a sentence.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.svm import SVC
        >>> from hypermargin import GradientSearchCV
        >>> X, y = load_iris(return_X_y=True)
        >>> search = GradientSearchCV(SVC(gamma=10.0), cv=5).fit(X, y)
        >>> bool(search.compare_default(X, y).difference > 0)
        True
        """
        expected, outside = self.score_estimate_, self._kept_outputs("comparison")
        own = self.estimator.get_params()
        names = [name for name in self.best_params_ if name in own] or [min(own)]
        scorer = self.scorer_[self.refit] if isinstance(self.scorer_, dict) else self.scorer_
        scoring = None if isinstance(scorer, _PassthroughScorer) else scorer
        as_given = type(self)(
            self.estimator, {name: [own[name]] for name in names}, scoring=scoring, cv=self.cv,
            n_jobs=self.n_jobs, rank=self.rank, refit=False, error_score="raise",
        ).fit(X, y, **params)  # fmt: skip
        return compare(expected, outside, as_given._kept_outputs("comparison"))
