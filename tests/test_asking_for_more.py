"""Who asks for a finer search on many rows gets one."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.svm import SVC

from hypermargin import GradientSearchCV


@pytest.fixture(scope="module")
def many_rows():
    return make_classification(4000, 5, flip_y=0.1, class_sep=0.8, random_state=3)


def searched(data, **arguments):
    search = GradientSearchCV(SVC(), cv=3, refit=False, random_state=0, **arguments)
    return search.fit(*data)


def test_finer_tol_means_more_evaluations_and_a_flatter_end(many_rows):
    usual = searched(many_rows)
    finer = searched(many_rows, tol=1e-6, max_evals=200)
    losses = [np.asarray(search.cv_results_["objective"]) for search in (usual, finer)]
    assert len(losses[1]) > 2 * len(losses[0])
    # the loss is rough: a chance hit of few evaluations may be lower by a tenth of a percent
    assert losses[1].min() < 1.001 * losses[0].min()
    norms = [np.nanmin(search.cv_results_["gradient_norm"]) for search in (usual, finer)]
    assert norms[1] < norms[0]


def test_finer_tol_trains_machines_finer_on_the_way(many_rows):
    usual = searched(many_rows)
    finer = searched(many_rows, tol=1e-4)
    on_the_way = [
        max(r["tol"] for r in search.history_ if r["gradient"] is not None)
        for search in (usual, finer)
    ]
    assert on_the_way[1] < on_the_way[0]


def test_max_evals_limits_a_finer_search(many_rows):
    limited = searched(many_rows, tol=1e-6, max_evals=4)
    assert len(limited.cv_results_["objective"]) <= 4
