# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Which processes are ranks of one job: those with the same launcher above them or, where that
isn't on this node, the same name of a job in their environment. A guess for people who read;
nothing depends on it. What may not be read (another user's environment) is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from beeline import mpi, segments
from beeline.show import number_list

T = TypeVar("T")

RANKS = ("PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
NAMES = ("PMIX_NAMESPACE", "PMI_JOBID", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID")
# Who starts the ranks of a node for a launcher on another one.
AGENTS = re.compile(r"^(hydra_pmi_proxy|hydra_bstrap_proxy|prted|orted|slurmstepd|srun)$")
DEEP = 16  # ancestors that are looked at: wrappers, shells, debuggers
LONG = 100  # characters of a launcher's command line


@dataclass(frozen=True)
class Job:
    """`name` is the same for all ranks; `launcher` is 0 where it isn't known."""

    name: str = ""
    launcher: int = 0
    command: str = ""  # as the launcher was called

    @property
    def title(self) -> str:
        if self.launcher:
            return f"Job of process {self.launcher}: {self.command}"
        return f"Job {self.name}" if self.name else "Without a launcher that is known"


NONE = Job()


@dataclass(frozen=True)
class Place:
    """Where in a job a process is."""

    job: Job = NONE
    rank: int | None = None


def _read(pid: int, name: str) -> bytes:
    try:
        return (segments.PROC / str(pid) / name).read_bytes()
    except OSError:
        return b""


def _environment(pid: int) -> dict[str, str]:
    words = _read(pid, "environ").decode(errors="replace").split("\0")
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def _words(pid: int) -> str:
    text = _read(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace").strip()
    return "".join(c if c.isprintable() else "?" for c in text)[:LONG]


def _ancestors(pid: int) -> Iterator[tuple[int, str]]:
    """From the parent up: process and name."""
    for _ in range(DEEP):
        # PID (NAME) STATE PARENT ...; the name may be anything
        fields = _read(pid, "stat").rpartition(b")")[2].split()
        pid = int(fields[1]) if len(fields) > 1 else 0
        if pid <= 1:
            return
        yield pid, _read(pid, "comm").decode(errors="replace").strip()


def _launcher(pid: int) -> int:
    """The nearest one; else the agent that started the ranks of this node; 0: none."""
    agent = 0
    for above, name in _ancestors(pid):
        if mpi.LAUNCHER.match(name) or mpi.LAUNCHER.match(segments.command(above)):
            return above
        if AGENTS.match(name):
            agent = above
    return agent


def place(pid: int) -> Place:
    environ = _environment(pid)
    rank = next((int(environ[n]) for n in RANKS if environ.get(n, "").isdecimal()), None)
    launcher = _launcher(pid)
    if launcher:
        return Place(Job(str(launcher), launcher, _words(launcher)), rank)
    name = next((f"{environ[n]} ({n})" for n in NAMES if environ.get(n)), "")
    return Place(Job(name), rank)


def places(pids: Iterable[int]) -> dict[int, Place]:
    return {pid: place(pid) for pid in dict.fromkeys(pids)}


def by_job(items: Iterable[T], of: Callable[[T], Place]) -> list[tuple[Job, list[T]]]:
    """In the order of their jobs' first, those without a job last; by rank within."""
    found: dict[Job, list[T]] = {}
    for item in items:
        found.setdefault(of(item).job, []).append(item)
    groups = sorted(found.items(), key=lambda group: group[0] == NONE)
    for _, group in groups:
        group.sort(key=lambda item: rank if (rank := of(item).rank) is not None else -1)
    return groups


def heading(job: Job, numbers: Iterable[int | None]) -> str:
    """Ranks as in "ranks 0-3,8"; nothing of them where none is known."""
    known = {number for number in numbers if number is not None}
    said = f"; rank{'s' * (len(known) > 1)} {number_list(known)} here" if known else ""
    return job.title + said
