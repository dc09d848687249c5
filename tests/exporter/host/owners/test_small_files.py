"""Bounded reads of files that others write."""

import os
from pathlib import Path

import pytest

from rightslice.exporter.host.owners.small_files import CHUNK_BYTES, read_start


def test_a_file_is_read_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * (2 * CHUNK_BYTES + 1))

    assert read_start(file, 10 * CHUNK_BYTES) == file.read_bytes()


def test_a_long_file_is_cut(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"abcdef")

    assert read_start(str(file), 4) == b"abcd"


def test_an_absent_file_and_a_folder_give_nothing(tmp_path: Path) -> None:
    assert read_start(tmp_path / "missing", 4) is None
    assert read_start(tmp_path, 4) is None
    assert read_start(f"{tmp_path}/\0", 4) is None


def test_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")

    assert read_start(tmp_path / "fifo", 4) == b""


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_forbidden_file_gives_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch(mode=0)

    assert read_start(tmp_path / "file", 4) is None
