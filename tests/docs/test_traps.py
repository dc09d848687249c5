"""The page of traps: every test that it names exists, and no trap is left out."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/traps.md"
TRAP_COUNT = 48
TEST = re.compile(r"(tests/[\w/]+\.py)::(test_\w+)")


def tables() -> list[list[list[str]]]:
    """Give the page's tables as rows of cells, without their heads."""
    blocks = re.findall(r"(?:^\|.*\n)+", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [
        [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()[2:]]
        for block in blocks
    ]


@cache
def names_in(file: str) -> frozenset[str]:
    """Give the names of a file's tests; none where there is no such file."""
    path = ROOT / file
    if not path.is_file():
        return frozenset()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def test_every_test_that_is_named_exists() -> None:
    named = TEST.findall(PAGE.read_text(encoding="utf-8"))

    assert named
    assert [f"{file}::{name}" for file, name in named if name not in names_in(file)] == []


def test_whatever_looks_like_a_test_is_named_with_its_file() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert re.findall(r"`[^`]*(?:::|test_)[^`]*`", TEST.sub("", text)) == []


def test_each_trap_has_one_row() -> None:
    traps, _ = tables()

    assert [row[0] for row in traps] == [str(number) for number in range(1, TRAP_COUNT + 1)]


def test_each_report_has_one_row() -> None:
    _, reports = tables()
    names = [row[0] for row in reports]

    assert [name for name in names if names.count(name) > 1] == []


def test_every_row_fills_its_four_cells() -> None:
    rows = [row for table in tables() for row in table]

    assert [row for row in rows if len(row) != 4 or not all(row)] == []


def test_a_row_without_a_test_says_why() -> None:
    rows = [row for table in tables() for row in table]

    assert [row for row in rows if not TEST.search(row[3]) and not row[3].endswith(".")] == []
