#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Programs for LiMIC2 run on liblimic2 as it is installed: one that is compiled against the
original's declarations and linked with this library, shared or static, and one that was linked
before, with another library of that name, and finds this one when it starts.

Run by meson, which says where things are. Prints a line for each case.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
FUNCTIONS = {"limic_open", "limic_close", "limic_tx_init", "limic_rx_comp", "limic_tx_comp"}
# The library that a program may have been linked with elsewhere: it can't even open.
ANOTHER = """#include "original.h"
int limic_open(void) { return -1; }
void limic_close(int fd) { (void)fd; }
size_t limic_tx_init(int fd, void *b, size_t n, limic_user *lu)
{ (void)fd; (void)b; (void)n; (void)lu; return 0; }
size_t limic_rx_comp(int fd, void *b, size_t n, limic_user *lu)
{ (void)fd; (void)b; (void)n; (void)lu; return 0; }
size_t limic_tx_comp(int fd, void *b, size_t n, limic_user *lu)
{ (void)fd; (void)b; (void)n; (void)lu; return 0; }
"""


class Failed(Exception):
    pass


def run(*command: str | Path, env: dict[str, str] | None = None) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(
        words, text=True, capture_output=True, timeout=120, env={**os.environ, **(env or {})}
    )
    if done.returncode:
        raise Failed(f"{shlex.join(words)}: {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


class Tree:
    """An installation of the build in a folder of its own."""

    def __init__(self, args: argparse.Namespace, root: Path) -> None:
        self.cc: list[str] = shlex.split(args.cc)
        if args.sanitize:
            self.cc.append(f"-fsanitize={args.sanitize}")
        self.root = root
        self.destdir = root / "installed"
        meson = shlex.split(os.environ.get("MESONINTROSPECT", "meson introspect"))[:-1]
        run(*meson, "install", "-C", args.build, "--no-rebuild", "--destdir", self.destdir,
            "--quiet")  # fmt: skip
        self.library = self.find("liblimic2.so.0")

    def find(self, pattern: str) -> Path:
        found = sorted(self.destdir.rglob(pattern))
        if not found:
            raise Failed(f"{pattern} isn't installed")
        return found[0]

    def compile(self, name: str, *words: str | Path) -> Path:
        run(*self.cc, "-D_GNU_SOURCE", "-O2", "-Wall", "-Werror", f"-I{HERE}",
            "-o", self.root / name, *words)  # fmt: skip
        return self.root / name

    def runs(self, program: Path) -> None:
        """With the installed library, and that one only."""
        env = {"LD_LIBRARY_PATH": str(self.library.parent)}
        found = re.search(r"liblimic2\.so\.0 => (\S+)", run("ldd", program, env=env))
        if not found or Path(found[1]) != self.library:
            raise Failed(f"it finds {found[1] if found else 'no liblimic2.so.0'}")
        said = run(program, env=env)
        if said != "all bytes are right\n":
            raise Failed(f"it said {said!r}")


def exports(tree: Tree) -> None:
    lines = run("nm", "-D", "--defined-only", tree.library).splitlines()
    names = {line.split()[-1].split("@")[0] for line in lines if " A " not in line}
    if names != FUNCTIONS:
        raise Failed(f"exported: {sorted(names)}")


def compiled_for_the_original(tree: Tree) -> None:
    folder = tree.find("limic2.pc").parent
    env = {
        "PKG_CONFIG_LIBDIR": str(folder),
        "PKG_CONFIG_SYSROOT_DIR": str(tree.destdir),
        "PKG_CONFIG_ALLOW_SYSTEM_LIBS": "1",
    }
    words = shlex.split(run("pkg-config", "--libs", "limic2", env=env))
    tree.runs(tree.compile("compiled", HERE / "program.c", *words))


def linked_statically(tree: Tree) -> None:
    """It needs no library when it starts."""
    program = tree.compile("static", HERE / "program.c", tree.find("liblimic2.a"), "-pthread")
    if "liblimic2" in run("ldd", program):
        raise Failed("it wants a shared liblimic2 all the same")
    said = run(program)
    if said != "all bytes are right\n":
        raise Failed(f"it said {said!r}")


def header_alone(tree: Tree) -> None:
    """Programs rely on what the original's header includes."""
    source = tree.root / "alone.c"
    source.write_text(
        f'#include "{tree.find("include/limic.h")}"\n'
        "u_int32_t number; ssize_t size; pid_t process; int main(void) { return 0; }\n"
    )
    tree.compile("alone", source)


def linked_before(tree: Tree) -> None:
    (tree.root / "another.c").write_text(ANOTHER)
    another = tree.compile(
        "liblimic2.so.0", "-shared", "-fPIC", "-Wl,-soname,liblimic2.so.0", tree.root / "another.c"
    )
    program = tree.compile("linked", HERE / "program.c", another)
    # It is that library which it was linked with, and which can't do it.
    with_another = subprocess.run(
        [program], env={"LD_LIBRARY_PATH": str(another.parent)}, capture_output=True, timeout=60
    )
    if with_another.returncode != 1 or b"limic_open" not in with_another.stderr:
        raise Failed(f"with the other library: {with_another}")
    another.unlink()
    tree.runs(program)


def same_struct(tree: Tree) -> None:
    """The installed header and the original's agree on every field."""
    fields = ("nr_pages", "offset", "length", "va", "mm", "tsk")
    listed = ", ".join(f"(int)offsetof(limic_user, {f})" for f in fields)
    seen = []
    for header in (HERE / "original.h", tree.find("include/limic.h")):
        source = tree.root / "fields.c"
        source.write_text(
            f'#include <stddef.h>\n#include <stdio.h>\n#include "{header}"\n'
            f"int main(void) {{ int at[] = {{{listed}, (int)sizeof(limic_user)}};\n"
            'for (unsigned i = 0; i < sizeof at / sizeof *at; i++) printf("%d ", at[i]); }\n'
        )
        seen.append(run(tree.compile("fields", source)).split())
    if seen[0] != seen[1] or seen[0] != ["0", "8", "16", "24", "32", "40", "48"]:
        raise Failed(f"the original {seen[0]}, the installed {seen[1]}")


CASES: list[Callable[[Tree], None]] = [
    exports, same_struct, header_alone, compiled_for_the_original, linked_statically,
    linked_before,
]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser()
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
            except (Failed, subprocess.TimeoutExpired) as error:
                print(f"not ok {case.__name__}: {error}")
                failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
