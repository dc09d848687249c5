"""A backup is the whole ledger at one moment, or it is not there."""

import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from support import ledger_process
from support.usage import at_hour

from rightslice.ledger.backup import back_up
from rightslice.ledger.ledger import Ledger, LedgerError


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    opened = Ledger.open(tmp_path / 'it\'s "the" ledger.duckdb')
    for index in range(30):
        ledger_process.put_hour(opened, index)
    opened.roll_up(at_hour(24))
    return opened


def rows_of(file: Path) -> dict[str, list[tuple[object, ...]]]:
    with duckdb.connect(str(file), read_only=True) as connection:
        tables = connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        return {
            name: connection.execute(f"FROM {name} ORDER BY ALL").fetchall() for (name,) in tables
        }


@pytest.mark.parametrize("compact", [False, True])
def test_a_backup_holds_every_row_and_goes_on_as_a_ledger(
    ledger: Ledger, tmp_path: Path, *, compact: bool
) -> None:
    target = tmp_path / "copy's.duckdb"

    done = back_up(ledger, target, compact=compact)

    source = ledger.file
    assert source is not None
    ledger.close()
    rows = rows_of(source)
    assert rows_of(target) == rows
    assert done.row_count == sum(map(len, rows.values()))
    assert done.size_bytes == target.stat().st_size
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([source.name, target.name])
    copy = Ledger.open(target)
    ledger_process.put_hour(copy, 30)
    with copy.transaction("add a card") as run:
        run("INSERT INTO card (uuid) VALUES ('new')")
    assert copy.read("read", "SELECT card_id FROM card WHERE uuid = 'new'") == [
        (len(ledger_process.CARDS) + 1,)
    ]
    copy.close()


@pytest.mark.parametrize("compact", [False, True])
def test_the_ledger_stays_closed_to_others_while_and_after_it_is_copied(
    ledger: Ledger, tmp_path: Path, *, compact: bool
) -> None:
    back_up(ledger, tmp_path / "copy.duckdb", compact=compact)

    code = "import duckdb, sys; duckdb.connect(sys.argv[1])"
    other = subprocess.run(
        [sys.executable, "-c", code, str(ledger.file)], capture_output=True, text=True, check=False
    )

    assert "Could not set lock on file" in other.stderr
    ledger.close()


def test_what_was_deleted_takes_no_room_in_a_compact_backup(ledger: Ledger, tmp_path: Path) -> None:
    with ledger.transaction("grow") as run:
        run("CREATE TABLE passing AS SELECT range AS number, random() AS noise FROM range(900000)")
    back_up(ledger, tmp_path / "before.duckdb")
    with ledger.transaction("shrink") as run:
        run("DELETE FROM passing")
        run("INSERT INTO card (uuid) VALUES ('after')")

    done = back_up(ledger, tmp_path / "after.duckdb", compact=True)

    assert done.size_bytes < (tmp_path / "before.duckdb").stat().st_size / 2
    ledger.close()


def test_an_older_backup_is_replaced_and_anything_else_is_not(
    ledger: Ledger, tmp_path: Path
) -> None:
    target, letter = tmp_path / "copy.duckdb", tmp_path / "letter.txt"
    letter.write_text("dear ledger", encoding="utf-8")
    first = back_up(ledger, target)
    ledger_process.put_hour(ledger, 30)

    second = back_up(ledger, target)
    with pytest.raises(LedgerError, match="it is there, and no ledger that may be replaced"):
        back_up(ledger, letter)

    assert second.row_count > first.row_count
    assert letter.read_text(encoding="utf-8") == "dear ledger"
    ledger.close()


def test_a_database_of_somebody_else_is_not_replaced(ledger: Ledger, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.duckdb"
    with duckdb.connect(str(theirs)) as connection:
        connection.execute("CREATE TABLE precious (stone VARCHAR)")

    with pytest.raises(LedgerError, match="no ledger of rightslice but another program's"):
        back_up(ledger, theirs)
    ledger.close()


def test_a_ledger_is_not_backed_up_onto_itself(ledger: Ledger, tmp_path: Path) -> None:
    assert ledger.file is not None
    (tmp_path / "link.duckdb").symlink_to(ledger.file)

    for target in (ledger.file, tmp_path / "link.duckdb"):
        with pytest.raises(LedgerError, match="name a file beside the ledger's own"):
            back_up(ledger, target)
    ledger.close()


def test_without_a_folder_it_says_so(ledger: Ledger, tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=f"there is no folder {tmp_path / 'none'}"):
        back_up(ledger, tmp_path / "none" / "copy.duckdb")
    ledger.close()


def test_a_ledger_in_memory_has_no_backup(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="kept in memory has no backup; keep it with --ledger"):
        back_up(Ledger.open(), tmp_path / "copy.duckdb")


def test_what_a_crash_left_of_a_backup_is_overwritten(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / ".copy.duckdb.part").write_bytes(b"half")

    back_up(ledger, tmp_path / "copy.duckdb")

    assert not (tmp_path / ".copy.duckdb.part").exists()
    ledger.close()
