"""Containers of data and labels: frames, sparse arrays, any names, precomputed kernels."""

from functools import partial

import numpy as np
import pytest
from helpers import C_GAMMA, CASES, quick, svc
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import cross_val_score

# The searches below are cut short on purpose; what they warn about is tested by name where
# it matters.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


# Data
# ----


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_keep_their_names(fitted, binary, library):
    frames = pytest.importorskip(library)
    X, y = binary
    frame = frames.DataFrame({name: X[:, i] for i, name in enumerate("abcd")})
    search = quick(svc(), C_GAMMA).fit(frame, frames.Series(y))
    assert list(search.feature_names_in_) == list("abcd")
    assert list(search.best_estimator_.feature_names_in_) == list("abcd")
    assert_array_equal(search.predict(frame), fitted.predict(X))
    assert_allclose(search.cv_results_["mean_test_score"], fitted.cv_results_["mean_test_score"])
    if library == "pandas":
        with pytest.raises(ValueError, match="feature names"):
            search.predict(frame.rename(columns={"a": "z"}))


def test_a_shuffled_index_of_a_data_frame_is_not_taken_for_positions(fitted, binary):
    pd = pytest.importorskip("pandas")
    X, y = binary
    index = np.random.RandomState(0).permutation(80)
    search = quick(svc(), C_GAMMA).fit(pd.DataFrame(X, index=index), pd.Series(y, index=index))
    assert_allclose(search.cv_results_["mean_test_score"], fitted.cv_results_["mean_test_score"])


@pytest.mark.parametrize(
    "make", [sparse.csr_array, sparse.csr_matrix, sparse.csc_matrix, sparse.coo_array]
)
@pytest.mark.parametrize("kind", ["svc", "svr", "kernel ridge"])
def test_sparse_data_give_the_result_of_dense_data(request, kind, make):
    estimator, space, data = CASES[kind]
    X, y = request.getfixturevalue(data)
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    dense = quick(estimator, space, max_evals=3).fit(X, y)
    thin = quick(estimator, space, max_evals=3).fit(make(X), y)
    assert_allclose(
        dense.cv_results_["mean_test_score"],
        thin.cv_results_["mean_test_score"],
        rtol=1e-2,
        atol=0.02,
    )
    for name, value in dense.best_params_.items():
        assert thin.best_params_[name] == pytest.approx(value, rel=1e-2)
    assert_allclose(thin.predict(sparse.csr_array(X)), dense.predict(X), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    "turn",
    [
        np.ndarray.tolist,
        np.asfortranarray,
        partial(np.asarray, dtype=np.float32),
        lambda X: np.repeat(X, 2, axis=0)[::2],
        lambda X: X.astype(object),
    ],
    ids=["lists", "columns first", "single", "strided", "object"],
)
def test_numbers_may_come_in_any_array(fitted, binary, turn):
    X, y = binary
    search = quick(svc(), C_GAMMA).fit(turn(X), y.tolist())
    assert_allclose(
        search.cv_results_["mean_test_score"], fitted.cv_results_["mean_test_score"], atol=0.03
    )


def test_whole_numbers_are_fine(binary):
    X, y = (binary[0] * 3).astype(int), binary[1]
    search = quick(svc(), C_GAMMA).fit(X, y)
    assert search.best_score_ > 0.5


# Labels
# ------


@pytest.mark.parametrize(
    "names",
    [
        np.array(["no", "yes"]),
        np.array(["no", "yes"], dtype=object),
        np.array([False, True]),
        np.array([-1, 1]),
        np.array([1.0, 2.0]),
        np.array([7, 300], dtype=np.int16),
    ],
    ids=["text", "object", "bool", "signs", "floats", "integers"],
)
def test_labels_may_have_any_names(fitted, binary, names):
    X, y = binary
    search = quick(svc(), C_GAMMA).fit(X, names[y])
    assert_array_equal(search.classes_, names)
    assert_array_equal(search.predict(X), names[fitted.predict(X)])
    assert_allclose(search.cv_results_["mean_test_score"], fitted.cv_results_["mean_test_score"])


@pytest.mark.parametrize("dtype", ["category", "string", "object"])
def test_labels_may_be_a_column_of_any_kind(fitted, binary, dtype):
    pd = pytest.importorskip("pandas")
    X, y = binary
    search = quick(svc(), C_GAMMA).fit(X, pd.Series(np.array(["no", "yes"])[y]).astype(dtype))
    assert_array_equal(search.predict(X), np.array(["no", "yes"])[fitted.predict(X)])
    assert_allclose(search.cv_results_["mean_test_score"], fitted.cv_results_["mean_test_score"])


def test_several_classes_may_have_any_names(three_classes):
    X, y = three_classes
    names = np.array(["a", "b", "c"])
    plain = quick(svc(), C_GAMMA).fit(X, y)
    search = quick(svc(), C_GAMMA).fit(X, names[y])
    assert_array_equal(search.predict(X), names[plain.predict(X)])
    assert search.best_score_ == plain.best_score_


def test_swapping_the_two_classes_changes_nothing(binary):
    X, y = binary
    one = quick(svc(), C_GAMMA).fit(X, y)
    two = quick(svc(), C_GAMMA).fit(X, 1 - y)
    assert two.best_score_ == pytest.approx(one.best_score_, abs=0.03)


# Precomputed kernels
# -------------------


@pytest.mark.parametrize("kind", ["svc", "svr", "kernel ridge"])
def test_a_precomputed_kernel_gives_what_the_kernel_gives(request, kind):
    estimator, space, data = CASES[kind]
    X, y = request.getfixturevalue(data)
    space = {name: bounds for name, bounds in space.items() if name != "gamma"}
    K = rbf_kernel(X, gamma=0.3)
    plain = quick(clone(estimator).set_params(gamma=0.3), space).fit(X, y)
    search = quick(clone(estimator).set_params(kernel="precomputed"), space).fit(K, y)
    assert_allclose(
        search.cv_results_["mean_test_score"],
        plain.cv_results_["mean_test_score"],
        rtol=1e-2,
        atol=0.02,
    )
    assert_allclose(search.predict(K), plain.predict(X), rtol=1e-2, atol=1e-2)
    assert set(search.best_params_) == set(space)


def test_a_precomputed_kernel_needs_no_space(binary):
    X, y = binary
    search = quick(svc(kernel="precomputed")).fit(rbf_kernel(X, gamma=0.3), y)
    assert list(search.best_params_) == ["C"]


def test_a_precomputed_kernel_is_cut_in_both_directions_by_cross_validation(binary):
    X, y = binary
    search = quick(svc(kernel="precomputed"), {"C": (1e-1, 1e1)}, max_evals=2)
    scores = cross_val_score(search, rbf_kernel(X, gamma=0.3), y, cv=2, error_score="raise")
    assert np.all(scores > 0.4)
