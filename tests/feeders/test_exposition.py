"""Pages as exporters and pipelines really serve them."""

import pytest

from rightslice.feeders.exposition import PageParser
from rightslice.feeders.readings import Reading


def test_a_page_gives_its_readings_without_comments() -> None:
    page = '# HELP a_b Words.\n# TYPE a_b gauge\na_b{x="1"} 2.5\n\nplain 7\n'

    assert PageParser().parse(page) == [Reading("a_b", {"x": "1"}, 2.5), Reading("plain", {}, 7.0)]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param('a{x="1",...} 0.7', id="cut label set"),
        pytest.param('a{x="1"}', id="no value"),
        pytest.param('a{x="1"} many', id="value is no number"),
        pytest.param('a{x="1"} 1 2 3', id="too many fields"),
        pytest.param("{'GPU': 1,", id="not an exposition at all"),
        pytest.param("a{x=1} 5", id="label without quotes"),
    ],
)
def test_a_broken_line_is_counted_and_hides_no_other(line: str) -> None:
    parser = PageParser()

    readings = parser.parse(f'good 1\n{line}\nalso_good{{y="2"}} 3\n')

    assert [reading.name for reading in readings] == ["good", "also_good"]
    assert parser.broken_line_count == 1


def test_awkward_label_values_survive() -> None:
    page = r'a{quote="\"",slash="\\",line="x\ny",brace="}",comma=","} 1'

    (reading,) = PageParser().parse(page)

    assert reading.labels == {
        "quote": '"',
        "slash": "\\",
        "line": "x\ny",
        "brace": "}",
        "comma": ",",
    }


def test_timestamps_and_exemplars_are_ignored() -> None:
    page = 'a{x="1"} 2 1700000000000\nb_bucket{le="1"} 3 # {trace_id="t"} 0.5 1700000000\n'

    assert [reading.value for reading in PageParser().parse(page)] == [2.0, 3.0]


@pytest.mark.parametrize(
    ("text", "value"), [("+Inf", float("inf")), ("-Inf", float("-inf")), ("1e3", 1000.0)]
)
def test_values_are_read_as_prometheus_writes_them(text: str, value: float) -> None:
    (reading,) = PageParser().parse(f"a {text}")

    assert reading.value == value


def test_a_series_seen_again_gives_the_same_labels_with_the_new_value() -> None:
    parser = PageParser()

    first = parser.parse('a{x="1"} 1')
    second = parser.parse('a{x="1"} 2')

    assert first[0].labels == second[0].labels
    assert second[0].value == 2.0


def test_series_that_left_the_page_are_not_remembered() -> None:
    parser = PageParser()
    for pod in range(100):
        parser.parse(f'a{{pod="{pod}"}} 1\n')

    assert len(parser._known) == 1
