"""Criteria of the order: a precision that nothing reaches, rows without weight."""

import numpy as np
import pytest

from hypermargin.criteria import RecallAtPrecision, SmoothAuc, SmoothAveragePrecision


def drawn(seed):
    """Return outputs and labels of a weak machine."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(10, 60))
    y = (rng.random(n) < rng.uniform(0.1, 0.6)).astype(int)
    y[:2] = 0, 1
    return rng.normal(size=n) + rng.uniform(-1, 1) * y, y


def best_precision(outputs, y, t=10.0):
    """Return the largest smooth precision of thresholds up to the largest output, by force."""
    h = 3.0 * outputs.std() / t
    theta = np.linspace(outputs.min() - h, outputs.max(), 5001)
    u = np.clip((outputs[:, None] - theta) / h, -1.0, 1.0)
    put = 0.5 + 0.75 * u - 0.25 * u**3
    return (put[y == 1].sum(axis=0) / put.sum(axis=0)).max()


@pytest.mark.parametrize("seed", range(25))
def test_a_precision_that_is_not_reached(seed):
    outputs, y = drawn(seed)
    best = best_precision(outputs, y)
    criterion = RecallAtPrecision(precision=float(best + 0.3 * (1.0 - best)) if best < 1 else 0.9)
    weight = np.ones(len(y))
    value, gradient = criterion(outputs[:, None], y, weight)
    if best == 1:  # there is nothing that is not reached
        assert value <= 1.0
        return
    assert value == pytest.approx(1.0 + criterion.precision - best, abs=1e-4)
    for i in range(len(y)):
        moved = [outputs.copy(), outputs.copy()]
        moved[0][i] += 1e-6
        moved[1][i] -= 1e-6
        above, below = (criterion(o[:, None], y, weight)[0] for o in moved)
        assert gradient[i, 0] == pytest.approx((above - below) / 2e-6, rel=1e-4, abs=1e-8)


@pytest.mark.parametrize("seed", range(20))
def test_the_least_threshold_that_has_the_precision(seed):
    """The loss is that of a fine grid of thresholds, however narrow the place."""
    outputs, y = drawn(seed)
    precision = 0.98 * best_precision(outputs, y)
    h = 0.3 * outputs.std()
    theta = np.linspace(outputs.min() - h, outputs.max(), 20001)
    u = np.clip((outputs[:, None] - theta) / h, -1.0, 1.0)
    put = 0.5 + 0.75 * u - 0.25 * u**3
    tp = put[y == 1].sum(axis=0)
    recall = tp[np.argmax(tp >= precision * put.sum(axis=0))] / y.sum()
    value, _ = RecallAtPrecision(precision=float(precision))(outputs[:, None], y, np.ones(len(y)))
    assert value == pytest.approx(1.0 - recall, abs=2e-3)


@pytest.mark.parametrize(
    "criterion", [SmoothAuc(), SmoothAveragePrecision(), RecallAtPrecision(precision=0.9)]
)
def test_rows_without_weight_have_no_part(criterion):
    """Not even above all others, where nothing is counted."""
    outputs, y = drawn(3)
    kept = np.arange(len(y)) >= 4
    weight = kept.astype(float)
    y[:4] = 0, 1, 0, 1
    outputs[:4] = 100.0, 90.0, -100.0, -90.0
    value, gradient = criterion(outputs[:, None], y, weight)
    alone, own = criterion(outputs[kept, None], y[kept], weight[kept])
    assert value == pytest.approx(alone, rel=1e-12)
    np.testing.assert_allclose(gradient[kept], own, rtol=1e-9, atol=1e-14)
    assert not gradient[~kept].any()
