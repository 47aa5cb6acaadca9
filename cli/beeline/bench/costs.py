# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What a copy between two processes costs, part by part: what `beeline bench primitives`
measures, tabulates and draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WAYS = {
    "vm": "process_vm_*",
    "module": "beeline.ko",
    "shared": "shared memory",
}
SIDES = {"receive": "Receive side: out of the other's memory", "send": "Send side: into it"}
PARTS = ("trap", "pages", "copy", "lend")


@dataclass(frozen=True)
class Cost:
    """One copy of one size by one way, in ns. A part that the way doesn't have is 0."""

    way: str
    side: str
    size: int
    trap: float = 0.0
    pages: float = 0.0
    copy: float = 0.0
    lend: float = 0.0

    @property
    def total(self) -> float:
        return self.trap + self.pages + self.copy + self.lend


@dataclass(frozen=True)
class Result:
    costs: list[Cost]
    absent: dict[str, str]  # a way that isn't here: why


def select(costs: Sequence[Cost], side: str, size: int) -> list[Cost]:
    """In the order of WAYS."""
    mine = {c.way: c for c in costs if c.side == side and c.size == size}
    return [mine[way] for way in WAYS if way in mine]
