"""Buffers for the driver's lists: they grow when need be, and never without end."""

from ctypes import c_uint
from typing import Any

import pynvml
import pytest

from rightslice.exporter.host.nvml import calls
from rightslice.exporter.host.nvml.calls import Calls
from rightslice.exporter.host.nvml.errors import NvmlError
from rightslice.exporter.host.nvml.rows import GROWN_BUFFER_RETRIES, MOST_ROWS, Rows

INSUFFICIENT_SIZE = pynvml.NVML_ERROR_INSUFFICIENT_SIZE


class Driver:
    """A list call that needs so many rows, and notes how much room it was given."""

    def __init__(self, needed: int) -> None:
        self.needed = needed
        self.rooms: list[int] = []

    def __call__(self, name: str, count: Any, rows: Any) -> int:
        self.rooms.append(count._obj.value)
        room, count._obj.value = count._obj.value, self.needed
        if room < self.needed:
            return int(INSUFFICIENT_SIZE)
        for slot in range(self.needed):
            rows[slot] = slot
        return 0


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    driver = Driver(needed=3)
    monkeypatch.setattr(calls, "call", driver)
    return driver


def test_a_list_that_fits_costs_one_call(driver: Driver) -> None:
    assert list(Rows(c_uint, 4).read(Calls(), "list") or ()) == [0, 1, 2]
    assert driver.rooms == [4]


def test_a_longer_list_is_read_at_once_and_the_room_is_kept(driver: Driver) -> None:
    rows = Rows(c_uint, 4)
    driver.needed = 10

    found = [len(rows.read(Calls(), "list") or ()) for _ in range(2)]

    assert found == [10, 10]
    assert driver.rooms == [4, 20, 20]


def test_a_driver_that_always_needs_more_takes_no_memory_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rooms: list[int] = []

    def never_enough(name: str, count: Any, room: Any) -> int:
        rooms.append(count._obj.value)
        return int(INSUFFICIENT_SIZE)

    monkeypatch.setattr(calls, "call", never_enough)
    rows = Rows(c_uint, 64)
    for _ in range(20):
        with pytest.raises(NvmlError, match="Insufficient Size"):
            rows.read(Calls(), "list")

    assert rooms == [64, 128, 256] * 20


@pytest.mark.parametrize("needed", [MOST_ROWS, 2**32 - 1])
def test_a_need_beyond_all_reason_is_not_met(needed: int, driver: Driver) -> None:
    driver.needed = needed

    with pytest.raises(NvmlError, match="Insufficient Size"):
        Rows(c_uint, 4).read(Calls(), "list")

    assert driver.rooms == [4]


def test_after_a_failure_the_room_is_as_at_first(driver: Driver) -> None:
    rows = Rows(c_uint, 4)
    driver.needed = 100_000
    with pytest.raises(NvmlError):
        rows.read(Calls(), "list")
    driver.needed = 3

    rows.read(Calls(), "list")

    assert driver.rooms[-1] == 4
    assert len(driver.rooms) <= GROWN_BUFFER_RETRIES + 1
