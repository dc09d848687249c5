"""HAMi's files: their head, and what is none."""

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.exporter.host.owners.hami import MAGIC, READ_BYTES, container_limits, parse_limits

GIB = 1024**3
UUID, OTHER_UUID = (
    "GPU-1a2b3c4d-0000-4000-8000-00000000000a",
    "GPU-1a2b3c4d-0000-4000-8000-0000000b",
)
POD_UID = "3f0c5a1e-6b7d-4a2c-9d18-0e4f7b6c2a91"


def region(
    *cards: tuple[str, int], magic: int = MAGIC, major: int = 1, count: int | None = None
) -> bytes:
    """Write the head of the file as the C structure has it, and a part of what follows."""
    head = struct.pack("<iIIiQ32s", magic, major, 2, 1, 4711, b"\7" * 32)
    head += struct.pack("<Q", len(cards) if count is None else count)
    uuids = b"".join(uuid.encode().ljust(96, b"\0") for uuid, _ in cards).ljust(16 * 96, b"\0")
    limits = struct.pack(f"<{len(cards)}Q", *(limit for _, limit in cards)).ljust(16 * 8, b"\0")
    return head + uuids + limits + b"\x64" * 500


def test_limits_are_read_by_uuid() -> None:
    text = region((UUID, 3 * GIB), (OTHER_UUID, 0))

    assert parse_limits(text) == {UUID: 3 * GIB}  # 0 is no limit


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"", id="empty"),
        pytest.param(region((UUID, GIB))[: READ_BYTES - 1], id="too short"),
        pytest.param(region((UUID, GIB), magic=1), id="another file"),
        pytest.param(region((UUID, GIB), magic=0), id="not written yet"),
        pytest.param(region((UUID, GIB), major=2), id="another version"),
        pytest.param(region((UUID, GIB), count=0), id="no card"),
        pytest.param(region((UUID, GIB), count=17), id="too many cards"),
        pytest.param(region((UUID, GIB), count=2), id="a card without a UUID"),
        pytest.param(region(("\x01\x02", GIB)), id="strange bytes"),
        pytest.param(region((UUID, 2**63)), id="no plausible limit"),
    ],
)
def test_what_makes_no_sense_is_not_told(text: bytes) -> None:
    assert parse_limits(text) == {}


@given(st.binary() | st.binary(min_size=READ_BYTES, max_size=READ_BYTES))
def test_no_bytes_break_the_parser(text: bytes) -> None:
    parse_limits(text)


def test_the_file_is_in_the_folder_of_the_container(tmp_path: Path) -> None:
    folder = tmp_path / f"{POD_UID}_main"
    folder.mkdir()
    (folder / "libvgpu.so").touch()
    (folder / "9f8e.cache").write_bytes(region((UUID, GIB)))

    assert container_limits(tmp_path, POD_UID, "main") == {UUID: GIB}
    assert container_limits(tmp_path, POD_UID, "other") == {}


def test_a_container_that_used_no_card_has_no_file(tmp_path: Path) -> None:
    (tmp_path / f"{POD_UID}_main").mkdir()

    assert container_limits(tmp_path, POD_UID, "main") == {}
