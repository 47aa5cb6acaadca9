# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`beeline bench overlap`: how much of a transfer is hidden behind a computation, under
every MPI here by its own default and over Beeline, in turn. The program is
bench/overlap.c, whose head says what each number is.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from beeline import __version__, needs, paths
from beeline import mpi as mpis
from beeline.bench import launch, local, machine, summary
from beeline.errors import EXIT_USAGE, BeelineError, warn

KIB, MIB = summary.KIB, summary.MIB
SIZES = [64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB, MIB, 2 * MIB, 4 * MIB, 8 * MIB, 16 * MIB]
AWAY = {
    "receiver": "the receiver computes, having posted before",
    "sender": "the sender computes, the receiver waits",
    "both": "both compute after posting",
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
    parser.add_argument(
        "--mpi",
        action="append",
        metavar="MPI",
        help="only these: mpich, openmpi, impi or the path of an mpiexec; may be repeated",
    )
    parser.add_argument("--sizes", type=local.parse_sizes, metavar="LIST", help="default: 64k..16M")
    parser.add_argument("--rounds", type=int, metavar="N", default=3, help="launches of each kind")
    parser.add_argument("--cpus", metavar="A,B", help="the two processors (default: two near ones)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every measurement here")
    parser.add_argument("--plot", type=Path, metavar="DIR", help="write a plot (PNG, SVG) here")
    parser.set_defaults(func=main)


def programs_for(wanted: list[str]) -> dict[str, tuple[mpis.Mpi, Path]]:
    chosen = mpis.choose(wanted)
    everything, usable = chosen + mpis.find_all(), {}
    for mpi in chosen:
        try:
            program = launch.compile_program(launch.compiler_for(mpi, everything), "overlap")
            usable[mpi.title] = (mpi, program)
        except BeelineError as error:
            if wanted:
                raise
            warn(f"{mpi.title} is left out: {error}")
    return usable


def tables(console: Any, found: list[Point]) -> None:
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
                point.path,
                table.show_time(point.transfer),
                *(f"{100 * point.share(away):.0f} %" for away in AWAY),
                table.show_time(point.call),
            )
        console.print(view)
    for away, what in AWAY.items():
        console.print(f"{away}: {what}", markup=False)
    console.print("call: the second posting call, when both compute")


def save_plot(folder: Path, found: list[Point], note: str) -> list[Path]:
    from beeline.bench import plot

    folder.mkdir(parents=True, exist_ok=True)
    return plot.overlap(found, AWAY, note, folder)


def main(args: argparse.Namespace) -> int:
    needs.tables()
    needs.plots(args.plot)
    from beeline.bench import table

    if args.rounds < 1:
        raise BeelineError("--rounds: at least 1", EXIT_USAGE)
    wanted = [word for text in args.mpi or [] for word in text.replace(",", " ").split()]
    paths.provider_dir()  # nothing to compare without it: say so now
    usable, cpus = programs_for(wanted), local.choose_cpus(args.cpus)
    console, sizes = table.make_console(), args.sizes or SIZES
    started, load = datetime.datetime.now(datetime.UTC), machine.load()
    remarks = machine.disturbed(load)
    for remark in remarks:
        warn(remark)
    launches: list[summary.Launch] = []
    failures: dict[str, str] = {}
    for number in range(args.rounds):
        for title, (mpi, program) in usable.items():
            for path in launch.PATHS if number % 2 == 0 else launch.PATHS[::-1]:
                what = f"{title}, {path}"
                if what in failures:
                    continue
                options = ["-s", ",".join(map(str, sizes))] + ["-n"] * (number > 0)
                try:
                    output = launch.run_mpi(mpi, path, cpus, program, options)
                except launch.LaunchError as error:
                    failures[what] = str(error)
                else:
                    launches.append(summary.Launch(title, path, number, output))
    found = points(launches, {title: mpi.kind for title, (mpi, _) in usable.items()})
    tables(console, found)
    for remark in remarks:
        console.print(remark, markup=False)
    description, files = machine.describe(), []
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        text = {
            "format": "beeline-bench-overlap-1",
            "unit": "ns",
            "beeline": __version__,
            "started": started.isoformat(timespec="seconds"),
            "load_before": load,
            "machine": description,
            "cpus": cpus,
            "points": [
                asdict(p) | {"share": {away: p.share(away) for away in AWAY}} for p in found
            ],
            "failures": failures,
        }
        args.json.write_text(json.dumps(text, indent=1) + "\n")
        files.append(args.json)
    if args.plot and found:
        note = f"Two ranks on cpus {cpus[0]} and {cpus[1]}, {description['cpu']}."
        files += save_plot(args.plot, found, summary.footer(note, remarks))
    for what, why in failures.items():
        console.print(f"[red]FAILED[/red] {what}: ", end="")
        console.print(why, markup=False)
    for file in files:
        console.print(f"saved {file}", soft_wrap=True)
    return 1 if failures else 0
