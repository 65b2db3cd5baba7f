"""Searches on Dask collections: the same result as on one machine, from sums over rows."""

import threading
from contextlib import contextmanager
from pathlib import Path

import dask
import dask.array as da
import dask.dataframe as dd
import distributed
import joblib
import numpy as np
import pandas as pd
import pytest
from dask.sizeof import sizeof
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.model_selection import KFold, PredefinedSplit, StratifiedKFold
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR

import hypermargin
from hypermargin import GradientSearchCV, LinearClassifier, value_and_grad
from hypermargin.adapters.chunked import gather_from, make_chunk
from hypermargin.adapters.chunked_folds import before_each, class_counts, read_folds
from hypermargin.adapters.survey import survey
from hypermargin.methods import Grid, Method
from hypermargin.problems.chunked.chunk import Chunk
from hypermargin.problems.chunked.places import Here
from hypermargin.problems.exact.problem import CrossValidation

RNG = np.random.default_rng(0)
N, D = 240, 30
X = RNG.normal(size=(N, D))
SIGNAL = 0.6 * X[:, :4] @ np.array([1.0, -1.0, 0.5, 0.5])
Y = np.where(SIGNAL + RNG.logistic(size=N) > 0.2, "yes", "no")
Y3 = np.digitize(SIGNAL + 0.5 * RNG.logistic(size=N), [-0.7, 0.7])
TARGET = 3.0 * SIGNAL + 3.0 * RNG.normal(size=N) + 20.0
WEIGHT = RNG.uniform(0.5, 2.0, size=N)
CHUNKS = (100, 20, 0, 120)
FULL = {"method": "gradient", "cv": 3, "tol": 1e-15, "max_evals": 200}


@pytest.fixture(autouse=True)
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def chunked(a, rows=CHUNKS):
    return da.from_array(a, chunks=(rows, *a.shape[1:]))


class At(Method):
    """Evaluates one point, and keeps what it sees."""

    def __init__(self, **point):
        self.point, self.seen = point, []

    def search(self, objective):
        theta = objective.space.theta(self.point)
        self.seen.append((*objective(theta), objective, theta))


def both(estimator, y, X=X, Xd=None, weight=None, **how):
    """Return a search on one machine, and the same one on chunks."""
    how = {**FULL, **how}
    one, many = GradientSearchCV(estimator, **how), GradientSearchCV(estimator, **how)
    given = {} if weight is None else {"sample_weight": weight}
    in_chunks = {name: da.from_array(w, chunks=50) for name, w in given.items()}
    many.fit(chunked(X) if Xd is None else Xd, da.from_array(y, chunks=(130, 110)), **in_chunks)
    return one.fit(X, y, **given), many


CASES = {
    "squared hinge": (LinearSVC(), Y, "accuracy", {"C": (2.5e-4, 3e-2)}),
    "logistic": (LogisticRegression(), Y, "neg_log_loss", {"C": (1e-3, 0.1)}),
    "squared": (Ridge(), TARGET, "r2", {"alpha": (20.0, 500.0)}),
    "squared epsilon-insensitive": (
        LinearSVR(loss="squared_epsilon_insensitive", epsilon=0.5), TARGET,
        "neg_mean_squared_error", {"C": (0.05, 1.0)},
    ),
    "smooth hinge": (
        LinearClassifier(loss="smooth_hinge"), Y, "balanced_accuracy", {"C": (1e-3, 0.1)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_search_ends_where_it_does_on_one_machine(name):
    estimator, y, criterion, space = CASES[name]
    ((cost, (low, high)),) = space.items()
    one, many = both(estimator, y, space=space, criterion=criterion)
    assert low < one.best_params_[cost] < high
    assert many.best_params_[cost] == pytest.approx(one.best_params_[cost], rel=1e-6)
    assert many.best_score_ == pytest.approx(one.best_score_, rel=1e-6)
    coefficients = one.best_estimator_.coef_, many.best_estimator_.coef_
    np.testing.assert_allclose(*coefficients, rtol=1e-5, atol=1e-6)
    assert many.n_features_in_ == D


def same_at_a_point(estimator, y, criterion, scoring=None, rel=1e-8, **how):
    """Compare value, gradient and scores at one point."""
    point = {"alpha": 20.0} if isinstance(estimator, (Ridge, RidgeClassifier)) else {"C": 0.05}
    at = At(**point)
    space = {name: (1e-3, 1e3) for name in point}
    how = {"tol": 1e-10, "criterion": criterion, "scoring": scoring, "refit": False, **how}
    one, many = both(estimator, y, method=at, space=space, **how)
    (same, same_slope, *_), (value, slope, *_) = at.seen
    assert same == pytest.approx(value, rel=rel)
    np.testing.assert_allclose(same_slope, slope, rtol=100 * rel)
    for name in one.cv_results_:
        if "_test_" in name and "rank" not in name:
            np.testing.assert_allclose(
                many.cv_results_[name], one.cv_results_[name], rtol=100 * rel
            )
    return one, many


@pytest.mark.parametrize(
    ("estimator", "y", "criterion", "scoring"),
    [
        (LinearSVC(class_weight="balanced"), Y3, "f1_macro", ["balanced_accuracy", "f1_macro"]),
        (RidgeClassifier(class_weight={0: 2.0, 1: 1.0, 2: 0.5}), Y3, "accuracy", None),
        (LinearClassifier(loss="logistic"), Y3, "smooth_hinge", "matthews_corrcoef"),
        (LogisticRegression(), Y3 % 2, "neg_brier_score", ["neg_log_loss", "neg_brier_score"]),
        (Ridge(), TARGET, "huber", ["r2", "neg_mean_absolute_error", "neg_max_error"]),
    ],
    ids=["three classes", "ridge of three", "logistic of three", "probabilities", "numbers"],
)
def test_values_gradients_and_scores_are_those_of_one_machine(estimator, y, criterion, scoring):
    same_at_a_point(estimator, y, criterion, scoring)
    same_at_a_point(estimator, y, criterion, scoring, weight=WEIGHT)


@pytest.mark.parametrize("offset", [1e4, 1e8])
def test_targets_far_from_zero_are_scored_as_on_one_machine(offset):
    y, search = TARGET + offset, GradientSearchCV(Ridge(), {"alpha": [0.5, 2.0]}, cv=3)
    here = clone(search).fit(X, y)
    there = clone(search).fit(chunked(X), chunked(y))
    assert there.best_score_ == pytest.approx(here.best_score_, rel=1e-6)
    assert float(there.score(chunked(X), chunked(y))) == pytest.approx(here.score(X, y), rel=1e-6)


def test_the_area_comes_from_a_sketch():
    # cells are about 1/400 of the standard deviation here, and steps 3/10: see `OfOrder`
    same_at_a_point(LinearSVC(), Y, "roc_auc", rel=2e-5)
    # equal outputs of a cell count half: all pairs of rows in one cell are the bound
    one, many = both(LinearSVC(), Y, scoring="roc_auc", method=Grid(points=2), refit=False)
    np.testing.assert_allclose(*(s.cv_results_["mean_test_score"] for s in (one, many)), atol=1e-3)


def test_weights_are_no_more_exact_than_a_search_needs():
    wide = np.hstack([X, np.random.default_rng(2).normal(size=(N, 300))])
    found = []
    for tol in (5e-3, 1e-10):
        at = At(C=0.05)
        GradientSearchCV(
            LogisticRegression(), {"C": (1e-3, 1e3)}, cv=3, method=at, tol=tol, refit=False
        ).fit(chunked(wide), chunked(Y))
        value, slope, objective, _ = at.seen[0]
        found.append((value, slope[0], objective.prepared.problem.solver_of_folds.n_passes))
    (value, slope, passes), (exact, exact_slope, more) = found
    assert value == pytest.approx(exact, rel=1e-4)
    assert slope == pytest.approx(exact_slope, abs=1e-3 * exact)
    assert passes < more


def test_sparse_rows_and_many_features():
    wide = sparse.random(N, 400, 0.03, format="csr", random_state=0)
    wide = sparse.hstack([sparse.csr_matrix(X), wide], format="csr")
    blocks = chunked(wide.toarray()).map_blocks(sparse.csr_matrix)
    # more features than Hessians are made of: conjugate gradients
    one, many = same_at_a_point(
        LogisticRegression(), Y, "neg_log_loss", X=wide, Xd=blocks, refit=True
    )
    outputs = many.decision_function(blocks).compute()
    np.testing.assert_allclose(outputs, one.decision_function(wide), atol=1e-5)


BENT = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1]
POINTS = X[:, :3]


@pytest.mark.parametrize(
    ("estimator", "y", "point", "criterion"),
    [
        (SVC(tol=1e-11, class_weight="balanced"), np.where(BENT > 0.3, "a", "b"),
         {"C": 2.0, "gamma": 0.5}, "f1_macro"),
        (SVR(tol=1e-11), BENT + 3.0, {"C": 2.0, "gamma": 0.5, "epsilon": 0.1}, "r2"),
    ],
    ids=["classes", "numbers"],
)  # fmt: skip
def test_landmarks_of_a_kernel(estimator, y, point, criterion):
    at = At(**point)
    space = {name: (value / 9, value * 9) for name, value in point.items()}
    how = {"rank": 40, "random_state": 0, "criterion": criterion, "tol": 1e-10, "space": space}
    one, many = both(estimator, y, POINTS, chunked(POINTS), method=at, **how)
    (same, same_slope, *_), (value, slope, *_) = at.seen
    assert same == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(same_slope, slope, rtol=1e-6)
    assert many.best_score_ == pytest.approx(one.best_score_, rel=1e-9)
    machines = many.best_estimator_, one.best_estimator_
    np.testing.assert_array_equal(*(machine.support_ for machine in machines))
    outputs = [machine.predict(POINTS) for machine in machines]
    if criterion == "r2":  # on one machine refits on landmarks end at a thousandth
        np.testing.assert_allclose(*outputs, atol=1e-2)
    else:
        np.testing.assert_array_equal(*outputs)
    np.testing.assert_array_equal(many.predict(chunked(POINTS)).compute(), outputs[0])


def test_a_search_on_landmarks_ends_where_it_does_on_one_machine():
    how = {"rank": 30, "random_state": 0, "criterion": "r2", "space": {"gamma": (0.2, 0.9)}}
    one, many = both(SVR(tol=1e-11), BENT, POINTS, chunked(POINTS), **how)
    assert 0.2 < one.best_params_["gamma"] < 0.9
    assert many.best_params_["gamma"] == pytest.approx(one.best_params_["gamma"], rel=1e-6)


def test_gradients_meet_central_differences():
    at = At(C=0.05, epsilon=0.5)
    search = GradientSearchCV(
        LinearSVR(loss="squared_epsilon_insensitive"), {"C": (1e-3, 1.0), "epsilon": (0.1, 1.0)},
        criterion="r2", **{**FULL, "method": at},
    )  # fmt: skip
    search.fit(chunked(X), chunked(TARGET))
    _, gradient, objective, theta = at.seen[0]
    for k, unit in enumerate(1e-3 * np.eye(2)):
        high, low = (objective(theta + sign * unit)[0] for sign in (1.0, -1.0))
        assert gradient[k] == pytest.approx((high - low) / 2e-3, rel=1e-4)


@pytest.mark.parametrize(
    "cv", [KFold(4), StratifiedKFold(3), 2, PredefinedSplit(np.arange(N) % 5 - 1)], ids=str
)
def test_folds_are_those_of_scikit_learn(cv):
    # classes that first appear in another order than that of their labels
    order = np.argsort(Y3 == 0, kind="stable")
    labels = Y3[order]
    ends = np.cumsum(CHUNKS)[:-1]
    chunks = [{"X": x, "y": y} for x, y in zip(np.split(X, ends), np.split(labels, ends))]
    surveys = [survey(chunk, True) for chunk in chunks]
    classes = np.unique(labels)
    folds = read_folds(cv, surveys, classes)
    before = before_each(cv, surveys, class_counts(surveys, classes))
    made = [make_chunk(c, b, folds, classes, False) for c, b in zip(chunks, before)]
    found = np.concatenate([chunk.fold for chunk in made])
    splitter = StratifiedKFold(cv) if isinstance(cv, int) else cv
    for number, (_, test) in enumerate(splitter.split(X, labels)):
        np.testing.assert_array_equal(np.flatnonzero(found == number), test)


def test_nothing_but_places_is_asked_of_a_scheduler():
    chunks = [{"X": X[:90], "y": Y[:90]}, {"X": X[90:], "y": Y[90:]}]
    data = gather_from(Here(chunks), X, False, False, 3, True)
    assert data.n_splits == 3 and data.counts.sum() == N
    for path in Path(hypermargin.__file__).parent.rglob("*.py"):
        lines = path.read_text().splitlines()
        asks = any(line.lstrip().startswith(("import dask", "from dask")) for line in lines)
        assert asks == (path.name == "blocks.py"), path


def test_data_frames_have_names_and_sizes_that_are_not_known():
    names = [f"column {k}" for k in range(D)]
    frame = pd.DataFrame(X, columns=names)
    frame["label"] = Y
    parts = dd.from_pandas(frame, npartitions=3)
    search = GradientSearchCV(LinearSVC(), cv=3, max_evals=3).fit(parts[names], parts["label"])
    assert search.feature_names_in_.tolist() == names
    predicted = search.predict(parts[names])
    assert isinstance(predicted, dd.Series)
    expected = search.best_estimator_.predict(frame[names])
    np.testing.assert_array_equal(predicted.compute(), expected)
    assert float(search.score(parts[names], parts["label"])) == np.mean(expected == Y)
    arrays = parts[names].to_dask_array(), parts["label"].to_dask_array()
    again = GradientSearchCV(LinearSVC(), cv=3, max_evals=3).fit(*arrays)
    assert again.best_params_ == search.best_params_


def test_answers_are_lazy_and_blockwise():
    Xd, yd = da.from_array(X, chunks=(70, 5)), da.from_array(Y3, chunks=90)
    search = GradientSearchCV(LinearSVC(), cv=3, max_evals=3).fit(Xd, yd)
    best = search.best_estimator_
    for name in ("predict", "decision_function"):
        answer = getattr(search, name)(Xd)
        assert isinstance(answer, da.Array) and answer.chunks[0] == Xd.chunks[0]
        np.testing.assert_array_equal(answer.compute(), getattr(best, name)(X))
    score = search.score(Xd, yd)
    assert isinstance(score, da.Array)
    assert float(score) == pytest.approx(best.score(X, Y3), rel=1e-12)
    ranked = GradientSearchCV(LogisticRegression(), scoring="roc_auc", cv=3, max_evals=3)
    ranked.fit(Xd, da.from_array(Y, chunks=90))
    assert float(ranked.score(Xd, da.from_array(Y, chunks=90))) == pytest.approx(
        ranked.score(X, Y), abs=1e-3
    )
    probabilities = ranked.predict_proba(Xd)
    np.testing.assert_allclose(probabilities.compute(), ranked.predict_proba(X))
    with pytest.raises(AttributeError, match="Dask collections keep their outputs"):
        _ = search.score_estimate_


def test_small_data_are_searched_as_thoroughly_as_on_one_machine():
    # a smooth error of few rows has several minima, all of which are to be looked at
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(400, 8))
    labels = np.where(rows[:, :3] @ [1.0, -1.0, 0.5] + rng.logistic(size=400) > 0.5, "yes", "no")
    search = GradientSearchCV(RidgeClassifier(), cv=3, random_state=0, method="gradient")
    one = clone(search).fit(rows, labels)
    many = clone(search).fit(chunked(rows, 200), chunked(labels, 200))
    least = [s.cv_results_["objective"][s.best_index_] for s in (one, many)]
    assert least[1] == pytest.approx(least[0], rel=1e-3)
    np.testing.assert_array_equal(many.predict(rows), one.predict(rows))
    assert not hasattr(many, "predict_proba")  # as on more rows than come here


def test_blocks_may_be_sparse_here_and_dense_there():
    parts = [X[:100], sparse.csr_matrix(X[100:])]
    blocks = [da.from_delayed(dask.delayed(part), part.shape, dtype=float) for part in parts]
    how = {"cv": 3, "space": {"alpha": [1.0, 30.0]}}
    mixed = GradientSearchCV(Ridge(), **how).fit(da.concatenate(blocks), chunked(TARGET))
    one = GradientSearchCV(Ridge(), **how).fit(X, TARGET)
    assert mixed.best_score_ == pytest.approx(one.best_score_, rel=1e-9)


def test_more_rows_than_come_here(monkeypatch):
    monkeypatch.setattr("hypermargin.adapters.chunked.SAMPLE_ROWS", 60)
    monkeypatch.setattr("hypermargin.adapters.chunked.LEAST_ROWS", 60)
    rare = np.where(np.arange(N) % 60 == 7, 2, (Y == "yes").astype(int))
    how = {"cv": 3, "criterion": "accuracy", "method": "gradient", "space": {"C": (1e-3, 0.1)}}
    search = GradientSearchCV(LinearSVC(), **how).fit(chunked(X), da.from_array(rare, chunks=50))
    assert search.classes_.tolist() == [0, 1, 2]
    assert min(record["n_samples"] for record in search.history_) < 100
    assert search.cv_results_["n_samples"].max() == N
    one = GradientSearchCV(LinearSVC(), **how).fit(X, rare)
    least = [s.cv_results_["objective"][s.best_index_] for s in (one, search)]
    assert least[1] == pytest.approx(least[0], rel=1e-2)


@pytest.mark.parametrize("backend", ["threading", "dask"])
def test_listed_values_are_searched_by_the_workers_of_joblib(backend, monkeypatch):
    space = {"kernel": ["rbf", "linear"], "C": (0.1, 10.0)}
    how = {"cv": 3, "random_state": 0, "scoring": "balanced_accuracy"}
    plain = GradientSearchCV(SVC(gamma=0.5), space, **how).fit(POINTS, Y)
    evaluate, here = CrossValidation.evaluate, []

    def counted(self, *args, **given):
        here.append(threading.current_thread() is threading.main_thread())
        return evaluate(self, *args, **given)

    monkeypatch.setattr(CrossValidation, "evaluate", counted)
    scatter, sent = distributed.Client.scatter, []

    def noted(self, data, **given):
        sent.append(type(data).__name__)
        return scatter(self, data, **given)

    monkeypatch.setattr(distributed.Client, "scatter", noted)
    with joined(backend) as n_jobs, joblib.parallel_config(backend, n_jobs=n_jobs):
        search = GradientSearchCV(SVC(gamma=0.5), space, **how).fit(POINTS, Y)
    for name in ("objective", "mean_test_score", "param_C"):
        np.testing.assert_array_equal(search.cv_results_[name], plain.cv_results_[name])
    assert search.best_params_ == plain.best_params_
    assert sum(here) <= 1 < len(here)  # the best point, to the end
    assert sent.count("Given") == (backend == "dask")  # the data, once for all combinations


def test_collections_stay_where_they_are_whatever_joblib_is_told():
    space = {"class_weight": [None, "balanced"], "C": [0.01, 0.1]}
    search = GradientSearchCV(LinearSVC(), space, cv=3)
    with joblib.parallel_config("threading", n_jobs=2):
        told = clone(search).fit(chunked(X), chunked(Y))
    assert told.best_params_ == search.fit(chunked(X), chunked(Y)).best_params_


@contextmanager
def joined(backend):
    """Give the number of jobs, with workers for Dask in this process."""
    if backend != "dask":
        yield 2
        return
    how = {"processes": False, "n_workers": 1, "threads_per_worker": 2}
    with distributed.Client(**how, dashboard_address=None):
        yield -1


MADE = []


def noted(block):
    MADE.append(len(block))
    return block


def test_a_cluster_makes_chunks_once():
    MADE.clear()
    how = {"processes": False, "n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with dask.config.set(scheduler=None), distributed.Client(**how):
        Xd = chunked(X).map_blocks(noted, meta=X[:0])
        search = GradientSearchCV(Ridge(), cv=3, random_state=0).fit(Xd, chunked(TARGET))
    assert sorted(MADE) == sorted(CHUNKS)
    alone = GradientSearchCV(Ridge(), cv=3, random_state=0).fit(chunked(X), chunked(TARGET))
    assert search.best_params_ == alone.best_params_


def nullable():
    frame = pd.DataFrame(X[:, :2], columns=["a", "b"]).astype("Float64")
    frame.loc[N // 2 + 20, "b"] = pd.NA
    return dd.from_pandas(frame, npartitions=2)


def with_nan(a, row):
    a = a.astype(float).copy()
    a[row] = np.nan
    return a


BAD = {
    "chunk 3 of the data: X has a value that is missing or infinite in row 30": (
        lambda: (chunked(with_nan(X, 150)), chunked(Y))
    ),
    "chunk 0 of the data: y has a value that is missing": (
        lambda: (chunked(X), chunked(with_nan(TARGET, 5)))
    ),
    "y is a ndarray and other data are Dask": lambda: (chunked(X), Y),
    "X is a ndarray and other data are Dask": lambda: (X, chunked(Y)),
    "X has 240 rows and y has 200": lambda: (chunked(X), da.from_array(Y[:200], chunks=50)),
    "labels of another type": (
        lambda: (chunked(X), chunked(np.array([*Y[:100], *Y3[100:]], dtype=object)))
    ),
    "one class only": lambda: (chunked(X), da.from_array(np.repeat("a", N), chunks=50)),
    "y has numbers that are no labels": lambda: (chunked(X), chunked(TARGET)),
    "whose numbers of rows are not known": (
        lambda: (chunked(X)[chunked(X)[:, 0] > 0], chunked(Y3)[:130])
    ),
    "X is a Dask Delayed.*; give an array or a data frame": lambda: (dask.delayed(X), chunked(Y)),
    "X cannot be read as numbers: they are complex": (
        lambda: (chunked(X).astype(complex), chunked(Y))
    ),
    "chunk 1 of the data: X has a value that is missing or infinite in row 20": (
        lambda: (nullable(), dd.from_pandas(pd.Series(Y), npartitions=2))
    ),
    "X cannot be read as numbers": lambda: (chunked(X.astype(str)).map_blocks(bad), chunked(Y)),
}


BAD_FOLDS = {
    "chunk 0 of the data: cv has .0.5.; give whole numbers": {"cv": chunked(np.full(N, 0.5))},
    "chunk 0 of the data: sample_weight has .'yes'.; give numbers": {"sample_weight": chunked(Y)},
}


@pytest.mark.parametrize("message", BAD_FOLDS)
def test_folds_and_weights_are_numbers(message):
    given = {"cv": 3, **BAD_FOLDS[message]}
    search = GradientSearchCV(LinearSVC(), cv=given.pop("cv"))
    with pytest.raises(ValueError, match=message):
        search.fit(chunked(X), chunked(Y), **given)


def bad(block):
    return np.full(block.shape, "a")


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_told_of_in_one_sentence(message):
    Xd, yd = BAD[message]()
    estimator = Ridge() if "y has a value" in message else LinearSVC()
    with pytest.raises(ValueError, match=message) as told:
        GradientSearchCV(estimator, cv=3).fit(Xd, yd)
    assert str(told.value).count(". ") == 0


@pytest.mark.parametrize(
    ("message", "how"),
    [
        ("has a corner", {"estimator": LinearSVC(loss="hinge")}),
        ("needs all rows in one place", {"estimator": SVC()}),
        ("is read off all rows", {"estimator": SVC(), "rank": 20, "space": {"C": (1.0, 9.0)}}),
        ("needs the outputs of single rows", {"method": "curve"}),
        ("needs all rows in one place", {"cv": KFold(3, shuffle=True)}),
        ("cv=a list of rows needs all rows in one place", {"cv": [(np.arange(9), np.arange(9))]}),
        (
            "cannot be made of sums over rows",
            {"scoring": "average_precision", "criterion": "accuracy"},
        ),
        ("is no sum over rows", {"criterion": "average_precision"}),
        ("checkpoint='a' is not for Dask", {"checkpoint": "a"}),
        ("is not for Dask", {"pooled": False}),
    ],
)
def test_what_needs_single_rows_is_refused(message, how):
    search = GradientSearchCV(**{"estimator": LinearSVC(), "cv": 3, **how})
    with pytest.raises(ValueError, match=message):
        search.fit(chunked(X), chunked(Y))


def test_a_loss_of_single_rows_does_not_gather_them():
    with pytest.raises(ValueError, match="X is a Dask collection, whose rows stay where they are"):
        value_and_grad(LinearSVC(), chunked(X), chunked(Y), {"C": 1.0})


def test_a_fold_without_a_class_is_refused():
    labels = np.where(np.arange(N) < 80, 2, Y3 % 2)
    with pytest.raises(ValueError, match="training part of fold 0 has no sample of class 2"):
        GradientSearchCV(LinearSVC(), cv=KFold(3)).fit(chunked(X), chunked(labels))


@pytest.mark.parametrize("rows", [X, sparse.csr_matrix(np.where(np.abs(X) > 1, X, 0.0))])
def test_schedulers_are_told_how_large_a_chunk_is(rows):
    made = Chunk(rows, Y == "yes", np.zeros(N, int), np.ones(N), np.ones(N))
    assert sizeof(made) == pytest.approx(sizeof(rows) + 25 * N, rel=0.02)
