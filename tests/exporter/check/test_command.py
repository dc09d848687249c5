"""The command: its table, its JSON, its exit codes, and the real process."""

import json
import os
import subprocess
import sys
import threading

import pytest
from support.sysfs_tree import SysfsTree, pcie

from rightslice.exporter.check import command
from rightslice.exporter.check.command import main
from rightslice.exporter.check.patience import Patience


def flags(tree: SysfsTree, *more: str) -> list[str]:
    (tree.root / "proc").mkdir(exist_ok=True)
    return [f"--path.sysfs={tree.sysfs}", f"--path.procfs={tree.root / 'proc'}", *more]


@pytest.fixture
def bare(tree: SysfsTree) -> SysfsTree:
    """A node with neither network cards nor cards."""
    (tree.sysfs / "class").mkdir(parents=True)
    return tree


@pytest.fixture
def weak(tree: SysfsTree) -> SysfsTree:
    """A node with something wrong."""
    tree.add_nic(files=pcie("8.0 x8", "16.0 x16"))
    return tree


def test_a_node_without_rdma_has_one_line(
    bare: SysfsTree, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(flags(bare), {}) == 0
    assert capsys.readouterr().out == "no RDMA devices\n"


def test_the_table_has_the_worst_first_with_its_remedy(
    weak: SysfsTree, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(flags(weak), {}) == 1

    heading, first, remedy, *_, counts = capsys.readouterr().out.splitlines()
    assert heading.split() == ["LEVEL", "CHECK", "SUBJECT", "FINDING"]
    assert first.split()[:3] == ["warning", "link", "mlx5_0"]
    assert remedy.strip().startswith("remedy: reseat")
    assert first.index("PCIe") == remedy.index("remedy") == heading.index("FINDING")
    assert counts == "warning: 1, unknown: 0, ok: 3"


def test_json_says_the_same(weak: SysfsTree, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(flags(weak, "--format", "json"), {}) == 1

    report = json.loads(capsys.readouterr().out)
    assert report["counts"] == {"warning": 1, "unknown": 0, "ok": 3}
    (warning,) = (each for each in report["findings"] if each["level"] == "warning")
    assert set(warning) == {"check", "subject", "level", "text", "remedy"}
    assert (warning["check"], warning["subject"]) == ("link", "mlx5_0")


def test_unknown_alone_is_no_failure(tree: SysfsTree, capsys: pytest.CaptureFixture[str]) -> None:
    tree.add_nic()

    assert main(flags(tree), {}) == 0
    assert "unknown  link" in capsys.readouterr().out


def test_a_device_without_a_driver_is_not_taken_for_good(
    bare: SysfsTree, capsys: pytest.CaptureFixture[str]
) -> None:
    (bare.sysfs / "class/infiniband/rxe0/ports/1").mkdir(parents=True)

    assert main(flags(bare), {}) == 0

    assert "neither driver nor PCI function is shown" in capsys.readouterr().out


def test_what_cannot_look_or_print_is_no_warning(
    weak: SysfsTree, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr("sys.stdout", None)
        assert main(flags(weak), {}) == 3
    assert "could not print" in capsys.readouterr().err

    def refuse(*_: object) -> None:
        raise ModuleNotFoundError("No module named 'x'")

    monkeypatch.setattr(command, "_findings", refuse)
    assert main(flags(weak), {}) == 3
    assert "could not look: No module named 'x'" in capsys.readouterr().err


@pytest.mark.integration
def test_a_full_disk_is_no_warning_either(weak: SysfsTree) -> None:
    call = [sys.executable, "-m", "rightslice.exporter", "check", *flags(weak)]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            call, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60
        )

    assert done.returncode == 3
    assert "could not print: No space left on device" in done.stderr


def test_a_procfs_that_is_no_folder_is_bad_usage(
    bare: SysfsTree, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([*flags(bare), "--path.procfs=/nonexistent"], {})

    assert "--path.procfs" in capsys.readouterr().err


def test_flags_come_from_the_environment_too(
    weak: SysfsTree, capsys: pytest.CaptureFixture[str]
) -> None:
    environment = {
        "RIGHTSLICE_PATH_SYSFS": str(weak.sysfs),
        "RIGHTSLICE_PATH_PROCFS": str(weak.root / "proc"),
        "RIGHTSLICE_RDMA_EXCLUDE": "mlx5_*",
    }
    (weak.root / "proc").mkdir()

    assert main([], environment) == 0
    assert capsys.readouterr().out == "no RDMA devices\n"
    assert main(["--rdma.exclude=hfi*"], environment) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--path.sysfs=/nonexistent"], "--path.sysfs: '/nonexistent' has neither"),
        (["--path.sysfs="], "want a path, got nothing"),
        (["--format=xml"], "invalid choice: 'xml'"),
        (["--simulate=no-such-scenario"], "no-such-scenario"),
        (["--unheard-of"], "unrecognized arguments: --unheard-of"),
    ],
)
def test_bad_usage_exits_with_2_and_a_sentence(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments, {})

    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_a_simulated_node_can_be_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--simulate=pfc-storm-sent", "--format=json"], {}) in (0, 1)

    findings = json.loads(capsys.readouterr().out)["findings"]
    assert not [each for each in findings if "ended early" in each["text"]]
    watchdogs = [each for each in findings if each["check"] == "pfc_watchdog"]
    assert watchdogs
    assert "unknown" not in {each["level"] for each in watchdogs}


def test_what_a_simulated_node_has_wrong_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--simulate=degraded-link"], {}) == 1

    table = capsys.readouterr().out
    assert "warning  link " in table
    assert "warning  link_rate " in table


def test_a_list_of_devices_that_does_not_come_is_said(
    bare: SysfsTree, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over = threading.Event()

    def hang(*_: object) -> None:
        is_over.wait(10)

    monkeypatch.setattr(command, "look_at", hang)
    monkeypatch.setattr(command, "Patience", lambda: Patience(0.05, 10))

    assert main(flags(bare), {}) == 0

    is_over.set()
    assert capsys.readouterr().out.startswith(
        "the list of the node's devices did not come back within 0.05 s: the kernel"
    )


HANGING = """
import sys, threading
from rightslice.exporter.check import command
from rightslice.exporter.check.kernel import Kernel
from rightslice.exporter.check.patience import Patience
from rightslice.exporter.host.net.ethtool import Ethtool

class Hanging:
    def call(self, device, request):
        threading.Event().wait()

    def close(self):
        pass

command.real_kernel = lambda: __import__("contextlib").nullcontext(
    Kernel(Ethtool(Hanging()), lambda netdev: None)
)
command.Patience = lambda: Patience(0.1, 10)
sys.exit(command.main(sys.argv[1:], {}))
"""


@pytest.mark.integration
def test_a_kernel_that_hangs_keeps_neither_the_findings_nor_the_process(weak: SysfsTree) -> None:
    weak.add_nic("mlx5_1", "0000:5e:00.0", netdev="eth1")

    done = subprocess.run(
        [sys.executable, "-c", HANGING, *flags(weak)],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )

    assert (done.returncode, done.stderr) == (1, "")
    assert "warning  link" in done.stdout
    assert "this check did not come back within 0.1 s" in done.stdout


@pytest.mark.integration
def test_the_program_dispatches_to_it_and_needs_no_nvml(weak: SysfsTree) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rightslice.exporter", "check", *flags(weak)],
        env=os.environ | {"LD_LIBRARY_PATH": str(weak.root), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )

    assert (done.returncode, done.stderr) == (1, "")
    assert "warning  link" in done.stdout
