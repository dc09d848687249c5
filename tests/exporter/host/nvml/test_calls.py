"""Calls on one object: what is absent, empty or failed, and what is asked again."""

from collections.abc import Callable
from typing import Any

import pynvml
import pytest
from support.simulated import Simulate, calls_of

from rightslice.exporter.host.nvml.calls import Answer, Calls, call
from rightslice.exporter.host.nvml.errors import NvmlError, Reason

from .codes import ABSENT, EMPTY

ONE, OTHER = "nvmlOne", "nvmlOther"
SUCCESS = pynvml.NVML_SUCCESS

FAILED = [
    pytest.param(pynvml.NVML_ERROR_NO_PERMISSION, id="no permission"),
    pytest.param(pynvml.NVML_ERROR_INSUFFICIENT_SIZE, id="insufficient size"),
    pytest.param(pynvml.NVML_ERROR_TIMEOUT, id="timeout"),
    pytest.param(pynvml.NVML_ERROR_OPERATING_SYSTEM, id="cgroup"),
    pytest.param(pynvml.NVML_ERROR_IN_USE, id="in use"),
    pytest.param(pynvml.NVML_ERROR_MEMORY, id="out of memory"),
    pytest.param(pynvml.NVML_ERROR_UNKNOWN, id="unknown"),
]
DOWN = [
    pytest.param(pynvml.NVML_ERROR_GPU_IS_LOST, Reason.LOST, id="fell off the bus"),
    pytest.param(pynvml.NVML_ERROR_RESET_REQUIRED, Reason.LOST, id="needs a reset"),
    pytest.param(pynvml.NVML_ERROR_GPU_NOT_FOUND, Reason.LOST, id="unplugged"),
    pytest.param(pynvml.NVML_ERROR_UNINITIALIZED, Reason.DRIVER, id="not initialised"),
    pytest.param(pynvml.NVML_ERROR_DRIVER_NOT_LOADED, Reason.DRIVER, id="no driver"),
    pytest.param(pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, Reason.MISMATCH, id="upgraded"),
]


@pytest.fixture
def answering(simulate: Simulate) -> Callable[..., list[tuple[Any, ...]]]:
    """Let an NVML function give a code; its calls are noted."""
    node = simulate()

    def answer(code: int, name: str = ONE) -> list[tuple[Any, ...]]:
        node.fail(name, code)
        return calls_of(node, name)

    return answer


Answering = Callable[..., list[tuple[Any, ...]]]


def failed(calls: Calls, name: str = ONE) -> Reason:
    with pytest.raises(NvmlError, match=name) as failure:
        calls.ask(name)
    return failure.value.reason


def test_a_call_that_succeeds_has_a_value(answering: Answering) -> None:
    asked = answering(SUCCESS)

    answer = Calls().ask(ONE, "handle", 7)

    assert answer is Answer.VALUE
    assert asked == [("handle", 7)]


@pytest.mark.parametrize("code", ABSENT)
def test_what_is_absent_is_no_failure_and_is_asked_for_once(
    code: int, answering: Answering
) -> None:
    asked, calls = answering(code), Calls()

    answers = [calls.ask(ONE), calls.ask(ONE)]

    assert answers == [Answer.ABSENT, Answer.ABSENT]
    assert len(asked) == 1
    assert calls.lacks(ONE)


def test_what_is_absent_stays_so_in_later_rounds(answering: Answering) -> None:
    asked, calls = answering(pynvml.NVML_ERROR_NOT_SUPPORTED), Calls()
    calls.ask(ONE)

    calls.begin_round()
    calls.ask(ONE)

    assert len(asked) == 1


@pytest.mark.parametrize("code", EMPTY)
def test_what_is_empty_is_no_failure_and_is_asked_again(code: int, answering: Answering) -> None:
    asked, calls = answering(code), Calls()

    answers = [calls.ask(ONE), calls.ask(ONE)]

    assert answers == [Answer.EMPTY, Answer.EMPTY]
    assert len(asked) == 2
    assert calls.is_up


@pytest.mark.parametrize("code", FAILED)
def test_what_fails_is_told_and_is_asked_again(code: int, answering: Answering) -> None:
    asked, calls = answering(code), Calls()
    failed(calls)

    failed(calls)

    assert len(asked) == 2
    assert not calls.lacks(ONE)


def test_a_function_that_the_library_lacks_is_absent(answering: Answering) -> None:
    answering(SUCCESS)

    assert Calls().ask("nvmlNewerThanTheDriver") is Answer.ABSENT
    assert call("nvmlNewerThanTheDriver") == pynvml.NVML_ERROR_FUNCTION_NOT_FOUND


def test_a_library_that_was_never_loaded_is_the_driver_s_trouble(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate()
    monkeypatch.setattr(pynvml, "nvmlLib", None)

    assert failed(Calls(), "nvmlDeviceGetPowerUsage") == Reason.DRIVER


def test_what_one_object_lacks_is_still_asked_of_others(answering: Answering) -> None:
    asked = answering(pynvml.NVML_ERROR_NOT_SUPPORTED)

    Calls().ask(ONE)
    Calls().ask(ONE)

    assert len(asked) == 2


def test_one_function_may_be_absent_in_one_way_and_there_in_another(answering: Answering) -> None:
    calls = Calls()
    answering(pynvml.NVML_ERROR_NOT_SUPPORTED)
    volatile = calls.ask(ONE, key="nvmlOne volatile")
    answering(SUCCESS)

    aggregate = calls.ask(ONE, key="nvmlOne aggregate")

    assert (volatile, aggregate) == (Answer.ABSENT, Answer.VALUE)
    assert not calls.lacks(ONE)


def test_what_was_marked_as_absent_is_not_asked_for(answering: Answering) -> None:
    asked, calls = answering(SUCCESS), Calls()

    calls.mark_absent(ONE)

    assert calls.ask(ONE) is Answer.ABSENT
    assert asked == []


def test_an_object_that_was_asked_nothing_is_up() -> None:
    assert Calls().is_up


def test_an_object_that_lacks_what_it_was_asked_for_is_up(answering: Answering) -> None:
    answering(pynvml.NVML_ERROR_NOT_SUPPORTED)
    calls = Calls()

    calls.ask(ONE)

    assert calls.is_up


def test_an_object_that_answers_one_call_of_several_is_up(answering: Answering) -> None:
    answering(pynvml.NVML_ERROR_UNKNOWN)
    answering(SUCCESS, OTHER)
    calls = Calls()

    failed(calls)
    calls.ask(OTHER)

    assert calls.is_up


def test_an_object_that_fails_every_call_is_down_without_a_reason(answering: Answering) -> None:
    answering(pynvml.NVML_ERROR_UNKNOWN)
    calls = Calls()

    failed(calls)

    assert not calls.is_up
    assert calls.down_reason is None


@pytest.mark.parametrize(("code", "reason"), DOWN)
def test_one_call_that_says_so_takes_the_object_down(
    code: int, reason: Reason, answering: Answering
) -> None:
    answering(SUCCESS, OTHER)
    answering(code)
    calls = Calls()
    calls.ask(OTHER)

    failed(calls)

    assert not calls.is_up
    assert calls.down_reason == reason


def test_a_new_round_begins_without_the_troubles_of_the_last(answering: Answering) -> None:
    answering(pynvml.NVML_ERROR_GPU_IS_LOST)
    calls = Calls()
    failed(calls)

    calls.begin_round()

    assert calls.is_up
    assert calls.down_reason is None


def test_an_argument_that_was_never_valid_is_as_good_as_absent(answering: Answering) -> None:
    answering(SUCCESS, OTHER)
    answering(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    calls = Calls()
    calls.ask(OTHER)

    assert calls.ask(ONE) is Answer.ABSENT
    assert calls.lacks(ONE)
    assert calls.is_up


def test_an_argument_that_was_valid_once_is_a_handle_of_the_past(answering: Answering) -> None:
    answering(SUCCESS)
    calls = Calls()
    calls.ask(ONE)
    answering(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    calls.begin_round()

    failed(calls)

    assert not calls.is_up


def test_what_is_lacking_is_asked_for_again_when_that_is_forgotten(answering: Answering) -> None:
    answering(pynvml.NVML_ERROR_NOT_SUPPORTED)
    calls = Calls()
    calls.ask(ONE)
    answering(SUCCESS)

    calls.forget_absent()

    assert calls.ask(ONE) is Answer.VALUE


def test_what_was_marked_as_absent_is_never_forgotten(answering: Answering) -> None:
    asked, calls = answering(SUCCESS), Calls()
    calls.mark_absent(ONE)

    calls.forget_absent()

    assert calls.ask(ONE) is Answer.ABSENT
    assert asked == []
