"""Prints answers on a terminal, as JSON or as CSV."""

import json
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rightslice.report.csv_rows import csv_text
from rightslice.report.text import (
    Document,
    advice_text,
    money_text,
    place_text,
    saving_text,
    summary_text,
    why_text,
)

FORMATS = ("table", "json", "csv")
# Wide enough to read where there is no terminal to ask.
PIPE_WIDTH = 160


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
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("card", no_wrap=True)
    table.add_column("workload", overflow="fold", max_width=24)
    table.add_column("now, a month", justify="right")
    table.add_column("advice")
    table.add_column("saves a month", justify="right")
    table.add_column("saves a year", justify="right")
    table.add_column("why", overflow="fold", min_width=40)
    for answer in answers:
        cells = (
            place_text(answer),
            ", ".join(answer["workloads"][:2]) or "nobody",
            money_text(answer["present_price_per_month"]),
            advice_text(answer),
            saving_text(answer, "per_month"),
            saving_text(answer, "per_year"),
            why_text(answer),
        )
        # As text, not as markup: names come from outside.
        table.add_row(*(Text(cell) for cell in cells))
    console.print(table)
    console.print()
    console.print(Text(summary_text(summary)))
