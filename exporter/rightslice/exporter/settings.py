"""The exporter's settings: name, default, unit and help of each, in one table."""

import argparse
import re
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from rightslice.exporter.collectors import ENABLED
from rightslice.exporter.flag_types import path
from rightslice.exporter.host.net.network_options import NetworkOptions
from rightslice.exporter.host.oom.options import OomOptions
from rightslice.exporter.host.paths import Paths
from rightslice.exporter.network_flags import (
    add_network_flags,
    given_network_flags,
    network_options,
)
from rightslice.exporter.oom_flags import add_oom_flags, given_oom_flags, oom_options

if TYPE_CHECKING:
    from rightslice.exporter.host.kubelet.pods_client import PodsClient

PROGRAM = "rightslice-exporter"
DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)( *)([A-Za-z]*)")
SECONDS_PER_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
# Below this the driver's own answers repeat and the calls cost the workload time.
SHORTEST_INTERVAL_SECONDS = 0.2
# The driver's ring of utilisation samples holds about 16 s: what is read later has gaps. And a mean
# of compute use stands only for a minute of which three quarters are covered.
LONGEST_INTERVAL_SECONDS = 10.0
# The driver's own default is 1 ms, and 30 ms the longest that can be chosen.
SHORTEST_SLICE_SECONDS, LONGEST_SLICE_SECONDS = 0.001, 0.1
LOG_LEVELS = ("debug", "info", "warning", "error")
# In the environment, in any case; flags are switched by --name and --no-name.
BOOLEANS = {
    "true": True,
    "1": True,
    "yes": True,
    "on": True,
    "false": False,
    "0": False,
    "no": False,
    "off": False,
}
# Collectors that read what the collector network finds.
OF_THE_NETWORK = ("rdma", "rdma_idle", "rdma_nic")
VARIABLE_PREFIX = "RIGHTSLICE_"
# Set by who builds an image; a flag would be of no use.
REVISION_VARIABLE = "RIGHTSLICE_REVISION"


@dataclass(frozen=True, slots=True)
class Settings:
    """What one exporter process was told."""

    listen_host: str
    listen_port: int
    node: str
    interval_seconds: float
    collectors: tuple[str, ...]
    paths: Paths
    # How the kubelet's /pods is asked; None where nobody said so.
    pods_client: "PodsClient | None"
    timeslice_seconds: float
    oom_options: OomOptions
    network_options: NetworkOptions
    min_cards: int
    scenario: str | None
    log_level: str
    revision: str


def own_version() -> str:
    """Give the version installed; a bare checkout of the folder has none."""
    try:
        return version("rightslice")
    except PackageNotFoundError:
        return "unpackaged"


def duration_seconds(text: str) -> float:
    """Read "1s", "500ms" or "2m"; only 0 goes without a unit."""
    match = DURATION.fullmatch(text)
    if not match:
        raise argparse.ArgumentTypeError(
            f"want a number with its unit, like 1s or 500ms, got {text!r}"
        )
    number, space, unit = match.groups()
    if not unit and float(number) == 0:
        return 0.0
    if not unit:
        raise argparse.ArgumentTypeError(
            f"the unit is missing, want {number}s for seconds, got {text!r}"
        )
    if unit not in SECONDS_PER_UNIT:
        raise argparse.ArgumentTypeError(f"want ms, s or m for the unit, got {text!r}")
    if space:
        raise argparse.ArgumentTypeError(
            f"want no space before the unit, as in {number}{unit}, got {text!r}"
        )
    return float(number) * SECONDS_PER_UNIT[unit]


def interval_seconds(text: str) -> float:
    """Read the sampling interval, which has a lower and an upper bound."""
    seconds = duration_seconds(text)
    if seconds < SHORTEST_INTERVAL_SECONDS:
        raise argparse.ArgumentTypeError(
            f"too short, want at least {SHORTEST_INTERVAL_SECONDS:g} s between samples, "
            f"got {text!r}"
        )
    if seconds > LONGEST_INTERVAL_SECONDS:
        raise argparse.ArgumentTypeError(
            f"too long, want at most {LONGEST_INTERVAL_SECONDS:g} s between samples (the driver "
            f"forgets its own after some 16 s), got {text!r}"
        )
    return seconds


def timeslice_seconds(text: str) -> float:
    """Read the length of a time slice."""
    seconds = duration_seconds(text)
    if not SHORTEST_SLICE_SECONDS <= seconds <= LONGEST_SLICE_SECONDS:
        raise argparse.ArgumentTypeError(f"want from 1ms to 100ms for a time slice, got {text!r}")
    return seconds


def card_count(text: str) -> int:
    """Read a number of cards, 0 or more."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"want a number of cards, 0 or more, got {text!r}")
    return int(text)


def listen_address(text: str) -> tuple[str, int]:
    """Read "HOST:PORT", ":PORT" (all interfaces) or "[IPV6]:PORT"."""
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"want HOST:PORT or :PORT, got {text!r}")
    try:
        host.encode("idna")
    except UnicodeError as error:
        raise argparse.ArgumentTypeError(f"no host can be called {host!r}") from error
    return host.strip("[]"), int(port)


def parser() -> argparse.ArgumentParser:
    """Build the command line, from which `--help` comes."""
    flags = argparse.ArgumentParser(
        prog=PROGRAM,
        # One line: a wrong flag's complaint is not to be searched for below thirty of them.
        usage="%(prog)s [FLAG ...]  (%(prog)s --help lists the flags)",
        description="Exports GPU use of this node for Prometheus, sampled every second.",
        epilog="Each flag can be set in the environment as well: --node.name as "
        "RIGHTSLICE_NODE_NAME. A collector is switched off by RIGHTSLICE_COLLECTOR_NAME=false, the "
        "collector gpu_power by RIGHTSLICE_COLLECTOR_GPU_POWER=false; true and false can be "
        "written as 1 and 0, yes and no, on and off as well. A flag wins over the environment, and "
        "an empty variable says nothing.",
        allow_abbrev=False,
    )
    flags.add_argument(
        "--version",
        action="version",
        version=f"%(prog)s {own_version()}",
        help="print the version and exit",
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
        help=f"time between two samples, from {SHORTEST_INTERVAL_SECONDS * 1000:g}ms to "
        f"{LONGEST_INTERVAL_SECONDS:g}s (default %(default)s)",
    )
    flags.add_argument(
        "--gpu.timeslice",
        dest="timeslice_seconds",
        type=timeslice_seconds,
        default="2ms",
        metavar="DURATION",
        help="how long a process keeps a shared card while others want it, which no driver tells; "
        "it matters for the estimated wait on cards that count their context switches, from 1ms to "
        "100ms (default %(default)s; docs/timeslice-wait.md says how to find it out)",
    )
    for name, default, what in (
        ("sysfs", "/sys", "where the node's sysfs is mounted"),
        ("procfs", "/proc", "where the node's procfs is mounted"),
        ("kmsg", "/dev/kmsg", "the node's kernel log"),
        ("logs", "/var/log/pods", "the kubelet's log folders; their names tell which pod is which"),
        ("docker", "/var/lib/docker", "Docker's folder, where it keeps what containers are called"),
        (
            "hami",
            "/usr/local/vgpu/containers",
            "HAMi's folder of containers, where it keeps how much memory each was promised",
        ),
        (
            "kubelet-socket",
            "/var/lib/kubelet/pod-resources/kubelet.sock",
            "the kubelet's socket that tells which pod was granted which card",
        ),
    ):
        flags.add_argument(
            f"--path.{name}",
            dest=f"path_{name.replace('-', '_')}",
            type=path,
            default=default,
            metavar="PATH",
            help=f"{what} (default %(default)s)",
        )
    _add_kubelet_flags(flags)
    add_oom_flags(flags)
    add_network_flags(flags)
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
        help="serve a simulated node instead of this machine, whatever --path flags say; a "
        "scenario's name or YAML file",
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


def _add_kubelet_flags(flags: argparse.ArgumentParser) -> None:
    """Add how the kubelet's /pods is asked, which needs a right that the rest does without."""
    flags.add_argument(
        "--kubelet.pods-url",
        dest="kubelet_pods_url",
        metavar="URL",
        help="the kubelet's list of pods, such as https://NODE:10250/pods, for labels, owners and "
        "ports of pods (default: not asked)",
    )
    flags.add_argument(
        "--kubelet.token-file",
        dest="kubelet_token_file",
        type=path,
        default="/var/run/secrets/kubernetes.io/serviceaccount/token",
        metavar="PATH",
        help="the token to ask it with (default %(default)s)",
    )
    flags.add_argument(
        "--kubelet.ca-file",
        dest="kubelet_ca_file",
        type=path,
        metavar="PATH",
        help="who vouches for the kubelet's certificate (default: the system's authorities)",
    )
    flags.add_argument(
        "--kubelet.insecure-skip-verify",
        dest="kubelet_insecure",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="take any certificate of the kubelet's",
    )


def pods_client(given: argparse.Namespace) -> "PodsClient | None":
    """Give how the kubelet's /pods is asked; None where it is not. Raises ValueError."""
    if not given.kubelet_pods_url:
        return None
    # Only here: TLS takes some megabytes, and most nodes do without.
    from rightslice.exporter.host.kubelet.pods_client import PodsClient

    return PodsClient(
        given.kubelet_pods_url,
        given.kubelet_token_file,
        given.kubelet_ca_file,
        given.kubelet_insecure,
    )


def _environment_name(flag: str) -> str:
    return VARIABLE_PREFIX + re.sub(r"[.-]", "_", flag.removeprefix("--")).upper()


def _flags_by_variable(flags: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    return {
        _environment_name(action.option_strings[0]): action
        for action in flags._actions  # argparse has no public list of its flags
        if action.dest not in ("help", "version")
    }


def _environment_arguments(
    flags: argparse.ArgumentParser, environment: Mapping[str, str], arguments: Sequence[str]
) -> Iterator[str]:
    """Turn RIGHTSLICE_... variables into the flags that they stand for, if nobody gave those."""
    given = {argument.partition("=")[0] for argument in arguments}
    for name, action in _flags_by_variable(flags).items():
        value, flag = environment.get(name), action.option_strings[0]
        if not value or given.intersection(action.option_strings):
            continue
        if not isinstance(action, argparse.BooleanOptionalAction):
            yield f"{flag}={value}"
        elif value.lower() in BOOLEANS:
            yield flag if BOOLEANS[value.lower()] else flag.replace("--", "--no-", 1)
        else:
            flags.error(f"{name} in the environment: want true or false, got {value!r}")


def _unknown_variables(flags: argparse.ArgumentParser, environment: Mapping[str, str]) -> list[str]:
    """Give those RIGHTSLICE_... variables that nothing reads: misspelt, or another program's."""
    suffix = "SERVICE_HOST"
    # Kubernetes tells each pod of the services around it, one called "rightslice" by our prefix.
    of_services = tuple(
        name.removesuffix(suffix) + kind
        for name in environment
        if name.endswith(f"_{suffix}")
        for kind in ("SERVICE_", "PORT")
    )
    known = {REVISION_VARIABLE, *_flags_by_variable(flags)}
    return sorted(
        name
        for name, value in environment.items()
        if name.startswith(VARIABLE_PREFIX)
        and value
        and name not in known
        and not name.startswith(of_services)
    )


def _idle_flags(flags: argparse.ArgumentParser, given: argparse.Namespace) -> Iterator[str]:
    """Say of flags that were given and do nothing why that is."""
    oom_flags = given_oom_flags(given)
    if given.scenario:
        of_this_machine = [
            name
            for action in flags._actions
            if (name := action.option_strings[0]).startswith("--path.")
            and str(getattr(given, action.dest)) != action.default
        ]
        idle = [*of_this_machine, *oom_flags, *given_network_flags(given)]
        if idle:
            yield f"{', '.join(idle)} has no effect with --simulate: the simulated node has its own"
    if oom_flags and not given.collector_oom:
        yield f"{', '.join(oom_flags)} has no effect with --no-collector.oom"
    if not given.collector_network:
        silent = [name for name in OF_THE_NETWORK if getattr(given, f"collector_{name}")]
        if silent:
            yield (
                "--no-collector.network: no RDMA device or network interface is found, so "
                f"{', '.join(silent)} tell nothing; switch them off as well, or this one on"
            )


def _warn(text: str) -> None:
    print(f"{PROGRAM}: warning: {text}", file=sys.stderr)  # noqa: T201


def _is_utf8(text: str) -> bool:
    """Tell whether the page can hold it; bytes of another encoding cannot be written."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def read_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Read flags over environment over defaults; exits with 2 and a sentence on a bad value.

    Warns on standard error: there is no log before its level is known.
    """
    flags = parser()
    given = flags.parse_args([*_environment_arguments(flags, environment, arguments), *arguments])
    unknown = _unknown_variables(flags, environment)
    if unknown:
        _warn(f"no flag is set by {', '.join(unknown)}; see --help")
    for idle in _idle_flags(flags, given):
        _warn(idle)
    node = given.node or environment.get("NODE_NAME") or socket.gethostname()
    revision = environment.get(REVISION_VARIABLE, "")
    for what, text in (("the node's name (--node.name)", node), (REVISION_VARIABLE, revision)):
        if not _is_utf8(text):
            flags.error(f"{what}: want text in UTF-8, got {text!r}")
    try:
        client = pods_client(given)
    except ValueError as error:
        flags.error(f"--kubelet.pods-url: {error}")
    try:
        options = oom_options(given)
    except ValueError as error:
        flags.error(f"--oom.patterns: {error}")
    try:
        of_network = network_options(given, is_simulated=bool(given.scenario))
    except ValueError as error:
        flags.error(f"--topology.file: {error}")
    return Settings(
        listen_host=given.listen[0],
        listen_port=given.listen[1],
        node=node,
        interval_seconds=given.interval_seconds,
        collectors=tuple(name for name in ENABLED if getattr(given, f"collector_{name}")),
        paths=Paths(
            sysfs=given.path_sysfs,
            procfs=given.path_procfs,
            kmsg=given.path_kmsg,
            pods=given.path_logs,
            docker=given.path_docker,
            hami=given.path_hami,
            kubelet_socket=given.path_kubelet_socket,
        ),
        pods_client=client,
        timeslice_seconds=given.timeslice_seconds,
        oom_options=OomOptions() if given.scenario else options,
        network_options=of_network,
        min_cards=given.min_cards,
        scenario=given.scenario,
        log_level=given.log_level,
        revision=revision,
    )
