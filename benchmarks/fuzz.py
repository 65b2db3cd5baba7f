"""Random searches against scikit-learn's own answers: how many cases, how many findings.

A case is known by its number alone: data, containers, estimator, space, score, folds, weights.
`python -m benchmarks._fuzz NUMBER` replays one; `--only FIRST-LAST` runs some of them.
"""

from collections import Counter
from typing import Any

from benchmarks._common import table
from benchmarks._fuzz.worker import Outcome, judge_all

CASES, QUICK = 3000, 100


def run(quick: bool, only: str | None = None) -> dict[str, Any]:
    first, last = 0, QUICK if quick else CASES
    if only:
        first, last = (int(part) for part in only.split("-"))
    outcomes: list[Outcome] = []
    for outcome in judge_all(range(first, last)):
        outcomes.append(outcome)
        for finding in outcome.findings:
            print(f"{finding}\n  python -m benchmarks._fuzz {outcome.number}", flush=True)
    return collect(outcomes)


def collect(outcomes: list[Outcome]) -> dict[str, Any]:
    """Return what is stored of some outcomes."""
    return {
        "cases": [outcomes[0].number, outcomes[-1].number],
        "kinds": {kind: summary(outcomes, kind) for kind in sorted({o.kind for o in outcomes})},
        "findings": {str(o.number): o.findings for o in outcomes if o.findings},
        "unsettled": dict(Counter(name for o in outcomes for name in o.unsettled)),
    }


def summary(outcomes: list[Outcome], kind: str) -> dict[str, Any]:
    """Return the counts of one kind of estimator."""
    of_kind = [o for o in outcomes if o.kind == kind]
    return {
        "cases": len(of_kind),
        "wrong on purpose": sum(o.fault is not None for o in of_kind),
        "refused": sum(o.refused is not None for o in of_kind),
        "unsettled": sum(bool(o.unsettled) for o in of_kind),
        "with findings": sum(bool(o.findings) for o in of_kind),
        "longest, s": round(max(o.seconds for o in of_kind), 1),
    }


def report(results: dict[str, Any]) -> str:
    kinds = results["kinds"]
    header = ["estimator", *next(iter(kinds.values()))]
    rows = [[kind, *counts.values()] for kind, counts in kinds.items()]
    lines = [
        f"case {number}: {one}" for number, found in results["findings"].items() for one in found
    ]
    return "\n".join([table(header, rows), "", *(lines or ["No findings."])])
