"""What is known of the pods of a cluster, and the chains of owners above them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rightslice.feeders.owners.metrics import (
    CONTAINER_INFO,
    KIND_POD,
    KINDS_BY_LABEL,
    OWNER_METRICS,
    POD,
    POD_INFO,
    POD_LABELS,
    Thing,
    image_of,
    is_controller,
    owner_of,
    pod_labels,
    thing_of,
    told,
)
from rightslice.feeders.readings import Reading


@dataclass(slots=True)
class PodFacts:
    """What is known of a pod. Images by container; labels by their plain names."""

    seen_seconds: float
    node: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    images: dict[str, str] = field(default_factory=dict)

    def image(self, container: str) -> str:
        """Give a container's image; of a pod that has one container only, that one's."""
        if not container and len(self.images) == 1:
            return next(iter(self.images.values()))
        return self.images.get(container, "")


@dataclass(slots=True)
class Pods:
    """The pods and owners of all clusters, as they were told last.

    Names are unique in a cluster's namespace. Links of objects that are gone stay until nothing
    needs them: a Job that finished is told no more, while its pod's money is still to be placed.
    """

    pods: dict[Thing, PodFacts] = field(default_factory=dict)
    owners: dict[Thing, Thing] = field(default_factory=dict)
    seen_seconds: dict[Thing, float] = field(default_factory=dict)
    # The clusters that have a pod of a namespace and a name.
    _clusters: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    # Pods whose labels name an owner, of the page that is being read.
    _labelled: set[Thing] = field(default_factory=set)

    def take(self, reading: Reading, cluster: str, now_seconds: float) -> None:
        """Take in a series of a page; one that tells nothing of pods or owners is passed over."""
        if reading.value != 1:  # all of these are 1 while the thing is there
            return
        known = OWNER_METRICS.get(reading.name)
        if known is not None:
            self._link(reading.labels, thing_of(reading.labels, *known, cluster), now_seconds)
            return
        pod = thing_of(reading.labels, POD, "pod", cluster)
        if pod is None:
            return
        facts = self._pod(pod, now_seconds)
        if reading.name == POD_INFO:
            facts.node = told(reading.labels, "node") or facts.node
        elif reading.name == POD_LABELS:
            facts.labels = pod_labels(reading.labels)
            if not KINDS_BY_LABEL.keys().isdisjoint(facts.labels):
                self._labelled.add(pod)
        elif reading.name == CONTAINER_INFO:
            self._see_image(facts, reading.labels)

    def _pod(self, pod: Thing, now_seconds: float) -> PodFacts:
        facts = self.pods.get(pod)
        if facts is None:
            facts = self.pods[pod] = PodFacts(now_seconds)
            self._clusters.setdefault((pod.namespace, pod.name), set()).add(pod.cluster)
        facts.seen_seconds = max(facts.seen_seconds, now_seconds)
        return facts

    @staticmethod
    def _see_image(facts: PodFacts, labels: Mapping[str, str]) -> None:
        container, image = told(labels, "container"), image_of(labels)
        # While a container waits its image is not told; it is still the one it was.
        facts.images[container] = image or facts.images.get(container, "")

    def _link(self, labels: Mapping[str, str], thing: Thing | None, now_seconds: float) -> None:
        if thing is None:
            return
        if thing.kind == POD:
            self._pod(thing, now_seconds)
        owner = owner_of(labels, thing)
        if owner is None:
            known = self.owners.get(thing)
            if known is not None and known.kind not in KINDS_BY_LABEL.values():
                del self.owners[thing]
            return
        # Of several owners the one that manages the object is named.
        if thing not in self.owners or is_controller(labels):
            self.owners[thing] = owner
        self.seen_seconds[thing] = now_seconds

    def settle(self) -> None:
        """Put owners that only labels of pods tell above those that are told."""
        for pod in self._labelled:
            for label, kind in KINDS_BY_LABEL.items():
                name = self.pods[pod].labels.get(label, "")
                above = Thing(pod.cluster, pod.namespace, kind, name)
                highest = self.top_owner(pod) or pod
                if name and highest != above:
                    self.owners[highest] = above
                    self.seen_seconds[highest] = self.pods[pod].seen_seconds
        self._labelled.clear()

    def find(self, namespace: str, name: str, cluster: str) -> tuple[Thing, PodFacts] | None:
        """Find a pod of a cluster; None where it is not told, or of several that it may be.

        A cluster that either side does not name may be any.
        """
        told = self._clusters.get((namespace, name), set())
        fitting = [one for one in told if not cluster or one in ("", cluster)]
        if cluster in told:
            fitting = [cluster]
        if len(fitting) != 1:
            return None
        pod = Thing(fitting[0], namespace, POD, name)
        return pod, self.pods[pod]

    def containers(self) -> list[tuple[str, str, str, str]]:
        """List the containers of all pods, as workloads are named."""
        return [
            (KIND_POD, pod.namespace, pod.name, container)
            for pod, facts in sorted(self.pods.items())
            for container in sorted(facts.images)
        ]

    def chain(self, thing: Thing) -> list[Thing]:
        """Give a thing's owners, the nearest first; a circle is followed once."""
        found: list[Thing] = []
        owner = self.owners.get(thing)
        while owner is not None and owner != thing and owner not in found:
            found.append(owner)
            owner = self.owners.get(owner)
        return found

    def top_owner(self, thing: Thing) -> Thing | None:
        """Give the last owner that is told; None for a thing that has none."""
        chain = self.chain(thing)
        return chain[-1] if chain else None

    def forget_unseen(self, before_seconds: float) -> None:
        """Drop pods that were not told since, and links that no pod needs."""
        self.pods = {
            pod: facts for pod, facts in self.pods.items() if facts.seen_seconds >= before_seconds
        }
        self._clusters = {}
        for pod in self.pods:
            self._clusters.setdefault((pod.namespace, pod.name), set()).add(pod.cluster)
        needed = {thing for pod in self.pods for thing in (pod, *self.chain(pod))}
        self.owners = {
            thing: owner
            for thing, owner in self.owners.items()
            if thing in needed or self.seen_seconds.get(thing, 0.0) >= before_seconds
        }
        self.seen_seconds = {
            thing: seconds for thing, seconds in self.seen_seconds.items() if thing in self.owners
        }
