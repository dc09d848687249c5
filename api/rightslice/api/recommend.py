"""The command `recommend`: one answer for a fleet, from Prometheus, a ledger or a running API."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import httpx2
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from rightslice.advice.recommend import Answer
from rightslice.api.command import (
    Command,
    Exit,
    add_common_flags,
    policy_of,
    price_book_of,
    say,
)
from rightslice.api.fleet import Fleet, silent_since
from rightslice.api.now import add_now_flag, answers_now
from rightslice.api.output import FORMATS, print_answers
from rightslice.api.prometheus_flags import add_prometheus_flags, client_of, sources_of
from rightslice.api.workload_flags import add_workload_flags, workload_settings_of
from rightslice.catalogue.located_yaml import DocumentError
from rightslice.feeders.prometheus.answer import SourceError
from rightslice.feeders.prometheus.client import PrometheusClient
from rightslice.feeders.prometheus.loop import SETTLED, whole_hours_until
from rightslice.feeders.prometheus.pull import PullResult, pull
from rightslice.feeders.prometheus.sources import Sources
from rightslice.ledger.ledger import Ledger, LedgerHeldError
from rightslice.report.document import answer_document, summary_document

API_TIMEOUT_SECONDS = 60.0


def add_flags(parser: argparse.ArgumentParser) -> None:
    add_prometheus_flags(parser)
    add_workload_flags(parser)
    add_now_flag(parser)
    parser.add_argument("--api", metavar="URL", help="ask a running `rightslice serve`")
    parser.add_argument(
        "-o",
        "--output",
        choices=FORMATS,
        default="table",
        help="form of the answer (default %(default)s)",
    )


def run(given: argparse.Namespace) -> int:
    """Answer, and return the exit code; no advice with its reason is an answer too."""
    if given.now:
        return _print(answers_now(given), given.output)
    if given.api:
        _refuse_own_terms(given)
        return _ask_api(given.api, given.output)
    if not given.prometheus and not given.ledger:
        say("nothing to read; give --prometheus URL, --ledger FILE or --api URL")
        return Exit.BAD_USAGE
    book, policy = price_book_of(given), policy_of(given)
    client, sources = client_of(given), sources_of(given)
    try:
        # Nothing is written where nothing is read in.
        ledger = Ledger.open(given.ledger) if client else Ledger.open_to_read(given.ledger)
    except LedgerHeldError as error:
        if client is None and error.holder is not None and error.holder.api_url:
            _refuse_own_terms(given)
            return _ask_api(error.holder.api_url, given.output)
        raise
    try:
        end = datetime.now(UTC)
        if client is not None:
            end = whole_hours_until(end)
            _tell(_pull(client, ledger, end, sources, given), client, given)
        else:
            end = _end_of(ledger, end)
        fleet = Fleet(ledger, book, policy, given.window, lambda: end, given.channel)
        answers = fleet.answers()
    finally:
        ledger.close()
        if client is not None:
            client.close()
    return _print(answers, given.output)


def _print(answers: Sequence[Answer], output_format: str) -> int:
    documents = [asdict(answer_document(answer)) for answer in answers]
    print_answers(documents, asdict(summary_document(answers)), output_format)
    return Exit.OK


def _end_of(ledger: Ledger, now: datetime) -> datetime:
    """Give the moment to answer for: now, or the end of a ledger that nobody fills any more."""
    end = silent_since(ledger, now)
    if end is None:
        return now
    say(f"the ledger ends {end:%Y-%m-%d %H:%M} UTC; the answer is as of then")
    return end


def _pull(
    client: PrometheusClient,
    ledger: Ledger,
    end: datetime,
    sources: Sources,
    given: argparse.Namespace,
) -> PullResult:
    columns = (TextColumn("reading"), BarColumn(), MofNCompleteColumn(), TextColumn("days"))
    console = Console(stderr=True)
    with Progress(
        *columns,
        TimeRemainingColumn(),
        console=console,
        disable=not sys.stderr.isatty(),
        transient=True,
    ) as progress:
        task = progress.add_task("days", total=None)
        return pull(
            client,
            ledger,
            end - given.window,
            end,
            sources,
            lambda done, total: progress.update(task, completed=done, total=total),
            given.prometheus_late,
            workload_settings_of(given),
        )


def _tell(result: PullResult, client: PrometheusClient, given: argparse.Namespace) -> None:
    if result.day_count and not result.card_count:
        if result.series_count:
            say(
                f"{client.url} holds GPU metrics, but no whole hour of them that has been "
                f"over for {SETTLED.total_seconds() / 60:.0f} minutes; ask again in an hour"
            )
        else:
            say(
                f"{client.url} holds no GPU metrics (source {given.source}) in the window; "
                "is an exporter scraped, and the window right?"
            )
    if result.card_count:
        traffic = client.traffic
        say(
            f"read {traffic.answer_bytes / 1e6:.1f} MB in {traffic.request_count} requests, which "
            f"kept {client.url} busy for {traffic.busy_seconds:.1f} s"
        )
    if result.missing_hour_count:
        say(
            f"{result.missing_hour_count} hours could not be read and are unknown; the next pull "
            f"into the same --ledger asks for them again. The last reason: {result.reason}"
        )
    if result.rejected_count:
        say(f"{result.rejected_count} readings were no values (blanks, out of range) and skipped")


def _refuse_own_terms(given: argparse.Namespace) -> None:
    """Refuse flags that a running service has decided already. Raises DocumentError."""
    own = argparse.ArgumentParser(add_help=False)
    add_common_flags(own)
    add_prometheus_flags(own)
    defaults = own.parse_args([])
    for name in (
        *("prices", "channel", "window", "policy", "isolation"),
        *("prometheus", "prometheus_late", "source", "mapping", "teams_file", "engines_file"),
    ):
        if getattr(given, name) != getattr(defaults, name, None):
            raise DocumentError(
                f"--{name.replace('_', '.')} is the running service's to decide; leave it out, "
                "or end the service and read its ledger"
            )


def _ask_api(url: str, output_format: str) -> int:
    """Print what a running service answers."""
    try:
        answer = httpx2.get(
            f"{url.rstrip('/')}/v1/recommendations",
            params={"limit": 10_000},
            timeout=API_TIMEOUT_SECONDS,
            trust_env=False,
        )
        answer.raise_for_status()
        body: dict[str, Any] = answer.json()
        documents, summary = body["recommendations"], body["summary"]
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, KeyError, TypeError) as error:
        raise SourceError(f"no rightslice API answers at {url}: {error}; check --api") from error
    print_answers(documents, summary, output_format)
    return Exit.OK


COMMAND = Command(
    "recommend", "Say for each card which slice or cheaper card would do.", add_flags, run
)
