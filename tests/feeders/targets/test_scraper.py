"""The embedded scraper, on a ledger in memory and in a file."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rightslice.feeders.targets import scraper as scraper_module
from rightslice.feeders.targets.scraper import FEEDER, Intake, Scraper
from rightslice.ledger.batch import Batch, FeederState
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


def test_broken_lines_are_counted_per_target() -> None:
    scraper = Scraper(Ledger.open(), 60.0)

    broken = scraper.ingest("t", dcgm_page() + "DCGM_FI_DEV_FB_USED{...} 5\n", START_SECONDS)
    whole = scraper.ingest("t", dcgm_page(), START_SECONDS + 60)

    assert (broken, whole) == (Intake(3, 1), Intake(3, 0))


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

    assert all(len(table.first_seen) <= 26 for table in scraper._tables)


def with_pod(page: str, pod: str, seconds: float) -> str:
    labels = (
        'uuid="GPU-1",gpu_instance_id="",workload_kind="pod",namespace="a",container="c",'
        f'pod="{pod}"'
    )
    return (
        f"{page}rightslice_workload_info{{{labels}}} 1\n"
        f"rightslice_workload_allocated_seconds_total{{{labels}}} {seconds}\n"
    )


def pods(ledger: Ledger) -> set[tuple[str, str]]:
    return {
        (pod, source)
        for pod, source in ledger.read(
            "look", "SELECT pod, source FROM workload_hour JOIN workload USING (workload_id)"
        )
    }


@pytest.mark.parametrize(
    ("ours_tells", "kept"),
    [
        pytest.param(True, {("ours", "rightslice")}, id="ours alone"),
        pytest.param(False, {("p", "dcgm")}, id="theirs fill in"),
    ],
)
def test_the_workloads_of_a_card_hour_are_of_one_source(
    *, ours_tells: bool, kept: set[tuple[str, str]]
) -> None:
    ledger = Ledger.open()
    scraper = Scraper(ledger, 60.0)
    for minute in range(5):
        now = START_SECONDS + 60 * minute
        page = our_page(60.0 * minute)
        scraper.ingest("ours", with_pod(page, "ours", 60.0 * minute) if ours_tells else page, now)
        scraper.ingest("theirs", dcgm_page(), now)
        scraper.flush(now)

    assert pods(ledger) == kept


def test_what_was_written_before_a_restart_is_whole_again_after_it(tmp_path: Path) -> None:
    file = tmp_path / "ledger.duckdb"
    for part in range(3):
        ledger = Ledger.open(file)
        scraper = Scraper(ledger, 60.0)
        for minute in range(20 * part, 20 * part + 21):
            now = START_SECONDS + 60 * minute
            page = with_pod(our_page(60.0 * minute), "ours", 60.0 * minute)
            scraper.ingest("ours", page, now)
            scraper.flush(now)
        rows = ledger.read("look", "SELECT observed_seconds, quality FROM card_hour")
        workloads = ledger.read("look", "SELECT allocated_seconds FROM workload_hour")
        ledger.close()

    assert [(float(observed), quality) for observed, quality in rows] == [(3600.0, [])]
    assert [float(allocated) for (allocated,) in workloads] == [3600.0]


def test_what_an_older_version_remembered_is_left_and_readings_start_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ledger = Ledger.open()
    old = {"ours": {"table": {}}, "dcgm": {}, "open_hour": 5}
    ledger.replace_hours(Batch(), FEEDER, FeederState(START, old))

    scraper = Scraper(ledger, 60.0)
    scraper.ingest("ours", our_page(0.0), START_SECONDS)
    scraper.ingest("ours", our_page(60.0), START_SECONDS + 60)
    scraper.flush(START_SECONDS + 60)

    assert "older version" in caplog.text
    assert hours_observed(ledger) == [60.0]


def test_cards_of_a_large_fleet_take_turns_and_an_hour_that_is_over_has_them_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scraper_module, "CARDS_PER_FLUSH", 2)
    ledger = Ledger.open()
    scraper = Scraper(ledger, 60.0)
    written = []
    for minute in range(4):
        now = START_SECONDS + 60 * minute
        for number in range(5):
            scraper.ingest(f"t{number}", dcgm_page(uuid=f"GPU-{number}"), now)
        scraper.flush(now + 1)
        written.append(len(ledger.card_usage(START, START + timedelta(hours=1))))
    scraper.flush(START_SECONDS + 3660)

    assert written == [2, 4, 5, 5]
    cards = ledger.card_usage(START, START + timedelta(hours=1))
    assert [float(card.owned_seconds) for card in cards] == [3600.0] * 5


def test_an_outage_of_a_target_is_marked_in_its_hours() -> None:
    ledger = Ledger.open()
    scraper = Scraper(ledger, 60.0)
    for minute in (0, 1, 2, 50, 51):
        scraper.ingest("t", our_page(60.0 * minute), START_SECONDS + 60 * minute)
    scraper.flush(START_SECONDS + 3660)

    assert ledger.read("look", "SELECT quality FROM card_hour ORDER BY hour")[0] == (["bridged"],)


def test_the_cluster_of_a_targets_group_is_kept_with_its_cards() -> None:
    ledger = Ledger.open()
    scraper = Scraper(ledger, 60.0)
    scraper.ingest("t", our_page(0.0), START_SECONDS, labels={"cluster": "east"})
    scraper.ingest("t", our_page(60.0), START_SECONDS + 60, labels={"cluster": "east"})
    scraper.flush(START_SECONDS + 60)

    assert ledger.read("look", "SELECT cluster FROM card_attribute") == [("east",)]


def test_a_clock_that_was_ahead_before_a_restart_holds_nothing_up(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.duckdb")
    ingest_hours(Scraper(ledger, 60.0), START_SECONDS + 2 * 86_400, 0.2)

    ingest_hours(Scraper(ledger, 60.0), START_SECONDS, 2)

    (card,) = ledger.card_usage(START, START + timedelta(hours=2))
    ledger.close()
    assert float(card.observed_seconds) == pytest.approx(7200, abs=120)


def test_an_exporter_at_another_address_is_believed_at_once() -> None:
    ledger = Ledger.open()
    scraper = Scraper(ledger, 60.0)
    for minute in range(1, 11):
        scraper.ingest("http://n:19400", our_page(60 * minute), START_SECONDS + 60 * minute)

    scraper.forget("http://n:19400")
    for minute in range(11, 21):
        scraper.ingest("https://n:19400", our_page(60 * minute), START_SECONDS + 60 * minute)
    scraper.flush(START_SECONDS + 1200)

    (card,) = ledger.card_usage(START, START + timedelta(hours=1))
    ledger.close()
    assert float(card.observed_seconds) == 1080
