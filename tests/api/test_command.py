"""Settings: flags over environment over file over defaults."""

import argparse
from datetime import timedelta
from pathlib import Path

import pytest

from rightslice.advice.policy import Isolation
from rightslice.api.command import (
    add_common_flags,
    duration,
    interval_seconds,
    policy_of,
    with_surroundings,
)
from rightslice.api.serve import COMMAND as SERVE
from rightslice.catalogue.located_yaml import DocumentError


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="rightslice serve", allow_abbrev=False)
    add_common_flags(made)
    SERVE.add_flags(made)
    return made


def given(*arguments: str, environment: dict[str, str] | None = None) -> argparse.Namespace:
    made = parser()
    return made.parse_args(with_surroundings(made, arguments, environment or {}))


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "rightslice.yml"
    file.write_text("window: 7d\npolicy: batch\nscrape_interval: 30s\n", encoding="utf-8")
    return file


def test_defaults_hold_where_nothing_is_told() -> None:
    read = given()

    assert read.window == timedelta(days=28)
    assert read.scrape_interval == 15.0
    assert policy_of(read).required_isolation is Isolation.VM


def test_a_file_wins_over_defaults(config: Path) -> None:
    read = given("--config", str(config))

    assert read.window == timedelta(days=7)
    assert read.scrape_interval == 30.0
    assert policy_of(read).compute.rank == 0.90


def test_the_environment_wins_over_the_file_and_a_flag_over_both(config: Path) -> None:
    environment = {
        "RIGHTSLICE_WINDOW": "3d",
        "RIGHTSLICE_POLICY": "latency",
        "RIGHTSLICE_CONFIG": str(config),
    }

    read = given("--policy=balanced", environment=environment)

    assert read.window == timedelta(days=3)
    assert read.policy == "balanced"
    assert read.scrape_interval == 30.0


def test_a_flag_that_may_be_given_often_is_a_list_in_the_environment() -> None:
    read = given(environment={"RIGHTSLICE_TARGET": "http://a/metrics, http://b/metrics"})

    assert read.target == ["http://a/metrics", "http://b/metrics"]


def test_flags_replace_a_list_rather_than_add_to_it() -> None:
    read = given("--target", "http://c/metrics", environment={"RIGHTSLICE_TARGET": "http://a"})

    assert read.target == ["http://c/metrics"]


def test_a_dotted_flag_has_a_name_in_the_environment() -> None:
    read = given(environment={"RIGHTSLICE_PROMETHEUS_CONFIG_FILE": "http.yml"})

    assert read.prometheus_config_file == Path("http.yml")


def test_a_bad_value_in_the_environment_is_refused_like_a_flag(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        given(environment={"RIGHTSLICE_WINDOW": "soon"})

    assert ended.value.code == 2
    assert "number with its unit" in capsys.readouterr().err


def test_a_config_file_that_is_not_there_is_said() -> None:
    with pytest.raises(DocumentError, match="cannot be read"):
        given("--config", "nowhere.yml")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("28d", timedelta(days=28)), ("12h", timedelta(hours=12)), ("1.5d", timedelta(hours=36))],
)
def test_durations_are_read_with_their_unit(text: str, expected: timedelta) -> None:
    assert duration(text) == expected


@pytest.mark.parametrize("text", ["28", "d", "-1d", "1y", "59s", "500d", ""])
def test_a_window_without_unit_or_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        duration(text)


@pytest.mark.parametrize("text", ["0s", "500ms", "10m", "15"])
def test_a_scrape_interval_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="between 1s and 5m"):
        interval_seconds(text)
