"""The background loop: every interval each collector reads each device; a scrape only renders."""

import logging
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rightslice.contract import metrics
from rightslice.contract.sampling import COVERED_INTERVALS
from rightslice.contract.spec import Sample
from rightslice.exporter import guard
from rightslice.exporter.aggregate import Aggregate
from rightslice.exporter.collector import Collector
from rightslice.exporter.exposition import Renderer
from rightslice.exporter.host.clock import Clock
from rightslice.exporter.host.host import Host
from rightslice.exporter.host.nvml import DOWN_REASONS, NvmlCard, NvmlError, Reason

log = logging.getLogger(__name__)

# Cards come, go and change order; finding that out costs three calls per card.
REFRESH_SECONDS = 60.0
RETRY_SECONDS_FIRST, RETRY_SECONDS_MOST = 1.0, 60.0


@dataclass(frozen=True, slots=True)
class Identity:
    """What this process tells of itself."""

    version: str
    revision: str


class Sampler:
    """Owns the host and every series; `page` and `is_ready` may be called from any thread."""

    def __init__(
        self,
        host: Host,
        collectors: Mapping[str, Collector],
        clock: Clock,
        identity: Identity,
        interval_seconds: float = 1.0,
    ) -> None:
        self._host = host
        self._collectors = dict(collectors)
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._aggregate = Aggregate()
        self._renderer = Renderer()
        self._lock = threading.Lock()
        self._last_read_seconds: dict[tuple[str, str], float] = {}
        self._last_success_seconds: dict[str, float] = {}
        self._known_cards: dict[str, bool] = {}
        self._next_refresh_seconds = 0.0
        self._next_open_seconds = 0.0
        self._retry_seconds = RETRY_SECONDS_FIRST
        self._ready_until_seconds = float("-inf")
        self._aggregate.apply("process", self._identity_samples(identity), 0.0)

    def _identity_samples(self, identity: Identity) -> Iterator[Sample]:
        yield Sample(metrics.BUILD_INFO, 1, (identity.version, identity.revision))
        yield Sample(metrics.NODE_INFO, 1, (self._host.node,))
        yield Sample(metrics.PROCESS_START_TIME_SECONDS, self._clock.wall_seconds())
        for signal, seconds in (
            (metrics.SIGNAL_MEMORY, self._interval_seconds),
            (metrics.SIGNAL_COMPUTE, metrics.MEAN_SECONDS),
        ):
            yield Sample(metrics.SIGNAL_INTERVAL_SECONDS, seconds, (signal,))

    def run(self, stop: threading.Event) -> None:
        """Sample until `stop` is set, at even steps; a late step is not made up for."""
        due_seconds = self._clock.monotonic_seconds()
        while not stop.is_set():
            self.sample()
            now_seconds = self._clock.monotonic_seconds()
            due_seconds = max(due_seconds + self._interval_seconds, now_seconds)
            self._clock.wait(stop, due_seconds - now_seconds)

    def sample(self) -> None:
        """Make one round over all collectors and devices."""
        now_seconds = self._clock.monotonic_seconds()
        if not self._is_open(now_seconds):
            self._tell_cards(set())
            return
        down: set[str] = set()
        failed: set[str] = set()
        for name, collector in self._collectors.items():
            reasons = self._collect(name, collector)
            failed |= set(reasons)
            down |= {device for device, reason in reasons.items() if reason in DOWN_REASONS}
        self._tell_cards(down)
        if any(gpu.id not in failed for gpu in self._host.gpus):
            # Ready means a card was read in full: it lapses by itself when none is any more.
            self._ready_until_seconds = now_seconds + 10 * self._interval_seconds

    def _collect(self, name: str, collector: Collector) -> dict[str, Reason]:
        """Run one collector on its devices; give those that it failed on, with the reason."""
        started_seconds = self._clock.monotonic_seconds()
        failed: dict[str, Reason] = {}
        states: list[Sample] = []
        for device in collector.devices(self._host):
            outcome = self._collect_device(name, collector, device)
            if outcome.reason is not None:
                failed[device.id] = outcome.reason
            states.append(
                Sample(metrics.COLLECTOR_DEVICE_SUCCESS, outcome.reason is None, (name, device.id))
            )
        now_seconds = self._clock.wall_seconds()
        if not failed:
            self._last_success_seconds[name] = now_seconds
        duration_seconds = self._clock.monotonic_seconds() - started_seconds
        states.append(Sample(metrics.COLLECTOR_SUCCESS, not failed, (name,)))
        states.append(Sample(metrics.COLLECTOR_DURATION_SECONDS, duration_seconds, (name,)))
        if name in self._last_success_seconds:
            states.append(
                Sample(
                    metrics.COLLECTOR_LAST_SUCCESS_TIMESTAMP_SECONDS,
                    self._last_success_seconds[name],
                    (name,),
                )
            )
        with self._lock:
            self._aggregate.apply(name, states, now_seconds)
        return failed

    def _collect_device(self, name: str, collector: Collector, device: NvmlCard) -> guard.Outcome:
        key = (name, device.id)
        now_seconds = self._clock.monotonic_seconds()
        since_seconds = now_seconds - self._last_read_seconds.get(key, now_seconds)
        covered_seconds = min(since_seconds, COVERED_INTERVALS * self._interval_seconds)
        outcome = guard.run(name, collector, device, covered_seconds)
        samples = outcome.samples
        if outcome.reason is None:
            self._last_read_seconds[key] = now_seconds
        else:
            labels = (name, device.id, str(outcome.reason))
            samples = (Sample(metrics.COLLECTOR_FAILURES_TOTAL, 1, labels),)
        with self._lock:
            self._aggregate.apply(f"{name} {device.id}", samples, self._clock.wall_seconds())
        return outcome

    def _is_open(self, now_seconds: float) -> bool:
        """Open NVML, or list its cards anew when that is due; tell whether there is any to read."""
        opened = bool(self._host.gpus)
        if now_seconds < (self._next_refresh_seconds if opened else self._next_open_seconds):
            return opened
        try:
            self._host.nvml.open()
            self._host.nvml.refresh()
        except NvmlError as error:
            self._fail_open(error, now_seconds)
            return False
        self._next_refresh_seconds = now_seconds + REFRESH_SECONDS
        self._next_open_seconds = now_seconds + RETRY_SECONDS_FIRST
        self._retry_seconds = RETRY_SECONDS_FIRST
        samples = [
            Sample(metrics.COLLECTOR_SUCCESS, 1, ("nvml",)),
            Sample(metrics.GPUS_VISIBLE, self._host.nvml.listed_count),
        ]
        samples += [
            Sample(metrics.REJECTED_SAMPLES_TOTAL, 1, ("nvml", "duplicate_or_placeholder_uuid"))
            for _ in self._host.nvml.duplicate_uuids
        ]
        with self._lock:
            self._aggregate.apply("nvml", samples, self._clock.wall_seconds())
        return bool(self._host.gpus)

    def _fail_open(self, error: NvmlError, now_seconds: float) -> None:
        log.warning("no cards: %s; next try in %.0f s", error, self._retry_seconds)
        self._next_open_seconds = now_seconds + self._retry_seconds
        self._retry_seconds = min(self._retry_seconds * 2, RETRY_SECONDS_MOST)
        samples = [
            Sample(metrics.COLLECTOR_SUCCESS, 0, ("nvml",)),
            Sample(metrics.COLLECTOR_FAILURES_TOTAL, 1, ("nvml", "", str(error.reason))),
        ]
        with self._lock:
            self._aggregate.apply("nvml", samples, self._clock.wall_seconds())
        try:
            self._host.nvml.close()
        except NvmlError as close_error:
            log.warning("closing NVML: %s", close_error)

    def _tell_cards(self, down: set[str]) -> None:
        """Tell which known cards answer; those not listed any more lose their last readings."""
        listed = {gpu.id for gpu in self._host.gpus}
        self._known_cards |= dict.fromkeys(listed, True)
        samples = [
            Sample(metrics.GPU_UP, uuid in listed and uuid not in down, (uuid,))
            for uuid in self._known_cards
        ]
        now_seconds = self._clock.wall_seconds()
        with self._lock:
            self._aggregate.apply("cards", samples, now_seconds)
            for uuid in set(self._known_cards) - listed:
                for name in self._collectors:
                    self._aggregate.apply(f"{name} {uuid}", (), now_seconds)

    def page(self, accept: str = "") -> tuple[bytes, str]:
        """Render all series as they stand: the page and its content type."""
        with self._lock:
            series = self._aggregate.series(self._clock.wall_seconds())
            return self._renderer.render(series, accept)

    @property
    def is_ready(self) -> bool:
        """Tell whether cards are being read now."""
        return self._clock.monotonic_seconds() <= self._ready_until_seconds

    def close(self) -> None:
        self._host.nvml.close()
