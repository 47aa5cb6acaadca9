# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`beeline nodemem` on this machine, which may have one node; tests/vm/numa.py is where there are
four. What kernels print is in tables."""

from __future__ import annotations

import argparse
import errno
import json
import mmap
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from beeline import nodemem, numa, show
from beeline.errors import BeelineError
from beeline.numa import Mapping, Place

DEADLINE = 60.0
MAP_NORESERVE = 0x4000
HAS_NUMA = Path("/proc/self/numa_maps").exists()
needs_numa = pytest.mark.skipif(not HAS_NUMA, reason="this kernel was built without NUMA")

# --- what the kernel prints ---------------------------------------------------

LINES = [
    # a line of numa_maps: policy, name, bytes of a page, pages on each node: why
    ("7f00 default", "default", "", 4096, {}, "nothing in memory"),
    (
        "7f00 default anon=2 dirty=2 N0=1 N3=1 kernelpagesize_kB=4",
        "default",
        "",
        4096,
        {0: 1, 3: 1},
        "two nodes",
    ),
    (
        "7f00 default heap anon=30 dirty=30 active=0 N1=30 kernelpagesize_kB=4",
        "default",
        "[heap]",
        4096,
        {1: 30},
        "heap",
    ),
    (
        "7f00 prefer (many):0-1 stack anon=1 N0=1 kernelpagesize_kB=4",
        "prefer (many):0-1",
        "[stack]",
        4096,
        {0: 1},
        "a policy of two words",
    ),
    (
        "7f00 bind=static|balancing:0,2 file=/a\\040b\\075c mapped=1 N2=1 kernelpagesize_kB=4",
        "bind=static|balancing:0,2",
        "/a b=c",
        4096,
        {2: 1},
        "a policy with a sign of equality, a file's name that is escaped",
    ),
    (
        "7f00 weighted interleave:0-3 anon=4 N0=2 N1=2 kernelpagesize_kB=4",
        "weighted interleave:0-3",
        "",
        4096,
        {0: 2, 1: 2},
        "a newer policy",
    ),
    (
        "7f00 default file=/anon_hugepage\\040(deleted) huge anon=3 dirty=3 N0=3 "
        "kernelpagesize_kB=2048",
        "default",
        "/anon_hugepage (deleted)",
        2097152,
        {0: 3},
        "huge pages",
    ),
    (
        "7f00 default file=/x anon=1 novelty=7 N10=1 kernelpagesize_kB=64",
        "default",
        "/x",
        65536,
        {10: 1},
        "larger pages, a tenth node, a word that isn't known",
    ),
]


@pytest.mark.parametrize(
    ("line", "policy", "name", "page", "pages", "why"), LINES, ids=[row[-1] for row in LINES]
)
def test_a_line_of_numa_maps(
    line: str, policy: str, name: str, page: int, pages: dict[int, int], why: str
) -> None:
    (one,) = numa.parse_counted(line + "\n")
    assert (one.start, one.policy, one.name, one.pages) == (0x7F00, policy, name, pages), why
    assert one.page == page or not pages


@pytest.mark.parametrize("line", ["", "\n", "nonsense", "7f00", "xyz default N0=1", "-1 default"])
def test_what_is_no_line_of_numa_maps(line: str) -> None:
    assert numa.parse_counted(line) == []


MAPS = """\
1000-3000 rw-p 00000000 00:00 0 
3000-4000 r--s 00000000 00:01 77                         /memfd:beeline (deleted)
5000-9000 rw-p 00000000 00:00 0                          [anon: a name of one's own]
9000-a000 rw-p 00000000 fe:00 5                          /a\\012b\\040c
"""  # noqa: W291


def test_joined_with_maps() -> None:
    counted = "1000 default N0=2 kernelpagesize_kB=4\n3000 prefer:1 N1=1 kernelpagesize_kB=4\n"
    counted += "5000 default\n9000 default N0=1 kernelpagesize_kB=4\n"
    counted += "b000 default N0=3 kernelpagesize_kB=4\n"
    found = numa.join(numa.parse_counted(counted), numa.parse_maps(MAPS))
    assert [(m.start, m.end, m.name, m.inode, m.nodes) for m in found] == [
        (0x1000, 0x3000, "", 0, {0: 8192}),
        (0x3000, 0x4000, "/memfd:beeline (deleted)", 77, {1: 4096}),
        (0x5000, 0x9000, "[anon: a name of one's own]", 0, {}),
        (0x9000, 0xA000, "/a\nb\\040c", 5, {0: 4096}),
        (0xB000, 0xE000, "", 0, {0: 12288}),  # it came between the two
    ]


LISTS = [
    ("", set()),
    ("\n", set()),
    ("0", {0}),
    ("0-3,8\n", {0, 1, 2, 3, 8}),
    ("5,7-7", {5, 7}),
]


@pytest.mark.parametrize(("text", "numbers"), LISTS)
def test_the_kernels_lists(text: str, numbers: set[int]) -> None:
    assert numa.number_list(text) == numbers
    assert numa.number_list(show.number_list(numbers)) == numbers


def test_this_machines_nodes() -> None:
    machine = numa.machine()
    assert set().union(*machine.values()) >= os.sched_getaffinity(0)


# --- what a mapping is ----------------------------------------------------------

KINDS = [
    ("", 0, 0, "anonymous"),
    ("[anon:glibc: malloc]", 0, 0, "anonymous: glibc: malloc"),
    ("[heap]", 0, 0, "heap"),
    ("[stack]", 0, 0, "stack"),
    ("/usr/lib/libc.so.6", 9, 0, nodemem.FILES),
    ("/dev/shm/segment", 9, 0, "/dev/shm/segment"),
    ("/SYSV00000000 (deleted)", 9, 0, "/SYSV00000000"),
    ("/memfd:other (deleted)", 9, 0, "/memfd:other"),
    ("/memfd:beeline-like-a-bee (deleted)", 9, 0, "/memfd:beeline-like-a-bee"),
    ("/anon_hugepage (deleted)", 9, 0, "anonymous, huge pages"),
    ("[anon_shmem: mine]", 9, 0, "shared:  mine"),
    ("/memfd:beeline (deleted)", 7, 0, nodemem.OWN),
    ("/memfd:beeline (deleted)", 9, 0, nodemem.NEIGHBOURS),
    ("/memfd:beeline-doorbells (deleted)", 7, 0, nodemem.OWN),
    ("/memfd:beeline-lane (deleted)", 9, 0x2000, nodemem.OWN),
    ("/memfd:beeline-lane (deleted)", 9, 0x3000, nodemem.NEIGHBOURS),
]


def mapping(start: int, end: int, name: str = "", inode: int = 0, **nodes: int) -> Mapping:
    on = {int(node[1:]): count for node, count in nodes.items()}
    return Mapping(start, end, "rw-p", inode, name, "default", 4096, on)


@pytest.mark.parametrize(("name", "inode", "start", "kind"), KINDS)
def test_kinds(name: str, inode: int, start: int, kind: str) -> None:
    assert nodemem.kind(mapping(start, start + 4096, name, inode), {7}, {0x2000}) == kind


def test_who_has_no_endpoint_has_no_ring() -> None:
    one = mapping(0x2000, 0x3000, "/memfd:beeline-lane (deleted)", 9)
    assert nodemem.kind(one, None, set()) == "/memfd:beeline-lane"


def test_both_parts_of_a_ring_are_its_owners() -> None:
    files: set[int] = set()
    name = "/memfd:beeline-lane (deleted)"
    parts = [mapping(0x2000, 0x3000, name, 9), mapping(0x3000, 0x9000, name, 9)]
    assert [nodemem.kind(part, files, {0x2000}) for part in parts] == [nodemem.OWN] * 2


# --- what is said ----------------------------------------------------------------


def process(on: set[int], may: set[int], *mappings: Mapping, **more: Any) -> nodemem.Process:
    place = Place(threads=2, nodes=on, cpus={0, 1}, may=may, free=len(may) > 1)
    kinds = {m.start: nodemem.kind(m, None, set()) for m in mappings}
    given: dict[str, Any] = {"swapped": 0, "endpoints": []} | more
    return nodemem.Process(1, "app", place, list(mappings), kinds, **given)


TWO = {0: {0}, 1: {1}}
SAID = [
    # remarks of a process: what must be said, and what must not
    (process({0}, {0}, mapping(0, 8192, N0=8192)), [], ["nodes", "swapped"], "all is well"),
    (
        process({0}, {0}, mapping(0, 8192, N0=4096, N1=4096)),
        ["50 % of its memory is on other nodes"],
        ["nothing keeps it"],
        "half of it elsewhere",
    ),
    (process({0}, {0}, mapping(0, 409600, N0=405504, N1=4096)), [], ["other nodes"], "1 % of it"),
    (
        process({0}, {0, 1}, mapping(0, 4096, N0=4096)),
        ["may run on CPUs 0-1, nodes 0-1: nothing keeps it near its memory"],
        ["other nodes"],
        "not bound",
    ),
    (process(set(), {0}, mapping(0, 4096, N1=4096)), [], ["other nodes"], "nobody knows where"),
    (
        process({0}, {0}, mapping(0, 4096, N0=4096), swapped=2000000),
        ["swapped out: 2 MB more"],
        [],
        "swapped out",
    ),
    (process({0}, {0}, mapping(0, 4096)), [], ["other nodes"], "nothing in memory"),
]


@pytest.mark.parametrize(("one", "said", "unsaid", "why"), SAID, ids=[row[-1] for row in SAID])
def test_remarks(one: nodemem.Process, said: list[str], unsaid: list[str], why: str) -> None:
    text = "\n".join(nodemem.remarks(one, TWO))
    assert all(words in text for words in said), (why, text)
    assert not any(words in text for words in unsaid), (why, text)


def table(*processes: nodemem.Process, width: int | None = None, **asked: bool) -> str:
    args = argparse.Namespace(**({"mappings": False, "ranges": False} | asked))
    return "\n".join(nodemem.rendering(list(processes), TWO, args, width))


def row(text: str, begins: str) -> list[str]:
    (line,) = (line for line in text.splitlines() if line.strip().startswith(begins))
    return line.replace(begins, "", 1).split()


def test_the_table_of_one() -> None:
    one = process(
        {0},
        {0},
        mapping(0x1000, 0x5000, "[heap]", N0=4096, N1=12288),
        mapping(0x5000, 0x6000, "", N0=4096),
        mapping(0x6000, 0x7000, "[vdso]"),
    )
    text = table(one)
    assert "app 1: 2 threads, on NUMA node 0" in text
    assert row(text, "heap") == ["16.4", "kB", "16.4", "kB", "4.1", "kB", "12.3", "kB", "75", "%"]
    assert row(text, "anonymous") == ["4.1", "kB"] * 3
    assert row(text, "all") == ["24.6", "kB", "20.5", "kB", "8.19", "kB", "12.3", "kB", "60", "%"]
    assert "vdso" not in text
    assert "Elsewhere: not on a node where the process runs." in text


def test_the_table_of_several() -> None:
    one = process({0}, {0}, mapping(0x1000, 0x2000, N0=4096))
    other = process({1}, {1}, mapping(0x1000, 0x3000, N0=4096, N1=4096))
    text = table(one, other)
    assert "Memory that several share counts for each." in text
    lines = [line.split() for line in text.splitlines() if line.strip().startswith("app")]
    assert lines[0][3:] == ["0", *["4.1", "kB"] * 3]
    assert lines[1][3:] == ["1", "8.19", "kB", "8.19", "kB", *["4.1", "kB"] * 2, "50", "%"]
    assert row(text, "all")[-2:] == ["33", "%"]


EIGHT = {f"N{node}": 4096000 << node for node in range(8)}


@pytest.mark.parametrize("width", [None, 80, 120, 200])
def test_more_nodes_than_a_line_has_room_for(width: int | None) -> None:
    """Each number is there, whole; and in a line that ends in time, if it is short enough."""
    one = process({7}, {7}, mapping(0x1000, 0x40000000, "[heap]", **EIGHT))
    other = process({0}, {0}, mapping(0x1000, 0x3000, N0=4096))
    text = table(one, other, width=width)
    for node in range(8):
        assert show.size(4096000 << node) in text
    lines = [line for line in text.splitlines() if line.startswith(" app")]
    assert [line.split()[:2] for line in lines] == [["app", "1"]] * 2
    if width == 200:
        assert max(map(len, text.splitlines())) <= width and "node 7" in text
    assert ("node: memory" in text) == (width in (80, 120))


def test_tens_of_thousands_of_mappings() -> None:
    """A row each, in a time that grows with them and not with their square."""
    many = [mapping(0x1000 * n, 0x1000 * (n + 1), N0=4096) for n in range(1, 60001)]
    assert len(table(process({0}, {0}, *many), mappings=True).splitlines()) > 60000


def test_one_node_has_nothing_elsewhere() -> None:
    args = argparse.Namespace(mappings=False, ranges=False)
    one = process({0}, {0}, mapping(0x1000, 0x2000, N0=4096))
    text = "\n".join(nodemem.rendering([one], {0: {0, 1}}, args, 80))
    assert "elsewhere" not in text and "This machine has one NUMA node" in text


def test_ranges_of_those_that_have_several() -> None:
    one = process(
        {0},
        {0},
        mapping(0x1000, 0x3000, "/x\x1b[31m", 9, N0=4096, N1=4096),
        mapping(0x3000, 0x4000, "[heap]", N0=4096),
    )
    one.ranges = {0x1000: [(0x1000, 0x2000, 0), (0x2000, 0x3000, 1)], 0x3000: [(0x3000, 0x4000, 0)]}
    text = table(one, ranges=True)
    assert row(text, "1000-2000") == ["on", "node", "0", *["4.1", "kB"] * 3]
    assert row(text, "2000-3000") == ["on", "node", "1", *["4.1", "kB"] * 3, "100", "%"]
    assert row(text, "3000-4000")[0] == "[heap]", "once, for it has one range"
    assert "\x1b" not in text and "/x?[31m" in text


# --- real processes ---------------------------------------------------------------


class Writer:
    """A process that has written so many pages, with a hole in the middle of them."""

    CODE = (
        "import mmap, sys\n"
        "n = int(sys.argv[1])\n"
        "m = mmap.mmap(-1, n * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n"
        "m.madvise(mmap.MADV_NOHUGEPAGE)\n"
        "for i in range(n):\n"
        "    if i != n // 2: m[i * mmap.PAGESIZE] = 1\n"
        "print(flush=True); sys.stdin.read()\n"
    )

    def __init__(self, pages: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.CODE, str(pages)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout.readline() == "\n"

    def __enter__(self) -> int:
        return self.process.pid

    def __exit__(self, *_: object) -> None:
        self.process.stdin.close()
        self.process.wait(DEADLINE)


def asked(beeline: Any, *words: str) -> dict[str, Any]:
    done = beeline("nodemem", "--json", *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@needs_numa
def test_a_process_that_knows_nothing_of_beeline(beeline: Any) -> None:
    pages = 3000
    with Writer(pages) as pid:
        said = asked(beeline, "--ranges", str(pid))
        (one,) = said["processes"]
    assert one["pid"] == pid and one["endpoints"] == []
    assert set(one["nodes"]) <= {str(node["node"]) for node in said["nodes"]}
    ours = [
        m
        for m in one["mappings"]
        if int(m["end"], 16) - int(m["start"], 16) >= pages * mmap.PAGESIZE
        and sum(m["nodes"].values()) == (pages - 1) * mmap.PAGESIZE
    ]
    assert len(ours) == 1
    holes = [
        int(b["start"], 16) - int(a["end"], 16)
        for a, b in zip(ours[0]["ranges"], ours[0]["ranges"][1:], strict=False)
    ]
    assert sum(holes) == mmap.PAGESIZE, "the page that nobody wrote is in no range"
    for mapping in one["mappings"]:
        sizes = [int(r["end"], 16) - int(r["start"], 16) for r in mapping["ranges"]]
        assert sum(sizes) == sum(mapping["nodes"].values()), mapping


@needs_numa
def test_a_mapping_that_is_huge_and_all_but_empty() -> None:
    """Its ranges are found without going through all of it."""
    size = 1 << 40
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
    try:
        memory = mmap.mmap(-1, size, flags=flags)
    except OSError as error:
        pytest.skip(f"no {size >> 30} GiB of address space: {error.strerror}")
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    places = [mmap.PAGESIZE, size // 2, size // 2 + mmap.PAGESIZE, size - mmap.PAGESIZE]
    for place in places:
        memory[place] = 1
    (ours,) = (m for m in numa.mappings(os.getpid()) if m.size >= size)
    found = [(a - ours.start, b - ours.start) for a, b, _ in numa.ranges(os.getpid(), ours)]
    memory.close()
    pages = [(place, place + mmap.PAGESIZE) for place in places]
    in_row = [pages[0], (pages[1][0], pages[2][1]), pages[3]]
    assert found in (in_row, pages)  # on several nodes the two may be on different ones


@needs_numa
def test_a_job_of_ours(beeline: Any) -> None:
    """Without a PID: who has an endpoint open; each has its own memory, and its neighbour's."""
    build = Path(os.environ.get("BEELINE_BUILD", "build")).resolve()
    program = build / "tests" / "cli" / "traffic"
    if not program.exists():
        pytest.skip(f"{program} is not built")
    pair = subprocess.Popen(
        [str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        pids = set(map(int, pair.stdout.readline().split()[1:]))
        pair.stdin.write("send 1000 1\n")
        pair.stdin.flush()
        assert pair.stdout.readline() == "done\n"
        found = {p["pid"]: p for p in asked(beeline)["processes"]}
        assert pids <= set(found)
        for pid in pids:
            assert len(found[pid]["endpoints"]) == 1
            sizes = {kind: 0 for kind in (nodemem.OWN, nodemem.NEIGHBOURS)}
            for mapping in found[pid]["mappings"]:
                if mapping["kind"] in sizes:
                    sizes[mapping["kind"]] += sum(mapping["nodes"].values())
            assert all(sizes.values()), sizes
        done = beeline("nodemem", *map(str, pids))
        assert done.returncode == 0 and done.stdout.count("traffic") == 2, done.stdout
        done = beeline("nodemem", str(min(pids)), "--mappings")
        assert done.returncode == 0 and f"({nodemem.OWN})" in " ".join(done.stdout.split())
    finally:
        pair.kill()
        pair.wait(DEADLINE)


# --- mistakes --------------------------------------------------------------------


def ended() -> int:
    """The number of a process that has ended, and was waited for."""
    child = subprocess.Popen(["true"])
    child.wait(DEADLINE)
    return child.pid


def test_there_is_no_such_process(beeline: Any) -> None:
    pid = ended()
    done = beeline("nodemem", str(pid))
    assert done.returncode == 1 and f"there is no process {pid}" in done.stderr


@needs_numa
def test_of_several_one_has_ended(beeline: Any) -> None:
    pid = ended()
    done = beeline("nodemem", "--json", str(pid), str(os.getpid()))
    assert done.returncode == 0 and f"there is no process {pid}" in done.stderr
    assert [p["pid"] for p in json.loads(done.stdout)["processes"]] == [os.getpid()]


@needs_numa
def test_one_that_has_ended_and_isnt_waited_for(beeline: Any) -> None:
    child = subprocess.Popen(["true"])
    try:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        done = beeline("nodemem", str(child.pid))
        assert done.returncode == 1 and "has no memory" in done.stderr, done.stderr
    finally:
        child.wait(DEADLINE)


def test_another_users_process(beeline: Any) -> None:
    if os.geteuid() != 0:
        done = beeline("nodemem", "1")
        assert done.returncode == 1 and "it belongs to root: ask as root" in done.stderr
        return
    code = (
        "import os, sys\n"
        "from beeline import nodemem\n"  # a checkout may be ours alone
        "from beeline.main import main\n"
        "os.setgid(65534); os.setuid(65534)\n"
        f"sys.exit(main(['nodemem', '{os.getpid()}']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
        env=os.environ | {"PYTHONPATH": ":".join(sys.path)},
    )
    assert done.returncode == 1 and "it belongs to root: ask as root" in done.stderr, done.stderr


def test_a_kernel_without_numa(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / str(os.getpid())
    folder.mkdir()
    (folder / "maps").write_text(MAPS)
    (folder / "status").write_text("Name: x\nVmSize: 4 kB\n")
    monkeypatch.setattr(numa, "PROC", tmp_path)
    args = argparse.Namespace(pid=[os.getpid()], ranges=False)
    with pytest.raises(BeelineError, match="this kernel knows no NUMA nodes"):
        nodemem.collect(args, {0: {0}})


@needs_numa
def test_move_pages_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By a container's rules, say: what can be said without it is said."""

    def refuse(*_: object) -> list[int]:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(numa, "_nodes_of", refuse)
    args = argparse.Namespace(pid=[os.getpid()], ranges=True)
    (one,) = nodemem.collect(args, numa.machine())
    assert one.ranges == {} and any(m.resident for m in one.mappings)
    assert "no ranges" in (said := capsys.readouterr().err) and "as containers may" in said


def test_nobody_has_an_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodemem.segments, "all_endpoints", lambda: [])
    with pytest.raises(BeelineError, match="name any other: beeline nodemem PID"):
        nodemem.asked_for([])


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["x"], "invalid int value"),
        (["--mappings", "--ranges", "1"], "not allowed with"),
        (["--range"], "unrecognized arguments"),
    ],
)
def test_mistyped(beeline: Any, words: list[str], error: str) -> None:
    done = beeline("nodemem", *words)
    assert done.returncode == 2 and error in done.stderr


def test_the_manual_has_its_words() -> None:
    manual = (Path(__file__).parents[2] / "docs/man/beeline.1").read_text()
    for word in (nodemem.OWN, nodemem.NEIGHBOURS, nodemem.FILES, nodemem.ANONYMOUS):
        assert f"\n.It {word}\n" in manual
