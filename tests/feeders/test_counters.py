"""Counters, differenced without extrapolation."""

from rightslice.feeders.counters import Growth, Scrape, Target, open_scrape

KEY = ("busy", "GPU-1")


def scrape(target: Target, now: float, start: float | None = 100.0) -> Scrape:
    opened = open_scrape(target, now, start)
    assert opened is not None
    return opened


def test_growth_is_the_difference_of_two_readings() -> None:
    target = Target()
    scrape(target, 1000.0).grow(KEY, 50.0, 1.0)

    assert scrape(target, 1060.0).grow(KEY, 80.0, 1.0) == Growth(1000.0, 1060.0, 30.0)


def test_nothing_is_said_of_the_time_before_a_targets_first_scrape() -> None:
    assert scrape(Target(), 1000.0).grow(KEY, 50.0, 1.0) is None


def test_a_gap_is_bridged_by_the_counter() -> None:
    target = Target()
    scrape(target, 1000.0).grow(KEY, 50.0, 1.0)

    assert scrape(target, 9000.0).grow(KEY, 7050.0, 1.0) == Growth(1000.0, 9000.0, 7000.0)


def test_after_a_restart_a_counter_counts_from_zero_since_the_start() -> None:
    target = Target()
    scrape(target, 1000.0).grow(KEY, 5000.0, 1.0)

    growth = scrape(target, 1060.0, start=1030.0).grow(KEY, 25.0, 1.0)

    assert growth == Growth(1030.0, 1060.0, 25.0)


def test_a_restart_that_already_counted_more_than_before_is_still_a_restart() -> None:
    target = Target()
    scrape(target, 1000.0).grow(KEY, 5.0, 1.0)

    growth = scrape(target, 1600.0, start=1100.0).grow(KEY, 480.0, 1.0)

    assert growth == Growth(1100.0, 1600.0, 480.0)


def test_a_fall_without_a_told_restart_counts_from_zero() -> None:
    target = Target()
    scrape(target, 1000.0, None).grow(KEY, 5000.0, 1.0)

    assert scrape(target, 1060.0, None).grow(KEY, 40.0, 1.0) == Growth(1000.0, 1060.0, 40.0)


def test_a_series_first_seen_on_a_known_target_counts_from_zero_if_that_is_possible() -> None:
    target = Target()
    scrape(target, 1000.0).grow(("other",), 1.0, 1.0)

    assert scrape(target, 1060.0).grow(KEY, 59.0, 1.0) == Growth(1000.0, 1060.0, 59.0)


def test_a_series_first_seen_with_more_than_the_time_since_the_last_scrape_is_a_baseline() -> None:
    target = Target()
    scrape(target, 1000.0).grow(("other",), 1.0, 1.0)

    assert scrape(target, 1060.0).grow(KEY, 5000.0, 1.0) is None
    assert scrape(target, 1120.0).grow(KEY, 5010.0, 1.0) == Growth(1060.0, 1120.0, 10.0)


def test_a_count_of_minutes_may_grow_by_one_a_minute_only() -> None:
    target = Target()
    scrape(target, 1000.0).grow(("other",), 1.0, 60.0)

    assert scrape(target, 1060.0).grow(KEY, 2.0, 60.0) is None


def test_a_scrape_that_is_not_newer_is_refused() -> None:
    target = Target()
    scrape(target, 1000.0)

    assert open_scrape(target, 1000.0, 100.0) is None
    assert open_scrape(target, 990.0, 100.0) is None


def test_a_start_time_told_with_jitter_below_a_second_is_no_restart() -> None:
    target = Target()
    scrape(target, 1000.0, 100.0).grow(KEY, 50.0, 1.0)

    growth = scrape(target, 1060.0, 100.4).grow(KEY, 60.0, 1.0)

    assert growth == Growth(1000.0, 1060.0, 10.0)
