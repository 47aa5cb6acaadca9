# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`beeline env`: the variables that make an MPI take Beeline, as shell exports.

One table serves `env`, `run` and `bench`. Search paths are prepended to what the
user has; any other variable that the user had set to something else is replaced,
with a warning, because with it the program would not run over Beeline. One that only
makes a program's life easier yields to what the user has chosen.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from beeline import knobs, nodes, paths
from beeline import mpi as mpis
from beeline.errors import BeelineError, warn

PROVIDER_NAME = "beeline"
LIBRARIES = "LD_LIBRARY_PATH"

# --huge-pages. Where huge pages are to be had by who asks (transparent_hugepage/enabled says
# madvise, as on Ubuntu), glibc's malloc asks for them, from 2.35 on, in its heap and in blocks of
# 2 MiB and more beside it: a large message is copied quicker from the first one on. But all of the
# program's memory is then made of them, which may take seconds where there are none to be had at
# once. The thresholds keep blocks of 128 KiB to 32 MiB in the heap, for beside it their ends, or
# all of them, are in small pages; glibc itself comes to these two once a block of almost 32 MiB
# has been freed.
TUNABLES = "GLIBC_TUNABLES"
HUGE = "glibc.malloc.hugetlb"
HEAP = {
    "glibc.malloc.mmap_threshold": str(32 << 20),
    "glibc.malloc.trim_threshold": str(64 << 20),
}
# What else sets the thresholds, or makes them pointless.
HEAP_VARIABLES = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_MAX_")
NO_MMAP = "glibc.malloc.mmap_max"
MALLOC = ":".join(f"{name}={value}" for name, value in {HUGE: "1", **HEAP}.items())

# Intel MPI's collective operations on one node. Over libfabric it takes algorithms meant for
# networks; a file for shared memory, which comes with it, has better ones.
TUNING = "I_MPI_TUNING_BIN"
TUNING_FILES = ("tuning_icx_shm.dat", "tuning_generic_shm.dat")
TUNING_FOLDERS = ("opt/mpi/etc", "etc")
# And for reductions, where that file is slower than what is usual: "algorithm:bytes;..."
# must cover all sizes, and conditions on the number of ranks do nothing there (2021.18).
ADJUST = {"I_MPI_ADJUST_REDUCE": "2:0-524287;5:524288-2147483647"}
# Whoever tunes by one of these wants none of it.
OWN_TUNING = ("I_MPI_TUNING", "I_MPI_TUNING_MODE", TUNING)


@dataclass(frozen=True)
class Setting:
    name: str
    value: str
    prepend: bool = False  # a colon-separated search path: what is there stays behind it
    yields: bool = False  # to what the user has set: the program runs over Beeline either way
    unless: tuple[str, ...] = ()  # the user has set one of these, to another value than `value`


@dataclass(frozen=True)
class Wishes:
    """What the user wants besides, and what job it is for."""

    huge_pages: bool = False
    one_node: bool = True


NO_WISHES = Wishes()
EVERYTHING = Wishes(huge_pages=True)


def tuning_file(libdir: Path) -> Path | None:
    """Intel MPI's file of algorithms for shared memory; libdir is lib, or lib/release."""
    prefix = libdir.parent.parent if libdir.name == "release" else libdir.parent
    for folder in TUNING_FOLDERS:
        for name in TUNING_FILES:
            if os.path.isfile(prefix / folder / name):
                return prefix / folder / name
    return None


def collectives(libdir: Path | None) -> list[Setting]:
    """For Intel MPI on one node."""
    file = tuning_file(libdir) if libdir else None
    if not file:
        return []
    return [
        Setting(TUNING, str(file), yields=True, unless=OWN_TUNING),
        *(Setting(name, value, yields=True, unless=OWN_TUNING) for name, value in ADJUST.items()),
    ]


def settings(
    kind: str, provider_dir: Path, libdir: Path | None = None, wishes: Wishes = NO_WISHES
) -> list[Setting]:
    """What one kind of MPI needs. libdir: the folder of its library, where the
    dynamic linker must be told (Intel's runtime has no compiler that would)."""
    common = [
        Setting("FI_PROVIDER_PATH", str(provider_dir), prepend=True),
        Setting("FI_PROVIDER", PROVIDER_NAME),
    ]
    if wishes.huge_pages:
        common.append(Setting(TUNABLES, MALLOC, prepend=True))
    if kind == "mpich":
        return common + [
            Setting("MPIR_CVAR_CH4_NETMOD", "ofi"),
            Setting("MPIR_CVAR_NOLOCAL", "1"),  # else neighbours use MPICH's own shared memory
            # It yields for the completion of what it doesn't inject.
            Setting("FI_BEELINE_INJECT", "pingpong", yields=True),
        ]
    if kind == "openmpi":
        return common + [
            Setting("OMPI_MCA_pml", "cm"),
            Setting("OMPI_MCA_mtl", "ofi"),
            Setting("OMPI_MCA_opal_common_ofi_provider_include", PROVIDER_NAME),  # 4.1 and later
            Setting("OMPI_MCA_mtl_ofi_provider_include", PROVIDER_NAME),  # its name until 4.1
        ]
    if kind == "impi":
        extra = [Setting(LIBRARIES, str(libdir), prepend=True)] if libdir else []
        return [
            *common,
            Setting("I_MPI_FABRICS", "ofi"),
            # The sender's rank beside the tag, not in it: tags up to 2^30 - 1, as Intel's own
            # shared memory has, instead of 2^19 - 1, at which programs end with "Invalid tag".
            Setting("MPIR_CVAR_CH4_OFI_ENABLE_DATA", "1", yields=True),
            # Of a window of MPI_Win_allocate_shared it tells its provider nothing, and yet has the
            # provider put and get there. So one-sided operations are messages, as they are where it
            # knows the provider (tcp, shm). 1: others' memory is reached without their help.
            Setting("MPIR_CVAR_CH4_OFI_ENABLE_RMA", "0", yields=True),
            # It asks to hear of the delivery of what it doesn't inject: a quarter longer, and twice
            # as long where cores are shared. By itself it injects 4 KiB of an MPI_Isend, and of an
            # MPI_Send all that it may; more than it may is as much.
            Setting("I_MPI_OFI_ISEND_INJECT_THRESHOLD", "65536", yields=True),
            Setting("FI_BEELINE_INJECT", "pingpong", yields=True),
            # And of what it can't inject, though MPI only wants the buffer back.
            Setting("FI_BEELINE_DELIVERY", "rma", yields=True),
            *(collectives(libdir) if wishes.one_node else []),
            *extra,
        ]
    raise ValueError(kind)


def over_another(wanted: list[Setting], provider: str) -> list[Setting]:
    """What brings an MPI to Beeline brings it to another provider of its own libfabric; what only
    helps is left out."""
    ours = ("FI_PROVIDER_PATH", TUNABLES)
    return [
        replace(s, value=provider) if s.value == PROVIDER_NAME else s
        for s in wanted
        if not s.yields and s.name not in ours
    ]


@dataclass(frozen=True)
class Plan:
    """The variables to set, and what of the user's they replace."""

    values: dict[str, str]
    warnings: list[str]

    def apply(self, environ: Mapping[str, str]) -> dict[str, str]:
        return {**environ, **self.values}


def tunables(environ: Mapping[str, str]) -> str:
    """What is asked of malloc: nothing about which the user has an opinion."""
    words = environ.get(TUNABLES, "").split(":")
    theirs = {name: value for name, _, value in (word.partition("=") for word in words)}
    if environ.get(f"{knobs.PREFIX}HUGE") == "never" or theirs.get(HUGE, "1") != "1":
        return ""
    if (
        NO_MMAP in theirs
        or any(theirs.get(name, value) != value for name, value in HEAP.items())
        or any(environ.get(name) for name in HEAP_VARIABLES)
    ):
        return f"{HUGE}=1"
    return MALLOC


def without(setting: Setting, environ: dict[str, str]) -> None:
    """Take out what `plan` has put in front."""
    ours = setting.value.split(":")
    left = [word for word in environ.get(setting.name, "").split(":") if word not in ours]
    environ.pop(setting.name, None)
    if any(left):
        environ[setting.name] = ":".join(left)


def tuned_otherwise(setting: Setting, wanted: list[Setting], environ: Mapping[str, str]) -> bool:
    ours = {other.name: other.value for other in wanted}
    return any(environ.get(name) not in (None, "", ours.get(name)) for name in setting.unless)


def plan(wanted: list[Setting], environ: Mapping[str, str]) -> Plan:
    values: dict[str, str] = {}
    warnings: list[str] = []
    for setting in wanted:
        old = environ.get(setting.name)
        value = tunables(environ) if setting.name == TUNABLES else setting.value
        if not value or tuned_otherwise(setting, wanted, environ):
            continue
        if setting.yields and old:
            value = old
        elif setting.prepend:
            ours = value.split(":")
            parts = [p for p in (old or "").split(":") if p and p not in ours]
            value = ":".join([value, *parts])
        elif old not in (None, "", value):
            warnings.append(f"{setting.name} was {old!r} and is set to {value!r} for Beeline")
        values[setting.name] = value
    for name, other in contradictions(wanted):
        if environ.get(name) and is_contrary(name, environ[name]):
            warnings.append(f"{name}={environ[name]!r} is set; {other}")
    return Plan(values, warnings + left_over(wanted, environ))


def left_over(wanted: list[Setting], environ: Mapping[str, str]) -> list[str]:
    """Of our own knobs, what another MPI is given and this one isn't: `beeline env` for that
    one was evaluated in the same shell."""
    names = {setting.name for setting in wanted}
    owners: dict[tuple[str, str], list[str]] = {}
    for kind in mpis.KINDS:
        for setting in settings(kind, Path()):
            if setting.name.startswith(knobs.PREFIX) and setting.name not in names:
                owners.setdefault((setting.name, setting.value), []).append(mpis.TITLES[kind])
    return [
        f"{name}={value} is set, which is for {' and '.join(titles)} and does others no good "
        f"(unset {name}, or beeline env --unset)"
        for (name, value), titles in owners.items()
        if environ.get(name) == value
    ]


def is_contrary(name: str, value: str) -> bool:
    """Of a variable that names providers: those to be used, or those not to be."""
    names = value.split(",")
    return PROVIDER_NAME in names if name.endswith("_exclude") else value != PROVIDER_NAME


def contradictions(wanted: list[Setting]) -> list[tuple[str, str]]:
    """Variables that Beeline does not set but that would keep it from being taken."""
    names = {setting.name for setting in wanted}
    if "OMPI_MCA_pml" in names:
        why = "Open MPI will not take Beeline (unset it)"
        return [
            ("OMPI_MCA_opal_common_ofi_provider_exclude", why),
            ("OMPI_MCA_mtl_ofi_provider_exclude", why),
        ]
    if "I_MPI_FABRICS" in names:
        return [("I_MPI_OFI_PROVIDER", "it overrides FI_PROVIDER (unset it)")]
    return [("MPIR_CVAR_OFI_USE_PROVIDER", "it overrides FI_PROVIDER (unset it)")]


def for_mpi(mpi: mpis.Mpi, wishes: Wishes = NO_WISHES) -> list[Setting]:
    libdir = mpi.libdir if mpi.kind == "impi" else None
    return settings(mpi.kind, paths.provider_dir(), libdir, wishes)


def for_kind(kind: str, wishes: Wishes = NO_WISHES) -> list[Setting]:
    """When only the kind is known: the folder of Intel's library comes from the
    first Intel MPI there is."""
    libdir = None
    if kind == "impi":
        libdir = next((m.libdir for m in mpis.find_all() if m.kind == "impi"), None)
        if libdir is None:
            warn("no Intel MPI found here: LD_LIBRARY_PATH is left as it is")
    return settings(kind, paths.provider_dir(), libdir, wishes)


def other_launcher(kind: str, named: mpis.Mpi | None = None) -> list[str]:
    """What `mpiexec` would start, where that is not the MPI these settings are for: one of this
    kind, or the one that was named."""
    path = shutil.which("mpiexec")
    if path is None:
        return []
    try:
        mpi = mpis.identify(Path(path))
    except BeelineError:
        return [f"{path}, the mpiexec in PATH, is not known to be {mpis.TITLES[kind]}'s"]
    if named and mpi.kind == kind and mpi.prefix != named.prefix:
        return [
            f"{path}, the mpiexec in PATH, is {mpi.title}'s, and not {named.mpiexec}, which was "
            "named: start that, or put its folder first in PATH"
        ]
    if mpi.kind == kind and mpi.obstacle:
        return [f"{path}, the mpiexec in PATH: {mpi.obstacle}"]
    if mpi.kind == kind:
        return [mpi.caveat] if mpi.caveat and not named else []
    warning = (
        f"{path}, the mpiexec in PATH, belongs to {mpi.title}; these settings are for "
        f"{mpis.TITLES[kind]}"
    )
    right = [m for m in mpis.find_all() if m.kind == kind and not m.obstacle]
    return [warning + (f", whose mpiexec is {right[0].mpiexec}" if right else "")]


def exports(values: Mapping[str, str]) -> str:
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in values.items())


def undone(everything: list[Setting], environ: Mapping[str, str]) -> dict[str, str | None]:
    """The variables that are other than they were before `env`: their values, None for one that
    isn't to be there. What the user had in place of a value of ours is not known here."""
    left = dict(environ)
    for setting in everything:
        if setting.name == LIBRARIES and environ.get("I_MPI_FABRICS") != "ofi":
            continue  # not ours
        if setting.prepend:
            without(setting, left)
        elif left.get(setting.name) == setting.value:
            del left[setting.name]
    return {
        name: left.get(name)
        for name in dict.fromkeys(setting.name for setting in everything)
        if (left.get(name) or "") != (environ.get(name) or "")
    }


def of_all_mpis() -> list[Setting]:
    libdirs = [mpi.libdir for mpi in mpis.find_all() if mpi.kind == "impi"]
    return [
        setting
        for kind in mpis.KINDS
        for libdir in (libdirs if kind == "impi" and libdirs else [None])
        for setting in settings(kind, paths.provider_dir(), libdir, EVERYTHING)
    ]


def print_bytes(text: str) -> None:
    """Bytes, since a path need not be text."""
    sys.stdout.flush()
    sys.stdout.buffer.write(os.fsencode(text) + b"\n")


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "env",
        help="print the variables that make an MPI take Beeline",
        description="Prints shell exports and nothing else, for "
        'eval "$(beeline env --mpi mpich)"; mpiexec -n 4 ./app',
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--mpi",
        metavar="MPI",
        help="mpich, openmpi, impi, or the path of an mpiexec (default: the mpiexec in PATH)",
    )
    which.add_argument(
        "--unset",
        action="store_true",
        help="print what takes these variables back, for whichever MPI they were set",
    )
    add_huge_pages(parser)
    parser.set_defaults(func=main)


def add_huge_pages(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--huge-pages",
        action="store_true",
        help="have the program's malloc ask for huge pages (GLIBC_TUNABLES): large messages are "
        "quicker from the first one on, memory may take seconds to be had",
    )


def main(args: argparse.Namespace) -> int:
    if args.unset:
        for name, value in undone(of_all_mpis(), os.environ).items():
            print_bytes(f"unset {name}" if value is None else exports({name: value}))
        return 0
    wishes = Wishes(args.huge_pages, nodes.one_node(os.environ))
    if args.mpi in mpis.KINDS:
        kind, mpi, wanted = args.mpi, None, for_kind(args.mpi, wishes)
    else:
        mpi = mpis.named(args.mpi or "mpiexec")
        kind, wanted = mpi.kind, for_mpi(mpi, wishes)
    chosen = plan(wanted, os.environ)
    caveats = [mpi.caveat] if mpi and mpi.caveat else []
    for warning in (
        *chosen.warnings,
        *knobs.mistakes(os.environ),
        *other_launcher(kind, mpi),
        *caveats,
    ):
        warn(warning)
    print_bytes(exports(chosen.values))
    return 0
