"""Data, folds and metadata in the forms that GridSearchCV takes give what GridSearchCV gives."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_iris
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import GridSearchCV, ParameterGrid
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC

from hypermargin import GradientSearchCV


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def mean_absolute(y, predicted):
    return np.mean(np.abs(y - predicted))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("form", [lambda y: y[:, None], lambda y: pd.DataFrame({"kind": y})])
@pytest.mark.parametrize("estimator", [SVC(), LinearSVC(), RidgeClassifier()], ids=str)
def test_labels_in_one_column_are_labels(iris, estimator, form, weighted):
    X, y = iris
    weight = np.linspace(1.0, 2.0, len(y)) if weighted else None
    name = "alpha" if isinstance(estimator, RidgeClassifier) else "C"
    ours = GradientSearchCV(estimator, {name: [0.5]}).fit(X, form(y), sample_weight=weight)
    theirs = GridSearchCV(estimator, {name: [0.5]}).fit(X, form(y), sample_weight=weight)
    assert ours.best_score_ == pytest.approx(theirs.best_score_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@pytest.mark.filterwarnings("ignore:scoring=mean_absolute has no smooth form")
@pytest.mark.parametrize("estimator", [KernelRidge(), Ridge(), SVR(kernel="linear")], ids=str)
def test_targets_in_one_column_are_compared_with_predictions_as_the_estimator_makes_them(estimator):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = (X @ [1.0, 2.0, 3.0])[:, None]
    scoring = make_scorer(mean_absolute, greater_is_better=False)
    space = {"alpha" if hasattr(estimator, "alpha") else "C": [1.0]}
    ours = GradientSearchCV(estimator, space, scoring=scoring).fit(X, y)
    theirs = GridSearchCV(estimator, space, scoring=scoring).fit(X, y)
    assert ours.best_score_ == pytest.approx(theirs.best_score_, rel=1e-2)


def test_combinations_come_in_the_order_of_ParameterGrid(iris):
    X, y = iris
    grid = {"kernel": ["rbf", "linear"], "C": [0.1, 1.0, 10.0], "gamma": [0.01, 0.1]}
    ours = GradientSearchCV(SVC(), grid, cv=3).fit(X, y)
    theirs = GridSearchCV(SVC(), grid, cv=3).fit(X, y)
    assert ours.cv_results_["params"] == list(ParameterGrid(grid))
    # what is reshaped by the sorted names means the same
    np.testing.assert_allclose(
        ours.cv_results_["mean_test_score"].reshape(3, 2, 2),
        theirs.cv_results_["mean_test_score"].reshape(3, 2, 2),
    )


def test_routing_without_metadata_ends(iris, routing):
    X, y = iris
    pipeline = make_pipeline(StandardScaler(), SVC())
    search = GradientSearchCV(pipeline, {"svc__C": [0.5, 1.0]}).fit(X, y)
    grid = GridSearchCV(pipeline, {"svc__C": [0.5, 1.0]}).fit(X, y)
    assert search.best_score_ == pytest.approx(grid.best_score_)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("nested", [False, True])
def test_routed_weights_reach_the_end_of_a_pipeline(iris, routing, scaled, nested):
    X, y = iris
    X, y = X[50:], y[50:]
    weight = np.where(y == 1, 5.0, 0.5)
    before = [StandardScaler().set_fit_request(sample_weight=True)] if scaled else []
    pipeline = make_pipeline(*before, SVC(C=0.05).set_fit_request(sample_weight=True))
    if nested:
        pipeline = make_pipeline(pipeline)
    name = next(n for n in pipeline.get_params() if n.endswith("svc__gamma"))
    scoring = make_scorer(accuracy_score).set_score_request(sample_weight=False)
    given = pipeline, {name: [0.05]}
    ours = GradientSearchCV(*given, scoring=scoring).fit(X, y, sample_weight=weight)
    theirs = GridSearchCV(*given, scoring=scoring).fit(X, y, sample_weight=weight)
    plain = GradientSearchCV(*given, scoring=scoring).fit(X, y)
    assert ours.best_score_ == pytest.approx(theirs.best_score_)
    assert ours.best_score_ != pytest.approx(plain.best_score_)


def test_weights_reach_every_part_of_pipelines_inside_pipelines(iris):
    X, y = iris
    X, y = X[50:], y[50:]
    inner = Pipeline([("a", StandardScaler()), ("svc", SVC(C=0.05))])
    outer = Pipeline([("a", StandardScaler()), ("b", inner)])
    weight = np.where(y == 1, 5.0, 0.5)
    grid, scoring = {"b__svc__gamma": [0.05]}, make_scorer(accuracy_score)
    scores = []
    for names in (["b__svc"], ["a"], ["b__a"], ["a", "b__a", "b__svc"], []):
        given = {f"{name}__sample_weight": weight for name in names}
        ours = GradientSearchCV(outer, grid, scoring=scoring).fit(X, y, **given)
        theirs = GridSearchCV(outer, grid, scoring=scoring).fit(X, y, **given)
        assert ours.best_score_ == pytest.approx(theirs.best_score_)
        np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
        scores.append(ours.best_score_)
    assert len(set(scores)) > 2
    with pytest.raises(TypeError, match="unexpected parameter 'b__c__sample_weight'"):
        GradientSearchCV(outer, grid).fit(X, y, b__c__sample_weight=weight)


class Recorder(TransformerMixin, BaseEstimator):
    """A stateless transformer that notes what it is given."""

    seen: list = []

    def fit(self, X, y=None):
        self.seen.append((type(X), type(y)))
        return self

    def transform(self, X):
        return np.asarray(X, dtype=float)


@pytest.mark.parametrize("form", [list, pd.Series, np.asarray])
def test_transformers_get_targets_of_the_same_type_in_folds_and_refit(iris, form):
    X, y = iris
    Recorder.seen.clear()
    GradientSearchCV(make_pipeline(Recorder(), SVC()), {"svc__C": [1.0]}).fit(X, form(y))
    assert len(Recorder.seen) == 6
    assert {kind for _, kind in Recorder.seen} == {type(form(y))}


@pytest.mark.parametrize("last", [FunctionTransformer(np.log1p), Recorder()], ids=str)
def test_a_stateless_transformer_may_come_just_before_the_machine(iris, last):
    X, y = iris
    pipeline = Pipeline([("scale", StandardScaler(with_mean=False)), ("last", last), ("m", SVC())])
    ours = GradientSearchCV(pipeline, {"m__C": [1.0]}).fit(X, y)
    theirs = GridSearchCV(pipeline, {"m__C": [1.0]}).fit(X, y)
    assert ours.best_score_ == pytest.approx(theirs.best_score_)
    assert (ours.predict_proba(X).argmax(axis=1) == ours.predict(X)).all()


def test_probabilities_of_nested_pipelines_pass_all_transformers(iris):
    X, y = iris
    inner = make_pipeline(StandardScaler(), SVC())
    search = GradientSearchCV(make_pipeline(FunctionTransformer(np.log1p), inner)).fit(X, y)
    assert (search.predict_proba(X).argmax(axis=1) == search.predict(X)).all()
