"""Asks the kubelet which pods were granted which cards."""

from collections.abc import Iterator

from rightslice.contract.spec import Sample
from rightslice.contract.workload_metrics import (
    ATTRIBUTION_AGE_SECONDS,
    ATTRIBUTION_UNMAPPED_DEVICES,
)
from rightslice.exporter.collector import Collector
from rightslice.exporter.host.host import Host
from rightslice.exporter.host.kubelet.kubelet import Kubelet

SOURCE = "kubelet"


def collect(kubelet: Kubelet, covered_seconds: float) -> Iterator[Sample]:
    try:
        kubelet.refresh(kubelet.now_seconds())
    finally:  # what it told last is in use meanwhile
        yield from _told(kubelet)


def _told(kubelet: Kubelet) -> Iterator[Sample]:
    age_seconds, grants = kubelet.age_seconds(kubelet.now_seconds()), kubelet.grants
    if age_seconds is not None and grants is not None:
        yield Sample(ATTRIBUTION_AGE_SECONDS, age_seconds, (SOURCE,))
        yield Sample(ATTRIBUTION_UNMAPPED_DEVICES, grants.unmapped_count, (SOURCE,))


def asked(host: Host) -> tuple[Kubelet, ...]:
    """Give the kubelet of a node that has one."""
    kubelet = host.attribution.kubelet
    return (kubelet,) if kubelet.is_expected else ()


COLLECTOR = Collector(
    (ATTRIBUTION_AGE_SECONDS, ATTRIBUTION_UNMAPPED_DEVICES),
    devices=asked,
    collect=collect,
    every_seconds=10.0,
)
