"""What the kubelet's own /pods says of each pod: whose it is, if it ended, where it listens."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rightslice.exporter.host.owners.label_text import is_name, label_text, name_text

FINISHED_PHASES = frozenset(("Succeeded", "Failed"))
HASH_LABEL = "pod-template-hash"
CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
CONTAINER_STATUSES = (
    "containerStatuses",
    "initContainerStatuses",
    "ephemeralContainerStatuses",
)


@dataclass(frozen=True, slots=True)
class PortFacts:
    """A port that a container says it listens on; `name` is empty where it has none."""

    name: str
    number: int
    protocol: str = "TCP"


@dataclass(frozen=True, slots=True)
class ContainerFacts:
    """A container. `container_id` has no runtime's prefix, and is empty before the first start."""

    name: str
    container_id: str = ""
    ports: tuple[PortFacts, ...] = ()


@dataclass(frozen=True, slots=True)
class PodFacts:
    """A pod; empty where the kubelet does not tell.

    `owner_kind` and `owner` are its controller, such as Deployment and the deployment's name.
    """

    namespace: str
    name: str
    uid: str = ""
    phase: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    owner_kind: str = ""
    owner: str = ""
    ip: str = ""
    containers: tuple[ContainerFacts, ...] = ()

    @property
    def is_finished(self) -> bool:
        """Tell whether it holds nothing any more, however long it stays listed."""
        return self.phase in FINISHED_PHASES


def parse_pods(document: Any) -> tuple[PodFacts, ...]:
    """Read a PodList; what is missing or of a wrong type stays empty.

    A pod whose namespace or name could be no name in Kubernetes is left out; other text is made fit
    for a label.
    """
    return tuple(pod for item in _rows(document, "items") for pod in _pod(item))


def _pod(item: dict[str, Any]) -> Iterator[PodFacts]:
    metadata, status = _map(item, "metadata"), _map(item, "status")
    namespace, name = _text(metadata, "namespace"), _text(metadata, "name")
    if not (is_name(namespace) and is_name(name)):
        return
    labels = {key: text for key, text in _map(metadata, "labels").items() if isinstance(text, str)}
    owner_kind, owner = _owner(metadata, labels)
    yield PodFacts(
        namespace=namespace,
        name=name,
        uid=_text(metadata, "uid"),
        phase=_text(status, "phase"),
        labels=labels,
        owner_kind=label_text(owner_kind),
        owner=name_text(owner),
        ip=label_text(_text(status, "podIP")),
        containers=tuple(_containers(_map(item, "spec"), status)),
    )


def _owner(metadata: dict[str, Any], labels: dict[str, str]) -> tuple[str, str]:
    """Give the controller's kind and name.

    A deployment's replica set is named after it and the pods' hash; one that somebody made by hand
    is not, and stays what it is.
    """
    for row in _rows(metadata, "ownerReferences"):
        if row.get("controller") is not True:
            continue
        kind, name = _text(row, "kind"), _text(row, "name")
        deployment = name.removesuffix(f"-{labels.get(HASH_LABEL, '')}")
        if kind == "ReplicaSet" and HASH_LABEL in labels and deployment not in ("", name):
            return "Deployment", deployment
        return kind, name
    return "", ""


def _containers(spec: dict[str, Any], status: dict[str, Any]) -> Iterator[ContainerFacts]:
    ids = {
        _text(row, "name"): _text(row, "containerID").rpartition("://")[2]
        for key in CONTAINER_STATUSES
        for row in _rows(status, key)
    }
    for key in CONTAINERS:
        for row in _rows(spec, key):
            name = _text(row, "name")
            container_id = name_text(ids.get(name, ""))
            yield ContainerFacts(name_text(name), container_id, tuple(_ports(row)))


def _ports(container: dict[str, Any]) -> Iterator[PortFacts]:
    for row in _rows(container, "ports"):
        number = row.get("containerPort")
        if isinstance(number, int) and 0 < number < 1 << 16:
            name, protocol = label_text(_text(row, "name")), label_text(_text(row, "protocol"))
            yield PortFacts(name, number, protocol or "TCP")


def _map(row: dict[str, Any], key: str) -> dict[str, Any]:
    value = row.get(key)
    return value if isinstance(value, dict) else {}


def _rows(row: Any, key: str) -> list[dict[str, Any]]:
    value = row.get(key) if isinstance(row, dict) else None
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(row: dict[str, Any], key: str) -> str:
    value = row.get(key)
    return value if isinstance(value, str) else ""
