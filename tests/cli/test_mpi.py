# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Finding out which MPI an mpiexec belongs to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from beeline import mpi as mpis
from beeline.errors import BeelineError
from conftest import ANSWERS

RECORDED = [
    # what it printed, family, version, device
    ("mpich-5.0.2", "hydra", "5.0.2", "ch4:ucx,ofi"),
    ("debian-mpich-4.0.2", "hydra", "4.0.2", "ch4:ucx"),
    ("openmpi-5.0.11", "openmpi", "5.0.11", ""),
    ("debian-openmpi-4.1.4", "openmpi", "4.1.4", ""),  # calls itself OpenRTE
    ("impi-2021.18.1", "impi", "2021.18.1", ""),
]


@pytest.mark.parametrize(("name", "family", "version", "device"), RECORDED)
def test_recorded_answer(name: str, family: str, version: str, device: str) -> None:
    answer = mpis.parse_version((ANSWERS / f"{name}.txt").read_text())
    assert answer == mpis.Answer(family, version, device)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "slurm 22.05.8\n",
        "mpiexec: unrecognised option '--version'\n",
        "(it cannot be asked: x)",
    ],
)
def test_answer_of_no_mpi(text: str) -> None:
    assert mpis.parse_version(text) is None


def test_prrte_starts_any_mpi() -> None:
    answer = mpis.parse_version("prterun (PRRTE) 3.0.11\n")
    assert answer and answer.family == "prrte"


CAVEATS = [
    # kind, version, it sends the wrong bytes over libfabric
    ("openmpi", "4.0.5", True),
    ("openmpi", "4.1.4", True),
    ("openmpi", "4.1.5rc2", True),
    ("openmpi", "4.1.6", False),
    ("openmpi", "4.1.6rc1", False),
    ("openmpi", "4.1.10", False),
    ("openmpi", "5.0.0", False),
    ("openmpi", "", False),  # it does not say
    ("mpich", "4.0.2", False),
    ("impi", "2021.18.1", False),
]


@pytest.mark.parametrize(("kind", "version", "wrong"), CAVEATS)
def test_who_sends_the_wrong_bytes(kind: str, version: str, wrong: bool) -> None:
    mpi = mpis.Mpi(kind, version, Path("/mpi/bin/mpiexec"), Path("/mpi"))
    assert bool(mpi.caveat) == wrong
    if mpi.caveat:
        assert version in mpi.caveat and "4.1.6" in mpi.caveat


DEVICES = [
    # --with-device, usable: Beeline is reached through the ofi netmod only
    ("", True),  # it does not say
    ("ch4:ofi", True),
    ("ch4:ucx,ofi", True),
    ("ch4:ofi:posix", True),
    ("ch4", True),  # chooses by itself
    ("ch4:ucx", False),  # Debian 12's
    ("ch4:ucx:posix", False),
    ("ch3:nemesis", False),
    ("ch3", False),
]


@pytest.mark.parametrize(("device", "usable"), DEVICES)
def test_mpich_needs_its_ofi_netmod(device: str, usable: bool) -> None:
    mpi = mpis.Mpi("mpich", "4.2.0", Path("/x/bin/mpiexec"), Path("/x"), device)
    assert (mpi.obstacle is None) == usable
    if not usable:
        assert device in str(mpi.obstacle)


def test_identify_in_any_prefix(fake_mpi) -> None:
    launcher = fake_mpi("mpich-5.0.2", ("libmpi.so.12", b"MPICH Version:\t5.0.2"))
    mpi = mpis.identify(launcher)
    assert (mpi.kind, mpi.version, mpi.prefix) == ("mpich", "5.0.2", launcher.parent.parent)
    assert mpi.libdir == mpi.prefix / "lib"


def test_identify_through_links(fake_mpi, tmp_path: Path) -> None:
    """As Debian's alternatives do it: a link to a link to a differently named program."""
    launcher = fake_mpi("debian-openmpi-4.1.4", name="orterun")
    alternative = tmp_path / "alternative"
    alternative.symlink_to(launcher)
    link = tmp_path / "mpiexec"
    link.symlink_to(alternative)
    mpi = mpis.identify(link)
    assert (mpi.kind, mpi.version) == ("openmpi", "4.1.4")
    assert mpi.prefix == launcher.parent.parent
    assert mpi.mpiexec == link  # messages name what the user typed


def test_mvapich_answers_like_mpich(fake_mpi) -> None:
    library = ("libmpi.so.12", b"MPICH Version: 3.4 MVAPICH2 Version: 2.3.7")
    with pytest.raises(BeelineError, match="MVAPICH"):
        mpis.identify(fake_mpi("mpich-5.0.2", library))


def test_unknown_launcher_says_what_to_set(tmp_path: Path) -> None:
    launcher = tmp_path / "mpiexec"
    launcher.write_text("#!/bin/sh\necho some other launcher 1.0\n")
    launcher.chmod(0o755)
    with pytest.raises(BeelineError) as caught:
        mpis.identify(launcher)
    text = str(caught.value)
    assert "some other launcher 1.0" in text
    for variable in ("FI_PROVIDER_PATH", "MPIR_CVAR_NOLOCAL", "OMPI_MCA_pml", "I_MPI_FABRICS"):
        assert variable in text


def test_find_launcher_behind_a_wrapper(fake_mpi) -> None:
    launcher = fake_mpi("mpich-5.0.2")
    assert mpis.find_launcher(["timeout", "60", str(launcher), "-n", "4", "./app"]) == launcher
    assert mpis.find_launcher(["echo", "hello"]) is None


def test_find_all_knows_each_prefix_once(fake_mpi, monkeypatch: pytest.MonkeyPatch) -> None:
    one = fake_mpi("mpich-5.0.2")
    (one.parent / "mpiexec.hydra").symlink_to(one)
    other = fake_mpi("openmpi-5.0.11")
    monkeypatch.setenv(
        "PATH", os.pathsep.join([str(one.parent), str(other.parent), "/usr/bin:/bin"])
    )
    monkeypatch.setattr(mpis, "own_prefixes", list)
    found = [m for m in mpis.find_all() if m.prefix.parent == one.parent.parent.parent]
    assert [m.kind for m in found] == ["mpich", "openmpi"]


def test_choose_says_why_not(fake_mpi, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = fake_mpi("debian-mpich-4.0.2")
    monkeypatch.setenv("PATH", os.pathsep.join([str(launcher.parent), "/bin"]))
    monkeypatch.setattr(mpis, "own_prefixes", list)
    with pytest.raises(BeelineError, match="ch4:ucx"):
        mpis.choose(["mpich"])


@pytest.mark.parametrize(
    ("checkout", "hint"),
    [(Path("/src/beeline"), "make -C /src/beeline demo"), (None, "pip install")],
)
def test_choose_says_how_to_get_one(
    checkout: Path | None, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mpis.paths, "checkout", lambda: checkout)
    monkeypatch.setattr(mpis, "find_all", list)
    for wanted in ([], ["mpich"]):
        with pytest.raises(BeelineError, match=hint):
            mpis.choose(wanted)


# --- real ones -------------------------------------------------------------


@pytest.mark.parametrize("kind", mpis.KINDS)
def test_wheel(kind: str, wheel) -> None:
    mpi = mpis.identify(wheel(kind))
    assert mpi.kind == kind
    assert mpi.obstacle is None
    assert mpi.library is not None
    assert (mpi.mpicc is not None) == (kind != "impi")  # Intel's runtime has no compiler


@pytest.mark.parametrize(
    ("path", "kind", "usable"),
    [("/usr/bin/mpiexec.openmpi", "openmpi", True), ("/usr/bin/mpiexec.mpich", "mpich", False)],
)
def test_debian(path: str, kind: str, usable: bool) -> None:
    if not Path(path).exists():
        pytest.skip(f"{path} is not installed")
    mpi = mpis.identify(Path(path))
    assert mpi.kind == kind
    assert mpi.prefix == Path("/usr")
    assert (mpi.obstacle is None) == usable


def test_debian_alternative() -> None:
    link = Path("/usr/bin/mpiexec")
    if not link.is_symlink() or not link.exists():
        pytest.skip("no mpiexec of Debian's alternatives here")
    kind = "openmpi" if link.resolve().name == "orterun" else "mpich"
    assert mpis.identify(link).kind == kind
