"""Where cards were, read from a ledger."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from rightslice.ledger.attributes import CardAttributes
from rightslice.ledger.ledger import Batch, Ledger
from rightslice.ledger.rows import SOURCE_RIGHTSLICE, CardHour
from rightslice.ledger.stays import Place, Stay, card_stays

START = datetime(2026, 9, 1, tzinfo=UTC)
DAYS = 10 * 24
NODE = Place("", "node-1", "0000:3b:00.0")


def at(hour: int) -> datetime:
    return START + timedelta(hours=hour)


def hours(uuid: str, told: Iterable[int], *, is_seen: bool = True) -> list[CardHour]:
    return [
        CardHour(
            uuid,
            at(hour),
            SOURCE_RIGHTSLICE,
            observed_seconds=3600.0 * is_seen,
            seen_until=at(hour) + timedelta(minutes=59) if is_seen else None,
        )
        for hour in told
    ]


def placed(uuid: str, hour: int, place: Place = NODE) -> CardAttributes:
    return CardAttributes(uuid, at(hour), place.node, "A100", place.cluster, place.slot)


def fill(ledger: Ledger, rows: list[CardHour], *attributes: CardAttributes) -> None:
    """Put in rows, beside a card that is always seen and keeps the fleet's clock running."""
    ledger.replace_hours(Batch([*hours("GPU-clock", range(DAYS)), *rows], attributes=attributes))


def stays(ledger: Ledger, uuid: str = "GPU-a", start: int = 0, end: int = DAYS) -> list[Stay]:
    def read(statement: str, parameters: Any) -> list[tuple[Any, ...]]:
        return ledger.read("read stays", statement, parameters)

    return [stay for stay in card_stays(read, at(start), at(end)) if stay.uuid == uuid]


def test_an_empty_ledger_has_no_stays(ledger: Ledger) -> None:
    assert stays(ledger) == []


def test_a_card_that_stays_has_one_stay_from_its_first_hour_to_its_last_reading(
    ledger: Ledger,
) -> None:
    fill(ledger, hours("GPU-a", range(DAYS)), placed("GPU-a", 0))

    until = at(DAYS - 1) + timedelta(minutes=59)
    assert stays(ledger) == [Stay("GPU-a", "A100", NODE, at(0), until, 0, 0)]


def test_hours_in_which_others_were_seen_count_as_unseen(ledger: Ledger) -> None:
    fill(ledger, hours("GPU-a", range(5, 50)), placed("GPU-a", 5))

    [stay] = stays(ledger)
    assert (stay.since, stay.unseen_before_count) == (at(5), 5)
    assert stay.unseen_after_count == DAYS - 50


def test_an_hour_of_a_card_that_was_not_seen_is_no_stay(ledger: Ledger) -> None:
    fill(ledger, [*hours("GPU-a", range(50)), *hours("GPU-a", range(50, 74), is_seen=False)])

    assert stays(ledger)[0].until == at(49) + timedelta(minutes=59)


def test_a_card_missed_for_less_than_a_day_stays(ledger: Ledger) -> None:
    fill(ledger, hours("GPU-a", [*range(10), *range(33, 50)]), placed("GPU-a", 0))

    assert [(stay.since, stay.unseen_before_count) for stay in stays(ledger)] == [(at(0), 0)]


def test_a_card_missed_for_a_day_has_two_stays(ledger: Ledger) -> None:
    fill(ledger, hours("GPU-a", [*range(10), *range(34, 50)]), placed("GPU-a", 0))

    assert [(stay.since, stay.unseen_before_count) for stay in stays(ledger)] == [
        (at(0), 0),
        (at(34), 24),
    ]


def test_days_in_which_nobody_was_seen_end_no_stay(ledger: Ledger) -> None:
    told = [*range(10), *range(100, 120)]
    ledger.replace_hours(Batch([*hours("GPU-a", told), *hours("GPU-b", told)]))

    assert [(stay.since, stay.unseen_after_count) for stay in stays(ledger)] == [(at(0), 0)]


def test_another_place_is_another_stay_from_the_hour_it_is_told(ledger: Ledger) -> None:
    other = Place("east", "node-2", "0000:3c:00.0")
    fill(ledger, hours("GPU-a", range(50)), placed("GPU-a", 0), placed("GPU-a", 20, other))

    assert [(stay.place, stay.since) for stay in stays(ledger)] == [(NODE, at(0)), (other, at(20))]


def test_a_slot_that_is_told_later_on_is_no_other_place(ledger: Ledger) -> None:
    untold = Place("", "node-1", "")
    fill(ledger, hours("GPU-a", range(50)), placed("GPU-a", 0, untold), placed("GPU-a", 20))

    [stay] = stays(ledger)
    assert (stay.place, stay.since, stay.until) == (NODE, at(0), at(49) + timedelta(minutes=59))


def test_a_new_name_is_no_other_stay(ledger: Ledger) -> None:
    renamed = CardAttributes("GPU-a", at(20), NODE.node, "A100 80GB", "", NODE.slot)
    fill(ledger, hours("GPU-a", range(50)), placed("GPU-a", 0), renamed)

    assert [stay.name for stay in stays(ledger)] == ["A100 80GB"]


def test_the_day_before_a_window_tells_who_was_there(ledger: Ledger) -> None:
    fill(ledger, hours("GPU-a", [*range(90), *range(105, 150)]), placed("GPU-a", 0))

    [stay] = stays(ledger, start=100)
    assert (stay.since, stay.unseen_before_count) == (at(76), 0)


def test_of_a_card_that_was_away_for_long_the_place_before_is_known(ledger: Ledger) -> None:
    other = Place("", "node-2", "0000:3c:00.0")
    fill(
        ledger,
        hours("GPU-a", [*range(20), *range(120, 150)]),
        placed("GPU-a", 0),
        placed("GPU-a", 120, other),
    )

    before, after = stays(ledger, start=100)
    assert (before.place, before.until) == (NODE, at(19) + timedelta(minutes=59))
    assert (after.place, after.since) == (other, at(120))
