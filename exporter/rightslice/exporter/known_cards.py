"""Which cards this node has had, which of them answer, and since when one does not."""

from collections.abc import Sequence

from rightslice.contract import metrics
from rightslice.contract.spec import Sample
from rightslice.exporter.host.host import Host
from rightslice.exporter.lane import Lane
from rightslice.exporter.store import Store

# How long a card that is gone is told as down, and its counters stay: a day, so that the night's
# loss is still on the page in the morning.
KEPT_SECONDS = 86_400.0


class KnownCards:
    """Remembers cards beyond the driver's list of them. Not thread-safe but for `answering_count`.

    Times are of the clock that its caller gives.
    """

    def __init__(self, host: Host, store: Store) -> None:
        self._host = host
        self._store = store
        self._listed_seconds: dict[str, float] = {}
        self._up_seconds: dict[str, float] = {}

    def tell(self, lanes: Sequence[Lane], now_seconds: float, *, is_released: bool) -> None:
        """Tell which known cards answer, by their lanes, and forget those that are gone for long.

        While NVML `is_released` nobody asks the cards: their state is unknown.
        """
        up = {lane.name for lane in lanes if lane.is_up}
        listed = {card.id for card in self._host.gpus}
        # Not read yet, or by no collector: nothing is known of it.
        unread = listed - {lane.name for lane in lanes if lane.is_up is not None}
        self._listed_seconds |= dict.fromkeys(listed, now_seconds)
        self._up_seconds |= dict.fromkeys(up, now_seconds)
        for uuid, seen_seconds in list(self._listed_seconds.items()):
            if now_seconds - seen_seconds > KEPT_SECONDS:
                self._forget(uuid)
        told = set() if is_released else set(self._listed_seconds) - unread
        self._store.apply("cards", [Sample(metrics.GPU_UP, uuid in up, (uuid,)) for uuid in told])

    def answering_count(self, since_seconds: float) -> int:
        """Count the cards that answered since then; from any thread."""
        return sum(seconds >= since_seconds for seconds in list(self._up_seconds.values()))

    def _forget(self, uuid: str) -> None:
        del self._listed_seconds[uuid]
        self._up_seconds.pop(uuid, None)
        self._host.forget_card(uuid)
        self._store.drop_label(uuid)
