"""Priority flow control over DCB netlink: decoded, refused, and asked of the real kernel."""

import ast
import errno
import shutil
import struct
import subprocess
import sys

import pytest
from support.netlink import end, opener, part, played

from rightslice.exporter.host.net.dcb import Pfc, decode_pfc, pfc_of
from rightslice.exporter.host.net.netlink import Netlink
from rightslice.exporter.host.net.netlink_messages import attribute, messages
from rightslice.exporter.host.reading_error import ReadingError

IEEE = 13
IEEE_ETS, IEEE_PFC, IEEE_MAXRATE = 1, 2, 8
SENT = (0, 1, 2, 3_000_000_000_000, 4, 5, 6, 7)
RECEIVED = (10, 11, 12, 2**64 - 1, 14, 15, 16, 17)
# struct ieee_pfc by hand: capability 8, priorities 3 and 4, mbc 1, a hole, delay 700, a hole.
PFC = bytes([8, 0b0001_1000, 1, 0xEE]) + struct.pack("=H", 700) + b"\xee\xee"
PFC += struct.pack("=8Q", *SENT) + struct.pack("=8Q", *RECEIVED)
HEADER = bytes([0, 21, 0, 0]) + attribute(1, b"eth0\0")


def answer(ieee: bytes) -> bytes:
    return HEADER + attribute(IEEE, ieee)


def asking(*datagrams: bytes) -> Netlink:
    return Netlink(0, open_socket=opener(played(*datagrams)))


def test_priorities_and_frames_are_where_the_kernel_puts_them() -> None:
    ieee = attribute(IEEE_ETS, bytes(59)) + attribute(IEEE_PFC, PFC) + attribute(99, b"new")

    pfc = pfc_of(asking(part(answer(ieee)), end()), "eth0")

    assert pfc == Pfc(
        enabled_bitmap=0b11000,
        capable_class_count=8,
        sent_frame_counts=SENT,
        received_frame_counts=RECEIVED,
    )
    assert pfc.enabled_priorities == (3, 4)


def test_the_netdev_is_asked_for_by_name() -> None:
    kernel = played(part(answer(b"")), end())

    pfc_of(Netlink(0, open_socket=opener(kernel)), "enp1s0f0np0")

    [sent] = messages(kernel.sent[0])
    assert sent.type == 78
    assert sent.payload == bytes([0, 21, 0, 0]) + attribute(1, b"enp1s0f0np0\0")


def test_no_priority_enabled_is_something_else_than_unknown() -> None:
    pfc = decode_pfc(answer(attribute(IEEE_PFC, bytes(136))))

    assert pfc is not None
    assert pfc.enabled_priorities == ()


def test_fields_that_later_kernels_add_are_passed_over() -> None:
    assert decode_pfc(answer(attribute(IEEE_PFC, PFC + b"later"))) == decode_pfc(
        answer(attribute(IEEE_PFC, PFC))
    )


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(answer(attribute(IEEE_MAXRATE, bytes(64))), id="no PFC among the rest"),
        pytest.param(answer(b""), id="nothing, as in CEE mode"),
        pytest.param(HEADER, id="no IEEE state at all"),
    ],
)
def test_a_driver_that_does_not_tell_gives_none(payload: bytes) -> None:
    assert decode_pfc(payload) is None


def test_a_driver_without_dcb_gives_none() -> None:
    assert pfc_of(asking(end(-errno.EOPNOTSUPP)), "eth0") is None


@pytest.mark.parametrize(
    ("payload", "complaint"),
    [
        pytest.param(b"\0\x15", "a DCB message of 2 bytes", id="no header"),
        pytest.param(answer(attribute(IEEE_PFC, PFC[:-1])), "PFC of 135 bytes", id="short PFC"),
        pytest.param(answer(b"\0\0\2\0"), "has 0 bytes, of 4", id="nested length 0"),
        pytest.param(answer(b"\xff\xff\2\0"), "65535 bytes, of 4", id="nested length too long"),
        pytest.param(HEADER + b"\x20\0\x0d\0", "32 bytes, of 4", id="outer length too long"),
    ],
)
def test_an_answer_of_another_layout_is_malformed(payload: bytes, complaint: str) -> None:
    with pytest.raises(ReadingError, match=complaint) as caught:
        pfc_of(asking(part(payload), end()), "eth0")

    assert caught.value.reason == "malformed"


def test_an_acknowledgement_alone_is_malformed() -> None:
    with pytest.raises(ReadingError, match="DCB of eth0: 0 messages, expected 1"):
        pfc_of(asking(end()), "eth0")


@pytest.mark.parametrize(
    ("code", "reason", "complaint"),
    [
        pytest.param(errno.ENODEV, "namespace", "no such netdev .*hostNetwork", id="namespace"),
        pytest.param(errno.EPERM, "permission", "DCB of eth0: .*errno 1", id="permission"),
        pytest.param(errno.EINVAL, "refused", "DCB of eth0: .*errno 22", id="anything else"),
    ],
)
def test_a_refusal_says_why(code: int, reason: str, complaint: str) -> None:
    with pytest.raises(ReadingError, match=complaint) as caught:
        pfc_of(asking(end(-code)), "eth0")

    assert caught.value.reason == reason


def test_the_real_kernel_has_no_pfc_for_the_loopback() -> None:
    link = Netlink(0)

    assert pfc_of(link, "lo") is None
    with pytest.raises(ReadingError, match="no such netdev"):
        pfc_of(link, "nosuchdev0")
    link.close()


ASK_IN_NAMESPACE = """
import sys
from rightslice.exporter.host.net.dcb import pfc_of
from rightslice.exporter.host.net.netlink import Netlink
from rightslice.exporter.host.reading_error import ReadingError

def told(netdev):
    try:
        return pfc_of(Netlink(0), netdev)
    except ReadingError as error:
        return error.reason

print({netdev: told(netdev) for netdev in sys.argv[1:]})
"""


def test_the_real_kernel_tells_only_of_netdevs_in_the_same_namespace() -> None:
    unshare = next(
        (
            how
            for how in (("unshare", "-n"), ("unshare", "-rn"))
            if shutil.which("unshare")
            and subprocess.run([*how, "true"], check=False).returncode == 0
        ),
        None,
    )
    if unshare is None or shutil.which("ip") is None:
        pytest.skip("needs unshare and ip, and root or user namespaces, for a network namespace")
    script = 'ip link add v0 type veth peer name v1 && exec "$@"'
    command = [sys.executable, "-c", ASK_IN_NAMESPACE, "lo", "v0", "elsewhere0"]
    made = subprocess.run(
        [*unshare, "sh", "-c", script, "sh", *command], capture_output=True, text=True, check=False
    )

    assert made.returncode == 0, made.stderr
    assert ast.literal_eval(made.stdout) == {"lo": None, "v0": None, "elsewhere0": "namespace"}
