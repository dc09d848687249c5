"""One call's answer, from the events of its stream."""

import pytest
from h2.events import (
    DataReceived,
    Event,
    InformationalResponseReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)

from rightslice.exporter.host.kubelet.grpc_answer import StatusError, UnaryAnswer

STREAM_ID = 5


def event(kind: type[Event], stream_id: int = STREAM_ID, **parts: object) -> Event:
    made = kind.__new__(kind)
    for name, value in {"stream_id": stream_id, **parts}.items():
        setattr(made, name, value)
    return made


HEADERS = [(b":status", b"200"), (b"content-type", b"application/grpc+proto")]
HEAD = event(ResponseReceived, headers=HEADERS)
BODY = event(DataReceived, data=b"\0\0\0\0\x03abc")
END = event(StreamEnded)


def trailers(code: bytes, text: bytes = b"") -> Event:
    return event(TrailersReceived, headers=[(b"grpc-status", code), (b"grpc-message", text)])


def answer_of(*events: Event) -> UnaryAnswer:
    answer = UnaryAnswer(STREAM_ID, largest_bytes=100)
    for taken in events:
        answer.take(taken)
    return answer


def status_of(*events: Event) -> StatusError:
    with pytest.raises(StatusError) as caught:
        answer_of(*events).message()
    return caught.value


def test_a_message_is_given_without_its_prefix() -> None:
    answer = answer_of(HEAD, BODY, trailers(b"0"), END)

    assert answer.is_complete
    assert answer.message() == b"abc"


def test_a_message_may_come_in_pieces() -> None:
    pieces = [event(DataReceived, data=bytes([byte])) for byte in b"\0\0\0\0\x03abc"]

    assert answer_of(HEAD, *pieces, trailers(b"0"), END).message() == b"abc"


def test_what_happens_elsewhere_or_later_changes_nothing() -> None:
    elsewhere = [event(DataReceived, 3, data=b"x"), event(StreamReset, 3, error_code=8)]
    early = event(InformationalResponseReceived, headers=[(b":status", b"103")])
    later = event(StreamReset, error_code=0)

    answer = answer_of(*elsewhere, early, HEAD, BODY, *elsewhere, trailers(b"0"), END, later)

    assert answer.message() == b"abc"


@pytest.mark.parametrize(
    ("code", "text", "told"),
    [
        (b"12", b"unknown method List", "UNIMPLEMENTED: unknown method List"),
        (b"2", b"50%25 of %C3%A9", "UNKNOWN: 50% of é"),
        (b"13", b"%FF%zz", "INTERNAL: \N{REPLACEMENT CHARACTER}%zz"),
        (b"99", b"", "status 99"),
        (b"14", b"x" * 1000, "UNAVAILABLE: " + "x" * 300),
    ],
)
def test_an_error_is_told_with_name_and_text(code: bytes, text: bytes, told: str) -> None:
    error = status_of(HEAD, trailers(code, text), END)

    assert (error.code, str(error)) == (int(code), told)


def test_an_error_may_come_without_an_answer() -> None:
    only = event(ResponseReceived, headers=[*HEADERS, (b"grpc-status", b"8")])

    assert str(status_of(only, END)) == "RESOURCE_EXHAUSTED"


def test_an_error_counts_for_more_than_a_message() -> None:
    assert status_of(HEAD, BODY, trailers(b"10"), END).code == 10
