"""Faults of single calls and cards, by word, over time, and calls that do not come back."""

import threading

import pynvml
import pytest
from support.simulated import START_SECONDS, simulated_card, simulated_scenario

from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.simulate.faults import ALL, FAULTS, HANG
from rightslice.exporter.simulate.library import installed
from rightslice.exporter.simulate.timeline import Event

from .conftest import Play, code_of

MEMORY = "nvmlDeviceGetMemoryInfo_v2"
UUID = "nvmlDeviceGetUUID"
# Longer than a hanging call needs to see that it is over, by far.
PATIENCE_SECONDS = 10.0


def uuid_code(index: int = 0) -> int:
    """Ask a card for its UUID, from its handle on, and give NVML's answer."""
    return code_of(lambda: pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(index)))


@pytest.mark.parametrize("word", sorted(set(FAULTS) - {"hang"}))
def test_a_function_fails_with_the_code_of_the_word(word: str, play: Play) -> None:
    play(simulated_card(faults={UUID: FAULTS[word]}))

    assert uuid_code() == FAULTS[word] != pynvml.NVML_SUCCESS


def test_a_fault_of_all_reaches_every_function_and_even_the_handle(play: Play) -> None:
    node = play(simulated_card(1), events=(Event(10, 0, faults={ALL: FAULTS["lost"]}),))
    handle = node.handle()
    node.clock.advance(10)

    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        pynvml.nvmlDeviceGetName(handle)
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        node.handle()


def test_a_function_named_itself_goes_before_all(play: Play) -> None:
    faults = {ALL: FAULTS["unknown"], UUID: FAULTS["not_supported"]}
    node = play(simulated_card(), events=(Event(10, 0, faults=faults),))
    handle = node.handle()
    node.clock.advance(10)

    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetUUID(handle)
    with pytest.raises(pynvml.NVMLError_Unknown):
        pynvml.nvmlDeviceGetName(handle)


def test_faults_begin_and_end_with_the_clock(play: Play) -> None:
    node = play(
        simulated_card(1),
        simulated_card(2),
        events=(
            Event(10, 1, faults={UUID: FAULTS["timeout"]}),
            Event(20, 1, faults={}),
        ),
    )

    codes = [(uuid_code(0), uuid_code(1))]
    node.clock.advance(9.9)
    codes.append((uuid_code(0), uuid_code(1)))
    node.clock.advance(0.1)
    codes.append((uuid_code(0), uuid_code(1)))
    node.clock.advance(10)
    codes.append((uuid_code(0), uuid_code(1)))

    assert codes == [(0, 0), (0, 0), (0, pynvml.NVML_ERROR_TIMEOUT), (0, 0)]


def test_events_that_were_missed_take_effect_together(play: Play) -> None:
    node = play(
        simulated_card(),
        events=(Event(20, 0, faults={}), Event(10, 0, faults={UUID: FAULTS["lost"]})),
    )

    node.clock.advance(3600)

    assert uuid_code() == pynvml.NVML_SUCCESS


def test_a_fault_set_by_hand_takes_effect_at_once(play: Play) -> None:
    faults: dict[str, int] = {}
    play(simulated_card(faults=faults))

    before = uuid_code()
    faults[UUID] = FAULTS["no_permission"]

    assert (before, uuid_code()) == (pynvml.NVML_SUCCESS, pynvml.NVML_ERROR_NO_PERMISSION)


def test_a_card_that_is_not_listed_leaves_the_others_their_own_handles(play: Play) -> None:
    node = play(
        simulated_card(1),
        simulated_card(2),
        events=(Event(10, 0, listed=False), Event(20, 0, listed=True)),
    )
    first, second = node.handle(0), node.handle(1)
    node.clock.advance(10)

    assert pynvml.nvmlDeviceGetCount() == 1
    assert pynvml.nvmlDeviceGetUUID(node.handle(0)) == "GPU-0002"
    assert pynvml.nvmlDeviceGetUUID(second) == "GPU-0002"
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        pynvml.nvmlDeviceGetUUID(first)
    node.clock.advance(10)
    assert pynvml.nvmlDeviceGetUUID(first) == "GPU-0001"


def test_a_hanging_call_blocks_its_thread_until_the_fault_is_over(play: Play) -> None:
    node = play(
        simulated_card(1),
        simulated_card(2),
        events=(Event(30, 0, faults={MEMORY: HANG}), Event(60, 0, faults={})),
    )
    stuck, well = node.handle(0), node.handle(1)
    node.clock.advance(30)
    totals: list[int] = []
    thread = threading.Thread(target=lambda: totals.append(_total(stuck)), daemon=True)

    thread.start()
    thread.join(0.1)
    waited = thread.is_alive()
    of_the_other_card = _total(well)
    node.clock.advance(30)
    thread.join(PATIENCE_SECONDS)

    assert waited
    assert not thread.is_alive()
    assert totals == [of_the_other_card]


def test_a_hanging_call_is_let_go_when_the_library_is_taken_out() -> None:
    hanging = simulated_scenario(simulated_card(faults={MEMORY: HANG}))
    codes: list[int] = []

    with installed(hanging, ManualClock(START_SECONDS).now_seconds):
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        thread = threading.Thread(
            target=lambda: codes.append(code_of(lambda: _total(handle))), daemon=True
        )
        thread.start()
        thread.join(0.05)
    thread.join(PATIENCE_SECONDS)

    assert codes == [pynvml.NVML_ERROR_UNINITIALIZED]


def _total(handle: object) -> int:
    return int(pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).total)
