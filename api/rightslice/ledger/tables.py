"""The ledger's tables of facts: what names a row's subject, and where each column comes from."""

from datetime import datetime, timedelta

from rightslice.ledger.closure import milliseconds, split_hour
from rightslice.ledger.columns import (
    HOUR,
    QUALITY,
    SECONDS,
    SOURCE,
    Column,
    DatedTable,
    Entity,
    HourTable,
    histogram,
    naive,
    plain,
    seconds,
    text,
    whole,
)
from rightslice.ledger.rows import CardHour, SliceHour


def _part(name: str) -> Column:
    def value(row: CardHour | SliceHour) -> int:
        part: int = getattr(split_hour(row), name)
        return part

    return Column(f"{name}_seconds", SECONDS, value)


def _owned(row: CardHour | SliceHour) -> float:
    """No signal was there for longer than the card."""
    return max(row.owned_seconds, 0.0)


def _seen_until(row: CardHour) -> datetime | None:
    """Give the last reading of an hour; where none is told, what was observed may reach its end."""
    if row.seen_until is not None:
        return naive(row.seen_until)
    end = row.hour + timedelta(seconds=row.owned_seconds)
    return naive(end) if row.observed_seconds > 0 else None


_PARTS = ("owned", "unknown", "unallocated", "busy", "idle", "unmeasured")
_SIGNALS = (
    seconds("observed_seconds", _owned),
    seconds("allocation_observed_seconds", _owned),
    seconds("allocated_seconds", _owned),
    seconds("busy_observed_seconds", _owned),
    Column(
        "kernel_seconds",
        SECONDS,
        lambda row: milliseconds(max(min(row.busy_seconds, _owned(row)), 0.0)),
    ),
    seconds("unrequested_busy_seconds", _owned),
)

CARD = Entity("card", (text("uuid"),))
SLICE = Entity(
    "slice",
    (text("slice_uuid"),),
    (
        text("card_uuid", "uuid"),
        text("kind"),
        text("gpu_instance_id"),
        text("profile"),
        plain("units", "INTEGER"),
        plain("card_units", "INTEGER"),
    ),
)
NAMED_SLICE = Entity("slice", (text("slice_uuid"),))
WORKLOAD = Entity("workload", (text("kind"), text("namespace"), text("pod"), text("container")))
PORT = Entity("port", (text("node"), text("device"), text("port"), text("kind")))
OWNER = Entity("owner", (text("cluster"), text("namespace"), text("owner_kind"), text("owner")))

CARD_HOUR = HourTable(
    "card_hour",
    CARD,
    (
        HOUR,
        SOURCE,
        *map(_part, _PARTS),
        *_SIGNALS,
        seconds("sm_observed_seconds", _owned),
        seconds("sm_active_seconds", _owned),
        seconds("dram_active_seconds", _owned),
        seconds("throttled_seconds", _owned),
        text("throttle_reason"),
        plain("memory_total_bytes", "BIGINT"),
        plain("memory_used_peak_bytes", "BIGINT"),
        *histogram("memory"),
        *histogram("busy"),
        *histogram("sm_active"),
        text("busy_signal"),
        plain("memory_interval_seconds", "DOUBLE"),
        plain("busy_interval_seconds", "DOUBLE"),
        plain("sm_active_interval_seconds", "DOUBLE"),
        whole("energy_joules"),
        whole("nvlink_bytes"),
        whole("pcie_bytes"),
        whole("xid_count"),
        whole("ecc_uncorrected_count"),
        QUALITY,
        Column("seen_until", "TIMESTAMP", _seen_until),
    ),
)
SLICE_HOUR = HourTable(
    "slice_hour",
    CARD,
    (
        HOUR,
        SOURCE,
        *map(_part, _PARTS),
        *_SIGNALS,
        seconds("dram_active_seconds", _owned),
        plain("memory_total_bytes", "BIGINT"),
        plain("memory_used_peak_bytes", "BIGINT"),
        *histogram("sm_active"),
        plain("sm_active_interval_seconds", "DOUBLE"),
        QUALITY,
    ),
    others=(SLICE,),
)
WORKLOAD_HOUR = HourTable(
    "workload_hour",
    CARD,
    (
        HOUR,
        SOURCE,
        seconds("allocated_seconds"),
        seconds("observed_seconds"),
        seconds("busy_observed_seconds"),
        seconds("busy_seconds"),
        seconds("wait_seconds"),
        seconds("wait_bound_seconds"),
        text("wait_source"),
        seconds("cpu_seconds"),
        plain("memory_limit_bytes", "BIGINT"),
        text("memory_limit_source"),
        plain("memory_used_peak_bytes", "BIGINT"),
        *histogram("memory"),
        *histogram("busy"),
        plain("memory_interval_seconds", "DOUBLE"),
        plain("busy_interval_seconds", "DOUBLE"),
        QUALITY,
    ),
    others=(WORKLOAD,),
    optional=(NAMED_SLICE,),
)
OOM_HOUR = HourTable("oom_hour", WORKLOAD, (HOUR, SOURCE, text("cause"), plain("count", "INTEGER")))
ENGINE_HOUR = HourTable(
    "engine_hour",
    WORKLOAD,
    (
        HOUR,
        SOURCE,
        text("engine"),
        text("model"),
        plain("kv_cache_peak_ratio", "DOUBLE"),
        plain("kv_cache_capacity_tokens", "BIGINT"),
        plain("running_peak", "DOUBLE"),
        plain("waiting_peak", "DOUBLE"),
        whole("request_count"),
        plain("request_p99_seconds", "DOUBLE"),
        plain("first_token_p99_seconds", "DOUBLE"),
        whole("preemption_count"),
        plain("memory_share_ratio", "DOUBLE"),
    ),
)
OWNER_HOUR = HourTable(
    "owner_hour",
    OWNER,
    (
        HOUR,
        SOURCE,
        seconds("observed_seconds"),
        plain("replicas_mean", "DOUBLE"),
        plain("replicas_min", "INTEGER"),
        plain("replicas_max", "INTEGER"),
        plain("scale_up_count", "INTEGER"),
        plain("scale_down_count", "INTEGER"),
        plain("is_autoscaled", "BOOLEAN"),
    ),
)
NIC_HOUR = HourTable(
    "nic_hour",
    PORT,
    (
        HOUR,
        SOURCE,
        seconds("observed_seconds"),
        whole("receive_bytes"),
        whole("transmit_bytes"),
        seconds("pause_received_seconds"),
        seconds("pause_transmitted_seconds"),
        plain("pause_received_peak_ratio", "DOUBLE"),
        plain("pause_transmitted_peak_ratio", "DOUBLE"),
        whole("loss_count"),
        whole("congestion_count"),
        whole("error_count"),
        whole("link_down_count"),
    ),
)

CARD_ATTRIBUTE = DatedTable(
    "card_attribute", CARD, (text("node"), text("name"), text("cluster"), text("slot"))
)
WORKLOAD_ATTRIBUTE = DatedTable(
    "workload_attribute",
    WORKLOAD,
    (
        text("cluster"),
        text("workload_class"),
        text("owner_kind"),
        text("owner"),
        text("team"),
        text("account"),
        text("image"),
        plain("is_protected", "BOOLEAN"),
    ),
)
PORT_ATTRIBUTE = DatedTable(
    "port_attribute",
    PORT,
    (
        text("netdev"),
        text("driver"),
        text("link_layer"),
        text("hca_type"),
        plain("rate_bytes_per_second", "DOUBLE"),
        text("rail"),
        text("switch"),
        text("switch_port"),
    ),
)

HOUR_TABLES = (
    CARD_HOUR,
    SLICE_HOUR,
    WORKLOAD_HOUR,
    OOM_HOUR,
    ENGINE_HOUR,
    OWNER_HOUR,
    NIC_HOUR,
)
DATED_TABLES = (CARD_ATTRIBUTE, WORKLOAD_ATTRIBUTE, PORT_ATTRIBUTE)
ENTITIES = (CARD, SLICE, WORKLOAD, PORT, OWNER)
