"""The page: both formats, escaping, and the very text that Prometheus reads."""

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.golden import assert_golden
from support.pages import (
    MOST_SERIES_PER_CARD,
    REPEATABLE_COLLECTORS,
    from_openmetrics,
    from_text,
    values,
)
from support.simulated import IDENTITY, START_SECONDS, Simulate, simulated_card

from rightslice.contract.spec import Kind, MetricSpec, Unit
from rightslice.exporter.aggregate import HistogramState, Series
from rightslice.exporter.collectors import load
from rightslice.exporter.exposition import (
    KEPT_PER_SERIES,
    OPENMETRICS_CONTENT_TYPE,
    TEXT_CONTENT_TYPE,
    Renderer,
    number,
)
from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.host.host import Host
from rightslice.exporter.host.paths import NOWHERE
from rightslice.exporter.sampler import Sampler
from rightslice.exporter.simulate.library import installed
from rightslice.exporter.simulate.scenario import load_scenario

GOLDEN = Path(__file__).parent / "golden" / "fleet.prom"
OPENMETRICS = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3"
# Two whole minutes are observed, a third has begun.
GOLDEN_ROUNDS = 150

GAUGE = MetricSpec(
    "rightslice_test_bytes", Kind.GAUGE, Unit.BYTES, "Some \\ bytes.", labels=("uuid", "pod")
)
PLAIN = MetricSpec("rightslice_test_up", Kind.GAUGE, Unit.NONE, "Up.", labels=())
COUNTER = MetricSpec("rightslice_test_seconds_total", Kind.COUNTER, Unit.SECONDS, "Some time.")
HISTOGRAM = MetricSpec(
    "rightslice_test_ratio", Kind.HISTOGRAM, Unit.RATIO, "A share.", buckets=(0.25, 1.0)
)
AWKWARD = [
    pytest.param('a "quoted" name', id="quotes"),
    pytest.param("C:\\cards\\new", id="backslashes"),
    pytest.param("\\", id="one backslash"),
    pytest.param('\\"', id="backslash and quote"),
    pytest.param("two\nlines", id="newline"),
    pytest.param("\\n is no newline", id="written newline"),
    pytest.param("Grafikkarte für Zürich 显卡 🂡", id="not ASCII"),
    pytest.param("a=b,c={d} # e", id="signs of the format"),
    pytest.param("", id="empty"),
    pytest.param(" ", id="blank"),
]
# A label value is any text that UTF-8 can write.
texts = st.text(st.characters(codec="utf-8"))


@pytest.fixture(scope="module")
def fleet() -> Sampler:
    """A sampler of the fleet scenario after some rounds; its library is gone again."""
    clock = ManualClock(START_SECONDS)
    collectors = {name: load(name) for name in REPEATABLE_COLLECTORS}
    sampler = Sampler(Host("node-a", NOWHERE, clock.clock()), collectors, clock.clock(), IDENTITY)
    with installed(load_scenario("fleet"), clock.now_seconds):
        for _ in range(GOLDEN_ROUNDS):
            sampler.sample()
            clock.advance(1)
    return sampler


def test_the_page_of_a_fleet_is_as_reviewed(fleet: Sampler, update_golden: bool) -> None:
    page, _ = fleet.page()

    assert_golden(GOLDEN, page.decode(), update=update_golden)


@pytest.mark.integration
def test_promtool_finds_nothing_wrong_with_the_page(fleet: Sampler) -> None:
    page, _ = fleet.page()

    result = subprocess.run(
        ["promtool", "check", "metrics"], input=page, capture_output=True, check=False
    )

    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")


def test_both_formats_tell_the_same(fleet: Sampler) -> None:
    text, openmetrics = from_text(fleet.page()[0]), from_openmetrics(fleet.page(OPENMETRICS)[0])

    assert len(text) > 400
    assert text == openmetrics


def test_no_series_is_left_out_or_told_twice(fleet: Sampler) -> None:
    lines = [line for line in fleet.page()[0].decode().splitlines() if line[0] != "#"]

    assert len({line.rsplit(" ", 1)[0] for line in lines}) == len(lines)
    assert len(from_text(fleet.page()[0])) == len(lines)


def test_the_page_holds_no_time_of_creation(fleet: Sampler) -> None:
    assert "_created" not in fleet.page()[0].decode()
    assert "_created" not in fleet.page(OPENMETRICS)[0].decode()


def test_the_page_holds_no_value_that_is_no_number(fleet: Sampler) -> None:
    assert re.findall(r" (NaN|[+-]Inf)$", fleet.page()[0].decode(), re.MULTILINE) == []


def test_a_card_that_one_holder_has_costs_few_series(simulate: Simulate) -> None:
    node = simulate(simulated_card(1), simulated_card(2))
    sampler = node.sampler()
    node.sample_rounds(sampler, 3)

    series = [line for line in values(sampler) if "GPU-0001" in line]

    assert 50 < len(series) <= MOST_SERIES_PER_CARD


def test_the_text_format_is_what_a_client_gets_that_asks_for_nothing() -> None:
    page, content_type = Renderer().render([Series(COUNTER, ("GPU-0001",), 2.5)])

    assert content_type == TEXT_CONTENT_TYPE
    assert page.decode() == (
        "# HELP rightslice_test_seconds_total Some time.\n"
        "# TYPE rightslice_test_seconds_total counter\n"
        'rightslice_test_seconds_total{uuid="GPU-0001"} 2.5\n'
    )


def test_openmetrics_names_the_family_of_a_counter_without_total_and_ends_with_eof() -> None:
    page, content_type = Renderer().render([Series(COUNTER, ("GPU-0001",), 2.5)], OPENMETRICS)

    assert content_type == OPENMETRICS_CONTENT_TYPE
    assert page.decode() == (
        "# HELP rightslice_test_seconds Some time.\n"
        "# TYPE rightslice_test_seconds counter\n"
        'rightslice_test_seconds_total{uuid="GPU-0001"} 2.5\n'
        "# EOF\n"
    )


def test_a_histogram_is_told_by_rising_counts_with_sum_and_count() -> None:
    state = HistogramState([3, 2, 1], value_sum=2.75)

    page, _ = Renderer().render([Series(HISTOGRAM, ("GPU-0001",), histogram=state)])

    assert page.decode().splitlines()[2:] == [
        'rightslice_test_ratio_bucket{uuid="GPU-0001",le="0.25"} 3',
        'rightslice_test_ratio_bucket{uuid="GPU-0001",le="1.0"} 5',
        'rightslice_test_ratio_bucket{uuid="GPU-0001",le="+Inf"} 6',
        'rightslice_test_ratio_sum{uuid="GPU-0001"} 2.75',
        'rightslice_test_ratio_count{uuid="GPU-0001"} 6',
    ]


def test_a_metric_is_described_once_however_many_series_it_has() -> None:
    rows = [Series(COUNTER, (f"GPU-{number}",), 1) for number in range(3)]

    page, _ = Renderer().render(rows)

    assert page.decode().count("# TYPE") == 1
    assert page.decode().count("# HELP") == 1


def test_a_metric_without_labels_has_no_braces() -> None:
    page, _ = Renderer().render([Series(PLAIN, (), 1)])

    assert page.decode().splitlines()[-1] == "rightslice_test_up 1"


def test_a_node_with_nothing_to_tell_gives_an_empty_page() -> None:
    assert Renderer().render([])[0] == b"\n"
    assert Renderer().render([], OPENMETRICS)[0] == b"# EOF\n"


@pytest.mark.parametrize("value", AWKWARD)
def test_an_awkward_label_value_comes_back_unharmed_in_both_formats(value: str) -> None:
    rows = [Series(GAUGE, ("GPU-0001", value), 1)]
    expected = [("rightslice_test_bytes", {"uuid": "GPU-0001", "pod": value}, 1.0)]

    text, openmetrics = (Renderer().render(rows, accept)[0] for accept in ("", OPENMETRICS))

    assert from_text(text) == expected
    assert from_openmetrics(openmetrics) == expected


@settings(deadline=None)
@given(texts, texts)
def test_any_label_value_comes_back_from_openmetrics_unharmed(first: str, second: str) -> None:
    page, _ = Renderer().render([Series(GAUGE, (first, second), 1)], OPENMETRICS)

    (sample,) = from_openmetrics(page)

    assert sample[1] == {"uuid": first, "pod": second}


def test_a_backslash_in_a_help_text_is_escaped() -> None:
    page, _ = Renderer().render([Series(GAUGE, ("GPU-0001", ""), 1)])

    assert page.decode().splitlines()[0] == r"# HELP rightslice_test_bytes Some \\ bytes."


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(0, "0", id="zero"),
        pytest.param(-0.0, "0", id="negative zero"),
        pytest.param(True, "1", id="yes"),
        pytest.param(1.0, "1", id="whole number"),
        pytest.param(0.1, "0.1", id="fraction"),
        pytest.param(1 / 3, "0.3333333333333333", id="all digits"),
        pytest.param(85899345920, "85899345920", id="bytes of a card"),
        pytest.param(1_700_000_040.25, "1700000040.25", id="time stamp"),
        pytest.param(1e300, "1e+300", id="huge"),
        pytest.param(float("nan"), "NaN", id="no number"),
        pytest.param(float("inf"), "+Inf", id="infinite"),
        pytest.param(float("-inf"), "-Inf", id="below all"),
    ],
)
def test_a_number_is_written_as_prometheus_reads_it(value: float, text: str) -> None:
    assert number(value) == text


@given(st.floats(allow_nan=False))
def test_a_number_loses_no_digit(value: float) -> None:
    assert float(number(value)) == value


def test_what_is_kept_between_pages_never_shows_an_old_value() -> None:
    renderer = Renderer()
    renderer.render([Series(COUNTER, ("GPU-0001",), 1)])

    page, _ = renderer.render([Series(COUNTER, ("GPU-0001",), 2)])

    assert page.decode().splitlines()[-1].endswith(" 2")


def test_series_that_went_are_not_kept_for_ever() -> None:
    renderer = Renderer()

    for number_ in range(100):
        renderer.render([Series(COUNTER, (f"GPU-{number_}",), 1)])

    assert len(renderer._heads) <= KEPT_PER_SERIES
