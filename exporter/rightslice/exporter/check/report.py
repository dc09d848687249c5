"""The findings as a table for people, or as JSON."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from rightslice.exporter.check.finding import LEVELS, WARNING, Finding

HEADINGS = ("LEVEL", "CHECK", "SUBJECT", "FINDING")


def as_text(findings: Sequence[Finding]) -> str:
    """Give a table, the remedies below what they are for, and the counts."""
    rows = [(each.level, each.check, each.subject) for each in findings]
    widths = [max(map(len, column)) for column in zip(HEADINGS[:-1], *rows, strict=True)]
    return "\n".join(_lines(findings, widths)) + "\n"


def as_json(findings: Sequence[Finding]) -> str:
    """Give the same for programs; an empty remedy is one that there is not."""
    report = {"counts": _counts(findings), "findings": [asdict(each) for each in findings]}
    return json.dumps(report, indent=2) + "\n"


def _lines(findings: Sequence[Finding], widths: Sequence[int]) -> Iterator[str]:
    if len(findings) == 1 and findings[0].level != WARNING:
        yield findings[0].text
        return
    yield _line(HEADINGS, widths)
    for each in findings:
        yield _line((each.level, each.check, each.subject, each.text), widths)
        if each.remedy:
            yield _line(("", "", "", f"remedy: {each.remedy}"), widths)
    yield ", ".join(f"{level}: {count}" for level, count in _counts(findings).items())


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    *left, last = cells
    padded = (cell.ljust(width) for cell, width in zip(left, widths, strict=True))
    return "  ".join((*padded, last))


def _counts(findings: Sequence[Finding]) -> dict[str, int]:
    return {level: sum(each.level == level for each in findings) for level in LEVELS}
