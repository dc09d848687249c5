"""The file of groups: what it may say, and what it says of a mistake."""

from pathlib import Path

import pytest

from rightslice.catalogue.located_yaml import DocumentError
from rightslice.feeders.targets.config import TargetConfig, read_target_config
from rightslice.feeders.targets.target import Listed, NameQuery

PASTED = Path(__file__).parents[3] / "deploy/prometheus/scrape.yaml"


def config(folder: Path, text: str) -> TargetConfig:
    file = folder / "targets.yml"
    file.write_text(text, encoding="utf-8")
    return read_target_config(file, 15.0)


def one_job(keys: str) -> str:
    return f"scrape_configs:\n  - job_name: nodes\n    {keys}\n"


def test_a_scrape_config_of_prometheus_is_read_as_it_is(tmp_path: Path) -> None:
    text = PASTED.read_text(encoding="utf-8")
    pasted = text[text.index("scrape_configs:") :]

    (group,) = config(tmp_path, pasted).groups

    assert group.name == "rightslice-exporter"
    assert (group.scheme, group.metrics_path, group.interval_seconds) == ("http", "/metrics", 15.0)
    assert group.listed == (Listed(("127.0.0.1:19400",), {}),)


def test_every_key_is_kept(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abc\n", encoding="utf-8")

    (group,) = config(
        tmp_path,
        """
global:
  scrape_interval: 30s
  scrape_timeout: 5s
  evaluation_interval: 1m
  external_labels: {cluster: east}
scrape_configs:
  - job_name: nodes
    scrape_interval: 1m30s
    scrape_timeout: 500ms
    scheme: https
    metrics_path: /gpu
    params: {collect: [a, b]}
    honor_labels: true
    authorization: {credentials_file: token}
    tls_config: {insecure_skip_verify: true, server_name: exporter.test}
    static_configs:
      - targets: [n1:19400, n2:19400]
        labels: {site: a}
    file_sd_configs:
      - files: ["sd/*.json", /etc/more.yml]
        refresh_interval: 1m
    dns_sd_configs:
      - names: [_gpu._tcp.test]
      - names: [gpu.test]
        type: AAAA
        port: 9400
        refresh_interval: 10s
""",
    ).groups

    assert (group.interval_seconds, group.timeout_seconds) == (90.0, 0.5)
    assert (group.scheme, group.metrics_path, group.params) == (
        "https",
        "/gpu",
        {"collect": ("a", "b")},
    )
    assert group.labels == {"cluster": "east"}
    assert group.http.headers == {"Authorization": "Bearer abc"}
    assert (group.http.is_verified, group.http.server_name) == (False, "exporter.test")
    assert group.listed == (Listed(("n1:19400", "n2:19400"), {"site": "a"}),)
    assert group.file_patterns == (str(tmp_path / "sd/*.json"), "/etc/more.yml")
    assert group.name_queries == (
        NameQuery("_gpu._tcp.test", "SRV", None, 30.0),
        NameQuery("gpu.test", "AAAA", 9400, 10.0),
    )


def test_what_a_group_does_not_say_is_said_for_all_or_by_the_flag(tmp_path: Path) -> None:
    job = "scrape_configs: [{job_name: nodes}]\n"

    (by_flag,) = config(tmp_path, job).groups
    (by_global,) = config(
        tmp_path, f"global: {{scrape_interval: 5s, scrape_timeout: 8s}}\n{job}"
    ).groups

    assert (by_flag.interval_seconds, by_flag.timeout_seconds) == (15.0, 10.0)
    # No scrape may last until after the next one is due.
    assert (by_global.interval_seconds, by_global.timeout_seconds) == (5.0, 5.0)


def test_the_files_of_secrets_are_watched_too(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("abc", encoding="utf-8")
    read = config(tmp_path, one_job("bearer_token_file: token"))
    before = any(entry.is_stale() for entry in read.stamps)

    token.write_text("abcd", encoding="utf-8")

    assert not before
    assert [entry.file for entry in read.stamps if entry.is_stale()] == [token]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("[]", "line 1: must be a mapping", id="list"),
        pytest.param("scrape_configs: [\n", "not YAML", id="no YAML"),
        pytest.param(
            "rule_files: []", "rule_files is not a known key; known here: global", id="key"
        ),
        pytest.param("scrape_configs: [{scheme: http}]", "job_name is missing; add it", id="name"),
        pytest.param(
            "scrape_configs: [{job_name: a}, {job_name: a}]", "'a' is given twice", id="twice"
        ),
        pytest.param(
            one_job("static_config: []"), "line 3: scrape_configs[0].static_config", id="misspelt"
        ),
        pytest.param(
            one_job("static_configs: [{targets: ['http://n:1']}]"), "keys of their own", id="URL"
        ),
        pytest.param(
            one_job("static_configs: [{targets: [n], labels: {__scheme__: ftp}}]"),
            "labels holds __scheme__ 'ftp'",
            id="label",
        ),
        pytest.param(one_job("scrape_interval: 15"), "must be a time with its unit", id="unit"),
        pytest.param(one_job("scrape_interval: 1h"), "must be between 1s and 5m", id="long"),
        pytest.param(one_job("scrape_timeout: 1m"), "not above scrape_interval", id="timeout"),
        pytest.param(one_job("scheme: ftp"), "must be one of http, https", id="scheme"),
        pytest.param(one_job("metrics_path: metrics"), "must begin with /", id="path"),
        pytest.param(
            one_job("relabel_configs: [{}]"), "write the targets and labels", id="relabel"
        ),
        pytest.param(
            one_job("kubernetes_sd_configs: [{role: pod}]"), "name it in file_sd_configs", id="sd"
        ),
        pytest.param(
            one_job("file_sd_configs: [{files: [a.txt]}]"), "want .json, .yml or .yaml", id="ending"
        ),
        pytest.param(
            one_job("dns_sd_configs: [{names: [a], type: A}]"), "port is missing", id="no port"
        ),
        pytest.param(
            one_job("dns_sd_configs: [{names: [a], port: 1}]"), "leave it out", id="SRV port"
        ),
        pytest.param(
            one_job("dns_sd_configs: [{names: [a], type: A, port: 99999}]"), "at most", id="port"
        ),
        pytest.param(one_job("dns_sd_configs: [{names: [a], type: MX}]"), "one of SRV", id="type"),
        pytest.param(one_job("bearer_token_file: none"), "cannot be read", id="no secret"),
        pytest.param(one_job("tls_config: {ca_file: none}"), "cannot be used", id="no authority"),
    ],
)
def test_a_mistake_is_named_with_its_file_and_what_to_write(
    tmp_path: Path, text: str, words: str
) -> None:
    with pytest.raises(DocumentError) as told:
        config(tmp_path, text)

    assert str(told.value).startswith(f"{tmp_path / 'targets.yml'}, line ")
    assert words in str(told.value)
