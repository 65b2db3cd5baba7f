"""What a fitted search says of Dask collections: what it says of arrays, block by block."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from hypermargin import GradientSearchCV, LinearClassifier

X, NUMBERS = make_classification(90, 4, flip_y=0.2, random_state=0)
X = X * [1.0, 5.0, 0.1, 1.0] + [0.0, 3.0, 0.0, -2.0]
Y = np.where(NUMBERS > 0, "yes", "no")
XD, YD = da.from_array(X, chunks=((40, 0, 50), 2)), da.from_array(Y, chunks=30)


@pytest.fixture(autouse=True)
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def fitted(estimator, space=None, **how):
    return GradientSearchCV(estimator, space, **{"cv": 3, "max_evals": 2, **how}).fit(X, Y)


SEARCHES = {
    "a pipeline": (make_pipeline(StandardScaler(), LogisticRegression()), {}),
    "a sigmoid of outputs": (LinearSVC(), {"scoring": "neg_log_loss"}),
    "a threshold that wraps": (
        LinearSVC(), {"space": {"C": (0.01, 1.0), "threshold": [0.4]}, "scoring": "f1_macro"},
    ),
    "a threshold of its own": (LinearClassifier(threshold=0.4), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", SEARCHES)
def test_collections_are_answered_as_arrays_are(name):
    estimator, how = SEARCHES[name]
    search = fitted(estimator, **how)
    frame = dd.from_pandas(pd.DataFrame(X), npartitions=2)
    for method in ("predict", "decision_function", "predict_proba", "predict_log_proba"):
        expected = getattr(search, method)(X)
        for rows in (XD, frame):
            found = getattr(search, method)(rows)
            assert dask.is_dask_collection(found)
            if expected.dtype.kind == "f":
                np.testing.assert_allclose(found.compute(), expected, rtol=1e-12)
            else:
                np.testing.assert_array_equal(found.compute(), expected)
    assert float(search.score(XD, YD)) == pytest.approx(search.score(X, Y), rel=1e-12)


def test_certain_errors_cost_as_much_as_in_scikit_learn():
    search = fitted(LogisticRegression(), scoring="neg_log_loss")
    search.best_estimator_.coef_ *= 1e6
    assert float(search.score(XD, YD)) == pytest.approx(search.score(X, Y), rel=1e-12)


def test_scores_take_weights_where_they_are_routed():
    weight = np.linspace(0.0, 2.0, len(Y))
    on_blocks = {"sample_weight": da.from_array(weight, chunks=45)}
    search = fitted(LinearSVC())
    with pytest.raises(ValueError, match="sample_weight"):
        search.score(XD, YD, **on_blocks)
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = sklearn.metrics.make_scorer(sklearn.metrics.f1_score, pos_label="yes")
        search = fitted(LinearSVC(), scoring=scorer.set_score_request(sample_weight=True))
        found = float(search.score(XD, YD, **on_blocks))
        assert found == pytest.approx(search.score(X, Y, sample_weight=weight), rel=1e-12)


def test_rows_of_another_shape_are_refused():
    search = fitted(LinearSVC())
    with pytest.raises(ValueError, match="X has 3 features, but LinearSVC is expecting 4"):
        search.predict(XD[:, :3])
    with pytest.raises(ValueError, match="X has 1 dimensions, but LinearSVC is expecting 4"):
        search.predict(XD[:, 0])
    with pytest.raises(ValueError, match=r"y has the shape \(40, 2\) where X has 40 rows"):
        search.score(XD, da.stack([YD, YD], axis=1)).compute()
    with pytest.raises(AttributeError, match="refit=False"):
        fitted(LinearSVC(), refit=False).score(XD, YD)
