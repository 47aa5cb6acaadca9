# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The measurements as two figures: latency.{png,svg}, the one to look at first, and
throughput.{png,svg}. Colour says which MPI, dashes say its own default."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.artist import Artist  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from matplotlib.lines import Line2D  # noqa: E402

from beeline.bench.launch import BEELINE, DEFAULT, Baseline  # noqa: E402
from beeline.bench.summary import KIB, LimitRow, Row, show_size  # noqa: E402

# Told apart by everybody; the second is for another MPI of the same kind.
COLOURS = {
    "mpich": ("#0072b2", "#6cb5e0"),
    "openmpi": ("#d55e00", "#f0a36b"),
    "impi": ("#009e73", "#7fcfb6"),
}


class Measured(Protocol):
    """Of some MPI, which has a colour."""

    @property
    def mpi(self) -> str: ...

    @property
    def kind(self) -> str: ...


class OverlapPoint(Measured, Protocol):
    """What overlap() draws: overlap.Point."""

    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int: ...

    def share(self, away: str) -> float: ...


INK, FAINT, GRID = "#222222", "#777777", "#e4e4e4"
STYLE: dict[str, Any] = {
    "font.size": 10.5,
    "font.family": "sans-serif",
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "svg.fonttype": "none",
    "figure.facecolor": "white",
}


def _short(size: int) -> str:
    return show_size(size).replace(" B", "").replace("iB", "").replace(" ", "")


def sizes_axis(axes: Axes, sizes: Sequence[int]) -> dict[int, int]:
    """Sizes at equal distances, labelled, thinned out where they would touch."""
    place = {size: i for i, size in enumerate(sizes)}
    room = int(axes.get_position().width * axes.figure.get_figwidth() / 0.44)
    step = -(-len(sizes) // room)
    shown = [s for i, s in enumerate(reversed(sizes)) if i % step == 0][::-1]
    axes.set_xticks([place[s] for s in shown], [_short(s) for s in shown])
    axes.set_xlabel("message, bytes")
    axes.grid(False, axis="x")
    axes.margins(x=0.03)
    return place


def _by_mpi(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda r: r.size):
        found.setdefault(row.mpi, []).append(row)
    return found


def colours_of(rows: Sequence[Measured]) -> dict[str, str]:
    colours: dict[str, str] = {}
    for row in rows:
        if row.mpi not in colours:
            first, second = COLOURS[row.kind]
            colours[row.mpi] = second if first in colours.values() else first
    return colours


def _values(axes: Axes, rows: Sequence[Row], value: Callable[[Row, float], float]) -> None:
    """Two lines for each MPI, what it is measured against and Beeline, with the quartiles."""
    place = sizes_axis(axes, sorted({r.size for r in rows}))
    colours, top = colours_of(rows), 0.0
    for mpi, mine in _by_mpi(rows).items():
        colour = colours[mpi]
        x = [place[r.size] for r in mine]
        for name in ("default", "beeline"):
            spreads = [getattr(r, name) for r in mine]
            y = [value(r, s.median) for r, s in zip(mine, spreads, strict=True)]
            low = [value(r, s.low) for r, s in zip(mine, spreads, strict=True)]
            high = [value(r, s.high) for r, s in zip(mine, spreads, strict=True)]
            ours = name == "beeline"
            top = max(top, *y)
            axes.fill_between(x, low, high, color=colour, alpha=0.10, linewidth=0)
            axes.plot(
                x,
                y,
                color=colour,
                linewidth=2.4 if ours else 1.5,
                linestyle="-" if ours else (0, (4, 2.5)),
                marker="o" if ours else "",
                markersize=4.5,
                alpha=1 if ours else 0.85,
            )
    axes.set_ylim(0, top * 1.08)  # every median is shown; a band may leave the picture


def _ratios(axes: Axes, rows: Sequence[Row], against: Baseline) -> None:
    """Beeline / default for each MPI, one line each, with 1 as the line to beat."""
    place = sizes_axis(axes, sorted({r.size for r in rows}))
    colours, top = colours_of(rows), 0.0
    for mpi, mine in _by_mpi(rows).items():
        colour = colours[mpi]
        x = [place[r.size] for r in mine]
        spreads = [r.ratio for r in mine]
        y, low, high = ([getattr(s, n) for s in spreads] for n in ("median", "low", "high"))
        axes.fill_between(x, low, high, color=colour, alpha=0.12, linewidth=0)
        top = max(top, *y)
        axes.plot(x, y, color=colour, linewidth=2.4, marker="o", markersize=4.5)
    axes.axhline(1, color=INK, linewidth=1.3, linestyle=(0, (4, 2.5)))
    axes.set_ylim(0, max(top * 1.08, 1.25))
    axes.annotate(
        against.whose,
        (1, 1),
        xycoords=("axes fraction", "data"),
        xytext=(-2, 4),
        textcoords="offset points",
        fontsize=9.5,
        ha="right",
        va="bottom",
    )


def entitle(axes: Axes, title: str, unit: str) -> None:
    axes.set_title(f"{title}\n", loc="left", fontsize=11.5, fontweight="bold")
    axes.text(0, 1.02, unit, transform=axes.transAxes, fontsize=9.5, color=FAINT, va="bottom")


def handles_of(rows: Sequence[Measured]) -> list[Artist]:
    """For a legend: which colour is which MPI's."""
    return [
        Line2D([], [], color=colour, linewidth=4, label=mpi)
        for mpi, colour in colours_of(rows).items()
    ]


def _handles(rows: Sequence[Measured], against: Baseline) -> list[Artist]:
    theirs = against.way if against.provider else "its own default"
    return handles_of(rows) + [
        Line2D([], [], color=INK, linewidth=2.4, marker="o", markersize=4.5, label="over Beeline"),
        Line2D([], [], color=INK, linewidth=1.5, linestyle=(0, (4, 2.5)), label=theirs),
    ]


def _save(
    figure: Figure,
    rows: Sequence[Measured],
    title: str,
    note: str,
    stem: Path,
    against: Baseline,
) -> list[Path]:
    return save(figure, _handles(rows, against), title, note, stem)


def save(
    figure: Figure, handles: Sequence[Artist], title: str, note: str, stem: Path
) -> list[Path]:
    """The title, the legend and the note around the pictures, as PNG and SVG."""
    figure.suptitle(title, x=0.018, y=0.975, ha="left", fontsize=14, fontweight="bold")
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0.012, 0.915),
        ncols=len(handles),
        frameon=False,
        handlelength=2.2,
        columnspacing=1.8,
    )
    figure.text(0.018, 0.018, note, fontsize=8.5, color=FAINT)
    figure.tight_layout(rect=(0.005, 0.045 + 0.03 * note.count("\n"), 1, 0.90), w_pad=3)
    files = [stem.with_suffix(suffix) for suffix in (".png", ".svg")]
    for file in files:
        figure.savefig(file, dpi=160)
    plt.close(figure)
    return files


def _millions(row: Row, ns: float) -> float:
    return 1e3 / ns


def _gigabytes(row: Row, ns: float) -> float:
    return row.size / ns


def latency(
    rows: Sequence[Row], limits: Sequence[LimitRow], note: str, folder: Path, against: Baseline
) -> list[Path]:
    rows = [r for r in rows if r.test == "latency"]
    short = [r for r in rows if r.size <= KIB]
    with plt.rc_context(STYLE):
        figure, (left, right) = plt.subplots(
            1, 2, figsize=(12.5, 5.4), gridspec_kw={"width_ratios": [1, 1.35]}
        )
        if short:
            _values(left, short, lambda row, ns: ns)
            line = next((r.spread.median for r in limits if r.test == "line"), None)
            if line:
                left.axhline(line, color=FAINT, linewidth=1, linestyle=":")
                left.annotate(
                    "the machine: one cache line, one way",
                    (0, line),
                    xytext=(0, -3),
                    textcoords="offset points",
                    fontsize=9,
                    color=FAINT,
                    va="top",
                )
        entitle(left, "Short messages", "half round trip, ns")
        if rows:
            _ratios(right, rows, against)
        unit = f"time over Beeline / time over {against.short}: lower is faster"
        entitle(right, "All sizes", unit)
        title = f"The same MPI program on one machine: over Beeline and over {against.whose}"
        return _save(figure, rows, title, note, folder / "latency", against)


def throughput(rows: Sequence[Row], note: str, folder: Path, against: Baseline) -> list[Path]:
    stream = [r for r in rows if r.test == "stream" and r.size > 0]
    short = [r for r in stream if r.size <= KIB]
    both = [r for r in rows if r.test in ("exchange", "bidirectional")]
    with plt.rc_context(STYLE):
        figure, (left, middle, right) = plt.subplots(1, 3, figsize=(15.5, 5.4))
        if short:
            _values(left, short, _millions)
        entitle(left, "Short messages, one way", "million messages a second, 64 in flight")
        if stream:
            _values(middle, [r for r in stream if r.size >= KIB], _gigabytes)
        entitle(middle, "Long messages, one way", "GB a second, 64 in flight")
        if both:
            _ratios(right, [r for r in both if r.test == "exchange"], against)
        unit = f"MPI_Sendrecv, time over Beeline / over {against.short}: lower is faster"
        entitle(right, "Both ways at once", unit)
        title = f"Throughput of the same MPI program over Beeline and over {against.whose}"
        return _save(figure, stream, title, note, folder / "throughput", against)


def overlap(
    points: Sequence[OverlapPoint],
    titles: dict[str, str],
    note: str,
    folder: Path,
    against: Baseline,
) -> list[Path]:
    """One picture for each process that is away: how much is hidden, by size."""
    colours = colours_of(points)
    with plt.rc_context(STYLE):
        figure, all_axes = plt.subplots(1, len(titles), figsize=(15.5, 5.4))
        for axes, (away, title) in zip(all_axes, titles.items(), strict=True):
            place = sizes_axis(axes, sorted({p.size for p in points}))
            for mpi, colour in colours.items():
                for path in (DEFAULT, BEELINE):
                    mine = [p for p in points if p.mpi == mpi and p.path == path]
                    ours = path == BEELINE
                    axes.plot(
                        [place[p.size] for p in mine],
                        [100 * p.share(away) for p in mine],
                        color=colour,
                        linewidth=2.4 if ours else 1.5,
                        linestyle="-" if ours else (0, (4, 2.5)),
                        marker="o" if ours else "",
                        markersize=4.5,
                    )
            axes.set_ylim(-3, 103)
            entitle(axes, title[0].upper() + title[1:], "% of the transfer hidden")
        title = f"What of a transfer a computation hides, over Beeline and {against.whose}"
        return _save(figure, points, title, note, folder / "overlap", against)
