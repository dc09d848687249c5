"""What this exporter itself costs."""

from collections.abc import Iterator

from rightslice.contract.metrics import (
    PROCESS_CPU_SECONDS_TOTAL,
    PROCESS_OPEN_FDS,
    PROCESS_RESIDENT_MEMORY_BYTES,
)
from rightslice.contract.spec import Sample
from rightslice.exporter.collector import Collector
from rightslice.exporter.host.process import OwnProcess


def collect(process: OwnProcess, covered_seconds: float) -> Iterator[Sample]:
    yield Sample(PROCESS_CPU_SECONDS_TOTAL, process.new_cpu_seconds())
    resident_bytes, open_file_count = process.resident_bytes(), process.open_file_count()
    if resident_bytes is not None:
        yield Sample(PROCESS_RESIDENT_MEMORY_BYTES, resident_bytes)
    if open_file_count is not None:
        yield Sample(PROCESS_OPEN_FDS, open_file_count)


COLLECTOR = Collector(
    (PROCESS_CPU_SECONDS_TOTAL, PROCESS_RESIDENT_MEMORY_BYTES, PROCESS_OPEN_FDS),
    devices=lambda host: (host.own_process,),
    collect=collect,
    every_seconds=5.0,
)
