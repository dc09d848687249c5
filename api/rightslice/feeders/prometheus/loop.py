"""Reads a Prometheus in the background, again and again."""

import logging
import threading
from datetime import UTC, datetime, timedelta

from rightslice.feeders.companions import WorkloadSettings
from rightslice.feeders.prometheus.answer import SourceError
from rightslice.feeders.prometheus.client import PrometheusClient
from rightslice.feeders.prometheus.pull import pull
from rightslice.feeders.prometheus.sources import Sources
from rightslice.ledger.errors import LedgerError
from rightslice.ledger.ledger import Ledger

log = logging.getLogger(__name__)

# An hour is read when it has been over for this long: most late scrapes are in by then.
SETTLED = timedelta(minutes=10)
PULL_SECONDS = 600.0


def whole_hours_until(now: datetime) -> datetime:
    """Give the end of the last hour that may be read."""
    return (now - SETTLED).replace(minute=0, second=0, microsecond=0)


def pull_for_ever(
    client: PrometheusClient,
    ledger: Ledger,
    window: timedelta,
    sources: Sources,
    late: timedelta,
    workloads: WorkloadSettings,
    stop: threading.Event,
) -> None:
    """Put each new hour into the ledger until told to stop."""
    while not stop.is_set():
        end = whole_hours_until(datetime.now(UTC))
        asked = client.traffic.request_count
        try:
            result = pull(
                client, ledger, end - window, end, sources, late=late, workloads=workloads
            )
            if result.day_count:
                log.info(
                    "read %d card hours of %s in %d requests",
                    result.hour_count,
                    client.url,
                    client.traffic.request_count - asked,
                )
        except (SourceError, LedgerError) as error:
            log.warning("%s", error)
        except Exception:  # the next round may do better; this thread must not end
            log.exception("reading Prometheus failed")
        stop.wait(PULL_SECONDS)
