"""Writing a report so that nothing is lost: to a file beside it, which then takes its name."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

MARK = '<meta name="generator" content="hypermargin">'  # by which a report is known as ours


def write(path: str | os.PathLike[str], text: str, overwrite: bool) -> Path:
    """Write a report; a file that is none is not replaced unless that is asked for."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{str(target)!r} is a folder; give the name of a file in it.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {str(target.parent)!r} to write a report to.")
    if target.exists() and not overwrite and not _is_ours(target):
        raise FileExistsError(
            f"{str(target)!r} exists and is no report of ours; give another name, or "
            "overwrite=True."
        )
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)  # as any new file has it
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return target


def _is_ours(path: Path) -> bool:
    with open(path, encoding="utf-8", errors="replace") as file:
        return MARK in file.read(2000)
