"""The bilevel programme by an interior point method: IPOPT, as casadi ships it."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from .objective import SearchEnded

IPOPT_TOL = 1e-6  # of IPOPT; hyperparameters are evaluated with machines that are trained
ITERATIONS = 300  # after which the point is near enough, or never will be


def check_casadi() -> None:
    """Say what is missing, if it is."""
    if importlib.util.find_spec("casadi") is None:
        raise ImportError(
            "Mpec(solver='ipopt') needs casadi, which is not installed: "
            "pip install 'hypermargin[mpec]'."
        )


def relaxed(programme: Any) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Return a function that minimises the error, from a point, with gaps below some limits.

    Where IPOPT fails, the point that it has come to is returned: its hyperparameters are evaluated
    with trained machines in any case.
    """
    casadi = importlib.import_module("casadi")
    budget, n_folds = programme.objective.budget, len(programme.folds)
    v, limits = casadi.MX.sym("v", programme.size), casadi.MX.sym("limits", n_folds)
    gaps = [programme.gap_of(f, v, casadi) / limits[f] for f in range(n_folds)]
    linear = casadi.DM(sparse.vstack([programme.equal, programme.less], "csc"))
    options: dict[str, Any] = {
        "print_level": 0,
        "sb": "yes",
        "tol": IPOPT_TOL,
        "max_iter": ITERATIONS,
    }
    if budget.left is not None:
        options["max_wall_time"] = max(budget.left, 1e-3)
    parts = {
        "x": v,
        "p": limits,
        "f": casadi.dot(programme.errors, v),
        "g": casadi.vertcat(casadi.mtimes(linear, v), *gaps),
    }
    # derivatives by the limits are not wanted, and casadi complains where they do not exist
    quiet = {"print_time": False, "calc_lam_p": False, "ipopt": options}
    solver = casadi.nlpsol("mpec", "ipopt", parts, quiet)
    low, high = programme.bounds.T
    zeros, ones = np.zeros(programme.equal.shape[0]), np.ones(n_folds)
    below = np.append(zeros, np.full(programme.less.shape[0] + n_folds, -np.inf))
    above = np.concatenate([zeros, programme.right, ones])

    def solve(start: np.ndarray, most: np.ndarray) -> np.ndarray:
        found = solver(x0=start, p=most, lbx=low, ubx=high, lbg=below, ubg=above)
        if budget.expired():
            raise SearchEnded
        end = np.asarray(found["x"]).ravel()
        return np.clip(end, low, high) if np.isfinite(end).all() else start

    return solve
