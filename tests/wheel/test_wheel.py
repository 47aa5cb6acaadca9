# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`pip install .` as a user does it, by way of an sdist: that has all that a wheel is built
from, pip builds it with nothing but what pyproject.toml names, and what lies in a fresh
virtual environment then works: the command, and the provider that it names. Of the working
tree, as far as git knows its files. Compiled without optimization, for it is only looked at."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
UNREACHABLE = re.compile(
    r"NewConnectionError|ConnectTimeout|ReadTimeout|ProxyError|SSLError|Max retries|"
    r"ConnectionResetError|Network is unreachable|Temporary failure in name resolution"
)


def clean(**environ: str) -> dict[str, str]:
    """No virtual environment's, no MPI's and no Python path of ours."""
    ours = ("FI_", "OMPI_", "MPIR_", "I_MPI", "PYTHONPATH", "VIRTUAL_ENV", "BEELINE")
    return {k: v for k, v in os.environ.items() if not k.startswith(ours)} | environ


def run(*argv: str | Path, cwd: Path, **environ: str) -> str:
    done = subprocess.run(
        [str(a) for a in argv],
        cwd=cwd,
        env=clean(**environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{argv}: {done.stdout}"
    return done.stdout


def pip(python: Path, *argv: str | Path, cwd: Path) -> None:
    """pip install, which skips where that is for want of a network."""
    try:
        run(python, "-m", "pip", "install", "--quiet", "--retries", "1", *argv, cwd=cwd)
    except AssertionError as error:
        if UNREACHABLE.search(str(error)):
            pytest.skip("PyPI can't be reached: what builds a wheel comes from there")
        raise


def checkout(folder: Path) -> Path:
    """What git knows of the working tree, in a repository of its own: an sdist is made of
    what is committed."""
    if not shutil.which("git") or not (TOP / ".git").exists():
        pytest.skip("no git repository: an sdist is made of one")
    files = run("git", "ls-files", "-z", cwd=TOP).split("\0")
    for name in filter(None, files):
        if (TOP / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(TOP / name, folder / name)
    who = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    run("git", "init", "-q", cwd=folder)
    run("git", "add", "-A", "-f", cwd=folder)
    run("git", *who, "commit", "-q", "-m", "all", "--no-verify", cwd=folder)
    return folder


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The virtual environment."""
    work = tmp_path_factory.mktemp("wheel")
    source, tools, dist, venv = (work / name for name in ("source", "tools", "dist", "venv"))
    source.mkdir()
    dist.mkdir()
    checkout(source)
    needs = tomllib.loads((source / "pyproject.toml").read_text())["build-system"]["requires"]
    pip(Path(sys.executable), "--target", tools, *needs, cwd=work)
    path = {"PYTHONPATH": str(tools), "PATH": f"{tools / 'bin'}:{os.environ['PATH']}"}
    make = "import sys, mesonpy; mesonpy.build_sdist(sys.argv[1])"
    run(sys.executable, "-c", make, dist, cwd=source, **path)
    shutil.rmtree(source)  # nothing else comes from there
    shutil.rmtree(tools)
    run(sys.executable, "-m", "venv", venv, cwd=work)
    (sdist,) = dist.iterdir()
    quick = "--config-settings=setup-args=-Doptimization=0"
    pip(venv / "bin/python", quick, sdist, cwd=work)
    return venv


def test_version(installed: Path, tmp_path: Path) -> None:
    said = run(installed / "bin/beeline", "--version", cwd=tmp_path)
    assert (TOP / "kernel/VERSION").read_text().strip() in said.split()


def exports(installed: Path, cwd: Path) -> str:
    return run(installed / "bin/beeline", "env", "--mpi", "mpich", cwd=cwd)


def test_provider_is_the_wheels(installed: Path, tmp_path: Path) -> None:
    found = re.search(r"FI_PROVIDER_PATH=[\"']?([^\"':\s]+)", exports(installed, tmp_path))
    assert found and Path(found[1]).is_relative_to(installed)
    assert (Path(found[1]) / "libbeeline-fi.so").is_file()


def test_fi_info_of_debian(installed: Path, tmp_path: Path) -> None:
    if not shutil.which("fi_info"):
        pytest.skip("fi_info is not installed (Debian's package libfabric-bin)")
    script = f"{exports(installed, tmp_path)}\nexec fi_info -p beeline"
    assert "provider: beeline" in run("sh", "-c", script, cwd=tmp_path).splitlines()
