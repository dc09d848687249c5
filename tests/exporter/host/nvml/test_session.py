"""Which cards there are: they come, go, hide, share a name, and the library with them."""

from collections.abc import Callable
from typing import Any

import pynvml
import pytest
from support.simulated import (
    BYTES_PER_MIB,
    Simulate,
    calls_of,
    constant,
    number,
    simulated_card,
    text,
)

from rightslice.exporter.host.nvml.card import CardIdentity, MemoryReading, NvmlCard
from rightslice.exporter.host.nvml.errors import NvmlError, Reason
from rightslice.exporter.host.nvml.session import SETTLING_SECONDS
from rightslice.exporter.simulate.card import Mig
from rightslice.exporter.simulate.timeline import Event

MEMORY_V2, MEMORY_V1 = "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"
RATES, UUID, NAME = "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetUUID", "nvmlDeviceGetName"
MIG_MODE, VIRTUALIZATION = "nvmlDeviceGetMigMode", "nvmlDeviceGetVirtualizationMode"
ADDRESSING, COUNT = "nvmlDeviceGetAddressingMode", "nvmlDeviceGetCount_v2"
INIT, SHUTDOWN = "nvmlInitWithFlags", "nvmlShutdown"
TOTAL_BYTES, RESERVED_BYTES = 40960 * BYTES_PER_MIB, 434 * BYTES_PER_MIB
NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED


def ids(cards: tuple[NvmlCard, ...]) -> list[str]:
    return [card.id for card in cards]


def noting(calls: list[str], name: str) -> Callable[..., int]:
    """Make a function that succeeds and leaves its name in `calls`."""

    def answer(*_: Any) -> int:
        calls.append(name)
        return int(pynvml.NVML_SUCCESS)

    return answer


def test_a_card_is_known_by_what_the_driver_says_of_it(simulate: Simulate) -> None:
    _, card = simulate(simulated_card(1), simulated_card(2)).open()

    assert card.identity == CardIdentity(
        uuid="GPU-0002",
        index=1,
        name="NVIDIA A100-SXM4-40GB",
        pci_bus_id="00000000:08:00.0",
        mig="disabled",
        virtualization="none",
        minor=1,
    )
    assert card.driver_version == "580.95.05"


def test_a_mode_that_the_card_does_not_have_is_an_empty_word(simulate: Simulate) -> None:
    faults = {MIG_MODE: NOT_SUPPORTED, VIRTUALIZATION: NOT_SUPPORTED}

    (card,) = simulate(simulated_card(faults=faults)).open()

    assert (card.identity.mig, card.identity.virtualization) == ("", "")


def test_a_mode_that_is_newer_than_this_module_is_an_empty_word(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.answer(VIRTUALIZATION, number(99))

    (card,) = node.open()

    assert card.identity.virtualization == ""


@pytest.mark.parametrize("kind", ["dedicated", "unified", "os_managed"])
def test_a_card_tells_whose_its_memory_is(kind: str, simulate: Simulate) -> None:
    (card,) = simulate(simulated_card(memory_kind=kind)).open()

    card.memory()

    assert card.memory_kind == kind


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(pynvml.NVML_ERROR_NOT_SUPPORTED, id="not supported"),
        pytest.param(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, id="function not found"),
        pytest.param(pynvml.NVML_ERROR_UNKNOWN, id="unknown"),
    ],
)
def test_a_card_that_does_not_tell_how_it_addresses_has_memory_of_its_own(
    answer: int, simulate: Simulate
) -> None:
    (card,) = simulate(simulated_card(faults={ADDRESSING: answer})).open()

    card.memory()

    assert card.memory_kind == "dedicated"


def test_memory_that_the_kernel_only_mirrors_is_the_card_s_own(simulate: Simulate) -> None:
    def mirrored(_: Any, mode: Any) -> int:
        mode._obj.value = pynvml.NVML_DEVICE_ADDRESSING_MODE_HMM
        return int(pynvml.NVML_SUCCESS)

    node = simulate(simulated_card())
    node.answer(ADDRESSING, mirrored)
    (card,) = node.open()

    card.memory()

    assert card.memory_kind == "dedicated"


def test_a_card_that_has_no_memory_at_all_has_none_of_its_own(simulate: Simulate) -> None:
    node = simulate(simulated_card(memory_total_bytes=0, memory_reserved_bytes=0))
    (card,) = node.open()

    card.memory()

    assert card.memory_kind == "unified"


def test_the_kind_of_memory_is_told_once_it_can_be_read(simulate: Simulate) -> None:
    faults: dict[str, int] = {MEMORY_V2: pynvml.NVML_ERROR_NOT_READY}
    node = simulate(simulated_card(faults=faults))
    (card,) = node.open()
    before = card.memory_kind
    faults.clear()

    node.host.nvml.refresh()
    card.begin_round()
    card.memory()

    assert before == ""
    assert node.host.gpus[0].memory_kind == "dedicated"


def test_a_card_that_is_known_is_asked_only_what_it_is(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.open()
    asked = [calls_of(node, name) for name in (MEMORY_V2, ADDRESSING)]

    node.host.nvml.refresh()

    assert asked == [[], []]


@pytest.mark.parametrize(
    ("told", "name"),
    [
        pytest.param("NVIDIA Karte für ü".encode(), "NVIDIA Karte für ü", id="UTF-8"),
        pytest.param(b"NVIDIA A16\xff", "NVIDIA A16\ufffd", id="not UTF-8"),
    ],
)
def test_a_name_of_whatever_bytes_hides_no_card(told: bytes, name: str, simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.answer(NAME, text(told))

    (card,) = node.open()

    assert card.identity.name == name


def test_a_binding_that_gives_bytes_is_understood(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = simulate(simulated_card())
    monkeypatch.setattr(pynvml, "nvmlDeviceGetUUID", lambda _: b"GPU-0001")
    monkeypatch.setattr(pynvml, "nvmlDeviceGetName", lambda _: b"NVIDIA A16")
    monkeypatch.setattr(pynvml, "nvmlSystemGetDriverVersion", lambda: b"470.82.01")

    (card,) = node.open()

    assert card.id == "GPU-0001"
    assert card.driver_version == "470.82.01"


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(pynvml.NVML_ERROR_NO_PERMISSION, id="no permission"),
        pytest.param(pynvml.NVML_ERROR_GPU_IS_LOST, id="lost"),
        pytest.param(pynvml.NVML_ERROR_UNKNOWN, id="unknown"),
    ],
)
def test_a_card_that_cannot_be_opened_hides_no_other(code: int, simulate: Simulate) -> None:
    broken = simulated_card(2, faults={UUID: code})
    node = simulate(simulated_card(1), broken, simulated_card(3))

    assert ids(node.open()) == ["GPU-0001", "GPU-0003"]
    assert node.host.nvml.listed_count == 3
    assert [(row.place, row.error.code) for row in node.host.nvml.unopened] == [("index 1", code)]


def test_a_card_without_a_handle_hides_no_other(simulate: Simulate) -> None:
    def handle(index: Any, target: Any) -> int:
        return usual(index, target) if index.value else int(pynvml.NVML_ERROR_GPU_IS_LOST)

    node = simulate(simulated_card(1), simulated_card(2))
    usual = node.library.nvmlDeviceGetHandleByIndex_v2
    node.answer("nvmlDeviceGetHandleByIndex_v2", handle)

    assert ids(node.open()) == ["GPU-0002"]


def test_a_node_whose_cards_never_opened_stays_open_and_tells_why(simulate: Simulate) -> None:
    faults = {UUID: pynvml.NVML_ERROR_NO_PERMISSION}
    node = simulate(simulated_card(1, faults=faults), simulated_card(2, faults=faults))

    assert node.open() == ()
    assert node.host.nvml.is_open
    reasons = [row.error.reason for row in node.host.nvml.unopened]
    assert reasons == [Reason.PERMISSION, Reason.PERMISSION]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        pytest.param(pynvml.NVML_ERROR_OPERATING_SYSTEM, Reason.BLOCKED, id="cgroup"),
        pytest.param(pynvml.NVML_ERROR_UNINITIALIZED, Reason.DRIVER, id="not initialised"),
    ],
)
def test_cards_that_fail_all_at_once_are_the_library_s_trouble(
    code: int, reason: Reason, simulate: Simulate
) -> None:
    first: dict[str, int] = {}
    second: dict[str, int] = {}
    node = simulate(simulated_card(1, faults=first), simulated_card(2, faults=second))
    node.open()
    first[UUID] = second[UUID] = code

    with pytest.raises(NvmlError) as failure:
        node.host.nvml.refresh()

    assert failure.value.reason == reason


@pytest.mark.parametrize("function", [UUID, "nvmlDeviceGetName", "nvmlDeviceGetHandleByIndex_v2"])
def test_a_card_that_fails_for_once_while_listed_is_still_what_it_was(
    function: str, simulate: Simulate
) -> None:
    faults: dict[str, int] = {}
    node = simulate(simulated_card(1), simulated_card(2, faults=faults))
    before = node.open()
    faults[function] = pynvml.NVML_ERROR_UNKNOWN

    node.host.nvml.refresh()

    assert node.host.gpus == before
    assert [row.place for row in node.host.nvml.unopened] == ["GPU-0002"]


def test_a_card_that_opens_again_is_unopened_no_more(simulate: Simulate) -> None:
    faults: dict[str, int] = {UUID: pynvml.NVML_ERROR_GPU_IS_LOST}
    node = simulate(simulated_card(1), simulated_card(2, faults=faults))
    node.open()
    faults.clear()

    node.host.nvml.refresh()

    assert ids(node.host.gpus) == ["GPU-0001", "GPU-0002"]
    assert node.host.nvml.unopened == ()


def test_of_cards_with_one_uuid_the_first_is_kept_and_the_rest_is_told(simulate: Simulate) -> None:
    node = simulate(simulated_card(1), simulated_card(1), simulated_card(2))

    assert ids(node.open()) == ["GPU-0001", "GPU-0002"]
    assert node.host.nvml.duplicate_uuids == ("GPU-0001",)


@pytest.mark.parametrize(
    "placeholder",
    [
        pytest.param("", id="empty"),
        pytest.param("GPU-00000000-0000-0000-0000-000000000000", id="zeros"),
        pytest.param("00000000-0000-0000-0000-000000000000", id="zeros without prefix"),
    ],
)
def test_a_uuid_that_is_none_makes_no_card(placeholder: str, simulate: Simulate) -> None:
    node = simulate(simulated_card(1, uuid=placeholder), simulated_card(2))

    assert ids(node.open()) == ["GPU-0002"]
    assert node.host.nvml.duplicate_uuids == (placeholder,)


def test_a_node_without_cards_has_none_and_is_not_broken(simulate: Simulate) -> None:
    node = simulate()
    asked = calls_of(node, INIT)

    assert node.open() == ()
    assert node.host.nvml.is_open
    assert node.host.nvml.listed_count == 0
    assert [flags for (flags,) in asked] == [pynvml.NVML_INIT_FLAG_NO_GPUS]


def test_a_node_whose_last_card_goes_has_none_and_is_not_broken(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.open()
    node.list_cards()

    node.host.nvml.refresh()

    assert node.host.gpus == ()
    assert node.host.nvml.listed_count == 0


def test_cards_that_were_there_from_the_start_have_nothing_to_settle(simulate: Simulate) -> None:
    (card,) = simulate(simulated_card()).open()

    assert card.settling_seconds == 0.0


def test_a_card_that_comes_up_later_has_its_start_up_to_settle(simulate: Simulate) -> None:
    node = simulate(simulated_card(1), simulated_card(2))
    node.list_cards(0)
    node.open()
    node.list_cards(0, 1)

    node.host.nvml.refresh()

    assert [card.settling_seconds for card in node.host.gpus] == [0.0, SETTLING_SECONDS]


def test_cards_of_a_driver_that_came_late_have_their_start_up_to_settle(
    simulate: Simulate,
) -> None:
    node = simulate(simulated_card())
    node.fail(INIT, pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
    with pytest.raises(NvmlError):
        node.open()
    node.fail(INIT, pynvml.NVML_SUCCESS)

    (card,) = node.open()

    assert card.settling_seconds == SETTLING_SECONDS


def test_a_card_that_stays_keeps_what_is_known_of_it(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    (card,) = node.open()
    card.new_utilisation_samples()

    node.host.nvml.refresh()

    assert node.host.gpus[0] is card
    assert card.newest_sample_us is not None


def test_cards_that_change_their_order_keep_their_readings_apart(simulate: Simulate) -> None:
    node = simulate(
        simulated_card(1, memory_used_bytes=constant(1000)),
        simulated_card(2, memory_used_bytes=constant(2000)),
    )
    node.open()
    node.list_cards(1, 0)

    node.host.nvml.refresh()

    readings = [(card.id, card.identity.index, card.memory()) for card in node.host.gpus]
    assert readings == [
        ("GPU-0002", 0, MemoryReading(TOTAL_BYTES, 2000, RESERVED_BYTES)),
        ("GPU-0001", 1, MemoryReading(TOTAL_BYTES, 1000, RESERVED_BYTES)),
    ]


def test_cards_come_and_go(simulate: Simulate) -> None:
    node = simulate(simulated_card(1), simulated_card(2))
    node.list_cards(0)
    before = ids(node.open())
    node.list_cards(1)

    node.host.nvml.refresh()

    assert before == ["GPU-0001"]
    assert ids(node.host.gpus) == ["GPU-0002"]


def test_cards_that_change_their_order_stay_the_same_objects(simulate: Simulate) -> None:
    node = simulate(simulated_card(1), simulated_card(2))
    first, second = node.open()
    node.list_cards(1, 0)

    node.host.nvml.refresh()

    assert list(map(id, node.host.gpus)) == [id(second), id(first)]
    assert [card.identity.index for card in node.host.gpus] == [0, 1]


def test_a_card_whose_mig_mode_changed_is_asked_anew_for_what_it_lacked(
    simulate: Simulate,
) -> None:
    switched_off = Event(10.0, 0, mig=Mig(enabled=False, pending=False))
    node = simulate(simulated_card(mig=Mig()), events=(switched_off,))
    (card,) = node.open()
    before = card.utilisation_percent()
    node.clock.advance(10)

    node.host.nvml.refresh()

    (changed,) = node.host.gpus
    assert (card.identity.mig, before) == ("enabled", None)
    assert (changed.identity.mig, changed.utilisation_percent()) == ("disabled", 50)


def test_a_card_is_asked_anew_for_what_it_lacked_after_reopening(simulate: Simulate) -> None:
    faults: dict[str, int] = {RATES: NOT_SUPPORTED}
    node = simulate(simulated_card(faults=faults))
    (card,) = node.open()
    before = card.utilisation_percent()
    faults.clear()
    node.host.nvml.close()

    (reopened,) = node.open()

    assert (before, card.utilisation_percent()) == (None, None)
    assert reopened.utilisation_percent() == 50


@pytest.mark.parametrize("name", [MIG_MODE, VIRTUALIZATION], ids=["MIG", "virtualization"])
def test_a_mode_that_cannot_be_read_for_a_moment_makes_no_other_card(
    name: str, simulate: Simulate
) -> None:
    faults: dict[str, int] = {}
    node = simulate(simulated_card(faults=faults, mig=Mig()))
    (card,) = node.open()
    faults[name] = pynvml.NVML_ERROR_TIMEOUT

    node.host.nvml.refresh()

    assert list(map(id, node.host.gpus)) == [id(card)]


def test_where_a_card_stood_is_known_after_it_is_gone(simulate: Simulate) -> None:
    node = simulate(simulated_card(1), simulated_card(2))
    node.open()
    node.list_cards(0)

    node.host.nvml.refresh()

    assert node.host.nvml.bus_ids == {
        "00000000:07:00.0": "GPU-0001",
        "00000000:08:00.0": "GPU-0002",
    }


def test_who_reads_where_cards_stand_is_not_disturbed_by_a_new_one(simulate: Simulate) -> None:
    node = simulate(simulated_card(1), simulated_card(2))
    node.list_cards(0)
    node.open()
    reading = iter(node.host.nvml.bus_ids.items())
    node.list_cards(0, 1)

    node.host.nvml.refresh()

    assert list(reading) == [("00000000:07:00.0", "GPU-0001")]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        pytest.param(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, Reason.DRIVER, id="not mounted"),
        pytest.param(pynvml.NVML_ERROR_DRIVER_NOT_LOADED, Reason.DRIVER, id="no driver"),
        pytest.param(pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, Reason.MISMATCH, id="upgraded"),
        pytest.param(pynvml.NVML_ERROR_GPU_NOT_FOUND, Reason.LOST, id="old driver without cards"),
        pytest.param(pynvml.NVML_ERROR_UNKNOWN, Reason.UNKNOWN, id="unknown"),
    ],
)
def test_a_library_that_cannot_be_opened_can_be_tried_again(
    code: int, reason: Reason, simulate: Simulate
) -> None:
    node = simulate(simulated_card())
    node.fail(INIT, code)
    with pytest.raises(NvmlError, match="nvmlInit") as failure:
        node.open()
    node.fail(INIT, pynvml.NVML_SUCCESS)

    assert failure.value.reason == reason
    assert ids(node.open()) == ["GPU-0001"]


def test_a_list_that_fails_is_told_and_keeps_no_handle_in_doubt(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.open()
    node.fail(COUNT, pynvml.NVML_ERROR_UNKNOWN)

    with pytest.raises(NvmlError, match="nvmlDeviceGetCount"):
        node.host.nvml.refresh()


def test_the_library_is_opened_once_and_closed_once(simulate: Simulate) -> None:
    calls: list[str] = []
    node = simulate(simulated_card())
    node.answer(INIT, noting(calls, "open"))
    node.answer(SHUTDOWN, noting(calls, "close"))

    node.open()
    node.open()
    node.host.nvml.close()
    node.host.nvml.close()

    assert calls == ["open", "close"]
    assert node.host.gpus == ()


def test_the_events_are_given_back_before_the_library_is_closed(simulate: Simulate) -> None:
    calls: list[str] = []
    node = simulate(simulated_card())
    node.answer("nvmlEventSetFree", noting(calls, "free"))
    node.answer(SHUTDOWN, noting(calls, "close"))
    node.open()

    node.host.nvml.close()

    assert calls == ["free", "close"]
    assert not node.host.nvml.events.is_watching


def test_a_session_that_was_opened_again_is_closed_again(simulate: Simulate) -> None:
    calls: list[str] = []
    node = simulate(simulated_card())
    node.answer(INIT, noting(calls, "open"))
    node.answer(SHUTDOWN, noting(calls, "close"))

    node.open()
    node.host.nvml.close()
    node.open()
    node.host.nvml.close()

    assert calls == ["open", "close", "open", "close"]


def test_a_list_that_fails_at_the_start_leaves_the_library_closed(simulate: Simulate) -> None:
    calls: list[str] = []
    node = simulate(simulated_card())
    node.fail(COUNT, pynvml.NVML_ERROR_UNKNOWN)
    node.answer(SHUTDOWN, noting(calls, "close"))

    with pytest.raises(NvmlError, match="nvmlDeviceGetCount"):
        node.open()

    assert calls == ["close"]
    assert not node.host.nvml.is_open


def test_a_session_that_was_never_opened_has_nothing_to_close(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.fail(SHUTDOWN, pynvml.NVML_ERROR_UNINITIALIZED)

    node.host.nvml.close()

    assert node.host.gpus == ()


def test_a_library_that_does_not_close_is_told(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.open()
    node.fail(SHUTDOWN, pynvml.NVML_ERROR_UNKNOWN)

    with pytest.raises(NvmlError, match="nvmlShutdown"):
        node.host.nvml.close()


def test_a_driver_that_does_not_tell_its_version_is_released_again(simulate: Simulate) -> None:
    calls: list[str] = []
    node = simulate(simulated_card())
    node.fail("nvmlSystemGetDriverVersion", pynvml.NVML_ERROR_UNKNOWN)
    node.answer(SHUTDOWN, noting(calls, "close"))

    with pytest.raises(NvmlError):
        node.open()

    assert calls == ["close"]


def test_an_upgraded_driver_is_named_after_reopening(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.open()
    node.host.nvml.close()
    node.answer("nvmlSystemGetDriverVersion", text(b"590.10"))

    (card,) = node.open()

    assert card.driver_version == "590.10"


def test_a_card_that_fails_for_once_is_kept_also_where_the_order_changes(
    simulate: Simulate,
) -> None:
    faults: dict[str, int] = {}
    node = simulate(simulated_card(1), simulated_card(2, faults=faults))
    node.open()
    faults[UUID] = pynvml.NVML_ERROR_UNKNOWN
    node.list_cards(1, 0)

    node.host.nvml.refresh()

    assert sorted(ids(node.host.gpus)) == ["GPU-0001", "GPU-0002"]
    assert node.host.nvml.duplicate_uuids == ()


def test_a_card_that_has_left_is_not_taken_for_one_that_fails_for_once(
    simulate: Simulate,
) -> None:
    faults: dict[str, int] = {}
    node = simulate(simulated_card(1), simulated_card(2, faults=faults), simulated_card(3))
    node.open()
    faults[UUID] = pynvml.NVML_ERROR_UNKNOWN
    node.list_cards(1, 2)

    node.host.nvml.refresh()

    assert ids(node.host.gpus) == ["GPU-0003"]
    assert len(node.host.nvml.unopened) == 1


def test_a_card_that_fails_for_once_is_kept_beside_one_that_is_lost(simulate: Simulate) -> None:
    lost: dict[str, int] = {}
    faults: dict[str, int] = {}
    node = simulate(simulated_card(1, faults=lost), simulated_card(2, faults=faults))
    node.open()
    lost[UUID] = pynvml.NVML_ERROR_GPU_IS_LOST
    faults[UUID] = pynvml.NVML_ERROR_UNKNOWN

    node.host.nvml.refresh()

    assert ids(node.host.gpus) == ["GPU-0002"]


def test_a_card_that_is_lost_while_listed_is_not_kept(simulate: Simulate) -> None:
    faults: dict[str, int] = {}
    node = simulate(simulated_card(1), simulated_card(2, faults=faults))
    node.open()
    faults[UUID] = pynvml.NVML_ERROR_GPU_IS_LOST

    node.host.nvml.refresh()

    assert ids(node.host.gpus) == ["GPU-0001"]
