"""Systems (R + X' D X) P = B of linear machines in lanes.

R is one, but for the bias.  Three ways to solve them: with few features, with few features near the
corners of a loss, with many features.  D (rows, lanes) may change from call to call; P is accurate
to `tol`, relative to B, in every active lane.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.linalg import eigh, get_lapack_funcs, svd

from ..._core.budget import Budget
from ..._core.compiled import compiled
from ..conjugate import Rule, conjugate_gradients, dots
from .lanes import Matrix, SparseMatrix
from .loops import LANES, add_dots, add_outer

FEW_FEATURES = 600  # features up to which the Hessian itself is the preconditioner
ROWS_PER_FEATURE = 40  # from which it is made, if all rows would take too long
GRAM = {False: 4e9, True: 1e8}  # multiplications that do not; sparse rows must be filled first
WORN = 4  # iterations of conjugate gradients that call for a new preconditioner
STRAYED = 5 * WORN  # iterations that call for one for every lane
MOST_SWEEPS = 300
MOST_HELD = 300  # rows at corners whose products are kept in a matrix
UNSEEN = 1e-7  # of a curvature may escape a sample, or single precision
UNCURVED = 1e-30  # curvature where all rows are certain of their classes
NULL = 1e-11  # eigenvalues, relative to the largest, that are none
TIGHT = 1e-6  # tolerances that are worth ten times as many


class Held:
    """Rows whose outputs are to be moved, or held: which weights and coefficients do that.

    Rows, scaled to length one, are factored as they are where features are few.  Their products
    have the squares of all scales in them, next to which features in small units do not show.
    """

    def __init__(self, matrix: Matrix, rows: np.ndarray):
        self.X, self.scale = matrix.X[rows], matrix.scale
        lengths = np.sqrt(matrix.squared_lengths[rows])
        self.lengths = np.where(lengths > 0, lengths, 1.0)
        self.directions: np.ndarray | None = None  # of the weights, if they are kept
        if matrix.width <= FEW_FEATURES:
            scaled = matrix.dense(rows).astype(float) / self.lengths[:, None]
            U, s, directions = svd(scaled, full_matrices=False, check_finite=False)
            kept = s > max(scaled.shape) * np.finfo(float).eps * s.max(initial=0.0)
            self.directions = directions[kept]
        else:
            products = matrix.gram(rows) / np.multiply.outer(self.lengths, self.lengths)
            squares, U = eigh(products, check_finite=False)
            kept = squares > NULL * squares.max(initial=0.0)
            s = np.sqrt(np.maximum(squares, 0.0))
        self.U, self.sizes = U[:, kept], s[kept]

    def outputs(self, w: np.ndarray) -> np.ndarray:
        """Return the outputs of the rows."""
        return self.X @ w[:-1] + self.scale * w[-1]

    def move(self, by: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the shortest change of weights that moves outputs as far as can be.

        Also the change of coefficients that makes it, and how far outputs still have to go: where
        rows are independent, nowhere.
        """
        left = by / self.lengths
        part = self.U.T @ left / self.sizes
        weights, coefficients = self._along(part)
        # once more, for what rounding has left
        more = self._along(self.U.T @ ((by - self.outputs(weights)) / self.lengths) / self.sizes)
        left = (left - self.U @ (self.U.T @ left)) * self.lengths
        return weights + more[0], coefficients + more[1], left

    def unseen(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the part of weights that the rows do not see, and the coefficients of the rest."""
        coefficients = np.zeros(len(self.lengths))
        for _ in range(2):  # once more, for what rounding has left
            if self.directions is not None:
                part = self.directions @ w
            else:
                part = self.U.T @ (self.outputs(w) / self.lengths) / self.sizes
            seen, change = self._along(part)
            w, coefficients = w - seen, coefficients + change
        return w, coefficients

    def _along(self, part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return weights of given parts along the directions, and the coefficients of them."""
        coefficients = self.U @ (part / self.sizes) / self.lengths
        if self.directions is not None:
            return self.directions.T @ part, coefficients
        return np.append(self.X.T @ coefficients, self.scale * coefficients.sum()), coefficients


def project(matrix: Matrix, D: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what of B the rows of infinite curvature do not see, and the multipliers of them."""
    free = np.isinf(D)
    P, G = B.copy(), np.zeros_like(B, shape=D.shape)
    for lane in np.flatnonzero(free.any(axis=0)):
        rows = np.flatnonzero(free[:, lane])
        P[:, lane], G[rows, lane] = Held(matrix, rows).unseen(B[:, lane].astype(float))
    return P, G


class ConjugateGradients:
    """Few features: conjugate gradients, with a factored mean Hessian as preconditioner.

    All lanes share it: they differ by a fold's rows only.  It is renewed when it is worn.  Where
    features are too many for that, its diagonal stands in for it.
    """

    def __init__(self, matrix: Matrix, penalty: np.ndarray, used: np.ndarray, budget: Budget):
        self.matrix, self.penalty, self.used, self.budget = matrix, penalty, used, budget
        self._precondition: Callable | None = None
        self.count = 0  # iterations of the last solution

    dots = staticmethod(dots)

    def product(self, D: np.ndarray, P: np.ndarray, on: np.ndarray) -> np.ndarray:
        """Return (R + X' D X) P, in the lanes that are on at least."""
        return self.penalty * P + self.matrix.curved(D, P)

    def solve(self, D: np.ndarray, B: np.ndarray, tol: float, active: np.ndarray) -> np.ndarray:
        if self._precondition is None:
            self._precondition = self._preconditioner(D)
        S, self.count = conjugate_gradients(
            partial(self.product, D), self._precondition, B, partial(self._rule, B, tol), active,
            self.budget, self.dots,
        )  # fmt: skip
        if self.worn(self.count):
            self._precondition = None
        return S

    def _rule(self, B: np.ndarray, tol: float, product: np.ndarray) -> Rule:
        """Return what tells which lanes are to go on.

        Residuals are measured by the preconditioner: features in other units must not hide them.
        """
        return lambda S, residual, left, count: left > tol**2 * product

    def worn(self, count: int) -> bool:
        """Whether so many iterations call for a new preconditioner."""
        return count > WORN

    def _preconditioner(self, D: np.ndarray) -> Callable:
        """Return an approximate inverse of the mean Hessian of the lanes."""
        mean = D @ (self.used / self.used.sum()).astype(D.dtype)
        if self.matrix.width > FEW_FEATURES:  # too many to factor
            diagonal = self.penalty + self.matrix.sums_of_squares(mean[:, None])
            return lambda B: B / diagonal
        H = self._grams(mean[:, None])[0]
        inverse = factored(H, self.penalty[:, 0] + UNSEEN * np.diag(H) + UNCURVED)
        return lambda B: inverse(B).astype(B.dtype)

    def forget(self) -> None:
        """Make a new preconditioner the next time."""
        self._precondition = None

    def _most_rows(self, number: int) -> int:
        """Return how many rows so many Hessians are made of at most."""
        room = GRAM[isinstance(self.matrix, SparseMatrix)] / (number * self.matrix.width**2)
        return int(max(room, ROWS_PER_FEATURE * self.matrix.width))

    def work(self, n_rows: int) -> float:
        """Return the multiplications of a new preconditioner, and of iterations until it is worn.

        Rows are those with curvature in some lane.
        """
        made = min(n_rows, self._most_rows(1)) * float(self.matrix.width) ** 2
        return made + 2.0 * WORN * LANES * len(self.matrix.rows[2])

    def _grams(self, weights: np.ndarray) -> np.ndarray:
        """Return X' diag(weight) X for every column of weights, from a sample if rows are many."""
        matrix, rows, factor = self.matrix, np.flatnonzero(weights.any(axis=1)), 1.0
        number = weights.shape[1]
        most = self._most_rows(number)
        if len(rows) > most:
            step = -(-len(rows) // most)
            factor, rows = len(rows) / len(rows[::step]), rows[::step]

        def run(part: np.ndarray) -> np.ndarray:
            B, roots = matrix.dense(part), np.sqrt(weights[part])
            found = np.empty((number, matrix.width, matrix.width), dtype=B.dtype)
            for gram, root in zip(found, roots.T):
                weighed = B * root[:, None]
                np.dot(weighed.T, weighed, out=gram)
            return found

        size = max(256, 2**20 // matrix.width)
        parts = [rows[i : i + size] for i in range(0, len(rows), size)]
        total = np.zeros((number, matrix.width, matrix.width))
        for found in matrix.workers.map(run, parts, self.budget):
            total += found
        return factor * total


class LaneByLane:
    """Few features, and few rows with curvature: a factor for every lane.

    That is so near the corner of a loss, where lanes have little in common.  Where curvature is
    infinite, P is what these rows do not see of B; `multipliers` tells what they did see.
    """

    def __init__(self, matrix: Matrix, penalty: np.ndarray, used: np.ndarray, budget: Budget):
        self.matrix, self.penalty = matrix, penalty
        self.shared = ConjugateGradients(matrix, penalty, used, budget)

    def solve(self, D: np.ndarray, B: np.ndarray, tol: float, active: np.ndarray) -> np.ndarray:
        held = np.isinf(D).any(axis=0)
        if not held.any() and self._in_common(D[:, active] != 0):
            self.shared.forget()
            return self.shared.solve(D, B, tol, active)
        P, self.multipliers = np.zeros_like(B), np.zeros_like(D)
        if held.any():
            P, self.multipliers = project(self.matrix, np.where(active, D, 0.0), B * active)

        def run(lane: int) -> None:
            rows = np.flatnonzero(D[:, lane])
            X = self.matrix.dense(rows) * np.sqrt(D[rows, lane].astype(float))[:, None]
            P[:, lane] = factored(X.T @ X, self.penalty[:, 0])(B[:, lane].astype(float))

        self.matrix.workers.map(run, np.flatnonzero(active & ~held), self.shared.budget)
        return P

    def _in_common(self, curved: np.ndarray) -> bool:
        """Whether one preconditioner for all lanes is less work than a factor for each.

        If iterations were many the last time, lanes have too little in common for that.
        """
        width, n_rows = self.matrix.width, int(np.count_nonzero(curved))
        work = self.shared.work(int(np.count_nonzero(curved.any(axis=1))))
        strayed = self.shared.count > STRAYED and n_rows <= ROWS_PER_FEATURE * width
        return n_rows * float(width) ** 2 > work and not strayed

    def meet(
        self, inside: np.ndarray, B: np.ndarray, outputs: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients and weights with which rows inside of a corner have given outputs.

        The coefficients of other rows stay as they are.
        """
        B = np.where(inside, 0.0, B).astype(B.dtype)
        W = self.matrix.transposed(B)
        for lane in np.flatnonzero(inside.any(axis=0)):
            rows = np.flatnonzero(inside[:, lane])
            held, w = Held(self.matrix, rows), W[:, lane].astype(float)
            change, B[rows, lane], _ = held.move(outputs[rows, lane] - held.outputs(w))
            W[:, lane] = w + change
        return B, W


def factored(H: np.ndarray, penalty: np.ndarray) -> Callable:
    """Return the inverse of H + diag(penalty), with a jitter if it needs one.

    LAPACK is called by its own name, as there are thousands of these that are small.
    """
    diagonal = np.diag_indices_from(H)
    H[diagonal] += penalty
    jitter = 1e-14 * np.trace(H) / len(H)
    potrf, potrs = get_lapack_funcs(("potrf", "potrs"), (H,))
    while True:
        factor, failed = potrf(H, lower=True, clean=False)
        if not failed:
            return lambda B: potrs(factor, B, lower=True)[0] if B.size else B
        H[diagonal] += jitter
        jitter *= 100.0


@compiled
def _sweep(indptr, indices, values, full, scale, square, D, order, P, bias, G, gain):
    zero, n_lanes = P.dtype.type(0), P.shape[1]
    u = np.zeros((1, n_lanes), dtype=P.dtype)
    for t in range(len(order)):
        i = order[t]
        base = indptr[i] if full else 0
        for lane in range(n_lanes):
            u[0, lane] = scale * bias[lane]
        add_dots(indices, base, values, indptr[i], indptr[i + 1], P, u, 0)
        for lane in range(n_lanes):
            h, step = D[i, lane], zero
            if h > 0:
                ridge = 1 / h  # none where curvature is infinite
                size = square[i] + ridge
                if size > 0:
                    step = (u[0, lane] - ridge * G[i, lane]) / size
                    G[i, lane] += step
                    gain[lane] += step * step * size
            u[0, lane] = -step
            bias[lane] -= scale * step
        add_outer(indices, base, values, indptr[i], indptr[i + 1], u, 0, P)


class RowByRow:
    """Many features: coordinate descent on the rows.

    The Hessian is too large to factor then, and badly conditioned: words are rare and common.  The
    matrix of the rows is not: most pairs of texts share little.  By the identity of Woodbury

        P = B - X' G,   (D^-1 + X X') G = X B,   G = D X P,

    and coordinate descent on G, a row at a time, keeps P up to date.  Rows without curvature have
    no part in it; where curvature is infinite, as at the corner of a hinge loss, P is what these
    rows do not see of B.  A bias without penalty is eliminated first.
    """

    def __init__(self, matrix: Matrix, penalty: np.ndarray, used: np.ndarray, budget: Budget):
        self.matrix, self.budget = matrix, budget
        self.bias_penalty = float(penalty[-1, 0])
        self.square = matrix.squared_lengths

    def solve(self, D: np.ndarray, B: np.ndarray, tol: float, active: np.ndarray) -> np.ndarray:
        scale, self.tight = self.matrix.scale, tol <= 10 * TIGHT
        if self.bias_penalty == 1.0 or scale == 0:
            # in double precision somebody wants the exact answer
            if D.dtype == np.float64 and np.isinf(D).sum(axis=0).max() in range(1, MOST_HELD):
                P, self.multipliers = project(self.matrix, np.where(active, D, 0.0), B)
                return P
            P, bias = self._descend(D, B[:-1], B[-1], scale, tol, active)
            return np.vstack([P, bias])
        # with the weights eliminated, the bias meets one equation
        none = np.zeros_like(B[-1])
        column = self.matrix.transposed(D)[:-1] * D.dtype.type(scale)
        first, _ = self._descend(D, B[:-1], none, 0.0, tol, active)
        of_first = self.multipliers
        second, _ = self._descend(D, column, none, 0.0, tol, active)
        stiffness = scale**2 * D.sum(axis=0, dtype=float) + self.bias_penalty
        stiffness -= dots(column, second)
        bias = (B[-1] - dots(column, first)) / np.where(stiffness > 0, stiffness, 1.0)
        bias = bias.astype(B.dtype)
        self.multipliers = of_first + bias * (D.dtype.type(scale) * D - self.multipliers)
        return np.vstack([first - bias * second, bias])

    def outputs(self, D: np.ndarray, P: np.ndarray) -> np.ndarray:
        """Return X P of the last solution.

        Where rows are stiff it is next to nothing, and what is left of large numbers: then G, if it
        is known well, says more.  Outputs are those that one more step on every row would lead to.
        """
        Q, square = self.matrix.times(P, np.empty_like(D)), self.square[:, None]
        if not self.tight:
            return Q
        finite = np.where(np.isfinite(D), D, 0.0)
        G = np.where(finite > 0, self.multipliers, 0.0)
        return np.where(finite > 0, (Q + square * G) / (1.0 + square * finite), Q).astype(D.dtype)

    def _descend(
        self,
        D: np.ndarray,
        B: np.ndarray,
        bias: np.ndarray,
        scale: float,
        tol: float,
        active: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        P, bias = np.array(B, order="C"), bias.copy()
        self.multipliers = G = np.zeros_like(D)
        total, rng = np.zeros(LANES), np.random.default_rng(0)
        D = D * active.astype(D.dtype)
        rows = np.flatnonzero(D.any(axis=1))
        square = self.square - self.matrix.scale**2 + scale**2
        for _ in range(MOST_SWEEPS if tol > TIGHT else 10 * MOST_SWEEPS):
            gain = np.zeros(LANES)
            _sweep(
                *self.matrix.rows, P.dtype.type(scale), square.astype(P.dtype), D,
                rng.permutation(rows), P, bias, G, gain,
            )  # fmt: skip
            total += gain
            if (gain <= tol**2 * total).all() or self.budget.expired():
                break
        return P, bias
