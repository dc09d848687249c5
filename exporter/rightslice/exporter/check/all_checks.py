"""All checks, of which none keeps another from being told."""

from collections.abc import Callable, Iterator, Mapping

from rightslice.exporter.check import (
    bar1,
    dual_port,
    far_nic,
    link,
    link_pause,
    link_rate,
    namespace,
    peer_memory,
    pfc_watchdog,
    rdma,
    sriov,
)
from rightslice.exporter.check.finding import LEVELS, NODE, UNKNOWN, Finding
from rightslice.exporter.check.node import Node

Check = Callable[[Node], Iterator[Finding]]
MODULES = (
    rdma,
    namespace,
    link,
    link_rate,
    dual_port,
    sriov,
    pfc_watchdog,
    link_pause,
    bar1,
    peer_memory,
    far_nic,
)
CHECKS: Mapping[str, Check] = {module.ID: module.check for module in MODULES}


def findings_of(node: Node, checks: Mapping[str, Check] = CHECKS) -> tuple[Finding, ...]:
    """Run the checks, and give the worst first; what a check says before it fails is kept."""
    found = [finding for name, check in checks.items() for finding in _guarded(name, check, node)]
    return tuple(sorted(found, key=lambda finding: LEVELS.index(finding.level)))


def _guarded(name: str, check: Check, node: Node) -> Iterator[Finding]:
    try:
        yield from check(node)
    except Exception as error:  # whatever it is, the other checks are still of use
        text = f"this check ended early: {type(error).__name__}: {error}"
        yield Finding(
            name, NODE, UNKNOWN, text, "please report it, with the output of this command"
        )
