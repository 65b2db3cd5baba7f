"""Far more features than rows."""

import numpy as np
import pytest
from helpers import quick
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from hypermargin.files import delimited, read
from hypermargin.kernels import points as points_module
from hypermargin.kernels.points import Points


def wide_data(n=40, p=1000, offset=0.0):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, p)) + offset, np.arange(n) % 2
    X[:, :20] += y[:, None]
    X[7] = X[3]
    return X, y


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_rows_are_turned_and_keep_their_products_and_distances(offset):
    X, _ = wide_data(offset=offset)
    points = Points.of(X)
    few = points.narrow
    assert few.X.shape == (40, 41)
    np.testing.assert_allclose(few.inner(few), points.inner(points), rtol=1e-12)
    np.testing.assert_allclose(
        few.square_distances(few), points.square_distances(points), rtol=1e-9, atol=1e-8
    )
    np.testing.assert_array_equal(few.X[7], few.X[3])
    not_wide = Points.of(X[:, :200])
    assert not_wide.narrow is not_wide


@pytest.mark.parametrize(
    "model",
    [
        SVC(tol=1e-6),
        SVC(kernel="linear", tol=1e-6),
        SVC(kernel="poly", degree=2, coef0=1.0, tol=1e-6),
        SVR(tol=1e-6),
        make_pipeline(StandardScaler(), SVC(tol=1e-6)),
    ],
    ids=str,
)
def test_a_search_is_the_same_in_fewer_dimensions(model, monkeypatch):
    X, y = wide_data()
    name = "svc__C" if hasattr(model, "steps") else "C"
    turned = quick(model, {name: [0.1, 1.0, 100.0]}, cv=4).fit(X, y)
    monkeypatch.setattr(points_module, "WIDE", np.inf)
    plain = quick(model, {name: [0.1, 1.0, 100.0]}, cv=4).fit(X, y)
    np.testing.assert_allclose(
        turned.cv_results_["objective"], plain.cv_results_["objective"], rtol=1e-5
    )
    np.testing.assert_array_equal(turned.predict(X), plain.predict(X))


def test_a_table_of_long_rows_is_read_as_any_other(tmp_path, monkeypatch):
    n, p = 30, 200
    numbers = np.random.default_rng(0).integers(0, 100, size=(n, p)).astype(str)
    numbers[20, 5], numbers[25, 9] = "", "word"  # a gap, and a column that turns out to be text
    lines = [",".join([*(f"x{k}" for k in range(p)), "y"])]
    lines += [",".join([*row, "ab"[i % 2]]) for i, row in enumerate(numbers)]
    path = tmp_path / "wide.csv"
    path.write_text("\n".join(lines) + "\n")
    usual = read(path)
    monkeypatch.setattr(delimited, "CELLS", 100)  # a few rows at a time
    monkeypatch.setattr(delimited, "LETTERS_SEEN", 1000)
    wide = read(path)
    assert wide.names == usual.names
    for one, other in zip(wide.columns, usual.columns, strict=True):
        np.testing.assert_array_equal(one, other)
    assert wide.columns[9].dtype == object
    assert np.isnan(wide.columns[5][20])
