"""Text of others, such as names and labels, made fit for a label's value."""

import re

MOST_CHARACTERS = 64
# "worker-41877" and "ray::48213" hold process ids: each would be a series of its own.
LONG_NUMBER = re.compile(r"\d{5,}")


def label_text(text: str) -> str:
    """Replace what cannot be shown, such as control characters, and cut what is too long."""
    start = text[:MOST_CHARACTERS].strip()
    return "".join(letter if letter.isprintable() else "_" for letter in start)


def command_text(command: str) -> str:
    """Give a command's name without numbers that could be a process id."""
    return label_text(LONG_NUMBER.sub("N", command))
