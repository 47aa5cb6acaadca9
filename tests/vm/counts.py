# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The gate on instructions: what a copy costs, counted by a TCG plugin, not timed.

Time under emulation says nothing; the number of guest instructions repeats within a few tenths
of a percent. The rules: the module's copy takes no more instructions than process_vm_readv() of
the same bytes in the same boot, and no more than 2 % above what counts.txt records.
``tests/vm/run --suite count --update-counts`` records anew.

The kernel copies with "rep movsb", each byte of which the emulation counts as an instruction. So
most of a large copy's count is its length, and 2 % of it would hide a lot. What is compared with
the record is therefore the count beyond the bytes.
"""

from __future__ import annotations

import re
from pathlib import Path

from kernels import HERE, sh

RECORD = HERE / "counts.txt"
TOLERANCE = 0.02
# What the module's copies are measured against; each must be there.
RIVALS = {"beeline_from": "process_vm_from", "beeline_to": "process_vm_to"}
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
    lines: list[str] = []
    for (name, size), n in now.items():
        lines.append(f"# {name:16} {size:8} B {n:9} instructions")
        if not name.startswith("beeline_"):
            continue
        if name in RIVALS:
            rival = now.get((RIVALS[name], size))
            verdict = "ok" if rival is not None and n <= rival else "not ok"
            lines.append(f"{verdict} - {name}_{size}_at_most_process_vm: {n} to {rival}")
        before = old.get((kernel, name, size))
        if update:
            continue
        if before is None:
            lines.append(f"not ok - {name}_{size}_recorded: no record (--update-counts)")
            continue
        copied = size if name in RIVALS else 0
        beyond, limit = n - copied, (before - copied) * (1 + TOLERANCE)
        verdict = "ok" if beyond <= limit else "not ok"
        was = f"{beyond} beyond the bytes, recorded {before - copied}"
        lines.append(f"{verdict} - {name}_{size}_recorded: {was}")
    for name, size in sorted(key[1:] for key in old if key[0] == kernel):
        if (name, size) not in now:
            lines.append(f"not ok - {name}_{size}: recorded, and now not measured")
    if update:
        old = {key: n for key, n in old.items() if key[0] != kernel}
        old.update({(kernel, name, size): n for (name, size), n in now.items()})
        rows = [f"{k:8} {name:18} {size:8} {n:10}\n" for (k, name, size), n in sorted(old.items())]
        RECORD.write_text(HEADER + "".join(rows))
        lines.append(f"# recorded in {RECORD.name}")
    return lines
