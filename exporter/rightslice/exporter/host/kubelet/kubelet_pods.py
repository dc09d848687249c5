"""What the kubelet's /pods told last of each pod on this node."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite

from rightslice.exporter.host.kubelet.pods import PodFacts
from rightslice.exporter.host.part import NodePart

# It is asked twice a minute.
FRESH_SECONDS = 90.0

Pod = tuple[str, str]
FetchPods = Callable[[], Iterable[PodFacts]]


@dataclass
class KubeletPods(NodePart):
    """Pods by namespace and name. One thread refreshes; any may read.

    `fetch` asks the kubelet; it is None where nobody said that it may be asked.
    """

    id = "kubelet_pods"
    # A kubelet that answers slowly here holds up neither cards nor its own other answers.
    lane = "kubelet_pods"
    asks_driver = False

    fetch: FetchPods | None = None
    # Which pods hold a card, as far as is known.
    pods_on_cards: Callable[[], frozenset[Pod]] = frozenset
    now_seconds: Callable[[], float] = time.monotonic
    facts: Mapping[Pod, PodFacts] = field(default_factory=dict)
    _read_seconds: float = float("-inf")

    def refresh(self) -> None:
        """Ask anew; raises KubeletError, and what was told before stays."""
        if self.fetch is not None:
            # Of two with one name the one that runs counts.
            fetched = sorted(self.fetch(), key=lambda pod: not pod.is_finished)
            self.facts = {(pod.namespace, pod.name): pod for pod in fetched}
            self._read_seconds = self.now_seconds()

    @property
    def age_seconds(self) -> float | None:
        """Tell how old the last answer is; None before one."""
        age_seconds = self.now_seconds() - self._read_seconds
        return age_seconds if isfinite(age_seconds) else None

    def on_cards(self) -> list[PodFacts]:
        """Give the pods that hold a card and have an address, in order."""
        found = [self.facts[name] for name in sorted(self.pods_on_cards() & self.facts.keys())]
        return [pod for pod in found if pod.ip and not pod.is_finished]

    def finished(self, now_seconds: float) -> dict[Pod, str]:
        """Give the uids of the pods that the kubelet lately said have finished.

        What it said long ago may have been of an older pod of that name.
        """
        if now_seconds - self._read_seconds > FRESH_SECONDS:
            return {}
        return {name: pod.uid for name, pod in self.facts.items() if pod.is_finished}
