"""Bounds how long a regex can take: how often it may try one text again, before it is ever run.

A regex that tries again inside what it tries again takes hours on some lines, and Python cannot
stop it, nor run anything else meanwhile. So such a regex is refused when its file is loaded.

A repeat is tried with each count that fits, but only where what follows it can begin with a text
that the repeat takes too: `[0-9]+:` gives no choice, `.*:` gives one for each character. The
product of all choices, times the places at which a line lets the regex begin, bounds the attempts.
"""

import re
from collections.abc import Sequence
from typing import Any

# The parser of `re` has no public name.
parser: Any = re._parser  # type: ignore[attr-defined]

# One choice for each character at each place of 8 KiB of text: about a second at worst.
MOST_ATTEMPTS = (8 << 10) ** 2
TOO_MANY = MOST_ATTEMPTS + 1
# Stands for all characters that are not ASCII.
OTHER = 128
ALL = frozenset(range(OTHER + 1))
MOST_DEPTH = 50
CATEGORIES = {
    "CATEGORY_DIGIT": r"\d",
    "CATEGORY_NOT_DIGIT": r"\D",
    "CATEGORY_SPACE": r"\s",
    "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_WORD": r"\w",
    "CATEGORY_NOT_WORD": r"\W",
}
IGNORES_CASE = re.compile(r"\(\?[a-zA-Z]*i")
# These match a character beyond ASCII where case is ignored.
FOLDED = frozenset(map(ord, "iIkKsS"))
REPEATS = frozenset(("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"))

Chars = frozenset[int]
# None where a regex may end: no text can make it fail there.
Follow = Chars | None
Items = Sequence[tuple[Any, Any]]


def attempts_at_most(regex: str, text_chars: int) -> int:
    """Bound how often a regex tries a text of that many characters; TOO_MANY is no exact number.

    Raises re.error, RecursionError or OverflowError where it is no regex.
    """
    items = list(parser.parse(regex))
    ways = _Costs(text_chars, IGNORES_CASE.search(regex) is not None).ways(items, None, 0)
    return min(TOO_MANY, ways * _starts(items, text_chars))


def _starts(items: Items, text_chars: int) -> int:
    """Give at how many places of a text the regex gets beyond the fixed text it begins with."""
    fixed: list[int] = []
    for op, value in items:
        if str(op) == "AT" and str(value).startswith("AT_BEGINNING") and not fixed:
            return 1  # a line has one beginning
        if str(op) != "LITERAL":
            break
        fixed.append(value)
    return text_chars // _period(fixed) + 1


def _period(text: list[int]) -> int:
    """Give how far apart two places of a text must be at least; "aa" can stand at each place."""
    shifts = (shift for shift in range(1, len(text)) if text[shift:] == text[:-shift])
    return next(shifts, max(1, len(text)))


class _Costs:
    """Counts the choices of the parts of one regex."""

    def __init__(self, text_chars: int, ignores_case: bool) -> None:
        self._text_chars = text_chars
        self._ignores_case = ignores_case

    def ways(self, items: Items, follow: Follow, depth: int) -> int:
        """Multiply the choices of all items; `follow` is what can come behind the last."""
        if depth > MOST_DEPTH:
            return TOO_MANY
        product = 1
        for op, value in reversed(list(items)):
            product *= self._item(str(op), value, follow, depth + 1)
            if product > MOST_ATTEMPTS:
                return TOO_MANY
            follow = self._before(str(op), value, follow)
        return product

    def _item(self, op: str, value: Any, follow: Follow, depth: int) -> int:
        if op in REPEATS:
            return self._repeat(value, follow, depth)
        if op == "SUBPATTERN":
            return self.ways(value[3], follow, depth)
        if op == "BRANCH":
            return self._branch(value[1], follow, depth)
        if op == "ATOMIC_GROUP":
            return self.ways(value, follow, depth)
        if op in ("ASSERT", "ASSERT_NOT"):
            return self.ways(value[1], ALL, depth)
        # What names a group, as a reference does, is rare in a pattern and hard to bound.
        return TOO_MANY if op in ("GROUPREF", "GROUPREF_EXISTS") else 1

    def _branch(self, branches: Sequence[Items], follow: Follow, depth: int) -> int:
        ways = [self.ways(branch, follow, depth) for branch in branches]
        return (
            max(ways) if _are_apart([self._first(list(b), follow) for b in branches]) else sum(ways)
        )

    def _repeat(self, value: Any, follow: Follow, depth: int) -> int:
        least, most, body = value
        most = min(int(most), self._text_chars)
        begin = self._first(list(body), None)
        inner = self.ways(body, _behind_a_round(least, most, begin, follow), depth)
        if follow is None or (begin is not None and not begin & follow):
            counts = 1
        else:
            counts = most - least + 1
        if inner == 1 or most <= 1:
            return counts * inner
        # Each round has its own choices.
        return TOO_MANY if inner.bit_length() * most > 64 else counts * int(inner**most)

    def _first(self, items: Items, follow: Follow) -> Follow:
        """Give the characters with which a text of these items, and what follows, can begin."""
        for op, value in reversed(list(items)):
            follow = self._before(str(op), value, follow)
        return follow

    def _before(self, op: str, value: Any, follow: Follow) -> Follow:
        """Give what can begin a text of one item and what follows it."""
        if op in ("LITERAL", "NOT_LITERAL", "ANY", "IN"):
            return self._chars(op, value)
        if op == "SUBPATTERN":
            return self._first(list(value[3]), follow)
        if op == "ATOMIC_GROUP":
            return self._first(list(value), follow)
        if op == "BRANCH":
            sets = [self._first(list(branch), follow) for branch in value[1]]
            return _union(sets)
        if op in REPEATS:
            begin = self._first(list(value[2]), follow)
            return begin if value[0] else _union([begin, follow])
        if op == "ASSERT_NOT":
            return self._before_not(value, follow)
        # Other assertions, and ends of words, may fail on any text.
        return ALL

    def _before_not(self, value: Any, follow: Follow) -> Chars:
        """Take what `(?!x)` forbids from what can follow, where x is one character."""
        direction, items = value
        rest = ALL if follow is None else follow
        if direction != 1 or len(items) != 1 or str(items[0][0]) not in ("LITERAL", "IN"):
            return rest if direction == 1 else ALL
        return rest - (_plain_chars(str(items[0][0]), items[0][1]) - {OTHER})

    def _chars(self, op: str, value: Any) -> Chars:
        chars = _plain_chars(op, value)
        if not self._ignores_case:
            return chars
        cases = {ord(case) for n in chars if n < OTHER for case in (chr(n).lower(), chr(n).upper())}
        return chars | {n for n in cases if n < OTHER} | (FOLDED if OTHER in chars else frozenset())


def _behind_a_round(least: int, most: int, begin: Follow, follow: Follow) -> Follow:
    """Give what can come behind one round of a repeat: the next round, or what follows."""
    if most <= 1:
        return follow
    if begin is None:
        return ALL
    if follow is None:
        return None if least <= 1 else begin
    return begin | follow


def _are_apart(sets: Sequence[Follow]) -> bool:
    seen: set[int] = set()
    for chars in sets:
        if chars is None or chars & seen:
            return False
        seen |= chars
    return True


def _union(sets: Sequence[Follow]) -> Follow:
    known = [chars for chars in sets if chars is not None]
    return frozenset().union(*known) if len(known) == len(sets) else None


def _plain_chars(op: str, value: Any) -> Chars:
    if op == "ANY":
        return ALL
    if op == "LITERAL":
        return frozenset((min(value, OTHER),))
    if op == "NOT_LITERAL":
        return ALL if value >= OTHER else ALL - {value}
    chars: Chars = frozenset()
    for kind, each in value:
        chars |= _chars_of_set(str(kind), each)
    return (ALL - chars) | {OTHER} if str(value[0][0]) == "NEGATE" else chars


def _chars_of_set(kind: str, value: Any) -> Chars:
    if kind == "LITERAL":
        return frozenset((min(value, OTHER),))
    if kind == "RANGE":
        low, high = value
        return frozenset(range(min(low, OTHER), min(high, OTHER) + 1))
    if kind == "CATEGORY":
        category = re.compile(CATEGORIES[str(value)])
        return frozenset(n for n in range(OTHER) if category.match(chr(n))) | {OTHER}
    return frozenset()
