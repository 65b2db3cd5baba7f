"""scikit-learn's own checks of what an estimator must do."""

import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR
from sklearn.utils.estimator_checks import parametrize_with_checks

from hypermargin import GradientSearchCV

# The searches are cut short and some checks feed them awkward data on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def expected_failed_checks(search):
    """Return a part of what scikit-learn expects of GridSearchCV (PER_ESTIMATOR_XFAIL_CHECKS).

    There it is {"check_supervised_y_2d": "DataConversionWarning not caught",
    "check_requires_y_none": "Doesn't fail gracefully"}.
    """
    estimator = search.estimator
    last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    if isinstance(last, (KernelRidge, Ridge)):
        return {"check_supervised_y_2d": "a column is taken for a table of one target"}
    return {}


FAST = dict(cv=2, max_evals=2, error_score="raise", random_state=0)


@parametrize_with_checks(
    [
        GradientSearchCV(SVC(), {"C": (0.1, 10.0)}, **FAST),
        GradientSearchCV(SVR(), {"C": (0.1, 10.0)}, **FAST),
        GradientSearchCV(KernelRidge(kernel="rbf"), **FAST),
        GradientSearchCV(LinearSVC(), **FAST),
        GradientSearchCV(LinearSVC(), method="path", **FAST),
        GradientSearchCV(LinearSVR(), **FAST),
        GradientSearchCV(LinearSVC(loss="hinge"), method="gradient", **FAST),
        GradientSearchCV(Ridge(), **FAST),
        GradientSearchCV(
            make_pipeline(StandardScaler(), SVC()),
            {"svc__C": (0.1, 10.0), "svc__kernel": ["rbf", "linear"]},
            **FAST,
        ),
    ],
    expected_failed_checks=expected_failed_checks,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
