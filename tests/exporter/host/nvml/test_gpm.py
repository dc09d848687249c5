"""Activity of the multiprocessors: means between two samples, of a card or of one instance."""

from contextlib import suppress
from ctypes import c_void_p, cast
from typing import Any

import pynvml
import pytest
from support.simulated import Simulate, calls_of, constant, hopper, simulated_card

from rightslice.exporter.host.nvml.card import NvmlCard
from rightslice.exporter.host.nvml.errors import NvmlError
from rightslice.exporter.host.nvml.gpm import GpmReader
from rightslice.exporter.simulate.card import Mig, MigInstance
from rightslice.exporter.simulate.timeline import Event

SUPPORT, METRICS = "nvmlGpmQueryDeviceSupport", "nvmlGpmMetricsGet"
ALLOC, FREE = "nvmlGpmSampleAlloc", "nvmlGpmSampleFree"
SAMPLE, MIG_SAMPLE = "nvmlGpmSampleGet", "nvmlGpmMigSampleGet"
NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
FIRST_INSTANCE_ID, SECOND_INSTANCE_ID = 1, 2


def instance(start: int, sm_active_ratio: float) -> MigInstance:
    return MigInstance("3g.40gb", start, sm_active_ratio=constant(sm_active_ratio))


def reader_of(card: NvmlCard) -> GpmReader:
    return card.reader(GpmReader)


def addresses(asked: list[tuple[Any, ...]], position: int) -> list[int | None]:
    """Give which samples calls were about."""
    return [cast(arguments[position], c_void_p).value for arguments in asked]


def test_the_first_sample_tells_nothing_yet(simulate: Simulate) -> None:
    (card,) = simulate(hopper()).open()

    assert reader_of(card).read() == {}


def test_the_second_sample_gives_means_in_percent(simulate: Simulate) -> None:
    node = simulate(hopper())
    (card,) = node.open()
    reader_of(card).read()
    node.clock.advance(5)

    means = reader_of(card).read()

    assert means == {"sm_active": 25.0, "sm_occupancy": 12.5, "dram_active": 50.0}


def test_each_mean_is_over_the_time_since_the_reading_before(simulate: Simulate) -> None:
    node = simulate(hopper())
    (card,) = node.open()
    asked = calls_of(node, METRICS)

    for _ in range(4):
        reader_of(card).read()
        node.clock.advance(5)

    pairs = [
        (cast(request._obj.sample1, c_void_p).value, cast(request._obj.sample2, c_void_p).value)
        for (request,) in asked
    ]
    first, second = pairs[0]
    assert pairs == [(first, second), (second, first), (first, second)]


def test_two_samples_are_made_and_used_in_turn(simulate: Simulate) -> None:
    node = simulate(hopper())
    (card,) = node.open()
    asked = calls_of(node, ALLOC)

    for _ in range(5):
        reader_of(card).read()
        node.clock.advance(5)

    assert len(asked) == 2


def test_a_card_without_such_monitoring_is_none_and_is_asked_once(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    (card,) = node.open()
    asked = calls_of(node, SUPPORT)

    assert [reader_of(card).read(), reader_of(card).read()] == [None, None]
    assert len(asked) == 1


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(pynvml.NVML_ERROR_NOT_SUPPORTED, id="not supported"),
        pytest.param(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, id="function not found"),
        pytest.param(pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH, id="version mismatch"),
    ],
)
def test_a_driver_without_such_monitoring_is_none_and_is_asked_once(
    code: int, simulate: Simulate
) -> None:
    node = simulate(hopper(faults={SUPPORT: code}))
    (card,) = node.open()
    asked = calls_of(node, SUPPORT)

    assert [reader_of(card).read(), reader_of(card).read()] == [None, None]
    assert len(asked) == 1


def test_a_failing_question_for_support_is_asked_again(simulate: Simulate) -> None:
    faults: dict[str, int] = {SUPPORT: pynvml.NVML_ERROR_TIMEOUT}
    (card,) = simulate(hopper(faults=faults)).open()
    with pytest.raises(NvmlError, match=SUPPORT):
        reader_of(card).read()
    faults.clear()

    assert reader_of(card).read() == {}


def test_a_sample_that_a_card_cannot_take_is_none(simulate: Simulate) -> None:
    node = simulate(hopper(faults={SAMPLE: NOT_SUPPORTED}))
    (card,) = node.open()
    asked, made = calls_of(node, SAMPLE), calls_of(node, ALLOC)

    assert [reader_of(card).read(), reader_of(card).read()] == [None, None]
    assert (len(asked), len(made)) == (1, 1)


def test_each_metric_may_be_missing_by_itself(simulate: Simulate) -> None:
    node = simulate(hopper(sm_occupancy_ratio=None))
    (card,) = node.open()
    reader_of(card).read()
    node.clock.advance(5)

    assert reader_of(card).read() == {"sm_active": 25.0, "dram_active": 50.0}


def test_samples_too_close_to_each_other_give_no_mean(simulate: Simulate) -> None:
    (card,) = simulate(hopper()).open()
    reader_of(card).read()

    assert reader_of(card).read() == {}


def test_a_value_above_a_hundred_is_left_to_the_collector_to_judge(simulate: Simulate) -> None:
    node = simulate(hopper(sm_active_ratio=constant(1.75)))
    (card,) = node.open()
    reader_of(card).read()
    node.clock.advance(5)

    means = reader_of(card).read()

    assert means is not None
    assert means["sm_active"] == 175.0


def test_a_sample_that_fails_is_told_and_the_next_one_works(simulate: Simulate) -> None:
    faults: dict[str, int] = {}
    node = simulate(hopper(faults=faults))
    (card,) = node.open()
    reader_of(card).read()
    node.clock.advance(5)
    faults[SAMPLE] = pynvml.NVML_ERROR_UNKNOWN
    with pytest.raises(NvmlError, match=SAMPLE):
        reader_of(card).read()
    faults.clear()
    node.clock.advance(5)

    means = reader_of(card).read()

    assert means == {"sm_active": 25.0, "sm_occupancy": 12.5, "dram_active": 50.0}


def test_samples_that_fail_for_long_take_no_more_memory(simulate: Simulate) -> None:
    node = simulate(hopper(faults={SAMPLE: pynvml.NVML_ERROR_UNKNOWN}))
    (card,) = node.open()
    made = calls_of(node, ALLOC)

    for _ in range(5):
        with pytest.raises(NvmlError, match=SAMPLE):
            reader_of(card).read()

    assert len(made) <= 2


def test_each_instance_has_means_of_its_own(simulate: Simulate) -> None:
    mig = Mig(instances=(instance(0, 0.75), instance(4, 0.5)))
    node = simulate(hopper(mig=mig))
    (card,) = node.open()
    reader = reader_of(card)
    firsts = [reader.read(FIRST_INSTANCE_ID), reader.read(SECOND_INSTANCE_ID)]
    node.clock.advance(5)

    seconds = [reader.read(FIRST_INSTANCE_ID), reader.read(SECOND_INSTANCE_ID)]

    assert firsts == [{}, {}]
    assert seconds == [{"sm_active": 75.0}, {"sm_active": 50.0}]


def test_a_card_cut_by_mig_has_no_means_of_the_whole(simulate: Simulate) -> None:
    (card,) = simulate(hopper(mig=Mig(instances=(instance(0, 0.75),)))).open()

    assert reader_of(card).read() is None


def test_an_instance_that_is_not_there_is_none(simulate: Simulate) -> None:
    (card,) = simulate(hopper(mig=Mig(instances=(instance(0, 0.75),)))).open()

    assert reader_of(card).read(SECOND_INSTANCE_ID) is None


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(MIG_SAMPLE, id="no such instance"),
        pytest.param(METRICS, id="samples of two instances"),
    ],
)
def test_an_instance_that_is_gone_takes_no_card_down(name: str, simulate: Simulate) -> None:
    node = simulate(hopper(mig=Mig(instances=(instance(0, 0.75),))))
    (card,) = node.open()
    reader_of(card).read(FIRST_INSTANCE_ID)
    node.clock.advance(5)
    card.begin_round()
    card.memory()
    node.fail(name, pynvml.NVML_ERROR_INVALID_ARGUMENT)

    with suppress(NvmlError):
        reader_of(card).read(FIRST_INSTANCE_ID)

    assert card.is_up


def test_an_instance_made_anew_under_an_old_id_starts_without_the_old_samples(
    simulate: Simulate,
) -> None:
    events = (
        Event(10.0, 0, mig=Mig()),
        Event(11.0, 0, mig=Mig(instances=(instance(0, 0.5),))),
    )
    node = simulate(hopper(mig=Mig(instances=(instance(0, 0.75),))), events=events)
    (card,) = node.open()
    reader = reader_of(card)
    reader.read(FIRST_INSTANCE_ID)
    node.clock.advance(12)

    reader.forget(FIRST_INSTANCE_ID)
    first = reader.read(FIRST_INSTANCE_ID)
    node.clock.advance(5)

    assert first == {}
    assert reader.read(FIRST_INSTANCE_ID) == {"sm_active": 50.0}


def test_forgetting_gives_the_samples_back(simulate: Simulate) -> None:
    node = simulate(hopper())
    (card,) = node.open()
    asked, freed = calls_of(node, SAMPLE), calls_of(node, FREE)
    reader_of(card).read()
    node.clock.advance(5)
    reader_of(card).read()

    reader_of(card).forget(None)

    assert sorted(addresses(freed, 0), key=str) == sorted(addresses(asked, 1), key=str)
    assert len(freed) == 2


def test_forgetting_what_was_never_read_does_nothing(simulate: Simulate) -> None:
    node = simulate(hopper())
    (card,) = node.open()
    freed = calls_of(node, FREE)

    reader_of(card).forget(FIRST_INSTANCE_ID)

    assert freed == []


def test_a_sample_that_the_library_does_not_know_any_more_is_gone(simulate: Simulate) -> None:
    node = simulate(hopper())
    (card,) = node.open()
    reader_of(card).read()
    card.begin_round()
    card.memory()
    node.fail(FREE, pynvml.NVML_ERROR_INVALID_ARGUMENT)

    reader_of(card).forget(None)

    assert card.is_up
    assert reader_of(card).read() == {}


@pytest.mark.parametrize(
    "card",
    [
        pytest.param(simulated_card(), id="a card without"),
        pytest.param(hopper(faults={SUPPORT: NOT_SUPPORTED}), id="a driver without"),
    ],
)
def test_support_that_was_denied_is_asked_for_anew_when_what_is_lacking_is(
    card: Any, simulate: Simulate
) -> None:
    node = simulate(card)
    (opened,) = node.open()
    asked = calls_of(node, SUPPORT)
    reader_of(opened).read()

    opened.calls.forget_absent()
    reader_of(opened).read()

    assert len(asked) == 2


def test_a_card_that_comes_to_be_monitored_is_read_from_then_on(simulate: Simulate) -> None:
    faults: dict[str, int] = {SUPPORT: NOT_SUPPORTED}
    (card,) = simulate(hopper(faults=faults)).open()
    before = reader_of(card).read()
    faults.clear()

    card.calls.forget_absent()

    assert (before, reader_of(card).read()) == (None, {})


def test_support_that_was_told_is_not_asked_for_anew(simulate: Simulate) -> None:
    node = simulate(hopper())
    (card,) = node.open()
    asked = calls_of(node, SUPPORT)
    reader_of(card).read()

    card.calls.forget_absent()
    reader_of(card).read()

    assert len(asked) == 1
