"""The shipped mappings of other exporters, and one that a user writes."""

import re
from pathlib import Path

import numpy as np
import pytest
from support.gauge_series import stored
from support.intervals import every

from rightslice.feeders.exposition import PageParser
from rightslice.feeders.gauges.mapper import GaugeMapper
from rightslice.feeders.gauges.mapping import load_mapping, shipped_mapping
from rightslice.feeders.hours.card_builder import CardHourBuilder
from rightslice.feeders.hours.spread import hour_start

START = 1_000 * 3600.0
HOUR = 1_000
MIB, GIB = 1024**2, 1024**3
DOCS = Path(__file__).parents[3] / "docs" / "other-exporters.md"

NVIDIA_PAGE = """\
nvidia_smi_gpu_info{name="NVIDIA A30",uuid="aa-1",index="0"} 1
nvidia_smi_memory_used_bytes{uuid="aa-1"} 4.294967296e+09
nvidia_smi_memory_free_bytes{uuid="aa-1"} 2.1474836480e+10
nvidia_smi_memory_reserved_bytes{uuid="aa-1"} 4.29916160e+08
nvidia_smi_memory_total_bytes{uuid="aa-1"} 2.6199719936e+10
nvidia_smi_utilization_gpu_ratio{uuid="aa-1"} 0.5
nvidia_smi_power_draw_watts{uuid="aa-1"} 120
"""
MIG = 'uuid="aa-1",gpu_instance_id="1"'
NVIDIA_MIG_PAGE = f"""\
nvidia_smi_gpu_info{{name="NVIDIA H100 80GB HBM3",uuid="aa-1"}} 1
nvidia_smi_memory_used_bytes{{uuid="aa-1"}} 3.221225472e+09
nvidia_smi_mig_info{{{MIG},mig_uuid="MIG-2",compute_instance_id="1",profile="3g.40gb"}} 1
nvidia_smi_mig_info{{{MIG},mig_uuid="MIG-1",compute_instance_id="0",profile="3g.40gb"}} 1
nvidia_smi_mig_memory_total_bytes{{{MIG}}} 4.2412802048e+10
nvidia_smi_mig_memory_used_bytes{{{MIG}}} 2.147483648e+09
nvidia_smi_mig_sm_activity_ratio{{{MIG}}} 0.25
"""
WHOLE = 'hostname="h1",gpu_partition_id="0",gpu_compute_partition_type="spx"'
AMD_POD = 'pod="train-0",namespace="ml",container="c"'
AMD_CARD = f'serial_number="S1",gpu_id="0",card_series="AMD Instinct MI300X",{WHOLE},{AMD_POD}'
AMD_PAGE = f"""\
gpu_used_vram{{{AMD_CARD}}} 1024
gpu_total_vram{{{AMD_CARD}}} 196592
gpu_gfx_activity{{{AMD_CARD}}} 25
gpu_gfx_activity{{serial_number="N/A",gpu_id="1",{WHOLE}}} 0
"""
NPU = 'id="0",model_name="910B4",vdie_id="D-1"'
NPU_POD = f'{NPU},namespace="ml",pod_name="p",container_name="c"'
ASCEND_PAGE = f"""\
npu_chip_info_hbm_used_memory{{{NPU_POD}}} 3000 1000
npu_chip_info_hbm_total_memory{{{NPU_POD}}} 65536 1000
npu_chip_info_used_memory{{{NPU_POD}}} 7 1000
npu_chip_info_utilization{{{NPU_POD}}} 40 1000
npu_chip_info_overall_utilization{{{NPU_POD}}} -1 1000
npu_chip_info_power{{{NPU}}} 90 1000
npu_chip_info_utilization{{id="1",model_name="910B4",vdie_id=""}} 40 1000
"""


def scraped(name: str, page: str, target: str = "") -> GaugeMapper:
    """Scrape a page for eleven minutes."""
    mapper, readings = GaugeMapper(shipped_mapping(name)), PageParser().parse(page)
    for minute in range(1, 12):
        mapper.feed(START + 60 * minute, readings, every(60.0), target)
    return mapper


def hour(mapper: GaugeMapper, uuid: str) -> CardHourBuilder:
    return mapper.table.card(uuid, HOUR)


def test_nvidia_gpu_exporters_card_is_the_one_that_others_name() -> None:
    mapper = scraped("nvidia_gpu_exporter", NVIDIA_PAGE, "gpu-1:9835")

    told = hour(mapper, "GPU-aa-1")
    assert told.memory_used_peak_bytes == 4 * GIB
    assert told.memory_total_bytes == 26_199_719_936
    assert told.busy_seconds == 300.0
    assert told.energy_joules == 120 * 600.0
    assert mapper.table.names["GPU-aa-1"][:2] == ("gpu-1", "NVIDIA A30")


def test_without_holders_memory_in_use_tells_that_a_card_is_held() -> None:
    told = hour(scraped("nvidia_gpu_exporter", NVIDIA_PAGE), "GPU-aa-1")

    assert (told.allocated_seconds, told.workloads) == (600.0, {})
    assert told.sm_observed_seconds == 0.0


def test_an_instance_is_named_by_its_first_compute_instance_and_closes_by_its_units() -> None:
    mapper = scraped("nvidia_gpu_exporter", NVIDIA_MIG_PAGE)

    cards, slices, _ = mapper.hours([HOUR], START + 660)

    assert [(one.slice_uuid, one.profile) for one in slices] == [("MIG-1", "3g.40gb")]
    assert (slices[0].units, slices[0].card_units) == (4, 8)
    assert slices[0].busy_seconds == pytest.approx(150.0)
    assert slices[0].memory_used_peak_bytes == 2 * GIB
    assert slices[0].source == "nvidia_gpu_exporter"
    assert cards[0].memory_used_peak_bytes == 3 * GIB
    assert cards[0].allocated_seconds == pytest.approx(600.0 * 4 / 8)
    assert cards[0].busy_seconds == pytest.approx(150.0 * 4 / 8)


def test_amd_cards_are_named_by_their_serial_number_else_by_their_place() -> None:
    mapper = scraped("amd_device_metrics_exporter", AMD_PAGE)

    told = hour(mapper, "S1")
    assert (told.memory_used_peak_bytes, told.memory_total_bytes) == (1024 * MIB, 196592 * MIB)
    assert told.busy_seconds == 150.0
    assert list(told.workloads) == ["pod\0ml\0train-0\0c"]
    assert told.quality == []
    assert sorted(mapper.table.first_seen) == ["S1", "h1/1"]


@pytest.mark.parametrize("prefix", ["amd_", "AMD_"])
def test_a_prefix_that_an_exporter_was_given_is_seen_through(prefix: str) -> None:
    page = re.sub("^gpu_", f"{prefix}gpu_", AMD_PAGE, flags=re.MULTILINE)

    assert hour(scraped("amd_device_metrics_exporter", page), "S1").busy_seconds == 150.0


def test_partitions_of_an_amd_card_are_one_card_of_unknown_memory() -> None:
    page = AMD_PAGE.replace('"spx"', '"cpx"')
    page += page.replace('partition_id="0"', 'partition_id="1"')

    told = hour(scraped("amd_device_metrics_exporter", page), "S1")

    assert told.memory_used_peak_bytes is None
    assert told.busy_observed_seconds == 0.0
    assert told.allocated_seconds == 600.0
    assert told.quality == ["mig"]


def test_an_ascend_cards_hbm_is_its_memory_and_minus_one_is_no_reading() -> None:
    mapper = scraped("ascend_npu_exporter", ASCEND_PAGE)

    told = hour(mapper, "D-1")
    assert (told.memory_used_peak_bytes, told.memory_total_bytes) == (3000 * MIB, 65536 * MIB)
    assert told.busy_seconds == pytest.approx(240.0)
    assert told.busy_signal == "aicore"
    assert list(told.workloads) == ["pod\0ml\0p\0c"]
    assert mapper.rejected_count == 11 * 2  # the -1, and a chip that nothing names


@pytest.mark.parametrize("target", ["node-7:8082", "https://node-7:8082/metrics"])
def test_an_ascend_chip_without_an_id_of_its_own_is_named_by_its_target(target: str) -> None:
    mapper = scraped("ascend_npu_exporter", ASCEND_PAGE, target)

    assert sorted(mapper.table.first_seen) == ["D-1", "node-7:8082/1"]
    assert mapper.table.names["D-1"].node == "node-7"


def test_metrics_that_are_dated_on_their_own_tell_of_the_same_moments() -> None:
    labels = {"vdie_id": "D-1", "instance": "n:1"}
    minutes = 60.0 * np.arange(61)
    mapper = GaugeMapper(shipped_mapping("ascend_npu_exporter"))

    mapper.take_series(
        [
            stored("npu_chip_info_hbm_used_memory", labels, [(START + s, 3000) for s in minutes]),
            stored("npu_chip_info_utilization", labels, [(START + s + 4, 40) for s in minutes]),
        ]
    )

    told = hour(mapper, "D-1")
    assert (told.observed_seconds, told.busy_observed_seconds) == (3600.0, 3600.0)


def test_the_mapping_in_the_documentation_loads_and_reads_the_page_beside_it(
    tmp_path: Path,
) -> None:
    text = DOCS.read_text(encoding="utf-8")
    (mapping_text,) = re.findall(r"```yaml\n(name: .*?)```", text, re.DOTALL)
    (page,) = re.findall(r"```text\n(acme_.*?)```", text, re.DOTALL)
    file = tmp_path / "acme.yaml"
    file.write_text(mapping_text, encoding="utf-8")
    mapper = GaugeMapper(load_mapping(file))

    for minute in range(1, 12):
        mapper.feed(START + 60 * minute, PageParser().parse(page), every(60.0))

    (uuid,) = mapper.table.first_seen
    told = hour(mapper, uuid)
    assert uuid == "rack-3/accel0"
    assert (told.memory_used_peak_bytes, told.memory_total_bytes) == (6 * 1024 * MIB, 32 * GIB)
    assert told.busy_seconds == pytest.approx(0.35 * 600)
    assert list(told.workloads) == ["pod\0vision\0labeler-0\0main"]
    assert mapper.hours([HOUR], START + 660)[0][0].hour == hour_start(HOUR)


def test_memory_that_is_not_told_is_in_no_bin() -> None:
    mapper = GaugeMapper(shipped_mapping("ascend_npu_exporter"))
    labels = 'vdie_id="D1",model_name="910B",instance="n",id="0"'
    for minute in range(1, 60):
        used = -1 if minute % 2 else 10_000
        page = (
            f"npu_chip_info_hbm_used_memory{{{labels}}} {used}\n"
            f"npu_chip_info_hbm_total_memory{{{labels}}} 60000\n"
        )
        mapper.feed(START + 60 * minute, PageParser().parse(page), every(60.0))

    (row, *_), _, _ = mapper.hours([HOUR], START + 3600)

    assert row.memory_bins is not None
    assert sum(row.memory_bins[20:]) == 0
