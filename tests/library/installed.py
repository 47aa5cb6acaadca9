#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What `ninja install` leaves is what a user needs: the header compiles alone, in
C and C++; the library exports what the header declares; the example builds with
nothing but pkg-config's words and runs; the manual pages name what there is.

Run by meson, which says where things are. Prints a line for each case.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", "-fsyntax-only"]


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


def run(*command: str | Path, env: dict[str, str] | None = None) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(
        words, text=True, capture_output=True, timeout=240, env={**os.environ, **(env or {})}
    )
    if done.returncode:
        raise Failed(f"{shlex.join(words)}: {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def must_equal(what: str, got: set[str], want: set[str]) -> None:
    if got != want:
        raise Failed(f"{what}: more: {sorted(got - want)}, missing: {sorted(want - got)}")


class Tree:
    """The build, its sources, and an installation of it in a folder of its own."""

    def __init__(self, args: argparse.Namespace, root: Path) -> None:
        self.source: Path = args.source
        self.build: Path = args.build
        self.cc: list[str] = shlex.split(args.cc)
        self.flags: list[str] = [f"-fsanitize={args.sanitize}"] if args.sanitize else []
        self.root = root
        meson = shlex.split(os.environ.get("MESONINTROSPECT", "meson introspect"))[:-1]
        run(*meson, "install", "-C", self.build, "--no-rebuild", "--destdir", root, "--quiet")

    def find(self, pattern: str) -> Path:
        found = sorted(self.root.rglob(pattern))
        if not found:
            raise Failed(f"{pattern} isn't installed")
        return found[0]

    def header(self) -> str:
        return self.find("include/beeline.h").read_text()

    def declared(self) -> set[str]:
        """Functions that the header declares for export."""
        text = re.sub(r"/\*.*?\*/", "", self.header(), flags=re.S)
        return set(re.findall(r"BEELINE_API[^;{]*?\b(beeline_\w+)\(", text))

    def inlined(self) -> set[str]:
        return set(re.findall(r"^static inline .*?\b(beeline_\w+)\(", self.header(), flags=re.M))

    def pkg_config(self, *words: str) -> list[str]:
        folder = self.find("beeline.pc").parent
        env = {
            "PKG_CONFIG_LIBDIR": str(folder),
            "PKG_CONFIG_SYSROOT_DIR": str(self.root),
            "PKG_CONFIG_ALLOW_SYSTEM_CFLAGS": "1",
            "PKG_CONFIG_ALLOW_SYSTEM_LIBS": "1",
        }
        return shlex.split(run("pkg-config", *words, "beeline", env=env))


def exports(tree: Tree) -> None:
    lines = run("nm", "-D", "--defined-only", tree.find("libbeeline.so")).splitlines()
    names = {line.split()[-1].split("@")[0] for line in lines if " A " not in line}
    must_equal("exported, by the header", names, tree.declared())


def soname(tree: Tree) -> None:
    text = run("readelf", "-d", tree.find("libbeeline.so"))
    if "[libbeeline.so.0]" not in text:
        raise Failed(f"the soname isn't libbeeline.so.0:\n{text}")
    tree.find("libbeeline.so.0")
    if "libfabric" in text:
        raise Failed("the library needs libfabric")


def header_in_c(tree: Tree) -> None:
    header = tree.find("include/beeline.h")
    for standard in ("c99", "c11", "c17"):
        run(*tree.cc, f"-std={standard}", *STRICT, "-Wstrict-prototypes", "-x", "c", header)


def header_in_cxx(tree: Tree) -> None:
    compiler = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
    if not compiler:
        raise Skipped("no C++ compiler is installed")
    program = tree.root / "cxx.cpp"
    program.write_text(
        "#include <beeline.h>\n"
        "int main() { beeline_match m{BEELINE_ANY_SOURCE, 1, BEELINE_ANY_TAG, 2};\n"
        "m = beeline_from(0, 1, 2);\n"
        "return beeline_version() == BEELINE_VERSION && m.tag == 1 ? 0 : 1; }\n"
    )
    run(compiler, "-std=c++11", *STRICT, *tree.pkg_config("--cflags"), program)
    binary = tree.root / "cxx"
    run(compiler, *tree.flags, program, "-o", binary, *tree.pkg_config("--cflags", "--libs"))
    run(binary, env=library_path(tree))


def library_path(tree: Tree) -> dict[str, str]:
    return {"LD_LIBRARY_PATH": str(tree.find("libbeeline.so.0").parent)}


def example(tree: Tree) -> None:
    binary = tree.root / "pingpong"
    source = tree.find("pingpong.c")
    words = tree.pkg_config("--cflags", "--libs")
    run(*tree.cc, "-O2", *tree.flags, source, "-o", binary, *words)
    output = run(binary, env=library_path(tree))
    if "all bytes were checked" not in output or len(output.splitlines()) < 9:
        raise Failed(f"unexpected output:\n{output}")


def version(tree: Tree) -> None:
    text = tree.header()
    parts = [
        match[1]
        for name in ("MAJOR", "MINOR", "PATCH")
        if (match := re.search(rf"define BEELINE_VERSION_{name} (\d+)", text))
    ]
    if tree.pkg_config("--modversion") != [".".join(parts)]:
        raise Failed(f"pkg-config says {tree.pkg_config('--modversion')}, the header {parts}")


def manual(tree: Tree) -> None:
    page = tree.find("man3/beeline.3").read_text()
    functions = tree.declared() | tree.inlined()
    must_equal(
        "NAME of beeline(3)",
        set(re.findall(r"^\.Nm (beeline_\w+)", page, flags=re.M)),
        functions,
    )
    synopsis = page.split(".Sh SYNOPSIS")[1].split(".Sh DESCRIPTION")[0]
    must_equal(
        "SYNOPSIS of beeline(3)",
        set(re.findall(r"^\.Fn (beeline_\w+)", synopsis, flags=re.M)),
        functions,
    )


def knobs(tree: Tree) -> None:
    table = (tree.source / "src/base/knobs.h").read_text()
    fields = re.findall(r"^\s*X\((\w+), BL_KNOB_", table, flags=re.M)
    page = tree.find("man7/fi_beeline.7").read_text()
    listed = re.findall(r"^\.It Ev (\w+)", page, flags=re.M)
    if not fields or listed != [f"FI_BEELINE_{field.upper()}" for field in fields]:
        raise Failed(f"the page lists {listed}, the table has {fields}")


def manual_lint(tree: Tree) -> None:
    if not shutil.which("mandoc"):
        raise Skipped("mandoc isn't installed")
    for page in ("man1/beeline.1", "man3/beeline.3", "man7/fi_beeline.7"):
        run("mandoc", "-T", "lint", "-W", "warning", tree.find(page))


CASES: list[Callable[[Tree], None]] = [
    exports, soname, header_in_c, header_in_cxx, example, version, manual, knobs, manual_lint,
]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--cc", required=True)
    parser.add_argument("--sanitize", default="")
    args = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        try:
            tree = Tree(args, Path(folder))
        except Failed as error:
            print(f"not ok install: {error}")
            return 1
        for case in CASES:
            try:
                case(tree)
                print(f"ok {case.__name__}")
            except Skipped as why:
                print(f"skip {case.__name__}: {why}")
            except (Failed, subprocess.TimeoutExpired) as error:
                print(f"not ok {case.__name__}: {error}")
                failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
