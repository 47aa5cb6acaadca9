# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The command line: one module per subcommand, each with add_parser(), which sets
the function to call. A subcommand returns its exit status or raises BeelineError.
Only the module that is asked for is imported: who runs a program waits for it."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import signal
import sys
from types import FrameType
from typing import Any

from beeline import __version__
from beeline.errors import EXIT_FAILURE, BeelineError

COMMANDS = ("run", "env", "bench", "stat", "nodemem", "doctor", "setup")


class Parser(argparse.ArgumentParser):
    """Takes options by their whole names only: a slip of the pen that happens to begin one
    is a slip all the same. Its subparsers are such, too, and the innermost is `parser`."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(allow_abbrev=False, **kwargs)
        self.set_defaults(parser=self)

    def _print_message(self, message: str, file: Any = None) -> None:
        """Newer argparse says nothing of help that couldn't be written."""
        (file or sys.stderr).write(message)


def build_parser(argv: list[str]) -> Parser:
    parser = Parser(
        prog="beeline",
        description="The shortest path between MPI processes on one Linux machine.",
        epilog="beeline COMMAND --help tells more; so does the manual page, beeline(1).",
    )
    parser.add_argument("--version", action="version", version=f"beeline {__version__}")
    subparsers = parser.add_subparsers(dest="command_name", metavar="COMMAND", required=True)
    asked = argv[0] if argv else ""
    for name in [asked] if asked in COMMANDS else COMMANDS:
        importlib.import_module(f"beeline.{name}").add_parser(subparsers)
    return parser


def end(number: int, _frame: FrameType | None) -> None:
    """A signal that ends us does so in order: what we have started ends as well."""
    raise SystemExit(128 + number)


def forget_output() -> None:
    """What is still to be written to it would fail again when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def dispatch(argv: list[str] | None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    args, unknown = build_parser(argv).parse_known_args(argv)
    if unknown:
        hint = (
            "; the launcher and its options come last: beeline run -- mpiexec -n 4 ./app"
            if args.command_name == "run"
            else ""
        )
        args.parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:  # not where nohup has it ignored
            signal.signal(number, end)
    return args.func(args)


def flushed(status: int) -> int:
    """What was said before something else went wrong, if it can still be."""
    try:
        sys.stdout.flush()
    except OSError:
        forget_output()
    return status


def main(argv: list[str] | None = None) -> int:
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed before we began
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):  # names of programs and paths may be any bytes
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            status = dispatch(argv)
        except SystemExit as over:  # argparse's, behind its help
            status = over.code
        sys.stdout.flush()
        return status
    except BeelineError as error:
        print(f"beeline: {error}", file=sys.stderr)
        return flushed(error.code)
    except KeyboardInterrupt:
        return flushed(130)
    except BrokenPipeError:  # the reader of our output has gone: nothing left to say
        forget_output()
        return EXIT_FAILURE
    except OSError as error:  # a full disk, a folder that can't be written to
        forget_output()
        print(f"beeline: {error.filename or 'output'}: {error.strerror or error}", file=sys.stderr)
        return EXIT_FAILURE
