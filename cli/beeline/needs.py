# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What only some subcommands need: Python packages, places to write to. Each says so before
anything else is done: nobody measures for minutes to hear at the end that there is no picture."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from beeline.errors import BeelineError


def tables(otherwise: str = "") -> None:
    try:
        import rich  # noqa: F401
    except ImportError as error:
        raise BeelineError(
            f"tables need the Python package rich ({error}): apt-get install python3-rich, "
            f"or pip install rich{otherwise}"
        ) from None


def plots(folder: Path | None) -> None:
    """If there are to be any."""
    if folder is None:
        return
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise BeelineError(
            f"--plot needs the Python package matplotlib ({error}): apt-get install "
            "python3-matplotlib, or pip install matplotlib"
        ) from None


def _writable(file: Path) -> None:
    """OSError: it can't be made, or written to. What is there stays as it is; of what isn't a
    plain file nobody knows before."""
    try:
        made = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except FileExistsError:
        if file.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file)) from None
        if file.is_file():
            os.close(os.open(file, os.O_WRONLY | os.O_CLOEXEC))
        return
    os.close(made)
    file.unlink()


def outputs(file: Path | None, folder: Path | None) -> None:
    """They can be written to; the folders that lead there are made."""
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            if not os.access(folder, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            _writable(file)
    except OSError as error:
        raise BeelineError(f"{error.filename}: {error.strerror}") from None
