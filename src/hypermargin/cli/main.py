"""From the words of a command line to an exit code.

0: all is well; 2: a mistake of the user, said in one sentence on stderr; 130: Ctrl-C, after which
the best point so far has been shown and written.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from .options import parser

GOOD, MISTAKE, INTERRUPTED = 0, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return the exit code.

    Parameters
    ----------
    argv : sequence of str, default=None
        The words after the name of the command; None takes those of the process.

    Returns
    -------
    code : int
        0, 2 or 130.

    Examples
    --------
    >>> from hypermargin.cli.main import main
    >>> main(["predict", "nowhere.skops", "nothing.csv"])
    2
    """
    try:
        options = parser().parse_args(argv)
    except SystemExit as left:
        return int(left.code or 0)
    try:
        from ..files.mistake import Mistake

        command = import_module(f".{options.command}", __package__)
        try:
            code = command.run(options)
            sys.stdout.flush()
            return code
        except Mistake as mistake:
            print(f"hypermargin: {mistake}", file=sys.stderr)
            return MISTAKE
        except MemoryError:
            print("hypermargin: the data do not fit into memory.", file=sys.stderr)
            return MISTAKE
    except KeyboardInterrupt:
        print("hypermargin: interrupted before there was a result.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # whoever reads the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return GOOD
