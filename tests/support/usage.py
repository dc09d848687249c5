"""Builders of usage: a small chat service alone on an A100 40GB, and what a test changes of it."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from rightslice.contract.histogram import BIN_COUNT, bin_index
from rightslice.ledger.rows import (
    KIND_MIG,
    KIND_RDMA,
    SOURCE_DCGM,
    SOURCE_RIGHTSLICE,
    CardHour,
    PortHour,
    SliceHour,
    WorkloadHour,
)
from rightslice.profile.profile import IdleClass, Signal, UsageProfile
from rightslice.profile.usage import CardUsage, Holder

GIB = 1024**3
UUID = "GPU-00000000-0000-0000-0000-000000000001"
START = datetime(2026, 9, 1, tzinfo=UTC)
WINDOW_HOURS = 14 * 24
END = START + timedelta(hours=WINDOW_HOURS)
A100_40GB = "NVIDIA A100-SXM4-40GB"
H100_80GB = "NVIDIA H100 80GB HBM3"
# Compute levels and their share of the time: 96 % at or below 1/24, the edge of a twentieth.
QUIET: Mapping[float, float] = {0.03: 0.96, 0.10: 0.04}


def at_hour(index: int) -> datetime:
    """Give the start of an hour of the window."""
    return START + timedelta(hours=index)


def bins(shares: Mapping[float, float], total: float = 1.0) -> tuple[float, ...]:
    """Fill a histogram: {ratio: its share of `total`}."""
    filled = [0.0] * BIN_COUNT
    for ratio, share in shares.items():
        filled[bin_index(ratio)] += share * total
    return tuple(filled)


def holder(pod: str = "chat-0", most_cards: int = 1) -> Holder:
    """A pod that held the card all the time."""
    return Holder("pod", "serving", pod, "server", WINDOW_HOURS, at_hour(335), most_cards)


def usage_profile_of(
    *,
    memory_gib: float = 3.4,
    compute: Mapping[float, float] = QUIET,
    observed_hours: float = WINDOW_HOURS,
    card_name: str = A100_40GB,
    memory_total_gib: float = 40,
) -> UsageProfile:
    """Describe the chat service's use; change further parts with `dataclasses.replace`."""
    return UsageProfile(
        uuid=UUID,
        node="node-1",
        card_name=card_name,
        source=SOURCE_RIGHTSLICE,
        start=START,
        end=END,
        observed_hours=observed_hours,
        coverage_ratio=1.0,
        holder_coverage_ratio=1.0,
        compute_coverage_ratio=1.0,
        memory_total_bytes=int(memory_total_gib * GIB),
        memory_used_peak_bytes=int(memory_gib * GIB),
        memory_is_pre_allocated=False,
        signal=Signal.SM_ACTIVE,
        compute_bin_seconds=bins(compute, observed_hours * 3600),
        compute_interval_seconds=60.0,
        busy_ratio=0.12,
        allocated_ratio=1.0,
        idle_class=IdleClass.UNDERUSED,
        holders=(holder(),),
        is_shared=False,
        most_cards=1,
        quality=(),
    )


def card_usage_of(
    *,
    memory_gib: float = 3.4,
    busy_share: float = 0.12,
    compute: Mapping[float, float] = QUIET,
) -> CardUsage:
    """Sum the chat service's hours; change further parts with `dataclasses.replace`."""
    seconds = Decimal(WINDOW_HOURS * 3600)
    busy_seconds = seconds * Decimal(str(busy_share))
    return CardUsage(
        uuid=UUID,
        node="node-1",
        name=A100_40GB,
        first_hour=START,
        observed_until=END,
        hour_count=WINDOW_HOURS,
        source=SOURCE_RIGHTSLICE,
        owned_seconds=seconds,
        observed_seconds=seconds,
        unknown_seconds=Decimal(0),
        unallocated_seconds=Decimal(0),
        busy_seconds=busy_seconds,
        idle_seconds=seconds - busy_seconds,
        unmeasured_seconds=Decimal(0),
        unrequested_busy_seconds=Decimal(0),
        busy_observed_seconds=seconds,
        kernel_seconds=busy_seconds,
        allocated_seconds=seconds,
        memory_total_bytes=40 * GIB,
        memory_used_peak_bytes=int(memory_gib * GIB),
        memory_peak_low_bytes=int(memory_gib * GIB),
        memory_seconds=bins({memory_gib / 40: 1.0}, float(seconds)),
        busy_bin_seconds=bins(compute, float(seconds)),
        sm_active_bin_seconds=bins(compute, float(seconds)),
        busy_signal="busy",
        compute_interval_seconds=60.0,
        quality=(),
        holders=(holder(),),
        shared_hour_count=0,
    )


def card_hour(index: int = 0, uuid: str = UUID, source: str = SOURCE_RIGHTSLICE) -> CardHour:
    """An hour watched throughout: half of it held, a quarter of an hour busy."""
    return CardHour(
        uuid=uuid,
        hour=at_hour(index),
        source=source,
        observed_seconds=3600.0,
        allocation_observed_seconds=3600.0,
        allocated_seconds=1800.0,
        busy_observed_seconds=3600.0,
        busy_seconds=900.0,
        memory_total_bytes=40 * GIB,
        memory_used_peak_bytes=3 * GIB,
        memory_bins=bins({0.075: 1.0}, 3600),
        busy_bins=bins({0.03: 1.0}, 60),
        busy_signal="busy",
        memory_interval_seconds=1.0,
        busy_interval_seconds=60.0,
    )


def workload_hour(
    pod: str = "chat-0",
    index: int = 0,
    uuid: str = UUID,
    source: str = SOURCE_DCGM,
    namespace: str = "serving",
) -> WorkloadHour:
    """Half an hour of a pod on a card."""
    return WorkloadHour("pod", namespace, pod, "server", uuid, at_hour(index), source, 1800.0)


def slice_hour(
    slice_uuid: str = "MIG-1", index: int = 0, uuid: str = UUID, source: str = SOURCE_RIGHTSLICE
) -> SliceHour:
    """An instance of two of eight units, watched throughout: held, a third of an hour busy."""
    return SliceHour(
        uuid=uuid,
        slice_uuid=slice_uuid,
        kind=KIND_MIG,
        gpu_instance_id="3",
        profile="2g.10gb",
        units=2,
        card_units=8,
        hour=at_hour(index),
        source=source,
        observed_seconds=3600.0,
        allocation_observed_seconds=3600.0,
        allocated_seconds=3600.0,
        busy_observed_seconds=3600.0,
        busy_seconds=1200.0,
        memory_total_bytes=10 * GIB,
        memory_used_peak_bytes=4 * GIB,
    )


def port_hour(index: int = 0, node: str = "node-1", kind: str = KIND_RDMA) -> PortHour:
    """An hour of a port that passed a GiB each way and was held for a second."""
    return PortHour(
        node=node,
        device="mlx5_0",
        port="1",
        kind=kind,
        hour=at_hour(index),
        source=SOURCE_RIGHTSLICE,
        observed_seconds=3600.0,
        receive_bytes=GIB,
        transmit_bytes=GIB,
        pause_received_seconds=1.0,
        loss_count=0,
    )
