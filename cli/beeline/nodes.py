# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Whether a job is on one node only, by what its command line and a batch system say. Where
nothing is said it is: a launcher that is told no hosts starts all ranks here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

# Batch systems: how many nodes, or a file with a line for each rank or node.
COUNTS = ("SLURM_JOB_NUM_NODES", "SLURM_NNODES")
FILES = ("PBS_NODEFILE", "PE_HOSTFILE", "LSB_DJOB_HOSTFILE")
HOST_FILES = ("HYDRA_HOST_FILE", "I_MPI_HYDRA_HOST_FILE")
# Launchers (Hydra): -hosts a,b; -f FILE
OPTIONS_HOSTS = ("host", "hosts", "H")
OPTIONS_FILE = ("f", "machinefile", "machine", "hostfile")


def _names(text: str) -> set[str]:
    """Of a list of hosts, one may have a number of processes: a:4."""
    return {word.partition(":")[0] for word in text.replace(",", " ").split() if word}


def _in_file(path: str) -> set[str]:
    try:
        lines = Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return set()
    words = (line.partition("#")[0].split() for line in lines)
    return {word[0].partition(":")[0] for word in words if word}


def hosts_named(argv: Sequence[str]) -> set[str]:
    """By the launcher's options; a host for each part of the command (-host a ... : -host b)."""
    found: set[str] = set()
    for word, value in zip(argv, argv[1:], strict=False):
        option = word.lstrip("-") if word.startswith("-") else ""
        if option in OPTIONS_HOSTS:
            found |= _names(value)
        elif option in OPTIONS_FILE:
            found |= _in_file(value)
    return found


def one_node(environ: Mapping[str, str], argv: Sequence[str] = ()) -> bool:
    named = hosts_named(argv)
    for name in (*HOST_FILES, *FILES):
        if not named and environ.get(name):
            named = _in_file(environ[name])
    if named:
        return len(named) == 1
    counts = [environ[name] for name in COUNTS if environ.get(name, "").isdecimal()]
    return not counts or int(counts[0]) == 1
