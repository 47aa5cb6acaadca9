# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`beeline stat` beside traffic that is known to the message: tests/cli/traffic.c does
what it is told and then sleeps, so that the counts must be those of just now."""

from __future__ import annotations

import contextlib
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
from beeline import segments, stat

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
def traffic() -> Iterator[Callable[..., Traffic]]:
    program = Path(os.environ.get("BEELINE_BUILD", "build")) / "tests" / "cli" / "traffic"
    if not program.exists():
        pytest.skip(f"{program} is not built")
    started: list[Traffic] = []

    def start(**environ: str) -> Traffic:
        started.append(Traffic(program, **environ))
        return started[-1]

    yield start
    for one in started:
        one.end()


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
    both = traffic(FI_BEELINE_BOTH_HANDS_MIN="512K", FI_BEELINE_OVERLAP="never")
    both.do("send 8 100", "send 0 3", "send 1000 50", "send 65536 5", "send 1048576 4")
    both.do("reply 40 11", "reply 1000 2", "reply 65536 1")
    mine, theirs = look(both.parent), look(both.child)
    sent = {
        "inline": {"messages": 103, "bytes": 800},
        "eager": count(50, 1000),
        "one_copy": count(5, 65536),
        "both_hands": count(4, 1 << 20),
        "streamed": NONE,
        "claimed": NONE,
    }
    replied = {
        "inline": count(11, 40),
        "eager": count(2, 1000),
        "one_copy": count(1, 65536),
        "both_hands": NONE,
        "streamed": NONE,
        "claimed": NONE,
    }
    assert mine["sent"] == theirs["received"] == sent
    assert theirs["sent"] == mine["received"] == replied
    hands = theirs["copied"]["pulled_bytes"] + mine["copied"]["pushed_bytes"]
    assert hands == sum(sent[path]["bytes"] for path in ("one_copy", "both_hands"))
    (peer,) = mine["peers"]
    assert (peer["pid"], peer["state"]) == (both.child, "connected")
    assert peer["sent"] == {"messages": 162, "bytes": sum(c["bytes"] for c in sent.values())}
    assert peer["received"] == {"messages": 14, "bytes": sum(c["bytes"] for c in replied.values())}
    assert mine["fallbacks"] == [] and mine["failed"] == {"sends": 0, "receives": 0}


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
    call: str, pull: str, push: str, traffic, look
) -> None:
    both = traffic(FI_BEELINE_BOTH_HANDS_MIN="64K", FI_BEELINE_OVERLAP="never")
    both.do("send 1048576 2", "reply 1048576 2", f"deny {call}")
    assert look(both.child)["fallbacks"] == []  # it has not been tried since
    # The child may leave the work to the other hand a few times before it tries.
    for _ in range(50):
        both.do("send 1048576 1", "reply 1048576 1")
        child = look(both.child)
        if child["fallbacks"]:
            break
    (fallback,) = child["fallbacks"]
    assert fallback["peer"] == both.parent and fallback["messages"] >= 1
    assert fallback["refused"] == {f"process_vm_{call}": "EPERM: Operation not permitted"}
    assert child["peers"][0]["copy"] == {"pull": pull, "push": push}


def test_forbidden_by_a_knob(traffic, look) -> None:
    both = traffic(FI_BEELINE_COPY="ring")
    both.do("send 1048576 3")
    mine, theirs = look(both.parent), look(both.child)
    assert mine["sent"]["streamed"] == theirs["received"]["streamed"] == count(3, 1 << 20)
    assert mine["sent"]["eager"] == theirs["received"]["eager"] == NONE  # fragments are none
    assert "FI_BEELINE_COPY" in theirs["fallbacks"][0]["refused"]["process_vm_readv"]


def test_a_peer_that_died(traffic, look) -> None:
    both = traffic()
    both.do("send 8 20", "send 1000 3", "kill", "notice")
    mine = look(both.parent)
    assert mine["peers"][0]["state"] == "died"
    assert mine["sent"]["inline"] == count(20, 8) and mine["sent"]["eager"] == count(3, 1000)


def test_without_the_right_to_read_memory(traffic, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel keeps /proc/PID/mem from us, the last look's numbers hold."""
    both = traffic()
    both.do("reply 8 100", "notice")  # it looks while it makes progress
    monkeypatch.setattr(segments._Memory, "read", lambda *_: None)
    (mine,) = segments.endpoints_of(both.parent)
    assert not mine.exact
    assert mine.received["inline"].messages == 100
    assert any("last look" in line for line in stat.remarks(mine))


def test_table(traffic, beeline) -> None:
    both = traffic()
    both.do("send 8 12345", "send 1048576 2")
    done = beeline("stat", str(both.parent), COLUMNS="120")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["inline", "12345", "98760", "0", "0"] in lines
    assert any(line[:2] == [str(both.child), "connected"] for line in lines)


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
    header = (root / "src/local/stats.h").read_text()
    manual = (root / "docs/man/beeline.1").read_text()
    counted = set(re.findall(r"X\((?:sent|received)_(\w+)_bytes,", header))
    assert counted | {"inline", "eager"} == set(stat.PATHS)
    for word in stat.PATHS.values():
        assert f"\n.It {word}\n" in manual


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 B"), (999, "999 B"), (84896, "84.9 kB"), (1110000, "1.11 MB")]
)
def test_sizes_in_one_style(value: int, text: str) -> None:
    assert stat.size(value) == text


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
    source = f"import sys; sys.path.insert(0, {str(package)!r})\nimport beeline.main\n" + source

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", source, "--json", *args],
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


# --- nonsense in the segment -------------------------------------------------------


def make_segment(page: bytes, lanes: bytes = b"") -> int:
    fd = os.memfd_create("beeline")
    os.write(fd, page + lanes)
    return fd


def own_page(**change: int) -> bytearray:
    """A header page as this process would have it, with some fields changed."""
    places = {
        "magic": segments.STATS_MAGIC,
        "version": segments.STATS_VERSION,
        "count": 3,
        "pid": os.getpid(),
        "node": 0,
        "began": 0,
        "eager_max": 8192,
        "lane_size": 65536,
        "slots": 32,
        "slot_size": 256,
        "slot_at": 128,
        "lane_stats_at": 16256,
        "rx_next": 16,
        "rx_bytes": 24,
        "rx_total": 32,
        "rx_long": 40,
        "rx_long_bytes": 48,
        "rx_size": 64,
        "in_slot": 232,
    } | change
    page = bytearray(segments.PAGE)
    segments.SEGMENT.pack_into(
        page, 0, segments.SEGMENT_MAGIC, segments.SEGMENT_VERSION, 0, bytes(16)
    )
    segments.STATS.pack_into(page, segments.STATS_AT, *places.values())
    return page


NONSENSE = [
    ({"magic": 1}, "another magic"),
    ({"version": 99}, "a version to come"),
    ({"count": 65535}, "more counters than there is room for"),
    ({"pid": 1}, "another process's, on its way"),
    ({"lane_size": 0}, "lanes of no size"),
    ({"lane_size": 0xFFFFFFFF}, "lanes beyond reason"),
    ({"slots": 0}, "no slots"),
    ({"slots": 65535}, "slots beyond the lane"),
    ({"slot_size": 0}, "slots of no size"),
    ({"slot_at": 0}, "slots over the credits"),
    ({"lane_stats_at": 65535}, "a record that crosses the lane's end"),
    ({"rx_next": 65535}, "fields beyond the structure"),
    ({"rx_size": 65535}, "a structure beyond reason"),
]


@pytest.mark.parametrize(("change", "why"), NONSENSE, ids=[n[1] for n in NONSENSE])
def test_nonsense_in_the_header(change: dict[str, int], why: str) -> None:
    fd = make_segment(own_page(**change), bytes(2 * 65536))
    try:
        assert segments.endpoints_of(os.getpid()) == [], why
    finally:
        os.close(fd)


def test_random_bytes_are_read_without_harm() -> None:
    """Whatever a neighbour wrote into lanes and counters: numbers, perhaps silly ones."""
    import random

    generator = random.Random(4)
    for _ in range(50):
        page = own_page(count=segments.COUNTERS_MOST)
        at = segments.STATS_AT + segments.STATS.size
        page[at:] = generator.randbytes(len(page) - at)
        fd = make_segment(page, bytes(65536 - len(page)) + generator.randbytes(2 * 65536))
        try:
            (endpoint,) = segments.endpoints_of(os.getpid())
            json.dumps(stat.describe(endpoint))
            stat.rendering([endpoint], {}, [])
        finally:
            os.close(fd)
