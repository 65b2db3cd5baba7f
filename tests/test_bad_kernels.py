"""Kernels that are given in a wrong way are refused in one sentence, by fits and by searches."""

import numpy as np
import pandas as pd
import pytest
from helpers import make_data
from sklearn.kernel_ridge import KernelRidge

from hypermargin import GradientSearchCV, KernelSVC, KernelSVR
from hypermargin.kernels import (
    RBF,
    FunctionKernel,
    GaussianProcessKernel,
    GeneralisedGaussian,
    Laplacian,
    RationalQuadratic,
    Sum,
    check_kernel,
)


def cauchy(X, Z, gamma):
    return 1 / (1 + gamma * ((X[:, None] - Z) ** 2).sum(axis=2))


def product(X, Z, M, gamma):
    d = ((X[:, None] - Z) ** 2).sum(axis=2)
    return {"gamma": -(M * d / (1 + gamma * d) ** 2).sum()}


BAD = {
    "q above p": (GeneralisedGaussian(q=1.5, p=1.0), "q=1.5 must be above 0"),
    "q is nothing": (GeneralisedGaussian(q=None), "q=None of GeneralisedGaussian"),
    "p is zero": (GeneralisedGaussian(p=0), "p=0 must be above 0"),
    "p is a word": (GeneralisedGaussian(p="a"), "p='a' must be"),
    "roundness": (GeneralisedGaussian(p=None, roundness=2), "roundness=2 must be between"),
    "alpha": (RationalQuadratic(alpha=None), "alpha=None of RationalQuadratic"),
    "negative width": (RBF(gamma=[1.0, -1.0, 1.0]), "positive and finite"),
    "no width": (RBF(gamma=[0.0, 0.0, 0.0]), "some may be 0, not all"),
    "widths that are words": (RBF(gamma=["a", "b", "c"]), "must be a number"),
    "table of widths": (RBF(gamma=np.ones((2, 2))), "one for each feature"),
    "too few groups": (RBF(ard=["a", "b"]), "has 2 values, but there are 3 features"),
    "groups of some columns": (RBF(ard=["a"], columns=[0, 1]), "has 1 values, but there are 2"),
    "ard is a number": (Laplacian(ard=3), "ard=3 of Laplacian must be"),
    "group without a name": (RBF(ard=["a", None, "b"]), "labels of several types"),
    "mask of another width": (RBF(columns=[True, False]), "yes or no to each of the 3 columns"),
    "no list of kernels": (Sum(None), "kernels=None; give a list"),
    "no such kernel": (GaussianProcessKernel("rbf"), "kernel='rbf'; give one of sklearn"),
    "not finite": (FunctionKernel(lambda X, Z: np.inf * X @ Z.T), "values that are not finite"),
    "not symmetric": (FunctionKernel(lambda X, Z: X[:, :1] - Z[:, 0]), "is not symmetric"),
    "wrong derivative": (
        FunctionKernel(cauchy, {"gamma": 0.5}, product=lambda X, Z, M, gamma: {"gamma": 1.0}),
        "the derivative of FunctionKernel by gamma is 1.0",
    ),
    "no derivative": (
        FunctionKernel(cauchy, {"gamma": 0.5}, product=lambda X, Z, M, gamma: {"gamma": np.nan}),
        "by gamma is nan",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_kernel_is_refused_by_fit_and_by_search(name):
    kernel, sentence = BAD[name]
    X, y = make_data(2, n=60)
    X = X[:, :3]
    searches = [GradientSearchCV(KernelSVC(kernel=kernel), cv=3, rank=r) for r in (None, 20)]
    for model in (KernelSVC(kernel=kernel), *searches):
        with pytest.raises((ValueError, TypeError), match=sentence.replace("(", r"\(")):
            model.fit(X, y)


def test_ranges_of_what_must_be_positive_are_checked():
    X, y = make_data(2, n=60)
    kernel = Sum([("a", RBF(columns=[0])), ("b", RationalQuadratic())])
    for name in ("kernel__a__gamma", "kernel__b__alpha", "kernel__b__gamma"):
        with pytest.raises(ValueError, match="it must be positive"):
            GradientSearchCV(KernelSVC(kernel=kernel), {name: (-1, 1)}, cv=3).fit(X, y)


def test_a_right_derivative_of_a_function_is_accepted_however_large_values_are():
    X, y = make_data(2, n=60)
    kernel = FunctionKernel(
        lambda X, Z, gamma: 1e6 * cauchy(X, Z, gamma),
        {"gamma": 0.5},
        product=lambda X, Z, M, gamma: product(X, Z, 1e6 * M, gamma),
    )
    model = KernelSVC(C=1e-6, kernel=kernel).fit(X, y)
    assert model.predict(X[:1]).shape == (1,)  # one row, of which nothing depends on gamma


def test_the_check_of_a_kernel_reads_names_lists_and_sparse_rows():
    from scipy import sparse

    frame = pd.DataFrame(make_data(2, n=30)[0][:, :3], columns=list("abc"))
    assert check_kernel(RBF(gamma=[0.5, 0.2], columns=["a", "c"]), frame) < 1e-6
    assert check_kernel(Laplacian(gamma=0.5), sparse.csr_matrix(frame.to_numpy())) < 1e-6


def test_a_width_that_scikit_learn_does_not_have_is_asked_for():
    X = np.random.default_rng(0).poisson(3.0, size=(40, 3)).astype(float)
    with pytest.raises(ValueError, match="give gamma a number, or tune it"):
        GradientSearchCV(KernelRidge(kernel="chi2"), {"alpha": None}, cv=3).fit(X, X[:, 0])
    search = GradientSearchCV(KernelRidge(kernel="chi2"), cv=3).fit(X, X[:, 0])
    assert search.best_params_.keys() == {"alpha", "gamma"}


def test_more_kernels_than_rows_are_no_obstacle():
    X, y = make_data(0, n=20)
    kernel = Sum([(f"k{i}", RBF(columns=[i % X.shape[1]])) for i in range(30)])
    search = GradientSearchCV(KernelSVR(kernel=kernel), cv=3, max_evals=5).fit(X, y)
    assert sum(search.best_params_["kernel__weights"].values()) == pytest.approx(1.0)
