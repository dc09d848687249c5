"""What the driver reports of itself is taken in, for those who count it."""

from typing import Any

import pynvml
import pytest
from support.pages import values
from support.simulated import Simulate, simulated_card

from rightslice.contract.metrics import XID_SOURCE_AVAILABLE
from rightslice.contract.spec import Sample
from rightslice.exporter.collectors.driver_events import collect
from rightslice.exporter.host.nvml.errors import NvmlError
from rightslice.exporter.simulate.card import Mig
from rightslice.exporter.simulate.timeline import Event

WAIT, TYPES = "nvmlEventSetWait_v2", "nvmlDeviceGetSupportedEventTypes"
COUNT = "nvmlDeviceGetCount_v2"
AVAILABLE = Sample(XID_SOURCE_AVAILABLE, True, ("nvml",))
UNAVAILABLE = Sample(XID_SOURCE_AVAILABLE, False, ("nvml",))


def test_a_driver_with_events_is_available(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.open()

    assert list(collect(node.host.driver_events, 1.0)) == [AVAILABLE]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"virtualization": "vgpu", "name": "GRID A100D-4C"}, id="a guest"),
        pytest.param({"faults": {TYPES: pynvml.NVML_ERROR_NOT_SUPPORTED}}, id="no events"),
    ],
)
def test_where_no_card_reports_events_the_source_is_not_available(
    changes: dict[str, Any], simulate: Simulate
) -> None:
    node = simulate(simulated_card(**changes))
    node.open()
    called = node.record_calls()

    assert list(collect(node.host.driver_events, 1.0)) == [UNAVAILABLE]
    assert WAIT not in called


def test_before_the_driver_is_there_the_source_is_not_available(simulate: Simulate) -> None:
    node = simulate(simulated_card())

    assert list(collect(node.host.driver_events, 1.0)) == [UNAVAILABLE]


def test_errors_wait_in_their_order_until_somebody_counts_them(simulate: Simulate) -> None:
    events = (Event(1.0, 0, xid=62), Event(2.0, 1, xid=45), Event(3.0, 0, xid=62))
    node = simulate(simulated_card(1), simulated_card(2), events=events)
    node.open()
    node.clock.advance(5)

    tuple(collect(node.host.driver_events, 1.0))

    assert list(node.host.driver_events.waiting) == [
        ("GPU-0001", 62),
        ("GPU-0002", 45),
        ("GPU-0001", 62),
    ]


def test_a_card_that_is_cut_anew_is_told_so_and_no_other(simulate: Simulate) -> None:
    events = (Event(1.0, 1, mig=Mig()),)
    node = simulate(simulated_card(1), simulated_card(2), events=events)
    first, second = node.open()
    node.clock.advance(5)

    tuple(collect(node.host.driver_events, 1.0))

    assert (first.is_reshaped, second.is_reshaped) == (False, True)
    assert not node.host.driver_events.waiting


def test_a_call_that_fails_tells_nothing_of_the_source(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.open()
    node.fail(WAIT, pynvml.NVML_ERROR_UNKNOWN)

    with pytest.raises(NvmlError):
        tuple(collect(node.host.driver_events, 1.0))


def test_a_driver_that_is_loaded_anew_is_available_again(simulate: Simulate) -> None:
    events = (Event(40.0, driver="unloaded"), Event(70.0, driver="loaded"))
    node = simulate(simulated_card(), events=events)
    sampler = node.sampler()
    source = 'rightslice_xid_source_available{source="nvml"}'

    node.sample_rounds(sampler, 60)
    during = values(sampler)[source]
    node.sample_rounds(sampler, 60)

    assert (during, values(sampler)[source]) == (0, 1)


def test_no_more_wait_than_can_be_counted_while_nobody_counts(simulate: Simulate) -> None:
    node = simulate(simulated_card(), events=tuple(Event(1.0, 0, xid=31) for _ in range(5000)))
    node.open()
    node.clock.advance(5)

    for _ in range(30):
        tuple(collect(node.host.driver_events, 1.0))

    assert len(node.host.driver_events.waiting) == node.host.driver_events.waiting.maxlen


@pytest.mark.parametrize(
    ("code", "is_list_old"),
    [
        pytest.param(pynvml.NVML_ERROR_GPU_IS_LOST, True, id="a lost card"),
        pytest.param(pynvml.NVML_ERROR_UNKNOWN, False, id="a failure of the moment"),
    ],
)
def test_the_cards_are_to_be_listed_anew_once_one_of_them_broke_the_events(
    code: int, is_list_old: bool, simulate: Simulate
) -> None:
    node = simulate(simulated_card())
    node.open()
    tuple(collect(node.host.driver_events, 1.0))
    node.fail(WAIT, code)

    with pytest.raises(NvmlError):
        tuple(collect(node.host.driver_events, 1.0))

    assert node.host.nvml.is_list_old is is_list_old


def test_events_that_fail_each_time_do_not_list_the_cards_each_time(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    sampler = node.sampler()
    node.sample_rounds(sampler, 5)
    node.fail(WAIT, pynvml.NVML_ERROR_GPU_IS_LOST)
    called = node.record_calls()

    node.sample_rounds(sampler, 20)

    assert called.count(COUNT) <= 4  # those that are due, and one for the first failure


def test_while_the_events_are_broken_the_source_is_not_available(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.open()
    node.fail(WAIT, pynvml.NVML_ERROR_GPU_IS_LOST)
    with pytest.raises(NvmlError):
        tuple(collect(node.host.driver_events, 1.0))
    called = node.record_calls()

    assert list(collect(node.host.driver_events, 1.0)) == [UNAVAILABLE]
    assert called == []


def test_events_that_a_lost_card_broke_are_available_again_a_round_later(
    simulate: Simulate,
) -> None:
    node = simulate(simulated_card(1), simulated_card(2))
    sampler = node.sampler()
    source = 'rightslice_xid_source_available{source="nvml"}'
    node.sample_rounds(sampler, 5)
    usual = getattr(node.library, WAIT)
    codes = iter((pynvml.NVML_ERROR_GPU_IS_LOST,))
    node.answer(WAIT, lambda *arguments: next(codes, None) or usual(*arguments))
    node.sample_rounds(sampler, 1)
    during = source in values(sampler)

    node.sample_rounds(sampler, 1)

    assert (during, values(sampler)[source]) == (False, 1)
