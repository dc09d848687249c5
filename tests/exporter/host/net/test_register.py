"""Narrow registers made one that only grows, and what is a reset."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.exporter.host.net.register import SMALLEST_FRAME_BYTES, Register, registers_fell
from rightslice.facts.nics import EXTENDED, HARDWARE_FILE, SATURATE, WRAP, CounterRow

ROW = CounterRow(
    source=HARDWARE_FILE,
    name="out_of_sequence",
    metric="rdma_out_of_sequence_packets_total",
    multiplier=1,
    labels={},
    is_gauge=False,
    width_bits=32,
    overflow=WRAP,
    available=None,
    preference=0,
    is_summed=False,
    help="Packets.",
)
BYTES = replace(ROW, metric="rdma_receive_bytes_total")
WIDE = replace(ROW, width_bits=64)
EXTENDED_ROW = replace(ROW, width_bits=24, overflow=EXTENDED)
LINK_DOWNED = replace(ROW, width_bits=8, overflow=SATURATE)
STALLED = replace(ROW, metric="rdma_nic_pcie_stalled_reads_ratio", is_gauge=True)
END = 2**32
RATE = 50e9


def taken(register: Register, *raws: int, seconds: float = 1.0, rate: float | None = RATE) -> int:
    """Give what is told after readings so far apart."""
    value = 0
    for raw in raws:
        value = register.take(raw, seconds, rate)
    return value


def test_a_register_that_wraps_goes_on() -> None:
    register = Register(ROW)

    assert taken(register, END - 100, 50) == END + 50
    assert taken(register, 60) == END + 60
    assert register.reset_count == 0


def test_it_goes_on_over_several_wraps() -> None:
    register = Register(ROW)

    assert taken(register, END - 100, 50, END - 1, 2, seconds=60) == 2 * END + 2
    assert register.reset_count == 0


def test_a_step_that_the_port_cannot_have_made_is_a_reset() -> None:
    register = Register(ROW)

    assert taken(register, 1_000_000, 5) == 5
    assert register.reset_count == 1


def test_after_a_reset_what_had_wrapped_is_gone() -> None:
    register = Register(ROW)

    assert taken(register, END - 100, 50, 0) == 0
    assert register.reset_count == 1
    assert taken(register, 7) == 7


@pytest.mark.parametrize("rate", [RATE, 12.5e9, 1.25e9])
def test_what_a_port_can_carry_is_the_limit(rate: float) -> None:
    most = int(rate / SMALLEST_FRAME_BYTES * 1.5)
    before = END - most + 10

    assert taken(Register(ROW), before, 9, rate=rate) == END + 9
    assert taken(Register(ROW), before, 11, rate=rate) == 11


def test_bytes_may_grow_faster_than_frames() -> None:
    step = int(1.25e9 / 2)

    assert taken(Register(BYTES), END - step, 5, rate=1.25e9) == END + 5
    assert taken(Register(ROW), END - step, 5, rate=1.25e9) == 5


def test_where_the_rate_is_not_known_the_fastest_port_is_the_limit() -> None:
    assert taken(Register(ROW), END - 1_000_000_000, 5, rate=None) == END + 5
    assert taken(Register(ROW), END // 2, 5, rate=None) == 5


def test_a_longer_time_allows_a_longer_step() -> None:
    assert taken(Register(ROW), END - END // 4, 5, seconds=1) == 5
    assert taken(Register(ROW), END - END // 4, 5, seconds=10) == END + 5


def test_however_long_ago_a_small_value_that_fell_was_reset() -> None:
    """Else the driver, loaded anew in a pause of our readings, would count 4 thousand million."""
    register = Register(ROW)

    assert taken(register, 70, 3, seconds=3600) == 3
    assert register.reset_count == 1


def test_in_no_time_nothing_wraps() -> None:
    assert taken(Register(ROW), END - 1, 0, seconds=0) == 0


def test_a_sum_of_registers_may_be_above_their_end() -> None:
    register = Register(ROW)

    assert taken(register, 5 * END + 10) == 5 * END + 10
    assert taken(register, 4 * END + 20) == 5 * END + 20
    assert register.reset_count == 0


def test_a_sum_that_falls_to_nothing_began_anew() -> None:
    register = Register(ROW)

    assert taken(register, 5 * END // 2, 3) == 3
    assert register.reset_count == 1


@pytest.mark.parametrize("row", [WIDE, EXTENDED_ROW], ids=["64 bits", "widened by the driver"])
def test_what_does_not_wrap_was_reset_when_it_falls(row: CounterRow) -> None:
    register = Register(row)

    assert taken(register, 2**24 - 1, 0) == 0
    assert register.reset_count == 1


@pytest.mark.parametrize(("raw", "is_saturated"), [(254, False), (255, True), (0, False)])
def test_a_register_at_its_end_says_so(raw: int, is_saturated: bool) -> None:
    register = Register(LINK_DOWNED)

    assert taken(register, 3, raw) == raw
    assert register.is_saturated == is_saturated


def test_somebody_who_resets_a_saturated_register_is_seen() -> None:
    register = Register(LINK_DOWNED)
    taken(register, 255, 1)

    assert not register.is_saturated
    assert register.reset_count == 1


def test_a_register_that_wraps_is_never_saturated() -> None:
    register = Register(ROW)
    taken(register, END - 1)

    assert not register.is_saturated


def test_a_register_that_was_never_read_is_not_saturated() -> None:
    assert not Register(LINK_DOWNED).is_saturated


def test_what_fell_beside_neighbours_that_began_anew_did_not_wrap() -> None:
    register = Register(ROW)
    taken(register, END - 100)

    assert register.take(50, 1.0, RATE, began_anew=True) == 50
    assert register.reset_count == 1


def test_what_did_not_fall_goes_on_beside_neighbours_that_began_anew() -> None:
    register = Register(ROW)
    taken(register, END - 100, 50)

    assert register.take(60, 1.0, RATE, began_anew=True) == END + 60
    assert register.reset_count == 0


@pytest.mark.parametrize(
    ("row", "is_proof"),
    [
        pytest.param(WIDE, True, id="of full width"),
        pytest.param(EXTENDED_ROW, True, id="widened by the driver"),
        pytest.param(ROW, False, id="narrow"),
        pytest.param(LINK_DOWNED, False, id="reset by hand"),
        pytest.param(STALLED, False, id="gauge"),
        pytest.param(replace(STALLED, width_bits=64), False, id="wide gauge"),
    ],
)
def test_only_what_never_falls_by_itself_proves_that_all_began_anew(
    row: CounterRow, is_proof: bool
) -> None:
    steady, register = Register(WIDE), Register(row)
    assert not registers_fell([(steady, 7), (register, 9)])
    taken(steady, 7)
    taken(register, 9)

    assert not registers_fell([(steady, 7), (register, 9)])
    assert registers_fell([(steady, 8), (register, 8)]) == is_proof


@pytest.mark.parametrize("seconds", [1.0, 30.0])
def test_a_gauge_that_falls_neither_wraps_nor_began_anew(seconds: float) -> None:
    """For a long time between readings, a fall could be a step that a counter can make."""
    register = Register(STALLED)

    assert taken(register, 50, 10, seconds=seconds) == 10
    assert register.reset_count == 0


@given(st.lists(st.integers(0, 600_000_000), min_size=1, max_size=40))
def test_whatever_it_grows_by_nothing_is_lost_or_invented(steps: list[int]) -> None:
    register, total = Register(ROW), 0
    register.take(0, 1.0, RATE)
    for step in steps:
        total += step
        assert register.take(total % END, 1.0, RATE) == total
    assert register.reset_count == 0
