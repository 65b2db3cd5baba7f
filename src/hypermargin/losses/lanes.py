"""Losses of linear machines in lanes: values, slopes and curvatures of all rows at once.

A loss is given by the dual of a row of weight one (see `losses`).  At the output o its slope is
minus the coefficient that is best there,

    b = clip(soft(target - o, kink) / ridge)   to   lower <= b <= upper,

its value  b (target - o) - kink |b| - ridge b^2 / 2,  and its curvature 1 / ridge where b is free.
Soft losses have a logistic curve in place of the corners.  A row's weight multiplies all three, and
differs from lane to lane: it is zero where the lane's fold leaves the row out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .._core.budget import cached
from .._core.compiled import compiled
from .base import FIELDS, Dual, softer

STEEP = 1e30  # stands for the infinite stiffness of a corner
AT_CORNER = 1e-12  # outputs that near are there, relative to what they are sums of


@compiled(fastmath={"contract", "nsz"})
def _slopes(Z, weight, target, lower, upper, kink, stiffness, steep, A, D, value, start, stop):
    for i in range(start, stop):
        t, low, high = target[i], lower[i], upper[i]
        k = kink[i]
        for lane in range(Z.shape[1]):
            e, h = t - Z[i, lane], stiffness[i] * steep[lane]
            # the part of the residual beyond the kink
            s = e - min(max(e, -k), k)
            u = s * h
            b = min(max(u, low), high)
            w = weight[i, lane]
            A[i, lane] = w * b
            # rows on the corner itself count as beyond it: they may be so after any step
            D[i, lane] = w * h if (b == u and abs(e) >= k) else Z.dtype.type(0)
            value[lane] += w * (b * (s - b / (2 * h)))


@compiled(fastmath={"contract", "nsz"})
def _soft_slopes(Z, weight, target, bound, soft, E, A, D, value, start, stop):
    """As `_slopes`; E holds exp(-|margin|)."""
    one = Z.dtype.type(1)
    for i in range(start, stop):
        sign = one if bound[i] > 0 else -one
        c = abs(bound[i])
        for lane in range(Z.shape[1]):
            m = sign * (target[i] - Z[i, lane]) / soft
            e = E[i, lane]
            r = one / (one + e)
            p = r if m > 0 else e * r
            w = weight[i, lane] * c
            A[i, lane] = w * sign * p
            D[i, lane] = w * e * r * r / soft
            value[lane] += w * soft * (max(m, Z.dtype.type(0)) - np.log(r))


@compiled
def _cotangents(Z, Q, weight, target, lower, upper, kink, stiffness, steep, out):
    """Add sum over lanes of weight * Q times the derivatives of b by the dual's data to out."""
    for i in range(Z.shape[0]):
        for lane in range(Z.shape[1]):
            q = weight[i, lane] * Q[i, lane]
            if q == 0:
                continue
            e = target[i] - Z[i, lane]
            s = e - min(max(e, -kink[i]), kink[i])
            u = s * stiffness[i] * steep[lane]
            if u < lower[i]:
                out[1, i] += q
            elif u > upper[i]:
                out[2, i] += q
            elif abs(e) >= kink[i]:
                q *= stiffness[i]
                out[4, i] -= q * u
                q *= steep[lane]
                out[0, i] += q
                out[3, i] -= q if e > 0 else -q


@compiled
def _soft_cotangents(Z, Q, weight, target, bound, soft, out):
    for i in range(Z.shape[0]):
        sign = 1.0 if bound[i] > 0 else -1.0
        for lane in range(Z.shape[1]):
            q = weight[i, lane] * Q[i, lane]
            if q == 0:
                continue
            p = 1.0 / (1.0 + np.exp(-sign * (target[i] - Z[i, lane]) / soft))
            out[2 if sign > 0 else 1, i] += q * p
            out[0, i] += q * abs(bound[i]) * p * (1.0 - p) / soft


@compiled
def _conjugates(B, weight, target, kink, ridge, value):
    for i in range(B.shape[0]):
        for lane in range(B.shape[1]):
            b, w = B[i, lane], weight[i, lane]
            if b != 0:
                value[lane] += target[i] * b - kink[i] * abs(b) - 0.5 * ridge[i] / w * b * b


@compiled
def _soft_conjugates(B, weight, target, bound, soft, value):
    for i in range(B.shape[0]):
        for lane in range(B.shape[1]):
            most = weight[i, lane] * bound[i]
            if most != 0:
                s = B[i, lane] / most
                entropy = 0.0
                if 0 < s < 1:
                    entropy = s * np.log(s) + (1 - s) * np.log1p(-s)
                value[lane] += target[i] * B[i, lane] - soft * abs(most) * entropy


@dataclass(frozen=True)
class LaneLoss:
    """The losses of all rows, by lane.

    dual : Dual of every row at weight one, arrays of shape (rows,)
    weight : of every row in every lane, shape (rows, lanes)
    width : of rounded corners by lane, 0 for sharp ones; None if there is nothing to round.
        Ridges of rounded corners are width / (upper - lower); the dual has those of width one.
    """

    dual: Dual
    weight: np.ndarray
    width: np.ndarray | None = None

    @classmethod
    def of(cls, dual: Dual, weight: np.ndarray, dtype: np.dtype) -> LaneLoss:
        fields = {name: getattr(dual, name).astype(dtype) for name in FIELDS}
        return cls(Dual(**fields, soft=dual.soft), weight.astype(dtype, copy=False))

    @property
    def used(self) -> np.ndarray:
        """Which lanes have rows to train on."""
        return np.asarray(self.weight.any(axis=0))

    @property
    def has_corners(self) -> bool:
        """Whether there are rows whose slope jumps."""
        if self.width is not None:
            return not self.width.all()
        return not self.dual.soft and not self.dual.ridge.all()

    @cached
    def stiffness(self) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.minimum(1.0 / self.dual.ridge, STEEP).astype(self.dual.ridge.dtype)

    @cached
    def steep(self) -> np.ndarray:
        """What stiffness is multiplied with, by lane."""
        if self.width is None:
            return np.ones(self.weight.shape[1], dtype=self.weight.dtype)
        most = STEEP / max(float(self.stiffness.max(initial=0.0)), 1.0)
        with np.errstate(divide="ignore"):
            return np.minimum(1.0 / self.width, most).astype(self.weight.dtype)

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the bounds of the coefficients of all rows in all lanes."""
        w, dual = self.weight, self.dual
        with np.errstate(invalid="ignore"):  # rows of weight zero have no room
            low, high = (
                np.nan_to_num(w * b[:, None], nan=0.0, posinf=np.inf, neginf=-np.inf)
                for b in (dual.lower, dual.upper)
            )
        return low, high

    def conjugate(self, B: np.ndarray) -> np.ndarray:
        """Return the dual's gain from the coefficients B, summed by lane."""
        value = np.zeros(B.shape[1])
        if self.dual.soft:
            _soft_conjugates(B, self.weight, self.dual.target, self.bound, self.dual.soft, value)
            return value
        _conjugates(B, self.weight, self.dual.target, self.dual.kink, self.dual.ridge, value)
        return value

    def rounded(self, width: np.ndarray) -> LaneLoss:
        """Return the loss with corners that are rounded over a width of the outputs, by lane."""
        dual = self.dual
        room = dual.upper - dual.lower
        rounded = replace(dual, ridge=1.0 / np.maximum(room, np.finfo(room.dtype).tiny))
        return LaneLoss(rounded, self.weight, width.copy())

    def gentler(self) -> list[LaneLoss]:
        """Return losses with ever sharper corners to train first, if those here are too sharp."""
        stages = softer(self.dual.soft)[:-1]
        return [replace(self, dual=replace(self.dual, soft=soft)) for soft in stages]

    def corners(
        self, B: np.ndarray, Z: np.ndarray | None = None, size: np.ndarray | float = 0.0
    ) -> np.ndarray:
        """Return curvatures of a loss with corners: infinite at the corners, zero elsewhere.

        Rows whose coefficients are between their bounds are there.  Of exact outputs Z, those that
        are at a corner tell the others: where rows are alike, coefficients are not unique, and some
        may be at a bound while the outputs stay.  They are there but for rounding, which goes with
        the `size` of what outputs are sums of.
        """
        low, high = self.bounds()
        slack = 1e-6 * np.minimum(high - low, np.abs(B).max(axis=0, initial=0.0))
        inside = (low + slack < B) & (high - slack > B)
        inside &= (np.abs(B) > slack) | (self.dual.kink == 0)[:, None]
        if Z is not None:
            off = np.abs(np.abs(self.dual.target[:, None] - Z) - self.dual.kink[:, None])
            near = AT_CORNER * np.maximum(size, np.abs(self.dual.target)[:, None])
            inside |= (off <= near) & (low < high)
        return np.where(inside, np.inf, 0.0).astype(B.dtype)

    @property
    def bound(self) -> np.ndarray:
        return self.dual.lower + self.dual.upper  # one of them is zero

    def slopes(
        self, Z: np.ndarray, A: np.ndarray, D: np.ndarray, part: slice | None = None
    ) -> np.ndarray:
        """Set A to minus the slopes, D to the curvatures; return the values, summed by lane."""
        part = part or slice(0, len(Z))
        value, dual = np.zeros(Z.shape[1]), self.dual
        if dual.soft:
            E = np.abs(dual.target[part, None] - Z[part])
            E *= -1.0 / dual.soft
            np.exp(E, out=E)
            _soft_slopes(
                Z[part], self.weight[part], dual.target[part], self.bound[part],
                Z.dtype.type(dual.soft), E, A[part], D[part], value, 0, len(E),
            )  # fmt: skip
            return value
        _slopes(
            Z, self.weight, dual.target, dual.lower, dual.upper, dual.kink, self.stiffness,
            self.steep, A, D, value, part.start, part.stop,
        )  # fmt: skip
        return value

    def cotangent(self, Z: np.ndarray, Q: np.ndarray) -> Dual:
        """Return what cotangents Q on the coefficients say of the dual's data, by row."""
        out, dual = np.zeros((5, len(Z))), self.dual
        if dual.soft:
            _soft_cotangents(Z, Q, self.weight, dual.target, self.bound, float(dual.soft), out)
        else:
            _cotangents(
                Z, Q, self.weight, dual.target, dual.lower, dual.upper, dual.kink,
                self.stiffness, self.steep, out,
            )  # fmt: skip
        return Dual(*out)
