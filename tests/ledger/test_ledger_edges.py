"""What a ledger is put through: names of any kind, many threads, files that are no ledgers."""

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.usage import END, START, at_hour, card_hour, workload_hour

from rightslice.ledger.attributes import CardAttributes
from rightslice.ledger.ledger import Batch, FeederState, Ledger, LedgerError, LedgerHeldError
from rightslice.profile.usage import CardUsage

FEEDER = "prometheus"
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
HOSTILE = (
    "'; DROP TABLE card_hour; --",
    '"quoted"',
    "it's",
    "back\\slash",
    "$1",
    "? ?",
    "{staged}",
    "线上/推理-0",
    "\u202egpj",
    "a\nb",
    "%s %(x)s",
    "NULL",
)


def only_usage(ledger: Ledger) -> CardUsage:
    """The sums of the one card there is."""
    (usage,) = ledger.card_usage(START, END)
    return usage


@settings(deadline=None, max_examples=20)
@given(uuid=NAMES, node=NAMES, name=NAMES, namespace=NAMES, pod=NAMES, feeder=NAMES)
def test_names_pass_through_as_data(
    uuid: str, node: str, name: str, namespace: str, pod: str, feeder: str
) -> None:
    _assert_names_pass_through(uuid, node, name, namespace, pod, feeder)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_pass_through_as_data(text: str) -> None:
    _assert_names_pass_through(text, text, text, text, text, text)


def _assert_names_pass_through(
    uuid: str, node: str, name: str, namespace: str, pod: str, feeder: str
) -> None:
    ledger = Ledger.open()

    ledger.replace_hours(
        Batch(
            [replace(card_hour(0, uuid), busy_signal=name, quality=(node,))],
            [workload_hour(pod, uuid=uuid, namespace=namespace)],
            [CardAttributes(uuid, START, node, name)],
        ),
        feeder,
        FeederState(START, {name: pod}),
    )

    usage = only_usage(ledger)
    state = ledger.feeder_state(feeder)
    assert (usage.uuid, usage.node, usage.name) == (uuid, node, name)
    assert [(held.namespace, held.pod) for held in usage.holders] == [(namespace, pod)]
    assert usage.quality == (node,)
    assert ledger.read("look", "SELECT busy_signal FROM card_hour") == [(name,)]
    assert state is not None
    assert state.state == {name: pod}
    ledger.close()


def test_readers_see_whole_batches_while_another_thread_writes(ledger: Ledger) -> None:
    # Each batch carries one number as peak and as pod; a torn read would show two.
    def put(number: int) -> None:
        row = replace(card_hour(), memory_used_peak_bytes=number)
        ledger.replace_hours(Batch([row], [workload_hour(str(number))]))

    def seen() -> tuple[int | None, list[str]]:
        usage = only_usage(ledger)
        return usage.memory_used_peak_bytes, [held.pod for held in usage.holders]

    put(0)
    with ThreadPoolExecutor(max_workers=4) as threads:
        futures = [(threads.submit(put, n), threads.submit(seen)) for n in range(1, 31)]
    written, read = zip(*futures, strict=True)
    pairs = [future.result() for future in read]

    assert [future.result() for future in written] == [None] * 30
    assert [(peak, names) for peak, names in pairs if names != [str(peak)]] == []
    assert len({peak for peak, _ in pairs}) > 1


def test_many_threads_write_without_losing_an_hour(ledger: Ledger) -> None:
    with ThreadPoolExecutor(max_workers=6) as threads:
        list(threads.map(lambda index: ledger.replace_hours(Batch([card_hour(index)])), range(60)))

    assert only_usage(ledger).hour_count == 60


def test_a_file_keeps_what_was_written(tmp_path: Path) -> None:
    file = tmp_path / "facts.duckdb"
    first = Ledger.open(file)
    first.replace_hours(Batch([card_hour()]), FEEDER, FeederState(at_hour(1), {"hours": 1}))
    first.close()

    again = Ledger.open(file)

    assert only_usage(again).owned_seconds == 3600
    assert again.feeder_state(FEEDER) == FeederState(at_hour(1), {"hours": 1})
    again.close()


def test_closing_takes_the_holders_name_off(tmp_path: Path) -> None:
    file = tmp_path / "facts.duckdb"
    opened = Ledger.open(file)
    opened.announce("http://127.0.0.1:19401")
    announced = sorted(entry.name for entry in tmp_path.glob("*.lock"))

    opened.close()

    assert announced == ["facts.duckdb.lock"]
    assert list(tmp_path.glob("*.lock")) == []


def test_a_ledger_in_memory_has_nothing_to_announce(ledger: Ledger) -> None:
    ledger.announce("http://127.0.0.1:19401")


@pytest.mark.parametrize("folder", ["nowhere", "blocks", "clock"])
def test_a_folder_that_is_missing_is_named_not_taken_for_a_lock(
    tmp_path: Path, folder: str
) -> None:
    file = tmp_path / folder / "facts.duckdb"

    with pytest.raises(LedgerError) as refusal:
        Ledger.open(file)

    assert not isinstance(refusal.value, LedgerHeldError)
    assert str(refusal.value).startswith(f"ledger {file} cannot be opened: ")
    assert "No such file or directory; name another --ledger" in str(refusal.value)


def test_a_file_that_was_cut_off_before_its_first_byte_becomes_a_ledger(tmp_path: Path) -> None:
    file = tmp_path / "facts.duckdb"
    file.touch()

    ledger = Ledger.open(file)

    assert ledger.span() is None
    ledger.close()


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"no database\n", id="text"),
        pytest.param(random.Random(1).randbytes(20_000), id="noise"),
        # With its extensions on, DuckDB would fetch one for this from the network.
        pytest.param(b"SQLite format 3\0" + bytes(4080), id="another database"),
    ],
)
def test_a_file_that_is_no_ledger_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "facts.duckdb"
    file.write_bytes(content)

    with pytest.raises(LedgerError) as refusal:
        Ledger.open(file)

    assert str(refusal.value).startswith(f"ledger {file} cannot be opened: ")
    assert str(refusal.value).endswith("; name another --ledger, or restore this one")
    assert "download" not in str(refusal.value)
    assert file.read_bytes() == content


def test_a_folder_is_no_ledger(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=r"cannot be opened: .*Is a directory"):
        Ledger.open(tmp_path)


def test_a_closed_ledger_says_so(ledger: Ledger) -> None:
    ledger.close()

    with pytest.raises(LedgerError, match="cannot read: "):
        ledger.span()
