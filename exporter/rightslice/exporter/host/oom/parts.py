"""The single texts of a log message: its lines, the steps of a progress bar, the fields of JSON."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from rightslice.exporter.host.oom.standing import Line, OpenQuotes, head_end

ANSI = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
LINE_END = re.compile(r"[\r\n]")
MOST_DEPTH = 6
# What anybody can print must not take long to read: so many lines with a literal, and so much text.
MOST_PARTS = 32
MOST_CHARS_READ = 12 << 10
# Of a longer line, regexes see this much around the literal.
WINDOW_CHARS = 4 << 10
# fmt: off
MESSAGE_KEYS = frozenset((
    "msg", "message", "error", "err", "log", "exc_info", "exception", "exc", "exc_text", "stack",
    "stack_trace", "stacktrace", "traceback", "event", "detail", "details", "reason", "cause",
    "description", "status", "stderr",
))
# What somebody sent to a model or got from one.
CONTENT_KEYS = frozenset((
    "prompt", "prompts", "content", "messages", "input", "inputs", "input_text", "query",
    "question", "text", "user", "human", "assistant", "conversation", "chat", "completion",
    "choices", "output", "outputs", "response", "generated_text", "document", "documents", "body",
    "params", "request", "request_body",
))
# fmt: on


# Whose words a field beside `role` holds.
ROLES_OF_CHAT = frozenset(("user", "assistant", "human"))


class Part:
    """One line of a text of a message, and where in it the error may be.

    `text` is the line, `at` the place of the first of the literals in it. `is_message` is False
    where nothing says that the text is the message of a program.
    """

    __slots__ = ("at", "is_message", "line", "text")

    def __init__(
        self,
        text: str,
        at: int = 0,
        is_message: bool = True,
        quotes: OpenQuotes | None = None,
        offset: int = 0,
    ) -> None:
        self.text = text
        self.at = at
        self.is_message = is_message
        self.line = Line(text, quotes or OpenQuotes(text), offset)


def parts_of(message: str, literals: Sequence[str]) -> Iterator[Part]:
    """Give the lines of a message that hold one of the literals, few enough to be read soon."""
    if "\x1b" in message:
        message = ANSI.sub("", message)
    fields = _json_fields(message)
    chars_left = MOST_CHARS_READ
    texts = [(message, True)] if fields is None else fields
    lines = (line for text, known in texts for line in _lines(text, known, literals))
    for part in islice(lines, MOST_PARTS):
        if chars_left <= 0:
            return
        chars_left -= min(len(part.text), WINDOW_CHARS)
        yield part


def _lines(text: str, is_message: bool, literals: Sequence[str]) -> Iterator[Part]:
    quotes = OpenQuotes(text)
    for (start, end), at in _places(text, literals):
        yield Part(text[start:end], at - start, is_message, quotes, start)


def _places(text: str, literals: Sequence[str]) -> list[tuple[tuple[int, int], int]]:
    """Give start and end of the first lines that hold a literal, with the place of the first."""
    places: dict[tuple[int, int], int] = {}
    for literal in literals:
        end = 0
        for _ in range(MOST_PARTS):
            at = text.find(literal, end)
            if at < 0:
                break
            start = 1 + max(text.rfind("\n", end, at), text.rfind("\r", end, at), end - 1)
            found = LINE_END.search(text, at)
            end = found.start() if found else len(text)
            places[start, end] = min(at, places.get((start, end), at))
    return sorted(places.items())[:MOST_PARTS]


def _json_fields(message: str) -> list[tuple[str, bool]] | None:
    """Give the texts of a message in JSON, and of each whether it is one of the program itself."""
    start = message.find("{", 0, 200)
    if start < 0 or not message.rstrip().endswith("}") or head_end(message) < start:
        return None
    try:
        told = json.loads(message[start:])
    except (ValueError, RecursionError):
        return None
    return list(_fields(told, is_message=False, depth=0)) if isinstance(told, dict) else None


def _fields(value: Any, *, is_message: bool, depth: int) -> Iterator[tuple[str, bool]]:
    if isinstance(value, str):
        yield value, is_message
    elif depth >= MOST_DEPTH:
        return
    elif isinstance(value, list):
        for entry in value:
            if isinstance(entry, str | list | dict):
                yield from _fields(entry, is_message=is_message, depth=depth + 1)
    elif isinstance(value, dict) and not _is_of_a_chat(value):
        for key, entry in value.items():
            if isinstance(entry, str | list | dict) and key.lower() not in CONTENT_KEYS:
                known = is_message or key.lower() in MESSAGE_KEYS
                yield from _fields(entry, is_message=known, depth=depth + 1)


def _is_of_a_chat(fields: Mapping[str, Any]) -> bool:
    role = fields.get("role")
    return isinstance(role, str) and role.lower() in ROLES_OF_CHAT
