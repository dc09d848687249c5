"""Answers from a Prometheus up to this second: `recommend --now`."""

import argparse
from datetime import UTC, datetime

from rightslice.advice.recommend import Answer
from rightslice.api.command import policy_of, price_book_of, say
from rightslice.api.fleet import Fleet
from rightslice.api.prometheus_flags import client_of, sources_of
from rightslice.catalogue.located_yaml import DocumentError
from rightslice.history.promql import HOUR, LONGEST_WINDOW, PromqlHistory

MOST = f"{LONGEST_WINDOW / HOUR:.0f}h"


def add_now_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--now",
        action="store_true",
        help="answer from the hours up to this moment, the present one too, and keep nothing; "
        f"with --prometheus, and a --window of at most {MOST}",
    )


def answers_now(given: argparse.Namespace) -> list[Answer]:
    """Answer from what Prometheus holds by now.

    Raises DocumentError for flags that do not go with --now, SourceError.
    """
    _refuse_others(given)
    book, policy, sources = price_book_of(given), policy_of(given), sources_of(given)
    client = client_of(given)
    assert client is not None
    now = datetime.now(UTC)
    try:
        history = PromqlHistory(client, sources, lambda: now)
        answers = Fleet(history, book, policy, given.window, lambda: now, given.channel).answers()
    finally:
        client.close()
    if not answers:
        say(
            f"{client.url} tells of no card by now (source {given.source}); is an exporter "
            "scraped, and the window right?"
        )
    return answers


def _refuse_others(given: argparse.Namespace) -> None:
    if not given.prometheus or given.api:
        raise DocumentError("--now asks a Prometheus; give --prometheus URL, and no --api")
    if given.ledger:
        raise DocumentError("--now keeps nothing; leave out either --ledger or --now")
    if given.window > LONGEST_WINDOW:
        raise DocumentError(
            f"--now looks back {MOST} at most; give --window {MOST} or less, or leave out --now"
        )
