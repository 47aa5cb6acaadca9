# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What programs/probe found out by trying: messages, direct copies, system calls."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from dataclasses import dataclass

from beeline import paths
from beeline.doctor.finding import BAD, NOTE, OK, Finding, read, status

LIMIT = 60.0


@dataclass
class Result:
    """How one attempt ended."""

    tried: bool = False
    errno: int = 0
    signal: int = 0
    extra: tuple[int, ...] = ()

    @property
    def good(self) -> bool:
        return self.tried and not self.errno and not self.signal

    @property
    def said(self) -> str:
        if self.signal:
            return f"killed by {signal.Signals(self.signal).name}"
        if not self.tried:
            return "no answer"
        return f"{errno.errorcode.get(self.errno, self.errno)}: {os.strerror(self.errno)}"


@dataclass
class Probe:
    results: dict[str, Result]
    said: str  # on standard error, by the library

    def __getitem__(self, name: str) -> Result:
        return self.results.get(name, Result())


def parse(text: str) -> dict[str, Result]:
    results: dict[str, Result] = {}
    for line in text.splitlines():
        name, *words = line.split()
        if words and words[0] == "signal":
            results[name] = Result(True, 0, int(words[1]))
        elif words:
            results[name] = Result(True, int(words[0]), 0, tuple(map(int, words[1:])))
    return results


def run_probe() -> Probe:
    program = str(paths.program("probe"))
    results: dict[str, Result] = {}
    said: list[str] = []
    for what in ("calls", "messages"):
        try:
            done = subprocess.run(
                [program, what],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=LIMIT,
                check=False,
                env={k: v for k, v in os.environ.items() if not k.startswith("FI_")}
                | {k: v for k, v in os.environ.items() if k.startswith("FI_BEELINE_")},
            )
        except OSError as error:  # no descriptor, no process: what it lacks is said below
            said.append(f"{program}: {error.strerror}")
            continue
        except subprocess.TimeoutExpired:
            said.append(f"{what}: no end after {LIMIT:.0f} s")
            continue
        results |= parse(done.stdout)
        said += [line for line in done.stderr.splitlines() if line]
        if done.returncode < 0:
            said.append(f"{what}: {signal.Signals(-done.returncode).name}")
    return Probe(results, "; ".join(dict.fromkeys(said)))


def filtered() -> bool:
    """A seccomp filter stands between us and the kernel."""
    return status("Seccomp") == "2"


# --- messages -----------------------------------------------------------------


def messages(probe: Probe) -> list[Finding]:
    kinds = {"inline": "8 bytes", "eager": "1000 bytes", "large": "4 MiB"}
    failed = [f"{size}: {probe[kind].said}" for kind, size in kinds.items() if not probe[kind].good]
    data = {kind: probe[kind].good for kind in kinds}
    if not failed:
        return [
            Finding(
                "messages", OK, f"two processes exchanged {', '.join(kinds.values())}", data=data
            )
        ]
    return [
        Finding(
            "messages",
            BAD,
            f"two processes could not exchange messages ({'; '.join(failed)})",
            probe.said or "see what is BAD below",
            data=data,
        )
    ]


# --- direct copies --------------------------------------------------------------


def _why_refused(calls: str) -> tuple[str, str]:
    """Where a refusal of what only ptracers may comes from, and what would end it."""
    yama = read("/proc/sys/kernel/yama/ptrace_scope")
    if yama in ("2", "3"):
        who = "only to CAP_SYS_PTRACE" if yama == "2" else "to nobody, until the next boot"
        change = (
            "sudo sysctl kernel.yama.ptrace_scope=1"
            if yama == "2"
            else "remove kernel.yama.ptrace_scope=3 from /etc/sysctl.d and reboot"
        )
        return f"Yama permits it {who} (kernel.yama.ptrace_scope={yama})", change
    if filtered():
        return (
            "a seccomp filter of this container or service refuses it",
            f"run the container with a profile that allows {calls} "
            "(docker run --cap-add SYS_PTRACE, or --security-opt seccomp=PROFILE)",
        )
    return (
        "a security module (AppArmor, SELinux) or another mechanism refuses it",
        "ask for the right to ptrace processes of the same user",
    )


def copies(probe: Probe) -> list[Finding]:
    read_it, write_it = probe["readv"], probe["writev"]
    data = {
        "process_vm_readv": read_it.good,
        "process_vm_writev": write_it.good,
        "yama_ptrace_scope": read("/proc/sys/kernel/yama/ptrace_scope"),
        "seccomp_filter": filtered(),
    }
    if read_it.good and write_it.good:
        scope = data["yama_ptrace_scope"]
        return [
            Finding(
                "single copy",
                OK,
                "process_vm_readv and process_vm_writev work between neighbours",
                f"Yama restricts them (ptrace_scope={scope}); Beeline's processes permit them "
                "to each other"
                if scope == "1"
                else "large messages are copied once, by either process or by both; each does its "
                "atomic operations on the other's memory itself",
                data=data,
            )
        ]
    refused = [
        f"{call}: {result.said}"
        for call, result in (("process_vm_readv", read_it), ("process_vm_writev", write_it))
        if not result.good
    ]
    if (read_it if not read_it.good else write_it).errno == errno.ENOSYS and not filtered():
        why = "this kernel is built without process_vm_readv"
        command = "use a kernel with CONFIG_CROSS_MEMORY_ATTACH=y"
    else:
        why, command = _why_refused("process_vm_readv and process_vm_writev")
    cost = (
        "large messages are copied twice, through shared memory"
        if len(refused) == 2
        else "large messages are copied by one process alone"
    )
    return [Finding("single copy", NOTE, "; ".join(refused), f"{why}; {cost}", command, data)]


# --- the other system calls -------------------------------------------------------


def calls(probe: Probe) -> list[Finding]:
    found = [_memfd(probe), _socket(probe), _netlink(probe)]
    found += _membarrier(probe)
    if not probe["robust_list"].good:
        found.append(
            Finding(
                "robust futexes",
                NOTE,
                f"set_robust_list: {probe['robust_list'].said}",
                "the kernel doesn't mark this process's death: neighbours look for it every 20 ms, "
                "which costs each of them a descriptor and a system call per look",
                "run with a seccomp profile that allows set_robust_list",
            )
        )
    return found


def _memfd(probe: Probe) -> Finding:
    result = probe["memfd"]
    if result.good:
        return Finding("shared memory", OK, "memfd_create, sealed and reserved; /dev/shm is unused")
    command = {
        errno.ENOMEM: "raise memory.max of this job's cgroup, or free memory",
        errno.ENOSPC: "raise memory.max of this job's cgroup, or free memory",
        errno.EMFILE: "ulimit -n 1024",
    }.get(result.errno, "run with a seccomp profile that allows memfd_create")
    return Finding("shared memory", BAD, f"memfd_create: {result.said}", "", command)


def _socket(probe: Probe) -> Finding:
    result = probe["socket"]
    if result.good:
        return Finding(
            "rendezvous", OK, "abstract Unix sockets work: by them processes find each other"
        )
    command = (
        "ulimit -n 1024"
        if result.errno == errno.EMFILE
        else "allow Unix sockets in the abstract namespace (seccomp, AppArmor, Landlock)"
    )
    return Finding("rendezvous", BAD, f"Unix socket: {result.said}", "", command)


def _netlink(probe: Probe) -> Finding:
    result = probe["netlink"]
    if result.good:
        return Finding(
            "waking", OK, "netlink sockets work: by them who sleeps on a descriptor is woken"
        )
    return Finding(
        "waking",
        NOTE,
        f"netlink socket: {result.said}",
        "a queue has no descriptor to wait on (FI_WAIT_FD); MPI libraries don't ask for one, and "
        "fi_cq_sread sleeps all the same",
        "run with a seccomp profile that allows sockets of the family AF_NETLINK",
    )


def _membarrier(probe: Probe) -> list[Finding]:
    if probe["membarrier"].good:
        return [Finding("membarrier", OK, "silent neighbours cost nothing to poll")]
    return [
        Finding(
            "membarrier",
            NOTE,
            f"membarrier: {probe['membarrier'].said}",
            "with more than 8 neighbours every one of them is polled, silent or not",
            "run with a seccomp profile that allows membarrier",
        )
    ]
