# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Python packages that only some subcommands need. Each says so before anything else
is done: nobody measures for minutes to hear at the end that there is no picture."""

from __future__ import annotations

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
