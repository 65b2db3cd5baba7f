"""Tune an SVM in a pipeline by gradients, and compare with a grid search on the same folds."""

from time import perf_counter

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from hypermargin import GradientSearchCV

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
model = make_pipeline(StandardScaler(), SVC())
folds = StratifiedKFold(5, shuffle=True, random_state=0)


def timed_fit(search):
    start = perf_counter()
    search.fit(X_train, y_train)
    return perf_counter() - start


def show(params):
    return "  ".join(f"{name.removeprefix('svc__')} = {v:<9.4g}" for name, v in params.items())


# The first search of a fresh installation compiles the solver: do that on a few rows.
GradientSearchCV(model, cv=3).fit(X_train[:90], y_train[:90])

gradient = GradientSearchCV(model, cv=folds, random_state=0)
gradient_seconds = timed_fit(gradient)

print("The search, one line per evaluation:\n")
for step in gradient.history_:
    score = "a look      " if step["gradient"] is None else f"score {step['score']:.4f}"
    print(
        f"{step['n_samples']:5d} rows   {show(step['params'])}  objective {step['objective']:.4f}"
        f"   {score}   {1000 * step['seconds']:6.1f} ms"
    )

print("\n225 points of a grid take a while ...")
grid = GridSearchCV(
    model,
    {"svc__C": np.logspace(-2, 4, 15), "svc__gamma": np.logspace(-4, 1, 15)},
    cv=folds,
)
grid_seconds = timed_fit(grid)

print(f"\n{'':18}{'seconds':>9}{'CV score':>10}{'test score':>12}   parameters")
for search, seconds in [(gradient, gradient_seconds), (grid, grid_seconds)]:
    print(
        f"{type(search).__name__:18}{seconds:9.2f}{search.best_score_:10.4f}"
        f"{search.score(X_test, y_test):12.4f}   {show(search.best_params_)}"
    )
