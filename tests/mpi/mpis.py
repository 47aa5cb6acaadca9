# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What the drivers in this folder share: the MPI libraries, how to start a program
under each with its own default and over Beeline, and how to report.

A path is what carries the messages: "default" (the MPI library's own) or "beeline".
There are more ranks than cores in most runs, so each MPI library is asked to yield
the core when it waits, on either path.

    BEELINE        the command, BEELINE_MPIS the folder of MPI libraries (tests/run.py)
    BEELINE_LONG=1 everything, not the selection that fits `make test` (docs/testing.md)
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
VENV = Path(os.environ.get("BEELINE", TOP / ".venv/bin/beeline")).parent.parent
BEELINE = VENV / "bin/beeline"
MPIS = Path(os.environ.get("BEELINE_MPIS", VENV / "mpi"))
WORK = Path(os.environ.get("BEELINE_BUILD", TOP / "build")) / "mpi-tests"
LONG = os.environ.get("BEELINE_LONG") == "1"
RANKS = (2, 4) if LONG else (2,)  # of a driver that takes long with more ranks than cores
NAMES = ("mpich", "openmpi", "impi")
LIBRARY = {"mpich": "libmpi.so.12", "openmpi": "libmpi.so.40", "impi": "libmpi.so.12"}
PATHS = ("default", "beeline")


@dataclass(frozen=True)
class Result:
    """How a run ended and what it printed. status None: it was stopped, too late."""

    status: int | None
    output: str
    seconds: float

    def why(self, lines: int = 1) -> str:
        """A short reason for a failed run."""
        state = "not done in time" if self.status is None else f"exit status {self.status}"
        last = [line.strip() for line in self.output.splitlines() if line.strip()][-lines:]
        return f"{state} after {self.seconds:.0f} s: " + " | ".join(last)


def ok(name: str, note: str = "") -> None:
    print(f"ok {name}" + (f": {note}" if note else ""), flush=True)


def not_ok(name: str, why: str) -> None:
    print(f"not ok {name}: {' '.join(why.split())[:1500]}", flush=True)


def skip(name: str, why: str) -> None:
    print(f"skip {name}: {' '.join(why.split())[:300]}", flush=True)


def prefix(mpi: str) -> Path:
    return MPIS / mpi


def installed() -> list[str]:
    """The MPI libraries from PyPI that are here."""
    return [name for name in NAMES if (prefix(name) / "lib" / LIBRARY[name]).exists()]


def exports(mpi: str) -> dict[str, str]:
    """What `beeline env` prints for this MPI library, as a dictionary."""
    text = subprocess.run(
        [str(BEELINE), "env", "--mpi", mpi],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": f"{prefix(mpi) / 'bin'}:{os.environ['PATH']}"},
    ).stdout
    clean = f"unset {' '.join(k for k in ('FI_PROVIDER', 'FI_PROVIDER_PATH'))}; {text}env -0"
    done = subprocess.run(["sh", "-c", clean], capture_output=True, text=True, check=True)
    after = dict(item.split("=", 1) for item in done.stdout.split("\0") if "=" in item)
    return {k: v for k, v in after.items() if os.environ.get(k) != v and k not in ("_", "PWD")}


def environment(mpi: str, path: str) -> dict[str, str]:
    """The environment of a run: yielding, root allowed, and Beeline if asked for."""
    environ = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("FI_", "OMPI_", "PRTE_", "PMIX_", "I_MPI_", "MPIR_", "HYDRA_"))
    }
    # Numerical libraries would start a thread per core in each rank.
    environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    if mpi in ("openmpi", "debian"):
        environ |= {
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
            "OMPI_MCA_rmaps_base_oversubscribe": "1",
            "OMPI_MCA_hwloc_base_binding_policy": "none",
            "PRTE_MCA_hwloc_default_binding_policy": "none",
            "OMPI_MCA_mpi_yield_when_idle": "1",
        }
    if mpi == "impi":
        environ |= {
            "I_MPI_ROOT": str(prefix(mpi)),
            "LD_LIBRARY_PATH": str(prefix(mpi) / "lib"),
            "I_MPI_PIN": "0",
            "I_MPI_THREAD_YIELD": "3",
            "I_MPI_HYDRA_BOOTSTRAP": "fork",
        }
    if path == "beeline":
        environ |= exports("openmpi" if mpi == "debian" else mpi)
    return environ


def run(argv: list[str], environ: dict[str, str], limit: float, cwd: Path | None = None) -> Result:
    """Runs a program with all it starts; nothing of it is left when this returns, nor
    when this process is killed (a launcher that is asked to end takes its ranks along).
    """
    started = time.monotonic()
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", *argv],
            env=environ,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        status: int | None
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
        _end(process)
        output.seek(0)
        return Result(status, output.read(), time.monotonic() - started)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the launcher's session: asked first, since launchers clean up, then killed."""
    for sign, patience in ((signal.SIGTERM, 3.0), (signal.SIGKILL, 10.0)):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            break
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue


def mpiexec(
    mpi: str,
    path: str,
    ranks: int,
    program: list[str],
    limit: float,
    extra: dict[str, str] | None = None,
    cwd: Path | None = None,
) -> Result:
    """Starts a program on so many ranks under one MPI library."""
    launcher = prefix(mpi) / "bin/mpiexec"
    environ = environment(mpi, path) | (extra or {})
    return run([str(launcher), "-n", str(ranks), *program], environ, limit, cwd)


def build(mpi: str, name: str) -> Path:
    """Compiles NAME.c against this MPI library; its wrappers expect a compiler of their own."""
    WORK.mkdir(parents=True, exist_ok=True)
    program = WORK / f"{name}-{mpi}"
    # Intel's wheel has no headers; its interface is MPICH's.
    headers = prefix("mpich" if mpi == "impi" else mpi) / "include"
    lib = prefix(mpi) / "lib"
    subprocess.run(
        ["cc", "-O2", "-std=gnu17", "-Wall", "-Wextra", "-pthread", f"-I{headers}"]
        + ["-o", str(program), str(Path(__file__).resolve().parent / f"{name}.c")]
        + [f"-L{lib}", f"-l:{LIBRARY[mpi]}", f"-Wl,-rpath,{lib}"]
        + ["-Wl,--allow-shlib-undefined"],
        check=True,
    )
    return program


def buildable() -> list[str]:
    """The MPI libraries that programs can be built for; says so of any other."""
    found = need_mpis()
    if "impi" in found and "mpich" not in found:
        skip("impi", "programs for it are compiled with MPICH's headers, which are missing")
        found.remove("impi")
    return found


def need_mpis() -> list[str]:
    """The MPI libraries, or the end of the driver: it is skipped without any."""
    found = installed()
    if not found:
        print(f"no MPI library in {MPIS}: make test installs them")
        sys.exit(77)
    return found
