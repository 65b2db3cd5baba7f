"""Input of linear models, good and bad: the right answer or a clear sentence, and X untouched."""

import warnings
from functools import cache

import numpy as np
import pytest
from helpers import make_data
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.svm import LinearSVC, LinearSVR

from hypermargin import GradientSearchCV, value_and_grad

ESTIMATORS = {
    "LinearSVC": LinearSVC(),
    "LinearSVC, hinge": LinearSVC(loss="hinge"),
    "LogisticRegression": LogisticRegression(),
    "RidgeClassifier": RidgeClassifier(),
    "LinearSVR": LinearSVR(),
    "Ridge": Ridge(),
}


@pytest.fixture(params=ESTIMATORS)
def estimator(request):
    return ESTIMATORS[request.param]


def data_for(estimator, n=60, d=5, seed=0):
    X, y = make_data(2 if is_classifier(estimator) else 0, n=n, d=d, seed=seed)
    return np.where(np.abs(X) > 0.4, X, 0.0), y


def point_of(estimator):
    if isinstance(estimator, LinearSVR):
        return {"C": 0.5, "epsilon": 0.1}
    return {"alpha": 2.0} if "Ridge" in type(estimator).__name__ else {"C": 0.5}


def measure(estimator, X, y, **options):
    return value_and_grad(estimator, X, y, point_of(estimator), cv=3, tol=1e-9, **options)


def assert_same(found, expected):
    assert found[0] == pytest.approx(expected[0], rel=1e-6)
    assert found[1] == pytest.approx(expected[1], rel=1e-4, abs=1e-7)


def quiet(search, *args, **params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        return search.set_params(random_state=0).fit(*args, **params)


# --- forms of X


def unsorted(X):
    X = sparse.csr_matrix(X)
    for i in range(X.shape[0]):
        part = slice(X.indptr[i], X.indptr[i + 1])
        X.indices[part], X.data[part] = X.indices[part][::-1].copy(), X.data[part][::-1].copy()
    X.has_sorted_indices = False
    return X


def with_duplicates(X):
    """Every entry in two halves."""
    X = sparse.csr_matrix(X)
    return sparse.csr_matrix(
        (np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr), shape=X.shape
    )


def with_explicit_zeros(X):
    full = sparse.csr_matrix(np.where(X == 0, 7.0, X))
    full.data[full.data == 7.0] = 0.0
    return full


def long_indices(X):
    X = sparse.csr_matrix(X)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


FORMS = {
    "csr": sparse.csr_matrix,
    "csr array": sparse.csr_array,
    "csc": sparse.csc_matrix,
    "coo": sparse.coo_matrix,
    "unsorted": unsorted,
    "duplicates": with_duplicates,
    "explicit zeros": with_explicit_zeros,
    "64-bit indices": long_indices,
    "columns first": np.asfortranarray,
    "every second row": lambda X: np.repeat(X, 2, axis=0)[::2],
    "lists": lambda X: X.tolist(),
}


def arrays_in(X):
    if sparse.issparse(X):
        names = ("data", "indices", "indptr", "row", "col", "coords")
        found = [getattr(X, name) for name in names if hasattr(X, name)]
        return [np.asarray(part).copy() for part in found]
    return [np.array(X)]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_answer_and_is_not_changed(estimator, form):
    X, y = data_for(estimator)
    given = FORMS[form](X)
    before = arrays_in(given)
    assert_same(measure(estimator, given, y), measure(estimator, X, y))
    for a, b in zip(before, arrays_in(given), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("method", ["auto", "path", "gradient"])
def test_a_search_does_not_change_its_data(estimator, form, method):
    X, y = data_for(estimator)
    alone = isinstance(estimator, LinearSVR) and method == "path"
    space = {"C": None} if alone else None
    given = form(X)
    for array in (given.data, given.indices, given.indptr) if sparse.issparse(given) else (given,):
        array.flags.writeable = False
    y.flags.writeable = False
    search = GradientSearchCV(estimator, space, cv=3, method=method, max_evals=4)
    assert quiet(search, given, y).best_estimator_.coef_.size == X.shape[1]


def test_float32_is_as_good(estimator):
    X, y = data_for(estimator)
    X = X.astype(np.float32)
    for form in (np.asarray, sparse.csr_matrix):
        assert_same(measure(estimator, form(X), y), measure(estimator, X.astype(float), y))


def test_a_read_only_memory_map(estimator, tmp_path):
    X, y = data_for(estimator)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert_same(measure(estimator, mapped, y), measure(estimator, X, y))
    assert (
        quiet(GradientSearchCV(estimator, cv=3, max_evals=4), mapped, y).n_features_in_
        == X.shape[1]
    )


def test_empty_rows_and_columns(estimator):
    X, y = data_for(estimator)
    X[::7] = 0.0
    X[:, 2] = 0.0
    expected = measure(estimator, X[:, [0, 1, 3, 4]], y)
    for form in (np.asarray, sparse.csr_matrix):
        assert_same(measure(estimator, form(X), y), expected)
        search = quiet(GradientSearchCV(estimator, cv=3, max_evals=4), form(X), y)
        assert np.ravel(search.best_estimator_.coef_)[2] == pytest.approx(0.0, abs=1e-12)


def test_nothing_but_zeros(estimator):
    _, y = data_for(estimator)
    for X in (np.zeros((len(y), 3)), sparse.csr_matrix((len(y), 3))):
        value, gradient = measure(estimator, X, y)
        assert np.isfinite(value)
        assert np.isfinite(list(gradient.values())).all()
        search = quiet(GradientSearchCV(estimator, cv=3, max_evals=4), X, y)
        np.testing.assert_allclose(search.best_estimator_.coef_, 0.0, atol=1e-12)


@pytest.mark.parametrize("method", ["curve", "path", "gradient"])
@pytest.mark.parametrize("name", ["LinearSVC", "LinearSVC, hinge", "LogisticRegression", "Ridge"])
def test_wide_sparse_data_are_never_filled(name, method, monkeypatch):
    estimator, rng = ESTIMATORS[name], np.random.default_rng(0)
    n, d = 200, 100_000
    columns = rng.integers(0, d, size=(n, 20))
    y = np.arange(n) % 2
    columns[:, 0] = y  # the word that tells
    X = sparse.csr_matrix(
        (rng.uniform(0.5, 1.0, n * 20), columns.ravel(), np.arange(n + 1) * 20), shape=(n, d)
    )
    for kind in (sparse.csr_matrix, sparse.csr_array):
        for what in ("toarray", "todense"):
            filled = getattr(kind, what)

            def small(self, *args, filled=filled, **params):
                assert self.shape[0] * self.shape[1] < d, "the data were filled"
                return filled(self, *args, **params)

            monkeypatch.setattr(kind, what, small)
    search = GradientSearchCV(estimator, cv=3, method=method, max_evals=4, refit=name != "Ridge")
    quiet(search, X, y if name != "Ridge" else y.astype(float))
    assert search.best_score_ > 0.9 if name != "Ridge" else np.isfinite(search.best_score_)


# --- labels, weights and folds


@pytest.mark.parametrize("name", ["LinearSVC", "LogisticRegression", "RidgeClassifier"])
@pytest.mark.parametrize(
    "labels",
    [[0, 1], [-1, 1], [3, 7], [False, True], ["no", "yes"], [1.0, 2.0], [-(10**12), 10**12]],
    ids=str,
)
def test_labels_of_any_kind(name, labels):
    estimator = ESTIMATORS[name]
    X, y = data_for(estimator)
    named = np.array(labels)[y]
    assert_same(measure(estimator, X, named), measure(estimator, X, y))
    search = quiet(GradientSearchCV(estimator, cv=3), X, named)
    assert search.classes_.tolist() == labels
    assert search.best_estimator_.classes_.dtype == named.dtype
    assert set(search.predict(X)) <= set(labels)


def test_weights_are_repetitions(estimator):
    X, y = data_for(estimator, n=30)
    twice = np.concatenate([np.arange(30), np.arange(0, 30, 2)])
    weight = np.where(np.arange(30) % 2 == 0, 2.0, 1.0)
    folds = [(np.arange(30) % 3 != k, np.arange(30) % 3 == k) for k in range(3)]
    options = {"tol": 1e-9}
    params = point_of(estimator)
    weighed = value_and_grad(estimator, X, y, params, cv=folds, sample_weight=weight, **options)
    folds = [(train[twice], test[twice]) for train, test in folds]
    repeated = value_and_grad(estimator, X[twice], y[twice], params, cv=folds, **options)
    assert_same(weighed, repeated)


def test_rows_without_weight_are_as_good_as_gone(estimator):
    X, y = data_for(estimator, n=40)
    weight = np.ones(40)
    weight[::5] = 0.0
    number = np.arange(40) % 3
    folds = [(np.flatnonzero(number != k), np.flatnonzero(number == k)) for k in range(3)]
    params, kept = point_of(estimator), weight > 0
    found = value_and_grad(estimator, X, y, params, cv=folds, sample_weight=weight, tol=1e-9)
    place = np.cumsum(kept) - 1
    folds = [(place[a[kept[a]]], place[b[kept[b]]]) for a, b in folds]
    expected = value_and_grad(estimator, X[kept], y[kept], params, cv=folds, tol=1e-9)
    assert_same(found, expected)


# --- what cannot be


@pytest.mark.parametrize(
    ("estimator", "sentence"),
    [
        (
            LinearSVC(penalty="l1", dual=False),
            "LinearSVC cannot be differentiated with penalty='l1'",
        ),
        (LinearSVC(multi_class="crammer_singer"), "multi_class='crammer_singer'; use 'ovr'"),
        (Ridge(positive=True), "Ridge cannot be differentiated with positive=True"),
        (RidgeClassifier(positive=True), "RidgeClassifier .* positive=True"),
        (LogisticRegression(l1_ratio=0.5, solver="saga"), "l1_ratio=0.5; use 0"),
    ],
    ids=["l1", "crammer_singer", "positive", "positive classifier", "l1_ratio"],
)
def test_models_that_are_not_smooth_are_refused(estimator, sentence):
    X, y = data_for(estimator)
    with pytest.raises(ValueError, match=sentence):
        GradientSearchCV(estimator, cv=3).fit(X, y)
    with pytest.raises(ValueError, match=sentence):
        measure(estimator, X, y)


def test_a_listed_value_that_is_not_smooth_is_refused():
    X, y = data_for(LinearSVC())
    space = {"C": None, "penalty": ["l2", "l1"]}
    with pytest.raises(ValueError, match="penalty='l1'"):
        GradientSearchCV(LinearSVC(dual=False), space, cv=3).fit(X, y)


@pytest.mark.parametrize("name", ["LinearSVC", "LogisticRegression", "RidgeClassifier"])
def test_one_class_is_refused(name):
    X, y = data_for(ESTIMATORS[name])
    with pytest.raises(ValueError, match="one class only"):
        GradientSearchCV(ESTIMATORS[name], cv=3).fit(X, np.zeros_like(y))


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_numbers_that_are_none_are_refused(estimator, value, form):
    X, y = data_for(estimator)
    X[3, 1] = value
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        GradientSearchCV(estimator, cv=3).fit(form(X), y)


@pytest.mark.parametrize(
    ("X", "y", "sentence"),
    [
        (np.ones((6, 2)), np.arange(5), "inconsistent numbers of samples"),
        (np.ones(6), np.arange(6) % 2, "Expected 2D array"),
        (np.ones((6, 2, 2)), np.arange(6) % 2, "dim 3"),
        (np.empty((6, 0)), np.arange(6) % 2, "0 feature"),
        (np.ones((6, 2)), None, "requires y to be passed"),
        (np.ones((6, 2)) * 1j, np.arange(6) % 2, "Complex data not supported"),
    ],
    ids=["lengths", "one dimension", "three", "no features", "no y", "complex"],
)
def test_wrong_shapes_are_refused(estimator, X, y, sentence):
    with pytest.raises(ValueError, match=sentence):
        GradientSearchCV(estimator, cv=2).fit(X, y)


@pytest.mark.parametrize("weight", [np.zeros(60), -np.ones(60), np.ones(59)], ids=["0", "-1", "n"])
def test_wrong_weights_are_refused(estimator, weight):
    X, y = data_for(estimator)
    with pytest.raises(ValueError, match=r"(?i)sample.weight"):
        GradientSearchCV(estimator, cv=3).fit(X, y, sample_weight=weight)


def test_several_targets_are_for_ridge():
    X, y = data_for(Ridge())
    Y = np.column_stack([y, 2 * y])
    search = quiet(GradientSearchCV(Ridge(), cv=3), X, Y)
    assert search.predict(X).shape == Y.shape
    with pytest.raises(ValueError, match="1d array"):
        GradientSearchCV(LinearSVR(), cv=3).fit(X, Y)


@pytest.mark.parametrize(
    ("space", "sentence"),
    [
        ({"gamma": (0.1, 1)}, "'gamma' in space"),
        ({"C": (-1, 1)}, "C"),
        ({"intercept_scaling": (0.1, 1)}, "cannot be tuned by gradient"),
    ],
)
def test_wrong_spaces_are_refused(space, sentence):
    X, y = data_for(LinearSVC())
    with pytest.raises(ValueError, match=sentence):
        GradientSearchCV(LinearSVC(), space, cv=3).fit(X, y)


@cache
def usual_score(estimator):
    return quiet(GradientSearchCV(estimator, cv=3, max_evals=8), *data_for(estimator)).best_score_


@pytest.mark.parametrize("scale", [1e-8, 1e-3, 1e4])
def test_features_of_any_size(estimator, scale):
    X, y = data_for(estimator)
    search = quiet(GradientSearchCV(estimator, cv=3, max_evals=8), scale * X, y)
    assert np.isfinite(np.ravel(search.best_estimator_.coef_)).all()
    if scale < 1 and getattr(estimator, "loss", None) in ("hinge", "epsilon_insensitive"):
        return  # neither we nor LIBLINEAR train these if the constant is so large
    # a penalised bias does not scale with the features
    penalised = isinstance(estimator, LinearSVC | LinearSVR)
    assert search.best_score_ >= usual_score(estimator) - (0.2 if penalised else 0.03)


def test_more_folds_than_lanes(estimator):
    X, y = data_for(estimator)
    search = quiet(GradientSearchCV(estimator, cv=12, max_evals=4), X, y)
    assert search.n_splits_ == 12
    assert np.isfinite(search.best_score_)


def test_rows_that_no_fold_validates_and_rows_that_are_validated_twice():
    X, y = data_for(LinearSVC())
    folds = [(np.arange(0, 40), np.arange(40, 55)), (np.arange(20, 60), np.arange(0, 20))]
    folds.append((np.arange(0, 40), np.arange(40, 55)))
    search = quiet(GradientSearchCV(LinearSVC(dual=False), cv=folds), X, y)
    assert search.cv_results_["split0_test_score"] == pytest.approx(
        search.cv_results_["split2_test_score"]
    )


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("scale", [1e-20, 1e15, 1e25, 1e40])
def test_values_that_single_precision_cannot_hold(loss, scale):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3500, 20))  # enough for single precision otherwise
    y = (X[:, 0] + rng.normal(size=3500) > 0).astype(int)
    search = quiet(GradientSearchCV(LinearSVC(loss=loss, fit_intercept=False), cv=3), scale * X, y)
    assert search.best_score_ > 0.7
    assert np.isfinite(search.best_estimator_.coef_).all()


@pytest.mark.parametrize("exact_refit", [False, True])
def test_landmarks_are_refused(exact_refit):
    X, y = np.eye(10), np.arange(10) % 2
    with pytest.raises(ValueError, match=r"rank=5 is for kernel machines; LinearSVC\(\)"):
        GradientSearchCV(LinearSVC(), rank=5, exact_refit=exact_refit).fit(X, y)
