# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`beeline doctor [--json]`: what this machine and this user have and lack for
Beeline. It tries rather than infers: programs/probe makes the system calls and sends
messages, and each MPI found starts two ranks. Settings are read only to say why.
programs/ways says which way a message goes."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys

from beeline.doctor import bpf, kernel, machine, mpi, ways
from beeline.doctor.finding import BAD, NOTE, OK, Finding
from beeline.errors import EXIT_FAILURE

MARKS = {OK: "ok", NOTE: "note", BAD: "BAD"}


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "doctor",
        help="say what this machine has and lacks for Beeline, and what to do about it",
        description="Exit status 0: Beeline works here; 1: it does not.",
    )
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument("--no-mpi", action="store_true", help="start no MPI programs: be quick")
    parser.set_defaults(func=main)


def examine(with_mpi: bool) -> list[Finding]:
    probe = kernel.run_probe()
    findings = [
        *kernel.messages(probe),
        *kernel.copies(probe),
        *kernel.calls(probe),
        *machine.findings(probe),
        bpf.finding(probe),
        *machine.settings(),
    ]
    return findings + (mpi.findings() if with_mpi else [])


def works(findings: list[Finding]) -> bool:
    return all(finding.state != BAD for finding in findings)


def verdict(findings: list[Finding]) -> str:
    if not works(findings):
        broken = ", ".join(f.name for f in findings if f.state == BAD)
        return f"Beeline does not work here: {broken}"
    notes = [f.name for f in findings if f.state == NOTE]
    return "Beeline works here" + (
        f"; see the note{'s' * (len(notes) > 1)} on {', '.join(notes)}" if notes else ""
    )


def show(findings: list[Finding]) -> None:
    colours = {OK: "32", NOTE: "33", BAD: "31;1"} if sys.stdout.isatty() else {}
    width = max(len(finding.name) for finding in findings)
    indent = " " * (width + 7)
    for finding in findings:
        mark = f"{MARKS[finding.state]:4}"
        if finding.state in colours:
            mark = f"\033[{colours[finding.state]}m{mark}\033[0m"
        print(f"{mark} {finding.name:{width}}  {finding.what}")
        if finding.why:
            print(f"{indent}{finding.why}")
        if finding.command:
            print(f"{indent}> {finding.command}")


def main(args: argparse.Namespace) -> int:
    findings = examine(not args.no_mpi)
    table = ways.look()
    if args.json:
        record = {
            "works": works(findings),
            "verdict": verdict(findings),
            "findings": [dataclasses.asdict(finding) for finding in findings],
            "ways": ways.record(table),
        }
        print(json.dumps(record, indent=2))
    else:
        show(findings)
        if table:
            ways.show(table)
        print(verdict(findings))
    return 0 if works(findings) else EXIT_FAILURE
