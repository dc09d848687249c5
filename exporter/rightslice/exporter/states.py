"""What lanes tell of themselves: whether each collector serves its devices, and cards answer."""

from collections.abc import Iterable, Iterator

from rightslice.contract import metrics
from rightslice.contract.spec import Sample
from rightslice.exporter.host.nvml.card import NvmlCard
from rightslice.exporter.host.nvml.errors import Reason
from rightslice.exporter.lane import Lane, Task


def card_lanes(lanes: Iterable[Lane]) -> list[Lane]:
    """Give those lanes that read a card; they are named by its UUID."""
    return [lane for lane in lanes if any(isinstance(t.device, NvmlCard) for t in lane.tasks)]


def reason_of(lane: Lane) -> str | None:
    """Give why a lane's card does not answer; None while it does."""
    if lane.is_up:
        return None
    failed = (task.reason for task in lane.tasks if task.reason is not None)
    return Reason.STUCK if lane.hung else next(failed, Reason.UNKNOWN)


def collector_samples(lanes: Iterable[Lane]) -> Iterator[Sample]:
    """Tell of each collector whether it serves every device, since when, and its duration."""
    by_collector: dict[str, list[tuple[Lane, Task]]] = {}
    for lane in lanes:
        for task in lane.tasks:
            if task.has_run:
                by_collector.setdefault(task.name, []).append((lane, task))
    for name, rows in by_collector.items():
        good = [task.reason is None and lane.hung is None for lane, task in rows]
        for (_, task), is_good in zip(rows, good, strict=True):
            yield Sample(metrics.COLLECTOR_DEVICE_SUCCESS, is_good, (name, task.device.id))
        yield Sample(metrics.COLLECTOR_SUCCESS, all(good), (name,))
        duration_seconds = sum(task.duration_seconds for _, task in rows)
        yield Sample(metrics.COLLECTOR_DURATION_SECONDS, duration_seconds, (name,))
        successes = [task.success_wall_seconds for _, task in rows]
        known = [seconds for seconds in successes if seconds is not None]
        if len(known) == len(successes):
            last_seconds = min(known)
            yield Sample(metrics.COLLECTOR_LAST_SUCCESS_TIMESTAMP_SECONDS, last_seconds, (name,))
