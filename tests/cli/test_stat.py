# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`beeline stat` beside traffic that is known to the message: tests/cli/traffic.c does
what it is told and then sleeps, so that the counts must be those of just now."""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import pwd
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from beeline import segments, show, stat

DEADLINE = 60.0
SIZES = {"inline": 8, "eager": 1000, "large": 1 << 20}


class Traffic:
    """Two processes, commanded."""

    def __init__(self, program: Path, **environ: str) -> None:
        self.process = subprocess.Popen(
            [str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environ},
        )
        self.parent, self.child = map(int, self._line().split()[1:])

    def _line(self) -> str:
        assert select.select([self.process.stdout], [], [], DEADLINE)[0], "no answer"
        return self.process.stdout.readline()

    def do(self, *commands: str) -> None:
        for command in commands:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
            assert self._line() == "done\n", command

    def end(self) -> None:
        for pid in (self.child, self.parent):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(DEADLINE)


@pytest.fixture
def start_pair() -> Iterator[Callable[..., Traffic]]:
    started: list[Traffic] = []

    def start(name: str, **environ: str) -> Traffic:
        build = Path(os.environ.get("BEELINE_BUILD", "build")).resolve()
        program = build / "tests" / "cli" / name
        if not program.exists():
            pytest.skip(f"{program} is not built")
        environ["FI_PROVIDER_PATH"] = str(build / "src" / "fabric")
        started.append(Traffic(program, **environ))
        return started[-1]

    yield start
    for one in started:
        one.end()


@pytest.fixture
def traffic(start_pair) -> Callable[..., Traffic]:
    return functools.partial(start_pair, "traffic")


@pytest.fixture
def onesided(start_pair) -> Callable[..., Traffic]:
    """A target that waits does what is short, or doesn't, as it comes: not unless asked for."""
    return lambda **env: start_pair("onesided", **({"FI_BEELINE_RMA_DELEGATE": "never"} | env))


@pytest.fixture
def look(beeline) -> Callable[[int], dict[str, Any]]:
    """The one endpoint of a process, as the command tells it."""

    def ask(pid: int) -> dict[str, Any]:
        done = beeline("stat", "--json", str(pid))
        assert done.returncode == 0, done.stderr
        (endpoint,) = json.loads(done.stdout)["endpoints"]
        return endpoint

    return ask


def count(messages: int, size: int) -> dict[str, int]:
    return {"messages": messages, "bytes": messages * size}


NONE = count(0, 0)
NUMBERS = [
    # messages of one kind: why
    (1, "one: in a slot, unread by any credit"),
    (7, "as many as are never acknowledged"),
    (8, "as many as give one credit"),
    (9, "one more"),
    (32, "four credits"),
    (64, "a full ring"),
    (1003, "many times round"),
]


@pytest.mark.parametrize("kind", ["inline", "eager"])
@pytest.mark.parametrize(("number", "why"), NUMBERS, ids=[str(n[0]) for n in NUMBERS])
def test_short_messages_are_counted_to_the_last(
    kind: str, number: int, why: str, traffic, look
) -> None:
    both, size = traffic(), SIZES[kind]
    both.do(f"send {size} {number}")
    mine, theirs = look(both.parent), look(both.child)
    other = "eager" if kind == "inline" else "inline"
    assert mine["sent"][kind] == theirs["received"][kind] == count(number, size), why
    assert mine["sent"][other] == theirs["received"][other] == NONE
    assert mine["received"][kind] == theirs["sent"][kind] == NONE
    assert mine["exact"] and theirs["exact"]


def test_every_kind_in_both_directions(traffic, look) -> None:
    both = traffic(FI_BEELINE_SPLIT_MIN="512K", FI_BEELINE_OVERLAP="never")
    both.do("send 8 100", "send 0 3", "send 1000 50", "send 65536 5", "send 1048576 4")
    both.do("reply 40 11", "reply 1000 2", "reply 65536 1")
    mine, theirs = look(both.parent), look(both.child)
    sent = {
        "inline": {"messages": 103, "bytes": 800},
        "eager": count(50, 1000),
        "one_copy": count(5, 65536),
        "split": count(4, 1 << 20),
        "by_proxy": NONE,
        "fragmented": NONE,
        "claimed": NONE,
    }
    replied = {
        "inline": count(11, 40),
        "eager": count(2, 1000),
        "one_copy": count(1, 65536),
        "split": NONE,
        "by_proxy": NONE,
        "fragmented": NONE,
        "claimed": NONE,
    }
    assert mine["sent"] == theirs["received"] == sent
    assert theirs["sent"] == mine["received"] == replied
    hands = theirs["copied"]["pulled_bytes"] + mine["copied"]["pushed_bytes"]
    assert hands == sum(sent[path]["bytes"] for path in ("one_copy", "split"))
    (peer,) = mine["peers"]
    assert (peer["pid"], peer["state"]) == (both.child, "connected")
    assert peer["sent"] == {"messages": 162, "bytes": sum(c["bytes"] for c in sent.values())}
    assert peer["received"] == {"messages": 14, "bytes": sum(c["bytes"] for c in replied.values())}
    assert mine["fallbacks"] == [] and mine["failed"] == {"sends": 0, "receives": 0}


# A message of up to 40000 bytes goes through the ring, one byte more is copied once.
BY_RING = {
    "FI_BEELINE_EAGER_MAX": "4K",
    "FI_BEELINE_EAGER_LONG_MAX": "40000",
    "FI_BEELINE_SPLIT_MIN": "512K",
}


def test_a_longer_ring_takes_them_whole(traffic, look) -> None:
    both = traffic(**BY_RING, FI_BEELINE_LONG_RING="always")
    before = look(both.parent)
    late, rounds, whole = time.monotonic() + DEADLINE, 0, 0
    # Where the ring is full and its receiver away for a moment, that copies: but not always.
    while whole < 50 and time.monotonic() < late:
        both.do("send 40000 100", "send 40001 3")
        rounds += 1
        whole = look(both.child)["received"]["eager"]["messages"]
    assert whole >= 50
    mine, theirs = look(both.parent), look(both.child)
    assert mine["sent"]["eager"] == theirs["received"]["eager"] == count(whole, 40000)
    # All others: once, by their receiver, or by the sender of one who is away for a moment, or in
    # pieces, of which the longer ring has no more room for one that is whole.
    others = [theirs["received"][way] for way in ("one_copy", "claimed", "fragmented")]
    left = 103 * rounds - whole
    assert sum(way["messages"] for way in others) == left
    assert sum(way["bytes"] for way in others) == 40000 * left + 3 * rounds
    lane = 64 * 1024  # connected since the first look, and then stretched
    more = mine["counters"]["longring_bytes"]
    assert before["counters"]["longring_bytes"] == 0
    assert more in (448 * 1024, 1984 * 1024)  # by the processor's caches
    grown = mine["memory"]["shared_bytes"] - before["memory"]["shared_bytes"]
    assert more + lane <= grown < more + 2 * lane


@pytest.mark.parametrize("turns", ["always", "never"])
def test_two_that_answer_each_other_do_so_in_turn(turns: str, traffic, look, beeline) -> None:
    both = traffic(**BY_RING, FI_BEELINE_LONG_RING="always", FI_BEELINE_COPYBUF=turns)
    both.do(*["send 3000 1", "reply 3000 1"] * 20)
    mine, theirs = look(both.parent), look(both.child)
    assert mine["sent"]["eager"] == theirs["sent"]["eager"] == count(20, 3000)
    copybuf = [side["counters"]["copybuf"] for side in (mine, theirs)]
    # All but the first three of each, from which it is learnt, and one whose turn it isn't.
    assert copybuf == [0, 0] if turns == "never" else min(copybuf) >= 16
    remark = "in turn: " in beeline("stat", str(both.parent)).stdout
    assert remark == (turns == "always")


def test_unexpected_messages_wait_and_are_taken(traffic, look) -> None:
    both = traffic()
    both.do("early 8 5", "early 1000 2", "early 1048576 3")
    waiting = look(both.child)["unexpected"]
    assert (waiting["now"], waiting["bytes"]) == (10, 5 * 8 + 2 * 1000)
    assert waiting["most"] >= 10
    both.do("take 8 5", "take 1000 2", "take 1048576 3")
    after = look(both.child)["unexpected"]
    assert (after["now"], after["bytes"]) == (0, 0)
    assert after["total"] >= 10
    # The announcements (empty messages) that all had come are inline, too.
    assert look(both.child)["received"]["inline"]["messages"] == 5 + 3


@pytest.mark.parametrize(
    ("call", "pull", "push"), [("readv", "none", "vm"), ("writev", "vm", "none")]
)
def test_a_refusal_midway_is_told_with_its_reason(
    call: str, pull: str, push: str, traffic, look, beeline
) -> None:
    both = traffic(FI_BEELINE_SPLIT_MIN="64K", FI_BEELINE_OVERLAP="never")
    both.do("send 1048576 2", "reply 1048576 2", f"deny {call}")
    assert look(both.child)["fallbacks"] == []  # it has not been tried since
    # The child may leave the work to the other hand many times before it tries.
    late = time.monotonic() + 60
    child = {"fallbacks": []}
    while not child["fallbacks"] and time.monotonic() < late:
        both.do("send 1048576 1", "reply 1048576 1")
        child = look(both.child)
    text = beeline("stat", str(both.child)).stdout
    assert "`beeline doctor` says why" in text and " refused" in text
    (fallback,) = child["fallbacks"]
    assert fallback["peer"] == both.parent and fallback["times"] >= 1
    assert fallback["call"] == f"process_vm_{call}"
    assert fallback["reason"] == "EPERM: Operation not permitted"
    copy = child["peers"][0]["copy"]
    assert (copy["pull"], copy["push"]) == (pull, push)
    assert copy["pull_refused" if pull == "none" else "push_refused"] == fallback["reason"]


def test_forbidden_by_a_knob(traffic, look) -> None:
    both = traffic(FI_BEELINE_COPY="ring")
    both.do("send 1048576 3")
    mine, theirs = look(both.parent), look(both.child)
    assert mine["sent"]["fragmented"] == theirs["received"]["fragmented"] == count(3, 1 << 20)
    for path in ("eager", "by_proxy", "one_copy", "split"):  # fragments are none
        assert mine["sent"][path] == theirs["received"][path] == NONE
    reading = [f for f in theirs["fallbacks"] if f["call"] == "process_vm_readv"]
    assert [f["times"] for f in reading] == [3] and "FI_BEELINE_COPY" in reading[0]["reason"]


@pytest.mark.parametrize(
    ("number", "times", "reason"),
    [
        (errno.EPERM, 1, "EPERM: Operation not permitted"),
        (errno.ENOMEM, 10, "ENOMEM: the kernel had no memory for a direct copy just then"),
    ],
    ids=["for good", "each time anew"],
)
def test_a_claim_that_the_kernel_refuses(
    number: int, times: int, reason: str, traffic, look, beeline
) -> None:
    """The sender has won the receive of one that is away, and may not write into it."""
    both = traffic(FI_BEELINE_OVERLAP="always")
    both.do("send 8 1", f"refuse writev {number}", "away 16777216 10")
    mine, theirs = look(both.parent), look(both.child)
    assert mine["sent"]["claimed"] == theirs["received"]["claimed"] == NONE
    (fallback,) = mine["fallbacks"]
    assert (fallback["peer"], fallback["times"]) == (both.child, times)
    assert fallback["reason"] == reason and fallback["instead"]
    assert fallback["call"] == ("process_vm_writev" if number == errno.EPERM else None)
    assert theirs["fallbacks"] == []
    often = "once" if times == 1 else f"{times} times"
    assert f"{often} with process {both.child}" in beeline("stat", str(both.parent)).stdout


def test_no_memory_to_read(traffic, look) -> None:
    both = traffic(FI_BEELINE_OVERLAP="never")
    both.do(f"deny readv {errno.ENOMEM}", "send 1048576 3")
    mine, theirs = look(both.parent), look(both.child)
    assert mine["sent"]["by_proxy"] == theirs["received"]["by_proxy"] == count(3, 1 << 20)
    (fallback,) = theirs["fallbacks"]
    assert fallback["times"] == 3 and fallback["reason"].startswith("ENOMEM")
    assert theirs["peers"][0]["copy"]["pull"] == "vm"  # it will be tried again


def test_memory_that_only_its_owner_can_touch(traffic, look, beeline) -> None:
    """The receiver may read, but not that: the sender, who may write to it, copies instead."""
    alone = {"FI_BEELINE_EAGER_LONG_MAX": "0", "FI_BEELINE_OVERLAP": "never"}
    knobs = {"FI_BEELINE_SPLIT_MIN": "128K", "FI_BEELINE_LONG_RING": "never"}
    both = traffic(**alone, **knobs, FI_BEELINE_EAGER_MAX="4096")
    both.do("hidden 40000 3")
    mine, theirs = look(both.parent), look(both.child)
    assert mine["sent"]["by_proxy"] == theirs["received"]["by_proxy"] == count(3, 40000)
    (fallback,) = theirs["fallbacks"]
    assert fallback["times"] == 3 and "(EFAULT)" in fallback["reason"]
    assert theirs["peers"][0]["copy"]["pull"] == "vm"  # other memory is read as before
    assert "write-only pages" in beeline("stat", str(both.child)).stdout


def test_every_reason_has_words() -> None:
    """What the library counts as a fallback, the command can say, and how it copies."""
    assert set(stat.WAYS) == set(segments.WAYS)
    header = (Path(__file__).parents[2] / "src/transport/local/lane/stats.h").read_text()
    counted = set(re.findall(r"X\((fallback_\w+),", header))
    assert counted == {"fallback_pull", "fallback_push", "fallback_memory", *stat.OTHER_REASONS}


def test_by_proxy(traffic, look, beeline) -> None:
    """The sender copies for a receiver that may not read: one copy, and no ring."""
    both = traffic(FI_BEELINE_OVERLAP="never")
    both.do("deny readv", "send 1048576 3")
    mine, theirs = look(both.parent), look(both.child)
    assert mine["sent"]["by_proxy"] == theirs["received"]["by_proxy"] == count(3, 1 << 20)
    for path in ("fragmented", "one_copy", "split"):
        assert mine["sent"][path] == theirs["received"][path] == NONE
    assert mine["copied"]["pushed_bytes"] == 3 << 20 and theirs["copied"]["pulled_bytes"] == 0
    text = beeline("stat", str(both.parent)).stdout
    assert ["by", "proxy", "3", "3.15", "M", "0", "0"] in [x.split() for x in text.splitlines()]
    assert stat.PATHS["by_proxy"][1] in text and stat.PATHS["fragmented"][1] not in text


def test_through_the_ring_where_neither_may(traffic, look) -> None:
    both = traffic(FI_BEELINE_OVERLAP="never")
    both.do("deny readv", "refuse writev", "send 1048576 3")
    mine, theirs = look(both.parent), look(both.child)
    assert mine["sent"]["fragmented"] == theirs["received"]["fragmented"] == count(3, 1 << 20)
    assert mine["sent"]["by_proxy"] == theirs["received"]["by_proxy"] == NONE
    assert mine["copied"]["pushed_bytes"] == theirs["copied"]["pulled_bytes"] == 0


def test_a_peer_that_died(traffic, look) -> None:
    both = traffic()
    both.do("send 8 20", "send 1000 3", "kill", "notice")
    mine = look(both.parent)
    assert mine["peers"][0]["state"] == "died"
    assert mine["sent"]["inline"] == count(20, 8) and mine["sent"]["eager"] == count(3, 1000)


def test_without_the_right_to_read_memory(traffic, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel keeps /proc/PID/mem from us, the last look's numbers hold."""
    both = traffic()
    both.do("send 8 20", "send 1000 3", "reply 8 100", "notice")  # it looks while it makes progress
    monkeypatch.setattr(segments._Memory, "read", lambda *_: None)
    (mine,) = segments.endpoints_of(both.parent)
    assert not mine.exact
    assert mine.received["inline"].messages == 100
    assert mine.sent["inline"] == segments.Count(20, 160)
    assert mine.sent["eager"] == segments.Count(3, 3000)
    assert any("last look" in line for line in stat.remarks(mine))


def test_table(traffic, beeline) -> None:
    both = traffic()
    both.do("send 8 12345", "send 1048576 2")
    done = beeline("stat", str(both.parent), COLUMNS="120")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["inline", "12345", "98760", "0", "0"] in lines
    (peer,) = (line for line in lines if line[:2] == [str(both.child), "connected"])
    assert peer[-2:] == ["directly", "directly"]
    in_flight = peer[-3]  # mostly the last few, of which nothing has been told yet
    assert ("In flight: packets" in done.stdout) == (in_flight != "0")
    assert "beeline doctor" not in done.stdout


def test_all_endpoints_of_the_user(traffic, beeline) -> None:
    both = traffic()
    both.do("send 8 1")
    record = json.loads(beeline("stat", "--json").stdout)
    assert {both.parent, both.child} <= {e["pid"] for e in record["endpoints"]}


def test_reading_leaves_no_trace(traffic, look) -> None:
    both = traffic()
    both.do("send 8 5")
    before = sorted(os.listdir(f"/proc/{both.parent}/fd"))
    first = look(both.parent)
    assert sorted(os.listdir(f"/proc/{both.parent}/fd")) == before
    again = look(both.parent)
    for changing in ("open_seconds",):
        del first[changing], again[changing]
    assert first == again


# --- one-sided operations -----------------------------------------------------------


OPERATIONS = [
    # command, the JSON's name of it
    ("read", "reads"),
    ("write", "writes"),
    ("atomic", "atomics"),
]


@pytest.mark.parametrize(("command", "name"), OPERATIONS)
def test_one_sided_operations(command: str, name: str, onesided, look, beeline) -> None:
    both = onesided()
    both.do(f"{command} 8 5", f"{command} 4096 2")
    mine, theirs = look(both.parent), look(both.child)
    done = {name: 7, stat.bytes_of(name): 5 * 8 + 2 * 4096}
    nothing = dict.fromkeys(mine["one_sided"], 0)
    assert mine["one_sided"] == nothing | done and theirs["one_sided"] == nothing
    assert mine["fallbacks"] == []
    assert f"one-sided: 7 {name}, 8.23 kB\n" in beeline("stat", str(both.parent)).stdout


@pytest.mark.parametrize(("command", "name"), OPERATIONS)
def test_one_sided_operations_by_target(command: str, name: str, onesided, look, beeline) -> None:
    both = onesided(FI_BEELINE_RMA_DELEGATE="always")
    late, asked, served = time.monotonic() + DEADLINE, 0, 0
    while not served and time.monotonic() < late:  # until it has had a core at the time
        both.do(f"{command} 8 50", f"{command} 4096 1")
        asked += 50
        mine, theirs = look(both.parent), look(both.child)
        served = mine["one_sided"]["by_target"]
    assert served == theirs["one_sided"]["served"] > 0
    assert mine["one_sided"]["by_target_bytes"] == 8 * served
    assert mine["one_sided"][name] == asked - served + asked // 50
    assert "short, by their target" in beeline("stat", str(both.parent)).stdout


@pytest.mark.parametrize(("command", "name"), OPERATIONS)
def test_one_sided_operations_by_proxy(command: str, name: str, onesided, look, beeline) -> None:
    """The kernel refuses, and the target does it: the first of them is tried."""
    call = "readv" if command == "read" else "writev"
    both = onesided()
    both.do("write 8 1", f"refuse {call}", f"{command} 8 5", f"{command} 40000 2")
    mine, theirs = look(both.parent), look(both.child)
    assert (mine["one_sided"]["by_proxy"], theirs["one_sided"]["served"]) == (7, 7)
    length = 5 * 8 + 2 * 40000
    assert mine["one_sided"]["by_proxy_bytes"] == theirs["one_sided"]["served_bytes"] == length
    assert mine["one_sided"]["writes"] == 1
    (fallback,) = mine["fallbacks"]
    assert (fallback["call"], fallback["times"]) == (f"process_vm_{call}", 7)
    assert fallback["reason"] == "EPERM: Operation not permitted"
    assert "7 by proxy" in beeline("stat", str(both.parent)).stdout
    assert "7 served" in beeline("stat", str(both.child)).stdout


def test_one_sided_operations_on_regions_that_count(onesided, look) -> None:
    """Where nothing is refused, by proxy has other reasons: an eighth counter, say."""
    both = onesided()
    both.do("two 64 10")
    assert look(both.parent)["one_sided"]["by_proxy"] == 0
    both.do("late 64 20")
    mine = look(both.parent)
    times = {fallback["reason"]: fallback["times"] for fallback in mine["fallbacks"]}
    regions, behind = (
        times.get(stat.OTHER_REASONS[f"fallback_{which}"][0], 0) for which in ("regions", "behind")
    )
    assert regions >= 1 and regions + behind == mine["one_sided"]["by_proxy"] == 20


# --- what else is shown ---------------------------------------------------------------


def test_claimed(traffic, look, beeline) -> None:
    """The receiver has posted and gone away; the sender copies into its receive."""
    both = traffic(FI_BEELINE_OVERLAP="always")
    both.do("send 8 1", "away 1048576 3", "away 65536 2")
    mine, theirs = look(both.parent), look(both.child)
    both_sizes = {"messages": 5, "bytes": (3 << 20) + (2 << 16)}
    assert mine["sent"]["claimed"] == theirs["received"]["claimed"] == both_sizes
    for path in ("one_copy", "split", "by_proxy", "fragmented"):
        assert mine["sent"][path] == theirs["received"][path] == NONE
    assert mine["copied"]["pushed_bytes"] == both_sizes["bytes"]
    assert theirs["copied"]["pulled_bytes"] == 0
    assert stat.PATHS["claimed"][1] in beeline("stat", str(both.child)).stdout


@pytest.mark.parametrize(
    ("order", "way", "who"),
    [("away", "received", "child"), ("gone", "sent", "parent")],
    ids=["receiver", "sender"],
)
def test_what_went_on_while_one_was_away(
    order: str, way: str, who: str, traffic, look, beeline
) -> None:
    """Of three messages whose other side did all meanwhile, and two for which both waited (who
    loses its core in such a wait is away as well)."""
    both = traffic(FI_BEELINE_OVERLAP="always")
    both.do("send 8 1", f"{order} 4194304 3", "send 4194304 2")
    ends = {name: look(getattr(both, name))["overlap"] for name in ("parent", "child")}
    assert ends[who][f"{way}_bytes"] in (3 << 22, 4 << 22, 5 << 22)
    told = beeline("stat", str(getattr(both, who))).stdout
    assert re.search(rf"overlap: of large messages [\d.]+ MB of 21 MB {way} was over", told)


def shared_memory(pids: list[int]) -> int:
    """What the kernel says these processes have of their endpoints' memory, shared by
    those that map it."""
    total = 0
    for pid in pids:
        ours = False
        for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
            if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
                ours = bool(re.search(r" /memfd:beeline(-lane|-doorbells)? ", line))
            elif ours and line.startswith("Pss:"):
                total += int(line.split()[1]) * 1024
    return total


def test_memory(traffic, look) -> None:
    both = traffic()
    alone = look(both.parent)["memory"]
    assert alone["shared_bytes"] == 2 * segments.PAGE  # its header and its doorbells
    both.do("send 8 1")
    pids = [both.parent, both.child]
    together = [look(pid)["memory"] for pid in pids]
    # A lane to the neighbour, and a page for what is shown of it.
    assert together[0]["shared_bytes"] == alone["shared_bytes"] + 65536 + segments.PAGE
    assert shared_memory(pids) == sum(memory["shared_bytes"] for memory in together)
    both.do("early 1048576 60")  # large sends that wait, of which each takes a record
    later = look(both.parent)["memory"]
    assert later["private_bytes"] > together[0]["private_bytes"] > 0
    assert later["shared_bytes"] == together[0]["shared_bytes"]


def state(look, pid: int) -> str:
    (peer,) = look(pid)["peers"]
    return peer["state"]


def wait_for(state_of: Callable[[], str], wanted: str) -> None:
    until = time.monotonic() + DEADLINE
    while (now := state_of()) != wanted:
        assert time.monotonic() < until, f"{now} instead of {wanted}"


def stop(pid: int) -> None:
    """All its threads: the signal is one's first, who tells the others."""

    def states() -> str:
        tasks = Path(f"/proc/{pid}/task").iterdir()
        return "".join({(t / "stat").read_text().rsplit(")", 1)[1].split()[0] for t in tasks})

    os.kill(pid, signal.SIGSTOP)
    wait_for(states, "T")


def noticed(both: Traffic, look) -> Callable[[], str]:
    """What the parent says of its neighbour when it has looked around."""

    def ask() -> str:
        both.do("notice")
        return state(look, both.parent)

    return ask


def test_a_peer_that_is_connecting(traffic, look, beeline) -> None:
    """One that is stopped doesn't answer; when it goes on, it does."""
    both = traffic()
    assert look(both.parent)["peers"] == []
    stop(both.child)
    both.process.stdin.write("send 8 1\n")
    both.process.stdin.flush()
    wait_for(lambda: "".join(p["state"] for p in look(both.parent)["peers"]), "connecting")
    (peer,) = look(both.parent)["peers"]
    assert peer["pid"] == both.child and peer["copy"]["pull"] is None
    assert [str(both.child), "connecting"] in [
        line.split()[:2] for line in beeline("stat", str(both.parent)).stdout.splitlines()
    ]
    os.kill(both.child, signal.SIGCONT)
    assert both._line() == "done\n"
    assert state(look, both.parent) == "connected"


def test_a_peer_that_closes(traffic, look) -> None:
    both = traffic()
    both.do("send 8 20", "leave")
    wait_for(noticed(both, look), "closed")
    assert look(both.parent)["sent"]["inline"] == count(20, 8)


def test_a_peer_that_is_not_there(traffic, look, beeline) -> None:
    both = traffic()
    both.do("kill", "attempt")
    wait_for(lambda: state(look, both.parent), "failed")
    (peer,) = look(both.parent)["peers"]
    assert peer["error"].startswith("ECONNREFUSED") and peer["pid"] == both.child
    assert "failed: ECONNREFUSED" in beeline("stat", str(both.parent)).stdout


def test_a_peer_that_breaks_the_protocol(traffic, look, beeline) -> None:
    """The child's memory is changed as a program would that writes where it mustn't: a
    packet of a kind that there is not."""
    both = traffic()
    both.do("send 8 1", "reply 8 1")
    fd = next(segments._segments(both.child))
    with open(fd, "rb") as segment:
        page = segment.read(segments.PAGE)
        layout = segments._Layout(*segments.STATS.unpack_from(page, segments.STATS_AT)[7:])
        segment.seek(layout.shown_at)
        record = segments.LANE.unpack(segment.read(segments.LANE.size))
    lane = record[13]
    try:
        memory = os.open(f"/proc/{both.child}/mem", os.O_RDWR)
    except OSError as error:
        pytest.skip(f"not permitted here: /proc/PID/mem ({error.strerror})")
    second = lane + layout.slot_at + layout.slot_size
    os.pwrite(memory, (1).to_bytes(4, "little"), second + 4)  # a byte of no operation
    os.pwrite(memory, (2).to_bytes(4, "little"), second)
    os.close(memory)
    wait_for(noticed(both, look), "broken")
    assert [str(both.child), "broken"] in [
        line.split()[:2] for line in beeline("stat", str(both.parent)).stdout.splitlines()
    ]


# --- watching ------------------------------------------------------------------


def test_watch_sees_it_grow_and_end(traffic, beeline) -> None:
    both = traffic()
    both.do("send 8 10")
    command = [os.environ.get("BEELINE", "beeline"), "stat", "--json", "--watch", "0.1"]
    with subprocess.Popen([*command, str(both.parent)], stdout=subprocess.PIPE, text=True) as watch:
        try:
            first = json.loads(watch.stdout.readline())
            assert first["endpoints"][0]["sent"]["inline"]["messages"] == 10
            both.do("send 8 5")
            until = time.monotonic() + DEADLINE
            while True:
                line = json.loads(watch.stdout.readline())
                if line["endpoints"][0]["sent"]["inline"]["messages"] == 15:
                    break
                assert time.monotonic() < until
            both.end()
            rest = [json.loads(line) for line in watch.stdout]
            assert rest[-1]["endpoints"] == []
            assert any("has ended" in note for note in rest[-1]["ended"])
            assert watch.wait(DEADLINE) == 0
        finally:
            watch.kill()


def test_watching_a_table_until_the_end(traffic) -> None:
    both = traffic()
    both.do("send 8 10")
    command = [os.environ.get("BEELINE", "beeline"), "stat", "--watch", "0.1", str(both.parent)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as watch:
        both.do("close")
        out, err = watch.communicate(timeout=DEADLINE)
        # It may have come before the close or after it.
        assert (watch.returncode == 0 and "closed its endpoint" in out) or (
            watch.returncode == 1 and "no Beeline endpoint" in err
        ), out + err


def test_watching_through_a_pipe(traffic) -> None:
    """Each round comes as it is, while the process runs."""
    both = traffic()
    both.do("send 8 10")
    command = [os.environ.get("BEELINE", "beeline"), "stat", "--watch", "0.1", str(both.parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watch:
        try:
            timer = threading.Timer(DEADLINE, watch.kill)
            timer.start()
            for messages in ("10", "15"):
                assert any(line.split()[:2] == ["inline", messages] for line in watch.stdout)
                both.do("send 8 5")
        finally:
            timer.cancel()
            watch.kill()


def test_paths_are_those_of_the_library_and_the_manual() -> None:
    """What the library counts has a word in the table and an entry in beeline(1)."""
    root = Path(__file__).parents[2]
    header = (root / "src/transport/local/lane/stats.h").read_text()
    manual = (root / "docs/man/beeline.1").read_text()
    counted = set(re.findall(r"X\((?:sent|received)_(\w+)_bytes,", header))
    assert counted | {"inline", "eager"} == set(stat.PATHS)
    for word, means in stat.PATHS.values():
        assert f"\n.It {word}\n{means}\n" in manual


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 B"), (999, "999 B"), (84896, "84.9 kB"), (1110000, "1.11 MB")]
)
def test_sizes_in_one_style(value: int, text: str) -> None:
    assert show.size(value) == text


# --- mistakes --------------------------------------------------------------------


def free_pid() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_no_such_process(beeline) -> None:
    done = beeline("stat", str(free_pid()))
    assert done.returncode == 1 and "there is no process" in done.stderr


def test_a_process_without_beeline(beeline) -> None:
    done = beeline("stat", "--json", str(os.getpid()))
    assert done.returncode == 1
    assert f"process {os.getpid()} has no Beeline endpoint open" in done.stderr
    assert json.loads(done.stdout) == {"endpoints": []}


def test_another_users_process(beeline, traffic) -> None:
    if os.geteuid() != 0:
        done = beeline("stat", "1")
        assert done.returncode == 1 and "belongs to root" in done.stderr
        return
    both = traffic()
    both.do("send 8 1")
    nobody = pwd.getpwnam("nobody")
    code = (
        "import os, sys; os.setgid(%d); os.setuid(%d); sys.path.insert(0, %r)\n"
        "from beeline.main import main; sys.exit(main(['stat', *sys.argv[1:]]))"
    )
    package = Path(stat.__file__).parent.parent
    source = code % (nobody.pw_gid, nobody.pw_uid, str(package))
    # Everything is imported as root: where the tests lie may be closed to nobody.
    first = f"import sys; sys.path.insert(0, {str(package)!r})\nimport beeline.main, beeline.stat\n"

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", first + source, "--json", *args],
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )

    named, everything = run(str(both.parent)), run()
    assert named.returncode == 1 and "belongs to root: ask as root" in named.stderr
    assert everything.returncode == 1
    assert "no process of nobody has a Beeline endpoint open" in everything.stderr


@pytest.mark.parametrize("argv", [("stat", "x"), ("stat", "--watch", "0"), ("stat", "--watch=-1")])
def test_bad_arguments(argv: tuple[str, ...], beeline) -> None:
    done = beeline(*argv)
    assert done.returncode == 2 and "Traceback" not in done.stderr
