"""Which container was granted which device, from the kubelet's answers."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING

from rightslice.exporter.host.kubelet.device_ids import (
    NVIDIA_CLAIM_DRIVER,
    REMEMBERED_IDS,
    DeviceId,
    device_of_claim,
    is_bare_uuid,
    parse_device_id,
)
from rightslice.exporter.host.owners.workload import POD, Workload

if TYPE_CHECKING:  # whoever reads grants needs no protobuf
    from rightslice.exporter.host.kubelet.podresources_pb2 import (
        AllocatableResourcesResponse,
        ContainerDevices,
        ContainerResources,
        ListPodResourcesResponse,
    )

# Resources are renamed at will ("nvidia.com/gpu.shared", "example.com/a100"), so that no list of
# names is complete. A name with one of these is of a GPU, unless it is of a network as well; with
# any other name, an id may be.
GPU_WORDS = ("nvidia", "gpu")
# NVIDIA's network operator hands out network cards under the same prefix: its documents call them
# nvidia.com/hostdev, nvidia.com/mlnxnics, nvidia.com/rail_0, nvidia.com/bf2_sf.
NETWORK_WORDS = re.compile(
    r"rdma|hostdev|sriov|mln?x|mellanox|infiniband|switchdev|bluefield"
    r"|(?<![a-z])(?:(?:super|smart)?nics?|ib|roce|hca|rail|cx[0-9]+|bf[0-9]+)(?![a-z])"
)
REMEMBERED_RESOURCES = 256
# An old kubelet tells of a claim its CDI devices alone, which carry the driver's name.
CDI_VENDOR = f"k8s.{NVIDIA_CLAIM_DRIVER}/"


@dataclass(frozen=True, slots=True)
class Grant:
    """A device that was handed to a container.

    `is_shared` tells that the id is a share of the device, or that there are shares of it beside:
    GKE lists the first share a second time as the plain card. Without it, the same device may still
    be granted to several, where they refer to one claim.
    """

    workload: Workload
    device: DeviceId
    resource: str
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class Grants:
    """All that the kubelet handed out, in an order that does not depend on the kubelet's.

    `claims` are containers that claimed a card (DRA) of which we cannot tell which one it is.
    `unmapped_count` counts ids and claims of GPUs that no rule understands. `managed` is what may
    be handed out at all, share by share; None where the kubelet does not tell.
    """

    grants: tuple[Grant, ...] = ()
    claims: frozenset[Workload] = frozenset()
    unmapped_count: int = 0
    managed: tuple[DeviceId, ...] | None = None

    def of_live_pods(self, is_alive: Callable[[str, str], bool]) -> "Grants":
        """Leave out what finished pods held, which the kubelet goes on to list until they go.

        `is_alive` is asked with namespace and pod.
        """
        return replace(
            self,
            grants=tuple(grant for grant in self.grants if _is_of_live(grant.workload, is_alive)),
            claims=frozenset(claim for claim in self.claims if _is_of_live(claim, is_alive)),
        )


def grants_of(
    answer: "ListPodResourcesResponse", allocatable: "AllocatableResourcesResponse | None"
) -> Grants:
    """Read what the kubelet told."""
    # By texts, which sort and compare much faster than objects.
    held: dict[tuple[tuple[str, ...], str, str], tuple[Workload, DeviceId]] = {}
    claims: set[Workload] = set()
    unmapped_count = 0
    for workload, container in _containers(answer):
        for resource, text, device in (*_devices(container.devices), *_claimed(container)):
            if device is not None:
                held[workload.labels, resource, text] = workload, device
                continue
            unmapped_count += 1
            if resource == NVIDIA_CLAIM_DRIVER:
                claims.add(workload)
    managed = None if allocatable is None else tuple(_managed(allocatable))
    known = (*(device for _, device in held.values()), *(managed or ()))
    wholes = {whole for device in known for whole in _wholes(device)}
    grants = (
        Grant(workload, device, resource, device.replica is not None or device in wholes)
        for (_, resource, _), (workload, device) in sorted(held.items(), key=itemgetter(0))
    )
    return Grants(tuple(grants), frozenset(claims), unmapped_count, managed)


def _is_of_live(workload: Workload, is_alive: Callable[[str, str], bool]) -> bool:
    return is_alive(workload.namespace, workload.pod)


def _containers(
    answer: "ListPodResourcesResponse",
) -> "Iterator[tuple[Workload, ContainerResources]]":
    for pod in answer.pod_resources:
        namespace, name = _text(pod.namespace), _text(pod.name)
        for container in pod.containers:
            if container.devices or container.dynamic_resources:
                yield Workload(POD, namespace, name, _text(container.name)), container


def _devices(
    devices: "Iterable[ContainerDevices]",
) -> Iterator[tuple[str, str, DeviceId | None]]:
    """Give resource, id and device; the device None for a GPU that no rule understands."""
    for row in devices:
        resource = _text(row.resource_name)
        is_gpu = _is_of_gpus(resource)
        for raw in row.device_ids:
            text = _text(raw)
            device = parse_device_id(text)
            # Alone, a UUID without a prefix says nothing: network cards have them as well.
            if is_gpu or (device is not None and not is_bare_uuid(text)):
                yield resource, text, device


@lru_cache(maxsize=REMEMBERED_RESOURCES)
def _is_of_gpus(resource: str) -> bool:
    name = resource.lower()
    return any(word in name for word in GPU_WORDS) and NETWORK_WORDS.search(name) is None


def _claimed(container: "ContainerResources") -> Iterator[tuple[str, str, DeviceId | None]]:
    """Give driver, name and device of NVIDIA's claims."""
    for claim in container.dynamic_resources:
        for part in claim.claim_resources:
            name, driver = _text(part.device_name), _text(part.driver_name)
            if not driver and any(
                _text(cdi.name).startswith(CDI_VENDOR) for cdi in part.cdi_devices
            ):
                driver = NVIDIA_CLAIM_DRIVER
            if driver == NVIDIA_CLAIM_DRIVER:
                yield driver, name, device_of_claim(driver, name)


def _managed(allocatable: "AllocatableResourcesResponse") -> Iterator[DeviceId]:
    rows = {(resource, text): device for resource, text, device in _devices(allocatable.devices)}
    for _, device in sorted(rows.items(), key=itemgetter(0)):
        if device is not None:
            yield device


@lru_cache(maxsize=REMEMBERED_IDS)
def _wholes(device: DeviceId) -> tuple[DeviceId, ...]:
    """Give the devices that this one is a part of, as far as its id tells."""
    wholes = []
    if device.replica is not None:
        wholes.append(replace(device, replica=None))
    if device.gpu_instance_id is not None:
        wholes.append(DeviceId(card_uuid=device.card_uuid, minor=device.minor))
    return tuple(wholes)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
