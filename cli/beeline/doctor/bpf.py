# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""BPF: whether this user may load programs that receive messages inside the kernel. Nothing
of Beeline needs that today: whatever is found is no fault, and nothing is advised."""

from __future__ import annotations

import errno
from typing import Any

from beeline.doctor.finding import OK, Finding, read, status
from beeline.doctor.kernel import Probe, filtered
from beeline.doctor.machine import own_namespaces

# include/uapi/linux/capability.h: what the kernel asks for, each or CAP_SYS_ADMIN.
CAPABILITIES = {"CAP_BPF": 39, "CAP_NET_ADMIN": 12, "CAP_PERFMON": 38}
CAP_SYS_ADMIN = 21
TRIES = {"bpf_memory": "map", "bpf_receive": "program", "bpf_read": "reads of kernel memory"}
WHAT_FOR = (
    "with it the kernel could receive messages from the network while a program computes; "
    "nothing of Beeline needs it today"
)


def capabilities() -> dict[str, bool]:
    """What this process has of those; the kernel takes CAP_SYS_ADMIN for all but one."""
    effective = int(status("CapEff") or "0", 16)
    admin = bool(effective >> CAP_SYS_ADMIN & 1)
    return {
        name: bool(effective >> bit & 1) or (admin and name != "CAP_NET_ADMIN")
        for name, bit in CAPABILITIES.items()
    }


def finding(probe: Probe) -> Finding:
    has = capabilities()
    jit = read("/proc/sys/net/core/bpf_jit_enable")
    setting = read("/proc/sys/kernel/unprivileged_bpf_disabled")
    data: dict[str, Any] = {
        "map": probe["bpf_memory"].good,
        "program": probe["bpf_receive"].good,
        "kernel_reads": probe["bpf_read"].good,
        "capabilities": has,
        "unprivileged_bpf_disabled": setting,
        "jit": jit,
    }
    refused = {what: probe[name].said for name, what in TRIES.items() if not probe[name].good}
    if not refused:
        slow = jit == "0"
        return Finding(
            "BPF",
            OK,
            "programs that receive from sockets are permitted"
            + ("; the kernel interprets them (net.core.bpf_jit_enable=0)" if slow else ""),
            WHAT_FOR,
            data=data,
        )
    why = _why_refused(probe, has, setting)
    what = "; ".join(f"{name}: {said}" for name, said in refused.items())
    if len(refused) == len(TRIES) and len(set(refused.values())) == 1:
        what = f"refused: {probe['bpf_receive'].said}"
    return Finding("BPF", OK, what, f"{why}; {WHAT_FOR}", data=data)


def _why_refused(probe: Probe, has: dict[str, bool], setting: str | None) -> str:
    lacking = [name for name, there in has.items() if not there]
    number = probe["bpf_receive"].errno
    if number == errno.ENOSYS and not filtered():
        return "this kernel is built without BPF"
    if number == errno.EINVAL:
        return "this kernel knows no such programs (5.10, CONFIG_BPF_STREAM_PARSER=y)"
    if lacking:
        return f"{', '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} lacking" + (
            f" (kernel.unprivileged_bpf_disabled={setting})" if setting else ""
        )
    if filtered():
        return "a seccomp filter of this container or service refuses it"
    if "user" in own_namespaces():
        return "the capabilities of a user namespace don't count for it"
    return "the capabilities are there: the kernel's lockdown or a security module refuses it"
