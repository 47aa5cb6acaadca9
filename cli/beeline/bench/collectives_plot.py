# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Collective operations as lines: collectives.{png,svg}. A row of pictures for each number of
ranks, a picture for each operation, a line for each MPI: time over Beeline / by default, by
size. The axis is logarithmic: half the time is as far from 1 as twice."""

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
from beeline.bench.summary import Row  # noqa: E402


def _lines(axes: Axes, rows: Sequence[Row], colours: Mapping[str, str]) -> None:
    place = plot.sizes_axis(axes, sorted({r.size for r in rows}))
    values = [1.0]
    for mpi, colour in colours.items():
        mine = sorted((r for r in rows if r.mpi == mpi), key=lambda r: r.size)
        x = [place[r.size] for r in mine]
        y, low, high = ([getattr(r.ratio, n) for r in mine] for n in ("median", "low", "high"))
        axes.fill_between(x, low, high, color=colour, alpha=0.12, linewidth=0)
        axes.plot(x, y, color=colour, linewidth=2, marker="o", markersize=4)
        values += y
    axes.set_yscale("log")
    axes.set_ylim(max(min(values), 0.05) / 1.3, max(values) * 1.3)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.axhline(1, color=plot.INK, linewidth=1.3, linestyle=(0, (4, 2.5)))


def save(
    rows: Mapping[int, Sequence[Row]], note: str, folder: Path, against: Baseline
) -> list[Path]:
    everything = [row for of_ranks in rows.values() for row in of_ranks]
    shown = {ranks: of_ranks for ranks, of_ranks in rows.items() if of_ranks}
    tests = list(dict.fromkeys(row.test for row in everything))
    colours = plot.colours_of(everything)
    unit = f"time over Beeline / over {against.short}"
    with plt.rc_context(plot.STYLE):
        width, height = max(8.0, 3.6 * len(tests)), 2.2 + 3.4 * len(shown)
        figure, grid = plt.subplots(len(shown), len(tests), figsize=(width, height), squeeze=False)
        for line, (ranks, of_ranks) in zip(grid, shown.items(), strict=True):
            for axes, test in zip(line, tests, strict=True):
                _lines(axes, [r for r in of_ranks if r.test == test], colours)
                plot.entitle(axes, f"{test}, {ranks} ranks", unit)
        title = f"Collective operations, over Beeline and over {against.whose}"
        handles = plot.handles_of(everything)
        return plot.save(figure, handles, title, note, folder / "collectives")
