"""
A width for each feature
========================

Two of five features matter. The search gives each its own width, once it has seen that this pays.
"""

import numpy as np

from hypermargin import GradientSearchCV, KernelSVC
from hypermargin.plot import RelevanceDisplay

rng = np.random.default_rng(0)
X = rng.normal(size=(160, 5))
y = np.sin(2 * X[:, 1]) + np.sin(2 * X[:, 3]) > 0

space = {"C": None, "gamma": "per_feature"}
search = GradientSearchCV(KernelSVC(), space, cv=3, random_state=0).fit(X, y)

RelevanceDisplay.from_estimator(search)
print(search.widths_["why"])
