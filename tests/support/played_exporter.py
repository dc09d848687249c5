"""An exporter that is played minute by minute: restarts, pods and instances that come and go."""

from dataclasses import dataclass, field

from rightslice.feeders.readings import Reading
from support.our_pages import START, card, head, instance, workload

MINUTE = 60.0


@dataclass
class PlayedExporter:
    """One card, with what its exporter has counted since it started. Time is the true one."""

    is_cut: bool
    clock_seconds: float = 0.0
    true_seconds: float = 0.0
    start_seconds: float = START - 500
    watched: float = 0.0
    held: float = 0.0
    busy: float = 0.0
    pods: dict[str, float] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    # By place, the instance's number: one made anew has another.
    instances: dict[str, int] = field(default_factory=lambda: {"1": 1, "2": 2})
    active: dict[str, float] = field(default_factory=dict)

    @property
    def now_seconds(self) -> float:
        """What the scraper's clock shows."""
        return START + self.true_seconds + self.clock_seconds

    def minute(self) -> None:
        self.true_seconds += MINUTE
        self.watched += MINUTE
        live = [pod for pod in self.pods if pod not in self.ended]
        if live:
            self.held += MINUTE
            self.busy += MINUTE / 2
        for pod in live:
            self.pods[pod] += MINUTE
        for place in self.instances:
            self.active[place] = self.active.get(place, 0.0) + MINUTE / 4
        self.ended = {pod: minutes + 1 for pod, minutes in self.ended.items()}
        for pod in [pod for pod, minutes in self.ended.items() if minutes > 3]:
            del self.ended[pod], self.pods[pod]

    def restart(self) -> None:
        self.start_seconds = self.now_seconds
        self.watched = self.held = self.busy = 0.0
        self.pods = {pod: 0.0 for pod in self.pods if pod not in self.ended}
        self.ended, self.active = {}, {}

    def begin_pod(self, pod: str) -> None:
        if pod in self.ended or pod not in self.pods:
            self.ended.pop(pod, None)
            self.pods[pod] = 0.0

    def end_pod(self, pod: str) -> None:
        if pod in self.pods:
            self.ended.setdefault(pod, 0)

    def reshape(self, place: str) -> None:
        if place in self.instances:
            self.instances[place] += 10

    def page(self) -> list[Reading]:
        readings = [
            *head(self.start_seconds),
            *card(
                self.watched,
                held=self.held,
                busy=None if self.is_cut else self.busy,
                mig="enabled" if self.is_cut else "disabled",
            ),
        ]
        for place, number in self.instances.items() if self.is_cut else ():
            name = f"MIG-{number}"
            readings += instance(place, name, 4, self.watched, self.active.get(place, 0.0))
        for pod, seconds in self.pods.items():
            place = pod[-1] if self.is_cut else ""
            share = None if self.is_cut else seconds / 2 / max(len(self.pods), 1)
            live = pod not in self.ended
            readings += workload(pod, allocated=seconds, busy=share, instance=place, live=live)
        return readings
