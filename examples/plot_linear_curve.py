"""
The whole curve of a linear model
=================================

A few evaluations of a linear model give its score at all values of C between them, with a standard
error.
"""

from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from hypermargin import GradientSearchCV
from hypermargin.plot import HyperparameterDisplay

X, y = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit_transform(X)
search = GradientSearchCV(LinearSVC(), cv=5, random_state=0).fit(X, y)

HyperparameterDisplay.from_estimator(search, "C")
print(f"{len(search.cv_results_['params'])} evaluations, C = {search.best_params_['C']:.3g}")
