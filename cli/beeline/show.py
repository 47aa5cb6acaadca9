# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What the commands that look at running processes have in common: how they say numbers, where
they print tables, and why a process can't be looked at."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

from beeline import segments
from beeline.errors import BeelineError


@contextlib.contextmanager
def looking(pid: int) -> Iterator[None]:
    """At a process, which may not be there, or not ours to look at: BeelineError says so."""
    try:
        uid = segments.owner(pid)
        if uid != os.geteuid() and os.geteuid() != 0:
            raise segments.NotAllowed(pid)
        yield
    except segments.NotThere:
        raise BeelineError(f"there is no process {pid}") from None
    except segments.NotAllowed:
        whose = segments.user_name(uid)
        if uid == os.geteuid():
            why = "the kernel lets nobody look into it (it may not be dumped, or has privileges)"
        else:
            why = f"it belongs to {whose}: ask as {whose}"
        raise BeelineError(f"process {pid} can't be looked at: {why}") from None


def human(value: float) -> str:
    """A number of bytes or messages in few characters."""
    if value < 100000:
        return f"{value:.0f}"
    for unit in ("k", "M", "G", "T"):
        value /= 1000
        if value < 1000:
            return f"{value:.3g} {unit}"
    return f"{value:.3g} P"


def size(value: float) -> str:
    """A number of bytes, about."""
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} TB"


def plain_console() -> Any:
    """A terminal has a width; a pipe or a file has none, and gets whole lines."""
    from rich.console import Console

    if sys.stdout.isatty():
        return Console()
    width = None if os.environ.get("COLUMNS") else 120
    return Console(soft_wrap=True, width=width)


def number_list(numbers: set[int]) -> str:
    """As the kernel writes such a list: 0-3,8."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)
