# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`beeline setup module`: builds, installs and loads beeline.ko, and takes it away again.

What will be done is a list of steps, made by looking at the machine first; every
obstacle that can be seen beforehand is reported before anything is changed. A
step says what it does and how, so --dry-run is the same list, printed. `System`
is the machine; tests give it another root and watch the commands.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from beeline import kmod, paths
from beeline.errors import EXIT_USAGE, BeelineError

GROUP = "beeline"
RULE = "etc/udev/rules.d/60-beeline.rules"
AT_BOOT = "etc/modules-load.d/beeline.conf"
# What packaging/deb/build puts into beeline-dkms, besides its folder in usr/src.
PACKAGED = ("usr/lib/udev/rules.d/60-beeline.rules", "usr/lib/modules-load.d/beeline.conf")
FOLDER = "updates"  # of /lib/modules/RELEASE: found before what came with the kernel


@dataclass
class System:
    """The machine that is set up. release: of the kernel that the module is for."""

    root: Path = Path("/")
    release: str = field(default_factory=platform.release)
    live: bool = True  # the kernel that runs here is that kernel: load the module, too

    def path(self, name: str) -> Path:
        return self.root / name

    def read(self, name: str) -> str:
        try:
            return self.path(name).read_text(errors="replace")
        except OSError:
            return ""

    def has(self, command: str) -> bool:
        return shutil.which(command) is not None

    def is_root(self) -> bool:
        return os.geteuid() == 0

    def run(self, *argv: str | Path, cwd: Path | None = None) -> str:
        """Run to its end; what it said is the error if it fails."""
        words = [str(a) for a in argv]
        try:
            done = subprocess.run(
                words, cwd=cwd, capture_output=True, text=True, errors="replace", check=False
            )
        except OSError as error:
            raise BeelineError(f"{shlex.join(words)}: {error.strerror}") from None
        if done.returncode:
            said = (done.stdout + done.stderr).strip().splitlines()[-20:]
            raise BeelineError(
                f"{shlex.join(words)}\n  ended with status {done.returncode}:\n"
                + "\n".join(f"    {line}" for line in said)
            )
        return done.stdout


@dataclass(frozen=True)
class Step:
    what: str
    action: Callable[[], object]


# --- what stands in the way --------------------------------------------------


def container(system: System) -> str | None:
    """The kind of container that this is, or None."""
    for mark, name in ((".dockerenv", "Docker"), ("run/.containerenv", "Podman")):
        if system.path(mark).exists():
            return name
    text = system.read("run/systemd/container").strip()
    if text:
        return text
    for word in system.read("proc/1/environ").split("\0"):
        if word.startswith("container="):
            return word.partition("=")[2] or "a container"
    return None


def signature_wanted(system: System) -> str | None:
    """Why this kernel loads signed modules only, or None."""
    lockdown = system.read("sys/kernel/security/lockdown")
    for level in ("integrity", "confidentiality"):
        if f"[{level}]" in lockdown:
            return f"kernel lockdown ({level}; Secure Boot turns it on)"
    if system.read("sys/module/module/parameters/sig_enforce").strip() == "Y":
        return "module.sig_enforce"
    return None


def kernel_build(system: System) -> Path:
    return system.path(f"lib/modules/{system.release}/build")


def packaged(system: System) -> str | None:
    """The package that the module here belongs to, or None. What dpkg installed is its to
    change and to remove."""
    if not system.has("dpkg-query") or not system.path("var/lib/dpkg").is_dir():
        return None
    files = [system.path(name) for name in PACKAGED if system.path(name).exists()]
    for path in [*files, *sorted(system.path("usr/src").glob("beeline-[0-9]*"))]:
        name = "/" + str(path.relative_to(system.root))
        try:
            said = system.run("dpkg-query", f"--admindir={system.path('var/lib/dpkg')}", "-S", name)
        except BeelineError:  # no package has it
            continue
        for line in said.splitlines():
            package, colon, _ = line.partition(": ")
            if colon and not package.startswith("diversion by"):
                return package
    return None


def belongs_to(package: str) -> str:
    return f"the module on this machine belongs to the Debian package {package}"


def obstacles(system: System, dkms: bool, ko: Path | None) -> list[str]:
    """All that can be seen to be missing, each with what to do about it."""
    found = []
    package = packaged(system)
    if package:
        found.append(
            f"{belongs_to(package)}, which has set it up: apt-get install --reinstall {package} "
            f"repeats that; apt-get purge {package} makes room for another"
        )
    kind = container(system) if system.live else None
    if kind:
        found.append(
            f"this is a container ({kind}): modules belong to the host's kernel. Run this on the "
            "host, and give the container the device: --device /dev/beeline"
        )
    if system.live and not system.path("proc/modules").exists():
        found.append("this kernel loads no modules (it is built without CONFIG_MODULES)")
    if system.live and system.read("proc/sys/kernel/modules_disabled").strip() == "1":
        found.append("kernel.modules_disabled is 1: no module can be loaded until the next boot")
    if not ko and not (kernel_build(system) / "Makefile").exists():
        found.append(
            f"the headers of kernel {system.release} are missing: "
            f"apt-get install linux-headers-{system.release} "
            f"(or your distribution's kernel-devel-{system.release})"
        )
    if not ko and not dkms:
        for tool in ("make", "gcc"):
            if not system.has(tool):
                found.append(f"{tool} is missing: apt-get install {tool}")
    if dkms and not system.has("dkms"):
        found.append("dkms is missing: apt-get install dkms")
    why = signature_wanted(system) if system.live else None
    if why and not dkms and not ko:
        found.append(
            f"this kernel loads signed modules only ({why}). With --dkms the module is signed by "
            "this machine's own key, which you enrol once: "
            "mokutil --import /var/lib/dkms/mok.pub, reboot, and confirm"
        )
    return found


def need_root(system: System) -> None:
    if not system.is_root():
        raise BeelineError(
            "setting up the module needs root: sudo beeline setup module\n"
            "  (--dry-run shows what it would do)"
        )


# --- steps ---------------------------------------------------------------------


def version(source: Path) -> str:
    return (source / "kernel/VERSION").read_text().strip()


def copy_sources(source: Path, target: Path) -> None:
    """kernel/ and include/uapi/ beside each other, and nothing that a build left."""
    ignored = shutil.ignore_patterns("*.o", "*.ko", "*.cmd", "*.mod*", "config.h", ".probe")
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source / "kernel", target / "kernel", ignore=ignored)
    shutil.copytree(source / "include/uapi", target / "include/uapi")
    shutil.copy(source / "kernel/dkms.conf", target / "dkms.conf")


def build(system: System, source: Path, work: Path) -> Path:
    copy_sources(source, work)
    system.run("make", "-C", work / "kernel", f"KDIR={kernel_build(system)}")
    return work / "kernel/beeline.ko"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def install_file(source: Path, target: Path) -> None:
    if target.exists() and source.samefile(target):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def group_exists(system: System) -> bool:
    return any(line.startswith(f"{GROUP}:") for line in system.read("etc/group").splitlines())


def in_image(system: System) -> list[str | Path]:
    return [] if system.root == Path("/") else ["--prefix", system.root]


def add_group(system: System) -> None:
    if system.has("groupadd"):
        system.run("groupadd", *in_image(system), "--system", GROUP)
    else:  # busybox
        system.run("addgroup", "-S", GROUP)


def remove_group(system: System) -> None:
    if system.has("groupdel"):
        system.run("groupdel", *in_image(system), GROUP)
    else:
        system.run("delgroup", GROUP)


def installed(system: System) -> list[Path]:
    """The files that modprobe may take for the module."""
    modules = system.path(f"lib/modules/{system.release}")
    folders = (modules / name for name in (FOLDER, "extra"))  # DKMS knows both
    return sorted(ko for folder in folders for ko in folder.glob("**/beeline.ko*"))


def is_loaded(system: System) -> bool:
    return any(line.startswith("beeline ") for line in system.read("proc/modules").splitlines())


def source_of(system: System, ko: Path) -> str:
    """The sum of the sources that a module was built from, or "" where it can't be told."""
    if ko.suffix != ".ko":  # compressed
        if not system.has("modinfo"):
            return ""
        return system.run("modinfo", "-F", "srcversion", ko).strip()
    found = re.search(rb"\0srcversion=(\w+)\0", b"\0" + ko.read_bytes())
    return found[1].decode() if found else ""


def source_of_loaded(system: System) -> str:
    return system.read("sys/module/beeline/srcversion").strip()


def is_current(system: System) -> bool:
    """What is loaded is known to be what is installed."""
    loaded = source_of_loaded(system)
    return bool(loaded) and all(source_of(system, ko) == loaded for ko in installed(system))


def make_room(system: System) -> None:
    """modprobe leaves a loaded module as it is, whichever it is."""
    if not is_loaded(system) or is_current(system):
        return
    try:
        unload(system)
    except BeelineError as error:
        raise BeelineError(
            f"{error}\n  The new module is installed, but an older one stays loaded and is what "
            "programs use, until you end those programs and run this again, or reboot"
        ) from None


def load(system: System) -> None:
    make_room(system)
    try:
        system.run("modprobe", "beeline")
    except BeelineError as error:
        if "Key was rejected" in str(error) or "Required key not available" in str(error):
            raise BeelineError(
                f"{error}\n  Its signature isn't accepted: enrol this machine's key with "
                "mokutil --import /var/lib/dkms/mok.pub, reboot, confirm, and run this again"
            ) from None
        if "Operation not permitted" in str(error):
            raise BeelineError(
                f"{error}\n  This process may not load modules, root or not (a container?)"
            ) from None
        raise


def apply_rule(system: System) -> None:
    """By udev where it runs; in any case the device ends as the rule says."""
    if system.has("udevadm") and system.path("run/udev/control").exists():
        system.run("udevadm", "control", "--reload")
        system.run("udevadm", "trigger", "--settle", "--name-match=/dev/beeline")
    device = system.path("dev/beeline")
    shutil.chown(device, group=GROUP)
    device.chmod(0o660)


def check(system: System) -> None:
    info = kmod.info(system.path("dev/beeline"))
    if info is None:
        raise BeelineError("/dev/beeline isn't there, although the module was loaded: see dmesg")
    wanted = {source_of(system, ko) for ko in installed(system)} - {""}
    loaded = source_of_loaded(system)
    if loaded and wanted and wanted != {loaded}:
        raise BeelineError(
            f"the module that is loaded (srcversion {loaded}) isn't the one that was installed "
            f"({', '.join(sorted(wanted))}): see modinfo beeline"
        )


def dkms_versions(system: System) -> list[str]:
    return sorted(p.name for p in system.path("var/lib/dkms/beeline").glob("[0-9]*"))


def dkms_trees(system: System) -> list[str]:
    """In an image: not those of the machine that this runs on."""
    if system.root == Path("/"):
        return []
    trees = {"dkms": "var/lib/dkms", "source": "usr/src", "install": "lib/modules"}
    return [w for tree, at in trees.items() for w in (f"--{tree}tree", str(system.path(at)))]


def dkms_undo_steps(system: System) -> list[Step]:
    steps = []
    for ver in dkms_versions(system):
        each = ["-m", "beeline", "-v", ver, "--all", *dkms_trees(system)]
        steps.append(
            Step(
                f"dkms remove beeline/{ver}", lambda each=each: system.run("dkms", "remove", *each)
            )
        )
    for path in sorted(system.path("usr/src").glob("beeline-[0-9]*")):
        steps.append(Step(f"remove {path}", lambda path=path: remove([path])))
    return steps


def plain_files(system: System, release: str) -> list[Path]:
    return sorted(system.path(f"lib/modules/{release}/{FOLDER}").glob("beeline.ko*"))


def install_steps(
    system: System, source: Path, dkms: bool, ko: Path | None, work: Path
) -> list[Step]:
    """Of the two ways only one is left: depmod would choose between two modules by chance."""
    ver = version(source)
    built = ko or work / "kernel/beeline.ko"
    target = system.path(f"lib/modules/{system.release}/{FOLDER}/beeline.ko")
    steps = []
    if dkms:
        tree = system.path(f"usr/src/beeline-{ver}")
        each = ["-m", "beeline", "-v", ver, "-k", system.release, *dkms_trees(system)]
        steps += [
            Step(f"remove {path} (DKMS has its own)", lambda path=path: remove([path]))
            for path in plain_files(system, system.release)
        ]
        steps += [
            Step(f"copy the sources to {tree}", lambda: copy_sources(source, tree)),
            Step(
                f"dkms install beeline/{ver}",
                lambda: system.run("dkms", "install", "--force", *each),
            ),
        ]
    else:
        if not ko:
            steps.append(
                Step(
                    f"build beeline.ko {ver} for {system.release}",
                    lambda: build(system, source, work),
                )
            )
        steps += dkms_undo_steps(system)
        steps += [
            Step(f"install {target}", lambda: install_file(built, target)),
            Step(
                f"depmod {system.release}",
                lambda: system.run("depmod", "-b", system.root, system.release),
            ),
        ]
    if not group_exists(system):
        steps.append(Step(f"add the group {GROUP}", lambda: add_group(system)))
    rule = (source / "kernel/60-beeline.rules").read_text()
    steps += [
        Step(
            f"write {system.path(RULE)} (who may open the device)",
            lambda: write(system.path(RULE), rule),
        ),
        Step(
            f"write {system.path(AT_BOOT)} (load it at boot)",
            lambda: write(system.path(AT_BOOT), "beeline\n"),
        ),
    ]
    if system.live:
        steps += [
            Step(
                "modprobe beeline" + " (in place of another that is loaded)" * is_loaded(system),
                lambda: load(system),
            ),
            Step(f"give /dev/beeline to the group {GROUP}", lambda: apply_rule(system)),
            Step("ask the module what it can do", lambda: check(system)),
        ]
    return steps


def unload(system: System) -> None:
    try:
        system.run("modprobe", "-r", "beeline")
    except BeelineError as error:
        users = system.read("sys/module/beeline/refcnt").strip()
        if "in use" in str(error) or users not in ("", "0"):
            raise BeelineError(
                f"{error}\n  It is in use: fuser -v /dev/beeline shows by which program"
            ) from None
        raise


def remove(paths_: list[Path]) -> None:
    for path in paths_:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def group_members(system: System) -> list[str]:
    for line in system.read("etc/group").splitlines():
        words = line.split(":")
        if words[0] == GROUP and len(words) > 3:
            return [w for w in words[3].split(",") if w]
    return []


def undo_steps(system: System) -> list[Step]:
    """Only what is there."""
    steps = []
    if system.live and is_loaded(system):
        steps.append(Step("modprobe -r beeline", lambda: unload(system)))
    steps += dkms_undo_steps(system)
    for path in sorted(system.path("lib/modules").glob(f"*/{FOLDER}/beeline.ko*")):
        release = path.parents[1].name
        steps += [
            Step(f"remove {path}", lambda path=path: remove([path])),
            Step(
                f"depmod {release}",
                lambda release=release: system.run("depmod", "-b", system.root, release),
            ),
        ]
    files = [p for p in (system.path(RULE), system.path(AT_BOOT)) if p.exists()]
    steps += [Step(f"remove {path}", lambda path=path: remove([path])) for path in files]
    if group_exists(system) and not group_members(system):
        steps.append(Step(f"remove the group {GROUP}", lambda: remove_group(system)))
    return steps


# --- the command ----------------------------------------------------------------


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser("setup", help="set up what needs root: the kernel module")
    kinds = parser.add_subparsers(dest="setup_name", metavar="WHAT", required=True)
    module = kinds.add_parser(
        "module",
        help="build, install and load beeline.ko",
        description="Builds beeline.ko for the running kernel, installs and loads it, now and at "
        "every boot, and lets the members of the group beeline open /dev/beeline. Beeline uses it "
        "for processes that may not copy from each other by process_vm_readv.",
    )
    module.add_argument(
        "--dkms", action="store_true", help="by DKMS, which builds it for later kernels, too"
    )
    module.add_argument("--undo", action="store_true", help="take all of it away again")
    module.add_argument("--dry-run", action="store_true", help="say what would be done")
    module.add_argument(
        "--ko", type=Path, metavar="FILE", help="install this module, built elsewhere"
    )
    module.add_argument(
        "--kernel", metavar="RELEASE", help="for another kernel than the running one; not loaded"
    )
    module.add_argument(
        "--root", type=Path, metavar="DIR", help="into the system image in this folder; not loaded"
    )
    module.set_defaults(func=main)


def carry_out(steps: list[Step], dry: bool) -> None:
    for step in steps:
        print(f"{'would ' if dry else ''}{step.what}", flush=True)
        if not dry:
            step.action()


def undo(system: System, dry: bool) -> int:
    package = packaged(system)
    if package:
        raise BeelineError(f"{belongs_to(package)}: apt-get purge {package} takes it away")
    steps = undo_steps(system)
    if not dry:
        need_root(system)
    carry_out(steps, dry)
    members = group_members(system)
    if members:
        print(f"the group {GROUP} stays: {', '.join(members)} belong to it")
    if not steps:
        print("nothing of the module is here")
    return 0


def main(args: argparse.Namespace) -> int:
    if args.dkms and args.ko:
        raise BeelineError("--ko and --dkms exclude each other: DKMS builds", EXIT_USAGE)
    release = args.kernel or platform.release()
    live = not args.root and release == platform.release()
    # Absolute: what is called changes its folder, or asks for it.
    system = System(args.root.absolute() if args.root else Path("/"), release, live)
    if args.undo:
        return undo(system, args.dry_run)
    if args.ko and not args.ko.is_file():
        raise BeelineError(f"--ko {args.ko}: no such file", EXIT_USAGE)
    source = paths.module_source()
    hindered = obstacles(system, args.dkms, args.ko)
    if hindered and not args.dry_run:
        raise BeelineError("the module can't be set up here:\n  " + "\n  ".join(hindered))
    if not args.dry_run and system.root == Path("/"):
        need_root(system)
    with tempfile.TemporaryDirectory(prefix="beeline-module-") as work:
        carry_out(
            install_steps(system, source, args.dkms, args.ko, Path(work) / "module"), args.dry_run
        )
    for line in hindered:
        print(f"but: {line}")
    if hindered:
        return 1
    user = os.environ.get("SUDO_USER") or "USER"
    print(f"who is to use it belongs to the group {GROUP}: usermod -aG {GROUP} {user}")
    return 0
