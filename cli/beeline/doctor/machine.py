# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Limits, namespaces, memory, NUMA, the module, settings: what surrounds Beeline."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from beeline import kmod, knobs
from beeline.doctor.finding import BAD, NOTE, OK, Finding, read
from beeline.doctor.kernel import Probe

# What an endpoint and its process need (ARCHITECTURE.md): descriptors while it is open,
# ten of them kept aside for connecting; shared memory of its own and per neighbour;
# address space per neighbour, whose lane is mapped beside ours.
FILES_ENDPOINT, FILES_PROCESS, FILES_LEAST = 3, 13, 33
LANE = 64 * 1024
KEPT_ASIDE = 1 << 20  # of what a cgroup leaves
NEIGHBOURS = 64  # of which the limits are judged
FILE_LEAST = 2 << 20  # the longest memfd, a lane that may be made longer
SPACE_LEAST = 1 << 30  # an MPI's own libraries and heaps
# The inodes of the namespaces that a machine boots with: include/linux/proc_ns.h.
FIRST_NAMESPACES = {"user": 0xEFFFFFFD, "pid": 0xEFFFFFFC, "ipc": 0xEFFFFFFF, "uts": 0xEFFFFFFE}


def findings(probe: Probe) -> list[Finding]:
    return [
        processors(),
        *limits(),
        cgroup_memory(),
        dev_shm(),
        namespaces(),
        huge_pages(),
        numa(probe),
        module(probe),
    ]


def mib(value: int) -> str:
    return f"{value / (1 << 20):.0f} MiB" if value < 1 << 33 else f"{value / (1 << 30):.0f} GiB"


def processors() -> Finding:
    count = len(os.sched_getaffinity(0))
    what = f"{count} processor{'s' if count > 1 else ''} for this process"
    data = {"processors": count}
    if count > 1:
        return Finding("processors", OK, what, data=data)
    return Finding(
        "processors",
        NOTE,
        what,
        "neighbours take turns on it: no message is shorter than a change of process",
        "ask the batch system or taskset for a processor per rank",
        data,
    )


# --- limits --------------------------------------------------------------------


def _limit(which: int) -> tuple[int, str]:
    soft, _ = resource.getrlimit(which)
    return (1 << 63, "unlimited") if soft == resource.RLIM_INFINITY else (soft, str(soft))


def limits() -> list[Finding]:
    files, files_text = _limit(resource.RLIMIT_NOFILE)
    space, _ = _limit(resource.RLIMIT_AS)
    locked, _ = _limit(resource.RLIMIT_MEMLOCK)
    tasks, tasks_text = _limit(resource.RLIMIT_NPROC)
    found = [
        Finding(
            "open files",
            OK if files >= FILES_LEAST else NOTE,
            f"{files_text} (ulimit -n)",
            f"an endpoint holds {FILES_ENDPOINT} and its process {FILES_PROCESS}, "
            "whatever the number of neighbours"
            + ("" if files >= FILES_LEAST else "; the MPI library opens others beside them"),
            "" if files >= FILES_LEAST else "ulimit -n 1024",
            {"nofile": files},
        ),
        Finding(
            "address space",
            OK if space >= SPACE_LEAST else NOTE,
            "unlimited (ulimit -v)" if space == 1 << 63 else f"{mib(space)} (ulimit -v)",
            f"a neighbour takes {2 * LANE // 1024 + 4} KiB to 2.5 MiB of it, and an MPI library "
            "much more"
            if space < SPACE_LEAST
            else "",
            "ulimit -v unlimited" if space < SPACE_LEAST else "",
            {"as": space},
        ),
        Finding(
            "locked memory",
            OK,
            "unlimited (ulimit -l)" if locked == 1 << 63 else f"{mib(locked)} (ulimit -l)",
            "Beeline locks none",
            data={"memlock": locked},
        ),
    ]
    if tasks < 64:
        found.append(
            Finding(
                "processes",
                NOTE,
                f"{tasks_text} (ulimit -u)",
                "each process with an endpoint has one service thread, which counts",
                "ulimit -u 4096",
                {"nproc": tasks},
            )
        )
    longest, _ = _limit(resource.RLIMIT_FSIZE)
    if longest < FILE_LEAST:
        found.append(
            Finding(
                "file size",
                NOTE,
                f"{longest // 1024} KiB (ulimit -f)",
                "memory that processes share is a file to the kernel: rings stay short, and "
                "below 64 KiB no endpoint opens",
                "ulimit -f unlimited",
                {"fsize": longest},
            )
        )
    return found


@dataclass(frozen=True)
class Cgroups:
    """A version of them: where they are mounted, and what their files are called."""

    base: Path
    limit: str
    usage: str
    files: tuple[str, ...]  # lines of memory.stat: what is given back before all else


SECOND = Cgroups(
    Path("/sys/fs/cgroup"), "memory.max", "memory.current", ("inactive_file", "active_file")
)
FIRST = Cgroups(
    Path("/sys/fs/cgroup/memory"),
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    ("total_inactive_file", "total_active_file"),
)


def _used(version: Cgroups, group: Path) -> int:
    """Without what the kernel would give back: as in src/transport/local/link/memlimit.c."""
    usage = read(str(group / version.usage)) or ""
    lines = (line.split() for line in (read(str(group / "memory.stat")) or "").splitlines())
    files = sum(int(words[1]) for words in lines if words[0] in version.files)
    return max(int(usage) - files, 0) if usage.isdigit() else 0


@dataclass
class Limit:
    """A memory limit above this process: the one that leaves the least."""

    bytes: int
    left: int
    where: str


def _limits_of(version: Cgroups, group: str) -> Iterator[Limit]:
    folder = version.base / group.lstrip("/")
    for level in (folder, *folder.parents):
        if level != version.base and version.base not in level.parents:
            break
        where = str(level / version.limit)
        text = read(where) or ""
        if text.isdigit() and int(text) < 1 << 60:  # version 1 says none by a large number
            yield Limit(int(text), max(int(text) - _used(version, level), 0), where)


def _cgroup_limit() -> Limit | None:
    found: list[Limit] = []
    for line in (read("/proc/self/cgroup") or "").splitlines():
        number, controllers, group = line.split(":", 2)
        if number == "0" and not controllers:
            found += _limits_of(SECOND, group)
        elif "memory" in controllers.split(","):
            found += _limits_of(FIRST, group)
    return min(found, key=lambda limit: limit.left, default=None)


def cgroup_memory() -> Finding:
    limit = _cgroup_limit()
    need = NEIGHBOURS * LANE + KEPT_ASIDE
    cost = f"an endpoint with {NEIGHBOURS} neighbours takes {mib(NEIGHBOURS * LANE)}"
    if limit is None:
        return Finding("job's memory", OK, "no cgroup limit", cost)
    what = f"{mib(limit.left)} left of {mib(limit.bytes)} ({limit.where})"
    data = {"limit": limit.bytes, "left": limit.left}
    if limit.left >= need:
        why = cost + "; shared memory counts where it is first touched"
        return Finding("job's memory", OK, what, why, data=data)
    gib = -(-(limit.bytes - limit.left + need) >> 30)  # rounded up
    return Finding(
        "job's memory",
        NOTE,
        what,
        cost + f", and the last {mib(KEPT_ASIDE)} is left alone: opening it may fail",
        f"echo {gib}G | sudo tee {limit.where}",
        data,
    )


# --- namespaces ------------------------------------------------------------------


def _user_is_known() -> bool:
    """As in src/transport/local/link/hello.c: a user namespace that maps no user to us makes all
    users look like one."""
    for row in (read("/proc/self/uid_map") or "").splitlines():
        first, _, count = (int(word) for word in row.split())
        if first <= os.geteuid() < first + count:
            return True
    return False


SHM_LEAST = 16 << 20  # bytes, for a few ranks of any MPI


def _room(folder: Path) -> int:
    """Bytes that may be written there."""
    try:
        where = os.statvfs(folder)
    except OSError:
        return 0
    may_write = os.access(folder, os.W_OK) and not where.f_flag & os.ST_RDONLY
    return where.f_bavail * where.f_frsize if may_write else 0


def dev_shm(folder: Path = Path("/dev/shm")) -> Finding:
    """Beeline uses none of it; MPICH does, whatever carries its messages."""
    found = []
    with contextlib.suppress(OSError):  # there is no such folder, or no descriptor for it
        for path in sorted(folder.glob("mpich_shm_*")):
            with contextlib.suppress(FileNotFoundError):  # its job ends just now
                if (status := path.stat()).st_uid == os.geteuid():
                    found.append(status.st_blocks * 512)
    room = _room(folder)
    if room < SHM_LEAST:
        return Finding(
            "/dev/shm",
            NOTE,
            f"has room for {mib(room)}, or may not be written to",
            "Beeline uses none of it, but whatever carries their messages MPICH keeps about 1 MiB "
            "per rank there, and may end with a bus error without, and Open MPI 5 keeps 16 MiB",
            "mount -o remount,rw,size=50% /dev/shm    # as root; of a container: --shm-size=1g",
            {"files": len(found), "bytes": sum(found), "room": room},
        )
    if not found:
        return Finding("/dev/shm", OK, "Beeline uses none of it")
    return Finding(
        "/dev/shm",
        NOTE,
        f"{len(found)} files of MPICH's own, {mib(sum(found))} (mpich_shm_*)",
        "MPICH keeps about 1 MiB per rank there, whatever carries its messages, and leaves it "
        "when a job is killed; this makes it 26 KiB (remove what is left of jobs that are over)",
        "export MPIR_CVAR_CH4_SHM_POSIX_IQUEUE_NUM_CELLS=1",
        {"files": len(found), "bytes": sum(found)},
    )


def _inodes() -> dict[str, int]:
    found: dict[str, int] = {}
    for kind in ("user", "pid", "net", "ipc", "mnt"):
        with contextlib.suppress(OSError):
            link = os.readlink(f"/proc/self/ns/{kind}")
            found[kind] = int(re.sub(r"\D", "", link))
    return found


def own_namespaces() -> list[str]:
    """The kinds in which this process isn't where the machine booted."""
    return [k for k, inode in _inodes().items() if FIRST_NAMESPACES.get(k, inode) != inode]


def namespaces() -> Finding:
    own = own_namespaces()
    data = {"own": own, "inodes": _inodes()}
    if not {"user", "pid"} & set(own):
        return Finding("namespaces", OK, "those of the machine (user, PID)", data=data)
    if not _user_is_known():
        return Finding(
            "namespaces",
            BAD,
            "this process is in a user namespace that maps no user to it",
            "its neighbours can't be told from strangers, so it doesn't talk to them",
            "start the container with a mapping: unshare --map-root-user, --userns=keep-id",
            data,
        )
    consequences = {
        "user": "a neighbour in another user namespace may refuse direct copies",
        "pid": "a neighbour in another PID namespace can't be named for direct copies",
    }
    return Finding(
        "namespaces",
        NOTE if "user" in own else OK,
        f"this process is in {' and '.join(k for k in own if k in consequences)} "
        "namespaces of its own, as in a container",
        "; ".join(text for kind, text in consequences.items() if kind in own)
        + ": its large messages are copied twice. Within one container nothing changes",
        "start all ranks in the same container, or containers with --pid=host --userns=host",
        data,
    )


# --- memory ----------------------------------------------------------------------


def _chosen(text: str | None) -> str | None:
    found = re.search(r"\[(\w+)\]", text or "")
    return found[1] if found else None


def huge_pages() -> Finding:
    folder = "/sys/kernel/mm/transparent_hugepage"
    transparent, shared = (
        _chosen(read(f"{folder}/enabled")),
        _chosen(read(f"{folder}/shmem_enabled")),
    )
    reserved = read("/proc/sys/vm/nr_hugepages") or "0"
    data = {
        "transparent": transparent,
        "shared": shared,
        "reserved": int(reserved) if reserved.isdigit() else 0,
    }
    what = f"transparent: {transparent or 'not in this kernel'}"
    what += f" (shared memory: {shared})" * bool(shared) + f"; {reserved} reserved"
    if shared in ("always", "force", "within_size"):
        return Finding(
            "huge pages",
            NOTE,
            what,
            f"each neighbour's {LANE >> 10} KiB of shared memory may take a whole huge page, 2 MiB",
            f"echo advise | sudo tee {folder}/shmem_enabled",
            data,
        )
    if transparent in ("always", "madvise"):
        return Finding(
            "huge pages",
            OK,
            what,
            "buffers on huge pages are copied faster; on Linux 6.1 and later those of large "
            "messages used often are put there (FI_BEELINE_HUGE)",
            data=data,
        )
    return Finding(
        "huge pages",
        NOTE,
        what,
        "large messages between small pages take longer: each page is looked up",
        f"echo madvise | sudo tee {folder}/enabled" if transparent else "",
        data,
    )


def numa(probe: Probe) -> Finding:
    nodes = read("/sys/devices/system/node/online")
    several = bool(nodes) and not nodes.isdigit()
    bound = probe["mbind"].good
    data = {"nodes": nodes, "mbind": bound}
    if not several:
        return Finding(
            "NUMA", OK, "one node: nothing to place" if nodes else "not in this kernel", data=data
        )
    if bound:
        return Finding(
            "NUMA", OK, f"nodes {nodes}; an endpoint's memory is bound to its own", data=data
        )
    return Finding(
        "NUMA",
        NOTE,
        f"nodes {nodes}; mbind: {probe['mbind'].said}",
        "memory lies where it is first touched: pin each rank before it opens MPI",
        "run with a seccomp profile that allows mbind (docker run --cap-add SYS_NICE)",
        data,
    )


# --- what adds to it ----------------------------------------------------------------


def counters() -> tuple[str, dict[str, int]]:
    """What the module has done, for those who may know of everybody (root)."""
    try:
        stat = kmod.stat()
    except OSError:
        stat = None
    if stat is None:
        return "", {}
    copied = stat.from_bytes + stat.to_bytes
    return (
        f"; {stat.live} exports now, {mib(copied)} copied since it was loaded",
        {"exports": stat.live, "copied": copied},
    )


WHO_NEEDS_IT = "only processes that may not copy from each other otherwise need it"


def module(probe: Probe) -> Finding:
    result = probe["module"]
    abi, wanted = (*result.extra, 0, 0)[:2]
    version = read("/sys/module/beeline/version")
    data = {"abi": abi if result.good else None, "wanted_abi": wanted, "version": version}
    what = f"/dev/beeline, interface {abi}" + f" ({version})" * bool(version)
    # Interfaces grow: a module serves those who know less of it (include/uapi/beeline.h).
    if result.good and abi >= wanted:
        if abi > wanted:
            what += f", newer than the {wanted} that this Beeline knows: it serves that, too"
        said, counted = counters()
        return Finding("module", OK, what + said, data=data | counted)
    wished = os.environ.get(f"{knobs.PREFIX}COPY", "").lower() == "module"
    unneeded = probe["readv"].good and probe["writev"].good and not wished
    if unneeded and (result.good or result.errno == errno.EACCES):
        why = f"interface {abi}, older than {wanted}" if result.good else result.said
        return Finding("module", OK, f"/dev/beeline: {why}; {WHO_NEEDS_IT}", data=data)
    if result.good:
        return Finding(
            "module",
            NOTE,
            f"{what}, older than the {wanted} that this Beeline knows",
            "it is used for what it can do"
            if abi
            else "it is not used: process_vm_readv is instead, where it is permitted",
            "sudo beeline setup module",
            data,
        )
    if result.errno == errno.ENOENT and wished:
        return Finding(
            "module",
            NOTE,
            "not loaded, and FI_BEELINE_COPY=module asks for it",
            "process_vm_readv is used instead, where it is permitted",
            "sudo beeline setup module",
            data,
        )
    if result.errno == errno.ENOENT:
        return Finding(
            "module",
            OK,
            f"not loaded; {WHO_NEEDS_IT}",
            data=data,
        )
    return Finding(
        "module",
        NOTE,
        f"/dev/beeline: {result.said}",
        "process_vm_readv is used instead, where it is permitted",
        "sudo usermod -aG beeline $USER" if result.errno == errno.EACCES else "",
        data,
    )


def settings() -> list[Finding]:
    """Variables that were meant for Beeline and miss it."""
    return [
        Finding(
            "settings",
            NOTE,
            said,
            "it has no effect",
            f"unset {said.split()[0]}",
        )
        for said in knobs.mistakes(os.environ)
    ]
