"""Counters, differenced without extrapolation."""

from rightslice.contract.histogram import BIN_COUNT
from rightslice.feeders.counters import BinGrowth, Growth, Scrape, Target, open_scrape

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


def test_growth_over_one_missed_scrape_is_seen_and_over_an_outage_is_bridged() -> None:
    target = Target()
    scrape(target, 1000.0).grow(KEY, 50.0, 1.0)
    missed = scrape(target, 1030.0).grow(KEY, 80.0, 1.0)
    after_an_outage = scrape(target, 1068.0).grow(KEY, 118.0, 1.0)

    assert missed is not None
    assert not missed.is_bridged(usual_interval_seconds=15.0)
    assert after_an_outage is not None
    assert after_an_outage.is_bridged(usual_interval_seconds=15.0)
    assert not after_an_outage.is_bridged(usual_interval_seconds=60.0)


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


def bins(*counts: float) -> tuple[float, ...]:
    return (*counts, *[0.0] * (BIN_COUNT - len(counts)))


def test_a_histogram_grows_in_each_of_its_bins() -> None:
    target = Target()
    scrape(target, 1000.0).grow_bins(KEY, bins(3, 2), 20.0)

    growth = scrape(target, 1060.0).grow_bins(KEY, bins(4, 4), 20.0)

    assert growth == BinGrowth(1000.0, 1060.0, bins(1, 2))


def test_a_histogram_that_observed_nothing_tells_nothing() -> None:
    target = Target()
    scrape(target, 1000.0).grow_bins(KEY, bins(3, 2), 20.0)

    assert scrape(target, 1060.0).grow_bins(KEY, bins(3, 2), 20.0) is None


def test_a_histogram_of_which_a_bin_fell_began_anew() -> None:
    target = Target()
    scrape(target, 1000.0).grow_bins(KEY, bins(3, 2), 20.0)

    growth = scrape(target, 1060.0).grow_bins(KEY, bins(0, 3), 20.0)

    assert growth == BinGrowth(1000.0, 1060.0, bins(0, 3))


def test_a_histogram_first_seen_with_more_than_there_was_time_for_tells_nothing() -> None:
    target = Target()
    open_scrape(target, 1000.0, None)

    assert scrape(target, 1060.0).grow_bins(KEY, bins(50), 20.0) is None


def test_a_register_goes_on_over_a_restart_of_its_reader() -> None:
    target = Target()
    scrape(target, 1000.0, start=500.0).grow_register(KEY, 50.0, 0.001)

    growth = scrape(target, 1060.0, start=1030.0).grow_register(KEY, 80.0, 0.001)

    assert growth == Growth(1000.0, 1060.0, 30.0)


def test_a_register_that_fell_over_a_restart_tells_nothing_of_that_time() -> None:
    target = Target()
    scrape(target, 1000.0, start=500.0).grow_register(KEY, 50.0, 0.001)

    assert scrape(target, 1060.0, start=1030.0).grow_register(KEY, 20.0, 0.001) is None
    assert scrape(target, 1120.0, start=1030.0).grow_register(KEY, 25.0, 0.001) == Growth(
        1060.0, 1120.0, 5.0
    )


def test_a_register_first_seen_tells_nothing() -> None:
    target = Target()
    open_scrape(target, 1000.0, None)

    assert scrape(target, 1060.0).grow_register(KEY, 0.0, 0.001) is None
