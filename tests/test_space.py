"""The three forms of a point: a vector, the problem's arrays, the user's dicts by label."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import make_data
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hypermargin import (
    CrossValidationLoss,
    GradientSearchCV,
    KernelSVC,
    LinearRegressor,
    value_and_grad,
)
from hypermargin._core.space import (
    Dimension,
    Hyperparameter,
    LabelledArray,
    Labels,
    Space,
    lattice,
)

RANGES = (
    Dimension(1e-3, 1e3, usual=(0.1, 10.0), drift=0.3),
    Dimension(-2.0, 6.0, "linear", lean=0.02),
    Dimension(0.5, 0.7),
)


@st.composite
def spaces(draw):
    """Return numbers and arrays in any order, some entries of which are tuned."""
    sizes = draw(st.lists(st.integers(0, 300), min_size=1, max_size=4))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    found = []
    for number, size in enumerate(sizes):
        name, own = f"step__p{number}", f"q{number}"
        if size == 0:
            found.append(Hyperparameter(name, own, (RANGES[rng.integers(3)],)))
            continue
        chosen = np.flatnonzero(rng.random(size) < 0.8)
        ranges = tuple(RANGES[k] for k in rng.integers(3, size=len(chosen)))
        labels, rest = Labels("groups", [f"g{k}" for k in range(size)]), rng.normal(size=size)
        found.append(LabelledArray(name, own, ranges, labels=labels, chosen=chosen, rest=rest))
    return Space(tuple(found))


@settings(deadline=None, max_examples=60)
@given(spaces(), st.integers(0, 999))
def test_a_point_and_its_vector_are_the_same(space, seed):
    low, high = space.bounds.T
    theta = np.random.default_rng(seed).uniform(low, high)
    params = space.params(theta)
    values = space.flat(params)
    assert len(values) == len(space)
    expected = [d.from_scaled(t) for d, t in zip(space.dimensions, theta, strict=True)]
    np.testing.assert_allclose(values, expected, rtol=1e-13)
    np.testing.assert_allclose(space.theta(params), theta, rtol=1e-10, atol=1e-10)
    for h in space.hyperparameters:  # what is not tuned stays
        if isinstance(h, LabelledArray):
            others = np.setdiff1d(np.arange(len(h.labels)), h.chosen)
            np.testing.assert_array_equal(params[h.own][others], h.rest[others])


@settings(deadline=None, max_examples=60)
@given(spaces(), st.integers(0, 999))
def test_gradients_are_pulled_to_the_vector(space, seed):
    rng, (low, high) = np.random.default_rng(seed), space.bounds.T
    theta = low + rng.uniform(0.1, 0.9, len(space)) * (high - low)
    slopes = {h.own: rng.normal(size=np.shape(space.params(theta)[h.own])) for h in
              space.hyperparameters}  # fmt: skip
    step = 1e-6 * rng.normal(size=len(space))

    def value(at):
        params = space.params(at)
        return sum(float(np.sum(slopes[name] * params[name])) for name in slopes)

    found = space.pull(space.params(theta), slopes) @ step
    size = np.abs(space.pull(space.params(theta), slopes)) @ np.abs(step)
    assert found == pytest.approx((value(theta + step) - value(theta - step)) / 2, abs=1e-4 * size)


@settings(deadline=None, max_examples=60)
@given(spaces())
def test_ends_are_ends(space):
    for end, name in ((0, "low"), (1, "high")):
        params = space.params(space.bounds[:, end])
        values = [getattr(d, name) for d in space.dimensions]
        np.testing.assert_allclose(space.flat(params), values, rtol=1e-14)
        # not beyond, not even by a rounding error
        assert all(d.low <= v <= d.high for d, v in zip(space.dimensions, space.flat(params)))
        found = space.on_bound(params)
        assert [bound for _, _, bound in found] == values
        assert len({spelled for spelled, _, _ in found}) == len(space)
    assert not space.on_bound(space.params(space.bounds.mean(axis=1)))
    first = space.first_look
    assert (first[:, 0] >= space.bounds[:, 0]).all() and (first[:, 1] <= space.bounds[:, 1]).all()
    moved = space.drift(space.bounds.mean(axis=1), 100.0)
    assert (moved >= space.bounds[:, 0]).all() and (moved <= space.bounds[:, 1]).all()
    if len(space):
        points = np.array(list(lattice(space, 5)))
        assert ((points >= first[:, 0]) & (points <= first[:, 1])).all()


def test_users_see_their_own_names_and_labels():
    labels = Labels("classes", ["ham", "eggs", "spam"])
    weights = LabelledArray(
        "svc__class_weight", "class_cost", RANGES[:1] * 2,
        labels=labels, chosen=np.array([0, 2]), rest=np.array([1.0, 7.0, 1.0]),
    )  # fmt: skip
    space = Space((Hyperparameter("svc__C", "C", RANGES[:1]), weights))
    params = space.params(np.log([2.0, 3.0, 1e3]))
    assert params["C"] == pytest.approx(2.0)
    np.testing.assert_allclose(params["class_cost"], [3.0, 7.0, 1e3])
    seen = space.settings(params)
    assert list(seen) == ["svc__C", "svc__class_weight"]
    assert seen["svc__class_weight"] == pytest.approx({"ham": 3.0, "eggs": 7.0, "spam": 1e3})
    gradient = {"C": 0.5, "class_cost": np.array([1.0, 2.0, 3.0]), "gamma": 9.0}
    assert space.derivatives(space.flat(gradient)) == {
        "svc__C": 0.5,
        "svc__class_weight": {"ham": 1.0, "spam": 3.0},
    }
    ((name, value, bound),) = space.on_bound(params)
    assert (name, bound) == ("svc__class_weight['spam']", 1e3) and value == pytest.approx(1e3)


def test_a_space_may_have_nothing_in_it():
    space, nothing = Space(), np.empty(0)
    assert len(space) == 0 and space.bounds.shape == space.first_look.shape == (0, 2)
    assert space.params(nothing) == space.settings({}) == space.derivatives(nothing) == {}
    assert space.on_bound({}) == [] and len(space.pull({}, {})) == len(space.drift(nothing, 2)) == 0


def test_entries_are_picked_by_label_in_the_order_of_the_labels():
    labels = Labels("groups", ["north", "south", "west"])
    numbers, each = labels.picked("group_cost", {"west": (1, 2), "north": None})
    assert numbers.tolist() == [0, 2] and each == [None, (1, 2)]
    assert labels.picked("group_cost", (1, 2))[1] == [(1, 2)] * 3
    for wrong, message in [({}, "an empty dict; name at least one"), ({"east": 1}, "'east'.*none")]:
        with pytest.raises(ValueError, match=message):
            labels.picked("group_cost", wrong)


def test_warnings_name_a_point_as_its_user_does(monkeypatch):
    X, y = make_data(2)
    loss = CrossValidationLoss(KernelSVC(), X, np.array(["ham", "spam"])[y], {"class_cost": None})
    evaluate = loss._prepared.problem.evaluate

    def stuck(*args, **options):
        return replace(evaluate(*args, **options), converged=False)

    monkeypatch.setattr(loss._prepared.problem, "evaluate", stuck)
    for point in ({"class_cost": {"ham": 1.0, "spam": 2.0}}, np.log([1.0, 2.0])):
        with pytest.warns(ConvergenceWarning, match="at {'class_cost': {'ham': 1.0, 'spam': 2.0"):
            loss(point)
        loss._latest = None


# --- hundreds of entries


N_GROUPS = 300


def grouped():
    X, y = make_data(0, n=900)
    return X, y, np.array([f"group {k % N_GROUPS}" for k in range(len(y))])


def test_hundreds_of_costs_have_exact_derivatives():
    X, y, groups = grouped()
    rng = np.random.default_rng(0)
    costs, way = rng.uniform(0.5, 2.0, N_GROUPS), rng.normal(size=N_GROUPS)
    model = LinearRegressor(loss="squared")

    def value(costs):
        given = {"C": 0.01, "group_cost": costs}
        return value_and_grad(model, X, y, given, cost_groups=groups, cv=3, tol=1e-12)

    _, gradient = value(costs)
    h = 1e-4
    expected = (value(costs + h * way)[0] - value(costs - h * way)[0]) / (2 * h)
    assert gradient["group_cost"].shape == (N_GROUPS,)
    assert gradient["group_cost"] @ way == pytest.approx(expected, rel=1e-5)
    by_label = dict(zip(np.unique(groups).tolist(), costs.tolist(), strict=True))
    assert value(by_label)[1]["group_cost"] == pytest.approx(
        dict(zip(by_label, gradient["group_cost"].tolist(), strict=True))
    )


def test_hundreds_of_costs_are_searched():
    X, y, groups = grouped()
    search = GradientSearchCV(LinearRegressor(), {"C": None, "group_cost": None}, max_evals=4, cv=3)
    search.fit(X, y, cost_groups=groups)
    assert set(search.best_params_["group_cost"]) == set(groups)
    gradients = [record["gradient"] for record in search.history_ if record["gradient"]]
    assert all(set(gradient["group_cost"]) == set(groups) for gradient in gradients)
    assert search.best_estimator_.group_cost == search.best_params_["group_cost"]


def test_in_a_pipeline_entries_that_are_not_tuned_keep_their_values():
    X, y = make_data(3)
    model = make_pipeline(StandardScaler(), KernelSVC(class_cost={0: 0.5, 1: 2.0, 2: 3.0}))
    ranges = {"kernelsvc__C": None, "kernelsvc__class_cost": {1: (4.0, 5.0)}}
    search = GradientSearchCV(model, ranges, max_evals=3, cv=3).fit(X, y)
    found = search.best_params_["kernelsvc__class_cost"]
    assert (found[0], found[2]) == (0.5, 3.0) and 4.0 <= found[1] <= 5.0
    gradients = [record["gradient"] for record in search.history_ if record["gradient"]]
    assert all(set(gradient["kernelsvc__class_cost"]) == {1} for gradient in gradients)
