"""The contract of a History, kept by the ledger, a Prometheus and a VictoriaMetrics alike.

A simulated node of six cards is scraped each minute for six and a half hours. For ten minutes in
the third hour its exporter is away, and counts anew then; one card is gone after five hours.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from support.node_history import Page, machine_pages, openmetrics
from support.prometheus import running_prometheus, write_blocks
from support.victoria import running_victoria

from rightslice.feeders.prometheus.client import PrometheusClient
from rightslice.feeders.prometheus.sources import choose_sources
from rightslice.feeders.targets.scraper import Scraper
from rightslice.history.history import History
from rightslice.history.promql import PromqlHistory
from rightslice.ledger.ledger import Ledger
from rightslice.profile.flags import FLAG_BRIDGED
from rightslice.profile.usage import CardUsage

pytestmark = pytest.mark.integration

HOUR = timedelta(hours=1)
START = datetime(2026, 3, 2, 10, tzinfo=UTC)
# Scrapes fall on no edge of an hour.
FIRST = START + timedelta(seconds=7)
AWAY, BACK = FIRST + timedelta(minutes=140), FIRST + timedelta(minutes=150)
GONE = START + 5 * HOUR + timedelta(minutes=10)
NOW = FIRST + timedelta(minutes=390)
LAST = START + 6 * HOUR
STEP_SECONDS = 20.0
SECONDS = pytest.approx


@dataclass(frozen=True)
class Node:
    """Pages of the node, and the card that leaves it."""

    pages: list[Page]
    uuids: list[str]
    leaver: str


@pytest.fixture(scope="module")
def node() -> Node:
    found = [
        *machine_pages("fleet", FIRST.timestamp(), 139, STEP_SECONDS),
        *machine_pages("fleet", BACK.timestamp(), 240, STEP_SECONDS),
    ]
    uuids = sorted(
        line.split('uuid="')[1].split('"')[0]
        for line in found[0].text.splitlines()
        if line.startswith("rightslice_gpu_info{")
    )
    leaver = uuids[0]
    return Node([_without(page, leaver) for page in found], uuids, leaver)


def _without(page: Page, uuid: str) -> Page:
    """Take a card off a page once it is gone."""
    if page.now_seconds < GONE.timestamp():
        return page
    lines = (line for line in page.text.splitlines() if uuid not in line)
    return replace(page, text="\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def ledger(node: Node) -> Iterator[Ledger]:
    opened = Ledger.open()
    scraper = Scraper(opened, 60.0)
    for page in node.pages:
        scraper.ingest("node-1", page.text, page.now_seconds)
    scraper.flush(NOW.timestamp())
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def promql(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PromqlHistory]:
    data = write_blocks(tmp_path_factory.mktemp("history"), openmetrics(node.pages))
    with running_prometheus(data) as url:
        client = PrometheusClient(url)
        yield PromqlHistory(client, choose_sources(), now=lambda: NOW)
        client.close()


@pytest.fixture(scope="module")
def victoria(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PromqlHistory]:
    folder = tmp_path_factory.mktemp("victoria")
    with running_victoria(folder, openmetrics(node.pages)) as url:
        client = PrometheusClient(url)
        yield PromqlHistory(client, choose_sources(), now=lambda: NOW)
        client.close()


@pytest.fixture(scope="module", params=["ledger", "promql", "victoria"])
def history(request: pytest.FixtureRequest) -> History:
    found: History = request.getfixturevalue(request.param)
    return found


def usage(history: History, start: datetime, end: datetime) -> dict[str, CardUsage]:
    return {card.uuid: card for card in history.card_usage(start, end)}


def whole(card: CardUsage) -> Decimal:
    """The sum of the places in which a second may lie."""
    return (
        card.unknown_seconds
        + card.unallocated_seconds
        + card.busy_seconds
        + card.idle_seconds
        + card.unmeasured_seconds
    )


def test_the_span_is_from_the_first_hour_to_the_last_reading(history: History) -> None:
    assert history.span() == (START, NOW)


def test_a_whole_hour_has_all_its_seconds_in_one_place_each(history: History, node: Node) -> None:
    cards = usage(history, START + HOUR, START + 2 * HOUR)

    assert sorted(cards) == node.uuids
    for card in cards.values():
        assert (card.hour_count, card.first_hour) == (1, START + HOUR)
        assert float(card.owned_seconds) == SECONDS(3600, abs=0.01)
        assert whole(card) == card.owned_seconds
        assert float(card.observed_seconds) == SECONDS(3600, abs=0.01)
        assert float(card.unknown_seconds) == SECONDS(0, abs=0.01)


def test_histograms_hold_the_seconds_that_were_observed(history: History) -> None:
    for card in usage(history, START + HOUR, START + 3 * HOUR).values():
        assert sum(card.memory_seconds) == SECONDS(float(card.observed_seconds), abs=120)
        assert sum(card.busy_bin_seconds) == SECONDS(float(card.busy_observed_seconds), abs=180)
        assert card.memory_used_peak_bytes


def test_cards_come_by_node_and_uuid(history: History, node: Node) -> None:
    cards = history.card_usage(START, NOW)

    assert [card.uuid for card in cards] == node.uuids
    assert {card.node for card in cards} == {"node-1"}
    assert all(card.name for card in cards)


def test_holders_are_told_the_latest_first(history: History) -> None:
    for card in usage(history, START, NOW).values():
        assert card.holders or not card.allocated_seconds
        hours = [holder.last_hour for holder in card.holders]
        assert hours == sorted(hours, reverse=True)
    assert any(card.holders for card in usage(history, START, NOW).values())


@pytest.mark.parametrize(
    ("start", "end"),
    [
        pytest.param(START - 10 * HOUR, START, id="before all readings"),
        pytest.param(START + HOUR, START + HOUR, id="no length"),
        pytest.param(START + 2 * HOUR, START + HOUR, id="backwards"),
        pytest.param(
            START + HOUR + timedelta(minutes=1), START + 2 * HOUR, id="no hour begins in it"
        ),
        pytest.param(NOW + HOUR, NOW + 5 * HOUR, id="after the present"),
    ],
)
def test_a_window_without_hours_has_no_cards(
    history: History, start: datetime, end: datetime
) -> None:
    assert history.card_usage(start, end) == []


def test_a_window_has_the_hours_that_begin_in_it_as_a_whole(history: History) -> None:
    middle = timedelta(minutes=25)

    cut = usage(history, START + middle, START + 3 * HOUR + middle)

    assert cut == usage(history, START + HOUR, START + 4 * HOUR)
    assert {card.hour_count for card in cut.values()} == {3}


def test_of_the_present_hour_there_is_what_has_passed(history: History, node: Node) -> None:
    cards = usage(history, LAST, NOW)
    passed_seconds = (NOW - LAST).total_seconds()

    for uuid in set(node.uuids) - {node.leaver}:
        assert float(cards[uuid].owned_seconds) == SECONDS(passed_seconds, abs=0.01)
        assert float(cards[uuid].observed_seconds) == SECONDS(passed_seconds, abs=0.01)
        assert cards[uuid].observed_until == NOW


def test_the_window_may_end_after_the_present(history: History) -> None:
    assert usage(history, START, NOW + 3 * HOUR) == usage(history, START, NOW)


def test_a_card_that_left_is_owned_and_unknown(history: History, node: Node) -> None:
    card = usage(history, LAST, NOW)[node.leaver]

    assert card.observed_until is None
    assert card.unknown_seconds == card.owned_seconds
    assert float(card.owned_seconds) == SECONDS((NOW - LAST).total_seconds(), abs=0.01)
    assert card.holders == ()


def test_time_around_a_restart_is_unknown_and_not_idle(history: History, node: Node) -> None:
    cards = usage(history, START + 2 * HOUR, START + 3 * HOUR)

    for card in cards.values():
        # From the last reading before it to the first after it.
        assert 60 < float(card.unknown_seconds) <= 12 * 60
        assert whole(card) == card.owned_seconds == 3600


def test_sums_of_windows_add_up(history: History) -> None:
    parts = [usage(history, START + at * HOUR, START + (at + 1) * HOUR) for at in range(6)]

    for uuid, card in usage(history, START, LAST).items():
        for name in ("owned_seconds", "busy_seconds", "idle_seconds", "unknown_seconds"):
            total = sum(float(getattr(part[uuid], name)) for part in parts if uuid in part)
            assert float(getattr(card, name)) == SECONDS(total, abs=0.01)


WINDOWS = [
    pytest.param(START, NOW, id="all"),
    pytest.param(START, START + HOUR, id="the first hour"),
    pytest.param(START + 2 * HOUR, START + 3 * HOUR, id="the restart"),
    pytest.param(START + 5 * HOUR, START + 6 * HOUR, id="the hour of leaving"),
    pytest.param(LAST, NOW, id="the present hour"),
]


@pytest.mark.parametrize(("start", "end"), WINDOWS)
def test_all_tell_what_the_ledger_tells(
    ledger: Ledger, history: History, start: datetime, end: datetime
) -> None:
    kept, asked = usage(ledger, start, end), usage(history, start, end)

    assert list(asked) == list(kept)
    for uuid, card in kept.items():
        assert rounded(asked[uuid]) == pytest.approx(rounded(card), abs=0.01)
        assert exact(asked[uuid]) == exact(card)


def rounded(card: CardUsage) -> dict[str, Any]:
    """What may differ by a hundredth of a second."""
    sums = {
        name: float(getattr(card, name))
        for name in CardUsage.__dataclass_fields__
        if name.endswith("_seconds") and not isinstance(getattr(card, name), tuple)
    }
    bins = {
        f"{name} {index}": seconds
        for name in ("memory_seconds", "busy_bin_seconds", "sm_active_bin_seconds")
        for index, seconds in enumerate(getattr(card, name))
    }
    return sums | bins


def exact(card: CardUsage) -> dict[str, Any]:
    """What has to be the same, but for the mark of who scraped itself and missed the target."""
    told = {
        name: getattr(card, name)
        for name in CardUsage.__dataclass_fields__
        if not name.endswith("_seconds")
    }
    return {**told, "quality": set(card.quality) - {FLAG_BRIDGED}}
