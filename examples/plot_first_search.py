"""
A search and its path
=====================

C and gamma of an SVM are tuned on the breast cancer data: a cheap look around, then descents from
the best places.
"""

from sklearn.datasets import load_breast_cancer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from hypermargin import GradientSearchCV
from hypermargin.plot import ConvergenceDisplay, PathDisplay

X, y = load_breast_cancer(return_X_y=True)
search = GradientSearchCV(make_pipeline(StandardScaler(), SVC()), cv=5, random_state=0).fit(X, y)

PathDisplay.from_estimator(search)
print(search.best_params_)
print(search.score_estimate_)

# %%
# The score of every evaluation, the best so far, and the score to expect on new data.

ConvergenceDisplay.from_estimator(search)
