"""HAMi's files: their head, and what is none."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hami_file import hami_region

from rightslice.exporter.host.owners.hami import READ_BYTES, container_limits, parse_limits

GIB = 1024**3
UUID, OTHER_UUID = (
    "GPU-1a2b3c4d-0000-4000-8000-00000000000a",
    "GPU-1a2b3c4d-0000-4000-8000-0000000b",
)
POD_UID = "3f0c5a1e-6b7d-4a2c-9d18-0e4f7b6c2a91"


def test_limits_are_read_by_uuid() -> None:
    text = hami_region((UUID, 3 * GIB), (OTHER_UUID, 0))

    assert parse_limits(text) == {UUID: 3 * GIB}  # 0 is no limit


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"", id="empty"),
        pytest.param(hami_region((UUID, GIB))[: READ_BYTES - 1], id="too short"),
        pytest.param(hami_region((UUID, GIB), magic=1), id="another file"),
        pytest.param(hami_region((UUID, GIB), magic=0), id="not written yet"),
        pytest.param(hami_region((UUID, GIB), major=2), id="another version"),
        pytest.param(hami_region((UUID, GIB), count=0), id="no card"),
        pytest.param(hami_region((UUID, GIB), count=17), id="too many cards"),
        pytest.param(hami_region((UUID, GIB), count=2), id="a card without a UUID"),
        pytest.param(hami_region(("\x01\x02", GIB)), id="strange bytes"),
        pytest.param(hami_region((UUID, 2**63)), id="no plausible limit"),
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
    (folder / "9f8e.cache").write_bytes(hami_region((UUID, GIB)))

    assert container_limits(tmp_path, POD_UID, "main") == {UUID: GIB}
    assert container_limits(tmp_path, POD_UID, "other") == {}


def test_a_container_that_used_no_card_has_no_file(tmp_path: Path) -> None:
    (tmp_path / f"{POD_UID}_main").mkdir()

    assert container_limits(tmp_path, POD_UID, "main") == {}
