"""Whether a file changed since it was read."""

import os
from pathlib import Path

from rightslice.feeders.targets.file_stamp import stamp


def test_an_unchanged_file_is_not_stale(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a", encoding="utf-8")

    assert not stamp(tmp_path / "f").is_stale()


def test_a_file_that_was_swapped_for_another_of_the_same_size_and_time_is_stale(
    tmp_path: Path,
) -> None:
    file, other = tmp_path / "f", tmp_path / "g"
    for each in (file, other):
        each.write_text(each.name, encoding="utf-8")
        os.utime(each, (1000, 1000))
    before = stamp(file)

    other.rename(file)

    assert before.is_stale()


def test_a_file_that_went_and_one_that_came_are_stale(tmp_path: Path) -> None:
    file = tmp_path / "f"
    absent = stamp(file)
    file.write_text("a", encoding="utf-8")
    present = stamp(file)
    came = absent.is_stale()
    file.unlink()

    assert (came, present.is_stale(), absent.is_stale()) == (True, True, False)
