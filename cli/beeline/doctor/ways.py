# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Which way messages of each length go on this machine: what programs/ways says."""

from __future__ import annotations

import os
import subprocess
from dataclasses import asdict, dataclass, field
from typing import Any

from beeline import paths
from beeline.show import plain_console

LIMIT = 60.0
DISTANCES = "near", "far"


@dataclass
class Ways:
    machine: str = ""
    call_ns: int = 0  # what a system call takes
    claimed_from: int = 0  # bytes: from here on any receive of a process that computes is
    both_from: int = 0  # and from here on both processes copy one message
    # by pattern and distance: up to so many bytes, None being all, and how
    ranges: dict[str, dict[str, list[tuple[int | None, str]]]] = field(default_factory=dict)


def parse(text: str) -> Ways:
    ways = Ways()
    for words in map(str.split, text.splitlines()):
        if len(words) == 4:
            pattern, distance, to, way = words
            by_distance = ways.ranges.setdefault(pattern, {})
            by_distance.setdefault(distance, []).append((int(to) or None, way))
        elif words[0] == "machine":
            ways.machine = words[1]
        else:
            setattr(ways, words[0], int(words[1]))
    return ways


def look() -> Ways | None:
    """None: it can't be run here, for which the other lines have the reason."""
    try:
        done = subprocess.run(
            [str(paths.program("ways"))],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=True,
            env=dict(os.environ),
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return parse(done.stdout)


def record(ways: Ways | None) -> dict[str, Any] | None:
    return asdict(ways) if ways else None


def size(count: int) -> str:
    return f"{count // 1024} KiB" if count % 1024 == 0 else f"{count} B"


def line(ranges: list[tuple[int | None, str]]) -> str:
    return ", ".join(f"{way} to {size(to)}" if to else f"then {way}" for to, way in ranges)


def show(ways: Ways) -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for head in ("message", *DISTANCES):
        table.add_column(head, no_wrap=True)
    for pattern, by_distance in ways.ranges.items():
        cells = [line(by_distance.get(distance, [])) for distance in DISTANCES]
        table.add_row(pattern, cells[0], "the same" if cells[0] == cells[1] else cells[1])
    print(f"Ways of a message (machine: {ways.machine}; a system call takes {ways.call_ns} ns):")
    plain_console().print(table)
    print(
        f"From {size(ways.claimed_from)} on PROXY instead of RNDV if the receiver computes; "
        f"from {size(ways.both_from)} on both copy."
    )
