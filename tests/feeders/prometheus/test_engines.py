"""Engines' hours from a real Prometheus and VictoriaMetrics, the same as from their pages."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.engine_pages import rounded, vllm
from support.prometheus import running_prometheus, write_blocks
from support.victoria import running_victoria

from rightslice.feeders.engines.mapper import EngineMapper
from rightslice.feeders.engines.places import EnginePlaces
from rightslice.feeders.exposition import PageParser
from rightslice.feeders.prometheus.client import PrometheusClient
from rightslice.feeders.prometheus.engines import read_engines
from rightslice.ledger.rows import EngineHour

pytestmark = pytest.mark.integration

HOUR = 490_000
START = HOUR * 3600
HOURS = range(HOUR, HOUR + 3)
INTERVAL = 30
# Names of pods: one that runs throughout, one that is restarted, one of two engines that are busy
# at different times, one that starts later, one that ends early, one that only its address tells.
STEADY, RESTARTED, PARALLEL = "steady", "restarted", "parallel"
LATE, ENDED, BARE = "late", "ended", "bare"
RESTART = 5_000
BEGIN = 4_000
END = 5_500


def target(pod: str, replica: str = "a") -> dict[str, str]:
    place = {} if pod == BARE else {"namespace": "ml", "pod": pod, "container": "server"}
    return {"instance": f"{pod}:8000", "job": "vllm", "prometheus_replica": replica, **place}


def page(pod: str, seconds: int) -> str:
    """The page of an engine so many seconds after the start."""
    if pod == RESTARTED:
        done, wait = (seconds // 10, 0) if seconds < RESTART else ((seconds - RESTART) * 2, 1)
        return vllm(done=done, fast=done // 2, waiting=wait, started=START + RESTART * (wait > 0))
    if pod == PARALLEL:
        first_is_busy = 0 < seconds % 7_200 < 1_800
        one = vllm(running=8 if first_is_busy else 1, done=seconds)
        other = vllm(running=2 if first_is_busy else 6, done=2 * seconds)
        return one + other.replace('engine="0"', 'engine="1"')
    if pod == LATE:
        return vllm(done=seconds - BEGIN)
    kv = 0.9 if seconds == 1_800 else 0.25
    return vllm(done=seconds // 3, fast=seconds // 4, kv=kv, running=4)


def pages(pod: str) -> Iterator[tuple[int, str]]:
    start = BEGIN if pod == LATE else -3 * INTERVAL
    end = END if pod == ENDED else 3 * 3_600 + 3 * INTERVAL
    for seconds in range(start, end, INTERVAL):
        yield seconds, page(pod, seconds)


def lines() -> Iterator[str]:
    """The history as it is stored: each series in the order of time."""
    series: dict[str, list[str]] = {}
    for pod in (STEADY, RESTARTED, PARALLEL, LATE, ENDED, BARE):
        for replica in ("a", "b") if pod == STEADY else ("a",):
            labels = ",".join(f'{k}="{v}"' for k, v in target(pod, replica).items())
            for seconds, text in pages(pod):
                for reading in PageParser().parse(text):
                    own = "".join(f',{k}="{v}"' for k, v in reading.labels.items())
                    name = f"{reading.name}{{{labels}{own}}}"
                    stamp = START + seconds
                    series.setdefault(name, []).append(f"{name} {reading.value!r} {stamp}")
    # One family after the other, as the format wants it.
    for name in sorted(series):
        yield from series[name]


@contextmanager
def prometheus(folder: Path) -> Iterator[str]:
    with running_prometheus(write_blocks(folder, lines())) as url:
        yield url


@contextmanager
def victoria(folder: Path) -> Iterator[str]:
    with running_victoria(folder, lines()) as url:
        yield url


@pytest.fixture(scope="module", params=[prometheus, victoria], ids=["prometheus", "victoria"])
def client(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PrometheusClient]:
    with request.param(tmp_path_factory.mktemp("engines")) as url:
        client = PrometheusClient(url)
        yield client
        client.close()


def places() -> EnginePlaces:
    known = EnginePlaces()
    known.learn_port(
        {
            "workload_kind": "pod",
            "namespace": "ml",
            "pod": BARE,
            "container": "server",
            "address": BARE,
            "port": "8000",
        }
    )
    return known


@pytest.fixture(scope="module")
def pulled(client: PrometheusClient) -> dict[str, list[EngineHour]]:
    found: dict[str, list[EngineHour]] = {}
    for row in read_engines(client, HOURS.start, HOURS.stop, places()):
        found.setdefault(row.pod, []).append(row)
    return found


def scraped(pod: str) -> list[EngineHour]:
    mapper = EngineMapper(places=places())
    for seconds, text in pages(pod):
        mapper.feed(f"http://{pod}:8000/", START + seconds, PageParser().parse(text), target(pod))
    return mapper.rows(HOURS)


@pytest.mark.parametrize("pod", [STEADY, RESTARTED, PARALLEL, ENDED, BARE])
def test_a_prometheus_tells_what_the_pages_tell(
    pulled: dict[str, list[EngineHour]], pod: str
) -> None:
    assert [rounded(row) for row in pulled[pod]] == [rounded(row) for row in scraped(pod)]


def test_engines_that_are_busy_in_turn_are_added_reading_by_reading(
    pulled: dict[str, list[EngineHour]],
) -> None:
    assert [row.running_peak for row in pulled[PARALLEL]] == [10.0, 7.0, 10.0]


def test_two_replicas_of_a_prometheus_tell_of_one_engine(
    pulled: dict[str, list[EngineHour]],
) -> None:
    assert [row.request_count for row in pulled[STEADY]] == [1200.0, 1200.0, 1200.0]


def test_a_restart_in_the_middle_of_an_hour_loses_no_request(
    pulled: dict[str, list[EngineHour]],
) -> None:
    # Up to the last scrape before it, and all after it.
    assert pulled[RESTARTED][1].request_count == pytest.approx(498 - 360 + 2 * 2_200, abs=4)


def test_an_engine_that_starts_within_an_hour_counts_from_zero(
    pulled: dict[str, list[EngineHour]],
) -> None:
    # An hour's requests are those up to its last reading, here 20 s before its end.
    assert [row.request_count for row in pulled[LATE]] == [3_180.0, 3_600.0]


def test_engines_without_a_workload_are_said_once_and_get_no_hours(
    client: PrometheusClient, caplog: pytest.LogCaptureFixture
) -> None:
    found = read_engines(client, HOURS.start, HOURS.stop, EnginePlaces())

    assert BARE not in {row.pod for row in found}
    assert "1 engines belong to no workload that is known, such as bare:8000" in caplog.text


def test_where_there_are_no_engines_there_are_no_hours(client: PrometheusClient) -> None:
    assert read_engines(client, HOURS.start - 100, HOURS.start - 90, places()) == []
