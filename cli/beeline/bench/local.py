# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`beeline bench local`: every MPI here, by its own default and over Beeline, side by
side on two near processors, and the machine's limits in the same run.

One launch of mpi_bench measures all sizes; the launches of one round go once
through all MPIs, default and Beeline in turn, and each round turns the order
around. So whatever else the machine does meets both alike; where its processors move,
what was measured at the same distance is compared (summary.py).
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beeline import __version__, needs, paths
from beeline import mpi as mpis
from beeline.bench import launch, machine, summary
from beeline.errors import EXIT_USAGE, BeelineError, warn

if TYPE_CHECKING:
    from rich.console import Console

KIB, MIB = summary.KIB, summary.MIB
QUICK_SIZES = [0, 8, 64, 256, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB]
FULL_SIZES = [0] + [1 << i for i in range(3, 27)]
LIMIT_SIZES = [4 * KIB, 64 * KIB, MIB, 16 * MIB]
BARE_SIZES = [0, 8, 64, KIB, 4 * KIB, 64 * KIB, MIB, 16 * MIB]


@dataclass
class Job:
    """One launch to be done: what to say meanwhile, and what to do."""

    what: str
    action: Callable[[], None]


@dataclass
class Session:
    """Everything one run of the benchmark is told and finds out."""

    chosen: list[mpis.Mpi]
    programs: dict[str, Path]  # mpi_bench of each MPI, by title
    cpus: tuple[int, int]
    sizes: list[int]
    tests: list[str]
    rounds: int  # to be done; when all is measured, those that were
    milliseconds: float
    seconds: float
    used: bool  # messages are written before they are sent, and read when they have come
    multiple: bool  # MPI is asked for MPI_THREAD_MULTIPLE
    against: launch.Baseline = launch.OWN_DEFAULT
    launches: list[summary.Launch] = field(default_factory=list)
    limits: list[launch.Output] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    stopped: str = ""  # why there are fewer rounds than were to be

    def mpi_job(self, mpi: mpis.Mpi, path: str, number: int) -> Job:
        args = ["-t", ",".join(self.tests), "-s", ",".join(map(str, self.sizes))]
        args += ["-m", str(self.milliseconds)] + ["-n"] * (number > 0)  # data checked once
        args += ["-u"] * self.used + ["-M"] * self.multiple
        over = "over Beeline" if path == launch.BEELINE else self.against.way
        what = f"{mpi.title} {over}"

        def action() -> None:
            if what in self.failures:
                return
            try:
                program = self.programs[mpi.title]
                output = launch.run_mpi(mpi, path, self.cpus, program, args, against=self.against)
            except launch.LaunchError as error:
                self.failures[what] = str(error)
            else:
                self.launches.append(summary.Launch(mpi.title, path, number, output))

        return Job(what, action)

    def limit_job(self, what: str, run: Callable[[], launch.Output]) -> Job:
        def action() -> None:
            if what in self.failures:
                return
            try:
                self.limits.append(run())
            except launch.LaunchError as error:
                self.failures[what] = str(error)

        return Job(what, action)

    def jobs(self) -> Iterator[tuple[int, Job]]:
        limit_args = ["-s", ",".join(map(str, LIMIT_SIZES)), "-m", str(self.milliseconds)]
        bare_args = ["-s", ",".join(map(str, BARE_SIZES)), "-m", str(self.milliseconds)]
        for number in range(self.rounds):
            turn = [
                self.limit_job(
                    "the machine's limits",
                    lambda: launch.run_alone("limits", self.cpus, limit_args),
                ),
                self.limit_job(
                    "the library alone",
                    lambda: launch.run_alone("library", self.cpus, bare_args),
                ),
            ]
            for threading in ("domain", "safe"):
                turn.append(
                    self.limit_job(
                        f"libfabric alone (thread {threading})",
                        lambda t=threading: launch.run_bare(self.cpus, t, bare_args),
                    )
                )
            ways = launch.PATHS if number % 2 == 0 else launch.PATHS[::-1]
            turn += [self.mpi_job(mpi, path, number) for mpi in self.chosen for path in ways]
            for job in turn if number % 2 == 0 else turn[::-1]:
                yield number, job

    def job_count(self) -> int:
        return self.rounds * (4 + 2 * len(self.chosen))


def parse_sizes(text: str) -> list[int]:
    """ "0,8,4k,1M", or 4KiB and 1MiB as the tables say: what --sizes takes."""
    units = {"": 1, "k": KIB, "m": MIB, "g": MIB * KIB}
    sizes = set()
    for part in text.replace(",", " ").split():
        found = re.fullmatch(r"([0-9]+)(?:([kmg])(?:ib)?)?", part, re.IGNORECASE | re.ASCII)
        digits, unit = (found[1], units[(found[2] or "").lower()]) if found else ("", 1)
        if not digits or not int(digits) * unit < 1 << 31:
            raise argparse.ArgumentTypeError(f"{part!r} is no size; examples: 0, 8, 64k, 4M")
        sizes.add(int(digits) * unit)
    if not sizes:
        raise argparse.ArgumentTypeError("no size given")
    return sorted(sizes)


def parse_tests(text: str) -> list[str]:
    tests = text.replace(",", " ").split()
    for test in tests:
        if test not in summary.TESTS:
            known = ", ".join(summary.TESTS)
            raise argparse.ArgumentTypeError(f"no test is called {test!r}; there are {known}")
    return tests


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "local",
        help="two ranks on this machine",
        description="Measures two ranks on two near processors under each MPI found here, by its "
        "own default and over Beeline in turn, and what the machine allows without MPI.",
    )
    parser.add_argument(
        "--mpi",
        action="append",
        metavar="MPI",
        help="only these: mpich, openmpi, impi or the path of an mpiexec; may be repeated; none: "
        "the library and the machine alone",
    )
    parser.add_argument(
        "--sizes",
        type=parse_sizes,
        metavar="LIST",
        help="under the MPIs, for example 0,8,64k,4M (without MPI always the same few)",
    )
    parser.add_argument(
        "--tests",
        type=parse_tests,
        metavar="LIST",
        default=list(summary.TESTS),
        help="under the MPIs, of " + ", ".join(summary.TESTS),
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="launches of each kind")
    parser.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        help="begin no new round after measuring this long (default: 900, with --quick 75)",
    )
    parser.add_argument("--cpus", metavar="A,B", help="the two processors (default: two near ones)")
    parser.add_argument(
        "--quick", action="store_true", help="fewer sizes and rounds, and no goals: a minute or two"
    )
    parser.add_argument(
        "--used",
        action="store_true",
        help="write to each message before it is sent and read it when it has come, as a program "
        "does that computes with it (no goals)",
    )
    parser.add_argument(
        "--thread-multiple",
        action="store_true",
        help="ask for MPI_THREAD_MULTIPLE, as mpi4py does, which has MPI libraries lock in each "
        "call (no goals)",
    )
    launch.add_baseline(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every measurement here")
    parser.add_argument("--plot", type=Path, metavar="DIR", help="write plots (PNG, SVG) here")
    parser.set_defaults(func=main)


def choose_cpus(text: str | None) -> tuple[int, int]:
    allowed = os.sched_getaffinity(0)
    if text is None:
        return machine.near_pair(allowed)
    parts = text.split(",")
    usable = ",".join(map(str, sorted(allowed)))
    if len(parts) != 2 or not all(p.isdigit() and int(p) in allowed for p in parts):
        raise BeelineError(f"--cpus {text}: give two of these, as A,B: {usable}", EXIT_USAGE)
    if int(parts[0]) == int(parts[1]):
        raise BeelineError(
            f"--cpus {text}: two different ones of these, for either rank polls: {usable}",
            EXIT_USAGE,
        )
    return int(parts[0]), int(parts[1])


def choose_mpis(wanted: list[str]) -> list[mpis.Mpi]:
    """Those wanted, or all; without any the library and the machine are measured alone."""
    if wanted == ["none"]:
        return []
    try:
        return mpis.choose(wanted)
    except BeelineError as error:
        if wanted:
            raise
        warn(f"the library alone is measured: {error}")
        return []


def prepare(args: argparse.Namespace) -> Session:
    wanted = [word for text in args.mpi or [] for word in text.replace(",", " ").split()]
    chosen = choose_mpis(wanted)
    paths.provider_dir()  # nothing to compare without it: say so now
    if args.rounds is not None and args.rounds < 1:
        raise BeelineError("--rounds: at least 1", EXIT_USAGE)
    if args.seconds is not None and not args.seconds > 0:
        raise BeelineError("--seconds: more than 0", EXIT_USAGE)
    programs: dict[str, Path] = {}
    usable = []
    everything = chosen + mpis.find_all()
    for mpi in chosen:
        try:
            programs[mpi.title] = launch.compile_program(launch.compiler_for(mpi, everything))
            usable.append(mpi)
        except BeelineError as error:
            if wanted:
                raise
            warn(f"{mpi.title} is left out: {error}")
    return Session(
        chosen=usable,
        programs=programs,
        cpus=choose_cpus(args.cpus),
        sizes=args.sizes or (QUICK_SIZES if args.quick else FULL_SIZES),
        tests=args.tests,
        rounds=args.rounds or (5 if args.quick else 9),
        milliseconds=10 if args.quick else 20,
        seconds=args.seconds or (75 if args.quick else 900),
        used=args.used,
        multiple=args.thread_multiple,
        against=args.against,
    )


@contextmanager
def progress(console: Console, total: int) -> Iterator[Callable[[str], None]]:
    """Calls to the result say what is next; a bar on a terminal, lines elsewhere."""
    if not console.is_terminal:
        said: set[str] = set()

        def line(what: str) -> None:
            head = what.partition(":")[0]
            if head not in said:
                said.add(head)
                console.print(head)

        yield line
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    # Drawn between the launches only: a thread that draws would take a core from them.
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as bar:
        task = bar.add_task("", total=total)
        first = True

        def step(what: str) -> None:
            nonlocal first
            bar.update(task, description=what, advance=0 if first else 1, refresh=True)
            first = False

        yield step


def measure(session: Session, console: Console) -> None:
    """All rounds; or as many whole ones as begin within the time, where others use
    the machine or its MPIs are slow to start."""
    started, latest = time.monotonic(), -1
    with progress(console, session.job_count()) as say:
        for number, job in session.jobs():
            if number > latest and number > 0 and time.monotonic() - started > session.seconds:
                session.stopped = (
                    f"stopped after {number} of {session.rounds} rounds: time is up "
                    f"({session.seconds:g} s; --seconds gives more)"
                )
                session.rounds = number
                break
            latest = number
            say(f"round {number + 1} of {session.rounds}: {job.what}")
            job.action()


def note(description: dict[str, Any], session: Session) -> str:
    virtual = ", virtual machine" if description["virtual"] else ""
    return (
        f"Two ranks on cpus {session.cpus[0]} and {session.cpus[1]}, "
        f"{description['cpu']}{virtual}, {description['system']}, Linux {description['kernel']}. "
        + (
            f"Medians of {session.rounds} interleaved launches; bands are quartiles."
            if session.rounds > 1
            else "One launch of each: no medians, no quartiles."
        )
        + (" Messages are written and read." if session.used else "")
        + (" MPI_THREAD_MULTIPLE." if session.multiple else "")
    )


def as_json(
    session: Session,
    description: dict[str, Any],
    started: datetime.datetime,
    load: float,
    rows: list[summary.Row],
    limit_rows: list[summary.LimitRow],
    verdicts: list[summary.Verdict],
) -> dict[str, Any]:
    def samples(output: launch.Output) -> list[list[Any]]:
        return [[*key, ns, output.apart.get(key, 0.0)] for key, ns in output.samples.items()]

    return {
        "format": "beeline-bench-local-2",
        "unit": "ns per message; sample lists are [test, size, ns, ns between the processors]",
        "beeline": __version__,
        "started": started.isoformat(timespec="seconds"),
        "load_before": load,
        "machine": description,
        "options": {
            "cpus": session.cpus,
            "sizes": session.sizes,
            "tests": session.tests,
            "rounds": session.rounds,
            "stopped": session.stopped or None,
            "milliseconds": session.milliseconds,
            "used": session.used,
            "multiple": session.multiple,
            "against": session.against.name,
        },
        "mpis": [
            {"title": m.title, "kind": m.kind, "version": m.version, "mpiexec": str(m.mpiexec)}
            for m in session.chosen
        ],
        "launches": [
            {
                "mpi": one.mpi,
                "path": one.path,
                "round": one.round,
                "library": one.output.library,
                "providers": one.output.providers,
                "samples": samples(one.output),
            }
            for one in session.launches
        ],
        "limits": [samples(output) for output in session.limits],
        "summary": [row.as_json() for row in rows],
        "limits_summary": [asdict(row) for row in limit_rows],
        "goals": [asdict(verdict) for verdict in verdicts],
        "failures": session.failures,
    }


def save_plots(
    folder: Path,
    rows: list[summary.Row],
    limit_rows: list[summary.LimitRow],
    text: str,
    against: launch.Baseline,
) -> list[Path]:
    from beeline.bench import plot

    folder.mkdir(parents=True, exist_ok=True)
    return plot.latency(rows, limit_rows, text, folder, against) + plot.throughput(
        rows, text, folder, against
    )


def report(
    console: Console,
    session: Session,
    rows: list[summary.Row],
    limit_rows: list[summary.LimitRow],
    verdicts: list[summary.Verdict],
) -> None:
    """verdicts: [] leaves the goals out."""
    from beeline.bench import table

    for test in session.tests:
        for one in table.test_tables(rows, test, console.width, session.against):
            console.print(one)
    for one in (table.limits_table(limit_rows), table.goals_table(verdicts)):
        if one:
            console.print(one)


def headlines(rows: list[summary.Row], against: launch.Baseline) -> list[str]:
    """For whoever reads only one line: a short and a long message under each MPI."""
    from beeline.bench.table import show_time

    lines, instead = [], f" {against.way}" if against.provider else ""
    for mpi in dict.fromkeys(row.mpi for row in rows):
        mine = {r.size: r for r in rows if r.mpi == mpi and r.test == "latency"}
        parts = [
            f"{summary.show_size(size)} in {show_time(mine[size].beeline.median)} "
            f"instead of {show_time(mine[size].default.median)}{instead}"
            for size in (8, 4 * MIB)
            if size in mine
        ]
        if parts:
            lines.append(f"{mpi} over Beeline: " + ", ".join(parts))
    return lines


def main(args: argparse.Namespace) -> int:
    needs.tables()
    needs.plots(args.plot)
    from beeline.bench import table

    console = table.make_console()
    session = prepare(args)
    needs.outputs(args.json, args.plot)
    description = machine.describe()
    started, load = datetime.datetime.now(datetime.UTC), machine.load()
    titles = ", ".join(m.title for m in session.chosen) or "Without MPI"
    console.print(
        f"{titles}: two ranks on cpus {session.cpus[0]} and {session.cpus[1]} "
        f"of {description['cpu']}"
        + (", messages written and read" if session.used else "")
        + (", MPI_THREAD_MULTIPLE" if session.multiple else "")
        + (f", against {session.against.whose}" if session.against.provider else "")
    )
    remarks = machine.disturbed(load)
    for remark in remarks:
        warn(remark)
    measure(session, console)
    remarks += [session.stopped] if session.stopped else []
    outputs = [one.output for one in session.launches] + session.limits
    distances = summary.Distances.among(outputs)
    remarks += [distances.remark()] if distances else []
    kinds = {m.title: m.kind for m in session.chosen}
    rows = summary.compare(session.launches, kinds, distances)
    limit_rows = summary.limits(session.limits, distances)
    as_goals_say = not (session.used or session.multiple or session.against.provider)
    verdicts = summary.judge(rows, limit_rows) if rows and as_goals_say else []
    report(console, session, rows, limit_rows, [] if args.quick else verdicts)
    for line in (*headlines(rows, session.against), *remarks):
        console.print(line, markup=False)
    files: list[Path] = []
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(
            as_json(session, description, started, load, rows, limit_rows, verdicts), indent=1
        )
        args.json.write_text(text + "\n")
        files.append(args.json)
    if args.plot and rows:
        text = summary.footer(note(description, session), remarks)
        files += save_plots(args.plot, rows, limit_rows, text, session.against)
    elif args.plot:
        warn("no plot: it compares MPIs, and none was measured")
    for what, why in session.failures.items():
        console.print(f"[red]FAILED[/red] {what}: ", end="")
        console.print(why, markup=False)
    for file in files:
        console.print(f"saved {file}", soft_wrap=True)
    return 1 if session.failures else 0
