"""The single texts of a log message: its lines, the steps of a progress bar, the fields of JSON."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rightslice.exporter.host.oom.standing import head_end

ANSI = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
LINE_END = re.compile(r"[\r\n]+")
MOST_DEPTH = 6
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


@dataclass(frozen=True, slots=True)
class Part:
    """One text. `before` is what the same message says above it.

    `is_message` is False where nothing says that the text is the message of a program.
    """

    text: str
    before: str = ""
    is_message: bool = True


def parts_of(message: str) -> Iterator[Part]:
    """Split a message into the texts that are looked at one by one."""
    if "\x1b" in message:
        message = ANSI.sub("", message)
    fields = _json_fields(message)
    if fields is None:
        yield from _lines(message, is_message=True)
        return
    for text, is_message in fields:
        yield from _lines(text, is_message=is_message)


def _lines(text: str, *, is_message: bool) -> Iterator[Part]:
    start = 0
    for line in LINE_END.split(text):
        start = text.index(line, start) if line else start
        if line:
            yield Part(line, text[:start], is_message)
        start += len(line)


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
            yield from _fields(entry, is_message=is_message, depth=depth + 1)
    elif isinstance(value, dict):
        for key, entry in value.items():
            if key.lower() not in CONTENT_KEYS:
                known = is_message or key.lower() in MESSAGE_KEYS
                yield from _fields(entry, is_message=known, depth=depth + 1)
