"""Time of a search and of one fit against the number of rows of ijcnn1, and where it goes.

Drawn to docs/images/scaling.svg; one draw per size, two cores, no refit.
"""

from functools import partial
from typing import Any

from sklearn.svm import SVC

from benchmarks._common import RESULTS, ROOT, SEEDS, draw, measure_each, pyplot, table, timed
from benchmarks.speed import compile_first, fit_seconds, search

SIZES = (1_000, 2_000, 4_000, 8_000, 16_000, 32_000)
QUICK_SIZES = (500, 1_000, 2_000)
PICTURE = ROOT / "docs" / "images" / "scaling.svg"
QUICK_PICTURE = RESULTS / "scaling.quick.svg"
# Phases of a search by their name in seconds_, what they are, and a colour.
PHASES = {
    "look": ("first look", "#88ccee"),
    "rows": ("kernel rows", "#332288"),
    "train": ("training", "#117733"),
    "outputs": ("outputs", "#ddcc77"),
    "adjoint": ("gradients", "#cc6677"),
    "rest": ("rest", "#bbbbbb"),
}


def measure(n: int) -> dict[str, Any]:
    """Return the seconds of a search on n rows, whole and by phase, and those of one fit."""
    seed = SEEDS[0]
    sample = draw("ijcnn1", n, seed, n_test=100)
    seconds, found = timed(lambda: search(sample, seed))
    phases = {name: found.seconds_.get(name, 0.0) for name in PHASES if name != "rest"}
    model = SVC(cache_size=2000, **found.best_params_)
    return {
        "search": seconds,
        "fit": fit_seconds(model, sample),
        # what the clock of the search does not see, too: input checks and scores
        "phases": {**phases, "rest": seconds - sum(phases.values())},
    }


def run(quick: bool, only: str | None = None) -> dict[str, Any]:
    """Return the times by number of rows, and draw them."""
    plt = pyplot()
    compile_first(draw("ijcnn1", 1_000, seed=0, n_test=100))
    tasks = {str(n): partial(measure, n) for n in (QUICK_SIZES if quick else SIZES)}
    results = measure_each("scaling", tasks, quick, only)
    draw_picture(plt, results, QUICK_PICTURE if quick else PICTURE)
    return results


def draw_picture(plt: Any, results: dict[str, Any], picture) -> None:
    # without these two, every run would give another file
    plt.rcParams["svg.hashsalt"] = "scaling"
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    draw_times(axes[0], results)
    draw_shares(axes[1], results)
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, metadata={"Date": None})
    plt.close(figure)


def draw_times(ax, results: dict[str, Any]) -> None:
    sizes = [int(n) for n in results]
    for key, title, color in (
        ("search", "whole search, 5 folds", "#cc6677"),
        ("fit", "one SVC.fit", "0.35"),
    ):
        ax.plot(sizes, [row[key] for row in results.values()], "o-", color=color, label=title)
    ax.set(xscale="log", yscale="log", xlabel="rows", ylabel="seconds", title="ijcnn1")
    ax.set_xticks(sizes, [f"{n:,}" for n in sizes])
    ax.minorticks_off()
    ax.grid(alpha=0.3)
    ax.legend()


def draw_shares(ax, results: dict[str, Any]) -> None:
    """Draw the phases of every search as one bar of 100 %."""
    labels = [f"{int(n):,}" for n in results]
    bottom = [0.0] * len(labels)
    for name, (title, color) in PHASES.items():
        shares = [share(row, name) for row in results.values()]
        ax.bar(labels, shares, bottom=bottom, color=color, label=title)
        bottom = [low + height for low, height in zip(bottom, shares)]
    ax.set(xlabel="rows", ylabel="% of the search", ylim=(0, 100), title="where the time goes")
    handles, titles = ax.get_legend_handles_labels()
    ax.legend(handles[::-1], titles[::-1], loc="center left", bbox_to_anchor=(1, 0.5))


def share(row: dict[str, Any], phase: str) -> float:
    return 100 * row["phases"][phase] / row["search"]


def report(results: dict[str, Any]) -> str:
    return table(
        ["n", "search, s", "one fit, s", "price", *(f"{title}, %" for title, _ in PHASES.values())],
        [
            [
                n,
                f"{row['search']:.2f}",
                f"{row['fit']:.3f}",
                f"{row['search'] / row['fit']:.1f}",
                *(f"{share(row, name):.0f}" for name in PHASES),
            ]
            for n, row in results.items()
        ],
    )
