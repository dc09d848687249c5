"""Reads patterns from TOML, and refuses a file whose entries do not do what they say."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rightslice.exporter.host.oom.parts import WINDOW_CHARS, Part
from rightslice.exporter.host.oom.pattern import (
    CAUSES,
    CONFIDENCES,
    DETAIL,
    GROUPS,
    IGNORE,
    OPENS,
    PLACEHOLDERS,
    ROLES,
    SIZES,
    Example,
    Pattern,
)
from rightslice.exporter.host.oom.regex_cost import MOST_ATTEMPTS, attempts_at_most

MOST_FILE_BYTES = 1 << 20
MOST_PATTERNS = 500
LITERAL = re.compile(r"[ -~]{6,200}")
ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
FRAMEWORK = re.compile(r"[a-z0-9][a-z0-9._-]{0,31}")
KEYS = (
    "id",
    "framework",
    "cause",
    "confidence",
    "role",
    "head_only",
    "literals",
    "regex",
    "unless",
    "examples",
    "counter_examples",
)
EXAMPLE_KEYS = ("line", *SIZES, "device")
TOO_SLOW = (
    "on some lines it would run for hours; leave out repeats inside repeats, choices inside them,"
    " and a second '.*' or '.+'; say which characters may come, or how many: '[^,]{1,40}'"
)


class PatternError(ValueError):
    """A file of patterns cannot be used; the text says where, and what to do."""


def read_file(path: Path, most_chars: int) -> tuple[Pattern, ...]:
    """Read a user's own file. Raises PatternError."""
    try:
        if not path.is_file():
            raise PatternError(f"{path}: is no file; give the path of a TOML file")
        with path.open("rb") as file:
            content = file.read(MOST_FILE_BYTES)
        if len(content) >= MOST_FILE_BYTES:
            raise PatternError(f"{path}: has 1 MiB or more; patterns take a few KiB, so shorten it")
        text = content.decode("utf-8")
    except OSError as error:
        raise PatternError(f"{path}: cannot be read: {error.strerror}; check its rights") from error
    except UnicodeDecodeError as error:
        raise PatternError(f"{path}: is not UTF-8; save it as UTF-8") from error
    return read_text(text, str(path), most_chars)


def read_text(text: str, source: str, most_chars: int) -> tuple[Pattern, ...]:
    """Read all entries of a file; `source` is how errors name it. Raises PatternError."""
    try:
        told = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise PatternError(f"{source}: is no TOML: {error}") from error
    entries = told.pop("pattern", [])
    if told:
        raise PatternError(f"{source}: unknown key {min(told)!r}; each entry begins [[pattern]]")
    if not isinstance(entries, list) or len(entries) > MOST_PATTERNS:
        raise PatternError(f"{source}: want at most {MOST_PATTERNS} entries, each [[pattern]]")
    patterns = tuple(
        _Entry(source, number, entry).pattern(most_chars)
        for number, entry in enumerate(entries, start=1)
    )
    _refuse_duplicates(source, patterns)
    return patterns


def _refuse_duplicates(source: str, patterns: Sequence[Pattern]) -> None:
    seen: set[str] = set()
    for pattern in patterns:
        if pattern.id in seen:
            raise PatternError(f"{source}: two entries have the id {pattern.id!r}; rename one")
        seen.add(pattern.id)


@dataclass(frozen=True, slots=True)
class _Entry:
    source: str
    number: int
    told: Any

    def pattern(self, most_chars: int) -> Pattern:
        if not isinstance(self.told, dict):
            raise self._wrong("pattern", self.told, "begin it with [[pattern]]")
        self._refuse_unknown(self.told, KEYS)
        role = self._one_of("role", ROLES, OPENS)
        ignores = role == IGNORE
        pattern = Pattern(
            id=self._name("id", ID),
            framework=self._name("framework", FRAMEWORK, "none" if ignores else None),
            cause=self._one_of("cause", CAUSES, CAUSES[0] if ignores else None),
            confidence=self._one_of("confidence", CONFIDENCES, CONFIDENCES[0] if ignores else None),
            literals=self._literals(needed=not ignores),
            regex=self._regex("regex"),
            unless=self._regex("unless") if "unless" in self.told else None,
            role=role,
            head_only=self._is_head_only(),
            most_chars=most_chars,
        )
        examples = tuple(self._example(example) for example in self._list("examples"))
        counter_examples = tuple(self._line(line) for line in self._list("counter_examples"))
        self._check(pattern, examples, counter_examples)
        return replace(pattern, examples=examples, counter_examples=counter_examples)

    def _check(
        self, pattern: Pattern, examples: Sequence[Example], counter_examples: Sequence[str]
    ) -> None:
        for example in examples:
            problem = _problem(pattern, example)
            if problem:
                raise self._wrong("examples", example.line, problem)
        for line in counter_examples:
            if pattern.match(Part(line)) is not None:
                raise self._wrong("counter_examples", line, "it matches; narrow regex or unless")

    def _name(self, key: str, form: re.Pattern[str], default: str | None = None) -> str:
        value = self.told.get(key, default)
        if not isinstance(value, str) or form.fullmatch(value) is None:
            raise self._wrong(key, value, f"it needs one of the form {form.pattern}")
        return value

    def _one_of(self, key: str, words: Sequence[str], default: str | None) -> str:
        value = self.told.get(key, default)
        if value not in words:
            raise self._wrong(key, value, f"want one of {', '.join(words)}")
        return str(value)

    def _is_head_only(self) -> bool:
        value = self.told.get("head_only", False)
        if not isinstance(value, bool):
            raise self._wrong("head_only", value, "want true or false")
        return value

    def _literals(self, *, needed: bool) -> tuple[str, ...]:
        literals = self._list("literals")
        for literal in literals:
            if not isinstance(literal, str) or LITERAL.fullmatch(literal) is None:
                raise self._wrong("literals", literal, "want 6 to 200 characters, ASCII only")
        if needed and not literals:
            raise self._wrong("literals", literals, "give a text that all its lines hold")
        return tuple(literals)

    def _regex(self, key: str) -> re.Pattern[str]:
        value = self.told.get(key)
        if not isinstance(value, str) or not value:
            raise self._wrong(key, value, "want a Python regular expression")
        written = value
        for placeholder, group in PLACEHOLDERS.items():
            written = written.replace(placeholder, group)
        try:
            regex = re.compile(written)
        except (re.error, RecursionError, OverflowError) as error:
            raise self._wrong(key, value, f"it is no regular expression: {error}") from error
        # Before it runs at all: some take hours on an empty line.
        if attempts_at_most(written, WINDOW_CHARS) > MOST_ATTEMPTS:
            raise self._wrong(key, value, TOO_SLOW)
        if regex.search("") is not None:
            raise self._wrong(key, value, "it matches an empty line; write what must stand there")
        unknown = sorted(set(regex.groupindex) - GROUPS)
        if unknown:
            raise self._wrong(key, unknown[0], f"groups are {', '.join(sorted(GROUPS))}")
        return regex

    def _example(self, told: Any) -> Example:
        if not isinstance(told, dict):
            raise self._wrong("examples", told, 'want { line = "...", requested = 1024 }')
        self._refuse_unknown(told, EXAMPLE_KEYS)
        numbers = {key: told[key] for key in (*SIZES, "device") if key in told}
        for key, number in numbers.items():
            if not isinstance(number, int) or isinstance(number, bool) or number < 0:
                raise self._wrong(f"examples {key}", number, "want a whole number, sizes in bytes")
        device = numbers.pop("device", None)
        return Example(self._line(told.get("line")), numbers, device)

    def _line(self, value: Any) -> str:
        if not isinstance(value, str) or not value or "\n" in value:
            raise self._wrong("line", value, "want one line of text")
        return value

    def _list(self, key: str) -> list[Any]:
        value = self.told.get(key, [])
        if not isinstance(value, list):
            raise self._wrong(key, value, "want a list: [ ... ]")
        return value

    def _refuse_unknown(self, told: Mapping[str, Any], known: Sequence[str]) -> None:
        unknown = sorted(set(told) - set(known))
        if unknown:
            raise self._wrong(unknown[0], told[unknown[0]], f"keys are {', '.join(known)}")

    def _wrong(self, key: str, value: Any, remedy: str) -> PatternError:
        told = self.told if isinstance(self.told, dict) else {}
        name = repr(told["id"]) if isinstance(told.get("id"), str) else f"number {self.number}"
        return PatternError(f"{self.source}: pattern {name}: {key}: {value!r:.200}: {remedy}")


def _problem(pattern: Pattern, example: Example) -> str:
    """Say what a pattern misses in its own example; empty where it misses nothing."""
    if pattern.role == IGNORE:
        return "" if pattern.finds(example.line) else "it is not found; widen the regex"
    match = pattern.match(Part(example.line))
    if match is None:
        return "it does not match; check literals, regex and unless"
    if match.is_detail != (pattern.role == DETAIL) or match.confidence != pattern.confidence:
        return f"it matches only with confidence {match.confidence}, as if somebody quoted it"
    if dict(match.sizes_bytes) != dict(example.sizes_bytes):
        return f"the sizes in it are read as {dict(match.sizes_bytes)}; write these or mend regex"
    if match.device != example.device:
        return f"the device in it is read as {match.device}; write it or mend the regex"
    return ""
