"""Files of sysfs that are not there, and what is no news of a file."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.open_files import no_file_more
from support.sysfs_tree import link, make_unreadable, write

from rightslice.exporter.host.net.sysfs import (
    Entry,
    entries_in,
    link_name,
    names_in,
    read_text,
    read_whole,
)
from rightslice.exporter.host.reading_error import ReadingError


@pytest.mark.parametrize("name", ["nowhere", "file/below", "folder", "loop"])
def test_what_is_not_there_or_no_file_is_nothing(name: str, tmp_path: Path) -> None:
    write(tmp_path, {"file": "5"})
    make_unreadable(tmp_path / "folder")
    link(tmp_path / "loop", tmp_path / "loop")

    assert (read_text(tmp_path / name), read_whole(tmp_path / name)) == (None, None)
    assert (names_in(tmp_path / name), entries_in(tmp_path / name)) == ([], [])


@pytest.mark.parametrize("read", [read_text, read_whole, names_in, entries_in])
def test_where_no_file_can_be_opened_that_is_said(
    read: Callable[[Path], object], tmp_path: Path
) -> None:
    with no_file_more(), pytest.raises(ReadingError, match="LimitNOFILE=") as raised:
        read(tmp_path)

    assert raised.value.reason == "too_many_open_files"
    assert str(tmp_path) in str(raised.value)


def test_a_node_that_can_open_no_file_says_so_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> int:
        raise OSError(errno.ENFILE, os.strerror(errno.ENFILE), str(tmp_path))

    monkeypatch.setattr(os, "open", refused)

    with pytest.raises(ReadingError, match=r"fs\.file-max"):
        read_text(tmp_path)


def test_members_of_a_class_are_told_apart_from_those_made_anew(tmp_path: Path) -> None:
    link(tmp_path / "b", Path("../one"))
    write(tmp_path, {"a": "no link"})
    before = entries_in(tmp_path)
    assert before == entries_in(tmp_path)
    assert [(each.name, each.target) for each in before] == [("a", ""), ("b", "../one")]
    assert link_name(tmp_path / "b") == "one"

    (tmp_path / "b").unlink()
    link(tmp_path / "b", Path("../other"))

    assert entries_in(tmp_path)[1] == Entry("b", os.lstat(tmp_path / "b").st_ino, "../other")
