# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""beeline bench primitives: what it makes of the program's lines, and that it runs
on this machine, with or without the module."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from beeline.bench import primitives

ONE = """absent module /dev/beeline: No such file or directory
sample vm.receive.trap 4096 100.00
sample vm.receive.pages 4096 400.00
sample vm.receive.copy 4096 500.00
sample shared.send.copy 4096 50.00
done
"""


def test_medians_and_absences() -> None:
    texts = [ONE, ONE.replace("400.00", "440.00"), ONE.replace("400.00", "900.00")]
    result = primitives.combine(texts)
    cost = primitives.select(result.costs, "receive", 4096)[0]
    assert (cost.way, cost.trap, cost.pages, cost.copy, cost.lend) == ("vm", 100, 440, 500, 0)
    assert cost.total == 1040
    assert result.absent == {"module": "/dev/beeline: No such file or directory"}
    assert "sudo beeline setup module" in primitives.explain(result)[0]


def test_ways_have_their_order() -> None:
    lines = [
        "sample shared.send.copy 1 1",
        "sample module.send.lend 1 2",
        "sample vm.send.trap 1 3",
    ]
    result = primitives.combine(["\n".join([*lines, "done"])])
    assert [c.way for c in primitives.select(result.costs, "send", 1)] == ["vm", "module", "shared"]
    assert not primitives.explain(result)


def test_runs_here(beeline: Callable[..., object], tmp_path: Path) -> None:
    pytest.importorskip("rich")
    plot = ("--plot", str(tmp_path)) if pytest.importorskip("matplotlib") else ()
    args = ("bench", "primitives", "--quick", "--json", str(tmp_path / "out.json"), *plot)
    done = beeline(*args)
    if "needs two cores" in done.stderr:
        pytest.skip("one core")
    assert done.returncode == 0, done.stderr
    data = json.loads((tmp_path / "out.json").read_text())
    ways = {c["way"] for c in data["costs"]}
    assert "shared" in ways
    assert ("module" in ways) != ("module" in data["absent"])
    if "module" in data["absent"]:
        assert "beeline.ko is not here" in done.stdout
    for cost in data["costs"]:
        assert cost["total"] > 0, cost
    assert (tmp_path / "primitives.png").stat().st_size > 10000
    assert (tmp_path / "primitives.svg").exists()


def test_usage(beeline: Callable[..., object]) -> None:
    assert beeline("bench", "primitives", "--sizes", "many").returncode == 2
    assert beeline("bench", "primitives", "--sizes", "0").returncode == 2
