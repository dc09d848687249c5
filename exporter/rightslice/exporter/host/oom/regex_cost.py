"""Bounds how long a regex can take: how often it may try one text again, before it is ever run.

A regex that tries again inside what it tries again takes hours on some lines, and Python cannot
stop it, nor run anything else meanwhile. So such a regex is refused when its file is loaded.

A repeat is tried with each count that fits, but only where what follows it can begin with a text
that the repeat takes too: `[0-9]+:` gives no choice, `.*:` gives one for each character. The
product of all choices, times the places at which a line lets the regex begin, bounds the attempts.
A repeat without choice reads its text anew for each choice before it, as the second in `.*\\s+x`.
"""

import re
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, NamedTuple

# The parser of `re` has no public name.
parser: Any = re._parser  # type: ignore[attr-defined]

# One choice for each character at each place of 8 KiB of text: about a second at worst.
MOST_ATTEMPTS = (8 << 10) ** 2
TOO_MANY = MOST_ATTEMPTS + 1
# So many characters that a repeat reads without a choice count as one attempt.
READ_CHARS_PER_ATTEMPT = 4
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
ONE_CHAR = frozenset(("LITERAL", "NOT_LITERAL", "ANY", "IN"))
REPEATS = frozenset(("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"))

Chars = frozenset[int]
# None where a regex may end: no text can make it fail there.
Follow = Chars | None
Items = Sequence[tuple[Any, Any]]


def attempts_at_most(regex: str, text_chars: int) -> int:
    """Bound how often a regex tries a text of that many characters; TOO_MANY is no exact number.

    Raises re.error, RecursionError or OverflowError where it is no regex.
    """
    parsed = parser.parse(regex)
    costs = _Costs(text_chars, IGNORES_CASE.search(regex) is not None)
    at = next((n for n, (op, _) in enumerate(parsed) if str(op) == "LITERAL"), len(parsed))
    lead, rest = parsed[:at], list(parsed[at:])
    low, high = lead.getwidth()
    work = _starts(lead, rest, high - low, text_chars) * costs.cost(parsed, None, None, 0).work
    if at:  # what leads to the first fixed text is tried at each place
        cost = costs.cost(lead, None, costs.first(rest, None), 0)
        work = max(work, _starts(lead, [], 0, text_chars) * cost.work)
    return min(TOO_MANY, work)


def _starts(lead: Items, rest: Items, slack_chars: int, text_chars: int) -> int:
    """Give from how many places of a text the regex gets beyond its first fixed text.

    What leads to that text can differ in length by so many characters.
    """
    if lead and str(lead[0][0]) == "AT" and str(lead[0][1]).startswith("AT_BEGINNING"):
        return 1  # a line has one beginning
    fixed = [value for _, value in takewhile(lambda item: str(item[0]) == "LITERAL", rest)]
    return min(text_chars + 1, (text_chars // _period(fixed) + 1) * (slack_chars + 1))


def _period(text: list[int]) -> int:
    """Give how far apart two places of a text must be at least; "aa" can stand at each place."""
    shifts = (shift for shift in range(1, len(text)) if text[shift:] == text[:-shift])
    return next(shifts, max(1, len(text)))


class Cost(NamedTuple):
    """What one visit of a part costs: how many choices it leaves open, and the attempts in it."""

    ways: int
    work: int


NO_CHOICE = Cost(1, 1)
NO_BOUND = Cost(TOO_MANY, TOO_MANY)


class _Costs:
    """Counts the choices of the parts of one regex."""

    def __init__(self, text_chars: int, ignores_case: bool) -> None:
        self._text_chars = text_chars
        self._ignores_case = ignores_case

    def cost(self, items: Items, before: Follow, follow: Follow, depth: int) -> Cost:
        """Multiply the choices of all items.

        `before` is what the character in front of them can be, None where that is not known, and
        `follow` what can come behind the last.
        """
        if depth > MOST_DEPTH:
            return NO_BOUND
        follows = [follow]
        for op, value in reversed(list(items)):
            follows.append(self._before(str(op), value, follows[-1]))
        ways, work = NO_CHOICE
        for (op, value), behind in zip(items, reversed(follows[:-1]), strict=True):
            each = self._item(str(op), value, before, behind, depth + 1)
            work = max(work, ways * each.work, ways * each.ways)
            ways *= each.ways
            if work > MOST_ATTEMPTS:
                return NO_BOUND
            before = self._chars(str(op), value) if str(op) in ONE_CHAR else None
        return Cost(ways, work)

    def _item(self, op: str, value: Any, before: Follow, follow: Follow, depth: int) -> Cost:
        if op in REPEATS:
            return self._repeat(value, before, follow, depth)
        if op == "SUBPATTERN":
            return self.cost(value[3], before, follow, depth)
        if op == "BRANCH":
            return self._branch(value[1], before, follow, depth)
        if op == "ATOMIC_GROUP":
            return self.cost(value, before, follow, depth)
        if op in ("ASSERT", "ASSERT_NOT"):
            return self.cost(value[1], None, ALL, depth)
        # What names a group, as a reference does, is rare in a pattern and hard to bound.
        return NO_BOUND if op in ("GROUPREF", "GROUPREF_EXISTS") else NO_CHOICE

    def _branch(
        self, branches: Sequence[Items], before: Follow, follow: Follow, depth: int
    ) -> Cost:
        costs = [self.cost(branch, before, follow, depth) for branch in branches]
        are_apart = _are_apart([self.first(list(branch), follow) for branch in branches])
        ways = [cost.ways for cost in costs]
        return Cost(max(ways) if are_apart else sum(ways), sum(cost.work for cost in costs))

    def _repeat(self, value: Any, before: Follow, follow: Follow, depth: int) -> Cost:
        least, most, body = value
        most = min(int(most), self._text_chars)
        begin = self.first(list(body), None)
        inner = self.cost(body, None, _behind_a_round(least, most, begin, follow), depth)
        if follow is None or (begin is not None and not begin & follow):
            counts = 1
        else:
            counts = most - least + 1
        if most <= 1:
            return Cost(counts * inner.ways, inner.work)
        if inner.ways == 1:
            return Cost(counts, max(counts, self._reading(body, most, inner.work, before, begin)))
        # Each round has its own choices.
        if inner.ways.bit_length() * most > 64:
            return NO_BOUND
        ways = counts * int(inner.ways**most)
        return Cost(ways, max(ways, ways // inner.ways * inner.work))

    def _reading(self, body: Items, most: int, work: int, before: Follow, begin: Follow) -> int:
        """Give the attempts that reading the text of a repeat once is worth.

        Where no text of it can begin inside another one, all of them together are read once.
        """
        if len(body) != 1 or str(body[0][0]) not in ONE_CHAR:
            return min(most * work, self._text_chars)
        if before is not None and begin is not None and not before & begin:
            return 1
        return most // READ_CHARS_PER_ATTEMPT + 1

    def first(self, items: Items, follow: Follow) -> Follow:
        """Give the characters with which a text of these items, and what follows, can begin."""
        for op, value in reversed(list(items)):
            follow = self._before(str(op), value, follow)
        return follow

    def _before(self, op: str, value: Any, follow: Follow) -> Follow:
        """Give what can begin a text of one item and what follows it."""
        if op in ONE_CHAR:
            return self._chars(op, value)
        if op == "SUBPATTERN":
            return self.first(list(value[3]), follow)
        if op == "ATOMIC_GROUP":
            return self.first(list(value), follow)
        if op == "BRANCH":
            sets = [self.first(list(branch), follow) for branch in value[1]]
            return _union(sets)
        if op in REPEATS:
            begin = self.first(list(value[2]), follow)
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
