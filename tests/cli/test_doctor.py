# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`beeline doctor` where it is well, and where something is taken from it."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from beeline import doctor
from beeline import mpi as mpis
from beeline.doctor import bpf, kernel, machine
from beeline.doctor import mpi as doctor_mpi
from beeline.doctor.finding import BAD, NOTE, OK, Finding

DEADLINE = 120


def run(*before: str, with_mpi: bool = False) -> tuple[int, dict[str, Any]]:
    """The command behind some others that restrict it."""
    command = os.environ.get("BEELINE") or shutil.which("beeline")
    if not command or not os.access(command, os.X_OK):
        pytest.skip("the beeline command is not installed: make build")
    done = subprocess.run(
        [*before, command, "doctor", "--json", *([] if with_mpi else ["--no-mpi"])],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def line(record: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [f for f in record["findings"] if f["name"] == name]
    return found


def denied(*calls: str) -> list[str]:
    program = Path(os.environ.get("BEELINE_BUILD", "build")) / "tests" / "cli" / "denied"
    if not program.exists():
        pytest.skip(f"{program} is not built")
    return [str(program), *calls, "--"]


def test_here() -> None:
    """The tests' own machine can do it, or the other tests could not run."""
    status, record = run()
    assert status == 0 and record["works"], record["verdict"]
    assert line(record, "messages")["data"] == {"inline": True, "eager": True, "large": True}
    names = {f["name"] for f in record["findings"]}
    assert {
        "single copy",
        "waking",
        "shared memory",
        "rendezvous",
        "membarrier",
        "open files",
        "locked memory",
        "address space",
        "job's memory",
        "namespaces",
        "huge pages",
        "NUMA",
        "module",
        "BPF",
    } <= names


def test_text(beeline) -> None:
    done = beeline("doctor", "--no-mpi")
    assert done.returncode == 0
    assert done.stdout.splitlines()[0].startswith("ok   messages")
    assert done.stdout.splitlines()[-1].startswith("Beeline works here")


WAYS = [
    # variables; the ranges of an exchange, of a ping-pong; whether anything is dirty
    (
        {"EAGER_MAX": "5000", "EAGER_LONG_MAX": "50000", "COPYBUF": "never"},
        [[50000, "EAGER"], [None, "RNDV"]],
        [[50000, "EAGER"], [None, "RNDV"]],
        False,
    ),
    (
        {"EAGER_MAX": "5000", "EAGER_LONG_MAX": "50000", "COPYBUF": "always"},
        [[288, "EAGER"], [50000, "COPYBUF"], [None, "RNDV"]],
        [[288, "EAGER"], [50000, "COPYBUF"], [None, "RNDV"]],
        True,
    ),
    (
        {"EAGER_MAX": "5000", "EAGER_LONG_MAX": "50000", "COPYBUF": "exchange"},
        [[1023, "EAGER"], [50000, "COPYBUF"], [None, "RNDV"]],
        [[50000, "EAGER"], [None, "RNDV"]],
        True,
    ),
    (
        {"EAGER_MAX": "512", "EAGER_LONG_MAX": "0", "COPYBUF": "never"},
        [[512, "EAGER"], [None, "RNDV"]],
        [[512, "EAGER"], [None, "RNDV"]],
        False,
    ),
]


@pytest.mark.parametrize(("variables", "exchange", "pingpong", "dirty"), WAYS)
def test_ways_are_those_in_force(
    variables: dict[str, str], exchange: list, pingpong: list, dirty: bool, beeline
) -> None:
    environ = {f"FI_BEELINE_{name}": value for name, value in variables.items()}
    ways = json.loads(beeline("doctor", "--no-mpi", "--json", **environ).stdout)["ways"]
    assert ways["machine"] and ways["call_ns"] > 0 and ways["claimed_from"] == 65536
    for distance in ("near", "far"):
        assert ways["ranges"]["exchange"][distance] == exchange
        assert ways["ranges"]["ping-pong"][distance] == pingpong
    assert ("just-written" in ways["ranges"]) == dirty


def test_ways_as_a_table(beeline) -> None:
    done = beeline(
        "doctor", "--no-mpi", FI_BEELINE_EAGER_LONG_MAX="48K", FI_BEELINE_COPYBUF="exchange"
    )
    rows = [row.strip() for row in done.stdout.splitlines()]
    (pingpong,) = [row for row in rows if row.startswith("ping-pong")]
    assert "EAGER to 48 KiB, then RNDV" in pingpong and "the same" in pingpong
    (exchange,) = [row for row in rows if row.startswith("exchange")]
    assert "EAGER to 1023 B, COPYBUF to 48 KiB, then RNDV" in exchange


TAKEN = [
    # calls refused, the line that tells, its state, works
    (("process_vm_readv", "process_vm_writev"), "single copy", NOTE, True),
    (("process_vm_readv",), "single copy", NOTE, True),
    (("process_vm_writev",), "single copy", NOTE, True),
    (("netlink",), "waking", NOTE, True),
    (("membarrier",), "membarrier", NOTE, True),
    (("memfd_create",), "shared memory", BAD, False),
]


@pytest.mark.parametrize(("calls", "name", "state", "works"), TAKEN)
def test_calls_taken_by_a_seccomp_filter(
    calls: tuple[str, ...], name: str, state: str, works: bool
) -> None:
    status, record = run(*denied(*calls))
    assert (status == 0) == record["works"] == works
    found = line(record, name)
    assert found["state"] == state
    assert "EPERM" in found["what"] and "seccomp" in found["why"] + found["command"]
    assert found["command"]
    assert name in record["verdict"]
    if name == "single copy":
        assert found["data"]["seccomp_filter"]
        for call in ("process_vm_readv", "process_vm_writev"):
            assert found["data"][call] == (call not in calls)


def test_descriptors_are_counted_rightly() -> None:
    """What the text says an endpoint and its process hold is what a live one holds."""
    program = Path(os.environ.get("BEELINE_BUILD", "build")) / "tests" / "cli" / "traffic"
    if not program.exists():
        pytest.skip(f"{program} is not built")
    with subprocess.Popen(
        [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin and process.stdout
        pid = process.stdout.readline().split()[1]
        print("send 8 1", file=process.stdin, flush=True)
        assert process.stdout.readline().strip() == "done"
        opened = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        print("close", file=process.stdin, flush=True)
        assert process.stdout.readline().strip() == "done"
        closed = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        print("end", file=process.stdin, flush=True)
    _, record = run()
    text = line(record, "open files")["why"]
    assert sum(map(int, re.findall(r"\d+", text))) == opened - closed, text


def test_files_of_mpich(tmp_path: Path) -> None:
    assert machine.dev_shm(tmp_path).state == OK
    (tmp_path / "mpich_shm_1_0").write_bytes(bytes(1 << 20))
    found = machine.dev_shm(tmp_path)
    assert found.state == NOTE and found.data["files"] == 1
    assert found.data["bytes"] >= 1 << 20
    assert found.command == "export MPIR_CVAR_CH4_SHM_POSIX_IQUEUE_NUM_CELLS=1"


def test_no_room_for_files_of_mpis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs(tmp_path)

    def says(blocks: int, flags: int) -> None:
        values = [*real[:4], blocks, *real[5:8], flags, *real[9:]]
        monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(values))

    least = machine.SHM_LEAST // real.f_frsize
    for blocks, flags, state, room in (
        (least, 0, OK, None),
        (least - 1, 0, NOTE, (least - 1) * real.f_frsize),
        (least, os.ST_RDONLY, NOTE, 0),
    ):
        says(blocks, flags)
        found = machine.dev_shm(tmp_path)
        assert found.state == state
        assert (found.data or {}).get("room") == room
    assert machine.dev_shm(tmp_path / "none").state == NOTE


def test_few_open_files() -> None:
    status, record = run("sh", "-c", 'ulimit -n 20; exec "$@"', "sh")
    found = line(record, "open files")
    assert found["state"] == NOTE and found["command"] == "ulimit -n 1024"
    assert found["data"]["nofile"] == 20
    assert status == 0 and record["works"]


def test_too_few_open_files() -> None:
    status, record = run("sh", "-c", 'ulimit -n 7; exec "$@"', "sh")
    assert status == 1 and not record["works"]
    assert line(record, "messages")["state"] == BAD
    assert "Too many open files" in line(record, "messages")["why"]
    assert line(record, "open files")["command"] == "ulimit -n 1024"


def test_little_address_space() -> None:
    _, record = run("sh", "-c", 'ulimit -v 500000; exec "$@"', "sh")
    assert line(record, "address space")["state"] == NOTE


def test_short_files() -> None:
    status, record = run("prlimit", "--fsize=4096:")
    found = line(record, "file size")
    assert found["state"] == NOTE and found["command"] == "ulimit -f unlimited"
    assert status == 1 and not record["works"]


def test_one_processor() -> None:
    cpu = min(os.sched_getaffinity(0))
    _, record = run("taskset", "-c", str(cpu))
    assert line(record, "processors")["state"] == NOTE
    assert record["works"]


def test_nobody() -> None:
    if subprocess.run(["unshare", "-U", "true"], capture_output=True, check=False).returncode:
        pytest.skip("not permitted here: unshare -U")
    status, record = run("unshare", "-U")
    assert status == 1 and not record["works"]
    assert line(record, "namespaces")["state"] == BAD
    assert "--map-root-user" in line(record, "namespaces")["command"]


@pytest.mark.parametrize(
    ("options", "kinds"), [(["-U", "-r"], {"user"}), (["-U", "-r", "-p", "-f"], {"user", "pid"})]
)
def test_namespaces_of_its_own(options: list[str], kinds: set[str]) -> None:
    unshare = ["unshare", *options]
    if "-p" in options:
        unshare.append("--mount-proc")
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip(f"not permitted here: {' '.join(unshare)}")
    status, record = run(*unshare)
    found = line(record, "namespaces")
    assert kinds <= set(found["data"]["own"])
    assert found["state"] == NOTE and found["command"]
    assert status == 0  # within one container all is well


# --- BPF, of which nothing is ever a fault ---------------------------------------


def test_bpf_taken_by_a_seccomp_filter() -> None:
    status, record = run(*denied("bpf"))
    found = line(record, "BPF")
    assert status == 0 and found["state"] == OK and "BPF" not in record["verdict"]
    assert "EPERM" in found["what"] and not found["command"]  # nobody needs it
    assert "nothing of Beeline needs it" in found["why"]
    assert [found["data"][part] for part in ("map", "program", "kernel_reads")] == [False] * 3
    if all(found["data"]["capabilities"].values()):
        assert "seccomp" in found["why"]


def as_nobody(*options: str) -> list[str]:
    command = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", *options]
    beeline = os.environ.get("BEELINE") or shutil.which("beeline") or "beeline"
    if os.geteuid() or subprocess.run([*command, "test", "-x", beeline], check=False).returncode:
        pytest.skip("only root becomes nobody, and nobody must be able to run the command")
    return command


def test_bpf_of_nobody() -> None:
    _, record = run(*as_nobody())
    found = line(record, "BPF")
    assert found["state"] == OK and not found["data"]["program"]
    assert not any(found["data"]["capabilities"].values())
    assert "CAP_BPF" in found["why"] and not found["command"]


@pytest.mark.parametrize(
    ("number", "own", "has", "says"),
    [
        (38, [], True, "built without BPF"),
        (22, [], True, "CONFIG_BPF_STREAM_PARSER"),
        (1, [], False, "CAP_NET_ADMIN"),
        (1, ["user"], True, "user namespace"),
        (1, [], True, "lockdown"),
    ],
)
def test_why_bpf_is_refused(
    number: int, own: list[str], has: bool, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bpf, "filtered", lambda: False)
    monkeypatch.setattr(bpf, "own_namespaces", lambda: own)
    monkeypatch.setattr(bpf, "capabilities", lambda: dict.fromkeys(bpf.CAPABILITIES, has))
    refused = kernel.Result(True, number)
    found = bpf.finding(kernel.Probe(dict.fromkeys(bpf.TRIES, refused), ""))
    assert found.state == OK and says in found.why and not found.command
    assert found.what.startswith("refused: ")


# --- MPI ---------------------------------------------------------------------


def test_every_mpi_of_this_machine(wheel) -> None:
    wheel("mpich")
    status, record = run(with_mpi=True)
    assert status == 0
    tried = [f for f in record["findings"] if "mpi" in f["data"]]
    assert {"mpich"} <= {f["data"]["mpi"] for f in tried}
    for found in tried:
        takes = found["data"]["chooses_beeline"]
        assert (takes and not found["data"]["caveat"]) == (found["state"] == OK), found
        if found["data"]["mpiexec"].startswith(os.environ["BEELINE_MPIS"]):
            assert takes, found
            assert re.fullmatch(r"[12]\.\d+", found["data"]["libfabric"])


def test_an_mpi_without_libfabric(fake_mpi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_mpi.env, "for_mpi", lambda _: [])
    found = doctor_mpi.examine(mpis.identify(fake_mpi("debian-mpich-4.0.2")))
    assert found.state == NOTE and "ch4:ucx" in found.what
    assert not found.data["chooses_beeline"]


def test_no_advice_to_install_what_is_here(fake_mpi, monkeypatch: pytest.MonkeyPatch) -> None:
    def examine(mpi: mpis.Mpi) -> Finding:
        data = {"chooses_beeline": mpi.obstacle is None}
        if mpi.obstacle is None:
            return Finding(mpi.title, OK, "takes it", data=data)
        return Finding(mpi.title, NOTE, mpi.obstacle, command=doctor_mpi.INSTALL, data=data)

    monkeypatch.setattr(doctor_mpi, "examine", examine)
    old = mpis.identify(fake_mpi("debian-mpich-4.0.2"))
    new = mpis.identify(fake_mpi("mpich-5.0.2"))
    for there, command in (([old], doctor_mpi.INSTALL), ([new, old], "")):
        monkeypatch.setattr(mpis, "find_all", lambda there=there: there)
        found = doctor_mpi.findings()
        assert found[-1].name == "MPICH 4.0.2" and found[-1].command == command
        assert found[-1].why == ("" if command else "MPICH 5.0.2, here too, can")


def test_a_variable_that_is_none_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FI_BEELINE_EAGERMAX", "1")
    _, record = run()
    found = line(record, "settings")
    assert found["state"] == NOTE and "FI_BEELINE_EAGER_MAX" in found["what"]
    assert found["command"] == "unset FI_BEELINE_EAGERMAX"


def test_an_mpi_that_does_not_start(fake_mpi, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = fake_mpi("mpich-5.0.2", ("libmpi.so.12", b"MPICH Version:\t5.0.2"))
    mpi = mpis.identify(launcher)
    launcher.write_text("#!/bin/sh\necho no slots available\nexit 1\n")
    monkeypatch.setattr(doctor_mpi.env, "for_mpi", lambda _: [])
    found = doctor_mpi.examine(mpi)
    assert found.state == NOTE and "no slots available" in found.why


def test_answers_that_a_launcher_joined() -> None:
    text = 'noise\nbeeline-mpiprobe:{"a": 1}beeline-mpiprobe:{"a": 2}\n[0] beeline-mpiprobe:{"a"'
    assert doctor_mpi.answers(text) == [{"a": 1}, {"a": 2}]


# --- its parts -----------------------------------------------------------------


def test_probe_output() -> None:
    results = kernel.parse("module 0 1 1\nreadv 1\nmbind signal 31\n")
    assert results["module"].good and results["module"].extra == (1, 1)
    assert results["readv"].said == "EPERM: Operation not permitted"
    assert results["mbind"].said == "killed by SIGSYS" and not results["mbind"].good
    assert kernel.Probe(results, "")["absent"].said == "no answer"


@pytest.mark.parametrize(
    ("scope", "number", "says"),
    [("2", 1, "CAP_SYS_PTRACE"), ("3", 1, "until the next boot"), ("1", 38, "without process_vm")],
)
def test_why_copies_are_refused(
    scope: str, number: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "read", lambda _: scope)
    monkeypatch.setattr(kernel, "filtered", lambda: False)
    refused = kernel.Result(True, number)
    (found,) = kernel.copies(kernel.Probe({"readv": refused, "writev": refused}, ""))
    assert found.state == NOTE and says in found.why and found.command


def no_counters() -> None:
    raise PermissionError


@pytest.mark.parametrize(("copies", "wished"), [(True, ""), (True, "module"), (False, "")])
@pytest.mark.parametrize(("number", "abi"), [(errno.EACCES, ()), (0, (2, 3))])
def test_the_module_is_advised_only_to_who_needs_it(
    number: int, abi: tuple[int, ...], copies: bool, wished: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FI_BEELINE_COPY", wished)
    direct = kernel.Result(True, 0 if copies else errno.EPERM)
    module = kernel.Result(True, number, 0, abi)
    found = machine.module(kernel.Probe({"module": module, "readv": direct, "writev": direct}, ""))
    needed = wished == "module" or not copies
    assert (found.state == NOTE) == bool(found.command) == needed


@pytest.mark.parametrize(
    ("abi", "state", "says"),
    [
        (3, OK, "interface 3"),
        (4, OK, "newer than the 3 that this Beeline knows: it serves that, too"),
        (2, NOTE, "older than the 3"),
        (0, NOTE, "older than the 3"),
    ],
)
def test_interface_of_the_module(
    abi: int, state: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine.kmod, "stat", no_counters)
    found = machine.module(kernel.Probe({"module": kernel.Result(True, 0, 0, (abi, 3))}, ""))
    assert found.state == state and says in found.what
    assert ("beeline setup module" in found.command) == (state == NOTE)
    assert ("it is not used" in found.why) == (abi == 0)
    assert "limic" not in found.why and "exports" not in found.what


def test_counters_of_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    stat = machine.kmod.Stat(live=2, from_bytes=3 << 20, to_bytes=4 << 20)
    monkeypatch.setattr(machine.kmod, "stat", lambda: stat)
    found = machine.module(kernel.Probe({"module": kernel.Result(True, 0, 0, (1, 1))}, ""))
    assert found.what.endswith("; 2 exports now, 7 MiB copied since it was loaded")
    assert found.data["exports"] == 2 and found.data["copied"] == 7 << 20


def test_verdict() -> None:
    fine, so_so, bad = (Finding(s, s, "") for s in (OK, NOTE, BAD))
    assert doctor.works([fine, so_so])
    assert doctor.verdict([fine]) == "Beeline works here"
    assert doctor.verdict([fine, so_so]) == "Beeline works here; see the note on note"
    assert doctor.verdict([so_so, so_so]) == "Beeline works here; see the notes on note, note"
    assert not doctor.works([fine, so_so, bad])
    assert doctor.verdict([so_so, bad]) == "Beeline does not work here: bad"
