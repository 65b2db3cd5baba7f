"""Ways to look at a fitted search: its report, and Optuna's pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils.validation import check_is_fitted

from ..plot.reading import flat, is_log, leading


class Shown(BaseSearchCV):
    """A search that can be looked at."""

    def to_optuna(self) -> Any:
        """Hand the trials to Optuna, for its pictures and its dashboard.

        Trials are the rows of `cv_results_`, with their mean score as the value.  Ranges are those
        that were visited.  Listed values that are no numbers are shown by their names.

        Returns
        -------
        study : optuna.study.Study
            A study in memory, which maximises the score.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.svm import SVC
        >>> from hypermargin import GradientSearchCV
        >>> X, y = load_iris(return_X_y=True)
        >>> study = GradientSearchCV(SVC(), cv=5).fit(X, y).to_optuna()
        >>> sorted(study.best_params)
        ['C', 'gamma']
        """
        check_is_fitted(self, "cv_results_")
        try:
            import optuna
        except ImportError:
            raise ImportError("to_optuna needs optuna; install it by: pip install optuna") from None
        results, rows = self.cv_results_, [_named(p) for p in self.cv_results_["params"]]
        scores = np.asarray(results[f"mean_test_{leading(self)}"], dtype=float)
        space = {name: _distribution(optuna, rows, name) for row in rows for name in row}
        verbosity = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        try:
            study = optuna.create_study(direction="maximize")
        finally:
            optuna.logging.set_verbosity(verbosity)
        for k, (row, score) in enumerate(zip(rows, scores)):
            about = {name: float(results[name][k]) for name in ("objective", "gradient_norm")}
            study.add_trial(
                optuna.trial.create_trial(
                    params=row,
                    distributions={name: space[name] for name in row},
                    value=float(score) if np.isfinite(score) else None,
                    state=optuna.trial.TrialState["COMPLETE" if np.isfinite(score) else "FAIL"],
                    user_attrs={name: v for name, v in about.items() if np.isfinite(v)},
                )
            )
        return study


def _named(params: dict[str, Any]) -> dict[str, Any]:
    """Return numbers one by one, and all else by its name."""
    found: dict[str, Any] = {}
    for name, value in params.items():
        found.update(flat({name: value}))
        if not flat({name: value}):
            found[name] = value if isinstance(value, (str, bool)) else repr(value)
    return found


def _distribution(optuna: Any, rows: list[dict[str, Any]], name: str) -> Any:
    values = [row[name] for row in rows if name in row]
    if all(isinstance(value, float) for value in values):
        return optuna.distributions.FloatDistribution(min(values), max(values), log=is_log(values))
    return optuna.distributions.CategoricalDistribution(list(dict.fromkeys(values)))
