# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""mpi4py's own test suite, from its source distribution, with 1 to 4 ranks over
Beeline: the tests that fail must be those that fail over the MPI library's own
default. The default is only asked when something failed over Beeline, and then only
for the modules in which it did.

What mpi4py leaves out for an MPI library by itself stays left out. The whole suite,
with each number of ranks, is for the long run; the short one takes two ranks and what
is sent and one-sided of it; IMB and stress.c have the collectives.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import mpis

VERSION = "4.1.2"
SMOKE = ["-i", "p2p_buf", "-i", "rma", "-i", "win"]
LIMIT = 850 if mpis.LONG else 280
# What fails over any libfabric provider under this MPI library, and not over its own
# default: seen in the same way with libfabric's tcp provider, or the one named. mpi4py's
# patterns of names.
ANY_PROVIDER = {
    "mpich": {"testDistgraphcomm": "miscounts or hangs in MPICH's ofi netmod, over tcp as well"},
    "openmpi": {"testRevoke": "Open MPI revokes in pml ob1 only, not over an mtl"},
    "impi": {
        f"*TestWinCreateDynamic*.{name}": "Intel MPI miscounts a dynamic window's size wherever"
        " it uses a provider's own one-sided operations, over libfabric's shm as well"
        for name in ("testMemory", "testAttachDetach", "testAttributes", "testGetAttr")
    },
}
HERE = Path(__file__).resolve().parent
FAILED = re.compile(r"^(?:FAIL|ERROR): (.*)$", re.M)
RAN = re.compile(r"^Ran (\d+) tests", re.M)
RUNNING = re.compile(r"^(\w+ \([\w.]+\)) \.\.\. (?!ok|skipped)", re.M)


def pip(*arguments: str) -> None:
    """Asks PyPI; again after a while, where it doesn't answer."""
    command = [str(mpis.VENV / "bin/python"), "-m", "pip", "--quiet"]
    command += ["--disable-pip-version-check", *arguments]
    for pause in (5, 20, 60):
        if subprocess.run(command, stdout=sys.stderr, check=False).returncode == 0:
            return
        time.sleep(pause)
    subprocess.run(command, stdout=sys.stderr, check=True)


def fetch() -> Path:
    """The wheel (it loads any MPI library) and the tests of the same version."""
    top = mpis.WORK / f"mpi4py-{VERSION}"
    stamp = top / "ready"
    if not stamp.exists():
        top.mkdir(parents=True, exist_ok=True)
        pip("install", "--target", str(top / "site"), "--upgrade", f"mpi4py=={VERSION}")
        pip(
            *("download", "--no-deps", "--no-binary", "mpi4py", "--dest", str(top)),
            f"mpi4py=={VERSION}",
        )
        with tarfile.open(top / f"mpi4py-{VERSION}.tar.gz") as archive:
            if hasattr(tarfile, "data_filter"):
                archive.extractall(top, filter="data")
            else:  # a Python older than 3.11.4, whose security updates have not come
                archive.extractall(top)
        stamp.touch()
    return top


class Outcome:
    """What became of one run of the suite on all ranks."""

    def __init__(self, result: mpis.Result, texts: list[str]) -> None:
        self.failed = {name for text in texts for name in FAILED.findall(text)}
        self.ran = [int(RAN.search(text)[1]) if RAN.search(text) else 0 for text in texts]
        self.complete = bool(texts) and all(self.ran)
        self.result = result
        self.last = [RUNNING.findall(text)[-1:] for text in texts]
        self.tails = [" | ".join(text.split("\n")[-4:]) for text in texts]

    def why(self) -> str:
        if self.complete:
            return f"{len(self.failed)} failed: " + "; ".join(sorted(self.failed)[:8])
        return f"{self.result.why(2)}; ranks were at {self.last or self.tails}"

    def modules(self) -> list[str]:
        """The modules in which something failed."""
        return sorted({m[1] for name in self.failed if (m := re.search(r"\((test_\w+)\.", name))})


def suite(top: Path, mpi: str, path: str, ranks: int, modules: list[str]) -> Outcome:
    """Runs the modules named, or all that are wanted."""
    prefix = mpis.WORK / f"mpi4py-{mpi}-{path}-{ranks}"
    for old in mpis.WORK.glob(prefix.name + ".*"):
        old.unlink()
    main = top / f"mpi4py-{VERSION}" / "test" / "main.py"
    argv = [str(mpis.VENV / "bin/python"), str(HERE / "mpi4py_rank.py"), str(prefix), str(main)]
    argv += ["-v", *modules]
    for name in ANY_PROVIDER[mpi]:
        argv += ["-x", name]
    extra = {
        "PYTHONPATH": str(top / "site"),
        "MPI4PY_LIBMPI": str(mpis.prefix(mpi) / "lib" / mpis.LIBRARY[mpi]),
    }
    result = mpis.mpiexec(mpi, path, ranks, argv, LIMIT, extra, top / f"mpi4py-{VERSION}")
    files = [Path(f"{prefix}.{rank}") for rank in range(ranks)]
    return Outcome(result, [f.read_text(errors="replace") for f in files if f.exists()])


def compare(top: Path, mpi: str, ranks: int, modules: list[str]) -> None:
    name = f"mpi4py_{mpi}_{ranks}"
    ours = suite(top, mpi, "beeline", ranks, modules)
    if ours.complete and not ours.failed:
        mpis.ok(name, f"{ours.ran[0]} tests in {ours.result.seconds:.0f} s, none failed")
        return
    theirs = suite(top, mpi, "default", ranks, ours.modules() if ours.complete else modules)
    note = f"{mpi}'s own default: {theirs.why()}"
    if ours.complete and theirs.complete and ours.failed <= theirs.failed:
        mpis.ok(name, f"{ours.ran[0]} tests, {len(ours.failed)} fail as they do over {note}")
    elif ours.complete and theirs.complete:
        news = sorted(ours.failed - theirs.failed)
        mpis.not_ok(name, f"{len(news)} fail over Beeline alone: {'; '.join(news[:8])}")
    elif not theirs.complete and not ours.complete:
        mpis.skip(name, f"the suite does not end over {note} (over Beeline: {ours.why()})")
    else:
        mpis.not_ok(name, f"{ours.why()}. {note}")


def main(mpi: str) -> None:
    """All rank counts under one MPI library."""
    if mpi not in mpis.installed():
        print(f"{mpi} is not installed in {mpis.MPIS}")
        sys.exit(77)
    top = fetch()
    for name, why in ANY_PROVIDER[mpi].items():
        mpis.skip(f"mpi4py_{mpi}_{name}", why)
    for ranks in (1, 2, 3, 4) if mpis.LONG else (2,):
        compare(top, mpi, ranks, [] if mpis.LONG else SMOKE)
