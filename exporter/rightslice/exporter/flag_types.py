"""What several flags are read as."""

import argparse
from pathlib import Path


def path(text: str) -> Path:
    """Read a path, which an empty text is not."""
    if not text:
        raise argparse.ArgumentTypeError("want a path, got nothing")
    return Path(text)


def parts(text: str) -> tuple[str, ...]:
    """Read what commas part; an empty part says nothing."""
    return tuple(part.strip() for part in text.split(",") if part.strip())
