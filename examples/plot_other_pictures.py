"""
Probabilities, costs, time, and two searches side by side
=========================================================

How well probabilities are calibrated. Those of a fold come from the sigmoid of the other folds.
"""

from sklearn.datasets import load_breast_cancer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from hypermargin import GradientSearchCV
from hypermargin.plot import CalibrationDisplay, SearchesDisplay, ThresholdDisplay, TimeDisplay

X, y = load_breast_cancer(return_X_y=True)
model = make_pipeline(StandardScaler(), SVC())
search = GradientSearchCV(model, cv=5, random_state=0).fit(X, y)

CalibrationDisplay.from_estimator(search)

# %%
# The mean cost against the threshold, where a missed row costs ten times a false alarm.

ThresholdDisplay.from_estimator(search, costs=(1, 10))

# %%
# Where the time went.

TimeDisplay.from_estimator(search)

# %%
# The best score so far of this search and of random points, against time.

other = GradientSearchCV(model, method="random", max_evals=20, cv=5, random_state=0).fit(X, y)
SearchesDisplay.from_estimators({"gradient": search, "random": other})
print(f"gradient {search.best_score_:.4f}, random {other.best_score_:.4f}")
