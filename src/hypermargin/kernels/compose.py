"""Kernels that are made of others: sums with weights, products, and kernels of some columns.

Hyperparameters of a part are called ``<name of the part>__<its own name>``, as parameters of nested
estimators are in scikit-learn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils._indexing import _get_column_indices
from sklearn.utils.metaestimators import _BaseComposition

from .._core.budget import cached
from .._core.space import Dimension, Labels, Params
from .base import Kernel, total
from .points import Points

RANGE = 1e-4, 1e2  # of the weight of a kernel, in units of its usual one; the least is next to none


@dataclass(frozen=True)
class Parts:
    """Points in the form that each of several kernels wants them in."""

    parts: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.parts[0])

    @property
    def dtype(self) -> np.dtype:
        return self.parts[0].dtype

    def take(self, rows: Any) -> Parts:
        return Parts(tuple(part.take(rows) for part in self.parts))

    @cached
    def single(self) -> Parts:
        """The same points in single precision."""
        return Parts(tuple(part.single for part in self.parts))


class Composite(_BaseComposition, Kernel):
    """What sums and products have in common: parts with names."""

    kernels: Sequence[tuple[str, Kernel]]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, those of the parts included.

        Parameters
        ----------
        deep : bool, default=True
            Whether those of the parts are included.

        Returns
        -------
        params : dict
        """
        return self._get_params("kernels", deep=deep)

    def set_params(self, **params: Any) -> Composite:
        """Set parameters, those of parts by ``<name>__<parameter>``.

        Parameters
        ----------
        **params : dict

        Returns
        -------
        self : object
        """
        self._set_params("kernels", **params)
        return self

    def checked(self) -> list[tuple[str, Kernel]]:
        """Return the parts, or say what is wrong with them."""
        what = type(self).__name__
        if not isinstance(self.kernels, Sequence):
            raise TypeError(f"{what} has kernels={self.kernels!r}; give a list of (name, kernel).")
        kernels = list(self.kernels)
        if not kernels:
            raise ValueError(f"{what} has no kernels; give a list of (name, kernel).")
        for one in kernels:
            if not isinstance(one, tuple) or len(one) != 2 or not isinstance(one[1], Kernel):
                raise TypeError(f"{what} has {one!r}; give pairs (name, kernel).")
        self._validate_names([name for name, _ in kernels])
        return kernels

    def of_parts(self, names: str) -> tuple[str, ...]:
        """Return something that all parts name, by its name here."""
        return tuple(f"{part}__{n}" for part, k in self.checked() for n in getattr(k, names))

    @property
    def hyperparameters(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.of_parts("hyperparameters")

    @property
    def widths(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.of_parts("widths")

    @property
    def positive(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.of_parts("positive")

    @property
    def definite(self) -> bool:  # type: ignore[override]
        return all(kernel.definite for _, kernel in self.checked())

    @property
    def arrays(self) -> Mapping[str, Labels]:
        return {
            f"{part}__{name}": labels
            for part, kernel in self.checked()
            for name, labels in kernel.arrays.items()
        }

    def part(self, name: str) -> tuple[Kernel, str]:
        """Return the part that a hyperparameter belongs to, and its name there."""
        first, _, rest = name.partition("__")
        return dict(self.checked())[first], rest

    def values(self) -> Params:
        return {f"{part}__{n}": v for part, k in self.checked() for n, v in k.values().items()}

    def read_off(self, name: str, points: Points) -> float:
        kernel, own = self.part(name)
        return kernel.read_off(own, points)

    def ard_of(self, name: str) -> Any:
        kernel, own = self.part(name)
        return kernel.ard_of(own)

    def columns_of(self, name: str, n_features: int) -> np.ndarray:
        kernel, own = self.part(name)
        return kernel.columns_of(own, n_features)

    def check(self, points: Points) -> None:
        for _, kernel in self.checked():
            kernel.check(points)

    def dimension(self, name: str, points: Points) -> Any:
        kernel, own = self.part(name)
        found = kernel.dimension(own, points)
        free = isinstance(found, Dimension) and found.first == "free"
        return replace(found, first="held") if free else found

    def at(self, points: Points, params: Params) -> Any:
        return Parts(tuple(k.at(points, _of(params, name)) for name, k in self.checked()))

    def each(self, params: Params, *points: Any) -> Iterator[tuple[Any, ...]]:
        """Yield for every part: its name, the kernel, its hyperparameters, and its points."""
        for number, (name, kernel) in enumerate(self.checked()):
            yield name, kernel, _of(params, name), *(p.parts[number] for p in points)

    def single_error(self, points: Any, params: Params) -> float:
        return max(k.single_error(p, own) for _, k, own, p in self.each(params, points))


class Sum(Composite):
    """A sum of kernels, each with a weight: K = sum_k weights_k K_k.

    Parameters
    ----------
    kernels : list of (str, Kernel)
        The kernels with their names.
    weights : array-like or dict by name, default=None
        None is the same for all, one in total.  A search that tunes all of them, as it does where
        nothing is said, keeps them at one in total: C has the rest.
    ask : bool, default=False
        Whether a search keeps the tuned average of the kernels unless weights and widths of their
        own lower the loss of rows that it has held out by more than one standard error.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin import GradientSearchCV, KernelSVC
    >>> from hypermargin.kernels import RBF, Sum
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(120, 6))
    >>> y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 > 1
    >>> kernel = Sum([("signal", RBF(columns=[0, 1])), ("noise", RBF(columns=[2, 3, 4, 5]))])
    >>> search = GradientSearchCV(KernelSVC(kernel=kernel), cv=3, random_state=0).fit(X, y)
    >>> weights = search.best_params_["kernel__weights"]
    >>> weights["signal"] > weights["noise"]
    True
    """

    def __init__(
        self, kernels: Sequence[tuple[str, Kernel]], weights: Any = None, *, ask: bool = False
    ):
        self.kernels = kernels
        self.weights = weights
        self.ask = ask

    @property
    def labels(self) -> Labels:
        return Labels("kernels", [name for name, _ in self.checked()])

    @property
    def hyperparameters(self) -> tuple[str, ...]:  # type: ignore[override]
        return (*self._own, *super().hyperparameters)

    @property
    def _own(self) -> tuple[str, ...]:
        """Its own hyperparameters: the weight of a single kernel is a factor that C has as well."""
        return ("weights",) if len(self.checked()) > 1 else ()

    @property
    def arrays(self) -> Mapping[str, Labels]:
        return {**dict.fromkeys(self._own, self.labels), **super().arrays}

    @property
    def given(self) -> np.ndarray:
        """The weights that it has."""
        n = len(self.checked())
        given = np.full(n, 1.0 / n) if self.weights is None else self.weights
        return self.labels.values("weights", given)

    def values(self) -> Params:
        if not isinstance(self.ask, bool):
            raise ValueError(f"ask={self.ask!r} of Sum must be True or False.")
        return {**dict.fromkeys(self._own, self.given), **super().values()}

    def dimension(self, name: str, points: Points) -> Any:
        """Return the range of a hyperparameter; of weights, one for each.

        They are usually such that all kernels have the same part in what tells rows apart.
        """
        if name != "weights":
            return super().dimension(name, points)
        parts = np.array([_variation(kernel, points) for _, kernel in self.checked()])
        usual = (1.0 / parts) / (1.0 / parts).sum()
        return [
            Dimension(RANGE[0] * w, RANGE[1] * w, "log", usual=(w / 3, 3 * w), first="held")
            for w in usual
        ]

    def ard_of(self, name: str) -> Any:
        return False if name == "weights" else super().ard_of(name)

    def block(
        self, rows: Any, cols: Any, params: Params, out: np.ndarray | None = None
    ) -> np.ndarray:
        sums = None
        weights = params.get("weights", self.given)
        for number, (_, kernel, own, r, c) in enumerate(self.each(params, rows, cols)):
            K = kernel.block(r, c, own, out if sums is None else None)
            K *= float(weights[number])
            sums = K if sums is None else np.add(sums, K, out=sums)
        assert sums is not None
        return sums

    def parts_at(self, params: Params) -> list[tuple[str, float, Kernel, Params]]:
        """Return for every part: its name, its weight, the kernel and its hyperparameters."""
        weights = params.get("weights", self.given)
        parts = self.each(params)
        return [(n, float(w), k, own) for w, (n, k, own) in zip(weights, parts, strict=True)]

    def diagonal(self, points: Any, params: Params) -> np.ndarray:
        parts = [k.diagonal(p, own) for _, k, own, p in self.each(params, points)]
        return params.get("weights", self.given) @ np.stack(parts)

    def pullback(
        self, rows: Any, cols: Any, block: np.ndarray, M: np.ndarray, params: Params
    ) -> Params:
        weights = params.get("weights", self.given)
        by_weight, found = np.zeros(len(weights)), Params()
        for number, (name, kernel, own, r, c) in enumerate(self.each(params, rows, cols)):
            K = kernel.block(r, c, own)
            by_weight[number] = total(M, K)
            for hyperparameter, slope in kernel.pullback(r, c, K, M, own).items():
                found[f"{name}__{hyperparameter}"] = weights[number] * slope
        return {**dict.fromkeys(self._own, by_weight), **found}


class Product(Composite):
    """A product of kernels, entry by entry.

    Parameters
    ----------
    kernels : list of (str, Kernel)
        The kernels with their names.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin import KernelSVR
    >>> from hypermargin.kernels import RBF, Linear, Product
    >>> X = np.linspace(-2, 2, 60)[:, None]
    >>> kernel = Product([("slope", Linear()), ("wave", RBF(gamma=5.0))])
    >>> model = KernelSVR(C=100.0, kernel=kernel).fit(X, X[:, 0] * np.sin(5 * X[:, 0]))
    >>> round(model.score(X, X[:, 0] * np.sin(5 * X[:, 0])), 1)
    1.0
    """

    def __init__(self, kernels: Sequence[tuple[str, Kernel]]):
        self.kernels = kernels

    def block(
        self, rows: Any, cols: Any, params: Params, out: np.ndarray | None = None
    ) -> np.ndarray:
        product = None
        for _, kernel, own, r, c in self.each(params, rows, cols):
            K = kernel.block(r, c, own, out if product is None else None)
            product = K if product is None else np.multiply(product, K, out=product)
        assert product is not None
        return product

    def diagonal(self, points: Any, params: Params) -> np.ndarray:
        parts = (k.diagonal(p, own) for _, k, own, p in self.each(params, points))
        return reduce(np.multiply, parts)

    def pullback(
        self, rows: Any, cols: Any, block: np.ndarray, M: np.ndarray, params: Params
    ) -> Params:
        parts = list(self.each(params, rows, cols))
        blocks = [kernel.block(r, c, own) for _, kernel, own, r, c in parts]
        found = Params()
        for number, (name, kernel, own, r, c) in enumerate(parts):
            if not kernel.hyperparameters:
                continue
            others = reduce(np.multiply, (K for k, K in enumerate(blocks) if k != number), M)
            slopes = kernel.pullback(r, c, blocks[number], others, own)
            found |= {
                f"{name}__{hyperparameter}": slope for hyperparameter, slope in slopes.items()
            }
        return found


class OnColumns(Kernel):
    """A kernel of some of the columns, given by their numbers."""

    def __init__(self, kernel: Kernel, numbers: np.ndarray):
        self.kernel = kernel
        self.numbers = numbers
        self.hyperparameters, self.widths = kernel.hyperparameters, kernel.widths
        self.definite, self.positive = kernel.definite, kernel.positive

    @property
    def arrays(self) -> Mapping[str, Labels]:
        return self.kernel.arrays

    def values(self) -> Params:
        return self.kernel.values()

    def read_off(self, name: str, points: Points) -> float:
        return self.kernel.read_off(name, points.of_columns(self.numbers))

    def ard_of(self, name: str) -> Any:
        return self.kernel.ard_of(name)

    def columns_of(self, name: str, n_features: int) -> np.ndarray:
        return self.numbers

    def check(self, points: Points) -> None:
        self.kernel.check(points.of_columns(self.numbers))

    def dimension(self, name: str, points: Points) -> Any:
        return self.kernel.dimension(name, points.of_columns(self.numbers))

    def at(self, points: Points, params: Params) -> Any:
        return self.kernel.at(points.of_columns(self.numbers), params)

    def block(
        self, rows: Any, cols: Any, params: Params, out: np.ndarray | None = None
    ) -> np.ndarray:
        return self.kernel.block(rows, cols, params, out)

    def diagonal(self, points: Any, params: Params) -> np.ndarray:
        return self.kernel.diagonal(points, params)

    def single_error(self, points: Any, params: Params) -> float:
        return self.kernel.single_error(points, params)

    def pullback(
        self, rows: Any, cols: Any, block: np.ndarray, M: np.ndarray, params: Params
    ) -> Params:
        return self.kernel.pullback(rows, cols, block, M, params)


def bound(kernel: Kernel, X: Any) -> Kernel:
    """Return a kernel that knows the numbers of its columns, found as in ColumnTransformer."""
    if isinstance(kernel, Composite):
        kernels = [(name, bound(part, X)) for name, part in kernel.checked()]
        return type(kernel)(**{**kernel.get_params(deep=False), "kernels": kernels})
    columns = getattr(kernel, "columns", None)
    if columns is None:
        return kernel
    if callable(columns):
        columns = columns(X)
    what, mask = type(kernel).__name__, np.asarray(columns)
    if mask.dtype == bool and mask.shape != (X.shape[1],):
        raise ValueError(
            f"columns={columns!r} of {what} must say yes or no to each of the {X.shape[1]} columns."
        )
    try:
        numbers = np.asarray(_get_column_indices(X, columns), dtype=int)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise ValueError(f"columns={columns!r} of {what} are not in X: {error}") from error
    if not len(numbers):
        raise ValueError(
            f"columns={columns!r} of {what} names no column; leave it out, or the kernel."
        )
    return OnColumns(kernel, numbers)


def added(one: Kernel, other: Any) -> Any:
    """Return a sum; sums are joined."""
    if not isinstance(other, Kernel):
        return NotImplemented
    terms = [*_terms(one), *_terms(other)]
    return Sum(_named([kernel for _, kernel in terms]), [weight for weight, _ in terms])


def multiplied(one: Kernel, other: Any) -> Any:
    """Return a product, or a kernel with a factor."""
    if isinstance(other, Real) and not isinstance(other, bool):
        if not 0.0 < float(other) < np.inf:
            raise ValueError(f"a kernel has the factor {other!r}; it must be positive.")
        terms = [(float(other) * weight, kernel) for weight, kernel in _terms(one)]
        return Sum(_named([kernel for _, kernel in terms]), [weight for weight, _ in terms])
    if not isinstance(other, Kernel):
        return NotImplemented
    factor, factors = 1.0, list[Kernel]()
    for kernel in (one, other):
        if len(_terms(kernel)) == 1:
            weight, kernel = _terms(kernel)[0]
            factor *= weight
        factors += _kernels(kernel) if isinstance(kernel, Product) else [kernel]
    product = Product(_named(factors))
    return product if factor == 1.0 else multiplied(product, factor)


def _kernels(composite: Composite) -> list[Kernel]:
    return [kernel for _, kernel in composite.checked()]


def _terms(kernel: Kernel) -> list[tuple[float, Kernel]]:
    """Return the weights and kernels of a sum, which any kernel is."""
    if not isinstance(kernel, Sum):
        return [(1.0, kernel)]
    return list(zip(kernel.given.tolist(), _kernels(kernel)))


def _named(kernels: Sequence[Kernel]) -> list[tuple[str, Kernel]]:
    """Return kernels with names of their kinds, and numbers where there are several of a kind."""
    names = [type(kernel).__name__.lower() for kernel in kernels]
    counts, seen = Counter(names), Counter[str]()
    found = []
    for name, kernel in zip(names, kernels):
        seen[name] += 1
        found.append((f"{name}{seen[name]}" if counts[name] > 1 else name, kernel))
    return found


def _of(params: Params, part: str) -> Params:
    """Return the hyperparameters of a part, by its own names."""
    start = f"{part}__"
    return {name.removeprefix(start): v for name, v in params.items() if name.startswith(start)}


def _variation(kernel: Kernel, points: Points) -> float:
    """Return how much the diagonal of a kernel is above its mean, at usual hyperparameters."""
    usual: Params = {}
    for name in kernel.hyperparameters:
        found = kernel.dimension(name, points)
        middles = [d.from_scaled(float(np.mean(d.first_look))) for d in _listed(found)]
        usual[name] = np.array(middles) if isinstance(found, list) else middles[0]
    placed = kernel.at(points, usual)
    varying = float(
        kernel.diagonal(placed, usual).mean() - kernel.block(placed, placed, usual).mean()
    )
    return varying if np.isfinite(varying) and varying > 0 else 1.0


def _listed(found: Any) -> list[Dimension]:
    return found if isinstance(found, list) else [found]


Kernel.added = added
Kernel.multiplied = multiplied
