"""Answers of Prometheus and its relatives, as they really come."""

import pytest

from rightslice.feeders.prometheus_answer import (
    LimitError,
    RetryError,
    SourceError,
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
    with pytest.raises(SourceError, match="partial answer"):
        read(200, b'{"status":"success","data":' + EMPTY + tail + b"}")


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


def test_a_matrix_gives_series_with_samples_in_order() -> None:
    data = {
        "resultType": "matrix",
        "result": [{"metric": {"a": "b"}, "values": [[1.5, "2"], [2, "NaN"], [3, "+Inf"]]}],
    }

    (series,) = read_matrix(URL, data)

    assert series.labels == {"a": "b"}
    assert [seconds for seconds, _ in series.samples] == [1.5, 2.0, 3.0]
    assert series.samples[0][1] == 2.0
    assert series.samples[1][1] != series.samples[1][1]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param({"resultType": "matrix"}, id="result missing"),
        pytest.param({"resultType": "scalar", "result": [1, "1"]}, id="scalar"),
        pytest.param([], id="list"),
    ],
)
def test_a_matrix_of_another_shape_is_an_error(data: object) -> None:
    with pytest.raises(SourceError):
        list(read_matrix(URL, data))
