# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Reads what running endpoints show of themselves: src/transport/local/lane/stats.h says what that
is and where it lies.

An endpoint's header is a memfd that its process keeps open; it is found among
/proc/PID/fd and read through there, a copy at a time. What it doesn't show is read
from /proc/PID/mem, where the kernel lets us. Nothing is mapped, so no process that
ends can take memory away under us; nothing is written, and the process takes no
part. Every size and place in it may be nonsense and is checked. A process that ends
meanwhile is no error: it is not in the answer.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import re
import stat
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
LINK = re.compile(r"^/memfd:beeline(?: |$)")
FILE = re.compile(r"^/memfd:beeline(?:-[a-z]+)?(?: |$)")  # by link/segment.c

# struct bl_seg_header and, at its end, struct bl_stats
PAGE = 4096
SEGMENT_MAGIC, SEGMENT_VERSION = 0x67657342, 26
SEGMENT = struct.Struct("<IHH16s")
LIFE_AT = 64
LIFE = struct.Struct("<II")
FUTEX_OWNER_DIED = 0x40000000
STATS_MAGIC, STATS_VERSION = 0x74617453, 3
STATS = struct.Struct("<IHHIiQII5H7H8x")
COUNTER = struct.Struct("<32sQ")
COUNTERS_MOST = 72
STATS_AT = PAGE - STATS.size - COUNTERS_MOST * COUNTER.size
COUNTER_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")

BELLS_SIZE = 4096

# struct bl_lane_stats, and the line of a lane that its receiver writes
LANE = struct.Struct("<16sIiBBBxHHHxx3I2Q8Q4Q")
CREDITS = struct.Struct("<IIQQQ")
SLOT = struct.Struct("<II")
LANES_MOST = 4096
LANE_USED_MOST = 1 << 16  # bytes: whoever says more would have us read for hours

STATES = ("", "connecting", "connected", "closed", "died", "broken", "failed")
WAYS = ("self", "vm", "none", "module")
NO_REASON = {
    # what isn't the kernel's word (src/copy/engine.c)
    errno.ESRCH: "it is not visible from here: another PID namespace",
    errno.ENOTSUP: "FI_BEELINE_COPY forbids it",
}

MASK32, MASK64 = (1 << 32) - 1, (1 << 64) - 1


@dataclass
class Count:
    messages: int = 0
    bytes: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(self.messages + other.messages, self.bytes + other.bytes)


@dataclass
class Packets:
    """What went one way through a lane: all packets, and those longer than a slot."""

    number: int = 0
    bytes: int = 0
    long: int = 0
    long_bytes: int = 0

    def __add__(self, other: Packets) -> Packets:
        return Packets(
            self.number + other.number,
            self.bytes + other.bytes,
            self.long + other.long,
            self.long_bytes + other.long_bytes,
        )


@dataclass
class Peer:
    """One neighbour, as the endpoint sees it."""

    pid: int  # 0: not visible to that process
    endpoint: str
    state: str
    error: int
    polled: bool | None  # it polls the lane; else we ring its doorbell; None: not known
    pull: str  # how we read its memory, and how we write it
    push: str
    pull_errno: int
    push_errno: int
    not_pulled: int  # messages and operations that took another way because of these
    not_pushed: int
    no_memory: int  # and because the kernel had none for a copy just then
    in_flight: int  # packets that it hasn't acknowledged
    lane: int  # where in this process's memory the ring to it is said to begin; 0: there is none
    sent: Count
    received: Count


@dataclass
class Endpoint:
    pid: int
    uid: int
    command: str
    id: str
    seconds: float  # since it was opened
    exact: bool  # messages are as of now; else as of its last look, 10 ms or less
    # before it was last in the library
    eager_max: int
    node: int
    sent: dict[str, Count]
    received: dict[str, Count]
    counters: dict[str, int]
    peers: list[Peer]
    segment_bytes: int

    @property
    def name(self) -> str:
        return f"{self.pid}/{self.id[:8]}"


# --- processes ---------------------------------------------------------------


class NotThere(Exception):
    """No such process."""


class NotAllowed(Exception):
    """It is another user's, or the kernel doesn't let us look."""


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def owner(pid: int) -> int:
    """The user a process runs as (not the owner of /proc/PID, which is root where
    the process may not be dumped)."""
    for line in _status(pid).splitlines():
        if line.startswith("Uid:"):
            return int(line.split()[2])
    raise NotThere(pid)


def _status(pid: int) -> str:
    try:
        return (PROC / str(pid) / "status").read_text(errors="replace")
    except OSError as error:
        raise NotThere(pid) from error


def _own_pid(pid: int) -> int:
    """The process's number in its own PID namespace."""
    for line in _status(pid).splitlines():
        if line.startswith("NSpid:"):
            return int(line.split()[-1])
    return pid


def command(pid: int) -> str:
    try:
        words = (PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    name = os.path.basename(words[0].decode(errors="replace"))
    return "".join(c if c.isprintable() else "?" for c in name)


def processes() -> Iterator[int]:
    """Those of this user; for root, everybody's."""
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            try:
                if os.geteuid() in (0, owner(int(entry.name))):
                    yield int(entry.name)
            except NotThere:
                pass


def files(pid: int) -> set[int]:
    """The inodes of the shared memory that a process keeps open: its own, and, for a moment, what
    is on its way to or from a neighbour. NotThere, NotAllowed."""
    found: set[int] = set()
    for path in _open_files(pid, FILE):
        with contextlib.suppress(OSError):  # closed meanwhile
            found.add(os.stat(path).st_ino)
    return found


def _segments(pid: int) -> Iterator[str]:
    """Of its endpoints, the headers."""
    return _open_files(pid, LINK)


def _open_files(pid: int, names_like: re.Pattern[str]) -> Iterator[str]:
    folder = PROC / str(pid) / "fd"
    try:
        names = sorted(os.listdir(folder), key=int)
    except FileNotFoundError as error:
        raise NotThere(pid) from error
    except PermissionError as error:
        raise NotAllowed(pid) from error
    for name in names:
        try:
            if names_like.match(os.readlink(folder / name)):
                yield str(folder / name)
        except OSError:  # closed meanwhile
            pass


# --- memory ------------------------------------------------------------------


class _Memory:
    """What is private to the process: a few words per neighbour, if we may."""

    def __init__(self, pid: int) -> None:
        try:
            self.fd = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self.fd = -1

    def read(self, address: int, size: int) -> bytes | None:
        if self.fd < 0 or not 0 < address < 1 << 63:
            return None
        try:
            data = os.pread(self.fd, size, address)
        except (OSError, OverflowError):
            return None
        return data if len(data) == size else None

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)


@dataclass
class _Layout:
    lane_size: int
    slots: int
    slot_size: int
    slot_at: int
    shown_at: int  # what is shown of neighbours, in the file
    shown_size: int
    rx_next: int
    rx_bytes: int
    rx_total: int
    rx_long: int
    rx_long_bytes: int
    rx_size: int
    in_slot: int  # bytes of a packet that lie in its slot

    @property
    def lane_used(self) -> int:
        """Of a lane, by us."""
        return self.slot_at + self.slots * self.slot_size

    @property
    def sane(self) -> bool:
        return (
            PAGE <= self.lane_size <= 1 << 24
            and 0 < self.slots <= 4096
            and SLOT.size <= self.slot_size
            and self.slot_at >= CREDITS.size
            and self.lane_used <= min(self.lane_size, LANE_USED_MOST)
            and self.shown_at >= PAGE
            and LANE.size <= self.shown_size <= PAGE
            and max(self.rx_total, self.rx_long, self.rx_long_bytes) + 8 <= self.rx_size
            and max(self.rx_next, self.rx_bytes) + 4 <= self.rx_size
            and self.rx_size <= PAGE
        )


def _extend(base: int, low: int) -> int:
    """A number of the ring, of which 32 bits are known, not before `base`."""
    return base + ((low - base) & MASK32)


def _in_lane(lane: bytes, layout: _Layout, shown: int) -> tuple[Packets, int]:
    """Everything put into the lane, from its slots and its receiver's word; and how
    much of it is in flight."""
    consumed32, _, told_bytes, told_long, told_long_bytes = CREDITS.unpack_from(lane, 0)
    head: dict[int, int] = {}
    number = shown
    for i in range(layout.slots):
        seq, word = SLOT.unpack_from(lane, layout.slot_at + i * layout.slot_size)
        if not seq or (seq - 1) % layout.slots != i:
            continue
        packet = _extend(shown - min(shown, layout.slots), (seq - 1) & MASK32)
        if packet - shown < 1 << 31:
            head[packet] = word & 0xFFFF
            number = max(number, packet + 1)
    in_flight = (number - consumed32) & MASK32
    packets = Packets(number, told_bytes, told_long, told_long_bytes)
    if in_flight > layout.slots:  # a neighbour's nonsense, or caught in the act
        return packets, 0
    for packet in range(number - in_flight, number):
        length = head.get(packet, 0)
        packets.bytes += length
        if length > layout.in_slot:
            packets.long += 1
            packets.long_bytes += length
    return packets, in_flight


def _sent(
    memory: _Memory, layout: _Layout, address: int, shown: Packets
) -> tuple[Packets, int, bool | None, bool]:
    """What has been sent, how much of it is in flight, whether the receiver polls, and
    whether that is as of now."""
    lane = memory.read(address, layout.lane_used)
    if lane is None:
        return shown, 0, None, False
    packets, in_flight = _in_lane(lane, layout, shown.number)
    # Another's memory by now: it would have gone backwards.
    if packets.bytes < shown.bytes or packets.long > packets.number:
        return shown, 0, None, False
    return packets, in_flight, bool(struct.unpack_from("<I", lane, 64)[0]), True


def _received(
    memory: _Memory, layout: _Layout, address: int, shown: Packets
) -> tuple[Packets, bool]:
    data = memory.read(address, layout.rx_size)
    if data is None:
        return shown, False

    def u32(at: int) -> int:
        return struct.unpack_from("<I", data, at)[0]

    def u64(at: int) -> int:
        return struct.unpack_from("<Q", data, at)[0]

    now = Packets(
        _extend(shown.number, u32(layout.rx_next)),
        u64(layout.rx_total) + u32(layout.rx_bytes),
        u64(layout.rx_long),
        u64(layout.rx_long_bytes),
    )
    # Freed or overwritten meanwhile: it would have gone backwards.
    if now.number - shown.number >= 1 << 31 or now.bytes < shown.bytes or now.long > now.number:
        return shown, False
    return now, True


# --- one endpoint ------------------------------------------------------------


def _short(packets: Packets, counters: dict[str, int], way: str) -> dict[str, Count]:
    """What remains of all packets when those that are no short message are taken away."""

    def at_least_0(value: int) -> int:  # the two are not read in the same instant
        return max(value, 0)

    control = counters.get(f"control_{way}", 0), counters.get(f"control_{way}_bytes", 0)
    fragment = counters.get(f"fragment_{way}", 0), counters.get(f"fragment_{way}_bytes", 0)
    return {
        "inline": Count(
            at_least_0(packets.number - packets.long - control[0]),
            at_least_0(packets.bytes - packets.long_bytes - control[1]),
        ),
        "eager": Count(
            at_least_0(packets.long - fragment[0]),
            at_least_0(packets.long_bytes - fragment[1]),
        ),
    }


def _paths(counters: dict[str, int], prefix: str) -> dict[str, Count]:
    return {
        name.removeprefix(prefix): Count(value, counters[f"{name}_bytes"])
        for name, value in counters.items()
        if name.startswith(prefix) and f"{name}_bytes" in counters
    }


def _difference(value: int) -> int:
    """A sum of 64 bits that may have gone below 0."""
    return value - (1 << 64) if value >> 63 else value


def _counters(page: bytes, count: int) -> dict[str, int]:
    counters: dict[str, int] = {}
    for i in range(count):
        raw, value = COUNTER.unpack_from(page, STATS_AT + STATS.size + i * COUNTER.size)
        name = raw.split(b"\0")[0].decode("ascii", errors="replace")
        if COUNTER_NAME.match(name):
            counters[name] = value
    return counters


def _lane(
    record: bytes, layout: _Layout, memory: _Memory
) -> tuple[Peer, Packets, Packets, bool] | None:
    (
        raw_id,
        pid,
        seen,
        state,
        pull,
        push,
        pull_why,
        push_why,
        error,
        not_pulled,
        not_pushed,
        no_memory,
        rx,
        lane,
        *rest,
    ) = LANE.unpack_from(record)
    other_out, other_out_bytes, other_in, other_in_bytes = map(_difference, rest[8:])
    if not 0 < state < len(STATES) or max(pull, push) >= len(WAYS):
        return None
    connected = STATES[state] not in ("connecting", "failed")
    sent, in_flight, polled, sent_now = _sent(memory, layout, lane, Packets(*rest[:4]))
    received, received_now = _received(memory, layout, rx, Packets(*rest[4:8]))
    peer = Peer(
        pid=(seen if seen > 0 else 0) if connected else pid,
        endpoint=raw_id.hex(),
        state=STATES[state],
        error=error,
        polled=polled,
        pull=WAYS[pull] if connected else "",
        push=WAYS[push] if connected else "",
        pull_errno=pull_why,
        push_errno=push_why,
        not_pulled=not_pulled,
        not_pushed=not_pushed,
        no_memory=no_memory,
        in_flight=in_flight if STATES[state] == "connected" else 0,
        lane=lane,
        sent=Count(max(sent.number - other_out, 0), max(sent.bytes - other_out_bytes, 0)),
        received=Count(max(received.number - other_in, 0), max(received.bytes - other_in_bytes, 0)),
    )
    return peer, sent, received, (sent_now and received_now) or not connected


def _read(fd: int, pid: int, memory: _Memory) -> Endpoint | None:
    """The endpoint behind an open segment; None: it shows nothing (any more)."""
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):  # in a namespace of its own anything may bear the name
        return None
    size = status.st_size
    page = os.pread(fd, PAGE, 0)
    if len(page) < PAGE:
        return None
    magic, version, _, raw_id = SEGMENT.unpack_from(page, 0)
    life, closed = LIFE.unpack_from(page, LIFE_AT)
    if magic != SEGMENT_MAGIC or version != SEGMENT_VERSION or closed or life & FUTEX_OWNER_DIED:
        return None
    magic, version, count, own_pid, node, began, eager_max, lane_size, *places = STATS.unpack_from(
        page, STATS_AT
    )
    layout = _Layout(lane_size, *places)
    if magic != STATS_MAGIC or version != STATS_VERSION or count > COUNTERS_MOST:
        return None
    # A segment on its way to a neighbour is open there too, for a moment.
    if own_pid != _own_pid(pid) or not layout.sane:
        return None

    counters = _counters(page, count)
    peers: list[Peer] = []
    sent, received, all_exact = Packets(), Packets(), True
    most = layout.shown_size * LANES_MOST
    records = os.pread(fd, min(max(size - layout.shown_at, 0), most), layout.shown_at)
    for at in range(0, len(records) - layout.shown_size + 1, layout.shown_size):
        found = _lane(records[at : at + layout.shown_size], layout, memory)
        if found:
            peers.append(found[0])
            sent += found[1]
            received += found[2]
            all_exact &= found[3]
    lanes = sum(peer.state not in ("connecting", "failed") for peer in peers)
    return Endpoint(
        pid=pid,
        uid=owner(pid),
        command=command(pid),
        id=raw_id.hex(),
        seconds=max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - began / 1e9),
        exact=all_exact,
        eager_max=eager_max,
        node=node,
        sent=_short(sent, counters, "out") | _paths(counters, "sent_"),
        received=_short(received, counters, "in") | _paths(counters, "received_"),
        counters=counters,
        peers=peers,
        segment_bytes=size + BELLS_SIZE + lanes * lane_size + counters.get("longring_bytes", 0),
    )


def endpoints_of(pid: int) -> list[Endpoint]:
    """All endpoints of one process. NotThere, NotAllowed."""
    found: list[Endpoint] = []
    memory = _Memory(pid)
    seen: set[tuple[int, int]] = set()  # a segment counts once, however many descriptors it has
    try:
        for path in _segments(pid):
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            except FileNotFoundError:
                continue
            except PermissionError as error:
                raise NotAllowed(pid) from error
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    raise
                continue  # no segment
            try:
                status = os.fstat(fd)
                file = (status.st_dev, status.st_ino)
                endpoint = None if file in seen else _read(fd, pid, memory)
                seen.add(file)
            except (NotThere, OSError):  # it ended while we looked, or is no segment
                endpoint = None
            finally:
                os.close(fd)
            if endpoint:
                found.append(endpoint)
    finally:
        memory.close()
    return found


def all_endpoints() -> list[Endpoint]:
    """Those of this user; for root, everybody's."""
    found: list[Endpoint] = []
    for pid in sorted(processes()):
        try:
            found += endpoints_of(pid)
        except (NotThere, NotAllowed):
            continue
    return found


def reason(code: int) -> str:
    """Why a direct copy wasn't possible."""
    name = errno.errorcode.get(code, str(code))
    return f"{name}: {NO_REASON.get(code) or os.strerror(code)}"
