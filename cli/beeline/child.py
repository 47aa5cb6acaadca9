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

GRACE = 2.0  # seconds for what those who have been ended had said


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


def _members(session: int) -> set[int]:
    """Who is in it, in whatever group: Open MPI gives each rank one of its own."""
    found = set()
    for name in os.listdir("/proc"):
        with contextlib.suppress(ValueError, OSError):  # no process, or it has just ended
            if os.getsid(int(name)) == session:
                found.add(int(name))
    return found


def _kill(process: subprocess.Popen[str]) -> None:
    """While one of its session lives nobody else has that number."""
    killed: set[int] = set()
    while new := _members(process.pid) - killed:  # one may have started another meanwhile
        for pid in new:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        killed |= new


def _rest(process: subprocess.Popen[str]) -> str:
    """What has been said until the end. Who has left the session may hold its output open."""
    try:
        return process.communicate(timeout=GRACE)[0]
    except subprocess.TimeoutExpired as error:
        said = error.output or ""
        return said.decode(errors="replace") if isinstance(said, bytes) else said


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
        return Ended(_rest(process), None)
    except BaseException:
        if process:
            _kill(process)
            process.wait()
        raise
