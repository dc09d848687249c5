"""All checks, of which none keeps another from being told."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

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
from rightslice.exporter.check.patience import Patience

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
LATE_REMEDY = "run it again; if it stays so, the kernel log may say what hangs"
CHECKS: Mapping[str, Check] = {module.ID: module.check for module in MODULES}


def findings_of(
    node: Node, checks: Mapping[str, Check] = CHECKS, patience: Patience | None = None
) -> tuple[Finding, ...]:
    """Run the checks, and give the worst first.

    What a check says before it fails, or before there is no more waiting for it, is kept.
    """
    patience = patience or Patience()
    found = []
    for name, check in checks.items():
        said, why_no_more = patience.wait_for(partial(_guarded, name, check, node), name)
        found += said
        if why_no_more:
            found.append(Finding(name, NODE, UNKNOWN, f"this check {why_no_more}", LATE_REMEDY))
            node = node.asking_anew()
    return tuple(sorted(found, key=lambda finding: LEVELS.index(finding.level)))


def listing_is_late(why: str) -> Finding:
    """Say that it is not even known what there is to check."""
    return Finding("node", NODE, UNKNOWN, f"the list of the node's devices {why}", LATE_REMEDY)


def _guarded(name: str, check: Check, node: Node) -> Iterator[Finding]:
    try:
        yield from check(node)
    except Exception as error:  # whatever it is, the other checks are still of use
        text = f"this check ended early: {type(error).__name__}: {error}"
        yield Finding(
            name, NODE, UNKNOWN, text, "please report it, with the output of this command"
        )
