"""The command `rightslice-exporter check`: reads its flags, looks once, prints, and is done."""

import argparse
import errno
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from rightslice.exporter.check.all_checks import findings_of, listing_is_late
from rightslice.exporter.check.finding import WARNING, Finding
from rightslice.exporter.check.kernel import real_kernel, simulated_kernel
from rightslice.exporter.check.node import Node, look_at
from rightslice.exporter.check.patience import Patience
from rightslice.exporter.check.report import as_json, as_text
from rightslice.exporter.flag_types import parts, path
from rightslice.exporter.host.paths import Paths

PROGRAM = "rightslice-exporter check"
VARIABLE_PREFIX = "RIGHTSLICE_"
FORMATS = {"text": as_text, "json": as_json}
EXIT_OK, EXIT_WARNINGS, EXIT_USAGE, EXIT_FAILED = 0, 1, 2, 3


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Print what is found; returns the exit code. A wrong flag exits with 2 and a sentence."""
    flags = parser(environment)
    given = flags.parse_args(arguments)
    try:
        with _look(given) as look:
            findings = _findings(look)
    except ValueError as error:
        flags.error(str(error))
    except Exception as error:  # whoever reads the exit code must not take this for a finding
        return _failed(f"could not look: {error}")
    try:
        _print(FORMATS[given.format](findings))
    except OSError as error:
        # Else the end of the process tries again, and has an exit code of its own.
        sys.stdout = None
        return _failed(f"could not print: {error.strerror}")
    return EXIT_WARNINGS if any(each.level == WARNING for each in findings) else EXIT_OK


def parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    """Build the command line, whose defaults are the environment's where it has any."""
    flags = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Looks once at this node, and tells what is wrong or weak about its network "
        "and PCIe for work on GPUs. It changes nothing.",
        epilog="Ends with 0 when nothing is wrong, 1 when there are warnings, 2 on bad usage, 3 "
        "when it could not look or print. Each flag but --format can be set in the environment as "
        "the exporter's can: --path.sysfs as RIGHTSLICE_PATH_SYSFS.",
        allow_abbrev=False,
    )
    flags.add_argument(
        "--path.sysfs",
        dest="sysfs",
        type=path,
        default=environment.get(f"{VARIABLE_PREFIX}PATH_SYSFS") or "/sys",
        metavar="PATH",
        help="where the node's sysfs is mounted (default %(default)s)",
    )
    flags.add_argument(
        "--path.procfs",
        dest="procfs",
        type=path,
        default=environment.get(f"{VARIABLE_PREFIX}PATH_PROCFS") or "/proc",
        metavar="PATH",
        help="where the node's procfs is mounted (default %(default)s)",
    )
    flags.add_argument(
        "--rdma.exclude",
        dest="excluded",
        type=parts,
        default=environment.get(f"{VARIABLE_PREFIX}RDMA_EXCLUDE") or "",
        metavar="PATTERNS",
        help="RDMA devices that are not to be read, such as mlx5_1[0-3], parted by commas "
        "(default: none)",
    )
    flags.add_argument(
        "--simulate",
        dest="scenario",
        default=environment.get(f"{VARIABLE_PREFIX}SIMULATE") or None,
        metavar="SCENARIO",
        help="look at a simulated node instead of this machine; a scenario's name or YAML file",
    )
    flags.add_argument(
        "--format",
        choices=tuple(FORMATS),
        default="text",
        help="a table, or JSON for programs (default %(default)s)",
    )
    return flags


def _findings(look: Callable[[], Node]) -> tuple[Finding, ...]:
    """Look at the node, which may take too long, and check it."""
    patience = Patience()
    looked, why_no_more = patience.wait_for(lambda: (look(),), "look")
    if not looked:
        return (listing_is_late(why_no_more),)
    return findings_of(looked[0], patience=patience)


@contextmanager
def _look(given: argparse.Namespace) -> Iterator[Callable[[], Node]]:
    """Give how to look at the node that is meant. Raises ValueError where there is none."""
    if given.scenario is None:
        if not any((given.sysfs / folder).is_dir() for folder in ("class", "bus")):
            raise ValueError(
                f"--path.sysfs: {str(given.sysfs)!r} has neither a folder 'class' nor 'bus', want "
                "the place where the node's sysfs is mounted"
            )
        if not given.procfs.is_dir():
            raise ValueError(f"--path.procfs: {str(given.procfs)!r} is no folder")
        paths = Paths(sysfs=given.sysfs, procfs=given.procfs)
        with real_kernel() as kernel:
            yield partial(look_at, paths, kernel, given.excluded)
        return
    # Only here: a real node is looked at without the simulation, and without NVML.
    from rightslice.exporter.host.clock import real_clock
    from rightslice.exporter.simulate.machine import simulated_machine
    from rightslice.exporter.simulate.scenario import ScenarioError, load_scenario

    try:
        scenario = load_scenario(given.scenario)
    except ScenarioError as error:
        raise ValueError(f"--simulate: {error}") from error
    with simulated_machine(scenario, real_clock()) as machine:
        kernel = simulated_kernel(machine.network.calls)
        yield partial(look_at, machine.paths, kernel, given.excluded)


def _failed(text: str) -> int:
    if sys.stderr is not None:
        sys.stderr.write(f"{PROGRAM}: {text}\n")
    return EXIT_FAILED


def _print(text: str) -> None:
    """Write it, with names that the terminal's encoding lacks in escapes. Raises OSError."""
    if sys.stdout is None:  # closed by who started us
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
    sys.stdout.flush()
