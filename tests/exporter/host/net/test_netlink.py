"""Asking the kernel: answers of one and many datagrams, refusals, losses, and the real kernel."""

import errno
import itertools
import socket
import struct
import time

import pytest
from support.netlink import (
    INTERRUPTED,
    MULTIPART,
    Datagram,
    PlayedSocket,
    done,
    end,
    opener,
    part,
    played,
)

from rightslice.exporter.host.net import netlink
from rightslice.exporter.host.net.netlink import Netlink, open_socket, reading_error
from rightslice.exporter.host.net.netlink_messages import attributes, message, messages, text
from rightslice.exporter.host.reading_error import ReadingError

RTM_GETLINK = 18
INTERFACE_HEADER_BYTES = 16
INTERFACE_NAME = 3
ASKED = 0x4001


def asking(*sockets: PlayedSocket | OSError) -> Netlink:
    return Netlink(20, open_socket=opener(*sockets))


def test_a_request_is_sent_and_answered_up_to_its_acknowledgement() -> None:
    kernel = played(part(b"what"), end())

    assert asking(kernel).request(ASKED, b"which") == [b"what"]
    assert kernel.sent == [message(ASKED, 0x01 | 0x04, 1, b"which")]


def test_a_dump_is_read_over_many_datagrams() -> None:
    kernel = played(
        part(b"1111", flags=MULTIPART) + part(b"2222", flags=MULTIPART),
        part(b"3333", flags=MULTIPART),
        done(),
    )

    assert asking(kernel).dump(ASKED) == [b"1111", b"2222", b"3333"]
    [sent] = messages(kernel.sent[0])
    assert sent.flags == 0x01 | 0x300


def test_nothing_at_all_is_an_answer() -> None:
    assert asking(played(done())).dump(ASKED) == []


def test_one_socket_serves_request_after_request_with_rising_sequence() -> None:
    kernel = played(part(b"one.", 1) + end(0, 1), part(b"two.", 2) + end(0, 2))
    link = asking(kernel)

    assert [link.request(ASKED, b""), link.request(ASKED, b"")] == [[b"one."], [b"two."]]


def test_what_belongs_to_another_request_is_passed_over() -> None:
    kernel = played(part(b"late", 77) + end(-errno.EPERM, 77), part(b"mine"), end())

    assert asking(kernel).request(ASKED, b"") == [b"mine"]


def test_what_another_process_sends_is_passed_over() -> None:
    kernel = played(Datagram(part(b"fake") + end(), port=4711), part(b"real"), end())

    assert asking(kernel).request(ASKED, b"") == [b"real"]


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(end(-errno.EOPNOTSUPP), id="error"),
        pytest.param(done(-errno.EOPNOTSUPP), id="in the end of a dump"),
    ],
)
def test_a_refusal_is_the_error_of_a_system_call(refusal: bytes) -> None:
    with pytest.raises(OSError, match="not supported") as caught:
        asking(played(part(b"half") + refusal)).dump(ASKED)

    assert caught.value.errno == errno.EOPNOTSUPP


@pytest.mark.parametrize(
    ("spoilt", "reason"),
    [
        pytest.param(Datagram(part(b"cut."), flags=socket.MSG_TRUNC), "too_large", id="truncated"),
        pytest.param(OSError(errno.ENOBUFS, "no buffer"), "incomplete", id="overrun socket"),
        pytest.param(message(4, 0, 1, b""), "incomplete", id="lost by the kernel"),
        pytest.param(message(2, 0, 1, b"\0"), "malformed", id="error without its code"),
        pytest.param(part(b"whole")[:-1], "malformed", id="message cut off"),
    ],
)
def test_half_an_answer_is_none_and_the_next_socket_is_a_fresh_one(
    spoilt: bytes | Datagram | OSError, reason: str
) -> None:
    broken = played(part(b"half", flags=MULTIPART), spoilt, done())
    link = asking(broken, played(done(0, 2)))

    with pytest.raises(ReadingError) as caught:
        link.dump(ASKED)

    assert caught.value.reason == reason
    assert broken.is_closed
    assert link.dump(ASKED) == []


def test_a_silent_kernel_is_given_up() -> None:
    with pytest.raises(ReadingError, match="no answer within 5 s") as caught:
        asking(played(part(b"half"))).request(ASKED, b"")

    assert caught.value.reason == "timeout"


def test_a_kernel_that_trickles_is_given_up() -> None:
    kernel = played(*[part(b"more", flags=MULTIPART)] * 10, done())
    clock = itertools.count(step=2)

    with pytest.raises(ReadingError, match="no answer within 5 s"):
        Netlink(20, open_socket=opener(kernel), now_seconds=lambda: next(clock)).dump(ASKED)


def test_an_answer_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netlink, "ANSWER_LIMIT_BYTES", 100)
    kernel = played(*[part(bytes(50), flags=MULTIPART)] * 3, done())

    with pytest.raises(ReadingError, match="no end after 132 bytes") as caught:
        asking(kernel).dump(ASKED)

    assert caught.value.reason == "too_large"


def test_a_dump_that_changed_meanwhile_is_read_again() -> None:
    kernel = played(
        part(b"old.", flags=MULTIPART),
        done(flags=INTERRUPTED),
        part(b"new.", 2, MULTIPART),
        done(0, 2),
    )

    assert asking(kernel).dump(ASKED) == [b"new."]


def test_a_dump_that_changes_each_time_is_no_answer() -> None:
    kernel = played(
        part(b"old.", 1, MULTIPART | INTERRUPTED), done(0, 1), done(0, 2, INTERRUPTED), done(0, 3)
    )

    with pytest.raises(ReadingError, match="changed each time") as caught:
        asking(kernel).dump(ASKED)

    assert caught.value.reason == "incomplete"


@pytest.mark.parametrize(
    ("code", "reason", "remedy"),
    [
        pytest.param(errno.EPERM, "permission", "allow AF_NETLINK", id="profile"),
        pytest.param(errno.EAFNOSUPPORT, "permission", "service unit", id="service unit"),
        pytest.param(errno.ECONNREFUSED, "namespace", "hostNetwork: true", id="namespace"),
        pytest.param(errno.EINVAL, "refused", r"errno 22\)$", id="anything else"),
    ],
)
def test_a_refusal_has_a_word_and_a_remedy(code: int, reason: str, remedy: str) -> None:
    error = reading_error("RDMA devices", OSError(code, "no"))

    assert error.reason == reason
    with pytest.raises(ReadingError, match=remedy):
        raise error


def test_the_real_kernel_lists_the_network_devices() -> None:
    link = Netlink(socket.NETLINK_ROUTE)
    answers = link.dump(RTM_GETLINK, bytes(INTERFACE_HEADER_BYTES))
    link.close()

    found = [dict(attributes(each[INTERFACE_HEADER_BYTES:])) for each in answers]
    names = {text(each[INTERFACE_NAME]) for each in found}
    assert names == {name for _, name in socket.if_nameindex()}


def test_the_real_kernel_finds_one_device_and_refuses_another() -> None:
    link = Netlink(socket.NETLINK_ROUTE)
    index = struct.pack("=BxHiII", 0, 0, socket.if_nametoindex("lo"), 0, 0)
    missing = struct.pack("=BxHiII", 0, 0, 2**31 - 1, 0, 0)

    [answer] = link.request(RTM_GETLINK, index)
    with pytest.raises(OSError, match="No such device"):
        link.request(RTM_GETLINK, missing)

    assert text(dict(attributes(answer[INTERFACE_HEADER_BYTES:]))[INTERFACE_NAME]) == "lo"
    assert link.request(RTM_GETLINK, index)
    link.close()


def test_a_wait_on_a_real_socket_ends() -> None:
    opened = open_socket(socket.NETLINK_ROUTE, 0.02)
    started_seconds = time.monotonic()

    with pytest.raises(BlockingIOError):
        opened.recvmsg(100)

    opened.close()
    assert 0.01 < time.monotonic() - started_seconds < 5
