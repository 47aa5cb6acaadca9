# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""From launches to numbers a person reads: medians, spreads, ratios, goals.

Every launch gives one number per test and size. Default and Beeline are launched
in turn, so the ratio is taken round by round and its median is what counts: a
machine that is slower for a while slows both.

Except where the two processors themselves move: those of a virtual machine are near each
other in one second and far apart in the next (80 and 290 ns for a cache line), which is more
than what is compared. There every sample's distance decides: those of Beeline are compared
with those of the default that were measured at the same one.
"""

from __future__ import annotations

import math
import statistics
import textwrap
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from beeline.bench.launch import DEFAULT, Output

KIB, MIB = 1 << 10, 1 << 20
TESTS = ("latency", "stream", "exchange", "bidirectional")


@dataclass(frozen=True)
class Spread:
    median: float
    low: float  # lower quartile
    high: float  # upper quartile
    launches: int = 1  # of which this is the median; one alone has no spread

    @staticmethod
    def of(values: list[float]) -> Spread:
        if len(values) == 1:
            return Spread(values[0], values[0], values[0])
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return Spread(median, low, high, len(values))


def footer(note: str, remarks: Iterable[str]) -> str:
    """Below a plot: what was measured, and in a line of its own what is to be said of it."""
    said = "; ".join(remarks)
    return f"{note}\n{textwrap.fill(f'{said[0].upper()}{said[1:]}.', 150)}" if said else note


@dataclass(frozen=True)
class Launch:
    """One launch of mpi_bench."""

    mpi: str  # title
    path: str  # default or beeline
    round: int
    output: Output


NEAR, FAR = "near", "far"
MIXED = "mixed"  # never measured at the same distance: no ratio to rely on


@dataclass(frozen=True)
class Distances:
    """How far apart the processors were, where there are two distances."""

    near: float  # ns, medians
    far: float
    between: float
    near_share: float  # of the samples

    @staticmethod
    def among(outputs: Iterable[Output]) -> Distances | None:
        known = sorted(ns for output in outputs for ns in output.apart.values() if ns > 0)
        if len(known) < 2:
            return None
        # So many may be chance: what comes in between makes a line late, and nothing early.
        least, most = known[len(known) // 50], known[-1 - len(known) // 10]
        if most < 1.6 * least:
            return None
        between = math.sqrt(least * most)
        near = [ns for ns in known if ns < between]
        far = [ns for ns in known if ns >= between]
        return Distances(
            statistics.median(near), statistics.median(far), between, len(near) / len(known)
        )

    def which(self, ns: float) -> str:
        return MIXED if ns <= 0 else NEAR if ns < self.between else FAR

    def remark(self) -> str:
        return (
            f"the two processors were {self.near:.0f} ns apart in {100 * self.near_share:.0f} % of "
            f"the samples and {self.far:.0f} ns in the others: compared is what was measured at "
            "the same distance"
        )


@dataclass(frozen=True)
class Row:
    """One test and size under one MPI, in nanoseconds per message."""

    mpi: str
    kind: str
    test: str
    size: int
    default: Spread
    beeline: Spread
    ratio: Spread  # time, Beeline / default: below 1 is faster
    apart: str = ""  # where there are two distances, of which one this is

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Sample:
    round: int
    ns: float
    apart: str


@dataclass
class Cell:
    """One test and size under one MPI: all that was measured."""

    default: list[Sample] = field(default_factory=list)
    beeline: list[Sample] = field(default_factory=list)

    def at(self, apart: str) -> tuple[list[float], list[float]]:
        return (
            [s.ns for s in self.default if s.apart == apart],
            [s.ns for s in self.beeline if s.apart == apart],
        )

    def by_round(self) -> list[tuple[float, float]]:
        default = {s.round: s.ns for s in self.default}
        beeline = {s.round: s.ns for s in self.beeline}
        return [(default[r], beeline[r]) for r in sorted(set(default) & set(beeline))]

    def spreads(self, order: Iterable[str]) -> tuple[Spread, Spread, Spread, str] | None:
        """Of the default, of Beeline, of the ratio, and at which of these distances."""
        for apart in order:
            default, beeline = self.at(apart)
            if default and beeline:
                ratios = [b / d for d in default for b in beeline]
                return Spread.of(default), Spread.of(beeline), Spread.of(ratios), apart
        both = self.by_round()
        if not both:
            return None
        return (
            Spread.of([d for d, _ in both]),
            Spread.of([b for _, b in both]),
            Spread.of([b / d for d, b in both]),
            MIXED if order else "",
        )


def compare(
    launches: Iterable[Launch], kinds: dict[str, str], distances: Distances | None = None
) -> list[Row]:
    cells: dict[tuple[str, str, int], Cell] = {}
    for launch in launches:
        for key, ns in launch.output.samples.items():
            cell = cells.setdefault((launch.mpi, *key), Cell())
            apart = distances.which(launch.output.apart.get(key, 0.0)) if distances else ""
            side = cell.default if launch.path == DEFAULT else cell.beeline
            side.append(Sample(launch.round, ns, apart))
    order: list[str] = []
    if distances:  # one distance for all rows, as far as it goes
        order = sorted((NEAR, FAR), key=lambda a: -sum(all(c.at(a)) for c in cells.values()))
    rows = []
    for (mpi, test, size), cell in cells.items():
        spreads = cell.spreads(order)
        if spreads:
            rows.append(Row(mpi, kinds[mpi], test, size, *spreads))
    return rows


@dataclass(frozen=True)
class LimitRow:
    test: str
    size: int
    spread: Spread
    apart: str = ""
    lines: float = 0.0  # the same in lines as they took at that very moment, median; 0: not known


def limits(outputs: Iterable[Output], distances: Distances | None = None) -> list[LimitRow]:
    values: dict[tuple[str, int], dict[str, list[tuple[float, float]]]] = {}
    for output in outputs:
        for key, ns in output.samples.items():
            line = output.apart.get(key, 0.0)
            apart = distances.which(line) if distances else ""
            values.setdefault(key, {}).setdefault(apart, []).append((ns, line))
    best = ""
    if distances:
        best = max((NEAR, FAR), key=lambda apart: sum(apart in v for v in values.values()))

    def row(key: tuple[str, int], samples: list[tuple[float, float]], apart: str) -> LimitRow:
        lines = [ns / line for ns, line in samples if line > 0]
        spread = Spread.of([ns for ns, _ in samples])
        return LimitRow(*key, spread, apart, statistics.median(lines) if lines else 0.0)

    return [
        row(key, v[best], best)
        if best in v
        else row(key, [one for some in v.values() for one in some], MIXED)
        for key, v in values.items()
    ]


# --- goals ---------------------------------------------------------------


@dataclass(frozen=True)
class Goal:
    """What Beeline is meant to reach for one class of sizes."""

    name: str
    tests: tuple[str, ...]
    sizes: tuple[int, int]  # first, last
    most: float  # of time, Beeline / default; for rates 1 / the gain
    kinds: tuple[str, ...] = ("mpich", "openmpi", "impi")
    rate: bool = False  # shown as a gain in rate, not as a share of time


GOALS = (
    Goal("latency, 0 and 8 B", ("latency",), (0, 8), 0.65, ("mpich",)),
    Goal("latency, 0 and 8 B", ("latency",), (0, 8), 0.75, ("openmpi", "impi")),
    Goal("latency, 64 B to 1 KiB", ("latency",), (64, KIB), 0.9),
    Goal("latency, 4 to 64 KiB", ("latency",), (4 * KIB, 64 * KIB), 0.85),
    Goal("latency, 256 KiB to 1 MiB", ("latency",), (256 * KIB, MIB), 0.7),
    Goal("latency, 4 to 64 MiB", ("latency",), (4 * MIB, 64 * MIB), 0.55),
    Goal("both ways, any size", ("exchange", "bidirectional"), (0, 1 << 40), 1.0),
    Goal("message rate, 8 B to 1 KiB", ("stream",), (8, KIB), 1 / 1.1, rate=True),
)


@dataclass(frozen=True)
class Verdict:
    """A goal held against what was measured."""

    goal: str
    whose: str
    unit: str  # "time" or "rate": what the numbers are a ratio of
    wanted: float
    typical: float  # geometric mean over the class
    worst: float
    worst_at: str
    met: bool
    # The worst of them if all below MPI took one cache line and no other time, if known: what the
    # MPI adds to libfabric is its own. Above `wanted` the goal is out of reach here.
    at_best: float | None = None


def geometric_mean(values: list[float]) -> float:
    return math.exp(statistics.fmean(math.log(v) for v in values))


def show_size(size: int) -> str:
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def _judge(goal: Goal, whose: str, ratios: dict[tuple[str, int], float]) -> Verdict:
    (test, size), worst = max(ratios.items(), key=lambda item: item[1])
    mean = geometric_mean(list(ratios.values()))
    at = show_size(size) + (f", {test}" if len(goal.tests) > 1 else "")
    met = worst <= goal.most
    if goal.rate:
        return Verdict(goal.name, whose, "rate", 1 / goal.most, 1 / mean, 1 / worst, at, met)
    return Verdict(goal.name, whose, "time", goal.most, mean, worst, at, met)


def _best_rates(rows: list[Row]) -> Verdict | None:
    """The fastest MPI over Beeline against the fastest default of them all."""
    wanted = 1.3
    gains: dict[int, float] = {}
    for size in sorted({r.size for r in rows if r.test == "stream" and 8 <= r.size <= KIB}):
        here = [r for r in rows if r.test == "stream" and r.size == size and r.apart != MIXED]
        apart = statistics.mode(r.apart for r in here) if here else ""
        here = [r for r in here if r.apart == apart]
        if here:
            theirs = min(r.default.median for r in here)
            gains[size] = theirs / min(r.beeline.median for r in here)
    if not gains:
        return None
    worst_at = min(gains, key=lambda size: gains[size])
    mean = geometric_mean(list(gains.values()))
    worst = gains[worst_at]
    return Verdict(
        "message rate, best of ours / best of theirs",
        "all",
        "rate",
        wanted,
        mean,
        worst,
        show_size(worst_at),
        worst >= wanted,
    )


def _bare(rows: list[LimitRow]) -> list[Verdict]:
    values = {(r.test, r.size): r for r in rows if r.apart != MIXED}
    line, domain = values.get(("line", 0)), values.get(("bare-domain", 8))
    safe = values.get(("bare-safe", 8))

    def times(row: LimitRow, base: LimitRow) -> float:
        """Near isn't always as near: each is held against the lines of its own moment."""
        if row.lines and base.lines:
            return row.lines / base.lines
        return row.spread.median / base.spread.median

    verdicts = []
    if line and domain:
        ratio = times(domain, line)
        verdicts.append(
            Verdict(
                "libfabric, 8 B / cache line one way",
                "Beeline",
                "time",
                1.15,
                ratio,
                ratio,
                "8 B",
                ratio <= 1.15,
            )
        )
    if domain and safe:
        ratio = times(safe, domain)
        verdicts.append(
            Verdict(
                "libfabric, FI_THREAD_SAFE / FI_THREAD_DOMAIN",
                "Beeline",
                "time",
                1.15,
                ratio,
                ratio,
                "8 B",
                ratio <= 1.15,
            )
        )
    return verdicts


def _beyond_a_line(line: LimitRow, bare: LimitRow) -> float:
    """What libfabric takes longer than a line, ns; near isn't always as near."""
    if line.lines and bare.lines:
        return bare.spread.median * (1 - line.lines / bare.lines)
    return bare.spread.median - line.spread.median


def _at_best(goal: Goal, rows: list[Row], limit_rows: list[LimitRow]) -> float | None:
    """Where a message is one cache line; only of what was measured at one distance."""
    if goal.tests != ("latency",) or goal.sizes[1] > 8:
        return None
    known = {(r.test, r.size, r.apart): r for r in limit_rows}
    ratios = []
    for row in rows:
        line = known.get(("line", 0, row.apart))
        bare = known.get(("bare-domain", row.size, row.apart))
        if line is None or bare is None:
            return None
        ratios.append((row.beeline.median - _beyond_a_line(line, bare)) / row.default.median)
    return max(ratios)


def judge(rows: list[Row], limit_rows: list[LimitRow]) -> list[Verdict]:
    verdicts = _bare(limit_rows)
    for goal in GOALS:
        for mpi in dict.fromkeys(r.mpi for r in rows if r.kind in goal.kinds):
            meant = [
                r
                for r in rows
                if r.mpi == mpi
                and r.apart != MIXED
                and r.test in goal.tests
                and goal.sizes[0] <= r.size <= goal.sizes[1]
            ]
            if meant:
                ratios = {(r.test, r.size): r.ratio.median for r in meant}
                at_best = _at_best(goal, meant, limit_rows)
                verdicts.append(replace(_judge(goal, mpi, ratios), at_best=at_best))
    best = _best_rates(rows)
    return verdicts + ([best] if best else [])
