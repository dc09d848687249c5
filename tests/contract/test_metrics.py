"""Promises that hold for every row of the contract."""

import pytest

from rightslice.contract.histogram import RATIO_EDGES
from rightslice.contract.metrics import CONTRACT
from rightslice.contract.sampling import PEAK_WINDOW_SECONDS
from rightslice.contract.spec import PREFIX, Kind, MetricSpec, Unit

# Prometheus' usual scrape interval in the field.
USUAL_SCRAPE_SECONDS = 60

BY_NAME = [pytest.param(spec, id=spec.name) for spec in CONTRACT]
RATIOS = [
    pytest.param(spec, id=spec.name)
    for spec in CONTRACT
    if spec.kind is Kind.HISTOGRAM and spec.unit is Unit.RATIO
]


def test_each_name_stands_in_the_contract_once() -> None:
    names = [spec.name for spec in CONTRACT]

    assert len(names) == len(set(names))


def test_only_what_every_prometheus_client_calls_the_same_goes_without_our_prefix() -> None:
    assert {spec.name for spec in CONTRACT if not spec.name.startswith(PREFIX)} == {
        "process_start_time_seconds",
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
        "process_open_fds",
    }


@pytest.mark.parametrize("spec", BY_NAME)
def test_each_metric_tells_where_it_is_read(spec: MetricSpec) -> None:
    assert spec.source


@pytest.mark.parametrize("spec", [row for row in BY_NAME if "_gpu_" in str(row.id)])
def test_a_metric_of_a_card_is_known_by_its_uuid(spec: MetricSpec) -> None:
    assert spec.labels[0] == "uuid"


@pytest.mark.parametrize("spec", BY_NAME)
def test_a_label_stands_in_a_metric_once(spec: MetricSpec) -> None:
    assert len(spec.labels) == len(set(spec.labels))


@pytest.mark.parametrize("spec", BY_NAME)
def test_no_label_is_one_that_prometheus_needs_itself(spec: MetricSpec) -> None:
    assert not {"le", "quantile", "job", "instance"} & set(spec.labels)


@pytest.mark.parametrize("spec", RATIOS)
def test_ratios_share_one_set_of_edges(spec: MetricSpec) -> None:
    assert spec.buckets == RATIO_EDGES


def test_a_missed_scrape_loses_no_peak() -> None:
    assert PEAK_WINDOW_SECONDS > 2 * USUAL_SCRAPE_SECONDS
