# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What the measurements share that run one program under every MPI here, by its own
default and over Beeline: their options, the launches in turn, and what is said and
saved of them. What is launched and what the numbers mean is each one's own."""

from __future__ import annotations

import argparse
import datetime
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beeline import __version__, needs, paths
from beeline import mpi as mpis
from beeline.bench import launch, local, machine, summary
from beeline.errors import EXIT_USAGE, BeelineError, warn

if TYPE_CHECKING:
    from rich.console import Console

# Launches a program of this MPI on this path; told the number of the round, too.
Run = Callable[[mpis.Mpi, str, Path, int], launch.Output]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--mpi",
        action="append",
        metavar="MPI",
        help="only these: mpich, openmpi, impi or the path of an mpiexec; may be repeated",
    )
    launch.add_baseline(parser)
    parser.add_argument("--rounds", type=int, metavar="N", default=3, help="launches of each kind")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every measurement here")
    parser.add_argument("--plot", type=Path, metavar="DIR", help="write a plot (PNG, SVG) here")


def programs_for(wanted: list[str], name: str) -> dict[str, tuple[mpis.Mpi, Path]]:
    chosen = mpis.choose(wanted)
    everything, usable = chosen + mpis.find_all(), {}
    for mpi in chosen:
        try:
            program = launch.compile_program(launch.compiler_for(mpi, everything), name)
            usable[mpi.title] = (mpi, program)
        except BeelineError as error:
            if wanted:
                raise
            warn(f"{mpi.title} is left out: {error}")
    return usable


@dataclass
class Session:
    """One run of such a measurement."""

    usable: dict[str, tuple[mpis.Mpi, Path]]  # by title: the MPI and the program made for it
    rounds: int
    started: datetime.datetime
    load: float
    remarks: list[str]  # to be said beside the numbers
    description: dict[str, Any] = field(default_factory=machine.describe)
    failures: dict[str, str] = field(default_factory=dict)
    against: launch.Baseline = launch.OWN_DEFAULT

    @property
    def kinds(self) -> dict[str, str]:
        return {title: mpi.kind for title, (mpi, _) in self.usable.items()}

    def take(self, console: Console, run: Run, where: str = "") -> list[summary.Launch]:
        """All rounds: in each, every MPI by its default and over Beeline, one after the
        other, so that whatever else the machine does meets both alike. What failed once
        isn't tried again."""
        launches = []
        with local.progress(console, 2 * self.rounds * len(self.usable)) as say:
            for number in range(self.rounds):
                for title, (mpi, program) in self.usable.items():
                    for path in launch.PATHS if number % 2 == 0 else launch.PATHS[::-1]:
                        name = path if path == launch.BEELINE else self.against.name
                        what = f"{title}, {name}{where}"
                        if what in self.failures:
                            continue
                        say(f"round {number + 1} of {self.rounds}{where}: {title}, {name}")
                        try:
                            output = run(mpi, path, program, number)
                        except launch.LaunchError as error:
                            self.failures[what] = str(error)
                        else:
                            launches.append(summary.Launch(title, path, number, output))
        return launches

    def finish(self, console: Console, json_file: Path | None, text: dict[str, Any]) -> int:
        """Write the JSON file, if there is to be one, and say what failed. `text` begins
        with its "format" and ends with the numbers; the result is an exit status."""
        for what, why in self.failures.items():
            console.print(f"[red]FAILED[/red] {what}: ", end="")
            console.print(why, markup=False)
        if json_file:
            whole = {
                "format": text["format"],
                "unit": "ns",
                "beeline": __version__,
                "started": self.started.isoformat(timespec="seconds"),
                "load_before": self.load,
                "machine": self.description,
                "against": self.against.name,
                **text,
                "failures": self.failures,
            }
            json_file.parent.mkdir(parents=True, exist_ok=True)
            json_file.write_text(json.dumps(whole, indent=1) + "\n")
            say_saved(console, [json_file])
        return 1 if self.failures else 0


def say_saved(console: Console, files: Sequence[Path]) -> None:
    for file in files:
        console.print(f"saved {file}", soft_wrap=True)


def begin(args: argparse.Namespace, program: str) -> Session:
    """Whatever stands in the way is said here, before anything is measured."""
    needs.tables()
    needs.plots(args.plot)
    if args.rounds < 1:
        raise BeelineError("--rounds: at least 1", EXIT_USAGE)
    needs.outputs(args.json, args.plot)
    wanted = [word for text in args.mpi or [] for word in text.replace(",", " ").split()]
    paths.provider_dir()  # nothing to compare without it
    usable = programs_for(wanted, program)
    load = machine.load()
    remarks = machine.disturbed(load)
    for remark in remarks:
        warn(remark)
    started = datetime.datetime.now(datetime.UTC)
    return Session(usable, args.rounds, started, load, remarks, against=args.against)
