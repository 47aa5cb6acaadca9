# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The runner of all tests: what it makes of what tests print."""

from __future__ import annotations

import pytest
import run

OUTPUTS = [
    # name, what was printed, exit status, (passed, failed, skipped)
    ("lines of its own", "ok a\nnot ok b: why\nskip c: no reason\n", 1, (1, 1, 1)),
    ("TAP", "1..3\nok 1 - a\nnot ok 2 - b\nok 3 - c # SKIP none here\n", 1, (1, 1, 1)),
    ("TAP without numbers", "ok - a\nok # skip\n", 0, (1, 0, 1)),
    ("skipped by cmocka", "1..2\nok 1 - a\nnot ok 2 # SKIP b\n", 0, (1, 0, 1)),
    ("no lines, good", "chatter\n", 0, (1, 0, 0)),
    ("no lines, bad", "chatter\n", 3, (0, 1, 0)),
    ("no lines, skipped", "needs two nodes\n", 77, (0, 0, 1)),
    ("killed after good lines", "ok a\n", -9, (1, 1, 0)),
    ("stopped for its length", "ok a\n", None, (1, 1, 0)),
    ("words that only begin like a verdict", "okay then\nskipping\n", 0, (1, 0, 0)),
]


@pytest.mark.parametrize(
    ("name", "text", "status", "counts"), OUTPUTS, ids=[case[0] for case in OUTPUTS]
)
def test_counts(name: str, text: str, status: int | None, counts: tuple[int, int, int]) -> None:
    tally = run.read_cases("t", text, text, status)
    assert (tally.passed, len(tally.failures), len(tally.skips)) == counts


def test_reasons_are_kept() -> None:
    tally = run.read_cases("t", "not ok b: wrong sum\nskip c: one node only\n", "", 1)
    assert tally.failures[0][0] == "t: b" and tally.failures[0][1].startswith("wrong sum")
    assert tally.skips == [("t: c", "one node only")]


def test_what_follows_a_failure_is_its_reason() -> None:
    tally = run.read_cases("t", "not ok 1 - a\n# 1 != 2\n# here\nok 2 - b\n# no part\n", "", 1)
    assert tally.failures[0][1].splitlines()[0] == "1 != 2; here"


def test_last_line() -> None:
    tally = run.Tally(3, [("a", "why")], [("b", "why"), ("c", "why")])
    assert tally.line() == "3 passed, 1 failed, 2 skipped"
