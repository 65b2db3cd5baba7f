"""Values of hyperparameters in few letters, for lines and tables."""

from __future__ import annotations

from typing import Any

import numpy as np


def spelt_value(value: Any) -> str:
    """Return a value in one line: numbers in four digits, arrays by their ends.

    Examples
    --------
    >>> import numpy as np
    >>> from hypermargin._core.spelling import spelt_value
    >>> spelt_value(1 / 3), spelt_value(np.array([0.25, 2.0, 1.0])), spelt_value(np.ones(40))
    ('0.3333', '3 values from 0.25 to 2', '40 values of 1')
    """
    if isinstance(value, (float, np.floating)):
        return f"{value:.4g}"
    if isinstance(value, np.ndarray) and value.size > 1 and value.dtype.kind == "f":
        least, most = f"{value.min():.4g}", f"{value.max():.4g}"
        ends = f"of {least}" if least == most else f"from {least} to {most}"
        return f"{value.size} values {ends}"
    return " ".join(str(value).split())
