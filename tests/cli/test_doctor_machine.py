# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What `beeline doctor` makes of other machines' /proc and /sys: trees of the few files
that it reads, made for each case."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest
from beeline.doctor import finding, machine
from beeline.doctor.finding import NOTE, OK
from beeline.doctor.kernel import Probe, Result

MIB, GIB = 1 << 20, 1 << 30
NEED = 5 * MIB  # 64 neighbours' lanes, and the last MiB
V1 = "/sys/fs/cgroup/memory"
V1_NONE = 0x7FFFFFFFFFFFF000  # how version 1 says that there is no limit


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, object]], None]:
    """A machine that has these files and no others."""
    monkeypatch.setattr(finding, "ROOT", tmp_path)

    def make(files: dict[str, object]) -> None:
        for name, text in files.items():
            path = tmp_path / name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")

    return make


def v2(group: str, limit: object, used: int = 0, files: int = 0) -> dict[str, object]:
    folder = f"/sys/fs/cgroup{group}".rstrip("/")
    return {
        f"{folder}/memory.max": limit,
        f"{folder}/memory.current": used,
        f"{folder}/memory.stat": f"anon {used - files}\ninactive_file {files}\nactive_file 0",
    }


def v1(group: str, limit: object, used: int = 0, files: int = 0) -> dict[str, object]:
    folder = f"{V1}{group}".rstrip("/")
    return {
        f"{folder}/memory.limit_in_bytes": limit,
        f"{folder}/memory.usage_in_bytes": used,
        f"{folder}/memory.stat": f"inactive_file 1\ntotal_inactive_file {files}\n"
        "total_active_file 0",
    }


IN_V2 = {"/proc/self/cgroup": "0::/job"}
IN_V1 = {"/proc/self/cgroup": "5:cpuset:/\n4:cpu,memory:/job\n0::/"}
CGROUPS = [
    # files; bytes left, None: no limit; which file says so; why it is here
    ({}, None, "", "no /proc at all"),
    (IN_V2 | v2("/job", "max"), None, "", "v2: none"),
    (IN_V1 | v1("/job", V1_NONE), None, "", "v1: none"),
    (IN_V2, None, "", "v2: the controller isn't there"),
    (IN_V2 | v2("/job", 64 * GIB, GIB), 63 * GIB, "job/memory.max", "v2: far away"),
    (IN_V1 | v1("/job", 64 * GIB, GIB), 63 * GIB, "job/memory.limit", "v1: far away"),
    (IN_V2 | v2("/job", NEED), NEED, "job/memory.max", "v2: just enough"),
    (IN_V2 | v2("/job", NEED - 1), NEED - 1, "job/memory.max", "v2: a byte too little"),
    (IN_V1 | v1("/job", NEED - 1), NEED - 1, "job/memory.limit", "v1: a byte too little"),
    (IN_V2 | v2("/job", GIB, GIB - MIB), MIB, "job/memory.max", "v2: nearly full"),
    (IN_V1 | v1("/job", GIB, GIB - MIB), MIB, "job/memory.limit", "v1: nearly full"),
    (IN_V2 | v2("/job", GIB, 2 * GIB), 0, "job/memory.max", "v2: lowered below what is used"),
    (IN_V2 | v2("/job", GIB, GIB, GIB // 2), GIB // 2, "job/memory.max", "v2: full of files"),
    (IN_V1 | v1("/job", GIB, GIB, GIB // 2), GIB // 2, "job/memory.limit", "v1: full of files"),
    (
        IN_V2 | v2("/job", "max") | v2("", 2 * GIB, GIB),
        GIB,
        "cgroup/memory.max",
        "v2: a limit further up",
    ),
    (
        {"/proc/self/cgroup": "0::/a/b"} | v2("/a/b", 2 * GIB) | v2("/a", 8 * GIB, 7 * GIB),
        GIB,
        "/a/memory.max",
        "v2: the larger limit leaves less",
    ),
    (
        {"/proc/self/cgroup": "4:memory:/docker/0123"} | v1("", GIB, GIB - MIB),
        MIB,
        "memory/memory.limit",
        "v1: a container sees only its own part of the tree",
    ),
    (
        {"/proc/self/cgroup": "0::/../other"} | v2("", GIB),
        GIB,
        "cgroup/memory.max",
        "v2: a group outside this namespace",
    ),
]


@pytest.mark.parametrize(("files", "left", "where", "why"), CGROUPS, ids=[c[3] for c in CGROUPS])
def test_cgroups(files: dict[str, object], left: int | None, where: str, why: str, tree) -> None:
    tree(files)
    found = machine.cgroup_memory()
    assert found.data.get("left") == left, why
    if left is None:
        assert found.state == OK and found.what == "no cgroup limit"
        return
    assert where in found.what
    assert found.state == (OK if left >= NEED else NOTE)
    assert bool(found.command) == (left < NEED)


@pytest.mark.parametrize(("used", "advised"), [(0, "1G"), (GIB - NEED, "1G"), (GIB, "2G")])
def test_the_limit_that_is_advised_is_enough(used: int, advised: str, tree) -> None:
    tree(IN_V2 | v2("/job", used, used))
    assert machine.cgroup_memory().command == (
        f"echo {advised} | sudo tee /sys/fs/cgroup/job/memory.max"
    )


THP = "/sys/kernel/mm/transparent_hugepage"
RESERVED = "/proc/sys/vm/nr_hugepages"
PAGES = [
    # enabled, shmem_enabled, nr_hugepages; state, in the text, in the command; why
    ("[always] madvise never", "always [never] advise", "0", OK, "always", "", "the default"),
    ("always [madvise] never", "[never] advise", "16", OK, "used often", "", "Debian's"),
    ("always madvise [never]", "[never]", "0", NOTE, "small pages", "enabled", "switched off"),
    (None, None, "0", NOTE, "not in this kernel", "", "built without"),
    (None, None, None, NOTE, "0 reserved", "", "no hugetlbfs either"),
    ("garbage", "garbage", "garbage", NOTE, "small pages", "", "nothing that we know"),
    ("[always] never", "always [advise] never", "0", OK, "advise", "", "shared: who asks"),
    ("[always] never", "always [within_size]", "0", NOTE, "2 MiB", "shmem_enabled", "that fit"),
    ("[always] never", "[always] never", "0", NOTE, "2 MiB", "shmem_enabled", "shared: all"),
    ("[always] never", "deny [force]", "0", NOTE, "2 MiB", "shmem_enabled", "shared: forced"),
    ("always [never]", "[always] never", "0", NOTE, "2 MiB", "shmem_enabled", "only shared"),
]


@pytest.mark.parametrize(
    ("enabled", "shared", "reserved", "state", "says", "command", "why"),
    PAGES,
    ids=[p[6] for p in PAGES],
)
def test_huge_pages(
    enabled: str | None,
    shared: str | None,
    reserved: str | None,
    state: str,
    says: str,
    command: str,
    why: str,
    tree,
) -> None:
    files = {f"{THP}/enabled": enabled, f"{THP}/shmem_enabled": shared, RESERVED: reserved}
    tree({name: text for name, text in files.items() if text is not None})
    found = machine.huge_pages()
    assert found.state == state and says in found.what + found.why, why
    assert bool(found.command) == bool(command) and found.command.endswith(command)
    assert found.data["reserved"] == (16 if reserved == "16" else 0)


NODES = [
    # online; mbind's errno; state; in the text; why
    ("0", 0, OK, "one node", "one"),
    ("0", errno.EPERM, OK, "one node", "one, and nothing may be bound: nothing is lost"),
    ("3", 0, OK, "one node", "one that isn't the first"),
    ("0-1", 0, OK, "nodes 0-1", "two"),
    ("0,2", 0, OK, "nodes 0,2", "two with a gap"),
    ("0-7", errno.EPERM, NOTE, "mbind: EPERM", "several, and a container that forbids it"),
    (None, errno.ENOSYS, OK, "not in this kernel", "built without"),
    ("", errno.ENOSYS, OK, "not in this kernel", "an empty file"),
]


@pytest.mark.parametrize(
    ("online", "number", "state", "says", "why"), NODES, ids=[n[4] for n in NODES]
)
def test_numa(online: str | None, number: int, state: str, says: str, why: str, tree) -> None:
    tree({} if online is None else {"/sys/devices/system/node/online": online})
    found = machine.numa(Probe({"mbind": Result(True, number)}, ""))
    assert found.state == state and says in found.what, why
    assert bool(found.command) == (state == NOTE)
