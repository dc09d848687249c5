"""Pages of serving engines, taken in as they come."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engine_pages import SGLANG, TGI, TRITON, rounded, vllm

from rightslice.feeders.engines.mapper import EngineMapper
from rightslice.feeders.engines.mapping import Fact, load_engine_mapping, shipped_engine_mappings
from rightslice.feeders.engines.places import EnginePlaces
from rightslice.feeders.exposition import PageParser
from rightslice.feeders.hours.spread import hour_start
from rightslice.feeders.readings import Reading
from rightslice.ledger.rows import EngineHour

HOUR = 1_000
START = HOUR * 3600.0
DOCS = Path(__file__).parents[3] / "docs" / "engines.md"
URL = "http://10.1.2.3:8000/metrics"
POD = {"namespace": "ml", "pod": "vllm-0", "container": "server"}


def fed(*pages: tuple[float, str], mapper: EngineMapper | None = None) -> EngineMapper:
    mapper = mapper or EngineMapper()
    for seconds, page in pages:
        mapper.feed(URL, START + seconds, PageParser().parse(page), POD)
    return mapper


def only(mapper: EngineMapper, hour: int = HOUR) -> EngineHour:
    (row,) = mapper.rows([hour])
    return row


def test_vllm_tells_peaks_counts_quantiles_and_what_is_configured() -> None:
    row = only(
        fed(
            (60, vllm(done=100)),
            (75, vllm(done=100, running=7, waiting=2, kv=0.62)),
            (90, vllm(done=300, fast=200, kv=0.3, preempted=4)),
        )
    )

    assert rounded(row) == EngineHour(
        "pod",
        "ml",
        "vllm-0",
        "server",
        hour_start(HOUR),
        source="vllm",
        engine="vllm",
        model="Qwen/Qwen3-8B",
        kv_cache_peak_ratio=0.62,
        kv_cache_capacity_tokens=32_000,
        running_peak=7.0,
        waiting_peak=2.0,
        request_count=200.0,
        # Of the hour's 200 requests 100 took up to 0.5 s, 100 up to 1 s.
        request_p99_seconds=0.99,
        first_token_p99_seconds=0.099,
        preemption_count=4.0,
        memory_share_ratio=0.9,
    )


def test_versions_that_tell_the_tokens_themselves_are_believed() -> None:
    page = vllm().replace(
        'num_gpu_blocks="2000"', 'kv_cache_size_tokens="99",num_gpu_blocks="2000"'
    )

    assert only(fed((60, page))).kv_cache_capacity_tokens == 99


def test_before_the_cache_is_known_nothing_is_told_of_it() -> None:
    page = vllm().replace('num_gpu_blocks="2000"', 'num_gpu_blocks="None"')

    assert only(fed((60, page))).kv_cache_capacity_tokens is None


def test_the_old_name_of_the_caches_use_is_known() -> None:
    page = vllm(kv=0.5).replace("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")

    assert only(fed((60, page))).kv_cache_peak_ratio == 0.5


def test_data_parallel_engines_add_up_and_the_fullest_cache_counts() -> None:
    page = vllm(running=3, kv=0.2) + vllm(running=4, kv=0.6).replace('engine="0"', 'engine="1"')

    row = only(fed((60, page)))

    assert (row.running_peak, row.kv_cache_peak_ratio) == (7.0, 0.6)
    assert row.kv_cache_capacity_tokens == 64_000


def test_sglangs_ranks_tell_the_same_pool() -> None:
    row = only(fed((60, SGLANG)))

    assert (row.engine, row.model) == ("sglang", "m")
    assert (row.running_peak, row.waiting_peak, row.kv_cache_peak_ratio) == (3.0, 2.0, 0.28)
    assert row.kv_cache_capacity_tokens == 471_258


def test_tgi_tells_no_cache() -> None:
    row = only(fed((60, TGI), (75, TGI.replace("40", "60").replace('le="0.1"} 0', 'le="0.1"} 5'))))

    assert (row.engine, row.model) == ("tgi", "")
    assert (row.running_peak, row.waiting_peak, row.request_count) == (9.0, 4.0, 20.0)
    # Most lie above the last edge: at least that.
    assert row.request_p99_seconds == 0.1
    assert (row.kv_cache_peak_ratio, row.first_token_p99_seconds) == (None, None)


def test_triton_counts_a_request_once_however_many_models_it_passes() -> None:
    row = only(fed((60, TRITON), (75, TRITON.replace("} 50", "} 80"))))

    assert row.request_count == 30.0
    assert row.kv_cache_peak_ratio == pytest.approx(0.1)
    assert row.kv_cache_capacity_tokens == 6240 * 64
    assert (row.running_peak, row.waiting_peak) == (6.0, 1.0)
    assert row.request_p99_seconds == 0.25


def test_what_was_served_before_it_was_first_read_is_not_the_hours() -> None:
    assert only(fed((60, vllm(done=5000)))).request_count is None


def test_a_restart_counts_from_zero() -> None:
    pages = (60, vllm(done=500)), (75, vllm(done=20, started=START + 65))

    assert only(fed(*pages)).request_count == 20.0


def test_what_was_served_over_an_edge_is_split_by_time() -> None:
    mapper = fed((3_590, vllm(done=0)), (3_620, vllm(done=30)))

    assert only(mapper).request_count == pytest.approx(10)
    assert only(mapper, HOUR + 1).request_count == pytest.approx(20)


def test_a_reading_on_the_edge_is_of_the_hour_that_ends() -> None:
    mapper = fed((3_600, vllm(running=9)))

    assert only(mapper).running_peak == 9.0
    assert mapper.rows([HOUR + 1]) == []


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "1.7"])
def test_a_share_that_is_none_is_refused(value: str) -> None:
    mapper = fed((60, vllm().replace('8B"} 0.1', f'8B"}} {value}')))

    assert only(mapper).kv_cache_peak_ratio is None


def test_a_page_of_nobody_is_told_and_gets_no_hour() -> None:
    mapper = EngineMapper()
    mapper.feed(URL, START + 60, PageParser().parse(vllm()))

    assert mapper.unattached == {URL: ("vllm",)}
    assert mapper.rows([HOUR]) == []


def test_a_page_is_found_by_its_address_once_the_port_is_known() -> None:
    mapper = EngineMapper(places=EnginePlaces())
    mapper.feed(URL, START + 60, PageParser().parse(vllm(done=10)))
    port = {"workload_kind": "pod", **POD, "address": "10.1.2.3", "port": "8000"}
    mapper.places.learn("node-1", [Reading("rightslice_workload_port_info", port, 1.0)])
    mapper.feed(URL, START + 75, PageParser().parse(vllm(done=10)))
    mapper.feed(URL, START + 90, PageParser().parse(vllm(done=15)))

    assert mapper.unattached == {}
    assert only(mapper).request_count == 5.0


def test_a_restart_of_ours_loses_nothing() -> None:
    before = fed((60, vllm(done=100)), (75, vllm(done=110, kv=0.7)))
    state = json.loads(json.dumps(before.state(HOUR)))
    after = EngineMapper()
    after.restore(state)

    row = only(fed((105, vllm(done=130)), mapper=after))

    assert (row.request_count, row.kv_cache_peak_ratio) == (30.0, 0.7)
    assert row.model == "Qwen/Qwen3-8B"


def test_a_page_that_is_not_newer_is_ignored() -> None:
    assert only(fed((60, vllm(running=1)), (60, vllm(running=9)))).running_peak == 1.0


def test_closed_hours_are_dropped_and_so_are_pages_that_are_long_gone() -> None:
    mapper = fed((60, vllm()))

    mapper.forget_before(HOUR + 8)

    assert mapper.rows([HOUR]) == []
    assert mapper.targets == {}


def test_a_users_own_metrics_get_hours_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(
        "name: gateway\nmetrics:\n  waiting:\n    - {metric: gw_queue}\n"
        "  request_p99_seconds:\n    - {metric: gw_p99_ms, scale: 0.001}\n"
    )
    mapper = EngineMapper([load_engine_mapping(file)])

    row = only(fed((60, "gw_queue 12\ngw_p99_ms 840\n"), mapper=mapper))

    assert (row.source, row.engine) == ("gateway", "gateway")
    assert (row.waiting_peak, row.request_p99_seconds) == (12.0, 0.84)


def test_the_example_of_the_docs_reads_its_page(tmp_path: Path) -> None:
    text = DOCS.read_text(encoding="utf-8")
    (mapping,) = re.findall(r"```yaml\n(name: .*?)```", text, re.DOTALL)
    (page,) = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    file = tmp_path / "gateway.yaml"
    file.write_text(mapping, encoding="utf-8")

    mapper = EngineMapper([load_engine_mapping(file)])
    row = only(
        fed((60, page), (75, re.sub(r" 1([12])0$", r" 2\g<1>0", page, flags=re.M)), mapper=mapper)
    )

    assert (row.engine, row.model, row.waiting_peak) == ("gateway", "small", 3.0)
    assert (row.request_count, row.request_p99_seconds) == (100.0, 0.495)
    assert row.first_token_p99_seconds == 0.35


def test_the_docs_name_every_fact() -> None:
    text = DOCS.read_text(encoding="utf-8")

    assert [fact for fact in Fact if f"`{fact}`" not in text] == []


def test_two_mappings_may_read_the_same_metric(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text('name: mine\nmetrics:\n  requests:\n    - {metric: "tgi_request_count"}\n')
    mapper = EngineMapper([*shipped_engine_mappings(), load_engine_mapping(file)])

    fed((60, TGI), (75, TGI.replace("count 40", "count 50")), mapper=mapper)

    told = {row.engine: row.request_count for row in mapper.rows([HOUR])}
    assert told == {"mine": 10.0, "tgi": 10.0}


@given(
    st.lists(st.tuples(st.floats(1, 900), st.integers(0, 500), st.booleans()), max_size=20),
)
def test_hours_add_up_to_what_was_served(steps: list[tuple[float, int, bool]]) -> None:
    mapper = EngineMapper()
    now, count, served = 0.0, 0, 0
    fed((now, vllm(done=0)), mapper=mapper)
    for gap, more, restarts in steps:
        now += gap
        count = more if restarts and more < count else count + more
        served += more
        fed((now, vllm(done=count)), mapper=mapper)

    hours = range(HOUR - 1, HOUR + 1 + int(now // 3600))
    told = [row.request_count for row in mapper.rows(hours)]

    assert sum(filter(None, told)) == pytest.approx(served)
