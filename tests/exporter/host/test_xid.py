"""The driver's sentences as it has spelt them over the years, and what counts as one event."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.exporter.host.xid import (
    INCIDENTS_REMEMBERED,
    KINDS_REMEMBERED,
    SAME_INCIDENT_SECONDS,
    XidCounter,
    XidReport,
    normal_bus_id,
    parse_xid,
)

CARD, OTHER_CARD = "00000000:4f:00", "00000008:4f:00"


def kernel(process_id: int | None, seconds: float, xid: int = 31, card: str = CARD) -> XidReport:
    return XidReport(card, xid, process_id, seconds)


def nvml(seconds: float, xid: int = 31, card: str = CARD) -> XidReport:
    return XidReport(card, xid, None, seconds)


def counted(*reports: XidReport) -> list[bool]:
    counter = XidCounter()
    return [counter.report(report) for report in reports]


@pytest.mark.parametrize(
    ("text", "bus_id"),
    [
        pytest.param("00000000:4F:00.0", "00000000:4f:00", id="NVML"),
        pytest.param("0000:4f:00", "00000000:4f:00", id="kernel"),
        pytest.param("0000:4F:00.1", "00000000:4f:00", id="short domain with a function"),
        pytest.param("0018:01:00", "00000018:01:00", id="a domain that tells cards apart"),
        pytest.param("1a2b3:e1:1f.0", "0001a2b3:e1:1f", id="a domain of five digits"),
        pytest.param(" 00000000:4f:00\n", "00000000:4f:00", id="blanks around"),
    ],
)
def test_a_card_has_one_bus_id_however_it_is_spelt(text: str, bus_id: str) -> None:
    assert normal_bus_id(text) == bus_id


@pytest.mark.parametrize("text", ["", "N/A", "4f:00.0", "0000:4f:00.9", "GPU-0", "0000:4f:00:00"])
def test_what_is_no_address_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"got {text!r}")):
        normal_bus_id(text)


@pytest.mark.parametrize(
    ("text", "report"),
    [
        pytest.param(
            "NVRM: Xid (PCI:0000:4f:00): 31, pid=7311, name=train, part 2, Ch 0000000a, intr 00",
            (CARD, 31, 7311),
            id="process",
        ),
        pytest.param(
            "NVRM: Xid (PCI:0000:4F:00): 95, pid='<unknown>', name=<unknown>, Uncontained: LTC",
            (CARD, 95, None),
            id="unknown process",
        ),
        pytest.param(
            "NVRM: Xid (PCI:0000:4f:00): 32, Channel ID 0000001f intr 00008000",
            (CARD, 32, None),
            id="old driver without a process",
        ),
        pytest.param("NVRM: Xid (0000:4f:00): 8, Channel 00000002", (CARD, 8, None), id="no PCI:"),
        pytest.param(
            "NVRM: Xid (PCI:0008:4f:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link -1 (0x00)",
            (OTHER_CARD, 149, None),
            id="another domain",
        ),
        pytest.param(
            "NVRM: Xid (PCI:0000:4f:00 GPU-I:03 GPU-CI:00): 13, pid=7311, name=a, Graphics SM",
            (CARD, 13, 7311),
            id="MIG instance",
        ),
        pytest.param(
            "NVRM: Xid (PCI:0000:4f:00): 119, pid=88, name=smi, Timeout after 45s of waiting for "
            "RPC response from GPU3 GSP! Expected function 76 (GSP_RM_CONTROL) (0x20 0x4).",
            (CARD, 119, 88),
            id="numbers in the sentence",
        ),
        pytest.param(
            "NVRM: Xid (PCI:0000:4f:00): 79, pid=1, GPU has fallen off the bus.",
            (CARD, 79, 1),
            id="off the bus with a number",
        ),
        pytest.param(
            "NVRM: GPU 0000:4f:00.0: GPU has fallen off the bus.",
            (CARD, 79, None),
            id="off the bus without a number",
        ),
        pytest.param(
            "NVRM: GPU at 0000:4f:00.0 has fallen off the bus.",
            (CARD, 79, None),
            id="off the bus, old driver",
        ),
        pytest.param(
            "NVRM: The NVIDIA GPU 0000:4f:00.0\nNVRM: (PCI ID: 10de:2330) installed in this "
            "system has\nNVRM: fallen off the bus and is not responding to commands.",
            (CARD, 79, None),
            id="off the bus, in three lines of one record",
        ),
        pytest.param(
            "NVRM: The NVIDIA GPU 0000:4f:00.0 (PCI ID: 10de:2330)\n               NVRM: installed "
            "in this system has fallen\n               NVRM: off the bus and is not responding",
            (CARD, 79, None),
            id="off the bus, broken elsewhere and indented",
        ),
    ],
)
def test_every_spelling_gives_card_xid_and_process(
    text: str, report: tuple[str, int, int | None]
) -> None:
    assert parse_xid(text) == report


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("NVRM: Xid error: abc, no data", id="the word alone"),
        pytest.param("NVRM: Xid (invalid): some error", id="no address"),
        pytest.param("NVRM: Xid 79, GPU has fallen off the bus.", id="no card"),
        pytest.param("NVRM: Xid (PCI:0000:4f:00): none, pid=3", id="no number"),
        pytest.param(f"NVRM: Xid (PCI:0000:4f:00): {'9' * 5000}, pid=3", id="endless number"),
        pytest.param("NVRM: Xid (PCI:0000:4f:00): ١٣, pid=3", id="digits of another script"),
        pytest.param("NVRM: GPU at PCI:0000:4f:00: GPU-0f3d1c2b", id="the card's UUID"),
        pytest.param("NVRM: GPU Board Serial Number: 1320000000007", id="serial number"),
        pytest.param("NVRM: GPU3 RPC history (CPU -> GSP):", id="history head"),
        pytest.param("NVRM:     -1    76   GSP_RM_CONTROL  0x20 0x04 640us", id="history row"),
        pytest.param("NVRM: The NVIDIA GPU 0000:4f:00.0", id="first third of a sentence"),
        pytest.param("NVRM: fallen off the bus and is not responding", id="last third of it"),
        pytest.param("nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 12028, Non-fatal", id="switch"),
        pytest.param(
            "usb 1-1: Product: NVRM: Xid (PCI:0000:4f:00): 79, x", id="a name somebody chose"
        ),
        pytest.param(
            "usb 1-1: Product: x\nNVRM: Xid (PCI:0000:4f:00): 79, x", id="a chosen second line"
        ),
    ],
)
def test_other_records_report_nothing(text: str) -> None:
    assert parse_xid(text) is None


@given(st.text() | st.from_regex(r"NVRM: (Xid|GPU) \(?.*"))
def test_no_text_breaks_the_parser(text: str) -> None:
    parse_xid(text)


def test_an_endless_record_is_read_in_no_time() -> None:
    assert parse_xid("NVRM: GPU 0000:4f:00" + " fallen off" * 1_000_000) is None
    assert parse_xid(" " * 1_000_000 + "\t" * 1_000_000) is None


def test_the_lines_of_one_fault_are_one_event() -> None:
    lines = [kernel(None, 100 + step / 10_000) for step in range(8)]

    assert counted(*lines) == [True] + [False] * 7


def test_nvml_and_the_kernel_tell_of_the_same_event() -> None:
    assert counted(kernel(7, 100.0), nvml(101.9)) == [True, False]
    assert counted(nvml(101.9), kernel(7, 100.0)) == [True, False]


def test_cards_and_xids_are_apart() -> None:
    reports = (nvml(100.0), nvml(100.0, card=OTHER_CARD), nvml(100.0, xid=43))

    assert counted(*reports) == [True, True, True]


def test_two_processes_are_two_events() -> None:
    reports = (kernel(7, 100.0), kernel(8, 100.1), kernel(7, 100.2), kernel(8, 100.3), nvml(101.0))

    assert counted(*reports) == [True, True, False, False, False]


def test_an_event_without_a_process_takes_the_first_that_is_named() -> None:
    reports = (nvml(100.0), kernel(7, 100.1), kernel(7, 100.2), kernel(8, 100.3))

    assert counted(*reports) == [True, False, False, True]


def test_a_named_process_joins_its_own_event_before_a_nameless_one() -> None:
    # Given two incidents that overlap: one of nobody known, and a later one of process 7.
    reports = (nvml(100.0), kernel(7, 105.1), kernel(7, 104.0), kernel(8, 104.0))

    assert counted(*reports) == [True, True, False, False]


def test_an_incident_ends_five_seconds_after_its_first_report() -> None:
    reports = [kernel(7, 100.0 + step) for step in range(12)]

    assert [r.seconds for r, new in zip(reports, counted(*reports), strict=True) if new] == [
        100.0,
        106.0,
    ]


def test_an_old_backlog_does_not_make_a_live_event_new_again() -> None:
    reports = (nvml(9_000.0), kernel(7, 20.0), kernel(7, 8_999.5))

    assert counted(*reports) == [True, True, False]


def test_a_clock_that_went_back_makes_a_new_event() -> None:
    assert counted(nvml(9_000.0), nvml(5_400.0), nvml(5_401.0)) == [True, True, False]


def test_what_is_remembered_has_a_limit() -> None:
    kinds = [nvml(100.0, xid=xid) for xid in range(KINDS_REMEMBERED + 1)]
    processes = [kernel(process_id, 100.0) for process_id in range(INCIDENTS_REMEMBERED + 1)]

    assert counted(*kinds, kinds[-1], kinds[0])[-2:] == [False, True]
    assert counted(*processes, processes[-1], processes[0])[-2:] == [False, True]


def test_the_kind_unheard_of_for_longest_is_forgotten_first() -> None:
    kinds = [nvml(100.0, xid=xid) for xid in range(KINDS_REMEMBERED + 1)]
    *older, newest = kinds

    assert counted(*older, kinds[0], newest, kinds[0], kinds[1])[-4:] == [False, True, False, True]


@given(
    st.lists(
        st.tuples(
            st.none() | st.integers(0, 5),
            st.floats(0, SAME_INCIDENT_SECONDS / 2, allow_nan=False),
        ),
        min_size=1,
        max_size=40,
    )
)
def test_a_short_burst_has_as_many_events_as_known_processes(
    burst: list[tuple[int | None, float]],
) -> None:
    named = {process_id for process_id, _ in burst if process_id is not None}

    assert sum(counted(*(kernel(*report) for report in burst))) == max(1, len(named))


# What dmesg puts before the text, with and without --decode.
DMESG_PREFIX = re.compile(
    r"(?:kern +:\w+ +: (?P<iso>\S+) |\[ *(?P<bracket>[^\]]+)\] )?(?P<text>.*)"
)


def captured(shared: Path, name: str) -> list[XidReport]:
    """Give every line of a dmesg capture that reports an Xid, with its time as far as printed."""
    text = (shared / "cases" / name).read_text(encoding="utf-8")
    reports = []
    for row in re.split(r"\n(?!\s)", text.strip()):  # indented lines belong to the record above
        match = DMESG_PREFIX.fullmatch(row.replace("\n", "\\n"))
        assert match is not None
        parsed = parse_xid(match["text"].replace("\\n", "\n"))
        if parsed is not None:
            seconds = stamp_seconds(match["iso"] or match["bracket"] or "")
            reports.append(XidReport(*parsed, seconds))
    return reports


def stamp_seconds(text: str) -> float:
    if re.fullmatch(r"\d+\.\d+", text):
        return float(text)
    if "T" in text[:11]:
        return datetime.fromisoformat(text.replace(",", ".")).timestamp()
    if text in ("", "..."):
        return 0.0
    return datetime.strptime(text, "%a %b %d %H:%M:%S %Y").replace(tzinfo=UTC).timestamp()


def found(reports: list[XidReport]) -> list[tuple[int, str, int | None]]:
    return [(report.xid, report.bus_id, report.process_id) for report in reports]


@pytest.mark.shared
def test_captured_events_of_four_cards(shared: Path) -> None:
    reports = captured(shared, "xid-43-31-94-mixed-with-uuid-lines.log")

    assert found(reports) == [
        (43, "00000000:00:05", 1045242),
        (43, "00000000:00:05", 1084984),
        (31, "00000000:00:07", 2512125),
        (94, "00000000:00:08", None),
    ]
    assert counted(*reports) == [True] * 4


@pytest.mark.shared
def test_captured_loss_that_has_no_number(shared: Path) -> None:
    reports = captured(shared, "xid-none-gpu-fallen-off-multiline.log")

    assert found(reports) == [(79, "00000000:b3:00", None)]


@pytest.mark.shared
def test_captured_loss_that_is_told_twice(shared: Path) -> None:
    reports = captured(shared, "xid-79-printed-twice-plus-crash-dump-note.log")

    assert found(reports) == [(79, "00000000:a1:00", None)] * 2
    assert counted(*reports) == [True, False]


@pytest.mark.shared
def test_captured_old_formats(shared: Path) -> None:
    reports = captured(shared, "xid-old-formats-without-pci-prefix.log")

    assert found(reports) == [
        (32, "00000000:01:00", None),
        (32, "00000000:01:00", None),
        (31, "00000000:01:00", None),
        (14, "00000000:03:00", None),
    ]
    # The two lines of Xid 32 are 0.3 ms apart and name no process: one incident.
    assert counted(*reports) == [True, False, True, True]


@pytest.mark.shared
def test_captured_timeout_with_its_history(shared: Path) -> None:
    reports = captured(shared, "xid-119-gsp-timeout-with-rpc-history.log")

    assert found(reports) == [(119, "00000000:9b:00", 2024380)]


@pytest.mark.shared
def test_captured_burst_is_one_incident(shared: Path) -> None:
    reports = captured(shared, "xid-13-burst-comma-decimal-time.log")

    assert found(reports) == [(13, "00000000:38:00", None)] * 8
    assert reports[0].seconds == datetime(2025, 1, 21, 4, 41, 44, 283302, UTC).timestamp()
    assert counted(*reports) == [True] + [False] * 7


@pytest.mark.shared
def test_captured_cards_that_differ_in_the_domain_only(shared: Path) -> None:
    reports = captured(shared, "xid-154-149-nvlink-grace-domains.log")

    assert found(reports) == [
        (149, "00000009:01:00", None),
        (154, "00000009:01:00", None),
        (149, "00000008:01:00", None),
        (154, "00000019:01:00", None),
        (149, "00000009:01:00", None),
        (149, "00000008:01:00", None),
    ]
    # Two links of one card fail 0.35 s apart: one incident. The last line has lost its time stamp.
    assert counted(*reports)[:5] == [True, True, True, True, False]
