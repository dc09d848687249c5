"""Calendar months as people write them: YYYY-MM, in UTC."""

import argparse
from datetime import UTC, datetime


def month_start(text: str) -> datetime:
    """Read a month; gives its first moment. Raises ValueError."""
    return datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC)


def month_end(text: str) -> datetime:
    """Read a month; gives the first moment after it. Raises ValueError."""
    start = month_start(text)
    if start.month == 12:
        return start.replace(year=start.year + 1, month=1)
    return start.replace(month=start.month + 1)


def month(text: str) -> str:
    """Read the month that a flag tells."""
    try:
        return f"{month_start(text):%Y-%m}"
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"want a month like 2026-11, got {text!r}") from error
