"""Field values: each with a return code and a type of its own, each able to fail alone."""

from typing import Any

import pynvml
import pytest
from support.simulated import (
    FieldAnswer,
    Simulate,
    SimulatedNode,
    calls_of,
    field_values,
    simulated_card,
)

from rightslice.exporter.host.nvml.card import NvmlCard
from rightslice.exporter.host.nvml.errors import NvmlError, Reason
from rightslice.exporter.host.nvml.fields import CALL, EVERY_LINK, FieldKey, FieldReader

FIRST, SECOND = (186, 0), (83, 0)
NONE_32, NONE_64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
UNDEFINED = 4242


def asked_keys(asked: list[tuple[Any, ...]]) -> list[FieldKey]:
    """Give the fields of the last call."""
    _, _, values = asked[-1]
    return [(value.fieldId, value.scopeId) for value in values._obj]


def answering(
    simulate: Simulate, fields: dict[FieldKey, FieldAnswer]
) -> tuple[SimulatedNode, NvmlCard]:
    """Start a node whose card answers these fields."""
    node = simulate(simulated_card())
    node.answer(CALL, field_values(fields))
    (card,) = node.open()
    return node, card


@pytest.mark.parametrize(
    ("value_type", "member", "value"),
    [
        pytest.param(pynvml.NVML_VALUE_TYPE_DOUBLE, "dVal", 1.5, id="double"),
        pytest.param(pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, "uiVal", 3_000_000_000, id="uint"),
        pytest.param(pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG, "ulVal", 2**40, id="ulong"),
        pytest.param(pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, "ullVal", 2**63, id="ulonglong"),
        pytest.param(pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG, "sllVal", -(2**40), id="longlong"),
        pytest.param(pynvml.NVML_VALUE_TYPE_SIGNED_INT, "siVal", -40, id="int"),
        pytest.param(pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT, "usVal", 60_000, id="ushort"),
    ],
)
def test_a_value_is_read_as_the_type_it_says_it_has(
    value_type: int, member: str, value: float, simulate: Simulate
) -> None:
    answer = FieldAnswer(value, value_type=value_type, member=member)
    _, card = answering(simulate, {FIRST: answer})

    assert FieldReader(card, (FIRST,)).read() == {FIRST: value}


def test_a_type_newer_than_the_binding_is_no_value_and_is_not_asked_again(
    simulate: Simulate,
) -> None:
    newer = FieldAnswer(7, value_type=pynvml.NVML_VALUE_TYPE_COUNT)
    _, card = answering(simulate, {FIRST: newer, SECOND: FieldAnswer(8)})
    reader = FieldReader(card, (FIRST, SECOND))

    values = reader.read()

    assert values == {SECOND: 8}
    assert reader.keys == (SECOND,)


def test_many_fields_take_one_call(simulate: Simulate) -> None:
    node, card = answering(simulate, {FIRST: FieldAnswer(7), SECOND: FieldAnswer(8)})
    asked = calls_of(node, CALL)

    values = FieldReader(card, (FIRST, SECOND)).read()

    assert values == {FIRST: 7, SECOND: 8}
    assert len(asked) == 1


def test_one_field_may_be_asked_for_in_several_scopes(simulate: Simulate) -> None:
    one_link, every_link = (138, 3), (138, EVERY_LINK)
    _, card = answering(simulate, {one_link: FieldAnswer(7), every_link: FieldAnswer(70)})

    assert FieldReader(card, (one_link, every_link)).read() == {one_link: 7, every_link: 70}


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(pynvml.NVML_ERROR_NOT_READY, id="not ready"),
        pytest.param(pynvml.NVML_ERROR_TIMEOUT, id="timeout"),
        pytest.param(pynvml.NVML_ERROR_IN_USE, id="in use"),
        pytest.param(pynvml.NVML_ERROR_NO_PERMISSION, id="no permission"),
        pytest.param(pynvml.NVML_ERROR_UNKNOWN, id="unknown"),
        pytest.param(pynvml.NVML_ERROR_NO_DATA, id="no data"),
    ],
)
def test_a_field_that_fails_has_no_value_and_is_asked_again(code: int, simulate: Simulate) -> None:
    _, card = answering(simulate, {FIRST: FieldAnswer(UNDEFINED, code), SECOND: FieldAnswer(8)})
    reader = FieldReader(card, (FIRST, SECOND))

    values = reader.read()

    assert values == {SECOND: 8}
    assert reader.keys == (FIRST, SECOND)


def test_a_field_that_failed_once_is_read_when_it_works(simulate: Simulate) -> None:
    node, card = answering(simulate, {FIRST: FieldAnswer(0, pynvml.NVML_ERROR_NOT_READY)})
    reader = FieldReader(card, (FIRST,))
    before = reader.read()
    node.answer(CALL, field_values({FIRST: FieldAnswer(7)}))

    assert before == {}
    assert reader.read() == {FIRST: 7}


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(pynvml.NVML_ERROR_NOT_SUPPORTED, id="not supported"),
        pytest.param(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, id="function not found"),
        pytest.param(pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH, id="version mismatch"),
        pytest.param(pynvml.NVML_ERROR_DEPRECATED, id="deprecated"),
        pytest.param(pynvml.NVML_ERROR_INVALID_ARGUMENT, id="field newer than the driver"),
    ],
)
def test_a_field_that_the_card_lacks_is_asked_for_once(code: int, simulate: Simulate) -> None:
    node, card = answering(simulate, {FIRST: FieldAnswer(UNDEFINED, code), SECOND: FieldAnswer(8)})
    reader = FieldReader(card, (FIRST, SECOND))
    first = reader.read()
    asked = calls_of(node, CALL)

    second = reader.read()

    assert (first, second) == ({SECOND: 8}, {SECOND: 8})
    assert asked_keys(asked) == [SECOND]
    assert card.is_up


def test_when_every_field_is_lacking_nothing_is_asked(simulate: Simulate) -> None:
    node, card = answering(simulate, {})
    reader = FieldReader(card, (FIRST, SECOND))
    reader.read()
    asked = calls_of(node, CALL)

    assert reader.read() == {}
    assert asked == []


@pytest.mark.parametrize(
    ("value_type", "member", "value"),
    [
        pytest.param(pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, "ullVal", NONE_64, id="64 bits"),
        pytest.param(pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG, "ulVal", NONE_64, id="long"),
        pytest.param(pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, "uiVal", NONE_32, id="32 bits"),
    ],
)
def test_all_ones_is_no_value(value_type: int, member: str, value: int, simulate: Simulate) -> None:
    answer = FieldAnswer(value, value_type=value_type, member=member)
    _, card = answering(simulate, {FIRST: answer})

    assert FieldReader(card, (FIRST,)).read() == {}


def test_all_ones_of_32_bits_is_a_value_in_64(simulate: Simulate) -> None:
    _, card = answering(simulate, {FIRST: FieldAnswer(NONE_32)})

    assert FieldReader(card, (FIRST,)).read() == {FIRST: NONE_32}


@pytest.mark.parametrize(
    ("value_type", "member"),
    [
        pytest.param(pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, "uiVal", id="unsigned"),
        pytest.param(pynvml.NVML_VALUE_TYPE_SIGNED_INT, "siVal", id="signed"),
        pytest.param(pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT, "usVal", id="short"),
        pytest.param(pynvml.NVML_VALUE_TYPE_DOUBLE, "dVal", id="double"),
    ],
)
def test_a_byte_counter_that_wraps_is_refused_for_good(
    value_type: int, member: str, simulate: Simulate
) -> None:
    answer = FieldAnswer(7, value_type=value_type, member=member)
    _, card = answering(simulate, {FIRST: answer, SECOND: answer})
    reader = FieldReader(card, (FIRST, SECOND), wide=frozenset((FIRST[0],)))

    values = reader.read()

    assert values == {SECOND: 7}
    assert reader.keys == (SECOND,)


@pytest.mark.parametrize(
    ("value_type", "member"),
    [
        pytest.param(pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, "ullVal", id="long long"),
        pytest.param(pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG, "ulVal", id="long"),
    ],
)
def test_a_byte_counter_of_64_bits_is_read(
    value_type: int, member: str, simulate: Simulate
) -> None:
    answer = FieldAnswer(2**40, value_type=value_type, member=member)
    _, card = answering(simulate, {FIRST: answer})

    values = FieldReader(card, (FIRST,), wide=frozenset((FIRST[0],))).read()

    assert values == {FIRST: 2**40}


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        pytest.param(pynvml.NVML_ERROR_GPU_IS_LOST, Reason.LOST, id="fell off the bus"),
        pytest.param(pynvml.NVML_ERROR_RESET_REQUIRED, Reason.LOST, id="needs a reset"),
        pytest.param(pynvml.NVML_ERROR_UNINITIALIZED, Reason.DRIVER, id="not initialised"),
        pytest.param(pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, Reason.MISMATCH, id="upgraded"),
    ],
)
def test_a_card_that_is_lost_inside_one_field_is_lost(
    code: int, reason: Reason, simulate: Simulate
) -> None:
    _, card = answering(simulate, {FIRST: FieldAnswer(7), SECOND: FieldAnswer(UNDEFINED, code)})

    with pytest.raises(NvmlError, match=CALL) as failure:
        FieldReader(card, (FIRST, SECOND)).read()

    assert failure.value.reason == reason
    assert card.down_reason == reason


def test_a_card_without_field_values_is_not_asked_again(simulate: Simulate) -> None:
    node = simulate(simulated_card(faults={CALL: pynvml.NVML_ERROR_NOT_SUPPORTED}))
    (card,) = node.open()
    asked = calls_of(node, CALL)
    reader = FieldReader(card, (FIRST,))

    assert [reader.read(), reader.read()] == [{}, {}]
    assert len(asked) == 1


def test_a_driver_without_the_function_has_no_fields(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    node.lack(CALL)
    (card,) = node.open()

    assert FieldReader(card, (FIRST,)).read() == {}


def test_an_empty_answer_keeps_the_fields(simulate: Simulate) -> None:
    node, card = answering(simulate, {FIRST: FieldAnswer(7)})
    reader = FieldReader(card, (FIRST,))
    node.fail(CALL, pynvml.NVML_ERROR_NO_DATA)
    before = reader.read()
    node.answer(CALL, field_values({FIRST: FieldAnswer(7)}))

    assert before == {}
    assert reader.read() == {FIRST: 7}


def test_a_call_that_fails_as_a_whole_is_told(simulate: Simulate) -> None:
    (card,) = simulate(simulated_card(faults={CALL: pynvml.NVML_ERROR_GPU_IS_LOST})).open()

    with pytest.raises(NvmlError, match="nvmlDeviceGetFieldValues: GPU is lost"):
        FieldReader(card, (FIRST,)).read()
