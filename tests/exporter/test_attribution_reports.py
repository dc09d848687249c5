"""What people reported of pods and processes gone wrong in other exporters, and what we do.

Each on a whole node: a simulated driver, files of the kernel, a real gRPC kubelet; read off the
page. The numbers are those of docs/traps.md.
"""

from typing import Any

import grpc
import pytest
from support.simulated import MEMORY_V2, constant, memory_info
from support.tenants import (
    FIRST_BLOCKS,
    GIB,
    claim,
    granted,
    pod,
    process,
    shared_card,
    tenants,
)

from rightslice.exporter.simulate.card import Process, SimulatedCard
from rightslice.exporter.simulate.kubelet import (
    FOREVER_SECONDS,
    SimulatedContainer,
    SimulatedPod,
)

pytestmark = pytest.mark.integration

HEX = "9d5a601f-7904-d141-462b-b9e319d4b60d"
CARD, OTHER = f"GPU-{HEX}", "GPU-ae15ded4-302f-2c8a-d4d3-68ba1bcfca42"
USED, BUSY = "memory_used_bytes", "busy_seconds_total"
ALLOCATED = "allocated_seconds_total"
FAILURES = "rightslice_collector_failures_total"
MIG_ID = "MIG-84e7b4f8-373a-cc5e-0815-9d350e7da8a0"


def card(*processes: Process, uuid: str = CARD, **changes: Any) -> SimulatedCard:
    return shared_card(1, *processes, uuid=uuid, **changes)


@pytest.mark.parametrize(
    "resource", ["nvidia.com/gpu", "nvidia.com/gpu.shared", "example.com/renamed-a100"]
)
def test_a_resource_may_have_any_name(resource: str) -> None:
    with tenants(card(process(11))) as node:
        node.run(pod("chat"), 11)
        node.kubelet.set_pods([granted("chat", CARD, resource=resource)])
        node.kubelet.set_allocatable({resource: (CARD,)})

        node.rounds(8)

        assert node.by_pod(ALLOCATED) == {"chat": 5}


@pytest.mark.parametrize(
    "device_id", [CARD, f"{CARD}::3", HEX, f"{HEX}::0", "nvidia0", "nvidia0/vgpu2"]
)
def test_a_card_is_known_in_every_spelling(device_id: str) -> None:
    with tenants(card()) as node:
        node.kubelet.set_pods([granted("chat", device_id)])

        node.rounds(8)

        assert node.by_pod(ALLOCATED) == {"chat": 5}
        assert node.told("rightslice_attribution_unmapped_devices", "source") == {"kubelet": 0}


def test_every_pod_on_a_shared_card_is_told_and_the_card_once() -> None:
    names = [f"pod-{number}" for number in range(4)]
    with tenants(card(*(process(20 + number) for number in range(4)))) as node:
        for number, name in enumerate(names):
            node.run(pod(name), 20 + number)
        node.kubelet.set_pods([granted(name, f"{CARD}::{i}") for i, name in enumerate(names)])

        node.rounds(3)

        assert node.by_pod(USED) == dict.fromkeys(names, GIB)
        assert node.told("rightslice_gpu_memory_used_bytes", "uuid") == {CARD: 4 * GIB}


def test_the_parts_of_a_card_add_up_to_the_card() -> None:
    parts = (process(21, 8, 0.4), process(22, 4, 0.25), process(23, 2, 0.1), process(24, 1, 0.05))
    with tenants(card(*parts)) as node:
        for number, name in enumerate(("a", "b", "c")):
            node.run(pod(name), 21 + number)  # the fourth is hidden
        node.node.answer(MEMORY_V2, memory_info(40 * GIB, 17 * GIB, GIB))  # 2 GiB of nobody

        node.rounds(1 + 5 * 6)

        used = sum(node.by_pod(USED).values())
        rest = [
            node.told(f"rightslice_gpu_memory_{name}_bytes", "uuid")[CARD]
            for name in ("hidden", "unattributed")
        ]
        assert (used, rest) == (14 * GIB, [1 * GIB, 2 * GIB])
        assert used + sum(rest) == node.told("rightslice_gpu_memory_used_bytes", "uuid")[CARD]
        busy = sum(node.by_pod(BUSY).values())
        left = node.told("rightslice_gpu_unattributed_busy_seconds_total", "uuid")[CARD]
        whole = node.told("rightslice_gpu_busy_seconds_total", "uuid")[CARD]
        assert busy + left == pytest.approx(whole)
        assert left == pytest.approx(0.05 * 30)


def test_a_shared_card_s_power_and_activity_are_not_copied_to_its_pods() -> None:
    with tenants(card(process(21, 1, 0.5), process(22, 1, 0.2), power_watts=constant(200))) as node:
        node.run(pod("heavy"), 21)
        node.run(pod("light"), 22)

        node.rounds(FIRST_BLOCKS)

        assert node.by_pod(BUSY) == {"heavy": pytest.approx(5.0), "light": pytest.approx(2.0)}
        names = {name for name, labels, _ in node.rows() if labels.get("pod")}
        assert not [name for name in names if "power" in name or "_sm_" in name]


def test_a_finished_pod_that_the_kubelet_lists_holds_nothing() -> None:
    done, last = pod("done"), pod("last")
    with tenants(card(process(11), process(12))) as node:
        node.run(done, 11)
        node.run(last, 12)
        node.kubelet.set_pods([granted("done", f"{CARD}::0"), granted("last", f"{CARD}::1")])
        node.rounds(16)
        node.end(done, 11)

        node.rounds(16)
        before = node.by_pod(ALLOCATED)
        node.rounds(10)
        after = node.by_pod(ALLOCATED)

        assert after["done"] == before["done"]
        assert after["last"] == before["last"] + 10
        assert set(node.by_pod("info")) == {"last"}


def test_a_finished_pod_is_dropped_also_when_this_exporter_never_saw_it_run() -> None:
    with tenants(card()) as node:
        node.tree.add_pod("team", "done", pod("done").pod_uid)
        node.kubelet.set_pods([granted("done", CARD)])

        node.rounds(80)  # a young pod may still be waiting for its volumes
        before = node.by_pod(ALLOCATED)["done"]
        node.rounds(30)

        assert before <= 65
        assert node.by_pod(ALLOCATED)["done"] == before
        assert node.told("rightslice_gpu_allocated_seconds_total", "uuid")[CARD] < 70


def test_while_the_kubelet_is_silent_its_last_word_is_used_on_with_its_age() -> None:
    with tenants(card(process(11))) as node:
        node.run(pod("chat"), 11)
        node.kubelet.set_pods([granted("chat", CARD)])
        node.rounds(11)
        node.kubelet.stop()

        node.rounds(30)

        assert set(node.by_pod(USED)) == {"chat"}
        assert node.by_pod(ALLOCATED) == {"chat": 40}
        assert node.told("rightslice_attribution_age_seconds", "source") == {"kubelet": 30}
        assert node.told(FAILURES, "collector", "reason") == {("kubelet", "absent"): 3}


def test_what_a_kubelet_that_is_silent_for_long_granted_is_unknown_and_not_zero() -> None:
    with tenants(card(process(11))) as node:
        node.run(pod("chat"), 11)
        node.kubelet.set_pods([granted("chat", CARD)])
        node.rounds(11)
        node.kubelet.stop()
        node.rounds(75)
        before = node.by_pod(ALLOCATED), node.told(OBSERVED, "signal")["allocation"]

        node.rounds(20)

        assert (node.by_pod(ALLOCATED), node.told(OBSERVED, "signal")["allocation"]) == before
        assert set(node.by_pod("info")) == {"chat"}
        assert node.by_pod("observed_seconds_total") == {"chat": 105}


OBSERVED = "rightslice_gpu_observed_seconds_total"


def test_a_kubelet_that_comes_back_is_heard_again() -> None:
    with tenants(card()) as node:
        node.kubelet.set_pods([granted("chat", CARD)])
        node.rounds(11)
        node.kubelet.stop(leave_socket=True)
        node.rounds(100)
        node.kubelet.start()

        node.rounds(21)

        assert node.told("rightslice_attribution_age_seconds", "source")["kubelet"] < 10
        assert node.told("rightslice_collector_success", "collector")["kubelet"] == 1


def test_an_answer_of_many_megabytes_is_read() -> None:
    others = [
        SimulatedPod(f"batch-{number}", "x" * 200, (SimulatedContainer("c" * 200),))
        for number in range(12_000)
    ]
    with tenants(card()) as node:
        node.kubelet.set_pods([*others, granted("chat", CARD)])

        node.rounds(8)

        assert node.by_pod(ALLOCATED) == {"chat": 5}


def test_a_kubelet_that_fails_costs_no_card_and_is_counted_with_its_reason() -> None:
    with tenants(card(process(11))) as node:
        node.run(pod("chat"), 11)
        node.kubelet.set_error(grpc.StatusCode.INTERNAL)

        node.rounds(12)

        assert node.told("rightslice_gpu_memory_used_bytes", "uuid") == {CARD: GIB}
        assert node.by_pod(USED) == {"chat": GIB}
        assert node.told(FAILURES, "collector", "reason") == {("kubelet", "unavailable"): 2}
        assert node.told("rightslice_collector_success", "collector")["kubelet"] == 0


def test_instances_that_are_not_there_are_looked_for_once_and_told_as_unmapped() -> None:
    with tenants(card()) as node:
        node.kubelet.set_pods(
            [granted("gone", f"{MIG_ID}::{n}", resource="nvidia.com/mig-1g.5gb") for n in range(30)]
            + [granted("odd", "MIG-GPU-test/1"), granted("chat", CARD)]
        )
        calls = node.node.record_calls()

        node.rounds(12)
        before = len(calls)
        node.rounds(10)

        assert node.by_pod(ALLOCATED) == {"chat": 20}
        assert node.told("rightslice_attribution_unmapped_devices", "source") == {"kubelet": 1}
        # No question to the driver is due to them: as many as without any pod.
        assert len(calls) - before < 100


def test_a_page_asks_nobody_anything() -> None:
    with tenants(card(process(11))) as node:
        node.run(pod("chat"), 11)
        node.kubelet.set_pods([granted("chat", CARD)])
        node.rounds(3)
        asked, calls = node.kubelet.list_count, node.node.record_calls()
        node.kubelet.set_delay(FOREVER_SECONDS)

        for _ in range(50):
            node.rows()

        assert node.kubelet.list_count == asked
        assert calls == []


def test_a_fast_scraper_does_not_make_the_kubelet_be_asked_more_often() -> None:
    with tenants(card()) as node:
        node.kubelet.set_pods([granted("chat", CARD)])

        for _ in range(60):
            node.rounds(1)
            node.rows()

        assert node.kubelet.list_count == 6


def test_a_pod_that_asked_for_no_card_is_found_on_it() -> None:
    with tenants(card(process(11, 2, 0.5))) as node:
        node.run(pod("miner"), 11)
        node.kubelet.set_pods([granted("other")])

        node.rounds(FIRST_BLOCKS)

        assert node.by_pod(USED) == {"miner": 2 * GIB}
        assert node.by_pod(ALLOCATED) == {"miner": 0}
        assert node.told("rightslice_gpu_allocated_seconds_total", "uuid") == {CARD: 0}
        unrequested = node.told("rightslice_gpu_unrequested_busy_seconds_total", "uuid")[CARD]
        assert unrequested == pytest.approx(0.5 * (FIRST_BLOCKS - 1))


@pytest.mark.parametrize("device", ["gpu-0", "gpu-0-mig-1g5gb-0"])
def test_a_card_that_was_claimed_bears_the_same_labels_as_one_of_the_device_plugin(
    device: str,
) -> None:
    with tenants(card(process(11))) as node:
        node.run(pod("chat"), 11)
        node.kubelet.set_allocatable({})
        node.kubelet.set_pods([granted("chat", claims=(claim(device),))])

        node.rounds(8)

        ((_, labels, _),) = [row for row in node.rows() if row[0] == "rightslice_workload_info"]
        assert (labels["namespace"], labels["pod"], labels["container"]) == ("team", "chat", "main")


def test_a_claimed_card_is_allocated_to_its_pod_alone() -> None:
    with tenants(card(process(11)), card(uuid=OTHER)) as node:
        node.run(pod("chat"), 11)
        node.kubelet.set_allocatable(None)
        node.kubelet.set_pods([granted("chat", claims=(claim("gpu-0"),))])

        node.rounds(8)

        assert node.told("rightslice_workload_allocated_seconds_total", "uuid", "pod") == {
            (CARD, "chat"): 5
        }


def test_processes_that_a_pid_namespace_hides_are_told_as_hidden_and_never_as_zero() -> None:
    with tenants(card(process(11, 3, 0.5))) as node:  # no process is in procfs
        node.kubelet.set_pods([granted("chat", CARD)])

        node.rounds(FIRST_BLOCKS)

        assert node.told("rightslice_gpu_processes_visible", "uuid") == {CARD: 0}
        assert node.told("rightslice_gpu_memory_hidden_bytes", "uuid") == {CARD: 3 * GIB}
        assert node.by_pod(ALLOCATED) == {"chat": 10}
        names = {name for name, labels, _ in node.rows() if labels.get("pod") == "chat"}
        assert names == {
            "rightslice_workload_info",
            "rightslice_workload_allocated_seconds_total",
        }


def test_one_process_on_two_cards_is_on_each_with_its_own_memory() -> None:
    with tenants(card(process(11, 3)), card(process(11, 5), uuid=OTHER)) as node:
        node.run(pod("train"), 11)

        node.rounds(3)

        assert node.told("rightslice_workload_memory_used_bytes", "uuid", "pod") == {
            (CARD, "train"): 3 * GIB,
            (OTHER, "train"): 5 * GIB,
        }


def test_one_process_in_two_lists_of_a_card_counts_once_with_the_larger_memory() -> None:
    with tenants(card(process(11, 3), process(11, 2, kind="graphics"))) as node:
        node.run(pod("render"), 11)

        node.rounds(3)

        assert node.by_pod(USED) == {"render": 3 * GIB}


def test_memory_that_no_process_accounts_for_is_told_as_such() -> None:
    with tenants(card(process(11, 5))) as node:
        node.run(pod("managed"), 11)
        node.node.answer(MEMORY_V2, memory_info(40 * GIB, 35 * GIB, GIB))

        node.rounds(3)

        assert node.by_pod(USED) == {"managed": 5 * GIB}
        assert node.told("rightslice_gpu_memory_unattributed_bytes", "uuid") == {CARD: 30 * GIB}
