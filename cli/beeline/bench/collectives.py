# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`beeline bench collectives`: collective operations of few ranks, under every MPI here by its
own default and over Beeline, in turn. The program is bench/collectives.c, whose head says what
each number is. Where there are as many processors each rank has one; else all share two.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from beeline import mpi as mpis
from beeline.bench import crowd, launch, local, summary, turns

TESTS = {
    "barrier": "MPI_Barrier",
    "bcast": "MPI_Bcast, another root each time",
    "reduce": "MPI_Reduce, the sum of MPI_INTs, another root each time",
    "allreduce": "MPI_Allreduce, the sum of MPI_INTs",
    "allgather": "MPI_Allgather, the size from each",
    "alltoall": "MPI_Alltoall, the size from each to each",
}
RANKS = [2, 4]


def parse_tests(text: str) -> list[str]:
    tests = text.replace(",", " ").split()
    for test in tests:
        if test not in TESTS:
            known = ", ".join(TESTS)
            raise argparse.ArgumentTypeError(f"no test is called {test!r}; there are {known}")
    if not tests:
        raise argparse.ArgumentTypeError("no test given")
    return tests


def parse_ranks(text: str) -> list[int]:
    parts = text.replace(",", " ").split()
    if not parts or not all(part.isdecimal() and int(part) > 1 for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r}: numbers of ranks from 2 on; example: 2,4")
    return sorted({int(part) for part in parts})


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "collectives",
        help="collective operations of 2 and 4 ranks",
        description="Measures under each MPI found here, by its own default and over Beeline in "
        "turn, barrier, broadcast, reductions and exchanges of a few ranks.",
    )
    turns.add_options(parser)
    parser.add_argument(
        "--ranks", type=parse_ranks, metavar="LIST", default=RANKS, help="default: 2,4"
    )
    parser.add_argument(
        "--sizes",
        type=local.parse_sizes,
        metavar="LIST",
        help="of every test but the barrier (default: 8 to 1M)",
    )
    parser.add_argument(
        "--tests",
        type=parse_tests,
        metavar="LIST",
        default=list(TESTS),
        help="of " + ", ".join(TESTS),
    )
    parser.add_argument(
        "--cpus", metavar="LIST", help="the processors for the ranks (default: two near ones)"
    )
    parser.set_defaults(func=main)


def save_plot(
    folder: Path,
    rows: Mapping[int, Sequence[summary.Row]],
    note: str,
    against: launch.Baseline,
) -> list[Path]:
    from beeline.bench import collectives_plot

    folder.mkdir(parents=True, exist_ok=True)
    return collectives_plot.save(rows, note, folder, against)


def main(args: argparse.Namespace) -> int:
    cpus = crowd.choose_cpus(args.cpus)
    session = turns.begin(args, "collectives")
    from beeline.bench import table

    console = table.make_console()
    options = ["-t", ",".join(args.tests)]
    options += ["-s", ",".join(map(str, args.sizes))] if args.sizes else []
    launches: dict[int, list[summary.Launch]] = {}
    for ranks in args.ranks:
        own = ranks <= len(cpus)  # a processor each

        def run(
            mpi: mpis.Mpi,
            path: str,
            program: Path,
            number: int,
            ranks: int = ranks,
            own: bool = own,
        ) -> launch.Output:
            words = options + ["-n"] * (number > 0)  # data is checked once
            return launch.run_mpi(
                mpi,
                path,
                cpus[:ranks] if own else cpus,
                program,
                words,
                None if own else ranks,
                session.against,
            )

        launches[ranks] = session.take(console, run, f", {ranks} ranks")
    rows = {ranks: summary.compare(done, session.kinds) for ranks, done in launches.items()}
    best = [one for ranks, done in launches.items() for one in crowd.best_of(ranks, done)]
    crowd.tables(console, rows, best, session.against, {t: TESTS[t] for t in args.tests})
    for remark in session.remarks:
        console.print(remark, markup=False)
    text: dict[str, Any] = crowd.as_json(cpus, session.rounds, launches, rows, best)
    text["format"] = "beeline-bench-collectives-1"
    status = session.finish(console, args.json, text)
    if args.plot and any(rows.values()):
        where = ", ".join(map(str, cpus))
        note = f"On the cpus {where}, {session.description['cpu']}."
        footer = summary.footer(note, session.remarks)
        turns.say_saved(console, save_plot(args.plot, rows, footer, session.against))
    return status
