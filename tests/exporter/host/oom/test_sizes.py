import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.exporter.host.oom.sizes import is_plausible_bytes, parse_size_bytes


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("8.13 GiB", 8_729_521_029),
        ("448.00 KiB", 458_752),
        ("0 bytes", 0),
        ("1 byte", 1),
        ("25,600,000 bytes", 25_600_000),
        ("1,234.5 KiB", 1_264_128),
        ("7.81G", 8_385_923_645),
        ("64.00MiB", 67_108_864),
        ("98.000244MB", 102_760_704),
        ("33554432B", 33_554_432),
        ("512 kB", 524_288),
        ("6291456", 6_291_456),
        ("1900,00 MiB", 1_992_294_400),
        ("1.25TiB", 1_374_389_534_720),
        ("2.00 GiB.", 2_147_483_648),
    ],
)
def test_a_size_is_read_in_bytes(text: str, size_bytes: int) -> None:
    assert parse_size_bytes(text) == size_bytes


@pytest.mark.parametrize(
    "text",
    ["", "GiB", "-1.05 GiB", "1.2.3 MiB", "8192 tokens", "nan", "1,23,4", "0x10", "1e9", "٣ GiB"],
)
def test_what_is_no_size_is_none(text: str) -> None:
    assert parse_size_bytes(text) is None


def test_more_than_a_pebibyte_is_a_counting_error() -> None:
    assert is_plausible_bytes(1 << 50)
    assert is_plausible_bytes(0)
    assert not is_plausible_bytes((1 << 50) + 1)


@given(st.text())
def test_no_text_makes_the_reading_of_sizes_fail(text: str) -> None:
    size_bytes = parse_size_bytes(text)

    assert size_bytes is None or size_bytes >= 0


@given(st.integers(0, 10**20), st.sampled_from(["", " bytes", "B", " B"]))
def test_whole_bytes_are_exact(size_bytes: int, unit: str) -> None:
    assert parse_size_bytes(f"{size_bytes}{unit}") == size_bytes
    assert parse_size_bytes(f"{size_bytes:,}{unit}") == size_bytes
