# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Programs that the command starts and waits for: whatever ends it ends them as well. They
are in a session of their own, with all that they start."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Ended:
    """Both of its outputs together, as far as they came."""

    text: str
    status: int | None  # None: there was no end in time


@contextlib.contextmanager
def _held() -> Iterator[None]:
    """Signals by which we end wait until this is over: who is started meanwhile is known then."""
    came: list[int] = []
    old = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if callable(signal.getsignal(number)):
            old[number] = signal.signal(number, lambda n, _: came.append(n))
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


def _kill(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has just ended, with all of its own
        os.killpg(process.pid, signal.SIGKILL)


def run(argv: list[str], environ: Mapping[str, str], limit: float) -> Ended:
    """Run to the end, or for `limit` seconds at most. From the main thread only."""
    process = None
    try:
        with _held():
            process = subprocess.Popen(
                argv,
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        return Ended(process.communicate(timeout=limit)[0], process.returncode)
    except subprocess.TimeoutExpired:
        _kill(process)
        return Ended(process.communicate()[0], None)
    except BaseException:
        if process:
            _kill(process)
            process.wait()
        raise
