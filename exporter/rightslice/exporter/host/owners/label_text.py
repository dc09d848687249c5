"""Text of others, such as names and labels, made fit for a label's value."""

import re
from collections.abc import Collection

MOST_CHARACTERS = 64
# Names must stay equal to what others call the same thing. Kubernetes' own have at most 253
# characters; Docker has no bound, and a longer name of its is cut.
MOST_NAME_CHARACTERS = 253
NUMBER = re.compile(r"[0-9]+")
# "worker-9999" and "ray::48213" hold process ids: each would be a series of its own.
LONG_NUMBER = re.compile(r"[0-9]{4,}")
# The first process of every namespace: it tells no process from another.
INIT = 1


def label_text(text: str) -> str:
    """Replace what cannot be shown, such as control characters, and cut what is too long."""
    return _shown(text[:MOST_CHARACTERS])


def name_text(name: str) -> str:
    """Do the same to the name of a thing, which may be longer than free text."""
    return _shown(name[:MOST_NAME_CHARACTERS])


def is_name(text: str) -> bool:
    """Tell whether a text may stand as a name as it is."""
    return 0 < len(text) <= MOST_NAME_CHARACTERS and text.isprintable()


def command_text(command: str) -> str:
    """Give a command's name without numbers that could be a process id."""
    return label_text(LONG_NUMBER.sub("N", command))


def without_ids(command: str, process_ids: Collection[int]) -> str:
    """Take the ids that a process and its parent go by out of its command, however short."""
    texts = {str(number) for number in process_ids if number > INIT}
    return NUMBER.sub(lambda found: "N" if found[0] in texts else found[0], command)


def _shown(text: str) -> str:
    return "".join(letter if letter.isprintable() else "_" for letter in text.strip())
