"""The options of the command line.

argparse is enough for four commands, comes with Python, and takes no time to load: everything else
is imported when a command has been understood.
"""

from __future__ import annotations

import argparse
import re
from typing import NoReturn

from .._core.version import __version__

KERNELS = ("rbf", "linear", "poly", "sigmoid", "laplacian", "matern12", "matern32", "matern52",
           "chi2", "tanimoto", "minmax", "auto")  # fmt: skip
MODELS = ("auto", "svm", "linear", "logistic", "ridge", "kernel-ridge")
MOST_SEED = 2**32 - 1  # that NumPy takes
SCALES = ("auto", "standard", "minmax", "maxabs", "robust", "none")

EXAMPLES = """\
examples:
  hypermargin demo
  hypermargin tune wine.csv
  hypermargin tune wine.csv --target quality --task regression --out model.skops
  hypermargin tune train.libsvm --model linear --liblinear train.model --time-budget 60
  hypermargin predict model.skops new.csv --probabilities
  hypermargin compare wine.csv --time-budget 30 --picture compare.png
"""
TUNE = """\
examples:
  hypermargin tune wine.csv
  hypermargin tune wine.csv --target quality --score balanced_accuracy --out model.skops
  hypermargin tune train.libsvm.bz2 --kernel rbf --libsvm train.model --jobs 2
  hypermargin tune visits.tsv --groups patient --weights weight --checkpoint visits.jsonl

What is not said is guessed, and what is guessed is said.
"""
PREDICT = """\
examples:
  hypermargin predict model.skops new.csv > predicted.csv
  hypermargin predict model.skops new.csv --probabilities --scores --out predicted.csv
"""
COMPARE = """\
examples:
  hypermargin compare wine.csv
  hypermargin compare wine.csv --time-budget 60 --picture compare.png

A quarter of the rows is kept apart, to test on. Every search has the same time and the same folds;
a fit that goes on when the time is up is stopped. The fit on all rows after it may take as long.
"""


class Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one sentence."""

    def error(self, message: str) -> NoReturn:
        """Leave with the exit code of a mistake."""
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help.\n")


def parser() -> Parser:
    """Return the parser of all commands."""
    top = Parser(
        "hypermargin",
        description="Tune support vector machines by gradients of the cross-validation loss.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"hypermargin {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _tune(_command(commands, "tune", "find the hyperparameters of a model for a file", TUNE))
    _predict(_command(commands, "predict", "predict with a model that tune has written", PREDICT))
    _compare(_command(commands, "compare", "compare with other ways to search", COMPARE))
    _demo(_command(commands, "demo", "tune an SVM on data that come with scikit-learn", ""))
    return top


def _command(commands: argparse._SubParsersAction, name: str, about: str, epilog: str) -> Parser:
    made = commands.add_parser(
        name,
        help=about,
        description=about[0].upper() + about[1:] + ".",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--json", action="store_true", help="print the result as JSON, nothing else")
    made.add_argument("--quiet", "-q", action="store_true", help="print the result only")
    made.add_argument("--overwrite", action="store_true", help="replace files that exist")
    return made


def _data(to: Parser) -> None:
    """Add what says how DATA are to be understood, and tuned."""
    to.add_argument("data", metavar="DATA",
                    help="CSV, TSV, LIBSVM text (also gzip, bzip2), Parquet or .npz")  # fmt: skip
    group = to.add_argument_group("the data")
    group.add_argument("--target", metavar="COLUMN", help="name or number of the column to predict")
    group.add_argument("--groups", metavar="COLUMN", help="rows of a group stay in one fold")
    group.add_argument("--weights", metavar="COLUMN", help="weights of the rows")
    group.add_argument("--ignore", metavar="COLUMN", action="append", default=[],
                       help="leave a column out; may be repeated")  # fmt: skip
    group.add_argument("--header", action=argparse.BooleanOptionalAction, default=None,
                       help="whether the first line has names")  # fmt: skip
    group = to.add_argument_group("the model")
    group.add_argument("--task", choices=("auto", "classification", "regression"), default="auto")
    group.add_argument("--model", choices=MODELS, default="auto", help="default: auto")
    group.add_argument("--kernel", choices=KERNELS, help="of svm and kernel-ridge; default: rbf")
    group.add_argument("--scale", choices=SCALES, default="auto", help="how features are scaled")
    group = to.add_argument_group("the search")
    group.add_argument("--score", metavar="NAME",
                       help="a score of scikit-learn, such as f1 or roc_auc")  # fmt: skip
    group.add_argument("--positive", metavar="CLASS",
                       help="the class that f1 is of, or its like; default: the rarer")  # fmt: skip
    group.add_argument("--folds", type=_above(1), metavar="N", help="default: 5")
    group.add_argument("--time-budget", type=_positive, metavar="SECONDS")
    group.add_argument("--jobs", type=_jobs, default=-1, metavar="N",
                       help="threads; default: -1, all; -2 is all but one")  # fmt: skip
    group.add_argument("--seed", type=_above(-1, MOST_SEED), default=0, metavar="N",
                       help="default: 0")  # fmt: skip


def _tune(to: Parser) -> None:
    _data(to)
    to.add_argument("--landmarks", type=_above(0), metavar="N",
                    help="train on N landmarks, for many rows")  # fmt: skip
    to.add_argument("--checkpoint", metavar="FILE", help="go on from here after a stop")
    group = to.add_argument_group("files to write")
    group.add_argument("--out", metavar="FILE", help="the model: .skops, or .joblib (a pickle)")
    group.add_argument("--libsvm", metavar="FILE", help="a model file for svm-predict")
    group.add_argument("--liblinear", metavar="FILE", help="a model file for LIBLINEAR's predict")
    group.add_argument("--history", metavar="FILE", help="every evaluation: .jsonl or .csv")
    group.add_argument("--report", metavar="FILE", help="a report as HTML")


def _predict(to: Parser) -> None:
    to.add_argument("model", metavar="MODEL", help="what tune --out has written")
    to.add_argument("data", metavar="DATA", help="rows with the columns that the model knows")
    to.add_argument("--probabilities", action="store_true", help="add one column for each class")
    to.add_argument("--scores", action="store_true", help="add the outputs of the machines")
    to.add_argument("--out", metavar="FILE", help="write there, not to the terminal")
    to.add_argument("--allow-pickle", action="store_true",
                    help="read a .joblib model, which can run any code")  # fmt: skip


def _compare(to: Parser) -> None:
    _data(to)
    to.add_argument("--picture", metavar="FILE", help="best score against time, .png, .svg, .pdf")


def _demo(to: Parser) -> None:
    to.add_argument("--report", metavar="FILE", help="also write a report as HTML")


def _above(least: int, most: int | None = None):
    """Return what reads a whole number above the least, and up to the most there may be."""
    ends = f"of {least + 1} or more" if most is None else f"from {least + 1} to {most}"

    def whole(text: str) -> int:
        number = int(text) if re.fullmatch("[0-9]+", text) else least
        if number <= least or (most is not None and number > most):
            raise argparse.ArgumentTypeError(f"{text!r} should be a whole number {ends}")
        return number

    return whole


def _jobs(text: str) -> int:
    """Read a number of threads as joblib has it: those below zero are counted from all."""
    if not re.fullmatch(r"-?[0-9]{1,9}", text) or int(text) == 0:
        raise argparse.ArgumentTypeError(
            f"{text!r} should be a number of threads, 1 or more, or -1 for one on each core"
        )
    return int(text)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} should be a number of seconds above 0")
    return value
