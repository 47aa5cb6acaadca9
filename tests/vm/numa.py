# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Run in a guest by tests/vm/run: memory on the right node, where there are several, and what
`beeline nodemem` says of it. One processor and one node each, of the same number. Prints "ok" or
"not ok" for each test, and why."""

from __future__ import annotations

import contextlib
import ctypes
import json
import mmap
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

DEADLINE = 120.0
PAGE = mmap.PAGESIZE
SET_MEMPOLICY, MPOL_DEFAULT, MPOL_BIND, MPOL_INTERLEAVE = 238, 0, 2, 3  # x86-64
NODES = 4
TESTS: list[Callable[[], None]] = []

libc = ctypes.CDLL(None, use_errno=True)


def test(function: Callable[[], None]) -> Callable[[], None]:
    TESTS.append(function)
    return function


def equal(seen: Any, wanted: Any, what: str) -> None:
    if seen != wanted:
        raise AssertionError(f"{what}: {seen!r}, not {wanted!r}")


# --- tools ---------------------------------------------------------------------


def command(*words: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "beeline", *words, "--json"],
        capture_output=True, text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip
    if done.returncode:
        raise AssertionError(f"beeline {' '.join(words)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def nodemem(pid: int, *options: str) -> dict[str, Any]:
    (process,) = command("nodemem", str(pid), *options)["processes"]
    return process


def nodes_of(process: dict[str, Any], kind: str) -> set[int]:
    """All on which it has pages of a kind; empty: it has no such memory."""
    return {
        int(node) for m in process["mappings"] if m["kind"] == kind for node in m["nodes"]
    }  # fmt: skip


class Traffic:
    """tests/cli/traffic.c: two processes, each on a processor of its own."""

    def __init__(self, first: int, second: int, **environ: str) -> None:
        self.process = subprocess.Popen(
            ["traffic", str(first), str(second)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, **environ},
        )  # fmt: skip
        self.parent, self.child = map(int, self.process.stdout.readline().split()[1:])

    def do(self, order: str) -> None:
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()
        equal(self.process.stdout.readline(), "done\n", order)


@contextlib.contextmanager
def traffic(first: int, second: int, **environ: str) -> Iterator[Traffic]:
    pair = Traffic(first, second, **environ)
    try:
        yield pair
    finally:
        for pid in (pair.child, pair.parent):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        pair.process.wait(DEADLINE)


@contextlib.contextmanager
def policy(mode: int, *nodes: int) -> Iterator[None]:
    """For what this process touches first meanwhile."""
    mask = ctypes.c_ulong(sum(1 << node for node in nodes))
    if libc.syscall(SET_MEMPOLICY, mode, ctypes.byref(mask), 64):
        raise OSError(ctypes.get_errno(), "set_mempolicy")
    try:
        yield
    finally:
        libc.syscall(SET_MEMPOLICY, MPOL_DEFAULT, None, 0)


def written(pages: int) -> tuple[mmap.mmap, int]:
    """New memory, each page of which has been written to; and where it is."""
    memory = mmap.mmap(-1, pages * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    for page in range(pages):
        memory[page * PAGE] = 1
    return memory, ctypes.addressof(ctypes.c_char.from_buffer(memory))


def runs(process: dict[str, Any], start: int, pages: int) -> list[tuple[int, int]]:
    """Of so many pages from an address on: each range's pages and its node."""
    found = [
        (int(r["start"], 16), int(r["end"], 16), r["node"])
        for m in process["mappings"]
        for r in m["ranges"]
    ]
    end = start + pages * PAGE
    inside = [(max(a, start), min(b, end), node) for a, b, node in found]
    return [((b - a) // PAGE, node) for a, b, node in inside if a < b]


# --- Beeline's memory -------------------------------------------------------------

OWN, NEIGHBOURS = "Beeline, its own", "Beeline, its neighbours'"


def check_pair(pair: Traffic, first: int, second: int, what: str) -> None:
    for pid, own, other in ((pair.parent, first, second), (pair.child, second, first)):
        process = nodemem(pid)
        who = f"{what}, the process on node {own}"
        equal(process["runs_on"], [own], f"{who}: where it runs")
        equal(process["may_run_on"], [own], f"{who}: where it may run")
        equal([e["numa_node"] for e in process["endpoints"]], [own], f"{who}: its endpoint")
        equal(nodes_of(process, OWN), {own}, f"{who}: its own shared memory")
        equal(nodes_of(process, NEIGHBOURS), {other}, f"{who}: its neighbour's")


@test
def shared_memory_is_on_its_owners_node() -> None:
    """Whoever of the two connects, and whichever of their threads makes the ring."""
    for first, second, order in ((1, 3, "send"), (3, 1, "send"), (2, 0, "reply"), (0, 2, "reply")):
        with traffic(first, second) as pair:
            pair.do(f"{order} 8 10")
            check_pair(pair, first, second, f"{order} from the start")
            for size in (1000, 10000, 1 << 20):
                pair.do(f"send {size} 3")
                pair.do(f"reply {size} 3")
            check_pair(pair, first, second, f"{order}, then all sizes")


@test
def a_ring_that_is_made_longer_stays_there() -> None:
    with traffic(1, 2) as pair:
        until = time.monotonic() + DEADLINE
        while not any(
            e["counters"].get("longring_bytes")
            for pid in (pair.parent, pair.child)
            for e in command("stat", str(pid))["endpoints"]
        ):
            if time.monotonic() > until:
                raise AssertionError("no ring was made longer")
            pair.do("send 12000 200")
        check_pair(pair, 1, 2, "longer")


@test
def it_is_bound_not_only_touched_first() -> None:
    """Who has moved between opening its endpoint and its first message: its ring is where its other
    shared memory is."""
    with traffic(1, 3) as pair:
        for task in os.listdir(f"/proc/{pair.parent}/task"):
            os.sched_setaffinity(int(task), {2})
        pair.do("send 8 10")
        equal(nodes_of(nodemem(pair.parent), OWN), {1}, "its own shared memory")


@test
def a_switch_leaves_it_to_the_kernel() -> None:
    """Pages come from where they are touched: all by the owner, so that this says mostly that
    nothing is bound."""
    with traffic(1, 3, FI_BEELINE_NUMA="off") as pair:
        pair.do("send 8 10")
        process = nodemem(pair.parent)
        equal([e["numa_node"] for e in process["endpoints"]], [None], "its endpoint")
        policies = {m["policy"] for m in process["mappings"] if m["kind"] in (OWN, NEIGHBOURS)}
        equal(policies, {"default"}, "policies")


@test
def who_has_moved_away_from_its_memory() -> None:
    with traffic(1, 3) as pair:
        pair.do("send 8 10")
        os.sched_setaffinity(pair.parent, {2})
        pair.do("send 8 10")  # it has run there now
        process = nodemem(pair.parent)
        # Its service thread may still be remembered where it last ran.
        equal(2 in process["runs_on"], True, "it runs on 2")
        equal([e["numa_node"] for e in process["endpoints"]], [1], "its endpoint")
        equal(nodes_of(process, OWN), {1}, "its own shared memory")
        if process["runs_on"] == [2]:
            far = sum(c for n, c in process["nodes"].items() if n != "2")
            equal(process["elsewhere_bytes"], far, "elsewhere")


# --- any process's ---------------------------------------------------------------


@test
def each_page_where_its_policy_put_it() -> None:
    pages = 64
    kept = []
    for node in range(NODES):
        with policy(MPOL_BIND, node):
            memory, start = written(pages)
        kept.append(memory)
        process = nodemem(os.getpid(), "--ranges")
        equal(runs(process, start, pages), [(pages, node)], f"bound to {node}")
    with policy(MPOL_INTERLEAVE, 1, 3):
        memory, start = written(pages)
    kept.append(memory)
    seen = runs(nodemem(os.getpid(), "--ranges"), start, pages)
    equal([count for count, _ in seen], [1] * pages, "interleaved: pages in a row")
    equal({node for _, node in seen}, {1, 3}, "interleaved: nodes")


@test
def ranges_and_counts_agree() -> None:
    process = nodemem(os.getpid(), "--ranges")
    for mapping in process["mappings"]:
        counted: dict[str, int] = {}
        for one in mapping["ranges"]:
            size = int(one["end"], 16) - int(one["start"], 16)
            counted[str(one["node"])] = counted.get(str(one["node"]), 0) + size
        equal(counted, mapping["nodes"], f"{mapping['start']} {mapping['name']}")


@test
def memory_elsewhere_is_counted() -> None:
    with policy(MPOL_BIND, 3):
        memory, _ = written(16384)
    os.sched_setaffinity(0, {0})
    process = nodemem(os.getpid())
    equal(process["runs_on"], [0], "where it runs")
    here = process["nodes"]["0"]
    equal(process["elsewhere_bytes"], sum(process["nodes"].values()) - here, "elsewhere")
    equal(process["elsewhere_bytes"] >= 16384 * PAGE, True, "what was bound to another node")
    memory.close()


def main() -> int:
    failed = 0
    machine = command("nodemem", str(os.getpid()))["nodes"]
    wanted = [{"node": n, "cpus": str(n)} for n in range(NODES)]
    if machine != wanted:
        print(f"not ok - numa_nodes_are_seen: {machine}")
        return 1
    print("ok - numa_nodes_are_seen")
    for function in TESTS:
        try:
            function()
            print(f"ok - numa_{function.__name__}", flush=True)
        except (AssertionError, OSError, subprocess.SubprocessError, ValueError) as error:
            failed += 1
            print(f"not ok - numa_{function.__name__}: {error}", flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
