"""The exporter's settings: name, default, unit and help of each, in one table."""

import argparse
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rightslice.exporter.collectors import ENABLED
from rightslice.exporter.host.host import Paths

DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)")
SECONDS_PER_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0}
# Below this the driver's own answers repeat and the calls cost the workload time.
SHORTEST_INTERVAL_SECONDS = 0.2
LOG_LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True, slots=True)
class Settings:
    """What one exporter process was told."""

    listen_host: str
    listen_port: int
    node: str
    interval_seconds: float
    collectors: tuple[str, ...]
    paths: Paths
    min_cards: int
    scenario: str | None
    log_level: str


def duration_seconds(text: str) -> float:
    """Read "1s", "500ms" or "2m"; the unit must be written."""
    match = DURATION.fullmatch(text)
    if not match:
        raise argparse.ArgumentTypeError(f"want a number with its unit, like 1s or 500ms: {text!r}")
    return float(match[1]) * SECONDS_PER_UNIT[match[2]]


def interval_seconds(text: str) -> float:
    """Read the sampling interval, which has a lower bound."""
    seconds = duration_seconds(text)
    if seconds < SHORTEST_INTERVAL_SECONDS:
        raise argparse.ArgumentTypeError(
            f"want at least {SHORTEST_INTERVAL_SECONDS} s between samples, got {text!r}"
        )
    return seconds


def card_count(text: str) -> int:
    """Read a number of cards, 0 or more."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"want a number of cards, 0 or more, got {text!r}")
    return int(text)


def path(text: str) -> Path:
    """Read a path, which an empty text is not."""
    if not text:
        raise argparse.ArgumentTypeError("want a path, got nothing")
    return Path(text)


def listen_address(text: str) -> tuple[str, int]:
    """Read "HOST:PORT", ":PORT" (all interfaces) or "[IPV6]:PORT"."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"want HOST:PORT or :PORT, got {text!r}")
    return host.strip("[]"), int(port)


def parser() -> argparse.ArgumentParser:
    """Build the command line, from which `--help` comes."""
    flags = argparse.ArgumentParser(
        prog="rightslice-exporter",
        description="Exports GPU use of this node for Prometheus, sampled every second.",
        epilog="Each flag can be set in the environment as well: --node.name as "
        "RIGHTSLICE_NODE_NAME. A flag wins over the environment.",
        allow_abbrev=False,
    )
    flags.add_argument(
        "--web.listen-address",
        dest="listen",
        type=listen_address,
        default=":19400",
        metavar="HOST:PORT",
        help="address to serve on (default %(default)s: every interface)",
    )
    flags.add_argument(
        "--node.name",
        dest="node",
        metavar="NAME",
        help="name of this node (default: NODE_NAME in the environment, else the host name)",
    )
    flags.add_argument(
        "--sampling.interval",
        dest="interval_seconds",
        type=interval_seconds,
        default="1s",
        metavar="DURATION",
        help="time between two samples (default %(default)s)",
    )
    for name, default, what in (
        ("sysfs", "/sys", "where the node's sysfs is mounted"),
        ("procfs", "/proc", "where the node's procfs is mounted"),
        ("kmsg", "/dev/kmsg", "the node's kernel log"),
    ):
        flags.add_argument(
            f"--path.{name}",
            dest=f"path_{name}",
            type=path,
            default=default,
            metavar="PATH",
            help=f"{what} (default %(default)s)",
        )
    flags.add_argument(
        "--readiness.min-gpus",
        dest="min_cards",
        type=card_count,
        default="1",
        metavar="COUNT",
        help="cards that must answer for /readyz to say ready; 0 on mixed pools where a "
        "node may have none (default %(default)s)",
    )
    flags.add_argument(
        "--simulate",
        dest="scenario",
        metavar="SCENARIO",
        help="serve a simulated node instead of this machine; a scenario's name or YAML file",
    )
    flags.add_argument(
        "--log.level",
        dest="log_level",
        choices=LOG_LEVELS,
        default="info",
        help="least severe line to log (default %(default)s)",
    )
    for name in ENABLED:
        flags.add_argument(
            f"--collector.{name.replace('_', '-')}",
            dest=f"collector_{name}",
            action=argparse.BooleanOptionalAction,
            default=True,
            help=f"run the {name} collector",
        )
    return flags


def _environment_name(flag: str) -> str:
    return "RIGHTSLICE_" + re.sub(r"[.-]", "_", flag.removeprefix("--")).upper()


def _environment_arguments(
    flags: argparse.ArgumentParser, environment: Mapping[str, str]
) -> list[str]:
    """Turn RIGHTSLICE_... variables into the flags that they stand for."""
    arguments = []
    for action in flags._actions:  # argparse has no public list of its flags
        flag = action.option_strings[0] if action.option_strings else ""
        value = environment.get(_environment_name(flag)) if flag.startswith("--") else None
        if value is None:
            continue
        if isinstance(action, argparse.BooleanOptionalAction):
            off = value.lower() in ("0", "false", "no", "off")
            arguments.append(flag.replace("--", "--no-", 1) if off else flag)
        else:
            arguments.append(f"{flag}={value}")
    return arguments


def read_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Read flags over environment over defaults; exits with 2 and a sentence on a bad value."""
    flags = parser()
    given = flags.parse_args([*_environment_arguments(flags, environment), *arguments])
    return Settings(
        listen_host=given.listen[0],
        listen_port=given.listen[1],
        node=given.node or environment.get("NODE_NAME") or socket.gethostname(),
        interval_seconds=given.interval_seconds,
        collectors=tuple(name for name in ENABLED if getattr(given, f"collector_{name}")),
        paths=Paths(given.path_sysfs, given.path_procfs, given.path_kmsg),
        min_cards=given.min_cards,
        scenario=given.scenario,
        log_level=given.log_level,
    )
