"""Write metrics, commands and scenarios in docs from the code, so that none goes stale unseen.

`--check` changes nothing and fails when a page is not what the code says.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from rightslice.api.__main__ import commands
from rightslice.api.command import add_common_flags
from rightslice.contract.metrics import CONTRACT
from rightslice.contract.spec import Kind, MetricSpec
from rightslice.exporter.collectors import ENABLED, load
from rightslice.exporter.settings import parser as exporter_parser
from rightslice.exporter.simulate.scenario import load_scenario, scenario_names

DOCS = Path(__file__).resolve().parent.parent / "docs"

# A label means the same on every metric. One that is missing here fails the build.
LABELS = {
    "uuid": "The card, by NVML's UUID (`GPU-...`). Equal to dcgm-exporter's `UUID`. Empty for an "
    "error (Xid) on a card that NVML does not list.",
    "signal": "What was observed: `memory`, `busy` or `allocation` for observed seconds; "
    "`memory` or `compute` for histograms. `busy` starts 30 s after a card or driver came up while "
    "we watched: what it says before is its own start-up.",
    "gpu": "Index of the card on its node. It may change with a restart; `uuid` does not.",
    "name": "Model of the card, as NVML writes it.",
    "pci_bus_id": "Place of the card on the PCI bus; empty where a line of the kernel log does not "
    "tell it.",
    "driver_version": "Version of the driver.",
    "mig": "`enabled` or `disabled`; empty where the card has no MIG.",
    "virtualization": "`none`, `passthrough`, `vgpu` (this is a guest), `host_vgpu` or "
    "`host_vsga`; empty where it cannot be told.",
    "memory_kind": "`dedicated`, `unified` (the card has no memory of its own), `os_managed` (the "
    "kernel owns it, and keeps pages after a process ended), or empty while not known.",
    "mode": "`exclusive`, `timeslice`, `mps`, `mig`, `guest`, `vgpu_best_effort`, "
    "`vgpu_equal_share` or `vgpu_fixed_share`.",
    "which": "`current`, and `max` (the most there could be) or `pending` (after the next reset). "
    "Of sizes when memory ran out: `requested`, `capacity`, `free`, `limit`, `used`, `promised`.",
    "xid": "Number of the error, as in NVIDIA's list of Xid errors.",
    "type": "Of errors: `corrected` or `uncorrected`. Of a vGPU: its type, such as `A100D-4C`. "
    "Of queue pairs: `all` or `rc`.",
    "state": "Of NVLinks: `active`, `inactive`. Of row remapping: `correctable`, `uncorrectable`, "
    "`pending`, `failure`. Of MIG instances: `with_compute`, `without_compute`.",
    "direction": "`tx` leaves the card, `rx` comes to it.",
    "source": "Of errors: `nvml` or `kmsg`. Of a promise of memory: `mig`, `vgpu`, `hami`, `mps`, "
    "`nvml` (the driver, for a cgroup) or `label`. Of a wait: `estimate`, `vgpu_log` or "
    "`exclusive` (one context: certainly 0). Of names and grants: `kubelet`, `kubelet_pods`, "
    "`logs`, `docker` or `slurm`. Of memory that ran out: `log`, `kernel`, `cgroup`, `program` or "
    "`inferred`; of what is read for it: `logs`, `files`, "
    "`kernel`, `cgroup`, `logs_position`, `files_position`.",
    "gpu_instance_id": "Id of the GPU instance on its card; empty without MIG. It is used again.",
    "workload_kind": "`pod`, `slurm_job`, `container` (of Docker), `process`, or `vm` on a vGPU "
    "host.",
    "namespace": "Of a pod; of a Slurm job its user; of a process its Unix user; else empty.",
    "pod": "Name of the pod; id of the Slurm job; name of Docker's container; command of the "
    "process, never its id; UUID of the virtual machine.",
    "container": "Container of the pod, empty where nobody tells; step of the Slurm job; vGPU of "
    "the virtual machine; else empty.",
    "class": "What the workload is, by its label `rightslice.io/class`. Of pauses without an end: "
    "of the `port`, or of `roce`.",
    "owner_kind": "Kind of the owner: a pod's controller such as `Deployment`, `slurm_account`, or "
    "`label`.",
    "owner": "Its name, or the label `rightslice.io/owner`.",
    "team": "By the label `rightslice.io/team`; of a Slurm job its account.",
    "protected": "`true` or `false`, by the label `rightslice.io/protected`.",
    "cause": "Of memory that ran out: `device_alloc`, `soft_limit`, `startup_capacity`, "
    "`host_cgroup`, `host_global` or `suspected`.",
    "framework": "Whose wording told it, such as `pytorch`; of a program that kills its name; else "
    "empty.",
    "confidence": "`high`, `medium` or `low`.",
    "address": "Address of the pod.",
    "port": "Number of the port; empty for counters of an RDMA device that has several.",
    "port_name": "Its name in the pod's description.",
    "compute_instance_id": "Id of the compute instance in its GPU instance.",
    "mig_uuid": "The MIG device, by NVML's UUID (`MIG-...`).",
    "profile": "MIG profile by the driver's name, such as `1g.5gb` or `1c.3g.20gb`.",
    "start": "First placement unit that the instance occupies.",
    "size": "Placement units that the instance occupies.",
    "vgpu_uuid": "The vGPU, by NVML's UUID; empty when the guest itself tells.",
    "node": "Name of the node: `--node.name`, else `NODE_NAME`, else the host name.",
    "collector": "Part of the exporter; `nvml` is the library itself.",
    "device": "Of RDMA: the device, such as `mlx5_0`. Of the exporter itself what a collector "
    "read: for a card its UUID, `self` (this process), `pci` (the "
    "buses), `events` (what the driver reports), `xid` (the errors of both sources), `owners` "
    "(names), `environments` (of processes), `kubelet`, `kubelet_pods`, `oom_logs`, `oom_files`, "
    "`oom_kills` and `oom` (memory that ran out), `network`, `nic_events`, `rdma_idle`, an "
    "RDMA device or a network interface; for `nvml` empty, and for a card that cannot be opened "
    "its `index` in the driver's list.",
    "reason": "Why it failed (`lost`, `stuck`, `permission`, `blocked`, `driver`, "
    "`version_mismatch`, `stale_handle`, `not_ready`, `unknown`; of the kubelet `absent`, "
    "`timeout`, `unavailable`, `malformed`, `too_large`, `unsupported`, `missing_package`; of the "
    "network `device_gone`, `no_such_netdev`, `not_supported`, `no_statistics`, `changing`, "
    "`too_many`, `invalid`, `too_many_open_files`) or was refused. Of throttling: "
    "`sw_power_cap`, `sw_thermal`, `hw_thermal`, `hw_power_brake`, `sync_boost`. Of whether pauses "
    "are seen: `time`, `frames`, `port_frames`, `pfc_off`, `virtual_function`, "
    "`network_namespace`, `driver`, `no_netdev`, `unreadable`.",
    "netdev": "The network interface, such as `eth0`, also of a bond's member.",
    "priority": "Priority of a frame (802.1Q), `0` to `7`.",
    "driver": "The kernel module that drives the RDMA device, such as `mlx5_core`.",
    "link_layer": "`InfiniBand` or `Ethernet`, as the kernel writes it.",
    "protocol": "`infiniband`, `roce`, `iwarp` or `efa`; empty where it cannot be told.",
    "firmware": "Version of the RDMA device's firmware.",
    "hca_type": "Model of the RDMA device, as its driver writes it.",
    "function": "`physical` or `virtual` (SR-IOV); empty where that cannot be told.",
    "rail": "The rail that a port hangs on, by `--topology.file`; empty if not known.",
    "switch": "The switch that a port hangs on; empty if not known.",
    "switch_port": "The port of the switch; empty if not known.",
    "counter": "Name of a counter's metric, without `rightslice_`.",
    "hint": "What may be why a job uses no RDMA; see [network.md](network.md#rdma-asleep).",
    "distance": "`pix`, `pxb`, `phb`, `node` or `sys`, the nearest first.",
    "op": "What a peer asked for, or we did: `read`, `write`, `send`, `atomic` and such.",
    "role": "Whose side of a connection failed: `requester`, `responder`, or `none`.",
    "kind": "What failed, in the driver's words.",
    "lane": "Lane of the link, `0` to `3`.",
    "cos": "Class of service, which is a queue of the card, `0` to `7`.",
    "side": "Which end saw a fault: `local` or `remote`.",
    "event": "What happened to the module in the card's cage, or to doorbells; in the kernel log "
    "`firmware_health`, `slot_power`, `module_high_temperature`, `module_fault` or "
    "`command_failed`.",
    "initiator": "Who began: `local` or `remote`.",
    "transport": "Transport of the queue pair: `rc`, `uc`, `ud`, `xrc`.",
    "version": "Version of the program.",
    "revision": "Revision of the source that it was built from; empty if not told.",
}

HEAD = """\
<!-- Made by .ci/build_docs.py from rightslice.contract.metrics. Edit there. -->
# Metrics

The contract between `rightslice-exporter` and what computes with its page: rules, dashboards and
ledger. Base units only: seconds, bytes, a ratio from 0 to 1. A series that is missing means
unknown. It is never written as 0, and it never counts as idle.

The column collector says which part of the exporter tells a metric. Without that part, say
`gpu_power`, which `--no-collector.gpu-power` or `RIGHTSLICE_COLLECTOR_GPU_POWER=false` switches
off, the metric is absent; where several tell it, without all of them.
"""

COMMANDS_HEAD = """\
<!-- Made by .ci/build_docs.py from the programs' own flags. Edit there. -->
# Commands

Every flag can be set in the environment as well: `--node.name` as `RIGHTSLICE_NODE_NAME`, a flag
that may be given often as a list with commas. A flag wins over the environment, the environment
over the file that `rightslice` takes with `--config`, that over the default. An empty variable
counts as not given.

A collector of `rightslice-exporter` is switched off in the environment by
`RIGHTSLICE_COLLECTOR_NAME=false`: `gpu_power` by `RIGHTSLICE_COLLECTOR_GPU_POWER=false`. It takes
true and false, 1 and 0, yes and no, on and off, in any case. A variable `RIGHTSLICE_...` that
stands for no flag is warned of.

`rightslice` ends with 0 when it has an answer (no advice with its reason is one), 1 when it cannot
listen or `check` finds something wrong, 2 on bad usage, 3 when a source cannot be read, 4 when the
ledger cannot be used.
`rightslice-exporter` ends with 0 on a signal, 1 when it cannot listen, 2 on bad usage, 3 when a new
process may do better than this one (the log says why), 4 when the module `pynvml` is not of
nvidia-ml-py. SIGUSR1 makes it release NVML for a change of the driver or of MIG, SIGUSR2 take it up
again; see [install](install.md).
"""

SCENARIOS_HEAD = """\
<!-- Made by .ci/build_docs.py from the scenarios' own descriptions. Edit there. -->
# Simulated nodes

`rightslice-exporter --simulate=NAME` serves a node that is not there: the driver's library is
simulated below the binding, the buses, processes and kernel log as files; all above is the same
code as on a real node. Times count from the start. A YAML file of your own does as well as a name:
[scenario-files.md](scenario-files.md) tells what it may say. Those that ship lie in
`exporter/rightslice/exporter/simulate/scenarios`.
"""

LABELS_HEAD = """
## Labels

No label tells the node on every series: the scrape adds `instance`, and `rightslice_node_info`
tells the node's own name. Scrape with `honor_labels: true`.
"""

BUCKETS_HEAD = """
## Histogram buckets

All histograms have the same upper edges, and `+Inf`. They are chosen so that a compute share of a
card that can be bought, and that share divided by a headroom of 1.2, is an edge: then "95 % of the
minutes fit" is counted, not interpolated.
"""


def row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield ""
    yield row(head)
    yield row("---" for _ in head)
    yield from map(row, rows)


def collectors_of() -> dict[str, list[str]]:
    """Give the collectors that tell each metric, by its name."""
    found: dict[str, list[str]] = {}
    for name in ENABLED:
        for spec in load(name).specs:
            found.setdefault(spec.name, []).append(name)
    return found


def metric_row(spec: MetricSpec, collectors: list[str]) -> tuple[str, ...]:
    return (
        f"`{spec.name}`",
        str(spec.kind),
        str(spec.unit) or "none",
        ", ".join(f"`{label}`" for label in spec.labels) or "none",
        spec.help,
        spec.source,
        spec.absent,
        ", ".join(f"`{name}`" for name in collectors) or "always",
    )


def built(contract: Iterable[MetricSpec]) -> str:
    """Give the text of the page. Raises KeyError for a label without a meaning."""
    specs = sorted(contract, key=lambda spec: spec.name)
    labels = sorted({label for spec in specs for label in spec.labels})
    edges = sorted({spec.buckets for spec in specs if spec.kind is Kind.HISTOGRAM})
    collectors = collectors_of()
    lines = [HEAD.rstrip("\n")]
    lines += table(
        ("metric", "type", "unit", "labels", "meaning", "source", "no series", "collector"),
        (metric_row(spec, collectors.get(spec.name, [])) for spec in specs),
    )
    lines.append(LABELS_HEAD.rstrip("\n"))
    lines += table(("label", "meaning"), ((f"`{label}`", LABELS[label]) for label in labels))
    lines.append(BUCKETS_HEAD.rstrip("\n"))
    for buckets in edges:
        lines += ["", "```", *wrapped([repr(edge) for edge in buckets]), "```"]
    return "\n".join(lines) + "\n"


def flag_row(action: argparse.Action) -> tuple[str, str]:
    flags = ", ".join(f"`{option}`" for option in action.option_strings or (action.dest,))
    if action.choices:
        flags += f" {', '.join(map(str, action.choices))}"
    elif isinstance(action.metavar, str):
        flags += f" {action.metavar}"
    return flags, (action.help or "") % {"default": action.default}


def flag_table(parser: argparse.ArgumentParser) -> Iterator[str]:
    told = [action for action in parser._actions if action.dest != "help"]
    return table(("flag", "meaning"), map(flag_row, told))


def command_pages() -> str:
    """Give the text of docs/commands.md: every program with every flag."""
    lines = [COMMANDS_HEAD.rstrip("\n"), "", "## rightslice-exporter"]
    lines += flag_table(exporter_parser())
    common = argparse.ArgumentParser(add_help=False)
    add_common_flags(common)
    lines += ["", "## rightslice: flags of every command", *flag_table(common)]
    for name, command in commands().items():
        parser = argparse.ArgumentParser(add_help=False)
        command.add_flags(parser)
        lines += ["", f"## rightslice {name}", "", command.help, *flag_table(parser)]
    return "\n".join(lines) + "\n"


def scenario_page() -> str:
    """Give the text of docs/scenarios.md: each simulated node, and what it shows."""
    scenarios = [load_scenario(name) for name in scenario_names()]
    rows = (
        (f"`{scenario.name}`", str(len(scenario.cards)), " ".join(scenario.description.split()))
        for scenario in scenarios
    )
    table_lines = table(("scenario", "cards", "what one should see"), rows)
    return "\n".join([SCENARIOS_HEAD.rstrip("\n"), *table_lines]) + "\n"


def wrapped(words: list[str], per_line: int = 4) -> Iterator[str]:
    for start in range(0, len(words), per_line):
        yield " ".join(words[start : start + per_line])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    check = parser.parse_args().check
    stale = []
    for name, text in (
        ("metrics.md", built(CONTRACT)),
        ("commands.md", command_pages()),
        ("scenarios.md", scenario_page()),
    ):
        page = DOCS / name
        if page.exists() and page.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not check:
            page.write_text(text, encoding="utf-8")
    if check and stale:
        print(f"stale: {', '.join(stale)}; run ./run generate", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
