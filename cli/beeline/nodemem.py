# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`beeline nodemem [PID ...] [--mappings | --ranges] [--json]`: on which NUMA node the memory of
processes lies, and where they run: what /proc/PID/nodemem showed in "Design Considerations for
Shared Memory MPI Implementations on Linux NUMA Systems" (Ekman, Mucci, Parrott and Brantley), on
a kernel as it is. It only reads; nothing is moved."""

from __future__ import annotations

import argparse
import errno
import json
import os
import re
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from beeline import jobs, numa, segments
from beeline.errors import BeelineError, warn
from beeline.numa import Mapping
from beeline.segments import Endpoint
from beeline.show import looking, number_list, size

OWN = "Beeline, its own"
NEIGHBOURS = "Beeline, its neighbours'"
FILES = "programs, libraries, files"
ANONYMOUS = "anonymous"
MUCH = 0.05  # of what it has in memory, elsewhere, is worth a remark
SHARED = re.compile(r"/(?:memfd:|dev/shm/|SYSV|dev/zero)")


@dataclass
class Process:
    pid: int
    command: str
    place: numa.Place
    mappings: list[Mapping]
    kinds: dict[int, str]  # of a mapping, by its start
    swapped: int
    endpoints: list[Endpoint]
    ranges: dict[int, list[tuple[int, int, int]]] = field(default_factory=dict)
    member: jobs.Place = field(default_factory=jobs.Place)

    def elsewhere(self, nodes: dict[int, int]) -> int:
        """Bytes that aren't on a node where it runs; 0 where that isn't known."""
        on = self.place.nodes
        return sum(count for node, count in nodes.items() if node not in on) if on else 0


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "nodemem",
        help="show on which NUMA node the memory of running processes lies",
        description="On which NUMA node the memory of processes lies, and where they run. "
        "Without a PID: of this user's processes (for root, everybody's) that have a Beeline "
        "endpoint open. Nothing is moved.",
    )
    parser.add_argument("pid", metavar="PID", type=int, nargs="*", help="these processes")
    more = parser.add_mutually_exclusive_group()
    more.add_argument("--mappings", action="store_true", help="each mapping by itself")
    more.add_argument(
        "--ranges",
        action="store_true",
        help="and each range of pages that follow each other on one node",
    )
    parser.add_argument("--json", action="store_true", help="each mapping, for programs")
    parser.set_defaults(func=main)


# --- what there is -----------------------------------------------------------


def sum_of(nodes: Iterable[dict[int, int]]) -> dict[int, int]:
    total: dict[int, int] = {}
    for one in nodes:
        for node, count in one.items():
            total[node] = total.get(node, 0) + count
    return total


def mapped(mappings: list[Mapping]) -> int:
    return sum(mapping.size for mapping in mappings)


def memory_of(process: Process) -> dict[int, int]:
    return sum_of(mapping.nodes for mapping in process.mappings)


def kind(mapping: Mapping, own_files: set[int] | None, lanes: set[int]) -> str:
    """What a mapping is, in the table's words; own_files: None, if the process has no endpoint. A
    ring that is made longer has two mappings, the second of which doesn't begin where a ring does:
    its file is known by then."""
    name = mapping.name.removesuffix(" (deleted)")
    if own_files is not None and segments.FILE.match(name):
        ours = mapping.inode in own_files or mapping.start in lanes
        if ours:
            own_files.add(mapping.inode)
        return OWN if ours else NEIGHBOURS
    if not name or name.startswith("[anon:"):
        return f"{ANONYMOUS}: {name[6:-1]}" if name else ANONYMOUS
    if name == "/anon_hugepage":
        return f"{ANONYMOUS}, huge pages"
    if name.startswith("[anon_shmem:"):
        return f"shared: {name[12:-1]}"
    if name.startswith("["):
        return name.strip("[]")
    return name if SHARED.match(name) else FILES


def look(pid: int, machine: dict[int, set[int]]) -> Process:
    if "\nVmSize:" not in numa.status(pid):  # nor can anything else of it be looked at
        raise BeelineError(f"process {pid} has no memory: it is the kernel's, or has ended")
    endpoints = segments.endpoints_of(pid)
    lanes = {peer.lane for endpoint in endpoints for peer in endpoint.peers}
    files = segments.files(pid) if endpoints else None
    mappings = numa.mappings(pid)
    return Process(
        pid=pid,
        command=segments.command(pid),
        place=numa.place(pid, machine),
        mappings=mappings,
        kinds={m.start: kind(m, files, lanes) for m in sorted(mappings, key=lambda m: m.start)},
        swapped=numa.swapped(pid),
        endpoints=endpoints,
        member=jobs.place(pid),
    )


def find_ranges(process: Process) -> None:
    """Without them there are the counts, and a warning."""
    try:
        for mapping in process.mappings:
            process.ranges[mapping.start] = list(numa.ranges(process.pid, mapping))
    except OSError as error:
        process.ranges = {}
        refused = error.errno == errno.EPERM
        warn(
            f"process {process.pid}: no ranges, for the kernel doesn't tell where single pages lie "
            f"(move_pages: {error.strerror}{', as containers may have it' if refused else ''})"
        )


def asked_for(pids: list[int]) -> list[int]:
    if os.readlink("/proc/self") != str(os.getpid()):
        raise BeelineError("/proc is another PID namespace's: mount that of this one, or leave it")
    if pids:
        return list(dict.fromkeys(pids))
    found = sorted({endpoint.pid for endpoint in segments.all_endpoints()})
    if not found:
        raise BeelineError(
            "no process has a Beeline endpoint open; name any other: beeline nodemem PID"
        )
    return found


def collect(args: argparse.Namespace, machine: dict[int, set[int]]) -> list[Process]:
    """Of several processes one that ended meanwhile is left out, with a warning."""
    found: list[Process] = []
    pids = asked_for(args.pid)
    for pid in pids:
        try:
            with looking(pid):
                process = look(pid, machine)
                if args.ranges:
                    find_ranges(process)
            found.append(process)
        except numa.NoNuma:
            raise BeelineError(
                "this kernel knows no NUMA nodes (no /proc/PID/numa_maps): all memory is as near"
            ) from None
        except BeelineError as error:
            if len(pids) == 1:
                raise
            warn(str(error))
    return found


# --- for programs -------------------------------------------------------------


def by_name(nodes: dict[int, int]) -> dict[str, int]:
    return {str(node): count for node, count in sorted(nodes.items())}


def describe_mapping(process: Process, mapping: Mapping) -> dict[str, Any]:
    said = {
        "start": f"{mapping.start:x}",
        "end": f"{mapping.end:x}",
        "flags": mapping.flags,
        "name": mapping.name or None,
        "kind": process.kinds[mapping.start],
        "policy": mapping.policy,
        "page_bytes": mapping.page,
        "nodes": by_name(mapping.nodes),
    }
    if mapping.start in process.ranges:
        said["ranges"] = [
            {"start": f"{start:x}", "end": f"{end:x}", "node": node}
            for start, end, node in process.ranges[mapping.start]
        ]
    return said


def describe(process: Process) -> dict[str, Any]:
    nodes = memory_of(process)
    return {
        "pid": process.pid,
        "command": process.command,
        "job": process.member.job.name or None,
        "rank": process.member.rank,
        "threads": process.place.threads,
        "runs_on": sorted(process.place.nodes),
        "may_run_on": sorted(process.place.may),
        "nodes": by_name(nodes),
        "elsewhere_bytes": process.elsewhere(nodes),
        "swapped_bytes": process.swapped,
        "endpoints": [
            {"endpoint": e.id, "numa_node": e.node if e.node >= 0 else None}
            for e in process.endpoints
        ],
        "mappings": [describe_mapping(process, m) for m in process.mappings],
    }


# --- tables -------------------------------------------------------------------


def printable(name: str) -> str:
    """A file may be called anything."""
    return "".join(c if c.isprintable() else "?" for c in name)


def share(part: int, whole: int) -> str:
    if not part:
        return ""
    percent = 100 * part / whole
    return "< 1 %" if percent < 1 else f"{percent:.0f} %"


def node_words(nodes: set[int]) -> str:
    return f"node{'s' if len(nodes) > 1 else ''} {number_list(nodes)}"


def columns(processes: list[Process]) -> list[int]:
    """Nodes worth a column: with memory of these, or where they run."""
    found: set[int] = set()
    for process in processes:
        found |= process.place.nodes | memory_of(process).keys()
    return sorted(found)


class Table:
    """Bytes on each node, in rows whose first words say of what. By hand, and not by rich: a
    process may have tens of thousands of mappings, and a machine more nodes than a line has room
    for. Into a pipe lines are as long as they are."""

    def __init__(self, heads: tuple[str, ...], nodes: list[int], several: bool) -> None:
        self.words = len(heads)
        self.nodes = nodes
        self.several = several  # the machine's nodes: else nothing is elsewhere
        self.heads = [*heads, "mapped", "in memory"]
        self.rows: list[tuple[list[str], dict[int, int], str]] = []

    def add(self, what: list[str], process: Process, mapped: int, nodes: dict[int, int]) -> None:
        self.put(what, mapped, nodes, process.elsewhere(nodes))

    def put(self, what: list[str], mapped: int, nodes: dict[int, int], elsewhere: int) -> None:
        resident = sum(nodes.values())
        row = [*map(printable, what), size(mapped), size(resident)]
        self.rows.append((row, nodes, share(elsewhere, resident)))

    def _wide(self) -> list[list[str]]:
        rows = [[*self.heads, *(f"node {node}" for node in self.nodes), "elsewhere"]]
        for row, nodes, elsewhere in self.rows:
            counts = (size(nodes[node]) if node in nodes else "" for node in self.nodes)
            rows.append([*row, *counts, elsewhere])
        return [row[: None if self.several else -1] for row in rows]

    def _narrow(self) -> list[list[str]]:
        """Without a column for each node."""
        rows = [[*self.heads, "elsewhere", "node: memory"]]
        for row, nodes, elsewhere in self.rows:
            counts = (f"{node}: {size(count)}" for node, count in sorted(nodes.items()))
            rows.append([*row, elsewhere, ", ".join(counts)])
        return rows

    def lines(self, width: int | None) -> list[str]:
        """Of so many characters, if that can be; the last row is of all."""
        rows, left = self._wide(), {*range(self.words)}
        if width is not None and sum(widths(rows)) + 3 * len(rows[0]) > width:
            rows, left = self._narrow(), {*range(self.words), self.words + 3}
        room = widths(rows)
        found = [line(row, room, left) for row in rows]
        rule = " " + "─" * (max(map(len, found)) - 1)
        return ["", found[0], rule, *found[1:-1], "", found[-1], ""]


def widths(rows: list[list[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def line(row: list[str], room: list[int], left: set[int]) -> str:
    cells = (
        cell.ljust(room[i]) if i in left else cell.rjust(room[i]) for i, cell in enumerate(row)
    )
    return (" " + "   ".join(cells)).rstrip()


def table_of_kinds(process: Process, several: bool) -> Table:
    """One process, by what its memory is; what has none isn't in it."""
    table = Table(("what",), columns([process]), several)
    kinds: dict[str, list[Mapping]] = {}
    for mapping in process.mappings:
        kinds.setdefault(process.kinds[mapping.start], []).append(mapping)
    rows = [(name, mapped(ms), sum_of(m.nodes for m in ms)) for name, ms in kinds.items()]
    for name, total, nodes in sorted(rows, key=lambda row: -sum(row[2].values())):
        if nodes:
            table.add([name], process, total, nodes)
    table.add(["all"], process, mapped(process.mappings), memory_of(process))
    return table


def table_of_mappings(process: Process, several: bool) -> Table:
    """And each mapping by itself, and the ranges of those that have several."""
    table = Table(("mapping", "what", "policy"), columns([process]), several)
    for mapping in process.mappings:
        if not mapping.resident:
            continue
        name = mapping.name or ANONYMOUS
        if process.kinds[mapping.start] in (OWN, NEIGHBOURS):
            name += f" ({process.kinds[mapping.start]})"
        what = [f"{mapping.start:x}-{mapping.end:x}", name, mapping.policy]
        table.add(what, process, mapping.size, mapping.nodes)
        ranges = process.ranges.get(mapping.start, [])
        if [(start, end) for start, end, _ in ranges] == [(mapping.start, mapping.end)]:
            continue
        for start, end, node in ranges:
            what = [f"  {start:x}-{end:x}", f"  on node {node}", ""]
            table.add(what, process, end - start, {node: end - start})
    table.add(["all", "", ""], process, mapped(process.mappings), memory_of(process))
    return table


def table_of_processes(processes: list[Process], several: bool) -> Table:
    ranked = any(process.member.rank is not None for process in processes)
    heads = ("process", *["rank"] * ranked, "PID", "threads", "on node")
    table = Table(heads, columns(processes), several)
    for process in processes:
        place, rank = process.place, process.member.rank
        what = [process.command, *["" if rank is None else str(rank)] * ranked]
        what += [str(process.pid), str(place.threads), number_list(place.nodes)]
        table.add(what, process, mapped(process.mappings), memory_of(process))
    table.put(
        ["all", *[""] * (len(heads) - 1)],
        sum(mapped(process.mappings) for process in processes),
        sum_of(memory_of(process) for process in processes),
        sum(process.elsewhere(memory_of(process)) for process in processes),
    )
    return table


def title(process: Process) -> str:
    threads = f"{process.place.threads} thread{'s' if process.place.threads != 1 else ''}"
    on = f"NUMA {node_words(process.place.nodes)}" if process.place.nodes else "no NUMA node"
    return f"{process.command} {process.pid}: {threads}, on {on}"


def remarks(process: Process, machine: dict[int, set[int]]) -> list[str]:
    """What a table of numbers has no place for, in sentences."""
    lines: list[str] = []
    nodes = memory_of(process)
    far, resident = process.elsewhere(nodes), sum(nodes.values())
    if process.swapped:
        lines.append(f"swapped out: {size(process.swapped)} more")
    if len(machine) > 1 and process.place.free:
        lines.append(
            f"may run on CPUs {number_list(process.place.cpus)}, {node_words(process.place.may)}: "
            "nothing keeps it near its memory"
        )
    for endpoint in process.endpoints:
        if endpoint.node >= 0 and endpoint.node not in process.place.nodes:
            lines.append(
                f"endpoint {endpoint.id[:8]} was opened on node {endpoint.node}, and its shared "
                "memory is there: its process has moved since"
            )
    if resident and far > MUCH * resident:
        lines.append(
            f"{share(far, resident)} of its memory is on other nodes than it runs on: a page comes "
            "from the node of whoever writes it first"
        )
        lines.append(
            "  bind ranks before they begin (MPICH, Intel MPI: mpiexec -bind-to core; Open MPI: "
            "--bind-to core), and let who uses data be the first to write it"
        )
    return lines


def footnotes(processes: list[Process], machine: dict[int, set[int]]) -> list[str]:
    lines: list[str] = []
    if len(processes) > 1:
        lines.append("Memory that several share counts for each.")
    if len(machine) == 1:
        lines.append("This machine has one NUMA node: there is nowhere else to be.")
    elif any(process.elsewhere(memory_of(process)) for process in processes):
        lines.append("Elsewhere: not on a node where the process runs.")
    return lines


def rendering(
    processes: list[Process],
    machine: dict[int, set[int]],
    args: argparse.Namespace,
    width: int | None,
) -> list[str]:
    """Lines, job by job. Of several processes a row each, unless more is asked for."""
    together, several = len(processes) > 1 and not (args.mappings or args.ranges), len(machine) > 1
    groups = jobs.by_job(processes, lambda process: process.member)
    lines: list[str] = []
    for job, members in groups:
        if job != jobs.NONE or len(groups) > 1:
            lines.append(jobs.heading(job, (process.member.rank for process in members)))
        if together:
            lines += table_of_processes(members, several).lines(width)
        lines += details(members, machine, args, together, width)
    return lines + footnotes(processes, machine)


def details(
    processes: list[Process],
    machine: dict[int, set[int]],
    args: argparse.Namespace,
    together: bool,
    width: int | None,
) -> list[str]:
    """What is to be said of each process by itself: its table, unless a row says it; remarks."""
    each, several = args.mappings or args.ranges, len(machine) > 1
    lines: list[str] = []
    for process in processes:
        said = remarks(process, machine)
        if not together:
            lines.append(title(process))
            lines += (table_of_mappings if each else table_of_kinds)(process, several).lines(width)
        elif said:
            lines.append(f"{process.command} {process.pid}:")
        lines += [f"  {remark}" for remark in said]
        if not together and said:
            lines.append("")
    return lines


def main(args: argparse.Namespace) -> int:
    machine = numa.machine()
    processes = collect(args, machine)
    if args.json:
        said = {
            "nodes": [{"node": n, "cpus": number_list(cpus)} for n, cpus in machine.items()],
            "processes": [describe(process) for process in processes],
        }
        print(json.dumps(said, indent=2))
    elif processes:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        print("\n".join(rendering(processes, machine, args, width)))
    return 0 if processes else 1
