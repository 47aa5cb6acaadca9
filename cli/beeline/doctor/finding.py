# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""One line of the doctor's report."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OK = "ok"
NOTE = "note"  # Beeline works, but less well or with less than it could
BAD = "bad"  # Beeline does not work because of this


ROOT = Path("/")  # of /proc and /sys: tests have others


@dataclass
class Finding:
    name: str
    state: str
    what: str  # what was found
    why: str = ""  # what it means, or where it comes from
    command: str = ""  # what would change it
    data: dict[str, Any] = field(default_factory=dict)  # for programs


def read(path: str) -> str | None:
    """A file of /proc or /sys; None: it isn't there or not for us."""
    try:
        return (ROOT / path.lstrip("/")).read_text(errors="replace").strip()
    except OSError:
        return None


def status(field_name: str) -> str:
    """A line of /proc/self/status."""
    for line in (read("/proc/self/status") or "").splitlines():
        name, _, value = line.partition(":")
        if name == field_name:
            return value.strip()
    return ""
