"""Cases in a process of their own, which is ended when a case does not end by itself."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from benchmarks._fuzz.cases import Case, draw, listening, quietly
from benchmarks._fuzz.oracle import CHECKS, refusal
from benchmarks._fuzz.reference import Unsettled

LIMIT = 20.0  # seconds of processor time that a search may take
MANY = 5  # times that for a check, which trains many times
PATIENCE = 300.0  # seconds by the clock without a word, after which a case is given up
THEIRS = ("results", "scores", "refit")  # checks that wait for scikit-learn's own solvers
SOLVED = ("scores", "refit", "solution")  # checks of what is solved


@dataclass
class Outcome:
    """What became of a case."""

    number: int
    kind: str = ""
    seconds: float = 0.0
    refused: str | None = None
    fault: str | None = None
    findings: list[str] = field(default_factory=list)
    unsettled: list[str] = field(default_factory=list)


def judge(case: Case, stage: Callable[[str], None] = lambda name: None) -> Outcome:
    """Run a search and examine it; `stage` is told what comes next."""
    outcome = Outcome(case.number, case.kind, fault=case.fault)
    before, search = case.copy_of_input(), case.search()
    stage("search")
    clock = time.process_time()
    try:
        _, late = listening(search.fit, case.X, case.y, **case.fit_params)
    except Exception as error:
        outcome.refused = f"{type(error).__name__}: {str(error)[:300]}"
        stage("refusal")
        outcome.findings = list(refusal(case, error))
        return outcome
    finally:
        outcome.seconds = time.process_time() - clock
    for check in CHECKS:
        name = check.__name__
        if late and name.startswith(SOLVED):
            outcome.unsettled.append(f"{name}: the search says that it did not converge")
            continue
        stage(name)
        try:
            found = quietly(lambda check=check: list(check(case, search, before)))
        except Unsettled:
            outcome.unsettled.append(name)
        except Exception as error:
            outcome.findings.append(f"{name} raises {type(error).__name__}: {str(error)[:300]}")
        else:
            outcome.findings += [f"{name}: {finding}" for finding in found]
    return outcome


def _serve(connection: Any) -> None:
    """Judge the cases whose numbers come in, until there are no more.

    Whatever uses up its time is ended by the system, be it in compiled code.
    """

    def stage(name: str) -> None:
        connection.send(name)
        signal.setitimer(signal.ITIMER_PROF, LIMIT if name == "search" else MANY * LIMIT)

    while (number := connection.recv()) is not None:
        stage("draw")
        outcome = judge(draw(number), stage)
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        connection.send(outcome)


class Worker:
    """A process that judges; where a case has ended it, another one takes its place."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other,), daemon=True)
        self.process.start()
        other.close()

    def judge(self, number: int) -> Outcome:
        """Judge a case; one that does not end is a finding."""
        if not self.process.is_alive():
            self.__init__()  # type: ignore[misc]
        self.connection.send(number)
        stage = "start"
        try:
            while self.connection.poll(PATIENCE):
                said = self.connection.recv()
                if isinstance(said, Outcome):
                    return said
                stage = said
        except EOFError:
            pass
        self.end()
        case = draw(number)
        outcome = Outcome(number, case.kind, LIMIT, fault=case.fault)
        if stage.startswith(THEIRS):
            outcome.unsettled.append(f"{stage} did not end")
        else:
            outcome.findings.append(f"hang: {stage} did not end")
        return outcome

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


def judge_all(numbers: Iterable[int]) -> Iterator[Outcome]:
    """Judge cases one after the other."""
    worker = Worker()
    try:
        yield from map(worker.judge, numbers)
    finally:
        worker.end()
