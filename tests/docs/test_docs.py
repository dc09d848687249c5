"""The documentation: generated pages are current, links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from rightslice.contract.metrics import CONTRACT

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
    rows = re.findall(r"^\| `([a-z_]+)` \| (?:gauge|counter|histogram) \|", page, re.MULTILINE)

    assert sorted(rows) == sorted(spec.name for spec in CONTRACT)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_to_something(page: Path) -> None:
    links = LINK.findall(page.read_text(encoding="utf-8"))
    paths = [link.partition("#")[0] for link in links if "://" not in link]

    assert [path for path in paths if not (page.parent / path).exists()] == []
