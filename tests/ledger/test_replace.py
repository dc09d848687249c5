"""Hours of slices, workloads and ports come back as they were put, once, from the best source."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from support.usage import (
    GIB,
    START,
    UUID,
    at_hour,
    bins,
    card_hour,
    port_hour,
    slice_hour,
    workload_hour,
)

from rightslice.ledger.attributes import PortAttributes, WorkloadAttributes
from rightslice.ledger.ledger import Batch, Ledger
from rightslice.ledger.rows import (
    SOURCE_DCGM,
    SOURCE_RIGHTSLICE,
    EngineHour,
    OomHour,
    OwnerHour,
    WorkloadHour,
)

POD = ("pod", "serving", "chat-0", "server")


@pytest.fixture
def ledger() -> Ledger:
    return Ledger.open()


def asked(ledger: Ledger, statement: str) -> list[tuple[Any, ...]]:
    return ledger.read("look", statement)


def workload(**told: Any) -> WorkloadHour:
    """An hour of a pod as our exporter tells it; `told` changes or adds parts."""
    return replace(workload_hour(source=SOURCE_RIGHTSLICE), **told)


def test_a_workload_hour_comes_back_as_it_was_put(ledger: Ledger) -> None:
    row = workload(
        observed_seconds=1800.0,
        busy_observed_seconds=1799.9996,
        busy_seconds=12.3456,
        wait_seconds=1.5,
        wait_bound_seconds=2.5,
        wait_source="estimate",
        memory_limit_bytes=10 * GIB,
        memory_limit_source="vgpu",
        busy_bins=bins({0.03: 1.0}, 30),
        busy_interval_seconds=60.0,
        quality=("bridged",),
    )

    ledger.replace_hours(Batch([card_hour()], [row]))

    assert asked(
        ledger,
        "SELECT slice_id, allocated_seconds, busy_observed_seconds, busy_seconds, wait_seconds,"
        " wait_bound_seconds, wait_source, cpu_seconds, memory_limit_bytes, memory_limit_source,"
        " memory_levels, busy_levels, busy_level_milliseconds, quality FROM workload_hour",
    ) == [
        (
            None,
            Decimal(1800),
            Decimal(1800),
            Decimal("12.346"),
            Decimal("1.5"),
            Decimal("2.5"),
            "estimate",
            None,
            10 * GIB,
            "vgpu",
            None,
            [2],
            [1_800_000],
            ["bridged"],
        )
    ]


def test_the_parts_of_a_slice_sum_to_its_hour(ledger: Ledger) -> None:
    ledger.replace_hours(Batch([card_hour()], slices=[slice_hour()]))

    assert asked(
        ledger,
        "SELECT owned_seconds, unknown_seconds, unallocated_seconds, busy_seconds, idle_seconds,"
        " unmeasured_seconds FROM slice_hour",
    ) == [(3600, 0, 0, 1200, 2400, 0)]


def test_a_workload_knows_the_slice_it_is_on_though_both_come_at_once(ledger: Ledger) -> None:
    on_slice = workload(slice_uuid="MIG-1")

    ledger.replace_hours(Batch([card_hour()], [on_slice], slices=[slice_hour("MIG-1")]))

    assert asked(
        ledger,
        "SELECT slice_uuid, pod FROM workload_hour JOIN slice USING (slice_id) "
        "JOIN workload USING (workload_id)",
    ) == [("MIG-1", "chat-0")]


def test_an_instance_id_that_is_used_again_is_another_slice(ledger: Ledger) -> None:
    ledger.replace_hours(Batch([card_hour()], slices=[slice_hour("MIG-1"), slice_hour("MIG-2")]))

    assert asked(ledger, "SELECT slice_uuid, gpu_instance_id FROM slice ORDER BY 1") == [
        ("MIG-1", "3"),
        ("MIG-2", "3"),
    ]


def test_slices_that_are_not_told_again_with_their_card_are_gone(ledger: Ledger) -> None:
    ledger.replace_hours(Batch([card_hour()], slices=[slice_hour("MIG-1"), slice_hour("MIG-2")]))

    ledger.replace_hours(Batch([card_hour()], slices=[slice_hour("MIG-2")]))

    assert asked(ledger, "SELECT slice_uuid FROM slice_hour JOIN slice USING (slice_id)") == [
        ("MIG-2",)
    ]


def test_of_two_sources_at_once_the_more_trusted_one_tells_all_of_a_card_hour(
    ledger: Ledger,
) -> None:
    theirs = [workload_hour("chat-0"), workload_hour("chat-1")]

    ledger.replace_hours(Batch([card_hour()], [*theirs, workload()]))

    assert asked(
        ledger, "SELECT pod, source FROM workload_hour JOIN workload USING (workload_id)"
    ) == [("chat-0", SOURCE_RIGHTSLICE)]


@pytest.mark.parametrize("first", [SOURCE_RIGHTSLICE, SOURCE_DCGM])
def test_the_order_in_which_sources_write_does_not_matter(ledger: Ledger, first: str) -> None:
    second = SOURCE_DCGM if first == SOURCE_RIGHTSLICE else SOURCE_RIGHTSLICE

    for source in (first, second):
        ledger.replace_hours(Batch(slices=[slice_hour(f"MIG-of-{source}", source=source)]))

    assert asked(ledger, "SELECT source FROM slice_hour") == [(SOURCE_RIGHTSLICE,)]


def test_hours_of_ports_are_kept_by_node_and_kind_and_replaced(ledger: Ledger) -> None:
    ledger.replace_hours(Batch(ports=[port_hour(), port_hour(node="node-2")]))

    ledger.replace_hours(Batch(ports=[replace(port_hour(), loss_count=3.0)]))

    assert asked(
        ledger,
        "SELECT node, loss_count, congestion_count, pause_received_seconds FROM nic_hour "
        "JOIN port USING (port_id) ORDER BY node",
    ) == [("node-1", 3, None, 1), ("node-2", 0, None, 1)]


def test_memory_that_ran_out_is_counted_by_cause_and_told_anew_as_a_whole(ledger: Ledger) -> None:
    def oom(cause: str, count: int) -> OomHour:
        return OomHour(*POD, START, SOURCE_RIGHTSLICE, cause, count)

    ledger.replace_hours(Batch(ooms=[oom("device_alloc", 2), oom("host_cgroup", 1)]))
    ledger.replace_hours(Batch(ooms=[oom("device_alloc", 3)]))

    assert asked(ledger, "SELECT cause, count FROM oom_hour") == [("device_alloc", 3)]


def test_what_an_engine_does_not_tell_is_null(ledger: Ledger) -> None:
    told = EngineHour(*POD, START, "vllm", "vllm", "a-model", kv_cache_peak_ratio=0.5)

    ledger.replace_hours(Batch(engines=[told]))

    assert asked(
        ledger, "SELECT model, kv_cache_peak_ratio, waiting_peak, request_count FROM engine_hour"
    ) == [("a-model", 0.5, None, None)]


def test_replicas_are_kept_by_owner(ledger: Ledger) -> None:
    told = OwnerHour(
        "", "serving", "Deployment", "chat", START, "kube-state-metrics", 3600, 2.5, 2, 3, 1, 0
    )

    ledger.replace_hours(Batch(owners=[told]))

    assert asked(
        ledger,
        "SELECT owner, replicas_mean, scale_up_count FROM owner_hour JOIN owner USING (owner_id)",
    ) == [("chat", 2.5, 1)]


def test_attributes_of_a_workload_are_dated_and_kept_once_while_they_stay(ledger: Ledger) -> None:
    before = WorkloadAttributes(*POD, START, owner="chat", team="search", image="sha256:1")
    for index in range(3):
        ledger.replace_hours(Batch(workload_attributes=[replace(before, since=at_hour(index))]))

    ledger.replace_hours(
        Batch(workload_attributes=[replace(before, since=at_hour(3), image="sha256:2")])
    )

    rows = asked(ledger, "SELECT since, team, image FROM workload_attribute ORDER BY since")
    assert [(since.hour, team, image) for since, team, image in rows] == [
        (0, "search", "sha256:1"),
        (3, "search", "sha256:2"),
    ]


def test_an_attribute_that_is_unknown_is_no_change(ledger: Ledger) -> None:
    port = PortAttributes("node-1", "mlx5_0", "1", "rdma", START, netdev="eth0")

    for index in range(2):
        ledger.replace_hours(Batch(port_attributes=[replace(port, since=at_hour(index))]))

    assert asked(ledger, "SELECT rate_bytes_per_second FROM port_attribute") == [(None,)]


def test_nothing_is_left_behind_by_a_batch(ledger: Ledger) -> None:
    ledger.replace_hours(Batch([card_hour()], [workload_hour()]))

    assert asked(ledger, "SELECT count(*) FROM duckdb_tables() WHERE table_name = 'staged'") == [
        (0,)
    ]


def test_uuids_of_a_card_without_hours_are_known(ledger: Ledger) -> None:
    ledger.replace_hours(Batch(slices=[slice_hour()]))

    assert asked(ledger, "SELECT uuid FROM card") == [(UUID,)]


def test_what_was_on_a_card_stays_with_an_hour_that_stays(ledger: Ledger) -> None:
    seen = replace(card_hour(), source=SOURCE_RIGHTSLICE)
    ledger.replace_hours(Batch([seen], [workload()], slices=[slice_hour()]))

    unseen = replace(seen, observed_seconds=0.0, allocation_observed_seconds=0.0)
    ledger.replace_hours(Batch([unseen]))

    assert asked(ledger, "SELECT observed_seconds FROM card_hour") == [(3600,)]
    assert asked(ledger, "SELECT allocated_seconds FROM workload_hour") == [(1800,)]
    assert asked(ledger, "SELECT count(*) FROM slice_hour") == [(1,)]
