"""Virtual machines on a vGPU host, told as workloads."""

from typing import Any

import pynvml
import pytest
from support.pages import Parsed, from_text
from support.simulated import (
    Simulate,
    SimulatedNode,
    calls_of,
    constant,
    number,
    simulated_card,
    text,
)
from support.tenants import GIB, pod, process, tenants

from rightslice.exporter.collectors.vgpu_workloads import key_of
from rightslice.exporter.host.nvml.vgpu import VgpuReader
from rightslice.exporter.host.nvml.vgpu_schedule import LOG_V1, LOG_V2
from rightslice.exporter.sampler import Sampler
from rightslice.exporter.simulate.card import Mig, MigInstance, Vgpu, VgpuInstance
from rightslice.exporter.simulate.load import Level, Peak

ACTIVE, VM_ID = "nvmlDeviceGetActiveVgpus", "nvmlVgpuInstanceGetVmID"
USE, USED = "nvmlDeviceGetVgpuUtilization", "nvmlVgpuInstanceGetFbUsage"
INSTANCE = "nvmlVgpuInstanceGetGpuInstanceId"
NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
COLLECTORS = ("gpu_use", "vgpu", "vgpu_workloads")
OVERRUNS = "rightslice_vgpu_scheduler_log_overruns_total"
WAIT, BOUND = "timeslice_wait_seconds_total", "timeslice_wait_upper_bound_seconds_total"
BUSY, BUSY_MINUTES = "busy_seconds_total", "busy_ratio_count"
MEMORY_COUNT = "memory_used_ratio_count"
MINUTE = 60
FIRST_ID = 0x100


def guest(vm_id: str, load: float | Level = 0.1, **changes: Any) -> VgpuInstance:
    usual: dict[str, Any] = {
        "memory_used_bytes": constant(3 * GIB),
        "busy_ratio": load if isinstance(load, Level) else constant(load),
        "vm_id": vm_id,
    }
    return VgpuInstance("A100D-10C", **(usual | changes))


def host(*guests: VgpuInstance, scheduler: str = "best_effort", **changes: Any) -> Any:
    busy_ratio = sum(each.busy_ratio.low for each in guests)
    usual: dict[str, Any] = {
        "name": "NVIDIA A100 80GB PCIe",
        "memory_total_bytes": 80 * GIB,
        "busy_ratio": constant(min(busy_ratio, 1.0)),
        "virtualization": "host_vgpu",
        "vgpu": Vgpu(scheduler, instances=guests),
        "process_count": 0,
    }
    return simulated_card(**(usual | changes))


def rows_of(sampler: Sampler) -> Parsed:
    return from_text(sampler.page()[0])


def by_vm(sampler: Sampler, name: str) -> dict[str, float]:
    """Give what the page tells of one metric of workloads, by virtual machine."""
    found = f"rightslice_workload_{name}"
    return {labels["pod"]: value for told, labels, value in rows_of(sampler) if told == found}


def waited(sampler: Sampler) -> dict[tuple[str, str], float]:
    """Give the waits by virtual machine and source."""
    found = f"rightslice_workload_{WAIT}"
    return {
        (labels["pod"], labels["source"]): value
        for told, labels, value in rows_of(sampler)
        if told == found
    }


def played(node: SimulatedNode, rounds: int) -> Sampler:
    """Sample so many seconds after the first reading."""
    sampler = node.sampler(COLLECTORS)
    node.sample_rounds(sampler, 1 + rounds)
    return sampler


def test_a_virtual_machine_is_a_workload_named_by_itself_and_its_vgpu(simulate: Simulate) -> None:
    node = simulate(host(guest("vm-a")))
    sampler = played(node, 10)
    instances = node.host.gpus[0].reader(VgpuReader).guests()
    assert instances is not None

    (labels,) = [row for name, row, _ in rows_of(sampler) if name == "rightslice_workload_info"]

    assert labels == {
        "uuid": "GPU-0001",
        "gpu_instance_id": "",
        "workload_kind": "vm",
        "namespace": "",
        "pod": "vm-a",
        "container": instances[0].uuid,
        "class": "",
        "owner_kind": "",
        "owner": "",
        "team": "",
        "protected": "",
    }
    assert by_vm(sampler, "allocated_seconds_total") == {"vm-a": 10}
    assert by_vm(sampler, "observed_seconds_total") == {"vm-a": 10}


def test_its_memory_is_told_and_what_its_type_promised(simulate: Simulate) -> None:
    sampler = played(simulate(host(guest("vm-a"), guest("vm-b"))), 10)

    assert by_vm(sampler, "memory_used_bytes") == {"vm-a": 3 * GIB, "vm-b": 3 * GIB}
    assert by_vm(sampler, "memory_used_peak_bytes") == {"vm-a": 3 * GIB, "vm-b": 3 * GIB}
    assert by_vm(sampler, MEMORY_COUNT) == {"vm-a": 10, "vm-b": 10}
    assert by_vm(sampler, "memory_used_ratio_sum")["vm-a"] == pytest.approx(10 * 3 / 80)
    promised = [row for row in rows_of(sampler) if row[0].endswith("_workload_memory_limit_bytes")]
    assert {(row["source"], value) for _, row, value in promised} == {("vgpu", 10 * GIB)}


def test_memory_beyond_what_was_promised_is_refused_and_counted(simulate: Simulate) -> None:
    too_much = guest("vm-a", memory_used_bytes=constant(11 * GIB))
    sampler = played(simulate(host(too_much)), 10)

    assert by_vm(sampler, "memory_used_bytes") == {}
    rejected = [row for row in rows_of(sampler) if row[0] == "rightslice_rejected_samples_total"]
    assert {row["collector"]: value for _, row, value in rejected}["vgpu_workloads"] == 11


def test_who_is_alone_never_waits_and_has_no_histograms(simulate: Simulate) -> None:
    sampler = played(simulate(host(guest("vm-a", 0.3))), 2 * MINUTE)

    assert by_vm(sampler, BUSY) == {"vm-a": pytest.approx(36.0)}
    assert waited(sampler) == {("vm-a", "exclusive"): 0}
    assert by_vm(sampler, BOUND) == {"vm-a": 0}
    assert by_vm(sampler, BUSY_MINUTES) == by_vm(sampler, MEMORY_COUNT) == {}


def test_two_vgpus_of_one_machine_are_no_company_and_yet_take_turns(simulate: Simulate) -> None:
    node = simulate(host(guest("vm-a", 0.5), guest("vm-a", 0.5)))
    sampler = played(node, 2 * MINUTE)

    assert by_vm(sampler, BUSY_MINUTES) == by_vm(sampler, MEMORY_COUNT) == {}
    assert waited(sampler) == {("vm-a", "estimate"): pytest.approx(60.0, rel=0.02)}


def test_who_had_company_keeps_its_histograms(simulate: Simulate) -> None:
    node = simulate(host(guest("vm-a", 0.2), guest("vm-b", 0.1)))
    sampler = played(node, 10)
    node.answer(ACTIVE, one_guest)

    node.sample_rounds(sampler, 2 * MINUTE)

    assert by_vm(sampler, MEMORY_COUNT)["vm-a"] == 10 + 2 * MINUTE
    assert by_vm(sampler, BUSY_MINUTES)["vm-a"] == 2
    assert set(by_vm(sampler, "info")) == {"vm-a"}
    assert waited(sampler)[("vm-a", "exclusive")] == 0


def one_guest(_: Any, count: Any, numbers: Any) -> int:
    count._obj.value, numbers[0] = 1, FIRST_ID
    return int(pynvml.NVML_SUCCESS)


@pytest.mark.parametrize(
    ("scheduler", "shares"),
    [
        pytest.param("equal_share", 2, id="as many as run"),
        pytest.param("fixed_share", 8, id="as many as would fit"),
    ],
)
def test_who_has_slots_of_its_own_waits_for_them(
    scheduler: str, shares: int, simulate: Simulate
) -> None:
    node = simulate(host(guest("vm-a", 0.1), guest("vm-b", 0.05), scheduler=scheduler))
    asked = calls_of(node, LOG_V2)
    sampler = played(node, MINUTE)

    assert waited(sampler) == {
        ("vm-a", "estimate"): pytest.approx(MINUTE * 0.1 * (shares - 1)),
        ("vm-b", "estimate"): pytest.approx(MINUTE * 0.05 * (shares - 1)),
    }
    assert by_vm(sampler, BOUND) == {
        "vm-a": pytest.approx(MINUTE * 0.9),
        "vm-b": pytest.approx(MINUTE * 0.95),
    }
    assert asked == []


def test_under_fixed_shares_one_waits_even_alone(simulate: Simulate) -> None:
    sampler = played(simulate(host(guest("vm-a", 0.1), scheduler="fixed_share")), MINUTE)

    assert waited(sampler) == {("vm-a", "estimate"): pytest.approx(MINUTE * 0.7)}


def test_with_best_effort_the_log_tells_once_it_is_known_whose_runs_they_are(
    simulate: Simulate,
) -> None:
    node = simulate(host(guest("vm-a", 0.4), guest("vm-b", 0.2)))
    sampler = played(node, MINUTE)
    before = waited(sampler)

    node.sample_rounds(sampler, MINUTE)

    after = waited(sampler)
    assert after[("vm-a", "estimate")] == before[("vm-a", "estimate")] > 0
    # In each tenth of a second: 20 turns of vm-a, each of the first 10 before one of vm-b.
    grown = {vm: after[(vm, "vgpu_log")] - before[(vm, "vgpu_log")] for vm in ("vm-a", "vm-b")}
    assert grown["vm-a"] == pytest.approx(MINUTE * 0.2, rel=0.2)
    assert grown["vm-b"] == pytest.approx(MINUTE * 0.2, rel=0.3)
    assert by_vm(sampler, BUSY)["vm-a"] == pytest.approx(2 * MINUTE * 0.4, rel=0.05)
    assert by_vm(sampler, BUSY)["vm-b"] == pytest.approx(2 * MINUTE * 0.2, rel=0.05)
    for vm in ("vm-a", "vm-b"):
        told = sum(value for (name, _), value in after.items() if name == vm)
        assert told <= by_vm(sampler, BOUND)[vm]


def test_readings_in_which_the_log_was_overwritten_are_counted(simulate: Simulate) -> None:
    sampler = played(simulate(host(guest("vm-a", 0.4), guest("vm-b", 0.2))), MINUTE)
    light = played(simulate(host(guest("vm-a", 0.04), guest("vm-b", 0.02))), MINUTE)

    # The policy is known after the first reading, and the log's end after the second.
    assert {name: value for name, _, value in rows_of(sampler)}[OVERRUNS] == MINUTE - 1
    assert {name: value for name, _, value in rows_of(light)}[OVERRUNS] == 0


@pytest.mark.parametrize(
    "loads",
    [pytest.param((0.5, 0.5), id="full"), pytest.param((0.2, 0.2, 0.2), id="half full")],
)
def test_machines_of_the_same_load_are_estimated_from_what_the_driver_tells_of_each(
    loads: tuple[float, ...], simulate: Simulate
) -> None:
    guests = [guest(f"vm-{position}", load) for position, load in enumerate(loads)]
    sampler = played(simulate(host(*guests)), MINUTE)

    found = waited(sampler)
    assert {source for _, source in found} == {"estimate"}
    assert min(found.values()) == pytest.approx(max(found.values()))
    assert min(found.values()) > 0
    assert by_vm(sampler, BUSY) == {
        f"vm-{position}": pytest.approx(MINUTE * load) for position, load in enumerate(loads)
    }


def test_a_driver_without_a_log_is_asked_once_and_the_wait_is_estimated(
    simulate: Simulate,
) -> None:
    node = simulate(host(guest("vm-a", 0.4), guest("vm-b", 0.2)))
    for name in (LOG_V1, LOG_V2):
        node.fail(name, NOT_SUPPORTED)
    asked = [calls_of(node, name) for name in (LOG_V1, LOG_V2)]
    sampler = played(node, MINUTE)

    assert {source for _, source in waited(sampler)} == {"estimate"}
    assert [len(calls) for calls in asked] == [1, 1]
    assert OVERRUNS not in {name for name, _, _ in rows_of(sampler)}


def test_a_log_that_fails_for_a_while_leaves_what_else_is_told(simulate: Simulate) -> None:
    node = simulate(host(guest("vm-a", 0.4), guest("vm-b", 0.2)))
    sampler = played(node, 30)
    usual = getattr(node.library, LOG_V2)
    before = waited(sampler)
    node.fail(LOG_V2, pynvml.NVML_ERROR_UNKNOWN)

    node.sample_rounds(sampler, 30)
    without = waited(sampler)
    node.answer(LOG_V2, usual)
    node.sample_rounds(sampler, 30)

    assert by_vm(sampler, MEMORY_COUNT)["vm-a"] == 90
    assert by_vm(sampler, BUSY)["vm-a"] == pytest.approx(90 * 0.4, rel=0.05)
    assert without[("vm-a", "estimate")] > before[("vm-a", "estimate")]
    assert without[("vm-a", "vgpu_log")] == before[("vm-a", "vgpu_log")]
    assert waited(sampler)[("vm-a", "vgpu_log")] > without[("vm-a", "vgpu_log")]


@pytest.mark.parametrize(
    ("has_log", "marks"),
    [
        pytest.param(False, {"heavy": 0, "light": 1}, id="as estimated"),
        pytest.param(True, {"heavy": 0, "light": 0}, id="the log counts its turns"),
    ],
)
def test_a_light_machine_beside_a_heavy_one_may_wait_longer_than_estimated(
    has_log: bool, marks: dict[str, float], simulate: Simulate
) -> None:
    node = simulate(host(guest("heavy", 0.9), guest("light", 0.1)))
    for name in () if has_log else (LOG_V1, LOG_V2):
        node.fail(name, NOT_SUPPORTED)

    assert by_vm(played(node, MINUTE), "timeslice_wait_may_be_low") == marks


def test_on_a_card_where_nothing_runs_nobody_waits(simulate: Simulate) -> None:
    sampler = played(simulate(host(guest("vm-a", 0.0), guest("vm-b", 0.0))), MINUTE)

    assert set(waited(sampler).values()) == {0}
    assert set(by_vm(sampler, BUSY).values()) == {0}
    assert set(by_vm(sampler, BOUND).values()) == {0}


def test_machines_that_take_turns_of_minutes_do_not_wait(simulate: Simulate) -> None:
    minutes = [Level(0.9, 0.9, Peak(0.0, 120, 60)), Level(0.0, 0.0, Peak(0.9, 120, 60))]
    guests = [guest(f"vm-{position}", level) for position, level in enumerate(minutes)]
    node = simulate(host(*guests, busy_ratio=constant(0.9)))
    sampler = played(node, 2 * MINUTE)
    before = waited(sampler)

    node.sample_rounds(sampler, 2 * MINUTE)

    after = waited(sampler)
    for position in (0, 1):
        vm = f"vm-{position}"
        assert by_vm(sampler, BUSY)[vm] == pytest.approx(0.9 * 2 * MINUTE, rel=0.05)
        grown = {each: after[each] - before.get(each, 0.0) for each in after if each[0] == vm}
        assert sum(grown.values()) < 2.0


def test_each_reading_of_use_serves_both_who_tell_of_it(simulate: Simulate) -> None:
    node = simulate(host(guest("vm-a", 0.3)))
    sampler = played(node, MINUTE)

    use = [value for name, _, value in rows_of(sampler) if name == "rightslice_vgpu_busy_ratio"]
    assert use == [0.3]
    assert by_vm(sampler, BUSY) == {"vm-a": pytest.approx(MINUTE * 0.3)}


@pytest.mark.parametrize(
    ("function", "missing"),
    [
        pytest.param(USED, ["memory_used_bytes", MEMORY_COUNT], id="memory"),
        pytest.param(USE, [BUSY, WAIT, BOUND, BUSY_MINUTES], id="use"),
    ],
)
def test_what_a_driver_does_not_tell_has_no_series(
    function: str, missing: list[str], simulate: Simulate
) -> None:
    node = simulate(host(guest("vm-a"), guest("vm-b")))
    node.fail(function, NOT_SUPPORTED)
    sampler = played(node, MINUTE)

    assert {name: by_vm(sampler, name) for name in missing} == {name: {} for name in missing}
    assert by_vm(sampler, "info") == {"vm-a": 1, "vm-b": 1}


def test_where_the_policy_is_not_told_only_the_busy_time_is(simulate: Simulate) -> None:
    faults = {
        "nvmlDeviceGetVgpuSchedulerState_v2": NOT_SUPPORTED,
        "nvmlDeviceGetVgpuSchedulerState": NOT_SUPPORTED,
    }
    sampler = played(simulate(host(guest("vm-a", 0.3), guest("vm-b"), faults=faults)), MINUTE)

    assert by_vm(sampler, BUSY)["vm-a"] == pytest.approx(MINUTE * 0.3)
    assert waited(sampler) == {}
    assert by_vm(sampler, BOUND) == {}


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda *_: int(NOT_SUPPORTED), id="not supported"),
        pytest.param(lambda *arguments: text(b"")(*arguments[:3]), id="empty"),
    ],
)
def test_a_machine_whose_id_is_not_told_is_known_by_its_vgpu(
    answer: Any, simulate: Simulate
) -> None:
    node = simulate(host(guest("vm-a"), guest("vm-b")))
    node.answer(VM_ID, answer)
    sampler = played(node, MINUTE)

    infos = [row for name, row, _ in rows_of(sampler) if name == "rightslice_workload_info"]
    assert [row["pod"] for row in infos] == ["", ""]
    assert len({row["container"] for row in infos}) == 2
    counts = [row for row in rows_of(sampler) if row[0].endswith(f"workload_{MEMORY_COUNT}")]
    assert [value for _, _, value in counts] == [MINUTE, MINUTE]


def test_a_machine_that_ended_is_no_workload_any_more(simulate: Simulate) -> None:
    node = simulate(host(guest("vm-a"), guest("vm-b")))
    sampler = played(node, 10)
    node.answer(ACTIVE, lambda _, count, numbers: number(0)(count))

    node.sample_rounds(sampler, 6)

    assert by_vm(sampler, "info") == by_vm(sampler, "memory_used_bytes") == {}
    assert by_vm(sampler, "allocated_seconds_total") == {"vm-a": 10, "vm-b": 10}


def test_with_mig_on_a_machine_that_has_its_instance_for_itself_never_waits(
    simulate: Simulate,
) -> None:
    mig = Mig(instances=(MigInstance("1g.10gb", 0), MigInstance("1g.10gb", 1)))
    node = simulate(host(guest("vm-a"), guest("vm-b"), mig=mig))
    node.answer(INSTANCE, lambda vgpu, target: number(7 + vgpu.value - FIRST_ID)(target))
    sampler = played(node, MINUTE)

    infos = [row for name, row, _ in rows_of(sampler) if name == "rightslice_workload_info"]
    assert {row["pod"]: row["gpu_instance_id"] for row in infos} == {"vm-a": "7", "vm-b": "8"}
    assert waited(sampler) == {("vm-a", "exclusive"): 0, ("vm-b", "exclusive"): 0}
    assert by_vm(sampler, BUSY) == by_vm(sampler, MEMORY_COUNT) == {}


def test_with_mig_on_the_wait_of_several_in_one_instance_is_unknown(simulate: Simulate) -> None:
    mig = Mig(instances=(MigInstance("1g.10gb", 0),))
    node = simulate(host(guest("vm-a"), guest("vm-b"), mig=mig))
    node.answer(INSTANCE, number(7))
    sampler = played(node, MINUTE)

    assert waited(sampler) == {}
    assert set(by_vm(sampler, "memory_used_bytes")) == {"vm-a", "vm-b"}


def test_a_card_that_is_no_host_after_all_has_no_machines(simulate: Simulate) -> None:
    node = simulate(host(guest("vm-a")))
    node.fail(ACTIVE, NOT_SUPPORTED)

    assert by_vm(played(node, 10), "info") == {}


def test_a_machine_with_two_vgpus_is_two_parts_of_its_card(simulate: Simulate) -> None:
    node = simulate(host(guest("vm-a"), guest("vm-a")))
    (card,) = node.open()

    keys = [key_of(each) for each in card.reader(VgpuReader).guests() or ()]

    assert len(set(keys)) == 2
    assert {workload.pod for _, workload in keys} == {"vm-a"}


def test_processes_on_a_host_s_card_are_no_workloads() -> None:
    card = host(guest("vm-a"), guest("vm-b"), processes=(process(11), process(12)))
    with tenants(card) as node:
        node.run(pod("chat"), 11)

        node.rounds(30)

        kinds = {
            labels["workload_kind"] for _, labels, _ in node.rows() if "workload_kind" in labels
        }
        assert kinds == {"vm"}
        unknown = "rightslice_gpu_memory_hidden_bytes", "rightslice_gpu_memory_unattributed_bytes"
        assert not {name for name, _, _ in node.rows()} & set(unknown)
