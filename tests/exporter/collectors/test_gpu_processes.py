"""How many are on a card, and how it is shared."""

import shutil
from typing import Any

import pynvml
import pytest
from support.pages import values
from support.simulated import (
    Shipped,
    Simulate,
    constant,
    simulated_card,
    told,
)

from rightslice.contract.metrics import (
    GPU_CONTEXTS,
    GPU_PROCESSES_VISIBLE,
    GPU_SHARING_INFO,
)
from rightslice.contract.spec import MetricSpec
from rightslice.exporter.collectors.gpu_processes import collect
from rightslice.exporter.simulate.card import Mig, MigInstance, Process, Vgpu, VgpuInstance

MEMORY_V2, MEMORY_V1 = "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"
NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
LISTS = tuple(
    f"nvmlDeviceGet{kind}RunningProcesses_{version}"
    for kind in ("Compute", "Graphics", "MPSCompute")
    for version in ("v2", "v3")
)
NO_LISTS = dict.fromkeys(LISTS, NOT_SUPPORTED)
CARD = ("GPU-0001",)
GIB = 1024**3


def collected(simulate: Simulate, spec: MetricSpec, **changes: Any) -> dict[tuple[str, ...], float]:
    """Collect from one card, and give what is told of one metric."""
    (gpu,) = simulate(simulated_card(**changes)).open()
    return told(collect(gpu, 5.0), spec)


def processes(*rows: tuple[int, int | None, str]) -> tuple[Process, ...]:
    """Give processes by id, GiB and kind."""
    return tuple(
        Process(pid, None if size is None else size * GIB, kind) for pid, size, kind in rows
    )


def hosting(scheduler: str) -> dict[str, Any]:
    guest = VgpuInstance("A100D-4C", constant(2 * GIB), constant(0.1))
    return {
        "name": "NVIDIA A100 80GB PCIe",
        "virtualization": "host_vgpu",
        "vgpu": Vgpu(scheduler, instances=(guest,)),
        "process_count": 0,
    }


@pytest.mark.parametrize(
    ("changes", "mode"),
    [
        pytest.param({"process_count": 0}, "exclusive", id="nobody"),
        pytest.param({"process_count": 1}, "exclusive", id="one process"),
        pytest.param({"process_count": 3}, "timeslice", id="several processes"),
        pytest.param(
            {"processes": processes((11, 1, "compute"), (11, 1, "graphics"))},
            "exclusive",
            id="one process in two lists",
        ),
        pytest.param(
            {"processes": processes((10, 1, "compute"), (11, 1, "mps"), (12, 1, "mps"))},
            "mps",
            id="clients of an mps server",
        ),
        pytest.param({"mig": Mig()}, "mig", id="cut, without an instance"),
        pytest.param(
            {"mig": Mig(instances=(MigInstance("1g.5gb", 0),), privileged=False)},
            "mig",
            id="cut, unprivileged",
        ),
        pytest.param(
            {"name": "GRID A100D-4C", "virtualization": "vgpu", "process_count": 3},
            "guest",
            id="a guest, whatever runs in it",
        ),
        pytest.param(hosting("best_effort"), "vgpu_best_effort", id="host, best effort"),
        pytest.param(hosting("equal_share"), "vgpu_equal_share", id="host, equal share"),
        pytest.param(hosting("fixed_share"), "vgpu_fixed_share", id="host, fixed share"),
    ],
)
def test_it_is_told_how_a_card_is_shared(
    changes: dict[str, Any], mode: str, simulate: Simulate
) -> None:
    assert collected(simulate, GPU_SHARING_INFO, **changes) == {("GPU-0001", mode): 1}


def test_where_neither_lists_nor_modes_tell_nothing_is_told(simulate: Simulate) -> None:
    (gpu,) = simulate(simulated_card(faults=NO_LISTS)).open()

    assert list(collect(gpu, 5.0)) == []


def test_a_host_whose_scheduler_is_not_told_has_no_mode(simulate: Simulate) -> None:
    faults = {
        "nvmlDeviceGetVgpuSchedulerState": NOT_SUPPORTED,
        "nvmlDeviceGetVgpuSchedulerState_v2": NOT_SUPPORTED,
    }

    assert collected(simulate, GPU_SHARING_INFO, faults=faults, **hosting("best_effort")) == {}


def test_an_older_driver_tells_its_scheduler_by_the_older_call(simulate: Simulate) -> None:
    faults = {"nvmlDeviceGetVgpuSchedulerState_v2": pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}

    told_modes = collected(simulate, GPU_SHARING_INFO, faults=faults, **hosting("fixed_share"))

    assert told_modes == {("GPU-0001", "vgpu_fixed_share"): 1}


@pytest.mark.parametrize(
    ("rows", "count"),
    [
        pytest.param((), 0, id="nobody"),
        pytest.param(((11, 1, "compute"),), 1, id="one"),
        pytest.param(((11, 1, "compute"), (12, 1, "graphics")), 2, id="two kinds"),
        pytest.param(((11, 2, "compute"), (11, 1, "graphics")), 1, id="one in two lists"),
        pytest.param(
            ((10, 1, "compute"), (11, 1, "mps"), (12, 1, "mps")), 3, id="a server and its clients"
        ),
    ],
)
def test_contexts_are_counted_by_process(
    rows: tuple[tuple[int, int | None, str], ...], count: int, simulate: Simulate
) -> None:
    contexts = collected(
        simulate, GPU_CONTEXTS, processes=processes(*rows), process_count=len(rows)
    )

    assert contexts == {CARD: count}


def test_processes_are_visible_where_procfs_shows_them(simulate_machine: Simulate) -> None:
    (gpu,) = simulate_machine(simulated_card(process_count=3)).open()

    samples = list(collect(gpu, 5.0))

    assert told(samples, GPU_CONTEXTS) == {CARD: 3}
    assert told(samples, GPU_PROCESSES_VISIBLE) == {CARD: 3}


def test_a_process_that_ended_is_not_visible(simulate_machine: Simulate) -> None:
    node = simulate_machine(simulated_card(processes=processes((11, 1, "compute"), (12, 1, "mps"))))
    (gpu,) = node.open()
    shutil.rmtree(node.host.paths.procfs / "12")

    samples = list(collect(gpu, 5.0))

    assert told(samples, GPU_CONTEXTS) == {CARD: 2}
    assert told(samples, GPU_PROCESSES_VISIBLE) == {CARD: 1}


def test_processes_of_another_namespace_are_hidden_and_not_absent(simulate: Simulate) -> None:
    (gpu,) = simulate(simulated_card(process_count=2)).open()

    samples = list(collect(gpu, 5.0))

    assert told(samples, GPU_CONTEXTS) == {CARD: 2}
    assert told(samples, GPU_PROCESSES_VISIBLE) == {CARD: 0}


def test_one_process_on_two_cards_is_one_context_of_each(simulate: Simulate) -> None:
    both = processes((11, 4, "compute"))
    node = simulate(simulated_card(1, processes=both), simulated_card(2, processes=both))
    sampler = node.sampler(("gpu_processes",))

    node.sample_rounds(sampler, 1)

    page = values(sampler)
    assert page['rightslice_gpu_contexts{uuid="GPU-0001"}'] == 1
    assert page['rightslice_gpu_contexts{uuid="GPU-0002"}'] == 1


def test_a_cut_card_s_processes_are_not_asked_for(simulate: Simulate) -> None:
    node = simulate(simulated_card(mig=Mig(instances=(MigInstance("1g.5gb", 0),))))
    (gpu,) = node.open()
    called = node.record_calls()

    tuple(collect(gpu, 5.0))

    assert called == []


def test_unified_memory_has_contexts_and_no_memory(shipped: Shipped) -> None:
    (gpu,) = shipped("unified-memory").open()

    samples = list(collect(gpu, 5.0))

    assert list(told(samples, GPU_CONTEXTS).values()) == [2]


def test_a_card_that_came_to_be_shared_is_told_as_shared_and_no_more_as_exclusive(
    simulate: Simulate,
) -> None:
    node = simulate(simulated_card())
    sampler = node.sampler(("gpu_processes",))
    node.sample_rounds(sampler, 1)
    usual = node.library.nvmlDeviceGetComputeRunningProcesses_v3  # type: ignore[attr-defined]

    def one_more(handle: Any, count: Any, rows: Any) -> int:
        code: int = usual(handle, count, rows)
        rows[count._obj.value].pid = 77
        count._obj.value += 1
        return code

    node.answer("nvmlDeviceGetComputeRunningProcesses_v3", one_more)

    node.sample_rounds(sampler, 5)

    modes = [name for name in values(sampler) if name.startswith("rightslice_gpu_sharing_info")]
    assert modes == ['rightslice_gpu_sharing_info{uuid="GPU-0001",mode="timeslice"}']
