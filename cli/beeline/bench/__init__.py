# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`beeline bench`: one module per kind of measurement. What needs rich or
matplotlib is loaded only when asked for: `beeline run` does without them."""

from __future__ import annotations

import argparse

from beeline.bench import collectives, crowd, local, overlap, primitives

KINDS = (local, overlap, collectives, crowd, primitives)


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser("bench", help="measure Beeline beside each MPI's own default")
    kinds = parser.add_subparsers(dest="bench_name", metavar="WHAT", required=True)
    for module in KINDS:
        module.add_parser(kinds)
