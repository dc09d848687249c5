"""Asks a Prometheus what else it knows of the workloads that held cards in some hours."""

import logging
from dataclasses import replace

from rightslice.contract.workload_metrics import WORKLOAD_PORT_INFO
from rightslice.feeders.companions import WorkloadSettings
from rightslice.feeders.engines.places import EnginePlaces
from rightslice.feeders.hours.spread import SECONDS_PER_HOUR, hour_start
from rightslice.feeders.ours.attributes import Remembered
from rightslice.feeders.prometheus.answer import SourceError
from rightslice.feeders.prometheus.client import PrometheusClient
from rightslice.feeders.prometheus.engines import read_engines
from rightslice.feeders.prometheus.owners import read_owners
from rightslice.ledger.attributes import WorkloadAttributes
from rightslice.ledger.batch import Batch

log = logging.getLogger(__name__)


def complete(
    client: PrometheusClient,
    batch: Batch,
    hours: range,
    ours: Remembered[WorkloadAttributes],
    settings: WorkloadSettings,
) -> Batch:
    """Add owners' and engines' hours, and whose the workloads were.

    `ours` is what our exporter told of workloads, of which each part that it tells is believed.
    Where the server cannot tell, the hours of cards are whole all the same.
    """
    try:
        return _completed(client, batch, hours, ours, settings)
    except SourceError as error:
        log.warning(
            "owners and engines of %d hours from %s on stay unknown: %s",
            len(hours),
            hour_start(hours.start),
            error,
        )
        return batch


def _completed(
    client: PrometheusClient,
    batch: Batch,
    hours: range,
    ours: Remembered[WorkloadAttributes],
    settings: WorkloadSettings,
) -> Batch:
    workloads = {(row.kind, row.namespace, row.pod, row.container) for row in batch.workloads}
    if not workloads:
        return batch
    known = [told for key, told in ours.known.items() if key in workloads]
    owners, attributes = read_owners(
        client, hours.start, hours.stop, workloads, known, settings.team_rules
    )
    places = EnginePlaces()
    span = (float(hours.start * SECONDS_PER_HOUR), float(hours.stop * SECONDS_PER_HOUR))
    for labels in client.label_sets(WORKLOAD_PORT_INFO.name, *span):
        places.learn_port(labels)
    for key in workloads:
        places.learn_workload(*key)
    return replace(
        batch,
        owners=owners,
        engines=read_engines(client, hours.start, hours.stop, places, settings.engine_mappings),
        workload_attributes=attributes,
    )
