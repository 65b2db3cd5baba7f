"""Evaluations as values that JSON has, and back: what a search needs of one after it was made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .._core.packing import Packer, Unpacker
from ..problems.base import Evaluation, Problem, gone
from ..problems.exact.state import State, WarmStart
from ..problems.landmarks.problem import LandmarkStart
from ..problems.linear.part import Start
from ..problems.linear.problem import LinearEvaluation

KINDS: dict[str, Callable[..., Any]] = {
    kind.__name__: kind for kind in (State, WarmStart, LandmarkStart, Start)
}


@dataclass
class Answers:
    """What an evaluation has said when it was asked for derivatives."""

    given: dict[str, Any] = field(default_factory=dict)

    def of(self, evaluation: Evaluation) -> Evaluation:
        """Return the evaluation, whose answers are noted from now on."""
        noted: dict[str, Any] = {"pullback": self._noting("pullback", evaluation.pullback)}
        if isinstance(evaluation, LinearEvaluation):
            noted["rates"] = self._noting("rates", evaluation.rates)
        return replace(evaluation, **noted)

    def _noting(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*args: Any) -> Any:
            self.given[name] = answer = function(*args)
            return answer

        return ask

    def again(self, name: str, error: str | None) -> Callable[..., Any]:
        """Return a function that gives an answer once more, or fails as it did."""

        def answer(*_: Any) -> Any:
            if name not in self.given:
                raise FloatingPointError(error)
            return self.given[name]

        return answer


def pack_evaluation(
    evaluation: Evaluation, answers: Answers, state: bool, packer: Packer
) -> dict[str, Any]:
    """Return an evaluation and its answers, with where its machines ended or without."""
    outputs = evaluation.outputs
    found = {
        "outputs": packer.pack(np.concatenate(outputs) if len(outputs) > 1 else outputs[0]),
        "state": packer.pack(evaluation.state if state else None),
        "answers": packer.pack(answers.given),
        "converged": bool(evaluation.converged),
    }
    if isinstance(evaluation, LinearEvaluation):
        found["still"] = bool(evaluation.still)
    return found


def unpack_evaluation(
    found: Mapping[str, Any],
    unpacker: Unpacker,
    problem: Problem,
    rows: np.ndarray | None,
    error: str | None,
) -> Evaluation:
    """Return the evaluation that was packed, of a problem on some of its rows."""
    tests = [fold.test for fold in problem.folds]
    tests = tests if rows is None else [test[rows[test]] for test in tests]
    answers = Answers(unpacker.read(found["answers"]))
    ends = np.cumsum([len(test) for test in tests])[:-1]
    outputs = [part.copy() for part in np.split(unpacker.read(found["outputs"]), ends)]
    parts = (
        outputs, tests, answers.again("pullback", error), gone, unpacker.read(found["state"]),
        found["converged"],
    )  # fmt: skip
    if "still" not in found:
        return Evaluation(*parts)
    rates = answers.again("rates", error)
    return LinearEvaluation(*parts, rates=rates, still=found["still"])
