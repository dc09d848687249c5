"""Hours out of a real Prometheus: the same as those of the embedded scraper."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from support.node_history import Page, openmetrics, pages
from support.prometheus import running_prometheus, write_blocks

from rightslice.exporter.simulate.scenario import load_scenario
from rightslice.feeders.prometheus.client import PrometheusClient
from rightslice.feeders.prometheus.pull import pull
from rightslice.feeders.prometheus.sources import choose_sources
from rightslice.feeders.targets.scraper import Scraper
from rightslice.ledger.ledger import Ledger
from rightslice.profile.usage import CardUsage

pytestmark = pytest.mark.integration

START = datetime(2026, 3, 2, 10, tzinfo=UTC)
# Scrapes fall on no edge of an hour.
FIRST = START.timestamp() - 3600 + 7
HOURS = 30
RESTART_AFTER_HOURS = 12.37
HAND_WARMER_UUID = load_scenario("hand-warmer").cards[0].uuid


def short(restart_after_hours: float | None = None) -> list[Page]:
    """Four hours of pages."""
    return list(pages("hand-warmer", FIRST, 4, restart_after_hours))


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Ledger]]:
    """A Prometheus with a node's history, and the scraper's ledger of the same pages."""
    found = list(pages("hand-warmer", FIRST, HOURS, RESTART_AFTER_HOURS))
    ledger = Ledger.open()
    scraper = Scraper(ledger, 60.0)
    for page in found:
        scraper.ingest("node-1", page.text, page.now_seconds)
    scraper.flush(found[-1].now_seconds)
    data = write_blocks(tmp_path_factory.mktemp("ours"), openmetrics(found))
    with running_prometheus(data) as url:
        yield url, ledger
    ledger.close()


def pulled(url: str, start: datetime, end: datetime, ledger: Ledger | None = None) -> Ledger:
    ledger = ledger or Ledger.open()
    client = PrometheusClient(url)
    pull(client, ledger, start, end, choose_sources())
    client.close()
    return ledger


def one_card(ledger: Ledger, start: datetime, end: datetime) -> CardUsage:
    (card,) = ledger.card_usage(start, end)
    return card


@pytest.mark.parametrize("hour", range(28))
def test_each_hour_is_what_the_embedded_scraper_made_of_it(
    history: tuple[str, Ledger], hour: int
) -> None:
    url, embedded = history
    begin, end = START + timedelta(hours=hour), START + timedelta(hours=hour + 1)

    ours = one_card(embedded, begin, end)
    theirs = one_card(pulled(url, begin, end), begin, end)

    for name in ("observed_seconds", "allocated_seconds", "busy_seconds", "unknown_seconds"):
        assert float(getattr(theirs, name)) == pytest.approx(float(getattr(ours, name)), abs=0.01)
    assert theirs.busy_bin_seconds == pytest.approx(ours.busy_bin_seconds, abs=0.01)
    assert theirs.memory_seconds == pytest.approx(ours.memory_seconds, abs=0.01)
    assert theirs.memory_used_peak_bytes == ours.memory_used_peak_bytes
    assert theirs.memory_total_bytes == ours.memory_total_bytes


def test_a_watched_hour_holds_exactly_its_seconds(history: tuple[str, Ledger]) -> None:
    url, _ = history
    end = START + timedelta(hours=6)

    card = one_card(pulled(url, START, end), START, end)

    assert float(card.observed_seconds) == pytest.approx(6 * 3600, abs=0.01)
    assert float(card.unknown_seconds) == pytest.approx(0, abs=0.01)


def test_pulling_again_changes_nothing(history: tuple[str, Ledger]) -> None:
    url, _ = history
    end = START + timedelta(hours=26)
    ledger = pulled(url, START, end)
    before = one_card(ledger, START, end)

    pulled(url, START, end, ledger)

    assert one_card(ledger, START, end) == before


def test_pulling_in_pieces_gives_the_same_hours_as_at_once(history: tuple[str, Ledger]) -> None:
    url, _ = history
    end = START + timedelta(hours=26)
    in_pieces = Ledger.open()
    for hours in (5, 13, 26):
        pulled(url, START, START + timedelta(hours=hours), in_pieces)

    at_once = one_card(pulled(url, START, end), START, end)

    pieces = one_card(in_pieces, START, end)
    assert pieces.hour_count == at_once.hour_count
    assert pieces.busy_seconds == pytest.approx(at_once.busy_seconds, abs=Decimal("0.05"))
    assert pieces.observed_seconds == pytest.approx(at_once.observed_seconds, abs=Decimal("0.05"))


def test_an_earlier_start_than_before_is_pulled_too(history: tuple[str, Ledger]) -> None:
    url, _ = history
    ledger = pulled(url, START + timedelta(hours=10), START + timedelta(hours=12))

    pulled(url, START, START + timedelta(hours=12), ledger)

    assert one_card(ledger, START, START + timedelta(hours=12)).hour_count == 12


def test_an_exporter_restarted_at_another_address_loses_no_hour(tmp_path: Path) -> None:
    found = list(pages("hand-warmer", FIRST, 9, 4.4))
    moved = {FIRST + 4.4 * 3600: "another-address:19400"}
    data = write_blocks(tmp_path, openmetrics(found, moved=moved))
    end = START + timedelta(hours=7)
    with running_prometheus(data) as url:
        card = one_card(pulled(url, START, end), START, end)

    assert card.hour_count == 7
    assert float(card.observed_seconds) == pytest.approx(7 * 3600, abs=120)


def test_a_card_that_two_exporters_tell_of_is_counted_once(tmp_path: Path) -> None:
    older = list(pages("hand-warmer", FIRST, 6))
    newer = list(pages("hand-warmer", FIRST + 1800, 5.5))
    lines = [*openmetrics(older, "node-1:19400"), *openmetrics(newer, "10.0.0.5:19400")]
    end = START + timedelta(hours=4)
    with running_prometheus(write_blocks(tmp_path, lines)) as url:
        card = one_card(pulled(url, START, end), START, end)

    assert float(card.observed_seconds) == pytest.approx(4 * 3600, abs=1)
    assert sum(card.busy_bin_seconds) == pytest.approx(4 * 3600, abs=120)
    assert "clamped" not in card.quality


def test_targets_of_one_address_in_two_clusters_are_two_targets(tmp_path: Path) -> None:
    first = [line.replace("{", '{cluster="a",', 1) for line in openmetrics(short())]
    second = [
        line.replace("{", '{cluster="b",', 1).replace(HAND_WARMER_UUID, "GPU-other")
        for line in openmetrics(list(pages("hand-warmer", FIRST + 100, 4)))
    ]
    end = START + timedelta(hours=2)
    with running_prometheus(write_blocks(tmp_path, [*first, *second])) as url:
        cards = pulled(url, START, end).card_usage(START, end)

    assert [float(card.observed_seconds) for card in cards] == pytest.approx([7200, 7200], abs=1)


def test_without_a_stored_start_time_a_restart_leaves_time_unknown_and_invents_none(
    tmp_path: Path,
) -> None:
    lines = [line for line in openmetrics(short(1.6)) if not line.startswith("process_")]
    end = START + timedelta(hours=2)
    with running_prometheus(write_blocks(tmp_path, lines)) as url:
        card = one_card(pulled(url, START, end), START, end)

    assert 3600 < float(card.observed_seconds) <= 7200
    assert float(card.owned_seconds) == 7200


def test_a_window_without_data_gives_no_hours(history: tuple[str, Ledger]) -> None:
    url, _ = history
    begin = START - timedelta(days=30)

    ledger = pulled(url, begin, begin + timedelta(days=1))

    assert ledger.span() is None


def test_only_the_asked_source_is_read(history: tuple[str, Ledger]) -> None:
    url, _ = history
    ledger = Ledger.open()
    client = PrometheusClient(url)

    result = pull(client, ledger, START, START + timedelta(hours=2), choose_sources("dcgm"))
    client.close()

    assert result.card_count == 0


def test_progress_is_told_day_by_day(history: tuple[str, Ledger], tmp_path: Path) -> None:
    url, _ = history
    told: list[tuple[int, int]] = []
    client = PrometheusClient(url)

    pull(
        client,
        Ledger.open(tmp_path / "l.duckdb"),
        START,
        START + timedelta(hours=28),
        choose_sources(),
        lambda done, total: told.append((done, total)),
    )
    client.close()

    assert told == [(0, 2), (1, 2), (2, 2)]
