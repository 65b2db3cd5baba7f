"""Small data sets, searches, and the yardstick (a plain grid search over the same points).

The examples of docs/extending are listed before any test is collected, so that the contract tests
hold them to what the package's own kernels, losses, criteria, methods and estimators must do.
"""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from helpers import C_GAMMA, CASES, quick, svc
from hypothesis import settings
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV

# the same examples every time: what they find must not hang on the day (`run fuzz` looks further)
settings.register_profile("same", derandomize=True)
settings.load_profile("same")

PAGES = sorted((Path(__file__).parent.parent / "docs" / "extending").glob("*.md"))
for page in PAGES:
    (example,) = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    exec(compile(example, str(page), "exec"), {"__name__": f"docs.extending.{page.stem}"})


@pytest.fixture(scope="session")
def binary():
    """Two noisy classes in four columns, 80 rows."""
    X, y = make_classification(
        n_samples=80,
        n_features=4,
        n_informative=3,
        n_redundant=0,
        flip_y=0.1,
        class_sep=0.8,
        random_state=3,
    )
    return _read_only(X, y)


@pytest.fixture(scope="session")
def three_classes():
    """Three overlapping classes in four columns, 90 rows."""
    X, y = make_classification(
        n_samples=90,
        n_features=4,
        n_informative=3,
        n_redundant=0,
        n_classes=3,
        n_clusters_per_class=1,
        flip_y=0.1,
        class_sep=0.7,
        random_state=5,
    )
    return _read_only(X, y)


@pytest.fixture(scope="session")
def regression():
    """A smooth bump with noise in two columns, 70 rows."""
    rng = np.random.RandomState(7)
    X = rng.uniform(-2, 2, size=(70, 2))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.2 * rng.randn(70)
    return _read_only(X, y)


@pytest.fixture(scope="session")
def many_rows():
    """Two classes in two columns, 1,000 rows: enough for looks at a part of them."""
    rng = np.random.RandomState(0)
    X = rng.uniform(-1, 1, size=(1000, 2))
    y = (X[:, 0] ** 2 + X[:, 1] + 0.3 * rng.randn(1000) > 0.3).astype(int)
    return _read_only(X, y)


def _read_only(*arrays):
    for array in arrays:
        array.flags.writeable = False
    return arrays


@pytest.fixture(params=list(CASES))
def case(request):
    """Go through the kinds of estimator, each with a space and data."""
    estimator, space, data = CASES[request.param]
    return clone(estimator), space, *request.getfixturevalue(data)


@pytest.fixture(scope="session")
def fitted(binary):
    """Fit one search that several read-only tests look at."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return quick(svc(), C_GAMMA, return_train_score=True).fit(*binary)


@pytest.fixture(scope="session")
def grid_over_same_points():
    """Return a function: scikit-learn's grid search over the rows of a search's table."""

    def run(search, X, y, cv=None, **fit_params):
        points = [{k: [v] for k, v in row.items()} for row in search.cv_results_["params"]]
        grid = GridSearchCV(
            clone(search.estimator),
            points,
            scoring=search.scoring,
            cv=search.cv if cv is None else cv,
            refit=False,
            return_train_score=search.return_train_score,
            error_score=search.error_score,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return grid.fit(X, y, **fit_params)

    return run


@pytest.fixture(scope="session")
def assert_same_scores():
    """Return a function: every score of each split of each row of two tables must agree.

    Scores that count hits may differ by ``unit`` (one hit) in rare cells, because a decision
    value next to zero may fall on either side of it; other scores agree to ``rtol``.
    """

    def check(mine, theirs, *, unit=None, rtol=1e-2, atol=1e-3):
        keys = [k for k in theirs if re.fullmatch(r"split\d+_(test|train)_.+", k)]
        assert keys
        assert set(keys) <= set(mine)
        for key in keys:
            a, b = np.asarray(mine[key]), np.asarray(theirs[key])
            if unit is None:
                np.testing.assert_allclose(a, b, rtol=rtol, atol=atol, err_msg=key)
            else:
                apart = np.abs(a - b)
                assert np.all(apart <= unit + 1e-9), (key, a, b)
                assert np.sum(apart > 1e-9) <= max(1, 0.25 * len(apart)), (key, a, b)

    return check
