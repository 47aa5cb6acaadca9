# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The gate on instructions: what a copy costs, counted by a TCG plugin, not timed.

Time under emulation says nothing; the number of guest instructions repeats within a few tenths
of a percent. Two rules: the module's copy takes no more instructions than process_vm_readv() of
the same bytes in the same boot, and no more than 2 % above what counts.txt records.
``tests/vm/run --suite count --update-counts`` records anew.
"""

from __future__ import annotations

import re
from pathlib import Path

from kernels import HERE, sh

RECORD = HERE / "counts.txt"
TOLERANCE = 0.02
HEADER = """\
# Guest instructions per copy, the least of many, in one boot of each kernel (tests/vm/counts.py).
# kernel  call                bytes  instructions
"""


def plugin(work: Path) -> Path:
    out = work / "icount.so"
    sh(
        "gcc",
        "-std=gnu17",
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-shared",
        "-fPIC",
        HERE / "icount.c",
        "-o",
        out,
    )
    return out


def measured(results: str, marks: Path) -> dict[tuple[str, int], int]:
    """Instructions of each call: the names from the program, the numbers from the plugin.

    The program prints "count NAME BYTES ROUNDS" before it makes 2 * ROUNDS marks, one before and
    one after each call; an empty pair, named "nothing", is what the marks themselves cost. The
    least of the rounds counts: what is above it are interrupts, whose number depends on how fast
    the emulation happens to be.
    """
    numbers = [int(n) for n in marks.read_text().split()]
    found: dict[tuple[str, int], int] = {}
    at = 0
    for name, size, rounds in re.findall(r"^count (\S+) (\d+) (\d+)$", results, re.M):
        pairs = numbers[at : at + 2 * int(rounds)]
        at += 2 * int(rounds)
        found[name, int(size)] = min(b - a for a, b in zip(pairs[::2], pairs[1::2], strict=True))
    if at != len(numbers):
        raise ValueError(f"{len(numbers)} marks, expected {at}")
    nothing = found.pop(("nothing", 0), 0)
    return {key: n - nothing for key, n in found.items()}


def recorded() -> dict[tuple[str, str, int], int]:
    if not RECORD.exists():
        return {}
    rows = [line.split() for line in RECORD.read_text().splitlines() if not line.startswith("#")]
    return {(k, name, int(size)): int(n) for k, name, size, n in rows}


def judge(kernel: str, results: str, marks: Path, update: bool) -> list[str]:
    """The verdicts, as lines of a test."""
    try:
        now = measured(results, marks)
    except (OSError, ValueError) as why:
        return [f"not ok - counts: {why}"]
    if not now:
        return ["not ok - counts: none"]
    old = recorded()
    lines = []
    for (name, size), n in now.items():
        lines.append(f"# {name:16} {size:8} B {n:9} instructions")
        ours = name.startswith("beeline_")
        rival = now.get((name.replace("beeline_", "process_vm_"), size))
        if ours and rival:
            verdict = "ok" if n <= rival else "not ok"
            lines.append(f"{verdict} - {name}_{size}_at_most_process_vm: {n} to {rival}")
        before = old.get((kernel, name, size))
        if ours and not update:
            if before is None:
                lines.append(f"not ok - {name}_{size}_recorded: no record (--update-counts)")
            else:
                verdict = "ok" if n <= before * (1 + TOLERANCE) else "not ok"
                lines.append(f"{verdict} - {name}_{size}_recorded: {n}, recorded {before}")
    if update:
        old.update({(kernel, name, size): n for (name, size), n in now.items()})
        rows = [f"{k:8} {name:18} {size:8} {n:10}\n" for (k, name, size), n in sorted(old.items())]
        RECORD.write_text(HEADER + "".join(rows))
        lines.append(f"# recorded in {RECORD.name}")
    return lines
