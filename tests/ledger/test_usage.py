"""Who held a card, and with whom it was shared, as the hours of workloads tell."""

import pytest
from support.usage import START, at_hour, card_hour, workload_hour

from rightslice.ledger.ledger import Batch, Ledger


def test_holders_come_by_card_the_latest_first() -> None:
    ledger = Ledger.open()
    hours = [card_hour(index, uuid) for index in range(3) for uuid in ("GPU-1", "GPU-2")]
    told = [
        workload_hour("old", 0, "GPU-1"),
        workload_hour("new", 1, "GPU-1"),
        workload_hour("new", 2, "GPU-1"),
        workload_hour("ring", 0, "GPU-2"),
    ]
    ledger.replace_hours(Batch(hours, told))

    first, second = ledger.card_usage(START, at_hour(3))

    assert [(held.pod, held.hour_count, held.last_hour) for held in first.holders] == [
        ("new", 2, at_hour(2)),
        ("old", 1, at_hour(0)),
    ]
    assert [held.pod for held in second.holders] == ["ring"]
    ledger.close()


@pytest.mark.parametrize(
    ("pods", "shared_hours"),
    [
        pytest.param((("serving", "chat"),), 0, id="one pod"),
        pytest.param((("serving", "chat"), ("serving", "ocr")), 1, id="two pods"),
        pytest.param((("a", "chat"), ("b", "chat")), 1, id="one name in two namespaces"),
        pytest.param((("a/b", "c"), ("a", "b/c")), 1, id="names that join to the same text"),
    ],
)
def test_an_hour_is_shared_when_two_workloads_are_in_it(
    pods: tuple[tuple[str, str], ...], shared_hours: int
) -> None:
    ledger = Ledger.open()
    workloads = [workload_hour(pod, namespace=namespace) for namespace, pod in pods]

    ledger.replace_hours(Batch([card_hour()], workloads))

    usage = ledger.card_usage(START, START.replace(month=10))[0]
    assert usage.shared_hour_count == shared_hours
    ledger.close()
