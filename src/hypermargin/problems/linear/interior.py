"""Losses with corners, where many rows come near them: an interior-point method, a lane at a time.

A loss with corners is a sum of pieces  c max(0, m),  m = sign (corner - output),  one for every
corner of a row.  With s = max(0, -m) and x = max(0, m), pieces at the solution have coefficients
p between 0 and c with  p s = 0  and  (c - p) x = 0.  The method of Mehrotra keeps both products
positive and alike and makes them smaller: some 10 to 30 steps whatever the costs, where Newton's
method on rounded corners would try one set of rows after another.

Few pieces decide.  Others are far from their corner: their coefficients stay where they are, and
they come into play if the solution says that this was wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._core.budget import Budget
from ...losses.lanes import LaneLoss
from .bundle import Bundle
from .lanes import Matrix
from .systems import factored

SPARE = 4  # pieces in play at first, for each that may be at its corner in the end
FREE_PIECES = 200  # pieces that cost nothing
MOST_STEPS = 50  # far more than there should be
FIRST = 8  # steps that show whether most pieces that matter are in play
CLOSE = 0.99  # part of the way to a bound that a step may go
MOST_ENTRIES = 2**24  # of rows in play


@dataclass
class Found:
    """A machine: weights, outputs, coefficients, curvatures, and its gap relative to the primal."""

    w: np.ndarray
    outputs: np.ndarray
    b: np.ndarray
    curvature: np.ndarray
    gap: float


@dataclass
class Pieces:
    """Pieces of losses: row, sign of the coefficients, output at the corner, and cost."""

    row: np.ndarray
    sign: np.ndarray
    corner: np.ndarray
    cost: np.ndarray

    @classmethod
    def of(cls, loss: LaneLoss, lane: int) -> Pieces:
        low, high = (bound[:, lane].astype(float) for bound in loss.bounds())
        dual, parts = loss.dual, []
        for sign, cost in ((1.0, high), (-1.0, -low)):
            row = np.flatnonzero(cost > 0)
            corner = dual.target[row].astype(float) - sign * dual.kink[row]
            parts.append((row, np.full(len(row), sign), corner, cost[row]))
        return cls(*(np.concatenate(both) for both in zip(*parts)))

    def take(self, which: np.ndarray) -> Pieces:
        return Pieces(self.row[which], self.sign[which], self.corner[which], self.cost[which])

    def margins(self, outputs: np.ndarray) -> np.ndarray:
        """Return how far outputs of the rows are on the side that costs."""
        return self.sign * (self.corner - outputs)


def solve_inside(
    bundle: Bundle, loss: LaneLoss, lanes: np.ndarray, W: np.ndarray, tol: float, near: bool
) -> dict[int, Found]:
    """Return the machines of some lanes, found from weights W; not those that are too much work."""

    def run(lane: int) -> Found | None:
        machine = Interior(bundle.matrix, loss, lane, bundle.budget)
        return machine.solve(W[:, lane], tol, near)

    numbers = np.flatnonzero(lanes)
    machines = bundle.matrix.workers.map(run, numbers, bundle.budget)
    return {int(lane): found for lane, found in zip(numbers, machines) if found is not None}


class Interior:
    """One lane's machine, found from weights that are near it."""

    def __init__(self, matrix: Matrix, loss: LaneLoss, lane: int, budget: Budget):
        self.matrix, self.budget, self.n_rows = matrix, budget, len(loss.weight)
        self.pieces = Pieces.of(loss, lane)

    def solve(self, w: np.ndarray, tol: float, near: bool = False) -> Found | None:
        """Return the machine, trained to a gap of `tol`; None if that is too much work.

        It is if w was to be `near`, and more pieces were out of play wrongly than were in play.
        """
        pieces, w = self.pieces, w.astype(float)
        margins = pieces.margins(self._outputs(w)[pieces.row])
        number = min(max(SPARE * self.matrix.width, FREE_PIECES), len(margins))
        inside = np.zeros(len(margins), dtype=bool)
        inside[np.argpartition(np.abs(margins), number - 1)[:number]] = True
        high = margins > 0  # pieces out of play that have their cost as coefficient
        while np.count_nonzero(inside) * self.matrix.width <= MOST_ENTRIES:
            found = self._solve(w, inside, high, tol)
            if found.gap <= tol or self.budget.expired():
                return found
            w, margins = found.w, pieces.margins(found.outputs[pieces.row])
            wrong = ~inside & ((margins > 0) != high)
            if not wrong.any():
                return found
            if near and np.count_nonzero(wrong) > np.count_nonzero(inside):
                return None
            inside |= wrong
        return None

    def _outputs(self, w: np.ndarray) -> np.ndarray:
        return self.matrix.X @ w[:-1] + self.matrix.scale * w[-1]

    def _solve(self, w: np.ndarray, inside: np.ndarray, high: np.ndarray, tol: float) -> Found:
        """Find the machine for given coefficients of the pieces that are not in play."""
        pieces, b = self.pieces, np.zeros(self.n_rows)
        fixed = pieces.take(~inside & high)
        np.add.at(b, fixed.row, fixed.sign * fixed.cost)
        base = np.append(self.matrix.X.T @ b, self.matrix.scale * b.sum())
        gain = float(fixed.cost @ (fixed.sign * fixed.corner))
        play = pieces.take(inside)
        run = Steps(self.matrix.dense(play.row).astype(float), play, base, gain)
        run.start(w)
        for most in (FIRST, MOST_STEPS):  # with the wrong pieces in play steps would be many
            run.go(0.5 * tol, most, self.budget)
            outputs = self._outputs(run.w)
            margins = pieces.margins(outputs[pieces.row])
            wrong = ~inside & ((margins > 0) != high)
            if np.count_nonzero(wrong) > np.count_nonzero(inside):
                break
        np.add.at(b, play.row, play.sign * run.p)
        curvature = np.zeros(self.n_rows)
        np.add.at(curvature, play.row, run.curvature)
        # what pieces out of play cost if they are wrong
        primal = run.primal + float(pieces.cost[wrong] @ np.abs(margins[wrong]))
        gap = (primal - run.dual) / max(primal, 1e-300)
        return Found(run.w, outputs, b, curvature, gap)


class Steps:
    """Minimise  1/2 |w|^2 - base' w + gain + sum of c max(0, sign (corner - X w)).

    `base` and `gain` come from pieces that are not in play.
    """

    def __init__(self, X: np.ndarray, play: Pieces, base: np.ndarray, gain: float):
        self.X, self.play, self.base, self.gain = X * play.sign[:, None], play, base, gain
        self.at = play.sign * play.corner  # margins of outputs zero

    def go(self, tol: float, most: int, budget: Budget) -> None:
        """Make so many steps, or fewer if the gap is closed by then."""
        for _ in range(most):
            left = self._judge()
            if self.primal - self.dual <= tol * abs(self.primal) or budget.expired():
                break
            self._step(*left)

    def start(self, w: np.ndarray) -> None:
        c = self.play.cost
        margins = self.at - self.X @ w
        room = np.abs(margins).mean() or 1.0
        self.w = w
        self.x = np.maximum(margins, 0.0) + room
        self.s = self.x - margins
        self.p = c * self.x / (self.s + self.x)
        self.q = c - self.p

    def _judge(self) -> tuple[np.ndarray, np.ndarray]:
        """Set objectives and curvatures; return what is left of the two linear conditions."""
        c, w = self.play.cost, self.w
        margins, v = self.at - self.X @ w, self.base + self.X.T @ self.p
        self.primal = 0.5 * w @ w - self.base @ w + self.gain + c @ np.maximum(margins, 0.0)
        self.dual = self.gain + self.p @ self.at - 0.5 * v @ v
        self.curvature = 1.0 / (self.x / self.q + self.s / self.p)
        return v - w, margins - self.x + self.s

    def _step(self, of_w: np.ndarray, of_margins: np.ndarray) -> None:
        """Predict how far products can be brought down, then go there on the central path."""
        p, q, s, x = self.p, self.q, self.s, self.x
        weighed = self.X * np.sqrt(self.curvature)[:, None]
        H = weighed.T @ weighed
        inverse = factored(H, np.ones(len(H)))

        def along(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, ...]:
            r = self.curvature * (of_margins - high / q + low / p)
            dw = inverse(of_w + self.X.T @ r)
            dp = r - self.curvature * (self.X @ dw)
            return dw, dp, (low - s * dp) / p, (high + x * dp) / q

        _, dp, ds, dx = along(-p * s, -q * x)
        size = _longest((p, dp), (q, -dp), (s, ds), (x, dx))
        now = p @ s + q @ x
        then = (p + size * dp) @ (s + size * ds) + (q - size * dp) @ (x + size * dx)
        aim = (then / now) ** 3 * now / (2 * len(p))
        dw, dp, ds, dx = along(aim - p * s - dp * ds, aim - q * x + dp * dx)
        size = min(1.0, CLOSE * _longest((p, dp), (q, -dp), (s, ds), (x, dx)))
        self.w = self.w + size * dw
        self.p, self.q = p + size * dp, q - size * dp
        self.s, self.x = s + size * ds, x + size * dx


def _longest(*pairs: tuple[np.ndarray, np.ndarray]) -> float:
    """Return the longest step, up to one, with which all values stay positive."""
    longest = 1.0
    for value, change in pairs:
        down = change < 0
        longest = min(longest, float((-value[down] / change[down]).min(initial=1.0)))
    return longest
