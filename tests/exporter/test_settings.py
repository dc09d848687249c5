"""Flags over environment over defaults, and a sentence for each bad value."""

import argparse
import re
import socket
from pathlib import Path

import pytest

from rightslice.exporter.collectors import ENABLED
from rightslice.exporter.host.paths import Paths
from rightslice.exporter.settings import (
    duration_seconds,
    interval_seconds,
    listen_address,
    own_version,
    parser,
    read_settings,
)


def test_without_flags_the_whole_machine_is_sampled_every_second() -> None:
    settings = read_settings([], {})

    assert settings.listen_host == ""
    assert settings.listen_port == 19400
    assert settings.interval_seconds == 1.0
    assert settings.collectors == ENABLED
    assert settings.paths == Paths(Path("/sys"), Path("/proc"), Path("/dev/kmsg"))
    assert settings.min_cards == 1
    assert settings.scenario is None
    assert settings.log_level == "info"


@pytest.mark.parametrize(
    ("arguments", "environment", "node"),
    [
        pytest.param([], {}, socket.gethostname(), id="host name"),
        pytest.param([], {"NODE_NAME": "n1"}, "n1", id="as Kubernetes tells it"),
        pytest.param(
            [], {"NODE_NAME": "n1", "RIGHTSLICE_NODE_NAME": "n2"}, "n2", id="our own variable"
        ),
        pytest.param(["--node.name=n3"], {"RIGHTSLICE_NODE_NAME": "n2"}, "n3", id="flag"),
        pytest.param(["--node.name="], {"NODE_NAME": "n1"}, "n1", id="empty flag says nothing"),
    ],
)
def test_the_node_is_named_by_the_nearest_that_knows_it(
    arguments: list[str], environment: dict[str, str], node: str
) -> None:
    assert read_settings(arguments, environment).node == node


def test_every_value_can_come_from_the_environment() -> None:
    settings = read_settings(
        [],
        {
            "RIGHTSLICE_WEB_LISTEN_ADDRESS": "127.0.0.1:9000",
            "RIGHTSLICE_SAMPLING_INTERVAL": "500ms",
            "RIGHTSLICE_SIMULATE": "fleet",
            "RIGHTSLICE_LOG_LEVEL": "debug",
            "RIGHTSLICE_READINESS_MIN_GPUS": "8",
            "RIGHTSLICE_PATH_SYSFS": "/host/sys",
            "RIGHTSLICE_PATH_PROCFS": "/host/proc",
            "RIGHTSLICE_PATH_KMSG": "/host/kmsg",
            "RIGHTSLICE_PATH_HAMI": "/host/vgpu",
            "RIGHTSLICE_COLLECTOR_GPU_MEMORY": "false",
            "RIGHTSLICE_REVISION": "abc123",
        },
    )

    assert (settings.listen_host, settings.listen_port) == ("127.0.0.1", 9000)
    assert settings.interval_seconds == 0.5
    assert settings.scenario == "fleet"
    assert settings.log_level == "debug"
    assert settings.min_cards == 8
    assert settings.paths == Paths(
        Path("/host/sys"), Path("/host/proc"), Path("/host/kmsg"), hami=Path("/host/vgpu")
    )
    assert set(ENABLED) - set(settings.collectors) == {"gpu_memory"}
    assert settings.revision == "abc123"


def test_an_empty_variable_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("NODE_NAME", "REVISION", "SIMULATE", "SAMPLING_INTERVAL", "COLLECTOR_XID", "ELSE")

    settings = read_settings([], {f"RIGHTSLICE_{name}": "" for name in names})

    assert settings == read_settings([], {})
    assert capsys.readouterr().err == ""


def test_a_flag_that_a_simulated_node_does_without_is_warned_of(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["--path.procfs=/host/proc", "--path.sysfs=/sys"]

    read_settings([*arguments, "--simulate=fleet"], {})
    assert capsys.readouterr().err == (
        "rightslice-exporter: warning: --path.procfs has no effect with --simulate: "
        "the simulated node has its own\n"
    )
    read_settings(arguments, {})
    assert capsys.readouterr().err == ""


def test_collectors_that_find_nothing_without_another_are_warned_of(
    capsys: pytest.CaptureFixture[str],
) -> None:
    read_settings(["--no-collector.network", "--no-collector.rdma-idle"], {})

    assert capsys.readouterr().err == (
        "rightslice-exporter: warning: --no-collector.network: no RDMA device or network interface "
        "is found, so rdma, rdma_nic tell nothing; switch them off as well, or this "
        "one on\n"
    )


def test_the_network_s_collectors_may_all_be_off(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("network", "rdma", "rdma-idle", "rdma-nic")

    read_settings([f"--no-collector.{name}" for name in names], {})

    assert capsys.readouterr().err == ""


def test_a_variable_that_stands_for_no_flag_is_warned_of(
    capsys: pytest.CaptureFixture[str],
) -> None:
    read_settings([], {"RIGHTSLICE_PORT": "80", "RIGHTSLICE_COLLECTOR_GPUUSE": "off"})

    assert capsys.readouterr().err == (
        "rightslice-exporter: warning: no flag is set by "
        "RIGHTSLICE_COLLECTOR_GPUUSE, RIGHTSLICE_PORT; see --help\n"
    )


def test_the_variables_of_flags_and_of_kubernetes_are_not_warned_of(
    capsys: pytest.CaptureFixture[str],
) -> None:
    read_settings(
        [],
        {
            "RIGHTSLICE_REVISION": "abc123",
            "RIGHTSLICE_COLLECTOR_GPU_USE": "true",
            "RIGHTSLICE_SERVICE_HOST": "10.0.0.1",
            "RIGHTSLICE_PORT": "tcp://10.0.0.1:80",
            "RIGHTSLICE_EXPORTER_SERVICE_HOST": "10.0.0.2",
            "RIGHTSLICE_EXPORTER_SERVICE_PORT_HTTP": "19400",
            "RIGHTSLICE_EXPORTER_PORT_19400_TCP_ADDR": "10.0.0.2",
        },
    )

    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("word", ["1", "true", "yes", "on", "TRUE", "On"])
def test_a_collector_stays_on_by_any_usual_word(word: str) -> None:
    assert read_settings([], {"RIGHTSLICE_COLLECTOR_GPU_USE": word}).collectors == ENABLED


@pytest.mark.parametrize("word", ["maybe", "2", "none", " "])
def test_a_word_that_is_neither_yes_nor_no_is_refused(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ending:
        read_settings([], {"RIGHTSLICE_COLLECTOR_GPU_USE": word})

    assert ending.value.code == 2
    complaint = f"RIGHTSLICE_COLLECTOR_GPU_USE in the environment: want true or false, got {word!r}"
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        pytest.param(["--node.name=n\udcff"], {}, id="flag"),
        pytest.param([], {"NODE_NAME": "n\udcff"}, id="as Kubernetes tells it"),
        pytest.param([], {"RIGHTSLICE_REVISION": "n\udcff"}, id="revision"),
    ],
)
def test_a_name_that_no_page_can_hold_is_refused(
    arguments: list[str], environment: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ending:
        read_settings(arguments, environment)

    assert ending.value.code == 2
    assert r"want text in UTF-8, got 'n\udcff'" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["0", "false", "no", "off", "FALSE", "Off"])
def test_a_collector_is_switched_off_by_any_usual_word(word: str) -> None:
    settings = read_settings([], {"RIGHTSLICE_COLLECTOR_GPU_USE": word})

    assert "gpu_use" not in settings.collectors


def test_a_flag_wins_over_the_environment() -> None:
    settings = read_settings(
        ["--collector.gpu-use", "--sampling.interval=2s"],
        {"RIGHTSLICE_COLLECTOR_GPU_USE": "false", "RIGHTSLICE_SAMPLING_INTERVAL": "5s"},
    )

    assert "gpu_use" in settings.collectors
    assert settings.interval_seconds == 2.0


def test_a_collector_is_switched_off_by_its_flag() -> None:
    settings = read_settings(["--no-collector.gpu-info"], {})

    assert settings.collectors == tuple(name for name in ENABLED if name != "gpu_info")


def test_a_node_that_may_have_no_card_is_ready_without_one() -> None:
    assert read_settings(["--readiness.min-gpus=0"], {}).min_cards == 0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        pytest.param("1s", 1.0, id="second"),
        pytest.param("500ms", 0.5, id="milliseconds"),
        pytest.param("2m", 120.0, id="minutes"),
        pytest.param("1.5s", 1.5, id="fraction"),
        pytest.param("0", 0.0, id="nothing, in any unit"),
    ],
)
def test_a_duration_is_a_number_with_its_unit(text: str, seconds: float) -> None:
    assert duration_seconds(text) == seconds


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        *((text, "want a number with its unit") for text in ("", "s", "-1s", "1s2", "nan", "١s")),
        ("10", "the unit is missing, want 10s for seconds, got '10'"),
        ("1 s", "want no space before the unit, as in 1s, got '1 s'"),
        ("3d", "want ms, s or m for the unit, got '3d'"),
    ],
)
def test_a_duration_without_a_clear_unit_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=complaint):
        duration_seconds(text)


@pytest.mark.parametrize("text", ["199ms", "0", "0s"])
def test_sampling_faster_than_the_driver_answers_is_refused(text: str) -> None:
    assert interval_seconds("200ms") == 0.2
    with pytest.raises(argparse.ArgumentTypeError, match=r"too short, want at least 0\.2 s"):
        interval_seconds(text)


@pytest.mark.parametrize("text", ["10.1s", "1m", "1h", f"{'9' * 400}s"])
def test_sampling_slower_than_the_driver_forgets_is_refused(text: str) -> None:
    assert interval_seconds("10s") == 10
    with pytest.raises(argparse.ArgumentTypeError, match="too long, want at most 10 s"):
        interval_seconds(text)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        pytest.param(":19400", ("", 19400), id="every interface"),
        pytest.param("127.0.0.1:0", ("127.0.0.1", 0), id="any free port"),
        pytest.param("node-a:80", ("node-a", 80), id="host name"),
        pytest.param("[::1]:65535", ("::1", 65535), id="IPv6"),
    ],
)
def test_an_address_is_host_and_port(text: str, address: tuple[str, int]) -> None:
    assert listen_address(text) == address


def test_a_host_that_no_resolver_takes_is_refused() -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"no host can be called 'a\.\.b'"):
        listen_address("a..b:80")


@pytest.mark.parametrize(
    "text", ["", "19400", "localhost", "localhost:", ":http", ":65536", ":-1", ":²"]
)
def test_an_address_without_a_possible_port_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="want HOST:PORT"):
        listen_address(text)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        pytest.param(["--no.such.flag"], "--no.such.flag", id="unknown flag"),
        pytest.param(["--web.listen=:1"], "--web.listen", id="shortened flag"),
        pytest.param(["--log.level=loud"], "loud", id="unknown level"),
        pytest.param(["--sampling.interval=1"], "unit", id="interval without unit"),
        pytest.param(["--collector.gpu-magic"], "gpu-magic", id="unknown collector"),
        pytest.param(["--readiness.min-gpus=-1"], "a number of cards", id="negative count"),
        pytest.param(["--readiness.min-gpus=1.5"], "a number of cards", id="broken count"),
        pytest.param(["--readiness.min-gpus="], "a number of cards", id="empty count"),
        pytest.param(["--readiness.min-gpus=all"], "a number of cards", id="count in words"),
        pytest.param(["--readiness.min-gpus=²"], "a number of cards", id="digit of no number"),
        pytest.param(["--path.sysfs="], "--path.sysfs", id="empty path of sysfs"),
        pytest.param(["--path.procfs="], "--path.procfs", id="empty path of procfs"),
        pytest.param(["--path.kmsg="], "--path.kmsg", id="empty path of the kernel log"),
        pytest.param(["--path.logs="], "--path.logs", id="empty path of the logs"),
        pytest.param(["--gpu.timeslice=1us"], "--gpu.timeslice", id="unit of no duration"),
        pytest.param(["--gpu.timeslice=0.5ms"], "from 1ms to 100ms", id="slice too short"),
        pytest.param(["--gpu.timeslice=1s"], "from 1ms to 100ms", id="slice too long"),
        pytest.param(
            ["--kubelet.pods-url=http://node:10250/pods"],
            "--kubelet.pods-url: the kubelet's URL must be https://",
            id="pods without TLS",
        ),
        pytest.param(["--kubelet.pods-url=https://"], "--kubelet.pods-url", id="pods of no host"),
    ],
)
def test_a_wrong_flag_ends_with_2_and_names_what_is_wrong(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ending:
        read_settings(arguments, {})

    assert ending.value.code == 2
    usage, error = capsys.readouterr().err.splitlines()
    assert re.fullmatch("usage: rightslice-exporter .*--help.*", usage)
    assert complaint in error


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ending:
        read_settings(["--version"], {})

    assert ending.value.code == 0
    assert capsys.readouterr().out == f"rightslice-exporter {own_version()}\n"


@pytest.mark.parametrize(
    ("variable", "value", "flag"),
    [
        pytest.param("RIGHTSLICE_SAMPLING_INTERVAL", "fast", "--sampling.interval", id="interval"),
        pytest.param("RIGHTSLICE_READINESS_MIN_GPUS", "few", "--readiness.min-gpus", id="count"),
    ],
)
def test_a_wrong_variable_ends_with_2_and_names_its_flag(
    variable: str, value: str, flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ending:
        read_settings([], {variable: value})

    assert ending.value.code == 2
    assert flag in capsys.readouterr().err


@pytest.mark.parametrize(
    "flag",
    [
        "--version",
        "--web.listen-address",
        "--node.name",
        "--sampling.interval",
        "--path.sysfs",
        "--path.procfs",
        "--path.kmsg",
        "--path.logs",
        "--path.docker",
        "--path.hami",
        "--path.kubelet-socket",
        "--gpu.timeslice",
        "--kubelet.pods-url",
        "--kubelet.token-file",
        "--kubelet.ca-file",
        "--no-kubelet.insecure-skip-verify",
        "--readiness.min-gpus",
        "--simulate",
        "--log.level",
        *(f"--no-collector.{name.replace('_', '-')}" for name in ENABLED),
    ],
)
def test_the_help_names_every_flag(flag: str) -> None:
    assert flag in parser().format_help()


@pytest.mark.parametrize("what", ["200ms to 10s", "RIGHTSLICE_COLLECTOR_NAME=false"])
def test_the_help_tells_bounds_and_variables(what: str) -> None:
    assert what in " ".join(parser().format_help().split())
