"""The embedded scraper, on a ledger in memory and in a file."""

import threading
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

from rightslice.feeders.prometheus_answer import SourceError
from rightslice.feeders.scraper import Scraper, run
from rightslice.ledger.ledger import Ledger, LedgerError

START = datetime(2026, 3, 2, 10, tzinfo=UTC)
START_SECONDS = START.timestamp()


def dcgm_page(used_mib: float = 500, uuid: str = "GPU-1") -> str:
    labels = (
        f'UUID="{uuid}",Hostname="n",modelName="NVIDIA A30",pod="p",namespace="a",container="c"'
    )
    return (
        f"DCGM_FI_DEV_FB_USED{{{labels}}} {used_mib}\n"
        f"DCGM_FI_DEV_FB_FREE{{{labels}}} {1000 - used_mib}\n"
        f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} 50\n"
    )


def ingest_hours(scraper: Scraper, start_seconds: float, hours: float) -> float:
    """Scrape every minute, writing as the loop does; gives the time of the last scrape."""
    now = start_seconds
    for _ in range(int(hours * 60)):
        now += 60
        scraper.ingest("http://n:9400/metrics", dcgm_page(), now)
        scraper.flush(now)
    return now


def usage(ledger: Ledger) -> tuple[float, float, float]:
    (card,) = ledger.card_usage(START - timedelta(days=1), START + timedelta(days=2))
    return (
        float(card.owned_seconds),
        float(card.observed_seconds),
        float(card.busy_seconds),
    )


def test_scraped_minutes_become_hours_in_the_ledger() -> None:
    ledger = Ledger.open()
    ingest_hours(Scraper(ledger, 60.0), START_SECONDS, 3)

    owned, observed, busy = usage(ledger)

    assert owned == 3 * 3600 - 60
    assert observed == 3 * 3600 - 60
    assert busy == observed / 2


def test_writing_again_and_again_changes_nothing() -> None:
    ledger = Ledger.open()
    scraper = Scraper(ledger, 60.0)
    now = ingest_hours(scraper, START_SECONDS, 2)
    before = usage(ledger)

    scraper.flush(now)
    scraper.flush(now)

    assert usage(ledger) == before


def test_after_a_restart_the_open_hour_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "ledger.duckdb"
    ledger = Ledger.open(file)
    now = ingest_hours(Scraper(ledger, 60.0), START_SECONDS, 1.5)
    ledger.close()

    again = Ledger.open(file)
    ingest_hours(Scraper(again, 60.0), now, 1.5)

    assert usage(again) == (3 * 3600 - 60, 3 * 3600 - 60, (3 * 3600 - 60) / 2)
    again.close()


def test_time_without_scrapes_is_unknown_not_idle() -> None:
    ledger = Ledger.open()
    scraper = Scraper(ledger, 60.0)
    now = ingest_hours(scraper, START_SECONDS, 1)
    ingest_hours(scraper, now + 2 * 3600, 1)

    (card,) = ledger.card_usage(START - timedelta(days=1), START + timedelta(days=1))

    assert float(card.owned_seconds) == 4 * 3600 - 60
    assert float(card.unknown_seconds) == pytest.approx(2 * 3600 - 60)
    assert float(card.idle_seconds + card.busy_seconds) == pytest.approx(2 * 3600)


def test_a_broken_target_leaves_the_others_alone() -> None:
    ledger = Ledger.open()
    scraper = Scraper(ledger, 15.0)
    stop = threading.Event()
    clock = count(START_SECONDS, 5)
    pages = iter([dcgm_page(), dcgm_page(), dcgm_page()])

    def fetch(target: str) -> str:
        if target == "broken":
            raise SourceError("target broken cannot be scraped: refused")
        page = next(pages, None)
        if page is None:
            stop.set()
            return ""
        return page

    run(scraper, ["broken", "good"], fetch, lambda: next(clock), 0.1, stop)

    assert scraper.targets["broken"].last_error.startswith("target broken")
    assert scraper.targets["good"].last_success_seconds is not None
    assert usage(ledger)[1] > 0


def test_broken_lines_are_counted_per_target() -> None:
    scraper = Scraper(Ledger.open(), 60.0)

    scraper.ingest("t", dcgm_page() + "DCGM_FI_DEV_FB_USED{...} 5\n", START_SECONDS)

    assert scraper.targets["t"].parser.broken_line_count == 1


def our_page(counted_seconds: float, *, total_bytes: float = 1e9, mig: str = "disabled") -> str:
    info = f'uuid="GPU-1",name="NVIDIA A30",mig="{mig}"'
    return (
        f"process_start_time_seconds {START_SECONDS - 100}\n"
        f'rightslice_node_info{{node="node-1"}} 1\n'
        f"rightslice_gpu_info{{{info}}} 1\n"
        f'rightslice_gpu_memory_total_bytes{{uuid="GPU-1"}} {total_bytes}\n'
        f'rightslice_gpu_observed_seconds_total{{uuid="GPU-1",signal="memory"}} {counted_seconds}\n'
        f'rightslice_gpu_observed_seconds_total{{uuid="GPU-1",signal="allocation"}} '
        f"{counted_seconds}\n"
    )


def hours_observed(ledger: Ledger) -> list[float]:
    """Give what each hour of the card was observed, in order."""
    found = []
    for hour in range(8):
        begin = START + timedelta(hours=hour)
        cards = ledger.card_usage(begin, begin + timedelta(hours=1))
        found += [float(card.observed_seconds) for card in cards]
    return found


def test_an_exporter_out_of_reach_that_went_on_counting_loses_no_hour() -> None:
    ledger = Ledger.open()
    scraper = Scraper(ledger, 60.0)
    for minute in range(6 * 60 + 1):
        now = START_SECONDS + 60 * minute
        if not 60 < minute < 5 * 60:
            scraper.ingest("t", our_page(60.0 * minute), now)
        scraper.flush(now)

    assert hours_observed(ledger)[:6] == pytest.approx([3600.0] * 6)


def test_hours_that_could_not_be_written_are_written_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger = Ledger.open()
    scraper = Scraper(ledger, 60.0)

    def refuse(*_: object) -> None:
        raise LedgerError("disk full")

    for minute in range(6 * 60 + 1):
        now = START_SECONDS + 60 * minute
        scraper.ingest("t", our_page(60.0 * minute), now)
        with monkeypatch.context() as patched:
            if 60 < minute < 5 * 60:
                patched.setattr(ledger, "replace_hours", refuse)
                with pytest.raises(LedgerError):
                    scraper.flush(now)
            else:
                scraper.flush(now)

    assert hours_observed(ledger)[:6] == pytest.approx([3600.0] * 6)


def test_a_clock_that_jumped_ahead_and_back_costs_the_jump_only() -> None:
    ledger = Ledger.open()
    scraper = Scraper(ledger, 60.0)
    for minute in range(4 * 60 + 1):
        step = 30 * 3600 if minute == 60 else 0
        now = START_SECONDS + 60 * minute + step
        scraper.ingest("t", our_page(60.0 * minute), now)
        scraper.flush(now)

    assert hours_observed(ledger)[1:4] == pytest.approx([3600.0] * 3, abs=180)


def test_what_a_target_says_wrongly_stays_with_it() -> None:
    ledger = Ledger.open()
    scraper = Scraper(ledger, 60.0)
    for minute in range(61):
        now = START_SECONDS + 60 * minute
        scraper.ingest("wild", our_page(60.0 * minute, total_bytes=1e30), now)
        scraper.ingest("good", dcgm_page(uuid="GPU-2"), now)
        scraper.flush(now)

    cards = ledger.card_usage(START, START + timedelta(hours=1))

    assert {card.uuid: card.memory_total_bytes for card in cards} == {
        "GPU-1": None,
        "GPU-2": 1000 * 1024**2,
    }


def test_our_name_of_a_card_leads_and_a_companions_empty_one_hides_nothing() -> None:
    ledger = Ledger.open()
    scraper = Scraper(ledger, 60.0)
    nameless = dcgm_page().replace(',modelName="NVIDIA A30"', "")
    for minute in range(5):
        now = START_SECONDS + 60 * minute
        scraper.ingest("ours", our_page(60.0 * minute), now)
        scraper.ingest("theirs", nameless, now)
    scraper.flush(now)

    (card,) = ledger.card_usage(START, START + timedelta(hours=1))

    assert (card.node, card.name) == ("node-1", "NVIDIA A30")


def test_what_is_kept_of_cards_that_left_is_dropped() -> None:
    scraper = Scraper(Ledger.open(), 3600.0)
    for hour in range(60):
        now = START_SECONDS + 3600 * hour
        scraper.ingest("t", dcgm_page(uuid=f"GPU-{hour}"), now)
        scraper.flush(now)

    assert len(scraper._dcgm.table.first_seen) <= 26
