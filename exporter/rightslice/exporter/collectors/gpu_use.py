"""Whether a card is held and whether a kernel runs on it, from NVML.

Both in one reading, because busy time of a card that nobody holds stands apart.
"""

from collections.abc import Iterator

from rightslice.contract.metrics import (
    GPU_ALLOCATED_SECONDS_TOTAL,
    GPU_BUSY_RATIO,
    GPU_BUSY_SECONDS_TOTAL,
    GPU_OBSERVED_SECONDS_TOTAL,
    GPU_UNREQUESTED_BUSY_SECONDS_TOTAL,
    REJECTED_SAMPLES_TOTAL,
    SIGNAL_ALLOCATION,
    SIGNAL_BUSY,
)
from rightslice.contract.sampling import HELD_MEMORY_BYTES
from rightslice.contract.spec import Sample
from rightslice.exporter.collector import Collector
from rightslice.exporter.host.nvml import NvmlCard

MICROSECONDS_PER_SECOND = 1e6
# More than any driver keeps for itself where it counts its reserve as used.
MOST_RESERVED_BYTES = 2 * 1024**3
# The longest sample period any product is documented to have is 1 s; one may be missed.
LONGEST_SAMPLE_SECONDS = 2.0


def is_held(gpu: NvmlCard) -> bool | None:
    """Tell whether somebody holds the card; None where neither processes nor memory tell."""
    process_count = gpu.process_count()
    if process_count:
        return True
    # Used memory of no visible process means that a PID namespace hides its holder. A driver that
    # counts its reserve as used makes every free card look held by a little.
    memory = gpu.memory()
    if memory is not None:
        reserve_bytes = MOST_RESERVED_BYTES if memory.reserved_bytes is None else 0
        if memory.used_bytes > HELD_MEMORY_BYTES + reserve_bytes:
            return True
        if memory.reserved_bytes is not None:
            return False
    return None if process_count is None else False


def busy_time(samples: list[tuple[int, int]], since_us: int | None) -> tuple[float, float, int]:
    """Add up the driver's samples: (busy seconds, covered seconds, rejected samples).

    Each sample stands for the time since the one before it.
    """
    busy_seconds = covered_seconds = 0.0
    rejected = 0
    for stamp_us, percent in samples:
        span_seconds = (stamp_us - since_us) / MICROSECONDS_PER_SECOND if since_us else 0.0
        since_us = stamp_us
        if not 0 <= percent <= 100:
            rejected += 1
            continue
        span_seconds = min(span_seconds, LONGEST_SAMPLE_SECONDS)
        busy_seconds += span_seconds * percent / 100
        covered_seconds += span_seconds
    return busy_seconds, covered_seconds, rejected


def read_busy(gpu: NvmlCard, covered_seconds: float) -> tuple[float, float, int] | None:
    """Give (busy seconds, covered seconds, rejected samples) since the last reading.

    From the driver's own sample buffer where the card has one, else from its last period; None
    where the card tells no utilisation.
    """
    since_us = gpu.newest_sample_us
    samples = gpu.new_utilisation_samples()
    if samples is not None:
        return busy_time(samples, since_us)
    percent = gpu.utilisation_percent()
    if percent is None:
        return None
    if not 0 <= percent <= 100:
        return 0.0, 0.0, 1
    return covered_seconds * percent / 100, covered_seconds, 0


def collect(gpu: NvmlCard, covered_seconds: float) -> Iterator[Sample]:
    uuid = (gpu.id,)
    held = is_held(gpu)
    if held is not None:
        yield Sample(GPU_OBSERVED_SECONDS_TOTAL, covered_seconds, (gpu.id, SIGNAL_ALLOCATION))
        yield Sample(GPU_ALLOCATED_SECONDS_TOTAL, covered_seconds if held else 0.0, uuid)
    busy = read_busy(gpu, covered_seconds)
    if busy is None:
        return
    busy_seconds, busy_covered_seconds, rejected = busy
    if rejected:
        yield Sample(REJECTED_SAMPLES_TOTAL, rejected, ("gpu_use", "out_of_range"))
    ratio = busy_seconds / busy_covered_seconds if busy_covered_seconds else 0.0
    yield Sample(GPU_BUSY_SECONDS_TOTAL, busy_seconds, uuid)
    yield Sample(GPU_BUSY_RATIO, ratio, uuid, busy_covered_seconds)
    yield Sample(GPU_OBSERVED_SECONDS_TOTAL, busy_covered_seconds, (gpu.id, SIGNAL_BUSY))
    if held is not None:
        yield Sample(GPU_UNREQUESTED_BUSY_SECONDS_TOTAL, 0.0 if held else busy_seconds, uuid)


COLLECTOR = Collector(
    (
        GPU_OBSERVED_SECONDS_TOTAL,
        GPU_ALLOCATED_SECONDS_TOTAL,
        GPU_BUSY_SECONDS_TOTAL,
        GPU_BUSY_RATIO,
        GPU_UNREQUESTED_BUSY_SECONDS_TOTAL,
        REJECTED_SAMPLES_TOTAL,
    ),
    devices=lambda host: host.gpus,
    collect=collect,
)
