"""Write docs/metrics.md and docs/commands.md from the code, so that they cannot go stale unseen.

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
from rightslice.exporter.settings import parser as exporter_parser

DOCS = Path(__file__).resolve().parent.parent / "docs"

# A label means the same on every metric. One that is missing here fails the build.
LABELS = {
    "uuid": "The card, by NVML's UUID (`GPU-...`). Equal to dcgm-exporter's `UUID`.",
    "signal": "What was observed: `memory`, `busy` or `allocation` for observed seconds; "
    "`memory` or `compute` for histograms.",
    "gpu": "Index of the card on its node. It may change with a restart; `uuid` does not.",
    "name": "Model of the card, as NVML writes it.",
    "pci_bus_id": "Place of the card on the PCI bus.",
    "driver_version": "Version of the driver.",
    "mig": "`enabled` or `disabled`; empty where the card has no MIG.",
    "virtualization": "`none`, `passthrough`, `vgpu` (this is a guest), `host_vgpu` or "
    "`host_vsga`; empty where it cannot be told.",
    "memory_kind": "`dedicated`, `unified` (the card has no memory of its own), or empty while "
    "not known.",
    "node": "Name of the node: `--node.name`, else `NODE_NAME`, else the host name.",
    "collector": "Part of the exporter; `nvml` is the library itself.",
    "device": "What the collector read, for a card its UUID; empty for the library itself.",
    "reason": "Why it failed or was refused, one word.",
    "version": "Version of the program.",
    "revision": "Revision of the source that it was built from; empty if not told.",
}

HEAD = """\
<!-- Made by .ci/build_docs.py from rightslice.contract.metrics. Edit there. -->
# Metrics

The contract between `rightslice-exporter` and what computes with its page: rules, dashboards and
ledger. Base units only: seconds, bytes, a ratio from 0 to 1. A series that is missing means
unknown. It is never written as 0, and it never counts as idle.
"""

COMMANDS_HEAD = """\
<!-- Made by .ci/build_docs.py from the programs' own flags. Edit there. -->
# Commands

Every flag can be set in the environment as well: `--node.name` as `RIGHTSLICE_NODE_NAME`, a flag
that may be given often as a list with commas. A flag wins over the environment, the environment
over the file that `rightslice` takes with `--config`, that over the default.

`rightslice` ends with 0 when it has an answer (no advice with its reason is one), 1 when it cannot
listen, 2 on bad usage, 3 when a source cannot be read, 4 when the ledger cannot be used.
`rightslice-exporter` ends with 0 on a signal, 1 when it cannot listen, 2 on bad usage.
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


def metric_row(spec: MetricSpec) -> tuple[str, ...]:
    return (
        f"`{spec.name}`",
        str(spec.kind),
        str(spec.unit) or "none",
        ", ".join(f"`{label}`" for label in spec.labels) or "none",
        spec.help,
        spec.absent,
    )


def built(contract: Iterable[MetricSpec]) -> str:
    """Give the text of the page. Raises KeyError for a label without a meaning."""
    specs = sorted(contract, key=lambda spec: spec.name)
    labels = sorted({label for spec in specs for label in spec.labels})
    edges = sorted({spec.buckets for spec in specs if spec.kind is Kind.HISTOGRAM})
    lines = [HEAD.rstrip("\n")]
    lines += table(
        ("metric", "type", "unit", "labels", "meaning", "no series"), map(metric_row, specs)
    )
    lines.append(LABELS_HEAD.rstrip("\n"))
    lines += table(("label", "meaning"), ((f"`{label}`", LABELS[label]) for label in labels))
    lines.append(BUCKETS_HEAD.rstrip("\n"))
    for buckets in edges:
        lines += ["", "```", *wrapped([repr(edge) for edge in buckets]), "```"]
    return "\n".join(lines) + "\n"


def flag_row(action: argparse.Action) -> tuple[str, str]:
    flags = ", ".join(f"`{option}`" for option in action.option_strings)
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


def wrapped(words: list[str], per_line: int = 4) -> Iterator[str]:
    for start in range(0, len(words), per_line):
        yield " ".join(words[start : start + per_line])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    check = parser.parse_args().check
    stale = []
    for name, text in (("metrics.md", built(CONTRACT)), ("commands.md", command_pages())):
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
