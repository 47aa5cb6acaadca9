# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What machine this is, for the record beside the numbers, and which two of its
processors are near each other. `root` is / except in tests with recorded trees."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beeline.errors import BeelineError


def parse_list(text: str) -> list[int]:
    """A kernel list of processors: "0-3,8" is 0, 1, 2, 3, 8."""
    numbers: list[int] = []
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            numbers += range(int(first), int(last or first) + 1)
    return numbers


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


@dataclass(frozen=True)
class Cpu:
    number: int
    core: tuple[int, ...]  # its hardware threads, itself among them
    cache: tuple[int, ...]  # who shares its last-level cache


def read_cpu(number: int, root: Path = Path("/")) -> Cpu:
    base = root / f"sys/devices/system/cpu/cpu{number}"
    core = parse_list(_read(base / "topology/thread_siblings_list")) or [number]
    cache = [number]
    for index in sorted(base.glob("cache/index*")):
        sharers = parse_list(_read(index / "shared_cpu_list"))
        if len(sharers) >= len(cache):
            cache = sharers
    return Cpu(number, tuple(core), tuple(cache))


def near_pair(allowed: set[int], root: Path = Path("/")) -> tuple[int, int]:
    """Two processors of different cores, under one last-level cache if there are
    such. The first core is left to the kernel's own work where there are enough."""
    cpus = [read_cpu(n, root) for n in sorted(allowed)]
    firsts = [c for c in cpus if c.number == min(set(c.core) & allowed)]
    if len(firsts) < 2:
        raise BeelineError("measuring needs two cores, and this process may use only one")
    if len(firsts) >= 4:
        firsts = [c for c in firsts if 0 not in c.core]
    for i, one in enumerate(firsts):
        for other in firsts[i + 1 :]:
            if other.number in one.cache:
                return one.number, other.number
    return firsts[0].number, firsts[1].number


def load() -> float:
    return os.getloadavg()[0]


def disturbed(average: float) -> list[str]:
    """What is to be said, before measuring and beside the numbers, of other programs."""
    if average <= 0.5:
        return []
    return [f"other programs use this machine (load {average:.1f} at the start): the numbers vary"]


def describe(root: Path = Path("/")) -> dict[str, Any]:
    cpuinfo = _read(root / "proc/cpuinfo")
    model = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.M)
    memory = re.search(r"^MemTotal:\s*(\d+)", _read(root / "proc/meminfo"), re.M)
    release = re.search(r'^PRETTY_NAME="?([^"\n]+)', _read(root / "etc/os-release"), re.M)
    cpu0 = root / "sys/devices/system/cpu/cpu0"
    caches = {
        f"L{_read(index / 'level')} {_read(index / 'type').lower()}": _read(index / "size")
        for index in sorted(cpu0.glob("cache/index*"))
    }
    pages = _read(root / "sys/kernel/mm/transparent_hugepage/enabled")
    chosen = re.search(r"\[(\w+)\]", pages)
    return {
        "cpu": model[1] if model else platform.processor() or platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "caches": caches,
        "governor": _read(cpu0 / "cpufreq/scaling_governor") or None,
        "virtual": "hypervisor" in cpuinfo,
        "numa_nodes": len(list((root / "sys/devices/system/node").glob("node[0-9]*"))) or 1,
        "memory_gib": round(int(memory[1]) / 2**20, 1) if memory else None,
        "transparent_hugepages": chosen[1] if chosen else None,
        "ptrace_scope": _read(root / "proc/sys/kernel/yama/ptrace_scope") or None,
        "kernel": platform.release(),
        "system": release[1] if release else platform.system(),
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
    }
