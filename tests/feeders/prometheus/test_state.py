"""Which hours a pull asks for: new ones, missing ones, and those of which more has come."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from rightslice.feeders.prometheus.state import SPAN_HOURS, PullState, restored, spans

FIRST = 491_000


def state(hours: int = 24) -> PullState:
    counts = {"up": {FIRST + hour: 60.0 for hour in range(hours)}}
    return PullState(FIRST, FIRST + hours, set(), counts)


def due(told: PullState, counts: dict[int, float], final_before: int = 0) -> list[range]:
    return told.due(range(FIRST, FIRST + 48), {"up": counts}, FIRST + final_before)


@given(st.sets(st.integers(0, 200)))
def test_spans_hold_all_hours_once_and_a_day_at_most(hours: set[int]) -> None:
    found = spans(hours)

    assert [hour for span in found for hour in span] == sorted(hours)
    assert all(len(span) <= SPAN_HOURS for span in found)


def test_new_hours_are_due() -> None:
    assert due(state(), {}) == [range(FIRST + 24, FIRST + 48)]


def test_an_hour_with_more_samples_is_due_with_its_neighbours() -> None:
    assert due(state(), {FIRST + 9: 61.0, FIRST + 3: 60.0}) == [
        range(FIRST + 8, FIRST + 11),
        range(FIRST + 24, FIRST + 48),
    ]


def test_a_final_hour_is_not_due_again() -> None:
    assert due(state(), {FIRST + 9: 61.0}, final_before=10) == [range(FIRST + 24, FIRST + 48)]


def test_an_hour_with_fewer_samples_is_left_as_it_is() -> None:
    assert due(state(), {FIRST + 9: 12.0}) == [range(FIRST + 24, FIRST + 48)]


def test_a_missing_hour_is_due_until_it_is_written_even_when_final() -> None:
    told = state()
    told.failed(range(FIRST + 24, FIRST + 26))

    before = due(told, {}, final_before=47)
    told.written(range(FIRST + 24, FIRST + 26), {})

    assert before == [range(FIRST + 24, FIRST + 48)]
    assert due(told, {}, final_before=47) == [range(FIRST + 26, FIRST + 48)]


def test_counts_of_final_hours_and_what_left_the_window_are_dropped() -> None:
    told = state()
    told.failed(range(FIRST + 2, FIRST + 4))

    told.forget_before(FIRST + 3, FIRST + 20)

    assert told.missing_hours == {FIRST + 3}
    assert sorted(told.counts["up"]) == list(range(FIRST + 20, FIRST + 24))


def test_what_was_stored_is_taken_up() -> None:
    told = state()
    told.failed(range(FIRST + 24, FIRST + 26))

    again = restored(told.stored(), FIRST)

    assert again == told
    assert told.stored().complete_until == datetime.fromtimestamp((FIRST + 26) * 3600, UTC)


def test_an_earlier_start_and_a_gap_begin_anew() -> None:
    stored = state().stored()

    assert restored(stored, FIRST - 1) == PullState(FIRST - 1, FIRST - 1)
    assert restored(stored, FIRST + 25) == PullState(FIRST + 25, FIRST + 25)
    assert restored(None, FIRST) == PullState(FIRST, FIRST)


def test_what_an_older_version_stored_is_not_taken_up() -> None:
    stored = state().stored()
    stored.state["version"] = 1

    assert restored(stored, FIRST) == PullState(FIRST, FIRST)
