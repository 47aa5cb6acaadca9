# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Kernels to boot in a guest, with the headers to build modules for them.

Three kinds, each a directory under ``${XDG_CACHE_HOME:-~/.cache}/beeline/kernels`` named after
its exact version, so that a new point release makes a new directory and nothing is ever stale:

- ``6.1`` and ``6.12``: Debian's cloud kernels, downloaded as packages and unpacked, not installed.
- ``debug``: Debian's 6.1 source with KASAN, lockdep, kmemleak and fault injection, configured by
  debug.config and compiled here: 5 to 15 minutes of two cores, once. BEELINE_VM_DEBUG=no says
  that this machine is too slow for it. One that was stopped goes on where it was.

A directory is complete when it holds the file ``ready``. One process at a time makes them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "beeline" / "kernels"

# The package that depends on the newest headers of a series. Point releases leave the archive.
SERIES = {"6.1": "linux-headers-cloud-amd64", "6.12": "linux-headers-6.12-cloud-amd64"}
SOURCE = "linux-source-6.1"


# When all must have ended (time.monotonic()), for those who promise not to take for ever.
deadline: float | None = None


class Unavailable(Exception):
    """A kernel that cannot be had on this machine; the text says why."""


class NotHere(Unavailable):
    """The archive or this machine doesn't provide it: no fault of what is tested."""


def remaining(most: float) -> float:
    """Seconds that something may take."""
    return most if deadline is None else max(1.0, min(most, deadline - time.monotonic()))


@dataclass(frozen=True)
class Kernel:
    """A bootable kernel: its image, the tree modules are built against, its own modules."""

    name: str
    release: str
    image: Path
    build: Path
    modroot: Path | None  # what modprobe -d takes; None where all that there is is built in


def say(text: str) -> None:
    print(f"# {text}", file=sys.stderr, flush=True)


def sh(
    *argv: str | Path, cwd: Path | None = None, log: Path | None = None, seconds: float = 600
) -> str:
    """Runs a command and returns its output; its error output is part of the exception."""
    words = [str(a) for a in argv]
    process = subprocess.Popen(
        words,
        cwd=cwd,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    limit = remaining(seconds)
    try:
        out, _ = process.communicate(timeout=limit)
    except BaseException as error:
        process.terminate()  # make and apt end what they have started
        try:
            process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            raise NotHere(f"{' '.join(words)}: no end after {limit:.0f} s") from None
        raise
    if log:
        log.write_text(out)
    if process.returncode:
        tail = "\n".join(out.splitlines()[-25:])
        raise Unavailable(f"{' '.join(words)} failed:\n{tail}")
    return out


def archive(*argv: str | Path, cwd: Path | None = None) -> str:
    """A command that asks Debian's archive, which may not be reachable."""
    try:
        return sh(*argv, cwd=cwd)
    except FileNotFoundError as error:
        raise NotHere(f"{argv[0]}: {error.strerror}") from None
    except Unavailable as why:
        raise NotHere(str(why)) from None


@contextmanager
def alone() -> Iterator[None]:
    """One process at a time changes the cache."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "lock", "w") as lock:
        end = time.monotonic() + remaining(1800)
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise NotHere("another process is making kernels, and takes long") from None
                time.sleep(1)
        yield


def depends(package: str) -> list[str]:
    out = archive("apt-cache", "depends", package)
    return re.findall(r"^ [ |]Depends: (\S+)", out, re.M)


def candidate(package: str) -> str:
    """The version that apt would install."""
    found = re.search(r"Candidate: (\S+)", archive("apt-cache", "policy", package))
    if not found or found[1] == "(none)":
        raise NotHere(f"no package {package}: is bookworm-security among apt's sources?")
    return found[1]


def unpack(packages: list[str], into: Path) -> None:
    debs = into / "debs"
    debs.mkdir(parents=True)
    for p in packages:
        archive("apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", p, cwd=debs)
    for deb in sorted(debs.glob("*.deb")):
        sh("dpkg", "-x", deb, into)
    shutil.rmtree(debs)


def newest(prefix: str) -> Path | None:
    """The newest complete directory of a kind, for machines that cannot ask the archive."""
    ready = [p for p in CACHE.glob(f"{prefix}-*/ready")]
    return max(ready, key=lambda p: p.stat().st_mtime).parent if ready else None


def debian(series: str) -> Kernel:
    """Debian's cloud kernel of a series, from the cache or the archive."""
    try:
        headers = next(
            d for d in depends(SERIES[series]) if re.fullmatch(r"linux-headers-\S+-cloud-amd64", d)
        )
        root = CACHE / f"{series}-{candidate(headers)}"
    except (Unavailable, StopIteration) as why:
        found = newest(series)
        if not found:
            raise NotHere(f"Linux {series}: {why}") from None
        root = found
    if not (root / "ready").exists():
        say(f"downloading Debian's {series} cloud kernel (once)")
        release = headers.removeprefix("linux-headers-")
        parts = [
            d
            for d in depends(headers)
            if d.startswith("linux-kbuild-") or re.fullmatch(r"linux-headers-\S+-common", d)
        ]
        new = root.with_suffix(".new")
        shutil.rmtree(new, ignore_errors=True)
        unpack([headers, f"linux-image-{release}", *parts], new)
        # The packages expect to lie in /usr/src.
        makefile = new / "usr/src" / headers / "Makefile"
        makefile.write_text(makefile.read_text().replace("/usr/src/", f"{root}/usr/src/"))
        (new / "ready").write_text(release + "\n")
        new.rename(root)
    release = (root / "ready").read_text().strip()
    # Without it, modprobe --show-depends finds nothing: packages leave it to their postinst.
    if not (root / f"lib/modules/{release}/modules.dep").exists():
        sh("depmod", "-b", root, release)
    return Kernel(
        name=series,
        release=release,
        image=root / f"boot/vmlinuz-{release}",
        build=root / f"usr/src/linux-headers-{release}",
        modroot=root,
    )


def prune(tree: Path) -> None:
    """Keeps of a compiled kernel what modules are built with (1.5 GB become 0.2 GB)."""
    source = tree / "source"
    for entry in source.iterdir():
        if entry.name in ("include", "scripts", "Makefile", "Kbuild", "arch", "tools"):
            continue
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    for arch in (source / "arch").iterdir():
        if arch.is_dir() and arch.name != "x86":
            shutil.rmtree(arch)
    build = tree / "build"
    for pattern in ("*.o", "*.a", "*.cmd"):
        for path in build.rglob(pattern):
            if "scripts" not in path.relative_to(build).parts:
                path.unlink()
    (build / "vmlinux").unlink(missing_ok=True)


def debug() -> Kernel:
    """The kernel that looks for our mistakes, compiled on first use."""
    config = HERE / "debug.config"
    stamp = hashlib.sha256(config.read_bytes()).hexdigest()[:8]
    try:
        root = CACHE / f"debug-{candidate(SOURCE)}-{stamp}"
    except Unavailable as why:
        found = newest("debug")
        if not found:
            raise NotHere(f"debug kernel: {why}") from None
        root = found
    if not (root / "ready").exists():
        if os.environ.get("BEELINE_VM_DEBUG") == "no":
            raise NotHere("debug kernel: not built yet, and BEELINE_VM_DEBUG=no")
        say(f"building the debug kernel in {root} (once; 5 to 15 minutes on two cores)")
        compile_debug(root, config)
    return Kernel(
        name="debug",
        release=(root / "ready").read_text().strip(),
        image=root / "build/arch/x86/boot/bzImage",
        build=root / "build",
        modroot=None,
    )


# Two thirds of the source, of which this kernel has nothing; Kconfig files are looked at, though.
UNUSED = [
    *(
        f"arch/{arch}/*.*"
        for arch in "arm arm64 ia64 m68k mips parisc powerpc riscv s390 sh sparc".split()
    ),
    *(f"drivers/{kind}/*.[ch]" for kind in "gpu infiniband media scsi staging usb".split()),
    "drivers/net/*/*.[ch]",
    "sound/*.[ch]",
    "Documentation/*.*",
    "tools/perf",
    "tools/testing",
]


def configure_debug(root: Path, config: Path) -> None:
    """The build tree knows its own path: it is made in place."""
    shutil.rmtree(root, ignore_errors=True)
    source, build = root / "source", root / "build"
    build.mkdir(parents=True)
    unpack([SOURCE], root / "package")
    archive = next((root / "package/usr/src").glob("linux-source-*.tar.xz"))
    without = [f"--exclude=linux-source-*/{files}" for files in UNUSED]
    sh("tar", "xf", archive, "--wildcards", *without, cwd=root)
    shutil.rmtree(root / "package")
    next(root.glob("linux-source-*")).rename(source)
    sh("make", "-s", "-C", source, f"O={build}", "allnoconfig")
    sh(source / "scripts/kconfig/merge_config.sh", "-m", ".config", config, cwd=build)
    sh("make", "-s", "olddefconfig", cwd=build)
    missing = set(config.read_text().split()) - set((build / ".config").read_text().split())
    missing = {m for m in missing if m.startswith("CONFIG_") and not m.endswith("=n")}
    if missing:
        raise Unavailable(f"debug kernel: {SOURCE} does not know {' '.join(sorted(missing))}")
    (root / "configured").touch()


def compile_debug(root: Path, config: Path) -> None:
    if not (root / "configured").exists():
        configure_debug(root, config)
    build = root / "build"
    jobs = len(os.sched_getaffinity(0))
    try:
        sh(
            "make",
            f"-j{jobs}",
            "bzImage",
            "modules",
            cwd=build,
            log=root / "build.log",
            seconds=3600,
        )
    except NotHere:
        raise NotHere(
            "debug kernel: compiling it takes long on this machine; the next run goes on with it. "
            "BEELINE_VM_DEBUG=no does without"
        ) from None
    release = sh("make", "-s", "kernelrelease", cwd=build).split()[-1]
    prune(root)
    (root / "ready").write_text(release + "\n")


def get(name: str) -> Kernel:
    """A kernel by its name: 6.1, 6.12 or debug."""
    with alone():
        return debug() if name == "debug" else debian(name)


def module(kernel: Kernel, checkout: Path, work: Path) -> Path:
    """Builds beeline.ko for a kernel, outside the checkout, and returns its path."""
    work = work / "module"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(
        checkout / "kernel",
        work / "kernel",
        ignore=shutil.ignore_patterns("*.o", "*.ko", "*.cmd", "*.mod*", "config.h", "Module.*"),
    )
    shutil.copytree(checkout / "include/uapi", work / "include/uapi")
    sh("make", "-C", work / "kernel", f"KDIR={kernel.build}", "KCFLAGS=-Werror")
    return work / "kernel/beeline.ko"


if __name__ == "__main__":
    for wanted in sys.argv[1:] or ["6.1", "6.12", "debug"]:
        print(get(wanted))
