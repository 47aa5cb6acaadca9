# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What `beeline bench overlap` makes of numbers."""

from __future__ import annotations

from beeline.bench import launch, overlap, summary

TEXT = """library MPICH 5
sample transfer 65536 {transfer}
sample receiver 65536 {receiver}
sample sender 65536 200
sample both 65536 20000
sample call 65536 4000
done
"""


def test_points_are_medians_and_shares_stay_between_0_and_1() -> None:
    launches = [
        summary.Launch("MPICH 5", path, i, launch.parse(TEXT.format(transfer=t, receiver=r)))
        for path in launch.PATHS
        for i, (t, r) in enumerate([(4000, 100), (5000, 300), (90000, 200)])
    ]
    found = overlap.points(launches, {"MPICH 5": "mpich"})
    assert [p.path for p in found] == sorted(launch.PATHS)
    for point in found:
        assert (point.size, point.transfer, point.call) == (65536, 5000, 4000)
        assert point.share("receiver") == 1 - 200 / 5000
        assert point.share("sender") == 1 - 200 / 5000
        assert point.share("both") == 0
