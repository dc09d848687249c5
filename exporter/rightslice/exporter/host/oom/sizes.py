"""Sizes of memory as frameworks write them into their messages."""

import re
from decimal import Decimal

# K, M, G and T are powers of 1024 in all of them, whether an "i" and a "B" follow or not: Paddle's
# "98.0MB", TensorFlow's "7.81G" and XGBoost's "64GB" are binary too.
POWERS = "KMGTPE"
SIZE = re.compile(r"(?P<number>[0-9][0-9.,]{0,30}) ?(?:(?P<power>[KMGTPEk])?(?:i?B)?|[Bb]ytes?)")
# "25,600,000" groups thousands; "1900,00" has the comma of a machine that is set to German.
NUMBER = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?|[0-9]+,[0-9]{1,2}")
GROUPED = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?")

# No node has a PiB of memory on its cards, so a message that says so counted wrongly.
MOST_PLAUSIBLE_BYTES = 1 << 50


def parse_size_bytes(text: str) -> int | None:
    """Read "8.13 GiB", "0 bytes", "25,600,000 bytes", "7.81G" or bare digits; None for no size."""
    size = SIZE.fullmatch(text.strip().rstrip(".,"))
    if size is None or NUMBER.fullmatch(size["number"]) is None:
        return None
    grouped = GROUPED.fullmatch(size["number"]) is not None
    number = Decimal(size["number"].replace(",", "" if grouped else "."))
    power = POWERS.index(size["power"].upper()) + 1 if size["power"] else 0
    return round(number * (1 << 10 * power))


def is_plausible_bytes(size_bytes: int) -> bool:
    """Tell a size that some card can have from one that is a counting error; 0 is fine."""
    return 0 <= size_bytes <= MOST_PLAUSIBLE_BYTES
