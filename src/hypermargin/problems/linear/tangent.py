"""Linear machines at weights that need not be trained, and how their gradients move from there.

A machine minimises  1/2 w' R w + sum_i loss_i(x_i' w).  Its gradient  r = R w - X' A,  A being the
coefficients of the rows, moves with weights and hyperparameters like

    r + H dw + B dgamma,    H = R + X' D X,    B = -X' dA/dgamma,

D being the curvatures of the rows: what is squared in eq. (45) of Moore et al.  Costs multiply the
loss of a row, so that dA/dc = A / c; a tube, or a margin, moves its corner.

At a corner of the slope any share p of the curvature beyond it will do, 0 <= p <= 1, the same in H
and in B: see `Corners`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._core.budget import Budget
from ..._core.space import Params
from ...losses.base import COSTS
from .part import Job, Part

ON_CORNER = 1e-9  # rows that near a corner are on it, relative to the largest target

Coordinate = tuple[str, int | None]  # a hyperparameter, and which entry of an array it is
Machines = dict[Job, np.ndarray]  # weights by machine, the bias last


@dataclass(frozen=True)
class Corners:
    """Rows on a corner of their loss's slope: with the shares p, H has  X' diag(steep p) X  more.

    So B has  X' (steep p * moves)  more.
    """

    X: np.ndarray  # (corners, weights)
    steep: np.ndarray
    moves: np.ndarray  # (corners, coordinates)

    def __len__(self) -> int:
        return len(self.steep)


@dataclass(frozen=True)
class Tangent:
    """The gradient of a machine and its derivatives by weights and by hyperparameters."""

    gradient: np.ndarray
    by_weights: np.ndarray
    by_hyperparameters: np.ndarray
    corners: Corners

    def with_shares(self, p: np.ndarray) -> Tangent:
        """Return the tangent with other shares of the rows at corners than none."""
        if not len(p):
            return self
        X, bent = self.corners.X, self.corners.steep * p
        H = self.by_weights + X.T @ (bent[:, None] * X)
        B = self.by_hyperparameters + X.T @ (bent[:, None] * self.corners.moves)
        return Tangent(self.gradient, H, B, self.corners)


class Untrained:
    """All machines of the folds of a LinearCrossValidation, at any weights.

    Weights are those that machines start from: see `part.Start`.
    """

    def __init__(self, problem: Any, coordinates: Sequence[Coordinate]):
        self.problem, self.coordinates = problem, coordinates

    def _parts(self, params: Params) -> list[Part]:
        problem = self.problem
        return [
            part
            for number, design in enumerate(problem.designs)
            for part in problem._parts(number, list(design.folds), params, Budget())
        ]

    def at(self, params: Params, weights: Machines) -> Place:
        """Return outputs and gradients at a point."""
        parts = self._parts(params)
        for part in parts:
            bundle = part.bundle
            W = np.zeros_like(bundle.W)
            for lane, job in enumerate(part.jobs):
                W[:, lane] = weights[job]
            bundle.start(W)
            bundle.matrix.times(bundle.W, bundle.Z)
            bundle.slopes(bundle.Z)
        return Place(parts, self.coordinates, params)

    def reach(self, params: Params) -> dict[Job, float]:
        """Return the lengths of gradients where nothing is learnt."""
        found: dict[Job, float] = {}
        for part in self._parts(params):
            lengths = part.bundle.reach()[0]
            found |= {job: float(lengths[k]) for k, job in enumerate(part.jobs)}
        return found


class Place:
    """Machines at some weights: outputs, gradients and, if they are asked for, tangents."""

    def __init__(self, parts: Sequence[Part], coordinates: Sequence[Coordinate], params: Params):
        self.parts, self.coordinates, self.params = parts, coordinates, params
        self.home = {job: part for part in parts for job in part.jobs}
        self.gradients: Machines = {}
        for part in parts:
            G = part.bundle.gradient()
            self.gradients |= {job: G[:, k] for k, job in enumerate(part.jobs)}

    def outputs(self, n_columns: int) -> list[np.ndarray]:
        """Return outputs of the rows that folds leave out."""
        tests = {f: part.test[f] for part in self.parts for f in part.test}
        found = []
        for f in range(len(tests)):
            of_fold = np.zeros((len(tests[f]), n_columns))
            for c in range(n_columns):
                if (f, c) in self.home:
                    of_fold[:, c] = self.home[f, c].outputs((f, c), tests[f])
            found.append(of_fold)
        return found

    def left_out(self, job: Job) -> np.ndarray:
        """Return the rows that a machine's fold leaves out, the constant included."""
        part = self.home[job]
        return part.matrix.full[part._places(part.test[job[0]])]

    def tangents(self) -> dict[Job, Tangent]:
        """Return how the gradients of all machines move."""
        found = {}
        for part in self.parts:
            shifts = [_shift(part, name, entry) for name, entry in self.coordinates]
            for lane, job in enumerate(part.jobs):
                found[job] = self._tangent(part, lane, shifts)
        return found

    def _tangent(self, part: Part, lane: int, shifts: list[Shift]) -> Tangent:
        bundle, dual, X = part.bundle, part.bundle.loss.dual, part.matrix.full
        A, D = bundle.A[:, lane], bundle.D[:, lane].copy()
        e, weight = dual.target - bundle.Z[:, lane], bundle.loss.weight[:, lane]
        on = _on_corner(e, weight, dual)
        D[on] = 0.0
        moved = np.array([shift.of(A, D, e, bool(dual.soft)) for shift in shifts]).T
        bent = np.flatnonzero(D)
        Y = X[bent]
        Y *= np.sqrt(D[bent])[:, None]
        H = Y.T @ Y  # the same matrix twice costs half
        H[np.diag_indices_from(H)] += bundle.penalty[:, 0]
        steep = weight[on] * bundle.loss.stiffness[on]
        moves = np.zeros((len(on), len(shifts)))
        if len(on):
            moves = np.array([-shift.corner(e)[on] for shift in shifts]).T
        corners = Corners(X[on], steep, moves)
        return Tangent(self.gradients[part.jobs[lane]], H, -(X.T @ moved), corners)


@dataclass(frozen=True)
class Shift:
    """How coefficients move with one hyperparameter, at fixed outputs.

    `cost` is what the logarithm of a row's cost moves by, `kink` and `target` what those do.
    """

    cost: np.ndarray | float
    kink: np.ndarray | float
    target: np.ndarray | float
    at_bound: np.ndarray | float  # what a coefficient at its bound moves by, relative to it

    def of(self, A: np.ndarray, D: np.ndarray, e: np.ndarray, soft: bool) -> np.ndarray:
        """Return derivatives of the coefficients."""
        moved = A * self.cost
        if np.ndim(self.kink) or np.ndim(self.target):  # else none of the corners moves
            moved = moved + D * self.corner(e)
        if soft or np.ndim(self.at_bound) == 0:
            return moved
        return moved + np.where(D == 0, A * self.at_bound, 0.0)

    def corner(self, e: np.ndarray) -> np.ndarray:
        """Return how far the residual beyond the corner moves."""
        return np.broadcast_to(self.target - np.sign(e) * self.kink, e.shape)


def _shift(part: Part, name: str, entry: int | None) -> Shift:
    """Return how rows move with a hyperparameter, or an entry of one."""
    loss, rows, value = part.problem.loss, part.of_loss, part.params[name]
    mask, at = np.ones(len(rows.y)), value
    if entry is not None:
        mask, at = (rows.parts[loss.by_part[name]] == entry).astype(float), value[entry]
    if name in ("C", "alpha", *COSTS):
        return Shift((-mask if name == "alpha" else mask) / at, 0.0, 0.0, 0.0)
    # tubes and margins are proportional to each hyperparameter
    unit = loss.dual(rows, {**part.params, name: np.ones_like(value) if entry is not None else 1.0})
    if name == "margin":
        return Shift(0.0, 0.0, mask * unit.target, mask / at)
    return Shift(0.0, mask * unit.kink, 0.0, 0.0)


def _on_corner(e: np.ndarray, weight: np.ndarray, dual: Any) -> np.ndarray:
    """Return which rows are on a corner of their slope."""
    if dual.soft:
        return np.zeros(0, dtype=int)
    near = ON_CORNER * float(np.abs(dual.target).max(initial=0.0))
    has_one = (weight > 0) & ((dual.kink > 0) | (dual.lower == 0) | (dual.upper == 0))
    return np.flatnonzero(has_one & (np.abs(np.abs(e) - dual.kink) <= near))
