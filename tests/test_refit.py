"""A machine made from known solutions must be the one that scikit-learn's own fit gives."""

import inspect
import pickle
import warnings
from itertools import combinations, product

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from helpers import KERNEL_PARAMS, Differentiated, make_data
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import linear_kernel, pairwise_kernels, rbf_kernel
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, NuSVC
from sklearn.utils.validation import check_is_fitted

from hypermargin import GradientSearchCV
from hypermargin._core.budget import Effort
from hypermargin.problems.base import Expansion
from hypermargin.search.refit import can_install, solved_by

NAMES = np.array(["pear", "apple", "fig", "quince"], dtype=object)
COLUMNS = ["a", "b", "c", "d"]
SPARSE = {
    "csr": sparse.csr_matrix,
    "csc": sparse.csc_matrix,
    "csr array": sparse.csr_array,
}
DENSE = {
    "dense": np.asarray,
    "columns first": np.asfortranarray,
    "float32": lambda X: X.astype(np.float32),
    "integers": lambda X: np.round(4 * X).astype(int),
    "pandas": lambda X: pd.DataFrame(X, columns=COLUMNS[: X.shape[1]]),
    "polars": lambda X: pl.DataFrame(X, schema=COLUMNS[: X.shape[1]]),
    "lists": lambda X: X.tolist(),
}
TASKS = {"two classes": 2, "three classes": 3, "four classes": 4, "regression": 0}
SHAPES = {"ovr": {}, "ovo": {"decision_function_shape": "ovo"}, "ties": {"break_ties": True}}


def install(estimator, X, y, sample_weight, solutions):
    """Fit without training: the machines are the given solutions."""
    with solved_by(estimator, lambda *_: solutions):
        return estimator.fit(X, y, sample_weight)


def make_problem(n_classes, n=50, seed=0):
    """Return X with zeros in it, and y with words for the classes."""
    X, y = make_data(n_classes, n, seed=seed)
    X = np.where(np.abs(X) > 0.2, X, 0.0)
    return X, (NAMES[y] if n_classes else y)


def make_machine(n_classes, kernel="rbf", **params):
    params = {"C": 2.0, "tol": 1e-6, "kernel": kernel, **KERNEL_PARAMS[kernel], **params}
    return SVC(**params) if n_classes else SVR(**params)


def solutions_of(machine, y=None):
    """Read the solutions off a fitted machine, by the public meaning of its attributes."""
    table = machine.dual_coef_.toarray() if machine._sparse else machine.dual_coef_
    rows, bias = machine.support_, machine.intercept_
    if len(table) == 1:  # the machine's own signs are ours
        return [Expansion(rows, table[0], bias[0], iterations=int(np.max(machine.n_iter_)))]
    numbers = np.searchsorted(machine.classes_, np.asarray(y)[rows])
    found = []
    for p, (i, j) in enumerate(combinations(range(len(machine.classes_)), 2)):
        first, second = numbers == i, numbers == j
        part = np.concatenate([rows[first], rows[second]])
        beta = -np.concatenate([table[j - 1, first], table[i, second]])
        found.append(Expansion(part, beta, -bias[p], iterations=int(machine.n_iter_[p])))
    return found


def arrays_of(value):
    return [value.data, value.indices, value.indptr] if sparse.issparse(value) else [value]


def assert_same_array(mine, theirs, what):
    assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape), what
    for flag in ("C_CONTIGUOUS", "F_CONTIGUOUS", "WRITEABLE", "ALIGNED"):
        assert mine.flags[flag] == theirs.flags[flag], (what, flag)
    if mine.dtype.kind == "f":
        assert_allclose(mine, theirs, rtol=1e-12, atol=0, err_msg=what)
    else:
        assert_array_equal(mine, theirs, err_msg=what)


def assert_same_attributes(mine, theirs):
    assert vars(mine).keys() == vars(theirs).keys()
    for name, expected in vars(theirs).items():
        value = vars(mine)[name]
        assert type(value) is type(expected), name
        if name == "_n_support" and theirs._sparse and isinstance(theirs, SVR):
            # scikit-learn leaves this array as the memory happened to be
            assert (value.dtype, value.shape) == (expected.dtype, expected.shape)
        elif isinstance(expected, np.ndarray) or sparse.issparse(expected):
            assert value.shape == expected.shape, name
            for a, b in zip(arrays_of(value), arrays_of(expected), strict=True):
                assert_same_array(a, b, name)
        else:
            assert value == expected, name


def assert_same_behaviour(mine, theirs, X, y):
    assert repr(mine) == repr(theirs)
    assert mine.get_params() == theirs.get_params()
    assert mine._repr_html_()
    check_is_fitted(mine)
    assert [n for n in dir(mine) if n.endswith("_")] == [
        n for n in dir(theirs) if n.endswith("_")
    ]  # a property such as coef_ is listed only where it has a value
    for name in ("predict", "decision_function"):
        if hasattr(theirs, name):
            assert_array_equal(getattr(mine, name)(X), getattr(theirs, name)(X))
    assert mine.score(X, y) == theirs.score(X, y)
    assert hasattr(mine, "predict_proba") == hasattr(theirs, "predict_proba")
    assert hasattr(mine, "coef_") == hasattr(theirs, "coef_")
    if hasattr(theirs, "coef_"):
        for a, b in zip(arrays_of(mine.coef_), arrays_of(theirs.coef_), strict=True):
            assert_same_array(a, b, "coef_")


def assert_indistinguishable(machine, X, y, sample_weight=None):
    theirs = clone(machine).fit(X, y, sample_weight)
    mine = clone(machine)
    assert install(mine, X, y, sample_weight, solutions_of(theirs, y)) is mine
    assert_same_attributes(mine, theirs)
    assert mine.n_support_.sum() == len(mine.support_)
    assert_same_behaviour(mine, theirs, X, y)
    again = pickle.loads(pickle.dumps(mine))
    assert_same_attributes(again, theirs)
    assert_array_equal(again.predict(X), theirs.predict(X))
    with pytest.raises(NotFittedError):
        check_is_fitted(clone(mine))
    assert_same_attributes(mine.fit(X, y, sample_weight), theirs)  # and it can be fitted again


def cases():
    for kernel, container in product(KERNEL_PARAMS, [*DENSE, *SPARSE]):
        # kernel matrices are dense and real, and their columns have no names
        if kernel != "precomputed" or container in ("dense", "columns first", "float32", "lists"):
            yield kernel, container


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(("kernel", "container"), list(cases()))
def test_machine_is_that_of_a_cold_fit(kernel, container, task):
    X, y = make_problem(TASKS[task])
    if kernel == "precomputed":
        X = rbf_kernel(X, gamma=0.3)
    machine = make_machine(TASKS[task], kernel)
    if container == "integers":
        machine.set_params(gamma="scale", coef0=0.0)
    assert_indistinguishable(machine, (DENSE | SPARSE)[container](X), y)


@pytest.mark.parametrize("container", ["dense", "csr"])
@pytest.mark.parametrize("gamma", ["scale", "auto", 1, 0.3])
def test_gamma_is_that_of_a_cold_fit(gamma, container):
    X, y = make_problem(2)
    assert_indistinguishable(make_machine(2, gamma=gamma), (DENSE | SPARSE)[container](X), y)


@pytest.mark.parametrize("container", ["dense", "csr"])
@pytest.mark.parametrize("class_weight", [None, "balanced", {"apple": 3.0, "pear": 0.5}])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_weights_are_those_of_a_cold_fit(n_classes, class_weight, container):
    X, y = make_problem(n_classes)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    machine = make_machine(n_classes, class_weight=class_weight)
    assert_indistinguishable(machine, (DENSE | SPARSE)[container](X), y, weight)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_decision_function_has_the_shape_that_is_asked_for(n_classes, shape):
    X, y = make_problem(n_classes)
    assert_indistinguishable(make_machine(n_classes, **SHAPES[shape]), X, y)


def test_classes_may_be_booleans_numbers_or_a_frame_column():
    X, y = make_problem(2)
    for labels in (y == "pear", np.where(y == "pear", 7, -2), pd.Series(y), list(y)):
        assert_indistinguishable(make_machine(2), X, labels)


def test_probability_false_may_be_spelled_out():
    X, y = make_problem(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        assert_indistinguishable(make_machine(2, probability=False), X, y)


@pytest.mark.parametrize("container", ["dense", "csr"])
def test_regression_without_support_vectors(container):
    X, y = make_problem(0)
    machine = make_machine(0, epsilon=100.0)
    X = (DENSE | SPARSE)[container](X)
    assert_indistinguishable(machine, X, y)


def test_zeros_that_are_stored_and_columns_out_of_order():
    X, y = make_problem(3)
    full = sparse.csr_matrix(
        (X[:, ::-1].ravel(), np.tile(np.arange(4)[::-1], len(X)), 4 * np.arange(len(X) + 1)),
        X.shape,
    )
    mine = install(make_machine(3), full, y, None, solutions_of(make_machine(3).fit(X, y), y))
    assert not full.has_sorted_indices, "the user's data are not touched"
    theirs = make_machine(3).fit(full.copy(), y)
    assert_same_attributes(mine, theirs)


def test_sparse_arrays_where_scikit_learn_makes_them():
    if "sparse_interface" not in inspect.signature(sklearn.config_context).parameters:
        pytest.skip("this scikit-learn makes matrices only")
    X, y = make_problem(3)
    with sklearn.config_context(sparse_interface="sparray"):
        assert_indistinguishable(make_machine(3), sparse.csr_matrix(X), y)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(12, 40),
    task=st.sampled_from(list(TASKS)),
    kernel=st.sampled_from([k for k in KERNEL_PARAMS if k != "precomputed"]),
    C=st.floats(0.01, 100.0),
    container=st.sampled_from(["dense", "csr", "pandas"]),
)
def test_any_machine_is_that_of_a_cold_fit(seed, n, task, kernel, C, container):
    X, y = make_problem(TASKS[task], n, seed)
    X = (DENSE | SPARSE)[container](X)
    assert_indistinguishable(make_machine(TASKS[task], kernel, C=C, tol=1e-3), X, y)


def random_solutions(rng, n, n_classes, size=9):
    """Return machines on landmarks of any class, with coefficients of either sign."""
    landmarks = rng.permutation(n)[:size]
    n_machines = max(1, n_classes * (n_classes - 1) // 2)
    return [Expansion(landmarks, rng.normal(size=size), rng.normal()) for _ in range(n_machines)]


def outputs_of(solutions, K):
    return np.stack([K[:, s.rows] @ s.beta + s.bias for s in solutions], axis=1)


@pytest.mark.parametrize("container", ["dense", "csr"])
@pytest.mark.parametrize("kernel", KERNEL_PARAMS)
@pytest.mark.parametrize("n_classes", [0, 2, 3, 4])
def test_landmarks_serve_machines_of_other_classes(n_classes, kernel, container):
    X, y = make_problem(n_classes)
    solutions = random_solutions(np.random.default_rng(2), len(y), n_classes)
    metric = "rbf" if kernel == "precomputed" else kernel
    K = pairwise_kernels(X, metric=metric, **KERNEL_PARAMS[kernel])
    if kernel == "precomputed":
        container, X = "dense", K
    shape = {"decision_function_shape": "ovo"} if n_classes else {}
    X = (DENSE | SPARSE)[container](X)
    mine = install(make_machine(n_classes, kernel, **shape), X, y, None, solutions)
    outputs = outputs_of(solutions, K)
    if n_classes == 0:
        assert_allclose(mine.predict(X), outputs[:, 0], rtol=1e-9)
        return
    expected = outputs[:, 0] if n_classes == 2 else -outputs
    assert_allclose(mine.decision_function(X), expected, rtol=1e-8, atol=1e-10)
    if n_classes == 2:
        assert_array_equal(mine.n_support_, [(y[mine.support_] == c).sum() for c in mine.classes_])
    if kernel == "linear":
        coef = mine.coef_.toarray() if container == "csr" else mine.coef_
        from_coef = X @ coef.T + mine.intercept_
        assert_allclose(from_coef.reshape(expected.shape), expected, rtol=1e-8, atol=1e-10)


def test_rows_without_weight_keep_their_numbers():
    """scikit-learn counts support_ without them, and a precomputed kernel then misses its rows."""
    X, y = make_problem(2)
    weight = np.where(np.arange(len(y)) < 15, 0.0, 1.0)
    theirs = make_machine(2, "linear").fit(X[15:], y[15:])
    solution = solutions_of(theirs)[0]
    moved = Expansion(solution.rows + 15, solution.beta, solution.bias)
    for kernel, data in (("linear", X), ("precomputed", linear_kernel(X))):
        mine = install(make_machine(2, kernel), data, y, weight, [moved])
        assert_array_equal(mine.support_, theirs.support_ + 15)
        assert_allclose(mine.decision_function(data), theirs.decision_function(X), atol=1e-9)


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_own_solutions_predict_like_a_cold_fit(n_classes):
    X, y = make_problem(n_classes)
    machine = make_machine(n_classes, gamma=0.3)
    fold = Differentiated(machine, X, y)
    evaluation = fold.evaluate({"C": 2.0}, Effort(1e-9))
    test, outputs = evaluation.test[0], evaluation.outputs[0]
    K = rbf_kernel(X[test], X, gamma=0.3)
    solutions = []
    for c in range(outputs.shape[1]):
        s = evaluation.state[0, c]
        np.testing.assert_allclose(K[:, s.rows] @ s.beta[0] + s.bias[0], outputs[:, c], atol=1e-6)
        solutions.append(Expansion(s.rows, s.beta[0], s.bias[0]))
    kept = np.setdiff1d(np.arange(len(y)), test)
    weight = np.isin(np.arange(len(y)), kept).astype(float)
    mine = install(clone(machine), X, y, weight, solutions)
    theirs = clone(machine).fit(X[kept], y[kept])
    assert_array_equal(mine.support_, kept[theirs.support_])
    assert_allclose(mine.dual_coef_, theirs.dual_coef_, atol=1e-3)
    name = "decision_function" if n_classes else "predict"
    assert_allclose(getattr(mine, name)(X), getattr(theirs, name)(X), atol=1e-4)


class Half(SVC):
    def fit(self, X, y, sample_weight=None):
        return super().fit(X[::2], y[::2])


@pytest.mark.parametrize(
    "estimator",
    [
        *(SVC(kernel=k) for k in KERNEL_PARAMS),
        *(SVR(kernel=k) for k in KERNEL_PARAMS),
        SVC(probability=False),
    ],
    ids=repr,
)
def test_plain_machines_can_be_installed(estimator):
    assert can_install(estimator)


@pytest.mark.parametrize(
    "estimator",
    [Half(), SVC(probability=True), SVC(kernel=linear_kernel), SVR(kernel=rbf_kernel), NuSVC(),
     Ridge(), SVC(kernel="chi2"), SVC(kernel=["rbf"])],
)  # fmt: skip
def test_what_fit_does_otherwise_cannot_be_installed(estimator):
    assert not can_install(estimator)


def test_errors_are_those_of_fit_and_leave_no_trace():
    X, y = make_problem(3)
    solutions = solutions_of(make_machine(3).fit(X, y), y)
    machine = make_machine(3)
    with pytest.raises(ValueError, match="2 solutions are given for 3 machines"):
        install(machine, X, y, None, solutions[:2])
    with pytest.raises(ValueError, match="NaN"):
        install(machine, np.where(X > 1, np.nan, X), y, None, solutions)
    with pytest.raises(ValueError, match="sample_weight and X have incompatible shapes"):
        install(machine, X, y, np.ones(3), solutions)
    assert_same_attributes(machine.fit(X, y), make_machine(3).fit(X, y))


@pytest.mark.parametrize(
    ("machine", "n_classes", "options"),
    [
        (SVC(), 2, {}),
        (SVC(class_weight="balanced"), 3, {}),
        (SVC(kernel="poly", coef0=1.0), 2, {"weighted": True}),
        (make_pipeline(StandardScaler(), SVC(gamma="scale")), 2, {"space": {"svc__C": (0.1, 9.0)}}),
        (SVR(), 0, {"weighted": True}),
        (make_pipeline(StandardScaler(), SVR()), 0, {}),
    ],
    ids=str,
)
def test_a_search_refits_from_its_folds_what_a_cold_fit_gives(machine, n_classes, options):
    X, y = make_data(n_classes, n=1300)
    last = machine[-1] if isinstance(machine, Pipeline) else machine
    last.set_params(tol=1e-5)
    name = machine.steps[-1][0] + "__" if isinstance(machine, Pipeline) else ""
    params = {}
    if options.get("weighted"):
        params[name + "sample_weight"] = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    search = GradientSearchCV(machine, options.get("space"), cv=3, max_evals=2, random_state=0)
    found = search.fit(X, y, **params).best_estimator_
    cold = clone(machine).set_params(**search.best_params_).fit(X, y, **params)
    mine, theirs = (m[-1] if isinstance(m, Pipeline) else m for m in (found, cold))
    assert vars(mine).keys() == vars(theirs).keys()
    method = "decision_function" if n_classes else "predict"
    atol = 1e-3 * max(1.0, np.std(y))
    assert_allclose(getattr(found, method)(X), getattr(cold, method)(X), atol=atol)
    assert abs(len(mine.support_) - len(theirs.support_)) <= 0.02 * len(theirs.support_)
