"""Machines with soft losses, the logistic and the smooth hinge loss, on dense kernel matrices."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from ...losses.base import Dual, softer
from .saddle import SaddleSystem

MOST_DOUBLINGS = 100  # of L in one step of FISTA


class SoftMachine:
    """One machine, trained by Newton's method on the outputs, on a dense block of the matrix.

    With  s = sigmoid((target - o) sign / soft)  the coefficients are  beta = bound s,  and their
    curvature by the outputs is  h = |bound| s (1 - s) / soft.  A step solves the linear system of a
    squared loss with ridge 1 / h and targets o + beta / h.
    """

    most_steps = rough_steps = 100

    def __init__(self, K: np.ndarray, dual: Dual):
        self.K, self.dual, self.soft = K, dual, dual.soft
        self.bound = dual.lower + dual.upper  # one of the two is zero
        self.beta, self.bias, self.outputs = np.zeros(len(K)), 0.0, np.zeros(len(K))
        self.least = 0.01  # curvature of flat parts

    def stages(self) -> list[float]:
        """Return softnesses to train with, one after the other."""
        return softer(self.soft)

    def _short(self, outputs: np.ndarray) -> np.ndarray:
        return np.sign(self.bound) * (self.dual.target - outputs) / self.soft

    def curvature(self, least: float = 1e-12) -> tuple[np.ndarray, np.ndarray]:
        """Return the coefficients that belong to the outputs, and h.

        Flat parts are given a little curvature, so that its inverse is finite.
        """
        s = expit(self._short(self.outputs))
        return self.bound * s, np.abs(self.bound) * np.maximum(s * (1 - s), least) / self.soft

    def settled(self) -> np.ndarray:
        """Return the coefficients; those without curvature are at the bound that they are near."""
        s = expit(self._short(self.outputs))
        return np.where(s * (1.0 - s) < 1e-9, self.bound * np.round(s), self.beta)

    def _losses(self, outputs: np.ndarray) -> float:
        return float(np.abs(self.bound) @ np.logaddexp(0.0, self._short(outputs))) * self.soft

    def _objective(self, beta: np.ndarray, bias: float, outputs: np.ndarray) -> float:
        return 0.5 * float(beta @ (outputs - bias)) + self._losses(outputs)

    def step(self) -> float:
        """Take a step; return how far it would move the outputs in full.

        Far from the solution most rows are on flat parts, and are given more curvature.
        """
        phi, h = self.curvature(self.least)
        new, bias = SaddleSystem(self.K, 1.0 / h, True).solve(self.outputs + phi / h, 0.0)
        outputs = self.K @ new + bias
        full = float(np.abs(outputs - self.outputs).max())
        here, there = (self.beta, self.bias, self.outputs), (new, bias, outputs)
        value = self._objective(*here)
        for t in 0.5 ** np.arange(20):
            point = [(1.0 - t) * a + t * b for a, b in zip(here, there, strict=True)]
            if self._objective(*point) <= value * (1.0 + 1e-12):
                self.beta, self.bias, self.outputs = point[0], float(point[1]), point[2]
                break
        else:
            t = 0.0
        self.least = max(1e-12, 0.01 * self.least) if t == 1.0 else min(0.1, 10.0 * self.least)
        return full


class FistaMachine(SoftMachine):
    """One machine, trained by FISTA as in Klatzer and Pock: eq. (13) with C = 1 / c, and a bias.

    As for linear machines, the losses have the gradient step and the penalty shrinks it; but steps
    are taken in the norm of the functions, |f|^2 = beta' K beta.  There they need no more than a
    product with K, and the condition is that of K; in the coefficients, as in the paper, it would
    be that of its square.
    """

    most_steps, rough_steps = 20_000, 200

    def __init__(self, K: np.ndarray, dual: Dual):
        super().__init__(K, dual)
        self.ahead = self.beta, self.bias, self.outputs
        self.t, self.smooth = 1.0, 1.0

    def stages(self) -> list[float]:
        return [self.soft]

    def settled(self) -> np.ndarray:
        """Return the coefficients; with a bias they add up to zero."""
        return self.beta - self.beta.mean()

    def _coefficients(self, outputs: np.ndarray) -> np.ndarray:
        return self.bound * expit(self._short(outputs))

    def step(self) -> float:
        """Take a step; return how far the function at most was from the best one, relative to it.

        With the penalty no function is further away than its gradient is long, and twice the
        objective bounds the square of the best one's length.
        """
        (beta, bias, outputs), here = self.ahead, (self.beta, self.bias, self.outputs)
        phi = self._coefficients(outputs)
        self._shrink(beta, bias, outputs, phi)
        moved = self.outputs - outputs - (self.bias - bias)
        square = (self.smooth + 1.0) ** 2 * float((self.beta - beta) @ moved)
        turned = -moved @ (self.beta - here[0]) - (self.bias - bias) * (self.bias - here[1])
        t = 1.0 if turned > 0 else 0.5 + np.sqrt(0.25 + self.t**2)
        momentum = 0.0 if turned > 0 else (self.t - 1.0) / t
        self.ahead = (
            self.beta + momentum * (self.beta - here[0]),
            self.bias + momentum * (self.bias - here[1]),
            self.outputs + momentum * (self.outputs - here[2]),
        )
        self.t = t
        length = max(square, 0.0) + float(phi.sum()) ** 2
        return float(np.sqrt(length / (2.0 * self._objective(self.beta, self.bias, self.outputs))))

    def _shrink(self, beta: np.ndarray, bias: float, outputs: np.ndarray, phi: np.ndarray) -> None:
        """Go from a point along the gradient of the losses, and shrink; double L if need be."""
        losses = self._losses(outputs)
        for _ in range(MOST_DOUBLINGS):
            self.beta = (self.smooth * beta + phi) / (self.smooth + 1.0)
            self.bias = bias + float(phi.sum()) / self.smooth
            self.outputs = self.K @ self.beta + self.bias
            step, lift = self.outputs - outputs, self.bias - bias
            rise = 0.5 * self.smooth * float((self.beta - beta) @ (step - lift) + lift**2)
            below = self._losses(self.outputs) <= losses - phi @ step + rise
            if below or (phi - self._coefficients(self.outputs)) @ step <= rise:
                return
            self.smooth *= 2.0
