"""Prints answers on a terminal, as JSON or as CSV."""

import json
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rightslice.report.csv_rows import csv_text
from rightslice.report.text import (
    Document,
    advice_text,
    holder_text,
    money_text,
    place_text,
    saving_text,
    summary_text,
    why_text,
)

FORMATS = ("table", "json", "csv")
# Where there is no terminal to ask, and the least that the table's columns need.
PIPE_WIDTH, LEAST_TABLE_WIDTH = 120, 100


def print_answers(answers: Sequence[Document], summary: Document, output_format: str) -> None:
    """Write the whole answer to standard output."""
    if output_format == "json":
        body = {"summary": summary, "recommendations": list(answers)}
        sys.stdout.write(json.dumps(body, ensure_ascii=False, indent=2) + "\n")
    elif output_format == "csv":
        sys.stdout.write(csv_text(answers))
    else:
        _print_table(answers, summary)


def _print_table(answers: Sequence[Document], summary: Document) -> None:
    console = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)
    if not answers:
        console.print("No GPU was seen in the window: no advice.")
        return
    if console.width >= LEAST_TABLE_WIDTH:
        console.print(_table(answers))
        console.print()
    for answer in answers:
        heading = place_text(answer)
        if console.width < LEAST_TABLE_WIDTH:
            heading += f", {holder_text(answer)}: {advice_text(answer)} {_saving_words(answer)}"
        # As text, not as markup: names come from outside.
        console.print(Text(heading.strip(), style="bold"))
        console.print(Padding(Text(why_text(answer)), (0, 0, 0, 2), expand=False))
    console.print()
    console.print(Text(summary_text(summary)))


def _saving_words(answer: Document) -> str:
    """Say in words what the table's columns say."""
    per_month, per_year = (saving_text(answer, per) for per in ("per_month", "per_year"))
    if not per_month:
        return ""
    return f"({per_month} a month" + (f", {per_year} a year)" if per_year else ")")


def _table(answers: Sequence[Document]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("card", no_wrap=True)
    table.add_column("held by", overflow="fold", max_width=26)
    table.add_column("now, a month", justify="right")
    table.add_column("advice")
    table.add_column("saves a month", justify="right")
    table.add_column("saves a year", justify="right")
    for answer in answers:
        cells = (
            place_text(answer),
            holder_text(answer),
            money_text(answer["present_price_per_month"]),
            advice_text(answer),
            saving_text(answer, "per_month"),
            saving_text(answer, "per_year"),
        )
        table.add_row(*(Text(cell, overflow="fold") for cell in cells))
    return table
