"""Busy time of each workload, and the wait of its contexts for one another."""

from typing import Any

import pynvml
import pytest
from support.simulated import Simulate, calls_of, constant, hopper, simulated_card
from support.tenants import FIRST_BLOCKS, GIB, granted, pod, process, shared_card, tenants

from rightslice.exporter.collectors.workload_use import collect
from rightslice.exporter.simulate.card import Mig, MigInstance, Process
from rightslice.exporter.simulate.load import Level, Peak

USE = "nvmlDeviceGetProcessUtilization"
BUSY, BUSY_COUNT = "busy_seconds_total", "busy_ratio_count"
WAIT, BOUND = "timeslice_wait_seconds_total", "timeslice_wait_upper_bound_seconds_total"
MAY_BE_LOW = "timeslice_wait_may_be_low"
WAIT_NAME = f"rightslice_workload_{WAIT}"
UNATTRIBUTED = "rightslice_gpu_unattributed_busy_seconds_total"
INCONSISTENT = "rightslice_gpu_inconsistent_use_total"
REJECTED = "rightslice_rejected_samples_total"
CARD = "GPU-0001"


def test_who_is_alone_has_all_of_the_card_s_time_and_never_waits() -> None:
    with tenants(shared_card(1, process(11, 2, 0.4))) as node:
        node.run(pod("chat"), 11)

        node.rounds(FIRST_BLOCKS)

        assert node.by_pod(BUSY) == {"chat": pytest.approx(4.0)}
        assert node.told(WAIT_NAME, "pod", "source") == {("chat", "exclusive"): 0}
        assert node.by_pod(BOUND) == {"chat": 0}
        assert node.by_pod(MAY_BE_LOW) == {}


def test_who_holds_a_card_and_has_no_process_on_it_has_none_of_its_time() -> None:
    with tenants(shared_card(1)) as node:
        node.kubelet.set_pods([granted("idle", "nvidia0")])

        node.rounds(FIRST_BLOCKS)

        assert node.by_pod(BUSY) == {"idle": 0}
        assert node.told(WAIT_NAME, "pod", "source") == {("idle", "exclusive"): 0}


def test_two_that_never_stop_wait_half_of_their_time() -> None:
    with tenants(shared_card(1, process(11, 1, 0.5), process(12, 1, 0.5))) as node:
        node.run(pod("left"), 11)
        node.run(pod("right"), 12)

        node.rounds(1 + 60)

        waits = node.told(WAIT_NAME, "pod", "source")
        assert set(waits) == {("left", "estimate"), ("right", "estimate")}
        assert list(waits.values()) == [pytest.approx(30.0, rel=0.02)] * 2
        assert node.by_pod(BOUND) == {"left": pytest.approx(30.0), "right": pytest.approx(30.0)}


def test_the_wait_is_never_above_the_bound() -> None:
    loads = (0.05, 0.1, 0.2, 0.3)
    rows = (process(11 + number, 1, load) for number, load in enumerate(loads))
    with tenants(shared_card(1, *rows)) as node:
        for number in range(len(loads)):
            node.run(pod(f"pod-{number}"), 11 + number)

        node.rounds(1 + 30)

        waits, bounds = node.by_pod(WAIT), node.by_pod(BOUND)
        assert all(0 < waits[name] <= bounds[name] + 1e-9 for name in waits)
        assert bounds["pod-0"] == pytest.approx(30 * 0.6, rel=0.01)


def test_processes_of_one_workload_add_up_and_wait_for_each_other_too() -> None:
    with tenants(shared_card(1, process(11, 1, 0.3), process(12, 1, 0.3))) as node:
        node.run(pod("chat"), 11, 12)

        node.rounds(FIRST_BLOCKS)

        assert node.by_pod(BUSY) == {"chat": pytest.approx(6.0)}
        assert node.by_pod(WAIT)["chat"] > 1.0


def test_the_driver_is_asked_for_single_processes_every_five_seconds_at_most() -> None:
    with tenants(shared_card(1, process(11, 1, 0.3), process(12, 1, 0.3))) as node:
        node.run(pod("left"), 11)
        node.run(pod("right"), 12)
        calls = calls_of(node.node, USE)

        node.rounds(1 + 60)

        assert len(calls) == 1 + 12


def test_many_contexts_are_watched_for_longer_but_no_longer_than_the_driver_remembers() -> None:
    with tenants(shared_card(1, *(process(100 + i, 0.1, 0.02) for i in range(40)))) as node:
        for number in range(40):
            node.run(pod(f"pod-{number}"), 100 + number)
        calls = calls_of(node.node, USE)

        node.rounds(1 + 64)

        assert len(calls) == 1 + 8


def test_a_light_workload_beside_a_heavy_one_is_marked_where_switches_are_not_counted() -> None:
    with tenants(shared_card(1, process(11, 1, 0.94), process(12, 1, 0.06))) as node:
        node.run(pod("train"), 11)
        node.run(pod("chat"), 12)

        node.rounds(FIRST_BLOCKS)

        assert node.by_pod(MAY_BE_LOW) == {"train": 0, "chat": 1}


def test_counted_switches_raise_the_wait_of_short_kernels_and_clear_the_mark() -> None:
    rows = (process(11, 1, 0.94), process(12, 1, 0.06))
    counting = hopper(
        processes=rows, is_sum_of_processes=True, context_switches_per_second=constant(240)
    )
    waits, marks = [], []
    for card in (shared_card(1, *rows), counting):
        with tenants(card) as node:
            node.run(pod("train"), 11)
            node.run(pod("chat"), 12)

            node.rounds(41)

            waits.append(node.by_pod(WAIT)["chat"])
            marks.append(node.by_pod(MAY_BE_LOW)["chat"])

    assert marks == [1, 0]
    assert waits[1] > 1.5 * waits[0]


def test_minutes_are_observed_of_who_shares_the_card() -> None:
    with tenants(shared_card(1, process(11, 1, 0.5), process(12, 1, 0.25))) as node:
        node.run(pod("left"), 11)
        node.run(pod("right"), 12)

        node.rounds(1 + 130)

        assert node.by_pod(BUSY_COUNT) == {"left": 2, "right": 2}
        assert node.by_pod("busy_ratio_sum") == {
            "left": pytest.approx(1.0),
            "right": pytest.approx(0.5),
        }


def test_under_mps_no_time_is_anybody_s_alone() -> None:
    rows = (process(pid, 1, 0.5, kind="mps") for pid in (11, 12))
    with tenants(shared_card(1, *rows)) as node:
        node.run(pod("left"), 11)
        node.run(pod("right"), 12)

        node.rounds(FIRST_BLOCKS)

        assert set(node.by_pod("memory_used_bytes")) == {"left", "right"}
        assert [node.by_pod(name) for name in (BUSY, WAIT, BOUND, MAY_BE_LOW)] == [{}] * 4


def test_a_guest_sees_no_other_guests_and_tells_no_wait() -> None:
    card = shared_card(1, process(11, 1, 0.5), process(12, 1, 0.25), virtualization="vgpu")
    with tenants(card) as node:
        node.run(pod("left"), 11)
        node.run(pod("right"), 12)

        node.rounds(FIRST_BLOCKS)

        assert node.by_pod(BUSY) == {"left": pytest.approx(5.0), "right": pytest.approx(2.5)}
        assert [node.by_pod(name) for name in (WAIT, BOUND, MAY_BE_LOW)] == [{}] * 3


@pytest.mark.parametrize(("context_count", "waits"), [(1, {"pod-0": 0}), (2, {})])
def test_who_is_alone_in_an_instance_never_waits_and_of_several_nothing_is_known(
    context_count: int, waits: dict[str, float]
) -> None:
    compute = (1, 2)[:context_count] if context_count > 1 else None
    instance = MigInstance("3g.20gb", 0, memory_used_bytes=constant(5 * GIB), compute=compute)
    with tenants(simulated_card(mig=Mig(instances=(instance,)))) as node:
        (gpu,) = node.node.open()
        for number, each in enumerate(gpu.compute_processes() or ()):
            node.run(pod(f"pod-{number}"), each.process_id)

        node.rounds(FIRST_BLOCKS)

        assert node.by_pod(WAIT) == waits
        assert node.by_pod(BUSY) == {}


def test_where_the_driver_does_not_tell_single_processes_only_a_lone_one_is_known() -> None:
    faults = {USE: pynvml.NVML_ERROR_NOT_SUPPORTED}
    both = (process(11, 1, 0.5), process(12, 1, 0.25, since_seconds=21.5))
    with tenants(shared_card(1, *both, faults=faults)) as node:
        node.run(pod("first"), 11)
        node.run(pod("second"), 12)

        node.rounds(1 + 20)
        before = node.by_pod(BUSY)
        node.rounds(20)

        assert before == {"first": pytest.approx(10.0)}
        assert node.by_pod(BUSY) == before


def test_processes_that_the_driver_makes_up_are_left_out_and_counted() -> None:
    with tenants(shared_card(1, process(11, 1, 0.5), process(12, 1, 0.25))) as node:
        node.run(pod("left"), 11)
        node.run(pod("right"), 12)
        node.rounds(1)

        def wild(_: Any, samples: Any, count: Any, since: Any) -> int:
            stamp_us = int(node.node.clock.now_seconds() * 1e6)
            rows = ((11, 4_294_967_295), (12, 20), (77, 30))
            count._obj.value = len(rows)
            for slot, (pid, percent) in enumerate(rows):
                samples[slot].pid, samples[slot].smUtil = pid, percent
                samples[slot].timeStamp = stamp_us
            return int(pynvml.NVML_SUCCESS)

        node.node.answer(USE, wild)
        node.rounds(5)

        assert node.by_pod(BUSY) == {"left": 0, "right": pytest.approx(1.0)}
        assert node.told(REJECTED, "collector") == {"workload_use": 2}


def test_sources_that_disagree_are_counted_and_the_rest_is_nobody_s() -> None:
    rows = (process(11, 1, 0.1), process(12, 1, 0.1))
    with tenants(simulated_card(1, processes=rows, busy_ratio=constant(0.9))) as node:
        node.run(pod("left"), 11)
        node.run(pod("right"), 12)

        node.rounds(FIRST_BLOCKS)

        assert node.told(INCONSISTENT, "uuid") == {CARD: 2}
        assert node.told(UNATTRIBUTED, "uuid") == {CARD: pytest.approx(7.0)}


def test_a_workload_that_ends_within_a_block_keeps_what_it_had_before_it() -> None:
    with tenants(shared_card(1, process(11, 1, 0.5, until_seconds=18))) as node:
        node.run(pod("short"), 11)

        node.rounds(1 + 30)

        assert node.by_pod(BUSY)["short"] == pytest.approx(8.5, abs=1.5)


def test_idle_time_before_a_load_is_not_averaged_into_it() -> None:
    burst = Level(0, 0, Peak(1.0, every_seconds=120, for_seconds=30))
    rows = (Process(11, GIB, busy_ratio=burst), process(12, 1))
    with tenants(shared_card(1, *rows)) as node:
        node.run(pod("bursty"), 11)
        node.run(pod("silent"), 12)

        node.rounds(1 + 240)

        # Twice in 240 s for 30 s.
        assert node.by_pod(BUSY) == {"bursty": pytest.approx(60.0, rel=0.05), "silent": 0}


def test_a_refusal_costs_only_this_collector(simulate: Simulate) -> None:
    node = simulate(simulated_card(process_count=2, faults={USE: pynvml.NVML_ERROR_NO_PERMISSION}))
    (gpu,) = node.open()

    with pytest.raises(Exception, match=USE):
        tuple(collect(gpu, 0.0))
