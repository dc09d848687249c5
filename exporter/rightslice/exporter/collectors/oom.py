"""Memory that ran out, on cards and on their host: each incident once."""

from collections.abc import Iterator

from rightslice.contract.oom_metrics import (
    DRIVER_NO_MEMORY_TOTAL,
    KERNEL_LOG_LOST_RECORDS_TOTAL,
    OOM_EVENTS_TOTAL,
    OOM_LAST_SIZE_BYTES,
    OOM_LAST_TIMESTAMP_SECONDS,
    OOM_LOG_FILES,
    OOM_LOG_MATCHES_TOTAL,
    OOM_LOG_READ_BYTES_TOTAL,
    OOM_LOG_SKIPPED_BYTES_TOTAL,
    OOM_SOURCE_AVAILABLE,
)
from rightslice.contract.spec import Sample
from rightslice.exporter.collector import Collector
from rightslice.exporter.host.host import Host
from rightslice.exporter.host.oom.incidents import Report
from rightslice.exporter.host.oom.oom_kills import OomKills
from rightslice.exporter.host.oom.oom_logs import OomLogs
from rightslice.exporter.host.oom.ooms import Ooms

Part = Ooms | OomKills | OomLogs


def parts(host: Host) -> tuple[Part, ...]:
    """Give the readers, each in a lane of its own, and who counts what they tell."""
    return (*host.ooms.logs, host.ooms.kills, host.ooms)


def collect(part: Part, covered_seconds: float) -> Iterator[Sample]:
    if isinstance(part, OomLogs):
        yield from _logs(part)
    elif isinstance(part, OomKills):
        yield from _kills(part)
    else:
        yield from _incidents(part)


def _logs(logs: OomLogs) -> Iterator[Sample]:
    logs.refresh()
    labels = (logs.id,)
    yield Sample(OOM_LOG_FILES, logs.file_count, labels)
    yield Sample(OOM_LOG_READ_BYTES_TOTAL, logs.read_bytes, labels, is_total=True)
    yield Sample(OOM_LOG_SKIPPED_BYTES_TOTAL, logs.skipped_bytes, labels, is_total=True)
    for source, is_available in logs.sources.items():
        yield Sample(OOM_SOURCE_AVAILABLE, is_available, (source,))


def _kills(kills: OomKills) -> Iterator[Sample]:
    no_memory_count = kills.refresh()
    yield Sample(OOM_SOURCE_AVAILABLE, kills.has_log, ("kernel",))
    if kills.counters.is_available is not None:
        yield Sample(OOM_SOURCE_AVAILABLE, kills.counters.is_available, ("cgroup",))
    if kills.has_log:
        yield Sample(KERNEL_LOG_LOST_RECORDS_TOTAL, kills.take_lost_count())
        yield Sample(DRIVER_NO_MEMORY_TOTAL, no_memory_count)


def _incidents(ooms: Ooms) -> Iterator[Sample]:
    begun = ooms.take_new()
    for workload, cause in ooms.told():
        yield Sample(OOM_EVENTS_TOTAL, 0, (*workload.labels, cause))
    for report in begun:
        yield Sample(OOM_EVENTS_TOTAL, 1, (*report.workload.labels, report.cause))
    for workload, framework in ooms.reports.take_matches():
        yield Sample(OOM_LOG_MATCHES_TOTAL, 1, (*workload.labels, framework))
    for incident in ooms.incidents.last.values():
        yield from _last(incident.report)


def _last(report: Report) -> Iterator[Sample]:
    labels = (*report.workload.labels, report.cause)
    of_source = (report.uuid, report.source, report.framework, report.confidence)
    yield Sample(OOM_LAST_TIMESTAMP_SECONDS, report.wall_seconds, (*labels, *of_source))
    for which, size_bytes in report.sizes_bytes.items():
        yield Sample(OOM_LAST_SIZE_BYTES, size_bytes, (*labels, which))


COLLECTOR = Collector(
    (
        OOM_EVENTS_TOTAL,
        OOM_LAST_TIMESTAMP_SECONDS,
        OOM_LAST_SIZE_BYTES,
        OOM_LOG_MATCHES_TOTAL,
        OOM_SOURCE_AVAILABLE,
        OOM_LOG_FILES,
        OOM_LOG_READ_BYTES_TOTAL,
        OOM_LOG_SKIPPED_BYTES_TOTAL,
        KERNEL_LOG_LOST_RECORDS_TOTAL,
        DRIVER_NO_MEMORY_TOTAL,
    ),
    devices=parts,
    collect=collect,
)
