"""Newton's method for machines that are expansions on landmarks; see `landmarks` for the formulas.

Machines that share most of their landmarks, one per fold and column, are trained side by side:
their coefficients are the columns of one matrix, so that a pass over the data serves all of them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_solve
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf

from ..._core.budget import Budget, OutOfTime
from ..._core.spread import OUTLYING
from ...losses.base import Dual
from ..conjugate import conjugate_gradients, dots
from .features import ROWS_PER_LANDMARK, Features

DIRECT = 2e10  # operations up to which every machine has a preconditioner of its own
PASS = 2.0  # cost of an operation in a pass over the rows, in units of one in a factorisation
FORCING = 0.1  # accuracy of a step; finer when steps are small, to converge fast in the end
RESTART = 1e-2  # accuracy of the first step of a warm start, which is not a small correction
BLUR = 2.0  # width over which curvature is averaged, in units of the last step
FARTHEST = 0.5  # the largest step that counts for it, in units of the targets
DAMPING = 0.05  # least curvature of all rows at first, in units of the stiffness
MOST_NEWTON = 100


class SmoothDual:
    """The dual's data of several machines, one column each, with corners rounded over a width.

    `LaneLoss` has one dual for all lanes, which differ in weights only; here targets differ, too.
    """

    def __init__(self, dual: Dual, width: np.ndarray):
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
    of their rows, so one matrix serves all of them.  Where factorising is cheap, every machine has
    its own.  `own` tells which coefficients a machine has; the others are zero.
    """

    def __init__(
        self,
        features: Features,
        D: np.ndarray,
        Q: np.ndarray,
        own: np.ndarray,
        old: NewtonSystem | None = None,
    ):
        self.features, self.Q, self.own = features, Q, own
        self.zone = np.flatnonzero(D.any(axis=1))
        self.D = D[self.zone]
        # steps for each factor e that the residual shrinks by: with a new preconditioner, and now
        self.first_rate = self.rate = 0.0
        self._lanes: list[np.ndarray]  # the machines that share a factor
        self._factors: list[np.ndarray]
        self._direct: bool  # whether every machine has its own
        if old is not None and not self._worn(old):
            self._lanes, self._factors, self.first_rate = old._lanes, old._factors, old.first_rate
            self._direct = old._direct
        else:
            self._factorise()

    def _worn(self, old: NewtonSystem) -> bool:
        """Return whether the steps that a new preconditioner would save are worth its price."""
        if old._direct:
            return True  # of each machine's own curvature, and cheap
        saved = 3.0 * (old.rate - old.first_rate)
        price = self._sample_size() * float(len(self.Q)) ** 2
        return PASS * saved * 4.0 * self.D.size * len(self.Q) > price

    def _sample_size(self) -> int:
        return int(np.clip(len(self.zone) // 4, *np.multiply(ROWS_PER_LANDMARK, len(self.Q))))

    def _factorise(self) -> None:
        n_machines = self.D.shape[1]
        most, rows = self._sample_size(), np.arange(len(self.zone))
        if len(rows) > most:
            rows = np.sort(np.random.default_rng(0).choice(rows, most, replace=False))
        weight = self.D[rows] * (len(self.zone) / max(1, len(rows)))
        self._direct = n_machines * len(rows) * float(len(self.Q)) ** 2 <= DIRECT
        if self._direct:
            self._lanes = [np.array([k]) for k in range(n_machines)]
            matrices = (self._matrix(rows, weight[:, k]) for k in range(n_machines))
        else:
            kinds, of = np.unique(self.own, axis=1, return_inverse=True)
            self._lanes = [np.flatnonzero(of.ravel() == k) for k in range(kinds.shape[1])]
            shared = self._matrix(rows, weight.mean(axis=1))
            matrices = (shared.copy(order="F") for _ in self._lanes)
        self._factors = [
            _cholesky(_on(self.own[:, lane[0]], matrix))
            for lane, matrix in zip(self._lanes, matrices, strict=True)
        ]

    def _matrix(self, rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Return the lower triangle of Q + K' diag(weight) K over these rows of the zone."""
        rows, weight = self.zone[rows[weight > 0]], np.sqrt(weight[weight > 0])
        features, size = self.features, 2048

        def part(chunk: np.ndarray) -> np.ndarray:
            total = np.zeros((len(self.Q), len(self.Q)), order="F")
            for start in range(0, len(chunk), size):
                some = chunk[start : start + size]
                K = features.dense(rows[some])
                K *= weight[some, None]
                total = dsyrk(1.0, K.T, beta=1.0, c=total, lower=True, overwrite_c=True)
            return total

        n_parts = features.workers.count if len(rows) > size else 1
        chunks = [c for c in np.array_split(np.arange(len(rows)), n_parts) if len(c)]
        total = np.array(self.Q, order="F")
        for product in features._map(part, chunks):
            total += product
        return total

    def precondition(self, R: np.ndarray) -> np.ndarray:
        Z = np.empty_like(R)
        for factor, lane in zip(self._factors, self._lanes, strict=True):
            Z[:, lane] = cho_solve((factor, True), R[:, lane], check_finite=False)
        return Z

    def apply(self, A: np.ndarray, on: np.ndarray) -> np.ndarray:
        return self.own * (self.Q @ A + self.features.curvature(self.zone, self.D, A))

    def solve(self, B: np.ndarray, rtol: float) -> np.ndarray:
        """Return H^-1 B, column by column, to an accuracy relative in the norm of H."""
        X, steps = conjugate_gradients(
            self.apply, self.precondition, self.own * B,
            lambda first: lambda S, residual, left, count: left > rtol**2 * first,
            np.ones(B.shape[1], dtype=bool), Budget(),
        )  # fmt: skip
        self.rate = max(1, steps) / -np.log(rtol)
        self.first_rate = self.first_rate or self.rate
        return X


class Newton:
    """Machines on landmarks, trained side by side; one column each.

    `own` are the coefficients that each of them has: a row of it per coefficient.
    """

    def __init__(
        self,
        features: Features,
        Q: np.ndarray,
        dual: SmoothDual,
        unit: np.ndarray,
        own: np.ndarray,
    ):
        self.features, self.Q, self.dual, self.own = features, Q, dual, own
        self.unit = unit  # of the targets of each machine
        # how far outputs may have to go; a few targets may be much farther away
        used = dual.dual.lower < dual.dual.upper
        largest = np.abs(dual.dual.target).max(axis=0, initial=0.0, where=used)
        self.scale = np.minimum(largest, OUTLYING * unit)
        self.outputs = np.zeros_like(dual.dual.target)
        self.coefficients = np.zeros((features.width, self.outputs.shape[1]))
        self.converged = False
        self._damping = np.full(self.outputs.shape[1], DAMPING)
        self._system: NewtonSystem | None = None

    def run(self, start: np.ndarray | None, near: np.ndarray, tol: float, most: int) -> None:
        """Train until steps move the outputs by `tol` at most, in units of the targets.

        What counts is the root of the mean square, weighted by the curvature.

        `start` are outputs of machines that were trained before, at other hyperparameters or on
        fewer rows, and `near` says how far off they may be; `most` is the most steps.
        """
        # less than this cannot be told from rounding
        rounding = np.sqrt(np.finfo(self.features.dtype).eps)
        goal = np.maximum(tol, rounding * self.scale / self.unit)
        reach, last = 2.0 * self.scale, np.zeros(len(goal))
        try:
            self.features.fill()
            if start is not None:
                reach = self._restart(start, near)
            for _ in range(most):
                full, reach = self._step(reach)
                # steps shrink ever faster, so the next one would be shorter by about this ratio
                shrinks = full < last
                ratio = np.where(shrinks, np.maximum(0.1, full / np.where(shrinks, last, 1.0)), 1.0)
                self.converged = bool((full * ratio <= goal).all())
                if self.converged:
                    break
                last = full
        except OutOfTime:
            pass

    def system(self, D: np.ndarray, renew: bool = False) -> NewtonSystem:
        """Return the system of the curvature D, with the latest preconditioner if that will do."""
        old = None if renew else self._system
        self._system = NewtonSystem(self.features, D, self.Q, self.own, old)
        return self._system

    def _restart(self, start: np.ndarray, near: np.ndarray) -> np.ndarray:
        """Take a step of Newton's method from outputs of other machines; return how far they move.

        A step depends on the outputs only.  Coefficients would be of little use when the kernel has
        changed: they are large and cancel each other.
        """
        self._damping *= near / self.dual.width
        D = self._curvature(start, near)
        rhs = self.features.transposed(self.dual.beta(start) + D * start)
        self.coefficients = self.system(D).solve(rhs, RESTART)
        self.outputs = self.features.times(self.coefficients)
        return rms(self.outputs - start)

    def _curvature(self, outputs: np.ndarray, reach: np.ndarray) -> np.ndarray:
        """Return the curvature for steps that are expected to move the outputs by `reach`.

        Rows beyond the margin have none, and far from the solution a step may throw their outputs
        anywhere; so there all rows get some, the damping.
        """
        dual = self.dual
        D = dual.curvature(outputs, dual.beta(outputs))
        if (far := reach > 0.25 * dual.width).any():
            step = np.minimum(reach, FARTHEST * self.scale)
            D[:, far] = dual.mean_curvature(outputs, BLUR * step)[:, far]
        if (damped := self._damping > 0.0).any():
            D[:, damped] = np.maximum(D, self._damping * dual.stiffness)[:, damped]
        return D

    def _step(self, reach: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Take one step; return how far it would move the outputs in full, in units of the targets.

        `reach` is how far they are expected to move; a new expectation is returned.
        """
        features, Q, dual, outputs = self.features, self.Q, self.dual, self.outputs
        beta, QA = dual.beta(outputs), Q @ self.coefficients
        gradient = QA - features.transposed(beta)
        D = self._curvature(outputs, reach)
        finest = 0.3 * FORCING if features.dtype == np.float32 else 1e-10
        accuracy = min(FORCING, max(float((reach / self.unit).max()), finest))
        step = -self.system(D).solve(gradient, accuracy)
        moved = features.times(step)
        linear, square = dots(QA, step), dots(step, Q @ step)

        def slope(t: np.ndarray) -> np.ndarray:
            return linear + t * square - dots(dual.beta(outputs + t * moved), moved)

        t = line_search(slope, dots(gradient, step))
        self.coefficients = self.coefficients + t * step
        self.outputs = outputs + t * moved
        # Levenberg's rule: a step that was cut short asks for more damping, a full one for less
        self._damping *= np.where(t < 0.5, 2.0, np.where(t > 0.8, 0.2, 1.0))
        self._damping[self._damping < 0.01 * DAMPING] = 0.0
        # how far the step moves outputs where there is curvature; elsewhere they may go anywhere
        curvature = np.maximum(D.sum(axis=0), dual.stiffness.max(axis=0))
        size = np.sqrt(np.maximum(-dots(gradient, step), 0.0) / curvature)
        return size / self.unit, np.sqrt(t) * size


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


def _on(own: np.ndarray, A: np.ndarray) -> np.ndarray:
    """Return A, overwritten, with the rows and columns of other coefficients those of 1."""
    others = np.flatnonzero(~own)
    A[others], A[:, others] = 0.0, 0.0
    A[others, others] = 1.0
    return A
