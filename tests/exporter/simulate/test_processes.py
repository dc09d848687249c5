"""The processes of a simulated card."""

import ctypes

import pynvml
import pytest
from support.simulated import BYTES_PER_MIB, Simulate, simulated_card

from rightslice.exporter.simulate.card import Process

THREE = simulated_card(
    processes=(
        Process(11, 900 * BYTES_PER_MIB),
        Process(12, None, "mps"),
        Process(13, 40 * BYTES_PER_MIB, "graphics"),
    )
)


@pytest.mark.parametrize("version", ["v2", "v3"])
@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        pytest.param("Compute", [(11, 900 * BYTES_PER_MIB)], id="compute"),
        pytest.param("Graphics", [(13, 40 * BYTES_PER_MIB)], id="graphics"),
        pytest.param("MPSCompute", [(12, None)], id="MPS, memory not told"),
    ],
)
def test_processes_are_listed_by_their_kind(
    kind: str, rows: list[tuple[int, int | None]], version: str, simulate: Simulate
) -> None:
    simulate(THREE)
    read = getattr(pynvml, f"nvmlDeviceGet{kind}RunningProcesses_{version}")

    processes = read(pynvml.nvmlDeviceGetHandleByIndex(0))

    assert [(process.pid, process.usedGpuMemory) for process in processes] == rows
    assert {process.gpuInstanceId for process in processes} == {0xFFFFFFFF}


@pytest.mark.parametrize(
    ("capacity", "code"),
    [
        pytest.param(2, pynvml.NVML_SUCCESS, id="exactly enough"),
        pytest.param(64, pynvml.NVML_SUCCESS, id="plenty"),
        pytest.param(1, pynvml.NVML_ERROR_INSUFFICIENT_SIZE, id="too small"),
    ],
)
def test_one_call_with_room_enough_lists_them_all(
    capacity: int, code: int, simulate: Simulate
) -> None:
    node = simulate(simulated_card(process_count=2))
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    count = ctypes.c_uint(capacity)
    processes = (pynvml.c_nvmlProcessInfo_v3_t * capacity)()

    answer = node.library.nvmlDeviceGetComputeRunningProcesses_v3(  # type: ignore[attr-defined]
        handle, ctypes.byref(count), processes
    )

    assert (answer, count.value) == (code, 2)
    assert bool(processes[0].pid) == (code == pynvml.NVML_SUCCESS)


def test_without_processes_the_size_query_says_it_all(simulate: Simulate) -> None:
    node = simulate(simulated_card(process_count=0))
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)

    assert pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle) == []
    assert node.library.call_count == 1
