"""Answers of Prometheus and its relatives, as they really come."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.feeders.prometheus.answer import (
    LimitError,
    PartialError,
    RetryError,
    Samples,
    SourceError,
    joined,
    read_answer,
    read_matrix,
)

URL = "http://prometheus"
EMPTY = b'{"resultType":"vector","result":[]}'


def read(status: int, body: bytes) -> object:
    return read_answer(URL, status, body)


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param(b"", id="plain"),
        pytest.param(b',"infos":["PromQL info: metric might not be a counter"]', id="infos"),
        pytest.param(b',"warnings":[]', id="no warnings"),
        pytest.param(b',"isPartial":false', id="whole"),
        pytest.param(b',"stats":{"seriesFetched":"0"}', id="stats as text"),
    ],
)
def test_a_whole_answer_gives_its_data(tail: bytes) -> None:
    data = read(200, b'{"status":"success","data":' + EMPTY + tail + b"}")

    assert data == {"resultType": "vector", "result": []}


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param(b',"warnings":["store s1 unavailable"]', id="warnings"),
        pytest.param(b',"isPartial":true', id="isPartial"),
    ],
)
def test_a_partial_answer_is_refused(tail: bytes) -> None:
    with pytest.raises(PartialError, match="partial answer"):
        read(200, b'{"status":"success","data":' + EMPTY + tail + b"}")


def test_a_partial_range_is_refused_whatever_the_order_of_keys() -> None:
    body = (
        b'{"status":"success","isPartial":true,"data":{"resultType":"matrix","result":'
        b'[{"metric":{"pod":"a"},"values":[[1,"1"]]}]}}'
    )

    with pytest.raises(PartialError, match="some of its storage did not answer"):
        read_matrix(URL, 200, body)


def test_a_partial_scalar_is_refused() -> None:
    body = (
        b'{"status":"success", "isPartial":true, "data":{"resultType":"scalar","result":'
        b'[1583786142, "1"]}}'
    )

    with pytest.raises(PartialError):
        read_matrix(URL, 200, body)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"status":"unknown"}', id="unknown status"),
        pytest.param(b'{"status":"success","data":7}', id="data of another kind"),
        pytest.param(b"[]", id="bare list"),
        pytest.param(b'[{"target":"x","datapoints":[[1,2]]}]', id="graphite"),
        pytest.param(b"<html>hello</html>", id="a web page"),
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xff\xfe", id="not text"),
    ],
)
def test_what_is_no_prometheus_answer_is_never_read_as_empty(body: bytes) -> None:
    with pytest.raises(SourceError, match="check the URL"):
        read(200, body)


@pytest.mark.parametrize(
    ("status", "body", "error", "words"),
    [
        pytest.param(401, b"Unauthorized", SourceError, "--prometheus.config.file", id="401"),
        pytest.param(403, b"no", SourceError, "refused our credentials", id="403"),
        pytest.param(404, b"404 page not found", SourceError, "check the URL", id="404"),
        pytest.param(
            400,
            b'{"status":"error","errorType":"bad_data","error":"exceeded maximum resolution of '
            b'11,000 points per timeseries"}',
            LimitError,
            "maximum resolution",
            id="too many points",
        ),
        pytest.param(
            422,
            b'{"status":"error","errorType":"422","error":"cannot parse query"}',
            LimitError,
            "cannot parse query",
            id="VictoriaMetrics 422",
        ),
        pytest.param(
            200,
            b'{"status":"error","msg":"the flag must be configured"}',
            SourceError,
            "the flag must be configured",
            id="msg in place of error",
        ),
        pytest.param(
            422,
            b"expanding series: the query hit the max number of series limit (limit: 100000)",
            LimitError,
            "limit: 100000",
            id="Cortex limit without JSON",
        ),
        pytest.param(
            422,
            b"execution: expanding series: failed to receive series: rpc error: code = Code(422) "
            b"desc = exceeded chunks limit: limit 2000000 violated (got 2000033)",
            LimitError,
            "got 2000033",
            id="Cortex chunks",
        ),
        pytest.param(
            503,
            b'{"status":"error","error":"cannot select more than -search.maxSamplesPerQuery"}',
            LimitError,
            "maxSamplesPerQuery",
            id="VictoriaMetrics samples",
        ),
        pytest.param(
            503,
            b'{"status":"error","errorType":"timeout","error":"query timed out in expression"}',
            LimitError,
            "timed out",
            id="Prometheus timeout",
        ),
        pytest.param(429, b"too many outstanding requests", RetryError, "outstanding", id="Mimir"),
        pytest.param(503, b"starting", RetryError, "try again later", id="503"),
        pytest.param(502, b"bad gateway", RetryError, "HTTP 502", id="502"),
        pytest.param(429, b"slow down", RetryError, "HTTP 429", id="429"),
    ],
)
def test_a_refusal_says_why_and_what_to_do(
    status: int, body: bytes, error: type[SourceError], words: str
) -> None:
    with pytest.raises(error, match=words) as caught:
        read(status, body)

    assert URL in str(caught.value)


def matrix(*series: tuple[dict[str, str], list[list[object]]], spaced: bool = False) -> bytes:
    result = [{"metric": labels, "values": values} for labels, values in series]
    body = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    return json.dumps(body, separators=None if spaced else (",", ":")).encode()


@pytest.mark.parametrize("spaced", [False, True], ids=["as servers write it", "spaced"])
def test_a_matrix_gives_series_with_samples_in_order(spaced: bool) -> None:
    body = matrix(
        ({"a": "b"}, [[1.5, "2"], [2, "NaN"], [3, "+Inf"]]),
        ({"a": "c"}, [[1.5, "4e3"], [2, "5"], [3, "-0.5"]]),
        ({"a": "d"}, [[7, "8"]]),
        spaced=spaced,
    )

    first, second, third = read_matrix(URL, 200, body)

    assert (first.labels, second.labels, third.labels) == ({"a": "b"}, {"a": "c"}, {"a": "d"})
    assert first.stamps.tolist() == second.stamps.tolist() == [1.5, 2.0, 3.0]
    assert np.array_equal(first.values, [2.0, np.nan, np.inf], equal_nan=True)
    assert second.values.tolist() == [4000.0, 5.0, -0.5]
    assert (third.stamps.tolist(), third.values.tolist()) == ([7.0], [8.0])


@given(st.text(), st.lists(st.floats(0, 1e12), min_size=1, max_size=5))
def test_no_label_is_taken_for_samples(text: str, values: list[float]) -> None:
    labels = {"a": '"values":[[1,"2"]]', "b": text, "values": '[["'}
    body = matrix((labels, [[number, repr(value)] for number, value in enumerate(values)]))

    (series,) = read_matrix(URL, 200, body)

    assert series.labels == labels
    assert series.values.tolist() == values


def test_a_series_without_samples_is_told_as_one() -> None:
    (series,) = read_matrix(URL, 200, matrix(({"a": "b"}, [])))

    assert len(series.stamps) == len(series.values) == 0


@pytest.mark.parametrize(
    "data",
    [
        pytest.param('{"resultType":"matrix"}', id="result missing"),
        pytest.param('{"resultType":"scalar","result":[1,"1"]}', id="scalar"),
        pytest.param('{"resultType":"vector","result":[]}', id="vector"),
        pytest.param("[]", id="list"),
        pytest.param('{"resultType":"matrix","result":[{"values":[[1,"2"]]}]}', id="no labels"),
        pytest.param(
            '{"resultType":"matrix","result":[{"metric":{},"values":[[1,"x"]]}]}', id="no number"
        ),
        pytest.param(
            '{"resultType":"matrix","result":[{"metric":{},"values":[[1,"2"],[3]]}]}', id="cut off"
        ),
    ],
)
def test_a_matrix_of_another_shape_is_an_error(data: str) -> None:
    with pytest.raises(SourceError, match=URL):
        read_matrix(URL, 200, b'{"status":"success","data":' + data.encode() + b"}")


def test_pieces_of_a_series_are_put_together() -> None:
    early = Samples({"a": "b"}, np.array([1.0]), np.array([2.0]))
    late = Samples({"a": "b"}, np.array([3.0]), np.array([4.0]))
    other = Samples({"a": "c"}, np.array([3.0]), np.array([5.0]))

    both, single = joined([[early], [late, other]])

    assert (both.stamps.tolist(), both.values.tolist()) == ([1.0, 3.0], [2.0, 4.0])
    assert single is other
