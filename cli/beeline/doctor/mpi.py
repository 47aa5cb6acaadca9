# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Whether each MPI found here takes Beeline: two ranks of it are started under the
environment that `beeline run` would set, and tell what they loaded and sent."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from beeline import child, env, paths
from beeline import mpi as mpis
from beeline.doctor.finding import NOTE, OK, Finding
from beeline.mpiprobe import MARK

LIMIT = 60.0
INSTALL = "pip install mpich"
PROBE = paths.PACKAGE / "mpiprobe.py"


def findings() -> list[Finding]:
    found = [examine(mpi) for mpi in mpis.find_all()]
    taking = [finding.name for finding in found if finding.data["chooses_beeline"]]
    for finding in found:
        if taking and finding.command == INSTALL:  # it is there already
            finding.command, finding.why = "", f"{taking[0]}, here too, can"
    if found:
        return found
    return [
        Finding(
            "MPI",
            NOTE,
            "none found in PATH or beside this command",
            "Beeline works under MPICH, Open MPI and Intel MPI",
            INSTALL,
        )
    ]


def command(mpi: mpis.Mpi) -> list[str]:
    # Two ranks on however few processors.
    crowded = ["--map-by", ":OVERSUBSCRIBE"] if mpi.kind == "openmpi" else []
    return [
        str(mpi.mpiexec),
        *crowded,
        "-n",
        "2",
        sys.executable,
        str(PROBE),
        str(mpi.library),
    ]


def environment(mpi: mpis.Mpi) -> dict[str, str]:
    environ = env.plan(env.for_mpi(mpi), os.environ).apply(os.environ)
    if mpi.kind == "openmpi" and os.geteuid() == 0:
        environ["OMPI_ALLOW_RUN_AS_ROOT"] = environ["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    return environ


def answers(text: str) -> list[dict[str, Any]]:
    """What the ranks said; a launcher may join their lines."""
    found: list[dict[str, Any]] = []
    for part in text.split(MARK)[1:]:
        try:
            found.append(json.JSONDecoder().raw_decode(part)[0])
        except ValueError:
            continue
    return found


def start(mpi: mpis.Mpi) -> str:
    """The output of two ranks, or of as much of them as there was in time."""
    done = child.run(command(mpi), environment(mpi), LIMIT)
    return done.text + (f"\nno end after {LIMIT:.0f} s" if done.status is None else "")


def set_here(mpi: mpis.Mpi) -> bool:
    """This shell's environment would make it take Beeline already."""
    return all(
        setting.value in os.environ.get(setting.name, "").split(":")
        if setting.prepend
        else os.environ.get(setting.name) == setting.value
        for setting in env.for_mpi(mpi)
    )


def examine(mpi: mpis.Mpi) -> Finding:
    data: dict[str, Any] = {
        "mpi": mpi.kind,
        "version": mpi.version,
        "mpiexec": str(mpi.mpiexec),
        "chooses_beeline": False,
        "libfabric": None,
        "set_in_this_shell": set_here(mpi),
        "caveat": mpi.caveat,
    }
    if mpi.obstacle:
        return Finding(
            mpi.title,
            NOTE,
            f"{mpi.mpiexec} can't take Beeline: {mpi.obstacle}",
            command=INSTALL,
            data=data,
        )
    if mpi.library is None:
        return Finding(
            mpi.title,
            NOTE,
            f"{mpi.mpiexec}: its library was not found in {mpi.prefix}: not tried",
            data=data,
        )
    text = start(mpi)
    ranks = answers(text)
    if ranks:
        data["libfabric"] = ranks[0]["libfabric"]
        data["libfabric_path"] = ranks[0]["libfabric_path"]
    data["chooses_beeline"] = (
        len(ranks) == 2
        and all(rank["provider"] and rank["endpoints"] for rank in ranks)
        and any(rank["messages"] for rank in ranks)
    )
    inside = f"libfabric {data['libfabric'] or 'of unknown version'}"
    if data["chooses_beeline"]:
        itself = "" if data["set_in_this_shell"] else "under `beeline run`, not by itself"
        return Finding(
            mpi.title,
            NOTE if mpi.caveat else OK,
            f"{mpi.mpiexec} takes Beeline ({inside})",
            "; ".join(filter(None, (itself, mpi.caveat))),
            ""
            if data["set_in_this_shell"]
            else f'eval "$(beeline env --mpi {mpi.mpiexec})"  # for all in this shell',
            data,
        )
    if len(ranks) == 2:
        return Finding(
            mpi.title,
            NOTE,
            f"{mpi.mpiexec} ran, but not over Beeline ({inside})",
            "its libfabric did not choose the provider",
            f"FI_LOG_LEVEL=info beeline run -v -- {' '.join(command(mpi))}",
            data,
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return Finding(
        mpi.title,
        NOTE,
        f"{mpi.mpiexec} could not start two ranks",
        " | ".join(lines[-4:])[:400],
        f"beeline run -v -- {' '.join(command(mpi))}",
        data,
    )
