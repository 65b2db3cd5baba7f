"""A search on Dask collections: the same, with sums in place of rows."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import is_classifier

from .._core.budget import Workers
from ..adapters.chunked import Gathered, gather, prepare_chunked, refuse
from ..adapters.model import Model
from ..adapters.prepare import Prepared
from ..criteria.sums import reduction_of
from ..methods import METHODS, Method
from ..problems.base import Evaluation
from ..problems.chunked.low_rank import ChunkedLowRank
from ..problems.chunked.problem import ChunkedCrossValidation, ChunkedEvaluation
from .combinations import Combination, check_landmarks, read_combinations
from .plans import Plan, make_plans
from .scoring import Scoring
from .tallies import OfOutputs, Tally, measures_of

ON_SUMS = ("gradient", "grid", "random")  # methods that need no outputs of single rows
NOT_HERE = {"checkpoint": None, "return_train_score": False, "exact_refit": False, "pooled": True}


@dataclass
class ChunkedScoring(Scoring):
    """How the points of a search on chunks are scored; its data are those of the sample."""

    travels: ClassVar[bool] = False  # rows are with workers already

    data: Gathered | None = None
    tol: float = 5e-3

    def prepared(
        self, model: Model, splits: list, memory: float, workers: Workers, rank: Any, seed: int
    ) -> Prepared:
        """Return the problem of a model."""
        assert self.data is not None
        found = prepare_chunked(
            model, self.data, self.fit_params, memory, workers, self.tol, rank, seed
        )
        problem = found.problem
        assert isinstance(problem, (ChunkedCrossValidation, ChunkedLowRank))
        classes = self.data.classes
        n_classes = 0 if classes is None else len(classes)
        answers = OfOutputs(model.adapter, n_classes)
        problem.tally = Tally(answers, self.data.n_splits, n_classes, self.measures(model)[1])
        return found

    def measures(self, model: Model) -> tuple[dict, frozenset[str]]:
        """Return what makes scores of a model's tallies, and what they need."""
        assert self.data is not None
        return measures_of(self.scorer, self.data.classes, hasattr(model.adapter, "probabilities"))

    def score(
        self,
        prepared: Prepared,
        settings: Mapping[str, Any],
        evaluation: Evaluation | None,
        seconds: float,
        error: Exception | None,
    ) -> list[dict[str, Any]]:
        """Return one dict per fold, of tallies where the outputs are elsewhere."""
        if error is not None or not isinstance(evaluation, ChunkedEvaluation):
            return super().score(prepared, settings, evaluation, seconds, error)
        measures, _ = self.measures(prepared.model)
        tallies, n_folds = evaluation.tallies(), prepared.n_folds
        found = []
        for f in range(n_folds):
            scores = {name: measure(tallies, f) for name, measure in measures.items()}
            found.append(
                {
                    "fit_error": None,
                    "test_scores": scores.get(None, scores),
                    "n_test_samples": int(tallies["rows"][f]),
                    "fit_time": seconds / n_folds,
                    "score_time": 0.0,
                }
            )
        return found


def as_asked(search: Any) -> Any:
    """Return the arguments of a search on chunks, or say which is not for it."""
    for name, usual in NOT_HERE.items():
        given = getattr(search, name)
        if given != usual:
            raise ValueError(f"{name}={given!r} is not for Dask collections; use {name}={usual!r}.")
    method = search.method
    known = [type(METHODS[name]) for name in ON_SUMS]
    if isinstance(method, str) and method not in ("auto", *ON_SUMS):
        _refuse_method(method)
    ours = {type(one) for one in METHODS.values()}
    if isinstance(method, Method) and type(method) in ours.difference(known):
        _refuse_method(method)
    asked = copy(search)
    asked.method = "gradient" if method == "auto" else method
    return asked


def _refuse_method(method: Any) -> None:
    raise ValueError(
        f"method={method!r} needs the outputs of single rows, which stay where Dask has them; use "
        f"one of {list(ON_SUMS)}."
    )


def read_chunks(
    search: Any, X: Any, y: Any, params: Mapping[str, Any], scorers: Any
) -> tuple[Gathered, ChunkedScoring]:
    """Read collections, and say how points are scored."""
    for one in read_combinations(search.estimator, search._given_space()):
        if isinstance(one, Combination):
            if search.rank is not None:
                check_landmarks(one.model, search.rank, False)
            refuse(one.model, search.rank)
    unknown = [name for name, given in params.items() if given is not None]
    unknown = [name for name in unknown if name != "sample_weight"]
    if unknown:
        raise ValueError(f"{unknown[0]} is not for Dask collections; sample_weight can be given.")
    routed = search._get_routed_params_for_fit(dict(params))
    weight, counted = params.get("sample_weight"), "sample_weight" in routed.scorer.score
    data = gather(X, y, weight, counted, search.cv, is_classifier(search.estimator))
    given = {} if data.weight is None else {"sample_weight": data.weight}
    return data, ChunkedScoring(
        scorers,
        data.X,
        data.y,
        given,
        given if counted else {},
        search.error_score,
        False,
        data=data,
        tol=float(search.tol),
    )


def chunked_plans(search: Any, scoring: ChunkedScoring, weight: np.ndarray) -> list[Plan]:
    """Check every combination on the sample, and whether what it descends on is made of sums."""
    data = scoring.data
    assert data is not None
    combinations = read_combinations(search.estimator, search._given_space())
    plans = make_plans(
        search, combinations, search._leading(scoring.scorer), data.X, data.y, scoring.fit_params,
        data.splits, weight,
    )  # fmt: skip
    for plan in plans:
        if isinstance(plan, tuple):
            reduction_of(plan[1])
            scoring.measures(plan[0].model)
    return plans
