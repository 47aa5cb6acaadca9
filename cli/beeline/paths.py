# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Where the installed parts of Beeline are, seen from this file.

Two layouts exist. A wheel carries everything inside the package
(site-packages/beeline/lib/libfabric). `make install` spreads it over a prefix
(PREFIX/lib/libfabric, with this package in PREFIX/lib/beeline/python/beeline).
Both are found by looking, so that a tree may be moved or installed by DESTDIR.
"""

from __future__ import annotations

from pathlib import Path

from beeline.errors import BeelineError

PROVIDER = "libbeeline-fi.so"
PACKAGE = Path(__file__).resolve().parent
PROGRAMS = PACKAGE / "programs"  # benchmark programs and sources


def library_dirs() -> list[Path]:
    """Folders that may hold Beeline's libraries, the most likely first."""
    dirs = [PACKAGE / "lib"]
    if PACKAGE.parts[-4:-1] == ("lib", "beeline", "python"):
        prefix = PACKAGE.parents[3]
        dirs += [prefix / "lib", prefix / "lib64", *sorted(prefix.glob("lib/*-linux-gnu*"))]
    return dirs


def provider_dir() -> Path:
    """The folder to name in FI_PROVIDER_PATH."""
    tried = [d / "libfabric" for d in library_dirs()]
    for directory in tried:
        if (directory / PROVIDER).is_file():
            return directory
    places = "".join(f"\n    {d}" for d in tried)
    raise BeelineError(
        f"{PROVIDER} is not installed beside this command; looked in{places}\n"
        "  Run the beeline that `make build`, `make install` or `pip install .` made."
    )


def checkout() -> Path | None:
    """The checkout whose `make build` made this command; None: it was installed otherwise."""
    if PACKAGE.parts[-5:-1] != (".venv", "lib", "beeline", "python"):
        return None
    folder = PACKAGE.parents[4]
    makes = (folder / "Makefile").is_file() and (folder / "tools" / "install-mpis").is_file()
    return folder if makes else None


def program(name: str) -> Path:
    """One of the benchmark programs or sources that are installed with the package."""
    path = PROGRAMS / name
    if not path.is_file():
        raise BeelineError(
            f"{name} is not installed (looked in {PROGRAMS})\n"
            "  Run the beeline that `make build`, `make install` or `pip install .` made."
        )
    return path


def module_source() -> Path:
    """The folder with kernel/ and include/uapi/, from which beeline.ko is built: it is
    installed with the package; a checkout has it, too."""
    tried = (PACKAGE / "module", PACKAGE.parents[1])
    for source in tried:
        if (source / "kernel" / "Makefile").is_file():
            return source
    raise BeelineError(
        f"the module's sources are not installed (looked in {tried[0]})\n"
        "  Run the beeline that `make build`, `make install` or `pip install .` made."
    )
