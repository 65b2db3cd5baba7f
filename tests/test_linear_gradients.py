"""Hypergradients of linear machines against central differences: every loss, knob and solver."""

import numpy as np
import pytest
from helpers import central_difference, entries, entry, every_loss, make_data
from scipy import sparse
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC, LinearSVR

from hypermargin import LinearClassifier, value_and_grad
from hypermargin._core.budget import Effort
from hypermargin.losses.classification import SmoothHinge
from hypermargin.problems.base import Column, Design, Fold
from hypermargin.problems.linear import bundle
from hypermargin.problems.linear.problem import LinearCrossValidation

TOL = 1e-13
VALUES = {"C": 0.3, "alpha": 2.0, "epsilon": 0.1, "quantile": 0.3}
BIASES = {"penalised": (1.7, 1.0), "unpenalised": (1.0, 0.0), "none": (0.0, 1.0)}
FORMS = {"dense": np.asarray, "sparse": sparse.csr_matrix}
# features up to which Newton's method is used, in place of coordinate descent
SOLVERS = {"Newton": 600, "row by row": 0}
HAVE_CORNERS = ("Hinge", "EpsilonInsensitive", "Pinball")


def loss_of(kind):
    return SmoothHinge(4.0) if kind is SmoothHinge else kind()


def make_problem(loss, form=np.asarray, bias="penalised", n=48, d=4, n_folds=3, seed=0):
    """Return all folds of a machine, with weights; a fifth of the entries of X is zero."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = X @ rng.normal(size=d) + 0.7 * rng.normal(size=n)
    X = form(X * (rng.random(X.shape) < 0.8))
    parts = {"group": np.arange(n) // 2 % 2}
    if loss.classifies:
        parts |= {"class": (y > 0).astype(int), "machine": np.zeros(n, dtype=int)}
        y = np.where(y > 0, 1.0, -1.0)
    weight, number = rng.uniform(0.5, 2.0, n), np.arange(n) % n_folds
    folds = [Fold(np.flatnonzero(number == f), weight * (number != f)) for f in range(n_folds)]
    intercept, bias_penalty = BIASES[bias]
    return LinearCrossValidation(
        [Design(X, np.arange(n), tuple(range(n_folds)))],
        folds,
        [Column(np.ones(n, dtype=bool), y, parts)],
        loss,
        dict(VALUES),
        intercept=intercept,
        bias_penalty=bias_penalty,
        whole=Fold(np.empty(0, dtype=int), weight),
    )


def point_of(problem):
    rng = np.random.default_rng(1)
    return {
        name: VALUES.get(name) or rng.uniform(0.7, 1.3, np.shape(problem.values[name]))
        for name in problem.hyperparameters
    }


class Measured:
    """A smooth function of a problem's outputs, evaluated warm from a first evaluation."""

    def __init__(self, problem, params):
        rng = np.random.default_rng(2)
        self.problem, self.params = problem, params
        self.factors = [rng.normal(size=(len(fold.test), 1)) for fold in problem.folds]
        self.evaluation = problem.evaluate(params, Effort(TOL))
        pairs = zip(self.factors, self.evaluation.outputs, strict=True)
        self.delta = [a / np.cosh(z) ** 2 for a, z in pairs]

    def value(self, params):
        warm = self.evaluation.state
        outputs = self.problem.evaluate(params, Effort(TOL), warm=warm).outputs
        return sum(float((a * np.tanh(z)).sum()) for a, z in zip(self.factors, outputs))

    def difference(self, place, wide=False):
        # solutions of losses with corners are exact, and rows may be close to leaving them
        h = 1e-5 if type(self.problem.loss).__name__ in HAVE_CORNERS else 2e-4
        at = dict(entries(self.params))[place]
        x = entry(self.params, place)
        return central_difference(lambda x: self.value(at(x)), x, 5 * h if wide else h)


def assert_exact(problem):
    measured = Measured(problem, point_of(problem))
    assert measured.evaluation.converged
    gradient = measured.evaluation.pullback(measured.delta)
    assert set(gradient) == set(measured.params)
    for place, _ in entries(measured.params):
        found, expected = entry(gradient, place), measured.difference(place)
        if found != pytest.approx(expected, rel=1e-5, abs=1e-8):  # noise of training?
            expected = measured.difference(place, wide=True)
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-8), place


@pytest.fixture(params=every_loss(), ids=lambda kind: kind.__name__)
def loss(request):
    return loss_of(request.param)


@pytest.fixture(params=SOLVERS)
def solver(request, monkeypatch):
    monkeypatch.setattr(bundle, "FEW_FEATURES", SOLVERS[request.param])
    return request.param


# no estimator has a loss with corners and a bias without penalty
CASES = [
    pytest.param(kind, bias, form, id=f"{kind.__name__}-{bias}-{form}")
    for kind in every_loss()
    for bias in BIASES
    for form in FORMS
    if bias != "unpenalised" or kind.__name__ not in HAVE_CORNERS
    if bias == "penalised" or form == "dense"
]


@pytest.mark.parametrize(("kind", "bias", "form"), CASES)
def test_every_gradient_component_is_exact(kind, bias, solver, form):
    assert_exact(make_problem(loss_of(kind), FORMS[form], bias))


def test_gradients_are_exact_with_more_features_than_rows(loss, solver):
    assert_exact(make_problem(loss, sparse.csr_matrix, n=36, d=50))


@pytest.mark.parametrize("cost", [1e-3, 30.0])
def test_gradients_are_exact_at_the_edges_of_the_cost(loss, cost):
    problem = make_problem(loss)
    measured = Measured(problem, {**point_of(problem), loss.hyperparameters[0]: cost})
    gradient = measured.evaluation.pullback(measured.delta)
    name = loss.hyperparameters[0]
    size = max(np.abs(value).max() for value in gradient.values())
    assert gradient[name] == pytest.approx(
        measured.difference((name,)), rel=1e-5, abs=1e-7 * size + 1e-8
    )


@pytest.mark.parametrize("form", FORMS)
def test_rates_are_the_derivatives_of_outputs(loss, solver, form):
    problem = make_problem(loss, FORMS[form])
    measured = Measured(problem, point_of(problem))
    rates, state = measured.evaluation.rates()
    name = loss.hyperparameters[0]
    sign = 1.0 if name == "C" else -1.0
    # against the pullback
    slope = sum(float((d * r).sum()) for d, r in zip(measured.delta, rates, strict=True))
    gradient = measured.evaluation.pullback(measured.delta)[name] * measured.params[name]
    assert sign * slope == pytest.approx(gradient, rel=1e-7, abs=1e-9)
    # one by one, and the weights of the machine on all rows, against differences
    h = 1e-4
    low, high = (
        problem.evaluate(
            measured.params | {name: measured.params[name] * np.exp(sign * step)},
            Effort(TOL),
            warm=measured.evaluation.state,
        )
        for step in (-h, h)
    )
    for rate, a, b in zip(rates, low.outputs, high.outputs, strict=True):
        np.testing.assert_allclose(rate, (b - a) / (2 * h), rtol=1e-4, atol=1e-6)
    whole = state[-1, 0].rate
    if problem.intercept:  # weights come with the bias in units of outputs, rates as they are
        whole = np.append(whole[:-1], problem.intercept * whole[-1])
        np.testing.assert_allclose(
            whole, (high.whole - low.whole)[0] / (2 * h), rtol=1e-4, atol=1e-6
        )


def test_more_folds_than_lanes(loss):
    assert_exact(make_problem(loss, n_folds=11))


def test_rows_at_a_corner_that_depend_on_each_other():
    # twice the same rows, in one feature: more rows at the corner than features
    for kind in every_loss():
        if kind.__name__ not in HAVE_CORNERS:
            continue
        problem = make_problem(kind(), n=24, d=1)
        X = np.repeat(problem.designs[0].points[:12], 2, axis=0)
        problem.designs = [Design(X, np.arange(24), (0, 1, 2))]
        assert_exact(problem)


def test_coarse_derivatives_are_close(loss, solver):
    """In single precision, as on the way of a search."""
    problem = make_problem(loss)
    measured = Measured(problem, point_of(problem))
    exact = measured.evaluation.pullback(measured.delta)
    coarse = problem.evaluate(measured.params, Effort(1e-4)).pullback(measured.delta)
    size = max(np.abs(value).max() for value in exact.values())
    for name, value in exact.items():
        assert coarse[name] == pytest.approx(value, rel=0.05, abs=0.05 * size), name


# --- estimators

CV = KFold(3, shuffle=True, random_state=0)
CLASSIFIERS = {
    "LinearSVC": (LinearSVC(intercept_scaling=2.0), {"C": 0.4}),
    "LinearSVC, hinge": (LinearSVC(loss="hinge"), {"C": 0.4}),
    "LinearSVC, no bias": (LinearSVC(fit_intercept=False), {"C": 0.4}),
    "RidgeClassifier": (RidgeClassifier(), {"alpha": 3.0}),
}
TWO_CLASSES = {
    "LogisticRegression": (LogisticRegression(), {"C": 0.4}),
    "LogisticRegression, liblinear": (LogisticRegression(solver="liblinear"), {"C": 0.4}),
}
REGRESSORS = {
    "LinearSVR": (LinearSVR(), {"C": 0.5, "epsilon": 0.2}),
    "LinearSVR, squared": (
        LinearSVR(loss="squared_epsilon_insensitive"),
        {"C": 0.5, "epsilon": 0.2},
    ),
    "Ridge": (Ridge(), {"alpha": 3.0}),
    "Ridge, no bias": (Ridge(fit_intercept=False), {"alpha": 3.0}),
}


def assert_estimator_exact(estimator, X, y, params, **options):
    options = {"cv": CV, "tol": TOL, **options}
    value, gradient = value_and_grad(estimator, X, y, params, **options)
    assert np.isfinite(value)
    assert set(gradient) == set(params)
    for name, x in params.items():

        def f(z, name=name):
            return value_and_grad(estimator, X, y, {**params, name: z}, **options)[0]

        # a short step: rows may be close to their margins
        expected = central_difference(f, x, 2e-5)
        assert gradient[name] == pytest.approx(expected, rel=1e-5, abs=1e-8), name


def weights(y):
    return np.random.default_rng(0).uniform(0.3, 2.0, len(y))


@pytest.mark.parametrize("scoring", ["accuracy", "roc_auc", "neg_log_loss"])
@pytest.mark.parametrize("kind", [*CLASSIFIERS, *TWO_CLASSES])
def test_two_classes(kind, scoring):
    estimator, params = {**CLASSIFIERS, **TWO_CLASSES}[kind]
    X, y = make_data(2)
    params = {**params, "threshold": 0.2}
    assert_estimator_exact(estimator, X, y, params, scoring=scoring, sample_weight=weights(y))


@pytest.mark.parametrize("class_weight", [None, {0: 0.5, 2: 3.0}, "balanced"])
@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_three_classes_one_against_the_rest(kind, class_weight):
    estimator, params = CLASSIFIERS[kind]
    X, y = make_data(3)
    estimator = type(estimator)(**{**estimator.get_params(), "class_weight": class_weight})
    assert_estimator_exact(estimator, X, y, params, sample_weight=weights(y))
    assert_estimator_exact(estimator, X, y, params, scoring="f1_macro")


@pytest.mark.parametrize(
    ("kind", "n_classes"),
    [
        ("LinearSVC", 2),
        ("LinearSVC", 3),
        ("LinearSVC, hinge", 2),
        ("LinearSVC, hinge", 3),
        ("LogisticRegression", 2),
    ],
)
def test_weights_of_classes_are_hyperparameters(kind, n_classes):
    estimator, params = {**CLASSIFIERS, **TWO_CLASSES}[kind]
    X, y = make_data(n_classes)
    at = {k: 0.6 + 0.5 * k for k in range(n_classes)}
    options = {"cv": CV, "tol": TOL}
    _, gradient = value_and_grad(estimator, X, y, {**params, "class_weight": at}, **options)
    for k, x in at.items():

        def f(z, k=k):
            moved = {**params, "class_weight": {**at, k: z}}
            return value_and_grad(estimator, X, y, moved, **options)[0]

        expected = central_difference(f, x, 2e-5)
        assert gradient["class_weight"][k] == pytest.approx(expected, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("kind", REGRESSORS)
@pytest.mark.parametrize("scoring", ["r2", "neg_mean_absolute_error"])
def test_regressors(kind, scoring):
    estimator, params = REGRESSORS[kind]
    X, y = make_data(0)
    assert_estimator_exact(estimator, X, y, params, scoring=scoring, sample_weight=weights(y))


def test_several_targets_of_ridge():
    X, y = make_data(0)
    Y = np.column_stack([y, np.sin(y), 2 * y + X[:, 0]])
    assert_estimator_exact(Ridge(), X, Y, {"alpha": 3.0})


def test_transformers_inside_the_folds():
    X, y = make_data(3)
    model = make_pipeline(StandardScaler(), LinearSVC())
    assert_estimator_exact(model, 3.0 * X + 5.0, y, {"linearsvc__C": 0.3})


@pytest.mark.parametrize("kind", REGRESSORS)
@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_gradients_do_not_depend_on_the_unit_of_the_targets(kind, unit):
    estimator, params = REGRESSORS[kind]
    X, y = make_data(0)
    moved = {n: v * unit if n == "epsilon" else v for n, v in params.items()}
    if kind == "LinearSVR":  # its cost has the unit of the targets
        moved["C"] *= unit
    value, gradient = value_and_grad(estimator, X, y, params, scoring="r2", cv=CV)
    other, scaled = value_and_grad(estimator, X, unit * y, moved, scoring="r2", cv=CV)
    assert other == pytest.approx(value, rel=1e-4)
    for name in params:
        a, b = gradient[name] * params[name], scaled[name] * moved[name]
        assert b == pytest.approx(a, rel=1e-2, abs=1e-4)


@pytest.mark.parametrize("n_features", [200, 590, 1000])
@pytest.mark.parametrize("C", [0.05, 1.0])
def test_outputs_that_hardly_move_have_exact_gradients(C, n_features):
    """With more features than rows, and costs at which the rows are on their margins."""
    rng = np.random.default_rng(1)
    X, groups = rng.normal(size=(40, n_features)), rng.integers(0, 2, 40)
    y = (X[:, 0] + 0.5 * rng.normal(size=40) > 0).astype(int)
    estimator = LinearClassifier(loss="modified_huber")

    def loss(cost, tol):
        params = {"C": C, "group_cost": {0: cost, 1: 0.7}}
        return value_and_grad(estimator, X, y, params, cv=3, cost_groups=groups, tol=tol)

    expected = central_difference(lambda cost: loss(cost, 1e-13)[0], 1.5, 1e-3)
    assert loss(1.5, 1e-6)[1]["group_cost"][0] == pytest.approx(expected, rel=1e-3)


def test_rows_beside_a_corner_are_not_held_there():
    """A row hardly off the margin may move; those on it may not."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(40, 3))
    y = np.where(X @ [1.0, -1.0, 0.7] + rng.normal(size=40) > 0, 1, -1)
    model = LinearSVC(loss="hinge", C=0.5, tol=1e-10, max_iter=1_000_000).fit(X[:30], y[:30])
    on = np.flatnonzero(np.abs(1 - y * model.decision_function(X))[:30] < 1e-6)
    assert len(on)
    beside = X[on].copy()
    beside[:, 2] += 1e-10 * y[on] * np.sign(model.coef_[0, 2])
    X, y, n = np.vstack([beside, X]), np.concatenate([y[on], y]), 30 + len(on)

    def at(C):
        split = [(np.arange(n), np.arange(n, n + 10))]
        return value_and_grad(LinearSVC(loss="hinge"), X, y, {"C": C}, cv=split, tol=1e-12)

    expected = central_difference(lambda C: at(C)[0], 0.5, 1e-6)
    assert at(0.5)[1]["C"] == pytest.approx(expected, rel=1e-4)
