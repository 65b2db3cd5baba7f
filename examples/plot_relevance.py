"""
A width for each feature
========================

Two of eight features matter. The search gives each its own width, once it has seen that this pays.
"""

import numpy as np

from hypermargin import GradientSearchCV, KernelSVC
from hypermargin.plot import RelevanceDisplay

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 8))
y = np.sin(2 * X[:, 1]) + np.sin(2 * X[:, 4]) > 0

space = {"C": None, "gamma": "per_feature"}
search = GradientSearchCV(KernelSVC(), space, cv=5, random_state=0).fit(X, y)

RelevanceDisplay.from_estimator(search)
print(search.widths_["why"])
