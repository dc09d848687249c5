"""The table of our exporter's metrics."""

from dataclasses import fields

import pytest

from rightslice.contract.metrics import CONTRACT
from rightslice.contract.spec import Kind
from rightslice.feeders.hours.card_builder import CardHourBuilder
from rightslice.feeders.ours.metrics import (
    COUNTER_NAMES,
    GAUGE_NAMES,
    PEAK_NAMES,
    RESET_NAME,
    RULES,
    SECONDS_NAMES,
)
from rightslice.feeders.ours.rules import GROWING, How, Rule, Thing
from rightslice.ledger.rows import CardHour, OomHour, PortHour, SliceHour, WorkloadHour

ROWS = {
    Thing.CARD: CardHour,
    Thing.SLICE: SliceHour,
    Thing.VGPU: SliceHour,
    Thing.WORKLOAD: WorkloadHour,
    Thing.OOM: OomHour,
    Thing.RDMA_PORT: PortHour,
    Thing.NETDEV: PortHour,
}
BY_ID = {f"{rule.thing} {rule.name} {rule.field}": rule for rule in RULES}
rules = pytest.mark.parametrize("rule", BY_ID.values(), ids=BY_ID.keys())


@rules
def test_each_field_is_one_of_its_row(rule: Rule) -> None:
    columns = {each.name for each in fields(ROWS[rule.thing])}

    name = f"{rule.field}_bins" if rule.how is How.BINS else rule.field
    assert rule.how is How.FLAG or name in columns


@rules
def test_each_rule_fits_its_metric(rule: Rule) -> None:
    spec = rule.spec

    assert spec in CONTRACT
    assert (rule.how in GROWING) == (spec.kind is Kind.COUNTER)
    assert (rule.how is How.BINS) == (spec.kind is Kind.HISTOGRAM)
    assert set(rule.only) <= set(spec.labels)


@rules
def test_what_is_kept_of_a_card_has_a_place(rule: Rule) -> None:
    if rule.thing is Thing.CARD and not rule.part and rule.how is not How.BINS:
        assert rule.field in {each.name for each in fields(CardHourBuilder)}


def test_each_metric_is_fetched_in_one_way() -> None:
    names = (*COUNTER_NAMES, *GAUGE_NAMES, *PEAK_NAMES, RESET_NAME)

    assert len(set(names)) == len(names)
    assert set(SECONDS_NAMES) < set(COUNTER_NAMES)
    assert all(name.endswith("_seconds_total") for name in SECONDS_NAMES)
    assert {rule.name for rule in RULES} <= set(names)
