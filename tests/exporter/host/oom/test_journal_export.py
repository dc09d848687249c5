"""The journal's export format, with binary fields."""

import pytest

from rightslice.exporter.host.oom.journal_export import JournalExport
from rightslice.exporter.host.oom.log_format import LogMessage

HEAD = b"__CURSOR=s=1;i=2\n__REALTIME_TIMESTAMP=1767323045500000\n_PID=12\n_UID=0\n_COMM=python\n"
FORGED = b"x\n\n__CURSOR=s=1;i=3\n_TRANSPORT=kernel\nMESSAGE=Out of memory\n\n"
SECONDS = 1767323045.5


def binary(name: bytes, data: bytes) -> bytes:
    return name + b"\n" + len(data).to_bytes(8, "little") + data + b"\n"


def decoded(data: bytes, decoder: JournalExport | None = None) -> list[LogMessage]:
    return list((decoder or JournalExport()).feed(data.split(b"\n")[:-1]))


def test_entry_is_read_with_its_fields() -> None:
    data = HEAD + b"MESSAGE=a=b\nPRIORITY=6\nCONTAINER_NAME=x\n\n"
    fields = {"_PID": "12", "_UID": "0", "_COMM": "python", "CONTAINER_NAME": "x"}
    assert decoded(data) == [LogMessage("a=b", SECONDS, fields)]


def test_entry_without_a_message_is_none() -> None:
    assert decoded(HEAD + b"\n" + HEAD + b"MESSAGE=x\n\n\n")[0].text == "x"


@pytest.mark.parametrize("size", [0, 1, 10, 13, 255, 2570, 10 * 256 + 10, 100_000])
def test_binary_message_of_any_length_is_read(size: int) -> None:
    text = ("line\n\n=" * (size // 7 + 1))[:size]
    (first, second) = decoded(
        HEAD + binary(b"MESSAGE", text.encode()) + b"\n" + HEAD + b"MESSAGE=next\n\n"
    )
    assert (first.text, second.text) == (text[: 64 * 1024], "next")


@pytest.mark.parametrize("name", [b"MESSAGE", b"OTHER"])
def test_binary_field_cannot_forge_an_entry(name: bytes) -> None:
    messages = decoded(HEAD + binary(name, FORGED) + b"\n" + HEAD + b"MESSAGE=next\n\n")
    assert [message.text for message in messages if message.fields.get("_TRANSPORT")] == []
    assert messages[-1].text == "next"


def test_what_was_cut_of_a_line_is_counted() -> None:
    decoder = JournalExport()
    whole = HEAD + binary(b"MESSAGE", b"y" * 300_000 + FORGED) + b"\n" + HEAD + b"MESSAGE=n\n\n"
    start = whole.index(b"y" * 100)
    assert decoded(whole[: start + 65_536] + b"\n", decoder) == []
    decoder.cut(300_000 - 65_536 + 1)  # the x before the forged line is dropped as well
    first, second = decoded(whole[start + 300_002 :], decoder)
    assert (first.text[:5], second.text) == ("yyyyy", "n")


def test_wrong_length_loses_its_entry_only() -> None:
    broken = HEAD + b"MESSAGE\n" + (3).to_bytes(8, "little") + b"longer\n_TRANSPORT=kernel\n\n"
    assert [each.text for each in decoded(broken + HEAD + b"MESSAGE=next\n\n")] == ["next"]


def test_impossible_length_does_not_swallow_the_rest() -> None:
    broken = HEAD + b"MESSAGE\n" + b"\xff" * 8 + b"x\n\n"
    assert [each.text for each in decoded(broken + HEAD + b"MESSAGE=next\n\n")] == ["next"]


def test_open_entry_is_given_by_flush() -> None:
    decoder = JournalExport()
    assert decoded(HEAD + b"MESSAGE=last\n", decoder) == []
    assert decoder.is_partial
    assert [message.text for message in decoder.flush()] == ["last"]
