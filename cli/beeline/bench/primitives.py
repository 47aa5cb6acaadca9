# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`beeline bench primitives`: of what a copy between two processes consists, by each
way there is here: the system call, the pages, the copy, and lending for the module."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from beeline import __version__, needs, paths
from beeline.bench import launch, local, machine, summary
from beeline.bench.costs import PARTS, SIDES, WAYS, Cost, Result, select
from beeline.errors import BeelineError, warn

KIB = 1024
FULL_SIZES = [4 * KIB << (2 * i) for i in range(6)]  # 4 KiB to 4 MiB
QUICK_SIZES = [4 * KIB, 64 * KIB, 1024 * KIB]


def absent_ways(text: str) -> dict[str, str]:
    lines = (line.split(" ", 2) for line in text.splitlines() if line.startswith("absent "))
    return {way: why for _, way, why in lines}


def combine(outputs: Sequence[str]) -> Result:
    """The median over the launches of each part."""
    found: dict[tuple[str, str, int], dict[str, list[float]]] = {}
    absent: dict[str, str] = {}
    for text in outputs:
        absent |= absent_ways(text)
        for (name, size), ns in launch.parse(text).samples.items():
            way, side, part = name.split(".")
            found.setdefault((way, side, size), {}).setdefault(part, []).append(ns)
    costs = [
        Cost(way, side, size, **{p: statistics.median(ns) for p, ns in parts.items()})
        for (way, side, size), parts in sorted(found.items())
    ]
    return Result(costs, absent)


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "primitives",
        help="what a copy between two processes consists of",
        description="Measures one copy between two processes by process_vm_readv and writev, by "
        "the kernel module where it is loaded, and in two copies through shared memory; and how "
        "it divides into the system call, the pages and the copying.",
    )
    parser.add_argument(
        "--sizes", type=local.parse_sizes, metavar="LIST", help="for example 4k,64k,1M"
    )
    parser.add_argument("--cpus", metavar="A,B", help="the two processors (default: two near ones)")
    parser.add_argument("--quick", action="store_true", help="three sizes, a second or two")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every number here")
    parser.add_argument("--plot", type=Path, metavar="DIR", help="write plots (PNG, SVG) here")
    parser.set_defaults(func=main)


def measure(cpus: tuple[int, int], sizes: Sequence[int], rounds: int, samples: int) -> Result:
    argv = [str(paths.program("primitives")), "-c", f"{cpus[0]},{cpus[1]}"]
    argv += ["-s", ",".join(map(str, sizes)), "-n", str(samples)]
    return combine([launch.execute(argv, os.environ) for _ in range(rounds)])


def explain(result: Result) -> list[str]:
    """What isn't shown, and why."""
    notes = []
    for way, why in result.absent.items():
        hint = "; sudo beeline setup module loads it" if way == "module" else ""
        notes.append(f"{WAYS.get(way, way)} is not here ({why}){hint}")
    return notes


def costs_table(costs: Sequence[Cost], side: str, title: str) -> Any:
    from rich import box
    from rich.table import Table

    from beeline.bench import table

    view = Table(
        title=title,
        caption="pages: found, held, let go. shared memory: one of its two copies; the other side "
        "has the other. lend: by the other process",
        box=box.SIMPLE_HEAD,
        title_justify="left",
        caption_justify="left",
        pad_edge=False,
    )
    view.add_column("size", justify="right", style="bold", no_wrap=True)
    view.add_column("way", no_wrap=True)
    for name in (*PARTS, "total", "GB/s"):
        view.add_column(name, justify="right", no_wrap=True)
    for size in sorted({c.size for c in costs}):
        for i, cost in enumerate(select(costs, side, size)):
            parts = [getattr(cost, part) for part in PARTS]
            cells = [table.show_time(ns) if ns else "" for ns in parts]
            rate = f"{size / cost.total:.2f}" if cost.total else ""
            first = "" if i else summary.show_size(size)
            view.add_row(first, WAYS[cost.way], *cells, table.show_time(cost.total), rate)
    return view


def as_json(
    result: Result, cpus: tuple[int, int], description: dict[str, Any], started: datetime.datetime
) -> dict[str, Any]:
    return {
        "format": "beeline-bench-primitives-1",
        "unit": "ns per copy",
        "beeline": __version__,
        "started": started.isoformat(timespec="seconds"),
        "machine": description,
        "cpus": cpus,
        "absent": result.absent,
        "costs": [asdict(c) | {"total": c.total} for c in result.costs],
    }


def save_plot(folder: Path, result: Result, note: str) -> list[Path]:
    from beeline.bench import primitives_plot

    folder.mkdir(parents=True, exist_ok=True)
    return primitives_plot.save(result, note, folder)


def main(args: argparse.Namespace) -> int:
    needs.tables()
    needs.plots(args.plot)
    from beeline.bench import table

    console = table.make_console()
    sizes = [s for s in args.sizes or (QUICK_SIZES if args.quick else FULL_SIZES) if s]
    if not sizes:
        raise BeelineError("--sizes: nothing to copy", 2)
    cpus = local.choose_cpus(args.cpus)
    needs.outputs(args.json, args.plot)
    description, started = machine.describe(), datetime.datetime.now(datetime.UTC)
    remarks = machine.disturbed(machine.load())
    for remark in remarks:
        warn(remark)
    result = measure(cpus, sizes, 1 if args.quick else 5, 21 if args.quick else 61)
    for side, title in SIDES.items():
        console.print(costs_table(result.costs, side, title))
    for line in (*explain(result), *remarks):
        console.print(line, markup=False)
    files: list[Path] = []
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(as_json(result, cpus, description, started), indent=1))
        files.append(args.json)
    if args.plot:
        virtual = ", virtual machine" if description["virtual"] else ""
        note = (
            f"Two processes on cpus {cpus[0]} and {cpus[1]}, {description['cpu']}{virtual}, "
            f"Linux {description['kernel']}. Medians."
        )
        files += save_plot(args.plot, result, summary.footer(note, remarks))
    for file in files:
        console.print(f"saved {file}", soft_wrap=True)
    return 0
