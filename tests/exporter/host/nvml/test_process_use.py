"""Whose the card's time was: the driver's samples by process, and its accounting."""

from collections.abc import Callable
from typing import Any

import pynvml
import pytest
from support.simulated import Simulate, SimulatedNode, calls_of, simulated_card

from rightslice.exporter.host.nvml.errors import NvmlError
from rightslice.exporter.host.nvml.process_use import EMPTY_READINGS, ProcessUse

USE, MODE = "nvmlDeviceGetProcessUtilization", "nvmlDeviceGetAccountingMode"
STATS = "nvmlDeviceGetAccountingStats_v2"
SECOND_US = 1_000_000
FIRST, SECOND, GONE = 100, 200, 999

Row = tuple[int, int, int]


def now_us(node: SimulatedNode) -> int:
    return int(node.clock.now_seconds() * SECOND_US)


def rows(*told: Row) -> Callable[..., int]:
    """Make a nvmlDeviceGetProcessUtilization that hands out (process, microseconds, percent)."""

    def answer(_: Any, samples: Any, count: Any, since: Any) -> int:
        count._obj.value = len(told)
        for slot, (process_id, stamp_us, percent) in enumerate(told):
            samples[slot].pid, samples[slot].timeStamp = process_id, stamp_us
            samples[slot].smUtil = percent
        return int(pynvml.NVML_SUCCESS if told else pynvml.NVML_ERROR_NOT_FOUND)

    return answer


def started(node: SimulatedNode) -> ProcessUse:
    """Give a reader that knows where the samples end."""
    (card,) = node.open()
    use = ProcessUse(card)
    card.new_utilisation_samples()
    node.answer(USE, rows())
    use.read((FIRST, SECOND))
    node.clock.advance(5)
    card.new_utilisation_samples()
    return use


def test_each_process_has_its_share_since_the_last_reading(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    use = started(node)
    node.answer(USE, rows((FIRST, now_us(node), 60), (SECOND, now_us(node), 25)))

    assert use.read((FIRST, SECOND)) == {FIRST: 0.6, SECOND: 0.25}


def test_the_first_reading_only_finds_where_the_samples_end(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    (card,) = node.open()
    node.answer(USE, rows((FIRST, now_us(node), 60)))

    use = ProcessUse(card)

    assert use.read((FIRST,)) == {FIRST: 0.0}
    assert use.is_baseline
    use.read((FIRST,))
    assert not use.is_baseline


def test_a_process_without_a_sample_had_nothing(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    use = started(node)
    node.answer(USE, rows((FIRST, now_us(node), 60)))

    assert use.read((FIRST, SECOND)) == {FIRST: 0.6, SECOND: 0.0}


def test_no_new_sample_at_all_means_that_nobody_ran(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    use = started(node)

    assert use.read((FIRST,)) == {FIRST: 0.0}
    assert use.rejected_count == 0


def test_processes_that_are_gone_and_values_that_cannot_be_are_left_out_and_counted(
    simulate: Simulate,
) -> None:
    node = simulate(simulated_card())
    use = started(node)
    stamp_us = now_us(node)
    node.answer(
        USE, rows((GONE, stamp_us, 40), (FIRST, stamp_us, 4_294_967_295), (SECOND, stamp_us, 30))
    )

    assert use.read((FIRST, SECOND)) == {FIRST: 0.0, SECOND: 0.3}
    assert use.rejected_count == 2


def test_slots_from_before_the_last_reading_are_not_told_again(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    use = started(node)
    node.answer(USE, rows((FIRST, now_us(node) - 6 * SECOND_US, 90), (0, 0, 0)))

    assert use.read((FIRST,)) == {FIRST: 0.0}


def test_of_several_slots_of_a_process_the_latest_counts(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    use = started(node)
    stamp_us = now_us(node)
    node.answer(USE, rows((FIRST, stamp_us, 50), (FIRST, stamp_us - SECOND_US, 90)))

    assert use.read((FIRST,)) == {FIRST: 0.5}


def test_time_in_which_the_card_was_idle_is_not_averaged_into_what_comes(
    simulate: Simulate,
) -> None:
    node = simulate(simulated_card())
    use = started(node)
    (card,) = node.host.gpus
    use.read((FIRST,))  # nothing: the process has no sample of its own
    node.clock.advance(5)
    card.new_utilisation_samples()
    calls = calls_of(node, USE)

    use.read((FIRST,))

    assert [arguments[3].value for arguments in calls] == [now_us(node) - 5 * SECOND_US]


def test_a_card_without_a_ring_of_its_own_is_read_on_from_the_newest_row(
    simulate: Simulate,
) -> None:
    node = simulate(simulated_card())
    node.fail("nvmlDeviceGetSamples", pynvml.NVML_ERROR_NOT_SUPPORTED)
    use = started(node)
    stamp_us = now_us(node)
    node.answer(USE, rows((FIRST, stamp_us, 50)))
    use.read((FIRST,))
    calls = calls_of(node, USE)

    use.read((FIRST,))

    assert [arguments[3].value for arguments in calls] == [stamp_us]


def test_there_a_clock_that_was_set_back_is_followed(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.fail("nvmlDeviceGetSamples", pynvml.NVML_ERROR_NOT_SUPPORTED)
    use = started(node)
    node.answer(USE, rows((FIRST, now_us(node), 50)))
    use.read((FIRST,))
    earlier_us = now_us(node) - 3600 * SECOND_US

    node.answer(USE, rows((FIRST, earlier_us, 40)))
    for _ in range(EMPTY_READINGS):
        assert use.read((FIRST,)) == {FIRST: 0.0}
    node.answer(USE, rows((FIRST, earlier_us + SECOND_US, 40)))

    assert use.read((FIRST,)) == {FIRST: 0.4}


def test_a_driver_that_does_not_tell_it_is_asked_once(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    (card,) = node.open()
    node.fail(USE, pynvml.NVML_ERROR_NOT_SUPPORTED)
    calls = calls_of(node, USE)
    use = ProcessUse(card)

    assert [use.read((FIRST,)), use.read((FIRST,))] == [None, None]
    assert len(calls) == 1


def test_a_refusal_is_a_failure(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    (card,) = node.open()
    node.fail(USE, pynvml.NVML_ERROR_NO_PERMISSION)

    with pytest.raises(NvmlError, match=USE):
        ProcessUse(card).read((FIRST,))


def test_more_processes_than_our_buffer_holds_are_read(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    use = started(node)
    many = tuple((number, now_us(node), 1) for number in range(1, 151))

    def answer(handle: Any, samples: Any, count: Any, since: Any) -> int:
        if count._obj.value < len(many):
            count._obj.value = 100  # what the driver itself calls enough
            return int(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)
        return rows(*many)(handle, samples, count, since)

    node.answer(USE, answer)

    shares = use.read(range(1, 151))

    assert shares is not None
    assert set(shares.values()) == {0.01}


class Accounts:
    """A driver's accounting: of each process how many samples, and their sum."""

    def __init__(self, node: SimulatedNode) -> None:
        self.totals: dict[int, tuple[int, int]] = {}
        # When each began, in microseconds since the epoch.
        self.starts_us: dict[int, int] = {}
        self.is_on = True
        node.answer(MODE, self._mode)
        node.answer(STATS, self._stats)

    def _mode(self, _: Any, mode: Any) -> int:
        mode._obj.value = int(self.is_on)
        return int(pynvml.NVML_SUCCESS)

    def _stats(self, _: Any, stats: Any) -> int:
        told = self.totals.get(stats._obj.pid)
        if told is None:
            return int(pynvml.NVML_ERROR_NOT_FOUND)
        stats._obj.sampleCount, stats._obj.sumGpuUtil = told
        stats._obj.startTime = self.starts_us.get(stats._obj.pid, 0)
        return int(pynvml.NVML_SUCCESS)


def test_where_accounting_adds_samples_up_nothing_is_lost_between_two_readings(
    simulate: Simulate,
) -> None:
    node = simulate(simulated_card())
    accounts = Accounts(node)
    use = started(node)
    accounts.totals = {FIRST: (1_000, 5_000_000), SECOND: (1_000, 0)}
    first = use.read((FIRST, SECOND))
    accounts.totals = {FIRST: (1_036, 5_180_000), SECOND: (1_036, 90_000)}

    assert first == {FIRST: 0.0, SECOND: 0.0}
    assert use.read((FIRST, SECOND)) == {FIRST: 0.5, SECOND: 0.25}


def test_what_a_process_had_that_began_after_the_last_reading_counts_from_its_start(
    simulate: Simulate,
) -> None:
    node = simulate(simulated_card())
    accounts = Accounts(node)
    use = started(node)
    card = use._card
    card.new_utilisation_samples()
    accounts.totals = {FIRST: (1_000, 0), SECOND: (1_000, 0)}
    use.read((FIRST, SECOND))
    assert card.newest_sample_us is not None
    accounts.totals = {FIRST: (1_036, 0), SECOND: (9, 90_000)}
    accounts.starts_us = {SECOND: card.newest_sample_us + 1}

    shares = use.read((FIRST, SECOND))

    # It was there for a quarter of the time, and busy throughout.
    assert shares == {FIRST: 0.0, SECOND: 0.25}


@pytest.mark.parametrize(
    "after",
    [
        pytest.param({FIRST: (10, 100)}, id="another process with this id"),
        pytest.param({FIRST: (1_010, 9_000_000)}, id="more than all of the time"),
        pytest.param({}, id="ended"),
    ],
)
def test_an_account_that_cannot_be_gives_nothing(
    after: dict[int, tuple[int, int]], simulate: Simulate
) -> None:
    node = simulate(simulated_card())
    accounts = Accounts(node)
    use = started(node)
    accounts.totals = {FIRST: (1_000, 5_000_000)}
    use.read((FIRST,))

    accounts.totals = after

    assert use.read((FIRST,)) == {FIRST: 0.0}


def test_with_accounting_off_or_too_old_the_samples_are_read(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    accounts = Accounts(node)
    node.fail(STATS, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
    calls = calls_of(node, STATS)
    use = started(node)
    node.answer(USE, rows((FIRST, now_us(node), 60)))
    too_old = use.read((FIRST, SECOND))
    accounts.is_on = False
    node.answer(USE, rows((FIRST, now_us(node) + SECOND_US, 30)))

    assert too_old == {FIRST: 0.6, SECOND: 0.0}
    assert use.read((FIRST, SECOND)) is not None
    assert len(calls) == 1


def test_a_change_of_the_source_begins_anew(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    accounts = Accounts(node)
    use = started(node)
    node.answer(USE, rows((FIRST, now_us(node), 60)))

    accounts.is_on = False
    use.read((FIRST,))

    assert use.is_baseline
