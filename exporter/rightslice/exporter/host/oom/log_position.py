"""How far a log file was read, told so that it can be found again under another name."""

import os
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

FINGERPRINT_BYTES = 64
DIGEST_BYTES = 8


class Source(Protocol):
    """An open log file, or a compressed one that is read as if it were not."""

    @property
    def identity(self) -> tuple[int, int]:
        """Give device and inode."""

    @property
    def size_bytes(self) -> int | None:
        """Give what there is to read now; None for a compressed file."""

    def status(self) -> os.stat_result: ...

    def read(self, size_bytes: int, offset_bytes: int) -> bytes:
        """Read a part; shorter than asked only at the end."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Tells bytes from others without keeping them: logs may hold what is nobody's business."""

    size_bytes: int
    digest: str

    @classmethod
    def of(cls, data: bytes) -> "Fingerprint":
        return cls(len(data), blake2b(data, digest_size=DIGEST_BYTES).hexdigest())


NO_BYTES = Fingerprint.of(b"")


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a file: what is before it was read.

    An inode is used again once its file is deleted, and a truncated file may have grown past the
    place again: so the file's first bytes and the last ones before the place are told as well.
    """

    device: int
    inode: int
    offset_bytes: int
    head: Fingerprint
    tail: Fingerprint

    @classmethod
    def at(cls, source: Source, offset_bytes: int) -> "Position":
        size_bytes = min(offset_bytes, FINGERPRINT_BYTES)
        head = Fingerprint.of(source.read(size_bytes, 0)) if size_bytes else NO_BYTES
        return cls.after(source, offset_bytes, head)

    @classmethod
    def after(
        cls, source: Source, offset_bytes: int, head: Fingerprint, data: bytes = b""
    ) -> "Position":
        """Give a place in a file whose first bytes are known, and maybe those before the place."""
        size_bytes = min(offset_bytes, FINGERPRINT_BYTES)
        if head.size_bytes < size_bytes:
            return cls.at(source, offset_bytes)
        if size_bytes and len(data) < size_bytes:
            data = source.read(size_bytes, offset_bytes - size_bytes)
        tail = Fingerprint.of(data[len(data) - size_bytes :])
        return cls(*source.identity, offset_bytes, head, tail)

    @property
    def identity(self) -> tuple[int, int]:
        return self.device, self.inode

    def is_in(self, source: Source) -> bool:
        """Tell whether the file has this place, whatever its inode is."""
        size_bytes = source.size_bytes
        if size_bytes is not None and size_bytes < self.offset_bytes:
            return False
        tail_start_bytes = self.offset_bytes - self.tail.size_bytes
        return (
            _has(source, self.head, 0)
            and _has(source, self.tail, tail_start_bytes)
            and self.offset_bytes >= 0
        )


def _has(source: Source, fingerprint: Fingerprint, offset_bytes: int) -> bool:
    if not fingerprint.size_bytes:
        return True
    return Fingerprint.of(source.read(fingerprint.size_bytes, offset_bytes)) == fingerprint
