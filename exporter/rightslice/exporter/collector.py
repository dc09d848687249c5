"""What a collector is: the metrics it may yield, the devices it reads, the reading itself."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from rightslice.contract.spec import MetricSpec, Sample
from rightslice.exporter.host.host import Host
from rightslice.exporter.host.nvml.errors import DOWN_REASONS
from rightslice.exporter.host.reading_error import ReadingError


class Device(Protocol):
    """Something that is read as a whole: a card, the driver's events, this process."""

    @property
    def id(self) -> str:
        """Name it in the labels of failures."""

    @property
    def lane(self) -> str:
        """Name the thread it is read in; a call that hangs stops this lane and no other."""

    @property
    def is_up(self) -> bool:
        """Tell whether it answered in the round that ended last."""

    def begin_round(self) -> None:
        """Start a round of readings."""


D = TypeVar("D", bound=Device)


@dataclass(frozen=True, slots=True)
class Collector(Generic[D]):
    """`collect(device, covered_seconds)` reads one device.

    `covered_seconds` is the time since this collector last read this device, as far as one reading
    may stand for it; 0 at the first reading, which covers nothing. `every_seconds` is how often it
    reads; 0 is every round of the sampling loop. `is_lasting` says that what it told stays true
    while the device is silent.
    """

    specs: tuple[MetricSpec, ...]
    devices: Callable[[Host], Iterable[D]]
    collect: Callable[[D, float], Iterable[Sample]]
    every_seconds: float = 0.0
    is_lasting: bool = False


AnyCollector = Collector[Any]


def every_part(*parts: Iterable[Sample]) -> Iterator[Sample]:
    """Yield from each part, whatever becomes of another; the first failure is raised at the end.

    A device that is gone ends it at once: the other parts would only ask in vain.
    """
    failure: ReadingError | None = None
    for part in parts:
        try:
            yield from part
        except ReadingError as error:
            if error.reason in DOWN_REASONS:
                raise
            failure = failure or error
    if failure is not None:
        raise failure
