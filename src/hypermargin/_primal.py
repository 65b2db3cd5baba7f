"""Newton's method for machines that are expansions on landmarks; see `_low_rank` for the formulas.

Machines that share their landmarks, one per fold and column, are trained side by side: their
coefficients are the columns of one matrix, so that a pass over the data serves all of them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_solve
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf

from ._budget import Budget, Workers
from ._gram import RowStore
from ._kernels import Kernel, Params, Points
from ._losses import Dual

BLOCK_BYTES = 2**23  # kernel values that are computed at a time
CACHE_BYTES = 2**19  # kernel values that are used twice before they leave the cache
SAMPLE = 16, 32  # least and most rows per landmark from which a preconditioner is made
DIRECT = 2e10  # operations up to which every machine has a preconditioner of its own
STALE = 20  # conjugate gradient steps more than at first after which a preconditioner is renewed
FORCING = 0.03  # accuracy of a step; finer when steps are small, to converge fast in the end
RESTART = 1e-4  # accuracy of the first step of a warm start, which is not a small correction
BLUR = 2.0  # width over which curvature is averaged, in units of the last step
MOST_NEWTON = 100
MOST_CG = 500


class OutOfTime(Exception):
    """The budget ended in the middle of a pass over the rows."""


class Features:
    """K(points, landmarks), with a column of ones if there is a bias, in chunks of rows.

    Rows are held in `store` as far as they fit into `memory` bytes; the others are computed at
    every use.  `source` has rows that may be copied instead of computed, those numbered `rows`.
    """

    def __init__(
        self,
        points: Points,
        landmarks: Points,
        kernel: Kernel,
        params: Params,
        bias: bool,
        store: RowStore,
        memory: float,
        workers: Workers,
        source: tuple[Features, np.ndarray] | None = None,
        budget: Budget | None = None,
    ):
        self.points, self.landmarks = points, landmarks
        self.kernel, self.params, self.bias = kernel, params, bias
        self.workers = workers
        self.budget = budget or Budget()
        self.dtype = np.dtype(points.X.dtype)
        n, row_bytes = len(points), self.dtype.itemsize * len(landmarks)
        size = max(64, BLOCK_BYTES // row_bytes)
        self._chunks = [slice(i, min(i + size, n)) for i in range(0, n, size)]
        n_held = n if n * row_bytes <= memory else int(memory // row_bytes // size) * size
        self._room = store.array(n_held, len(landmarks), self.dtype)
        self._held = self._room[:0]
        self._source = source

    def fill(self) -> Features:
        """Compute the rows that are held; before, every use computes all it needs."""
        source, room = self._source, self._room

        def fill(chunk: slice) -> None:
            if source is None or not source[0].copy(source[1][chunk], room[chunk]):
                self._compute(chunk, room[chunk])

        self._map(fill, [chunk for chunk in self._chunks if chunk.stop <= len(room)])
        self._held = room
        return self

    def __len__(self) -> int:
        return len(self.points)

    @property
    def width(self) -> int:
        return len(self.landmarks) + self.bias

    def _map(self, function: Callable, items: list) -> list:
        def careful(item: object) -> object:
            if self.budget.expired():
                raise OutOfTime
            try:
                return function(item)
            except FloatingPointError as error:  # raised in a worker it would end the search
                return error

        results = self.workers.map(careful, items, self.budget)
        for result in results:
            if isinstance(result, FloatingPointError):
                raise result
        return results

    def _compute(self, chunk: slice, out: np.ndarray | None = None) -> np.ndarray:
        block = self.kernel.block(self.points.take(chunk), self.landmarks, self.params, out)
        if not np.isfinite(block.sum()):
            raise FloatingPointError(
                f"the kernel matrix is not finite at {self.params}; scale the data or narrow the "
                "space."
            )
        return block

    def _block(self, chunk: slice) -> np.ndarray:
        return self._held[chunk] if chunk.stop <= len(self._held) else self._compute(chunk)

    def copy(self, rows: np.ndarray, out: np.ndarray) -> bool:
        """Write rows to `out` if they are held; return whether."""
        if rows[-1] >= len(self._held):
            return False
        np.take(self._held, rows, axis=0, out=out)
        return True

    def select(self, rows: np.ndarray, store: RowStore, memory: float) -> Features:
        """Return the features of some rows, given in ascending order."""
        return Features(
            self.points.take(rows), self.landmarks, self.kernel, self.params, self.bias, store,
            memory, self.workers, (self, rows), self.budget,
        )  # fmt: skip

    def dense(self, rows: np.ndarray) -> np.ndarray:
        """Return some rows with the column of ones, in double precision."""
        out = np.ones((len(rows), self.width))
        if rows[-1] < len(self._held):
            out[:, : len(self.landmarks)] = self._held[rows]
        else:
            block = self.kernel.block(self.points.take(rows), self.landmarks, self.params)
            out[:, : len(self.landmarks)] = block
        return out

    def times(self, A: np.ndarray) -> np.ndarray:
        """Return K A, one row per point, with sums in double precision."""
        A_landmarks = A[: len(self.landmarks)]
        out = np.empty((len(self), A.shape[1]))

        def part(chunk: slice) -> None:
            block, own = self._block(chunk), out[chunk]
            for some in self._pieces(len(block)):
                own[some] = block[some].astype(float) @ A_landmarks

        self._map(part, self._chunks)
        return out + A[-1] if self.bias else out

    def transposed(self, B: np.ndarray) -> np.ndarray:
        """Return K' B, one row per landmark, with sums in double precision."""

        def part(chunk: slice) -> tuple[np.ndarray, np.ndarray]:
            block, own = self._block(chunk), B[chunk]
            total = np.zeros((len(self.landmarks), B.shape[1]))
            for some in self._pieces(len(block)):
                total += block[some].astype(float).T @ own[some]
            return total, own

        return self._sum(part, B.shape[1])

    def _pieces(self, n_rows: int) -> list[slice]:
        """Return slices of so few rows that they stay in the cache."""
        size = max(16, CACHE_BYTES // (self.dtype.itemsize * len(self.landmarks)))
        return [slice(i, i + size) for i in range(0, n_rows, size)]

    def curvature(self, D: np.ndarray, A: np.ndarray) -> np.ndarray:
        """Return K' (D * (K A)) in one pass, in the precision of K."""
        A = A.astype(self.dtype)
        D = D.astype(self.dtype)
        A_landmarks, offset = A[: len(self.landmarks)], A[-1] if self.bias else 0.0

        def part(chunk: slice) -> tuple[np.ndarray, np.ndarray]:
            block, D_chunk = self._block(chunk), D[chunk]
            B = np.empty_like(D_chunk)
            total = np.zeros_like(A_landmarks)
            for some in self._pieces(len(block)):
                B[some] = D_chunk[some] * (block[some] @ A_landmarks + offset)
                total += block[some].T @ B[some]
            return total, B

        return self._sum(part, A.shape[1])

    def _sum(self, part: Callable[[slice], tuple], n_columns: int) -> np.ndarray:
        """Add K' B over chunks in double precision, with the row of the bias, from (K'B, B)."""
        out = np.zeros((self.width, n_columns))
        for product, B in self._map(part, self._chunks):
            out[: len(self.landmarks)] += product
            if self.bias:
                out[-1] += B.sum(axis=0, dtype=float)
        return out

    def pullback(self, left: np.ndarray, right: np.ndarray) -> Params:
        """Return sum_ij (left right')_ij dK_ij/dtheta for each hyperparameter of the kernel."""
        if not self.kernel.hyperparameters:
            return {}
        # columns of both factors scaled to one, so that single precision does not overflow
        units = np.abs(left).max(axis=0), np.abs(right).max(axis=0)
        unit = float((units[0] * units[1]).max()) or 1.0
        left = left / np.where(units[0] > 0, units[0], 1.0)
        right = right * (np.where(units[0] > 0, units[0], 1.0) / unit)
        left, right = left.astype(self.dtype), right.astype(self.dtype).T

        def part(chunk: slice) -> Params:
            points, M = self.points.take(chunk), left[chunk] @ right
            return self.kernel.pullback(points, self.landmarks, self._block(chunk), M, self.params)

        parts = self._map(part, self._chunks)
        return {name: unit * sum(p[name] for p in parts) for name in self.kernel.hyperparameters}


class SmoothDual:
    """The dual's data of several machines, one column each, with corners rounded over a width."""

    def __init__(self, dual: Dual, width: float):
        self.dual, self.width = dual, width
        with np.errstate(divide="ignore"):
            mu = width / (dual.upper - dual.lower)
            self.stiffness = 1.0 / (dual.ridge + mu)

    def beta(self, outputs: np.ndarray) -> np.ndarray:
        """Return minus the slope of the loss, the dual coefficients."""
        r, dual = self.dual.target - outputs, self.dual
        soft = np.sign(r) * np.maximum(np.abs(r) - dual.kink, 0.0)
        return np.clip(self.stiffness * soft, dual.lower, dual.upper)

    def curvature(self, outputs: np.ndarray, beta: np.ndarray) -> np.ndarray:
        """Return the second derivative of the loss: the stiffness where beta is free."""
        dual = self.dual
        free = (dual.lower < beta) & (beta < dual.upper)
        free &= np.abs(dual.target - outputs) >= dual.kink
        return np.where(free, self.stiffness, 0.0)

    def mean_curvature(self, outputs: np.ndarray, reach: np.ndarray) -> np.ndarray:
        """Return the second derivative averaged over outputs up to `reach` away.

        Far from the solution hardly a row is on a corner that many rows will pass; with the
        curvature at a point steps would be far too long.
        """
        return (self.beta(outputs - reach) - self.beta(outputs + reach)) / (2.0 * reach)

    def cotangent(self, outputs: np.ndarray, beta: np.ndarray, q: np.ndarray) -> Dual:
        """Pull a cotangent on beta, at fixed outputs, back to the dual's data."""
        dual = self.dual
        on_target = self.curvature(outputs, beta) * q
        on_ridge = -beta * on_target
        inside = (dual.lower < dual.upper) & np.isfinite(dual.upper - dual.lower)
        span = np.where(inside, dual.upper - dual.lower, 1.0)
        on_span = np.where(inside, -on_ridge * self.width / span**2, 0.0)
        return Dual(
            target=on_target,
            lower=np.where(inside & (beta <= dual.lower), q, 0.0) - on_span,
            upper=np.where(inside & (beta >= dual.upper), q, 0.0) + on_span,
            kink=-np.sign(dual.target - outputs) * on_target,
            ridge=on_ridge,
        )


class NewtonSystem:
    """H = Q + K' D K for each machine, solved by preconditioned conjugate gradients.

    Only the rows where some machine has curvature are touched.  The preconditioner is the same
    matrix from a sample of these rows, its curvature averaged over the machines: folds share most
    of their rows, so one factorisation serves all of them.  Where factorising is cheap, every
    machine has its own.
    """

    def __init__(
        self,
        features: Features,
        D: np.ndarray,
        Q: np.ndarray,
        store: RowStore,
        memory: float,
        old: NewtonSystem | None = None,
    ):
        self.Q = Q
        zone = np.flatnonzero(D.any(axis=1))
        self.D = D[zone]
        self.zone = features.select(zone, store, memory).fill()
        self.steps = self.first_steps = 0
        self._lanes: list[slice]  # the machines that share a factor
        self._factors: list[np.ndarray]
        if old is not None and old.shared and old.steps <= old.first_steps + STALE:
            self._lanes, self._factors, self.first_steps = old._lanes, old._factors, old.first_steps
        else:
            self._factorise()

    @property
    def shared(self) -> bool:
        return len(self._factors) < self.D.shape[1]

    def _factorise(self) -> None:
        n_machines = self.D.shape[1]
        most = int(np.clip(len(self.zone) // 4, *np.multiply(SAMPLE, len(self.Q))))
        rows = np.arange(len(self.zone))
        if len(rows) > most:
            rows = np.sort(np.random.default_rng(0).choice(rows, most, replace=False))
        weight = self.D[rows] * (len(self.zone) / max(1, len(rows)))
        self._lanes = [slice(k, k + 1) for k in range(n_machines)]
        if n_machines * len(rows) * float(len(self.Q)) ** 2 > DIRECT:
            self._lanes = [slice(0, n_machines)]
        self._factors = [self._factor(rows, weight[:, lane].mean(axis=1)) for lane in self._lanes]

    def _factor(self, rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Return the Cholesky factor of Q + K' diag(weight) K over these rows of the zone."""
        rows, weight = rows[weight > 0], np.sqrt(weight[weight > 0])
        zone, size = self.zone, 2048

        def part(chunk: np.ndarray) -> np.ndarray:
            total = np.zeros((len(self.Q), len(self.Q)), order="F")
            for start in range(0, len(chunk), size):
                some = chunk[start : start + size]
                K = zone.dense(rows[some])
                K *= weight[some, None]
                total = dsyrk(1.0, K.T, beta=1.0, c=total, lower=True, overwrite_c=True)
            return total

        n_parts = zone.workers.count if len(rows) > size else 1
        chunks = [c for c in np.array_split(np.arange(len(rows)), n_parts) if len(c)]
        total = np.array(self.Q, order="F")
        for product in zone._map(part, chunks):
            total += product
        return _cholesky(total)

    def precondition(self, R: np.ndarray) -> np.ndarray:
        parts = [
            cho_solve((factor, True), R[:, lane], check_finite=False)
            for factor, lane in zip(self._factors, self._lanes, strict=True)
        ]
        return np.hstack(parts)

    def apply(self, A: np.ndarray) -> np.ndarray:
        return self.Q @ A + self.zone.curvature(self.D, A)

    def solve(self, B: np.ndarray, rtol: float) -> np.ndarray:
        """Return H^-1 B, column by column, to an accuracy relative in the norm of H."""
        X, R = np.zeros_like(B), B.copy()
        Z = self.precondition(R)
        P, rz = Z.copy(), _dots(R, Z)
        enough = rtol**2 * rz
        for step in range(1, MOST_CG + 1):
            self.steps = step
            HP = self.apply(P)
            going = rz > enough
            length = np.where(going, rz / np.where(going, _dots(P, HP), 1.0), 0.0)
            X += length * P
            R -= length * HP
            Z = self.precondition(R)
            new = np.where(going, _dots(R, Z), rz)
            P = Z + np.where(going, new / np.where(going, rz, 1.0), 0.0) * P
            rz = new
            if (rz <= enough).all():
                break
        self.first_steps = self.first_steps or self.steps
        return X


class Newton:
    """Machines on the same landmarks, trained side by side; one column each.

    `store` and `memory` are for copies of the rows that have curvature.
    """

    def __init__(
        self, features: Features, Q: np.ndarray, dual: SmoothDual, store: RowStore, memory: float
    ):
        self.features, self.Q, self.dual = features, Q, dual
        self.store, self.memory = store, memory
        self.outputs = np.zeros_like(dual.dual.target)
        self.coefficients = np.zeros((features.width, self.outputs.shape[1]))
        self.converged = False
        self._system: NewtonSystem | None = None

    def run(self, start: np.ndarray | None, near: float, tol: float, most: int) -> None:
        """Train until steps move the outputs by `tol` at most, in the root of the mean square.

        `start` are outputs of machines that were trained before, at other hyperparameters or on
        fewer rows, and `near` says how far off they may be; `most` is the most steps.
        """
        scale = float(np.abs(self.dual.dual.target).max())
        # less than this cannot be told from rounding
        tol = max(tol, np.sqrt(np.finfo(self.features.dtype).eps) * scale)
        reach, last = np.full(self.outputs.shape[1], 2.0 * scale), 0.0
        try:
            self.features.fill()
            if start is not None:
                reach = self._restart(start, near)
            for _ in range(most):
                full, reach = self._step(reach)
                # steps shrink ever faster, so the next one would be shorter by about this ratio
                ratio = max(0.1, full / last) if full < last else 1.0
                self.converged = full * ratio <= tol
                if self.converged:
                    break
                last = full
        except OutOfTime:
            pass

    def system(self, D: np.ndarray) -> NewtonSystem:
        """Return the system of the curvature D, with the latest preconditioner if that will do."""
        self._system = NewtonSystem(self.features, D, self.Q, self.store, self.memory, self._system)
        return self._system

    def _restart(self, start: np.ndarray, near: float) -> np.ndarray:
        """Take a step of Newton's method from outputs of other machines; return how far they move.

        A step depends on the outputs only.  Coefficients would be of little use when the kernel has
        changed: they are large and cancel each other.
        """
        D = self._curvature(start, np.full(start.shape[1], near))
        rhs = self.features.transposed(self.dual.beta(start) + D * start)
        self.coefficients = self.system(D).solve(rhs, RESTART)
        self.outputs = self.features.times(self.coefficients)
        return rms(self.outputs - start)

    def _curvature(self, outputs: np.ndarray, reach: np.ndarray) -> np.ndarray:
        """Return the curvature for steps that are expected to move the outputs by `reach`."""
        D = self.dual.curvature(outputs, self.dual.beta(outputs))
        if (far := reach > 0.25 * self.dual.width).any():
            D[:, far] = self.dual.mean_curvature(outputs, BLUR * reach)[:, far]
        return D

    def _step(self, reach: np.ndarray) -> tuple[float, np.ndarray]:
        """Take one step; return how far it would move the outputs in full.

        `reach` is how far they are expected to move; a new expectation is returned.
        """
        features, Q, dual, outputs = self.features, self.Q, self.dual, self.outputs
        beta, QA = dual.beta(outputs), Q @ self.coefficients
        gradient = QA - features.transposed(beta)
        D = self._curvature(outputs, reach)
        finest = 0.3 * FORCING if features.dtype == np.float32 else 1e-10
        accuracy = min(FORCING, max(float(reach.max()), finest))
        step = -self.system(D).solve(gradient, accuracy)
        moved = features.times(step)
        linear, square = _dots(QA, step), _dots(step, Q @ step)

        def slope(t: np.ndarray) -> np.ndarray:
            return linear + t * square - _dots(dual.beta(outputs + t * moved), moved)

        t = line_search(slope, _dots(gradient, step))
        self.coefficients = self.coefficients + t * step
        self.outputs = outputs + t * moved
        # a step that was cut short was meant to be longer: curvature then comes from further away
        size = rms(moved)
        return float(size.max()), np.sqrt(t) * size


def rms(A: np.ndarray) -> np.ndarray:
    """Return the root of the mean square of each column."""
    return np.sqrt((A**2).mean(axis=0))


def line_search(
    slope: Callable[[np.ndarray], np.ndarray], start: np.ndarray, enough: float = 0.1
) -> np.ndarray:
    """Return lengths at which the slopes of convex functions are small; all of them at a time."""
    low, high = np.zeros_like(start), np.full_like(start, np.inf)
    at_low, at_high = start.copy(), np.zeros_like(start)
    t, found = np.ones_like(start), start >= 0.0
    t[found] = 0.0
    for _ in range(30):
        value = slope(t)
        found |= np.abs(value) <= enough * np.abs(start)
        if found.all():
            break
        short = value < 0.0
        # Illinois: an end that stays is taken at half its slope, so that it does not stay for ever
        at_high = np.where(short, 0.5 * at_high, value)
        at_low = np.where(short, value, 0.5 * at_low)
        low, high = np.where(short, t, low), np.where(short, high, t)
        with np.errstate(invalid="ignore"):
            between = low + (high - low) * at_low / (at_low - at_high)
        t = np.where(found, t, np.where(np.isinf(high), 2.0 * t, between))
    return t


def _cholesky(A: np.ndarray) -> np.ndarray:
    """Return the lower factor of A, which is overwritten."""
    factor, failed = dpotrf(A, lower=True, overwrite_a=True, clean=False)
    if failed:
        raise FloatingPointError("the kernel is not positive definite; landmarks need one that is.")
    return factor


def _dots(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->j", A, B)
