"""Answers of RDMA netlink, built by hand from rdma/rdma_netlink.h, and a link that gives them."""

import struct
from dataclasses import dataclass, field

from rightslice.exporter.host.net.netlink_messages import attribute

GET, SYS_GET, RES_GET, RES_QP_GET = 0x1401, 0x1406, 0x1409, 0x140A
NESTED = 0x8000
UNKNOWN = attribute(0x3FF0, b"of a later kernel")


def u8(attribute_type: int, value: int) -> bytes:
    return attribute(attribute_type, struct.pack("=B", value))


def u32(attribute_type: int, value: int) -> bytes:
    return attribute(attribute_type, struct.pack("=I", value))


def u64(attribute_type: int, value: int) -> bytes:
    # Before a number of 64 bits the kernel puts an empty attribute where that aligns it.
    return attribute(0, b"") + attribute(attribute_type, struct.pack("=Q", value))


def name(attribute_type: int, value: str) -> bytes:
    return attribute(attribute_type, value.encode() + b"\0")


def device(index: int = 0, device_name: str = "mlx5_0") -> bytes:
    head = u32(1, index) + name(2, device_name) + u32(3, 1) + u64(4, 0x1234)
    return head + name(5, "28.39.1002") + u64(6, 7) + u8(14, 1) + name(67, "roce") + UNKNOWN


def queue_pair(number: int, owner: bytes, *, port: bytes = u32(3, 1), qp_type: int = 2) -> bytes:
    head = port + u32(21, number) + u32(22, 99) + u32(24, 5) + u8(25, 0)
    return attribute(NESTED | 20, head + u8(26, qp_type) + u8(27, 3) + UNKNOWN + owner)


def table(*queue_pairs: bytes, index: int = 0, device_name: str = "mlx5_0") -> bytes:
    nested = attribute(NESTED | 19, b"".join(queue_pairs))
    return u32(1, index) + name(2, device_name) + nested


def summary(device_name: str, **counts: int) -> bytes:
    entries = (
        attribute(16, name(17, each) + u64(18, count) + UNKNOWN) for each, count in counts.items()
    )
    return u32(1, 0) + name(2, device_name) + attribute(15, b"".join(entries))


@dataclass
class FakeLink:
    """Answers by message type and payload, or by type alone; an error is raised."""

    answers: dict[tuple[int, bytes] | int, list[bytes] | OSError]
    asked: list[int] = field(default_factory=list)

    def request(self, message_type: int, payload: bytes) -> list[bytes]:
        self.asked.append(message_type)
        answer = self.answers.get((message_type, payload), self.answers.get(message_type))
        assert answer is not None, f"unexpected request {message_type:#x} {payload!r}"
        if isinstance(answer, OSError):
            raise answer
        return answer

    def dump(self, message_type: int, payload: bytes = b"") -> list[bytes]:
        return self.request(message_type, payload)
