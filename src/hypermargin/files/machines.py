"""Model files that LIBSVM's `svm-predict` and LIBLINEAR's `predict` read.

Both go by one rule for classes: labels are whole numbers.  Classes that are none are numbered, and
the second return value of `machine_file` says how.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.svm import SVC, SVR

from .mistake import Mistake
from .scaling import Affine, ranges, take_apart

KERNELS = {"linear": "linear", "poly": "polynomial", "rbf": "rbf", "sigmoid": "sigmoid"}


@dataclass
class MachineFile:
    """A model file as text, the file of ranges if features must be scaled first, and what to say.

    `program` is the one that reads it; `labels` the numbers of classes that are no numbers.
    """

    program: str
    text: str
    ranges: str | None = None
    labels: dict[str, int] = field(default_factory=dict)


def machine_file(model: Any, n_features: int, program: str) -> MachineFile:
    """Write a fitted estimator, alone or behind scalers, for LIBSVM or LIBLINEAR.

    Parameters
    ----------
    model : estimator
        SVC or SVR for "libsvm", a linear model for "liblinear"; or a Pipeline of scalers and one.
    n_features : int
        Number of columns of the data that it is fitted to.
    program : {"libsvm", "liblinear"}
        Which of the two is to read it.

    Returns
    -------
    file : MachineFile

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn.svm import LinearSVC
    >>> from hypermargin.files.machines import machine_file
    >>> model = make_pipeline(StandardScaler(), LinearSVC()).fit(*load_iris(return_X_y=True))
    >>> file = machine_file(model, 4, "liblinear")
    >>> file.text.splitlines()[:3], file.ranges is None
    (['solver_type L2R_L2LOSS_SVC', 'nr_class 3', 'label 0 1 2'], True)
    """
    scaling, machine = take_apart(model, n_features)
    if program == "liblinear":
        return _liblinear(machine, scaling)
    return _libsvm(machine, scaling)


def _labels(classes: np.ndarray) -> tuple[list[int], dict[str, int]]:
    """Return labels as whole numbers, and the names of those that are none."""
    if classes.dtype.kind in "iuf" and (classes == np.round(classes)).all():
        return [int(one) for one in classes], {}
    return list(range(len(classes))), {str(one): k for k, one in enumerate(classes)}


def _numbers(values: Iterable[float]) -> str:
    return " ".join(repr(float(value)) for value in values)


# --- LIBLINEAR


def _liblinear(machine: Any, scaling: Affine) -> MachineFile:
    """Fold the scaling into the weights: w (x - c) / s + b."""
    if not hasattr(machine, "coef_") or isinstance(machine, (SVC, SVR)):
        raise Mistake(f"{type(machine).__name__} is no linear model; --libsvm may write it.")
    weights = np.atleast_2d(np.asarray(machine.coef_, dtype=float)) / scaling.scale
    bias = np.broadcast_to(np.ravel(machine.intercept_), len(weights)) - weights @ scaling.centre
    table = np.column_stack([weights, bias]).T
    head, names = ["solver_type L2R_L2LOSS_SVR", "nr_class 2"], dict[str, int]()
    if is_classifier(machine):
        labels, names = _labels(machine.classes_)
        if len(weights) == 1:  # a positive output speaks for the first label there, here for the
            labels = labels[::-1]  # second one
        kind = "L2R_LR" if hasattr(machine, "predict_proba") else "L2R_L2LOSS_SVC"
        head = [f"solver_type {kind}", f"nr_class {len(labels)}"]
        head.append("label " + " ".join(map(str, labels)))
    elif len(weights) > 1:
        raise Mistake("LIBLINEAR has one target; this model has several.")
    lines = [*head, f"nr_feature {weights.shape[1]}", "bias 1", "w"]
    return MachineFile("liblinear", "\n".join([*lines, *map(_numbers, table), ""]), None, names)


# --- LIBSVM


def _libsvm(machine: Any, scaling: Affine) -> MachineFile:
    if type(machine) not in (SVC, SVR) or machine.kernel not in KERNELS:
        kernel = getattr(machine, "kernel", None)
        what = type(machine).__name__ + ("" if kernel is None else f" with the kernel {kernel!r}")
        raise Mistake(
            f"LIBSVM has no {what}; it has SVC and SVR with the kernels {', '.join(KERNELS)}."
        )
    vectors, shift, folded, gamma = _folded(machine, scaling)
    # scikit-learn turns the signs of two classes round, and keeps libsvm's own here
    coefficients = _dense(machine._dual_coef_)
    rho = -np.ravel(machine._intercept_) - _pair_sums(machine, coefficients, shift)
    kind = "c_svc" if isinstance(machine, SVC) else "epsilon_svr"
    head = [f"svm_type {kind}", f"kernel_type {KERNELS[machine.kernel]}"]
    if machine.kernel == "poly":
        head.append(f"degree {machine.degree}")
    if machine.kernel != "linear":
        head.append(f"gamma {float(gamma)!r}")
    if machine.kernel in ("poly", "sigmoid"):
        head.append(f"coef0 {float(machine.coef0)!r}")
    labels, names = list[int](), dict[str, int]()
    if isinstance(machine, SVC):
        labels, names = _labels(machine.classes_)
    head += [f"nr_class {max(2, len(labels))}", f"total_sv {vectors.shape[0]}"]
    head.append("rho " + _numbers(rho))
    if labels:
        head.append("label " + " ".join(map(str, labels)))
        head.append("nr_sv " + " ".join(map(str, machine.n_support_)))
    rows = _sparse_rows(sparse.csr_matrix(vectors))
    lines = [f"{_numbers(of)} {row}".rstrip() for of, row in zip(coefficients.T, rows)]
    needed = None if folded else ranges(scaling)
    return MachineFile("libsvm", "\n".join([*head, "SV", *lines, ""]), needed, names)


def _folded(machine: Any, scaling: Affine) -> tuple[Any, np.ndarray, bool, float]:
    """Return support vectors of features as they are, if there can be such ones.

    Also what each adds to every output, whether all is folded in, and gamma.
    """
    vectors, gamma = sparse.csr_matrix(machine.support_vectors_), getattr(machine, "_gamma", 0.0)
    none = np.zeros(vectors.shape[0])
    if scaling.is_identity:
        return vectors, none, True, gamma
    back = vectors @ sparse.diags(
        1.0 / scaling.scale
    )  # s(v) . s(x) = (s(v) / scale) . x - (s(v) / scale) . centre
    if machine.kernel == "linear":
        return back, -back @ scaling.centre, True, gamma
    if machine.kernel in ("poly", "sigmoid") and not scaling.centre.any():
        return back, none, True, gamma
    if machine.kernel == "rbf" and np.ptp(scaling.scale) == 0:  # one width for all
        raw = vectors.toarray() * scaling.scale + scaling.centre
        return raw, none, True, gamma / scaling.scale[0] ** 2
    return vectors, none, False, gamma


def _pair_sums(machine: Any, coefficients: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Return the sum of coefficient times shift in every machine of two classes."""
    if not isinstance(machine, SVC):
        return coefficients @ shift
    ends = np.append(0, np.cumsum(machine.n_support_))
    parts = [slice(*pair) for pair in pairwise(ends)]
    return np.array(
        [
            coefficients[j - 1, parts[i]] @ shift[parts[i]]
            + coefficients[i, parts[j]] @ shift[parts[j]]
            for i in range(len(parts))
            for j in range(i + 1, len(parts))
        ]
    )


def _dense(table: Any) -> np.ndarray:
    return table.toarray() if sparse.issparse(table) else np.asarray(table)


def _sparse_rows(X: Any) -> Iterator[str]:
    """Yield the rows of a matrix as LIBSVM writes them."""
    X.sort_indices()  # kernels are computed by merging rows
    for start, stop in pairwise(X.indptr):
        row = zip(X.indices[start:stop].tolist(), X.data[start:stop].tolist())
        yield " ".join(f"{k + 1}:{v!r}" for k, v in row)


def describe(labels: dict[str, int]) -> str:
    """Return the numbers that classes have in a model file, as words."""
    return ", ".join(f"{name} = {number}" for name, number in labels.items())
