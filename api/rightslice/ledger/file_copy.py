"""Copies a file in a process of its own: python -m rightslice.ledger.file_copy FROM TO.

DuckDB holds its file by a POSIX lock, which a process loses on all its descriptors as soon as it
closes any of them (fcntl(2)): to read the ledger here would let a second process in.
"""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

CHUNK_BYTES = 1 << 30
# The kernel or the disks cannot do it themselves.
CANNOT = (errno.ENOSYS, errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM)


def copy_file(source: Path, target: Path) -> None:
    """Copy a file that this process may hold open; on the disk when it returns. Raises OSError."""
    done = subprocess.run(  # noqa: S603  # our own module, no shell
        [sys.executable, "-m", __name__, str(source), str(target)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        complaint = done.stderr.strip().splitlines()
        raise OSError(complaint[-1] if complaint else f"copying ended with {done.returncode}")


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as reader, target.open("wb") as writer:
        try:
            # Shares the blocks where the file system can (XFS, Btrfs), which takes no time.
            while os.copy_file_range(reader.fileno(), writer.fileno(), CHUNK_BYTES):
                pass
        except OSError as error:
            if error.errno not in CANNOT:
                raise
            reader.seek(0)
            writer.seek(0)
            shutil.copyfileobj(reader, writer, CHUNK_BYTES >> 10)
        writer.flush()
        os.fsync(writer.fileno())


if __name__ == "__main__":
    try:
        _copy(Path(sys.argv[1]), Path(sys.argv[2]))
    except OSError as copy_error:
        sys.exit(f"{copy_error.strerror}: {sys.argv[2]}")
