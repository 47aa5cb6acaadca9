# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A rank, for `beeline doctor`: initializes the MPI library whose path it is given,
passes a barrier and prints what carried it, as one line of JSON. It needs no
compiler and no header: what it calls looks the same in every MPI.

    mpiexec -n 2 python3 mpiprobe.py LIBMPI
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
# A name as short as `stat` in this folder must not be found before Python's own.
sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() != Path(__file__).resolve().parent]

from beeline import segments  # noqa: E402

MARK = "beeline-mpiprobe:"
MPICH_COMM_WORLD = 0x44000000


def world(library: ctypes.CDLL) -> ctypes.c_void_p | ctypes.c_int:
    """MPI_COMM_WORLD is a number in MPICH and its relatives, a variable in Open MPI."""
    try:
        return ctypes.c_void_p(
            ctypes.addressof(ctypes.c_char.in_dll(library, "ompi_mpi_comm_world"))
        )
    except ValueError:
        return ctypes.c_int(MPICH_COMM_WORLD)


def loaded(name: str) -> str | None:
    """The first file in this process's memory whose name begins like this."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.partition("/")[2]
        if path and os.path.basename(path).startswith(name):
            return "/" + path
    return None


def fabric_version(library: ctypes.CDLL) -> str | None:
    for path in (loaded("libfabric"), None):
        try:
            source = ctypes.CDLL(path) if path else library
            number = source.fi_version() & 0xFFFFFFFF
            return f"{number >> 16}.{number & 0xFFFF}"
        except (OSError, AttributeError):
            continue
    return None


def main() -> int:
    library = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
    if library.MPI_Init(None, None) or library.MPI_Barrier(world(library)):
        return 1
    endpoints = segments.endpoints_of(os.getpid())
    answer = {
        "provider": loaded("libbeeline-fi.so"),
        "endpoints": len(endpoints),
        "messages": sum(c.messages for e in endpoints for c in e.sent.values()),
        "libfabric": fabric_version(library),
        "libfabric_path": loaded("libfabric"),
    }
    print(MARK + json.dumps(answer), flush=True)
    return library.MPI_Finalize()


if __name__ == "__main__":
    sys.exit(main())
