# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The variables that `beeline env` prints and `beeline run` sets."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from beeline import bypass, env, nodes
from beeline import mpi as mpis

HERE = Path("/opt/beeline/lib/libfabric")
ASK = "glibc.malloc.hugetlb=1"
MALLOC = f"{ASK}:glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=67108864"


def values(
    kind: str,
    environ: dict[str, str] | None = None,
    libdir: Path | None = None,
    **wishes: bool,
) -> env.Plan:
    return env.plan(env.settings(kind, HERE, libdir, env.Wishes(**wishes)), environ or {})


def test_mpich() -> None:
    assert values("mpich").values == {
        "FI_PROVIDER_PATH": str(HERE),
        "FI_PROVIDER": "beeline",
        "MPIR_CVAR_CH4_NETMOD": "ofi",
        "MPIR_CVAR_NOLOCAL": "1",
        "FI_BEELINE_INJECT": "pingpong",
    }


def test_openmpi_has_the_names_of_4_and_5() -> None:
    chosen = values("openmpi").values
    assert chosen["OMPI_MCA_pml"] == "cm"
    assert chosen["OMPI_MCA_mtl"] == "ofi"
    assert chosen["OMPI_MCA_opal_common_ofi_provider_include"] == "beeline"
    assert chosen["OMPI_MCA_mtl_ofi_provider_include"] == "beeline"


def test_impi_needs_its_libraries() -> None:
    chosen = values("impi", {"LD_LIBRARY_PATH": "/mine"}, Path("/impi/lib")).values
    assert chosen["I_MPI_FABRICS"] == "ofi"
    assert chosen["LD_LIBRARY_PATH"] == "/impi/lib:/mine"
    assert "LD_LIBRARY_PATH" not in values("impi").values


YIELDING = [
    # what stays as the user has it
    ("impi", "MPIR_CVAR_CH4_OFI_ENABLE_DATA", "1"),
    ("impi", "MPIR_CVAR_CH4_OFI_ENABLE_RMA", "0"),
    ("impi", "I_MPI_OFI_ISEND_INJECT_THRESHOLD", "65536"),
    ("impi", "FI_BEELINE_INJECT", "pingpong"),
    ("impi", "FI_BEELINE_DELIVERY", "rma"),
    ("mpich", "FI_BEELINE_INJECT", "pingpong"),
]


@pytest.mark.parametrize(("kind", "name", "value"), YIELDING)
def test_what_the_user_has_chosen_stays_where_it_does_no_harm(
    kind: str, name: str, value: str
) -> None:
    assert values(kind).values[name] == value
    assert values(kind, {name: ""}).values[name] == value
    chosen = values(kind, {name: "0"})
    assert chosen.values[name] == "0"
    assert chosen.warnings == []


@pytest.mark.parametrize("name", sorted({row[1] for row in YIELDING}))
def test_what_one_needs_others_are_spared(name: str) -> None:
    for kind in {"mpich", "openmpi", "impi"} - {row[0] for row in YIELDING if row[1] == name}:
        assert name not in values(kind).values


LEFT_OVER = [
    # for which MPI, what another one's settings left in the shell, whose they are
    ("openmpi", "FI_BEELINE_INJECT", "pingpong", "MPICH and Intel MPI"),
    ("openmpi", "FI_BEELINE_DELIVERY", "rma", "Intel MPI"),
    ("mpich", "FI_BEELINE_DELIVERY", "rma", "Intel MPI"),
]


@pytest.mark.parametrize(("kind", "name", "value", "whose"), LEFT_OVER)
def test_what_is_left_of_another_mpi_is_told(kind: str, name: str, value: str, whose: str) -> None:
    (warning,) = values(kind, {name: value}).warnings
    assert warning.startswith(f"{name}={value} is set, which is for {whose} and ")
    assert f"unset {name}" in warning


@pytest.mark.parametrize("kind", ["mpich", "openmpi", "impi"])
def test_its_own_settings_and_the_users_are_nobodys_left_overs(kind: str) -> None:
    assert values(kind, values(kind).values).warnings == []
    assert values(kind, {"FI_BEELINE_INJECT": "64", "FI_BEELINE_DELIVERY": "all"}).warnings == []


PATHS = [
    # what the user has, what comes of it
    (None, f"{HERE}"),
    ("", f"{HERE}"),
    ("/a", f"{HERE}:/a"),
    ("/a:/b", f"{HERE}:/a:/b"),
    (f"{HERE}", f"{HERE}"),  # eval'ed twice
    (f"/a:{HERE}:/b", f"{HERE}:/a:/b"),
]


@pytest.mark.parametrize(("old", "new"), PATHS)
def test_search_path_is_prepended(old: str | None, new: str) -> None:
    environ = {} if old is None else {"FI_PROVIDER_PATH": old}
    chosen = values("mpich", environ)
    assert chosen.values["FI_PROVIDER_PATH"] == new
    assert chosen.warnings == []


TUNABLES = [
    # what the user has, what else, what comes of it
    (None, None, MALLOC),
    ("glibc.malloc.check=3", None, f"{MALLOC}:glibc.malloc.check=3"),
    ("glibc.malloc.hugetlb=1", "FI_BEELINE_HUGE=auto", MALLOC),
    (MALLOC, None, MALLOC),
    ("glibc.malloc.check=3:glibc.malloc.hugetlb=0", None, None),
    ("glibc.malloc.hugetlb=2", None, None),
    (None, "FI_BEELINE_HUGE=never", None),
    ("glibc.malloc.check=3", "FI_BEELINE_HUGE=never", None),
    ("glibc.malloc.mmap_threshold=4096", None, f"{ASK}:glibc.malloc.mmap_threshold=4096"),
    ("glibc.malloc.trim_threshold=1", None, f"{ASK}:glibc.malloc.trim_threshold=1"),
    ("glibc.malloc.mmap_max=0", None, f"{ASK}:glibc.malloc.mmap_max=0"),
    (None, "MALLOC_MMAP_THRESHOLD_=4096", ASK),
    (None, "MALLOC_TRIM_THRESHOLD_=1", ASK),
    (None, "MALLOC_MMAP_MAX_=0", ASK),
]


@pytest.mark.parametrize(("old", "other", "new"), TUNABLES)
def test_malloc_asks_for_huge_pages_where_the_user_does(
    old: str | None, other: str | None, new: str | None
) -> None:
    environ = {"GLIBC_TUNABLES": old} if old else {}
    if other:
        name, _, value = other.partition("=")
        environ[name] = value
    chosen = values("openmpi", environ, huge_pages=True)
    assert chosen.values.get("GLIBC_TUNABLES") == new
    assert chosen.warnings == []
    assert "GLIBC_TUNABLES" not in values("openmpi", environ).values  # for nobody asked


def test_what_was_put_in_front_can_be_taken_out() -> None:
    ours = env.Setting("GLIBC_TUNABLES", MALLOC, prepend=True)
    for theirs in (None, "glibc.malloc.check=3"):
        environ = {"GLIBC_TUNABLES": theirs} if theirs else {}
        both = env.plan([ours], environ).apply(environ)
        assert both != environ
        env.without(ours, both)
        assert both == environ


@pytest.mark.parametrize(
    ("kind", "name", "old"),
    [
        ("mpich", "FI_PROVIDER", "tcp"),
        ("mpich", "MPIR_CVAR_NOLOCAL", "0"),
        ("openmpi", "OMPI_MCA_pml", "ob1"),
        ("impi", "I_MPI_FABRICS", "shm"),
    ],
)
def test_what_contradicts_is_replaced_and_said(kind: str, name: str, old: str) -> None:
    chosen = values(kind, {name: old})
    assert chosen.values[name] != old
    assert len(chosen.warnings) == 1
    assert name in chosen.warnings[0] and repr(old) in chosen.warnings[0]


IN_THE_WAY = [
    # of which MPI, a variable that Beeline doesn't set, a value in the way, one that isn't
    ("impi", "I_MPI_OFI_PROVIDER", "tcp", "beeline"),
    ("mpich", "MPIR_CVAR_OFI_USE_PROVIDER", "tcp", "beeline"),
    ("openmpi", "OMPI_MCA_opal_common_ofi_provider_exclude", "shm,beeline", "shm,sockets"),
    ("openmpi", "OMPI_MCA_mtl_ofi_provider_exclude", "beeline", "shm"),
]


@pytest.mark.parametrize(("kind", "name", "value", "other"), IN_THE_WAY)
def test_what_beeline_does_not_set_but_stands_in_the_way(
    kind: str, name: str, value: str, other: str
) -> None:
    (warning,) = values(kind, {name: value}).warnings
    assert name in warning
    assert values(kind, {name: other}).warnings == []


def test_the_same_value_is_no_contradiction() -> None:
    assert values("openmpi", {"OMPI_MCA_pml": "cm", "FI_PROVIDER": "beeline"}).warnings == []


BYPASSES = [
    # kind, command line, what of it keeps the MPI from using Beeline
    ("openmpi", "mpiexec --mca pml ob1 -n 2 --mca btl self ./app", ["--mca pml ob1"]),
    ("openmpi", "mpiexec --mca pml cm --mca mtl ofi -n 2 ./app", []),
    ("openmpi", "mpiexec -mca mtl psm2 -n 2 ./app", ["-mca mtl psm2"]),
    ("openmpi", "prterun --omca pml ucx ./app", ["--omca pml ucx"]),
    ("openmpi", "mpiexec -x OMPI_MCA_pml=ob1 ./app", ["-x OMPI_MCA_pml=ob1"]),
    ("openmpi", "mpiexec -x FI_PROVIDER=tcp ./app", ["-x FI_PROVIDER=tcp"]),
    ("openmpi", "mpiexec -x FI_PROVIDER ./app", []),
    (
        "openmpi",
        "mpiexec --mca mtl_ofi_provider_exclude shm,beeline ./app",
        ["--mca mtl_ofi_provider_exclude shm,beeline"],
    ),
    ("openmpi", "mpiexec --mca mtl_ofi_provider_exclude shm ./app", []),
    ("mpich", "mpiexec -genv FI_PROVIDER tcp -n 2 ./app", ["-genv FI_PROVIDER tcp"]),
    ("mpich", "mpiexec -n 1 ./a : -env MPIR_CVAR_NOLOCAL 0 -n 1 ./b", ["-env MPIR_CVAR_NOLOCAL 0"]),
    ("mpich", "mpiexec -genv MPIR_CVAR_CH4_NETMOD=ucx ./app", ["-genv MPIR_CVAR_CH4_NETMOD=ucx"]),
    ("mpich", "mpiexec -genvnone -n 2 ./app", ["-genvnone"]),
    ("mpich", "mpiexec -genvlist HOME,PATH ./app", ["-genvlist HOME,PATH"]),
    ("mpich", "mpiexec -genv FI_BEELINE_INJECT 64 -n 2 ./app", []),
    ("impi", "mpiexec -genv I_MPI_FABRICS shm -n 2 ./app", ["-genv I_MPI_FABRICS shm"]),
    ("impi", "mpiexec -genv I_MPI_OFI_PROVIDER tcp ./app", ["-genv I_MPI_OFI_PROVIDER tcp"]),
    ("impi", "mpiexec -genv I_MPI_OFI_PROVIDER beeline ./app", []),
    ("impi", "mpiexec -n 2 env I_MPI_FABRICS=shm ./app", ["I_MPI_FABRICS=shm"]),
    ("impi", "mpiexec -genv FI_PROVIDER_PATH /else ./app", ["-genv FI_PROVIDER_PATH /else"]),
    ("impi", f"mpiexec -genv FI_PROVIDER_PATH /else:{HERE} ./app", []),
]


@pytest.mark.parametrize(("kind", "line", "found"), BYPASSES)
def test_what_wins_over_variables_on_a_command_line(kind: str, line: str, found: list[str]) -> None:
    assert bypass.options(line.split(), kind, env.settings(kind, HERE)) == found


def test_run_warns_of_what_bypasses_beeline(beeline, fake_mpi) -> None:
    launcher = str(fake_mpi("openmpi-5.0.11"))
    done = beeline("run", "--", launcher, "--mca", "pml", "ob1", "./app")
    assert "--mca pml ob1 on the command line keeps Open MPI from using Beeline" in done.stderr
    assert beeline("run", "--", launcher, "./app").stderr == ""


# --- Intel MPI's algorithms ------------------------------------------------


@pytest.fixture
def intel(tmp_path: Path) -> Path:
    """Its libraries, and the file for shared memory where it has it."""
    file = tmp_path / "opt/mpi/etc" / env.TUNING_FILES[0]
    file.parent.mkdir(parents=True)
    file.touch()
    (tmp_path / "lib/release").mkdir(parents=True)
    return tmp_path / "lib"


TUNED = (env.TUNING, *env.ADJUST)


def test_intels_algorithms_for_shared_memory_are_taken_on_one_node(intel: Path) -> None:
    for libdir in (intel, intel / "release"):
        chosen = values("impi", {}, libdir).values
        assert chosen[env.TUNING] == str(intel.parent / "opt/mpi/etc" / env.TUNING_FILES[0])
        assert {name: chosen[name] for name in env.ADJUST} == env.ADJUST
    several = values("impi", {}, intel, one_node=False).values
    without_the_file = values("impi", {}, Path("/elsewhere/lib")).values
    for chosen in (several, without_the_file, values("mpich").values):
        assert not set(TUNED) & set(chosen)


def test_the_users_own_algorithms_win(intel: Path) -> None:
    name = next(iter(env.ADJUST))
    chosen = values("impi", {name: "7"}, intel)
    assert chosen.values[name] == "7" and env.TUNING in chosen.values
    for own in ({env.TUNING: "/mine.dat"}, {"I_MPI_TUNING_MODE": "auto"}):
        chosen = values("impi", own, intel)
        assert not set(TUNED) & set(chosen.values) and chosen.warnings == []
    again = values("impi", values("impi", {}, intel).values, intel)
    assert set(TUNED) <= set(again.values)  # evaluated twice


@pytest.mark.parametrize(
    ("environ", "line", "one"),
    [
        ({}, "mpiexec -n 2 ./app", True),
        ({}, "mpiexec -host here:2 -n 2 ./app", True),
        ({}, "mpiexec -hosts a,b -n 2 ./app", False),
        ({}, "mpiexec -host a -n 1 ./app : -host b -n 1 ./app", False),
        ({}, "mpiexec -f HOSTS -n 2 ./app", False),
        ({}, "mpiexec -f /missing -n 2 ./app", True),
        ({"SLURM_JOB_NUM_NODES": "2"}, "mpiexec ./app", False),
        ({"SLURM_JOB_NUM_NODES": "1"}, "mpiexec ./app", True),
        ({"SLURM_JOB_NUM_NODES": "2"}, "mpiexec -hosts a ./app", True),
        ({"PBS_NODEFILE": "HOSTS"}, "mpiexec ./app", False),
        ({"PBS_NODEFILE": "ONE"}, "mpiexec ./app", True),
    ],
)
def test_whether_a_job_is_on_one_node(
    environ: dict[str, str], line: str, one: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("HOSTS").write_text("# two\nnode1:4\nnode2:4\n")
    Path("ONE").write_text("node1\nnode1\n")
    assert nodes.one_node(environ, line.split()) == one


# --- undone ----------------------------------------------------------------


USERS = [
    # what the user has
    {},
    {"FI_PROVIDER_PATH": "/mine", "GLIBC_TUNABLES": "glibc.malloc.check=3", "HOME": "/h"},
    {"FI_BEELINE_INJECT": "eager", "LD_LIBRARY_PATH": "/a:/b"},
]


@pytest.mark.parametrize("kind", mpis.KINDS)
@pytest.mark.parametrize("users", USERS)
def test_what_env_set_can_be_undone(kind: str, users: dict[str, str]) -> None:
    everything = [
        s for k in mpis.KINDS for s in env.settings(k, HERE, Path("/impi/lib"), env.EVERYTHING)
    ]
    wanted = env.settings(kind, HERE, Path("/impi/lib"), env.EVERYTHING)
    environ = env.plan(wanted, users).apply(users)
    for name, value in env.undone(everything, environ).items():
        assert environ.pop(name) != value
        if value is not None:
            environ[name] = value
    assert environ == users
    assert env.undone(everything, users) == {}


def test_exports_survive_the_shell() -> None:
    text = env.exports({"A": "it's", "B": "two words; $HOME `x`"})
    script = f'{text}\nprintf "%s|%s" "$A" "$B"'
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "it's|two words; $HOME `x`"


# --- the installed command -------------------------------------------------


@pytest.mark.parametrize("kind", mpis.KINDS)
def test_env_prints_exports_and_nothing_else(kind: str, beeline) -> None:
    done = beeline("env", "--mpi", kind, FI_PROVIDER_PATH="/mine")
    assert done.returncode == 0, done.stderr
    assert all(line.startswith("export ") for line in done.stdout.splitlines())
    script = f'{done.stdout}\necho "$FI_PROVIDER_PATH"'
    path = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
    first, _, rest = path.strip().partition(":")
    assert rest == "/mine"
    assert os.path.exists(os.path.join(first, "libbeeline-fi.so"))


@pytest.mark.parametrize("kind", mpis.KINDS)
def test_unset_takes_back_what_env_has_set(kind: str, beeline) -> None:
    users = {"FI_PROVIDER_PATH": "/mine", "LD_LIBRARY_PATH": "/my libraries"}
    variables = [s.name for s in env.settings(kind, HERE, HERE, env.EVERYTHING)]
    for name in set(variables) - set(users):
        users[name] = ""
    script = beeline("env", "--mpi", kind, "--huge-pages", **users).stdout
    assert "GLIBC_TUNABLES" in script
    show = "".join(f'echo "{name}=${{{name}-}}"\n' for name in variables)
    done = subprocess.run(["sh", "-c", f"{script}\n{show}"], capture_output=True, text=True)
    environ = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert environ["FI_PROVIDER"] == "beeline"
    undo = beeline("env", "--unset", **environ)
    assert undo.returncode == 0 and undo.stderr == ""
    done = subprocess.run(
        ["sh", "-c", f"{undo.stdout}\n{show}"],
        env=os.environ | environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert dict(line.split("=", 1) for line in done.stdout.splitlines()) == {
        name: users[name] for name in variables
    }
    assert beeline("env", "--unset", **users).stdout == ""


def test_unset_names_no_mpi(beeline) -> None:
    done = beeline("env", "--unset", "--mpi", "mpich")
    assert done.returncode == 2 and "not allowed with" in done.stderr


def test_env_of_an_unknown_mpi(beeline) -> None:
    done = beeline("env", "--mpi", "lam")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "mpich, openmpi, impi" in done.stderr


def test_run_becomes_the_command(beeline, fake_mpi) -> None:
    launcher = fake_mpi("openmpi-5.0.11")
    text = launcher.read_text()
    launcher.write_text(text + '[ "$1" = --version ] || { env; exit 42; }\n')
    done = beeline("run", "--", str(launcher), "-n", "2", "./app")
    assert done.returncode == 42  # the program's own exit status
    assert "OMPI_MCA_mtl=ofi" in done.stdout.splitlines()


def test_run_names_what_stands_in_the_way(beeline, fake_mpi) -> None:
    done = beeline("run", "--", str(fake_mpi("debian-mpich-4.0.2")), "-n", "2", "./app")
    assert done.returncode == 1
    assert "ch4:ucx" in done.stderr


@pytest.mark.parametrize(
    ("argv", "status", "says"),
    [
        (("run",), 2, "nothing to run"),
        (("run", "--"), 2, "nothing to run"),
        (("run", "--", "no-such-mpiexec"), 127, "not found"),
        (("run", "--", "ls"), 1, "--mpi"),
        (("fly",), 2, "invalid choice"),
        ((), 2, "required"),
        (("bench", "local", "--sizes", "big"), 2, "is no size"),
        (("bench", "local", "--cpus", "a,b"), 2, "--cpus"),
        (("bench", "local", "--cpus", "0,0"), 2, "two different ones"),
        (("bench", "local", "--seconds", "-5"), 2, "--seconds: more than 0"),
        (("bench", "local", "--size", "8"), 2, "unrecognized arguments: --size"),
        (("run", "-np", "2", "./x"), 2, "beeline run -- mpiexec"),
        (("stat", "--wach"), 2, "usage: beeline stat"),
        (("bench", "local", "--mpi", "lam"), 2, "give one of mpich, openmpi, impi"),
        (("bench", "local", "--mpi", "/no/mpiexec"), 127, "not found"),
    ],
)
def test_mistakes_are_explained(argv: tuple[str, ...], status: int, says: str, beeline) -> None:
    done = beeline(*argv)
    assert done.returncode == status, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_without_an_mpi_in_path_those_that_are_here_are_named(beeline, fake_mpi) -> None:
    launcher = fake_mpi("openmpi-5.0.11", name="mpiexec.openmpi")  # as Debian calls it
    for words in (("run", "--", "mpiexec", "-n", "2", "./app"), ("env",)):
        done = beeline(*words, PATH=f"{launcher.parent}:/bin/none")
        assert done.returncode == 127 and done.stdout == ""
        assert "mpiexec: not found in PATH" in done.stderr
        assert "beeline doctor" in done.stderr and "--mpi" in done.stderr
        assert f"Open MPI 5.0.11: {launcher}" in done.stderr
    done = beeline("run", "--", "no-such-program", PATH="/bin/none")
    assert "doctor" not in done.stderr


def test_run_doubts_what_it_is_told(beeline, fake_mpi) -> None:
    launcher = str(fake_mpi("openmpi-5.0.11"))
    done = beeline("run", "--mpi", "mpich", "--", launcher)
    assert done.returncode == 0
    assert f"{launcher} is Open MPI 5.0.11: with the settings of --mpi mpich" in done.stderr
    for words in (("--mpi", "openmpi", "--", launcher), ("--mpi", "mpich", "--", "true")):
        assert beeline("run", *words).stderr == ""


def leaders(pid: int) -> list[int]:
    """Its children that lead a session of their own: all of a measuring program's are in one."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            _, parent, _, session, *_ = path.read_text().rpartition(")")[2].split()
            if int(parent) == pid and session == path.parent.name:
                found.append(int(session))
    return found


def heed_signals() -> None:
    """Also where the tests run in the background, or under nohup, and would pass it on to be
    deaf."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)],
    ids=["terminated", "hung up", "interrupted"],
)
def test_what_it_measures_with_ends_too(number: signal.Signals, status: int) -> None:
    command = os.environ.get("BEELINE")
    if not command or len(os.sched_getaffinity(0)) < 2:
        pytest.skip("it takes the command (make build) and two processors")
    process = subprocess.Popen(
        [command, "bench", "local", "--mpi", "none"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_signals,
    )
    deadline, started = time.monotonic() + 60, []
    while not started and process.poll() is None and time.monotonic() < deadline:
        started = leaders(process.pid)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert started and process.returncode == status, said
    assert "Traceback" not in said
    while alive_in(started) and time.monotonic() < deadline:
        pass
    assert not alive_in(started)


def alive_in(sessions: list[int]) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, session, *_ = path.read_text().rpartition(")")[2].split()
            if int(session) in sessions and state not in "ZX":
                found.append(int(path.parent.name))
    return found


def test_bench_with_a_launcher_of_no_mpi(beeline, tmp_path: Path) -> None:
    launcher = tmp_path / "mpiexec"
    launcher.write_text("#!/bin/sh\necho something else\n")
    launcher.chmod(0o755)
    done = beeline("bench", "local", "--mpi", str(launcher))
    assert done.returncode == 1
    assert "belongs to no MPI" in done.stderr and "something else" in done.stderr
    assert "beeline run" not in done.stderr


def test_env_warns_of_another_mpi_in_path(beeline, fake_mpi) -> None:
    folder = str(fake_mpi("openmpi-5.0.11").parent)
    path = os.pathsep.join([folder, "/usr/bin", "/bin"])
    done = beeline("env", "--mpi", "mpich", PATH=path)
    assert done.returncode == 0
    assert f"{folder}/mpiexec, the mpiexec in PATH, belongs to Open MPI 5.0.11" in done.stderr
    assert all(line.startswith("export ") for line in done.stdout.splitlines())
    for words in (("--mpi", "openmpi"), ()):
        assert beeline("env", *words, PATH=path).stderr == ""


def test_env_warns_of_another_of_the_same_kind(beeline, fake_mpi) -> None:
    named, first = fake_mpi("openmpi-5.0.11"), fake_mpi("debian-openmpi-4.1.4")
    path = os.pathsep.join([str(first.parent), "/usr/bin", "/bin"])
    done = beeline("env", "--mpi", str(named), PATH=path)
    assert done.returncode == 0
    assert f"{first}, the mpiexec in PATH, is Open MPI 4.1.4's, and not {named}" in done.stderr
    path = os.pathsep.join([str(named.parent), "/usr/bin", "/bin"])
    assert beeline("env", "--mpi", str(named), PATH=path).stderr == ""


def test_who_takes_an_mpi_that_sends_the_wrong_bytes_is_told(beeline, fake_mpi) -> None:
    launcher = fake_mpi("debian-openmpi-4.1.4")
    path = os.pathsep.join([str(launcher.parent), "/usr/bin", "/bin"])
    for words in (
        ("env",),
        ("env", "--mpi", "openmpi"),
        ("env", "--mpi", str(launcher)),
        ("run", "--", str(launcher)),
        ("run", "--mpi", "openmpi", "--", str(launcher)),
    ):
        done = beeline(*words, PATH=path)
        assert done.returncode == 0
        assert done.stderr.count("read the wrong bytes") == 1, words


def test_a_variable_that_is_none_of_ours(beeline, fake_mpi) -> None:
    launcher = fake_mpi("openmpi-5.0.11")
    for words in (("env", "--mpi", str(launcher)), ("run", "--", str(launcher))):
        done = beeline(
            *words,
            PATH=f"{launcher.parent}:/usr/bin:/bin",
            FI_BEELINE_EAGERMAX="1",
            FI_BEELINE_XYZ="1",
            FI_BEELINE_SPIN="1",
        )
        assert done.returncode == 0
        assert "FI_BEELINE_EAGERMAX is no variable of Beeline's: FI_BEELINE_EAGER_MAX is" in (
            done.stderr
        )
        assert "FI_BEELINE_XYZ is no variable of Beeline's; fi_beeline(7)" in done.stderr
        assert "FI_BEELINE_SPIN" not in done.stderr


def test_a_folder_in_path_that_is_closed_to_us(tmp_path: Path) -> None:
    command = os.environ.get("BEELINE")
    if not command:
        pytest.skip("the beeline command is not installed: make build")
    closed, bin_ = tmp_path / "closed", tmp_path / "closed" / "bin"
    bin_.mkdir(parents=True)
    words = [command, "bench", "local", "--mpi", "lam"]  # looks for all, starts none
    if os.geteuid() == 0:  # whom no mode keeps out
        words = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *words]
    environ = os.environ | {"PATH": f"{closed}:{bin_}:{os.environ['PATH']}"}
    closed.chmod(0)
    try:
        done = subprocess.run(
            words, env=environ, capture_output=True, text=True, timeout=60, check=False
        )
    finally:
        closed.chmod(0o700)
    assert "Traceback" not in done.stderr
    assert done.returncode == 2 and "give one of mpich" in done.stderr, done.stderr


@pytest.mark.parametrize("kind", mpis.KINDS)
def test_real_program_over_beeline(kind: str, beeline, wheel, tmp_path: Path) -> None:
    """The whole story once per MPI: an MPI program finds the provider loaded."""
    compiler = wheel("mpich" if kind == "impi" else kind).parent / "mpicc"
    source, program = tmp_path / "who.c", tmp_path / "who"
    source.write_text(PROGRAM)
    subprocess.run([str(compiler), "-o", str(program), str(source)], check=True, timeout=60)
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = beeline("run", "--", str(wheel(kind)), "-n", "2", str(program), **root)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines().count("over beeline: sum 1") == 2


@pytest.mark.parametrize("more", [[], ["--used"], ["--thread-multiple"]])
def test_bench_measures_and_saves(beeline, wheel, tmp_path: Path, more: list[str]) -> None:
    """One round of one size: what comes out is complete, whatever the numbers are."""
    launcher = wheel("mpich")
    data, plots = tmp_path / "out" / "data.json", tmp_path / "plots"
    words = "bench local --quick --rounds 1 --sizes 8,4k --tests latency,stream --mpi".split()
    done = beeline(
        *words,
        str(launcher),
        *more,
        "--json",
        str(data),
        "--plot",
        str(plots),
        XDG_CACHE_HOME=str(tmp_path),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads(data.read_text())
    assert record["machine"]["cpu"] and record["failures"] == {}
    assert record["options"]["used"] == ("--used" in more)
    assert ("written and read" in done.stdout) == ("--used" in more)
    assert record["options"]["multiple"] == ("--thread-multiple" in more)
    assert ("MPI_THREAD_MULTIPLE" in done.stdout) == ("--thread-multiple" in more)
    assert {launch["path"] for launch in record["launches"]} == {"default", "beeline"}
    assert all(apart > 0 for launch in record["launches"] for *_, apart in launch["samples"])
    measured = {(row["test"], row["size"]) for row in record["summary"]}
    assert measured == {(t, s) for t in ("latency", "stream") for s in (8, 4096)}
    assert {row["test"] for row in record["limits_summary"]} >= {"line", "library", "bare-domain"}
    for name in ("latency.png", "latency.svg", "throughput.png", "throughput.svg"):
        assert (plots / name).stat().st_size > 1000
        assert str(plots / name) in done.stdout


PROGRAM = """
#include <mpi.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv)
{
	char line[512];
	int rank, sum, loaded = 0;
	FILE *maps;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	maps = fopen("/proc/self/maps", "r");
	while (fgets(line, sizeof(line), maps))
		loaded |= strstr(line, "libbeeline-fi.so") != NULL;
	printf("%s: sum %d\\n", loaded ? "over beeline" : "by default", sum);
	MPI_Finalize();
	return 0;
}
"""


def test_bench_without_mpi(beeline, tmp_path: Path) -> None:
    """What needs no MPI is measured without one, and the table shows it."""
    data = tmp_path / "data.json"
    words = "bench local --quick --rounds 2 --sizes 8 --mpi none --json".split()
    done = beeline(*words, str(data), XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads(data.read_text())
    assert record["launches"] == [] and record["failures"] == {}
    assert {row["test"] for row in record["limits_summary"]} >= {"line", "library", "bare-domain"}
    assert "libfabric, thread domain" in done.stdout
    assert "±" in done.stdout or "apart" in done.stdout  # one sample at each distance
