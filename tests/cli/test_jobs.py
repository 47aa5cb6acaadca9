# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Which processes are ranks of one job: trees of /proc made for each case, and one real job."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from beeline import jobs, segments
from beeline.jobs import Job, Place

DEADLINE = 60.0


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A process of a made-up /proc."""
    monkeypatch.setattr(segments, "PROC", tmp_path)

    def make(pid: int, parent: int, command: str, **environ: str) -> None:
        folder = tmp_path / str(pid)
        folder.mkdir()
        name = command.split()[0].rpartition("/")[2]
        (folder / "stat").write_text(f"{pid} (a) b) S {parent} 1 1 0\n")
        (folder / "comm").write_text(f"{name[:15]}\n")
        (folder / "cmdline").write_bytes(command.replace(" ", "\0").encode() + b"\0")
        variables = "\0".join(f"{k}={v}" for k, v in environ.items())
        (folder / "environ").write_bytes(variables.encode() + b"\0")

    return make


def test_ranks_of_a_launcher(proc) -> None:
    proc(10, 1, "/opt/mpich/bin/mpiexec -n 2 ./app")
    proc(11, 10, "/opt/mpich/bin/hydra_pmi_proxy --control-port here:1")
    proc(12, 11, "./app", PMI_RANK="0")
    proc(13, 11, "sh -c ./app")  # a wrapper between
    proc(14, 13, "./app", PMI_RANK="1")
    job = Job("10", 10, "/opt/mpich/bin/mpiexec -n 2 ./app")
    assert jobs.place(12) == Place(job, 0)
    assert jobs.place(14) == Place(job, 1)
    assert jobs.heading(job, [0, 1]) == (
        "Job of process 10: /opt/mpich/bin/mpiexec -n 2 ./app; ranks 0-1 here"
    )


def test_two_jobs_of_one_shell(proc) -> None:
    proc(9, 1, "bash")
    for launcher in (10, 20):
        proc(launcher, 9, "prterun -n 1 ./app")
        proc(launcher + 1, launcher, "./app", PMIX_RANK="0", PMIX_NAMESPACE="same")
    assert jobs.place(11).job != jobs.place(21).job


@pytest.mark.parametrize(
    ("command", "environ", "name"),
    [
        ("orted --daemonize", {"PMIX_RANK": "3"}, "10"),  # the launcher is on another node
        ("sshd", {"PMIX_NAMESPACE": "job.1", "PMIX_RANK": "3"}, "job.1 (PMIX_NAMESPACE)"),
        ("sshd", {"SLURM_JOB_ID": "77", "PMI_RANK": "3"}, "77 (SLURM_JOB_ID)"),
    ],
)
def test_ranks_whose_launcher_is_elsewhere(
    command: str, environ: dict[str, str], name: str, proc
) -> None:
    proc(10, 1, command)
    proc(11, 10, "./app", **environ)
    assert jobs.place(11).job.name == name and jobs.place(11).rank == 3


def test_what_is_no_job_or_may_not_be_read(proc) -> None:
    proc(10, 1, "bash")
    proc(11, 10, "./app", PMI_RANK="x")
    assert jobs.place(11) == Place() == jobs.place(12345)


def test_order() -> None:
    one, two = Job("1", 1, "mpiexec"), Job("2", 2, "mpiexec")
    given = [Place(), Place(two, 1), Place(one, None), Place(two, 0)]
    assert jobs.by_job(given, lambda place: place) == [
        (two, [Place(two, 0), Place(two, 1)]),
        (one, [Place(one, None)]),
        (jobs.NONE, [Place()]),
    ]


PROGRAM = """
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
	int rank, sum;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0) {
		puts("ready");
		fflush(stdout);
		getchar();
	}
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Finalize();
	return 0;
}
"""


def test_stat_and_nodemem_show_a_job_and_its_ranks(beeline, wheel, tmp_path: Path) -> None:
    launcher = wheel("mpich")
    source, program = tmp_path / "wait.c", tmp_path / "wait"
    source.write_text(PROGRAM)
    compiler = launcher.parent / "mpicc"
    subprocess.run([str(compiler), "-o", str(program), str(source)], check=True, timeout=60)
    settings = beeline("env", "--mpi", str(launcher)).stdout
    with subprocess.Popen(
        ["sh", "-c", f'{settings}\nexec "$@"', "sh", str(launcher), "-n", "2", str(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as job:
        try:
            assert job.stdout.readline() == "ready\n"
            record = json.loads(beeline("stat", "--json").stdout)
            mine = [e for e in record["endpoints"] if e["job"] == str(job.pid)]
            assert sorted(e["rank"] for e in mine) == [0, 1]
            pids = [str(e["pid"]) for e in mine]
            shown = [beeline("stat").stdout, beeline("nodemem", *pids).stdout]
        finally:
            job.stdin.close()
            job.wait(DEADLINE)
    for text in shown:
        heading = next(t for t in text.splitlines() if t.startswith(f"Job of process {job.pid}: "))
        assert heading.endswith("; ranks 0-1 here") and "-n 2" in heading
    assert "wait " + pids[0] + ", rank" in shown[0]
