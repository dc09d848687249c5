"""Cards that are cut by MIG, closed by what their instances did."""

from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from rightslice.feeders.hours.card_hours import close_cut_cards
from rightslice.ledger.closure import split_hour
from rightslice.ledger.rows import CardHour, SliceHour

HOUR = datetime(2026, 3, 1, tzinfo=UTC)
WHOLE = CardHour("GPU-1", HOUR, "rightslice", allocation_observed_seconds=3600.0)
SECONDS = st.floats(0, 3600)


def part(name: str, units: int, seconds: tuple[float, float, float]) -> SliceHour:
    """An instance that was held, observed and active for so many seconds."""
    allocated, observed, active = seconds
    return SliceHour(
        "GPU-1",
        name,
        "mig",
        "1",
        "3g.20gb",
        units,
        8,
        HOUR,
        "rightslice",
        allocation_observed_seconds=3600.0,
        allocated_seconds=allocated,
        busy_observed_seconds=observed,
        busy_seconds=active,
    )


@given(st.lists(st.tuples(SECONDS, SECONDS, SECONDS), min_size=1, max_size=8))
def test_a_cut_card_is_the_sum_of_its_instances_by_their_shares(
    told: list[tuple[float, float, float]],
) -> None:
    parts = [part(str(number), 1, seconds) for number, seconds in enumerate(told)]

    (card,) = close_cut_cards([WHOLE], parts)

    closed, splits = split_hour(card), [split_hour(each) for each in parts]
    for name in ("busy", "idle", "unmeasured"):
        wanted = sum(getattr(each, name) for each in splits) / 8
        assert abs(getattr(closed, name) - wanted) <= 2
    assert closed.unknown == 0


def test_a_card_without_instances_and_one_of_vgpus_stay_as_they_are() -> None:
    vgpu = replace(part("V-1", 1, (3600.0, 3600.0, 100.0)), kind="vgpu")

    assert close_cut_cards([WHOLE], []) == close_cut_cards([WHOLE], [vgpu]) == [WHOLE]
