# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What on a command line keeps an MPI from using Beeline although its variables are set: options
that win over variables, and variables given to the ranks alone. Pure: words in, words out."""

from __future__ import annotations

import re
from collections.abc import Iterator

from beeline.env import Setting, contradictions, is_contrary

MCA = ("mca", "gmca", "omca", "prtemca")  # Open MPI: --mca NAME VALUE
PASSED = ("env", "genv")  # Hydra: -genv NAME VALUE, for MPICH and Intel MPI
LISTED = ("envlist", "genvlist")  # Hydra: only these variables reach the ranks
NONE = ("envnone", "genvnone")  # Hydra: none do
# -x NAME=VALUE (Open MPI), -genv NAME=VALUE, and `env NAME=VALUE` before any program
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


def assigned(argv: list[str]) -> Iterator[tuple[str, str, str]]:
    """The words as they were given, the variable that they set, and its value."""
    for i, word in enumerate(argv):
        found = ASSIGNMENT.fullmatch(word)
        if found:
            before = f"{argv[i - 1]} " if i and argv[i - 1] in ("-x", "-env", "-genv") else ""
            yield before + word, found[1], found[2]
        if i + 2 >= len(argv) or not word.startswith("-"):
            continue
        option, name, value = word.lstrip("-"), argv[i + 1], argv[i + 2]
        if option in MCA:
            yield f"{word} {name} {value}", f"OMPI_MCA_{name}", value
        elif option in PASSED and "=" not in name:
            yield f"{word} {name} {value}", name, value


def keeps_away(wanted: list[Setting], name: str, value: str) -> bool:
    """Whether the MPI doesn't use Beeline where this variable has that value."""
    for setting in wanted:
        if setting.name == name == "FI_PROVIDER_PATH":
            return setting.value not in value.split(":")
        if setting.name == name:
            return not (setting.prepend or setting.yields or value == setting.value)
    return name in dict(contradictions(wanted)) and is_contrary(name, value)


def not_passed(argv: list[str], wanted: list[Setting]) -> Iterator[str]:
    """Options of Hydra that keep our variables from the ranks."""
    needed = {s.name for s in wanted if not (s.yields or s.prepend)} | {"FI_PROVIDER_PATH"}
    for i, word in enumerate(argv):
        option = word.lstrip("-") if word.startswith("-") else ""
        if option in NONE:
            yield word
        elif option in LISTED and i + 1 < len(argv) and needed - set(argv[i + 1].split(",")):
            yield f"{word} {argv[i + 1]}"


def options(argv: list[str], kind: str, wanted: list[Setting]) -> list[str]:
    """Those of this command line that keep this MPI from using Beeline."""
    found = [words for words, name, value in assigned(argv) if keeps_away(wanted, name, value)]
    return found + ([] if kind == "openmpi" else list(not_passed(argv, wanted)))
