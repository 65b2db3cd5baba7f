"""Random data: shapes, magnitudes, faults and containers as users bring them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

Rng = np.random.Generator

LABELS: tuple[tuple[Any, ...], ...] = (
    (0, 1, 2, 3),
    (1, 2, 3, 4),
    (-1, 1, 5, 40),
    ("no", "perhaps", "yes", "zebra"),
    (False, True),
    (-1.0, 1.0, 2.0, 3.0),
)
CONTAINERS = (
    "array", "array", "array", "fortran", "single", "integer", "list", "frame", "polars",
    "csr", "csc", "coo", "csr_array", "read-only", "strided", "unsorted csr",
)  # fmt: skip


def n_rows(rng: Rng) -> int:
    """Draw a number of rows: mostly few, sometimes so many that a search begins with a part."""
    low, high = [(4, 13), (13, 61), (61, 201), (201, 751), (751, 2001)][
        rng.choice(5, p=[0.1, 0.66, 0.18, 0.04, 0.02])
    ]
    return int(rng.integers(low, high))


def signal(rng: Rng, n: int) -> np.ndarray:
    """Draw rows of columns that are independent, discrete, one-hot or powers of each other."""
    kind, d = rng.choice(["normal", "uniform", "integer", "one-hot", "powers"]), _columns(rng, n)
    if kind == "normal":
        return rng.normal(size=(n, d))
    if kind == "uniform":
        return rng.uniform(-1.0, 1.0, size=(n, d))
    if kind == "integer":
        return rng.integers(0, 4, size=(n, d)).astype(float)
    if kind == "one-hot":
        return np.eye(d)[rng.integers(0, d, size=n)]
    x = rng.uniform(0.0, 3.0, size=n)
    return np.column_stack([x ** (k + 1) for k in range(min(d, 6))])


def _columns(rng: Rng, n: int) -> int:
    return int(rng.integers(1, 7)) if rng.uniform() < 0.9 else int(rng.integers(10, 40))


def spoil(rng: Rng, X: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Put what is wrong with real data into rows and columns; say what."""
    X, said = X.copy(), []
    n, d = X.shape
    faults = {
        "magnitude": 0.12, "offset": 0.15, "scales": 0.1, "outliers": 0.1, "duplicates": 0.15,
        "constant column": 0.1, "equal rows": 0.02, "zeros": 0.05,
    }  # fmt: skip
    for name, chance in faults.items():
        if rng.uniform() > chance:
            continue
        said.append(name)
        if name == "magnitude":
            X *= 10.0 ** rng.integers(-8, 9)
        elif name == "offset":
            X += 10.0 ** rng.integers(0, 8) * rng.choice([-1.0, 1.0], size=d)
        elif name == "scales":
            X *= 10.0 ** rng.integers(-3, 4, size=d)
        elif name == "outliers":
            X[rng.integers(0, n, size=max(1, n // 20))] *= 10.0 ** rng.integers(1, 5)
        elif name == "duplicates":
            X[rng.integers(0, n, size=n // 2)] = X[rng.integers(0, n, size=n // 2)]
        elif name == "constant column":
            X[:, rng.integers(0, d)] = rng.choice([0.0, 1.0, 1e6])
        elif name == "equal rows":
            X[:] = X[0]
        else:
            X[rng.uniform(size=X.shape) < 0.7] = 0.0
    return X, said


def score_of_rows(rng: Rng, X: np.ndarray) -> np.ndarray:
    """Return a noisy smooth function of the rows, without units."""
    Z = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    f = Z @ rng.normal(size=X.shape[1]) / np.sqrt(X.shape[1])
    f = f + rng.choice([0.0, 0.5]) * Z[:, 0] ** 2
    return f + rng.choice([0.0, 0.3, 1.0, 5.0]) * rng.normal(size=len(X))


def labels(rng: Rng, f: np.ndarray, n_classes: int) -> np.ndarray:
    """Cut the function into classes, some of them rare; every class has a row at least."""
    n, names = len(f), LABELS[rng.integers(len(LABELS))]
    while len(names) < n_classes:
        names = LABELS[rng.integers(len(LABELS))]
    share = rng.dirichlet(np.full(n_classes, 5.0 if rng.uniform() < 0.8 else 0.5))
    counts = np.maximum(1, np.floor(share * n).astype(int))
    counts[counts.argmax()] += n - counts.sum()
    numbers = np.empty(n, dtype=int)
    numbers[np.argsort(f, kind="stable")] = np.repeat(np.arange(n_classes), counts)
    y = np.array(names[:n_classes])[numbers]
    return y.astype(object) if y.dtype.kind == "U" and rng.uniform() < 0.5 else y


def target(rng: Rng, f: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Give the function units, outliers, ties; say what was done."""
    y, said = f.copy(), []
    if rng.uniform() < 0.15:
        y, said = y * 10.0 ** rng.integers(-4, 7), ["y magnitude"]
    if rng.uniform() < 0.15:
        y, said = y + 10.0 ** rng.integers(1, 5), [*said, "y offset"]
    if rng.uniform() < 0.1:
        y[rng.integers(len(y))] += 10.0 ** rng.integers(1, 7)
        said.append("y outlier")
    if rng.uniform() < 0.1:
        y, said = np.round(y), [*said, "y rounded"]
    if rng.uniform() < 0.03:
        y, said = np.full(len(y), y[0]), [*said, "y constant"]
    if rng.uniform() < 0.1:
        y, said = y.astype(np.float32), [*said, "y single"]
    return y, said


def weights(rng: Rng, n: int) -> tuple[np.ndarray | None, str]:
    """Draw sample weights, or none."""
    kind = rng.choice(["none", "ones", "uniform", "integer", "zeros", "wide"], p=[0.7] + [0.06] * 5)
    made = {
        "none": None,
        "ones": np.ones(n),
        "uniform": rng.uniform(0.2, 2.0, size=n),
        "integer": rng.integers(1, 4, size=n),
        "zeros": rng.choice([0.0, 1.0], size=n, p=[0.2, 0.8]),
        "wide": 10.0 ** rng.uniform(-3, 2, size=n),
    }[kind]
    return made, str(kind)


def contain_rows(kind: str, X: np.ndarray) -> Any:
    """Put X into a container of the user's choice."""
    if kind == "fortran":
        return np.asfortranarray(X)
    if kind == "single":
        return X.astype(np.float32)
    if kind == "integer":
        return np.round(np.clip(X, -1e9, 1e9)).astype(int)
    if kind == "list":
        return X.tolist()
    if kind == "read-only":
        X.flags.writeable = False
        return X
    if kind == "strided":
        return np.repeat(X, 2, axis=0)[::2]
    if kind in ("frame", "polars"):
        return _frame(kind, X)
    if kind == "array":
        return X
    if kind == "unsorted csr":
        return _unsorted(X)
    made = {"csr": sparse.csr_matrix, "csc": sparse.csc_matrix, "coo": sparse.coo_matrix}
    return made.get(kind, sparse.csr_array)(X)


def _frame(kind: str, X: np.ndarray) -> Any:
    names = [f"column {k}" for k in range(X.shape[1])]
    if kind == "polars":
        import polars

        return polars.DataFrame(X, schema=names)
    import pandas

    # an index that is not the number of the row
    return pandas.DataFrame(X, columns=names, index=np.arange(len(X))[::-1] + 7)


def _unsorted(X: np.ndarray) -> sparse.csr_matrix:
    """Return rows whose entries come in the opposite order, as some programs store them."""
    made = sparse.csr_matrix(X)
    for start, end in zip(made.indptr, made.indptr[1:]):
        made.indices[start:end] = made.indices[start:end][::-1].copy()
        made.data[start:end] = made.data[start:end][::-1].copy()
    made.has_sorted_indices = False
    return made


def contain_targets(kind: str, y: np.ndarray) -> Any:
    """Put y into a container of the user's choice."""
    if kind == "list":
        return y.tolist()
    if kind == "series":
        import pandas

        return pandas.Series(y, name="target")
    if kind == "column":
        return y.reshape(len(y), -1)
    if kind == "polars":
        import polars

        return polars.Series("target", y.tolist())
    return y
