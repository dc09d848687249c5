"""gRPC on a Unix socket: servers that break the rules, and those that use their freedom."""

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hyperframe.frame import (
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PushPromiseFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)
from support.scripted_server import (
    GOOD_END,
    HEAD,
    Peer,
    Script,
    ScriptedServer,
    answering,
    answering_all,
    as_bytes,
    data,
    good_answer,
    headers,
    message,
    settings,
)

from rightslice.exporter.host.kubelet.grpc_answer import (
    AnswerError,
    AnswerTooLargeError,
    StatusError,
)
from rightslice.exporter.host.kubelet.grpc_connection import LAST_STREAM_ID, GrpcConnection

LARGEST_ANSWER_BYTES = 1024 * 1024
GOES_NOW = GoAwayFrame(0, last_stream_id=0, error_code=11, additional_data=b"too_many_pings")
GOES_LATER = GoAwayFrame(0, last_stream_id=2**31 - 1)


@pytest.fixture
def opened(socket_path: Path) -> Callable[[], GrpcConnection]:
    return lambda: GrpcConnection(socket_path, LARGEST_ANSWER_BYTES)


Opened = Callable[[], GrpcConnection]


def ask(connection: GrpcConnection, timeout_seconds: float = 4.0) -> bytes:
    return bytes(connection.call("/a.B/C", time.monotonic() + timeout_seconds))


def is_usable(connection: GrpcConnection) -> bool:
    return connection.is_usable(time.monotonic() + 4.0)


def asked(socket_path: Path, script: Script, timeout_seconds: float = 4.0) -> bytes:
    """Ask once, on a connection of its own."""
    with ScriptedServer(socket_path, script):
        connection = GrpcConnection(socket_path, LARGEST_ANSWER_BYTES)
        try:
            return ask(connection, timeout_seconds)
        finally:
            connection.close()


def test_a_request_is_what_grpc_wants(socket_path: Path) -> None:
    requests: list[object] = []

    def script(peer: Peer) -> None:
        requests.append(peer.wait_for_request())
        sent = peer.wait_for(DataFrame)
        requests.extend((sent.data, "END_STREAM" in sent.flags))
        peer.send(settings(), *good_answer(b"abc"))

    assert asked(socket_path, script, timeout_seconds=2.5) == b"abc"
    told, body, is_end = requests
    assert isinstance(told, dict)
    assert 1000 < int(told.pop("grpc-timeout").removesuffix("m")) <= 3500
    assert told == {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/a.B/C",
        ":authority": "localhost",
        "te": "trailers",
        "content-type": "application/grpc",
        "user-agent": "rightslice-exporter",
    }
    assert (body, is_end) == (b"\0\0\0\0\0", True)


@pytest.mark.parametrize(
    ("pieces", "told"),
    [
        pytest.param([b"\xff" * 64], "it is not in HTTP/2", id="noise"),
        pytest.param([HeadersFrame(1, b"\xff" * 9, flags=["END_HEADERS"])], "rules", id="headers"),
        pytest.param([data(b"x")], "rules", id="body before headers"),
        pytest.param([headers(HEAD, 2)], "rules", id="stream of the server's"),
        pytest.param([settings({4: 2**31})], "rules", id="impossible setting"),
        pytest.param([PushPromiseFrame(1, 2, b"", flags=["END_HEADERS"])], "rules", id="push"),
        pytest.param([b"\0\0\x01" + bytes(7)], "rules", id="body of no stream"),
        pytest.param([headers([(":status", "404")])], "HTTP status 404", id="not found"),
        pytest.param([headers([(":status", "200")])], "content type missing", id="no type"),
        pytest.param(
            [headers([(":status", "200"), ("content-type", "text/html")])],
            "content type text/html",
            id="a page",
        ),
        pytest.param([headers(HEAD, is_end=True)], "without a status", id="headers only"),
        pytest.param(
            [headers(HEAD), data(message(b""), is_end=True)], "without a status", id="no trailers"
        ),
        pytest.param(
            [headers(HEAD), headers([("grpc-status", "-1")], is_end=True)],
            "without a status",
            id="status that is no number",
        ),
        pytest.param([headers([*HEAD, *GOOD_END], is_end=True)], "before its message", id="empty"),
        pytest.param(
            [headers(HEAD), data(message(b"abc")[:-1]), headers(GOOD_END, is_end=True)],
            "before its message",
            id="cut off",
        ),
        pytest.param([headers(HEAD), data(message(b"", flag=1))], "compressed", id="compressed"),
        pytest.param(
            [headers(HEAD), data(message(b"a") + message(b""))], "more than one", id="two messages"
        ),
    ],
)
def test_what_is_no_answer_is_told_at_once(
    pieces: list[Frame | bytes], told: str, socket_path: Path
) -> None:
    with pytest.raises(AnswerError, match=told):
        asked(socket_path, answering(*pieces))


def test_a_server_of_another_protocol_is_told(socket_path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        peer.hang_up()

    with pytest.raises(AnswerError, match="it is not in HTTP/2"):
        asked(socket_path, script)


def test_a_message_that_is_too_large_is_not_waited_for(socket_path: Path) -> None:
    announced = b"\0" + (LARGEST_ANSWER_BYTES + 1).to_bytes(4, "big")

    with pytest.raises(AnswerTooLargeError, match="1048577 bytes of at most 1048576"):
        asked(socket_path, answering(headers(HEAD), data(announced)))


@pytest.mark.parametrize(
    ("pieces", "told"),
    [
        pytest.param([RstStreamFrame(1, 8)], "reset with code 8", id="reset"),
        pytest.param([*good_answer(b"x")[:2], RstStreamFrame(1, 2)], "code 2", id="reset midway"),
        pytest.param([GOES_NOW], "goes away with code 11", id="goes"),
        pytest.param([GOES_NOW, *good_answer()], "goes away", id="goes, says more"),
        pytest.param([headers([(":status", "503")])], "HTTP status 503", id="away"),
    ],
)
def test_a_server_that_gives_up_is_not_waited_for(
    pieces: list[Frame | bytes], told: str, socket_path: Path
) -> None:
    with pytest.raises(ConnectionError, match=told):
        asked(socket_path, answering(*pieces))


@pytest.mark.parametrize("pieces", [[], good_answer(b"x")[:1], good_answer(b"x")[:2]])
def test_a_server_that_hangs_up_is_not_waited_for(pieces: list[Frame], socket_path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.wait_for_request()
        peer.send(settings(), *pieces)
        peer.hang_up()

    with pytest.raises(ConnectionError):
        asked(socket_path, script)


def test_a_server_that_hung_up_before_it_was_asked_is_heard_first(
    socket_path: Path, opened: Opened
) -> None:
    refusal = headers([*HEAD, ("grpc-status", "8")], is_end=True)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(socket_path))
        listening.listen()
        connection = opened()
        server, _ = listening.accept()
        with server:
            server.sendall(as_bytes([settings(), refusal]))

        with pytest.raises(StatusError, match="RESOURCE_EXHAUSTED"):
            ask(connection)
        connection.close()


def test_a_server_that_floods_between_calls_is_left_within_the_deadline(
    socket_path: Path, opened: Opened
) -> None:
    def script(peer: Peer) -> None:
        answering(*good_answer())(peer)
        while True:
            peer.send(*[settings()] * 1000)

    with ScriptedServer(socket_path, script):
        connection = opened()
        ask(connection)
        before_seconds = time.monotonic()

        # Whether it may be used depends on who is faster; how long that takes to tell does not.
        connection.is_usable(before_seconds + 0.1)
        assert time.monotonic() - before_seconds < 1.0
        connection.close()


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(as_bytes([headers(HEAD)]), id="body"),
    ],
)
def test_an_answer_that_trickles_is_left_within_the_deadline(
    start: bytes, socket_path: Path
) -> None:
    def script(peer: Peer) -> None:
        peer.send(settings(), start)
        # A frame of 10,000 bytes of another kind each time, byte by byte.
        for byte in b"\x00\x27\x10\xee\x00\x00\x00\x00\x00" + bytes(10_000):
            time.sleep(0.01)
            peer.send(bytes([byte]))

    before_seconds = time.monotonic()

    with pytest.raises(TimeoutError):
        asked(socket_path, script, timeout_seconds=0.1)
    assert time.monotonic() - before_seconds < 1.0


def test_a_server_that_only_pings_is_left_within_the_deadline(socket_path: Path) -> None:
    def script(peer: Peer) -> None:
        while True:
            peer.send(*[PingFrame(0, b"12345678")] * 100)
            peer.wait_for(PingFrame, is_ack=True)

    with pytest.raises(TimeoutError):
        asked(socket_path, script, timeout_seconds=0.1)


def test_an_answer_may_come_byte_by_byte(socket_path: Path) -> None:
    def script(peer: Peer) -> None:
        for byte in as_bytes([settings(), *good_answer(b"abc")]):
            peer.send(bytes([byte]))

    assert asked(socket_path, script) == b"abc"


def test_pings_and_settings_are_answered(socket_path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.wait_for_request()
        peer.send(settings({1: 0, 3: 1, 5: 32768, 0x99: 7}), PingFrame(0, b"12345678"))
        peer.wait_for(SettingsFrame, is_ack=True)
        opaque = peer.wait_for(PingFrame, is_ack=True).opaque_data
        peer.send(*good_answer(opaque))

    assert asked(socket_path, script) == b"12345678"


def test_what_need_not_be_understood_is_passed_over(socket_path: Path) -> None:
    unknown = b"\x00\x00\x02\xee\x00\x00\x00\x00\x01hi"
    early = headers([(":status", "103"), ("link", "x")])
    padded = DataFrame(1, message(b"abc"), pad_length=200, flags=["PADDED"])
    end = headers(GOOD_END, is_end=True)
    script = answering(unknown, early, headers(HEAD), padded, unknown, end)

    assert asked(socket_path, script) == b"abc"


def test_a_request_waits_until_the_server_has_room_for_it(
    socket_path: Path, opened: Opened
) -> None:
    def script(peer: Peer) -> None:
        peer.send(settings())
        peer.wait_for(DataFrame)
        peer.send(*good_answer(b"first"), settings({4: 0}))
        stream_id = peer.wait_for(HeadersFrame).stream_id
        peer.send(WindowUpdateFrame(stream_id, 3), PingFrame(0, b"12345678"))
        peer.wait_for(PingFrame, is_ack=True)
        peer.send(WindowUpdateFrame(stream_id, 100))
        peer.send(*good_answer(peer.wait_for(DataFrame).data, stream_id))

    with ScriptedServer(socket_path, script):
        connection = opened()
        assert ask(connection) == b"first"
        assert is_usable(connection)
        assert ask(connection) == b"\0\0\0\0\0"
        connection.close()


def test_an_answer_before_the_question_uses_the_connection_up(
    socket_path: Path, opened: Opened
) -> None:
    def script(peer: Peer) -> None:
        peer.send(*good_answer(b"first", peer.wait_for(HeadersFrame).stream_id), settings({4: 0}))
        peer.send(*good_answer(b"second", peer.wait_for(HeadersFrame).stream_id))

    with ScriptedServer(socket_path, script):
        connection = opened()
        ask(connection)
        assert is_usable(connection)
        assert ask(connection) == b"second"
        assert not is_usable(connection)
        connection.close()


def test_a_server_that_takes_no_calls_is_told(socket_path: Path, opened: Opened) -> None:
    with ScriptedServer(socket_path, answering(*good_answer(), settings({3: 0}))):
        connection = opened()
        ask(connection)

        with pytest.raises(ConnectionRefusedError, match="takes no calls at present"):
            ask(connection)


def test_a_server_that_goes_after_the_answer_is_heard_to_the_end(
    socket_path: Path, opened: Opened
) -> None:
    with ScriptedServer(socket_path, answering(GOES_LATER, *good_answer(b"abc"))):
        connection = opened()

        assert ask(connection) == b"abc"
        assert not is_usable(connection)
        connection.close()


@pytest.mark.parametrize(
    ("last", "may_ask"),
    [
        pytest.param([], True, id="nothing"),
        pytest.param([settings(), PingFrame(0, b"12345678")], True, id="a ping"),
        pytest.param([RstStreamFrame(1, 0)], True, id="a reset of what is over"),
        pytest.param([GOES_LATER], False, id="that it goes"),
        pytest.param([b"\xff" * 9], False, id="noise"),
    ],
)
def test_what_comes_between_two_calls_tells_whether_there_may_be_another(
    last: list[Frame | bytes], may_ask: bool, socket_path: Path, opened: Opened
) -> None:
    is_answered, is_told = threading.Event(), threading.Event()

    def script(peer: Peer) -> None:
        answering(*good_answer())(peer)
        is_answered.wait(4)
        peer.send(*last)
        is_told.set()

    with ScriptedServer(socket_path, script):
        connection = opened()
        ask(connection)
        is_answered.set()
        assert is_told.wait(4)

        assert is_usable(connection) is may_ask
        connection.close()


def test_a_connection_is_used_up_after_a_thousand_calls(socket_path: Path, opened: Opened) -> None:
    with ScriptedServer(socket_path, answering_all()):
        connection = opened()
        count = 0
        while is_usable(connection):
            ask(connection)
            count += 1
        connection.close()

    assert count == (LAST_STREAM_ID + 1) / 2


def test_a_failed_connection_is_closed(socket_path: Path, opened: Opened) -> None:
    with ScriptedServer(socket_path, answering(RstStreamFrame(1, 8))):
        connection = opened()
        with pytest.raises(ConnectionError):
            ask(connection)

        assert not is_usable(connection)
        with pytest.raises(OSError, match="Bad file descriptor"):
            ask(connection)


def test_closing_ends_a_call_that_waits(socket_path: Path, opened: Opened) -> None:
    is_asked = threading.Event()

    def script(peer: Peer) -> None:
        peer.wait_for_request()
        is_asked.set()

    with ScriptedServer(socket_path, script):
        connection = opened()

        def close() -> None:
            is_asked.wait(4)
            connection.close()

        closing = threading.Thread(target=close)
        closing.start()
        with pytest.raises(ConnectionResetError):
            ask(connection)
        closing.join()
