"""Kernels that add, multiply, choose columns and come from outside."""

import numpy as np
import pandas as pd
import pytest
from helpers import assert_loss_gradient, make_data
from sklearn.base import clone
from sklearn.compose import make_column_selector
from sklearn.gaussian_process import kernels as gp
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from hypermargin import CrossValidationLoss, GradientSearchCV, KernelSVC, KernelSVR
from hypermargin.kernels import (
    RBF,
    FunctionKernel,
    GaussianProcessKernel,
    GeneralisedGaussian,
    Laplacian,
    Linear,
    Matern32,
    Matern52,
    Polynomial,
    Precomputed,
    Product,
    Sum,
    check_kernel,
)
from hypermargin.losses import CLASSIFICATION, REGRESSION

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
RNG = np.random.default_rng(0)


def cauchy(X, Z, gamma):
    return 1.0 / (1.0 + gamma * ((X[:, None] - Z) ** 2).sum(axis=2))


def cauchy_product(X, Z, M, gamma):
    d = ((X[:, None] - Z) ** 2).sum(axis=2)
    return {"gamma": float((-M * d / (1.0 + gamma * d) ** 2).sum())}


COMPOSED = {
    "sum": RBF(columns=[0, 1]) + Matern52(columns=[2, 3]),
    "sum of everything": 0.3 * RBF(ard="always") + Linear() + Polynomial(2, coef0=1.0),
    "product": RBF(columns=[0]) * Laplacian(columns=[1, 2], ard="always"),
    "nested": (RBF() + Linear(columns=slice(0, 2))) * Matern32(columns=[3]) + RBF(gamma=0.1),
    "groups": RBF(ard=["a", "b", "a", "b"]),
    "gaussian process": GaussianProcessKernel(
        gp.ConstantKernel(1.0, "fixed") * gp.RationalQuadratic() + gp.RBF([1.0, 2.0, 1.0, 3.0])
    ),
    "function": FunctionKernel(cauchy, {"gamma": 0.5}),
    "function with derivatives": FunctionKernel(cauchy, {"gamma": 0.5}, product=cauchy_product)
    + RBF(),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_derivatives_of_blocks(name):
    assert check_kernel(COMPOSED[name], RNG.normal(size=(12, 4))) < 1e-5


@pytest.mark.parametrize("loss", [*CLASSIFICATION, *REGRESSION])
@pytest.mark.parametrize("name", COMPOSED)
def test_every_coordinate_has_its_derivative_with_every_loss(name, loss):
    classifies = loss in CLASSIFICATION
    X, y = make_data(2 if classifies else 0, n=40)
    model = (KernelSVC if classifies else KernelSVR)(kernel=COMPOSED[name], loss=loss)
    folds = list((StratifiedKFold(2) if classifies else KFold(2)).split(X, y))
    found = CrossValidationLoss(model, X[:, :4], y, cv=folds, tol=1e-11)
    at = found.start + np.linspace(-0.3, 0.2, len(found.start))
    assert_loss_gradient(found, at)


def fitted(kernel, X, y, **params):
    return KernelSVC(C=2.0, kernel=kernel, tol=1e-9, **params).fit(X, y)


def test_sums_and_products_are_those_of_the_matrices():
    X, y = make_data(2, n=60)
    K = 0.3 * rbf_kernel(X[:, :2], gamma=0.7) + 0.7 * (X @ X.T) * rbf_kernel(X, gamma=0.2)
    ours = 0.3 * RBF(0.7, columns=[0, 1]) + 0.7 * Linear() * RBF(0.2)
    theirs = fitted("precomputed", K, y).decision_function(K)
    np.testing.assert_allclose(fitted(ours, X, y).decision_function(X), theirs, atol=1e-6)


def test_several_given_matrices():
    X, y = make_data(2, n=60)
    A, B = rbf_kernel(X[:, :2], gamma=0.7), X @ X.T
    both = Sum(
        [("a", Precomputed(columns=slice(0, 60))), ("b", Precomputed(columns=slice(60, 120)))],
        weights={"a": 0.6, "b": 0.4},
    )
    K = 0.6 * A + 0.4 * B
    ours = fitted(both, np.hstack([A, B]), y).decision_function(np.hstack([A, B])[:7])
    np.testing.assert_allclose(
        ours, fitted("precomputed", K, y).decision_function(K[:7]), atol=1e-6
    )
    search = GradientSearchCV(KernelSVC(kernel=both), cv=3).fit(np.hstack([A, B]), y)
    assert sum(search.best_params_["kernel__weights"].values()) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="square matrix"):
        KernelSVC(kernel=Precomputed()).fit(A[:, :40], y)


@pytest.mark.parametrize("rank", [None, 40])
def test_the_kernel_that_matters_gets_the_weight(rank):
    # the same whichever tests came before; folds of one size, so that as many errors are one score
    X = np.random.default_rng(0).normal(size=(198, 6))
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 > 1
    kernel = Sum([("signal", RBF(columns=[0, 1])), ("noise", RBF(columns=[2, 3, 4, 5]))])
    search = GradientSearchCV(
        KernelSVC(kernel=kernel), cv=3, random_state=0, rank=rank, exact_refit=True
    ).fit(X, y)
    weights = search.best_params_["kernel__weights"]
    assert weights["signal"] > 0.7
    assert sum(weights.values()) == pytest.approx(1.0)
    gradients = [r["gradient"] for r in search.history_ if r["gradient"] is not None]
    assert all(list(g["kernel__weights"]) == ["signal", "noise"] for g in gradients)
    assert search.best_estimator_.kernel.weights == weights
    assert search.score(X, y) > 0.9


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_outputs_are_split_by_kernel(n_classes):
    X, y = make_data(n_classes, n=80)
    kernel = 0.4 * RBF(columns=[0, 1]) + 0.6 * Linear()
    model = (KernelSVC if n_classes else KernelSVR)(kernel=kernel).fit(X, y)
    parts = model.outputs_by_kernel(X)
    assert list(parts) == ["rbf", "linear"]
    whole = parts["rbf"] + parts["linear"] + model.intercept_
    if n_classes == 0:
        np.testing.assert_allclose(whole[:, 0], model.predict(X))
    elif n_classes == 2:
        np.testing.assert_allclose(whole[:, 0], model.decision_function(X))
    assert whole.shape == (80, 3 if n_classes == 3 else 1)
    assert not hasattr(KernelSVC(), "outputs_by_kernel")


def test_columns_as_in_a_column_transformer():
    X, y = make_data(2, n=80)
    table = pd.DataFrame(X[:, :4], columns=["a1", "a2", "b1", "b2"])
    expected = fitted(RBF(0.3, columns=[0, 1]), table.to_numpy(), y).decision_function(X[:, :4])
    for columns in (["a1", "a2"], slice("a1", "a2"), make_column_selector("^a"), [0, 1]):
        model = fitted(RBF(0.3, columns=columns), table, y)
        np.testing.assert_array_equal(model.decision_function(table), expected)
    named = RBF(columns=["a1", "a2"], ard="always")
    pipeline = make_pipeline(
        StandardScaler().set_output(transform="pandas"), KernelSVC(kernel=named)
    )
    search = GradientSearchCV(pipeline, cv=3, max_evals=10).fit(table, y)
    assert search.best_params_["kernelsvc__kernel__gamma"].shape == (2,)
    for columns, message in (("c", "are not in X"), ([], "names no column"), ([9], "are not in X")):
        with pytest.raises(ValueError, match=message):
            KernelSVC(kernel=RBF(columns=columns)).fit(table, y)


@pytest.mark.parametrize("space", [None, {"C": None, "gamma": None}])
def test_a_model_with_widths_is_tuned_with_widths(space):
    X, y = make_data(2, n=60)
    model = KernelSVC(gamma=np.full(X.shape[1], 0.2))
    search = GradientSearchCV(model, space, cv=3, max_evals=6).fit(X, y)
    assert search.best_params_["gamma"].shape == (X.shape[1],)


def test_kernels_are_cloned_changed_and_printed_as_estimators_are():
    kernel = RBF() + 2.0 * (RBF(columns=[0]) * Linear()) + Matern32()
    assert [name for name, _ in kernel.kernels] == ["rbf", "product", "matern32"]
    assert kernel.weights == [1.0, 2.0, 1.0]
    model = clone(KernelSVC(kernel=kernel)).set_params(kernel__product__rbf__gamma=3.0)
    assert model.kernel.kernels[1][1].kernels[0][1].gamma == 3.0
    assert kernel.kernels[1][1].kernels[0][1].gamma == "scale"
    assert [name for name, _ in (RBF() + RBF()).kernels] == ["rbf1", "rbf2"]
    assert "Matern32()" in repr(kernel)


def test_scores_are_those_of_the_models():
    X, y = make_data(3, n=90)
    cv = KFold(3, shuffle=True, random_state=0)
    search = GradientSearchCV(KernelSVC(kernel=RBF(ard=True) + Linear()), cv=cv).fit(X, y)
    again = cross_val_score(search.best_estimator_, X, y, cv=cv)
    assert search.best_score_ == pytest.approx(again.mean(), abs=0.02)


@pytest.mark.parametrize(
    ("machine", "wrapped", "n"),
    [(SVC, False, 800), (SVC, True, 150), (SVR, False, 150), (SVR, True, 800)],
)
def test_scikit_learns_machines_have_scaled_features(machine, wrapped, n):
    X = RNG.normal(size=(n, 4))
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2
    y = y > 1 if machine is SVC else y
    own = (KernelSVC if machine is SVC else KernelSVR)()
    space = {"C": None, "gamma": "always_per_feature"}
    weight = np.where(X[:, 0] > 0, 1.0, 2.0)

    def search(model, space):
        return GradientSearchCV(model, space, cv=3, random_state=0, max_evals=6)

    if wrapped:
        name = f"pipeline__{machine.__name__.lower()}__"
        model = make_pipeline(StandardScaler(), make_pipeline(machine()))
        theirs = search(model, {name + n: v for n, v in space.items()})
        theirs.fit(X, y, **{name + "sample_weight": weight})
        X = StandardScaler().fit_transform(X)
        assert theirs.best_estimator_.steps[-1][1].steps[-1][1].gamma == 1.0
    else:
        theirs = search(machine(), space).fit(X, y, sample_weight=weight)
        assert theirs.best_params_["gamma"].shape == (4,)
        assert theirs.best_estimator_.steps[0][0] == "widths"
    assert theirs.best_estimator_.n_features_in_ == 4
    if not wrapped:
        ours = search(own, space).fit(X, y, sample_weight=weight)
        ours.best_estimator_.set_params(tol=1e-6).fit(X, y, sample_weight=weight)
        np.testing.assert_allclose(theirs.predict(X), ours.predict(X), atol=0.05)


def test_a_given_matrix_is_one_wherever_it_is_given():
    X, y = make_data(2, n=60)
    K = rbf_kernel(X, gamma=0.3)
    named, given = (KernelSVC(kernel=k) for k in ("precomputed", Precomputed()))
    expected = cross_val_score(named, K, y, cv=3)
    np.testing.assert_array_equal(cross_val_score(given, K, y, cv=3), expected)
    several = KernelSVC(kernel=Precomputed(columns=slice(0, 60)) + RBF(columns=slice(60, None)))
    several.fit(np.hstack([K, X]), y)
    lopsided = np.triu(K)
    for model, matrix in ((given, K[:50]), (given, lopsided), (several, np.hstack([lopsided, X]))):
        with pytest.raises(ValueError, match=r"must be (a square|symmetric)"):
            model.fit(matrix, y[: len(matrix)])


def test_a_sum_that_is_not_positive_definite_is_searched():
    X, y = make_data(2, n=60)
    far = -((X[:, None] - X) ** 2).sum(axis=2)
    both = Precomputed(columns=slice(0, 60)) + Precomputed(columns=slice(60, 120))
    search = GradientSearchCV(KernelSVC(kernel=both), cv=3, max_evals=10)
    assert search.fit(np.hstack([far, rbf_kernel(X)]), y).best_score_ > 0.5


def test_what_is_wrong_is_said_in_a_sentence():
    X, y = make_data(2, n=40)
    for kernel, message in (
        (Sum([]), "has no kernels"),
        (Sum([("a", "rbf")]), r"give pairs \(name, kernel\)"),
        (Sum([("a", RBF()), ("a", RBF())]), "not unique"),
        (Sum([("a", RBF()), ("b", RBF())], weights=[1.0]), "there are 2 kernels"),
        (Sum([("a", RBF()), ("b", RBF())], weights=[1.0, -1.0]), "must be positive"),
        (RBF(gamma=[1.0, 2.0]), "one for each of the"),
        (FunctionKernel(cauchy, {"gamma": -1.0}), "must be positive"),
        (FunctionKernel("cauchy", {"gamma": 1.0}), "give a function"),
        (GaussianProcessKernel("rbf"), "give one of sklearn"),
        (RBF(gamma=-1.0), "gamma=-1.0 of RBF must be positive"),
        (RBF(gamma="sclae") + Linear(), "must be 'scale' or a number"),
        (Laplacian(ard="maybe"), "ard='maybe' of Laplacian"),
        (Polynomial(2.5), "degree=2.5 of Polynomial must be an integer"),
        (FunctionKernel(lambda X, Z: np.ones(3)), "an entry for each pair"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            KernelSVC(kernel=kernel).fit(X, y)
    with pytest.raises(ValueError, match="ard='some' of RBF must be"):
        GradientSearchCV(KernelSVC(kernel=RBF(ard="some"))).fit(X, y)
    with pytest.raises(ValueError, match="there are"):
        GradientSearchCV(KernelSVC(kernel=RBF(ard=["a", "b"]))).fit(X, y)
    with pytest.raises(TypeError):
        RBF() + 1
    with pytest.raises(ValueError, match="factor"):
        -1.0 * RBF()
    with pytest.raises(ValueError, match="differences of its blocks give"):
        wrong = FunctionKernel(
            cauchy, {"gamma": 0.5}, product=lambda X, Z, M, gamma: {"gamma": 1.0}
        )
        check_kernel(wrong, X)
    with pytest.raises(ValueError, match="is not symmetric"):
        check_kernel(FunctionKernel(lambda X, Z: X[:, :1] + 0 * Z[:, 0]), X)
    with pytest.raises(ValueError, match="'kernel' parameter of SVC must be"):
        GradientSearchCV(SVC(kernel="auto"), error_score="raise").fit(X, y)
    assert isinstance(RBF() * RBF(), Product)


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_search_chooses_the_kernel(wrapped):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2
    model, prefix = KernelSVR(kernel="auto"), ""
    if wrapped:
        model, prefix = make_pipeline(StandardScaler(), model), "kernelsvr__"
    search = GradientSearchCV(model, cv=3, random_state=0).fit(X, y)
    tried = {type(r["params"][prefix + "kernel"]).__name__ for r in search.history_}
    assert tried == {"GeneralisedGaussian", "Laplacian"}
    assert isinstance(search.best_params_[prefix + "kernel"], GeneralisedGaussian)  # y is smooth
    assert search.best_score_ > 0.9
    assert KernelSVR(kernel="auto").fit(X, y).score(X, y) == KernelSVR().fit(X, y).score(X, y)
    with pytest.raises(ValueError, match="Invalid parameter 'gamma'"):
        GradientSearchCV(KernelSVR(kernel="auto"), {"gamma": (0.1, 1.0)}).fit(X, y)
