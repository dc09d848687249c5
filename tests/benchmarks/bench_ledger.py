"""What a large ledger costs: one hour of it, 28 days of it, its sums, backup and Parquet.

A plain script: `./run bench`, or with --quick a tenth of the cards. Figures of one run, on one
machine; what is stored as sums stands beside the same read from hours.
"""

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from support.usage import card_hour, workload_hour

from rightslice.ledger.audit import audit
from rightslice.ledger.backup import back_up
from rightslice.ledger.ledger import Batch, Ledger
from rightslice.ledger.parquet import export_parquet
from rightslice.profile.profile import usage_profile

START = datetime(2026, 1, 1, tzinfo=UTC)
DAYS = 28
END = START + timedelta(days=DAYS)
CARDS = 10_000

# A day of all cards: busy for a random while, three levels in each histogram.
CARD_HOURS = """
    INSERT INTO card_hour BY NAME
    SELECT card_id, $1::TIMESTAMP + to_hours(h::INTEGER) AS hour, 'rightslice' AS source,
        3600 AS owned_seconds, 0 AS unknown_seconds, 0 AS unallocated_seconds,
        busy AS busy_seconds, 3600 - busy AS idle_seconds, 0 AS unmeasured_seconds,
        3600 AS observed_seconds, 3600 AS allocation_observed_seconds, 3600 AS allocated_seconds,
        3600 AS busy_observed_seconds, busy AS kernel_seconds, 0 AS unrequested_busy_seconds,
        3600 AS sm_observed_seconds, busy / 3 AS sm_active_seconds,
        busy / 4 AS dram_active_seconds, '' AS throttle_reason,
        40::BIGINT << 30 AS memory_total_bytes,
        (random() * 20)::BIGINT << 30 AS memory_used_peak_bytes,
        levels AS memory_levels, amounts AS memory_level_milliseconds,
        levels AS busy_levels, amounts AS busy_level_milliseconds,
        levels AS sm_active_levels, amounts AS sm_active_level_milliseconds,
        'busy' AS busy_signal, 1 AS memory_interval_seconds, 60 AS busy_interval_seconds,
        60 AS sm_active_interval_seconds, (random() * 1000000)::BIGINT AS energy_joules,
        []::VARCHAR[] AS quality, $1::TIMESTAMP + to_hours(h::INTEGER + 1) AS seen_until
    FROM (
        SELECT card_id, h, round(random() * 1000, 3)::DECIMAL(10, 3) AS busy,
            [card_id % 25, card_id % 25 + 1, card_id % 25 + 2]::UTINYINT[] AS levels,
            [1000000 + rest, 2000000, 600000 - rest]::UINTEGER[] AS amounts
        FROM (SELECT card_id, h, (random() * 500000)::INTEGER AS rest FROM range(24) t(h), card)
    )
"""
WORKLOAD_HOURS = """
    INSERT INTO workload_hour BY NAME
    SELECT card_id, card_id AS workload_id, $1::TIMESTAMP + to_hours(h::INTEGER) AS hour,
        'rightslice' AS source, 3600 AS allocated_seconds, 3600 AS observed_seconds,
        3600 AS busy_observed_seconds, round(random() * 1000, 3) AS busy_seconds,
        '' AS wait_source, '' AS memory_limit_source, 0 AS memory_interval_seconds,
        0 AS busy_interval_seconds, []::VARCHAR[] AS quality
    FROM range(24) t(h), card
"""


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def filled(file: Path, cards: int) -> Ledger:
    """Make a ledger of 28 days, by SQL."""
    ledger = Ledger.open(file)
    with ledger.transaction("fill") as run:
        run(f"INSERT INTO card (uuid) SELECT 'GPU-' || i FROM range({cards}) t(i)")
        run(
            "INSERT INTO workload (kind, namespace, pod, container) "
            f"SELECT 'pod', 'ns', 'pod-' || i, 'c' FROM range({cards}) t(i)"
        )
    for day in range(DAYS):
        start = (START + timedelta(days=day)).replace(tzinfo=None)
        with ledger.transaction("fill") as run:
            run(CARD_HOURS, [start])
            run(WORKLOAD_HOURS, [start])
    return ledger


def bench_hour(cards: int) -> None:
    """Put one hour of all cards and their pods in place, first and again."""
    ledger = Ledger.open()
    hours = [card_hour(uuid=f"GPU-{number}") for number in range(cards)]
    pods = [workload_hour(f"pod-{number}", uuid=f"GPU-{number}") for number in range(cards)]
    later = Batch(
        [replace(row, hour=row.hour + timedelta(hours=1)) for row in hours],
        [replace(row, hour=row.hour + timedelta(hours=1)) for row in pods],
    )
    first = seconds(lambda: ledger.replace_hours(Batch(hours, pods)))
    more = seconds(lambda: ledger.replace_hours(later))
    again = seconds(lambda: ledger.replace_hours(later))
    ledger.close()
    print(f"one hour of {cards:,} cards: first {first:.2f} s, next {more:.2f} s (aim 2 s)")
    print(f"                       the same again {again:.2f} s")


def profiles(file: Path) -> None:
    """Print what 28 days of profiles cost a process of its own."""
    ledger = Ledger.open_to_read(file)
    start = time.perf_counter()
    count = len([usage_profile(usage) for usage in ledger.card_usage(START, END)])
    taken = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    ledger.close()
    print(f"{count} {taken:.2f} {peak:.2f}")


def profile_cost(file: Path) -> str:
    done = subprocess.run(
        [sys.executable, __file__, "profiles", str(file)],
        capture_output=True,
        text=True,
        check=True,
    )
    cards, taken, peak = done.stdout.split()
    return f"{int(cards):6,} cards {taken:>6} s {peak:>5} GB"


def bench_profiles(folder: Path, cards: int) -> Path:
    for number in (cards // 100, cards // 10, cards):
        file = folder / f"{number}.duckdb"
        ledger = filled(file, number)
        ledger.close()
        hours = profile_cost(file)
        ledger = Ledger.open(file)
        summed = seconds(lambda ledger=ledger: ledger.roll_up(END))  # type: ignore[misc]
        ledger.close()
        print(f"28-day profiles from sums  {profile_cost(file)}   from hours {hours}")
        print(f"   a day's sums took {summed / DAYS:.3f} s")
    return file


def bench_file(file: Path, folder: Path) -> None:
    ledger = Ledger.open(file)
    size = file.stat().st_size
    rows = sum(audit_rows(ledger).values())
    card_hours = audit_rows(ledger)["card_hour"]
    print(f"{size:,} bytes: {size / rows:.1f} a row (aim 90), {size / card_hours:.1f} a card hour")
    copied = seconds(lambda: back_up(ledger, folder / "copy.duckdb"))
    compact = seconds(lambda: back_up(ledger, folder / "copy.duckdb", compact=True))
    print(f"backup {copied:.1f} s beside {compact:.1f} s when rows are written anew")
    first = seconds(lambda: export_parquet(ledger, folder / "parquet"))
    again = seconds(lambda: export_parquet(ledger, folder / "parquet"))
    parquet = sum(path.stat().st_size for path in (folder / "parquet").rglob("*.parquet"))
    print(f"Parquet {first:.1f} s, {parquet:,} bytes; {again:.1f} s when nothing changed")
    print(f"check {seconds(lambda: audit(ledger, END)):.1f} s")
    ledger.close()


def audit_rows(ledger: Ledger) -> dict[str, int]:
    tables = ("card_hour", "workload_hour", "card_day", "workload_day")
    return {name: ledger.read("count", f"SELECT count(*) FROM {name}")[0][0] for name in tables}


def main() -> None:
    if sys.argv[1:2] == ["profiles"]:
        profiles(Path(sys.argv[2]))
        return
    cards = CARDS // 10 if "--quick" in sys.argv else CARDS
    bench_hour(cards)
    with tempfile.TemporaryDirectory() as name:
        bench_file(bench_profiles(Path(name), cards), Path(name))


if __name__ == "__main__":
    main()
