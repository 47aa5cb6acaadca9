# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""On which NUMA node the pages of a process lie, as the kernel tells it: the counts of
/proc/PID/numa_maps for each mapping, joined with /proc/PID/maps, which knows its end; and,
page by page, move_pages(2), asked without moving anything. Only reads; the process takes no
part. A mapping that comes or goes meanwhile is counted as one of the two saw it, or not at all.

In Linux's words a node is memory and the processors near it; it may have none of either.
"""

from __future__ import annotations

import array
import ctypes
import errno
import os
import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from beeline.segments import PROC, NotAllowed, NotThere

NODES = Path("/sys/devices/system/node")
PAGE = os.sysconf("SC_PAGESIZE")

# In a line of numa_maps, the first word of these ends the policy, which may have spaces.
FACT = re.compile(
    r"(?:file|anon|dirty|mapped|mapmax|swapcache|active|writeback|N\d+|kernelpages\w+)="
)
FLAGS = ("heap", "stack", "huge")
ESCAPE = re.compile(r"\\([0-7]{3})")
MAP = re.compile(
    r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) [0-9a-f]+ [0-9a-f]+:[0-9a-f]+ (\d+) *(.*)", re.DOTALL
)

MOVE_PAGES = {"x86_64": 279, "aarch64": 239, "riscv64": 239, "ppc64le": 301, "s390x": 310}
BATCH = 1 << 16  # pages asked for in one call, or one that is larger than all these
PRESENT = 0x80  # in the last byte of an entry of pagemap


class NoNuma(Exception):
    """The kernel was built without."""


@dataclass
class Counted:
    """A line of numa_maps."""

    start: int
    policy: str
    name: str  # a file's, [heap], [stack] or nothing
    huge: bool
    page: int  # bytes of one that is counted
    pages: dict[int, int]  # on each node


@dataclass
class Mapping:
    start: int
    end: int
    flags: str  # as in maps: rw-p
    inode: int  # 0: no file
    name: str  # as in maps: a path, [heap], [anon:NAME], or nothing
    policy: str
    page: int
    nodes: dict[int, int] = field(default_factory=dict)  # bytes that are in memory, on each node

    @property
    def size(self) -> int:
        return self.end - self.start

    @property
    def resident(self) -> int:
        return sum(self.nodes.values())


@dataclass
class Place:
    """Where a process runs: where its threads do, but for those that hardly run."""

    threads: int
    nodes: set[int]  # on which they last ran
    cpus: set[int]  # on which they may run
    may: set[int]  # their nodes
    free: bool  # one of them may run on several nodes


# --- the machine ---------------------------------------------------------------


def number_list(text: str) -> set[int]:
    """The kernel's lists: 0-3,8."""
    found: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first.isdigit():
            found.update(range(int(first), int(last or first) + 1))
    return found


def machine() -> dict[int, set[int]]:
    """The processors of each node. A kernel that knows of none has one, with all."""
    nodes: dict[int, set[int]] = {}
    for folder in NODES.glob("node[0-9]*"):
        try:
            nodes[int(folder.name[4:])] = number_list((folder / "cpulist").read_text())
        except (OSError, ValueError):
            continue
    return dict(sorted(nodes.items())) or {0: set(range(os.cpu_count() or 1))}


# --- one process ---------------------------------------------------------------


def _read(pid: int, name: str) -> str:
    path = PROC / str(pid) / name
    try:
        return path.read_text(errors="surrogateescape")
    except (FileNotFoundError, ProcessLookupError) as error:
        if name == "numa_maps" and path.parent.exists() and not (PROC / "self" / name).exists():
            raise NoNuma from error
        raise NotThere(pid) from error
    except PermissionError as error:
        raise NotAllowed(pid) from error


def parse_counted(text: str) -> list[Counted]:
    """numa_maps, line by line; what isn't understood is passed over."""
    found: list[Counted] = []
    for line in text.split("\n"):
        words = line.split(" ")
        if len(words) < 2 or not re.fullmatch(r"[0-9a-f]+", words[0]):
            continue
        facts = next(
            (i for i, w in enumerate(words) if i > 1 and (w in FLAGS or FACT.match(w))), len(words)
        )
        one = Counted(int(words[0], 16), " ".join(words[1:facts]), "", False, PAGE, {})
        for word in words[facts:]:
            key, _, value = word.partition("=")
            if key == "file":
                one.name = ESCAPE.sub(lambda m: chr(int(m[1], 8)), value)
            elif key in ("heap", "stack"):
                one.name = f"[{key}]"
            elif key == "huge":
                one.huge = True
            elif key == "kernelpagesize_kB" and value.isdigit():
                one.page = int(value) * 1024
            elif re.fullmatch(r"N\d+", key) and value.isdigit():
                one.pages[int(key[1:])] = int(value)
        found.append(one)
    return found


def parse_maps(text: str) -> dict[int, tuple[int, str, int, str]]:
    """maps: the end, the flags, the inode and the name of what begins at an address."""
    found: dict[int, tuple[int, str, int, str]] = {}
    for line in text.split("\n"):
        if m := MAP.fullmatch(line):
            # A newline is all that is escaped here.
            name = m[5].replace("\\012", "\n")
            found[int(m[1], 16)] = int(m[2], 16), m[3], int(m[4]), name
    return found


def join(counted: list[Counted], maps: dict[int, tuple[int, str, int, str]]) -> list[Mapping]:
    found: list[Mapping] = []
    for one in counted:
        nodes = {node: pages * one.page for node, pages in one.pages.items()}
        unknown = one.start + sum(nodes.values()), "????", 0, one.name
        end, flags, inode, name = maps.get(one.start, unknown)
        found.append(
            Mapping(one.start, end, flags, inode, name or one.name, one.policy, one.page, nodes)
        )
    return found


def mappings(pid: int) -> list[Mapping]:
    """All that a process has mapped. NotThere, NotAllowed, NoNuma."""
    return join(parse_counted(_read(pid, "numa_maps")), parse_maps(_read(pid, "maps")))


def status(pid: int) -> str:
    return _read(pid, "status")


def swapped(pid: int) -> int:
    """Bytes of it that are not in memory but swapped out."""
    found = re.search(r"^VmSwap:\s*(\d+) kB", status(pid), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


@dataclass
class _Thread:
    cpu: int  # on which it last ran
    used: int  # clock ticks
    cpus: set[int]  # on which it may run


def _threads(pid: int) -> list[_Thread]:
    found: list[_Thread] = []
    try:
        names = os.listdir(PROC / str(pid) / "task")
    except OSError as error:
        raise NotThere(pid) from error
    for name in names:
        try:
            text = (PROC / str(pid) / "task" / name / "stat").read_text(errors="replace")
            words = text.rpartition(")")[2].split()  # behind the name, which may be anything
            used = int(words[11]) + int(words[12])
            found.append(_Thread(int(words[36]), used, os.sched_getaffinity(int(name))))
        except (OSError, ValueError, IndexError):
            continue  # it ended meanwhile
    return found


def place(pid: int, nodes: dict[int, set[int]]) -> Place:
    """Where a process runs. A thread with less than a hundredth of its time, as one that waits
    for a message a second has, says nothing of that, unless all have."""
    node_of = {cpu: node for node, cpus in nodes.items() for cpu in cpus}
    threads = _threads(pid)
    total = sum(thread.used for thread in threads)
    busy = [thread for thread in threads if thread.used * 100 >= total]
    may = [{node_of[cpu] for cpu in thread.cpus if cpu in node_of} for thread in busy]
    return Place(
        threads=len(threads),
        nodes={node_of[thread.cpu] for thread in busy if thread.cpu in node_of},
        cpus=set().union(*(thread.cpus for thread in busy)),
        may=set().union(*may),
        free=any(len(nodes) > 1 for nodes in may),
    )


# --- page by page ---------------------------------------------------------------


def _nodes_of(pid: int, pages: array.array[int]) -> list[int]:
    """Of pages: the node, or a negative errno (-ENOENT: not in memory)."""
    number = MOVE_PAGES.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, "nobody has said how this processor calls move_pages()")
    count = len(pages)
    at = (ctypes.c_uint64 * count).from_buffer(pages)
    status = (ctypes.c_int * count)()
    libc = ctypes.CDLL(None, use_errno=True)
    long = ctypes.c_long
    if libc.syscall(long(number), long(pid), long(count), at, None, status, long(0)) < 0:
        code = ctypes.get_errno()
        if code in (errno.ESRCH, errno.EINVAL):  # it has ended, and may not be waited for yet
            raise NotThere(pid)
        raise OSError(code, os.strerror(code))
    return list(status)


def _in_memory(pid: int, mapping: Mapping) -> Iterator[array.array[int]]:
    """The addresses of its pages that are in memory, in parts; pagemap knows. Of most of a mapping
    that is huge and nearly empty it says the same: that is passed over as a whole."""
    step = mapping.page // PAGE
    try:
        fd = os.open(f"/proc/{pid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise NotThere(pid) from error
    try:
        at = mapping.start
        while at < mapping.end:
            count = min(max(BATCH, step), (mapping.end - at) // PAGE)
            data = os.pread(fd, 8 * count, at // PAGE * 8)
            count = len(data) // 8
            if not count:
                return
            here, at = at, at + count * PAGE
            if not data[7] & PRESENT and data == data[:8] * count:
                continue
            entries = memoryview(data).cast("Q")[::step]
            yield array.array(
                "Q", (here + i * mapping.page for i, e in enumerate(entries) if e >> 63)
            )
    finally:
        os.close(fd)


def ranges(pid: int, mapping: Mapping) -> Iterator[tuple[int, int, int]]:
    """Its pages that are in memory, as (start, end, node), each as long as they follow each other
    on one node. NotThere; OSError: the kernel has no move_pages, or doesn't permit it."""
    if not mapping.resident:
        return
    start, end, node = mapping.start, mapping.start, -1
    for pages in _in_memory(pid, mapping):
        if not pages:
            continue
        for at, on in zip(pages.tolist(), _nodes_of(pid, pages), strict=True):
            if on != node or at != end:
                if node >= 0:
                    yield start, end, node
                start, node = at, on
            end = at + mapping.page
    if node >= 0:
        yield start, end, node
