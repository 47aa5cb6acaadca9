# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What the tests of the command share: false MPIs that answer as real ones did
(answers/ holds what each really printed), and the real ones where installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ANSWERS = Path(__file__).parent / "answers"


@pytest.fixture
def fake_mpi(tmp_path: Path) -> Callable[..., Path]:
    """Make PREFIX/bin/mpiexec print a recorded answer; `library` goes into
    PREFIX/lib under a name that such an MPI has. Returns the launcher."""

    def make(answer: str, library: tuple[str, bytes] | None = None, name: str = "mpiexec") -> Path:
        prefix = tmp_path / answer
        (prefix / "bin").mkdir(parents=True, exist_ok=True)
        (prefix / "lib").mkdir(exist_ok=True)
        launcher = prefix / "bin" / name
        launcher.write_text(f'#!/bin/sh\n/bin/cat "{ANSWERS / answer}.txt"\n')
        launcher.chmod(0o755)
        if library:
            (prefix / "lib" / library[0]).write_bytes(b"\x7fELF..." + library[1] + b"\0")
        return launcher

    return make


@pytest.fixture
def beeline() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the installed command."""
    command = os.environ.get("BEELINE") or shutil.which("beeline")
    if not command or not os.access(command, os.X_OK):
        pytest.skip("the beeline command is not installed: make build")

    def run(*args: str, **environ: str) -> subprocess.CompletedProcess[str]:
        clean = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("FI_", "OMPI_", "MPIR_", "I_MPI"))
        }
        return subprocess.run(
            [command, *args],
            env=clean | environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


@pytest.fixture
def wheel() -> Callable[[str], Path]:
    """The mpiexec of an MPI from PyPI."""
    folder = os.environ.get("BEELINE_MPIS", "")

    def find(name: str) -> Path:
        path = Path(folder) / name / "bin" / "mpiexec"
        if not folder or not path.exists():
            pytest.skip(f"{name} from PyPI is not installed in .venv/mpi")
        return path

    return find
