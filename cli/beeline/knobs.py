# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The variables that tune Beeline, from the provider's own table, and what is wrong with those
that are set: a slip of the pen has no effect, and is said once, before anything starts."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from beeline import paths

PREFIX = "FI_BEELINE_"
UNITS = {"": 0, "k": 10, "m": 20, "g": 30}


@dataclass(frozen=True)
class Knob:
    """One line of knobs.txt, which docs/man/gen_fi_beeline.c writes."""

    kind: str  # choice, size or number
    words: tuple[str, ...] = ()  # of a choice
    least: int = 0
    most: int = 0
    auto: bool = False

    @classmethod
    def parse(cls, kind: str, rest: list[str]) -> Knob:
        if kind == "choice":
            return cls(kind, tuple(rest[0].split("|")))
        return cls(kind, least=int(rest[0]), most=int(rest[1]), auto=rest[2] == "auto")

    def takes(self, text: str) -> bool:
        """As bl_knob_parse() in src/base/knobs.c decides; an empty one is none."""
        text = text.lower()
        if not text or (self.auto and text == "auto"):
            return True
        if self.kind == "choice":
            return text in self.words
        match = re.fullmatch(r"([0-9]+)([kmg]?)", text)
        if not match or (match[2] and self.kind != "size"):
            return False
        return self.least <= int(match[1]) << UNITS[match[2]] <= self.most

    @property
    def wanted(self) -> str:
        if self.kind == "choice":
            return "one of " + "|".join(self.words)
        what = "size in bytes (K, M, G allowed)" if self.kind == "size" else "number"
        return f"a {what} from {self.least} to {self.most}" + " or auto" * self.auto


def table() -> dict[str, Knob]:
    """By name; none where this package was not installed by the build that writes it down."""
    try:
        lines = (paths.PACKAGE / "knobs.txt").read_text().splitlines()
    except OSError:
        return {}
    return {name: Knob.parse(kind, rest) for name, kind, *rest in map(str.split, lines)}


def mistakes(environ: Mapping[str, str]) -> list[str]:
    """Variables that look like Beeline's and are none, and values that it ignores. Each
    begins with the variable's name."""
    known = table()
    found = []
    for name in sorted(environ):
        if not known or not name.startswith(PREFIX):
            continue
        if name in known:
            if not known[name].takes(environ[name]):
                found.append(
                    f"{name} is set to {environ[name]}, which is ignored: it takes "
                    f"{known[name].wanted}"
                )
            continue
        words = [word.removeprefix(PREFIX) for word in known]
        near = difflib.get_close_matches(name.removeprefix(PREFIX), words, 1, 0.7)
        meant = f": {PREFIX}{near[0]} is" if near else "; fi_beeline(7) lists them"
        found.append(f"{name} is no variable of Beeline's" + meant)
    return found
