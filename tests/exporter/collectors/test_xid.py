"""Xid errors from the driver and the kernel log: each once, all of them, and from whom."""

import threading
from typing import Any

import pynvml
import pytest
from support.pages import failures, values
from support.simulated import (
    PAUSE_SECONDS,
    START_SECONDS,
    Shipped,
    Simulate,
    SimulatedNode,
    running,
    simulated_card,
    wait_until,
)

from rightslice.exporter.collectors.xid import HARDWARE_XIDS
from rightslice.exporter.host.clock import Clock
from rightslice.exporter.inventory import REFRESH_SECONDS
from rightslice.exporter.known_cards import KEPT_SECONDS
from rightslice.exporter.simulate.timeline import Event

WAIT = "nvmlEventSetWait_v2"
FIRST_CARD, NO_CARD = "0000:07:00", "0000:99:00"
COLLECTORS = ("driver_events", "xid")
KMSG, NVML = (f'rightslice_xid_source_available{{source="{name}"}}' for name in ("kmsg", "nvml"))


def errors(xid: int, uuid: str = "GPU-0001") -> str:
    return f'rightslice_gpu_xid_errors_total{{uuid="{uuid}",xid="{xid}"}}'


def last(xid: int, uuid: str = "GPU-0001") -> str:
    return f'rightslice_gpu_xid_last_timestamp_seconds{{uuid="{uuid}",xid="{xid}"}}'


def write(node: SimulatedNode, text: str, sequence: int = 1, priority: int = 3) -> None:
    """Append a record to the node's kernel log, written now."""
    stamp_us = int(node.clock.now_seconds() * 1e6)
    with node.host.paths.kmsg.open("a", encoding="ascii") as log:
        log.write(f"{priority},{sequence},{stamp_us},-;{text}\n")


def xid_line(xid: int, place: str = FIRST_CARD, pid: str = "1234") -> str:
    return f"NVRM: Xid (PCI:{place}): {xid}, pid={pid}, name=python3, Ch 00000010"


def test_one_event_that_both_sources_tell_counts_once(simulate_machine: Simulate) -> None:
    node = simulate_machine(simulated_card(), events=(Event(5.0, 0, xid=79),))
    sampler = node.sampler(COLLECTORS)

    node.sample_rounds(sampler, 20)

    page = values(sampler)
    assert page[errors(79)] == 1
    assert (page[KMSG], page[NVML]) == (1, 1)


def test_an_event_that_the_driver_tells_some_seconds_later_counts_once(
    simulate_machine: Simulate,
) -> None:
    node = simulate_machine(simulated_card(), events=(Event(8.0, 0, xid=31),))
    sampler = node.sampler(COLLECTORS)
    node.sample_rounds(sampler, 5)
    write(node, xid_line(31), sequence=1)

    node.sample_rounds(sampler, 10)

    assert values(sampler)[errors(31)] == 1


def test_the_same_error_again_counts_again(simulate_machine: Simulate) -> None:
    events = (Event(5.0, 0, xid=31), Event(65.0, 0, xid=31))
    node = simulate_machine(simulated_card(), events=events)
    sampler = node.sampler(COLLECTORS)

    node.sample_rounds(sampler, 80)

    page = values(sampler)
    assert page[errors(31)] == 2
    assert page[last(31)] == START_SECONDS + 65


def test_several_errors_between_two_rounds_all_count(simulate_machine: Simulate) -> None:
    events = (Event(5.1, 0, xid=62), Event(5.2, 0, xid=45), Event(5.3, 1, xid=45))
    node = simulate_machine(simulated_card(1), simulated_card(2), events=events)
    sampler = node.sampler(COLLECTORS)

    node.sample_rounds(sampler, 10)

    page = values(sampler)
    assert page[errors(62)] == 1
    assert page[errors(45)] == 1
    assert page[errors(45, "GPU-0002")] == 1


def test_several_errors_that_only_the_driver_tells_all_count(simulate: Simulate) -> None:
    events = (Event(5.1, 0, xid=62), Event(5.2, 0, xid=45))
    node = simulate(simulated_card(), events=events)
    sampler = node.sampler(COLLECTORS)

    node.sample_rounds(sampler, 10)

    page = values(sampler)
    assert (page[errors(62)], page[errors(45)]) == (1, 1)


def test_errors_of_two_processes_are_two(simulate_machine: Simulate) -> None:
    node = simulate_machine(simulated_card())
    sampler = node.sampler(COLLECTORS)
    node.sample_rounds(sampler, 1)
    write(node, xid_line(31, pid="11"), sequence=1)
    write(node, xid_line(31, pid="12"), sequence=2)

    node.sample_rounds(sampler, 1)

    assert values(sampler)[errors(31)] == 2


def test_errors_of_the_hardware_start_at_zero(simulate: Simulate) -> None:
    node = simulate(simulated_card(1), simulated_card(2))
    sampler = node.sampler(COLLECTORS)

    node.sample_rounds(sampler, 1)

    page = values(sampler)
    zeros = {name: value for name, value in page.items() if "xid_errors_total" in name}
    assert set(zeros) == {
        errors(xid, uuid) for xid in HARDWARE_XIDS for uuid in ("GPU-0001", "GPU-0002")
    }
    assert set(zeros.values()) == {0.0}
    assert not [name for name in page if "xid_last_timestamp" in name]


def test_errors_of_a_card_that_comes_later_start_at_zero_too(simulate: Simulate) -> None:
    node = simulate(simulated_card(1), simulated_card(2))
    node.list_cards(0)
    sampler = node.sampler(COLLECTORS)
    node.sample_rounds(sampler, 1)
    node.list_cards(0, 1)

    node.sample_rounds(sampler, 2, REFRESH_SECONDS)

    assert values(sampler)[errors(79, "GPU-0002")] == 0


def test_zeros_do_not_wipe_out_what_was_counted(simulate_machine: Simulate) -> None:
    node = simulate_machine(simulated_card(1), simulated_card(2), events=(Event(5.0, 0, xid=79),))
    node.list_cards(0)
    sampler = node.sampler(COLLECTORS)
    node.sample_rounds(sampler, 10)
    node.list_cards(0, 1)

    node.sample_rounds(sampler, 2, REFRESH_SECONDS)

    assert values(sampler)[errors(79)] == 1


def test_the_time_of_the_last_error_stays(simulate_machine: Simulate) -> None:
    node = simulate_machine(simulated_card(), events=(Event(5.0, 0, xid=79),))
    sampler = node.sampler(COLLECTORS)

    node.sample_rounds(sampler, 200)

    page = values(sampler)
    assert page[last(79)] == START_SECONDS + 5
    assert page[errors(79)] == 1


def test_errors_from_before_the_exporter_are_dated_and_not_counted(
    simulate_machine: Simulate,
) -> None:
    node = simulate_machine(simulated_card())
    write(node, xid_line(79))
    node.clock.advance(3600)
    sampler = node.sampler(COLLECTORS)

    node.sample_rounds(sampler, 10)

    page = values(sampler)
    assert page[errors(79)] == 0
    assert page[last(79)] == START_SECONDS


def test_an_error_of_a_card_that_is_not_listed_counts_for_no_card(
    simulate_machine: Simulate,
) -> None:
    node = simulate_machine(simulated_card())
    sampler = node.sampler(COLLECTORS)
    node.sample_rounds(sampler, 1)
    write(node, xid_line(79, NO_CARD))

    node.sample_rounds(sampler, 1)

    page = values(sampler)
    assert page[errors(79, "")] == 1
    assert page[errors(79)] == 0


def test_a_card_that_fell_off_the_bus_is_still_known_by_its_place(shipped: Shipped) -> None:
    node = shipped("lost-card")
    sampler = node.sampler()

    node.sample_rounds(sampler, 90)

    page = values(sampler)
    counted = [name for name, value in page.items() if "xid_errors_total" in name and value]
    assert len(counted) == 1
    assert 'xid="79"' in counted[0]
    assert 'uuid="GPU-' in counted[0]


@pytest.mark.parametrize(
    ("text", "priority"),
    [
        pytest.param("NVRM: loading NVIDIA UNIX Open Kernel Module", 6, id="another line"),
        pytest.param(xid_line(79), 14, id="a line that a program wrote"),
        pytest.param(f"usb 1-1: Product: {xid_line(79)}", 6, id="words of a device's name"),
    ],
)
def test_what_is_no_error_of_the_driver_s_counts_for_nothing(
    text: str, priority: int, simulate_machine: Simulate
) -> None:
    node = simulate_machine(simulated_card())
    sampler = node.sampler(COLLECTORS)
    node.sample_rounds(sampler, 1)
    write(node, text, priority=priority)

    node.sample_rounds(sampler, 1)

    counted = [value for name, value in values(sampler).items() if "xid_errors_total" in name]
    assert set(counted) == {0.0}


def test_a_log_that_cannot_be_read_is_told_and_the_driver_s_events_count_on(
    simulate: Simulate,
) -> None:
    node = simulate(simulated_card(), events=(Event(5.0, 0, xid=79),))
    sampler = node.sampler(COLLECTORS)

    node.sample_rounds(sampler, 10)

    page = values(sampler)
    assert (page[KMSG], page[NVML]) == (0, 1)
    assert page[errors(79)] == 1
    assert page['rightslice_collector_success{collector="xid"}'] == 1


def test_a_log_that_can_be_read_later_is_read_then(simulate_machine: Simulate) -> None:
    node = simulate_machine(simulated_card())
    kmsg = node.host.paths.kmsg
    kmsg.unlink()
    sampler = node.sampler(COLLECTORS)
    node.sample_rounds(sampler, 5)
    before = values(sampler)[KMSG]
    kmsg.touch()
    node.sample_rounds(sampler, 60)
    write(node, xid_line(79))

    node.sample_rounds(sampler, 1)

    page = values(sampler)
    assert (before, page[KMSG]) == (0, 1)
    assert page[errors(79)] == 1


def test_a_driver_without_events_is_told_and_the_log_counts_on(
    simulate_machine: Simulate,
) -> None:
    node = simulate_machine(simulated_card(), events=(Event(5.0, 0, xid=79),))
    node.fail("nvmlDeviceGetSupportedEventTypes", pynvml.NVML_ERROR_NOT_SUPPORTED)
    sampler = node.sampler()

    node.sample_rounds(sampler, 10)

    page = values(sampler)
    assert (page[KMSG], page[NVML]) == (1, 0)
    assert page[errors(79)] == 1


def test_a_guest_has_no_events_of_the_driver(shipped: Shipped) -> None:
    node = shipped("vgpu-guest")
    sampler = node.sampler(COLLECTORS)

    node.sample_rounds(sampler, 5)

    page = values(sampler)
    assert page[NVML] == 0
    assert page['rightslice_collector_success{collector="driver_events"}'] == 1


def test_a_driver_whose_events_fail_is_told_with_the_reason(simulate_machine: Simulate) -> None:
    node = simulate_machine(simulated_card(), events=(Event(5.0, 0, xid=79),))
    node.fail(WAIT, pynvml.NVML_ERROR_UNKNOWN)
    sampler = node.sampler()

    node.sample_rounds(sampler, 10)

    page = values(sampler)
    assert page[failures("driver_events", "events", "unknown")] == 10
    assert page.get(NVML, 0) == 0
    assert page[errors(79)] == 1


def test_events_count_on_after_a_reload_of_the_driver(simulate: Simulate) -> None:
    events = (
        Event(5.0, 0, xid=31),
        Event(40.0, driver="unloaded"),
        Event(70.0, driver="loaded"),
        Event(100.0, 0, xid=31),
    )
    node = simulate(simulated_card(), events=events)
    sampler = node.sampler()

    node.sample_rounds(sampler, 110)

    assert values(sampler)[errors(31)] == 2


def test_a_call_for_events_that_hangs_does_not_keep_the_log_from_being_read(
    simulate_machine: Simulate,
) -> None:
    released = threading.Event()

    def hang(*_: Any) -> int:
        released.wait()
        return int(pynvml.NVML_ERROR_TIMEOUT)

    node = simulate_machine(simulated_card())
    now_seconds = node.clock.now_seconds
    by_hand = Clock(now_seconds, now_seconds, lambda stop, _: stop.wait(PAUSE_SECONDS))
    sampler = node.sampler(COLLECTORS, clock=by_hand)
    with running(sampler):
        wait_until(lambda: values(sampler).get(errors(79)) == 0)
        node.answer(WAIT, hang)
        write(node, xid_line(79))

        wait_until(lambda: values(sampler).get(errors(79)) == 1)

        released.set()


def test_of_a_card_that_is_gone_for_a_day_nothing_is_left(simulate_machine: Simulate) -> None:
    node = simulate_machine(simulated_card(1), simulated_card(2), events=(Event(5.0, 1, xid=79),))
    sampler = node.sampler()
    node.sample_rounds(sampler, 10)
    node.list_cards(0)
    node.sample_rounds(sampler, 2, REFRESH_SECONDS)

    node.sample_rounds(sampler, 3, KEPT_SECONDS)

    assert [series for series in values(sampler) if "GPU-0002" in series] == []
