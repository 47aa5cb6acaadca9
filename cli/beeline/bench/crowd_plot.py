# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""More ranks than processors as bars: crowd.{png,svg}. A picture for each number of
ranks, a group of bars for each test and size, a bar for each MPI: time over Beeline /
by default, from the line at 1 down where Beeline is faster. The axis is logarithmic:
ratios span orders, and half the time is as far from 1 as twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402
from matplotlib.ticker import LogLocator, NullFormatter  # noqa: E402

from beeline.bench import plot  # noqa: E402
from beeline.bench.launch import Baseline  # noqa: E402
from beeline.bench.summary import Row, show_size  # noqa: E402


def _bars(axes: Axes, rows: Sequence[Row], colours: Mapping[str, str]) -> None:
    groups = list(dict.fromkeys((r.test, r.size) for r in rows))
    width = 0.8 / max(1, len(colours))
    values = [1.0]
    for i, (mpi, colour) in enumerate(colours.items()):
        mine = [r for r in rows if r.mpi == mpi]
        x = [groups.index((r.test, r.size)) + (i - (len(colours) - 1) / 2) * width for r in mine]
        ratios = [r.ratio.median for r in mine]
        axes.bar(x, [y - 1 for y in ratios], width, bottom=1, color=colour)
        low, high = [r.ratio.low for r in mine], [r.ratio.high for r in mine]
        axes.vlines(x, low, high, color=plot.INK, linewidth=0.9)
        values += low + high
    axes.set_yscale("log")
    axes.set_ylim(min(values) / 1.3, max(values) * 1.3)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.axhline(1, color=plot.INK, linewidth=1.3)
    names = [f"{test}\n{show_size(size)}" if size else test for test, size in groups]
    axes.set_xticks(range(len(groups)), names, fontsize=9)
    axes.grid(False, axis="x")
    axes.margins(x=0.01)
    for i, (one, other) in enumerate(zip(groups, groups[1:], strict=False)):
        if one[0] != other[0]:
            axes.axvline(i + 0.5, color=plot.FAINT, linewidth=0.6, linestyle=":")


def save(
    rows: Mapping[int, Sequence[Row]], note: str, folder: Path, against: Baseline
) -> list[Path]:
    everything = [row for of_ranks in rows.values() for row in of_ranks]
    shown = {ranks: of_ranks for ranks, of_ranks in rows.items() if of_ranks}
    with plt.rc_context(plot.STYLE):
        figure, grid = plt.subplots(
            len(shown), 1, figsize=(12.5, 1.8 + 3.3 * len(shown)), squeeze=False
        )
        for (axes,), (ranks, of_ranks) in zip(grid, shown.items(), strict=True):
            _bars(axes, of_ranks, plot.colours_of(everything))
            unit = f"time over Beeline / over {against.short}: lower is faster"
            if any(r.ratio.launches > 1 for r in of_ranks):
                unit += "; lines are quartiles"
            plot.entitle(axes, f"{ranks} ranks", unit)
        title = f"More ranks than processors, over Beeline and over {against.whose}"
        return plot.save(figure, plot.handles_of(everything), title, note, folder / "crowd")
