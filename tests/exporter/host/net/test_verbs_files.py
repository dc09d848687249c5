"""RDMA's device files, of real processes and of such as would lead us astray."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rightslice.exporter.host.net.verbs_files import OpenFiles, sees_verbs

PROCFS = Path("/proc")
MANY = 10_000
SAY_AND_WAIT = "print('ready', flush=True); sys.stdin.read()"


@contextmanager
def running(begin: str) -> Iterator[int]:
    """Let another Python run these statements and wait, for the block's length."""
    command = [sys.executable, "-c", f"import os, sys; {begin}; {SAY_AND_WAIT}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
        process.stdin.close()


@pytest.fixture
def device(tmp_path: Path) -> Path:
    """Give a file that has the name of a device."""
    file = tmp_path / "infiniband/uverbs0"
    file.parent.mkdir()
    file.touch()
    return file


def test_an_open_device_is_found(device: Path) -> None:
    with running(f"file = open({str(device)!r})") as process_id:
        assert OpenFiles(PROCFS, MANY).has_verbs(process_id) is True


def test_a_device_that_was_removed_meanwhile_is_still_open(device: Path) -> None:
    with running(f"file = open({str(device)!r})") as process_id:
        device.unlink()

        assert OpenFiles(PROCFS, MANY).has_verbs(process_id) is True


def test_without_an_open_device_that_is_certain() -> None:
    with running("file = open('/dev/null')") as process_id:
        assert OpenFiles(PROCFS, MANY).has_verbs(process_id) is False


@pytest.mark.parametrize(
    ("target", "is_verbs"),
    [
        ("/dev/infiniband/uverbs12", True),
        ("/infiniband/uverbs0 (deleted)", True),
        ("/dev/infiniband/rdma_cm", False),
        ("/dev/infiniband/uverbs0.log", False),
        ("/dev/uverbs0", False),
        ("anon_inode:/infiniband/uverbs0", False),
    ],
)
def test_a_device_is_known_by_its_whole_name(tmp_path: Path, target: str, is_verbs: bool) -> None:
    (tmp_path / "7/fd").mkdir(parents=True)
    (tmp_path / "7/fd/3").symlink_to(target)

    assert OpenFiles(tmp_path, MANY).has_verbs(7) is is_verbs


def test_of_a_process_that_has_ended_nothing_is_known() -> None:
    with running("pass") as process_id:
        pass

    assert OpenFiles(PROCFS, MANY).has_verbs(process_id) is None


def test_a_process_with_very_many_files_is_left_unknown() -> None:
    files = OpenFiles(PROCFS, 2)

    with running("files = [open('/dev/null') for _ in range(8)]") as process_id:
        assert files.has_verbs(process_id) is None
        assert files.left_count == 0
        assert files.has_verbs(process_id) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_files_that_may_not_be_seen_are_unknown() -> None:
    look = (
        f"from rightslice.exporter.host.net.verbs_files import OpenFiles; "
        f"from pathlib import Path; files = OpenFiles(Path('/proc'), {MANY}); "
        f"os.setgid(65534); os.setuid(65534); print(files.has_verbs({os.getpid()}))"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", f"import os; {look}"]

    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)

    assert told.stdout == "None\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change its root directory")
def test_a_root_of_its_own_is_looked_into(tmp_path: Path) -> None:
    with running(f"os.chroot({str(tmp_path)!r})") as process_id:
        assert sees_verbs(PROCFS, process_id) is False
        (tmp_path / "dev/infiniband").mkdir(parents=True)
        (tmp_path / "dev/infiniband/rdma_cm").touch()
        assert sees_verbs(PROCFS, process_id) is False
        (tmp_path / "dev/infiniband/uverbs0").touch()
        assert sees_verbs(PROCFS, process_id) is True


@pytest.mark.parametrize("link", ["dev", "dev/infiniband"])
def test_no_link_in_a_foreign_root_is_followed(tmp_path: Path, device: Path, link: str) -> None:
    root = tmp_path / "proc" / "7" / "root"
    (root / link).parent.mkdir(parents=True)
    (root / link).symlink_to(tmp_path if link == "dev" else device.parent)

    assert sees_verbs(tmp_path / "proc", 7) is None


def test_a_root_that_cannot_be_opened_tells_nothing(tmp_path: Path) -> None:
    assert sees_verbs(tmp_path, 7) is None


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    (tmp_path / "7" / "root" / "dev").mkdir(parents=True)
    before = os.listdir("/proc/self/fd")

    sees_verbs(tmp_path, 7)

    assert os.listdir("/proc/self/fd") == before
