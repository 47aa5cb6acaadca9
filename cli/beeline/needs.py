# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What only some subcommands need: Python packages, places to write to. Each says so before
anything else is done: nobody measures for minutes to hear at the end that there is no picture."""

from __future__ import annotations

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


def outputs(file: Path | None, folder: Path | None) -> None:
    """They can be written to. What leads there is made, and nothing in them changes."""
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            if not os.access(folder, os.W_OK | os.X_OK):
                raise PermissionError(13, "no permission to write there", str(folder))
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            new = not file.exists()
            with file.open("a"):
                pass
            if new:
                file.unlink()
    except OSError as error:
        raise BeelineError(f"{error.filename}: {error.strerror}") from None
