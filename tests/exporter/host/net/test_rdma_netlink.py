"""RDMA devices and queue pairs over RDMA netlink: hand-built answers, and the real kernel."""

import contextlib
import errno
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.netlink import MULTIPART, done, opener, part, played
from support.rdma_netlink import (
    GET,
    RES_GET,
    RES_QP_GET,
    SYS_GET,
    UNKNOWN,
    FakeLink,
    device,
    name,
    queue_pair,
    summary,
    table,
    u8,
    u32,
)

from rightslice.exporter.host.net.netlink import Netlink
from rightslice.exporter.host.net.netlink_messages import attribute
from rightslice.exporter.host.net.rdma_netlink import (
    QueuePair,
    RdmaDevice,
    RdmaNetlink,
    decode_device,
    decode_namespace_mode,
    decode_queue_pair_count,
    decode_queue_pairs,
)
from rightslice.exporter.host.reading_error import ReadingError


def test_devices_are_listed() -> None:
    link = FakeLink({GET: [device(), device(1, "mlx5_bond_0")]})

    assert RdmaNetlink(link).devices() == [
        RdmaDevice(0, "mlx5_0", 1, "28.39.1002", "roce"),
        RdmaDevice(1, "mlx5_bond_0", 1, "28.39.1002", "roce"),
    ]


def test_a_device_without_firmware_of_an_old_kernel_is_listed() -> None:
    bare = u32(1, 3) + name(2, "rxe0") + u32(3, 1)

    assert decode_device(bare) == RdmaDevice(3, "rxe0", 1, "", "")


def test_queue_pairs_have_their_owner() -> None:
    answer = table(
        queue_pair(1, name(29, "mlx5_ib"), qp_type=1),
        queue_pair(4711, u32(28, 812)),
        UNKNOWN,
        queue_pair(4712, b"", port=b"", qp_type=255),
    )

    found = RdmaNetlink(FakeLink({(RES_QP_GET, u32(1, 5)): [answer]})).queue_pairs(5)

    assert found == [
        QueuePair("mlx5_0", 1, 1, "GSI", "RTS", None, "mlx5_ib"),
        QueuePair("mlx5_0", 1, 4711, "RC", "RTS", 812, None),
        QueuePair("mlx5_0", None, 4712, "DRIVER", "RTS", None, None),
    ]


def test_a_thread_that_has_ended_is_nobody() -> None:
    [found] = decode_queue_pairs(table(queue_pair(4711, u32(28, 0))))

    assert found.thread_id is None


def test_a_type_and_a_state_without_a_name_are_numbers() -> None:
    odd = attribute(20, u32(21, 1) + u8(26, 77) + u8(27, 78))

    [found] = decode_queue_pairs(table(odd))

    assert (found.type, found.state) == ("77", "78")


def test_all_devices_are_asked_for_their_queue_pairs() -> None:
    link = FakeLink(
        {
            GET: [device(0, "mlx5_0"), device(7, "mlx5_1")],
            (RES_QP_GET, u32(1, 0)): [table(queue_pair(1, u32(28, 10)))],
            (RES_QP_GET, u32(1, 7)): [table(queue_pair(2, u32(28, 20)), device_name="mlx5_1")],
        }
    )

    found = RdmaNetlink(link).queue_pairs()

    assert found is not None
    assert [(each.device, each.thread_id) for each in found] == [("mlx5_0", 10), ("mlx5_1", 20)]


@dataclass
class UnpluggedLink(FakeLink):
    """Has no device any more once a queue pair was asked for."""

    def dump(self, message_type: int, payload: bytes = b"") -> list[bytes]:
        if message_type == GET and RES_QP_GET in self.asked:
            return []
        return self.request(message_type, payload)


def test_a_device_that_goes_away_meanwhile_has_no_queue_pairs() -> None:
    refusal = OSError(errno.EINVAL, "Invalid argument")

    assert RdmaNetlink(UnpluggedLink({GET: [device()], RES_QP_GET: refusal})).queue_pairs() == []


def test_a_device_that_stays_and_does_not_answer_is_an_error() -> None:
    link = FakeLink({GET: [device()], RES_QP_GET: OSError(errno.EIO, "Input/output error")})

    with pytest.raises(ReadingError, match="queue pairs of RDMA device 0: Input/output error"):
        RdmaNetlink(link).queue_pairs()


def test_ten_thousand_queue_pairs_come_in_many_datagrams() -> None:
    datagrams = [
        part(
            table(*(queue_pair(number, u32(28, 100_000 + number)) for number in chunk)),
            flags=MULTIPART,
        )
        for chunk in (range(start, start + 250) for start in range(0, 10_000, 250))
    ]
    link = Netlink(20, open_socket=opener(played(*datagrams, done())))

    found = RdmaNetlink(link).queue_pairs(0)

    assert found is not None
    assert [each.number for each in found] == list(range(10_000))
    assert found[-1].thread_id == 109_999


def test_queue_pairs_are_counted_by_device() -> None:
    link = FakeLink(
        {RES_GET: [summary("mlx5_0", pd=4, cq=9, qp=2**40, mr=1), summary("mlx5_1", qp=0)]}
    )

    assert RdmaNetlink(link).queue_pair_counts() == {"mlx5_0": 2**40, "mlx5_1": 0}


@pytest.mark.parametrize(
    ("mode", "expected"),
    [pytest.param(0, "exclusive", id="exclusive"), pytest.param(1, "shared", id="shared")],
)
def test_the_namespace_mode_is_told(mode: int, expected: str) -> None:
    link = FakeLink({SYS_GET: [u8(66, mode) + u8(97, 1)]})

    assert RdmaNetlink(link).namespace_mode() == expected


def test_an_old_kernel_has_no_namespace_mode() -> None:
    link = FakeLink({SYS_GET: OSError(errno.EINVAL, "Invalid argument")})

    assert RdmaNetlink(link).namespace_mode() is None


def test_a_kernel_without_rdma_gives_none_for_everything() -> None:
    missing = OSError(errno.EPROTONOSUPPORT, "Protocol not supported")
    rdma = RdmaNetlink(Netlink(20, open_socket=opener(*[missing] * 5)))

    assert rdma.devices() is None
    assert rdma.queue_pairs() is None
    assert rdma.queue_pairs(0) is None
    assert rdma.queue_pair_counts() is None
    assert rdma.namespace_mode() is None


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        pytest.param(errno.EPERM, "permission", id="not permitted"),
        pytest.param(errno.EAFNOSUPPORT, "permission", id="address family kept away"),
        pytest.param(errno.ECONNREFUSED, "namespace", id="old kernel, other namespace"),
    ],
)
def test_not_allowed_is_something_else_than_no_rdma(code: int, reason: str) -> None:
    rdma = RdmaNetlink(Netlink(20, open_socket=opener(*[OSError(code, "no")] * 4)))

    for ask in (rdma.devices, rdma.queue_pairs, rdma.queue_pair_counts, rdma.namespace_mode):
        with pytest.raises(ReadingError) as caught:
            ask()
        assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("payload", "complaint"),
    [
        pytest.param(b"", "no RDMA attribute 2", id="empty"),
        pytest.param(table(attribute(20, u8(26, 2))), "no RDMA attribute 27", id="no state"),
        pytest.param(
            table(attribute(20, u8(27, 2) + u32(26, 2))),
            "attribute 26 has 4 bytes, expected 1",
            id="type of another size",
        ),
        pytest.param(table(b"\0\0\x14\0"), "has 0 bytes, of 4", id="nested length 0"),
        pytest.param(
            table(attribute(20, b"\x09\0\x15\0" + bytes(4))), "9 bytes, of 8", id="nested too long"
        ),
        pytest.param(table(attribute(20, b"\xff" * 9)), "65535 bytes, of 9", id="garbage"),
    ],
)
def test_queue_pairs_of_another_layout_are_malformed(payload: bytes, complaint: str) -> None:
    with pytest.raises(ReadingError, match=complaint) as caught:
        list(decode_queue_pairs(payload))

    assert caught.value.reason == "malformed"


def test_each_cut_of_an_answer_is_malformed_and_never_a_shorter_list() -> None:
    whole = table(queue_pair(1, u32(28, 10)), queue_pair(2, u32(28, 20)))
    before_table = len(u32(1, 0) + name(2, "mlx5_0"))

    for size_bytes in range(before_table + 1, len(whole)):
        with pytest.raises(ReadingError):
            list(decode_queue_pairs(whole[:size_bytes]))


@pytest.mark.parametrize("byte", [pytest.param(each, id=f"{each:#x}") for each in (0, 1, 0xFF)])
def test_each_wrong_byte_is_read_or_called_malformed(byte: int) -> None:
    answers = {
        device(): decode_device,
        table(queue_pair(1, u32(28, 10)), queue_pair(2, name(29, "ib_core"))): (
            lambda payload: list(decode_queue_pairs(payload))
        ),
        summary("mlx5_0", pd=1, qp=2): decode_queue_pair_count,
    }

    for answer, decode in answers.items():
        for place in range(len(answer)):
            spoilt = answer[:place] + bytes([byte]) + answer[place + 1 :]
            with contextlib.suppress(ReadingError):  # and no other error
                decode(spoilt)


def test_a_summary_without_queue_pairs_is_malformed() -> None:
    with pytest.raises(ReadingError, match="no count of queue pairs for RDMA device mlx5_0"):
        decode_queue_pair_count(summary("mlx5_0", pd=1))


@pytest.mark.parametrize(
    ("payload", "complaint"),
    [
        pytest.param(u8(66, 2), "RDMA namespace mode 2", id="new mode"),
        pytest.param(UNKNOWN, "no RDMA attribute 66", id="no mode"),
    ],
)
def test_a_mode_that_is_not_known_is_malformed(payload: bytes, complaint: str) -> None:
    with pytest.raises(ReadingError, match=complaint):
        decode_namespace_mode(payload)


def test_the_real_kernel_tells_its_devices_or_that_it_has_no_rdma() -> None:
    rdma = RdmaNetlink()

    devices, queue_pairs = rdma.devices(), rdma.queue_pairs()

    # Asking may have made the kernel load RDMA, so look at sysfs afterwards.
    has_rdma = Path("/sys/class/infiniband").exists()
    assert (devices is not None) == (queue_pairs is not None) == has_rdma
    assert rdma.namespace_mode() in (("shared", "exclusive") if has_rdma else (None,))
