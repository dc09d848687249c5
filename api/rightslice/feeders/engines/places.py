"""Whose page a serving engine's is: by labels, or by the address at which it is read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from rightslice.contract.workload_metrics import NODE_WORKLOAD_LABELS, WORKLOAD_PORT_INFO
from rightslice.feeders.owners.metrics import KIND_POD, told
from rightslice.feeders.readings import Reading

# Kind, namespace, pod, container.
Place = tuple[str, str, str, str]
# A host, without brackets, and a port.
Address = tuple[str, str]
# More pods than come and go before the service is started anew; what is told again is learnt again.
MOST_REMEMBERED = 100_000
SCHEME_PORTS = {"http": 80, "https": 443}


@dataclass(slots=True)
class EnginePlaces:
    """What is known of where workloads are: their ports' addresses, and who has a card."""

    _by_address: dict[Address, Place] = field(default_factory=dict)
    _addresses: dict[str, set[Address]] = field(default_factory=dict)
    _containers: dict[tuple[str, str, str], set[str]] = field(default_factory=dict)

    def learn(self, target_name: str, readings: Iterable[Reading]) -> None:
        """Take in a page of ours: which ports its pods declare, and at which address.

        What it told before and tells no more may be another's by now.
        """
        told_now = {
            address
            for reading in readings
            if reading.name == WORKLOAD_PORT_INFO.name
            and (address := self.learn_port(reading.labels)) is not None
        }
        for gone in self._addresses.get(target_name, set()) - told_now:
            self._by_address.pop(gone, None)
        self._addresses[target_name] = told_now

    def learn_port(self, labels: Mapping[str, str]) -> Address | None:
        """Take in one port of a pod; gives its address."""
        kind, namespace, pod, container = (told(labels, name) for name in NODE_WORKLOAD_LABELS)
        host, port = labels.get("address", "").strip("[]"), labels.get("port", "")
        if not (host and port and pod):
            return None
        self._by_address[host, port] = (kind, namespace, pod, container)
        self.learn_workload(kind, namespace, pod, container)
        return host, port

    def learn_workload(self, kind: str, namespace: str, pod: str, container: str) -> None:
        """Note that a container has a card."""
        if len(self._containers) >= MOST_REMEMBERED:
            self._containers.clear()
        if container:
            self._containers.setdefault((kind, namespace, pod), set()).add(container)

    def by_labels(self, labels: Mapping[str, str]) -> Place | None:
        """Name the workload that labels tell; None where they name none.

        A pod whose container is not told, and of which one container has a card, is that one.
        """
        kind = labels.get("workload_kind") or KIND_POD
        namespace, pod = told(labels, "namespace"), told(labels, "pod")
        if not pod or (kind == KIND_POD and not namespace):
            return None
        known = self._containers.get((kind, namespace, pod), set())
        container = told(labels, "container") or (next(iter(known)) if len(known) == 1 else "")
        return (kind, namespace, pod, container)

    def by_url(self, url: str) -> Place | None:
        """Name the workload that declares the port of a URL, or of HOST:PORT; None for none."""
        try:
            parts = urlsplit(url if "://" in url else f"//{url}")
            port = parts.port or SCHEME_PORTS.get(parts.scheme)
        except ValueError:  # a port that is no number, brackets that do not match
            return None
        return self._by_address.get((parts.hostname or "", str(port)))

    def find(
        self, labels: Mapping[str, str], target_labels: Mapping[str, str], url: str
    ) -> Place | None:
        """Name a series' workload: as it says itself, as its target does, as its address does."""
        return self.by_labels(labels) or self.by_labels(target_labels) or self.by_url(url)
