# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What the command says of a variable is what the library says, before anything has started."""

from __future__ import annotations

import os
import shutil

import pytest
from beeline import knobs

TABLE = {
    "FI_BEELINE_COPY": knobs.Knob("choice", ("auto", "vm", "ring", "module")),
    "FI_BEELINE_EAGER_MAX": knobs.Knob("size", least=512, most=14336, auto=True),
    "FI_BEELINE_SPIN": knobs.Knob("number", least=0, most=100000),
}

# Each variable's values; + if it takes them.
VALUES = [
    ("COPY", "ring", "+"),
    ("COPY", "Module", "+"),  # in whatever case
    ("COPY", "", "+"),  # as if it weren't set
    ("COPY", "foo", "-"),
    ("COPY", "rin", "-"),
    ("COPY", "auto|vm", "-"),
    ("EAGER_MAX", "auto", "+"),
    ("EAGER_MAX", "AUTO", "+"),
    ("EAGER_MAX", "512", "+"),
    ("EAGER_MAX", "511", "-"),
    ("EAGER_MAX", "14k", "+"),
    ("EAGER_MAX", "15K", "-"),
    ("EAGER_MAX", "1kb", "-"),
    ("EAGER_MAX", "-512", "-"),
    ("EAGER_MAX", " 512", "-"),
    ("EAGER_MAX", "99999999999999999999999999", "-"),
    ("SPIN", "0", "+"),
    ("SPIN", "1k", "-"),  # a number has no unit
    ("SPIN", "auto", "-"),
    ("SPIN", "1.5", "-"),
]


@pytest.fixture
def built_table(monkeypatch) -> None:
    if not knobs.table():
        monkeypatch.setattr(knobs, "table", lambda: TABLE)


@pytest.mark.parametrize(("name", "value", "taken"), VALUES)
def test_values(name: str, value: str, taken: str) -> None:
    assert TABLE[f"FI_BEELINE_{name}"].takes(value) == (taken == "+")


@pytest.mark.parametrize(("name", "value", "taken"), VALUES)
def test_the_library_agrees(name: str, value: str, taken: str, beeline) -> None:
    if not shutil.which("fi_info"):
        pytest.skip("fi_info is not installed (Debian's package libfabric-bin)")
    name = f"FI_BEELINE_{name}"
    done = beeline("run", "--mpi", "mpich", "--", "fi_info", "-p", "beeline", **{name: value})
    said = [line for line in done.stderr.splitlines() if name in line]
    ours = [line for line in said if line.startswith("beeline: warning:")]
    theirs = [line for line in said if line not in ours]
    assert len(ours) == len(theirs) == (taken == "-"), done.stderr
    for line in ours:
        assert line.rpartition("ignored: ")[2] == theirs[0].rpartition("ignored: ")[2]


def test_mistakes(built_table) -> None:
    environ = {
        "FI_BEELINE_EAGERMAX": "1",
        "FI_BEELINE_XYZ": "1",
        "FI_BEELINE_COPY": "vn",
        "FI": "x",
    }
    said = knobs.mistakes(environ)
    assert [line.split()[0] for line in said] == [
        "FI_BEELINE_COPY",
        "FI_BEELINE_EAGERMAX",
        "FI_BEELINE_XYZ",
    ]
    assert "vn" in said[0] and "auto|vm|ring|module" in said[0]
    assert said[1].endswith(": FI_BEELINE_EAGER_MAX is")


def test_doctor_names_them(beeline) -> None:
    done = beeline("doctor", "--no-mpi", FI_BEELINE_COPY="module", FI_BEELINE_SPIN="x")
    assert "FI_BEELINE_SPIN is set to x" in " ".join(done.stdout.split())
    if not os.path.exists("/dev/beeline"):
        assert "FI_BEELINE_COPY=module asks for it" in " ".join(done.stdout.split())


def test_what_is_no_program(beeline, tmp_path) -> None:
    file = tmp_path / "app"
    file.write_text("")
    for path, said in ((file, "Permission denied"), (tmp_path, "a folder")):
        done = beeline("run", "--", str(path))
        assert done.returncode == 126 and said in done.stderr
    done = beeline("env", "--mpi", str(tmp_path))
    assert done.returncode == 126 and f"{tmp_path}/bin/mpiexec" in done.stderr
