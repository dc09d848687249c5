"""What a simulated node's kubelet lists: its pods, with the devices in the spelling they chose."""

from collections.abc import Iterable, Iterator, Sequence

from rightslice.exporter.simulate.kubelet import SimulatedClaim, SimulatedContainer, SimulatedPod
from rightslice.exporter.simulate.scenario import SimulatedCard
from rightslice.exporter.simulate.workload import SimulatedWorkload


def pods_of(
    workloads: Iterable[SimulatedWorkload], cards: Sequence[SimulatedCard]
) -> list[SimulatedPod]:
    """Give the pods, each with its containers in the scenario's order."""
    by_pod: dict[tuple[str, str], list[SimulatedContainer]] = {}
    for share, workload in enumerate(workloads):
        devices = tuple(_device_ids(workload, cards, share))
        claims = tuple(SimulatedClaim(device) for device in devices)
        is_claim = workload.device_ids == "claim"
        by_pod.setdefault((workload.namespace, workload.pod), []).append(
            SimulatedContainer(
                workload.container,
                {} if is_claim or not devices else {workload.resource: devices},
                claims if is_claim else (),
            )
        )
    return [
        SimulatedPod(pod, namespace, tuple(containers))
        for (namespace, pod), containers in by_pod.items()
    ]


def _device_ids(
    workload: SimulatedWorkload, cards: Sequence[SimulatedCard], share: int
) -> Iterator[str]:
    """Spell the devices of a workload; `share` tells replicas of one card apart."""
    spelling = workload.device_ids
    for position in workload.cards:
        yield {
            "uuid": cards[position].uuid,
            "replica": f"{cards[position].uuid}::{share}",
            "minor": f"nvidia{position}",
            "minor_replica": f"nvidia{position}/vgpu{share}",
            "claim": f"gpu-{position}",
        }[spelling]
