"""The lists of processes: grown, merged, without sentinels, in the version that is right."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pynvml
import pytest
from support.simulated import Simulate, SimulatedNode, calls_of, simulated_card, text

from rightslice.exporter.host.nvml.card import NvmlCard
from rightslice.exporter.host.nvml.errors import NvmlError
from rightslice.exporter.host.nvml.processes import (
    FIRST_BUFFER_LENGTH,
    GpuProcess,
    ProcessLists,
    version_of,
)
from rightslice.exporter.host.nvml.rows import GROWN_BUFFER_RETRIES
from rightslice.exporter.simulate.card import Mig, MigInstance, Process

from .codes import ABSENT, EMPTY

COMPUTE, GRAPHICS, MPS = (
    f"nvmlDeviceGet{kind}RunningProcesses" for kind in ("Compute", "Graphics", "MPSCompute")
)
NONE_32, NONE_64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
INSUFFICIENT_SIZE = int(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)
NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
SIX_LISTS = tuple(
    f"{kind}_{version}" for kind in (COMPUTE, GRAPHICS, MPS) for version in ("v3", "v2")
)


class Row(NamedTuple):
    """A row as the driver writes it, without MIG unless said."""

    pid: int
    used_bytes: int = 100
    gpu_instance_id: int = NONE_32
    compute_instance_id: int = NONE_32


def listing(*rows: Row) -> Callable[..., int]:
    """Make a list function that gives these rows, by NVML's rules for sizes."""

    def answer(_: Any, count: Any, slots: Any) -> int:
        room, count._obj.value = count._obj.value, len(rows)
        if room < len(rows):
            return INSUFFICIENT_SIZE
        for slot, row in zip(slots, rows, strict=False):
            slot.pid, slot.usedGpuMemory = row.pid, row.used_bytes
            slot.gpuInstanceId, slot.computeInstanceId = row[2:]
        return int(pynvml.NVML_SUCCESS)

    return answer


def lists_of(card: NvmlCard) -> ProcessLists:
    return card.reader(ProcessLists)


def answer_all(
    node: SimulatedNode, compute: tuple[Row, ...], graphics: tuple[Row, ...], mps: tuple[Row, ...]
) -> None:
    node.answer(f"{COMPUTE}_v3", listing(*compute))
    node.answer(f"{GRAPHICS}_v3", listing(*graphics))
    node.answer(f"{MPS}_v3", listing(*mps))


@pytest.mark.parametrize("process_count", [0, 1, 64], ids=["free", "one", "many"])
def test_processes_are_listed(process_count: int, simulate: Simulate) -> None:
    (card,) = simulate(simulated_card(process_count=process_count)).open()

    rows = lists_of(card).compute()

    assert rows is not None
    assert len({row.process_id for row in rows}) == process_count


def test_each_kind_of_context_has_its_list(simulate: Simulate) -> None:
    processes = (Process(1, 100), Process(2, 200, "graphics"), Process(3, 300, "mps"))
    (card,) = simulate(simulated_card(processes=processes)).open()

    lists = lists_of(card)

    assert lists.compute() == [GpuProcess(1, 100)]
    assert lists.graphics() == [GpuProcess(2, 200)]
    assert lists.mps() == [GpuProcess(3, 300)]


def test_a_list_takes_one_call(simulate: Simulate) -> None:
    node = simulate(simulated_card(process_count=FIRST_BUFFER_LENGTH))
    (card,) = node.open()
    asked = calls_of(node, f"{COMPUTE}_v3")

    lists_of(card).compute()

    assert len(asked) == 1


def test_a_list_longer_than_our_buffer_is_read_again_with_room(simulate: Simulate) -> None:
    node = simulate(simulated_card(process_count=FIRST_BUFFER_LENGTH + 1))
    (card,) = node.open()
    asked = calls_of(node, f"{COMPUTE}_v3")

    rows = lists_of(card).compute()

    assert rows is not None
    assert len(rows) == FIRST_BUFFER_LENGTH + 1
    assert len(asked) == 2


def test_a_buffer_that_has_grown_stays_grown(simulate: Simulate) -> None:
    node = simulate(simulated_card(process_count=FIRST_BUFFER_LENGTH + 1))
    (card,) = node.open()
    lists_of(card).compute()
    asked = calls_of(node, f"{COMPUTE}_v3")

    card.begin_round()
    lists_of(card).compute()

    assert len(asked) == 1


def test_a_list_is_read_once_in_a_round(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    (card,) = node.open()
    asked = calls_of(node, f"{COMPUTE}_v3")

    first, again = lists_of(card).compute(), lists_of(card).compute()

    assert first == again
    assert len(asked) == 1


def test_a_list_that_never_stops_growing_is_a_failure(simulate: Simulate) -> None:
    node = simulate(simulated_card(faults={f"{COMPUTE}_v3": INSUFFICIENT_SIZE}))
    (card,) = node.open()
    asked = calls_of(node, f"{COMPUTE}_v3")

    with pytest.raises(NvmlError, match="Insufficient Size"):
        lists_of(card).compute()

    assert len(asked) == GROWN_BUFFER_RETRIES == 3


def test_a_count_beyond_our_buffer_reads_no_foreign_memory(simulate: Simulate) -> None:
    def answer(_: Any, count: Any, slots: Any) -> int:
        count._obj.value = 10 * FIRST_BUFFER_LENGTH
        slots[0].pid = 7
        return int(pynvml.NVML_SUCCESS)

    node = simulate(simulated_card())
    node.answer(f"{COMPUTE}_v3", answer)
    (card,) = node.open()

    rows = lists_of(card).compute()

    assert rows is not None
    assert [row.process_id for row in rows] == [7]


@pytest.mark.parametrize("pid", [0, NONE_32], ids=["unused slot", "all ones"])
def test_an_id_that_is_none_is_no_process(pid: int, simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.answer(f"{COMPUTE}_v3", listing(Row(pid), Row(7)))
    (card,) = node.open()

    assert lists_of(card).compute() == [GpuProcess(7, 100)]


def test_memory_that_is_not_told_is_unknown_and_not_zero(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.answer(f"{COMPUTE}_v3", listing(Row(7, NONE_64), Row(8, 0)))
    (card,) = node.open()

    assert lists_of(card).compute() == [GpuProcess(7, None), GpuProcess(8, 0)]


def test_a_process_without_mig_is_in_no_instance(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.answer(f"{COMPUTE}_v3", listing(Row(7), Row(8, 100, 2, 0), Row(9, 100, 2)))
    (card,) = node.open()

    assert lists_of(card).compute() == [
        GpuProcess(7, 100, None, None),
        GpuProcess(8, 100, 2, 0),
        GpuProcess(9, 100, 2, None),
    ]


@pytest.mark.parametrize("code", EMPTY)
def test_no_process_found_is_none_running(code: int, simulate: Simulate) -> None:
    (card,) = simulate(simulated_card(faults={f"{COMPUTE}_v3": code})).open()

    assert lists_of(card).compute() == []


@pytest.mark.parametrize("code", ABSENT)
def test_the_second_version_tells_where_the_third_does_not(code: int, simulate: Simulate) -> None:
    (card,) = simulate(simulated_card(process_count=2, faults={f"{COMPUTE}_v3": code})).open()

    rows = lists_of(card).compute()

    assert rows is not None
    assert len(rows) == 2


@pytest.mark.parametrize("code", ABSENT)
def test_processes_are_unknown_where_no_list_is_supported(code: int, simulate: Simulate) -> None:
    (card,) = simulate(simulated_card(faults=dict.fromkeys(SIX_LISTS, code))).open()

    assert lists_of(card).compute() is None
    assert lists_of(card).every() is None


def test_lists_that_are_not_supported_are_asked_for_once(simulate: Simulate) -> None:
    node = simulate(simulated_card(faults=dict.fromkeys(SIX_LISTS, NOT_SUPPORTED)))
    (card,) = node.open()
    lists_of(card).every()
    asked_count = node.library.call_count

    lists_of(card).every()

    assert node.library.call_count == asked_count


@pytest.mark.parametrize(
    ("driver_version", "ending"),
    [
        pytest.param("535.43.02", "v2", id="first with a longer row"),
        pytest.param("535.54.03", "v2", id="longer row"),
        pytest.param("535.86.10", "v2", id="last with a longer row"),
        pytest.param("535.98", "v2", id="without the third version"),
        pytest.param("535.103.01", "v2", id="last before the mended one"),
        pytest.param("535.104.05", "v3", id="mended"),
        pytest.param("535.161.08", "v3", id="later in the branch"),
        pytest.param("535.42", "v3", id="earlier in the branch"),
        pytest.param("530.30.02", "v3", id="branch before"),
        pytest.param("580.95.05", "v3", id="later branch"),
        pytest.param("", "v3", id="unknown"),
    ],
)
def test_drivers_with_a_row_that_is_too_long_are_asked_in_the_second_version(
    driver_version: str, ending: str, simulate: Simulate
) -> None:
    node = simulate(simulated_card())
    node.answer("nvmlSystemGetDriverVersion", text(driver_version.encode()))
    asked = {version: calls_of(node, f"{COMPUTE}_{version}") for version in ("v2", "v3")}
    (card,) = node.open()

    lists_of(card).compute()

    assert [version for version in asked if asked[version]] == [ending]


def test_a_driver_with_long_rows_and_no_second_version_tells_no_process(
    simulate: Simulate,
) -> None:
    faults = dict.fromkeys((f"{kind}_v2" for kind in (COMPUTE, GRAPHICS, MPS)), NOT_SUPPORTED)
    node = simulate(simulated_card(faults=faults))
    node.answer("nvmlSystemGetDriverVersion", text(b"535.54.03"))
    (card,) = node.open()

    assert lists_of(card).every() is None


@pytest.mark.parametrize(
    ("text", "version"),
    [
        pytest.param("535.104.05", (535, 104, 5), id="usual"),
        pytest.param("615.20-dev", (615, 20), id="with a word behind it"),
        pytest.param("rel-580.10", (), id="a word first"),
        pytest.param("", (), id="empty"),
    ],
)
def test_a_driver_version_is_read_as_far_as_it_is_numbers(
    text: str, version: tuple[int, ...]
) -> None:
    assert version_of(text) == version


def test_a_process_in_several_lists_is_one_with_the_larger_memory(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    answer_all(node, (Row(7, 100), Row(8, 50)), (Row(7, 300),), (Row(7, 200),))
    (card,) = node.open()

    assert lists_of(card).every() == [GpuProcess(7, 300), GpuProcess(8, 50)]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(NONE_64, 300, id="told by the later list"),
        pytest.param(300, NONE_64, id="told by the earlier list"),
    ],
)
def test_a_process_whose_memory_one_list_tells_has_that_memory(
    first: int, second: int, simulate: Simulate
) -> None:
    node = simulate(simulated_card())
    answer_all(node, (Row(7, first),), (Row(7, second),), ())
    (card,) = node.open()

    assert lists_of(card).every() == [GpuProcess(7, 300)]


def test_a_process_on_two_cards_is_on_each_of_them(simulate: Simulate) -> None:
    node = simulate(
        simulated_card(1, processes=(Process(7, 100),)),
        simulated_card(2, processes=(Process(7, 200),)),
    )

    first, second = node.open()

    assert lists_of(first).every() == [GpuProcess(7, 100)]
    assert lists_of(second).every() == [GpuProcess(7, 200)]


def test_a_process_in_two_instances_holds_memory_in_each(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    answer_all(node, (Row(7, 100, 1, 0), Row(7, 200, 2, 0)), (), ())
    (card,) = node.open()

    assert lists_of(card).every() == [GpuProcess(7, 100, 1, 0), GpuProcess(7, 200, 2, 0)]


def test_one_list_tells_where_the_others_are_not_supported(simulate: Simulate) -> None:
    faults = dict.fromkeys(SIX_LISTS[2:], NOT_SUPPORTED)
    (card,) = simulate(simulated_card(processes=(Process(7, 100),), faults=faults)).open()

    assert lists_of(card).graphics() is None
    assert lists_of(card).mps() is None
    assert lists_of(card).every() == [GpuProcess(7, 100)]


def test_processes_of_all_instances_are_kept_from_the_unprivileged(simulate: Simulate) -> None:
    mig = Mig(privileged=False, instances=(MigInstance("3g.20gb", 0),))
    (card,) = simulate(simulated_card(mig=mig)).open()

    with pytest.raises(NvmlError, match="Insufficient Permissions"):
        lists_of(card).every()


def test_the_list_of_compute_that_fails_is_a_failure_and_no_empty_card(simulate: Simulate) -> None:
    faults = {f"{COMPUTE}_v3": pynvml.NVML_ERROR_UNKNOWN}
    (card,) = simulate(simulated_card(faults=faults)).open()

    with pytest.raises(NvmlError, match="ComputeRunningProcesses_v3: Unknown Error"):
        lists_of(card).every()


@pytest.mark.parametrize("function", [GRAPHICS, MPS])
def test_a_list_beside_it_that_fails_hides_no_process_and_is_told(
    function: str, simulate: Simulate
) -> None:
    faults = {f"{function}_v3": pynvml.NVML_ERROR_UNKNOWN}
    (card,) = simulate(simulated_card(faults=faults, process_count=2)).open()

    lists = lists_of(card)

    assert len(lists.every() or ()) == 2
    assert lists.failure is not None
    assert function in str(lists.failure)
    card.begin_round()
    lists.compute()
    assert lists.failure is None
