"""What is told of slices, workloads, ports and incidents, hour by hour."""

import json

from rightslice.feeders.hours.facts import FactTable


def test_parts_of_a_value_are_kept_apart() -> None:
    facts = FactTable().at(("a",), 5)
    facts.add("wait_seconds/estimate", 2.0)
    facts.add("wait_seconds/estimate", 3.0)
    facts.add("wait_seconds/exclusive", 0.0)

    assert facts.parts("wait_seconds") == {"estimate": 5.0, "exclusive": 0.0}


def test_only_what_was_told_anew_is_given_again() -> None:
    table = FactTable()
    table.at(("a",), 5).add("x", 1.0)
    table.at(("b",), 5).add("x", 1.0)
    table.changed.clear()
    table.at(("b",), 5)

    assert [entity for _, entity, _ in table.told([5], changed_only=True)] == [("b",)]
    assert [entity for _, entity, _ in table.told([5, 6])] == [("a",), ("b",)]


def test_hours_survive_json() -> None:
    table = FactTable()
    facts = table.at(("a", "b"), 5)
    facts.add("x", 1.5)
    facts.add_to_bin("busy_bins", 3, 2.0)
    facts.note("bridged")

    again = FactTable()
    again.restore(json.loads(json.dumps(table.state(0))))

    assert again == table


def test_closed_hours_are_dropped_with_what_changed_in_them() -> None:
    table = FactTable()
    for hour in (4, 5):
        table.at(("a",), hour)

    table.forget_before(5)

    assert list(table.hours) == list(table.changed) == [5]
