"""Where an error stands in a line: at its head, behind other text of the program, or quoted.

People send errors to language models, and servers log what they are sent. So an error counts fully
only where a program would put it.
"""

import math
import re
from bisect import bisect_right
from enum import Enum, auto
from functools import cached_property

MOST_PREFIXES = 16
LEAD_CHARS = 400
# A bare `prompt: ` is looked for this far into a line.
BARE_CHARS = 2048

LEVEL = r"(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL|SEVERE|[EWFC])"
TIME = r"[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?(?: ?Z|[+-][0-9]{2}:?[0-9]{2})?"
NAME = r"[\w.@/-]{1,64}"
# What loggers, launchers and runtimes write before a message, in any order.
PREFIX = re.compile(
    "|".join(
        (
            r"[\s|│]+",
            rf"{NAME}\s{{1,8}}\|\s",  # docker compose
            r"[0-9]{1,3}%\|[^|\n]{0,200}\|[^\]\n]{0,160}\]",  # a progress bar without line end
            rf"(?:[0-9]{{4}}[-/])?[0-9]{{2}}[-/][0-9]{{2}}[T ]{TIME}[,:]?",
            rf"{TIME}\b[,:]?",
            rf"[A-Z][a-z]{{2}} [ 0-9][0-9] {TIME} {NAME} {NAME}\[[0-9]{{1,10}}\]:",  # syslog
            r"[EWF][0-9]{4} [0-9:.]{8,30}\s+[0-9]{1,10} [\w.:/-]{1,120}\]",  # glog
            r"[0-9]+(?:\.[0-9]{2,3}){3} [EWF] ",  # llama-server
            rf"{NAME}:[0-9]{{1,10}}:[0-9]{{1,10}} ",  # NCCL
            r"\[[^\[\]\n]{1,100}\]:?",
            r"\([^()\n]{0,80}\b(?:pid|rank|ip)=[^()\n]{0,80}\)",  # vLLM, Ray
            rf"{LEVEL}\b(?::{NAME}:)?[:\]]?",
            r"[\w.:/\\+-]{1,120}\.(?:py|cc|cpp|cu|h|hpp|go|rs):[0-9]{1,6}\]?:?",
            rf"(?:{NAME} )?- ",  # "name - LEVEL - message"
            r"E   ",  # pytest
            r'(?:msg|message|err|error|exc_info|exception|detail)="?',  # logfmt, a message
            r'"(?:msg|message|err|error|exc_info|exception|detail|log)" ?: ?"',  # JSON cut short
            r'[A-Za-z_][\w.]{0,40}=(?:"[^"\n]{0,200}"|[^\s"]{1,200})\s',  # logfmt, other fields
            r"what\(\): ",
            rf"{NAME}: ",
        )
    )
)
ERROR = re.compile(
    r"(?i)error|exception|fail|fatal|abort|crash|terminat|unable|panic|unavailable|non-zero status"
)
CHAT = re.compile(
    r"(?<![\w/.\\-])(?:(?i:my|me|we|our|you|your|please|why|how|help|users?|customers?|tickets?"
    r"|asked|asks|says|said|wrote|posted|example|e\.g\.|tip|hint|advice|faq|known issues?"
    r"|workarounds?|[efz]?grep|if)|I)(?![\w/\\-])"
    r"|(?<=\bto )[#@][A-Za-z]"  # a channel, or somebody
)
# How lines begin that only show an error: a mail that is quoted, a diff, a command that somebody
# typed or a shell traces, a line that grep found in a file.
ECHO = re.compile(
    rf"\s*(?:{NAME}\s{{1,8}}\|\s)?"
    r"(?:>+\s|\$\s|\++(?=[\w\s(\[])|-(?=[A-Za-z_]|\s{3})"
    r"|[\w./-]{1,200}\.(?:log|txt|out|err|md|rst|jsonl?|ya?ml|csv|html?|diff|patch|ipynb)"
    r"(?:\.[0-9]{1,3})?(?::(?:[0-9]{1,9}:)?|-[0-9]{1,9}-)(?=\S))"
)
SOURCE = re.compile(
    r"\s*(?:#|//|\*|(?:raise|assert|throw|print|except|elif|if|return|import|def)\b"
    r"|(?:logger|logging|log|warnings|console)\.)"
)
CONTENT = (
    r"(?:prompts?|content|user|human|assistant|query|question|inputs?|input_text|user_input|text"
    r"|conversation|chat|completion|generated_text|output_text|document|body)"
)
ROLE = r"role[\"']\s?:\s?[\"'](?:user|assistant|human)[\"'],\s?[\"']\w{1,40}"
QUOTED_CONTENT = re.compile(
    rf"(?i)(?<!\w)(?:{CONTENT}|{ROLE})[\"']?\s{{0,3}}[:=]\s{{0,3}}[\[{{(]{{0,3}}[bruf]{{0,2}}"
    r"(?P<quote>[\"'`“])"
)
BARE_CONTENT = re.compile(
    r"(?i)(?<![\w.])(?<!\w[/-])(?<!stderr )(?<!stdout )(?<!command )(?<!process )"
    r"(?:(?:prompt|user|human|question|query|output|text|decoded):\s"
    r"|(?:prompt|question|query|output|text|decoded)=)(?![\"'`“])"
    # Words that programs use too count where no other word is before them.
    r"|(?<![\w.])(?<!\w[/-])(?:(?<![a-z] )|(?<=\binfo )|(?<=\bdebug ))"
    r"(?:assistant|answer|inputs?|title|subject|comment|example|faq|(?-i:[QA])):\s"
    r"|(?<!\w)[\[(<](?:user|human|assistant)[\])>]:?\s"
    # How the templates of models mark whose turn it is.
    r"|<\|\w{1,40}\|>|\[/?INST\]|<start_of_turn>"
)
NEXT_FIELD = re.compile(r"\s[A-Za-z_][\w.]{0,40}=")  # logfmt: the value before it has ended
CLOSING = {
    '"': re.compile(r'(?<!\\)"'),
    "'": re.compile(r"(?<!\\)'(?=[\s,;:)\]}])"),
    "`": re.compile(r"`"),
    "“": re.compile(r"”"),
}
SEPARATORS = tuple(":-]|>).,;=")
EXCEPTION = re.compile(r"""(?:(?<![\w.])[\w.]{1,80}(?:Error|Exception)(?:: |\(["'])){1,3}$""")


class Standing(Enum):
    HEAD = auto()
    PROGRAM = auto()
    QUOTED = auto()
    CONTENT = auto()


def head_end(text: str) -> int:
    """Give the place at which the message itself begins, behind all known prefixes."""
    end = 0
    for _ in range(MOST_PREFIXES):
        prefix = PREFIX.match(text, end)
        if prefix is None or prefix.end() == end:
            break
        end = prefix.end()
    return end


class OpenQuotes:
    """Where a text holds what somebody sent to a model, or got from one, in quotes.

    Found in one pass, and only once asked for, however many lines of the text ask.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def has(self, place: int) -> bool:
        """Say whether a place of the text is inside such quotes."""
        starts, ends = self._spans
        number = bisect_right(starts, place) - 1
        return number >= 0 and place <= ends[number]

    @cached_property
    def _spans(self) -> tuple[list[int], list[int]]:
        starts: list[int] = []
        ends: list[int] = []
        closings = dict.fromkeys(CLOSING, -1)
        for opening in QUOTED_CONTENT.finditer(self._text):
            quote, start = opening["quote"], opening.end()
            if closings[quote] < start:
                closing = CLOSING[quote].search(self._text, start)
                closings[quote] = closing.start() if closing else len(self._text)
            # The end that reaches farthest counts, so ends rise as starts do.
            starts.append(start)
            ends.append(max(closings[quote], ends[-1] if ends else -1))
        return starts, ends


class Line:
    """One line, and how errors stand in it. What all patterns ask of it is found once."""

    def __init__(self, text: str, quotes: OpenQuotes, offset: int) -> None:
        self._text = text
        self._quotes = quotes
        self._offset = offset
        self._known: dict[int, Standing] = {}

    def standing(self, start: int) -> Standing:
        """Say how an error stands that starts at that place of the line."""
        if start not in self._known:
            self._known[start] = self._standing(start)
        return self._known[start]

    @cached_property
    def _head_end(self) -> int:
        return head_end(self._text)

    @cached_property
    def _echo_end(self) -> float:
        echo = ECHO.match(self._text)
        return math.inf if echo is None else echo.end()

    @cached_property
    def _bare(self) -> re.Match[str] | None:
        bare = BARE_CONTENT.search(self._text, 0, BARE_CHARS)
        is_told_of = bare is not None and ERROR.search(self._text, 0, bare.start()) is not None
        return None if is_told_of else bare

    def _standing(self, start: int) -> Standing:
        text, end = self._text, self._head_end
        if self._quotes.has(self._offset + start) or self._is_bare_content(start):
            return Standing.CONTENT
        if self._echo_end <= start:
            return Standing.CONTENT
        if start <= end:
            return Standing.HEAD
        if SOURCE.match(text, end, start):
            return Standing.CONTENT
        near = EXCEPTION.sub("", text[max(end, start - LEAD_CHARS) : start])
        if not near:
            return Standing.HEAD
        if CHAT.search(near):
            return Standing.QUOTED
        if near.rstrip().endswith(SEPARATORS) or ERROR.search(text, 0, end) or ERROR.search(near):
            return Standing.PROGRAM
        return Standing.QUOTED

    def _is_bare_content(self, start: int) -> bool:
        bare = self._bare
        if bare is None or bare.end() > start:
            return False
        if bare[0].endswith("="):
            return NEXT_FIELD.search(self._text, bare.end(), start) is None
        return True
