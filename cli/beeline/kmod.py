# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""beeline.ko as the command sees it: what include/uapi/beeline.h calls INFO and STAT.

Nothing here needs root but stat(), whose counters are everybody's.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
from pathlib import Path
from typing import TypeVar

DEVICE = Path("/dev/beeline")
MAGIC = 0xBE

AnyStructure = TypeVar("AnyStructure", bound=ctypes.Structure)


class Info(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint32)
        for name in ("abi", "max_iov", "max_batch", "max_exports", "window_pages", "reserved")
    ]


class Stat(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint32), ("reserved", ctypes.c_uint32)] + [
        (name, ctypes.c_uint64)
        for name in (
            "files",
            "live",
            "exports",
            "copies_from",  # `from` in C
            "from_bytes",
            "copies_to",
            "to_bytes",
            "failed",
            "faults",
        )
    ]


STAT_MODULE = 1


def _request(direction: int, number: int, struct: type[ctypes.Structure]) -> int:
    """_IOC() of linux/ioctl.h; direction 1 is write, 2 read."""
    return direction << 30 | ctypes.sizeof(struct) << 16 | MAGIC << 8 | number


INFO = _request(2, 0x40, Info)
STAT = _request(3, 0x47, Stat)


def _ask(device: Path, request: int, struct: AnyStructure) -> AnyStructure:
    fd = os.open(device, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.ioctl(fd, request, struct)
    finally:
        os.close(fd)
    return struct


def loaded() -> bool:
    """The module is in the kernel, whether or not this process may use it."""
    return Path("/sys/module/beeline").is_dir()


def info(device: Path = DEVICE) -> Info | None:
    """What the module can do; None: it isn't here. PermissionError: not for us."""
    try:
        return _ask(device, INFO, Info())
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ENOTTY, errno.ENXIO, errno.ENODEV):
            return None
        raise


def stat(device: Path = DEVICE) -> Stat | None:
    """Counters since the module was loaded, of all processes. None: it isn't here.
    PermissionError: it takes CAP_SYS_ADMIN."""
    try:
        return _ask(device, STAT, Stat(flags=STAT_MODULE))
    except FileNotFoundError:
        return None
