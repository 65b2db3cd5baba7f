"""
A band of quantiles
===================

Two kernel machines with the pinball loss, each tuned for its own quantile, hold about four fifths
of the targets between them.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import make_scorer, mean_pinball_loss

from hypermargin import GradientSearchCV, KernelSVR

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, size=(300, 1))
y = np.sin(2 * X[:, 0]) + 0.2 * (2.2 + X[:, 0]) * rng.normal(size=300)

line = np.linspace(-2, 2, 200)[:, None]
_, ax = plt.subplots()
ax.plot(X[:, 0], y, ".", color="0.6", label="rows")
inside = np.ones(300, dtype=bool)
for quantile, style, side in [(0.1, "--", 1), (0.9, "-", -1)]:
    score = make_scorer(mean_pinball_loss, alpha=quantile, greater_is_better=False)
    model = KernelSVR(loss="pinball", quantile=quantile)
    search = GradientSearchCV(model, scoring=score, cv=5, random_state=0).fit(X, y)
    inside &= side * (y - search.predict(X)) >= 0
    ax.plot(line, search.predict(line), style, color="#0072B2", label=f"quantile {quantile}")
ax.legend()
print(f"{inside.mean():.0%} of the rows lie between the two")
