"""The command `demo`: a week of a simulated node, its advice, then the page, live."""

import argparse
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from rightslice.api.command import Command, Exit, policy_of, price_book_of, say
from rightslice.api.fleet import Fleet
from rightslice.api.output import FORMATS, print_answers
from rightslice.api.serve import DEFAULT_LISTEN, bind, fixed_targets, listen_address, serve
from rightslice.demo import history
from rightslice.exporter.collectors import ENABLED, load
from rightslice.exporter.host.clock import real_clock
from rightslice.exporter.host.host import Host
from rightslice.exporter.host.paths import NOWHERE
from rightslice.exporter.sampler import Identity, Sampler
from rightslice.exporter.simulate import dcgm
from rightslice.exporter.simulate.library import installed
from rightslice.exporter.simulate.scenario import (
    Scenario,
    ScenarioError,
    load_scenario,
    scenario_names,
)
from rightslice.feeders.targets.loop import ScrapeLoop
from rightslice.feeders.targets.page_reader import in_process
from rightslice.feeders.targets.scraper import Scraper
from rightslice.feeders.targets.source import FixedTargets
from rightslice.ledger.ledger import Ledger
from rightslice.report.document import answer_document, summary_document

# With less than a week of history memory needs more headroom, and the hand-warmer's slice would
# be refused for it.
HISTORY = timedelta(days=7, hours=2)
LIVE_SCRAPE_SECONDS = 15.0
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--once", action="store_true", help="print the answer and exit")
    parser.add_argument(
        "--scenario",
        default="fleet",
        metavar="NAME",
        help=f"{', '.join(scenario_names())}, or a YAML file (default %(default)s)",
    )
    parser.add_argument(
        "--listen",
        type=listen_address,
        default=DEFAULT_LISTEN,
        metavar="HOST:PORT",
        help="loopback address to serve on (default %(default)s)",
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=FORMATS,
        default="table",
        help="form of the answer (default %(default)s)",
    )


def run(given: argparse.Namespace) -> int:
    """Play the history, print the answer, and serve it unless told not to."""
    try:
        scenario = load_scenario(given.scenario)
    except ScenarioError as error:
        say(str(error))
        return Exit.BAD_USAGE
    book, policy = price_book_of(given), policy_of(given)
    if not given.once:
        try:
            bind(*given.listen).close()  # better said now than after the play
        except OSError as error:
            say(f"cannot listen on {given.listen[0]}:{given.listen[1]}: {error.strerror}")
            return Exit.FAILED
    ledger = Ledger.open(given.ledger)
    strangers = {usage.node for usage in ledger.card_usage(LONG_AGO, datetime.now(UTC))}
    if strangers - {history.NODE}:
        ledger.close()
        say(f"{given.ledger} holds real cards; the demo would mix its own in, name another")
        return Exit.BAD_USAGE
    feeder = Scraper(ledger, history.SCRAPE_SECONDS)
    _play(scenario, feeder)
    fleet = Fleet(ledger, book, policy, given.window, channel=given.channel)
    answers = fleet.answers()
    documents = [asdict(answer_document(answer)) for answer in answers]
    print_answers(documents, asdict(summary_document(answers)), given.output)
    if given.once:
        ledger.close()
        return Exit.OK
    sys.stdout.flush()
    with ExitStack() as stack:
        sampler, scrape = _live(scenario, feeder, stack)
        return serve(fleet, ledger, given.listen, [sampler.run, scrape.run], scrape=scrape)


def _play(scenario: Scenario, feeder: Scraper) -> None:
    now_seconds = time.time()
    start_seconds = now_seconds - HISTORY.total_seconds()
    if feeder.open_until_seconds is not None:
        # The ledger was filled before: only what has passed since is played.
        start_seconds = max(start_seconds, feeder.open_until_seconds)
    console = Console(stderr=True)
    if not console.is_terminal:
        say(f"playing {HISTORY.days} days of the simulated node {scenario.name!r}")
    with Progress(
        TextColumn(f"{HISTORY.days} days of a simulated node"),
        BarColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        task = progress.add_task("play", total=1.0)
        history.play(
            scenario,
            feeder,
            start_seconds,
            now_seconds,
            lambda done_ratio: progress.update(task, completed=done_ratio),
        )


def _live(scenario: Scenario, feeder: Scraper, stack: ExitStack) -> tuple[Sampler, ScrapeLoop]:
    """Go on in real time: the exporter's own loop, scraped as its page would be."""
    clock = real_clock()
    stack.enter_context(installed(scenario, clock.wall_seconds))
    sampler = Sampler(
        Host(history.NODE, NOWHERE, clock),
        {name: load(name) for name in ENABLED},
        clock,
        Identity("demo", ""),
    )

    def page(target: str) -> str:
        if target == history.DCGM_TARGET:
            return dcgm.page(scenario, history.NODE, clock.wall_seconds())
        text = sampler.page()[0].decode()
        sampler.scraped()
        return text

    targets = fixed_targets((history.OUR_TARGET, history.DCGM_TARGET), LIVE_SCRAPE_SECONDS)
    return sampler, ScrapeLoop(feeder, FixedTargets(targets), in_process(page))


COMMAND = Command(
    "demo", "Show the whole way on a simulated node: no GPU, no Prometheus.", add_flags, run
)
