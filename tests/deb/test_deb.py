# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What `make deb` builds: what is in each package and how, and that the command and
the library run from where dpkg puts them. Installing them into this machine is
for no test; dpkg -x into a folder is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
TOOLS = ("dpkg-deb", "dpkg-shlibdeps", "dpkg-architecture", "strip")
HOLDS = {
    "libbeeline": [
        r"usr/lib/[^/]+/libbeeline\.so\.0",
        r"usr/lib/[^/]+/liblimic2\.so\.0",
        r"usr/lib/[^/]+/liblimic2\.a",
        r"usr/lib/[^/]+/libfabric/libbeeline-fi\.so",
        r"usr/lib/[^/]+/pkgconfig/limic2\.pc",
        r"usr/include/beeline\.h",
        r"usr/share/man/man7/fi_beeline\.7\.gz",
    ],
    "beeline": [
        r"usr/bin/beeline",
        r"usr/lib/beeline/python/beeline/main\.py",
        r"usr/lib/beeline/python/beeline/programs/limits",
        r"usr/share/man/man1/beeline\.1\.gz",
    ],
    "beeline-dkms": [
        r"usr/src/beeline-[0-9.]+/dkms\.conf",
        r"usr/src/beeline-[0-9.]+/kernel/compat/probe\.sh",
        r"usr/src/beeline-[0-9.]+/include/uapi/beeline\.h",
        r"usr/lib/udev/rules\.d/60-beeline\.rules",
        r"usr/lib/modules-load\.d/beeline\.conf",
    ],
}


def run(*argv: str | Path, **environ: str) -> str:
    done = subprocess.run(
        [str(a) for a in argv],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def packages() -> dict[str, Path]:
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing:
        pytest.skip(f"{', '.join(missing)} missing: apt-get install dpkg-dev binutils")
    said = run("/usr/bin/python3", TOP / "packaging/deb/build")
    return {Path(line).name.partition("_")[0]: Path(line) for line in said.splitlines()}


@pytest.fixture(scope="session")
def root(packages: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All three, unpacked into one folder."""
    folder = tmp_path_factory.mktemp("root")
    for deb in packages.values():
        run("dpkg", "-x", deb, folder)
    return folder


@pytest.mark.parametrize("name", HOLDS)
def test_contents(packages: dict[str, Path], name: str) -> None:
    lines = run("dpkg", "-c", packages[name]).splitlines()
    names = [line.split()[5].removeprefix("./") for line in lines]
    for wanted in HOLDS[name]:
        assert any(re.fullmatch(wanted, n) for n in names), wanted
    for line, path in zip(lines, names, strict=True):
        mode, owner = line.split()[:2]
        assert owner == "root/root", line
        if mode[0] == "d":
            assert mode == "drwxr-xr-x", line
        elif mode[0] == "-":
            assert mode in ("-rw-r--r--", "-rwxr-xr-x"), line
        assert not re.search(r"__pycache__|\.pyc|\.ko$|\.o$|/usr/local", path), line
        assert not path or path.startswith("usr/"), line


def test_no_file_is_in_two_packages(packages: dict[str, Path]) -> None:
    seen: dict[str, str] = {}
    for name, deb in packages.items():
        for line in run("dpkg", "-c", deb).splitlines():
            path = line.split()[5]
            if not path.endswith("/"):
                assert seen.setdefault(path, name) == name, path


@pytest.mark.parametrize("name", HOLDS)
def test_control(packages: dict[str, Path], name: str) -> None:
    fields = dict(
        line.split(": ", 1)
        for line in run("dpkg-deb", "-f", packages[name]).splitlines()
        if not line.startswith(" ")
    )
    version = (TOP / "kernel/VERSION").read_text().strip()
    assert fields["Package"] == name and fields["Version"] == version
    assert len(fields["Description"]) < 80
    assert "${" not in str(fields)
    if name != "beeline-dkms":
        assert "libc6" in fields["Depends"]
    if name == "beeline":
        assert f"libbeeline (= {version})" in fields["Depends"]


def test_scripts_are_shell(packages: dict[str, Path], tmp_path: Path) -> None:
    run("dpkg-deb", "-e", packages["beeline-dkms"], tmp_path)
    for script in ("postinst", "prerm", "postrm"):
        run("sh", "-n", tmp_path / script)
        assert "${version}" not in (tmp_path / script).read_text()


def test_checksums(packages: dict[str, Path], root: Path, tmp_path: Path) -> None:
    for name, deb in packages.items():
        meta = tmp_path / name
        run("dpkg-deb", "-e", deb, meta)
        done = subprocess.run(
            ["md5sum", "--quiet", "-c", meta / "md5sums"],
            cwd=root,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout


def test_command_runs_from_the_root(root: Path) -> None:
    command = root / "usr/bin/beeline"
    assert "setup" in run(command, "--help")
    shown = run(command, "env", "--mpi", "mpich")
    found = re.search(r"FI_PROVIDER_PATH=(\S+)", shown)
    assert found and Path(found[1].split(":")[0], "libbeeline-fi.so").is_file()
    assert str(root) in found[1]


def test_program_links_with_the_library(root: Path, tmp_path: Path) -> None:
    lib = next((root / "usr/lib").glob("*/libbeeline.so")).parent
    program = tmp_path / "pingpong"
    source = root / "usr/share/doc/beeline/examples/pingpong.c"
    run("gcc", source, f"-I{root}/usr/include", f"-L{lib}", "-lbeeline", "-o", program)
    assert "all bytes were checked" in run(program, LD_LIBRARY_PATH=str(lib))


def test_program_links_with_the_static_limic2(root: Path, tmp_path: Path) -> None:
    lib = next((root / "usr/lib").glob("*/liblimic2.a")).parent
    program = tmp_path / "program"
    source = TOP / "tests/limic/program.c"
    run("gcc", "-D_GNU_SOURCE", source, lib / "liblimic2.a", "-pthread", "-o", program)
    assert run(program) == "all bytes are right\n"


def test_module_sources_are_those_of_the_checkout(root: Path) -> None:
    """DKMS finds in its tree all that kernel/ has."""
    tree = next((root / "usr/src").glob("beeline-*"))
    assert (tree / "dkms.conf").read_text() == (TOP / "kernel/dkms.conf").read_text()
    for path in tree.rglob("*"):
        if path.is_file() and path.name != "dkms.conf":
            assert path.read_bytes() == (TOP / path.relative_to(tree)).read_bytes(), path
