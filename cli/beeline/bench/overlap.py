# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`beeline bench overlap`: how much of a transfer is hidden behind a computation, under
every MPI here by its own default and over Beeline, in turn. The program is
bench/overlap.c, whose head says what each number is.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from beeline import mpi as mpis
from beeline.bench import launch, local, summary, turns

KIB, MIB = summary.KIB, summary.MIB
SIZES = [64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB, MIB, 2 * MIB, 4 * MIB, 8 * MIB, 16 * MIB]
AWAY = {
    "receiver": "the receiver computes, having posted before",
    "sender": "the sender computes, the receiver waits",
    "both": "both compute after posting; what the call copies is no loss here",
}


@dataclass(frozen=True)
class Point:
    """One size on one path: medians over the launches, in nanoseconds."""

    mpi: str
    kind: str
    path: str
    size: int
    transfer: float
    call: float  # the second posting call, when both compute
    loss: dict[str, float]  # by who is away

    def share(self, away: str) -> float:
        """Of the transfer, what was hidden: 1 is all of it."""
        return max(0.0, min(1.0, 1 - self.loss[away] / self.transfer))


def points(launches: Sequence[summary.Launch], kinds: dict[str, str]) -> list[Point]:
    found: dict[tuple[str, str, int], dict[str, list[float]]] = {}
    for one in launches:
        for (test, size), ns in one.output.samples.items():
            values = found.setdefault((one.mpi, one.path, size), {})
            values.setdefault(test, []).append(ns)
    result = []
    for (mpi, path, size), values in sorted(found.items()):
        median = {test: statistics.median(ns) for test, ns in values.items()}
        loss = {away: median[away] for away in AWAY}
        result.append(Point(mpi, kinds[mpi], path, size, median["transfer"], median["call"], loss))
    return result


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "overlap",
        help="how much of a transfer a computation hides",
        description="Measures under each MPI found here, by its own default and over Beeline in "
        "turn, how much of a large message's transfer is hidden behind the computation of a "
        "sender, a receiver, or both.",
    )
    turns.add_options(parser)
    parser.add_argument("--sizes", type=local.parse_sizes, metavar="LIST", help="default: 64k..16M")
    parser.add_argument("--cpus", metavar="A,B", help="the two processors (default: two near ones)")
    parser.set_defaults(func=main)


def tables(console: Any, found: list[Point], against: launch.Baseline) -> None:
    from rich import box
    from rich.table import Table

    from beeline.bench import table

    for mpi in dict.fromkeys(p.mpi for p in found):
        view = Table(title=f"{mpi}: share of the transfer that is hidden", box=box.SIMPLE_HEAD)
        for head in ("size", "", "transfer", *AWAY, "call"):
            view.add_column(head, justify="right", no_wrap=True)
        for point in (p for p in found if p.mpi == mpi):
            view.add_row(
                summary.show_size(point.size),
                point.path if point.path == launch.BEELINE else against.name,
                table.show_time(point.transfer),
                *(f"{100 * point.share(away):.0f} %" for away in AWAY),
                table.show_time(point.call),
            )
        console.print(view)
    for away, what in AWAY.items():
        console.print(f"{away}: {what}", markup=False)
    console.print("call: the second posting call, when both compute")


def save_plot(folder: Path, found: list[Point], note: str, against: launch.Baseline) -> list[Path]:
    from beeline.bench import plot

    folder.mkdir(parents=True, exist_ok=True)
    return plot.overlap(found, AWAY, note, folder, against)


def main(args: argparse.Namespace) -> int:
    cpus, sizes = local.choose_cpus(args.cpus), args.sizes or SIZES
    session = turns.begin(args, "overlap")
    from beeline.bench import table

    console = table.make_console()

    def run(mpi: mpis.Mpi, path: str, program: Path, number: int) -> launch.Output:
        options = ["-s", ",".join(map(str, sizes))] + ["-n"] * (number > 0)
        return launch.run_mpi(mpi, path, cpus, program, options, against=session.against)

    found = points(session.take(console, run), session.kinds)
    tables(console, found, session.against)
    for remark in session.remarks:
        console.print(remark, markup=False)
    text = {
        "format": "beeline-bench-overlap-1",
        "cpus": cpus,
        "points": [asdict(p) | {"share": {away: p.share(away) for away in AWAY}} for p in found],
    }
    status = session.finish(console, args.json, text)
    if args.plot and found:
        cpu = session.description["cpu"]
        note = f"Two ranks on cpus {cpus[0]} and {cpus[1]}, {cpu}."
        footer = summary.footer(note, session.remarks)
        files = save_plot(args.plot, found, footer, session.against)
        turns.say_saved(console, files)
    return status
