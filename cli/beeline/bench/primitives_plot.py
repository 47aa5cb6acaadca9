# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The cost of one copy as stacked bars: primitives.{png,svg}. A row for each side, a
picture for each size with an axis of its own: the sizes span three orders."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402

from beeline.bench.costs import PARTS, SIDES, WAYS, Result, select  # noqa: E402
from beeline.bench.plot import FAINT, INK, STYLE  # noqa: E402
from beeline.bench.summary import show_size  # noqa: E402

COLOURS = {"trap": "#0072b2", "pages": "#d55e00", "copy": "#bbbbbb", "lend": "#009e73"}
LABELS = {
    "trap": "system call",
    "pages": "pages: found, held, let go",
    "copy": "copy",
    "lend": "lending (by the other process)",
}
SHORT = {"vm": "vm", "module": "module", "shared": "1 of 2 copies\n(shared)"}


def _bars(axes: Axes, result: Result, side: str, size: int) -> None:
    costs = select(result.costs, side, size)
    for i, cost in enumerate(costs):
        bottom = 0.0
        for part in PARTS:
            value = getattr(cost, part) / 1e3
            axes.bar(i, value, bottom=bottom, width=0.7, color=COLOURS[part])
            bottom += value
        text = f"{bottom:.3g}"
        axes.text(i, bottom, text, ha="center", va="bottom", fontsize=8.5, color=INK)
    axes.set_xticks(range(len(costs)), [SHORT[c.way] for c in costs], fontsize=9)
    axes.grid(False, axis="x")
    axes.set_ylim(0, max((c.total for c in costs), default=1) / 1e3 * 1.14)


def save(result: Result, note: str, folder: Path) -> list[Path]:
    sizes = sorted({c.size for c in result.costs})
    used = [p for p in PARTS if any(getattr(c, p) for c in result.costs)]
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(
            len(SIDES), len(sizes), figsize=(2.2 * len(sizes) + 1.5, 7), squeeze=False
        )
        for row, (side, title) in zip(grid, SIDES.items(), strict=True):
            for axes, size in zip(row, sizes, strict=True):
                _bars(axes, result, side, size)
                axes.set_title(show_size(size), fontsize=10.5)
            row[0].set_ylabel(f"{title}\nµs", fontsize=9.5)
        handles = [plt.Rectangle((0, 0), 1, 1, color=COLOURS[p], label=LABELS[p]) for p in used]
        figure.suptitle(
            "One copy between two processes, and of what it consists",
            x=0.018,
            y=0.975,
            ha="left",
            fontsize=14,
            fontweight="bold",
        )
        figure.legend(
            handles=handles,
            loc="upper left",
            bbox_to_anchor=(0.012, 0.93),
            ncols=len(handles),
            frameon=False,
        )
        absent = "".join(f" {WAYS.get(w, w)}: {why}." for w, why in result.absent.items())
        first, *more = note.splitlines()
        text = "\n".join([first + absent, *more])
        figure.text(0.018, 0.015, text, fontsize=8.5, color=FAINT)
        figure.tight_layout(rect=(0.005, 0.035 + 0.02 * len(more), 1, 0.89))
        files = [folder / f"primitives{suffix}" for suffix in (".png", ".svg")]
        for file in files:
            figure.savefig(file, dpi=160)
        plt.close(figure)
    return files
