"""Events of a simulated driver: only for those who registered before."""

import pynvml
import pytest
from support.simulated import START_SECONDS, simulated_card, simulated_scenario

from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.simulate.card import Mig
from rightslice.exporter.simulate.library import installed
from rightslice.exporter.simulate.timeline import Event

from .conftest import Play

XID, MIG = pynvml.nvmlEventTypeXidCriticalError, pynvml.nvmlEventMigConfigChange


def test_an_xid_reaches_the_set_that_registered_for_its_card(play: Play) -> None:
    node = play(
        simulated_card(1), simulated_card(2), events=(Event(10, 0, xid=31), Event(20, 1, xid=79))
    )
    events = pynvml.nvmlEventSetCreate()
    pynvml.nvmlDeviceRegisterEvents(node.handle(1), XID, events)
    node.clock.advance(60)

    data = pynvml.nvmlEventSetWait_v2(events, 0)

    assert (data.eventType, data.eventData) == (XID, 79)
    assert pynvml.nvmlDeviceGetUUID(data.device) == "GPU-0002"
    assert (data.gpuInstanceId, data.computeInstanceId) == (0xFFFFFFFF, 0xFFFFFFFF)
    with pytest.raises(pynvml.NVMLError_Timeout):
        pynvml.nvmlEventSetWait_v2(events, 0)


def test_what_happened_before_registering_is_not_told(play: Play) -> None:
    node = play(simulated_card(), events=(Event(10, 0, xid=79),))
    events = pynvml.nvmlEventSetCreate()
    node.clock.advance(10)
    pynvml.nvmlDeviceRegisterEvents(node.handle(), XID, events)

    with pytest.raises(pynvml.NVMLError_Timeout):
        pynvml.nvmlEventSetWait_v2(events, 0)


def test_events_are_told_in_their_order_and_to_each_set(play: Play) -> None:
    node = play(
        simulated_card(),
        events=(Event(10, 0, xid=63), Event(20, 0, mig=Mig()), Event(30, 0, xid=48)),
    )
    all_kinds, xids = pynvml.nvmlEventSetCreate(), pynvml.nvmlEventSetCreate()
    pynvml.nvmlDeviceRegisterEvents(node.handle(), XID | MIG, all_kinds)
    pynvml.nvmlDeviceRegisterEvents(node.handle(), XID, xids)
    node.clock.advance(60)

    told = [pynvml.nvmlEventSetWait_v2(all_kinds, 0) for _ in range(3)]
    told_xids = [pynvml.nvmlEventSetWait_v2(xids, 0) for _ in range(2)]

    assert [data.eventType for data in told] == [XID, MIG, XID]
    assert [data.eventData for data in told_xids] == [63, 48]


def test_waiting_ends_after_its_time(play: Play) -> None:
    play(simulated_card())
    events = pynvml.nvmlEventSetCreate()

    with pytest.raises(pynvml.NVMLError_Timeout):
        pynvml.nvmlEventSetWait_v2(events, 30)


@pytest.mark.parametrize(
    ("name", "types"),
    [
        pytest.param("NVIDIA A100-SXM4-40GB", XID | MIG, id="with MIG"),
        pytest.param("Tesla T4", XID, id="without MIG"),
    ],
)
def test_a_card_reports_what_it_can(name: str, types: int, play: Play) -> None:
    node = play(simulated_card(name=name))

    assert pynvml.nvmlDeviceGetSupportedEventTypes(node.handle()) == types


def test_kinds_that_a_card_does_not_report_cannot_be_registered_for(play: Play) -> None:
    node = play(simulated_card(name="Tesla T4"))
    events = pynvml.nvmlEventSetCreate()

    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceRegisterEvents(node.handle(), MIG, events)


def test_a_set_that_was_freed_is_no_set(play: Play) -> None:
    node = play(simulated_card())
    events = pynvml.nvmlEventSetCreate()
    pynvml.nvmlEventSetFree(events)

    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlEventSetFree(events)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlEventSetWait_v2(events, 0)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlDeviceRegisterEvents(node.handle(), XID, events)


def test_sets_end_with_the_driver(play: Play) -> None:
    node = play(simulated_card(), events=(Event(10, driver="unloaded"), Event(20, driver="loaded")))
    events = pynvml.nvmlEventSetCreate()
    node.clock.advance(10)

    with pytest.raises(pynvml.NVMLError_Uninitialized):
        pynvml.nvmlEventSetWait_v2(events, 0)
    node.clock.advance(10)
    pynvml.nvmlInit()
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlEventSetWait_v2(events, 0)


def test_an_xid_is_logged_with_the_place_of_its_card() -> None:
    logged: list[tuple[str, int]] = []
    clock = ManualClock(START_SECONDS)
    scenario = simulated_scenario(
        simulated_card(1), simulated_card(2), events=(Event(10, 1, xid=79),)
    )

    with installed(scenario, clock.now_seconds, lambda *told: logged.append(told)):
        pynvml.nvmlDeviceGetCount()
        before = list(logged)
        clock.advance(10)
        pynvml.nvmlDeviceGetCount()

    assert (before, logged) == ([], [("00000000:08:00.0", 79)])
