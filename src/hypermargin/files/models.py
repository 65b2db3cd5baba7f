"""Models with what they take, in files: skops, which runs no code when it is read, or joblib."""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array, csr_matrix

from ..criteria.probability import Calibration
from ..estimators.kernel import KernelSVC, KernelSVR
from ..estimators.linear import LinearClassifier, LinearRegressor
from ..kernels import KERNELS, OBJECTS
from .mistake import Mistake
from .opening import beginning
from .writing import beside

FORMAT = "hypermargin model 1"
# what our models hold beside what skops knows and trusts by itself
TYPES = (KernelSVC, KernelSVR, LinearClassifier, LinearRegressor, Calibration, np.dtype,
         csr_matrix, csr_array, *OBJECTS, *KERNELS.values())  # fmt: skip


@dataclass
class Stored:
    """A fitted estimator, the sigmoid of its probabilities if there is one, and what it takes."""

    estimator: Any
    calibration: Any
    about: dict[str, Any]


def check_model_path(path: str | Path | None) -> None:
    """Refuse, before any work is done, a name that says no format, or one that is not here."""
    if path is None or (ending := Path(path).suffix.lower()) == ".joblib":
        return
    if ending != ".skops":
        raise Mistake(f"--out {path} should end in .skops, or in .joblib for a pickle.")
    _skops()


def write_model(path: str | Path, stored: Stored) -> None:
    """Write a model by the ending of its name, .skops or .joblib."""
    content = {
        "format": FORMAT,
        "about": json.dumps(stored.about),
        "estimator": stored.estimator,
        "calibration": stored.calibration,
    }
    with beside(path) as place:
        if Path(path).suffix.lower() == ".joblib":
            import joblib

            joblib.dump(content, place)
        else:
            _skops().dump(content, place)


def read_model(path: str | Path, allow_pickle: bool = False) -> Stored:
    """Read a model; a pickle only if that is allowed, as it can run any code."""
    start = beginning(path, 8)  # unpacked, as joblib may pack a pickle
    if start.startswith(b"PK"):
        content = _from_skops(path)
    elif allow_pickle or _looks_like_pickle(start):
        content = _from_pickle(path, allow_pickle)
    else:
        raise _not_ours(path)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise _not_ours(path)
    try:
        about = json.loads(content["about"])
        return Stored(content["estimator"], content["calibration"], about)
    except (KeyError, TypeError, ValueError):
        raise _not_ours(path) from None


def _from_skops(path: str | Path) -> Any:
    io = _skops()
    try:
        with zipfile.ZipFile(path) as file:
            if "schema.json" not in file.namelist():
                raise _not_ours(path)
        trusted = [f"{one.__module__}.{one.__qualname__}" for one in TYPES]
        unknown = sorted(set(io.get_untrusted_types(file=path)) - set(trusted))
        if unknown:
            raise Mistake(
                f"{path} holds types that are no part of our models, so it is not read: "
                f"{', '.join(unknown[:5])}."
            )
        return io.load(path, trusted=trusted)
    except Mistake:
        raise
    except Exception:  # of a damaged file anything may be raised
        raise _not_ours(path) from None


def _looks_like_pickle(start: bytes) -> bool:
    """Whether a file begins as pickles do since 2003: with the number of their protocol."""
    return start[:1] == b"\x80" and start[1:2] in (b"\2", b"\3", b"\4", b"\5")


def _from_pickle(path: str | Path, allowed: bool) -> Any:
    if not allowed:
        raise Mistake(
            f"{path} is a pickle, which can run any code; if you trust it, --allow-pickle reads it."
        )
    import joblib

    try:
        return joblib.load(path)
    except Exception:
        raise _not_ours(path) from None


def _not_ours(path: str | Path) -> Mistake:
    return Mistake(f"{path} is no model that hypermargin tune has written, or it is damaged.")


def _skops() -> Any:
    try:
        import skops.io
    except ImportError:
        raise Mistake(
            'Models in .skops files need skops: pip install "hypermargin[cli]".'
        ) from None
    return skops.io
