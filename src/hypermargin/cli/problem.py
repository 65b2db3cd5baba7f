"""From a file and options to rows, targets, groups and weights; what is not said is guessed."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from ..files import Matrix, Mistake, Table, read
from .columns import (
    CATEGORY,
    DATE,
    NUMBER,
    TEXT,
    by_name,
    column,
    described,
    features,
    find,
    has_long_numbers,
    is_missing,
    kind_of,
    listed,
    names_rows,
    refuse_huge,
)
from .telling import counted

TARGETS = ("target", "label", "class", "y")
LEFT_OUT = "left out, as they are empty, the same or different in every row: "
DOUBLES_PER_FEATURE = 10  # weights of the folds, and what their solvers need beside them
FEW_ROWS = 10  # below, it is more likely that rows lack than that targets are no classes
MOST_CLASSES = 30  # different whole numbers that are taken for classes


@dataclass
class Problem:
    """What is to be learned, and how its file was understood.

    `takes` describes the input for `predict`, as plain data; `score` is the name of the score that
    is asked for or guessed, `positive` the class that it is about, if it is about one.
    """

    X: Any
    y: np.ndarray
    takes: dict[str, Any]
    task: str = ""
    groups: np.ndarray | None = None
    weights: np.ndarray | None = None
    guessed: list[str] = field(default_factory=list)
    score: str = ""
    positive: Any = None

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
    if isinstance(data, Table) and (names := _names_in_digits(data, options)):
        data = read(options.data, header=options.header, text=names)
    problem = _of_table(data, options) if isinstance(data, Table) else _of_matrix(data, options)
    problem.guessed[:0] = data.told
    _drop_without_target(problem)
    _check_weights(problem)
    _understand_target(problem, options.task)
    if problem.X.shape[1] == 0:
        left_out = [guess for guess in problem.guessed if guess.startswith(LEFT_OUT)]
        raise Mistake(
            f"{options.data} has no column to learn from beside the target"
            f"{''.join(f'; {guess}' for guess in left_out)}."
        )
    return problem


def _target(table: Table, asked: str | None) -> tuple[str, list[str]]:
    """Return the name of the target, and what is to be said if it is guessed."""
    if asked is not None:
        return find(table, asked, "--target"), []
    named = [name for name in table.names if name.lower() in TARGETS]
    target = named[0] if named else table.names[-1]
    return target, [f"the target is {'' if named else 'the last column, '}{target!r}"]


def _names_in_digits(table: Table, options: Any) -> list[str]:
    """Return which of target and groups have whole numbers that no double tells apart.

    Those are names, such as of accounts, and must be read as text.
    """
    target = _target(table, options.target)[0]
    groups = find(table, options.groups, "--groups") if options.groups else target
    long = [name for name in {target, groups} if has_long_numbers(column(table, name))]
    if target in long and len(np.unique(column(table, target))) > MOST_CLASSES:
        long.remove(target)  # a regression
    return long if options.task != "regression" else [name for name in long if name != target]


def _of_table(table: Table, options: Any) -> Problem:
    target, guessed = _target(table, options.target)
    y = column(table, target)
    apart = {name: find(table, word, f"--{name}") for name, word in
             (("groups", options.groups), ("weights", options.weights)) if word}  # fmt: skip
    if len({target, *apart.values()}) <= len(apart):
        raise Mistake("--target, --groups and --weights should name different columns.")
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
        guessed.append(f"{LEFT_OUT}{listed(described(table, useless))}")
    guessed += _of_kinds(table, wanted)
    if y.dtype.kind == "M" or (y.dtype == object and kind_of(target, y) == DATE):
        raise Mistake(f"The target {target!r} has dates; it should have classes or numbers.")
    takes = {"what": "table", "columns": wanted, "target": target, "header": options.header,
             "target_is_text": y.dtype == object, "n_columns": len(table.names)}  # fmt: skip
    if options.header is None:
        takes["header"] = table.names != [str(k) for k in range(1, len(table.names) + 1)]
    beside = {name: column(table, of) for name, of in apart.items()}
    groups, weights = beside.get("groups"), beside.get("weights")
    X = features(table, wanted)
    return Problem(X, y, takes, groups=groups, weights=weights, guessed=guessed)


def _of_kinds(table: Table, wanted: list[dict[str, str]]) -> list[str]:
    """Say which columns are no numbers, or names of rows, and what becomes of them."""
    what = {
        CATEGORY: "categories, a column of zeros and ones for each value",
        TEXT: "long text, weighted words (TF-IDF)",
        DATE: "dates, days since 1970",
    }
    said = []
    for kind, becomes in what.items():
        names = described(table, [one["name"] for one in wanted if one["kind"] == kind])
        if names:
            said.append(f"{listed(names)}: {becomes}")
    numbers, there = [one["name"] for one in wanted if one["kind"] == NUMBER], by_name(table)
    return said + [
        f"{name!r} is a feature, though its numbers look like names of the rows; "
        f"--ignore {name!r} leaves it out"
        for name in numbers
        if names_rows(there[name])
    ]


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
    if "qid" in matrix.others and "qid" not in (options.target, options.groups, options.weights):
        guessed.append("qid is not used; --groups qid keeps the rows of a query in one fold")
    _refuse_too_wide(options.data, X)
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
    if sparse.issparse(X) and np.isnan(X.data).any():
        raise Mistake(f"{options.data} has values that are no numbers.")
    refuse_huge(options.data, X.data if sparse.issparse(X) else X)
    groups = named(options.groups, "--groups") if options.groups else None
    weights = named(options.weights, "--weights") if options.weights else None
    return Problem(X, y, takes, groups=groups, weights=weights, guessed=guessed)


def _refuse_too_wide(path: str, X: Any) -> None:
    """Refuse a number of features that is no number of features, before memory runs out."""
    if hasattr(os, "sysconf") and X.shape[1] > os.sysconf("SC_PHYS_PAGES") * os.sysconf(
        "SC_PAGE_SIZE"
    ) // (8 * DOUBLES_PER_FEATURE):
        raise Mistake(
            f"{path} has features up to number {X.shape[1]}; a weight for each in every fold does "
            "not fit into memory."
        )


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
    problem.guessed.append(f"{counted(gone.sum(), 'row')} without a target left out")


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
    if y.dtype.kind not in "fiubOU":
        raise Mistake(f"The target is of type {y.dtype}; it should have classes or numbers.")
    if numeric:
        refuse_huge("The target", y)
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
        if len(kinds) > len(y) // 2 and len(y) < FEW_ROWS:
            raise Mistake(
                f"There are {counted(len(y), 'row')} with {len(kinds)} different targets, too few "
                "to learn from; every class should have two rows or more."
            )
        if len(kinds) > len(y) // 2:
            raise Mistake(
                f"The target has {len(kinds)} different values in {len(y)} rows, which are no "
                "classes; --target names another column, --task regression is for numbers."
            )
        problem.y = y.astype(int) if whole else y.astype(str) if y.dtype == object else y
    problem.task = task


def again(takes: dict[str, Any], path: str, note: Callable) -> tuple[Any, np.ndarray | None]:
    """Read rows for a model that knows what it takes; also their targets, if they are there.

    `note` is told what becomes of features that no row had in training.
    """
    if takes["what"] == "table":
        table = _table_again(takes, path)
        y = column(table, takes["target"]) if takes["target"] in table.names else None
        return features(table, takes["columns"]), y
    data = read(path, zero_based=takes["zero_based"])
    if not isinstance(data, Matrix):
        raise Mistake(f"{path} is a table; the model takes LIBSVM text or .npz.")
    n, X = takes["n_features"], data.X
    if X.shape[1] != n and not sparse.issparse(X):
        raise Mistake(f"{path} has {X.shape[1]} features; the model takes {n}.")
    if sparse.issparse(X):
        if X.shape[1] > n:
            note(f"features after the first {n} are left out, as no row had them in training.")
            X = X[:, :n]
        X = sparse.csr_matrix((X.data, X.indices, X.indptr), (X.shape[0], n))
        X = X if takes["sparse"] else X.toarray()
    elif takes["sparse"]:
        X = sparse.csr_matrix(X)
    return X, data.y if takes["target"] is None else data.others.get(takes["target"])


def _table_again(takes: dict[str, Any], path: str) -> Table:
    """Read a table for a model; without names, it may lack the target, wherever that was."""
    text = [one["name"] for one in takes["columns"] if one["kind"] in (CATEGORY, TEXT)]
    text += [takes["target"]] * takes.get("target_is_text", False)
    data = read(path, header=takes["header"], text=text)
    if not isinstance(data, Table):
        raise Mistake(f"{path} is a matrix; the model takes a table with named columns.")
    number = len(data.names)
    if takes["header"] or number != takes.get("n_columns", 0) - 1:
        return data
    names = [name for name in map(str, range(1, number + 2)) if name != takes["target"]]
    places = [str(place) for place, name in enumerate(names, start=1) if name in text]
    data = read(path, header=False, text=places)
    assert isinstance(data, Table)
    return Table(names, data.columns, data.told)
