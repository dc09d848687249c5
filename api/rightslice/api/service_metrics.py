"""The service's own metrics: how its feeders fare, and when the ledger was written."""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from rightslice.contract.spec import Kind, MetricSpec, Unit
from rightslice.feeders.targets.health import State
from rightslice.feeders.targets.loop import ScrapeLoop
from rightslice.feeders.targets.scraper import FEEDER
from rightslice.ledger.ledger import Ledger

TARGET = ("feeder", "group", "target")
TARGET_UP = MetricSpec(
    "rightslice_feeder_target_up",
    Kind.GAUGE,
    Unit.NONE,
    "Whether the last scrape of a target went well.",
    TARGET,
    absent="not scraped yet",
)
TARGET_SCRAPE_DURATION_SECONDS = MetricSpec(
    "rightslice_feeder_target_scrape_duration_seconds",
    Kind.GAUGE,
    Unit.SECONDS,
    "Time that the last scrape of a target took.",
    TARGET,
    absent="not scraped yet",
)
TARGET_LAST_SUCCESS_TIMESTAMP_SECONDS = MetricSpec(
    "rightslice_feeder_target_last_success_timestamp_seconds",
    Kind.GAUGE,
    Unit.SECONDS,
    "When a target was last scraped well.",
    TARGET,
    absent="never scraped well since the service started",
)
TARGET_PROBLEMS = MetricSpec(
    "rightslice_feeder_target_problems",
    Kind.GAUGE,
    Unit.NONE,
    "Things that are wrong with where targets are told; see /v1/targets.",
    ("feeder",),
    absent="nothing is scraped",
)
LAST_COMPLETE_HOUR_TIMESTAMP_SECONDS = MetricSpec(
    "rightslice_feeder_last_complete_hour_timestamp_seconds",
    Kind.GAUGE,
    Unit.SECONDS,
    "End of the last hour that a feeder has told as a whole.",
    ("feeder",),
    absent="it has written nothing yet",
)
LAST_WRITE_TIMESTAMP_SECONDS = MetricSpec(
    "rightslice_ledger_last_write_timestamp_seconds",
    Kind.GAUGE,
    Unit.SECONDS,
    "When the ledger was last written.",
    (),
    absent="not written since the service started",
)


class ServiceMetrics(Collector):
    """Gathers the metrics anew for each page; nothing of it is kept."""

    def __init__(self, ledger: Ledger, scrape: ScrapeLoop | None) -> None:
        self._ledger = ledger
        self._scrape = scrape
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def page(self, accept: str) -> tuple[bytes, str]:
        """Give the page in a form that an Accept header allows, and its content type."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def collect(self) -> Iterator[Metric]:
        if self._scrape is not None:
            yield from _of_targets(self._scrape)
        progress = self._ledger.progress()
        yield _gauge(
            LAST_COMPLETE_HOUR_TIMESTAMP_SECONDS,
            (((feeder,), until.timestamp()) for feeder, until in progress.items()),
        )
        if self._ledger.last_write is not None:
            yield _gauge(LAST_WRITE_TIMESTAMP_SECONDS, [((), self._ledger.last_write.timestamp())])


def _of_targets(scrape: ScrapeLoop) -> Iterator[Metric]:
    health = [((FEEDER, one.group, one.url), one) for one in scrape.health()]
    yield _gauge(
        TARGET_UP,
        (
            (labels, float(one.state is State.UP))
            for labels, one in health
            if one.state is not State.UNKNOWN
        ),
    )
    yield _gauge(
        TARGET_SCRAPE_DURATION_SECONDS, ((labels, one.duration_seconds) for labels, one in health)
    )
    yield _gauge(
        TARGET_LAST_SUCCESS_TIMESTAMP_SECONDS,
        ((labels, one.last_success_seconds) for labels, one in health),
    )
    yield _gauge(TARGET_PROBLEMS, [((FEEDER,), float(len(scrape.problems())))])


def _gauge(
    spec: MetricSpec, rows: Iterable[tuple[tuple[str, ...], float | None]]
) -> GaugeMetricFamily:
    """Make a family; what is not known has no series."""
    family = GaugeMetricFamily(spec.name, spec.help, labels=spec.labels)
    for labels, value in rows:
        if value is not None:
            family.add_metric(labels, value)
    return family
