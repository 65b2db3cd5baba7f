"""The cost of a linear machine: its whole curve from a few places.

Out-of-fold outputs and their derivatives by log C at a few values of C give, by cubic Hermite
interpolation, the outputs at every C in between, and so any score there: a curve instead of a
number.  Scores of linear machines are flat around the best C, where descending on them is
ill-posed; with the curve in hand, its best place is evaluated if it beats all that were.  Where
every class has a machine, each may have a cost of its own: every machine has its curve, so that the
smooth loss of all their costs can be minimised without training any of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize

from .._core.space import Params
from ..adapters.base import Targets
from ..adapters.model import Model
from .base import Curve, Method
from .objective import Objective, SearchEnded
from .walk import Place, Walk, no_common_range

NODE = 1e-2  # tolerance of training on the way: LIBLINEAR's own
STRIDE = 4.0 * np.log(2.0)  # between places, in log C
FINE = 8  # points of the curve from one place to the next
NEIGHBOURS = 1.01 * STRIDE / FINE  # from the best place to its neighbours, on few rows
AS_SAID = 1e-2  # of the least loss, by which the curve may be wrong
FEW_ROWS = 1000  # below, places are everywhere in the space
SAME = 1e-4  # scores that differ by less are the same, relative to the best
NO_CHANGE = 0.02  # change of outputs over a stride that is none
GROWING = 0.25  # change of outputs by log C, relative to their size, that is far from the end

OWN_STEPS = 20  # in minimising the loss of costs by machine; each costs a criterion


@dataclass(frozen=True)
class Node:
    """A place on the curve: the logarithm of the cost, outputs and their derivatives by it."""

    at: float
    outputs: list[np.ndarray]
    rates: list[np.ndarray]
    score: float
    error: float
    loss: float

    @property
    def rank(self) -> tuple[float, float]:
        """What the best place has most of."""
        return (-np.inf if np.isnan(self.score) else self.score), -self.loss

    @property
    def change(self) -> float:
        """How fast outputs change, relative to their spread: they may be far from zero."""
        rate, spread = (
            sum(float(np.abs(part).sum()) for part in parts)
            for parts in (self.rates, [z - z.mean(axis=0) for z in self.outputs])
        )
        return rate / max(spread, 1e-300)


def between(
    left: Node, right: Node, at: float, columns: Any = slice(None)
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return outputs between two places and their derivatives, by cubic Hermite interpolation."""
    h = right.at - left.at
    t = (at - left.at) / h
    values = (
        (1 + 2 * t) * (1 - t) ** 2,
        t * (1 - t) ** 2 * h,
        t * t * (3 - 2 * t),
        t * t * (t - 1) * h,
    )
    slopes = 6 * t * (t - 1) / h, (1 - t) * (1 - 3 * t), 6 * t * (1 - t) / h, t * (3 * t - 2)
    parts = [
        [part[:, columns] for part in of_fold]
        for of_fold in zip(left.outputs, left.rates, right.outputs, right.rates, strict=True)
    ]
    outputs, rates = (
        [sum(w * part for w, part in zip(weights, of_fold, strict=True)) for of_fold in parts]
        for weights in (values, slopes)
    )
    return outputs, rates  # type: ignore[return-value]


class CostCurve(Method):
    """Evaluate a few places, choose on the curve between them, and evaluate the chosen place."""

    levels: ClassVar[int | None] = 1

    def obstacle(self, model: Model, ranges: Mapping[str, Any], targets: Targets) -> str | None:
        return no_common_range(model, ranges, targets)

    def search(self, objective: Objective) -> Curve | None:
        walk = Walk(objective)
        nodes = _nodes(walk)
        if len(nodes) < 2 or all(np.isnan(node.score) for node in nodes):
            return None
        if objective.prepared.n_rows < FEW_ROWS:
            nodes = _closer(walk, nodes)
        curve, top, promises = _top(walk, nodes)
        try:
            if promises:  # else a place that was evaluated will do
                _node(walk, top)
            if walk.n_costs > 1 and not objective.over():
                _node(walk, _own_costs(walk, nodes, top))
        except SearchEnded:
            pass
        return curve


def _nodes(walk: Walk) -> list[Node]:
    """Evaluate places until none beyond them can be better; return them by their cost."""
    nodes: dict[float, Node] = {}
    most = max(2, walk.objective.max_evals - 1)  # one is left for the place that is chosen
    try:
        for at in _places(walk):
            if len(nodes) < most and (node := _node(walk, at)) is not None:
                nodes[at] = node
        while len(nodes) < most and (beyond := _next(walk, nodes)) is not None:
            if (node := _node(walk, beyond)) is None:
                break
            nodes[beyond] = node
    except SearchEnded:
        pass
    return _in_order(nodes)


def _closer(walk: Walk, nodes: list[Node]) -> list[Node]:
    """Evaluate more places, until the curve has said what is found halfway from place to place.

    Outputs of few rows bend too much for one cubic over a stride.  Then its best place, and those
    halfway around the best one of all.
    """
    doubtful, found = list(pairwise(nodes)), {node.at: node for node in nodes}
    most = walk.objective.max_evals - 1

    def evaluate(at: float) -> Node | None:
        node = _node(walk, at)
        return None if node is None else found.setdefault(at, node)

    try:
        while doubtful and len(found) < most:
            left, right = doubtful.pop(0)
            middle = 0.5 * (left.at + right.at)
            said = walk.objective.loss(between(left, right, middle)[0])[0]
            node = evaluate(middle) if right.at - left.at > NEIGHBOURS else None
            if node is not None:
                least = min(node.loss for node in found.values())
                lowest, wrong = min(left.loss, node.loss, right.loss), abs(node.loss - said)
                if wrong > AS_SAID * least and lowest - wrong <= least:
                    doubtful += [(left, node), (node, right)]
        _, top, promises = _top(walk, _in_order(found))
        at: float | None = top if promises else _halfway(_in_order(found))
        while at is not None and len(found) < most and evaluate(at) is not None:
            at = _halfway(_in_order(found))
    except SearchEnded:
        pass
    return _in_order(found)


def _in_order(nodes: Mapping[float, Node]) -> list[Node]:
    return [nodes[at] for at in sorted(nodes)]


def _halfway(nodes: Sequence[Node]) -> float | None:
    """Return the middle between the best place and its farther neighbour, if that is not near."""
    best = max(range(len(nodes)), key=lambda k: nodes[k].rank)
    around = pairwise(nodes[max(0, best - 1) : best + 2])
    left, right = max(around, key=lambda pair: pair[1].at - pair[0].at)
    return 0.5 * (left.at + right.at) if right.at - left.at > NEIGHBOURS else None


def _node(walk: Walk, at: Place) -> Node | None:
    """Evaluate a place, warm from the nearest one; return None if that cannot be done."""
    rates: list[np.ndarray] = []

    def gradient(evaluation: Any, delta: Sequence[np.ndarray]) -> Params:
        found, state = evaluation.rates()
        rates.extend(found)
        if np.ndim(at) == 0:
            walk.states[float(at)] = state
        return walk.gradient(at, rates, delta)

    visit = walk.visit(at, NODE, walk.warm(at), gradient)
    if visit.evaluation is None or visit.gradient is None:
        return None
    outputs = visit.evaluation.outputs
    score, error = walk.rated(outputs)
    if np.isnan(score) and len(walk.states) < 2:  # it is undefined here; the loss may not be
        walk.rate = None
        score, error = walk.rated(outputs)
    return Node(float(np.mean(at)), outputs, rates, score, error, visit.value)


def _places(walk: Walk) -> list[float]:
    """Return where to begin: around the usual cost, or on few rows everywhere.

    There the curve is rough, and evaluations cost next to nothing.
    """
    if walk.objective.prepared.n_rows >= FEW_ROWS:
        first = max(walk.low, walk.middle - STRIDE)
        return [first, min(walk.high, first + STRIDE)]
    number = max(1, int(np.ceil((walk.high - walk.low) / STRIDE - 1e-9)))
    # the search may be cut short: from the middle outwards
    return sorted(
        np.linspace(walk.low, walk.high, number + 1).tolist(),
        key=lambda at: abs(at - walk.middle),
    )


def _next(walk: Walk, nodes: dict[float, Node]) -> float | None:
    """Return where to look next: beyond the end that is best, if that may be better still."""
    order = sorted(nodes)
    if len(order) < 2:
        return None
    scores = np.array([nodes[at].score for at in order])
    if np.isnan(scores).all():
        return None
    first, last = nodes[order[0]], nodes[order[-1]]
    best = float(np.nanmax(scores))
    margin = best - _as_good(scores)
    if last.at < walk.high and last.score >= best - margin:
        rises = last.score > scores[-2] + margin
        if (rises and last.change * STRIDE > NO_CHANGE) or last.change > GROWING:
            return min(walk.high, last.at + STRIDE)
    if first.at > walk.low and first.score >= best - margin and first.score > scores[1] + margin:
        return max(walk.low, first.at - STRIDE)
    return None


def _top(walk: Walk, nodes: Sequence[Node]) -> tuple[Curve, float, bool]:
    """Return the curve, its best place, and whether that is better than all that were evaluated."""
    places, curve = _curve(walk, nodes)
    scores = curve.scores[:: int(walk.sign)]  # in the order of the places
    known = np.nanmax([node.score for node in nodes])
    return curve, places[int(np.nanargmax(scores))], not known >= _as_good(scores)


def _curve(walk: Walk, nodes: Sequence[Node]) -> tuple[list[float], Curve]:
    """Return the places of the curve by cost, and the curve itself."""
    places, rows = [], []
    for left, right in pairwise(nodes):
        for at in np.linspace(left.at, right.at, FINE, endpoint=False):
            places.append(float(at))
            if at == left.at:
                rows.append((left.score, left.error))
                continue
            outputs, _ = between(left, right, float(at))
            rows.append(walk.rated(outputs))
    places.append(nodes[-1].at)
    rows.append((nodes[-1].score, nodes[-1].error))
    scores, errors = np.array(rows, dtype=float).T
    values = np.array([walk.value(at) for at in places])
    if walk.sign < 0:
        return places, Curve(walk.name, values[::-1], scores[::-1], errors[::-1])
    return places, Curve(walk.name, values, scores, errors)


def _own_costs(walk: Walk, nodes: Sequence[Node], start: float) -> np.ndarray:
    """Return a cost for each machine: those with the least smooth loss on the curves of all."""
    ends = np.array([node.at for node in nodes])

    def value_and_grad(at: np.ndarray) -> tuple[float, np.ndarray]:
        if walk.objective.over():
            raise SearchEnded
        left = np.clip(np.searchsorted(ends, at, side="right") - 1, 0, len(ends) - 2)
        found = [
            between(nodes[k], nodes[k + 1], float(place), [column])
            for column, (k, place) in enumerate(zip(left, at, strict=True))
        ]
        outputs, rates = (
            [np.hstack(of_fold) for of_fold in zip(*parts, strict=True)]
            for parts in zip(*found, strict=True)
        )
        value, delta = walk.objective.loss(outputs)
        return value, sum((d * r).sum(axis=0) for d, r in zip(delta, rates, strict=True))

    first, bounds = np.full(walk.n_costs, start), [(ends[0], ends[-1])] * walk.n_costs
    options = {"maxiter": OWN_STEPS}
    return minimize(value_and_grad, first, jac=True, bounds=bounds, options=options).x


def _as_good(scores: np.ndarray) -> float:
    """Return from which score on a place is as good as the best."""
    best = float(np.nanmax(scores))
    return best - SAME * abs(best)
