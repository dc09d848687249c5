"""A process that writes numbered log lines at full speed, and rotates its file as others do."""

import gzip
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

FIRST_DATE = 20260101


def cri_line(number: int) -> bytes:
    return b"2026-01-02T03:04:05.%09dZ stdout F line %d\n" % (number, number)


def pack(path: Path) -> None:
    """Compress as the kubelet does: aside, then renamed, then the old one is removed."""
    new = path.with_name(f"{path.name}.tmp")
    with path.open("rb") as source, gzip.open(new, "wb", compresslevel=1) as target:
        shutil.copyfileobj(source, target)
    new.rename(f"{path}.gz")
    path.unlink()


def kubelet(path: Path, numbers: Iterator[int], last: list[Path]) -> None:
    """Rename to a name with a date, and compress the one before."""
    for before in last:
        pack(before)
    last[:] = [path.with_name(f"{path.name}.{FIRST_DATE + next(numbers)}-030405")]
    path.rename(last[0])


def docker(path: Path, numbers: Iterator[int], last: list[Path]) -> None:
    """Move each file on by one number."""
    for number in range(next(numbers), 0, -1):
        path.with_name(f"{path.name}.{number}").rename(f"{path}.{number + 1}")
    path.rename(f"{path}.1")


def copytruncate(path: Path, numbers: Iterator[int], last: list[Path]) -> None:
    """Copy and truncate as logrotate does. This writer pauses meanwhile, so nothing is lost."""
    shutil.copyfile(path, f"{path}.{FIRST_DATE + next(numbers)}")
    os.truncate(path, 0)


def delete(path: Path, numbers: Iterator[int], last: list[Path]) -> None:
    """Remove the file, as Docker does that keeps one; a reader must be there."""
    time.sleep(0.25)
    path.unlink()


Rotate = Callable[[Path, Iterator[int], list[Path]], None]
ROTATIONS: dict[str, Rotate] = {
    each.__name__: each for each in (kubelet, docker, copytruncate, delete)
}


def write(path: Path, line_count: int, lines_per_file: int, rotate: Rotate) -> None:
    """Write; the last line of each file comes after its rotation, as runtimes reopen late."""
    numbers, last = count(), list[Path]()
    for start in range(0, line_count, lines_per_file):
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        end = min(start + lines_per_file, line_count)
        for number in range(start, end - 1):
            os.write(descriptor, cri_line(number))
        if end < line_count:
            rotate(path, numbers, last)
        os.write(descriptor, cri_line(end - 1))
        os.close(descriptor)


@contextmanager
def writer(
    path: Path, rotation: str, line_count: int, lines_per_file: int
) -> Iterator[subprocess.Popen[bytes]]:
    """Have a process write, until the end of the block."""
    command = [sys.executable, __file__, str(path), rotation, str(line_count), str(lines_per_file)]
    process = subprocess.Popen(command)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[3]), int(sys.argv[4]), ROTATIONS[sys.argv[2]])
