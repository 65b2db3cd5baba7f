"""Random estimators, pipelines and spaces."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest, f_classif, f_regression
from sklearn.impute import SimpleImputer
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR

from benchmarks._fuzz.data import Rng
from hypermargin import KernelSVC, KernelSVR, LinearClassifier, LinearRegressor

CLASSIFIERS = {
    SVC: 0.3, KernelSVC: 0.2, LinearSVC: 0.14, LogisticRegression: 0.14, RidgeClassifier: 0.08,
    LinearClassifier: 0.14,
}  # fmt: skip
REGRESSORS = {
    SVR: 0.28,
    KernelSVR: 0.2,
    KernelRidge: 0.16,
    LinearSVR: 0.12,
    Ridge: 0.1,
    LinearRegressor: 0.14,
}
OF_KERNEL = {"rbf": ("gamma",), "poly": ("gamma", "coef0"), "sigmoid": ("gamma", "coef0")}
MARGIN_LOSSES = ("hinge", "squared_hinge", "modified_huber", "squared", "smooth_hinge", "logistic")
RESIDUAL_LOSSES = ("epsilon_insensitive", "squared_epsilon_insensitive", "squared", "pinball")
RANGES = {
    "C": (1e-2, 1e3), "alpha": (1e-3, 1e2), "gamma": (1e-3, 1e1), "epsilon": (1e-3, 1.0),
    "class_cost": (0.1, 10.0), "class_weight": (0.1, 10.0), "margin": (0.5, 2.0),
    "quantile": (0.2, 0.8),
}  # fmt: skip
LINEAR_RANGES = {"coef0": (0.0, 2.0), "threshold": (-1.0, 1.0)}


def pick(rng: Rng, options: Any) -> Any:
    """Draw one of the options, by their chances if they are a dict."""
    names = list(options)
    if isinstance(options, dict):
        return names[
            rng.choice(len(names), p=np.array(list(options.values())) / sum(options.values()))
        ]
    return names[rng.integers(len(names))]


def machine(rng: Rng, classes: list | None, precomputed: bool) -> Any:
    """Draw an estimator with some of its parameters."""
    kind = pick(rng, REGRESSORS if classes is None else CLASSIFIERS)
    if precomputed:
        kind = pick(rng, (SVR, KernelSVR, KernelRidge) if classes is None else (SVC, KernelSVC))
    model = kind()
    known = model.get_params()
    values = {
        **_kernel(rng, kind, precomputed),
        **_loss(rng, kind),
        **_weights(rng, kind, classes),
        **_numbers(rng, known),
    }
    if kind is SVC and rng.uniform() < 0.3:
        values |= (
            {"decision_function_shape": "ovo"} if rng.uniform() < 0.5 else {"break_ties": True}
        )
    return model.set_params(**{name: v for name, v in values.items() if name in known})


def _numbers(rng: Rng, known: dict[str, Any]) -> dict[str, Any]:
    """Draw numbers that are not tuned, tolerances and intercepts."""
    made: dict[str, Any] = {"C": float(pick(rng, (0.1, 1.0, 30.0)))}
    made["alpha"] = float(pick(rng, (0.01, 1.0)))
    made["gamma"] = pick(rng, ("scale", "scale", "auto", 0.3))
    if known.get("gamma", "") is None:  # KernelRidge
        made["gamma"] = pick(rng, (None, 0.3))
    made["coef0"] = float(pick(rng, (0.0, 1.0)))
    made["epsilon"] = float(pick(rng, (0.1, 0.01)))
    made["fit_intercept"] = bool(rng.uniform() < 0.85)
    made["intercept_scaling"] = float(pick(rng, (1.0, 1.0, 10.0)))
    if rng.uniform() < 0.5 and "tol" in known:
        made["tol"] = 10.0 ** -int(rng.integers(3, 8))
    return made


def _kernel(rng: Rng, kind: type, precomputed: bool) -> dict[str, Any]:
    if precomputed:
        return {"kernel": "precomputed"}
    chances = {"rbf": 0.6, "linear": 0.15, "poly": 0.15, "sigmoid": 0.1}
    made = {"kernel": pick(rng, chances), "degree": int(rng.integers(1, 4))}
    if kind is KernelRidge and rng.uniform() < 0.1 and made["kernel"] == "poly":
        made["kernel"] = "polynomial"
    return made


def _loss(rng: Rng, kind: type) -> dict[str, Any]:
    if kind in (KernelSVC, LinearClassifier):
        return {"loss": pick(rng, MARGIN_LOSSES)}
    if kind in (KernelSVR, LinearRegressor):
        return {"loss": pick(rng, RESIDUAL_LOSSES), "quantile": pick(rng, (0.5, 0.9))}
    if kind is LinearSVC:
        loss = pick(rng, ("squared_hinge", "squared_hinge", "hinge"))
        return {"loss": loss, "dual": pick(rng, ("auto", "auto", True))}
    if kind is LinearSVR:
        return {"loss": pick(rng, RESIDUAL_LOSSES[:2]), "dual": "auto"}
    if kind is LogisticRegression:
        return {"solver": pick(rng, ("lbfgs", "lbfgs", "liblinear", "newton-cholesky"))}
    return {}


def _weights(rng: Rng, kind: type, classes: list | None) -> dict[str, Any]:
    if classes is None or rng.uniform() < 0.7:
        return {}
    by_label = {label: float(pick(rng, (0.3, 1.0, 4.0))) for label in classes}
    if kind in (KernelSVC, LinearClassifier):
        return {"class_cost": by_label}
    return {"class_weight": pick(rng, ("balanced", by_label))}


def pipeline(rng: Rng, model: Any, classes: list | None, has_nan: bool) -> Any:
    """Put transformers in front of a machine."""
    steps: list[Any] = [SimpleImputer()] if has_nan else []
    score = f_regression if classes is None else f_classif
    steps.append(
        pick(
            rng,
            (
                StandardScaler(),
                StandardScaler(with_mean=False),
                MinMaxScaler(),
                PCA(1),
                SelectKBest(score, k=1),
                FunctionTransformer(),
                "passthrough",
            ),
        )
    )
    if rng.uniform() < 0.2:
        steps.append(StandardScaler(with_mean=False))
    return make_pipeline(*steps, model)


def tunable(model: Any) -> list[str]:
    """Return the names of the numbers that a machine is usually tuned by."""
    strength = "alpha" if hasattr(model, "alpha") else "C"
    names = [
        strength,
        *OF_KERNEL.get("poly" if _kernel_of(model) == "polynomial" else _kernel_of(model), ()),
    ]
    loss = getattr(model, "loss", "epsilon_insensitive")
    if "epsilon" in model.get_params() and loss in RESIDUAL_LOSSES[:2]:
        names.append("epsilon")
    return names


def _kernel_of(model: Any) -> str:
    return getattr(model, "kernel", "none")


def space(rng: Rng, model: Any, prefix: str, classes: list | None) -> Any:
    """Draw what is tuned: all by default, ranges, distributions, lists, knobs by class."""
    if rng.uniform() < 0.4:
        return None
    names = tunable(model)
    if rng.uniform() < 0.3:
        names = names[:1]
    found = {prefix + name: spec(rng, name) for name in names}
    if rng.uniform() < 0.15:
        found[prefix + names[0]] = sorted(float(c) for c in 10.0 ** rng.uniform(-2, 2, size=2))
    if _kernel_of(model) in OF_KERNEL and rng.uniform() < 0.1:
        found[prefix + "kernel"] = ["rbf", "poly"]
    if classes is not None and rng.uniform() < 0.25:
        found |= _knob(rng, model, prefix, classes)
    return [found, {prefix + names[0]: spec(rng, names[0])}] if rng.uniform() < 0.05 else found


def spec(rng: Rng, name: str) -> Any:
    """Draw a range, a distribution, or None for one that is read off the data."""
    if name in LINEAR_RANGES:
        return (*LINEAR_RANGES[name], "linear")
    low, high = RANGES[name]
    share = (high / low) ** (0.2 * rng.uniform(size=2))
    low, high = float(low * share[0]), float(high / share[1])
    return pick(rng, (None, (low, high), (low, high, "log"), stats.loguniform(low, high)))


def _knob(rng: Rng, model: Any, prefix: str, classes: list) -> dict[str, Any]:
    own = isinstance(model, (KernelSVC, LinearClassifier))
    if len(classes) == 2 and rng.uniform() < 0.5:
        return {prefix * own + "threshold": pick(rng, (None, spec(rng, "threshold")))}
    if own:
        name = "class_cost" if model.loss == "logistic" else pick(rng, ("class_cost", "margin"))
    elif isinstance(model, RidgeClassifier):
        return {}
    else:
        name = "class_weight"
    return {prefix + name: pick(rng, (None, {classes[0]: spec(rng, name)}))}
