"""What a command of `rightslice` is, and the settings that commands share."""

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum
from pathlib import Path
from urllib.parse import urlsplit

from rightslice.advice.policy import COMPUTE_POLICIES, Isolation, Policy
from rightslice.catalogue.located_yaml import DocumentError, read_document
from rightslice.catalogue.price_book import PriceBook, load_price_book

DURATION = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d|w)")
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
LONGEST_WINDOW = timedelta(days=400)


class Exit(IntEnum):
    """What a command ends with."""

    OK = 0
    FAILED = 1
    BAD_USAGE = 2
    SOURCE_UNREADABLE = 3
    LEDGER_UNUSABLE = 4


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its flags, and what it does. Found through the "rightslice.commands" group."""

    name: str
    help: str
    add_flags: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def say(text: str) -> None:
    """Write a line for people to standard error; standard output is for the answer."""
    sys.stderr.write(f"rightslice: {text}\n")


def http_url(text: str) -> str:
    """Read the URL of a server, without credentials in it."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise argparse.ArgumentTypeError(f"want a URL like http://HOST:PORT, got {text!r}")
    if parts.username or parts.password:
        raise argparse.ArgumentTypeError(
            "a URL must not hold credentials; give them in a file, see --prometheus.config.file"
        )
    return text.rstrip("/")


def file_path(text: str) -> Path:
    """Read the name of a file."""
    if not text:
        raise argparse.ArgumentTypeError("want the name of a file, got nothing")
    return Path(text)


def span_of(text: str) -> timedelta | None:
    """Read a number with its unit; None for anything else."""
    match = DURATION.fullmatch(text)
    try:
        return timedelta(**{UNITS[match[2]]: float(match[1])}) if match else None
    except OverflowError:
        return None


def duration(text: str) -> timedelta:
    """Read "28d", "12h" and the like; the unit must be written."""
    span = span_of(text)
    if span is None:
        raise argparse.ArgumentTypeError(f"want a number with its unit, like 28d or 12h: {text!r}")
    if not timedelta(hours=1) <= span <= LONGEST_WINDOW:
        raise argparse.ArgumentTypeError(f"want between 1h and {LONGEST_WINDOW.days}d: {text!r}")
    return span


def interval_seconds(text: str) -> float:
    """Read a scrape interval, between one second and five minutes."""
    span = span_of(text)
    seconds = span.total_seconds() if span else 0.0
    if not 1 <= seconds <= 300:
        raise argparse.ArgumentTypeError(f"want between 1s and 5m, with the unit: {text!r}")
    return seconds


def add_common_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that every command knows."""
    parser.add_argument(
        "--config",
        type=file_path,
        metavar="FILE",
        help="YAML file with any of these flags, without the two dashes: `window: 14d`",
    )
    parser.add_argument(
        "--prices",
        type=file_path,
        metavar="FILE",
        help="your price book (default: the example book)",
    )
    parser.add_argument(
        "--channel", metavar="NAME", help="channel of the price book that your cards come from"
    )
    parser.add_argument(
        "--ledger", type=file_path, metavar="FILE", help="ledger file (default: kept in memory)"
    )
    parser.add_argument(
        "--window",
        type=duration,
        default="28d",
        metavar="DURATION",
        help="how far back to look (default %(default)s)",
    )
    parser.add_argument(
        "--policy",
        choices=tuple(COMPUTE_POLICIES),
        default="balanced",
        help="how much compute to leave free (default %(default)s)",
    )
    parser.add_argument(
        "--isolation",
        choices=tuple(str(level) for level in Isolation),
        default=str(Isolation.VM),
        help="least isolation of a slice from its neighbours (default %(default)s)",
    )


def policy_of(given: argparse.Namespace) -> Policy:
    """Make the policy that the flags ask for."""
    return Policy(
        compute=COMPUTE_POLICIES[given.policy], required_isolation=Isolation(given.isolation)
    )


def price_book_of(given: argparse.Namespace) -> PriceBook:
    """Load the price book that the flags name. Raises DocumentError."""
    book = load_price_book(given.prices)
    if given.channel and given.channel not in {offer.channel for offer in book.cards}:
        known = ", ".join(sorted({offer.channel for offer in book.cards}))
        raise DocumentError(f"{book.source}: no channel {given.channel!r}; it has {known}")
    return book


def with_surroundings(
    parser: argparse.ArgumentParser, arguments: Sequence[str], environment: Mapping[str, str]
) -> list[str]:
    """Put the config file's and the environment's settings before the flags, which win.

    Raises DocumentError for a config file that cannot be used.
    """
    told = _config_file(parser, arguments, environment)
    before = []
    for action in parser._actions:  # argparse has no public list of its flags
        flag = next((o for o in action.option_strings if o.startswith("--")), "")
        if not flag or flag in ("--help", "--config") or _is_given(flag, arguments):
            continue
        key = re.sub(r"[.-]", "_", flag.removeprefix("--"))
        # An empty variable is an unset one.
        value = environment.get(f"RIGHTSLICE_{key.upper()}") or told.get(key)
        if value is None:
            continue
        if isinstance(action, argparse._StoreTrueAction):
            before += [flag] if _is_yes(flag, value) else []
        elif isinstance(action, argparse._AppendAction):
            before += [f"{flag}={part.strip()}" for part in str(value).split(",")]
        else:
            before.append(f"{flag}={value}")
    return before + list(arguments)


def _is_yes(flag: str, value: str) -> bool:
    """Read a switch. Raises DocumentError for a word that is neither yes nor no."""
    word = value.lower()
    if word in ("1", "true", "yes", "on"):
        return True
    if word in ("0", "false", "no", "off"):
        return False
    raise DocumentError(f"the setting of {flag} must be true or false, got {value!r}")


def _is_given(flag: str, arguments: Sequence[str]) -> bool:
    return any(argument == flag or argument.startswith(f"{flag}=") for argument in arguments)


def _config_file(
    parser: argparse.ArgumentParser, arguments: Sequence[str], environment: Mapping[str, str]
) -> dict[str, str]:
    probe = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    probe.add_argument("--config", default=environment.get("RIGHTSLICE_CONFIG"))
    file = probe.parse_known_args(list(arguments))[0].config
    if not file:
        return {}
    top = read_document(Path(file))
    known = {
        re.sub(r"[.-]", "_", option.removeprefix("--"))
        for action in parser._actions
        for option in action.option_strings
        if option.startswith("--")
    }
    told = {}
    for key in top.keys():  # noqa: SIM118  # a section is no mapping
        name = re.sub(r"[.-]", "_", key)
        if name not in known:
            raise top.error(key, f"is no setting of {parser.prog}; see --help")
        if top.has(key):
            told[name] = ",".join(top.texts(key))
    return told


__all__ = ["Command", "DocumentError", "Exit"]
