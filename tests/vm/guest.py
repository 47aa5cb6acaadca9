# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A guest: a kernel, an initramfs made for the occasion, and QEMU in software emulation.

    kernel = kernels.get("6.1")
    result = Guest(kernel, script="echo ok - booted", files={"bin/t": path}).run(workdir)
    result.status, result.results, result.console

What a guest can have:

- any number of NUMA nodes (``nodes``), each with an equal share of the CPUs and the memory;
- network namespaces joined by veth, with netem between them: ``network=True`` brings the real
  ``ip`` and ``tc`` to /rt and loads the modules, which the debug kernel doesn't have;
- a wire to another guest: give both the same ``wire``, and start them with :func:`run_pair`;
- a TCG plugin (``plugin``), for counting instructions;
- a clock that goes by instructions executed (``counted_time``), so that no interrupt depends on the
  machine's speed;
- a shell for a person (``script_is_tty``), see tests/vm/shell.

The script runs as root under busybox's sh. What it prints goes to the second serial port and
comes back as ``results``; the kernel's messages go to the first and come back as ``console``.
KVM is never used: results must not depend on the machine's, and the host's kernel loads nothing.
"""

from __future__ import annotations

import gzip
import itertools
import os
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import kernels
from kernels import HERE, Kernel, Unavailable, sh

NETWORK_MODULES = ["veth", "sch_netem", "virtio_net", "virtio_pci"]
NETWORK_TOOLS = ["/usr/sbin/ip", "/usr/sbin/tc"]

# Lines in the console that no test may leave behind.
ALARM = re.compile(
    r"BUG:|WARNING:|KASAN:|UBSAN:|INFO: (task|rcu|trying)|[Pp]ossible (circular|recursive|irq)|"
    r"inconsistent lock|unreferenced object|new suspected memory leak|refcount_t:|\bOops:|"
    r"general protection|Kernel panic|suspicious RCU|sleeping function|ODEBUG:|"
    r"list_(add|del) corruption|soft lockup|detected stall|still has locks held|"
    r"Unable to handle|double fault"
)


@dataclass
class Result:
    """How a guest ended. status is the script's, or None if the guest did not get that far."""

    status: int | None
    why: str
    results: str
    console: str
    plugin: str = ""

    def died_by_emulation(self) -> bool:
        """A kernel that changes its code while it boots (static keys) has another CPU pass through
        int3 meanwhile, where it knows the place. QEMU's threads now and then execute one when that
        is over: an Oops of the kernel's own, before anything of ours has run."""
        ran = "Run /init as init process" in self.console
        return self.status is None and not ran and "Oops: int3" in self.console

    def alarms(self) -> list[str]:
        return [line.strip() for line in self.console.splitlines() if ALARM.search(line)]


@dataclass
class Guest:
    """What to boot. files maps a path in the guest to one here; directories are copied whole."""

    kernel: Kernel
    script: str
    files: dict[str, Path] = field(default_factory=dict)
    nodes: int = 1
    cpus: int = 2
    memory: int = 1024  # MiB, all nodes together
    append: str = ""
    network: bool = False
    wire: tuple[str, int] | None = None  # ("listen" | "connect", TCP port on loopback)
    plugin: str = ""
    counted_time: bool = False  # the clock goes by instructions, not by the machine's time
    timeout: int = 240
    script_is_tty: bool = False

    def initramfs(self, out: Path) -> None:
        """Packs busybox, the init, the files, and the kernel modules that are asked for."""
        with tempfile.TemporaryDirectory(dir=out.parent) as tmp:
            root = Path(tmp)
            for d in ("bin", "sbin", "proc", "sys", "dev", "tmp", "run", "mnt", "var", "etc"):
                (root / d).mkdir()
            (root / "var/run").symlink_to("/run")
            (root / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\nu:x:1000:1000::/:/bin/sh\n")
            shutil.copy("/bin/busybox", root / "bin/busybox")
            shutil.copy(HERE / "init", root / "init")
            (root / "init").chmod(0o755)
            (root / ("script.tty" if self.script_is_tty else "script")).write_text(self.script)
            files = dict(self.files)
            files["bin/vmexit"] = compiled(HERE / "vmexit.c", out.parent)
            if self.network:
                for tool in NETWORK_TOOLS:
                    files[f"rt/{Path(tool).name}"] = Path(tool)
                    for lib in re.findall(r"(/\S+)", sh("ldd", tool)):
                        files[lib[1:]] = Path(lib)
            for inside, here in files.items():
                target = root / inside
                target.parent.mkdir(parents=True, exist_ok=True)
                if here.is_dir():
                    shutil.copytree(here, target, symlinks=True)
                else:
                    shutil.copy(here.resolve(), target)
            self.add_modules(root)
            names = sorted(str(p.relative_to(root)) for p in root.rglob("*"))
            packed = subprocess.run(
                ["cpio", "-o", "-H", "newc", "-R", "0:0", "--quiet"],
                cwd=root,
                input="\n".join(names).encode(),
                stdout=subprocess.PIPE,
                check=True,
            )
            out.write_bytes(gzip.compress(packed.stdout, 1))

    def add_modules(self, root: Path) -> None:
        """The kernel's modules for the network, unpacked, in the order of their dependences."""
        wanted: list[Path] = []
        if (self.network or self.wire) and self.kernel.modroot:
            for module in NETWORK_MODULES:
                shown = subprocess.run(
                    [
                        "modprobe",
                        "-d",
                        self.kernel.modroot,
                        "-S",
                        self.kernel.release,
                        "--show-depends",
                        module,
                    ],
                    text=True,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                ).stdout
                for path in re.findall(r"^insmod (\S+)", shown, re.M):
                    if Path(path) not in wanted:
                        wanted.append(Path(path))
        (root / "lib/modules").mkdir(parents=True, exist_ok=True)
        names = []
        for path in wanted:
            target = root / "lib/modules" / path.name
            shutil.copy(path, target)
            if path.suffix == ".xz":
                sh("xz", "-d", target)
                target = target.with_suffix("")
            names.append(target.name)
        (root / "modlist").write_text("".join(n + "\n" for n in names))

    def command(self, work: Path) -> list[str]:
        """QEMU's command line."""
        # Without 5-level paging: identify_cpu() clears the flag for a moment, and KASAN in an
        # interrupt at that moment takes kernel addresses for wild ones.
        threads = "single" if self.counted_time else "multi"
        cmd = ["qemu-system-x86_64", "-accel", f"tcg,thread={threads}", "-cpu", "max,la57=off"]
        if self.counted_time:  # a nanosecond each, and none while all CPUs sleep
            cmd += ["-icount", "shift=0,sleep=off"]
        cmd += ["-smp", f"{self.cpus},sockets={self.nodes}", "-m", f"{self.memory}M"]
        if self.nodes > 1:
            if self.cpus % self.nodes:
                raise ValueError("cpus must be a multiple of nodes")
            share = self.cpus // self.nodes
            for n in range(self.nodes):
                cmd += ["-object", f"memory-backend-ram,id=m{n},size={self.memory // self.nodes}M"]
                cpus = f"{n * share}-{n * share + share - 1}"
                cmd += ["-numa", f"node,nodeid={n},cpus={cpus},memdev=m{n}"]
        append = f"console=ttyS0 panic=-1 nokaslr {self.append}"
        append += f" LONG={os.environ.get('BEELINE_LONG', '0')}"
        append += f" PATIENCE={os.environ.get('BEELINE_VM_PATIENCE', '1')}"
        cmd += ["-kernel", str(self.kernel.image), "-initrd", str(work / "initramfs.gz")]
        cmd += ["-append", append, "-no-reboot", "-display", "none"]
        cmd += ["-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"]
        if self.script_is_tty:
            cmd += ["-serial", "mon:stdio"]
        else:
            cmd += ["-monitor", "none", "-serial", f"file:{work / 'console'}"]
            cmd += ["-serial", f"file:{work / 'results'}"]
        if self.wire:
            side, port = self.wire
            cmd += ["-netdev", f"socket,id=w,{side}=127.0.0.1:{port}"]
            mac = "52:54:00:00:00:01" if side == "listen" else "52:54:00:00:00:02"
            cmd += ["-device", f"virtio-net-pci,netdev=w,mac={mac}"]
        else:
            cmd += ["-nic", "none"]
        if self.plugin:
            cmd += ["-plugin", self.plugin]
        return cmd

    def start(self, work: Path) -> subprocess.Popen[bytes]:
        if not shutil.which("qemu-system-x86_64"):
            raise Unavailable("qemu-system-x86_64 is not installed (package qemu-system-x86)")
        work.mkdir(parents=True, exist_ok=True)
        for old in ("console", "results"):
            (work / old).unlink(missing_ok=True)
        self.initramfs(work / "initramfs.gz")
        quiet = None if self.script_is_tty else subprocess.DEVNULL
        with open(work / "qemu", "wb") as log:
            return subprocess.Popen(
                self.command(work),
                stdin=quiet,
                stdout=None if self.script_is_tty else log,
                stderr=None if self.script_is_tty else subprocess.STDOUT,
            )

    def finish(self, process: subprocess.Popen[bytes], work: Path) -> Result:
        """Waits for the end; a guest that outlasts its time is killed."""
        why = ""
        status = None
        # One that began in time may end a little later.
        limit = min(float(self.timeout), kernels.remaining(self.timeout) + 90)
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            why = f"no end after {limit:.0f} s"
        except BaseException:  # interrupted: leave no machine behind
            process.kill()
            process.wait()
            raise
        else:
            if code & 1 and code >> 1 >= 0x10:
                status = (code >> 1) - 0x10
                why = f"exit status {status}"
            else:
                said = read(work / "qemu")[-500:].strip()
                why = f"qemu ended with {code}: {said or 'guest died'}"
        return Result(status, why, read(work / "results"), read(work / "console"))

    def run(self, work: Path) -> Result:
        for _ in range(BOOTS):
            result = self.finish(self.start(work), work)
            if not result.died_by_emulation():
                break
        return result


def read(path: Path) -> str:
    return path.read_text(errors="replace").replace("\r", "") if path.exists() else ""


def compiled(source: Path, work: Path, *flags: str) -> Path:
    """A static program for the guest, compiled here."""
    out = work / source.stem
    if not out.exists() or out.stat().st_mtime < source.stat().st_mtime or flags:
        sh(
            "gcc",
            "-std=gnu17",
            "-D_GNU_SOURCE",
            "-O2",
            "-g0",
            "-fno-strict-aliasing",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-static",
            "-pthread",
            source,
            *flags,
            "-o",
            out,
        )
    return out


def await_listener(port: int, process: subprocess.Popen[bytes], seconds: float) -> None:
    """Returns when something listens on the port of loopback, or the process has ended. Asks the
    kernel's table of sockets: QEMU takes one connection, and that is not for us."""
    until = time.monotonic() + seconds
    listening = re.compile(rf"^ *\d+: 0100007F:{port:04X} \S+ 0A ", re.M)
    while process.poll() is None and not listening.search(read(Path("/proc/net/tcp"))):
        if time.monotonic() > until:
            process.kill()
            process.wait()
            raise Unavailable(f"QEMU does not listen on port {port} after {seconds:.0f} s")
        time.sleep(0.01)


BOOTS = 3  # at most, of a guest that dies by emulation
pairs = itertools.count()  # of this process, which may have several at a time


def run_pair(one: Guest, two: Guest, work: Path) -> tuple[Result, Result]:
    """Two guests joined by a wire; each sees one Ethernet device, with addresses ...:01 and :02."""
    for _ in range(BOOTS):
        port = 20000 + (os.getpid() * 4 + next(pairs)) % 20000
        one.wire, two.wire = ("listen", port), ("connect", port)
        first = one.start(work / "one")
        await_listener(port, first, 30.0 * int(os.environ.get("BEELINE_VM_PATIENCE", "1")))
        second = two.start(work / "two")
        results = one.finish(first, work / "one"), two.finish(second, work / "two")
        if not any(result.died_by_emulation() for result in results):
            break
    return results
