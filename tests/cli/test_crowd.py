# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`beeline bench crowd`: how it launches, what it makes of numbers, and one real run."""

from __future__ import annotations

import argparse
import datetime
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from beeline import mpi as mpis
from beeline.bench import crowd, launch, summary, table, turns
from beeline.errors import BeelineError
from rich.console import Console

CPUS = sorted(os.sched_getaffinity(0))
SHM = launch.Baseline("shm")


def mpi(kind: str) -> mpis.Mpi:
    return mpis.Mpi(kind, "1.0", Path("/x/bin/mpiexec"), Path("/x"))


def launches(mpi: str, path: str, *samples: tuple[str, int, float]) -> list[summary.Launch]:
    """One launch for each number that a test and size has."""
    found: list[summary.Launch] = []
    numbers: dict[tuple[str, int], int] = {}
    for test, size, ns in samples:
        number = numbers.get((test, size), 0)
        numbers[test, size] = number + 1
        if number == len(found):
            found.append(summary.Launch(mpi, path, number, launch.Output()))
        found[number].output.samples[test, size] = ns
    return found


# --- the command line ------------------------------------------------------


def test_ranks_are_even_and_counted_once() -> None:
    assert crowd.parse_ranks("8,4 8") == [4, 8]
    for bad in ("", "3", "0", "-2", "4.0", "many"):
        with pytest.raises(argparse.ArgumentTypeError):
            crowd.parse_ranks(bad)


def test_ranks_are_more_than_processors_unless_said() -> None:
    assert crowd.choose_ranks(None, (0, 1)) == [4, 8]
    assert crowd.choose_ranks(None, (3,)) == [2, 4]
    assert crowd.choose_ranks([2, 6], (0, 1)) == [2, 6]


def test_cpus_are_any_that_may_be_used() -> None:
    assert crowd.choose_cpus(str(CPUS[0])) == (CPUS[0],)
    assert crowd.choose_cpus(",".join(map(str, CPUS))) == tuple(CPUS)
    for bad in ("", "x", "-1", str(CPUS[-1] + 1), f"{CPUS[0]},{CPUS[0]}"):
        with pytest.raises(BeelineError, match="--cpus"):
            crowd.choose_cpus(bad)


# --- launching -------------------------------------------------------------


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beeline installed somewhere, and nothing set by whoever runs the tests."""
    monkeypatch.setattr(launch.paths, "provider_dir", lambda: Path("/p"))
    for name in ("I_MPI_PIN", "I_MPI_PIN_PROCESSOR_LIST"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("kind", mpis.KINDS)
def test_ranks_of_a_crowd_share_the_processors(kind: str, environment: None) -> None:
    argv = launch.mpi_command(mpi(kind), (2, 5), ["crowd", "-n"], ranks=8)
    assert argv[argv.index("-n") :] == ["-n", "8", "taskset", "-c", "2,5", "crowd", "-n"]
    assert ("--oversubscribe" in argv) == ("none" in argv) == (kind == "openmpi")
    environ = launch.mpi_environment(mpi(kind), launch.DEFAULT, (2, 5), ranks=8)
    assert (environ.get("I_MPI_PIN") == "0") == (kind == "impi")
    assert "I_MPI_PIN_PROCESSOR_LIST" not in environ


@pytest.mark.parametrize("kind", mpis.KINDS)
def test_two_ranks_have_a_processor_each(kind: str, environment: None) -> None:
    argv = launch.mpi_command(mpi(kind), (2, 5), ["program"])
    environ = launch.mpi_environment(mpi(kind), launch.DEFAULT, (2, 5))
    assert "--oversubscribe" not in argv
    if kind == "impi":
        assert argv[1:] == ["-n", "2", "program"]
        assert environ["I_MPI_PIN_PROCESSOR_LIST"] == "2,5"
    else:
        pinned = "-n 1 taskset -c 2 program : -n 1 taskset -c 5 program"
        assert " ".join(argv).endswith(pinned)


def test_where_ranks_ran_is_looked_at() -> None:
    launch.check_placement(["0 2 1", "1 5 1"], (2, 5), None)
    launch.check_placement(["0 2 2", "1 2 2", "2 5 2", "3 2 2"], (2, 5), 4)
    wrong = [
        (["0 2 1", "1 2 1"], None),  # both on one
        (["0 2 2", "1 5 2"], None),  # not pinned
        (["0 2 1"], None),
        (["0 2 2", "1 5 1"], 2),  # one was pinned after all
        (["0 2 2", "1 3 2"], 2),  # elsewhere
        (["0 2 2", "1 5 2"], 4),  # two of four
    ]
    for placement, ranks in wrong:
        with pytest.raises(launch.LaunchError, match="rank"):
            launch.check_placement(placement, (2, 5), ranks)


def test_paths_take_turns_and_what_failed_is_left() -> None:
    done: list[tuple[str, str, int]] = []

    def run(mpi: mpis.Mpi, path: str, program: Path, number: int) -> launch.Output:
        done.append((mpi.kind, path, number))
        if (mpi.kind, path) == ("impi", launch.BEELINE):
            raise launch.LaunchError("no such luck")
        return launch.Output(samples={("ring", 8): 1.0})

    usable = {kind: (mpi(kind), Path("p")) for kind in ("mpich", "impi")}
    now = datetime.datetime.now(datetime.UTC)
    session = turns.Session(usable, 2, now, 0.0, [], {})
    found = session.take(table.make_console(), run, ", 4 ranks")
    assert done == [
        ("mpich", "default", 0),
        ("mpich", "beeline", 0),
        ("impi", "default", 0),
        ("impi", "beeline", 0),
        ("mpich", "beeline", 1),
        ("mpich", "default", 1),
        ("impi", "default", 1),
    ]
    assert session.failures == {"impi, beeline, 4 ranks": "no such luck"}
    assert len(found) == len(done) - 1


# --- numbers ---------------------------------------------------------------


def two_mpis() -> list[summary.Launch]:
    return [
        *launches("A", "default", ("ring", 8, 900), ("ring", 8, 1000), ("ring", 8, 5000)),
        *launches("A", "beeline", ("ring", 8, 450), ("ring", 8, 400), ("ring", 8, 4000)),
        *launches("B", "default", ("ring", 8, 800), ("ring", 8, 800), ("ring", 8, 100)),
        *launches("B", "beeline", ("ring", 8, 600), ("ring", 8, 700), ("ring", 8, 100)),
    ]


def test_best_is_of_medians_and_may_be_of_two_mpis() -> None:
    (one,) = crowd.best_of(4, two_mpis())
    assert one == crowd.Best(4, "ring", 8, "B", 800, "A", 450)
    assert one.ratio == 450 / 800


def test_best_needs_both_paths_but_not_of_one_mpi() -> None:
    fastest = launches("C", "default", ("ring", 8, 10)) + two_mpis()
    (one,) = crowd.best_of(8, fastest)
    assert (one.theirs, one.default, one.ours) == ("C", 10, "A")
    assert crowd.best_of(8, launches("C", "default", ("ring", 8, 10))) == []


def shown(show: Callable[[Console], None]) -> str:
    console = table.make_console()
    with console.capture() as capture:
        show(console)
    return capture.get()


def test_tables_say_what_was_measured() -> None:
    done = two_mpis() + launches("A", "default", ("barrier", 0, 2e6))
    done += launches("A", "beeline", ("barrier", 0, 1e6))
    rows = {4: summary.compare(done, {"A": "mpich", "B": "impi"})}
    text = shown(lambda console: crowd.tables(console, rows, crowd.best_of(4, done), SHM))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "test shm Beeline ratio" in lines
    assert "over shm" in text and "default" not in text
    first, second = lines.index("A: 4 ranks"), lines.index("B: 4 ranks")
    # round by round: 0.5, 0.4, 0.8
    assert "ring, 8 B 1 us 450 ns 0.50 ±0.10" in lines[first:second]
    assert "barrier 2 ms 1 ms 0.50" in lines[first:second]
    assert not any(line.startswith("barrier 2 ms") for line in lines[second:])
    assert "4 ring, 8 B 800 ns B 450 ns A 0.56" in lines
    for test in crowd.TESTS:
        assert any(line.startswith(f"{test}: ") for line in lines)


def test_json_has_every_measurement() -> None:
    done = {4: two_mpis()}
    rows = {4: summary.compare(done[4], {"A": "mpich", "B": "impi"})}
    text = crowd.as_json((0, 1), 3, done, rows, crowd.best_of(4, done[4]))
    again = json.loads(json.dumps(text))
    assert again["format"] == "beeline-bench-crowd-1"
    assert len(again["launches"]) == 12
    assert {"ranks": 4, "mpi": "A", "path": "default", "round": 2} | {
        "samples": [["ring", 8, 5000]]
    } in again["launches"]
    assert [row["ratio"]["median"] for row in again["summary"]] == [0.5, 0.875]
    assert again["best"][0]["ratio"] == 450 / 800


def test_plot_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = {4: summary.compare(two_mpis(), {"A": "mpich", "B": "impi"}), 8: []}
    png, svg = crowd.save_plot(tmp_path / "new", rows, "A note.", SHM)
    assert png.read_bytes().startswith(b"\x89PNG")
    text = svg.read_text()
    assert "4 ranks" in text and "8 ranks" not in text
    assert "over Beeline and over libfabric's shm" in text


# --- a real one ------------------------------------------------------------


def test_crowd_is_launched(beeline, wheel, tmp_path: Path) -> None:
    """Every rank's data is checked in it."""
    saved = tmp_path / "out" / "crowd.json"
    words = ["bench", "crowd", "--rounds", "1", "--ranks", "4", "--cpus", str(CPUS[0])]
    words += ["--sizes", "1,1k", "--mpi", str(wheel("mpich")), "--json", str(saved)]
    done = beeline(*words, XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    text = json.loads(saved.read_text())
    assert text["failures"] == {} and text["cpus"] == [CPUS[0]]
    measured = {
        path: {
            (test, size)
            for one in text["launches"]
            if one["path"] == path
            for test, size, ns in one["samples"]
            if ns > 0
        }
        for path in launch.PATHS
    }
    wanted = {(test, size) for test in ("pairs", "ring", "alltoall") for size in (1, 1024)}
    wanted |= {("allreduce", 1024), ("barrier", 0)}
    assert measured == {path: wanted for path in launch.PATHS}
