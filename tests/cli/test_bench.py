# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What the benchmark makes of numbers and of machines."""

from __future__ import annotations

import argparse
import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest
from beeline.bench import launch, local, machine, summary, table
from beeline.errors import BeelineError

KIB = summary.KIB


def test_kernel_lists() -> None:
    assert machine.parse_list("0-3,8,10-11\n") == [0, 1, 2, 3, 8, 10, 11]
    assert machine.parse_list("") == []


def make_cpus(root: Path, cpus: dict[int, tuple[str, str]]) -> None:
    for number, (siblings, sharers) in cpus.items():
        base = root / f"sys/devices/system/cpu/cpu{number}"
        (base / "topology").mkdir(parents=True)
        (base / "topology/thread_siblings_list").write_text(siblings)
        for index, shared in enumerate((siblings, sharers)):
            (base / f"cache/index{index}").mkdir(parents=True)
            (base / f"cache/index{index}/shared_cpu_list").write_text(shared)


MACHINES = [
    # name, cpu: (threads of its core, sharers of its last cache), allowed, pair
    ("two cores", {0: ("0", "0-1"), 1: ("1", "0-1")}, {0, 1}, (0, 1)),
    (
        "two threads a core",
        {0: ("0,2", "0-3"), 1: ("1,3", "0-3"), 2: ("0,2", "0-3"), 3: ("1,3", "0-3")},
        {0, 1, 2, 3},
        (0, 1),
    ),
    (
        "no shared cache between the first two",
        {0: ("0", "0,2"), 1: ("1", "1,3"), 2: ("2", "0,2"), 3: ("3", "1,3")},
        {0, 1, 2},
        (0, 2),
    ),
    (
        "enough cores: the first is left alone",
        {n: (str(n), "0-3") for n in range(4)},
        {0, 1, 2, 3},
        (1, 2),
    ),
    ("a container's share", {n: (str(n), "0-7") for n in range(8)}, {5, 7}, (5, 7)),
]


@pytest.mark.parametrize(
    ("name", "cpus", "allowed", "pair"), MACHINES, ids=[m[0] for m in MACHINES]
)
def test_near_pair(
    name: str, cpus, allowed: set[int], pair: tuple[int, int], tmp_path: Path
) -> None:
    make_cpus(tmp_path, cpus)
    assert machine.near_pair(allowed, tmp_path) == pair


def test_one_core_is_not_enough(tmp_path: Path) -> None:
    make_cpus(tmp_path, {0: ("0-1", "0-1"), 1: ("0-1", "0-1")})
    with pytest.raises(machine.BeelineError, match="two cores"):
        machine.near_pair({0, 1}, tmp_path)


def test_sizes() -> None:
    assert local.parse_sizes("0,8,64k,4M") == [0, 8, 64 * KIB, 4 << 20]
    assert local.parse_sizes("8 8 0") == [0, 8]
    assert local.parse_sizes("64KiB,1MiB,2m,1gib") == [64 * KIB, 1 << 20, 2 << 20, 1 << 30]
    for bad in ("", "x", "-1", "1.5k", "4G", "k", "KiB", "8ib", "4kb", "1\u0661"):
        with pytest.raises(argparse.ArgumentTypeError):
            local.parse_sizes(bad)


def output(values: dict[tuple[str, int], float], apart: float = 0.0) -> launch.Output:
    return launch.Output(samples=values, apart=dict.fromkeys(values, apart))


def test_output_is_read() -> None:
    text = "library X 1.0\nprovider /p/libbeeline-fi.so\nplacement 0 3 1\n"
    text += "sample latency 8 151.20 78.5\nsample line 0 78\ndone\n"
    read = launch.parse(text)
    assert read.samples == {("latency", 8): 151.2, ("line", 0): 78.0}
    assert read.apart == {("latency", 8): 78.5, ("line", 0): 0.0}
    assert (read.library, read.providers, read.placement) == (
        "X 1.0",
        ["/p/libbeeline-fi.so"],
        ["0 3 1"],
    )


def test_corrupt_data_is_a_failure() -> None:
    with pytest.raises(launch.LaunchError, match="arrived wrong"):
        launch.parse("sample latency 8 100\ncorrupt latency 64 message 0 byte 3 rank 1\n")


def test_ratio_is_taken_round_by_round() -> None:
    """A machine that is twice as slow in one round slows both: the ratio stands."""
    launches = []
    for number, slow in enumerate((1, 2, 1)):
        for path, ns in ((launch.DEFAULT, 200.0), (launch.BEELINE, 100.0)):
            launches.append(summary.Launch("M", path, number, output({("latency", 8): ns * slow})))
    (row,) = summary.compare(launches, {"M": "mpich"})
    assert row.ratio == summary.Spread(0.5, 0.5, 0.5, 3)
    assert row.default.median == 200


def test_a_round_without_its_pair_does_not_count() -> None:
    launches = [summary.Launch("M", launch.DEFAULT, 0, output({("latency", 8): 1.0}))]
    assert summary.compare(launches, {"M": "mpich"}) == []


# --- processors that move ---------------------------------------------------


DISTANCES = [
    # name, ns of the samples, near and far; None: one distance
    ("one", [80.0] * 20, None),
    ("one, noisy", [80.0 + n for n in range(30)], None),
    ("two", [80.0] * 5 + [290.0] * 15, (80.0, 290.0)),
    ("two, noisy", [75.0, 80.0, 85.0] * 4 + [280.0, 290.0, 300.0] * 4, (80.0, 290.0)),
    ("a few by chance", [80.0] * 19 + [900.0], None),
    ("nearly all far", [50.0] * 2 + [220.0] * 38, (50.0, 220.0)),
    ("one of many nearer", [50.0] + [220.0] * 59, None),
    ("not known", [0.0] * 20, None),
    ("hardly known", [0.0] * 20 + [80.0], None),
    ("none", [], None),
]


@pytest.mark.parametrize(("name", "values", "found"), DISTANCES, ids=[d[0] for d in DISTANCES])
def test_distances(name: str, values: list[float], found: tuple[float, float] | None) -> None:
    outputs = [output({("latency", 8): 1.0}, ns) for ns in values]
    distances = summary.Distances.among(outputs)
    assert (distances and (distances.near, distances.far)) == found
    if distances:
        assert [distances.which(ns) for ns in (0.0, *found)] == ["mixed", "near", "far"]
        assert f"{distances.near:.0f} ns apart" in distances.remark()


APART = summary.Distances(80.0, 290.0, 150.0, 0.5)
DEF, BEE = launch.DEFAULT, launch.BEELINE


def launches_of(samples: list[tuple[str, int, float, float]], size: int = 8):
    return [
        summary.Launch("M", path, number, output({("latency", size): ns}, apart))
        for path, number, ns, apart in samples
    ]


MOVED = [
    # name, samples: path, round, ns, apart; ratio, at
    ("both near", [(DEF, 0, 200, 80), (BEE, 0, 100, 80)], 0.5, "near"),
    (
        "one of them far: another round's counts",
        [(DEF, 0, 200, 80), (BEE, 0, 400, 290), (DEF, 1, 800, 290), (BEE, 1, 420, 290)],
        410 / 800,
        "far",
    ),
    (
        "more are far, but nothing to compare them with",
        [(DEF, 0, 800, 290), (DEF, 1, 800, 290), (DEF, 2, 200, 80), (BEE, 0, 100, 80)],
        0.5,
        "near",
    ),
    ("never alike", [(DEF, 0, 200, 80), (BEE, 0, 400, 290)], 2.0, "mixed"),
    ("not known", [(DEF, 0, 200, 0), (BEE, 0, 100, 0)], 0.5, "mixed"),
]


@pytest.mark.parametrize(("name", "samples", "ratio", "at"), MOVED, ids=[m[0] for m in MOVED])
def test_alike_is_compared(name: str, samples, ratio: float, at: str) -> None:
    (one,) = summary.compare(launches_of(samples), {"M": "mpich"}, APART)
    assert (one.ratio.median, one.apart) == (pytest.approx(ratio), at)
    verdicts = [v for v in summary.judge([one], []) if v.goal.startswith("latency")]
    assert bool(verdicts) == (at != "mixed")
    (shown,) = table.test_tables([one], "latency", 120)
    assert ("?" in str(shown.caption)) == (at == "mixed")


def test_one_distance_for_all_rows() -> None:
    """As far as it goes: a line in a plot doesn't jump between two machines."""
    both = [(DEF, 0, 200, 80), (BEE, 0, 100, 80), (DEF, 1, 800, 290), (BEE, 1, 400, 290)]
    far = both[2:]
    launches = launches_of(both, 8) + launches_of(far, 64) + launches_of(both[:2], 128)
    launches += launches_of(far, 256)
    rows = {r.size: r.apart for r in summary.compare(launches, {"M": "mpich"}, APART)}
    assert rows == {8: "far", 64: "far", 128: "near", 256: "far"}


def test_limits_at_one_distance() -> None:
    outputs = [
        output({("line", 0): 80.0}, 80),
        output({("line", 0): 290.0, ("bare-safe", 8): 320.0}, 290),
        output({("bare-domain", 8): 310.0}, 290),
        output({("library", 8): 90.0}, 80),
    ]
    rows = {r.test: (r.spread.median, r.apart) for r in summary.limits(outputs, APART)}
    assert rows == {
        "line": (290.0, "far"),
        "bare-safe": (320.0, "far"),
        "bare-domain": (310.0, "far"),
        "library": (90.0, "mixed"),
    }
    verdicts = summary.judge([], summary.limits(outputs[1:3], APART))
    assert [round(v.worst, 2) for v in verdicts] == [1.07, 1.03]


def test_best_rates_at_one_distance() -> None:
    rows = [row("stream", 8, 100, 50, kind) for kind in ("mpich", "impi")]
    moved = row("stream", 8, 10, 5, "openmpi")
    rows = [dataclasses.replace(r, apart="far") for r in rows]
    rows.append(dataclasses.replace(moved, apart="near"))
    assert verdict(rows, name="best of ours").worst == pytest.approx(2.0)
    assert not [v for v in summary.judge([dataclasses.replace(moved, apart="mixed")], [])]


def row(test: str, size: int, default: float, beeline: float, kind: str = "mpich") -> summary.Row:
    flat = [summary.Spread(v, v, v) for v in (default, beeline, beeline / default)]
    return summary.Row(kind, kind, test, size, *flat)


def verdict(rows, limits=(), name: str = "") -> summary.Verdict:
    return next(v for v in summary.judge(list(rows), list(limits)) if name in v.goal)


def test_the_worst_size_decides() -> None:
    rows = [row("latency", 0, 100, 50), row("latency", 8, 100, 80)]
    v = verdict(rows, name="0 and 8 B")
    assert (v.met, v.worst, v.worst_at) == (False, 0.8, "8 B")
    assert v.typical == pytest.approx(0.632, abs=0.001)


def test_goals_differ_between_mpis() -> None:
    assert not verdict([row("latency", 8, 100, 70)], name="0 and 8 B").met
    assert verdict([row("latency", 8, 100, 70, "impi")], name="0 and 8 B").met


AT_BEST = [
    # name, rows: size, default, ours, apart; limits: test, size, ns, apart; what is left
    (
        "as the library",
        [(8, 200, 140, "")],
        [("line", 0, 60, ""), ("bare-domain", 8, 100, "")],
        0.5,
    ),
    (
        "the worse size",
        [(0, 200, 140, ""), (8, 100, 110, "")],
        [("line", 0, 60, ""), ("bare-domain", 0, 80, ""), ("bare-domain", 8, 70, "")],
        1.0,
    ),
    ("no line", [(8, 200, 140, "")], [("bare-domain", 8, 100, "")], None),
    (
        "not of that size",
        [(0, 200, 140, "")],
        [("line", 0, 60, ""), ("bare-domain", 8, 9, "")],
        None,
    ),
    (
        "at another distance",
        [(8, 200, 140, "near")],
        [("line", 0, 60, "far"), ("bare-domain", 8, 100, "far")],
        None,
    ),
]


@pytest.mark.parametrize(
    ("name", "rows", "limits", "at_best"), AT_BEST, ids=[one[0] for one in AT_BEST]
)
def test_out_of_reach(name: str, rows, limits, at_best: float | None) -> None:
    """What the MPI adds is its own: with the line it may be more than is wanted."""
    measured = [
        dataclasses.replace(row("latency", size, default, ours), apart=apart)
        for size, default, ours, apart in rows
    ]
    known = [
        summary.LimitRow(test, size, summary.Spread(ns, ns, ns), apart)
        for test, size, ns, apart in limits
    ]
    v = verdict(measured, known, "0 and 8 B")
    assert v.at_best == (at_best and pytest.approx(at_best))
    shown = str(table.goals_table([v]).caption)
    assert ("at best" in shown) == (at_best is not None)


def test_at_best_by_the_line_of_its_moment() -> None:
    """Of 123 ns, half as long again as the line of that moment, 41 are more than the line."""
    limits = [
        summary.LimitRow("line", 0, summary.Spread(36.5, 36.5, 36.5), lines=1.0),
        summary.LimitRow("bare-domain", 8, summary.Spread(123.0, 123.0, 123.0), lines=1.5),
    ]
    v = verdict([row("latency", 8, 200, 150)], limits, "0 and 8 B")
    assert v.at_best == pytest.approx((150 - 41) / 200)


def test_rates_are_gains() -> None:
    v = verdict([row("stream", 8, 100, 80)], name="8 B to 1 KiB")
    assert v.unit == "rate" and v.met and v.worst == pytest.approx(1.25)


def test_best_of_ours_against_best_of_theirs() -> None:
    rows = [row("stream", 8, 100, 90, "mpich"), row("stream", 8, 200, 50, "impi")]
    v = verdict(rows, name="best of ours")
    assert v.worst == pytest.approx(2.0) and v.met


def test_bare_against_the_cache_line() -> None:
    flat = [summary.Spread(v, v, v) for v in (100.0, 110.0, 130.0)]
    limits = [
        summary.LimitRow("line", 0, flat[0]),
        summary.LimitRow("bare-domain", 8, flat[1]),
        summary.LimitRow("bare-safe", 8, flat[2]),
    ]
    assert verdict([], limits, "cache line").met
    assert not verdict([], limits, "FI_THREAD_SAFE").met


def test_bare_against_the_line_of_its_moment() -> None:
    """Both are near, and one launch of two has a processor that is half as quick."""
    outputs = [
        output({("line", 0): 35.0}, 35),
        output({("line", 0): 38.0}, 38),
        output({("bare-domain", 8): 120.0}, 80),
        output({("bare-domain", 8): 126.0}, 84),
        output({("bare-safe", 8): 66.0}, 40),
    ]
    limits = summary.limits(outputs, APART)
    assert verdict([], limits, "cache line").worst == pytest.approx(1.5)
    assert verdict([], limits, "FI_THREAD_SAFE").worst == pytest.approx(1.1)


@pytest.mark.parametrize(
    ("options", "name"),
    [([], "bare-domain"), (["-T", "safe"], "bare-safe"), (["-w"], "bare-stream")],
)
def test_libfabric_alone(options: list[str], name: str) -> None:
    """What fits a slot, what goes through the ring, and more of it than the ring holds."""
    build = Path(os.environ.get("BEELINE_BUILD", "build")).resolve()
    program = build / "bench" / "bare"
    if not program.exists():
        pytest.skip(f"{program} is not built")
    cpus = sorted(os.sched_getaffinity(0))[:2]
    if len(cpus) < 2:
        pytest.skip("one processor: each sample would wait for turns on it")
    words = ["-s", "0,8,4096,65536", "-m", "1", "-r", "1", "-c", "{},{}".format(*cpus), *options]
    done = subprocess.run(
        [program, *words],
        env=os.environ | {"FI_PROVIDER_PATH": str(build / "src" / "fabric")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    samples = [line.split() for line in done.stdout.splitlines() if line.startswith("sample")]
    assert all(float(sample[4]) > 0 for sample in samples)  # how far apart
    assert [sample[1:3] for sample in samples] == [[name, s] for s in "0 8 4096 65536".split()]
    assert all(float(sample[3]) > 0 for sample in samples)


def test_sizes_in_words() -> None:
    names = {
        0: "0 B",
        8: "8 B",
        1000: "1000 B",
        KIB: "1 KiB",
        64 * KIB: "64 KiB",
        1 << 26: "64 MiB",
    }
    assert {size: summary.show_size(size) for size in names} == names


def test_default_launch_has_nothing_of_beeline(monkeypatch: pytest.MonkeyPatch, fake_mpi) -> None:
    """Even where the user has eval'ed `beeline env` before measuring."""
    from beeline import env, paths
    from beeline import mpi as mpis

    monkeypatch.setattr(paths, "provider_dir", lambda: Path("/b"))
    monkeypatch.setenv("FI_PROVIDER", "beeline")
    monkeypatch.setenv("FI_PROVIDER_PATH", "/b")
    monkeypatch.setenv("OMPI_MCA_pml", "cm")
    monkeypatch.setenv("GLIBC_TUNABLES", env.MALLOC)
    mpi = mpis.identify(fake_mpi("openmpi-5.0.11"))
    plain = launch.mpi_environment(mpi, launch.DEFAULT, (0, 1))
    named = ("FI_PROVIDER", "OMPI_MCA_", "GLIBC_TUNABLES")
    assert not any(name.startswith(named) for name in plain)
    ours = launch.mpi_environment(mpi, launch.BEELINE, (0, 1))
    assert ours["FI_PROVIDER_PATH"] == "/b" and ours["OMPI_MCA_pml"] == "cm"


def test_another_provider_has_what_brings_the_mpi_there(
    monkeypatch: pytest.MonkeyPatch, fake_mpi
) -> None:
    """And nothing that is meant for Beeline."""
    from beeline import mpi as mpis
    from beeline import paths

    monkeypatch.setattr(paths, "provider_dir", lambda: Path("/b"))
    monkeypatch.setenv("FI_PROVIDER_PATH", "/x")
    monkeypatch.setenv("I_MPI_OFI_PROVIDER", "verbs")
    shm = launch.Baseline("shm")
    mpi = mpis.identify(fake_mpi("openmpi-5.0.11"))
    plain = launch.mpi_environment(mpi, launch.DEFAULT, (0, 1))
    theirs = launch.mpi_environment(mpi, launch.DEFAULT, (0, 1), against=shm)
    ours = launch.mpi_environment(mpi, launch.BEELINE, (0, 1), against=shm)
    assert "I_MPI_OFI_PROVIDER" not in theirs
    assert {k: v for k, v in theirs.items() if plain.get(k) != v} == {
        "FI_PROVIDER_PATH": "/x",  # it may be there
        "FI_PROVIDER": "shm",
        "OMPI_MCA_pml": "cm",
        "OMPI_MCA_mtl": "ofi",
        "OMPI_MCA_opal_common_ofi_provider_include": "shm",
        "OMPI_MCA_mtl_ofi_provider_include": "shm",
    }
    assert ours["FI_PROVIDER"] == "beeline" and ours["FI_PROVIDER_PATH"] == "/b:/x"


@pytest.mark.parametrize("name", ["", "beeline", "default", "^shm", "shm,tcp", "shm;", "a b"])
def test_another_provider_is_another(name: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="examples: shm, tcp"):
        launch.baseline(name)


# --- what is said beside the numbers ---------------------------------------


def session(seconds: float) -> local.Session:
    return local.Session(
        chosen=[],
        programs={},
        cpus=(0, 1),
        sizes=[8],
        tests=["latency"],
        rounds=5,
        milliseconds=1,
        seconds=seconds,
        used=False,
        multiple=False,
    )


@pytest.mark.parametrize(
    ("seconds", "rounds", "stopped"), [(0.0, 1, "stopped after 1 of 5 rounds"), (600.0, 5, "")]
)
def test_time_that_is_up_is_said(
    seconds: float, rounds: int, stopped: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "run_alone", lambda *_: output({}))
    monkeypatch.setattr(launch, "run_bare", lambda *_: output({}))
    one = session(seconds)
    local.measure(one, table.make_console())
    assert one.rounds == rounds
    assert one.stopped.startswith(stopped) and bool(one.stopped) == bool(stopped)
    description = {"virtual": False, "cpu": "C", "system": "S", "kernel": "K"}
    text = local.note(description, one)
    assert ("Medians" in text) == (rounds > 1) != ("One launch" in text)


def test_one_launch_has_no_spread() -> None:
    assert "±" not in table.show_ratio(summary.Spread.of([0.5]), False).plain
    assert "±0.05" in table.show_ratio(summary.Spread.of([0.4, 0.5, 0.6]), False).plain
    assert table.show_ratio(summary.Spread.of([0.0012]), False).plain == "0.001"
    (one,) = table.test_tables([row("latency", 8, 2, 1)], "latency", 120)
    assert "±" not in str(one.caption)


def test_other_programs_are_named_where_the_numbers_are() -> None:
    assert machine.disturbed(0.3) == []
    (remark,) = machine.disturbed(3.25)
    assert "load 3.2" in remark
    first, second = summary.footer("Two ranks.", [remark, "stopped"]).splitlines()
    assert first == "Two ranks." and second.endswith("; stopped.")
    assert summary.footer("Two ranks.", []) == "Two ranks."
    lines = summary.footer("Two ranks.", [remark, APART.remark()]).splitlines()
    assert len(lines) == 3 and max(map(len, lines)) <= 150


@pytest.mark.parametrize("what", ["local", "overlap", "crowd", "primitives"])
def test_missing_matplotlib_is_said_before_measuring(
    what: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from beeline.main import build_parser

    def measured(*_: object) -> None:
        raise AssertionError("measured before it was known that there can be no plot")

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for name in ("execute", "compile_program"):
        monkeypatch.setattr(launch, name, measured)
    args = build_parser(["bench"]).parse_args(["bench", what, "--plot", str(tmp_path / "plots")])
    with pytest.raises(BeelineError, match="python3-matplotlib"):
        args.func(args)
