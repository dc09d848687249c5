"""What a return code means, and text as any release of the binding gives it."""

from typing import Any

import pynvml
import pytest
from support.simulated import Simulate, calls_of, simulated_card

from rightslice.exporter.host.nvml.errors import (
    ABSENT_CODES,
    DOWN_REASONS,
    EMPTY_CODES,
    REASONS,
    NvmlError,
    Reason,
    text_of,
)

CODE_NEWER_THAN_THE_BINDING = 12345


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        pytest.param(pynvml.NVML_ERROR_GPU_IS_LOST, Reason.LOST, id="fell off the bus"),
        pytest.param(pynvml.NVML_ERROR_RESET_REQUIRED, Reason.LOST, id="needs a reset"),
        pytest.param(pynvml.NVML_ERROR_GPU_NOT_FOUND, Reason.LOST, id="unplugged"),
        pytest.param(pynvml.NVML_ERROR_NO_PERMISSION, Reason.PERMISSION, id="no permission"),
        pytest.param(pynvml.NVML_ERROR_OPERATING_SYSTEM, Reason.BLOCKED, id="cgroup"),
        pytest.param(pynvml.NVML_ERROR_UNINITIALIZED, Reason.DRIVER, id="not initialised"),
        pytest.param(pynvml.NVML_ERROR_DRIVER_NOT_LOADED, Reason.DRIVER, id="no driver"),
        pytest.param(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, Reason.DRIVER, id="no library"),
        pytest.param(pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, Reason.MISMATCH, id="upgraded"),
        pytest.param(pynvml.NVML_ERROR_INVALID_ARGUMENT, Reason.STALE, id="handle of the past"),
        pytest.param(pynvml.NVML_ERROR_TIMEOUT, Reason.LATER, id="timeout"),
        pytest.param(pynvml.NVML_ERROR_IN_USE, Reason.LATER, id="in use"),
        pytest.param(pynvml.NVML_ERROR_NOT_READY, Reason.LATER, id="not ready"),
        pytest.param(pynvml.NVML_ERROR_INVALID_STATE, Reason.LATER, id="invalid state"),
        pytest.param(pynvml.NVML_ERROR_UNKNOWN, Reason.UNKNOWN, id="unknown"),
        pytest.param(CODE_NEWER_THAN_THE_BINDING, Reason.UNKNOWN, id="newer than the binding"),
    ],
)
def test_a_code_is_classified_by_what_one_can_do(code: int, reason: Reason) -> None:
    assert NvmlError("nvmlDeviceGetName", code).reason == reason


def test_no_code_is_of_two_classes() -> None:
    assert not ABSENT_CODES & EMPTY_CODES
    assert not (ABSENT_CODES | EMPTY_CODES) & REASONS.keys()


def test_only_what_holds_for_every_call_takes_a_card_down() -> None:
    assert set(Reason) - DOWN_REASONS == {
        Reason.PERMISSION,
        Reason.BLOCKED,
        Reason.LATER,
        Reason.STALE,
        Reason.STUCK,
        Reason.UNKNOWN,
    }


@pytest.mark.parametrize(
    ("code", "text"),
    [
        pytest.param(
            pynvml.NVML_ERROR_GPU_IS_LOST,
            "nvmlDeviceGetName: GPU is lost (NVML code 15)",
            id="known to the binding",
        ),
        pytest.param(
            CODE_NEWER_THAN_THE_BINDING,
            "nvmlDeviceGetName: unknown error (NVML code 12345)",
            id="newer than the binding",
        ),
    ],
)
def test_an_error_names_the_call_the_trouble_and_the_code(code: int, text: str) -> None:
    assert str(NvmlError("nvmlDeviceGetName", code)) == text


def test_an_error_has_its_text_without_asking_the_library(simulate: Simulate) -> None:
    node = simulate()
    node.fail("nvmlErrorString", pynvml.NVML_ERROR_UNINITIALIZED)
    calls = calls_of(node, "nvmlErrorString")

    text = str(NvmlError("nvmlDeviceGetName", CODE_NEWER_THAN_THE_BINDING))

    assert text == "nvmlDeviceGetName: unknown error (NVML code 12345)"
    assert calls == []


def test_an_error_has_its_text_where_no_library_was_loaded(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate()
    monkeypatch.setattr(pynvml, "nvmlLib", None)

    text = str(NvmlError("nvmlInit", pynvml.NVML_ERROR_LIBRARY_NOT_FOUND))

    assert text == "nvmlInit: NVML Shared Library Not Found (NVML code 12)"


def test_an_error_can_be_hashed_and_compared_where_the_binding_s_cannot(
    simulate: Simulate,
) -> None:
    node = simulate(simulated_card())
    node.fail("nvmlInitWithFlags", pynvml.NVML_ERROR_UNKNOWN)

    with pytest.raises(NvmlError) as failure:
        node.open()

    error: Any = failure.value
    assert pynvml.NVMLError.__hash__ is None
    assert error in {error}
    assert error != "an object without a code"


@pytest.mark.parametrize(
    ("told", "text"),
    [
        pytest.param("NVIDIA A16", "NVIDIA A16", id="new binding"),
        pytest.param(b"NVIDIA A16", "NVIDIA A16", id="old binding"),
        pytest.param("Karte für ü".encode(), "Karte für ü", id="UTF-8"),
        pytest.param(b"A16\xff", "A16\ufffd", id="not UTF-8"),
    ],
)
def test_text_is_text_whatever_the_binding_hands_out(told: str | bytes, text: str) -> None:
    assert text_of(told) == text
