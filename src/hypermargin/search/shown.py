"""Ways to look at a fitted search: its report, and Optuna's pictures."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._core.warn import heard
from ..plot.reading import best_params, flat, is_log, leading
from ..report import page, write
from .estimated import Estimated


def keeping_warnings(fit: Callable) -> Callable:
    """Return a `fit` that keeps, for the report, what it was given and has warned of."""

    @wraps(fit)
    def kept(search: Any, *args: Any, **kwargs: Any) -> Any:
        with heard() as messages:
            try:
                return fit(search, *args, **kwargs)
            finally:
                search._warned = messages
                given = {name for name, value in kwargs.items() if value is not None}
                search._given_to_fit = sorted(given - {"X", "y"})

    return kept


class Shown(Estimated):
    """A search that can be looked at."""

    _warned: list[str]
    _given_to_fit: list[str]

    def report(
        self,
        path: str | os.PathLike[str],
        X: Any = None,
        y: Any = None,
        *,
        overwrite: bool = False,
        **params: Any,
    ) -> Path:
        """Write a report of the search as one file of HTML, which needs no network.

        It has the result in a sentence, what to expect on new data, pictures (points of the path
        and of the curve tell what they are when they are pointed at), the best points, what was
        tried, warnings, versions, and the lines that repeat the search.  Needs matplotlib.

        Parameters
        ----------
        path : str or path-like
            The file.  An earlier report is replaced, another file is not, unless `overwrite` is
            set.  It is written whole or not at all.
        X, y, **params
            As they were given to `fit`.  If they are given, the report also compares with the
            estimator as it was given to the search, which takes one more evaluation.
        overwrite : bool, default=False
            Whether a file that is no report may be replaced.

        Returns
        -------
        path : pathlib.Path
            The file.

        Examples
        --------
        >>> import os, tempfile
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.svm import SVC
        >>> from hypermargin import GradientSearchCV
        >>> X, y = load_iris(return_X_y=True)
        >>> search = GradientSearchCV(SVC(), cv=5).fit(X, y)
        >>> search.report(os.path.join(tempfile.mkdtemp(), "report.html")).name
        'report.html'
        """
        check_is_fitted(self, "cv_results_")
        best_params(self)  # says so if there is none
        comparison = None if X is None else self.compare_default(X, y, **params)
        return write(path, page(self, comparison, self._warned), overwrite)

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
