"""What cannot be is refused in one sentence, on one line."""

import numpy as np
import pytest
from helpers import make_data, quick
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC


def test_folds_with_rows_that_are_not_there():
    X, y = make_data(2)
    cv = [(np.arange(40), np.arange(40, 60)), (np.arange(40), [10**6])]
    with pytest.raises(ValueError, match="fold 1 of cv names rows that X, with 60 rows"):
        quick(SVC(), cv=cv).fit(X, y)


def test_an_estimator_with_a_long_name():
    X, y = make_data(2)
    model = make_pipeline(StandardScaler(), PCA(2), SVC(C=30.0, tol=1e-5, gamma=0.3))
    with pytest.raises(ValueError, match="svc__colour") as caught:
        quick(model, {"svc__colour": (1.0, 2.0)}).fit(X, y)
    assert "\n" not in str(caught.value)
