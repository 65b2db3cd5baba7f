"""From an estimator and data to a problem: input checks, folds, transformers inside folds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from .._core.budget import Workers
from .._core.space import Dimension, Labels, Params
from ..kernels.base import Kernel
from ..losses.base import COSTS
from ..problems.base import Design, Fold, KernelProblem, Problem
from ..problems.exact.problem import CrossValidation
from ..problems.landmarks.problem import LowRankCrossValidation
from ..problems.linear.multinomial import CoupledPart, Multinomial
from ..problems.linear.problem import LinearCrossValidation
from .base import Targets
from .designs import own_design, shared_design
from .folds import FitFailed, Split, make_folds, whole_fold
from .input import check_inputs, features_of, row_weights, split_params
from .linear import LinearAdapter
from .model import Model

THRESHOLD = Dimension(-4.0, 4.0, "linear", usual=(-1.0, 1.0))


@dataclass(frozen=True)
class Prepared:
    """A problem, and what is needed to read its outputs.

    `splits` are the folds of the problem.  `foreign` are those that cannot be trained here, by
    their numbers among all: what the estimator's own `fit` makes of them counts for the scores.
    """

    model: Model
    problem: Problem
    targets: Targets
    splits: list[Split]
    sample_weight: np.ndarray  # of training, ones where none was given
    foreign: Mapping[int, tuple[Split, FitFailed]] = field(default_factory=dict)
    X: Any = None  # as the user has given it
    sample: Prepared | None = None  # what is here of rows in many places, `n_rows` of which are all

    def features(self, name: str) -> Labels:
        """Return what the features that a hyperparameter has entries for are called.

        Those that transformers make have numbers.  Widths of features that differ from fold to fold
        would mean nothing.
        """
        sizes = {design.points.X.shape[1] for design in self.problem.designs}
        if len(sizes) > 1:
            raise ValueError(
                f"transformers give {sorted(sizes)} features in the folds; a width for each needs "
                "the same ones in all of them."
            )
        (size,) = sizes
        assert isinstance(self.problem, KernelProblem)
        X = None if self.model.transformers else self.X
        return features_of(X, size, self.problem.kernel, name)

    @property
    def n_rows(self) -> int:
        return len(self.targets.y)

    @property
    def n_folds(self) -> int:
        return len(self.splits) + len(self.foreign)

    def each_fold(self) -> list[tuple[int | None, Split]]:
        """Return all folds in their order, with their numbers in the problem if they have one."""
        own = iter(enumerate(self.splits))
        return [
            (None, self.foreign[number][0]) if number in self.foreign else next(own)
            for number in range(self.n_folds)
        ]

    def contrasted(
        self, outputs: Mapping[int, np.ndarray] | Sequence[np.ndarray], folds: Sequence[int]
    ) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
        """Return what criteria read of the outputs of some folds, pooled.

        Also returned is what turns a gradient on it into one on the outputs.  A class that a fold
        does not know loses to all others by one, whatever the hyperparameters are.
        """
        read, T = np.concatenate([outputs[f] for f in folds]), None
        if self.targets.classes is not None:
            read, T = self.model.adapter.contrasted(read)
        lost = [_lost(self.problem.folds[f].known) for f in folds]
        if all(one is None for one in lost):
            return read, lambda delta: delta if T is None else delta @ T.T
        free = np.full(read.shape[1], np.nan)
        fixed = np.repeat(
            [free if one is None else one for one in lost], [len(outputs[f]) for f in folds], axis=0
        )
        moves = np.isnan(fixed)

        def pull(delta: np.ndarray) -> np.ndarray:
            delta = np.where(moves, delta, 0.0)
            return delta if T is None else delta @ T.T

        return np.where(moves, read, fixed), pull


def _lost(known: np.ndarray | None) -> np.ndarray | None:
    """Return the outputs of pairs with a class that is not known, NaN for the others."""
    if known is None:
        return None
    pairs = np.array(list(combinations(range(len(known)), 2)))
    first, second = known[pairs].T.astype(float)
    return np.where((first == 1.0) & (second == 1.0), np.nan, second - first)


def prepare(
    model: Model,
    X: Any,
    y: Any,
    splits: Sequence[Split],
    fit_params: Mapping[str, Any],
    memory: float,
    workers: Workers,
    rank: int | None = None,
    seed: int = 0,
    linear: type[LinearCrossValidation] = LinearCrossValidation,
    landmarks: type[LowRankCrossValidation] = LowRankCrossValidation,
) -> Prepared:
    """Build the cross-validation problem of a model.

    Parameters
    ----------
    splits : sequence of (train, test) row numbers
    fit_params : dict
        What `fit` of the whole estimator would get, `sample_weight` of the machine included.
    rank, seed : int
        Number of landmarks and the seed of their draw; None trains exactly, on all rows.
    linear, landmarks : class
        The problem of linear machines, and that of kernel machines on landmarks.
    """
    fit_params, own = split_params(model, fit_params)
    given_X, given_y = X, y
    X, y, targets, values = check_inputs(model, X, y, own)
    sample_weight = row_weights(own.get("sample_weight"), len(targets.y))
    if model.threshold is not None:
        values["threshold"] = model.threshold
    whole = whole_fold(model, targets, sample_weight)
    folds, foreign = make_folds(model, targets, splits, sample_weight)
    designs: list[Design] = []
    kernel = None
    if model.transformers is None:
        trained = [splits[number] for number in folds]
        kernel = None if model.adapter.linear else model.adapter.kernel_on(given_X)
        if folds:
            designs = shared_design(model, X, trained, targets, rank is None, kernel)
    else:
        whole = None
        for number in list(folds):
            try:
                design, kernel = own_design(
                    model, X, given_y, splits[number], len(designs), fit_params
                )
                designs.append(design)
            except FitFailed as error:
                del folds[number]
                foreign[number] = splits[number], error
    if not folds:
        raise foreign[0][1]
    problem = _problem(
        model, designs, list(folds.values()), targets, values, memory, workers, whole, rank, seed,
        kernel, linear, landmarks,
    )  # fmt: skip
    trained = [splits[number] for number in folds]
    return Prepared(model, problem, targets, trained, sample_weight, foreign, given_X)


def _problem(
    model: Model,
    designs: list[Design],
    folds: list[Fold],
    targets: Targets,
    values: Params,
    memory: float,
    workers: Workers,
    whole: Fold | None,
    rank: int | None,
    seed: int,
    kernel: Kernel | None,
    linear: type[LinearCrossValidation],
    landmarks: type[LowRankCrossValidation],
) -> Problem:
    """Return the problem of the kind that a model has."""
    adapter = model.adapter
    loss = adapter.loss()
    if isinstance(adapter, LinearAdapter):
        intercept, bias_penalty = adapter.intercept()
        part = None
        if adapter.couples(targets):
            loss, part = Multinomial(), CoupledPart
        return linear(
            designs, folds, targets.columns, loss, values, workers, intercept=intercept,
            bias_penalty=bias_penalty, whole=whole, solver=adapter.solver(), part=part,
        )  # fmt: skip
    assert kernel is not None
    if rank is None:
        exact = CrossValidation(
            designs, folds, targets.columns, kernel, loss, values, memory, workers
        )
        exact.solver = adapter.solver()
        return exact
    return landmarks(
        designs, folds, targets.columns, kernel, loss, values, memory, workers,
        rank=min(rank, len(targets.y)), seed=seed,
    )  # fmt: skip


def default_dimensions(prepared: Prepared, tuned: Mapping[str, bool]) -> dict[str, Dimension]:
    """Return ranges that suit the data, by the problem's names of what is tuned.

    `tuned` also tells whether that is all of an array.
    """
    problem, y = prepared.problem, np.asarray(prepared.targets.y, dtype=float)
    found = problem.dimensions([*tuned, "C"], y) | {"threshold": THRESHOLD}
    costs = [name for name in COSTS if tuned.get(name)]
    if costs and "C" not in tuned:
        # costs of all parts without C are the costs themselves, in units of C
        found[costs[0]] = found["C"].over(problem.values["C"])
    if "group_epsilon" in tuned and "epsilon" not in tuned:
        epsilon = problem.values["epsilon"]
        if epsilon == 0.0:
            raise ValueError(
                "epsilon=0.0 leaves group_epsilon without effect; give a positive one."
            )
        if tuned["group_epsilon"]:  # the tubes themselves, in units of epsilon
            of_all = problem.dimensions(["epsilon"], y)["epsilon"].over(epsilon)
            found["group_epsilon"] = replace(of_all, noise=None)  # each group has its own
    return {name: found[name] for name in tuned}
