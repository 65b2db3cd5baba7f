"""Multinomial logistic regression: machines whose outputs, one for each class, are coupled.

A machine minimises  1/2 |W|^2 + sum_i c_i [logsumexp(o_i) - o_i,y(i)],  o = X W + b,  with a bias
that is not penalised.  With the probabilities p_i = softmax(o_i) its coefficients are
beta_i = c_i (e_y(i) - p_i), one for each class, and the curvature of row i is
c_i (diag(p_i) - p_i p_i').  All else is as in `linear`: what is one lane there is one lane for
each class here, and inner products are those of whole machines.

Adding one vector to the weights of all classes changes no loss.  At the solution weights of the
classes therefore sum to zero; so do biases here, as in scikit-learn, where nothing else would
determine them.  Gradients and steps stay in that subspace, in which the Hessian is definite.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..._core.budget import Budget, cached
from ..._core.compiled import compiled
from ..._core.space import Params
from ...losses.base import Dual, Rows
from ...losses.classification import Logistic
from .bundle import Bundle
from .lanes import Matrix
from .loops import LANES
from .part import Job, Part
from .systems import FEW_FEATURES, UNCURVED, UNSEEN, ConjugateGradients

LEAST_SHARE = 0.05  # of the smallest class that tolerances take into account
WEAR = 2  # iterations more than with a new preconditioner that call for another


class Multinomial(Logistic):
    """sum_i c_i [logsumexp(o_i) - o_i,y(i)].

    The upper bound of its dual is the cost of a row, which is all that depends on hyperparameters.
    """

    by_part = {"class_cost": "class"}

    def dual(self, rows: Rows, params: Params) -> Dual:
        costs = self.costs(rows, params)
        zero = np.zeros_like(costs)
        return Dual(zero, zero, costs, zero, zero, soft=1.0)

    def pullback(self, rows: Rows, params: Params, cotangent: Dual) -> Params:
        return self.pull_costs(rows, params, cotangent.upper)


@compiled
def _below_largest(Z, label, weight, E, value, start, stop):
    """Set E to the outputs minus the largest of the machine; subtract that of the label's class."""
    n_machines = weight.shape[1]
    n_classes = Z.shape[1] // n_machines
    for i in range(start, stop):
        for f in range(n_machines):
            first = f * n_classes
            top = Z[i, first]
            for k in range(1, n_classes):
                top = max(top, Z[i, first + k])
            for k in range(n_classes):
                E[i - start, first + k] = Z[i, first + k] - top
            value[f] -= weight[i, f] * E[i - start, first + label[i]]


@compiled(fastmath={"contract", "nsz", "reassoc"})
def _coefficients(E, label, weight, A, P, value, start, stop):
    """Set probabilities P and coefficients A of exponentials E of outputs; add the values."""
    n_machines = weight.shape[1]
    n_classes = A.shape[1] // n_machines
    one = A.dtype.type(1)
    for i in range(start, stop):
        for f in range(n_machines):
            w, first = weight[i, f], f * n_classes
            total = A.dtype.type(0)
            for k in range(n_classes):
                total += E[i - start, first + k]
            share = one / total
            for k in range(n_classes):
                p = E[i - start, first + k] * share
                P[i, first + k] = p
                A[i, first + k] = -w * p
            A[i, first + label[i]] += w
            if w != 0:
                value[f] += w * np.log(total)


@compiled(fastmath={"contract", "nsz", "reassoc"})
def _bend(U, P, weight, machines, start):
    """Multiply outputs of some machines by the curvatures of their rows."""
    n_classes = P.shape[1] // weight.shape[1]
    for i in range(U.shape[0]):
        for m in range(len(machines)):
            w = weight[start + i, machines[m]]
            here, there = m * n_classes, machines[m] * n_classes
            mean = U.dtype.type(0)
            for k in range(n_classes):
                mean += P[start + i, there + k] * U[i, here + k]
            for k in range(n_classes):
                U[i, here + k] = w * P[start + i, there + k] * (U[i, here + k] - mean)


@compiled(fastmath={"contract", "nsz"})
def _add_curvatures(P, weight, total):
    """Add the curvatures of all machines, without what couples classes, to the total."""
    n_classes = total.shape[1]
    for i in range(total.shape[0]):
        for f in range(weight.shape[1]):
            for k in range(n_classes):
                p = P[i, f * n_classes + k]
                total[i, k] += weight[i, f] * p * (1 - p)


@compiled(fastmath={"contract", "nsz"})
def _add_products(a, b, total):
    """Add the inner products of all columns to the total, in double precision."""
    for j in range(a.shape[0]):
        for lane in range(a.shape[1]):
            total[lane] += np.float64(a[j, lane]) * np.float64(b[j, lane])


@compiled(fastmath={"contract", "nsz", "reassoc"})
def _balance_and_scale(B, inverse, out):
    """Set out to (B - m) times a diagonal, m being such that classes of machines sum to zero."""
    n_classes = inverse.shape[1]
    for j in range(B.shape[0]):
        whole = inverse.dtype.type(0)
        for k in range(n_classes):
            whole += inverse[j, k]
        for first in range(0, B.shape[1], n_classes):
            mean = inverse.dtype.type(0)
            for k in range(n_classes):
                mean += B[j, first + k] * inverse[j, k]
            mean /= whole
            for k in range(n_classes):
                out[j, first + k] = (B[j, first + k] - mean) * inverse[j, k]


@dataclass(frozen=True)
class CoupledLoss:
    """The losses of all rows, by machine; see `LaneLoss`.

    label : number of every row's class
    cost : of every row at weight one
    weight : of every row in every machine, the cost included
    """

    label: np.ndarray
    cost: np.ndarray
    weight: np.ndarray
    n_classes: int
    has_corners: ClassVar[bool] = False

    def gentler(self) -> list[CoupledLoss]:
        return []

    @cached
    def used(self) -> np.ndarray:
        """Which lanes have rows to train on."""
        return np.repeat(self.weight.any(axis=0), self.n_classes)

    def slopes(self, Z: np.ndarray, A: np.ndarray, D: np.ndarray, part: slice) -> np.ndarray:
        """Set A to minus the slopes, D to the probabilities; return values of machines by lane."""
        value = np.zeros(self.weight.shape[1])
        E = np.empty_like(Z[part])
        ends = part.start, part.stop
        _below_largest(Z, self.label, self.weight, E, value, *ends)
        np.exp(E, out=E)
        _coefficients(E, self.label, self.weight, A, D, value, *ends)
        return np.repeat(value, self.n_classes)

    def cotangent(self, A: np.ndarray, Q: np.ndarray) -> Dual:
        """Return what cotangents Q on the coefficients A, which have the cost as a factor, say."""
        on_costs = np.einsum("ij,ij->i", A, Q, dtype=float) / self.cost
        zero = np.zeros_like(on_costs)
        return Dual(zero, zero, on_costs, zero, zero)


class CoupledSystem(ConjugateGradients):
    """Conjugate gradients on the Hessians of machines with coupled classes.

    The preconditioner is the inverse, among weights that sum to zero over the classes, of the
    Hessian without what couples them; all machines share the mean of theirs.  With more features
    than that can be factored for, its diagonal stands in for it.
    """

    def __init__(self, matrix: Matrix, penalty: np.ndarray, loss: CoupledLoss, budget: Budget):
        super().__init__(matrix, penalty, loss.used, budget)
        self.weight, self.n_classes = loss.weight, loss.n_classes
        self._fresh: int | None = None

    def dots(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the inner products of whole machines, in every lane of them."""
        total = np.zeros(a.shape[1])
        _add_products(a, b, total)
        return np.repeat(total.reshape(-1, self.n_classes).sum(axis=1), self.n_classes)

    def balanced(self, B: np.ndarray) -> np.ndarray:
        """Return what of B sums to zero over the classes of a machine."""
        table = B.reshape(len(B), -1, self.n_classes)
        return (table - table.mean(axis=2, keepdims=True)).reshape(B.shape)

    def product(self, D: np.ndarray, P: np.ndarray, on: np.ndarray) -> np.ndarray:
        machines = np.flatnonzero(on[:: self.n_classes])

        def bend(U: np.ndarray, first: int) -> None:
            _bend(U, D, self.weight, machines, first)

        Q = self.penalty * P
        if on.all():
            Q += self.matrix.through(P, bend)
            return Q
        some = P.reshape(len(P), -1, self.n_classes)[:, machines]
        found = self.matrix.through(some.reshape(len(P), -1), bend)
        Q.reshape(len(P), -1, self.n_classes)[:, machines] += found.reshape(some.shape)
        return Q

    def worn(self, count: int) -> bool:
        # coupling costs iterations that no renewal saves
        if self._fresh is None:
            self._fresh = count
        return count > self._fresh + WEAR

    def _preconditioner(self, D: np.ndarray) -> Callable:
        self._fresh = None
        K = self.n_classes
        curvature = np.zeros((len(D), K), dtype=D.dtype)
        _add_curvatures(D, self.weight, curvature)
        curvature /= np.count_nonzero(self.weight.any(axis=0))
        if self.matrix.width > FEW_FEATURES:
            sums = self.matrix.sums_of_squares(curvature).astype(float)
            inverse = (1.0 / (self.penalty + sums + UNCURVED)).astype(D.dtype)

            def divide(B: np.ndarray) -> np.ndarray:
                found = np.empty_like(B)
                _balance_and_scale(B, inverse, found)
                return found

            return divide
        inverses = self._inverses(curvature)
        total = np.linalg.inv(inverses.sum(axis=0)).astype(D.dtype)
        inverses = inverses.astype(D.dtype)

        def apply(B: np.ndarray) -> np.ndarray:
            by_class = np.ascontiguousarray(B.reshape(len(B), -1, K).transpose(2, 0, 1))
            found = inverses @ by_class
            # taken from all classes alike, this makes what comes out sum to zero
            found -= inverses @ (total @ found.sum(axis=0))
            return self.balanced(found.transpose(1, 2, 0).reshape(B.shape))

        return apply

    def _inverses(self, curvature: np.ndarray) -> np.ndarray:
        """Return the inverses of the Hessians of the classes."""
        alike = (curvature == curvature[:, :1]).all()  # where all weights are zero
        H = self._grams(curvature[:, :1] if alike else curvature)
        at = np.arange(self.matrix.width)
        H[:, at, at] += self.penalty[:, 0] + UNSEEN * H[:, at, at] + UNCURVED
        return np.repeat(np.linalg.inv(H), self.n_classes // len(H), axis=0)


class CoupledBundle(Bundle):
    """Machines side by side: lanes are those of the classes of the first one, of the second, ...

    D are the probabilities, from which curvatures follow.
    """

    loss: Any
    system: CoupledSystem

    def _system(self) -> CoupledSystem:
        return CoupledSystem(self.matrix, self.penalty, self.loss, self.budget)

    def start(self, W: np.ndarray, A: np.ndarray | None = None) -> None:
        super().start(self.system.balanced(W), A)

    def dots(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self.system.dots(a, b)

    def gradient(self) -> np.ndarray:
        return self.system.balanced(super().gradient())

    def solve(self, B: np.ndarray, tol: float) -> np.ndarray:
        return super().solve(self.system.balanced(B), tol)

    def cotangent(self, Q: np.ndarray) -> Dual:
        return self.loss.cotangent(self.A, Q)


class CoupledPart(Part):
    """The machines of up to eight folds on one design, each with all classes that they know."""

    @staticmethod
    def groups(problem: Any, folds: list[int]) -> list[list[Job]]:
        alike: dict[tuple[int, ...], list[int]] = {}
        for f in folds:
            trained = [problem.fold(f).trains(column) for column in problem.columns]
            alike.setdefault(tuple(np.flatnonzero(trained).tolist()), []).append(f)
        return [
            [(int(f), c) for f in some for c in classes]
            for classes, those in alike.items()
            for some in np.array_split(those, -(-len(those) // LANES))
        ]

    @property
    def classes(self) -> list[int]:
        """The classes that the machines know."""
        return [c for f, c in self.jobs if f == self.jobs[0][0]]

    def _bundle(self, weights: np.ndarray, budget: Budget) -> CoupledBundle:
        problem, dtype = self.problem, self.matrix.dtype
        cost = problem.loss.dual(self.of_loss, self.params).upper
        n_classes = len(self.classes)
        if n_classes == 2 < len(problem.columns):
            # a model of two classes has one vector of weights, half of the difference of ours
            weights = 0.5 * weights
        weight = (weights * cost[:, None]).astype(dtype)
        loss: Any = CoupledLoss(self.label, cost, weight, n_classes)
        return CoupledBundle(self.matrix, loss, problem.bias_penalty, budget, "primal")

    @property
    def label(self) -> np.ndarray:
        """The number of every row's class among those that the machines know."""
        place = np.zeros(len(self.problem.columns), dtype=np.int64)  # others are not trained on
        place[self.classes] = np.arange(len(self.classes))
        return place[self.of_loss.parts["class"]]

    @property
    def balance(self) -> np.ndarray:
        """The share of the smallest class by lane, as in Chu et al., eq. (28).

        Classes with next to no rows have next to no part in the gradient: they are left out.
        """
        trained = self.bundle.loss.weight > 0
        counts = np.array([trained[self.label == k].sum(axis=0) for k in range(len(self.classes))])
        share = counts.min(axis=0) / np.maximum(counts.sum(axis=0), 1)
        return np.repeat(np.maximum(share, LEAST_SHARE), len(self.classes))
