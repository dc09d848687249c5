"""Real captures of dcgm-exporter, scraped as a target, give the results that were stated for them.

The captures may not be published; their folder comes from the environment.
"""

from pathlib import Path

import pytest
from support.intervals import every
from support.scraping import read_page
from support.web import answering

from rightslice.feeders.exposition import PageParser
from rightslice.feeders.gauges.mapper import GaugeMapper
from rightslice.feeders.gauges.mapping import shipped_mapping
from rightslice.feeders.readings import Reading, is_blank
from rightslice.feeders.targets.target import ScrapeTarget

pytestmark = [pytest.mark.shared, pytest.mark.integration]

START = 1_000 * 3600.0
HOUR = 1_000
MIB = 1024**2


def scraped(text: str) -> tuple[list[Reading], PageParser]:
    """Serve a text as an exporter's page and scrape it."""
    parser = PageParser()
    with answering(lambda *_: (200, text.encode())) as url:
        return parser.parse(*read_page(ScrapeTarget("nodes", f"{url}/metrics", 15.0))), parser


def mapped(readings: list[Reading]) -> GaugeMapper:
    """Feed a page for eleven minutes."""
    mapper = GaugeMapper(shipped_mapping("dcgm"))
    for minute in range(1, 12):
        mapper.feed(START + 60 * minute, readings, every(60.0))
    return mapper


def read(shared: Path, name: str) -> str:
    return (shared / "cases" / name).read_text(encoding="utf-8")


def test_six_instances_on_two_cards_keep_their_memory_apart(shared: Path) -> None:
    readings, parser = scraped(read(shared, "dcgm-a30-mig-fb-per-instance.prom"))

    mapper = mapped(readings)

    assert (len(readings), parser.broken_line_count) == (12, 0)
    assert len({(r.labels["UUID"], r.labels["GPU_I_ID"]) for r in readings}) == 6
    first = mapper.table.card("GPU-6266892b-6488-5f24-221d-a78d220b9a7f", HOUR)
    second = mapper.table.card("GPU-0c84b081-3a24-b982-2acc-03b88d36b197", HOUR)
    assert first.memory_used_peak_bytes == 12 * MIB
    assert first.memory_total_bytes == (12 + 24048) * MIB
    assert second.memory_used_peak_bytes == 6 * MIB
    assert first.workloads == {}
    assert first.allocated_seconds == 0.0


def test_a_capture_that_is_no_page_is_counted_and_gives_nothing(shared: Path) -> None:
    readings, parser = scraped(read(shared, "dcgm-fp64-int64-blank-h100.txt"))

    assert mapped(readings).table.first_seen == {}
    assert parser.broken_line_count > 0


def test_the_blanks_of_that_capture_are_no_values_and_its_zero_is_one(shared: Path) -> None:
    text = read(shared, "dcgm-fp64-int64-blank-h100.txt")
    values = [
        (line.split("'")[1], float(line.rstrip(",})").split(": ")[1].rstrip("},")))
        for line in text.splitlines()
        if line.strip().startswith("'") and "name" not in line and "uuid" not in line
    ]

    blank = {name for name, value in values if is_blank(value)}

    assert blank == {
        name for name, _ in values if name.endswith(("_active", "_occupancy", "_bytes"))
    }
    assert ("fb_used", 0.0) in values


def test_renamed_metrics_and_labels_are_one_metric(shared: Path) -> None:
    readings, _ = scraped(read(shared, "dcgm-lowercase-names-pod_name-labels.prom"))

    mapper = mapped(readings)

    whole = mapper.table.card("GPU-3b46427f-5794-7e10-f81c-6d877afdf7ab", HOUR)
    assert whole.busy_seconds == pytest.approx(0.008246 * 600)
    assert list(whole.workloads) == ["pod\0ai-1\0worker-k7wqz-p4vbn\0grpc"]
    instance = mapper.table.card("GPU-9aaefb7a-982b-d140-89d7-dded4e5bf268", HOUR)
    assert instance.busy_observed_seconds == 0.0
    assert instance.workloads == {}


def test_alternating_pods_are_one_shared_card(shared: Path) -> None:
    text = read(shared, "dcgm-exported_pod-flapping-same-gpu.txt")
    lines = [
        line.replace("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_FB_USED") + " 500"
        for line in text.splitlines()
    ]

    broken, parser = scraped(text)
    mapper = mapped(scraped("\n".join(lines))[0])

    assert (broken, parser.broken_line_count) == ([], 3)
    assert len(mapper.table.first_seen) == 1
    (uuid,) = mapper.table.first_seen
    assert sorted(mapper.table.card(uuid, HOUR).workloads) == [
        "pod\0default\0pod1\0app",
        "pod\0default\0pod2\0somecontainer",
        "pod\0somenamespace\0pod3\0runner",
    ]
    assert mapper.table.card(uuid, HOUR).observed_seconds == 600.0


def test_a_value_copied_to_each_sharing_pod_counts_once(shared: Path) -> None:
    readings, parser = scraped(read(shared, "dcgm-timeslice-identical-values-per-pod.prom"))
    with_card = [Reading(r.name, {**r.labels, "UUID": "GPU-0"}, r.value) for r in readings]

    mapper = mapped(with_card)

    assert parser.broken_line_count == 3
    assert mapper.table.card("GPU-0", HOUR).busy_seconds == pytest.approx(0.714 * 600)
    assert len(mapper.table.card("GPU-0", HOUR).workloads) == 3


def test_a_gauge_of_xid_events_is_no_field_of_ours(shared: Path) -> None:
    readings, parser = scraped(read(shared, "dcgm-xid-count-help-name-mismatch.prom"))

    assert [(r.labels["xid"], r.value) for r in readings] == [("42", 1.0)]
    assert parser.broken_line_count == 0
    assert mapped(readings).table.first_seen == {}


def test_the_size_of_a_card_comes_from_no_table(shared: Path) -> None:
    readings, _ = scraped(read(shared, "dcgm-fake-operator-a100-11441mib.prom"))

    mapper = mapped(readings)

    assert len(mapper.table.first_seen) == 4
    assert {r.value * MIB for r in readings} == {11996758016}
    assert all(
        mapper.table.card(uuid, HOUR).memory_total_bytes is None for uuid in mapper.table.first_seen
    )
    assert all(not mapper.table.card(uuid, HOUR).workloads for uuid in mapper.table.first_seen)


def test_cards_that_are_not_reported_are_not_invented(shared: Path) -> None:
    readings, _ = scraped(read(shared, "dcgm-virtual-gpus-only-used-cards.prom"))

    mapper = mapped(readings)

    assert list(mapper.table.first_seen) == ["GPU-dfgfdg5-1a72-bf03-2f8c-3e64646392ae"]
