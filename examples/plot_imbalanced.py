"""
A rare class
============

One row of twelve is of class 1. C, gamma and the threshold are tuned for F1, all at once.
"""

from sklearn.datasets import make_classification
from sklearn.svm import SVC

from hypermargin import GradientSearchCV
from hypermargin.plot import ThresholdDisplay

X, y = make_classification(800, weights=[0.92], flip_y=0.04, random_state=0)
space = {"C": None, "gamma": None}
plain = GradientSearchCV(SVC(), space, scoring="f1", cv=5, random_state=0).fit(X, y)
space["threshold"] = None
moved = GradientSearchCV(SVC(), space, scoring="f1", cv=5, random_state=0).fit(X, y)

print(f"F1 with the usual threshold {plain.best_score_:.3f}, a tuned one {moved.best_score_:.3f}")

# %%
# Precision and recall against the threshold; the line is the one that was chosen.

ThresholdDisplay.from_estimator(moved)
