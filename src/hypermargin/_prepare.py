"""From an estimator and data to a problem: input checks, folds, transformers inside folds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, check_X_y
from sklearn.utils.metadata_routing import get_routing_for_object, process_routing
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import (
    _check_method_params,
    _check_sample_weight,
    _check_y,
    _num_samples,
    has_fit_parameter,
)

from ._adapter import Targets
from ._adapters import Model
from ._budget import Workers
from ._exact import CrossValidation
from ._kernels import Points
from ._linear import LinearCrossValidation
from ._linear_adapters import LinearAdapter
from ._losses import COSTS, PART
from ._low_rank import LowRankCrossValidation
from ._multinomial import CoupledPart, Multinomial
from ._problem import Design, Fold, Problem
from ._smo import HUGE
from ._space import Dimension

try:
    from sklearn.utils._metadata_requests import _routing_enabled
except ImportError:  # pragma: no cover
    from sklearn.utils.metadata_routing import _routing_enabled

Split = tuple[np.ndarray, np.ndarray]
LARGEST = 1e100  # values whose squares, of all rows and times a cost, are finite
OF_FIT = ("sample_weight", "cost_groups")  # what machines may get beside X and y
ASYMMETRY = 1e-5  # of a kernel matrix in single precision, relative to its largest entry
THRESHOLD = Dimension(-4.0, 4.0, "linear", usual=(-1.0, 1.0))


class FitFailed(ValueError):
    """A fold cannot be trained here."""

    @property
    def cause(self) -> Exception:
        """What users are to be told of."""
        return self


class TransformerFailed(FitFailed):
    """A transformer could not be fitted inside a fold; the error is chained to it."""

    @property
    def cause(self) -> Exception:
        return self.__cause__ if isinstance(self.__cause__, Exception) else self


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

    def nested(self, values: Mapping[str, float]) -> dict[str, Any]:
        """Return values by flat names in the user's terms: those by part as dicts by label."""
        return self.model.nested(values, self.targets)

    def assembled(self, point: Mapping[str, float]) -> dict[str, Any]:
        """Return a point as parameters of the estimator."""
        return self.model.assembled(point, self.problem.values, self.targets)


def _lost(known: np.ndarray | None) -> np.ndarray | None:
    """Return the outputs of pairs with a class that is not known, NaN for the others."""
    if known is None:
        return None
    pairs = np.array(list(combinations(range(len(known)), 2)))
    first, second = known[pairs].T.astype(float)
    return np.where((first == 1.0) & (second == 1.0), np.nan, second - first)


def canonical(X: Any) -> Any:
    """Return X; a copy, if it is sparse and its entries are not in order, or some are in parts.

    libsvm sorts the entries of what it is given in place, and takes one part for the whole.
    """
    if not hasattr(X, "sum_duplicates") or getattr(X, "has_canonical_format", True):
        return X
    X = X.copy()
    X.sum_duplicates()
    return X


def draw_folds(cv: Any, X: Any, y: Any, split_params: Mapping[str, Any]) -> list[Split]:
    """Draw the folds, once, as row numbers (given as numbers from either end, or as masks)."""
    rows = np.arange(_num_samples(X))
    splits = []
    for number, parts in enumerate(cv.split(X, y, **split_params)):
        try:
            train, test = (rows[np.asarray(part)] for part in parts)
        except IndexError as error:
            raise ValueError(
                f"fold {number} of cv names rows that X, with {len(rows)} rows, does not have: "
                f"{error}."
            ) from None
        splits.append((train, test))
    if not splits:
        raise ValueError(f"cv={cv!r} gives no folds; give at least one pair (train, test).")
    promised = cv.get_n_splits(X, y, **split_params)
    if len(splits) != promised:
        raise ValueError(
            f"cv.split and cv.get_n_splits return inconsistent results. Expected {promised} "
            f"splits, got {len(splits)}"
        )
    for number, (train, test) in enumerate(splits):
        if not len(train) or not len(test):
            part = "test" if len(train) else "training"
            raise ValueError(f"the {part} part of fold {number} of cv is empty.")
    return splits


def prepare(
    model: Model,
    X: Any,
    y: Any,
    splits: Sequence[Split],
    fit_params: Mapping[str, Any],
    tuned: Sequence[str],
    memory: float,
    workers: Workers,
    rank: int | None = None,
    seed: int = 0,
) -> Prepared:
    """Build the cross-validation problem of a model.

    Parameters
    ----------
    splits : sequence of (train, test) row numbers
    fit_params : dict
        What `fit` of the whole estimator would get, `sample_weight` of the machine included.
    tuned : sequence of str
        The machine's hyperparameters that every evaluation will name.
    rank, seed : int
        Number of landmarks and the seed of their draw; None trains exactly, on all rows.
    """
    fit_params, own = split_params(model, fit_params)
    given_y = y
    X, y, targets, values = check_inputs(model, X, y, tuned, own)
    sample_weight = _weights(own.get("sample_weight"), len(targets.y))
    values |= model.adapter.values_by_part(model.machine, targets, tuned)
    if model.threshold is not None:
        values["threshold"] = model.threshold
    whole = _whole(model, targets, sample_weight, tuned)
    folds, foreign = _folds(model, targets, splits, sample_weight, tuned)
    designs: list[Design] = []
    if model.transformers is None:
        trained = [splits[number] for number in folds]
        designs = _shared_design(model, X, trained, tuned, targets) if folds else []
    else:
        whole = None
        for number in list(folds):
            try:
                designs.append(
                    _own_design(model, X, given_y, splits[number], len(designs), fit_params, tuned)
                )
            except FitFailed as error:
                del folds[number]
                foreign[number] = splits[number], error
    if not folds:
        raise foreign[0][1]
    problem = _problem(
        model, designs, list(folds.values()), targets, values, memory, workers, whole, rank, seed
    )
    trained = [splits[number] for number in folds]
    return Prepared(model, problem, targets, trained, sample_weight, foreign)


def _problem(
    model: Model,
    designs: list[Design],
    folds: list[Fold],
    targets: Targets,
    values: dict[str, float],
    memory: float,
    workers: Workers,
    whole: Fold | None,
    rank: int | None,
    seed: int,
) -> Problem:
    """Return the problem of the kind that a model has."""
    loss = model.adapter.loss(model.machine)
    if isinstance(model.adapter, LinearAdapter):
        intercept, bias_penalty = model.adapter.intercept(model.machine)
        part = None
        if model.adapter.couples(targets):
            loss, part = Multinomial(), CoupledPart
        return LinearCrossValidation(
            designs, folds, targets.columns, loss, values, workers, intercept=intercept,
            bias_penalty=bias_penalty, whole=whole,
            solver=model.adapter.solver(model.machine), part=part,
        )  # fmt: skip
    kernel = model.adapter.kernel(model.machine)
    if rank is None:
        return CrossValidation(
            designs, folds, targets.columns, kernel, loss, values, memory, workers
        )
    return LowRankCrossValidation(
        designs, folds, targets.columns, kernel, loss, values, memory, workers,
        rank=min(rank, len(targets.y)), seed=seed,
    )  # fmt: skip


def check_inputs(
    model: Model, X: Any, y: Any, tuned: Sequence[str], own: Mapping[str, Any]
) -> tuple[Any, Any, Targets, dict[str, float]]:
    """Check all that can be checked before any work is done.

    `own` are the parameters of `fit` that are for the machine.
    """
    X, y = _check_data(model, X, y)
    targets = model.adapter.targets(y).in_groups(own.get("cost_groups"))
    model.adapter.check_targets(model.machine, targets)
    return X, y, targets, _values(model, tuned)


def check_threshold(where: str, targets: Targets) -> None:
    """Say so if a threshold is given for more than two classes."""
    if targets.several:
        raise ValueError(
            f"{where} has a threshold, which is for two classes; y has several labels."
        )
    if targets.classes is not None and len(targets.classes) != 2:
        raise ValueError(
            f"{where} has a threshold, which is for two classes; y has {len(targets.classes)}."
        )


def _check_data(model: Model, X: Any, y: Any) -> tuple[Any, Any]:
    """Check y, and X unless it is for transformers to read."""
    numeric = not hasattr(model.adapter, "decision_function")
    name = type(model.machine).__name__
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    if model.transformers is not None:
        y = _check_y(y, multi_output=True, y_numeric=numeric, estimator=model.machine)
        if numeric:
            _check_size("y", y, _largest_target(model))
        return X, y
    linear = model.adapter.linear
    X, y = check_X_y(
        X,
        y,
        dtype=[np.float64, np.float32] if linear else np.float64,
        order="C",
        accept_sparse="csr",
        accept_large_sparse=linear,
        multi_output=True,
        y_numeric=numeric,
        estimator=model.machine,
    )
    if _is_precomputed(model):
        check_square(X)
    _check_size("X", X, LARGEST)
    if numeric:
        _check_size("y", y, _largest_target(model))
    return X, y


def _largest_target(model: Model) -> float:
    """Return how large targets may be; training with bounds has a number in infinity's place."""
    bounded = not model.adapter.linear and not model.adapter.loss(model.machine).linear
    return 1e-5 * HUGE if bounded else LARGEST


def _check_size(name: str, values: Any, most: float) -> None:
    """Say so if values are so large that what is computed of them overflows."""
    values = values.data if sparse.issparse(values) else np.asarray(values)
    if values.dtype.kind not in "fiu":  # what is no number is refused elsewhere
        return
    largest = float(max(np.max(values, initial=0.0), -np.min(values, initial=0.0)))
    if largest > most:
        raise ValueError(
            f"{name} has values as large as {largest:.3g}, with which training overflows; scale it "
            f"so that they are below {most:.3g}."
        )


def _is_precomputed(model: Model) -> bool:
    return getattr(model.machine, "kernel", None) == "precomputed"


def check_square(K: Any) -> None:
    if sparse.issparse(K):
        raise TypeError("Sparse precomputed kernels are not supported.")
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            "Precomputed matrix must be a square matrix. "
            f"Input is a {K.shape[0]}x{K.shape[1]} matrix."
        )
    unit = float(np.abs(K).max())
    for start in range(0, len(K), 256):  # in parts, as K may be large
        rows = slice(start, start + 256)
        differs = np.abs(K[rows] - K[:, rows].T) > ASYMMETRY * unit
        if differs.any():
            i, j = np.argwhere(differs)[0]
            i += start
            raise ValueError(
                f"Precomputed matrix must be symmetric, but K[{i}, {j}] is {K[i, j]:g} and "
                f"K[{j}, {i}] is {K[j, i]:g}; use (K + K.T) / 2."
            )


def _values(model: Model, tuned: Sequence[str]) -> dict[str, float]:
    """Return the machine's hyperparameters that are not tuned, or say which is of no use."""
    adapter, machine = model.adapter, model.machine
    values, of_loss = adapter.values(machine), adapter.loss(machine).hyperparameters
    for name in adapter.scalars(machine):
        if name in tuned:
            continue
        if name not in values and name != "gamma":
            value = getattr(machine, name)
            raise ValueError(f"{model.prefix}{name}={value!r} must be a single number here.")
        value = values.get(name, 1.0)
        if not np.isfinite(value):
            raise ValueError(f"{model.prefix}{name}={value!r} must be finite here.")
        if name in of_loss and adapter.signs.get(name) == "positive" and value <= 0:
            raise ValueError(f"{model.prefix}{name}={value!r} must be positive here.")
    return values


def split_params(
    model: Model, fit_params: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the parameters of `fit` into those of the transformers and those of the machine."""
    given = {name: value for name, value in fit_params.items() if value is not None}
    if model.prefix and _routing_enabled():
        own, machine = given, model.whole
        while isinstance(machine, Pipeline):
            name, last = machine.steps[-1]
            own, machine = process_routing(machine, "fit", **own)[name].fit, last
        wanted: set[str] = set()
        if model.transformers is not None:
            wanted = get_routing_for_object(model.transformers).consumes("fit_transform", given)
        return {name: given[name] for name in wanted}, own
    usable = [n for n in OF_FIT if has_fit_parameter(model.machine, n)]
    own = {n: given.pop(model.prefix + n) for n in usable if model.prefix + n in given}
    steps = [] if model.transformers is None else [name for name, _ in model.transformers.steps]
    rest = {}
    for path, step in zip(model.paths, steps, strict=True):
        for name in [each for each in given if each.startswith(f"{path}__")]:
            rest[step + name.removeprefix(path)] = given.pop(name)
    for name in given:
        raise TypeError(
            f"{type(model.whole).__name__}.fit got an unexpected parameter {name!r}; "
            f"{' and '.join(model.prefix + n for n in usable)} can be used here."
        )
    return rest, own


def _weights(sample_weight: Any, n_rows: int) -> np.ndarray:
    if sample_weight is None:
        return np.ones(n_rows)
    table = np.empty((n_rows, 1))
    checked = _check_sample_weight(sample_weight, table, ensure_non_negative=True)
    return np.asarray(checked, dtype=float)


def trainable(
    model: Model,
    targets: Targets,
    splits: Sequence[Split],
    own: Mapping[str, Any],
    tuned: Sequence[str],
) -> list[Split]:
    """Return the folds that can be trained here, if no transformer fails."""
    sample_weight = _weights(own.get("sample_weight"), len(targets.y))
    return [splits[number] for number in _folds(model, targets, splits, sample_weight, tuned)[0]]


def _folds(
    model: Model,
    targets: Targets,
    splits: Sequence[Split],
    sample_weight: np.ndarray,
    tuned: Sequence[str],
) -> tuple[dict[int, Fold], dict[int, tuple[Split, FitFailed]]]:
    """Return the folds that can be trained, and those that cannot, by number."""
    folds, foreign = {}, {}
    for number, split in enumerate(splits):
        try:
            folds[number] = _fold(model, targets, split, sample_weight, f"fold {number}", tuned)
        except FitFailed as error:
            foreign[number] = split, error
    return folds, foreign


def _whole(
    model: Model, targets: Targets, sample_weight: np.ndarray, tuned: Sequence[str]
) -> Fold | None:
    """Return all rows in training, for machines that are trained on them beside the folds."""
    everyone = np.arange(len(targets.y)), np.empty(0, dtype=int)
    try:
        return _fold(model, targets, everyone, sample_weight, "all rows", tuned)
    except FitFailed as error:
        raise ValueError(str(error)) from None


def _fold(
    model: Model,
    targets: Targets,
    split: Split,
    sample_weight: np.ndarray,
    name: str,
    tuned: Sequence[str],
) -> Fold:
    """Return a fold with the weight of every row in its training part, 0 outside of it.

    A row that is listed twice has twice its weight.  Weights of classes that are tuned come in
    place of the estimator's own.
    """
    train, test = split
    y, known = targets.y[train], None
    if targets.classes is not None:
        known = _known_classes(targets, train, sample_weight, name)
    elif not sample_weight[train].any():
        raise FitFailed(f"the sample_weight of the training part of {name} is zero.")
    factors: Any = 1.0
    if "class_weight" not in tuned:
        try:
            factors = model.adapter.class_weight(model.machine, y, targets, sample_weight[train])
        except ValueError as error:
            raise FitFailed(f"in the training part of {name}: {error}") from error
    weight, plain = np.zeros(len(targets.y)), np.zeros(len(targets.y))
    np.add.at(weight, train, sample_weight[train] * factors)
    two = known is not None and known.sum() == 2
    if two and not model.adapter.weighs_others and "class_weight" in tuned:
        raise FitFailed(
            f"the training part of {name} has two classes only, whose weights mean something else "
            "than those of more; use fewer or stratified folds, or do not tune class_weight."
        )
    if model.adapter.weighs_others or two or len(targets.columns) == 1:
        return Fold(test, weight, known=known)
    np.add.at(plain, train, sample_weight[train])
    return Fold(test, weight, plain, known)


def _known_classes(
    targets: Targets, train: np.ndarray, sample_weight: np.ndarray, name: str
) -> np.ndarray | None:
    """Return which classes a training part has, None if it has all.

    What estimators make of a single one, or of classes whose weights are zero, is for them to say.
    """
    classes, y = np.asarray(targets.classes), targets.y[train]
    known = np.zeros(len(classes), dtype=bool)
    known[y] = True
    weighs = np.zeros(len(classes), dtype=bool)
    weighs[y[sample_weight[train] > 0]] = True
    for missing in np.flatnonzero(known & ~weighs):
        raise FitFailed(
            f"the training part of {name} has no sample of class {classes.tolist()[missing]!r} "
            "with a positive sample_weight; use fewer or stratified folds, or drop the class."
        )
    if known.sum() == 1:
        raise FitFailed(
            f"the training part of {name} has one class only; use fewer or stratified folds."
        )
    return None if known.all() else known


def _shared_design(
    model: Model, X: Any, splits: Sequence[Split], tuned: Sequence[str], targets: Targets
) -> list[Design]:
    """One design for all folds, unless a gamma that is read off the training rows differs."""
    if model.adapter.linear:
        return [Design(X, np.arange(X.shape[0]), tuple(range(len(splits))))]
    points, rows = Points.of(X), np.arange(X.shape[0])
    if not _is_precomputed(model):  # that would copy a square matrix
        rows = _by_fold(splits, targets)
        points = Points(points.X[rows], rows, points.centre)
    if not _needs_gamma(model, tuned):
        return [Design(points, rows, tuple(range(len(splits))))]
    return [
        Design(points, rows, (number,), {"gamma": model.adapter.gamma(model.machine, X[train])})
        for number, (train, _) in enumerate(splits)
    ]


def _by_fold(splits: Sequence[Split], targets: Targets) -> np.ndarray:
    """Return the rows in the order of the folds that validate on them, and of their classes.

    So what a machine reads of a row of the kernel matrix lies side by side.
    """
    first = np.full(len(targets.y), len(splits))
    for number in reversed(range(len(splits))):
        first[splits[number][1]] = number
    return (
        np.argsort(first, kind="stable")
        if targets.classes is None
        else np.lexsort((targets.y, first))
    )


def _own_design(
    model: Model,
    X: Any,
    y: Any,
    split: Split,
    number: int,
    fit_params: Mapping[str, Any],
    tuned: Sequence[str],
) -> Design:
    """Fit the transformers on the training part of one fold and apply them to both parts."""
    train, test = split
    X_train, y_train = _safe_split(model.whole, X, y, train)
    X_test, _ = _safe_split(model.whole, X, y, test, train)
    params = _check_method_params(X, params=dict(fit_params), indices=train)
    try:
        transformers = clone(model.transformers)
        parts = [
            transformers.fit_transform(X_train, y_train, **params),
            transformers.transform(X_test),
        ]
    except Exception as error:
        raise TransformerFailed(str(error)) from error
    linear = model.adapter.linear
    dtype = [np.float64, np.float32] if linear else np.float64
    parts = [
        check_array(part, dtype=dtype, accept_sparse="csr", accept_large_sparse=linear)
        for part in parts
    ]
    for part in parts:
        _check_size("X behind the transformers", part, LARGEST)
    fixed = {}
    if _needs_gamma(model, tuned):
        fixed["gamma"] = model.adapter.gamma(model.machine, parts[0])
    if _is_precomputed(model):
        check_square(parts[0])
        # machines never ask for similarities between test rows, which nobody knows
        unknown = np.zeros((len(test), len(test)))
        parts = [np.hstack([parts[0], parts[1].T]), np.hstack([parts[1], unknown])]
    # a row in both parts, or twice in one, is one point; it comes from the training part
    rows, first = np.unique(np.concatenate([train, test]), return_index=True)
    stacked = _stack(parts)[first]
    points = stacked if linear else Points.of(stacked, first)
    return Design(points, rows, (number,), fixed)


def _stack(parts: list[Any]) -> Any:
    if any(sparse.issparse(part) for part in parts):
        return sparse.vstack(parts, format="csr")
    return np.vstack(parts)


def _needs_gamma(model: Model, tuned: Sequence[str]) -> bool:
    names = model.adapter.scalars(model.machine)
    known = model.adapter.values(model.machine)
    return "gamma" in names and "gamma" not in tuned and "gamma" not in known


def _tubes(problem: Problem, names: Sequence[str], factor: Dimension, y: np.ndarray) -> Dimension:
    """Return the range of tubes by group; of all groups they are the tubes, in units of epsilon."""
    epsilon = problem.values["epsilon"]
    if epsilon == 0.0:
        raise ValueError("epsilon=0.0 leaves group_epsilon without effect; give a positive one.")
    every = {f"group_epsilon[{k}]" for k in range(problem.n_parts.get("group", 0))}
    if not every <= set(names):
        return factor
    return problem.dimensions(["epsilon"], y)["epsilon"].over(epsilon)


def default_dimensions(prepared: Prepared, names: Sequence[str]) -> dict[str, Dimension]:
    """Return ranges that suit the data for the machine's hyperparameters `names`, flat ones."""
    problem = prepared.problem
    kinds = {name: name.partition("[")[0] for name in names}
    y = np.asarray(prepared.targets.y, dtype=float)
    found = problem.dimensions([*kinds.values(), "C"], y) | {"threshold": THRESHOLD}
    for cost in COSTS:
        every = {f"{cost}[{k}]" for k in range(problem.n_parts.get(PART[cost], 0))}
        if every and "C" not in names and every <= set(names):
            # costs of all parts without C are the costs themselves, in units of C
            found[cost] = found["C"].over(problem.values["C"])
            break
    if "group_epsilon" in found and "epsilon" not in names:
        found["group_epsilon"] = _tubes(problem, names, found["group_epsilon"], y)
    return {name: found[kind] for name, kind in kinds.items()}
