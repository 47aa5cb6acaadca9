# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Places that can't be written to are said in one line, and before anything is measured."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from beeline import needs
from beeline.errors import BeelineError

MEASURES = {
    "local": ("local", "--mpi", "none", "--quick"),
    "overlap": ("overlap", "--rounds", "1"),
    "crowd": ("crowd", "--rounds", "1"),
    "primitives": ("primitives", "--quick", "--sizes", "4k"),
}


@pytest.mark.parametrize("option", ["--json", "--plot"])
@pytest.mark.parametrize("name", MEASURES)
def test_bench_asks_first(beeline, name: str, option: str) -> None:
    done = beeline("bench", *MEASURES[name], option, "/proc/nowhere/x")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("beeline: /proc/nowhere")
    assert "Traceback" not in done.stderr
    assert not done.stdout.strip() or name == "local"  # which says first what it measures


def test_outputs_are_left_as_they_are(tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    old.write_text("old")
    needs.outputs(old, tmp_path / "plots")
    needs.outputs(tmp_path / "a" / "new.json", None)
    assert old.read_text() == "old"
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a", "old.json", "plots"]


def test_outputs_that_are_something_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for file, folder in [
        (tmp_path, None),
        (None, tmp_path / "file"),
        (tmp_path / "file" / "x", None),
    ]:
        with pytest.raises(BeelineError, match=str(tmp_path)):
            needs.outputs(file, folder)


@pytest.mark.parametrize("args", [("doctor", "--no-mpi"), ("stat", "--json"), ("env", "--help")])
def test_output_that_is_full(args: tuple[str, ...]) -> None:
    command = os.environ.get("BEELINE")
    if not command:
        pytest.skip("the beeline command is not installed: make build")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [command, *args],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert "No space left on device" in done.stderr


def test_cache_that_cannot_be_written(beeline) -> None:
    done = beeline("bench", "overlap", "--rounds", "1", XDG_CACHE_HOME="/proc")
    assert "Traceback" not in done.stderr
    assert done.returncode == 1


def test_outputs_that_are_no_plain_files(tmp_path: Path) -> None:
    link, fifo = tmp_path / "link", tmp_path / "fifo"
    link.symlink_to(tmp_path / "nowhere")
    os.mkfifo(fifo)
    for file in (link, fifo, Path("/dev/stdout")):
        needs.outputs(file, None)  # and nobody waits for a reader
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fifo", "link"]


@pytest.mark.parametrize("args", [("doctor", "--no-mpi"), ("bench", "local", "--mpi", "lam")])
def test_output_that_is_closed(args: tuple[str, ...]) -> None:
    command = os.environ.get("BEELINE")
    if not command:
        pytest.skip("the beeline command is not installed: make build")
    words = ["sh", "-c", 'exec "$@" >&-', "sh", command, *args]
    done = subprocess.run(words, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    assert "Traceback" not in done.stderr
    assert args[0] == "doctor" or "give one of mpich" in done.stderr


def test_paths_that_are_no_text() -> None:
    command = os.environ.get("BEELINE")
    if not command:
        pytest.skip("the beeline command is not installed: make build")
    environ = os.environ | {
        "FI_PROVIDER_PATH": os.fsdecode(b"/opt/\xe9"),
        "PYTHONIOENCODING": "utf-8:strict",
    }
    done = subprocess.run(
        [command, "env", "--mpi", "mpich"],
        env=environ,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert b"/opt/\xe9" in done.stdout
