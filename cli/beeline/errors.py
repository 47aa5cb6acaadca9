# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""How the command reports trouble: one kind of exception, one place that prints it."""

from __future__ import annotations

import sys

EXIT_FAILURE = 1  # it was tried and did not work
EXIT_USAGE = 2  # the command line asks for something that cannot be (argparse's code too)
EXIT_NOT_EXECUTABLE = 126  # as a shell would say it
EXIT_NOT_FOUND = 127


class BeelineError(Exception):
    """What went wrong and what to do about it, in words for the person at the terminal."""

    def __init__(self, message: str, code: int = EXIT_FAILURE) -> None:
        super().__init__(message)
        self.code = code


def warn(message: str) -> None:
    print(f"beeline: warning: {message}", file=sys.stderr)
