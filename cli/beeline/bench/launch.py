# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Compiling and launching the benchmark programs, and reading what they print."""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from beeline import child, env, paths
from beeline import mpi as mpis
from beeline.errors import BeelineError
from beeline.mpi import Mpi

DEFAULT, BEELINE = "default", "beeline"
PATHS = (DEFAULT, BEELINE)
OTHER_CHOICES = ("I_MPI_OFI_PROVIDER", "MPIR_CVAR_OFI_USE_PROVIDER")  # stronger than FI_PROVIDER
TIMEOUT = 180.0  # seconds for one launch: a hang is a failure, not a wait


@dataclass(frozen=True)
class Baseline:
    """What Beeline is measured against: each MPI's own default, or (provider) the same MPI over
    another provider of its libfabric."""

    provider: str = ""

    @property
    def name(self) -> str:
        return self.provider or "default"

    @property
    def way(self) -> str:
        return f"over {self.provider}" if self.provider else "by default"

    @property
    def whose(self) -> str:
        """After "over"; as short as it can be said, `short`."""
        return f"libfabric's {self.provider}" if self.provider else "each MPI's own default"

    @property
    def short(self) -> str:
        return self.provider or "the default"


OWN_DEFAULT = Baseline()


def baseline(provider: str) -> Baseline:
    """What --against takes: one provider, or one on top of another ("tcp;ofi_rxm")."""
    named = re.fullmatch(r"[a-z0-9_]+(;[a-z0-9_]+)*", provider)
    if not named or provider in (env.PROVIDER_NAME, DEFAULT):
        raise argparse.ArgumentTypeError(
            f"{provider!r} is no other provider of libfabric; examples: shm, tcp"
        )
    return Baseline(provider)


def add_baseline(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--against",
        type=baseline,
        metavar="PROVIDER",
        default=OWN_DEFAULT,
        help="instead of the MPI's own default measure it over this provider of its libfabric: "
        "shm, tcp",
    )


@dataclass
class Output:
    """What one launch measured: nanoseconds per message by (test, size), and how far
    apart the two processors were meanwhile (bench/apart.h); 0 or nothing: not known."""

    samples: dict[tuple[str, int], float] = field(default_factory=dict)
    apart: dict[tuple[str, int], float] = field(default_factory=dict)
    library: str = ""
    providers: list[str] = field(default_factory=list)
    placement: list[str] = field(default_factory=list)


class LaunchError(BeelineError):
    """A program that failed, with the end of what it said."""


def parse(text: str) -> Output:
    output = Output()
    for line in text.splitlines():
        words = line.split()
        if line.startswith("sample ") and len(words) in (4, 5):
            output.samples[words[1], int(words[2])] = float(words[3])
            output.apart[words[1], int(words[2])] = float(words[4]) if words[4:] else 0.0
        elif line.startswith("library "):
            output.library = line.partition(" ")[2]
        elif line.startswith("provider "):
            output.providers.append(line.partition(" ")[2])
        elif line.startswith("placement "):
            output.placement.append(line.partition(" ")[2])
        elif line.startswith("corrupt "):
            raise LaunchError(f"the data arrived wrong: {line}")
    return output


def execute(argv: list[str], environ: Mapping[str, str]) -> str:
    """Run to the end and return stdout. A hang takes its whole session along."""
    done = child.run(argv, environ, TIMEOUT)
    text = done.text
    if done.status is None:
        raise LaunchError(f"no end after {TIMEOUT:.0f} s: {' '.join(argv)}")
    if "\ndone" not in text and not text.startswith("done"):
        parse(text)  # corrupt data is the better message
        tail = "\n".join(f"    {line}" for line in text.splitlines()[-12:])
        raise LaunchError(f"{' '.join(argv)}\n  ended with status {done.status}:\n{tail}")
    return text


def cache_dir() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "beeline" / "bench"


def compiler_for(mpi: Mpi, others: list[Mpi]) -> Path:
    """Intel's runtime has no compiler, but runs what MPICH's compiles: one ABI."""
    if mpi.mpicc:
        return mpi.mpicc
    if mpi.kind == "impi":
        for other in others:
            standard = other.library and other.library.name.startswith("libmpi.")
            if other.kind == "mpich" and other.mpicc and standard:
                return other.mpicc
        raise BeelineError(
            f"{mpi.title} has no mpicc, and there is no MPICH to compile for it:\n"
            f"  `{mpis.how_to_install(('mpich', 'impi'))}` installs it."
        )
    raise BeelineError(f"{mpi.title} in {mpi.prefix} has no mpicc: install its development package")


def compile_program(mpicc: Path, name: str = "mpi_bench") -> Path:
    """A benchmark program as this mpicc makes it; kept for the next time."""
    source = paths.program(f"{name}.c")
    key = hashlib.sha256(source.read_bytes())
    for header in ("apart.h", "bench.h", "many.h", "report.h"):
        key.update(paths.program(header).read_bytes())
    key.update(f"{mpicc} {mpicc.stat().st_mtime_ns}".encode())
    target = cache_dir() / f"{name}-{key.hexdigest()[:16]}"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_suffix(f".{os.getpid()}")
    argv = [str(mpicc), "-std=gnu17", "-D_GNU_SOURCE", "-O2", "-o", str(temporary), str(source)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BeelineError(f"{' '.join(argv)}\n  failed:\n{done.stderr}")
    temporary.rename(target)
    return target


def mpi_command(
    mpi: Mpi, cpus: tuple[int, ...], program: list[str], ranks: int | None = None
) -> list[str]:
    """One rank on each processor; or, where `ranks` is given, that many which share
    them all. taskset pins by the kernel's numbers; the launchers count in their own
    ways and are told not to."""
    if mpi.kind == "impi" and ranks is None:  # pins by itself, in mpi_environment()
        return [str(mpi.mpiexec), "-n", str(len(cpus)), *program]
    if not shutil.which("taskset"):
        raise BeelineError("taskset is missing: apt-get install util-linux")
    argv = [str(mpi.mpiexec)]
    if mpi.kind == "openmpi":
        argv += ["--bind-to", "none"] + ["--oversubscribe"] * (ranks is not None)
    if ranks is not None:
        shared = ",".join(map(str, cpus))
        return [*argv, "-n", str(ranks), "taskset", "-c", shared, *program]
    for i, cpu in enumerate(cpus):
        argv += [":"] * (i > 0) + ["-n", "1", "taskset", "-c", str(cpu), *program]
    return argv


def mpi_environment(
    mpi: Mpi,
    path: str,
    cpus: tuple[int, ...],
    ranks: int | None = None,
    against: Baseline = OWN_DEFAULT,
) -> dict[str, str]:
    """The user's environment, without what would make an MPI's default something
    else, and with Beeline's variables where Beeline is measured."""
    wanted = env.for_mpi(mpi)
    environ = dict(os.environ)
    for setting in env.for_mpi(mpi, env.EVERYTHING):
        others = setting.prepend and (setting.name != "FI_PROVIDER_PATH" or against.provider)
        if not others:
            environ.pop(setting.name, None)
        elif setting.name != "LD_LIBRARY_PATH":
            env.without(setting, environ)
    for name in OTHER_CHOICES if against.provider else ():
        environ.pop(name, None)
    if path == DEFAULT and against.provider:
        wanted = env.over_another(wanted, against.provider)
    elif path == DEFAULT:
        wanted = [s for s in wanted if s.name == "LD_LIBRARY_PATH"]
    environ = env.plan(wanted, environ).apply(environ)
    if mpi.kind == "impi" and ranks is None:
        environ["I_MPI_PIN_PROCESSOR_LIST"] = ",".join(map(str, cpus))
    elif mpi.kind == "impi":
        environ["I_MPI_PIN"] = "0"
    if mpi.kind == "openmpi" and os.geteuid() == 0:
        environ["OMPI_ALLOW_RUN_AS_ROOT"] = environ["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    return environ


def check_placement(placement: list[str], cpus: tuple[int, ...], ranks: int | None) -> None:
    """Whether the ranks ran where they were to, by what each said of itself: "RANK CPU
    ALLOWED", where it was and on how many processors it might have been."""
    if len(placement) != (ranks or len(cpus)):
        raise LaunchError(f"{len(placement)} ranks said where they run")
    for i, line in enumerate(placement):
        words = line.split()[1:]
        if ranks is None and words != [str(cpus[i]), "1"]:
            raise LaunchError(f"rank {i} is not pinned to cpu {cpus[i]}")
        if ranks is not None and words not in [[str(cpu), str(len(cpus))] for cpu in cpus]:
            shared = ",".join(map(str, cpus))
            raise LaunchError(f"rank {i} does not run on the cpus {shared} as they all should")


def run_mpi(
    mpi: Mpi,
    path: str,
    cpus: tuple[int, ...],
    program: Path,
    args: list[str],
    ranks: int | None = None,
    against: Baseline = OWN_DEFAULT,
) -> Output:
    """One launch; `ranks` as in mpi_command()."""
    argv = mpi_command(mpi, cpus, [str(program), *args], ranks)
    output = parse(execute(argv, mpi_environment(mpi, path, cpus, ranks, against)))
    used = any(paths.PROVIDER in provider for provider in output.providers)
    name = path if path == BEELINE else against.name
    if used != (path == BEELINE):
        state = "did not load" if path == BEELINE else "loaded"
        raise LaunchError(f"{mpi.title} ({name}) {state} {paths.PROVIDER}")
    try:
        check_placement(output.placement, cpus, ranks)
    except LaunchError as error:
        raise LaunchError(f"{mpi.title} ({name}): {error}") from None
    return output


def run_alone(name: str, cpus: tuple[int, int], args: list[str]) -> Output:
    """A program without MPI and libfabric: `limits` or `library`."""
    pair = f"{cpus[0]},{cpus[1]}"
    return parse(execute([str(paths.program(name)), "-c", pair, *args], os.environ))


def run_bare(cpus: tuple[int, int], threading: str, args: list[str]) -> Output:
    """Ping-pong at the libfabric level, by Debian's libfabric."""
    wanted = [s for s in env.settings("mpich", paths.provider_dir()) if s.name.startswith("FI_")]
    environ = {k: v for k, v in os.environ.items() if not k.startswith("FI_PROVIDER")}
    argv = [str(paths.program("bare")), "-T", threading, "-c", f"{cpus[0]},{cpus[1]}", *args]
    return parse(execute(argv, env.plan(wanted, environ).apply(environ)))
