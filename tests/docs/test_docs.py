"""The documentation: generated pages are current, links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from rightslice.contract.metrics import CONTRACT, GPU_XID_ERRORS_TOTAL
from rightslice.exporter.collectors import ENABLED, load
from rightslice.exporter.collectors.xid import HARDWARE_XIDS
from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.host.host import Host
from rightslice.exporter.host.nvml.session import SETTLING_SECONDS
from rightslice.exporter.host.paths import Paths

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def test_the_page_of_metrics_is_what_the_contract_says() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / ".ci/build_docs.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr


def test_the_page_of_metrics_has_a_row_for_each_metric() -> None:
    page = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z0-9_]+)` \| (?:gauge|counter|histogram) \|", page, re.MULTILINE)

    assert sorted(rows) == sorted(spec.name for spec in CONTRACT)


@pytest.mark.parametrize(
    ("name", "collectors"),
    [
        pytest.param("rightslice_gpu_power_watts", "`gpu_power`", id="one"),
        pytest.param("rightslice_xid_source_available", "`driver_events`, `xid`", id="two"),
        pytest.param("rightslice_gpu_up", "always", id="none"),
    ],
)
def test_the_page_of_metrics_tells_what_switches_each(name: str, collectors: str) -> None:
    page = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    (line,) = re.findall(rf"^\| `{name}` \|.*", page, re.MULTILINE)

    assert line.endswith(f" | {collectors} |")


def label_line(name: str) -> str:
    page = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    (line,) = re.findall(rf"^\| `{name}` \| [^|]* \|$", page, re.MULTILINE)
    return str(line)


def test_every_device_that_is_no_card_is_told(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    host = Host("node-a", Paths(missing, missing, missing), ManualClock(0).clock())
    names = {device.id for name in ENABLED for device in load(name).devices(host)}

    assert names
    assert [name for name in names if f"`{name}`" not in label_line("device")] == []


def test_when_busy_starts_is_told() -> None:
    assert f"starts {SETTLING_SECONDS:.0f} s after" in label_line("signal")


def test_the_errors_that_are_told_as_0_are_named() -> None:
    told = re.findall(r"\d+", GPU_XID_ERRORS_TOTAL.absent)

    assert told == [*map(str, HARDWARE_XIDS), "0"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_to_something(page: Path) -> None:
    links = LINK.findall(page.read_text(encoding="utf-8"))
    paths = [link.partition("#")[0] for link in links if "://" not in link]

    assert [path for path in paths if not (page.parent / path).exists()] == []
