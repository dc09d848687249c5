"""What workloads are, for how long they held a card, what they were promised, and their CPU."""

from dataclasses import replace
from typing import Any

import pynvml
import pytest
from support.simulated import BYTES_PER_MIB, constant, simulated_card
from support.tenants import GIB, granted, pod, process, shared_card, tenants

from rightslice.exporter.host.kubelet.pods import PodFacts
from rightslice.exporter.simulate.card import Mig, MigInstance
from rightslice.exporter.simulate.workload import SimulatedWorkload

ALLOCATED, OBSERVED = "allocated_seconds_total", "observed_seconds_total"
LIMIT = "rightslice_workload_memory_limit_bytes"
COMMITTED = "rightslice_slice_memory_committed_bytes"
CPU = "cpu_seconds_total"
WORDS = ("class", "owner_kind", "owner", "team", "protected")
INFO = "rightslice_workload_info"
LIMITS = "nvmlDeviceGetMemoryLimits_v1"


def test_without_an_orchestrator_who_is_on_the_card_holds_it() -> None:
    with tenants(shared_card(1, process(11)), has_kubelet=False) as node:
        node.run(SimulatedWorkload("notebook", pod="jupyter"), 11, command="jupyter", user_id=0)

        node.rounds(12)

        assert node.told(f"rightslice_workload_{ALLOCATED}", "workload_kind", "pod") == {
            ("process", "jupyter"): 10
        }
        assert node.told(f"rightslice_workload_{OBSERVED}", "pod", "signal") == {
            ("jupyter", "memory"): 11,
            ("jupyter", "busy"): 10,
        }


def test_with_one_only_who_was_granted_it_does() -> None:
    with tenants(shared_card(1, process(11), process(12))) as node:
        node.run(pod("holder"), 11)
        node.run(pod("squatter"), 12)
        node.kubelet.set_pods([granted("holder", "nvidia0")])

        node.rounds(12)

        assert node.by_pod(ALLOCATED) == {"holder": 10, "squatter": 0}
        assert set(node.told(f"rightslice_workload_{OBSERVED}", "pod")) == {"holder", "squatter"}


def test_what_an_allocation_is_before_the_kubelet_has_told_anything_is_unknown() -> None:
    with tenants(shared_card(1, process(11))) as node:
        node.run(pod("chat"), 11)
        node.kubelet.stop(leave_socket=True)

        node.rounds(12)

        assert set(node.told(f"rightslice_workload_{OBSERVED}", "pod")) == {"chat"}
        assert node.by_pod(ALLOCATED) == {}


def test_a_pod_is_described_by_its_labels_and_its_controller() -> None:
    labels = {
        "rightslice.io/class": "inference",
        "rightslice.io/team": "assistants",
        "rightslice.io/protected": "true",
        "rightslice.io/memory-limit": "12Gi",
    }
    facts = PodFacts("team", "chat", labels=labels, owner_kind="Deployment", owner="chat")
    with tenants(shared_card(1, process(11))) as node:
        node.run(pod("chat"), 11)
        node.node.host.attribution.kubelet_pods.fetch = lambda: (facts,)

        node.rounds(7)

        assert list(node.told(INFO, *WORDS)) == [
            ("inference", "Deployment", "chat", "assistants", "true")
        ]
        assert node.told(LIMIT, "source") == {"label": 12 * GIB}


def test_where_nobody_describes_it_its_labels_are_empty() -> None:
    with tenants(shared_card(1, process(11))) as node:
        node.run(pod("chat"), 11)

        node.rounds(7)

        assert list(node.told(INFO, *WORDS)) == [("", "", "", "", "")]
        assert node.told(LIMIT, "source") == {}
        assert node.told(COMMITTED, "uuid") == {}


@pytest.mark.parametrize(
    ("environment", "limits"),
    [
        ({"CUDA_DEVICE_MEMORY_LIMIT": "3000m"}, {"hami": 3000 * BYTES_PER_MIB}),
        ({"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=2G"}, {"mps": 2 * GIB}),
        ({"CUDA_DEVICE_MEMORY_LIMIT": "much"}, {}),
        ({}, {}),
    ],
)
def test_a_promise_is_read_from_the_environment(
    environment: dict[str, str], limits: dict[str, int]
) -> None:
    with tenants(shared_card(1, process(11))) as node:
        node.run(pod("chat"), 11, environment=environment)

        node.rounds(12)

        assert node.told(LIMIT, "source") == limits


def test_promises_add_up_to_what_is_committed_each_by_its_least() -> None:
    hami = {"CUDA_DEVICE_MEMORY_LIMIT": "30g", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=20G"}
    with tenants(shared_card(1, process(11), process(12), process(13))) as node:
        node.run(pod("first"), 11, environment=hami)
        node.run(pod("second"), 12, environment={"CUDA_DEVICE_MEMORY_LIMIT": "30g"})
        node.run(pod("without"), 13)

        node.rounds(12)

        assert node.told(COMMITTED, "uuid") == {"GPU-0001": 50 * GIB}
        assert node.told("rightslice_gpu_memory_total_bytes", "uuid")["GPU-0001"] < 50 * GIB


def test_an_instance_is_a_promise_to_who_is_alone_in_it() -> None:
    instances = (
        MigInstance("3g.20gb", 0, memory_used_bytes=constant(GIB)),
        MigInstance("3g.20gb", 4, memory_used_bytes=constant(GIB), compute=(1, 2)),
    )
    with tenants(simulated_card(mig=Mig(instances=instances))) as node:
        (gpu,) = node.node.open()
        for number, each in enumerate(gpu.compute_processes() or ()):
            node.run(pod(f"pod-{number}"), each.process_id)

        node.rounds(7)

        assert list(node.told(LIMIT, "pod", "source")) == [("pod-0", "mig")]


def test_a_guest_s_card_is_a_promise_to_who_is_alone_on_it() -> None:
    with tenants(shared_card(1, process(11), virtualization="vgpu")) as node:
        node.run(pod("chat"), 11)

        node.rounds(7)

        assert node.told(LIMIT, "pod", "source") == {("chat", "vgpu"): 40960 * BYTES_PER_MIB}


def test_a_limit_of_the_driver_for_a_cgroup_is_told() -> None:
    asked: list[str] = []

    def limits(_: Any, reference: Any) -> int:
        asked.append(reference._obj.nameSpace)
        reference._obj.hardLimit = 6 * GIB
        return int(pynvml.NVML_SUCCESS)

    with tenants(shared_card(1, process(11))) as node:
        node.run(pod("chat"), 11)
        node.node.answer(LIMITS, limits)

        node.rounds(7)

        assert node.told(LIMIT, "pod", "source") == {("chat", "nvml"): 6 * GIB}
        assert set(asked) == {f"{node.tree.sysfs}/fs/cgroup{pod('chat').cgroup_path}"}


def test_processor_time_counts_from_when_the_workload_is_first_seen() -> None:
    chat = pod("chat")
    with tenants(shared_card(1, process(11), process(12))) as node:
        node.run(chat, 11, 12)
        node.rounds(1)  # it is named
        for seconds in (100.0, 103.0, 109.5):
            text = f"usage_usec {int(seconds * 1e6)}\n"
            node.tree.add_cgroup(chat.cgroup_path, files={"cpu.stat": text})
            node.rounds(5)

        assert node.by_pod(CPU) == {"chat": pytest.approx(9.5)}


def test_processor_time_of_a_container_that_is_made_anew_counts_from_there() -> None:
    first, again = pod("chat"), replace(pod("chat"), name="chat again")
    guest = process(12, since_seconds=12)
    with tenants(shared_card(1, process(11, until_seconds=12), guest)) as node:
        for each, process_id, seconds in ((first, 11, 50), (again, 12, 7)):
            node.run(each, process_id)
            node.rounds(1)
            for step in range(2):
                text = f"usage_usec {(seconds + step) * 1_000_000}\n"
                node.tree.add_cgroup(each.cgroup_path, files={"cpu.stat": text})
                node.rounds(5)

        assert node.by_pod(CPU) == {"chat": pytest.approx(2.0)}


def test_plain_processes_have_their_own_processor_time_added_up() -> None:
    def start(node: Any, ticks: int) -> None:
        for process_id in (11, 12):
            node.tree.start(process_id, command="train", user_id=0, user_ticks=ticks)

    with tenants(shared_card(1, process(11), process(12)), has_kubelet=False) as node:
        start(node, 100)
        node.rounds(6)
        start(node, 350)
        node.rounds(6)

        assert node.by_pod(CPU) == {"train": pytest.approx(5.0)}
