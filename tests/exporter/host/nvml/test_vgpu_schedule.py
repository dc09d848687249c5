"""The scheduler's log of a vGPU host, read on from where it was last read."""

from collections.abc import Callable
from typing import Any

import pynvml
import pytest
from support.simulated import Simulate, SimulatedNode, calls_of, constant, simulated_card

from rightslice.exporter.host.nvml.card import FORGET_ROUNDS
from rightslice.exporter.host.nvml.errors import NvmlError
from rightslice.exporter.host.nvml.vgpu_schedule import (
    LOG_V1,
    LOG_V2,
    MOST_ENTRIES,
    LogPart,
    Run,
    ScheduleLog,
)
from rightslice.exporter.simulate.card import Mig, Vgpu, VgpuInstance

NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
MILLISECOND = 1_000_000
# Runlist, end and length in milliseconds.
Row = tuple[int, int, int]


def hosting(*busy_ratios: float, **changes: Any) -> Any:
    guests = tuple(VgpuInstance("A16-4Q", busy_ratio=constant(ratio)) for ratio in busy_ratios)
    usual = {"name": "NVIDIA A16", "virtualization": "host_vgpu"}
    return simulated_card(**(usual | {"vgpu": Vgpu(instances=guests)} | changes))


def log_of(*rows: Row) -> Callable[..., int]:
    """Make a log of these runs, with slices of 2 ms."""

    def answer(_: Any, reference: Any) -> int:
        log = reference._obj
        log.entriesCount = len(rows)
        for entry, (runlist, end_ms, ran_ms) in zip(log.logEntries, rows, strict=False):
            entry.swRunlistId, entry.targetTimeSlice = runlist, 2 * MILLISECOND
            entry.timestamp, entry.timeRun = end_ms * MILLISECOND, ran_ms * MILLISECOND
            entry.timeRunTotal = entry.cumulativePreemptionTime = 2**64 - 1
        return int(pynvml.NVML_SUCCESS)

    return answer


def reader_of(node: SimulatedNode) -> ScheduleLog:
    (card,) = node.open()
    return card.reader(ScheduleLog)


def part_of(node: SimulatedNode, *rows: Row) -> LogPart:
    """Read a log that holds these runs."""
    node.answer(LOG_V2, log_of(*rows))
    part = node.host.gpus[0].reader(ScheduleLog).read()
    assert part is not None
    return part


def full(first_ms: int) -> list[Row]:
    """Fill a log with runs of a millisecond each, the first of which ends then."""
    return [(7, first_ms + position, 1) for position in range(MOST_ENTRIES)]


def test_the_first_reading_only_finds_the_end_of_the_log(simulate: Simulate) -> None:
    node = simulate(hosting(0.5))
    node.open()

    assert part_of(node, (7, 10, 2), (8, 12, 2)) == LogPart((), None)


def test_only_new_runs_are_told_and_in_their_order(simulate: Simulate) -> None:
    node = simulate(hosting(0.5))
    node.open()
    part_of(node, (7, 10, 2), (8, 12, 2))

    part = part_of(node, (8, 17, 1), (7, 10, 2), (8, 12, 2), (7, 14, 2))

    assert part == LogPart((Run(7, 0.014, 0.002, 0.002), Run(8, 0.017, 0.001, 0.002)), 0.012)
    assert part.runs[0].start_seconds == pytest.approx(0.012)


def test_without_new_runs_there_are_none_and_nothing_is_lost(simulate: Simulate) -> None:
    node = simulate(hosting(0.5))
    node.open()
    part_of(node, (7, 10, 2))

    assert part_of(node, (7, 10, 2)) == LogPart((), 0.01)
    assert part_of(node) == LogPart((), 0.01)


@pytest.mark.parametrize(
    ("first_ms", "is_overrun"),
    [
        pytest.param(500, False, id="the newest known is still there"),
        pytest.param(501, True, id="all are new"),
    ],
)
def test_a_full_log_of_new_runs_only_has_lost_some(
    first_ms: int, is_overrun: bool, simulate: Simulate
) -> None:
    node = simulate(hosting(0.5))
    node.open()
    part_of(node, (7, 500, 1))

    part = part_of(node, *full(first_ms))

    assert part.is_overrun is is_overrun
    assert len(part.runs) == MOST_ENTRIES - (not is_overrun)


def test_a_driver_that_hands_out_each_run_once_has_lost_none(simulate: Simulate) -> None:
    node = simulate(hosting(0.5))
    node.open()
    part_of(node, (7, 10, 2))

    part = part_of(node, (8, 40, 2))

    assert (len(part.runs), part.is_overrun) == (1, False)


def test_unused_rows_are_no_runs(simulate: Simulate) -> None:
    node = simulate(hosting(0.5))
    node.open()
    part_of(node, (7, 10, 2))

    part = part_of(node, (0, 0, 0), (7, 10, 2), (7, 14, 2))

    assert [run.end_seconds for run in part.runs] == [0.014]


def test_a_clock_that_was_set_back_begins_anew(simulate: Simulate) -> None:
    node = simulate(hosting(0.5))
    node.open()
    part_of(node, (7, 900, 2))

    assert part_of(node, (7, 10, 2)) == LogPart((), None)
    assert len(part_of(node, (7, 10, 2), (7, 12, 2)).runs) == 1


def test_what_was_not_watched_is_not_told(simulate: Simulate) -> None:
    node = simulate(hosting(0.5))
    log = reader_of(node)
    part_of(node, (7, 10, 2))

    log.start_anew()

    assert part_of(node, (7, 10, 2), (7, 14, 2)) == LogPart((), None)


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param({}, id="second version"),
        pytest.param({LOG_V2: pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}, id="first version"),
    ],
)
def test_either_version_tells_the_runs(faults: dict[str, int], simulate: Simulate) -> None:
    node = simulate(hosting(0.02, 0.01, faults=faults))
    log = reader_of(node)
    log.read()
    node.clock.advance(1)

    part = log.read()

    assert part is not None
    assert not part.is_overrun
    assert {run.slice_seconds for run in part.runs} == {0.002}
    ran = {
        runlist: sum(run.ran_seconds for run in part.runs if run.runlist == runlist)
        for runlist in {run.runlist for run in part.runs}
    }
    assert sorted(ran.values()) == pytest.approx([0.01, 0.02], rel=0.01)


def test_the_engine_asked_about_is_the_one_for_graphics_and_compute(simulate: Simulate) -> None:
    node = simulate(hosting(0.5))
    log = reader_of(node)
    asked = calls_of(node, LOG_V2)

    log.read()

    ((_, reference),) = asked
    assert reference._obj.engineId == pynvml.NVML_VGPU_SCHEDULER_ENGINE_TYPE_GRAPHICS


def test_a_card_without_a_log_is_asked_once(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    log = reader_of(node)
    asked = [calls_of(node, name) for name in (LOG_V2, LOG_V1)]

    assert [log.read(), log.read()] == [None, None]
    assert [len(calls) for calls in asked] == [1, 1]

    for _ in range(FORGET_ROUNDS):
        node.host.gpus[0].begin_round()
    log.read()
    assert [len(calls) for calls in asked] == [2, 2]


def test_with_mig_on_there_is_no_log(simulate: Simulate) -> None:
    card = hosting(0.5, name="NVIDIA A100 80GB PCIe", mig=Mig())

    assert reader_of(simulate(card)).read() is None


def test_a_log_that_cannot_be_read_is_a_failure(simulate: Simulate) -> None:
    node = simulate(hosting(0.5, faults={LOG_V2: pynvml.NVML_ERROR_UNKNOWN}))

    with pytest.raises(NvmlError, match=LOG_V2):
        reader_of(node).read()
