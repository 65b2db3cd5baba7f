"""How pictures look: colours that all eyes tell apart, and markers and lines that differ, too."""

from __future__ import annotations

from typing import Any, Self

# the colours of Okabe and Ito (2008); in print they differ in lightness
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, RED, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
LINES = (
    {"color": BLUE, "linestyle": "-", "marker": "o"},
    {"color": RED, "linestyle": "--", "marker": "s"},
    {"color": GREEN, "linestyle": "-.", "marker": "^"},
    {"color": BLACK, "linestyle": ":", "marker": "D"},
    {"color": PURPLE, "linestyle": (0, (5, 1)), "marker": "v"},
    {"color": ORANGE, "linestyle": (0, (3, 1, 1, 1)), "marker": "P"},
    {"color": SKY, "linestyle": (0, (1, 1)), "marker": "X"},
)
BEST = {"marker": "*", "color": RED, "markeredgecolor": "black", "markersize": 15, "zorder": 5}
MAP = "cividis"


def line(number: int) -> dict[str, Any]:
    """Return the colour, the marker and the dashes of one of several lines."""
    return dict(LINES[number % len(LINES)])


def axes_for(ax: Any, figsize: tuple[float, float]) -> Any:
    """Return axes to draw on: those that are given, or new ones."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError(
            "pictures need matplotlib; install it by: pip install 'hypermargin[plot]'"
        ) from None
    return plt.subplots(figsize=figsize, layout="constrained")[1]


class Display:
    """Base of all pictures: `ax_` and `figure_` are there when it has been drawn."""

    ax_: Any
    figure_: Any

    @property
    def _size(self) -> tuple[float, float]:
        """Width and height of a figure of its own, in inches."""
        return 5.6, 3.8

    def plot(self, ax: Any = None) -> Self:
        """Draw it.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None for a new figure.

        Returns
        -------
        display : Display
            The display itself.
        """
        self.ax_ = axes_for(ax, self._size)
        self.figure_ = self.ax_.figure
        self._draw(self.ax_)
        return self

    def _draw(self, ax: Any) -> None:
        raise NotImplementedError
