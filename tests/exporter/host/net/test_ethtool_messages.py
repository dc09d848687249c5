"""Replies of ethtool's ioctl from bytes: whatever the bytes, an answer in its range."""

import struct
import sys

from hypothesis import given
from hypothesis import strategies as st

from rightslice.exporter.host.net.ethtool_messages import (
    GSTATS,
    GSTRINGS,
    driver_reply,
    names_in,
    names_reply,
    pause_reply,
    set_size_reply,
    values_reply,
    watchdog_reply,
)


@given(st.lists(st.binary(max_size=32), max_size=40))
def test_any_block_of_names_gives_one_name_for_each_field(fields: list[bytes]) -> None:
    names = names_in(b"".join(field.ljust(32, b"\0") for field in fields))
    assert len(names) == len(fields)
    for name, field in zip(names, fields, strict=True):
        assert "\0" not in name
        name.encode("utf-8")  # may stand in a label
        if field.isascii():
            assert name.encode() == field.split(b"\0")[0]


@given(st.lists(st.integers(0, 2**64 - 1), max_size=40), st.integers(0, 50), st.binary())
def test_values_are_given_only_for_the_expected_count(
    values: list[int], count: int, rest: bytes
) -> None:
    reply = struct.pack(f"=II{len(values)}Q", GSTATS, len(values), *values) + rest
    found = values_reply(reply, count)
    assert (None if found is None else list(found)) == (values if count == len(values) else None)


@given(st.lists(st.binary(min_size=32, max_size=32), max_size=10), st.integers(0, 12), st.binary())
def test_names_are_given_only_for_the_expected_count(
    fields: list[bytes], count: int, rest: bytes
) -> None:
    reply = struct.pack("=III", GSTRINGS, 1, len(fields)) + b"".join(fields) + rest
    assert names_reply(reply, count) == (b"".join(fields) if count == len(fields) else None)


@given(st.binary(min_size=196, max_size=300))
def test_any_bytes_give_answers_in_their_range(reply: bytes) -> None:
    driver = driver_reply(reply)
    assert "\0" not in driver.driver + driver.version + driver.firmware + driver.bus
    pause = pause_reply(reply)
    assert pause.receives == any(reply[8:12])
    assert watchdog_reply(reply) == int.from_bytes(reply[16:18], sys.byteorder)
    expected = (
        int.from_bytes(reply[16:20], sys.byteorder)
        if int.from_bytes(reply[8:16], sys.byteorder) & 2
        else None
    )
    assert set_size_reply(reply) == expected
