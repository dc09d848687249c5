"""Feeds pages of kube-state-metrics to a mapper, for tests of what comes out of it."""

from datetime import UTC, datetime

from rightslice.feeders.exposition import PageParser
from rightslice.feeders.owners.mapper import OwnerMapper, WorkloadKey
from rightslice.ledger.attributes import WorkloadAttributes
from rightslice.ledger.rows import OwnerHour

HOUR = 490_000
START = HOUR * 3600.0
MOMENT = datetime.fromtimestamp(START, UTC)
CHAT: WorkloadKey = ("pod", "chat", "chat-7f9-x1", "vllm")
EXPORTER_SAYS = WorkloadAttributes(*CHAT, since=MOMENT, cluster="prod")


def feed(mapper: OwnerMapper, seconds: float, text: str, target: str = "kube", **told: str) -> None:
    mapper.feed(target, START + seconds, PageParser().parse(text), **told)  # type: ignore[arg-type]


def told_of(text: str, key: WorkloadKey = CHAT, **told: str) -> WorkloadAttributes:
    mapper = OwnerMapper()
    mapper.want([key], HOUR)
    feed(mapper, 60, text, **told)
    (row,) = mapper.attributes(HOUR)
    return row


def following(*pages: tuple[float, str], key: WorkloadKey = CHAT) -> OwnerMapper:
    """Follow a workload's owner from the first page on, and read the others."""
    mapper = OwnerMapper()
    mapper.want([key], HOUR)
    feed(mapper, *pages[0], target="first")
    mapper.attributes(HOUR)
    for seconds, text in pages:
        feed(mapper, seconds, text)
    return mapper


def only(mapper: OwnerMapper, hour: int = HOUR) -> OwnerHour:
    (row,) = mapper.rows([hour])
    return row
