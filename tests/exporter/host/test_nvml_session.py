"""Which cards there are: they come, go, hide, share a name, and the library with them."""

from collections.abc import Callable
from typing import Any

import pynvml
import pytest
from support.simulated import BYTES_PER_MIB, Simulate, constant, simulated_card

from rightslice.exporter.host.nvml import CardIdentity, MemoryReading, NvmlCard, NvmlError, Reason

MEMORY_V2, MEMORY_V1 = "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"
RATES, UUID, MIG_MODE = "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetUUID", "nvmlDeviceGetMigMode"
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


def say(buffer: Any, text: bytes) -> int:
    """Answer a call for a text."""
    buffer.value = text
    return int(pynvml.NVML_SUCCESS)


def test_a_card_is_known_by_what_the_driver_says_of_it(simulate: Simulate) -> None:
    _, card = simulate(simulated_card(1), simulated_card(2)).open()

    assert card.identity == CardIdentity(
        uuid="GPU-0002",
        index=1,
        name="NVIDIA A100-SXM4-40GB",
        pci_bus_id="00000000:08:00.0",
        mig="disabled",
        virtualization="none",
    )
    assert card.driver_version == "580.95.05"
    assert card.memory_kind == "dedicated"


def test_a_mode_that_the_card_does_not_have_is_an_empty_word(simulate: Simulate) -> None:
    faults = {MIG_MODE: NOT_SUPPORTED, "nvmlDeviceGetVirtualizationMode": NOT_SUPPORTED}

    (card,) = simulate(simulated_card(faults=faults)).open()

    assert (card.identity.mig, card.identity.virtualization) == ("", "")


def test_a_mode_that_is_newer_than_this_module_is_an_empty_word(simulate: Simulate) -> None:
    def newer(_: Any, mode: Any) -> int:
        mode._obj.value = 99
        return int(pynvml.NVML_SUCCESS)

    node = simulate(simulated_card())
    node.answer("nvmlDeviceGetVirtualizationMode", newer)

    (card,) = node.open()

    assert card.identity.virtualization == ""


def test_a_card_with_unified_memory_says_so(simulate: Simulate) -> None:
    faults = {MEMORY_V2: NOT_SUPPORTED, MEMORY_V1: NOT_SUPPORTED}

    (card,) = simulate(simulated_card(faults=faults)).open()

    assert card.memory_kind == "unified"


def test_the_kind_of_memory_is_told_once_it_can_be_read(simulate: Simulate) -> None:
    faults: dict[str, int] = {MEMORY_V2: pynvml.NVML_ERROR_NOT_READY}
    node = simulate(simulated_card(faults=faults))
    (card,) = node.open()
    before = card.memory_kind
    faults.clear()

    node.host.nvml.refresh()

    assert before == ""
    assert node.host.gpus[0].memory_kind == "dedicated"


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


def test_a_card_without_a_handle_hides_no_other(simulate: Simulate) -> None:
    def handle(index: Any, target: Any) -> int:
        return usual(index, target) if index.value else int(pynvml.NVML_ERROR_GPU_IS_LOST)

    node = simulate(simulated_card(1), simulated_card(2))
    usual = node.library.nvmlDeviceGetHandleByIndex_v2
    node.answer("nvmlDeviceGetHandleByIndex_v2", handle)

    assert ids(node.open()) == ["GPU-0002"]


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


def test_a_node_without_cards_has_none(simulate: Simulate) -> None:
    assert simulate().open() == ()


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


def test_a_card_whose_mig_mode_changed_is_asked_anew_for_what_it_lacked(
    simulate: Simulate,
) -> None:
    def switched_off(_: Any, current: Any, pending: Any) -> int:
        current._obj.value = pending._obj.value = 0
        return int(pynvml.NVML_SUCCESS)

    faults: dict[str, int] = {RATES: NOT_SUPPORTED, MIG_MODE: NOT_SUPPORTED}
    node = simulate(simulated_card(faults=faults))
    (card,) = node.open()
    before = card.utilisation_percent()
    faults.clear()
    node.answer(MIG_MODE, switched_off)

    node.host.nvml.refresh()

    assert before is None
    assert node.host.gpus[0].utilisation_percent() == 50


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, id="library not mounted"),
        pytest.param(pynvml.NVML_ERROR_DRIVER_NOT_LOADED, id="driver not loaded"),
        pytest.param(pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, id="driver upgraded"),
    ],
)
def test_a_library_that_cannot_be_opened_can_be_tried_again(code: int, simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.fail("nvmlInitWithFlags", code)
    with pytest.raises(NvmlError, match="nvmlInit") as failure:
        node.open()
    node.fail("nvmlInitWithFlags", pynvml.NVML_SUCCESS)

    assert failure.value.reason == Reason.DRIVER
    assert ids(node.open()) == ["GPU-0001"]


def test_a_list_that_fails_is_told_and_keeps_no_handle_in_doubt(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.open()
    node.fail("nvmlDeviceGetCount_v2", pynvml.NVML_ERROR_UNKNOWN)

    with pytest.raises(NvmlError, match="nvmlDeviceGetCount"):
        node.host.nvml.refresh()


def test_the_library_is_opened_once_and_closed_once(simulate: Simulate) -> None:
    calls: list[str] = []
    node = simulate(simulated_card())
    node.answer("nvmlInitWithFlags", noting(calls, "open"))
    node.answer("nvmlShutdown", noting(calls, "close"))

    node.open()
    node.open()
    node.host.nvml.close()
    node.host.nvml.close()

    assert calls == ["open", "close"]
    assert node.host.gpus == ()


def test_a_session_that_was_never_opened_has_nothing_to_close(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.fail("nvmlShutdown", pynvml.NVML_ERROR_UNINITIALIZED)

    node.host.nvml.close()

    assert node.host.gpus == ()


def test_a_library_that_does_not_close_is_told(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.open()
    node.fail("nvmlShutdown", pynvml.NVML_ERROR_UNKNOWN)

    with pytest.raises(NvmlError, match="nvmlShutdown"):
        node.host.nvml.close()


def test_a_driver_that_does_not_tell_its_version_is_released_again(simulate: Simulate) -> None:
    calls: list[str] = []
    node = simulate(simulated_card())
    node.fail("nvmlSystemGetDriverVersion", pynvml.NVML_ERROR_UNKNOWN)
    node.answer("nvmlShutdown", noting(calls, "close"))

    with pytest.raises(NvmlError):
        node.open()

    assert calls == ["close"]


def test_an_upgraded_driver_is_named_after_reopening(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.open()
    node.host.nvml.close()
    node.answer("nvmlSystemGetDriverVersion", lambda buffer, _: say(buffer, b"590.10"))

    (card,) = node.open()

    assert card.driver_version == "590.10"
