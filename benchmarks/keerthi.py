"""Table 1 of Keerthi et al.: errors of Grad (one width) and Grad-ARD (a width each), and times.

Rows are drawn from all of the set, the others (at most 30,000) are for testing; medians of seven
draws.  `--only splice` and the like run the parts whose label has that text.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks._common import draw, measure_each, medians, table
from benchmarks.widths import one_draw

# set, rows, and the paper's errors of Grad and Grad-ARD in percent
CASES = (
    ("ijcnn1", 2000, 2.87, 2.65),
    ("ijcnn1", 4000, 2.42, 2.14),
    ("ijcnn1", 8000, 1.77, 1.50),
    ("ijcnn1", 16000, 1.26, 1.08),
    ("ijcnn1", 32000, 0.91, 0.82),
    ("splice", 2000, 8.17, 3.49),
)
QUICK = (("splice", 600, 8.17, 3.49),)
SEARCHES = {"Grad": "rbf, one", "Grad-ARD": "rbf, asks", "laplacian": "laplacian, asks"}
DRAWS = 7


def run(quick: bool, only: str | None = None) -> dict[str, Any]:
    tasks: dict[str, Callable[[], Any]] = {}
    for name, n, *_ in QUICK if quick else CASES:
        for label in SEARCHES:
            if label != "laplacian" or name == "splice":
                tasks[f"{name}, {n}, {label}"] = partial(of_draws, name, n, label, quick)
    return measure_each("keerthi", tasks, quick, only, keep=True)


def of_draws(name: str, n: int, label: str, quick: bool) -> dict[str, float]:
    seeds = range(1 if quick else DRAWS)
    return medians([one_draw(draw(name, n, seed), SEARCHES[label], seed) for seed in seeds])


def report(results: dict[str, Any]) -> str:
    lines = []
    for name, n, *papers in CASES + QUICK:
        for label, paper in zip(SEARCHES, (*papers, papers[1])):
            found = results.get(f"{name}, {n}, {label}")
            if found is not None:
                line = [f"{name}, {n}", label, f"{paper:.2f}", f"{found['error']:.2f}"]
                lines.append([*line, f"{found['seconds']:.1f}"])
    return table(["set, rows", "method", "paper, %", "ours, %", "s"], lines)
