"""Where an error stands in a line: at its head, behind other text of the program, or quoted.

People send errors to language models, and servers log what they are sent. So an error counts fully
only where a program would put it.
"""

import re
from enum import Enum, auto

MOST_PREFIXES = 16
LEAD_CHARS = 400

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
    r"|asked|asks|says|said|wrote|example|e\.g\.|tip|hint|advice|faq|if)|I)(?![\w/\\-])"
)
SOURCE = re.compile(
    r"\s*(?:#|//|\*|(?:raise|assert|throw|print|except|elif|if|return|import|def)\b"
    r"|(?:logger|logging|log|warnings|console)\.)"
)
CONTENT = (
    r"(?:prompts?|content|user|human|assistant|query|question|inputs?|input_text|user_input|text"
    r"|conversation|chat|completion|generated_text|output_text|document|body)"
)
QUOTED_CONTENT = re.compile(
    rf"(?i)(?<!\w){CONTENT}[\"']?\s{{0,3}}[:=]\s{{0,3}}[\[{{(]{{0,3}}[bruf]{{0,2}}(?P<quote>[\"'`“])"
)
BARE_CONTENT = re.compile(r"(?i)(?<![\w.])(?:prompt|user|human|question|query):\s(?![\"'`“])")
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


def standing_of(text: str, start: int, before: str = "") -> Standing:
    """Say how an error that starts at `start` stands in `text`.

    `before` are the lines of the same message that come before `text`.
    """
    if _is_content(before + text[:start], text[:start]):
        return Standing.CONTENT
    end = head_end(text)
    if start <= end:
        return Standing.HEAD
    lead = text[end:start]
    if SOURCE.match(lead):
        return Standing.CONTENT
    near = EXCEPTION.sub("", text[max(end, start - LEAD_CHARS) : start])
    if not near:
        return Standing.HEAD
    if CHAT.search(near):
        return Standing.QUOTED
    if near.rstrip().endswith(SEPARATORS) or ERROR.search(text[:end]) or ERROR.search(near):
        return Standing.PROGRAM
    return Standing.QUOTED


def _is_content(before: str, line: str) -> bool:
    """Say whether what follows is what somebody sent to a model, or got from one."""
    for opening in QUOTED_CONTENT.finditer(before):
        if CLOSING[opening["quote"]].search(before, opening.end()) is None:
            return True
    bare = BARE_CONTENT.search(line)
    return bare is not None and ERROR.search(line, 0, bare.start()) is None
