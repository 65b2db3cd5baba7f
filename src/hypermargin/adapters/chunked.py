"""From an estimator and data in chunks to a problem.

A first pass looks at every chunk; it gives classes, folds and lengths of rows.  A second one
gathers a sample: all that a search sees of single rows.  From there on only sums come here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.svm import SVC, SVR
from sklearn.utils.class_weight import compute_class_weight

from .._core.budget import Workers
from ..problems.chunked.chunk import Chunk, Machines
from ..problems.chunked.low_rank import ChunkedLowRank
from ..problems.chunked.places import Places
from ..problems.chunked.problem import ChunkedCrossValidation, Measures
from .base import WeightedClasses
from .blocks import DaskPlaces, aligned, is_dask, is_frame
from .chunked_folds import Before, Folds, before_each, class_counts, read_folds
from .folds import Split
from .linear import LinearAdapter
from .model import Model
from .prepare import Prepared, prepare
from .survey import as_rows, as_vector, check, classes_of, survey

SAMPLE_ROWS = 2000  # that come here: eight times those of a first look
LEAST_ROWS = 500
SAMPLE_BYTES = 2**27
OF_A_CLASS = 4  # least rows of a class in the sample, times the number of folds


@dataclass(frozen=True)
class ChunkedPrepared(Prepared):
    """A problem on rows in many places; all else is that of the sample."""

    @property
    def n_rows(self) -> int:
        problem = self.problem
        assert isinstance(problem, (ChunkedCrossValidation, ChunkedLowRank))
        return problem.measures.n_rows


@dataclass(frozen=True)
class Gathered:
    """Chunks in their places, and what is here of them: a sample with its folds.

    `counts` and `weights` are the rows, and their weights, by fold (the last one being none) and
    class.
    """

    places: Places
    X: Any
    y: np.ndarray
    splits: list[Split]
    weight: np.ndarray | None
    measures: Measures
    classes: np.ndarray | None
    n_splits: int
    counts: np.ndarray
    weights: np.ndarray


def check_collections(X: Any, y: Any, others: Mapping[str, Any]) -> None:
    """Say so if some of the data are in chunks and some are not."""
    here = [name for name, data in {"X": X, "y": y, **others}.items() if not is_dask(data)]
    if here:
        kind = type(y if here[0] == "y" else X if here[0] == "X" else others[here[0]]).__name__
        raise ValueError(
            f"{here[0]} is a {kind} and other data are Dask collections; give all of them as Dask "
            "collections, or all as arrays in memory."
        )
    for name, data in {"X": X, "y": y, **others}.items():
        if not isinstance(getattr(data, "ndim", None), int):  # a bag, or a task
            kind = type(data).__name__
            raise ValueError(f"{name} is a Dask {kind}; give an array or a data frame of Dask's.")
    if X.ndim != 2:
        raise ValueError(f"X has {X.ndim} dimensions; give rows of features.")


def gather(X: Any, y: Any, weight: Any, counted: bool, cv: Any, classifies: bool) -> Gathered:
    """Read collections: two passes over all rows, after which a sample of them is here.

    With `counted` the weights are those of scores as well.
    """
    others = {"y": y}
    others |= {} if weight is None else {"sample_weight": weight}
    others |= {"cv": cv} if is_dask(cv) else {}
    check_collections(X, y, {name: data for name, data in others.items() if name != "y"})
    return gather_from(
        DaskPlaces.of(*aligned(X, others)), X, weight is not None, counted, cv, classifies
    )


def gather_from(
    raw: Any, X: Any, weighted: bool, counted: bool, cv: Any, classifies: bool
) -> Gathered:
    """Read places whose chunks are dicts of rows: X, y and, if there are, weights and folds."""
    surveys = raw.each(survey, classifies)
    check(surveys)
    classes = classes_of(surveys) if classifies else None
    folds, counts = read_folds(cv, surveys, classes), class_counts(surveys, classes)
    before = before_each(cv, surveys, counts)
    places = raw.made(make_chunk, folds, classes, counted, own=before)
    total, n = counts.sum(axis=0), sum(one.n_rows for one in surveys)
    n_features = surveys[0].n_features
    chosen = sample_ordinals(total, n_features, folds.n_splits)
    parts = places.each(take_rows, chosen, folds.n_splits, own=before)
    measures = Measures(
        n, max(one.longest for one in surveys), sum(one.squares for one in surveys) / n
    )
    return _gathered(places, parts, X, classes, folds.n_splits, weighted, measures)


def _gathered(
    places: Places,
    parts: Sequence[dict[str, Any]],
    X: Any,
    classes: np.ndarray | None,
    n_splits: int,
    weighted: bool,
    measures: Measures,
) -> Gathered:
    rows = [part["X"] for part in parts]
    if any(map(sparse.issparse, rows)):
        thin = [part if sparse.issparse(part) else sparse.csr_matrix(part) for part in rows]
        sample = sparse.vstack(thin, format="csr")
    else:
        sample = np.vstack(rows)
    if is_frame(X):  # with the names of its features
        sample = type(X._meta)(sample, columns=list(X.columns))
    y, fold, weight = (
        np.concatenate([part[name] for part in parts]) for name in ("y", "fold", "weight")
    )
    everyone = np.arange(len(y))
    splits = [(everyone[fold != f], everyone[fold == f]) for f in range(n_splits)]
    return Gathered(
        places,
        sample,
        y if classes is None else classes[y],
        splits,
        weight if weighted else None,
        measures,
        classes,
        n_splits,
        sum(part["counts"] for part in parts),
        sum(part["weights"] for part in parts),
    )


def make_chunk(
    given: Mapping[str, Any],
    before: Before,
    folds: Folds,
    classes: np.ndarray | None,
    counted: bool,
) -> Chunk:
    """Return the rows of a chunk with all that machines need of them."""
    X, y = as_rows(given["X"]), as_vector(given["y"])
    y = y.astype(float) if classes is None else np.searchsorted(classes, y)
    own = as_vector(given["cv"]) if "cv" in given else None
    ones = np.ones(len(y))
    weight = as_vector(given["sample_weight"]).astype(float) if "sample_weight" in given else ones
    return Chunk(X, y, folds.of(y, before, own), weight, weight if counted else ones)


def sample_ordinals(counts: np.ndarray, n_features: int, n_splits: int) -> list[np.ndarray]:
    """Return which rows of each class come here, by their number within the class.

    They are evenly spaced, so that all folds have their share, and of rare classes there are some.
    """
    n = int(counts.sum())
    most = int(np.clip(SAMPLE_BYTES // (8 * max(n_features, 1)), LEAST_ROWS, SAMPLE_ROWS))
    if n <= most:
        return [np.arange(count) for count in counts]
    wanted = np.maximum(np.round(most * counts / n), OF_A_CLASS * n_splits)
    sizes = np.minimum(wanted.astype(int), counts)
    return [
        np.unique(((np.arange(size) + 0.5) * count / max(size, 1)).astype(int))
        for size, count in zip(sizes, counts)
    ]


def take_rows(
    chunk: Chunk, before: Before, chosen: Sequence[np.ndarray], n_splits: int
) -> dict[str, Any]:
    """Return the rows of a chunk that come here, and how many it has by fold and class."""
    by_class = chunk.y if len(chosen) > 1 else np.zeros(len(chunk), dtype=int)
    taken = np.zeros(len(chunk), dtype=bool)
    for k, ordinals in enumerate(chosen):
        own, first = np.flatnonzero(by_class == k), before.of_class[k]
        low, high = np.searchsorted(ordinals, [first, first + len(own)])
        taken[own[ordinals[low:high] - first]] = True
    rows = np.flatnonzero(taken)
    counts, weights = np.zeros((2, n_splits + 1, len(chosen)))
    np.add.at(counts, (chunk.fold, by_class), 1.0)
    np.add.at(weights, (chunk.fold, by_class), chunk.weight)
    return {
        "X": chunk.X[rows], "y": chunk.y[rows], "fold": chunk.fold[rows],
        "weight": chunk.weight[rows], "counts": counts, "weights": weights,
    }  # fmt: skip


def refuse(model: Model, rank: int | None) -> None:
    """Say so if a model cannot be trained on rows in many places."""
    machine, adapter = type(model.machine).__name__, model.adapter
    moved = getattr(model.machine, "threshold", 0.0) or model.threshold
    if moved or "threshold" in adapter.tuned:
        raise ValueError("threshold is not for Dask collections; use class_weight.")
    if model.transformers is not None:
        raise ValueError(
            "estimator is a Pipeline, whose transformers would need all rows of a fold in one "
            "place; transform the Dask collections first, and give the last step alone."
        )
    if not isinstance(adapter, LinearAdapter):
        _refuse_kernel(model, rank)
    elif (loss := adapter.loss()).corners:
        instead = "loss='squared_epsilon_insensitive'"
        if loss.classifies:
            instead = "loss='squared_hinge', or LinearClassifier(loss='smooth_hinge')"
        raise ValueError(
            f"loss={model.machine.loss!r} of {machine} has a corner, at which single rows count, "
            f"and Dask collections are read as sums over rows; use {instead}."
        )


def _refuse_kernel(model: Model, rank: int | None) -> None:
    """Say so if a kernel machine cannot be trained on landmarks in many places."""
    machine = type(model.machine).__name__
    if rank is None or type(model.machine) not in (SVC, SVR):
        raise ValueError(
            f"estimator={machine} needs all rows in one place, which Dask collections are not; use "
            "SVC or SVR with rank=500, say, or a linear model."
        )
    if model.adapter.unset:
        raise ValueError(
            f"gamma={model.machine.gamma!r} of {machine} is read off all rows of a fold; give a "
            "number, or tune gamma."
        )


def prepare_chunked(
    model: Model,
    data: Gathered,
    fit_params: Mapping[str, Any],
    memory: float,
    workers: Workers,
    tol: float,
    rank: int | None = None,
    seed: int = 0,
) -> Prepared:
    """Build the cross-validation problem of a model on rows in many places."""
    refuse(model, rank)
    sample = prepare(
        model, data.X, data.y, data.splits, fit_params, memory, workers, rank, seed,
        linear=ChunkedCrossValidation, landmarks=ChunkedLowRank,
    )  # fmt: skip
    problem, adapter, n_columns = sample.problem, model.adapter, len(sample.targets.columns)
    assert isinstance(problem, (ChunkedCrossValidation, ChunkedLowRank))
    if isinstance(problem, ChunkedLowRank):
        intercept, centre = 1.0, float(problem.offsets.mean())
        if n_columns > 1:
            raise ValueError(
                f"y has {len(np.asarray(data.classes))} classes; with rank, Dask collections can "
                "have two."
            )
    else:
        intercept, centre = problem.intercept, problem.centre(problem.columns[0].target)
    if isinstance(adapter, LinearAdapter) and adapter.couples(sample.targets):
        raise ValueError(
            f"y has {len(sample.targets.columns)} classes, whose machines LogisticRegression "
            "trains together; on Dask collections use LinearClassifier(loss='logistic'), one class "
            "against the rest."
        )
    _check_folds(data)
    factors = _factors(model, data)
    machines = Machines(
        problem.loss,
        adapter,
        len(problem.folds),
        n_columns,
        0 if data.classes is None else len(data.classes),
        intercept,
        centre,
        None if factors is None else factors[:-1],
        not adapter.weighs_others,
    )
    problem.spread_over(data.places, machines, data.measures, tol)
    problem.factors_of_all = None if factors is None else factors[-1:]
    whole = ChunkedPrepared(**{**vars(sample), "sample": sample})
    return whole


def _check_folds(data: Gathered) -> None:
    """Say so if a fold cannot be trained."""
    for f in range(data.n_splits):
        trained = np.delete(data.weights, f, axis=0).sum(axis=0)
        if data.classes is not None and not trained.all():
            label = data.classes.tolist()[int(trained.argmin())]
            raise ValueError(
                f"the training part of fold {f} has no sample of class {label!r} with a positive "
                "sample_weight; use fewer or stratified folds, or drop the class."
            )
        if not trained.any():
            raise ValueError(f"the sample_weight of the training part of fold {f} is zero.")
        if not data.counts[f].any():
            raise ValueError(f"the test part of fold {f} of cv is empty.")


def _factors(model: Model, data: Gathered) -> np.ndarray | None:
    """Return the weight of every class in every fold, and on all rows in the last line."""
    adapter = model.adapter
    asked = getattr(model.machine, "class_weight", None)
    if data.classes is None or not isinstance(adapter, WeightedClasses) or asked is None:
        return None
    if "class_weight" in adapter.tuned:
        return None
    counted = data.weights if adapter.balances_weights else data.counts
    everyone = counted.sum(axis=0)
    sums = [everyone - counted[f] for f in range(data.n_splits)] + [everyone]
    return np.array([
        compute_class_weight(asked, classes=data.classes, y=data.classes, sample_weight=one)
        for one in sums
    ])  # fmt: skip
