"""Real disks that are small or read-only, seen by one process only and gone with it."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

# As root a mount namespace is enough; without, a user namespace lends the right to mount.
UNSHARE = (("unshare", "-m"), ("unshare", "-rm"))
MOUNT = 'mount -t tmpfs -o size="$1" tmpfs "$2" && shift 2 && exec "$@"'
READ_ONLY = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"'


def run_on_small_disk(
    folder: Path, size: str, command: Sequence[str], working_folder: Path
) -> subprocess.CompletedProcess[str]:
    """Run a command for which `folder` is a disk of `size`; fails the test where none can be."""
    return _run_mounted(MOUNT, [size, str(folder)], command, working_folder)


def run_on_read_only_disk(
    folder: Path, command: Sequence[str], working_folder: Path
) -> subprocess.CompletedProcess[str]:
    """Run a command for which `folder` cannot be written; fails the test where that cannot be."""
    return _run_mounted(READ_ONLY, [str(folder)], command, working_folder)


def _run_mounted(
    mount: str, told: Sequence[str], command: Sequence[str], working_folder: Path
) -> subprocess.CompletedProcess[str]:
    def run(unshare: Sequence[str], what: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*unshare, "sh", "-c", mount, "sh", *told, *what],
            cwd=working_folder,
            capture_output=True,
            text=True,
            check=False,
        )

    if shutil.which("unshare") is None:
        pytest.fail("cannot mount a disk of its own: this test needs unshare, of util-linux")
    complaints = []
    for unshare in UNSHARE:
        probe = run(unshare, ["true"])
        if probe.returncode == 0:
            return run(unshare, command)
        complaints.append(probe.stderr.strip())
    pytest.fail(
        "cannot mount a disk of its own: this test needs root, or user namespaces "
        f"(kernel.unprivileged_userns_clone=1): {'; '.join(complaints)}"
    )
