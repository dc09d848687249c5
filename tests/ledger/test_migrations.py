"""A ledger that an earlier version filled means the same after it was brought up to date."""

import shutil
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest
from support.cli import rightslice

from rightslice.contract.histogram import BIN_COUNT
from rightslice.ledger import schema
from rightslice.ledger.audit import audit
from rightslice.ledger.ledger import FeederState, Ledger, LedgerError
from rightslice.ledger.migration_1 import MIGRATION_1
from rightslice.ledger.schema import SCHEMA_VERSION

START, END = datetime(2026, 3, 28, tzinfo=UTC), datetime(2026, 3, 30, tzinfo=UTC)
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def dense(filled: dict[int, float]) -> str:
    """Write a histogram as version 1 kept it: a count for each of 29 levels."""
    return str([filled.get(level, 0.0) for level in range(BIN_COUNT)])


CARD_HOUR = (
    "INSERT INTO card_hour VALUES (1, '2026-03-28 {hour:02}:00', 'rightslice', 3600, 600.5, "
    "999.5, 500.25, 1499.75, 0, 2999.5, 2999.5, 2000, 2999.5, 510.25, 10, 42949672960, 3221225472, "
    "{memory}, {busy}, {sm}, 'busy', 1, 60, 0, ['short'], '2026-03-28 {hour:02}:59:45')"
)
VERSION_1 = [
    "CREATE TABLE schema_version (version INTEGER NOT NULL)",
    "INSERT INTO schema_version VALUES (1)",
    "INSERT INTO card (uuid) VALUES ('GPU-1'), ('GPU-2')",
    "INSERT INTO card_attribute VALUES (1, '2026-03-28', 'node-a', 'NVIDIA A30'), "
    "(1, '2026-03-28 01:00', 'node-b', 'NVIDIA A30'), (2, '2026-03-28', 'node-a', 'NVIDIA A30')",
    "INSERT INTO workload (kind, namespace, pod, container) VALUES ('pod', 'serving', 'chat', 'c')",
    CARD_HOUR.format(hour=0, memory=dense({8: 3000.0}), busy=dense({0: 30.0, 28: 19.5}), sm="NULL"),
    CARD_HOUR.format(hour=1, memory="NULL", busy=dense({}), sm="NULL"),
    "INSERT INTO card_hour VALUES (2, '2026-03-28 00:00', 'dcgm', 3600, 3600, 0, 0, 0, 0, 0, 0, 0, "
    "0, 0, 0, NULL, NULL, NULL, NULL, NULL, '', 0, 0, 0, [], NULL)",
    "INSERT INTO workload_hour VALUES (1, 1, '2026-03-28 00:00', 'rightslice', 2000), "
    "(1, 1, '2026-03-28 01:00', 'rightslice', 2000)",
    "INSERT INTO feeder_state VALUES ('scraper', '2026-03-28 02:00', '{\"since\": 7}')",
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A ledger as version 1 left it."""
    path = tmp_path / "facts.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(MIGRATION_1)
        for statement in VERSION_1:
            connection.execute(statement)
    return path


def test_sums_of_a_ledger_of_version_1_are_the_same(file: Path) -> None:
    ledger = Ledger.open(file)
    first, second = ledger.card_usage(START, END)
    ledger.close()

    assert (first.uuid, first.node, first.name, first.source) == (
        "GPU-2",
        "node-a",
        "NVIDIA A30",
        "dcgm",
    )
    assert (first.unknown_seconds, first.observed_until) == (Decimal(3600), None)
    assert (first.memory_seconds, first.busy_bin_seconds) == ((), ())
    assert (second.uuid, second.node, second.hour_count) == ("GPU-1", "node-b", 2)
    assert (second.owned_seconds, second.unknown_seconds, second.unallocated_seconds) == (
        Decimal(7200),
        Decimal("1201.000"),
        Decimal("1999.000"),
    )
    assert (second.busy_seconds, second.idle_seconds, second.unmeasured_seconds) == (
        Decimal("1000.500"),
        Decimal("2999.500"),
        Decimal(0),
    )
    assert (second.kernel_seconds, second.unrequested_busy_seconds) == (
        Decimal("1020.500"),
        Decimal(20),
    )
    assert second.quality == ("short",)
    assert second.holders[0].pod == "chat"
    assert second.holders[0].hour_count == 2
    assert second.observed_until == datetime(2026, 3, 28, 1, 59, 45, tzinfo=UTC)


def test_histograms_of_version_1_are_the_same_in_seconds(file: Path) -> None:
    ledger = Ledger.open(file)
    usage = ledger.card_usage(START, END)[1]
    ledger.close()

    assert {n: value for n, value in enumerate(usage.memory_seconds) if value} == {8: 3000.0}
    assert {n: value for n, value in enumerate(usage.busy_bin_seconds) if value} == {
        0: 30 * 60.0,
        28: 19.5 * 60,
    }
    assert usage.sm_active_bin_seconds == ()


def test_a_histogram_that_was_empty_in_version_1_is_still_empty_and_not_unknown(
    file: Path,
) -> None:
    ledger = Ledger.open(file)
    rows = ledger.read("read", "SELECT busy_levels, memory_levels FROM card_hour ORDER BY ALL")
    ledger.close()

    assert len(rows) == 3
    assert ([0, 28], [8]) in rows
    assert ([], None) in rows
    assert (None, None) in rows


def test_feeders_go_on_where_version_1_stopped(file: Path) -> None:
    ledger = Ledger.open(file)

    assert ledger.feeder_state("scraper") == FeederState(
        datetime(2026, 3, 28, 2, tzinfo=UTC), {"since": 7}
    )
    ledger.close()


def test_a_migrated_ledger_is_sound_also_after_its_days_are_summed(file: Path) -> None:
    ledger = Ledger.open(file)
    before = ledger.card_usage(START, END)

    assert audit(ledger, NOW).findings == []
    assert ledger.roll_up(NOW) == 1
    assert audit(ledger, NOW).findings == []
    assert ledger.card_usage(START, END) == before
    ledger.close()


def test_new_cards_get_ids_of_their_own_after_a_migration(file: Path) -> None:
    ledger = Ledger.open(file)
    with ledger.transaction("add a card") as run:
        run("INSERT INTO card (uuid) VALUES ('GPU-3')")

    assert ledger.read("read", "SELECT card_id FROM card ORDER BY 1") == [(1,), (2,), (3,)]
    ledger.close()


def test_a_migration_that_fails_half_way_leaves_the_old_file_as_it_was(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    untouched = shutil.copy(file, tmp_path / "untouched.duckdb")
    broken = (*schema.MIGRATIONS[:-1], f"{schema.MIGRATIONS[-1]}; SELECT no_such_thing;")
    monkeypatch.setattr("rightslice.ledger.ledger.MIGRATIONS", broken)

    with pytest.raises(LedgerError, match=r"cannot bring up to date: .*no_such_thing"):
        Ledger.open(file)

    monkeypatch.undo()
    with duckdb.connect(str(file)) as connection:
        assert connection.execute("SELECT max(version) FROM schema_version").fetchall() == [(1,)]
        assert connection.execute(
            "SELECT len(busy_bins) FROM card_hour WHERE card_id = 1"
        ).fetchall() == [(29,), (29,)]
    left, kept = Ledger.open(file), Ledger.open(Path(untouched))
    assert left.card_usage(START, END) == kept.card_usage(START, END)
    left.close()
    kept.close()


def test_check_looks_at_an_older_ledger_without_changing_it(file: Path) -> None:
    content = file.read_bytes()

    done = rightslice("check", "--ledger", str(file))

    assert done.returncode == 4
    assert f"its version is 1, this one writes {SCHEMA_VERSION}" in done.stderr
    assert file.read_bytes() == content


def test_a_backup_of_an_older_ledger_is_of_that_version(file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.duckdb"

    done = rightslice("backup", "--ledger", str(file), "--to", str(copy))

    assert done.returncode == 0, done.stderr
    with duckdb.connect(str(copy)) as connection:
        assert connection.execute("SELECT max(version) FROM schema_version").fetchall() == [(1,)]
