# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Programs that the command starts: what is left of them when they are ended, and what they
inherit."""

from __future__ import annotations

import os
import select
import time
from pathlib import Path

from beeline import child


def has_ended(pid: int) -> bool:
    """Within 20 s; it is not our child."""
    try:
        end = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([end], [], [], 20)[0])
    finally:
        os.close(end)


def test_all_of_a_session_end(tmp_path: Path) -> None:
    """As Open MPI's ranks, each of which is in a group of its own."""
    said = tmp_path / "pids"
    script = f"set -m; sleep 60 & echo $! >>{said}; sleep 60 & echo $! >>{said}; wait"
    ended = child.run(["bash", "-c", script], os.environ, 1.0)
    assert ended.status is None
    pids = [int(word) for word in said.read_text().split()]
    assert len(pids) == 2
    assert all(map(has_ended, pids))


def test_who_has_left_holds_up_nobody(tmp_path: Path) -> None:
    said = tmp_path / "pid"
    script = f"echo begun; setsid sleep 60 & echo $! >{said}; sleep 60"
    began = time.monotonic()
    ended = child.run(["bash", "-c", script], os.environ, 1.0)
    assert time.monotonic() - began < 30
    assert ended.status is None and "begun" in ended.text
    os.kill(int(said.read_text()), 9)


def test_run_leaves_signals_as_they_were(beeline) -> None:
    """Python ignores some for itself; what is run dies of them as ever."""
    done = beeline("run", "--mpi", "mpich", "--", "grep", "SigIgn", "/proc/self/status")
    assert done.returncode == 0
    ignored = int(done.stdout.split()[1], 16)
    assert not ignored & (1 << 12 | 1 << 24), done.stdout  # SIGPIPE, SIGXFSZ
