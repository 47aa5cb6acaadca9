# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`beeline bench collectives`: its options, its plot, and one real run."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import pytest
from beeline.bench import collectives, launch, summary

CPUS = sorted(os.sched_getaffinity(0))


def test_options() -> None:
    assert collectives.parse_ranks("4,2 3") == [2, 3, 4]
    assert collectives.parse_tests("barrier,bcast") == ["barrier", "bcast"]
    for bad in ("", "1", "2,x", "-2"):
        with pytest.raises(argparse.ArgumentTypeError):
            collectives.parse_ranks(bad)
    for bad in ("", "bcast,gather"):
        with pytest.raises(argparse.ArgumentTypeError):
            collectives.parse_tests(bad)


def launches(path: str, factor: float) -> list[summary.Launch]:
    samples = {("bcast", size): factor * size for size in (8, 1024, 65536)} | {("barrier", 0): 500}
    return [summary.Launch("A", path, 0, launch.Output(samples=samples))]


def test_plot_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    done = launches(launch.DEFAULT, 2) + launches(launch.BEELINE, 1)
    rows = {2: summary.compare(done, {"A": "mpich"}), 4: []}
    png, svg = collectives.save_plot(tmp_path / "new", rows, "A note.", launch.OWN_DEFAULT)
    assert png.read_bytes().startswith(b"\x89PNG")
    text = svg.read_text()
    assert "bcast, 2 ranks" in text and "barrier, 2 ranks" in text and "4 ranks" not in text


@pytest.mark.parametrize("ranks", [2, 3])
def test_collectives_are_launched(ranks: int, beeline, wheel, tmp_path: Path) -> None:
    """Every rank's data is checked in it, for more ranks than processors and for as many."""
    if ranks == 2 and len(CPUS) < 2:
        pytest.skip("two ranks with a processor each take two")
    saved, cpus = tmp_path / "out" / "collectives.json", CPUS[: 2 if ranks == 2 else 1]
    words = ["bench", "collectives", "--rounds", "1", "--ranks", str(ranks)]
    words += ["--sizes", "1,1k", "--cpus", ",".join(map(str, cpus))]
    words += ["--mpi", str(wheel("mpich")), "--json", str(saved)]
    done = beeline(*words, XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    text = json.loads(saved.read_text())
    assert text["failures"] == {} and text["format"] == "beeline-bench-collectives-1"
    wanted = {(test, 1024) for test in collectives.TESTS if test != "barrier"} | {("barrier", 0)}
    wanted |= {(test, 1) for test in ("bcast", "allgather", "alltoall")}
    for path in launch.PATHS:
        measured = {
            (test, size)
            for one in text["launches"]
            if one["path"] == path
            for test, size, ns in one["samples"]
            if ns > 0
        }
        assert measured == wanted
    assert all(f"{test}: {what}" in done.stdout for test, what in collectives.TESTS.items())
