"""What the runs of a scheduler's log say of who had the engine, who waited, and who is who.

Where it matters, against a simulated engine that knows how long each truly waited.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

import pytest
from support.timeslice import SAMPLE_SECONDS, SLICE_SECONDS, Engine, Instant, Tenant, Turn
from support.timeslice_scenarios import Regime, inside_the_model
from support.timeslice_traffic import greedy, open_traffic

from rightslice.exporter.host.nvml.vgpu_schedule import MOST_ENTRIES, LogPart, Run
from rightslice.exporter.timeslice import SAMPLES_PER_SECOND
from rightslice.exporter.vgpu_runs import (
    FEWEST_READINGS,
    LONGEST_SWITCH_SECONDS,
    LoggedBlock,
    RunlistOwners,
    RunMeter,
    logged_waits,
)

TOTAL_SECONDS, BLOCK_SECONDS = 40, 5
ENDLESS = 10**9
# Of the scenarios one in so many, which are still of all kinds.
EACH = 3
# A gap counts in the block in which it ends: less than a round of turns.
EDGE_RATIO = 0.005


def runs(*rows: tuple[int, float, float], slice_ms: float = 2.0) -> tuple[Run, ...]:
    """Make runs of (runlist, start, end) in milliseconds."""
    return tuple(
        Run(runlist, end_ms / 1000, (end_ms - start_ms) / 1000, slice_ms / 1000)
        for runlist, start_ms, end_ms in rows
    )


def block_of(*parts: LogPart, seconds: float = 0.1) -> LoggedBlock:
    meter = RunMeter()
    for part in parts:
        meter.add(part, seconds)
    block = meter.take(seconds)
    assert block is not None
    return block


def certain_ms(*rows: tuple[int, float, float], slice_ms: float = 2.0) -> dict[int, float]:
    """Give the certain wait, in milliseconds, of a block of 100 ms."""
    block = block_of(LogPart(runs(*rows, slice_ms=slice_ms), 0.0))
    return {each: round(100 * ratio, 6) for each, ratio in block.certain_wait_ratios.items()}


def test_who_used_up_its_slice_waits_until_its_next_turn() -> None:
    assert certain_ms((1, 0, 2), (2, 2, 4), (1, 4, 5)) == {1: 2.0}


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([(1, 0, 1.5), (2, 1.5, 3.5), (1, 3.5, 4)], id="its slice was not used up"),
        pytest.param([(1, 0, 2), (2, 3, 4), (1, 4, 5)], id="the engine was idle meanwhile"),
        pytest.param(
            [(1, 0, 2), (2, 2, 4), (2, 4, 6), (2, 6, 8), (1, 8, 9)], id="its turn was due before"
        ),
        pytest.param([(1, 0, 2), (1, 2, 4)], id="nobody came between"),
    ],
)
def test_no_other_gap_is_certainly_a_wait(rows: list[tuple[int, float, float]]) -> None:
    assert sum(certain_ms(*rows).values()) == 0


def test_two_slices_in_one_run_are_whole_slices_too() -> None:
    assert certain_ms((1, 0, 4), (2, 4, 6), (1, 6, 7)) == {1: 2.0}


def test_where_the_slice_is_not_told_no_wait_is_certain() -> None:
    assert certain_ms((1, 0, 2), (2, 2, 4), (1, 4, 5), slice_ms=0.0) == {}


def test_the_time_for_a_change_of_contexts_is_no_idle_time() -> None:
    block = block_of(LogPart(runs((1, 0, 2), (2, 2.1, 4), (1, 4.1, 6), (2, 10, 11)), 0.0))

    assert block.busy_ratios == pytest.approx({1: 0.039, 2: 0.029})
    assert block.held_ratio == pytest.approx(0.068 + 0.002)
    assert block.certain_wait_ratios == pytest.approx({1: 0.021})
    assert block.switches_per_second == pytest.approx(30)
    assert LONGEST_SWITCH_SECONDS < 0.004


def test_a_gap_goes_on_over_the_end_of_a_reading_and_of_a_block() -> None:
    meter = RunMeter()
    meter.add(LogPart(runs((1, 0, 2)), 0.0), 0.1)
    meter.take(0.1)
    meter.add(LogPart(runs((2, 2, 4), (1, 4, 5)), 0.002), 0.1)

    block = meter.take(0.1)

    assert block is not None
    assert block.certain_wait_ratios == pytest.approx({1: 0.02})


def test_a_gap_with_a_hole_in_it_is_unknown() -> None:
    before = LogPart(runs((1, 0, 2)), 0.0)
    after = LogPart(runs((2, 52, 54), (1, 54, 55)), 0.002, is_overrun=True)

    assert block_of(before, after).certain_wait_ratios == {}


def test_what_was_lost_is_taken_to_be_like_what_is_left() -> None:
    part = LogPart(runs((2, 58, 60), (1, 60, 64), (2, 64, 65)), 0.001, is_overrun=True)

    block = block_of(part, seconds=0.1)

    assert block.busy_ratios == pytest.approx({1: 0.8, 2: 0.2})
    assert block.known_ratio == pytest.approx(0.05)


def test_times_with_many_short_runs_count_as_much_as_others() -> None:
    lone = LogPart(runs((1, 900, 1000)), 0.9)
    mixed = LogPart(runs((2, 1895, 1900), (1, 1900, 1950), (2, 1950, 2000)), 1.0, is_overrun=True)
    meter = RunMeter()
    meter.add(lone, 0.1)
    meter.add(mixed, 1.0)

    block = meter.take(1.1)

    assert block is not None
    assert block.busy_ratios == pytest.approx({1: (0.1 + 0.5) / 1.1, 2: 0.5 / 1.1})


def test_a_run_longer_than_the_block_fills_it() -> None:
    block = block_of(LogPart(runs((1, 0, 5000)), 0.0))

    assert (block.busy_ratios, block.held_ratio) == ({1: 1.0}, 1.0)


def test_no_time_is_no_block() -> None:
    assert RunMeter().take(0.0) is None


def test_a_quiet_log_tells_an_idle_engine() -> None:
    block = block_of(LogPart((), 0.0))

    assert (block.busy_ratios, block.held_ratio, block.known_ratio) == ({}, 0.0, 1.0)
    assert logged_waits(block) == {}


@pytest.mark.parametrize(
    ("busy_ratios", "certain_ratio", "least", "most"),
    [
        pytest.param({1: 0.3, 2: 0.3}, 0.0, 0.1, 0.2, id="as estimated"),
        pytest.param({1: 0.3, 2: 0.3}, 0.25, 0.25, 0.25, id="no less than is certain"),
        pytest.param({1: 0.3, 2: 0.3}, 0.4, 0.3, 0.3, id="no more than others had"),
    ],
)
def test_the_estimate_is_held_within_what_the_log_says(
    busy_ratios: dict[int, float], certain_ratio: float, least: float, most: float
) -> None:
    held_ratio = sum(busy_ratios.values())
    block = LoggedBlock(busy_ratios, {1: certain_ratio}, held_ratio, 1.0, 300.0, SLICE_SECONDS)

    wait = logged_waits(block)[1]

    assert least - 1e-9 <= wait.wait_ratio <= most + 1e-9
    assert wait.upper_bound_ratio == pytest.approx(0.3)


# Against the simulated engine.


@dataclass(frozen=True, slots=True)
class Look:
    """One tenant in one block: what was true, and what the log makes of it."""

    tenant: int
    true_ratio: float
    true_busy_ratio: float
    busy_ratio: float
    certain_ratio: float
    possible_ratio: float
    estimate: float


def looks(tenants: Sequence[Tenant], seed: int, most_entries: int = ENDLESS) -> list[Look]:
    """Run tenants, and read their log once a second; the first block is left out."""
    turns: list[Turn] = []
    instants = Engine(tenants, seed, turns=turns).run(TOTAL_SECONDS)
    meter = RunMeter()
    found: list[Look] = []
    for second, part in enumerate(_parts(turns, most_entries), 1):
        meter.add(part, 1.0)
        if second % BLOCK_SECONDS == 0:
            block = meter.take(BLOCK_SECONDS)
            assert block is not None
            if second > BLOCK_SECONDS:
                found += _looks(block, instants[_sample_at(second - BLOCK_SECONDS) :][: 1 + 36])
    return found


def _sample_at(second: int) -> int:
    return round(second * SAMPLES_PER_SECOND) - 1


def _parts(turns: Sequence[Turn], most_entries: int) -> Iterator[LogPart]:
    rows = [
        Run(turn.tenant, turn.end_seconds, turn.end_seconds - turn.start_seconds, SLICE_SECONDS)
        for turn in turns
    ]
    newest_seconds, start = 0.0, 0
    for second in range(1, TOTAL_SECONDS + 1):
        end = start
        while end < len(rows) and rows[end].end_seconds <= second:
            end += 1
        kept = tuple(rows[max(start, end - most_entries) : end])
        yield LogPart(kept, newest_seconds, is_overrun=end - start > most_entries)
        newest_seconds, start = rows[end - 1].end_seconds if end else 0.0, end


def _looks(block: LoggedBlock, part: Sequence[Instant]) -> Iterator[Look]:
    first, last = part[0], part[-1]
    seconds = (len(part) - 1) * SAMPLE_SECONDS
    samples = [
        (after.device_busy_seconds - before.device_busy_seconds) / SAMPLE_SECONDS
        for before, after in pairwise(part)
    ]
    for tenant, wait in logged_waits(block, samples).items():
        yield Look(
            tenant,
            (last.wait_seconds[tenant] - first.wait_seconds[tenant]) / seconds,
            (last.busy_seconds[tenant] - first.busy_seconds[tenant]) / seconds,
            block.busy_ratios[tenant],
            block.certain_wait_ratios.get(tenant, 0.0),
            wait.upper_bound_ratio,
            wait.wait_ratio,
        )


def test_the_true_wait_lies_between_the_certain_and_the_possible_one() -> None:
    found = [
        look
        for number, scenario in enumerate(inside_the_model())
        if number % EACH == 0
        for look in looks(scenario.tenants, number)
    ]

    assert max(look.certain_ratio - look.true_ratio for look in found) < EDGE_RATIO
    assert max(look.true_ratio - look.possible_ratio for look in found) < EDGE_RATIO


@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize("most_entries", [ENDLESS, MOST_ENTRIES], ids=["all", "what is left"])
def test_the_wait_of_those_that_never_stop_is_exact(count: int, most_entries: int) -> None:
    found = looks([greedy()] * count, 1, most_entries)

    errors = [abs(look.estimate - look.true_ratio) for look in found]
    assert fmean(errors) < 0.01
    assert max(errors) < 0.03


@pytest.mark.parametrize(
    ("most_entries", "most_error"),
    [pytest.param(ENDLESS, 0.03, id="all"), pytest.param(MOST_ENTRIES, 0.035, id="what is left")],
)
def test_the_wait_of_a_light_one_beside_one_that_never_stops_is_near(
    most_entries: int, most_error: float
) -> None:
    found = looks([greedy(), open_traffic(0.05, 0.0005)], 1, most_entries)
    light = [look for look in found if look.tenant == 1]

    true_ratio, estimate = (
        fmean(look.true_ratio for look in light),
        fmean(look.estimate for look in light),
    )
    assert abs(estimate - true_ratio) < most_error


def test_a_log_of_which_much_is_lost_still_tells_the_busy_time() -> None:
    (tenants, *_) = (row.tenants for row in inside_the_model() if row.regime is Regime.BURSTY)
    every = looks(tenants, 1)
    left = looks(tenants, 1, MOST_ENTRIES)

    for tenant in range(len(tenants)):
        true_ratio = fmean(look.true_busy_ratio for look in every if look.tenant == tenant)
        by_all = fmean(look.busy_ratio for look in every if look.tenant == tenant)
        by_rest = fmean(look.busy_ratio for look in left if look.tenant == tenant)
        assert by_all == pytest.approx(true_ratio, abs=0.001)
        assert by_rest == pytest.approx(true_ratio, abs=0.04)


# Whose is which runlist.


def owners_after(
    *readings: tuple[Mapping[int, float], Mapping[str, float]],
) -> dict[int, str] | None:
    """Give what is known at the last of some readings."""
    owners: RunlistOwners[str] = RunlistOwners()
    for by_runlist, by_vgpu in readings:
        owners.note(5.0, by_runlist, by_vgpu)
    return owners.owners(*readings[-1])


LOADED = ({9: 0.41, 8: 0.2, 7: 0.05}, {"a": 0.4, "b": 0.2, "c": 0.05, "d": 0.0})


def test_runlists_are_known_by_their_load() -> None:
    assert owners_after(*[LOADED] * FEWEST_READINGS) == {9: "a", 8: "b", 7: "c"}


def test_a_few_readings_say_too_little() -> None:
    assert owners_after(*[LOADED] * (FEWEST_READINGS - 1)) is None


def test_two_of_the_same_load_cannot_be_told_apart() -> None:
    same = ({9: 0.3, 8: 0.3}, {"a": 0.3, "b": 0.3})

    assert owners_after(*[same] * 10) is None


def test_two_of_the_same_mean_load_are_known_by_when_they_had_it() -> None:
    left, right = ({9: 0.5, 8: 0.1}, {"a": 0.1, "b": 0.5}), ({9: 0.1, 8: 0.5}, {"a": 0.5, "b": 0.1})

    assert owners_after(left, right, left, right) == {9: "b", 8: "a"}


def test_what_was_found_is_kept_when_loads_become_alike() -> None:
    same = ({9: 0.3, 8: 0.3, 7: 0.0}, {"a": 0.3, "b": 0.3, "c": 0.0, "d": 0.0})

    assert owners_after(*[LOADED] * 3, *[same] * 20) == {9: "a", 8: "b", 7: "c"}


def test_with_another_vgpu_all_is_found_out_anew() -> None:
    came = (LOADED[0], LOADED[1] | {"e": 0.0})

    assert owners_after(*[LOADED] * 3, came) is None
    assert owners_after(*[LOADED] * 3, *[came] * 3) == {9: "a", 8: "b", 7: "c"}


def test_a_new_runlist_is_found_out_beside_those_that_are_still_clear() -> None:
    came = (LOADED[0] | {6: 0.1}, LOADED[1] | {"d": 0.1})

    assert owners_after(*[LOADED] * 3, came) == {9: "a", 8: "b", 7: "c", 6: "d"}


@pytest.mark.parametrize(
    ("by_runlist", "by_vgpu"),
    [
        pytest.param({9: 0.4, 8: 0.2}, {"a": 0.4, "b": 0.0}, id="a run of nobody"),
        pytest.param({9: 0.4}, {"a": 0.4, "b": 0.2}, id="a load without runs"),
        pytest.param({9: 0.2}, {"a": 0.4, "b": 0.0}, id="loads that are too far apart"),
    ],
)
def test_while_one_is_not_known_none_is(
    by_runlist: dict[int, float], by_vgpu: dict[str, float]
) -> None:
    assert owners_after(*[(by_runlist, by_vgpu)] * 10) is None


def test_on_an_idle_card_nobody_need_be_known() -> None:
    assert owners_after(*[({}, {"a": 0.0, "b": 0.0})] * 3) == {}
