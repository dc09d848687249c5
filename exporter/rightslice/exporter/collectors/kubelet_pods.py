"""Asks the kubelet's /pods for the labels and owners of pods, and tells where those listen."""

from collections.abc import Iterator

from rightslice.contract.spec import Sample
from rightslice.contract.workload_metrics import ATTRIBUTION_AGE_SECONDS, WORKLOAD_PORT_INFO
from rightslice.exporter.collector import Collector
from rightslice.exporter.host.host import Host
from rightslice.exporter.host.kubelet.kubelet_pods import KubeletPods
from rightslice.exporter.host.owners.workload import POD, Workload

SOURCE = "kubelet_pods"


def asked(host: Host) -> tuple[KubeletPods, ...]:
    """Give the kubelet's pods where somebody said how to ask for them."""
    pods = host.attribution.kubelet_pods
    return () if pods.fetch is None else (pods,)


def collect(pods: KubeletPods, covered_seconds: float) -> Iterator[Sample]:
    try:
        pods.refresh()
    finally:  # what was told last is in use meanwhile
        if pods.age_seconds is not None:
            yield Sample(ATTRIBUTION_AGE_SECONDS, pods.age_seconds, (SOURCE,))
        yield from _ports(pods)


def _ports(pods: KubeletPods) -> Iterator[Sample]:
    for pod in pods.on_cards():
        for container in pod.containers:
            workload = Workload(POD, pod.namespace, pod.name, container.name)
            for port in container.ports:
                labels = (*workload.labels, pod.ip, str(port.number), port.name)
                yield Sample(WORKLOAD_PORT_INFO, 1, labels)


COLLECTOR = Collector(
    (ATTRIBUTION_AGE_SECONDS, WORKLOAD_PORT_INFO),
    devices=asked,
    collect=collect,
    every_seconds=30.0,
)
