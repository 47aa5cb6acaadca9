# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""providers.py LIBFABRIC: the providers that this library finds, one name to a line.

What fi_info does, by any libfabric: those inside of MPI libraries come without it.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import POINTER, Structure, c_char_p, c_size_t, c_uint32, c_uint64, c_void_p

API = 1 << 16 | 9  # FI_VERSION(1, 9): old enough for all that MPIs bring


class FabricAttr(Structure):
    """The beginning of struct fi_fabric_attr."""

    _fields_ = [("fabric", c_void_p), ("name", c_char_p), ("prov_name", c_char_p)]


class Info(Structure):
    """struct fi_info, as it has been since libfabric 1.0."""


Info._fields_ = [
    ("next", POINTER(Info)),
    ("caps", c_uint64),
    ("mode", c_uint64),
    ("addr_format", c_uint32),
    ("src_addrlen", c_size_t),
    ("dest_addrlen", c_size_t),
    ("src_addr", c_void_p),
    ("dest_addr", c_void_p),
    ("handle", c_void_p),
    ("tx_attr", c_void_p),
    ("rx_attr", c_void_p),
    ("ep_attr", c_void_p),
    ("domain_attr", c_void_p),
    ("fabric_attr", POINTER(FabricAttr)),
]


def main() -> None:
    library = ctypes.CDLL(sys.argv[1])
    found = POINTER(Info)()
    ret = library.fi_getinfo(c_uint32(API), None, None, c_uint64(0), None, ctypes.byref(found))
    if ret:
        sys.exit(f"fi_getinfo: error {-ret}")
    while found:
        print(found.contents.fabric_attr.contents.prov_name.decode())
        found = found.contents.next


main()
