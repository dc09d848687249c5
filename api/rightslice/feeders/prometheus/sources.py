"""Whose metrics are read from a Prometheus: ours, and those that mappings know."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rightslice.feeders.gauges.mapping import (
    GaugeMapping,
    load_mapping,
    shipped_mapping,
    shipped_names,
)
from rightslice.ledger.rows import SOURCE_PRECEDENCE, SOURCE_RIGHTSLICE

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Sources:
    """What to read; mappings in the order in which they are believed.

    `name` is as it was asked; with a user's mapping it tells which, since what one told is not
    what another tells.
    """

    name: str
    has_ours: bool
    mappings: Sequence[GaugeMapping]


def source_names() -> tuple[str, ...]:
    """List what can be asked for by name."""
    return (AUTO, SOURCE_RIGHTSLICE, *shipped_names())


def choose_sources(name: str = AUTO, mapping_file: Path | None = None) -> Sources:
    """Choose all there are, or one by its name; a user's mapping comes to all.

    Raises DocumentError for a bad mapping.
    """
    own = [] if mapping_file is None else [load_mapping(mapping_file)]
    told_name = name
    if mapping_file is not None:
        digest = hashlib.blake2b(mapping_file.read_bytes(), digest_size=6).hexdigest()
        told_name = f"{name}+{own[0].name}@{digest}"
    shipped = [
        shipped_mapping(each)
        for each in shipped_names()
        if name in (AUTO, each) and each not in [mapping.name for mapping in own]
    ]
    mappings = sorted(
        (*own, *shipped), key=lambda each: (-SOURCE_PRECEDENCE.get(each.name, 0), each.name)
    )
    return Sources(told_name, name in (AUTO, SOURCE_RIGHTSLICE), tuple(mappings))
