# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`beeline stat [PID] [--watch] [--json]`: what this user's running endpoints have
sent and received, and how. It only reads; the processes don't notice."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import time
from typing import Any

from beeline import jobs, needs, segments
from beeline.errors import EXIT_FAILURE, BeelineError
from beeline.segments import Count, Endpoint, Peer
from beeline.show import human, looking, plain_console, size

PERIOD = 1.0
# The order of the table, its words and what they mean, as beeline(1) says it too; paths
# that aren't known here come behind.
PATHS = {
    "inline": ("inline", "short enough to lie in one slot of the ring between the two"),
    "eager": ("eager", "longer, whole, through that ring"),
    "one_copy": ("one copy", "larger: copied once, by the receiver"),
    "split": ("split copies", "copied once, by both processes together"),
    "by_proxy": (
        "by proxy",
        "copied once, by the sender for the receiver, which may not read its memory, or can't",
    ),
    "fragmented": (
        "fragmented",
        "copied twice, in part or wholly, through the ring: no other way was permitted,"
        " both processes waited where a system call is dear, or its sender wanted to hear"
        " that a short one was delivered",
    ),
    "claimed": (
        "claimed",
        "copied once, by the sender, into a receive whose process was not in the library,"
        " mostly computing",
    ),
}
SHORT = ("inline", "eager")
# The same for one-sided operations: by this process itself, and on another's behalf.
ONE_SIDED = {
    "reads": "reads",
    "writes": "writes",
    "atomics": "atomics",
    "by_target": "short, by their target, which waited",
    "by_proxy": "by proxy (done by their target, for this process)",
    "served": "served (done here, for others)",
}
# What is done where the kernel refuses a direct copy, and reasons of another kind: the
# counter, why, what is done.
INSTEAD_OF_READING = "the sender copied, or both through the ring; targets did what was one-sided"
INSTEAD_OF_WRITING = "the receiver copied, or both through the ring; targets did what was one-sided"
# How a neighbour's memory is reached: segments.WAYS, in words.
WAYS = {
    "self": "same process",
    "vm": "directly",
    "none": "refused",
    "module": "by the module",
}
INSTEAD_THIS_TIME = "another way, that time only"
OTHER_REASONS = {
    "fallback_fault": (
        "memory that the kernel copies for its own process alone (EFAULT): write-only pages, "
        "secret memory, a device's, or none at all",
        "each process copied its own; targets did what was one-sided",
    ),
    "fallback_alone": (
        "no descriptor for sharing a large message was free",
        "one process copied it alone",
    ),
    "fallback_lock": (
        "the target's lock for atomic operations is not shared with this process",
        "the target did them",
    ),
    "fallback_behind": (
        "one-sided operations behind one that the target did keep their order",
        "the target did them too",
    ),
    "fallback_regions": (
        "one-sided operations on several regions with an eighth counter, or a later one",
        "the target did them",
    ),
}


@dataclasses.dataclass
class Fallback:
    peer: int | None  # a process; None: not known, or several
    times: int  # messages and one-sided operations
    call: str | None  # that was refused
    reason: str
    instead: str


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "stat",
        help="show what running processes have sent and received, and how",
        description="Counters of this user's running endpoints (for root, everybody's), or of "
        "those of one process.",
    )
    parser.add_argument("pid", metavar="PID", type=int, nargs="?", help="this process only")
    parser.add_argument(
        "--watch",
        "-w",
        nargs="?",
        type=seconds,
        const=PERIOD,
        metavar="SECONDS",
        help="go on, with rates, every second or every so many",
    )
    parser.add_argument("--json", action="store_true", help="for programs; with --watch by line")
    parser.set_defaults(func=main)


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.05 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"{text}: give seconds, from 0.05 to 3600")
    return value


# --- what there is -----------------------------------------------------------


def collect(pid: int | None) -> list[Endpoint]:
    """Every endpoint asked for; BeelineError says why there is none to be expected."""
    if pid is None:
        return segments.all_endpoints()
    with looking(pid):
        return segments.endpoints_of(pid)


def nothing(pid: int | None) -> str:
    if pid is None:
        whose = f" of {segments.user_name(os.geteuid())}" if os.geteuid() else ""
        return f"no process{whose} has a Beeline endpoint open"
    return f"process {pid} has no Beeline endpoint open"


def refused(peer: Peer) -> list[Fallback]:
    """Direct copies that the kernel refused, or for which it had no memory."""
    ways = (
        ("process_vm_readv", peer.pull, peer.pull_errno, peer.not_pulled, INSTEAD_OF_READING),
        ("process_vm_writev", peer.push, peer.push_errno, peer.not_pushed, INSTEAD_OF_WRITING),
    )
    found = [
        Fallback(peer.pid or None, times, call, segments.reason(code), instead)
        for call, way, code, times, instead in ways
        if times or way == "none"
    ]
    if peer.no_memory:
        why = "ENOMEM: the kernel had no memory for a direct copy just then"
        found.append(Fallback(peer.pid or None, peer.no_memory, None, why, INSTEAD_THIS_TIME))
    return found


def fallbacks(endpoint: Endpoint) -> list[Fallback]:
    """What took another way than planned, how often, and why."""
    found = [fallback for peer in endpoint.peers for fallback in refused(peer)]
    for counter, (reason, instead) in OTHER_REASONS.items():
        if times := endpoint.counters.get(counter, 0):
            found.append(Fallback(None, times, None, reason, instead))
    return found


def describe_peer(peer: Peer) -> dict[str, Any]:
    return {
        "pid": peer.pid or None,
        "endpoint": peer.endpoint,
        "state": peer.state,
        "error": segments.reason(peer.error) if peer.error else None,
        "polls_us": peer.polled,
        "copy": {
            "pull": peer.pull or None,
            "push": peer.push or None,
            "pull_refused": segments.reason(peer.pull_errno) if peer.pull_errno else None,
            "push_refused": segments.reason(peer.push_errno) if peer.push_errno else None,
        },
        "in_flight": peer.in_flight,
        "sent": dataclasses.asdict(peer.sent),
        "received": dataclasses.asdict(peer.received),
    }


def bytes_of(kind: str) -> str:
    return kind.removesuffix("s") + "_bytes"


def one_sided(counters: dict[str, int]) -> dict[str, int]:
    """Operations of each kind and their bytes."""
    keys = (key for kind in ONE_SIDED for key in (kind, bytes_of(kind)))
    return {key: counters.get(f"rma_{key}", 0) for key in keys}


def describe(endpoint: Endpoint) -> dict[str, Any]:
    counters = endpoint.counters
    member = jobs.place(endpoint.pid)
    return {
        "pid": endpoint.pid,
        "command": endpoint.command,
        "job": member.job.name or None,
        "rank": member.rank,
        "endpoint": endpoint.id,
        "open_seconds": round(endpoint.seconds, 3),
        "exact": endpoint.exact,
        "sent": {k: dataclasses.asdict(v) for k, v in endpoint.sent.items()},
        "received": {k: dataclasses.asdict(v) for k, v in endpoint.received.items()},
        "copied": {
            "pulled_bytes": counters.get("pulled_bytes", 0),
            "pushed_bytes": counters.get("pushed_bytes", 0),
        },
        "overlap": {
            "sent_bytes": counters.get("overlap_sent_bytes", 0),
            "received_bytes": counters.get("overlap_received_bytes", 0),
        },
        "one_sided": one_sided(counters),
        "unexpected": {
            "now": counters.get("unexpected", 0),
            "bytes": counters.get("unexpected_bytes", 0),
            "most": counters.get("unexpected_most", 0),
            "total": counters.get("unexpected_total", 0),
        },
        "failed": {
            "sends": counters.get("failed_sends", 0),
            "receives": counters.get("failed_receives", 0),
        },
        "fallbacks": [dataclasses.asdict(fallback) for fallback in fallbacks(endpoint)],
        "peers": [describe_peer(peer) for peer in endpoint.peers],
        "memory": {
            "shared_bytes": endpoint.segment_bytes,
            "private_bytes": counters.get("private_bytes", 0),
            "numa_node": endpoint.node if endpoint.node >= 0 else None,
        },
        "eager_max": endpoint.eager_max,
        "counters": counters,
    }


# --- tables ------------------------------------------------------------------


def cell(count: Count, before: Count | None, elapsed: float) -> tuple[str, str]:
    """Messages and bytes; with an earlier count, per second too."""
    if before is None or elapsed <= 0:
        return human(count.messages), human(count.bytes)
    rates = (
        max(count.messages - before.messages, 0) / elapsed,
        max(count.bytes - before.bytes, 0) / elapsed,
    )
    return tuple(
        f"{human(value)} ({human(rate)}/s)" if rate else human(value)
        for value, rate in zip((count.messages, count.bytes), rates, strict=True)
    )  # type: ignore[return-value]


def overlap(endpoint: Endpoint) -> list[str]:
    """How much of the large messages took none of this process's time; nothing if none did."""
    parts = [
        f"{size(meanwhile)} of {size(whole)} {way}"
        for way, paths in (("sent", endpoint.sent), ("received", endpoint.received))
        if (meanwhile := endpoint.counters.get(f"overlap_{way}_bytes", 0))
        and (whole := sum(c.bytes for path, c in paths.items() if path not in SHORT))
    ]
    if not parts:
        return []
    were = f"{' and '.join(parts)} was over before this process came back into MPI"
    return [f"overlap: of large messages {were}"]


def remarks(endpoint: Endpoint) -> list[str]:
    """What a table of numbers has no place for, in sentences."""
    lines: list[str] = []
    counters = endpoint.counters
    early, most = counters.get("unexpected", 0), counters.get("unexpected_most", 0)
    kept = size(counters.get("unexpected_bytes", 0))
    lines.append(
        f"unexpected (came before their receive): {early} now, {kept} kept here; {most} at most"
    )
    lines.append(
        f"memory: {size(endpoint.segment_bytes)} shared"
        + (f" on NUMA node {endpoint.node}" if endpoint.node >= 0 else "")
        + f", {size(counters.get('private_bytes', 0))} private"
    )
    lines += overlap(endpoint)
    for fallback in fallbacks(endpoint):
        who = f" with process {fallback.peer}" if fallback.peer else ""
        call = f"{fallback.call}: " if fallback.call else ""
        often = {0: "not needed yet", 1: "once"}.get(fallback.times)
        lines.append(
            f"fallback: {often or human(fallback.times) + ' times'}{who}: {call}{fallback.reason}"
        )
        lines.append(f"  instead: {fallback.instead}")
    operations = one_sided(counters)
    shown = [
        f"{human(operations[kind])} {words}, {size(operations[bytes_of(kind)])}"
        for kind, words in ONE_SIDED.items()
        if operations[kind]
    ]
    if shown:
        lines.append("one-sided: " + "; ".join(shown))
    if counters.get("copybuf"):
        lines.append(
            f"in turn: {human(counters['copybuf'])} messages sent in one place with the "
            "neighbour's, of two that answer each other"
        )
    failed = counters.get("failed_sends", 0), counters.get("failed_receives", 0)
    if any(failed):
        lines.append(f"failed: {failed[0]} large sends, {failed[1]} large receives")
    if not endpoint.exact:
        lines.append(
            "short messages are as of its last look around (its memory can't be read from here)"
        )
    return lines


def paths_table(endpoint: Endpoint, before: Endpoint | None) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("path")
    for head in ("sent", "bytes", "received", "bytes"):
        table.add_column(head, justify="right")
    elapsed = endpoint.seconds - before.seconds if before else 0.0
    known = [*PATHS, *sorted((endpoint.sent.keys() | endpoint.received.keys()) - PATHS.keys())]
    for path in known:
        sent, received = (side.get(path, Count()) for side in (endpoint.sent, endpoint.received))
        if not (sent.messages or received.messages) and path not in SHORT:
            continue
        was = [
            side.get(path, Count()) if before else None
            for side in ((before.sent, before.received) if before else ({}, {}))
        ]
        table.add_row(
            PATHS[path][0] if path in PATHS else path.replace("_", " "),
            *cell(sent, was[0], elapsed),
            *cell(received, was[1], elapsed),
        )
    return table


def peers_table(endpoint: Endpoint) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for head in ("peer", "state"):
        table.add_column(head)
    for head in ("sent", "bytes", "received", "bytes", "in flight"):
        table.add_column(head, justify="right")
    for head in ("reads it", "writes it"):
        table.add_column(head)
    for peer in endpoint.peers:
        state = peer.state + (f": {segments.reason(peer.error)}" if peer.error else "")
        table.add_row(
            str(peer.pid) if peer.pid else peer.endpoint[:8],
            state,
            *cell(peer.sent, None, 0),
            *cell(peer.received, None, 0),
            str(peer.in_flight),
            WAYS.get(peer.pull, ""),
            WAYS.get(peer.push, ""),
        )
    return table


def legend(endpoints: list[Endpoint]) -> list[str]:
    """What the words above mean, of those that occur."""
    used = {
        path
        for endpoint in endpoints
        for side in (endpoint.sent, endpoint.received)
        for path, count in side.items()
        if count.messages
    }
    width = max(len(word) for word, _ in PATHS.values())
    lines = [f"  {word:{width}}  {means}" for path, (word, means) in PATHS.items() if path in used]
    if lines:
        lines.insert(0, "Paths of messages:")
    if any(peer.in_flight for endpoint in endpoints for peer in endpoint.peers):
        lines.append("In flight: packets that the peer hasn't acknowledged; a few are normal.")
    if any(fallback.call for endpoint in endpoints for fallback in fallbacks(endpoint)):
        lines.append("`beeline doctor` says why the kernel refuses a direct copy.")
    return lines


def endpoint_parts(endpoint: Endpoint, rank: int | None, before: Endpoint | None) -> list[Any]:
    from rich.text import Text

    who = f"{endpoint.command} {endpoint.pid}" + ("" if rank is None else f", rank {rank}")
    title = f"{who}, endpoint {endpoint.id[:8]}, open for {endpoint.seconds:.1f} s"
    parts = [Text(title, style="bold"), paths_table(endpoint, before)]
    if endpoint.peers:
        parts.append(peers_table(endpoint))
    return parts + [Text(f"  {line}") for line in remarks(endpoint)] + [Text()]


def rendering(endpoints: list[Endpoint], before: dict[str, Endpoint], notes: list[str]) -> Any:
    from rich.console import Group
    from rich.text import Text

    parts: list[Any] = []
    places = jobs.places(endpoint.pid for endpoint in endpoints)
    groups = jobs.by_job(endpoints, lambda endpoint: places[endpoint.pid])
    for job, members in groups:
        if job != jobs.NONE or len(groups) > 1:
            numbers = (places[endpoint.pid].rank for endpoint in members)
            parts += [Text(jobs.heading(job, numbers), style="bold underline"), Text()]
        for endpoint in members:
            parts += endpoint_parts(endpoint, places[endpoint.pid].rank, before.get(endpoint.id))
    return Group(*parts, *(Text(line) for line in [*legend(endpoints), *notes]))


# --- the command --------------------------------------------------------------


class Watch:
    """One round after the other; remembers who was there."""

    def __init__(self, pid: int | None) -> None:
        self.pid = pid
        self.before: dict[str, Endpoint] = {}
        self.over = False

    def round(self) -> tuple[list[Endpoint], list[str]]:
        """What is there now, and what has ended since: an ordinary event."""
        try:
            endpoints = collect(self.pid)
        except BeelineError:
            if self.pid is None or not self.before:
                raise
            endpoints = []
        now = {endpoint.id for endpoint in endpoints}
        gone = [e for e in self.before.values() if e.id not in now]
        self.over = self.pid is not None and not endpoints
        return endpoints, [
            f"{e.command} {e.pid}, endpoint {e.id[:8]}: "
            + ("closed its endpoint" if self._alive(e.pid) else "has ended")
            for e in gone
        ]

    def remember(self, endpoints: list[Endpoint]) -> None:
        self.before = {endpoint.id: endpoint for endpoint in endpoints}

    @staticmethod
    def _alive(pid: int) -> bool:
        try:
            segments.owner(pid)
        except segments.NotThere:
            return False
        return True


def watch_json(watch: Watch, period: float) -> None:
    while not watch.over:
        endpoints, notes = watch.round()
        line = {"endpoints": [describe(e) for e in endpoints], "ended": notes}
        print(json.dumps(line), flush=True)
        watch.remember(endpoints)
        if not watch.over:
            time.sleep(period)


def watch_lines(watch: Watch, period: float) -> None:
    """One frame after the other, for a pipe, a file, or a terminal that can't go back."""
    console = plain_console()
    while not watch.over:
        endpoints, notes = watch.round()
        extra = notes if endpoints else [*notes, nothing(watch.pid)]
        print(time.strftime("%H:%M:%S"))
        console.print(rendering(endpoints, watch.before, extra))
        sys.stdout.flush()
        watch.remember(endpoints)
        if not watch.over:
            time.sleep(period)


def watch_table(watch: Watch, period: float) -> None:
    from rich.live import Live
    from rich.text import Text

    if not sys.stdout.isatty() or plain_console().is_dumb_terminal:
        watch_lines(watch, period)
        return
    said: list[str] = []
    with Live(Text(), auto_refresh=False, vertical_overflow="visible") as live:
        while not watch.over:
            endpoints, notes = watch.round()
            said = [*said, *notes][-8:]
            extra = said if endpoints else [*said, nothing(watch.pid)]
            live.update(rendering(endpoints, watch.before, extra), refresh=True)
            watch.remember(endpoints)
            if not watch.over:
                time.sleep(period)


def main(args: argparse.Namespace) -> int:
    if not args.json:
        needs.tables("; or ask for --json")
    if args.watch is not None:
        endpoints = collect(args.pid)
        if args.pid is not None and not endpoints:
            raise BeelineError(nothing(args.pid))
        watch = Watch(args.pid)
        watch.remember(endpoints)
        (watch_json if args.json else watch_table)(watch, args.watch)
        return 0
    endpoints = collect(args.pid)
    if args.json:
        print(json.dumps({"endpoints": [describe(e) for e in endpoints]}, indent=2))
    elif endpoints:
        plain_console().print(rendering(endpoints, {}, []), end="")
    if not endpoints:
        print(f"beeline: {nothing(args.pid)}", file=sys.stderr)
        return EXIT_FAILURE
    return 0
