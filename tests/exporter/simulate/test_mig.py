"""MIG devices of a simulated card, and what MIG mode takes away from the card itself."""

import ctypes
from collections.abc import Callable
from typing import Any

import pynvml
import pytest
from support.simulated import BYTES_PER_MIB, constant, simulated_card

from rightslice.exporter.simulate.card import Ecc, Mig, MigInstance, Process, RowRemap
from rightslice.exporter.simulate.timeline import Event
from rightslice.facts.mig import MigProfile

from .conftest import Play
from .sliced import FRAGMENTED, H200, TWO_IN_ONE, gpu_instances, layout, sliced, used


def indices(handle: Any) -> list[int]:
    """List the indices at which the card has a MIG device."""
    found = []
    for index in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except pynvml.NVMLError_NotFound:
            continue
        found.append(index)
    return found


def test_the_mode_tells_what_is_and_what_a_reset_will_bring(play: Play) -> None:
    node = play(
        simulated_card(1),
        simulated_card(2, mig=Mig(enabled=False, pending=True)),
        sliced(),
    )

    assert [pynvml.nvmlDeviceGetMigMode(node.handle(index)) for index in range(3)] == [
        [0, 0],
        [0, 1],
        [1, 1],
    ]


def test_a_card_that_cannot_be_cut_has_no_mode(play: Play) -> None:
    handle = play(simulated_card(name="NVIDIA A10")).handle()

    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetMigMode(handle)
    assert pynvml.nvmlDeviceGetMaxMigDeviceCount(handle) == 0


def test_indices_have_holes_where_the_card_has(play: Play) -> None:
    assert indices(play(FRAGMENTED).handle()) == [0, 1, 5]


def test_an_instance_without_compute_has_no_device(play: Play) -> None:
    assert indices(play(TWO_IN_ONE).handle()) == [0, 4, 6]


@pytest.mark.parametrize(
    "profile", [pytest.param(row, id=row.name) for row in layout(H200).profiles]
)
def test_a_slice_has_the_figures_of_its_profile(profile: MigProfile, play: Play) -> None:
    handle = play(sliced(MigInstance(profile.name, 0), name=H200)).handle()
    mig = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, 0)

    attributes = pynvml.nvmlDeviceGetAttributes_v2(mig)

    assert profile.memory_bytes is not None
    assert attributes.multiprocessorCount == profile.sm_count
    assert attributes.memorySizeMB * BYTES_PER_MIB == profile.memory_bytes
    assert attributes.gpuInstanceSliceCount == attributes.computeInstanceSliceCount
    assert pynvml.nvmlDeviceGetName(mig) == f"NVIDIA H200 MIG {profile.name}"
    assert pynvml.nvmlDeviceGetMemoryInfo(mig).total == profile.memory_bytes


def test_two_compute_instances_share_memory_and_divide_multiprocessors(play: Play) -> None:
    handle = play(TWO_IN_ONE).handle()
    pair = [pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index) for index in (4, 6)]

    attributes = [pynvml.nvmlDeviceGetAttributes_v2(mig) for mig in pair]
    memory = [
        pynvml.nvmlDeviceGetMemoryInfo(mig, version=pynvml.nvmlMemory_v2).used for mig in pair
    ]

    assert memory == [40_000 * BYTES_PER_MIB] * 2
    assert [row.multiprocessorCount for row in attributes] == [32, 16]
    assert [row.computeInstanceSliceCount for row in attributes] == [2, 1]
    assert {row.gpuInstanceSliceCount for row in attributes} == {3}
    assert len({pynvml.nvmlDeviceGetGpuInstanceId(mig) for mig in pair}) == 1
    assert [pynvml.nvmlDeviceGetComputeInstanceId(mig) for mig in pair] == [0, 1]
    assert pynvml.nvmlDeviceGetName(pair[1]) == "NVIDIA H200 MIG 1c.3g.71gb"


def test_a_slice_is_told_from_a_card_and_knows_its_own(play: Play) -> None:
    handle = play(FRAGMENTED).handle()
    mig = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, 5)
    uuid = pynvml.nvmlDeviceGetUUID(mig)

    parent = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig)

    assert uuid.startswith("MIG-")
    assert pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByUUID(uuid)) == uuid
    assert pynvml.nvmlDeviceGetUUID(parent) == "GPU-0001"
    assert pynvml.nvmlDeviceIsMigDeviceHandle(mig).value == 1
    assert pynvml.nvmlDeviceIsMigDeviceHandle(parent).value == 0


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(pynvml.nvmlDeviceGetUtilizationRates, id="utilisation"),
        pytest.param(pynvml.nvmlDeviceGetPowerUsage, id="power"),
        pytest.param(lambda handle: pynvml.nvmlDeviceGetTemperature(handle, 0), id="temperature"),
        pytest.param(lambda handle: pynvml.nvmlDeviceGetFieldValues(handle, [83]), id="fields"),
        pytest.param(pynvml.nvmlDeviceGetRemappedRows, id="remapped rows"),
        pytest.param(pynvml.nvmlDeviceGetCurrentClocksEventReasons, id="clocks"),
        pytest.param(
            lambda handle: pynvml.nvmlDeviceRegisterEvents(handle, 8, pynvml.nvmlEventSetCreate()),
            id="events",
        ),
    ],
)
def test_the_whole_board_is_not_asked_through_a_slice(
    read: Callable[[Any], Any], play: Play
) -> None:
    card = sliced(MigInstance("1g.5gb", 0), power_watts=constant(90))
    mig = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(play(card).handle(), 0)

    with pytest.raises(pynvml.NVMLError_NotSupported):
        read(mig)


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(pynvml.nvmlDeviceGetUtilizationRates, id="utilisation"),
        pytest.param(lambda handle: pynvml.nvmlDeviceGetSamples(handle, 1, 0), id="samples"),
        pytest.param(lambda handle: pynvml.nvmlDeviceGetTotalEccErrors(handle, 0, 0), id="ECC"),
        pytest.param(pynvml.nvmlDeviceGetRemappedRows, id="remapped rows"),
        pytest.param(pynvml.nvmlDeviceGetAttributes_v2, id="attributes are a slice's"),
        pytest.param(pynvml.nvmlDeviceGetGpuInstanceId, id="ids are a slice's"),
    ],
)
def test_mig_mode_takes_readings_from_the_card(read: Callable[[Any], Any], play: Play) -> None:
    card = sliced(MigInstance("1g.5gb", 0), ecc=Ecc(), row_remap=RowRemap())
    handle = play(card).handle()

    with pytest.raises(pynvml.NVMLError_NotSupported):
        read(handle)


def test_the_board_s_own_readings_stay_with_the_card(play: Play) -> None:
    handle = play(
        sliced(MigInstance("1g.5gb", 0), ecc=Ecc(4, 0), power_watts=constant(90))
    ).handle()

    assert pynvml.nvmlDeviceGetPowerUsage(handle) == 90_000
    assert pynvml.nvmlDeviceGetTotalEccErrors(handle, 0, pynvml.NVML_AGGREGATE_ECC) == 4


def test_the_card_s_memory_in_use_is_that_of_its_instances(play: Play) -> None:
    handle = play(FRAGMENTED).handle()

    memory = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)

    assert memory.used == 4000 * BYTES_PER_MIB
    assert memory.total == 40960 * BYTES_PER_MIB


def test_processes_tell_their_instances(play: Play) -> None:
    handle = play(TWO_IN_ONE).handle()
    mig = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, 6)

    on_card = pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)
    on_slice = pynvml.nvmlDeviceGetComputeRunningProcesses_v3(mig)

    assert [(row.gpuInstanceId, row.computeInstanceId) for row in on_card] == [
        (3, 0),
        (2, 0),
        (2, 1),
    ]
    assert len({row.pid for row in on_card}) == 3
    assert [(row.gpuInstanceId, row.computeInstanceId) for row in on_slice] == [(2, 1)]
    assert on_slice[0].usedGpuMemory == 20_000 * BYTES_PER_MIB
    assert pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3(mig) == []


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(pynvml.nvmlDeviceGetMemoryInfo, id="memory"),
        pytest.param(pynvml.nvmlDeviceGetComputeRunningProcesses_v3, id="processes"),
        pytest.param(lambda handle: pynvml.nvmlDeviceGetGpuInstanceById(handle, 7), id="instance"),
        pytest.param(
            lambda handle: pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(handle, 19),
            id="capacity",
        ),
        pytest.param(
            lambda handle: pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(
                handle, 19, None, ctypes.byref(ctypes.c_uint())
            ),
            id="placements",
        ),
    ],
)
def test_the_overview_needs_privileges(read: Callable[[Any], Any], play: Play) -> None:
    handle = play(sliced(MigInstance("1g.5gb", 0), privileged=False)).handle()

    with pytest.raises(pynvml.NVMLError_NoPermission):
        read(handle)


def test_a_slice_can_be_read_without_privileges(play: Play) -> None:
    handle = play(sliced(used("1g.5gb", 0, 700), privileged=False)).handle()
    mig = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, 0)

    memory = pynvml.nvmlDeviceGetMemoryInfo(mig)

    assert memory.used == 700 * BYTES_PER_MIB
    assert len(pynvml.nvmlDeviceGetComputeRunningProcesses_v3(mig)) == 1


def test_the_handles_of_what_was_destroyed_stay_invalid_for_ever(play: Play) -> None:
    again = Mig(instances=(MigInstance("3g.20gb", 0),))
    node = play(
        simulated_card(mig=again),
        events=(Event(10, 0, mig=Mig()), Event(20, 0, mig=again)),
    )
    handle = node.handle()
    old = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, 0)
    old_uuid = pynvml.nvmlDeviceGetUUID(old)
    (old_instance,) = gpu_instances(handle, "3g.20gb")
    node.clock.advance(20)

    new = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, 0)

    assert pynvml.nvmlDeviceGetUUID(new) != old_uuid
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlDeviceGetUUID(old)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlGpuInstanceGetInfo(old_instance)
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetHandleByUUID(old_uuid)


def test_an_instance_that_stays_keeps_its_handle_and_uuid(play: Play) -> None:
    stays, goes, comes = (
        MigInstance("1g.5gb", 0),
        MigInstance("2g.10gb", 2),
        MigInstance("3g.20gb", 4),
    )
    node = play(
        simulated_card(mig=Mig(instances=(stays, goes))),
        events=(Event(10, 0, mig=Mig(instances=(comes, stays))),),
    )
    handle = node.handle()
    mig = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, 0)
    uuid = pynvml.nvmlDeviceGetUUID(mig)
    node.clock.advance(10)

    assert pynvml.nvmlDeviceGetUUID(mig) == uuid
    assert indices(handle) == [0, 4]


def test_switching_mig_off_gives_the_card_its_readings_back(play: Play) -> None:
    node = play(
        sliced(MigInstance("1g.5gb", 0), processes=(Process(9, 1),)),
        events=(Event(10, 0, mig=Mig(enabled=False, pending=False)),),
    )
    handle = node.handle()
    node.clock.advance(10)

    assert pynvml.nvmlDeviceGetUtilizationRates(handle).gpu == 50
    assert pynvml.nvmlDeviceGetMaxMigDeviceCount(handle) == 0
    assert [row.pid for row in pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)] == [9]


def test_a_fault_of_the_card_reaches_its_slices(play: Play) -> None:
    node = play(FRAGMENTED, events=(Event(10, 0, faults={"all": pynvml.NVML_ERROR_GPU_IS_LOST}),))
    mig = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(node.handle(), 0)
    node.clock.advance(10)

    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        pynvml.nvmlDeviceGetMemoryInfo(mig)
