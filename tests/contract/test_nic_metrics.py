"""The contract's rows about the network: made of the table, and honest about it."""

import pytest

from rightslice.contract.metrics import CONTRACT
from rightslice.contract.nic_metrics import NIC_COUNTERS, NIC_METRICS
from rightslice.contract.spec import PREFIX, Kind, MetricSpec, Unit
from rightslice.facts.nics import ETHTOOL, NicMetric, nic_metrics

METRICS = [pytest.param(metric, id=metric.name) for metric in nic_metrics()]
PEAKS = [spec for spec in NIC_METRICS if spec.peak_window_seconds]


@pytest.mark.parametrize("metric", METRICS)
def test_each_metric_of_the_table_is_in_the_contract(metric: NicMetric) -> None:
    spec = NIC_COUNTERS[metric.name]

    assert spec in CONTRACT
    assert spec.name == f"{PREFIX}{metric.name}"
    assert (spec.kind is Kind.GAUGE) == metric.is_gauge


@pytest.mark.parametrize("metric", METRICS)
def test_a_counter_is_known_by_where_it_is_counted(metric: NicMetric) -> None:
    own = ("netdev",) if metric.source == ETHTOOL else ("device", "port")

    assert NIC_COUNTERS[metric.name].labels == (*own, *metric.label_names)


@pytest.mark.parametrize("metric", METRICS)
def test_the_unit_is_the_one_in_the_name(metric: NicMetric) -> None:
    spec = NIC_COUNTERS[metric.name]
    last = metric.name.removesuffix("_total").rpartition("_")[2]

    assert (spec.unit.value or None) == (last if last in set(Unit) - {Unit.NONE} else None)


def test_bytes_are_never_words_or_bits() -> None:
    for spec in NIC_COUNTERS.values():
        assert not {"octets", "words", "bits", "mb"} & set(spec.name.split("_")), spec.name


@pytest.mark.parametrize("spec", NIC_METRICS, ids=lambda spec: spec.name)
def test_each_says_when_it_is_absent(spec: MetricSpec) -> None:
    assert spec.absent not in ("", "never")


def test_no_metric_is_in_the_part_twice() -> None:
    names = [spec.name for spec in NIC_METRICS]

    assert len(names) == len(set(names))


def test_all_peaks_are_of_priorities_and_of_the_usual_window() -> None:
    assert {spec.labels for spec in PEAKS} == {("netdev", "priority")}
    assert len({spec.peak_window_seconds for spec in PEAKS}) == 1
