"""What was not seen is nobody's: no failure or missing name makes a workload busy, or idle."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pynvml
import pytest
from support.simulated import (
    Simulate,
    constant,
    fail_first_instance,
    simulated_card,
)
from support.tenants import (
    FIRST_BLOCKS,
    GIB,
    Tenants,
    granted,
    pod,
    process,
    shared_card,
    tenants,
)

from rightslice.exporter.collectors.workload_info import pod_promise
from rightslice.exporter.simulate.card import Mig, MigInstance

USE = "nvmlDeviceGetProcessUtilization"
COMPUTE = "nvmlDeviceGetComputeRunningProcesses_v3"
GRAPHICS = "nvmlDeviceGetGraphicsRunningProcesses_v3"
SAMPLES = "nvmlDeviceGetSamples"
BUSY, ALLOCATED = "busy_seconds_total", "allocated_seconds_total"
OBSERVED = "rightslice_workload_observed_seconds_total"
UNATTRIBUTED = "rightslice_gpu_unattributed_busy_seconds_total"
CARD_BUSY = "rightslice_gpu_busy_seconds_total"
CARD = "GPU-0001"


@contextmanager
def failing(node: Tenants, name: str, code: int = pynvml.NVML_ERROR_UNKNOWN) -> Iterator[None]:
    """Let an NVML function fail for the length of the block."""
    usual = getattr(node.node.library, name)
    node.node.answer(name, lambda *_: code)
    yield
    node.node.answer(name, usual)


def busy_observed(node: Tenants) -> dict[str, float]:
    return {
        name: seconds
        for (name, signal), seconds in node.told(OBSERVED, "pod", "signal").items()
        if signal == "busy"
    }


def unaccounted_seconds(node: Tenants) -> float:
    """Give what the card was busy for beyond its workloads and what is nobody's."""
    parts = sum(node.by_pod(BUSY).values()) + sum(node.told(UNATTRIBUTED, "uuid").values())
    return sum(node.told(CARD_BUSY, "uuid").values()) - parts


def test_time_in_which_processes_were_not_listed_is_nobody_s() -> None:
    with tenants(shared_card(1, process(11, 1, 0.5))) as node:
        node.run(pod("chat"), 11)
        node.rounds(FIRST_BLOCKS)
        busy, observed = node.by_pod(BUSY)["chat"], busy_observed(node)["chat"]

        with failing(node, COMPUTE):
            node.rounds(600)
        node.rounds(6)

        assert node.by_pod(BUSY)["chat"] - busy <= 5
        assert busy_observed(node)["chat"] - observed <= 8
        assert node.told(UNATTRIBUTED, "uuid")[CARD] == pytest.approx(300, abs=5)
        assert abs(unaccounted_seconds(node)) <= 4


def test_who_comes_after_a_gap_is_not_charged_with_it() -> None:
    rows = (process(11, 1, 0.5, until_seconds=100), process(12, 1, 0.5, since_seconds=200))
    with tenants(shared_card(1, *rows)) as node:
        node.run(pod("first"), 11)
        node.run(pod("second"), 12)
        node.rounds(FIRST_BLOCKS)

        with failing(node, COMPUTE):
            node.rounds(300)
        node.rounds(20)

        seen_seconds = busy_observed(node)["second"]
        assert seen_seconds <= 22
        assert node.by_pod(BUSY)["second"] <= 0.5 * seen_seconds + 0.5


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_UNKNOWN, pynvml.NVML_ERROR_NOT_SUPPORTED])
def test_while_the_use_of_single_processes_is_not_told_nobody_reads_as_idle(code: int) -> None:
    with tenants(shared_card(1, process(11, 1, 0.4), process(12, 1, 0.3))) as node:
        node.run(pod("left"), 11)
        node.run(pod("right"), 12)
        node.rounds(FIRST_BLOCKS)
        busy, observed = node.by_pod(BUSY), busy_observed(node)

        with failing(node, USE, code):
            node.rounds(600)
            assert node.by_pod(BUSY) == busy
            assert busy_observed(node) == observed
            assert node.told(OBSERVED, "pod", "signal")["left", "memory"] > 600
            assert abs(unaccounted_seconds(node)) <= 8 * 0.7
        node.rounds(20)

        assert node.told(UNATTRIBUTED, "uuid")[CARD] == pytest.approx(600 * 0.7, rel=0.05)
        assert abs(unaccounted_seconds(node)) <= 8 * 0.7


def test_the_driver_is_not_asked_for_single_processes_more_often_when_it_fails() -> None:
    asked: list[float] = []
    with tenants(shared_card(1, process(11, 1, 0.4), process(12, 1, 0.3))) as node:
        node.run(pod("left"), 11)
        node.run(pod("right"), 12)

        def fail(*_: Any) -> int:
            asked.append(node.node.clock.now_seconds())
            return int(pynvml.NVML_ERROR_UNKNOWN)

        node.node.answer(USE, fail)
        node.rounds(1 + 60)

    assert min(after - before for before, after in pairwise(asked)) >= 4.9


def test_under_mps_the_card_s_busy_time_is_nobody_s() -> None:
    rows = (process(pid, 1, 0.3, kind="mps") for pid in (11, 12))
    with tenants(shared_card(1, *rows)) as node:
        node.run(pod("left"), 11)
        node.run(pod("right"), 12)

        node.rounds(1 + 60)

        assert node.by_pod(BUSY) == {}
        assert unaccounted_seconds(node) == pytest.approx(0, abs=1)


def test_while_a_card_settles_neither_it_nor_its_workloads_are_busy() -> None:
    with tenants(shared_card(1, process(11, 1, 0.5), process(12, 1, 0.25))) as node:
        node.run(pod("left"), 11)
        node.run(pod("right"), 12)
        node.rounds(1)
        (gpu,) = node.node.host.gpus
        gpu.settling_seconds = 30

        node.rounds(30)
        before = node.by_pod(BUSY)
        node.rounds(60)

        assert sum(before.values()) == 0
        assert abs(unaccounted_seconds(node)) <= 8 * 0.75


def test_a_lone_workload_is_not_charged_with_what_came_and_went_unseen() -> None:
    with tenants(
        shared_card(1, process(11, 1, 0.5, until_seconds=30), process(12, 1, 0.0))
    ) as node:
        node.run(pod("busy"), 11)
        node.run(pod("holder"), 12)
        node.rounds(40)

        before = node.told(UNATTRIBUTED, "uuid")[CARD]
        usual = getattr(node.node.library, SAMPLES)

        def busy(*arguments: Any) -> int:
            code: int = usual(*arguments)
            count, samples = arguments[-2]._obj.value, arguments[-1]
            for slot in range(count if samples is not None else 0):
                samples[slot].sampleValue.uiVal = 60
            return code

        node.node.answer(SAMPLES, busy)
        node.rounds(100)

        assert node.by_pod(BUSY)["holder"] <= 1  # what was too little to tell whose it was
        assert node.told(UNATTRIBUTED, "uuid")[CARD] - before == pytest.approx(60, abs=6)


def test_an_instance_whose_memory_fails_costs_the_others_nothing(simulate: Simulate) -> None:
    instances = tuple(
        MigInstance("1g.5gb", start, memory_used_bytes=constant(GIB)) for start in range(3)
    )
    with tenants(simulated_card(mig=Mig(instances=instances))) as node:
        (gpu,) = node.node.open()
        for each in gpu.compute_processes() or ():
            node.run(pod(f"pod-{each.gpu_instance_id}"), each.process_id)
        node.rounds(7)
        fail_first_instance(node.node, gpu, pynvml.NVML_ERROR_UNKNOWN)
        before = node.by_pod(ALLOCATED)

        node.rounds(20)

        after = node.by_pod(ALLOCATED)
        assert {after[name] - before[name] for name in before} == {20}
        assert len(node.by_pod("memory_used_bytes")) == 2


def test_a_list_that_fails_does_not_end_the_allocation() -> None:
    with tenants(shared_card(1, process(11, 1, 0.5)), has_kubelet=False) as node:
        node.run(pod("chat"), 11)
        node.rounds(7)
        before = node.told("rightslice_gpu_allocated_seconds_total", "uuid")[CARD]

        with failing(node, GRAPHICS):
            node.rounds(20)

            after = node.told("rightslice_gpu_allocated_seconds_total", "uuid")[CARD]
            assert after - before == 20
            assert node.told("rightslice_collector_success", "collector")["gpu_processes"] == 0


def test_a_pod_that_has_no_name_makes_no_holder_idle_and_is_no_intruder() -> None:
    with tenants(shared_card(1, process(11, 1, 0.5))) as node:
        chat = pod("chat")
        node.tree.start(11, chat.cgroup_text)  # its log folder is not to be seen
        node.tree.add_cgroup(chat.cgroup_path, (11,))
        node.kubelet.set_pods([granted("chat", "nvidia0")])

        node.rounds(120)

        assert chat.pod_uid in node.by_pod(BUSY)
        assert "chat" not in node.by_pod(BUSY)
        assert set(node.by_pod(ALLOCATED)) == {"chat"}
        assert node.told("rightslice_gpu_unrequested_busy_seconds_total", "uuid") == {CARD: 0}


def test_a_pod_gets_its_name_however_late() -> None:
    with tenants(shared_card(1, process(11, 1, 0.5))) as node:
        chat = pod("chat")
        node.tree.start(11, chat.cgroup_text)
        node.tree.add_cgroup(chat.cgroup_path, (11,))
        node.kubelet.set_pods([granted("chat", "nvidia0")])
        node.rounds(120)

        node.run(chat, 11)
        node.rounds(60)

        assert node.by_pod("memory_used_bytes") == {"chat": GIB}
        assert node.by_pod(BUSY)["chat"] >= 10


def test_a_container_that_came_before_gives_its_name_to_no_other() -> None:
    with tenants(shared_card(1, process(12, 1, 0.5, since_seconds=20))) as node:
        first, main = (
            replace(pod("chat", container=name), name=name) for name in ("fetch", "main")
        )
        node.run(first, 11)
        node.rounds(20)
        node.tree.end(11)

        node.run(main, 12)
        node.rounds(20)

        assert set(node.told("rightslice_workload_busy_seconds_total", "container")) == {"main"}


def test_what_the_kubelet_told_is_believed_for_a_minute_whatever_hangs() -> None:
    with tenants(shared_card(1, process(11, 1, 0.5))) as node:
        node.run(pod("chat"), 11)
        node.kubelet.set_pods([granted("chat", "nvidia0")])
        node.rounds(12)
        attribution = node.node.host.attribution
        attribution.refresh = lambda: None  # type: ignore[method-assign]  # it waits for a disk
        node.kubelet.set_pods([granted("other", "nvidia0")])
        node.rounds(13)
        before = node.by_pod(ALLOCATED)

        node.rounds(100)

        after = node.by_pod(ALLOCATED)
        assert after["chat"] == before["chat"]
        assert after["other"] - before.get("other", 0) == 100


GIB_LABEL = {"label": 8 * GIB}


@pytest.mark.parametrize(
    ("containers", "promise"),
    [
        pytest.param([GIB_LABEL, GIB_LABEL], 8 * GIB, id="a label counts once for the pod"),
        pytest.param([{"hami": 3 * GIB}, {"hami": 4 * GIB}], 7 * GIB, id="each its own"),
        pytest.param([GIB_LABEL | {"hami": 3 * GIB}], 3 * GIB, id="less than the label"),
        pytest.param([GIB_LABEL | {"hami": 9 * GIB}], 8 * GIB, id="no more than the label"),
        pytest.param([GIB_LABEL | {"hami": 3 * GIB}, GIB_LABEL], 8 * GIB, id="one without"),
        pytest.param([{"hami": 9, "mps": 4}, {}], 4, id="the least of a container's"),
        pytest.param([{}, {}], None, id="nothing"),
    ],
)
def test_a_pod_s_promise(containers: list[dict[str, int]], promise: int | None) -> None:
    assert pod_promise(containers) == promise
