"""Reads YAML so that every complaint names the file, the line and the key.

Numbers are read from their text as Decimal: what a person wrote is what is computed with.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path

import yaml

# As many as Decimal computes with; no amount, size or share has more on either side of the point.
MOST_DIGITS = 28


class DocumentError(Exception):
    """A document is missing or malformed; the text names file, line, key and remedy."""


@dataclass(slots=True)
class Section:
    """One mapping of a document. Read its keys, then `finish` to refuse those nobody asked for."""

    file: str
    path: str
    node: yaml.MappingNode
    _items: dict[str, yaml.Node] = field(default_factory=dict)
    _read: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for key_node, value_node in self.node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise self.error("?", "is no key; write a single word", key_node)
            key = str(key_node.value)
            if key in self._items:
                raise self.error(key, "is given twice; keep one", key_node)
            self._items[key] = value_node

    def error(self, key: str, text: str, node: yaml.Node | None = None) -> DocumentError:
        """Make a complaint about one key."""
        place = node or self._items.get(key, self.node)
        where = ".".join(part for part in (self.path, key) if part)
        return DocumentError(f"{self.file}, line {place.start_mark.line + 1}: {where} {text}")

    def has(self, key: str) -> bool:
        """Tell whether a key is given with a value."""
        self._read.add(key)
        node = self._items.get(key)
        return node is not None and not _is_null(node)

    def finish(self) -> None:
        """Refuse keys that were not read: a misspelt key must not be silently ignored."""
        for key in self._items:
            if key not in self._read:
                known = ", ".join(sorted(self._read))
                raise self.error(key, f"is not a known key; known here: {known}")

    def text(self, key: str, default: str | None = None) -> str:
        """Read a scalar as text; required unless a default is given."""
        node = self._scalar(key, default is None)
        return str(default) if node is None else str(node.value)

    def texts(self, key: str) -> tuple[str, ...]:
        """Read one scalar, or a list of them, as texts."""
        self._read.add(key)
        node = self._items.get(key)
        if not isinstance(node, yaml.SequenceNode):
            return (self.text(key),)
        if not all(isinstance(item, yaml.ScalarNode) for item in node.value):
            raise self.error(key, "must be a list of single values")
        return tuple(str(item.value) for item in node.value)

    def one_of(self, key: str, allowed: tuple[str, ...], default: str) -> str:
        """Read a word of a fixed set."""
        word = self.text(key, default)
        if word not in allowed:
            raise self.error(key, f"must be one of {', '.join(allowed)}, got {word!r}")
        return word

    def flag(self, key: str, *, default: bool) -> bool:
        """Read true or false."""
        word = self.text(key, str(default)).lower()
        if word not in ("true", "false"):
            raise self.error(key, f"must be true or false, got {word!r}")
        return word == "true"

    def number(self, key: str, default: Decimal | None = None) -> Decimal:
        """Read a finite number; required unless a default is given."""
        node = self._scalar(key, default is None)
        if node is None:
            return default if default is not None else Decimal()
        return self._decimal(key, node)

    def count(self, key: str) -> int:
        """Read a whole number above zero."""
        value = self.number(key)
        if value != int(value) or value <= 0:
            raise self.error(key, f"must be a whole number above 0, got {value}")
        return int(value)

    def ratio(self, key: str, default: Decimal | None = None) -> Decimal:
        """Read a share between 0 and 1."""
        value = self.number(key, default)
        if not 0 <= value <= 1:
            raise self.error(key, f"must be between 0 and 1, got {value}; 20 % is written 0.20")
        return value

    def pattern(self, key: str) -> str:
        """Read a regular expression."""
        text = self.text(key)
        try:
            re.compile(text)
        except (re.error, OverflowError, RecursionError) as error:
            raise self.error(key, f"is not a regular expression: {error}") from error
        return text

    def numbers(self, key: str) -> tuple[Decimal, Decimal]:
        """Read one number, or a range written [low, high]."""
        self._read.add(key)
        node = self._items.get(key)
        if isinstance(node, yaml.SequenceNode):
            if len(node.value) != 2:
                raise self.error(key, "must be one number or a range [low, high]")
            low, high = (self._decimal(key, item) for item in node.value)
            if low > high:
                raise self.error(key, f"range is upside down: {low} to {high}; write [low, high]")
            return low, high
        value = self.number(key)
        return value, value

    def section(self, key: str) -> "Section | None":
        """Read a nested mapping; None where it is not given."""
        if not self.has(key):
            return None
        return self._section(key, self._items[key], ".".join(filter(None, (self.path, key))))

    def sections(self, key: str) -> Iterator["Section"]:
        """Read a list of mappings; nothing where it is not given."""
        if not self.has(key):
            return
        node = self._items[key]
        if not isinstance(node, yaml.SequenceNode):
            raise self.error(key, "must be a list")
        for index, item in enumerate(node.value):
            yield self._section(key, item, f"{key}[{index}]")

    def keys(self) -> tuple[str, ...]:
        """List the keys, for a mapping whose keys are names."""
        return tuple(self._items)

    def _section(self, key: str, node: yaml.Node, path: str) -> "Section":
        if not isinstance(node, yaml.MappingNode):
            raise self.error(key, "must be a mapping of keys to values", node)
        return Section(self.file, path, node)

    def _scalar(self, key: str, required: bool) -> yaml.ScalarNode | None:
        self._read.add(key)
        node = self._items.get(key)
        if node is None or _is_null(node):
            if required:
                raise self.error(key, "is missing; add it")
            return None
        if not isinstance(node, yaml.ScalarNode):
            raise self.error(key, "must be a single value")
        return node

    def _decimal(self, key: str, node: yaml.Node) -> Decimal:
        if not isinstance(node, yaml.ScalarNode):
            raise self.error(key, "must be a number, got a list or a mapping", node)
        try:
            value = Decimal(str(node.value).replace("_", ""))
        except InvalidOperation as error:
            raise self.error(key, f"must be a number, got {node.value!r}", node) from error
        if not value.is_finite():
            raise self.error(key, f"must be a finite number, got {node.value!r}", node)
        if abs(value.adjusted()) > MOST_DIGITS or len(value.as_tuple().digits) > MOST_DIGITS:
            raise self.error(key, "must have fewer digits: it is no price, size or share", node)
        return value


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def read_document(file: Path) -> Section:
    """Read a YAML file whose top is a mapping. Raises DocumentError."""
    node = _compose(file)
    if not isinstance(node, yaml.MappingNode):
        raise DocumentError(f"{file}, line 1: must be a mapping of keys to values")
    return Section(str(file), "", node)


def read_sections(file: Path) -> list[Section]:
    """Read a YAML or JSON file whose top is a list of mappings. Raises DocumentError."""
    node = _compose(file)
    if not isinstance(node, yaml.SequenceNode):
        raise DocumentError(f"{file}, line 1: must be a list")
    for item in node.value:
        if not isinstance(item, yaml.MappingNode):
            line = item.start_mark.line + 1
            raise DocumentError(f"{file}, line {line}: must be a mapping of keys to values")
    return [Section(str(file), f"[{index}]", item) for index, item in enumerate(node.value)]


def _compose(file: Path) -> yaml.Node | None:
    """Read a file's nodes; None for an empty one. Raises DocumentError."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise DocumentError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DocumentError(f"{file}: is not UTF-8 text; save it as UTF-8: {error}") from error
    if file.suffix == ".json":
        text = text.replace("\t", " ")  # JSON may be indented with tabs, and has none in its words
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise DocumentError(f"{file}, line {line}: not YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise DocumentError(f"{file}: not YAML: {error}") from error
    except RecursionError as error:
        raise DocumentError(f"{file}: is nested too deep; a few levels are all it needs") from error
