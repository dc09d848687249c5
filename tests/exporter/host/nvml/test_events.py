"""What the driver reports: Xids in order, changes of the layout, and nothing about the past."""

from ctypes import c_void_p
from typing import Any

import pynvml
import pytest
from support.simulated import Simulate, calls_of, simulated_card

from rightslice.exporter.host.nvml.card import NvmlCard
from rightslice.exporter.host.nvml.errors import NvmlError
from rightslice.exporter.host.nvml.events import MOST_EVENTS_PER_POLL, CardEvent, EventSet
from rightslice.exporter.simulate.card import Mig, MigInstance
from rightslice.exporter.simulate.timeline import Event

CREATE, FREE, WAIT = "nvmlEventSetCreate", "nvmlEventSetFree", "nvmlEventSetWait_v2"
SUPPORTED, REGISTER = "nvmlDeviceGetSupportedEventTypes", "nvmlDeviceRegisterEvents"
XID, MIG_CHANGE = pynvml.nvmlEventTypeXidCriticalError, pynvml.nvmlEventMigConfigChange
TIMEOUT = int(pynvml.NVML_ERROR_TIMEOUT)


def handles(*cards: NvmlCard) -> dict[str, Any]:
    return {card.id: card.handle for card in cards}


def reporting(*rows: tuple[int, int, int], then: int = TIMEOUT) -> Any:
    """Make a wait that gives these events, by handle, type and data, and then a code."""
    left = list(rows)

    def answer(_: Any, data: Any, timeout: Any) -> int:
        if not left:
            return then
        handle, event_type, number = left.pop(0)
        c_void_p.from_buffer(data._obj).value = handle
        data._obj.eventType, data._obj.eventData = event_type, number
        return int(pynvml.NVML_SUCCESS)

    return answer


def test_errors_of_all_cards_are_told_in_their_order(simulate: Simulate) -> None:
    events = (Event(1.0, 1, xid=31), Event(2.0, 0, xid=79), Event(3.0, 1, xid=94))
    node = simulate(simulated_card(1), simulated_card(2), events=events)
    node.open()
    node.clock.advance(5)

    told = node.host.nvml.events.poll()

    assert told == [CardEvent("GPU-0002", 31), CardEvent("GPU-0001", 79), CardEvent("GPU-0002", 94)]


def test_an_event_is_told_once(simulate: Simulate) -> None:
    node = simulate(simulated_card(), events=(Event(1.0, 0, xid=31),))
    node.open()
    node.clock.advance(5)
    node.host.nvml.events.poll()

    assert node.host.nvml.events.poll() == []


def test_a_poll_waits_for_nothing(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.open()
    asked = calls_of(node, WAIT)

    told = node.host.nvml.events.poll()

    assert told == []
    assert [timeout.value for _, _, timeout in asked] == [0]


def test_what_happened_before_the_cards_were_watched_is_not_told(simulate: Simulate) -> None:
    node = simulate(simulated_card(), events=(Event(1.0, 0, xid=31),))
    node.clock.advance(5)
    node.open()

    assert node.host.nvml.events.poll() == []


def test_a_change_of_the_layout_is_no_error(simulate: Simulate) -> None:
    mig = Mig(instances=(MigInstance("3g.20gb", 0),))
    node = simulate(simulated_card(mig=Mig()), events=(Event(1.0, 0, mig=mig),))
    node.open()
    node.clock.advance(5)

    assert node.host.nvml.events.poll() == [CardEvent("GPU-0001", None)]


def test_an_unknown_error_of_the_driver_keeps_its_number(simulate: Simulate) -> None:
    node = simulate(simulated_card(), events=(Event(1.0, 0, xid=999),))
    node.open()
    node.clock.advance(5)

    assert node.host.nvml.events.poll() == [CardEvent("GPU-0001", 999)]


def test_an_event_of_a_card_that_nobody_listed_has_no_uuid(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.open()
    node.answer(WAIT, reporting((0xDEAD, XID, 79), (0, XID, 31)))

    assert node.host.nvml.events.poll() == [CardEvent("", 79), CardEvent("", 31)]


def test_events_without_end_do_not_hold_a_poll(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.open()
    node.answer(WAIT, lambda *_: int(pynvml.NVML_SUCCESS))

    assert len(node.host.nvml.events.poll()) == MOST_EVENTS_PER_POLL


def test_a_wait_that_fails_is_told(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.open()
    node.fail(WAIT, pynvml.NVML_ERROR_GPU_IS_LOST)

    with pytest.raises(NvmlError, match="nvmlEventSetWait_v2: GPU is lost"):
        node.host.nvml.events.poll()


def test_events_before_a_failure_are_told_all_the_same(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    (card,) = node.open()
    handle = pynvml.cast(card.handle, c_void_p).value
    lost = int(pynvml.NVML_ERROR_GPU_IS_LOST)
    node.answer(WAIT, reporting((handle, XID, 79), then=lost))

    told = node.host.nvml.events.poll()

    assert told == [CardEvent("GPU-0001", 79)]


def test_only_what_a_card_reports_is_asked_of_it(simulate: Simulate) -> None:
    node = simulate(simulated_card(1), simulated_card(2, name="NVIDIA L4"))
    asked = calls_of(node, REGISTER)

    node.open()

    assert [mask.value for _, mask, _ in asked] == [XID | MIG_CHANGE, XID]


def test_cards_without_events_are_left_out(simulate: Simulate) -> None:
    node = simulate(simulated_card(1, virtualization="vgpu"))

    node.open()

    assert not node.host.nvml.events.is_watching
    assert node.host.nvml.events.poll() == []


@pytest.mark.parametrize("name", [SUPPORTED, REGISTER], ids=["kinds", "registration"])
@pytest.mark.parametrize(
    "code",
    [
        pytest.param(pynvml.NVML_ERROR_NOT_SUPPORTED, id="not supported"),
        pytest.param(pynvml.NVML_ERROR_NO_PERMISSION, id="no permission"),
        pytest.param(pynvml.NVML_ERROR_GPU_IS_LOST, id="lost"),
    ],
)
def test_a_card_that_refuses_events_takes_them_from_no_other(
    name: str, code: int, simulate: Simulate
) -> None:
    refusing = simulated_card(1, faults={name: code})
    node = simulate(refusing, simulated_card(2), events=(Event(1.0, 1, xid=31),))
    node.open()
    node.clock.advance(5)

    assert node.host.nvml.events.is_watching
    assert node.host.nvml.events.poll() == [CardEvent("GPU-0002", 31)]


def test_a_driver_without_events_has_none(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.lack(CREATE, WAIT)

    node.open()

    assert not node.host.nvml.events.is_watching
    assert node.host.nvml.events.poll() == []


def test_a_card_that_stays_is_registered_once(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    asked = calls_of(node, REGISTER)
    node.open()

    node.host.nvml.refresh()

    assert len(asked) == 1


def test_a_card_that_comes_is_watched_from_then_on(simulate: Simulate) -> None:
    node = simulate(simulated_card(1), simulated_card(2), events=(Event(1.0, 1, xid=31),))
    node.list_cards(0)
    node.open()
    node.list_cards(0, 1)

    node.host.nvml.refresh()
    node.clock.advance(5)

    assert node.host.nvml.events.poll() == [CardEvent("GPU-0002", 31)]


def test_a_card_with_a_new_handle_is_registered_again(simulate: Simulate) -> None:
    node = simulate(simulated_card(1), simulated_card(2))
    first, second = node.open()
    asked = calls_of(node, REGISTER)

    node.host.nvml.events.watch({first.id: second.handle, second.id: first.handle})

    assert [handle for handle, *_ in asked] == [second.handle, first.handle]


def test_an_event_bears_the_name_that_its_handle_has_now(simulate: Simulate) -> None:
    node = simulate(simulated_card(1), simulated_card(2), events=(Event(1.0, 0, xid=31),))
    first, second = node.open()

    node.host.nvml.events.watch({first.id: second.handle, second.id: first.handle})
    node.clock.advance(5)

    assert node.host.nvml.events.poll() == [CardEvent("GPU-0002", 31)]


def test_a_set_that_is_freed_watches_nothing(simulate: Simulate) -> None:
    node = simulate(simulated_card(), events=(Event(1.0, 0, xid=31),))
    node.open()
    freed = calls_of(node, FREE)
    node.clock.advance(5)

    node.host.nvml.events.free()
    node.host.nvml.events.free()

    assert len(freed) == 1
    assert not node.host.nvml.events.is_watching
    assert node.host.nvml.events.poll() == []


def test_a_set_that_was_freed_can_be_made_anew(simulate: Simulate) -> None:
    node = simulate(simulated_card(), events=(Event(1.0, 0, xid=31),))
    (card,) = node.open()
    node.host.nvml.events.free()

    node.host.nvml.events.watch(handles(card))
    node.clock.advance(5)

    assert node.host.nvml.events.poll() == [CardEvent("GPU-0001", 31)]


def test_a_set_that_was_never_made_asks_nothing(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    asked = [calls_of(node, name) for name in (WAIT, FREE)]
    events = EventSet()

    told = events.poll()
    events.free()

    assert told == []
    assert asked == [[], []]


def test_a_set_of_which_one_card_is_gone_is_made_anew_without_it(simulate: Simulate) -> None:
    node = simulate(simulated_card(1), simulated_card(2))
    node.open()
    events = node.host.nvml.events
    usual = node.library.nvmlEventSetWait_v2  # type: ignore[attr-defined]
    codes = iter((pynvml.NVML_ERROR_GPU_IS_LOST,))
    node.answer("nvmlEventSetWait_v2", lambda *each: next(codes, None) or usual(*each))
    with pytest.raises(NvmlError, match="GPU is lost"):
        events.poll()
    is_watching = events.is_watching
    node.list_cards(1)

    node.host.nvml.refresh()

    assert not is_watching
    assert events.is_watching
    assert events.poll() == []


def test_a_poll_that_meets_a_lost_card_leaves_its_set_to_who_lists_the_cards(
    simulate: Simulate,
) -> None:
    node = simulate(simulated_card())
    node.open()
    freed = calls_of(node, FREE)
    node.fail(WAIT, pynvml.NVML_ERROR_GPU_IS_LOST)

    with pytest.raises(NvmlError):
        node.host.nvml.events.poll()

    assert freed == []


def test_a_broken_set_is_freed_when_cards_are_watched_again(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    (card,) = node.open()
    usual = getattr(node.library, WAIT)
    freed, made = calls_of(node, FREE), calls_of(node, CREATE)
    node.fail(WAIT, pynvml.NVML_ERROR_GPU_IS_LOST)
    with pytest.raises(NvmlError):
        node.host.nvml.events.poll()
    node.answer(WAIT, usual)

    node.host.nvml.events.watch(handles(card))

    assert (len(freed), len(made)) == (1, 1)
    assert node.host.nvml.events.is_watching


def test_a_poll_that_fails_for_the_moment_breaks_no_set(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    (card,) = node.open()
    made = calls_of(node, CREATE)
    node.fail(WAIT, pynvml.NVML_ERROR_UNKNOWN)
    with pytest.raises(NvmlError):
        node.host.nvml.events.poll()
    is_watching = node.host.nvml.events.is_watching

    node.host.nvml.events.watch(handles(card))

    assert is_watching
    assert made == []
