"""Bytes cut into messages and attributes: lengths that fit, and all those that do not."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.exporter.host.net.netlink_messages import (
    Message,
    attribute,
    attributes,
    message,
    messages,
    number,
    text,
)
from rightslice.exporter.host.reading_error import ReadingError

TYPES = st.integers(0, 0x3FFF)


@given(st.lists(st.tuples(TYPES, st.binary(max_size=40))))
def test_attributes_are_read_as_they_were_made(made: list[tuple[int, bytes]]) -> None:
    data = b"".join(attribute(each_type, content) for each_type, content in made)

    assert list(attributes(data)) == made


@given(st.binary(max_size=200))
def test_garbage_is_cut_up_or_called_malformed(data: bytes) -> None:
    with contextlib.suppress(ReadingError):  # and no other error
        found = list(attributes(data))
        assert sum(4 + len(content) for _, content in found) <= len(data)


def test_bits_above_the_type_are_no_part_of_it() -> None:
    assert list(attributes(attribute(0x8000 | 13, b"ab") + attribute(0x4000 | 2, b""))) == [
        (13, b"ab"),
        (2, b""),
    ]


def test_the_padding_of_the_last_attribute_may_be_missing() -> None:
    assert list(attributes(struct.pack("=HH", 5, 7) + b"x")) == [(7, b"x")]


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        pytest.param(struct.pack("=HH", 0, 1), "has 0 bytes, of 4", id="length 0"),
        pytest.param(struct.pack("=HH", 3, 1), "has 3 bytes, of 4", id="shorter than its header"),
        pytest.param(struct.pack("=HH", 9, 1) + bytes(4), "9 bytes, of 8", id="longer than data"),
        pytest.param(struct.pack("=HH", 65535, 1), "65535 bytes, of 4", id="far longer"),
        pytest.param(attribute(1, b"full") + b"\0\0", "2 bytes are left", id="rest of 2 bytes"),
    ],
)
def test_a_length_that_does_not_fit_is_malformed(data: bytes, complaint: str) -> None:
    with pytest.raises(ReadingError, match=complaint) as caught:
        list(attributes(data))

    assert caught.value.reason == "malformed"


def test_a_datagram_holds_several_messages() -> None:
    datagram = message(20, 2, 7, b"abc") + b"\0" + message(3, 2, 7, b"")

    assert list(messages(datagram)) == [Message(20, 2, 7, b"abc"), Message(3, 2, 7, b"")]


@pytest.mark.parametrize(
    "size_bytes", [pytest.param(each, id=f"length {each}") for each in (0, 15, 21, 2**32 - 1)]
)
def test_a_message_with_a_wrong_length_is_malformed(size_bytes: int) -> None:
    with pytest.raises(ReadingError, match="the message at byte 0"):
        list(messages(struct.pack("=IHHII", size_bytes, 20, 0, 1, 0) + bytes(4)))


def test_a_message_that_was_cut_off_is_malformed() -> None:
    with pytest.raises(ReadingError, match="15 bytes are left for the message at byte 0"):
        list(messages(message(20, 0, 1, b"")[:15]))


def test_a_number_has_the_size_of_its_kind() -> None:
    assert number(3, struct.pack("=I", 70_000), struct.Struct("=I")) == 70_000
    with pytest.raises(ReadingError, match="attribute 3 has 1 bytes, expected 4"):
        number(3, b"\1", struct.Struct("=I"))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(b"mlx5_0\0", "mlx5_0", id="with its NUL"),
        pytest.param(b"mlx5_0", "mlx5_0", id="without"),
        pytest.param(b"a\0junk", "a", id="bytes after it"),
        pytest.param(b"\xff\0", "\N{REPLACEMENT CHARACTER}", id="no UTF-8"),
    ],
)
def test_text_ends_at_its_nul(data: bytes, expected: str) -> None:
    assert text(data) == expected
