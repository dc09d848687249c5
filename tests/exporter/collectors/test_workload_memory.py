"""Memory of each workload, and what of the card's memory is hidden or nobody's."""

from dataclasses import replace
from typing import Any

import pynvml
import pytest
from support.simulated import (
    BYTES_PER_MIB,
    Simulate,
    constant,
    memory_info,
    simulated_card,
    told,
)
from support.tenants import GIB, granted, pod, process, shared_card, tenants

from rightslice.contract.metrics import GPU_MEMORY_UNATTRIBUTED_BYTES
from rightslice.contract.spec import MetricSpec
from rightslice.contract.workload_metrics import GPU_MEMORY_HIDDEN_BYTES
from rightslice.exporter.collectors.workload_memory import collect
from rightslice.exporter.simulate.card import Mig, MigInstance, Process, Vgpu, VgpuInstance

MEMORY_V2, MEMORY_V1 = "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"
NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
CARD = ("GPU-0001",)
USED, PEAK = "memory_used_bytes", "memory_used_peak_bytes"
RATIO_COUNT = "memory_used_ratio_count"


def collected(simulate: Simulate, spec: MetricSpec, **changes: Any) -> dict[tuple[str, ...], float]:
    """Collect from one card, and give what is told of one metric."""
    (gpu,) = simulate(simulated_card(**changes)).open()
    return told(collect(gpu, 1.0), spec)


def processes(*rows: tuple[int, int | None, str]) -> tuple[Process, ...]:
    """Give processes by id, GiB and kind."""
    return tuple(
        Process(pid, None if size is None else size * GIB, kind) for pid, size, kind in rows
    )


HOST: dict[str, Any] = {
    "name": "NVIDIA A100 80GB PCIe",
    "virtualization": "host_vgpu",
    "vgpu": Vgpu(instances=(VgpuInstance("A100D-4C", constant(2 * GIB), constant(0.1)),)),
    "process_count": 0,
}


@pytest.mark.parametrize(
    ("rows", "unattributed_gib"),
    [
        pytest.param(((11, 20, "compute"),), 0, id="all by one"),
        pytest.param(((11, 5, "compute"), (12, 3, "graphics")), 12, id="by two"),
        pytest.param(((11, 8, "compute"), (11, 8, "graphics")), 12, id="one in two lists, once"),
        pytest.param(((11, 8, "compute"), (11, 3, "graphics")), 12, id="the larger of two"),
        pytest.param(((11, None, "compute"), (11, 8, "graphics")), 12, id="told in one of two"),
        pytest.param(((11, 30, "compute"),), 0, id="more than is used is no debt"),
    ],
)
def test_memory_that_no_process_accounts_for_is_told(
    rows: tuple[tuple[int, int | None, str], ...], unattributed_gib: int, simulate: Simulate
) -> None:
    (gpu,) = simulate(
        simulated_card(memory_used_bytes=constant(20 * GIB), processes=processes(*rows))
    ).open()

    left = told(collect(gpu, 5.0), GPU_MEMORY_UNATTRIBUTED_BYTES)

    assert left == {CARD: unattributed_gib * GIB}


def test_memory_that_nobody_is_listed_for_is_unattributed(simulate: Simulate) -> None:
    left = collected(simulate, GPU_MEMORY_UNATTRIBUTED_BYTES, process_count=0)

    assert left == {CARD: 20480 * BYTES_PER_MIB}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(
            {"processes": processes((11, 5, "compute"), (12, None, "compute"))},
            id="a process's memory is not told",
        ),
        pytest.param(
            {"processes": processes((11, 41, "compute"))}, id="a process with more than the card"
        ),
        pytest.param(
            {"faults": {MEMORY_V2: pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}},
            id="a reserve counted as used",
        ),
        pytest.param(
            {"faults": {MEMORY_V2: NOT_SUPPORTED, MEMORY_V1: NOT_SUPPORTED}}, id="unified memory"
        ),
        pytest.param(HOST, id="guests' processes are theirs to see"),
        pytest.param({"mig": Mig(instances=(MigInstance("1g.5gb", 0),))}, id="cut"),
    ],
)
def test_what_cannot_be_worked_out_has_no_series_and_not_zero(
    changes: dict[str, Any], simulate: Simulate
) -> None:
    assert collected(simulate, GPU_MEMORY_UNATTRIBUTED_BYTES, **changes) == {}


def test_impossible_memory_attributes_nothing(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.answer(MEMORY_V2, memory_info(40 * GIB, 2**64 - 4096))
    (gpu,) = node.open()

    assert told(collect(gpu, 5.0), GPU_MEMORY_UNATTRIBUTED_BYTES) == {}


def test_memory_of_processes_that_procfs_does_not_show_is_hidden(simulate: Simulate) -> None:
    rows = processes((11, 5, "compute"), (12, 3, "graphics"))

    assert collected(simulate, GPU_MEMORY_HIDDEN_BYTES, processes=rows) == {CARD: 8 * GIB}


def test_memory_of_a_workload_is_that_of_all_its_processes() -> None:
    with tenants(shared_card(1, process(11, 2), process(12, 3))) as node:
        node.run(pod("chat"), 11, 12)

        node.rounds(3)

        assert node.by_pod(USED) == {"chat": 5 * GIB}


def test_memory_of_a_process_that_the_driver_does_not_tell_is_unknown_and_not_zero() -> None:
    with tenants(shared_card(1, process(11, 2), process(12, None), process(13, 1))) as node:
        node.run(pod("chat"), 11, 12)
        node.run(pod("other"), 13)

        node.rounds(3)

        assert node.by_pod(USED) == {"other": GIB}
        assert node.by_pod(PEAK) == {"other": GIB}


def test_who_holds_a_card_and_uses_none_of_it_has_zero() -> None:
    with tenants(shared_card(1)) as node:
        node.kubelet.set_pods([granted("idle", "nvidia0"), granted("elsewhere", "nvidia1")])

        node.rounds(3)

        assert node.by_pod(USED) == {"idle": 0}


def test_who_holds_a_card_beside_a_hidden_process_may_use_it_and_has_no_series() -> None:
    with tenants(shared_card(1, process(11, 2))) as node:
        node.kubelet.set_pods([granted("idle", "nvidia0")])

        node.rounds(3)

        assert node.by_pod(USED) == {}


def test_a_peak_outlives_the_sample_for_as_long_as_the_workload_lives() -> None:
    short = process(11, 6, until_seconds=10)
    with tenants(shared_card(1, short, process(12, 2))) as node:
        node.run(pod("chat"), 11, 12)

        node.rounds(30)

        assert node.by_pod(USED) == {"chat": 2 * GIB}
        assert node.by_pod(PEAK) == {"chat": 8 * GIB}


def test_who_is_alone_on_a_card_has_no_histogram() -> None:
    with tenants(shared_card(1, process(11, 2), process(12, 2))) as node:
        node.run(pod("chat"), 11, 12)

        node.rounds(30)

        assert node.by_pod(RATIO_COUNT) == {}


def test_who_has_shared_a_card_keeps_his_histogram_to_the_end() -> None:
    guest = process(12, 10, since_seconds=10, until_seconds=20)
    with tenants(shared_card(1, process(11, 20), guest)) as node:
        node.run(pod("chat"), 11)
        node.run(pod("guest"), 12)

        node.rounds(31)

        counts = node.by_pod(RATIO_COUNT)
        assert counts == {"chat": 22, "guest": 10}
        assert node.by_pod("memory_used_ratio_sum")["chat"] == pytest.approx(22 * 0.5)


def test_two_containers_of_one_pod_do_not_share_with_each_other() -> None:
    left, right = (replace(pod("chat", container=name), name=name) for name in ("left", "right"))
    with tenants(shared_card(1, process(11, 2), process(12, 2))) as node:
        node.run(left, 11)
        node.run(right, 12)

        node.rounds(5)

        assert node.told("rightslice_workload_memory_used_bytes", "container") == {
            "left": 2 * GIB,
            "right": 2 * GIB,
        }
        assert node.by_pod(RATIO_COUNT) == {}


def test_in_an_instance_the_share_is_of_the_instance() -> None:
    instance = MigInstance("3g.20gb", 0, memory_used_bytes=constant(5 * GIB), compute=(1, 2))
    with tenants(simulated_card(mig=Mig(instances=(instance,)))) as node:
        (gpu,) = node.node.open()
        ids = [each.process_id for each in gpu.compute_processes() or ()]
        for number, process_id in enumerate(ids):
            node.run(pod(f"pod-{number}"), process_id)

        node.rounds(4)

        assert len(ids) == 2
        assert node.told("rightslice_workload_memory_used_bytes", "gpu_instance_id", "pod") == {
            ("1", "pod-0"): 2.5 * GIB,
            ("1", "pod-1"): 2.5 * GIB,
        }
        ratio = node.by_pod("memory_used_ratio_sum")["pod-0"] / node.by_pod(RATIO_COUNT)["pod-0"]
        assert ratio == pytest.approx(2.5 * GIB / (19968 * BYTES_PER_MIB), rel=0.01)
