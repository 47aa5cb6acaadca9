# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The measurements as tables in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from beeline.bench.launch import OWN_DEFAULT, Baseline
from beeline.bench.summary import KIB, MIXED, LimitRow, Row, Spread, Verdict, show_size

TITLES = {
    "latency": "Latency: half the time of a ping and its pong",
    "stream": "One way, 64 messages in flight: messages, or bytes, a second",
    "exchange": "Both ways, one message each: MPI_Sendrecv",
    "bidirectional": "Both ways, 64 messages in flight each: time of a pair",
}
RATE_LIMIT = 2 * KIB  # up to here a stream is about messages, above about bytes


def make_console() -> Console:
    console = Console(highlight=False)
    if not console.is_terminal:  # a file or a pipe has no width of its own
        console = Console(highlight=False, width=120)
    return console


def show_time(ns: float) -> str:
    for unit, name in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if ns >= unit * 0.9995:
            return f"{ns / unit:.3g} {name}"
    return f"{ns:.0f} ns"


def show_rate(size: int, ns: float) -> str:
    if size <= RATE_LIMIT:
        return f"{1e3 / ns:.3g} M/s"
    return f"{size / ns:.3g} GB/s"


def show_ratio(ratio: Spread, rate: bool) -> Text:
    """A ratio with half of its interquartile range, where several launches have one;
    green where Beeline is faster."""
    value, low, high = ratio.median, ratio.low, ratio.high
    style = "green" if value <= 0.97 else "red" if value >= 1.03 else ""
    if rate:
        value, low, high = 1 / value, 1 / high, 1 / low
    digits = ".2f" if value >= 0.095 else ".1g"  # a hundredth is no zero
    text = Text(f"{value:{digits}}", style=style)
    if ratio.launches > 1:
        text.append(f" ±{(high - low) / 2:{digits}}", style="dim")
    return text


def show_spread(time: Spread) -> Text:
    """A time, and below it half of its interquartile range, as a share, where there is one."""
    text = Text(show_time(time.median))
    if time.launches > 1:
        text.append(f"\n±{50 * (time.high - time.low) / time.median:.0f}%", style="dim")
    return text


def test_tables(
    rows: Sequence[Row], test: str, width: int, against: Baseline = OWN_DEFAULT
) -> list[Table]:
    """One table of a test, or more where the MPIs don't fit side by side."""
    rows = [r for r in rows if r.test == test]
    mpis = list(dict.fromkeys(r.mpi for r in rows))
    beside = max(1, (width - 10) // 34)
    groups = [mpis[i : i + beside] for i in range(0, len(mpis), beside)]
    return [_test_table(rows, test, group, against.name) for group in groups]


def _test_table(rows: Sequence[Row], test: str, mpis: Sequence[str], against: str) -> Table:
    rate = test == "stream"
    better = "rate, more is better" if rate else "time, less is better"
    several = any(r.ratio.launches > 1 for r in rows)
    mixed = any(r.apart == MIXED for r in rows)
    table = Table(
        title=TITLES[test],
        caption=f"ratio: Beeline / {against} of {better}"
        + ("; ± half the quartiles' gap" if several else "")
        + ("; ?: never measured at the same distance" if mixed else ""),
        box=box.SIMPLE_HEAD,
        title_justify="left",
        caption_justify="left",
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    table.add_column("\n\nsize", justify="right", style="bold", no_wrap=True)
    for mpi in mpis:
        name, _, version = mpi.rpartition(" ")
        table.add_column(f"{name}\n{version}\n{against}", justify="right", no_wrap=True)
        table.add_column("\n\nBeeline", justify="right", no_wrap=True)
        table.add_column("\n\nratio", justify="right", no_wrap=True)
    for size in sorted({r.size for r in rows}):
        cells: list[str | Text] = [show_size(size)]
        for mpi in mpis:
            row = next((r for r in rows if r.mpi == mpi and r.size == size), None)
            if row is None:
                cells += ["-", "-", "-"]
                continue
            for spread in (row.default, row.beeline):
                value = spread.median
                cells.append(show_rate(size, value) if rate else show_time(value))
            ratio = show_ratio(row.ratio, rate)
            cells.append(Text(f"{ratio.plain}?", style="dim") if row.apart == MIXED else ratio)
        table.add_row(*cells)
    return table


LIMITS = (
    ("line", "cache line, one way"),
    ("line-ring", "cache line in a ring of 64"),
    ("library", "libbeeline"),
    ("bare-domain", "libfabric, thread domain"),
    ("bare-safe", "libfabric, thread safe"),
    ("memcpy-1", "memcpy, one core"),
    ("memcpy-2", "memcpy, two cores"),
    ("vm-1", "process_vm_*, receiver"),
    ("vm-2", "process_vm_*, both sides"),
)


def limits_table(rows: Sequence[LimitRow]) -> Table | None:
    if not rows:
        return None
    table = Table(
        title="Without MPI: the library and the machine's limits",
        caption="libbeeline and libfabric over Beeline: half the time of a ping and its pong"
        + ("; ± half the quartiles' gap" if any(r.spread.launches > 1 for r in rows) else ""),
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        title_justify="left",
        pad_edge=False,
    )
    table.add_column("what", no_wrap=True)
    sizes = sorted({r.size for r in rows})
    for size in sizes:
        table.add_column(show_size(size), justify="right", no_wrap=True)
    for test, title in LIMITS:
        found = {r.size: show_spread(r.spread) for r in rows if r.test == test}
        if found:
            table.add_row(title, *(found.get(s, "") for s in sizes))
    return table


AT_BEST = "at best"
BELOW = "all below MPI took one cache line and no other time"


def goals_table(verdicts: Sequence[Verdict]) -> Table | None:
    if not verdicts:
        return None
    known = any(v.at_best is not None for v in verdicts)
    table = Table(
        title="Against the goals",
        box=box.SIMPLE_HEAD,
        title_justify="left",
        pad_edge=False,
        caption="typical: geometric mean over the sizes; every size has to meet the goal"
        + (f"\n{AT_BEST}: the worst of them if {BELOW}" if known else ""),
        caption_justify="left",
    )
    table.add_column("goal")
    table.add_column("MPI")
    for name in ("typical", "worst", "wanted", *([AT_BEST] if known else [])):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("worst at")
    table.add_column("met")
    for v in verdicts:
        sign = "≥" if v.unit == "rate" else "≤"
        table.add_row(
            v.goal,
            v.whose,
            f"{v.typical:.2f}",
            f"{v.worst:.2f}",
            f"{sign} {v.wanted:.2f}",
            *([] if not known else [""] if v.at_best is None else [f"{v.at_best:.2f}"]),
            v.worst_at,
            Text("yes", style="green") if v.met else Text("no", style="red"),
        )
    return table
