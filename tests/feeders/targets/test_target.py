"""A target's URL and labels, from its group and its own labels."""

import pytest

from rightslice.feeders.http_config import HttpConfig
from rightslice.feeders.targets.target import TargetGroup, check_address, check_label

GROUP = TargetGroup(
    name="nodes",
    interval_seconds=15.0,
    timeout_seconds=10.0,
    scheme="http",
    metrics_path="/metrics",
    params={"collect[]": ("gpu", "nic")},
    labels={"cluster": "east", "site": "a"},
    http=HttpConfig(),
    listed=(),
    file_patterns=(),
    name_queries=(),
)


def test_a_target_is_an_address_in_the_groups_words() -> None:
    target = GROUP.target("n1:19400", {"site": "b", "node": "n1"})

    assert target.url == "http://n1:19400/metrics?collect%5B%5D=gpu&collect%5B%5D=nic"
    assert target.labels == {"cluster": "east", "site": "b", "node": "n1"}
    assert (target.group, target.interval_seconds, target.timeout_seconds) == ("nodes", 15.0, 10.0)


def test_labels_with_two_underscores_say_how_to_scrape_and_are_not_kept() -> None:
    labels = {
        "__scheme__": "https",
        "__metrics_path__": "/gpu",
        "__param_collect[]": "gpu",
        "__meta_rack": "7",
        "empty": "",
    }

    target = GROUP.target("[::1]:19400", labels)

    assert target.url == "https://[::1]:19400/gpu?collect%5B%5D=gpu"
    assert target.labels == {"cluster": "east", "site": "a"}


@pytest.mark.parametrize("address", ["n1:19400", "n1", "10.0.0.1:9400", "[::1]:9400", "n_1:80"])
def test_a_host_with_or_without_a_port_is_an_address(address: str) -> None:
    check_address(address)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        pytest.param("http://n1:19400", "keys of their own", id="URL"),
        pytest.param("n1:19400/metrics", "keys of their own", id="path"),
        pytest.param("", "want HOST:PORT", id="empty"),
        pytest.param(":19400", "want HOST:PORT", id="no host"),
        pytest.param("n1:port", "want HOST:PORT", id="port in words"),
        pytest.param("n1:0", "want HOST:PORT", id="port 0"),
        pytest.param("n1:99999", "want HOST:PORT", id="port too large"),
        pytest.param("[::1:9400", "want HOST:PORT", id="bracket"),
        pytest.param("me:word@n1:9400", "want HOST:PORT", id="credentials"),
        pytest.param("n1 :9400", "want HOST:PORT", id="space"),
        pytest.param("n1:9400?x=1", "want HOST:PORT", id="query"),
    ],
)
def test_what_is_no_address_is_refused_with_what_to_write(address: str, words: str) -> None:
    with pytest.raises(ValueError, match="holds") as told:
        check_address(address)

    assert words in str(told.value)


@pytest.mark.parametrize(
    ("name", "value"), [("__scheme__", "ftp"), ("__metrics_path__", "metrics")]
)
def test_a_label_that_would_break_the_url_is_refused(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"holds {name} '{value}'; want"):
        check_label(name, value)
