"""The limit that the driver keeps for the memory of a cgroup."""

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml
import pytest
from support.simulated import Simulate, calls_of, simulated_card

from rightslice.exporter.host.nvml.memory_limits import LIMITS, cgroup_limit_bytes

from .codes import EMPTY

TREE = Path("/sys/fs/cgroup/kubepods/burstable")
TRAIN, CHAT = TREE / "pod-train/main", TREE / "pod-chat/engine"
LIMIT_BYTES = 8 * 1024**3
NO_LIMIT = pynvml.NVML_DEVICE_MEMORY_LIMIT_MAX


def limits(hard_bytes: dict[Path, int]) -> Callable[..., int]:
    """Make a nvmlDeviceGetMemoryLimits_v1 that knows the hard limits of these cgroups."""

    def answer(_: Any, reference: Any) -> int:
        told = reference._obj
        # Not by its name: the binding would decode it.
        text = ctypes.cast(reference, ctypes.POINTER(ctypes.c_char_p))[0] or b""
        folder = Path(os.fsdecode(text))
        if folder not in hard_bytes:
            return int(pynvml.NVML_ERROR_NOT_FOUND)
        told.softLimit, told.hardLimit, told.currentUsed = 1, hard_bytes[folder], 2
        return int(pynvml.NVML_SUCCESS)

    return answer


def test_a_cgroup_has_its_own_hard_limit(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    (card,) = node.open()
    node.answer(LIMITS, limits({TRAIN: LIMIT_BYTES, CHAT: 2 * LIMIT_BYTES}))

    assert cgroup_limit_bytes(card, TRAIN) == LIMIT_BYTES
    assert cgroup_limit_bytes(card, CHAT) == 2 * LIMIT_BYTES


@pytest.mark.parametrize(
    "hard_bytes",
    [
        pytest.param(NO_LIMIT, id="as much as the card has"),
        pytest.param(0, id="nothing"),
    ],
)
def test_what_limits_nothing_is_no_limit(hard_bytes: int, simulate: Simulate) -> None:
    node = simulate(simulated_card())
    (card,) = node.open()
    node.answer(LIMITS, limits({TRAIN: hard_bytes}))

    assert cgroup_limit_bytes(card, TRAIN) is None


@pytest.mark.parametrize("code", EMPTY)
def test_a_cgroup_without_a_limit_keeps_no_other_from_being_asked_for(
    code: int, simulate: Simulate
) -> None:
    node = simulate(simulated_card())
    (card,) = node.open()
    node.answer(LIMITS, lambda *arguments: limits({CHAT: 1})(*arguments) or code)
    without = cgroup_limit_bytes(card, CHAT)

    node.answer(LIMITS, limits({TRAIN: LIMIT_BYTES}))

    assert without is None  # whatever stood in the buffer
    assert cgroup_limit_bytes(card, TRAIN) == LIMIT_BYTES


def test_a_driver_of_before_has_no_limits(simulate: Simulate) -> None:
    (card,) = simulate(simulated_card()).open()

    assert cgroup_limit_bytes(card, TRAIN) is None


def test_a_driver_that_has_no_limits_is_asked_once(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    (card,) = node.open()
    node.fail(LIMITS, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
    calls = calls_of(node, LIMITS)

    assert [cgroup_limit_bytes(card, path) for path in (TRAIN, CHAT, TRAIN)] == [None] * 3
    assert len(calls) == 1


def test_a_path_may_have_any_bytes_in_it(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    (card,) = node.open()
    path = Path(os.fsdecode(b"/sys/fs/cgroup/user.slice/\xff\xfe"))
    node.answer(LIMITS, limits({path: LIMIT_BYTES}))

    assert cgroup_limit_bytes(card, path) == LIMIT_BYTES


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(pynvml.NVML_ERROR_NO_PERMISSION, id="refused"),
        pytest.param(pynvml.NVML_ERROR_NOT_SUPPORTED, id="a cgroup without a limit"),
        pytest.param(pynvml.NVML_ERROR_INVALID_ARGUMENT, id="a folder that is not there"),
        pytest.param(pynvml.NVML_ERROR_UNKNOWN, id="unknown"),
    ],
)
def test_a_refusal_is_about_one_cgroup_only(code: int, simulate: Simulate) -> None:
    node = simulate(simulated_card())
    (card,) = node.open()
    node.fail(LIMITS, code)
    refused = cgroup_limit_bytes(card, TRAIN)

    node.answer(LIMITS, limits({CHAT: LIMIT_BYTES}))

    assert refused is None
    assert cgroup_limit_bytes(card, CHAT) == LIMIT_BYTES
