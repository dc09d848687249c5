"""Power, energy, temperature and throttling of each board."""

from collections.abc import Iterator

from rightslice.contract.metrics import (
    GPU_ENERGY_JOULES_TOTAL,
    GPU_POWER_WATTS,
    GPU_TEMPERATURE_CELSIUS,
    GPU_THROTTLE_SECONDS_TOTAL,
    REJECTED_SAMPLES_TOTAL,
)
from rightslice.contract.spec import MetricSpec, Sample
from rightslice.exporter.collector import Collector, every_part
from rightslice.exporter.host.nvml.card import NvmlCard
from rightslice.exporter.host.nvml.power import PowerReader

MILLI = 1000
NANOSECONDS_PER_SECOND = 1e9
# Above any board, below any sentinel.
MOST_POWER_WATTS = 20_000
COLDEST_CELSIUS, HOTTEST_CELSIUS = -40, 150


def collect(gpu: NvmlCard, covered_seconds: float) -> Iterator[Sample]:
    reader = gpu.reader(PowerReader)
    return every_part(
        _fields(reader),
        _power(gpu, reader),
        _energy(gpu, reader),
        _throttling(gpu, reader, covered_seconds),
        _temperature(gpu, reader),
    )


def _fields(reader: PowerReader) -> Iterator[Sample]:
    reader.read_fields()
    yield from ()


def _power(gpu: NvmlCard, reader: PowerReader) -> Iterator[Sample]:
    power_milliwatts = reader.power_milliwatts()
    if power_milliwatts is not None:
        power_watts = power_milliwatts / MILLI
        yield from _within(GPU_POWER_WATTS, power_watts, 0, MOST_POWER_WATTS, gpu.id)


def _energy(gpu: NvmlCard, reader: PowerReader) -> Iterator[Sample]:
    energy_millijoules = reader.energy_millijoules()
    if energy_millijoules is not None:
        energy_joules = energy_millijoules / MILLI
        yield Sample(GPU_ENERGY_JOULES_TOTAL, energy_joules, (gpu.id,), is_total=True)


def _throttling(gpu: NvmlCard, reader: PowerReader, covered_seconds: float) -> Iterator[Sample]:
    for reason, nanoseconds in reader.throttle_nanoseconds().items():
        seconds = nanoseconds / NANOSECONDS_PER_SECOND
        yield Sample(GPU_THROTTLE_SECONDS_TOTAL, seconds, (gpu.id, reason), is_total=True)
    for reason, holds in reader.throttled().items():
        yield Sample(
            GPU_THROTTLE_SECONDS_TOTAL, covered_seconds if holds else 0.0, (gpu.id, reason)
        )


def _temperature(gpu: NvmlCard, reader: PowerReader) -> Iterator[Sample]:
    celsius = reader.temperature_celsius()
    if celsius is not None:
        coldest, hottest = COLDEST_CELSIUS, HOTTEST_CELSIUS
        yield from _within(GPU_TEMPERATURE_CELSIUS, celsius, coldest, hottest, gpu.id)


def _within(
    spec: MetricSpec, value: float, least: float, most: float, uuid: str
) -> Iterator[Sample]:
    if least <= value <= most:
        yield Sample(spec, value, (uuid,))
    else:
        yield Sample(REJECTED_SAMPLES_TOTAL, 1, ("gpu_power", "out_of_range"))


COLLECTOR = Collector(
    (
        GPU_POWER_WATTS,
        GPU_ENERGY_JOULES_TOTAL,
        GPU_TEMPERATURE_CELSIUS,
        GPU_THROTTLE_SECONDS_TOTAL,
        REJECTED_SAMPLES_TOTAL,
    ),
    # A guest is not asked for what belongs to the board.
    devices=lambda host: (card for card in host.gpus if not card.identity.is_guest),
    collect=collect,
    every_seconds=5.0,
)
