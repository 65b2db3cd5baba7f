"""Scores in the user's own metric, read off the out-of-fold outputs.

Scorers made by scikit-learn ask an estimator for predictions, decisions or probabilities on the
validation rows.  Those follow from the outputs that training has already given, so a stand-in with
the outputs of a fold answers them and nothing is fitted again.  Other callables may ask anything;
they get the real estimator, fitted on the fold by scikit-learn.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics._scorer import _BaseScorer, _MultimetricScorer, _PassthroughScorer
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.model_selection._validation import _score
from sklearn.utils import column_or_1d
from sklearn.utils._metadata_requests import _routing_enabled, process_routing
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _check_method_params

from .._core.budget import Workers
from ..adapters.folds import Split
from ..adapters.model import Model
from ..adapters.prepare import Prepared, prepare
from ..adapters.scaling import with_params
from ..criteria.base import Criterion
from ..criteria.probability import Calibration, calibrated
from ..problems.base import Evaluation
from .outside import Given, leading_scorer, listen


@dataclass
class Scoring:
    """How the points of a search are scored."""

    travels: ClassVar[bool] = True  # whether its rows may be sent to other processes

    scorer: Any
    X: Any
    y: Any
    fit_params: Mapping[str, Any]
    score_params: Mapping[str, Any]
    error_score: Any
    return_train_score: bool
    by_fitting: bool = False  # whether models answer in ways that no stand-in knows

    @property
    def reads_outputs(self) -> bool:
        """Whether all scorers are of the kind that a stand-in can answer."""
        scorers = self.scorer
        if self.by_fitting:
            return False
        each = scorers._scorers.values() if isinstance(scorers, _MultimetricScorer) else [scorers]
        return all(isinstance(s, (_BaseScorer, _PassthroughScorer)) for s in each)

    def prepared(
        self,
        model: Model,
        splits: list[Split],
        memory: float,
        workers: Workers,
        rank: int | None,
        seed: int,
    ) -> Prepared:
        """Return the problem of a model on the data that are scored."""
        given = self.X, self.y, splits, self.fit_params
        return prepare(model, *given, memory, workers, rank, seed)

    def score(
        self,
        prepared: Prepared,
        settings: Mapping[str, Any],
        evaluation: Evaluation | None,
        seconds: float,
        error: Exception | None,
    ) -> list[dict[str, Any]]:
        """Return one dict per fold, in the form that BaseSearchCV makes its results of.

        Without an evaluation, models are fitted with the parameters `settings`.
        """
        if error is not None:
            return self.failures(error, prepared.n_folds)
        share = seconds / len(prepared.splits)
        return [
            self._fold(prepared, settings, evaluation, share, f, split)
            for f, split in prepared.each_fold()
        ]

    def read(self, prepared: Prepared, outputs: list[np.ndarray]) -> list[dict[str, Any]]:
        """Return the scores of given outputs on the validation rows, one dict per fold."""
        tests = [test for _, test in prepared.splits]
        given = Evaluation(outputs, tests, _unknown, _unknown, None, True)
        return [
            {"test_scores": self._score(_stand_in(prepared, given, f), prepared, test, train)}
            for f, (train, test) in enumerate(prepared.splits)
        ]

    def given(self, prepared: Prepared, evaluation: Evaluation, leading: str | None) -> list[Given]:
        """Return what the leading score's function is given of an evaluation, fold by fold."""
        scorer, found = leading_scorer(self.scorer, leading, prepared.model.whole), []
        for f, rows in enumerate(evaluation.test):
            model, y = _stand_in(prepared, evaluation, f), _take(self.y, rows)
            params = _check_method_params(self.X, params=dict(self.score_params), indices=rows)

            def ask(silent: Any, model: Any = model, y: Any = y, rows: Any = rows) -> Any:
                if not isinstance(self.scorer, _MultimetricScorer):
                    return silent(model, rows, y, **params)  # noqa: B023, it is called at once
                if _routing_enabled():  # it knows whose the params are
                    routed = process_routing(self.scorer, "score", **params)  # noqa: B023
                    return silent(model, rows, y, **routed[leading].score)
                return _MultimetricScorer(scorers={leading: silent})(model, rows, y, **params)  # noqa: B023

            with config_context(assume_finite=True, skip_parameter_validation=True):
                found.append(listen(scorer, ask))
        return found

    def _fold(
        self,
        prepared: Prepared,
        settings: Mapping[str, Any],
        evaluation: Evaluation | None,
        share: float,
        f: int | None,
        split: Split,
    ) -> dict[str, Any]:
        """Score a fold of the problem, or one that it does not have (None)."""
        train, test = split
        if self.reads_outputs and evaluation is not None and f is not None:
            model, test = _stand_in(prepared, evaluation, f), evaluation.test[f]
        else:
            try:
                model, share = self._fitted(prepared, settings, train)
            except Exception as error:
                if self.error_score == "raise":
                    raise
                return self.failures(error, 1)[0]
        clock = time.perf_counter()
        result = {
            "fit_error": None,
            "test_scores": self._score(model, prepared, test, train),
            "n_test_samples": len(test),
            "fit_time": share,
            "score_time": time.perf_counter() - clock,
        }
        if self.return_train_score:
            result["train_scores"] = self._score(model, prepared, train, train)
        return result

    def _score(self, model: Any, prepared: Prepared, rows: np.ndarray, train: np.ndarray) -> Any:
        if isinstance(model, _StandIn):
            X, y = rows, _take(self.y, rows)
        else:
            X, y = _safe_split(prepared.model.whole, self.X, self.y, rows, train)
        params = _check_method_params(self.X, params=dict(self.score_params), indices=rows)
        # outputs are finite here and the scorers' parameters have been used; checks take longer
        # than scores do
        known = isinstance(model, _StandIn)
        with config_context(assume_finite=known or None, skip_parameter_validation=known or None):
            return _score(model, X, y, self.scorer, params, self.error_score)

    def _fitted(
        self, prepared: Prepared, settings: Mapping[str, Any], train: np.ndarray
    ) -> tuple[Any, float]:
        values = dict(settings)
        threshold = prepared.model.threshold
        if prepared.model.adapter.wraps_threshold:
            threshold = values.pop("threshold", threshold)
        model, prefix = with_params(prepared.model.whole, values)
        X, y = _safe_split(model, self.X, self.y, train)
        fit_params = _check_method_params(self.X, params=dict(self.fit_params), indices=train)
        clock = time.perf_counter()
        model.fit(X, y, **{prefix + name: value for name, value in fit_params.items()})
        if threshold is not None:
            model = with_threshold(model, threshold)
        return model, time.perf_counter() - clock

    def failures(self, error: Exception, n_folds: int) -> list[dict[str, Any]]:
        """Return what to report of a point that could not be fitted."""
        if self.error_score == "raise":
            raise error
        result = {
            "fit_error": "".join(traceback.format_exception(error)),
            "test_scores": self._error_scores(),
            "n_test_samples": 0,
            "fit_time": 0.0,
            "score_time": 0.0,
        }
        if self.return_train_score:
            result["train_scores"] = self._error_scores()
        return [dict(result) for _ in range(n_folds)]

    def _error_scores(self) -> Any:
        if isinstance(self.scorer, _MultimetricScorer):
            return {name: self.error_score for name in self.scorer._scorers}
        return self.error_score


def _unknown(*_: Any) -> Any:
    raise RuntimeError("only outputs on validation rows are known here.")


def with_threshold(fitted: Any, threshold: float) -> FixedThresholdClassifier:
    """Return scikit-learn's own wrapper around a fitted model, as fitted."""
    model = FixedThresholdClassifier(
        fitted, threshold=threshold, response_method="decision_function"
    )
    model.estimator_ = fitted
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(fitted, name):
            setattr(model, name, getattr(fitted, name))
    return model


def _take(y: Any, rows: np.ndarray) -> Any:
    return y.iloc[rows] if hasattr(y, "iloc") else np.asarray(y)[rows]


class _StandIn(BaseEstimator):
    """A fold's machines in the role of the fitted estimator; X is given by row numbers."""

    def __init__(self, prepared: Any, outputs_at: Callable[[np.ndarray], np.ndarray]):
        self.prepared = prepared
        self.outputs_at = outputs_at

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.prepared.model.adapter.predict(self.outputs_at(X), None)


class _RegressorStandIn(RegressorMixin, _StandIn):
    def predict(self, X: np.ndarray) -> np.ndarray:
        values = super().predict(X)
        return values.reshape(len(X), -1) if self.prepared.targets.as_table else values


class _LabelsStandIn(ClassifierMixin, _StandIn):
    """One of several labels, each of which a row has or has not."""

    @property
    def classes_(self) -> np.ndarray:
        return np.arange(len(self.prepared.targets.columns))

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        return self.prepared.model.adapter.decision_function(self.outputs_at(X), None)


class _ClassifierStandIn(ClassifierMixin, _StandIn):
    """Knows the classes of the training part, as any fitted classifier does."""

    def __init__(self, prepared: Any, outputs_at: Any, fold: int, calibration: Callable[[], Any]):
        super().__init__(prepared, outputs_at)
        self.fold, self.calibration = fold, calibration

    @property
    def known(self) -> np.ndarray | None:
        return self.prepared.problem.folds[self.fold].known

    @property
    def classes_(self) -> np.ndarray:
        classes, known = self.prepared.targets.classes, self.known
        return classes if known is None else classes[known]

    def outputs(self, X: np.ndarray) -> np.ndarray:
        """Return the outputs of the machines that the fold's model has."""
        outputs, known = self.outputs_at(X), self.known
        return outputs if known is None else self.prepared.model.adapter.narrowed(outputs, known)

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.prepared.model.adapter.predict(self.outputs(X), self.classes_)

    def score(self, X: np.ndarray, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy, without the checks of labels that are known to be fine."""
        labels = y if isinstance(y, np.ndarray) and y.ndim == 1 else column_or_1d(y)
        right = self.predict(X) == labels
        return float(np.average(right, weights=sample_weight))

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        return self.prepared.model.adapter.decision_function(self.outputs(X), self.classes_)

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        adapter, f, known = self.prepared.model.adapter, self.fold, self.known
        if hasattr(adapter, "probabilities"):
            return adapter.probabilities(self.outputs(X))
        read, _ = self.prepared.contrasted({f: self.outputs_at(X)}, [f])
        P = self.calibration().probabilities(read)
        if known is None:
            return P
        return P[:, known] / P[:, known].sum(axis=1, keepdims=True)


def _stand_in(prepared: Prepared, evaluation: Evaluation, f: int) -> _StandIn:
    def outputs_at(rows: np.ndarray) -> np.ndarray:
        if rows is evaluation.test[f]:
            return evaluation.outputs[f]
        return evaluation.outputs_at(f, rows)

    if prepared.targets.several:
        return _LabelsStandIn(prepared, outputs_at)
    if prepared.targets.classes is None:
        return _RegressorStandIn(prepared, outputs_at)

    def sigmoid() -> Calibration:
        """Fit the sigmoid on the other folds' outputs, so that the fold's own score is honest."""
        everyone = list(range(len(evaluation.test)))
        others = [g for g in everyone if g != f]
        found = calibration(prepared, evaluation, others)
        found = found or calibration(prepared, evaluation, everyone)
        found = found or calibration(prepared, evaluation, everyone, knowing=False)
        if found is None:
            raise ValueError("probabilities need validation rows of every class.")
        return found

    return _ClassifierStandIn(prepared, outputs_at, f, sigmoid)


def calibration(
    prepared: Prepared,
    evaluation: Evaluation,
    folds: Sequence[int],
    threshold: float = 0.0,
    knowing: bool = True,
) -> Calibration | None:
    """Fit sigmoids to the out-of-fold outputs of some folds; None if they lack a class.

    Outputs are those above the threshold; the sigmoid is for outputs as they are.  With `knowing`
    folds whose machines do not know all classes are left out: theirs are other models.
    """
    if knowing:
        folds = [f for f in folds if prepared.problem.folds[f].known is None]
    if not len(folds):
        return None
    rows = np.concatenate([evaluation.test[f] for f in folds])
    y, weight = prepared.targets.y[rows], prepared.sample_weight[rows]
    if len(np.unique(y[weight > 0])) < len(np.asarray(prepared.targets.classes)):
        return None
    read, _ = prepared.contrasted(evaluation.outputs, folds)
    return calibrated(read + threshold, y, weight)


def check_same_names(scores: Sequence[Any]) -> None:
    """Say so if a scorer that returns a dict does not always return the same names."""
    first = next((score for score in scores if isinstance(score, dict)), None)
    if first is None:
        return
    for score in scores:
        known = score.keys() if isinstance(score, dict) else ()
        if set(known) != set(first):
            raise ValueError(
                f"scoring returned scores named {list(first)} and, of another fit, {list(known)}; "
                "it must return the same names every time."
            )


def default_surrogate_message(scorer: Any, surrogate: Criterion) -> str:
    """Say that a score has no smooth form of its own."""
    name = getattr(scorer, "_score_func", scorer)
    name = getattr(name, "__name__", repr(name))
    return (
        f"scoring={name} has no smooth form here: the search descends on {surrogate.label}, "
        f"and {name} selects among the visited points."
    )
