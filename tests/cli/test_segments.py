# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What `beeline stat` makes of a segment that is nonsense: of a version to come, or of a process
that writes there what it likes."""

from __future__ import annotations

import json
import os
import random

import pytest
from beeline import segments, stat


def make_segment(page: bytes, lanes: bytes = b"") -> int:
    fd = os.memfd_create("beeline")
    os.write(fd, page + lanes)
    return fd


def own_page(**change: int) -> bytearray:
    """A header page as this process would have it, with some fields changed."""
    places = {
        "magic": segments.STATS_MAGIC,
        "version": segments.STATS_VERSION,
        "count": 3,
        "pid": os.getpid(),
        "node": 0,
        "began": 0,
        "eager_max": 8192,
        "lane_size": 65536,
        "slots": 32,
        "slot_size": 256,
        "slot_at": 128,
        "shown_at": 4096,
        "shown_size": 160,
        "rx_next": 16,
        "rx_bytes": 24,
        "rx_total": 32,
        "rx_long": 40,
        "rx_long_bytes": 48,
        "rx_size": 64,
        "in_slot": 232,
    } | change
    page = bytearray(segments.PAGE)
    segments.SEGMENT.pack_into(
        page, 0, segments.SEGMENT_MAGIC, segments.SEGMENT_VERSION, 0, bytes(16)
    )
    segments.STATS.pack_into(page, segments.STATS_AT, *places.values())
    return page


NONSENSE = [
    ({"magic": 1}, "another magic"),
    ({"version": 99}, "a version to come"),
    ({"count": 65535}, "more counters than there is room for"),
    ({"pid": 1}, "another process's, on its way"),
    ({"lane_size": 0}, "lanes of no size"),
    ({"lane_size": 0xFFFFFFFF}, "lanes beyond reason"),
    ({"slots": 4096, "slot_size": 4096, "lane_size": 1 << 24}, "lanes that take hours to read"),
    ({"slots": 0}, "no slots"),
    ({"slots": 65535}, "slots beyond the lane"),
    ({"slot_size": 0}, "slots of no size"),
    ({"slot_at": 0}, "slots over the credits"),
    ({"shown_at": 0}, "neighbours over the header"),
    ({"shown_size": 0}, "neighbours of no size"),
    ({"shown_size": 65535}, "neighbours beyond reason"),
    ({"rx_next": 65535}, "fields beyond the structure"),
    ({"rx_size": 65535}, "a structure beyond reason"),
]


@pytest.mark.parametrize(("change", "why"), NONSENSE, ids=[n[1] for n in NONSENSE])
def test_nonsense_in_the_header(change: dict[str, int], why: str) -> None:
    fd = make_segment(own_page(**change), bytes(2 * 65536))
    try:
        assert segments.endpoints_of(os.getpid()) == [], why
    finally:
        os.close(fd)


def test_random_bytes_are_read_without_harm() -> None:
    """Whatever a process shows of its neighbours: numbers, perhaps silly ones."""
    generator = random.Random(4)
    for _ in range(50):
        page = own_page(count=segments.COUNTERS_MOST)
        at = segments.STATS_AT + segments.STATS.size
        page[at:] = generator.randbytes(len(page) - at)
        fd = make_segment(page, generator.randbytes(100 * 160))
        try:
            (endpoint,) = segments.endpoints_of(os.getpid())
            json.dumps(stat.describe(endpoint))
            stat.rendering([endpoint], {}, [])
        finally:
            os.close(fd)


def test_a_descriptor_that_is_no_file() -> None:
    """Its name says that it is a segment: in a namespace of its own a process names as it likes."""
    ends = os.pipe()
    try:
        for fd in ends:
            assert segments._read(fd, os.getpid(), segments._Memory(os.getpid())) is None
    finally:
        for fd in ends:
            os.close(fd)


def test_a_segment_counts_once() -> None:
    fds = [make_segment(own_page(), bytes(2 * 65536))]
    fds += [os.dup(fds[0]) for _ in range(5)]
    try:
        assert len(segments.endpoints_of(os.getpid())) == 1
    finally:
        for fd in fds:
            os.close(fd)
