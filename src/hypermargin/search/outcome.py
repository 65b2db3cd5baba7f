"""What a search leaves behind: its attributes, its table, and the refitted model."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from copy import copy
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics._scorer import _MultimetricScorer
from sklearn.model_selection._search import BaseSearchCV
from sklearn.model_selection._validation import (
    _insert_error_scores,
    _warn_or_raise_about_fit_failures,
)

from .._core.budget import Budget
from .._core.warn import warn
from ..adapters.scaling import with_params
from ..methods.objective import Objective
from ..methods.relevance import relevance
from .calibrated import Calibrated
from .display import evaluations, in_seconds, spelt
from .finish import calibrate, fit_best
from .log import Log, Run
from .records import Record, Selection
from .scoring import check_same_names, with_threshold
from .shown import Shown


class Outcome(Calibrated, Shown):
    """A search whose log becomes attributes; arguments are those of `GradientSearchCV`."""

    rank: int | None
    exact_refit: bool
    curve_: dict[str, np.ndarray]

    def _publish(self, log: Log, scorers: Any, refit_metric: str, n_splits: int) -> Record | None:
        """Set the attributes that tell of the search; return the best point, if there is one."""
        results = self._collect(log, n_splits)

        for name in ("curve_", "widths_", "weights_", "relevance_", "forecast_"):
            self.__dict__.pop(name, None)  # those of an earlier fit
        self.n_splits_ = n_splits
        self.cv_results_ = results
        self.history_ = [log.run_of(record).public(record) for record in log.records]
        self.scorer_ = scorers._scorers if isinstance(scorers, _MultimetricScorer) else scorers
        first_scores = (log.kept()[0].folds or [])[0]["test_scores"]
        self.multimetric_ = isinstance(first_scores, dict)
        if callable(self.scoring) and self.multimetric_:
            self._check_refit_for_multimetric(first_scores)
            refit_metric = self.refit
        if not self.refit and self.multimetric_:
            return None
        self.best_index_ = self._select_best_index(self.refit, refit_metric, results)
        if not callable(self.refit):
            scores, losses = results[f"mean_test_{refit_metric}"], results["objective"]
            self.best_index_ = log.selection.best(scores, losses)
        if callable(self.refit):  # what it chooses is evaluated at the final tolerance, too
            log.settle(log.kept()[self.best_index_], Budget())
            self.cv_results_ = results = self._collect(log, n_splits)
            self.history_ = [log.run_of(record).public(record) for record in log.records]
        else:
            self.best_score_ = results[f"mean_test_{refit_metric}"][self.best_index_]
        self.best_params_ = results["params"][self.best_index_]
        best = log.kept()[self.best_index_]
        run = log.run_of(best)
        self._warn_of(run, best)
        if run.objective is not None and run.objective.forecast is not None:
            self.forecast_ = run.objective.forecast.as_dict()
        if run.curve is not None:
            self.curve_ = run.curve.as_dict()
        if run.objective is not None and getattr(run.objective.widths, "about", None):
            self._tell_of_widths(run.objective, log)
        return best

    def _tell_of_widths(self, objective: Objective, log: Log) -> None:
        """Say whether widths pay, or weights, and what they say of the features or kernels."""
        about, answer = objective.widths.about, objective.widths.as_dict()
        setattr(self, f"{about}_", answer)
        log.tasks.progress.display.say(lambda: [f"[{about}] {answer['why']}"])
        found = relevance(objective)
        if found is not None:
            self.relevance_ = found

    @staticmethod
    def _select_best_index(refit: Any, refit_metric: str, results: dict[str, Any]) -> int:
        """Return the row with the best score; of equal scores that with the least smooth loss."""
        if callable(refit):
            return BaseSearchCV._select_best_index(refit, refit_metric, results)
        return Selection().best(results[f"mean_test_{refit_metric}"], results["objective"])

    def _collect(self, log: Log, n_splits: int) -> dict[str, Any]:
        """Make `cv_results_` of the entries on all rows."""
        kept = log.complete()
        out = [fold for record in kept for fold in record.folds or []]
        _warn_or_raise_about_fit_failures(out, self.error_score)
        if callable(self.scoring):
            _insert_error_scores(out, self.error_score)
        check_same_names([fold["test_scores"] for fold in out])
        extra = {
            name: [getattr(record, name) for record in kept]
            for name in ("objective", "gradient_norm", "n_samples", "tol")
        }
        params = [log.params(record) for record in kept]
        return self._format_results(params, n_splits, out, extra)

    def _refit(
        self, log: Log, record: Record, budget: Budget, around: Callable[[Any], Any] = nullcontext
    ) -> None:
        """Fit the model of a record, inside a context that `around` makes for it."""
        clock, run, scoring = time.perf_counter(), log.run_of(record), log.scoring
        params = dict(self.best_params_)
        wrapped = "threshold" not in self.estimator.get_params()
        threshold = params.pop("threshold", None) if wrapped else None
        best, prefix = with_params(self.estimator, params)
        params = {prefix + name: value for name, value in scoring.fit_params.items()}
        X, y, on_landmarks = scoring.X, scoring.y, self.rank is not None
        with around(best):
            fit_best(best, run, record, X, y, params, on_landmarks, self.exact_refit, budget)
        self.calibration_, self.probability_cut_ = calibrate(best, run, record, threshold)
        if threshold is not None:
            best = with_threshold(best, threshold)
        self.best_estimator_ = best
        self.refit_time_ = time.perf_counter() - clock
        if hasattr(best, "feature_names_in_"):
            self.feature_names_in_ = best.feature_names_in_

    def _so_far(self, log: Log) -> dict[str, Any] | None:
        """Return what predicts of a search that would end now, None if nothing does.

        That takes a refit, unless it was asked for before.
        """
        scored = [record for record in log.records if record.folds and record.succeeded]
        if not self.refit or not scored:
            return None
        best = log.selection.best_record(scored)
        if log.latest is None or log.latest[0] is not best:
            ended, scorers = copy(self), log.scoring.scorer
            named = isinstance(scorers, _MultimetricScorer)
            ended.scorer_ = scorers._scorers if named else scorers
            ended.multimetric_ = isinstance((best.folds or [])[0]["test_scores"], dict)
            ended.best_params_, ended.best_score_ = log.params(best), best.score
            ended._refit(log, best, Budget())
            names = (
                "scorer_", "multimetric_", "best_params_", "best_score_", "best_estimator_",
                "calibration_", "probability_cut_", "refit_time_", "feature_names_in_",
            )  # fmt: skip
            log.latest = best, {name: vars(ended)[name] for name in names if name in vars(ended)}
        return log.latest[1]

    def _summary(self, log: Log) -> list[str]:
        """Return four lines on what a search has found, and how."""
        looks = sum(record.look for record in log.records)
        best = "no best point, as refit=False"
        if hasattr(self, "best_params_"):
            score = f"best score {self.best_score_:.5g}" if hasattr(self, "best_score_") else "best"
            best = f"{score} at {spelt(self.best_params_)}"
        n_all = len(self.cv_results_["params"])
        fewer = len(log.records) - looks - n_all
        n_rows = int(np.max(self.cv_results_["n_samples"]))
        parts = {name: of for name, of in self.seconds_.items() if of > 0.05}
        spent = ", ".join(f"{name} {in_seconds(of)}" for name, of in parts.items())
        took = f"search {in_seconds(sum(self.seconds_.values()))}" + (
            f" ({spent})" if spent else ""
        )
        if self.refit:
            took += f", refit {in_seconds(self.refit_time_)}"
        return [
            best,
            f"{evaluations(n_all)} on {n_rows} rows, {fewer} on fewer, {looks} rough looks",
            took,
            f"the search {log.ending}",
        ]

    def _warn_of(self, run: Run, best: Record) -> None:
        """Warn of a best point that sits on a bound, or whose machines are not fully trained."""
        on_bound = [
            f"{name}={value:.4g} is on the bound {bound:.4g} of its range"
            for name, value, bound in run.space.on_bound(run.point(best))
        ]
        if run.prepared is not None:
            model, targets = run.prepared.model, run.prepared.targets
            for doubt in model.adapter.doubts(targets):
                warn(f"The refitted model may differ from the search: {doubt}.")
        if on_bound:
            warn(f"The best {', '.join(on_bound)}; a wider range in space may do better.")
        if best.fault is not None:
            warn(
                f"Training at the best point {best.fault}; scale the data or narrow the space.",
                ConvergenceWarning,
            )
