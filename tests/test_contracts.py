"""What every kernel, loss, criterion, optimiser and adapter must do; new ones join by listing."""

import cloudpickle
import numpy as np
import pytest
from helpers import (
    KERNEL_PARAMS,
    central_difference,
    entries,
    entry,
    every_loss,
    make_data,
    suited,
)
from scipy import sparse
from scipy.special import softmax
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hypermargin._core.space import Dimension, Hyperparameter, Space, lattice
from hypermargin.adapters.model import ADAPTERS, SVCAdapter, read_model
from hypermargin.criteria import CRITERIA
from hypermargin.criteria.confusion import ExpectedCost, SmoothBalancedError, SmoothError
from hypermargin.criteria.rowwise import SmoothAbsoluteError
from hypermargin.kernels import KERNELS, OBJECTS, make_kernel
from hypermargin.kernels.points import Points
from hypermargin.losses.base import NAMELESS, Rows
from hypermargin.methods.optimisers import OPTIMISERS

RNG = np.random.default_rng(0)
FRESH = RNG.bit_generator.state


@pytest.fixture(autouse=True)
def _same_numbers_whatever_ran_before():
    RNG.bit_generator.state = FRESH


# --- kernels


@pytest.fixture(
    params=[*(k for k in KERNELS if k != "precomputed"), *(k.__name__ for k in OBJECTS)]
)
def kernel(request):
    kinds = {kind.__name__: kind for kind in OBJECTS}
    given = kinds[request.param]() if request.param in kinds else request.param
    kernel = make_kernel(given, 3)
    points = Points.of(suited(request.param, np.random.default_rng(1).normal(size=(20, 4))))
    dimensions = {name: kernel.dimension(name, points) for name in kernel.hyperparameters}
    middle = {name: d.from_scaled(d.middle) for name, d in dimensions.items()}
    return request.param, kernel, KERNEL_PARAMS.get(request.param, middle)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_kernel_blocks_are_scikit_learns(kernel, form):
    name, ours, params = kernel
    if name not in PAIRWISE_KERNEL_FUNCTIONS and name != "rbf":
        pytest.skip("scikit-learn has no kernel of that name")
    A, B = (suited(name, RNG.normal(size=(n, 4))) for n in (7, 9))
    expected = pairwise_kernels(A, B, metric=name, filter_params=True, degree=3, **params)
    rows, cols = Points.of(form(A)), Points.of(form(B))
    np.testing.assert_allclose(ours.block(rows, cols, params), expected, atol=1e-12)
    out = np.empty((7, 9))
    assert ours.block(rows, cols, params, out) is out
    np.testing.assert_allclose(out, expected, atol=1e-12)
    square = ours.block(rows, rows, params)
    np.testing.assert_allclose(ours.diagonal(rows, params), np.diagonal(square), atol=1e-12)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_kernel_pullbacks_are_derivatives(kernel, form):
    kind, ours, params = kernel
    rows, cols = (Points.of(form(suited(kind, RNG.normal(size=(n, 4))))) for n in (7, 9))
    M = RNG.normal(size=(7, 9))
    found = ours.pullback(rows, cols, ours.block(rows, cols, params), M, params)
    assert set(found) == set(ours.hyperparameters)
    for name in found:

        def f(z, name=name):
            return float((M * ours.block(rows, cols, {**params, name: z})).sum())

        assert found[name] == pytest.approx(central_difference(f, params[name]), rel=1e-7)


def test_kernels_propose_ranges(kernel):
    kind, ours, _ = kernel
    for scale in (1e-3, 1.0, 1e3):
        points = Points.of(suited(kind, scale * RNG.normal(size=(30, 4))))
        for name in ours.hyperparameters:
            d = ours.dimension(name, points)
            assert d.low < d.high
            assert np.isfinite([d.low, d.high]).all()


# --- losses


@pytest.fixture(params=every_loss(), ids=lambda loss: loss.__name__)
def loss(request):
    return request.param()


def test_losses_pull_cotangents_back(loss):
    y = np.where(RNG.uniform(size=12) < 0.5, -1.0, 1.0)
    parts = {
        "class": (y > 0).astype(int),
        "machine": np.arange(12) // 6,
        "group": np.arange(12) % 2,
    }
    parts["group"][:3] = NAMELESS
    rows = Rows(y, RNG.uniform(0.5, 2.0, (2, 12)), parts)
    params = {name: RNG.uniform(0.5, 2.0) for name in loss.hyperparameters}
    params |= {name: RNG.uniform(0.5, 2.0, 2) for name in loss.by_part}
    dual = loss.dual(rows, params)
    fields = ("target", "lower", "upper", "kink", "ridge")
    finite = {k: np.isfinite(getattr(dual, k)).all() for k in fields}
    cotangent = type(dual)(*(RNG.normal(size=(2, 12)) * finite[k] for k in fields))
    # a coefficient is at one bound at the most
    cotangent.lower[:, y > 0] = 0.0
    cotangent.upper[:, y < 0] = 0.0
    if loss.unreached:
        cotangent.lower[:], cotangent.upper[:] = 0.0, 0.0
    found = loss.pullback(rows, params, cotangent)
    assert {name: np.shape(g) for name, g in found.items()} == {
        name: np.shape(value) for name, value in params.items()
    }
    for place, at in entries(params):

        def f(z, at=at):
            moved = loss.dual(rows, at(z))
            pairs = [(getattr(cotangent, k), getattr(moved, k)) for k in fields if finite[k]]
            return sum(float((a * b).sum()) for a, b in pairs)

        expected = central_difference(f, entry(params, place))
        assert entry(found, place) == pytest.approx(expected, rel=1e-7)


def test_losses_propose_ranges(loss):
    for name in (*loss.hyperparameters, *loss.by_part):
        d = loss.dimension(name, RNG.normal(size=20), 1.0)
        assert 0 < d.low < d.high


# --- criteria


def of_classes(criterion, n_classes):
    """Return the criterion, with a table of costs that has the right size."""
    if isinstance(criterion, ExpectedCost):
        wrong = 1.0 - np.eye(n_classes)
        return ExpectedCost(costs=wrong + RNG.uniform(0, 1, (n_classes, n_classes)))
    return criterion


def outputs_and_targets(criterion, n_classes, seed=0):
    rng = np.random.default_rng(seed)
    if not criterion.for_classifiers:
        y = rng.normal(size=(30, n_classes - 1))
        return y + 0.5 * rng.normal(size=y.shape), y
    y = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, 30 - n_classes)])
    return rng.normal(size=(30, n_classes * (n_classes - 1) // 2)), y


@pytest.mark.parametrize("name", CRITERIA)
@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_criteria_give_their_gradient(name, n_classes, unit):
    criterion = CRITERIA[name]
    if n_classes > 2 and criterion.two_classes:
        pytest.skip("for two classes")
    criterion = of_classes(criterion, n_classes)
    outputs, y = outputs_and_targets(criterion, n_classes)
    if criterion.for_classifiers:
        outputs *= unit
    weight = RNG.uniform(0.2, 2.0, len(y))
    _, gradient = criterion(outputs, y, weight)
    assert gradient.shape == outputs.shape
    for i, j in [(0, 0), (5, 0), (29, outputs.shape[1] - 1)]:

        def f(z, i=i, j=j):
            moved = outputs.copy()
            moved[i, j] = z
            return criterion(moved, y, weight)[0]

        expected = central_difference(f, outputs[i, j])
        assert gradient[i, j] == pytest.approx(expected, rel=1e-5, abs=1e-9 / unit)


@pytest.mark.parametrize("name", CRITERIA)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_weights_of_a_criterion_are_repetition(name, n_classes):
    criterion = CRITERIA[name]
    if n_classes > 2 and criterion.two_classes:
        pytest.skip("for two classes")
    criterion = of_classes(criterion, n_classes)
    outputs, y = outputs_and_targets(criterion, n_classes)
    times = RNG.integers(1, 4, len(y))
    again = np.repeat(np.arange(len(y)), times)
    weighted = criterion(outputs, y, times.astype(float))[0]
    repeated = criterion(outputs[again], y[again], np.ones(len(again)))[0]
    assert weighted == pytest.approx(repeated, rel=1e-9)


@pytest.mark.parametrize("kind", [SmoothError, SmoothBalancedError, SmoothAbsoluteError])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_smooth_scores_approach_the_hard_ones(kind, n_classes):
    sharp = kind(t=1e7)
    outputs, y = outputs_and_targets(sharp, n_classes)
    if sharp.for_classifiers:
        classes = np.arange(n_classes)
        adapter = SVCAdapter(SVCAdapter.estimator())
        # without ties in the vote, whose winner no smooth function can name
        votes = np.sort(np.floor(adapter.decision_function(outputs, classes) + 0.5), axis=-1)
        untied = slice(None) if n_classes == 2 else votes[:, -1] > votes[:, -2]
        outputs, y = outputs[untied], y[untied]
        predicted = adapter.predict(outputs, classes)
        hard = 1.0 - sharp.score_func(y, predicted)
    else:
        hard = sharp.score_func(y, outputs)
    assert sharp(outputs, y, np.ones(len(y)))[0] == pytest.approx(hard, abs=1e-4)


@pytest.mark.parametrize("name", ["neg_mean_squared_error", "r2", "neg_log_loss"])
def test_criteria_that_need_no_smoothing_are_the_scores(name):
    criterion = CRITERIA[name]
    outputs, y = outputs_and_targets(criterion, 2)
    value, _ = criterion(outputs, y, np.ones(len(y)))
    if name == "neg_log_loss":
        from hypermargin.criteria.probability import Sigmoid

        sigmoid = Sigmoid(outputs, y, np.ones(len(y)))
        slope, p = sigmoid.slope, softmax(sigmoid.logits, axis=1)[:, 1]
        assert value == pytest.approx(criterion.score_func(y, p))
        # Platt's sigmoid is a logistic regression on the output
        from sklearn.linear_model import LogisticRegression

        platt = LogisticRegression(C=1e8, tol=1e-10, max_iter=10_000).fit(outputs, y)
        assert 2 * slope == pytest.approx(platt.coef_[0, 0], rel=1e-3)
    else:
        score = criterion.score_func(y, outputs)
        assert value == pytest.approx(1 - score if name == "r2" else score)


def test_separable_outputs_have_a_finite_log_loss():
    y = np.repeat([0, 1], 10)
    outputs = np.where(y == 1, 1.0, -1.0)[:, None] + 0.01 * RNG.normal(size=(20, 1))
    value, gradient = CRITERIA["neg_log_loss"](outputs, y, np.ones(20))
    assert 0 <= value < 1e-3
    assert np.isfinite(gradient).all()


# --- optimisers


def valley(theta):
    """A smooth error with a curved valley, flat far away; its minimum 0.03 is at (1, -2)."""
    x, y = theta[0] - 1.0, theta[1] + 2.0 - 0.2 * (theta[0] - 1.0) ** 2
    u = 0.3 * x**2 + 2.0 * y**2
    value = 0.03 + 0.2 * u / (5.0 + u)
    slope = 0.2 * 5.0 / (5.0 + u) ** 2
    d = np.array([0.6 * x - 4.0 * y * 0.4 * x, 4.0 * y])
    return value, slope * d


@pytest.fixture(params=OPTIMISERS.items(), ids=lambda item: item[0])
def optimiser(request):
    return request.param[1]


@pytest.mark.parametrize("start", [(3.0, 0.0), (-2.0, -4.0), (1.0, -1.0)])
def test_optimisers_find_the_minimum_in_few_evaluations(optimiser, start):
    calls = {}

    def counted(theta):
        calls[theta.tobytes()] = True
        return valley(theta)

    bounds = np.array([[-5.0, 6.0], [-8.0, 5.0]])
    found = optimiser(counted, np.array(start), bounds, 1e-3, None)
    assert found.value <= 0.03 * 1.01
    assert len(calls) <= 30


def test_optimisers_stay_inside_and_stop_on_the_bound(optimiser):
    bounds = np.array([[-5.0, 0.5], [-1.0, 5.0]])

    def inside(theta):
        assert (theta >= bounds[:, 0]).all() and (theta <= bounds[:, 1]).all()
        return valley(theta)

    found = optimiser(inside, np.array([-2.0, 3.0]), bounds, 1e-4, None)
    assert found.theta[1] == -1.0
    best = min(valley(np.array([x, -1.0]))[0] for x in np.linspace(-5.0, 0.5, 200))
    assert found.value <= 1.01 * best


def test_optimisers_end_on_a_plateau(optimiser):
    def flat(theta):
        return 0.5, np.zeros(2)

    start = np.array([1.0, 1.0])
    found = optimiser(flat, start, np.array([[-5.0, 5.0]] * 2), 1e-3, None)
    np.testing.assert_array_equal(found.theta, start)


# --- adapters


@pytest.mark.parametrize("kind", ADAPTERS, ids=lambda a: a.__name__)
def test_adapters_read_their_estimator(kind):
    estimator = kind.estimator()
    adapter = kind(estimator)
    names = adapter.scalars()
    assert set(adapter.loss().hyperparameters) <= set(names) <= set(estimator.get_params())
    assert set(adapter.values()) <= set(names)
    X, y = make_data(2)
    targets = adapter.targets(y)
    assert len(targets.y) == len(y)
    assert all(len(c.target) == len(y) for c in targets.columns)
    assert adapter.linear or adapter.gamma(X) > 0


@pytest.mark.parametrize("kind", ADAPTERS, ids=lambda a: a.__name__)
def test_adapters_are_bound_to_the_estimator_and_to_what_is_tuned_of_it(kind):
    estimator = kind.estimator()
    model = read_model(make_pipeline(StandardScaler(), estimator))
    found = model.tuning(model.hyperparameters)
    assert type(found.adapter) is kind
    assert found.machine is estimator
    assert found.adapter.tuned == found.adapter.hyperparameters()
    assert not found.adapter.unset
    assert model.adapter.tuned == ()


@pytest.mark.parametrize("kind", ADAPTERS, ids=lambda a: a.__name__)
def test_adapters_can_be_sent_to_other_processes(kind):
    adapter = kind(kind.estimator())
    found = cloudpickle.loads(cloudpickle.dumps(adapter))
    assert type(found) is type(adapter)
    assert found.values() == adapter.values()


# --- space


def space_of(**ranges):
    return Space(tuple(Hyperparameter(name, name, (d,)) for name, d in ranges.items()))


def test_space_and_vector_are_two_forms_of_the_same_point():
    space = space_of(C=Dimension(0.01, 100.0), coef0=Dimension(-2.0, 6.0, "linear"))
    params = {"C": 3.0, "coef0": 1.5}
    assert space.params(np.array([np.log(3.0), 1.5])) == pytest.approx(params)
    np.testing.assert_allclose(space.bounds, [[np.log(0.01), np.log(100.0)], [-2.0, 6.0]])
    assert space.pull(params, {"C": 2.0, "coef0": 5.0}) == pytest.approx([6.0, 5.0])
    assert space.params(space.bounds[:, 1]) == {"C": 100.0, "coef0": 6.0}
    assert space.on_bound({"C": 100.0, "coef0": 1.0}) == [("C", 100.0, 100.0)]


def test_looks_are_spread_and_always_the_same():
    space = space_of(a=Dimension(0.1, 10.0), b=Dimension(0.1, 10.0))
    points = np.array(list(lattice(space, 24)))
    np.testing.assert_array_equal(points, np.array(list(lattice(space, 24))))
    low, high = space.bounds.T
    assert (points > low).all() and (points < high).all()
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    assert distances[np.triu_indices(24, 1)].min() > 0.2
