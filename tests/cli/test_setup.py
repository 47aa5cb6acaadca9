# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`beeline setup module` on machines made of files: what it would do, what it says
stands in the way, and that --undo takes away what was put there. The real build is
tried where a kernel's headers are; loading is tests/vm's."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from beeline import kmod, setup
from beeline.errors import BeelineError

TOP = Path(__file__).resolve().parents[2]
RELEASE = "6.1.0-99-test"


class Recorder(setup.System):
    """A machine whose commands only leave their words behind."""

    def __init__(self, root: Path, live: bool = True, lacks: tuple[str, ...] = ()) -> None:
        super().__init__(root, RELEASE, live)
        self.commands: list[str] = []
        self.lacks = lacks
        self.fails: dict[str, str] = {}
        self.says: dict[str, str] = {}
        self.does: dict[str, Callable[[], object]] = {}

    def has(self, command: str) -> bool:
        return command not in self.lacks

    def run(self, *argv: str | Path, cwd: Path | None = None) -> str:
        words = " ".join(map(str, argv))
        self.commands.append(words)
        for begin, message in self.fails.items():
            if words.startswith(begin):
                raise BeelineError(f"{words}\n  {message}")
        if words in self.does:
            self.does[words]()
        return self.says.get(words, "")


def put(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def machine(tmp_path: Path) -> Recorder:
    put(tmp_path / f"lib/modules/{RELEASE}/build/Makefile")
    put(tmp_path / "proc/modules")
    put(tmp_path / "etc/group", "root:x:0:\n")
    return Recorder(tmp_path)


def whats(steps: list[setup.Step]) -> str:
    return "\n".join(step.what for step in steps)


def test_nothing_stands_in_the_way(machine: Recorder) -> None:
    assert setup.obstacles(machine, False, None) == []
    assert setup.obstacles(machine, True, None) == []


OBSTACLES: list[tuple[str, dict[str, str], str]] = [
    ("docker", {".dockerenv": ""}, "container (Docker)"),
    ("podman", {"run/.containerenv": ""}, "container (Podman)"),
    ("lxc", {"run/systemd/container": "lxc\n"}, "container (lxc)"),
    ("nspawn", {"proc/1/environ": "A=b\0container=systemd-nspawn\0"}, "systemd-nspawn"),
    ("lockdown", {"sys/kernel/security/lockdown": "none [integrity] confidentiality"}, "mokutil"),
    ("signatures", {"sys/module/module/parameters/sig_enforce": "Y\n"}, "signed modules only"),
    ("modules disabled", {"proc/sys/kernel/modules_disabled": "1\n"}, "until the next boot"),
]


@pytest.mark.parametrize(("name", "files", "said"), OBSTACLES, ids=[o[0] for o in OBSTACLES])
def test_obstacles(machine: Recorder, name: str, files: dict[str, str], said: str) -> None:
    for path, text in files.items():
        put(machine.root / path, text)
    found = setup.obstacles(machine, False, None)
    assert len(found) == 1 and said in found[0]


def test_lockdown_is_no_obstacle_to_dkms_which_signs(machine: Recorder) -> None:
    put(machine.root / "sys/kernel/security/lockdown", "none integrity [confidentiality]")
    assert setup.obstacles(machine, True, None) == []


def test_missing_headers_and_tools_are_all_named(tmp_path: Path) -> None:
    put(tmp_path / "proc/modules")
    machine = Recorder(tmp_path, lacks=("make", "gcc", "dkms"))
    text = "\n".join(setup.obstacles(machine, False, None))
    for word in (f"linux-headers-{RELEASE}", "make is missing", "gcc is missing"):
        assert word in text
    assert "dkms is missing" in "\n".join(setup.obstacles(machine, True, None))
    assert setup.obstacles(machine, False, tmp_path / "beeline.ko") == []


def test_kernel_without_modules(tmp_path: Path) -> None:
    put(tmp_path / f"lib/modules/{RELEASE}/build/Makefile")
    assert "no modules" in setup.obstacles(Recorder(tmp_path), False, None)[0]
    assert setup.obstacles(Recorder(tmp_path, live=False), False, None) == []


def device(machine: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """What modprobe would bring, and a group and a module that answers."""
    put(machine.root / "dev/beeline")
    monkeypatch.setattr(setup.shutil, "chown", lambda path, group: None)
    monkeypatch.setattr(setup.kmod, "info", lambda path: kmod.Info(abi=1))


def test_install_and_undo(
    machine: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device(machine, monkeypatch)
    ko = tmp_path / "built.ko"
    ko.write_text("module")
    steps = setup.install_steps(machine, TOP, False, ko, tmp_path / "work")
    setup.carry_out(steps, False)
    target = machine.root / f"lib/modules/{RELEASE}/updates/beeline.ko"
    assert target.read_text() == "module"
    assert (machine.root / setup.AT_BOOT).read_text() == "beeline\n"
    assert 'GROUP="beeline"' in (machine.root / setup.RULE).read_text()
    assert machine.commands == [
        f"depmod -b {machine.root} {RELEASE}",
        f"groupadd --prefix {machine.root} --system beeline",
        "modprobe beeline",
    ]
    put(machine.root / "proc/modules", "beeline 28672 0 - Live 0x0 (OE)\n")
    put(machine.root / "etc/group", "root:x:0:\nbeeline:x:999:\n")
    machine.commands.clear()
    setup.carry_out(setup.undo_steps(machine), False)
    assert not target.exists() and not (machine.root / setup.RULE).exists()
    assert not (machine.root / setup.AT_BOOT).exists()
    assert machine.commands == [
        "modprobe -r beeline",
        f"depmod -b {machine.root} {RELEASE}",
        f"groupdel --prefix {machine.root} beeline",
    ]
    put(machine.root / "proc/modules")
    put(machine.root / "etc/group", "root:x:0:\n")
    assert setup.undo_steps(machine) == []


def test_dkms_and_undo(machine: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device(machine, monkeypatch)
    ver = setup.version(TOP)
    steps = setup.install_steps(machine, TOP, True, None, tmp_path / "work")
    setup.carry_out(steps, False)
    tree = machine.root / f"usr/src/beeline-{ver}"
    assert (tree / "dkms.conf").exists() and (tree / "include/uapi/beeline.h").exists()
    assert (tree / "kernel/compat/probes/control.c").exists()
    trees = (
        f"--dkmstree {machine.root}/var/lib/dkms --sourcetree {machine.root}/usr/src "
        f"--installtree {machine.root}/lib/modules"
    )
    assert machine.commands[0] == f"dkms install --force -m beeline -v {ver} -k {RELEASE} {trees}"
    (machine.root / f"var/lib/dkms/beeline/{ver}").mkdir(parents=True)
    machine.commands.clear()
    setup.carry_out(setup.undo_steps(machine), False)
    assert machine.commands == [f"dkms remove -m beeline -v {ver} --all {trees}"]
    assert not tree.exists()
    assert setup.dkms_trees(setup.System()) == []


# --- what is there already ---------------------------------------------------------


def test_dkms_takes_the_place_of_a_plain_module(machine: Recorder, tmp_path: Path) -> None:
    plain = machine.root / f"lib/modules/{RELEASE}/updates/beeline.ko"
    other = machine.root / "lib/modules/5.0-other/updates/beeline.ko"
    put(plain, "module")
    put(other, "module")
    machine.live = False
    steps = setup.install_steps(machine, TOP, True, None, tmp_path / "work")
    setup.carry_out(steps, False)
    assert not plain.exists() and other.exists()


def test_plain_takes_the_place_of_dkms(machine: Recorder, tmp_path: Path) -> None:
    (machine.root / "var/lib/dkms/beeline/0.0.9").mkdir(parents=True)
    put(machine.root / "usr/src/beeline-0.0.9/dkms.conf")
    ko = tmp_path / "built.ko"
    put(ko, "module")
    machine.live = False
    setup.carry_out(setup.install_steps(machine, TOP, False, ko, tmp_path / "work"), False)
    assert machine.commands[0].startswith("dkms remove -m beeline -v 0.0.9 --all")
    assert not (machine.root / "usr/src/beeline-0.0.9").exists()
    assert (machine.root / f"lib/modules/{RELEASE}/updates/beeline.ko").exists()


def module_file(source: str) -> str:
    return f"\x7fELF\0version=0.1.0\0srcversion={source}\0depends=\0"


def loaded(machine: Recorder, source: str) -> None:
    put(machine.root / "proc/modules", "beeline 28672 0 - Live 0x0 (OE)\n")
    put(machine.root / "sys/module/beeline/srcversion", f"{source}\n")


def unloaded(machine: Recorder) -> None:
    put(machine.root / "proc/modules")
    (machine.root / "sys/module/beeline/srcversion").unlink()


def upgrade(machine: Recorder, tmp_path: Path, new: str) -> None:
    ko = tmp_path / "built.ko"
    put(ko, module_file(new))
    setup.carry_out(setup.install_steps(machine, TOP, False, ko, tmp_path / "work"), False)


def test_an_older_module_is_replaced(
    machine: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device(machine, monkeypatch)
    loaded(machine, "AAAA")
    machine.does = {
        "modprobe -r beeline": lambda: unloaded(machine),
        "modprobe beeline": lambda: loaded(machine, "BBBB"),
    }
    upgrade(machine, tmp_path, "BBBB")
    assert machine.commands[-2:] == ["modprobe -r beeline", "modprobe beeline"]
    machine.commands.clear()
    upgrade(machine, tmp_path, "BBBB")
    assert "modprobe -r beeline" not in machine.commands


def test_an_older_module_is_in_use(
    machine: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device(machine, monkeypatch)
    loaded(machine, "AAAA")
    machine.fails = {"modprobe -r beeline": "FATAL: Module beeline is in use."}
    with pytest.raises(BeelineError, match="(?s)fuser.*older one stays loaded.*or reboot"):
        upgrade(machine, tmp_path, "BBBB")
    assert "modprobe beeline" not in machine.commands


def test_another_module_than_the_installed_answers(
    machine: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device(machine, monkeypatch)
    machine.does = {"modprobe beeline": lambda: loaded(machine, "AAAA")}
    with pytest.raises(BeelineError, match="AAAA.*isn't the one that was installed.*BBBB"):
        upgrade(machine, tmp_path, "BBBB")


def test_sum_of_a_compressed_module(machine: Recorder) -> None:
    ko = machine.root / f"lib/modules/{RELEASE}/updates/dkms/beeline.ko.xz"
    put(ko)
    machine.says = {f"modinfo -F srcversion {ko}": "CCCC\n"}
    loaded(machine, "CCCC")
    assert setup.is_current(machine)
    loaded(machine, "AAAA")
    assert not setup.is_current(machine)


PACKAGES = [
    # a file that dpkg has, what dpkg-query says of it
    ("usr/src/beeline-0.1.0", "beeline-dkms: {}\n"),
    ("usr/lib/udev/rules.d/60-beeline.rules", "beeline-dkms: {}\n"),
    ("usr/lib/modules-load.d/beeline.conf", "diversion by x from: {0}\nbeeline-dkms: {0}\n"),
]


@pytest.mark.parametrize(("name", "said"), PACKAGES)
def test_files_of_a_package_are_left_alone(machine: Recorder, name: str, said: str) -> None:
    put(machine.root / name / "dkms.conf" if "src" in name else machine.root / name)
    admin = machine.root / "var/lib/dpkg"
    query = f"dpkg-query --admindir={admin} -S /{name}"
    machine.says = {query: said.format("/" + name)}
    assert setup.packaged(machine) is None  # no database: no Debian
    admin.mkdir(parents=True)
    for dkms in (False, True):
        (found,) = setup.obstacles(machine, dkms, None)
        assert "Debian package beeline-dkms" in found and "apt-get purge beeline-dkms" in found
    for dry in (False, True):
        with pytest.raises(BeelineError, match="beeline-dkms: apt-get purge beeline-dkms takes"):
            setup.undo(machine, dry)
    assert (machine.root / name).exists()
    assert all(command == query for command in machine.commands)


def test_own_files_belong_to_no_package(machine: Recorder) -> None:
    (machine.root / "var/lib/dpkg").mkdir(parents=True)
    put(machine.root / "usr/src/beeline-0.1.0/dkms.conf")
    machine.fails = {"dpkg-query": "no path found matching pattern"}
    assert setup.packaged(machine) is None
    assert setup.obstacles(machine, True, None) == []
    assert "remove" in whats(setup.undo_steps(machine))


@pytest.mark.skipif(not Path("/var/lib/dpkg/info").is_dir(), reason="no dpkg here")
def test_dpkg_itself(tmp_path: Path) -> None:
    """Its real answer, from a database of one package."""
    put(tmp_path / "usr/lib/udev/rules.d/60-beeline.rules")
    admin = tmp_path / "var/lib/dpkg"
    put(
        admin / "status",
        "Package: beeline-dkms\nStatus: install ok installed\nMaintainer: x <x@localhost>\n"
        "Architecture: all\nVersion: 1\nDescription: x\n",
    )
    put(admin / "info/format", "1\n")
    put(
        admin / "info/beeline-dkms.list",
        "/.\n/usr\n/usr/lib\n/usr/lib/udev/rules.d/60-beeline.rules\n",
    )
    (admin / "updates").mkdir()
    assert setup.packaged(setup.System(tmp_path)) == "beeline-dkms"
    put(admin / "info/beeline-dkms.list", "/.\n/usr\n")
    assert setup.packaged(setup.System(tmp_path)) is None


def test_group_with_members_stays(machine: Recorder) -> None:
    put(machine.root / "etc/group", "beeline:x:999:ada,grace\n")
    assert "group" not in whats(setup.undo_steps(machine))


@pytest.mark.parametrize(
    ("command", "message", "said"),
    [
        ("modprobe beeline", "ERROR: Key was rejected by service", "mokutil"),
        ("modprobe beeline", "ERROR: Operation not permitted", "may not load modules"),
        ("modprobe -r beeline", "FATAL: Module beeline is in use.", "fuser"),
    ],
)
def test_loading_fails(machine: Recorder, command: str, message: str, said: str) -> None:
    machine.fails = {command: message}
    with pytest.raises(BeelineError, match=said):
        (setup.unload if "-r" in command else setup.load)(machine)


def test_not_root(machine: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(BeelineError, match="sudo beeline setup module"):
        setup.need_root(machine)


def test_install_list_is_complete() -> None:
    """kernel/meson.build names every file that the module is built from."""
    named = set(
        re.findall(
            r"'([^']+\.\w+|[^']*/?(?:Kbuild|Makefile|VERSION))'",
            (TOP / "kernel/meson.build").read_text(),
        )
    )
    listed = subprocess.run(
        ["git", "-C", TOP, "ls-files", "kernel"], capture_output=True, text=True, check=False
    ).stdout.split()
    if not listed:
        pytest.skip("no checkout of git")
    wanted = {n.removeprefix("kernel/") for n in listed} - {
        "meson.build",
        ".gitignore",
        ".clang-format",
    }
    assert named - {"../include/uapi/beeline.h"} == wanted


def headers() -> Path | None:
    """The headers of any kernel here."""
    found = sorted(Path("/usr/src").glob("linux-headers-*-amd64/Makefile"))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "beeline/kernels"
    found += sorted(cache.glob("6.1-*/usr/src/linux-headers-*-cloud-amd64/Makefile"))
    return found[-1].parent if found else None


def test_real_build_into_an_image(tmp_path: Path, beeline: Callable[..., object]) -> None:
    build = headers()
    if not build:
        pytest.skip("no kernel headers on this machine")
    modules = tmp_path / f"lib/modules/{RELEASE}"
    modules.mkdir(parents=True)
    (modules / "build").symlink_to(build)
    put(tmp_path / "etc/group", "beeline:x:999:\n")
    args = ("setup", "module", "--root", str(tmp_path), "--kernel", RELEASE)
    done = beeline(*args)
    assert done.returncode == 0, done.stderr
    assert (modules / "updates/beeline.ko").stat().st_size > 10000
    sources = setup.source_of(setup.System(tmp_path), modules / "updates/beeline.ko")
    assert re.fullmatch("[0-9A-F]{20,}", sources), sources
    assert "beeline.ko" in (modules / "modules.dep").read_text()
    assert "would" not in done.stdout and (tmp_path / setup.RULE).exists()
    done = beeline(*args, "--undo")
    assert done.returncode == 0, done.stderr
    assert not (modules / "updates/beeline.ko").exists()


def test_dry_run_changes_nothing(tmp_path: Path, beeline: Callable[..., object]) -> None:
    done = beeline("setup", "module", "--dry-run", "--root", str(tmp_path), "--kernel", RELEASE)
    assert "would build beeline.ko" in done.stdout
    assert "but: the headers of kernel" in done.stdout
    assert done.returncode == 1 and not list(tmp_path.iterdir())


def test_usage(beeline: Callable[..., object]) -> None:
    assert beeline("setup", "module", "--ko", "/nowhere.ko").returncode == 2
    assert beeline("setup", "module", "--ko", "/nowhere.ko", "--dkms").returncode == 2


def test_numbers_of_requests() -> None:
    """As the C compiler computes them from the header."""
    program = (
        '#include <stdio.h>\n#include "uapi/beeline.h"\n'
        'int main(void){printf("%u %u %zu %zu", (unsigned)BEELINE_IOC_INFO,'
        "(unsigned)BEELINE_IOC_STAT,sizeof(struct beeline_info),sizeof(struct beeline_stat));}"
    )
    out = Path(os.environ.get("TMPDIR", "/tmp")) / f"beeline-numbers-{os.getpid()}"
    subprocess.run(
        ["gcc", "-xc", "-", f"-I{TOP / 'include'}", "-o", out], input=program, text=True, check=True
    )
    try:
        said = subprocess.run([out], capture_output=True, text=True, check=True).stdout.split()
    finally:
        out.unlink()
    import ctypes

    assert [int(n) for n in said] == [
        kmod.INFO,
        kmod.STAT,
        ctypes.sizeof(kmod.Info),
        ctypes.sizeof(kmod.Stat),
    ]
