"""From a file and options to rows, targets, groups and weights; what is not said is guessed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from ..files import Matrix, Mistake, Table, read
from .columns import CATEGORY, DATE, NUMBER, TEXT, column, features, find, is_missing, kind_of

TARGETS = ("target", "label", "class", "y")
MOST_CLASSES = 30  # different whole numbers that are taken for classes


@dataclass
class Problem:
    """What is to be learned, and how its file was understood.

    `takes` describes the input for `predict`, as plain data.
    """

    X: Any
    y: np.ndarray
    takes: dict[str, Any]
    task: str = ""
    groups: np.ndarray | None = None
    weights: np.ndarray | None = None
    guessed: list[str] = field(default_factory=list)

    @property
    def is_classification(self) -> bool:
        """Whether the targets are classes."""
        return self.task == "classification"

    @property
    def kinds(self) -> list[str]:
        """The kinds of columns, all numbers for a matrix."""
        columns = self.takes.get("columns")
        return [NUMBER] if columns is None else [one["kind"] for one in columns]

    @property
    def has_gaps(self) -> bool:
        """Whether numbers are missing."""
        if sparse.issparse(self.X):
            return False
        if self.X.dtype != object:
            return bool(np.isnan(self.X).any())
        return any(np.isnan(self.X[:, k].astype(float)).any() for k in self.places(NUMBER, DATE))

    def places(self, *kinds: str) -> list[int]:
        """Return the numbers of the columns of some kinds."""
        if "columns" not in self.takes:
            return list(range(self.X.shape[1])) if NUMBER in kinds else []
        return [k for k, kind in enumerate(self.kinds) if kind in kinds]


def load(options: Any) -> Problem:
    """Read the file that is named, and find out what is to be learned from it."""
    data = read(options.data, header=options.header)
    problem = _of_table(data, options) if isinstance(data, Table) else _of_matrix(data, options)
    problem.guessed[:0] = data.told
    _drop_without_target(problem)
    _check_weights(problem)
    _understand_target(problem, options.task)
    if problem.X.shape[1] == 0:
        raise Mistake(f"{options.data} has no column to learn from beside the target.")
    return problem


def _of_table(table: Table, options: Any) -> Problem:
    guessed: list[str] = []
    if options.target is None:
        named = [name for name in table.names if name.lower() in TARGETS]
        target = named[0] if named else table.names[-1]
        guessed.append(f"the target is {'' if named else 'the last column, '}{target!r}")
    else:
        target = find(table, options.target, "--target")
    y = column(table, target)
    apart = {name: find(table, word, f"--{name}") for name, word in
             (("groups", options.groups), ("weights", options.weights)) if word}  # fmt: skip
    left_out = {target, *apart.values(), *(find(table, w, "--ignore") for w in options.ignore)}
    wanted, useless = [], []
    for name, values in zip(table.names, table.columns):
        if name in left_out:
            continue
        kind = kind_of(name, values)
        if kind is None:
            useless.append(name)
        else:
            wanted.append({"name": name, "kind": kind})
    if useless:
        guessed.append(
            f"left out, empty or different in every row: {', '.join(map(repr, useless[:5]))}"
            + (f" and {len(useless) - 5} more" if len(useless) > 5 else "")
        )
    guessed += _of_kinds(wanted)
    if y.dtype.kind == "M" or (y.dtype == object and kind_of(target, y) == DATE):
        raise Mistake(f"The target {target!r} has dates; it should have classes or numbers.")
    takes = {"what": "table", "columns": wanted, "target": target, "header": options.header}
    if options.header is None:
        takes["header"] = table.names != [str(k) for k in range(1, len(table.names) + 1)]
    beside = {name: column(table, of) for name, of in apart.items()}
    groups, weights = beside.get("groups"), beside.get("weights")
    X = features(table, wanted)
    return Problem(X, y, takes, groups=groups, weights=weights, guessed=guessed)


def _of_kinds(wanted: list[dict[str, str]]) -> list[str]:
    """Say which columns are no numbers, and what becomes of them."""
    what = {
        CATEGORY: "categories, a column of zeros and ones for each value",
        TEXT: "long text, weighted words (TF-IDF)",
        DATE: "dates, days since 1970",
    }
    said = []
    for kind, becomes in what.items():
        names = [repr(one["name"]) for one in wanted if one["kind"] == kind]
        if names:
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            said.append(f"{', '.join(names[:5])}{more}: {becomes}")
    return said


def _of_matrix(matrix: Matrix, options: Any) -> Problem:
    def named(word: str, option: str) -> np.ndarray:
        if word not in matrix.others:
            there = ", ".join(map(repr, matrix.others)) or "none"
            raise Mistake(
                f"{option} {word!r} is not in {options.data}; beside X and y it has {there}."
            )
        return matrix.others[word]

    if options.ignore:
        raise Mistake("--ignore is for tables with columns that have names.")
    y = matrix.y if options.target is None else named(options.target, "--target")
    if y is None:
        raise Mistake(f"{options.data} has no target; it should have an array y, or --target NAME.")
    X, guessed = matrix.X, []
    if matrix.zero_based is not None:
        guessed.append(f"features are counted from {0 if matrix.zero_based else 1}")
    # what is stored of a sparse value takes 12 bytes, a dense one 8
    if sparse.issparse(X) and 12 * X.nnz >= 8 * X.shape[0] * X.shape[1]:
        X = X.toarray()
        guessed.append("dense, as most values are not zero")
    takes = {
        "what": "matrix",
        "n_features": int(X.shape[1]),
        "zero_based": matrix.zero_based,
        "sparse": bool(sparse.issparse(X)),
        "target": options.target,
    }
    # gaps of dense data are filled in; what is stored of sparse ones has none
    wrong = ~np.isfinite(X.data) if sparse.issparse(X) else np.isinf(X)
    if wrong.any():
        raise Mistake(f"{options.data} has values that are infinite or no numbers.")
    groups = named(options.groups, "--groups") if options.groups else None
    weights = named(options.weights, "--weights") if options.weights else None
    return Problem(X, y, takes, groups=groups, weights=weights, guessed=guessed)


def _drop_without_target(problem: Problem) -> None:
    if problem.y.dtype.kind not in "fO":
        return
    gone = is_missing(problem.y)
    if not gone.any():
        return
    if gone.all():
        raise Mistake("The target is missing in all rows.")
    keep = ~gone
    problem.X, problem.y = problem.X[keep], problem.y[keep]
    if problem.groups is not None:
        problem.groups = problem.groups[keep]
    if problem.weights is not None:
        problem.weights = problem.weights[keep]
    problem.guessed.append(f"{gone.sum()} rows without a target are left out")


def _check_weights(problem: Problem) -> None:
    weights = problem.weights
    if weights is None:
        return
    if weights.dtype.kind not in "fiu" or not (np.isfinite(weights) & (weights >= 0)).all():
        raise Mistake("--weights should name a column of numbers that are zero or more, no gaps.")
    if not weights.any():
        raise Mistake("--weights names a column of zeros; some should be larger.")


def _understand_target(problem: Problem, task: str) -> None:
    """Find out whether it is a classification, and make the labels what they look like."""
    y = problem.y
    numeric = y.dtype.kind in "fiub"
    whole = numeric and bool((y == np.round(y.astype(float))).all())
    kinds = np.unique(y.astype(str) if y.dtype == object else y)
    if task == "auto":
        few = len(kinds) <= min(MOST_CLASSES, len(y) // 2)
        task = "classification" if not numeric or (whole and few) else "regression"
        why = f"{len(kinds)} different {'whole ' * whole}numbers" if numeric else "words"
        problem.guessed.append(f"{task}, as the target has {why}")
    if task == "regression":
        if not numeric:
            raise Mistake(f"--task regression needs numbers; the target has {str(kinds[0])!r}.")
        if len(kinds) < 2:
            raise Mistake(f"The target is {kinds[0]:g} in all rows; there is nothing to learn.")
        problem.y = y.astype(float)
    else:
        if len(kinds) < 2:
            raise Mistake(f"The target has one class only, {str(kinds[0])!r}; it should have two.")
        if len(kinds) > len(y) // 2:
            raise Mistake(
                f"The target has {len(kinds)} different values in {len(y)} rows, which are no "
                "classes; --target names another column, --task regression is for numbers."
            )
        problem.y = y.astype(int) if whole else y.astype(str) if y.dtype == object else y
    problem.task = task


def again(takes: dict[str, Any], path: str) -> tuple[Any, np.ndarray | None]:
    """Read rows for a model that knows what it takes; also their targets, if they are there."""
    if takes["what"] == "table":
        text = [one["name"] for one in takes["columns"] if one["kind"] in (CATEGORY, TEXT)]
        data = read(path, header=takes["header"], text=text)
        if not isinstance(data, Table):
            raise Mistake(f"{path} is a matrix; the model takes a table with named columns.")
        there = takes["target"] in data.names
        return features(data, takes["columns"]), (column(data, takes["target"]) if there else None)
    data = read(path, zero_based=takes["zero_based"])
    if not isinstance(data, Matrix):
        raise Mistake(f"{path} is a table; the model takes LIBSVM text or .npz.")
    n, X = takes["n_features"], data.X
    if X.shape[1] > n:
        raise Mistake(f"{path} has {X.shape[1]} features; the model takes {n}.")
    if X.shape[1] < n and not sparse.issparse(X):
        raise Mistake(f"{path} has {X.shape[1]} features; the model takes {n}.")
    if sparse.issparse(X):
        X = sparse.csr_matrix((X.data, X.indices, X.indptr), (X.shape[0], n))
        X = X if takes["sparse"] else X.toarray()
    elif takes["sparse"]:
        X = sparse.csr_matrix(X)
    return X, data.y if takes["target"] is None else data.others.get(takes["target"])
