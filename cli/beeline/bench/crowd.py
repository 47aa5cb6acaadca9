# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`beeline bench crowd`: more ranks than processors, under every MPI here by its own
default and over Beeline, in turn. The program is bench/crowd.c, whose head says what
each number is. No rank is pinned to one processor: all share the same few.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from beeline import mpi as mpis
from beeline.bench import launch, local, machine, summary, turns
from beeline.errors import EXIT_USAGE, BeelineError

TESTS = {
    "pairs": "half the time of a ping and its pong, all pairs of neighbours at once",
    "ring": "MPI_Sendrecv to the right, from the left",
    "allreduce": "MPI_Allreduce, the sum of MPI_INTs",
    "alltoall": "MPI_Alltoall, the size from each to each",
    "barrier": "MPI_Barrier",
}
TIMES = (2, 4)  # ranks for each processor unless --ranks says: even, as the program needs it


@dataclass(frozen=True)
class Best:
    """One test and size with this many ranks: who is fastest, in nanoseconds."""

    ranks: int
    test: str
    size: int
    theirs: str  # the MPI whose default is the fastest of all
    default: float
    ours: str  # the MPI that is the fastest over Beeline
    beeline: float

    @property
    def ratio(self) -> float:
        return self.beeline / self.default


def label(test: str, size: int) -> str:
    return test if test == "barrier" else f"{test}, {summary.show_size(size)}"


def best_of(ranks: int, launches: Sequence[summary.Launch]) -> list[Best]:
    """By medians over the rounds, each MPI's own; those that failed on one path take
    part with the other."""
    values: dict[tuple[str, int], dict[tuple[str, str], list[float]]] = {}
    for one in launches:
        for key, ns in one.output.samples.items():
            values.setdefault(key, {}).setdefault((one.path, one.mpi), []).append(ns)
    found = []
    for (test, size), cell in values.items():
        fastest = {}
        for path in launch.PATHS:
            medians = [
                (statistics.median(ns), mpi) for (way, mpi), ns in cell.items() if way == path
            ]
            if medians:
                fastest[path] = min(medians)
        if len(fastest) == len(launch.PATHS):
            default, theirs = fastest[launch.DEFAULT]
            beeline, ours = fastest[launch.BEELINE]
            found.append(Best(ranks, test, size, theirs, default, ours, beeline))
    return found


def parse_ranks(text: str) -> list[int]:
    counts = set()
    for part in text.replace(",", " ").split():
        if not part.isdigit() or int(part) < 2 or int(part) % 2:
            raise argparse.ArgumentTypeError(f"{part!r}: an even number of ranks; example: 4,8")
        counts.add(int(part))
    if not counts:
        raise argparse.ArgumentTypeError("no number of ranks given")
    return sorted(counts)


def choose_cpus(text: str | None) -> tuple[int, ...]:
    if text is None:
        return machine.near_pair(os.sched_getaffinity(0))
    allowed, parts = os.sched_getaffinity(0), text.split(",")
    if not all(p.isdigit() and int(p) in allowed for p in parts) or len(set(parts)) < len(parts):
        usable = ",".join(map(str, sorted(allowed)))
        raise BeelineError(f"--cpus {text}: give some of these, as A,B,...: {usable}", EXIT_USAGE)
    return tuple(int(p) for p in parts)


def choose_ranks(wanted: list[int] | None, cpus: Sequence[int]) -> list[int]:
    return wanted or [times * len(cpus) for times in TIMES]


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "crowd",
        help="more ranks than processors",
        description="Measures under each MPI found here, by its own default and over Beeline in "
        "turn, messages and collective operations of more ranks than there are processors for "
        "them: a rank that waits has to make room for the one it waits for.",
    )
    turns.add_options(parser)
    parser.add_argument(
        "--ranks",
        type=parse_ranks,
        metavar="LIST",
        help="how many, each an even number (default: twice and four times the processors)",
    )
    parser.add_argument(
        "--sizes",
        type=local.parse_sizes,
        metavar="LIST",
        help="of every test but the barrier (default: 8,1k,32k, of the collective ones 8,1k)",
    )
    parser.add_argument(
        "--cpus",
        metavar="LIST",
        help="the processors that all ranks share (default: two near ones)",
    )
    parser.set_defaults(func=main)


def mpi_table(ranks: int, rows: Sequence[summary.Row], against: launch.Baseline) -> Any:
    """All rows are of one MPI."""
    from rich import box
    from rich.table import Table

    from beeline.bench import table

    several = any(r.ratio.launches > 1 for r in rows)
    view = Table(
        title=f"{rows[0].mpi}: {ranks} ranks",
        caption=f"ratio: time over Beeline / {against.way}, less is better"
        + ("; ± half the quartiles' gap" if several else ""),
        box=box.SIMPLE_HEAD,
        title_justify="left",
        caption_justify="left",
        pad_edge=False,
    )
    view.add_column("test", no_wrap=True)
    for head in (against.name, "Beeline", "ratio"):
        view.add_column(head, justify="right", no_wrap=True)
    for row in rows:
        view.add_row(
            label(row.test, row.size),
            table.show_time(row.default.median),
            table.show_time(row.beeline.median),
            table.show_ratio(row.ratio, False),
        )
    return view


def best_table(found: Sequence[Best], against: launch.Baseline) -> Any:
    from rich import box
    from rich.table import Table

    from beeline.bench import table

    view = Table(
        title="The fastest MPI over Beeline against the fastest " + against.way,
        caption="ratio: best of ours / best of theirs, less is better",
        box=box.SIMPLE_HEAD,
        title_justify="left",
        caption_justify="left",
        pad_edge=False,
    )
    view.add_column("ranks", justify="right", no_wrap=True)
    view.add_column("test", no_wrap=True)
    for head in (f"best {against.way}", "best over Beeline"):
        view.add_column(head, justify="right", no_wrap=True)
        view.add_column("", no_wrap=True)
    view.add_column("ratio", justify="right", no_wrap=True)
    for one in found:
        view.add_row(
            str(one.ranks),
            label(one.test, one.size),
            table.show_time(one.default),
            one.theirs,
            table.show_time(one.beeline),
            one.ours,
            table.show_ratio(summary.Spread.of([one.ratio]), False),
        )
    return view


def tables(
    console: Any,
    rows: Mapping[int, Sequence[summary.Row]],
    best: Sequence[Best],
    against: launch.Baseline,
    tests: Mapping[str, str] = TESTS,
) -> None:
    for ranks, of_ranks in rows.items():
        for mpi in dict.fromkeys(row.mpi for row in of_ranks):
            mine = [row for row in of_ranks if row.mpi == mpi]
            console.print(mpi_table(ranks, mine, against))
    if best:
        console.print(best_table(best, against))
    for test, what in tests.items():
        console.print(f"{test}: {what}", markup=False)


def save_plot(
    folder: Path,
    rows: Mapping[int, Sequence[summary.Row]],
    note: str,
    against: launch.Baseline,
) -> list[Path]:
    from beeline.bench import crowd_plot

    folder.mkdir(parents=True, exist_ok=True)
    return crowd_plot.save(rows, note, folder, against)


def as_json(
    cpus: Sequence[int],
    rounds: int,
    launches: Mapping[int, Sequence[summary.Launch]],
    rows: Mapping[int, Sequence[summary.Row]],
    best: Sequence[Best],
) -> dict[str, Any]:
    return {
        "format": "beeline-bench-crowd-1",
        "cpus": list(cpus),
        "rounds": rounds,
        "launches": [
            {
                "ranks": ranks,
                "mpi": one.mpi,
                "path": one.path,
                "round": one.round,
                "samples": [[test, size, ns] for (test, size), ns in one.output.samples.items()],
            }
            for ranks, of_ranks in launches.items()
            for one in of_ranks
        ],
        "summary": [
            {"ranks": ranks} | row.as_json() for ranks, of_ranks in rows.items() for row in of_ranks
        ],
        "best": [asdict(one) | {"ratio": one.ratio} for one in best],
    }


def main(args: argparse.Namespace) -> int:
    cpus = choose_cpus(args.cpus)
    session = turns.begin(args, "crowd")
    from beeline.bench import table

    console = table.make_console()
    sizes = ["-s", ",".join(map(str, args.sizes))] if args.sizes else []
    launches: dict[int, list[summary.Launch]] = {}
    for ranks in choose_ranks(args.ranks, cpus):

        def run(
            mpi: mpis.Mpi, path: str, program: Path, number: int, ranks: int = ranks
        ) -> launch.Output:
            options = sizes + ["-n"] * (number > 0)  # data is checked once
            against = session.against
            return launch.run_mpi(mpi, path, cpus, program, options, ranks, against)

        launches[ranks] = session.take(console, run, f", {ranks} ranks")
    rows = {ranks: summary.compare(done, session.kinds) for ranks, done in launches.items()}
    best = [one for ranks, done in launches.items() for one in best_of(ranks, done)]
    tables(console, rows, best, session.against)
    for remark in session.remarks:
        console.print(remark, markup=False)
    text = as_json(cpus, session.rounds, launches, rows, best)
    status = session.finish(console, args.json, text)
    if args.plot and any(rows.values()):
        where = ", ".join(map(str, cpus))
        note = f"All ranks on the cpus {where}, {session.description['cpu']}."
        footer = summary.footer(note, session.remarks)
        files = save_plot(args.plot, rows, footer, session.against)
        turns.say_saved(console, files)
    return status
