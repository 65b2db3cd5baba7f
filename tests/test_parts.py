"""Costs of machines and of groups of rows, tubes of groups: values, gradients, searches, errors."""

import warnings

import numpy as np
import pytest
from helpers import make_data
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from hypermargin import (
    GradientSearchCV,
    KernelSVC,
    KernelSVR,
    LinearClassifier,
    LinearRegressor,
    value_and_grad,
)

FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)
CLASSIFIERS = {"kernel": KernelSVC(tol=1e-8), "linear": LinearClassifier(tol=1e-8)}
REGRESSORS = {"kernel": KernelSVR(tol=1e-8), "linear": LinearRegressor(tol=1e-8)}


def by_source(n_classes, n=90, seed=0):
    """Return data of which a third, from "field", has targets that say little."""
    X, y = make_data(n_classes, n, seed=seed)
    rng = np.random.default_rng(seed)
    source = np.array(["lab", "field", "old"])[rng.integers(0, 3, n)]
    noisy = source == "field"
    y = y.copy()
    y[noisy] = rng.permutation(y[noisy]) + (0 if n_classes else 3 * rng.normal(size=noisy.sum()))
    return X, y, source


# --- what they mean


@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_cost_of_a_group_is_a_weight_of_its_rows(kind, n_classes):
    X, y, source = by_source(n_classes)
    cost = {"lab": 2.0, "field": 0.1}
    grouped = clone(CLASSIFIERS[kind]).set_params(group_cost=cost).fit(X, y, cost_groups=source)
    weight = np.array([cost.get(s, 1.0) for s in source])
    plain = clone(CLASSIFIERS[kind]).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(
        grouped.decision_function(X), plain.decision_function(X), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("kind", REGRESSORS)
def test_groups_of_a_regressor_have_costs_and_tubes(kind):
    X, y, source = by_source(0)
    model = clone(REGRESSORS[kind]).set_params(
        epsilon=0.2, group_cost={"field": 0.5, "old": 3.0}, group_epsilon={"field": 5.0}
    )
    model.fit(X, y, cost_groups=source)
    weight = np.array([{"field": 0.5, "lab": 1.0, "old": 3.0}[s] for s in source])
    tube = np.where(source == "field", 1.0, 0.2)

    def objective(outputs, norm):
        return 0.5 * norm + (weight * np.maximum(np.abs(y - outputs) - tube, 0.0)).sum()

    if kind == "linear":
        w, b = model.coef_, model.intercept_[0]
        best = objective(X @ w + b, w @ w + b * b)
        rng = np.random.default_rng(0)
        for _ in range(200):
            dw, db = 1e-2 * rng.normal(size=len(w)), 1e-2 * rng.normal()
            moved = objective(X @ (w + dw) + b + db, (w + dw) @ (w + dw) + (b + db) ** 2)
            assert best <= moved + 1e-7
    inside = np.abs(y - model.predict(X)) < tube - 1e-4
    if kind == "kernel":  # rows inside their own tube have no coefficient
        assert not np.isin(np.flatnonzero(inside), model.support_).any()
        assert inside[source == "field"].any()


def test_a_machine_of_its_own_cost_is_that_of_its_class_against_the_rest():
    X, y = make_data(3, 90)
    costs = {0: 0.01, 1: 1.0, 2: 30.0}
    model = LinearClassifier(machine_cost=costs, tol=1e-8).fit(X, y)
    for k, cost in costs.items():
        alone = LinearClassifier(C=cost, tol=1e-8).fit(X, y == k)
        np.testing.assert_allclose(model.coef_[k], alone.coef_[0], rtol=1e-5, atol=1e-7)


# --- gradients


@pytest.mark.parametrize("estimator", [*CLASSIFIERS.values(), *REGRESSORS.values()], ids=str)
def test_gradients_by_group_are_exact(estimator):
    classes = 2 if hasattr(estimator, "class_cost") else 0
    X, y, source = by_source(classes)
    params = {"C": 0.7, "group_cost": {"lab": 1.4, "field": 0.3}}
    if not classes:
        params |= {"epsilon": 0.3, "group_epsilon": {"field": 1.7}}
    assert_exact(estimator, X, y, params, cost_groups=source)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_gradients_by_machine_are_exact(loss):
    X, y = make_data(3, 90)
    assert_exact(LinearClassifier(loss=loss), X, y, {"machine_cost": [0.3, 1.0, 4.0]})


def assert_exact(estimator, X, y, params, **options):
    """Compare derivatives by part with central differences."""
    splitter = FOLDS if len(np.unique(y)) < 5 else KFold(3, shuffle=True, random_state=0)
    splits = list(splitter.split(X, y))

    def value(at):
        return value_and_grad(estimator, X, y, at, cv=splits, tol=1e-11, **options)

    _, gradient = value(params)
    for name, given in params.items():
        keys = given.keys() if isinstance(given, dict) else range(np.size(given))
        for key in keys:
            ends = []
            for h in (1e-5, -1e-5):
                moved = dict(given) if isinstance(given, dict) else np.array(given, dtype=float)
                if np.ndim(moved) or isinstance(moved, dict):
                    moved[key] *= 1 + h
                    x, found = given[key], gradient[name][key]
                else:
                    moved, x, found = float(moved * (1 + h)), given, gradient[name]
                ends.append(value({**params, name: moved})[0])
            expected = (ends[0] - ends[1]) / (2e-5 * x)
            assert found == pytest.approx(expected, rel=2e-4, abs=1e-7), (name, key)


# --- searches


@pytest.mark.parametrize("kind", ["kernel", "linear"])
def test_a_search_trusts_the_better_source(kind):
    X, y, source = by_source(0, 200)
    model = {"kernel": KernelSVR(), "linear": LinearRegressor()}[kind]
    space = {"C": None, "epsilon": None, "group_cost": {"field": None}}
    search = GradientSearchCV(model, space, cv=3, max_evals=30).fit(X, y, cost_groups=source)
    found = search.best_params_["group_cost"]
    assert list(found) == ["field", "lab", "old"]
    assert found["lab"] == found["old"] == 1.0
    assert found["field"] < 0.5
    again = clone(model).set_params(**search.best_params_).fit(X, y, cost_groups=source)
    np.testing.assert_allclose(search.predict(X), again.predict(X), atol=0.05)


def test_costs_of_all_groups_take_the_place_of_c():
    X, y, source = by_source(2, 120)
    search = GradientSearchCV(LinearClassifier(), {"group_cost": None}, cv=3, max_evals=20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a cost on its bound
        search.fit(X, y, cost_groups=source)
    assert set(search.best_params_) == {"group_cost"}
    assert list(search.best_params_["group_cost"]) == ["field", "lab", "old"]


def test_every_machine_gets_a_cost_of_its_own():
    X, y = make_data(3, 200)
    shared = GradientSearchCV(LinearClassifier(), criterion="neg_log_loss", cv=FOLDS).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a cost on its bound
        own = GradientSearchCV(
            LinearClassifier(), {"machine_cost": None}, criterion="neg_log_loss", cv=FOLDS
        ).fit(X, y)
    assert len(own.best_params_["machine_cost"]) == 3
    assert min(own.cv_results_["objective"]) <= min(shared.cv_results_["objective"]) + 1e-6
    again = LinearClassifier(**own.best_params_).fit(X, y)
    np.testing.assert_allclose(own.best_estimator_.coef_, again.coef_, rtol=1e-2, atol=1e-3)
    assert list(own.curve_) == ["machine_cost", "score", "std_error"]


def test_costs_of_machines_by_the_curve_and_by_descent_are_equally_good():
    X, y = make_data(4, 400, seed=1)
    options = {"criterion": "neg_log_loss", "cv": FOLDS, "refit": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a cost on its bound
        losses = [
            min(
                GradientSearchCV(LinearClassifier(), {"machine_cost": spec}, **options)
                .fit(X, y)
                .cv_results_["objective"]
            )
            # ranges that differ are for the descent
            for spec in (None, {0: (1e-4, 1e3), 1: (1e-4, 1e3), 2: (1e-4, 1e3), 3: (1e-4, 999.0)})
        ]
    assert losses[0] == pytest.approx(losses[1], rel=0.01)


def test_groups_reach_the_end_of_a_pipeline():
    X, y, source = by_source(2, 100)
    model = make_pipeline(StandardScaler(), LinearClassifier())
    name = "linearclassifier__group_cost"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = GradientSearchCV(model, {name: {"field": (0.01, 1.0)}}, cv=3, max_evals=5)
        search.fit(X, y, linearclassifier__cost_groups=source)
    assert 0.01 <= search.best_params_[name]["field"] <= 1.0


def test_groups_are_routed_to_who_asked_for_them():
    X, y, source = by_source(2, 100)
    with config_context(enable_metadata_routing=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LinearClassifier().set_fit_request(cost_groups=True)
        search = GradientSearchCV(model, {"group_cost": None}, cv=3, max_evals=4)
        search.fit(X, y, cost_groups=source)
    assert set(search.best_params_["group_cost"]) == {"field", "lab", "old"}


def test_a_fold_may_lack_a_group():
    X, y, source = by_source(2, 120)
    source = np.where(np.arange(120) < 5, "rare", source)
    folds = KFold(3)  # the first one trains without the rare group
    model = LinearClassifier(group_cost={"rare": 2.0, "field": 0.5})
    scores = cross_val_score(model, X, y, cv=folds, params={"cost_groups": source})
    assert np.isfinite(scores).all()

    def score(fitted, X, y):
        return fitted.score(X, y)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the surrogate of an own score
        search = GradientSearchCV(
            LinearClassifier(), {"group_cost": None}, cv=folds, scoring=score, max_evals=3
        ).fit(X, y, cost_groups=source)
    assert np.isfinite(search.best_score_)


def test_a_series_is_read_by_its_index():
    pandas = pytest.importorskip("pandas")
    X, y, source = by_source(2)
    fits = [
        LinearClassifier(**{name: given}).fit(X, y, cost_groups=source).coef_
        for name, given in (
            ("class_cost", pandas.Series([9.0, 0.5], index=[1, 0])),
            ("class_cost", {0: 0.5, 1: 9.0}),
        )
    ]
    np.testing.assert_array_equal(*fits)


def test_every_row_may_be_a_group_of_its_own():
    X, y = make_data(2, 3000)
    search = GradientSearchCV(
        LinearClassifier(), {"C": None, "group_cost": {3: (0.5, 2.0)}}, cv=3, max_evals=2
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(X, y, cost_groups=np.arange(3000))
    assert len(search.best_params_["group_cost"]) == 3000


def test_tubes_of_all_groups_have_the_unit_of_the_target():
    X, y, source = by_source(0, 200)
    search = GradientSearchCV(LinearRegressor(), {"C": None, "group_epsilon": None}, cv=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(X, 1e4 * y, cost_groups=source)
    assert max(search.best_params_["group_epsilon"].values()) * 0.1 > 100
    with pytest.raises(ValueError, match=r"epsilon=0\.0 leaves group_epsilon without effect"):
        search.set_params(estimator=LinearRegressor(epsilon=0.0)).fit(X, y, cost_groups=source)


def test_the_order_of_labels_in_a_space_does_not_matter():
    X, y = make_data(3, 100)
    found = []
    for order in ([0, 1, 2], [2, 0, 1]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search = GradientSearchCV(
                LinearClassifier(), {"machine_cost": dict.fromkeys(order)}, cv=FOLDS
            ).fit(X, y)
        found.append((search.best_params_, search.best_score_))
    assert found[0] == found[1]
    at = {2: 3.0, 0: 0.5}
    _, gradient = value_and_grad(LinearClassifier(), X, y, {"machine_cost": at}, cv=FOLDS)
    _, again = value_and_grad(
        LinearClassifier(), X, y, {"machine_cost": dict(sorted(at.items()))}, cv=FOLDS
    )
    assert list(gradient["machine_cost"]) == [2, 0]
    assert gradient == again


def test_the_hypergradient_of_a_pipeline_where_metadata_are_routed():
    X, y, source = by_source(2)
    name, at = "linearclassifier__group_cost", {"lab": 2.0}

    def gradient(machine):
        model = make_pipeline(StandardScaler(), machine)
        return value_and_grad(model, X, y, {name: at}, cost_groups=source, cv=FOLDS)[1]

    plain = gradient(LinearClassifier())
    with config_context(enable_metadata_routing=True):
        routed = gradient(LinearClassifier().set_fit_request(cost_groups=True, sample_weight=True))
    assert plain == routed


# --- what is wrong is said


def test_the_path_is_for_one_cost():
    X, y = make_data(3, 60)
    with pytest.raises(ValueError, match="method='path' is for linear models of which C alone"):
        GradientSearchCV(LinearClassifier(), {"machine_cost": None}, method="path").fit(X, y)


@pytest.mark.parametrize(
    ("model", "space", "given", "message"),
    [
        (LinearClassifier(), {"group_cost": None}, {}, "group_cost needs.*cost_groups"),
        (LinearClassifier(), {"machine_cost": None}, {}, "machine_cost is for more than two"),
        (LinearClassifier(group_cost={"lab": 2.0}), None, {}, "group_cost needs.*cost_groups"),
        (
            KernelSVC(),
            {"machine_cost": None},
            {},
            "'machine_cost'.*cannot be tuned by gradient here",
        ),
        (LinearClassifier(), {"group_cost": {"sea": None}}, "source", "'sea'.*none of the groups"),
        (LinearClassifier(group_cost=[1, 2]), None, "source", "'group_cost'.*must be an instance"),
        (LinearClassifier(group_cost={"sea": 2}), None, "source", "'sea'.*none of the groups"),
        (LinearClassifier(loss="logistic", margin=2.0), None, {}, "margin=2.0 has no effect"),
        (LinearClassifier(), None, "missing", "cost_groups has missing labels"),
        (LinearClassifier(), None, "nothing", "cost_groups has missing labels"),
        (LinearClassifier(), None, "mixed", "cost_groups has labels of several types"),
        (LinearClassifier(), None, "table", r"cost_groups has the shape \(90, 1\)"),
        (LinearClassifier(), None, "short", r"cost_groups has the shape \(89,\)"),
        (LinearClassifier(), {"group_cost": [1]}, {}, "group_cost"),
        (LinearSVC(), None, "source", "cost_groups"),
        (SVC(), None, "source", "cost_groups"),
    ],
)
def test_what_is_wrong_is_named(model, space, given, message):
    X, y, source = by_source(2)
    groups = {
        "source": source,
        "short": source[:-1],
        "missing": np.where(source == "lab", np.nan, 1.0),
        "nothing": np.where(source == "lab", None, source),
        "mixed": np.where(source == "lab", 1, source.astype(object)),
        "table": source[:, None],
    }
    params = {"cost_groups": groups[given]} if given else {}
    with pytest.raises((ValueError, TypeError), match=message):
        GradientSearchCV(model, space, cv=3).fit(X, y, **params)


@pytest.mark.parametrize("model", [KernelSVC(), KernelSVR(), LinearClassifier(), LinearRegressor()])
def test_groups_of_another_length_are_refused_by_fit(model):
    X, y, source = by_source(2)
    with pytest.raises(ValueError, match=r"cost_groups has the shape \(89,\)"):
        model.fit(X, y, cost_groups=source[:-1])
