"""Workloads that come and go: their gauges end with them, their counters are read to the end."""

from rightslice.contract.spec import Kind, MetricSpec, Sample, Unit
from rightslice.exporter.aggregate import Aggregate
from rightslice.exporter.lives import KEPT_SCRAPES, KEPT_SECONDS, MOST_ENDED, Lives

LABELS = ("uuid", "pod")
USED = MetricSpec(
    "rightslice_test_bytes", Kind.GAUGE, Unit.BYTES, "A gauge.", LABELS, subject_label_count=2
)
PEAK = MetricSpec(
    "rightslice_test_peak_bytes",
    Kind.GAUGE,
    Unit.BYTES,
    "A peak.",
    LABELS,
    peak_window_seconds=130,
    subject_label_count=2,
)
BUSY = MetricSpec(
    "rightslice_test_seconds_total",
    Kind.COUNTER,
    Unit.SECONDS,
    "A counter, by where its time went.",
    (*LABELS, "source"),
    subject_label_count=2,
)
SHARE = MetricSpec(
    "rightslice_test_ratio",
    Kind.HISTOGRAM,
    Unit.RATIO,
    "A ratio.",
    LABELS,
    buckets=(0.5, 1.0),
    subject_label_count=2,
)
CARD_USED = MetricSpec("rightslice_test_card_bytes", Kind.GAUGE, Unit.BYTES, "Of the card.")
FIRST, SECOND = ("GPU-0001", "first"), ("GPU-0001", "second")


class Page:
    """An aggregate whose readings and scrapes happen at given seconds."""

    def __init__(self) -> None:
        self.aggregate = Aggregate()

    def read(self, at_seconds: float, *pods: tuple[str, str], owner: str = "use") -> None:
        samples = [
            sample
            for pod in pods
            for sample in (
                Sample(USED, 1, pod),
                Sample(PEAK, 2, pod),
                Sample(BUSY, 3, (*pod, "estimate")),
                Sample(SHARE, 0.5, pod, covered_seconds=1),
            )
        ]
        self.aggregate.apply(owner, samples, at_seconds, at_seconds)
        self.aggregate.tell_subjects(owner, samples, at_seconds)
        self.aggregate.forget_ended(at_seconds)

    def scrape(self, at_seconds: float) -> set[tuple[str, str]]:
        """Give (metric, pod) of each series, and count the page as read."""
        rows = [(row.spec.name, row.labels[1]) for row in self.aggregate.series(at_seconds)]
        self.aggregate.scraped()
        return set(rows)

    def pods(self, at_seconds: float) -> set[str]:
        return {pod for _, pod in self.scrape(at_seconds)}


def test_a_workload_that_ended_has_no_gauge_and_keeps_its_counters() -> None:
    page = Page()
    page.read(0, FIRST, SECOND)

    page.read(1, SECOND)

    assert {name for name, pod in page.scrape(1) if pod == "first"} == {BUSY.name, SHARE.name}
    assert {name for name, pod in page.scrape(1) if pod == "second"} == {
        USED.name,
        PEAK.name,
        BUSY.name,
        SHARE.name,
    }


def test_its_counters_stay_for_the_time_even_when_they_were_scraped_often() -> None:
    page = Page()
    page.read(0, FIRST)
    page.read(1)
    for second in range(1, 10):
        page.scrape(second)

    page.read(KEPT_SECONDS)
    before_it_is_over = page.pods(KEPT_SECONDS)
    page.read(1 + KEPT_SECONDS)

    assert before_it_is_over == {"first"}
    assert page.pods(1 + KEPT_SECONDS) == set()


def test_its_counters_stay_until_they_were_scraped_twice_however_long_that_takes() -> None:
    page = Page()
    page.read(0, FIRST)
    page.scrape(0)  # before its end: does not count
    page.read(1)
    for hour in range(KEPT_SCRAPES):
        page.read(3600.0 * (hour + 1))
        assert page.pods(3600.0 * (hour + 1)) == {"first"}

    page.read(10_000)

    assert page.pods(10_000) == set()


def test_a_workload_that_comes_back_goes_on_from_its_counters() -> None:
    page = Page()
    page.read(0, FIRST)
    page.read(1)
    page.read(100, FIRST)
    for second in (100, 101, 102):
        page.scrape(second)

    page.read(1 + KEPT_SECONDS, FIRST)

    (busy,) = (row.value for row in page.aggregate.series(200) if row.spec is BUSY)
    assert busy == 9


def test_it_has_ended_only_when_no_owner_tells_it_any_more() -> None:
    page = Page()
    page.read(0, FIRST, owner="memory")
    page.read(0, FIRST, owner="use")

    page.read(1, owner="memory")
    while_the_other_tells_it = page.scrape(1)
    page.read(2, owner="use")

    assert (USED.name, "first") in while_the_other_tells_it
    assert {name for name, _ in page.scrape(2)} == {BUSY.name, SHARE.name}


def test_a_reading_that_failed_in_part_ends_nothing() -> None:
    page = Page()
    page.read(0, FIRST)
    page.aggregate.apply("use", [], 1, 1)  # and no whole reading is told

    page.aggregate.forget_ended(10_000)
    page.scrape(1), page.scrape(2)
    page.aggregate.forget_ended(10_000)

    assert {name for name, _ in page.scrape(10_000)} == {BUSY.name, SHARE.name}


def test_what_is_no_workload_s_is_left_alone() -> None:
    page = Page()
    page.aggregate.apply("card", [Sample(CARD_USED, 1, ("GPU-0001",))], 0, 0)
    page.read(0, FIRST)
    page.read(1)

    assert CARD_USED.name in {row.spec.name for row in page.aggregate.series(1)}


def test_ten_thousand_workloads_that_come_and_go_unseen_leave_a_bounded_rest() -> None:
    page = Page()
    for number in range(10_000):
        page.read(number, ("GPU-0001", f"pod-{number}"))
    page.read(10_000)

    pods = page.pods(10_000)

    assert len(pods) == MOST_ENDED
    assert "pod-9999" in pods  # the latest stay


def test_a_card_that_is_forgotten_takes_its_workloads_along() -> None:
    page = Page()
    page.read(0, FIRST)
    page.read(0, ("GPU-0002", "other"), owner="other card")
    page.read(1)

    page.aggregate.drop_label("GPU-0001")

    assert page.pods(1) == {"other"}
    assert page.aggregate._lives.take_forgotten(1e9) == frozenset()


def test_each_end_is_given_once() -> None:
    lives = Lives()
    lives.told("use", frozenset({FIRST}), 0)
    ended = lives.told("use", frozenset(), 1)
    for _ in range(KEPT_SCRAPES):
        lives.scraped()

    first, second = lives.take_forgotten(1_000), lives.take_forgotten(1_000)

    assert [ended, first, second] == [frozenset({FIRST}), frozenset({FIRST}), frozenset()]
