"""Replay cases by their numbers: `python -m benchmarks._fuzz NUMBER ...`."""

import sys

from benchmarks._fuzz.cases import draw
from benchmarks._fuzz.worker import judge

for argument in sys.argv[1:]:
    case = draw(int(argument))
    print(case.describe(), flush=True)
    outcome = judge(case)
    print(f"  {outcome.seconds:.2f} s; refused: {outcome.refused}; unsettled: {outcome.unsettled}")
    print("\n".join(f"  FINDING {finding}" for finding in outcome.findings) or "  no finding")
