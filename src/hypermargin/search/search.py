"""The front door: GradientSearchCV, a drop-in for GridSearchCV."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import LinearConstraint
from sklearn.base import _fit_context, is_classifier
from sklearn.metrics._scorer import _MultimetricScorer
from sklearn.model_selection import check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import indexable
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import (
    _check_method_params,
    _check_sample_weight,
    _num_samples,
)

from .._core.budget import one_blas_thread
from ..adapters.blocks import is_dask
from ..adapters.folds import Split, draw_folds
from ..adapters.input import canonical
from ..methods import Method, read_method
from .ahead import path_of
from .checkpoint import opened
from .chunked import as_asked, chunked_plans, read_chunks
from .combinations import (
    Combination,
    answer_otherwise,
    check_landmarks,
    read_combinations,
)
from .display import make_display
from .fingerprint import fingerprint
from .log import Log
from .outcome import Outcome
from .plans import Plan, descends, make_plans
from .progress import Progress
from .records import Record, Selection
from .run import run
from .scoring import Scoring
from .shown import keeping_warnings
from .tasks import Tasks


class GradientSearchCV(Outcome):
    """Search of hyperparameters by gradients of the cross-validation loss.

    The smooth validation loss is differentiated exactly with respect to the hyperparameters of a
    kernel machine, so that two to fifty evaluations do what a grid does with hundreds.

    Parameters
    ----------
    estimator : SVC, SVR, KernelRidge, KernelSVC, KernelSVR, LinearSVC, LinearSVR, \
LogisticRegression, Ridge, RidgeClassifier, LinearClassifier, LinearRegressor, or a Pipeline that \
ends in one of them
        The model to tune.  Transformers of a pipeline are fitted inside each fold.
    space : dict, list of dicts or None, default=None
        What to tune.  A dict maps names of parameters to ``(low, high)``,
        ``(low, high, "log")``, ``(low, high, "linear")``, a frozen distribution of
        :mod:`scipy.stats` (its support is the range), or a list of values (any other tuple is one,
        too); the gradient search is run for every combination of listed values, in the order of
        :class:`~sklearn.model_selection.ParameterGrid`.  None as a range is one that is read off
        the data; None for all tunes C, epsilon, alpha and what the kernel has.  For two classes
        ``"threshold"`` can be named as well, which gives back a
        :class:`~sklearn.model_selection.FixedThresholdClassifier` around the model, and
        ``"class_weight"``, one for each class, where the model has it.  Our own estimators have
        `class_cost`, `margin`, `threshold`, `machine_cost`, `group_cost` and `group_epsilon`.  A
        dict by label, such as ``{"class_weight": {"spam": (1, 50)}}``, tunes what is of the named
        classes or groups; others keep the estimator's own value.  ``{"gamma": "per_feature"}``
        gives every feature its own width if that pays: one for all is tuned first, with four fifths
        of `max_evals`, and rows that are held out say whether there is more to gain (`widths_`);
        ``"always_per_feature"`` does not ask.  Machines of scikit-learn, which have one gamma,
        become a pipeline that scales the features.  Kernels that are objects have their
        hyperparameters as ``kernel__...``.
    scoring : str, callable, list, tuple or dict, default=None
        As in :class:`~sklearn.model_selection.GridSearchCV`.  accuracy, balanced_accuracy, f1 and
        F-beta, precision, recall, jaccard (also averaged over classes), matthews_corrcoef, roc_auc,
        average_precision, neg_log_loss, neg_brier_score, r2 and the mean squared, absolute and
        pinball errors have a smooth form that the search descends on; with any other score it
        descends on the smooth form of accuracy or of the mean squared error (of the absolute error
        for its median), and the score selects among the visited points.  With several scores
        the one named by `refit` leads, else the first.
    n_jobs : int, default=None
        Threads over folds, classes and blocks of the kernel matrix.  Results with several threads
        agree with those of one thread, and with each other, up to rounding.  None is one, or what
        :class:`joblib.parallel_config` says, whose workers then search combinations of listed
        values side by side, or, where there is one only, evaluate folds and pairs of classes on all
        rows.
    refit : bool, str or callable, default=True
        As in :class:`~sklearn.model_selection.GridSearchCV`.
    cv : int, splitter or iterable, default=None
        As in :class:`~sklearn.model_selection.GridSearchCV`.  Folds are drawn once.
    verbose : int, default=0
        1 shows a live line in a terminal (by rich, if it is installed), elsewhere it prints a line
        for every stage; 2 prints a line for every evaluation; above 2, there is also one for each
        of its folds.  At the end there is a summary of four lines.
    error_score : "raise" or numeric, default=np.nan
        Score of a point that cannot be evaluated.
    return_train_score : bool, default=False
        Whether `cv_results_` has scores on the training parts.
    random_state : int, RandomState instance or None, default=None
        Draws the subsets of rows that a search on many rows looks at first.
    max_evals : int, default=50
        Most evaluations on all rows, for each combination of listed values; the rough looks before
        the descent are not counted.
    tol : float, default=5e-3
        The search ends when a step changes the smooth loss by less than half of this, relatively;
        with few rows, where evaluations are cheap, a fifth.  From 4,000 rows on it is two fifths,
        but it also ends where a step gains less than three rows.  Who asks for a finer one gets
        more of everything: machines are trained more exactly on the way, more starts are followed
        to the end, and it is `max_evals` that limits the evaluations.
    time_budget : float, default=None
        Seconds for search and refit.  When they are over, the best point so far is returned, and
        the refitted model as far as it is trained, with a warning unless that is to the end, for
        which a refit on few rows has a moment; one evaluation, if need be on 250 rows,
        is made in any case.  KernelRidge, whose linear system cannot be stopped halfway,
        is refitted on as many rows as there is time for.  (What scikit-learn or transformers fit
        cannot be interrupted: models for scorers that are plain functions.)
    memory_limit : float, default=4000
        Megabytes for a kernel matrix; above that its rows are computed when they are needed.  Where
        joblib has several processes, each has as much.
        KernelRidge solves one linear system in all training rows and needs them all.
    rank : int, default=None
        Number of landmarks, for data that are too many to train on exactly.  Machines are then
        expansions on that many rows, drawn once and in the proportions of the classes (Nystrom
        approximation), and the corners of the loss are rounded.  A fold has its share of them,
        training rows only.  None trains exactly.  For SVC, SVR, KernelSVC and KernelSVR with a
        positive definite kernel.
    exact_refit : bool, default=False
        Whether a search with `rank` refits the best point exactly.  By default the refitted model
        has the landmarks as its support vectors.
    criterion : str, Criterion or callable, default=None
        What the search descends on, if that is not the smooth form of the score: the name of a
        criterion, one of :mod:`hypermargin.criteria`, or a function of (outputs, y) that returns
        a value to be minimised and its gradient by the outputs (`check_gradient` checks it).
        `scoring`, if it is given, still selects among the visited points; otherwise the one with
        the least of the criterion is the best.
    pooled : bool, default=True
        Whether the criterion is applied to the outputs of all folds at once, or to each fold and
        averaged.  One that is undefined there, as areas are where a class has no rows, is refused
        before the search begins.

    method : str or Method, default="auto"
        How to search.  "gradient" descends on the smooth loss.  "grid" and "random" evaluate points
        of the ranges without gradients, `max_evals` in all.  "penalty" is for linear models of
        losses without corners, whose weights move together with the hyperparameters, "mpec" for C
        and epsilon of linear models of the epsilon-insensitive loss.  The others are for linear
        models of which C (alpha for Ridge) alone is tuned: "curve" evaluates a few values and reads
        the score at all values between them off interpolated outputs; "path"
        multiplies C by two, from where all rows are inside their margins until solutions no longer
        change, every fold starting from its last solution, as LIBLINEAR's option -C does; "sgd-dcd"
        and "bilevel-sgd" make stochastic steps of C, for the hinge loss.  "auto" is "curve" where
        that can be, else "gradient".  docs/methods.md compares them; some have arguments, as
        ``Grid(points=7)`` of :mod:`hypermargin.methods` has.  A method of one's own is a
        :class:`hypermargin.methods.Method`.
    optimiser : {"auto", "model", "lbfgs", "bfgs"} or callable, default="auto"
        What descends in the method "gradient": trust-region steps on a quadratic model of all that
        was seen, L-BFGS-B, BFGS, or a function that is called as :func:`scipy.optimize.minimize`
        is, ``optimiser(fun, x0, jac=True, bounds=bounds)``, and returns an object with the point as
        `x`.  It sees the scaled vector (logarithms of C and gamma) and is run from every start, for
        at most `max_evals` calls each; with `constraints` it is given these, too.  "auto" is
        "model" up to six hyperparameters, else "lbfgs".
    constraints : dict, LinearConstraint, list of LinearConstraint or None, default=None
        Linear constraints on hyperparameters, as :class:`scipy.optimize.LinearConstraint` by name:
        ``{("C", "epsilon"): LinearConstraint([1, 10], ub=5)}`` is C + 10 epsilon <= 5.  Values are
        in your own units, also of what is searched in logarithms; ``"log C"`` is the (natural)
        logarithm of C.  A name of what has an entry for each group or class stands for all that are
        tuned, ``"group_cost['b']"`` for one.  Without names columns are all hyperparameters, in the
        order of `space`.  For "gradient", "grid", "random", "penalty" and "mpec".
    checkpoint : str or path, default=None
        A file to which every finished evaluation is written at once.  The same call again goes on
        from there: what the file knows is not evaluated again, and the result is that of a search
        that was never stopped.  What limits the effort (`time_budget`, `max_evals`, `n_jobs`) may
        be another one; a file of other data, folds, spaces or settings is refused.  See
        docs/progress.md.
    param_grid : dict or list of dicts, default=None
        Another name of `space`, the one that :class:`~sklearn.model_selection.GridSearchCV` has.
    pre_dispatch : int or str, default="2*n_jobs"
        Has no effect: tasks are as many as workers, or as combinations of listed values.

    Attributes
    ----------
    curve_ : dict of ndarrays
        With "curve" and "path", if more than one was evaluated: the values of C (or alpha, or of a
        `machine_cost` that all have), the mean score of the folds at each ("score"), and its
        standard error over the folds ("std_error"), with the listed values of the best point.
    widths_ : dict
        Where each feature may have its own width: whether that was `kept`, or one width for some
        of the features, the `gain` on rows that were held out (the logarithm of the ratio of
        losses) with its `std_error`, the number of these rows (`n_held`), and `why` in a sentence.
    weights_ : dict
        The same of the weights of a sum of kernels, beside their tuned average.
    relevance_ : dict of ndarrays
        There also, for every `feature` (or `kernel` of a sum without widths): its `relevance`,
        which is how much outputs change when it is exchanged between rows, as a share of all; the
        `std_error` of that; and whether it is `droppable`, which costs no more than a standard
        error of the loss.
    cv_results_ : dict
        As in :class:`~sklearn.model_selection.GridSearchCV`, one row per evaluation on all rows;
        `objective` is the smooth loss, `gradient_norm` the length of its gradient with respect to
        the scaled hyperparameters, `n_samples` the number of rows, `tol` the optimality gap that
        machines were trained to, in units of the target: with many rows it is 1e-2 on the way and
        the estimator's own, for linear models at most 1e-2, at the chosen point.  (If the time was
        up before any evaluation on all rows, those on the most rows are listed.)
    history_ : list of dict
        One record per evaluation, looks at subsets of the rows included: `params`, `objective`,
        `gradient` (a dict, in which values by class are dicts by label; None for a look, and with
        many rows for a point that was the last one), `score` (NaN for a look, or on part of the
        rows), `seconds`, `n_samples`, `tol`, and whether it is a rough `look`.
    seconds_ : dict
        Where the time of the search went: look, rows (of the kernel matrix), train, outputs,
        adjoint and rest.
    progress_ : dict
        How far the search is, for callbacks to read while it runs: `stage`, `n_looks`,
        `n_evaluations`, `best_score`, `best_objective`, `best_params`, `seconds`, and
        `seconds_left` (None where that cannot be said).
    forecast_ : dict
        What the search expected before it began on all rows: the `seconds` that it would take from
        there, without the refit, and the `memory` in bytes, as read off evaluations on `n_samples`
        rows.  With ``method="gradient"``, and not where all rows are few.
    calibration_ : object or None
        The sigmoid of `predict_proba`, fitted to the out-of-fold outputs of the best point with
        their `sample_weight`: `slope`, `offsets` and ``probabilities(outputs)``.  None for
        regressors, and where a class has no validation rows in folds that were trained on it.
    probability_cut_ : float or None
        For two classes, the probability of the second one from which on `predict` says it: 0.5
        without a threshold.  None where probabilities are not ours (``SVC(probability=True)``).
    best_estimator_, best_score_, best_params_, best_index_, scorer_, n_splits_, refit_time_, \
multimetric_, classes_, n_features_in_, feature_names_in_
        As in :class:`~sklearn.model_selection.GridSearchCV`.  The best point is the one with the
        best score, of equal ones that with the least smooth loss.  `best_score_` was optimised
        over, so it is no estimate of the score on new data.
    score_estimate_ : ScoreEstimate
        That estimate: `score`, with an interval from `low` to `high` that holds the expected score
        of the refitted model nine times of ten; `optimism`, which `best_score_` has too much, and
        `gain`, which it lacks as folds are trained on fewer rows.  It is made when it is asked for,
        of the out-of-fold outputs of all points, and takes about one evaluation.
        There is none where scores come from functions of fitted models, or `refit` is one.
        docs/estimate.md tells more.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> from hypermargin import GradientSearchCV
    >>> X, y = load_iris(return_X_y=True)
    >>> search = GradientSearchCV(SVC(), cv=5).fit(X, y)
    >>> sorted(search.best_params_), search.best_score_ > 0.96
    (['C', 'gamma'], np.True_)
    """

    _parameter_constraints: ClassVar[dict] = {
        **BaseSearchCV._parameter_constraints,
        "space": [dict, list, tuple, None],
        "param_grid": [dict, list, tuple, None],
        "random_state": ["random_state"],
        "max_evals": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "time_budget": [Interval(Real, 0, None, closed="neither"), None],
        "memory_limit": [Interval(Real, 0, None, closed="neither")],
        "rank": [Interval(Integral, 1, None, closed="left"), None],
        "exact_refit": ["boolean"],
        "criterion": [str, callable, None],
        "pooled": ["boolean"],
        "method": [str, Method],
        "optimiser": [str, callable],
        "constraints": [dict, list, tuple, LinearConstraint, None],
        "checkpoint": [str, PathLike, None],
    }

    def __init__(
        self,
        estimator: Any,
        space: Any = None,
        *,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: Any = True,
        cv: Any = None,
        verbose: int = 0,
        error_score: Any = np.nan,
        return_train_score: bool = False,
        random_state: Any = None,
        max_evals: int = 50,
        tol: float = 5e-3,
        time_budget: float | None = None,
        memory_limit: float = 4000,
        rank: int | None = None,
        exact_refit: bool = False,
        criterion: Any = None,
        pooled: bool = True,
        method: str | Method = "auto",
        optimiser: Any = "auto",
        constraints: Any = None,
        checkpoint: Any = None,
        param_grid: Any = None,
        pre_dispatch: Any = "2*n_jobs",
    ):
        super().__init__(
            estimator=estimator, scoring=scoring, n_jobs=n_jobs, refit=refit, cv=cv,
            verbose=verbose, pre_dispatch=pre_dispatch, error_score=error_score,
            return_train_score=return_train_score,
        )  # fmt: skip
        self.space = space
        self.random_state = random_state
        self.max_evals, self.tol = max_evals, tol
        self.time_budget = time_budget
        self.memory_limit = memory_limit
        self.rank = rank
        self.exact_refit = exact_refit
        self.criterion = criterion
        self.pooled = pooled
        self.method = method
        self.optimiser = optimiser
        self.constraints, self.checkpoint = constraints, checkpoint
        self.param_grid = param_grid

    @_fit_context(prefer_skip_nested_validation=False)
    @keeping_warnings
    def fit(self, X: Any, y: Any = None, **params: Any) -> GradientSearchCV:
        """Run the search, and refit the best point on all rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The data; a square kernel matrix with ``kernel="precomputed"``.  A Dask array or data
            frame stays where it is; docs/dask.md tells which models take one.
        y : array-like of shape (n_samples,)
            Labels or targets; those of a Dask collection are one, too.
        **params : dict
            Parameters for `fit` of the estimator (`sample_weight`, `cost_groups`), for the scorer
            and for the splitter (`groups`), as in
            :class:`~sklearn.model_selection.GridSearchCV`.

        Returns
        -------
        self : GradientSearchCV
        """
        method = read_method(self.method, self.optimiser)
        if is_dask(X) or is_dask(y):
            return self._fit_chunks(X, y, params, method)
        combinations = read_combinations(self.estimator, self._given_space())
        usable = [one for one in combinations if isinstance(one, Combination)]
        if self.rank is not None:
            for one in usable:
                check_landmarks(one.model, self.rank, self.exact_refit)
        scorers, refit_metric = self._get_scorers()
        X, y = indexable(X, y)
        X = canonical(X)
        params = _check_method_params(X, params=params)
        routed = self._get_routed_params_for_fit(params)
        cv = check_cv(self.cv, y, classifier=is_classifier(self.estimator))
        splits = draw_folds(cv, X, y, routed.splitter.split)
        weight = routed.scorer.score.get("sample_weight")
        weight = _check_sample_weight(weight, np.empty((_num_samples(X), 1)), dtype=float)
        plans = make_plans(
            self, combinations, self._leading(scorers), X, y, routed.estimator.fit, splits, weight
        )
        scoring = Scoring(
            scorers,
            X,
            y,
            routed.estimator.fit,
            routed.scorer.score,
            self.error_score,
            self.return_train_score,
            answer_otherwise(usable, scorers),
        )
        with self._logged(self._selection(method, plans), plans, splits, scoring, params) as log:
            best = self._search(self, plans, weight, splits, log, refit_metric)
            self._keep_outputs(log, best, routed.splitter.split.get("groups"))
        return self

    def _fit_chunks(
        self, X: Any, y: Any, params: dict[str, Any], method: Method | None
    ) -> GradientSearchCV:
        """Run the search on Dask collections."""
        asked = as_asked(self)
        scorers, refit_metric = self._get_scorers()
        data, scoring = read_chunks(asked, X, y, params, scorers)
        weight = scoring.score_params.get("sample_weight", np.ones(len(data.y)))
        plans, splits = chunked_plans(asked, scoring, weight), data.splits
        with self._logged(self._selection(method, plans), plans, splits, scoring, params) as log:
            self._search(asked, plans, weight, splits, log, refit_metric)
            self._keep_no_outputs("Dask collections keep their outputs where their rows are")
        return self

    @contextmanager
    def _logged(
        self,
        selection: Selection,
        plans: list[Plan],
        splits: list[Split],
        scoring: Scoring,
        params: dict[str, Any],
    ) -> Iterator[Log]:
        """Within this context a search is shown, told of and kept; at its end nothing is."""
        parts = partial(fingerprint, self, self._given_space(), splits, scoring)
        progress = Progress(make_display(self.verbose), selection, len(plans))
        try:
            tasks = Tasks(self, scoring.X, scoring.y, params, progress)
            self.progress_ = progress.told
            with path_of(self, plans, scoring) as path, opened(path, parts) as saved:
                leading = self._leading_metric(scoring.scorer)
                yield Log(scoring, leading, selection, saved, tasks)
            tasks.root.end()
        finally:
            progress.display.close()

    def _search(
        self,
        asked: Any,
        plans: list[Plan],
        weight: np.ndarray,
        splits: list[Split],
        log: Log,
        metric: str,
    ) -> Record | None:
        """Search, and refit the best point; return it, if there is one.

        `asked` has the arguments of the search.
        """
        scoring, tasks = log.scoring, log.tasks
        tasks.attributes = partial(self._so_far, log)
        with one_blas_thread():
            budget, seconds = run(asked, plans, weight, splits, log)
        best = self._publish(log, scoring.scorer, metric, len(splits))
        self.seconds_ = dict(seconds)  # the clock goes on in the refit
        tasks.end_search()
        try:
            if self.refit:
                assert best is not None
                self._refit(log, best, budget.rest(), tasks.refit)
                tasks.end_refit()
        finally:
            log.release()
        tasks.progress.end_all(partial(self._summary, log))
        return best

    def _selection(self, method: Method | None, plans: list[Plan]) -> Selection:
        """Return which point is the best."""
        # grids and Chu et al. take the first of equal scores
        first = method is not None and method.takes_first
        first = first or not any(descends(plan) for plan in plans)
        return Selection(self.criterion is not None and self.scoring is None, first)

    def _given_space(self) -> Any:
        """Return the space, by whichever of its two names it was given."""
        if self.space is None or self.param_grid is None:
            return self.param_grid if self.space is None else self.space
        raise ValueError("space and param_grid are two names of the same; give one of them.")

    def _leading_metric(self, scorers: Any) -> str | None:
        if isinstance(scorers, _MultimetricScorer):
            return self.refit if isinstance(self.refit, str) else next(iter(scorers._scorers))
        return self.refit if isinstance(self.refit, str) else None

    def _leading(self, scorers: Any) -> Any:
        """Return the leading scorer."""
        if isinstance(scorers, _MultimetricScorer):
            return scorers._scorers[self._leading_metric(scorers)]
        return scorers

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = False  # data become NumPy arrays here, whatever the estimator does
        return tags
