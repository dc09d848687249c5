"""Which owners an autoscaler scales, as far as anybody tells of autoscalers."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from rightslice.feeders.owners.metrics import Thing

# An autoscaler that has not been told for so long is gone.
KEPT_SECONDS = 3600.0
NEVER = float("-inf")


@dataclass(slots=True)
class Autoscalers:
    """The objects whose replicas autoscalers set, and when that was last told."""

    seen_seconds: dict[Thing, float] = field(default_factory=dict)
    _clusters: dict[str, float] = field(default_factory=dict)

    def see(self, thing: Thing | None, now_seconds: float) -> None:
        """Note an object that an autoscaler names."""
        if thing is not None:
            self.seen_seconds[thing] = self._clusters[thing.cluster] = now_seconds

    def of(self, cluster: str, things: Iterable[Thing], now_seconds: float) -> bool | None:
        """Tell whether one of some things of a cluster is scaled.

        None where no autoscaler is told in the cluster at all: perhaps none is watched.
        """
        since_seconds = now_seconds - KEPT_SECONDS
        if self._clusters.get(cluster, NEVER) < since_seconds:
            return None
        return any(self.seen_seconds.get(thing, NEVER) >= since_seconds for thing in things)

    def forget_unseen(self, before_seconds: float) -> None:
        """Drop what was not told since."""
        self.seen_seconds = {
            thing: seconds
            for thing, seconds in self.seen_seconds.items()
            if seconds >= before_seconds
        }
