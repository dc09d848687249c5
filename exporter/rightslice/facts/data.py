"""Reads the JSON fact files that ship with the package."""

import json
from importlib.resources import files
from typing import Any

BYTES_PER_MIB = 1024**2
BYTES_PER_GIB = 1024**3


def read_facts(name: str) -> dict[str, Any]:
    """Give the content of one fact file, such as "gpus"; its YAML source holds the remarks."""
    text = files("rightslice.facts").joinpath(f"{name}.json").read_text(encoding="utf-8")
    facts: dict[str, Any] = json.loads(text)
    return facts


def bytes_from_mib(mebibytes: float | None) -> int | None:
    """Convert a fact's MiB; None stays unknown."""
    return None if mebibytes is None else int(mebibytes * BYTES_PER_MIB)
