"""Costs and margins of single classes, thresholds, probabilities, undefined measures."""

import warnings

import numpy as np
import pytest
from helpers import central_difference, imbalanced, make_data
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import FixedThresholdClassifier, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from hypermargin import GradientSearchCV, KernelSVC, value_and_grad
from hypermargin.criteria import CRITERIA, PrecisionAtRecall, WeightedError
from hypermargin.criteria.probability import calibrated

FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)


def mail(n=300, seed=0):
    X, y = imbalanced(n, seed)
    return X, np.array(["ham", "spam"])[y]


# --- the cost, or the margin, of some classes


@pytest.mark.parametrize("n", [300, 1200], ids=["libsvm refits", "we refit"])
@pytest.mark.parametrize("own", [None, {"ham": 0.5}])
def test_the_cost_of_one_class_is_tied_to_c_by_a_ratio(n, own):
    X, y = mail(n)
    space = {"C": None, "class_weight": {"spam": (0.5, 50.0)}}
    search = GradientSearchCV(SVC(class_weight=own), space, scoring="balanced_accuracy", cv=3)
    search.fit(X, y)
    weights = search.best_params_["class_weight"]
    assert weights["ham"] == (own or {}).get("ham", 1.0)
    assert 1.5 < weights["spam"] <= 50.0
    assert set(search.history_[-1]["gradient"]) == {"C", "class_weight"}
    assert set(search.history_[-1]["gradient"]["class_weight"]) == {"spam"}
    cold = SVC(**search.best_params_).fit(X, y).decision_function(X)
    np.testing.assert_allclose(search.decision_function(X), cold, atol=0.01)


@pytest.mark.parametrize("own", [None, (2.0, 3.0), {0: 2.0, 1: 3.0}])
@pytest.mark.parametrize("name", ["class_cost", "margin"])
def test_values_of_other_classes_stay(name, own):
    X, y = make_data(2)
    own = 1.0 if own is None and name == "margin" else own
    search = GradientSearchCV(
        KernelSVC(**{name: own}), {"C": None, name: {1: (0.5, 2.0)}}, cv=3, max_evals=3
    ).fit(X, y)
    for params in search.cv_results_["params"]:
        assert params[name][0] == (1.0 if own in (None, 1.0) else 2.0)
        assert 0.5 <= params[name][1] <= 2.0
    assert getattr(search.best_estimator_, name) == search.best_params_[name]


def test_some_of_many_classes_in_a_pipeline():
    X, y = make_data(4, n=120)
    model = make_pipeline(StandardScaler(), SVC())
    space = {"svc__C": None, "svc__class_weight": {0: (0.2, 5.0), 3: None}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a weight on its bound
        search = GradientSearchCV(model, space, cv=3, max_evals=4).fit(X, y)
    weights = search.best_params_["svc__class_weight"]
    assert list(weights) == [0, 1, 2, 3]
    assert weights[1] == weights[2] == 1.0
    assert 0.2 <= weights[0] <= 5.0
    assert search.best_estimator_[-1].class_weight == weights


def test_a_balanced_class_weight_stays_that_of_all_rows():
    X, y = mail()
    search = GradientSearchCV(
        SVC(class_weight="balanced"), {"C": None, "class_weight": {"spam": (1.0, 9.0)}}, cv=3
    ).fit(X, y)
    expected = len(y) / (2 * np.count_nonzero(y == "ham"))
    assert search.best_params_["class_weight"]["ham"] == pytest.approx(expected)


def test_a_bound_is_named_as_the_user_does():
    X, y = mail()
    space = {"C": (0.1, 10.0), "class_weight": {"spam": (0.1, 0.2)}}
    with pytest.warns(UserWarning, match=r"class_weight\['spam'\]=0.2 is on the bound 0.2"):
        GradientSearchCV(SVC(), space, scoring="recall_macro", cv=3).fit(X, y)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"eggs": None}, r"class_weight names 'eggs', .* classes \['ham', 'spam'\]"),
        ({}, "class_weight is an empty dict"),
        ({"spam": (0.0, 1.0)}, r"space\['class_weight'\]\['spam'\] has lower bound 0.0"),
        ({"spam": 3.0}, r"space\['class_weight'\]\['spam'\]=3.0 is not understood"),
        ({"spam": [1.0, 2.0]}, r"\['spam'\]=\[1.0, 2.0\] is a list"),
    ],
)
def test_bad_ranges_of_classes_are_named(spec, message):
    X, y = mail()
    with pytest.raises((TypeError, ValueError), match=message):
        GradientSearchCV(SVC(), {"C": None, "class_weight": spec}, cv=3).fit(X, y)


def test_a_dict_is_for_what_classes_have():
    X, y = mail()
    with pytest.raises(TypeError, match=r"space\['C'\]=\{'spam': .*\} is not understood"):
        GradientSearchCV(SVC(), {"C": {"spam": (1.0, 2.0)}}, cv=3).fit(X, y)


def test_ranges_of_all_costs_do_not_hang_on_a_c_that_is_not_tuned():
    X, y = mail()
    one, many = (
        GradientSearchCV(SVC(C=C), {"class_weight": None}, cv=3, max_evals=3).fit(X, y)
        for C in (1.0, 100.0)
    )
    for label, weight in one.best_params_["class_weight"].items():
        assert many.best_params_["class_weight"][label] == pytest.approx(weight / 100, rel=1e-6)


# --- listed thresholds


@pytest.mark.parametrize("scoring", ["f1_macro", lambda model, X, y: model.score(X, y)])
def test_thresholds_can_be_listed(scoring):
    X, y = mail()
    space = {"threshold": [-0.5, 0.0, 0.5], "C": (0.1, 10.0)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no smooth form of a plain function
        search = GradientSearchCV(SVC(), space, scoring=scoring, cv=FOLDS, max_evals=3).fit(X, y)
    table = search.cv_results_
    assert set(table["param_threshold"]) == {-0.5, 0.0, 0.5}
    assert isinstance(search.best_estimator_, FixedThresholdClassifier)
    for params, score in zip(table["params"], table["split0_test_score"], strict=True):
        train, test = next(FOLDS.split(X, y))
        outputs = SVC(C=params["C"], tol=1e-6).fit(X[train], y[train]).decision_function(X[test])
        predicted = np.where(outputs >= params["threshold"], "spam", "ham")
        expected = np.mean(y[test] == predicted)
        if scoring == "f1_macro":
            expected = f1_score(y[test], predicted, average="macro")
        assert score == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize(
    ("estimator", "threshold", "message"),
    [
        (SVC(), "high", "space\\['threshold'\\] lists 'high'; it must be a finite number"),
        (SVC(), np.nan, "lists nan; it must be a finite number"),
        (make_pipeline(KernelSVC()), 0.1, "Invalid parameter 'threshold'"),
    ],
)
def test_listed_thresholds_are_checked(estimator, threshold, message):
    X, y = mail()
    with pytest.raises(ValueError, match=message):
        GradientSearchCV(estimator, {"threshold": [threshold]}, cv=3).fit(X, y)


def test_listed_thresholds_are_for_two_classes():
    X, y = make_data(3)
    with pytest.raises(ValueError, match="threshold is for two classes; y has 3"):
        GradientSearchCV(SVC(), {"threshold": [0.1], "C": None}, cv=3).fit(X, y)


# --- the hypergradient


def moved(params, name, key, z):
    """Return the params with one number replaced."""
    value = params[name]
    if key is None:
        return {**params, name: z}
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[key] = z
    return {**params, name: copied}


@pytest.mark.parametrize("pooled", [True, False])
@pytest.mark.parametrize(
    ("estimator", "params", "criterion"),
    [
        (KernelSVC(), {"C": 1.3, "class_cost": (0.8, 1.5), "margin": {1: 1.2}}, "f1"),
        (KernelSVC(class_cost=(1.0, 2.0)), {"class_cost": {0: 0.7}, "margin": 1.1}, "roc_auc"),
        (SVC(), {"C": 1.3, "gamma": 0.3, "threshold": 0.1}, WeightedError(eta=0.3)),
        # with a whole number of rows to be found, the threshold could be anywhere between two
        (SVC(class_weight={0: 2.0}), {"class_weight": {1: 1.7}}, PrecisionAtRecall(recall=0.66)),
        (make_pipeline(SVC()), {"svc__class_weight": [0.8, 1.7], "threshold": -0.2}, "accuracy"),
        (KernelSVC(loss="logistic"), {"C": 2.0, "threshold": 0.1}, "neg_log_loss"),
    ],
)
def test_the_hypergradient_takes_criteria_and_values_by_class(estimator, params, criterion, pooled):
    X, y = make_data(2)
    options = {"criterion": criterion, "pooled": pooled, "cv": FOLDS, "tol": 1e-12}

    def loss(params):
        return value_and_grad(estimator, X, y, params, **options)[0]

    value, gradient = value_and_grad(estimator, X, y, params, **options)
    assert list(gradient) == list(params)
    for name, given in params.items():
        keys = [None] if isinstance(given, float) else given
        keys = keys if isinstance(given, dict | float) else range(len(given))
        for key in keys:
            x = given if key is None else given[key]
            expected = central_difference(lambda z: loss(moved(params, name, key, z)), x)  # noqa: B023
            found = gradient[name] if key is None else gradient[name][key]
            assert abs(found - expected) <= 1e-5 * abs(expected) + 1e-7 * value


def test_unnamed_classes_keep_the_estimators_own_value():
    X, y = make_data(2)
    some = value_and_grad(SVC(class_weight={0: 2.0}), X, y, {"class_weight": {1: 3.0}})[0]
    both = value_and_grad(SVC(), X, y, {"class_weight": (2.0, 3.0)})[0]
    assert some == pytest.approx(both, rel=1e-9)


def test_the_hypergradient_agrees_with_the_search():
    X, y = mail()
    options = {"criterion": WeightedError(eta=0.2), "pooled": False, "cv": FOLDS}
    space = {"C": (0.1, 10.0), "class_weight": {"spam": (1.0, 9.0)}, "threshold": (-1.0, 1.0)}
    search = GradientSearchCV(SVC(tol=1e-6), space, max_evals=3, **options).fit(X, y)
    last = search.history_[-1]
    value, gradient = value_and_grad(SVC(), X, y, last["params"], **options)
    assert value == pytest.approx(last["objective"], rel=1e-4)
    assert gradient["threshold"] == pytest.approx(last["gradient"]["threshold"], rel=1e-2)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"class_weight": (1.0, 2.0, 3.0)},
            r"\['class_weight'\].* has 3 values, .* 2 classes",
        ),
        ({"class_weight": {"no": 1.0}}, "class_weight names 'no'"),
        ({"class_weight": {1: 0.0}}, r"params\['class_weight'\]=0.0; it must be a positive number"),
        ({"class_weight": "balanced"}, r"params\['class_weight'\].* "),
        ({"threshold": np.inf}, r"params\['threshold'\]=inf; it must be a finite number"),
        ({"margin": 1.0}, "params names 'margin', which cannot be differentiated"),
    ],
)
def test_bad_points_are_named(params, message):
    X, y = make_data(2)
    with pytest.raises(ValueError, match=message):
        value_and_grad(SVC(), X, y, params)


def test_the_hypergradient_of_a_threshold_is_for_two_classes():
    X, y = make_data(3)
    with pytest.raises(ValueError, match="threshold is for two classes; y has 3"):
        value_and_grad(SVC(), X, y, {"C": 1.0, "threshold": 0.1})


# --- probabilities


@pytest.mark.parametrize("scoring", ["neg_log_loss", "accuracy"])
def test_probabilities_are_calibrated_with_the_weights_of_the_rows(scoring):
    X, y = mail()
    weight = np.where(y == "spam", 5.0, 1.0) * np.random.default_rng(0).uniform(0.5, 1.5, len(y))
    search = GradientSearchCV(
        SVC(tol=1e-6), {"C": (0.5, 2.0)}, scoring=scoring, cv=FOLDS, max_evals=2
    ).fit(X, y, sample_weight=weight)
    outputs = np.empty(len(y))
    for train, test in FOLDS.split(X, y):
        model = SVC(**search.best_params_, tol=1e-6)
        model.fit(X[train], y[train], sample_weight=weight[train])
        outputs[test] = model.decision_function(X[test])
    # every row is doubted a little, as it would be if one more of two rows were wrong
    doubt = 1 / (weight.sum() ** 2 / (weight**2).sum() + 2)
    twice = np.concatenate([(1 - doubt) * weight, doubt * weight])
    other = np.where(y == "spam", "ham", "spam")
    platt = LogisticRegression(C=np.inf, tol=1e-10)
    platt.fit(np.tile(outputs, 2)[:, None], np.concatenate([y, other]), sample_weight=twice)
    expected = platt.predict_proba(outputs[:, None])
    found = search.calibration_.probabilities(outputs[:, None])
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_log_loss_is_scored_with_the_weights_of_the_rows():
    X, y = mail()
    options = {"scoring": "neg_log_loss", "criterion": "accuracy", "cv": FOLDS, "max_evals": 1}
    heavy = np.where(y == "spam", 20.0, 1.0)
    model = make_pipeline(SVC(gamma=0.1))  # weights go to the machine, and not to the scorer
    search = GradientSearchCV(model, {"svc__C": (0.9, 1.1)}, **options)
    plain = search.fit(X, y).best_score_
    assert search.fit(X, y, svc__sample_weight=heavy).best_score_ < plain - 0.1


@pytest.mark.parametrize(
    ("estimator", "space"),
    [
        (SVC(), {"C": None, "threshold": None}),
        (SVC(), {"C": None, "threshold": [0.0]}),
        (SVC(), {"C": None}),
        (make_pipeline(StandardScaler(), SVC()), {"svc__C": None, "threshold": (-1.0, 1.0)}),
        (KernelSVC(), {"C": None, "threshold": None}),
        (KernelSVC(threshold=-0.3), {"C": None}),
        (KernelSVC(), {"C": None}),
    ],
)
def test_predictions_are_a_cut_of_the_probabilities(estimator, space):
    X, y = mail()
    search = GradientSearchCV(estimator, space, scoring="f1_macro", cv=3, max_evals=5).fit(X, y)
    X_new = mail(seed=1)[0]
    above = search.predict_proba(X_new)[:, 1] >= search.probability_cut_
    np.testing.assert_array_equal(search.predict(X_new), search.classes_[above.astype(int)])
    plain = "threshold" not in space and not getattr(estimator, "threshold", 0.0)
    assert (search.probability_cut_ == 0.5) == plain


def test_outputs_that_mislead_give_the_shares_of_the_classes():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 4 // 3
    outputs = rng.normal(size=(40, 1)) - 2.0 * y[:, None]
    found = calibrated(outputs, y, np.ones(40)).probabilities(outputs)
    np.testing.assert_allclose(found, np.tile([0.75, 0.25], (40, 1)))


def test_many_classes_and_other_sigmoids_have_no_cut():
    X, y = make_data(3)
    search = GradientSearchCV(SVC(), {"C": (0.5, 2.0)}, cv=3, max_evals=2).fit(X, y)
    assert search.probability_cut_ is None
    assert search.predict_proba(X).shape == (60, 3)


# --- measures that are undefined


UNDEFINED = [
    name
    for name, criterion in CRITERIA.items()
    if criterion.for_classifiers and criterion.missing(np.array([True, False])) == 1
]


def one_class_in_a_fold():
    X, y = make_data(2, n=90)
    first = np.flatnonzero(y == 0)[:20]
    rest = np.setdiff1d(np.arange(90), first)
    return X, y, [(rest, first), (np.r_[first, rest[:35]], rest[35:])]


def test_measures_of_both_classes_are_known():
    assert {"roc_auc", "average_precision", "neg_log_loss", "neg_brier_score", "f1"} <= {*UNDEFINED}
    assert not {"accuracy", "balanced_accuracy", "weighted_error", "zero_one"} & {*UNDEFINED}


@pytest.mark.parametrize(
    "measure", [*({"criterion": name} for name in UNDEFINED), {"scoring": "roc_auc"}], ids=str
)
def test_a_fold_on_which_a_measure_is_undefined_is_named_at_once(measure):
    X, y, cv = one_class_in_a_fold()
    search = GradientSearchCV(SVC(), {"C": None}, cv=cv, pooled=False, **measure)
    message = "validation rows of fold 0 have none of class 1 .* stratified folds, or pooled=True"
    with pytest.raises(ValueError, match=message):
        search.fit(X, y)
    with pytest.raises(ValueError, match=message):
        value_and_grad(SVC(), X, y, {"C": 1.0}, cv=cv, pooled=False, **measure)
    assert np.isfinite(value_and_grad(SVC(), X, y, {"C": 1.0}, cv=cv, **measure)[0])


@pytest.mark.parametrize(
    "criterion", [n for n, c in CRITERIA.items() if c.for_classifiers and n not in UNDEFINED]
)
def test_other_measures_are_finite_on_a_fold_of_one_class(criterion):
    X, y, cv = one_class_in_a_fold()
    value, gradient = value_and_grad(
        SVC(), X, y, {"C": 1.0}, criterion=criterion, cv=cv, pooled=False
    )
    assert np.isfinite([value, gradient["C"]]).all()


def test_a_class_that_no_fold_validates_on_is_named():
    X, y, cv = one_class_in_a_fold()
    with pytest.raises(ValueError, match="all folds together have none of class 1"):
        GradientSearchCV(SVC(), {"C": None}, scoring="roc_auc", cv=cv[:1]).fit(X, y)
    search = GradientSearchCV(SVC(), {"C": (0.1, 10.0)}, cv=cv[:1], max_evals=2).fit(X, y)
    assert not hasattr(search, "predict_proba")


def test_a_fold_without_weight_is_named():
    X, y = make_data(2)
    cv = list(FOLDS.split(X, y))
    weight = np.ones(len(y))
    weight[cv[1][1]] = 0.0
    search = GradientSearchCV(SVC(), {"C": None}, cv=cv, pooled=False)
    with pytest.raises(ValueError, match="sample_weight of all validation rows of fold 1 is zero"):
        search.fit(X, y, sample_weight=weight)
