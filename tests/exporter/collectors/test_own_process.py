"""What the exporter itself costs."""

import os
from pathlib import Path

import pytest
from support.pages import values
from support.simulated import Simulate, simulated_card, told

from rightslice.contract.metrics import (
    PROCESS_CPU_SECONDS_TOTAL,
    PROCESS_OPEN_FDS,
    PROCESS_RESIDENT_MEMORY_BYTES,
)
from rightslice.exporter.collectors.own_process import collect
from rightslice.exporter.host.process import OwnProcess

CPU, RESIDENT, FILES = (
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
    "process_open_fds",
)
MIB = 1024**2


def used_cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system


def work(cpu_seconds: float) -> None:
    """Use the processor for this long."""
    until_seconds = used_cpu_seconds() + cpu_seconds
    while used_cpu_seconds() < until_seconds:
        sum(range(10_000))


def test_it_tells_its_processor_time_its_memory_and_its_files() -> None:
    samples = list(collect(OwnProcess(), 5.0))

    assert told(samples, PROCESS_CPU_SECONDS_TOTAL)[()] > 0
    assert 5 * MIB < told(samples, PROCESS_RESIDENT_MEMORY_BYTES)[()] < 10_000 * MIB
    assert told(samples, PROCESS_OPEN_FDS)[()] >= 3


def test_processor_time_is_that_since_the_reading_before() -> None:
    process = OwnProcess()
    tuple(collect(process, 0.0))
    before_seconds = used_cpu_seconds()
    work(0.05)

    new_seconds = told(collect(process, 5.0), PROCESS_CPU_SECONDS_TOTAL)[()]

    assert 0.04 <= new_seconds <= used_cpu_seconds() - before_seconds + 0.02


def test_on_the_page_it_is_all_that_the_process_used(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    sampler = node.sampler(("own_process",))
    node.sample_rounds(sampler, 1)
    first = values(sampler)[CPU]
    work(0.03)

    node.sample_rounds(sampler, 5)

    page = values(sampler)
    assert page[CPU] > first
    assert page[CPU] == pytest.approx(used_cpu_seconds(), abs=0.5)


def test_a_file_that_is_opened_is_counted(tmp_path: Path) -> None:
    process = OwnProcess()
    before = told(collect(process, 5.0), PROCESS_OPEN_FDS)[()]

    with (tmp_path / "one").open("w"), (tmp_path / "two").open("w"):
        during = told(collect(process, 5.0), PROCESS_OPEN_FDS)[()]

    assert during == before + 2


def test_memory_is_read_in_pages_and_told_in_bytes(tmp_path: Path) -> None:
    (tmp_path / "self/fd").mkdir(parents=True)
    (tmp_path / "self/statm").write_text("90000 1234 500 1 0 4000 0\n", encoding="ascii")

    samples = list(collect(OwnProcess(tmp_path), 5.0))

    resident = told(samples, PROCESS_RESIDENT_MEMORY_BYTES)
    assert resident == {(): 1234 * os.sysconf("SC_PAGE_SIZE")}


@pytest.mark.parametrize("statm", [None, "", "90000"], ids=["missing", "empty", "cut short"])
def test_without_procfs_only_processor_time_is_told(statm: str | None, tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self/statm").write_text(statm or "", encoding="ascii")
    procfs = tmp_path if statm is not None else tmp_path / "nothing here"

    specs = {sample.spec for sample in collect(OwnProcess(procfs), 5.0)}

    assert specs == {PROCESS_CPU_SECONDS_TOTAL}
