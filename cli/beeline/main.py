# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The command line: one module per subcommand, each with add_parser(), which sets
the function to call. A subcommand returns its exit status or raises BeelineError."""

from __future__ import annotations

import argparse
import os
import sys

from beeline import __version__, bench, doctor, env, run, stat
from beeline.errors import EXIT_FAILURE, BeelineError

COMMANDS = (run, env, bench, stat, doctor)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="beeline",
        description="The shortest path between MPI processes on one Linux machine.",
        epilog="beeline COMMAND --help tells more; so does the manual page, beeline(1).",
    )
    parser.add_argument("--version", action="version", version=f"beeline {__version__}")
    subparsers = parser.add_subparsers(dest="command_name", metavar="COMMAND", required=True)
    for module in COMMANDS:
        module.add_parser(subparsers)
    return parser


def main(argv: list[str] | None = None) -> int:
    args = build_parser().parse_args(argv)
    try:
        return args.func(args)
    except BeelineError as error:
        print(f"beeline: {error}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output has gone: nothing left to say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILURE
