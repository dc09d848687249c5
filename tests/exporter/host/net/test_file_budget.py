"""Counters of more files than the process may keep open, and than it can open at all."""

import errno
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.network_node import driver_of
from support.open_files import no_file_more
from support.sysfs_tree import write

from rightslice.exporter.host.net.counter_files import CounterFiles, DeviceGoneError
from rightslice.exporter.host.net.file_budget import MOST_OPEN, OF_PROCESS, FileBudget
from rightslice.exporter.host.reading_error import ReadingError

MLX5 = driver_of("mlx5_core")
RATE = 50e9
Values = dict[tuple[str, tuple[str, ...]], float]
Open = Callable[..., CounterFiles]


@pytest.fixture
def opened() -> Iterator[Open]:
    """Open the counters of a folder; they are closed with the test."""
    opened: list[CounterFiles] = []

    def files(folder: Path, budget: FileBudget = OF_PROCESS) -> CounterFiles:
        opened.append(CounterFiles(folder, MLX5, budget=budget))
        return opened[-1]

    yield files
    for each in opened:
        each.close()


def read(files: CounterFiles) -> Values:
    return {key: value for key, (_, value) in files.read(1.0, RATE).items()}


def one(folder: Path, name: str, text: str) -> Path:
    """Write one file of a counter; give the folder."""
    write(folder / "hw_counters", {name: text})
    return folder


def open_count() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize(
    ("limit", "most_open"), [(7, 3), (1024, 512), (1_000_000, MOST_OPEN), (-1, MOST_OPEN)]
)
def test_half_of_what_the_process_may_open_may_stay_open(
    limit: int, most_open: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    budget = FileBudget()

    assert sum(budget.take() for _ in range(MOST_OPEN + 5)) == most_open
    budget.give_back(2)
    assert [budget.take() for _ in range(3)] == [True, True, False]


def test_more_files_than_may_stay_open_are_read_all_the_same(opened: Open, tmp_path: Path) -> None:
    """Twenty ports and the usual limit of 1024 leave no descriptor to answer a scrape with."""
    write(tmp_path / "counters", {"port_rcv_data": "1", "port_rcv_packets": "8"})
    before_count, budget = open_count(), FileBudget(3)
    first, second = (opened(tmp_path, budget=budget) for _ in range(2))
    assert open_count() == before_count + 3

    write(tmp_path / "counters", {"port_rcv_packets": "9"})
    assert read(first) == read(second)
    assert read(second)["rdma_receive_packets_total", ()] == 9
    assert (second.unreadable_count, open_count()) == (0, before_count + 3)

    first.close()
    opened(tmp_path, budget=budget)
    assert open_count() == before_count + 3


def test_what_is_not_kept_open_tells_as_well_that_the_device_is_gone(
    opened: Open, tmp_path: Path
) -> None:
    files = opened(one(tmp_path, "out_of_buffer", "8"), budget=FileBudget(0))
    (tmp_path / "hw_counters/out_of_buffer").unlink()

    with pytest.raises(DeviceGoneError):
        files.read(1.0, RATE)


def test_where_no_file_can_be_opened_nothing_is_taken_for_unreadable_or_gone(
    opened: Open, tmp_path: Path
) -> None:
    name = "out_of_sequence"
    files = opened(one(tmp_path, name, str(2**32 - 5)), budget=FileBudget(0))
    read(files)
    one(tmp_path, name, "4")

    with no_file_more():
        for fails in (files.look, lambda: files.read(1.0, RATE), lambda: opened(tmp_path)):
            with pytest.raises(ReadingError) as raised:
                fails()
            assert raised.value.reason == "too_many_open_files"

    files.look()
    assert read(files) == {("rdma_out_of_sequence_packets_total", ()): 2**32 + 4}
    assert (files.unreadable_count, files.has_reset) == (0, False)


def test_files_that_could_not_be_opened_are_at_the_next_look(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = opened(tmp_path)
    write(tmp_path / "counters", {"port_rcv_data": "1", "port_rcv_packets": "8"})
    before_count, real_open, calls = open_count(), os.open, []

    def one_only(path: Path, flags: int) -> int:
        calls.append(path)
        if len(calls) > 1:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))
        return real_open(path, flags)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", one_only)
        with pytest.raises(ReadingError):
            files.look()

    assert open_count() == before_count
    files.look()
    assert len(read(files)) == 2
