"""The command `serve`: fills the ledger in the background, serves API and page."""

import argparse
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import httpx2
import uvicorn

from rightslice.api.app import create_app
from rightslice.api.command import (
    Command,
    Exit,
    http_url,
    interval_seconds,
    policy_of,
    price_book_of,
    say,
)
from rightslice.api.fleet import Fleet
from rightslice.api.prometheus_flags import add_prometheus_flags, client_of
from rightslice.api.recommend import SETTLED
from rightslice.feeders import scraper
from rightslice.feeders.prometheus import Source, pull
from rightslice.feeders.prometheus_answer import SourceError
from rightslice.feeders.prometheus_client import PrometheusClient
from rightslice.ledger.ledger import Ledger, LedgerError

log = logging.getLogger(__name__)

DEFAULT_LISTEN = "127.0.0.1:19401"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
# A finished hour is there a few minutes after its end; a failed pull is tried again by then.
PULL_SECONDS = 600.0
FETCH_SECONDS = 10.0
# A page larger than this is no exporter's.
LARGEST_PAGE_BYTES = 64 * 1024 * 1024


def listen_address(text: str) -> tuple[str, int]:
    """Read HOST:PORT on loopback."""
    host, colon, port = text.rpartition(":")
    host = host.strip("[]")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"want HOST:PORT, got {text!r}")
    if host not in LOOPBACK:
        raise argparse.ArgumentTypeError(
            f"{host!r} is not loopback, and the service has no users to tell apart yet; put a "
            "proxy that does in front of 127.0.0.1"
        )
    return host, int(port)


def page_url(text: str) -> str:
    """Read the URL of a page."""
    url = http_url(text)
    if not urlsplit(url).path:
        raise argparse.ArgumentTypeError(f"want the page as well, like {url}/metrics")
    return url


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--target",
        dest="target",
        type=page_url,
        action="append",
        default=[],
        metavar="URL",
        help="page of an exporter to scrape, ours or dcgm-exporter's; may be given often",
    )
    parser.add_argument(
        "--scrape-interval",
        dest="scrape_interval",
        type=interval_seconds,
        default="15s",
        metavar="DURATION",
        help="time between two scrapes of a target (default %(default)s)",
    )
    add_prometheus_flags(parser)
    parser.add_argument(
        "--listen",
        type=listen_address,
        default=DEFAULT_LISTEN,
        metavar="HOST:PORT",
        help="loopback address to serve on (default %(default)s)",
    )


def fetch(url: str) -> str:
    """Get an exporter's page. Raises SourceError."""
    try:
        deadline_seconds = time.monotonic() + FETCH_SECONDS
        with httpx2.stream("GET", url, timeout=FETCH_SECONDS, trust_env=False) as answer:
            answer.raise_for_status()
            body = bytearray()
            for chunk in answer.iter_bytes():
                body += chunk
                if time.monotonic() > deadline_seconds:
                    raise SourceError(f"target {url} did not answer within {FETCH_SECONDS:.0f} s")
                if len(body) > LARGEST_PAGE_BYTES:
                    raise SourceError(f"target {url}: its page is too large for an exporter's")
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        raise SourceError(f"target {url} cannot be scraped: {error}") from error
    return body.decode("utf-8", "replace")


def bind(host: str, port: int) -> socket.socket:
    """Take the address before anything else is done. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen()  # from here on a client waits rather than being refused
    except OSError:
        listener.close()
        raise
    return listener


def run(given: argparse.Namespace) -> int:
    """Serve until a signal comes."""
    logging.basicConfig(level="INFO", format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx2").setLevel("WARNING")
    if not given.target and not given.prometheus and not given.ledger:
        say("nothing to fill the ledger from; give --target URL, --prometheus URL or --ledger FILE")
        return Exit.BAD_USAGE
    book, policy = price_book_of(given), policy_of(given)
    client = client_of(given)
    ledger = Ledger.open(given.ledger)
    if given.ledger is None:
        say("the ledger is kept in memory and gone with this process; keep it with --ledger FILE")
    jobs: list[Callable[[threading.Event], None]] = []
    if given.target:
        feeder = scraper.Scraper(ledger, given.scrape_interval)
        jobs.append(
            lambda stop: scraper.run(
                feeder, given.target, fetch, time.time, given.scrape_interval, stop
            )
        )
    if client is not None:
        source = Source(given.source)
        jobs.append(lambda stop: _pull_for_ever(client, ledger, given.window, source, stop))
    fleet = Fleet(ledger, book, policy, given.window, channel=given.channel)
    return serve(fleet, given.listen, jobs)


def serve(
    fleet: Fleet,
    address: tuple[str, int],
    jobs: list[Callable[[threading.Event], None]],
    told: Callable[[str], None] = say,
) -> int:
    """Serve API and page with jobs in the background, until a signal; closes the ledger."""
    stop = threading.Event()
    try:
        listener = bind(*address)
    except OSError as error:
        say(f"cannot listen on {address[0]}:{address[1]}: {error.strerror}; choose --listen")
        fleet.ledger.close()
        return Exit.FAILED
    host, port = listener.getsockname()[:2]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    threads = [threading.Thread(target=job, args=(stop,), daemon=True) for job in jobs]
    # uvicorn ends on these by itself and then raises them again for whoever was there before:
    # that must not end the process before the ledger is written and closed.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        fleet.ledger.announce(url)
        for thread in threads:
            thread.start()
        told(f"serving {url}/ (API documentation at {url}/docs); Ctrl-C ends it")
        config = uvicorn.Config(create_app(fleet), log_level="warning", access_log=False)
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        stop.set()
        for thread in threads:
            thread.join(timeout=15.0)
        fleet.ledger.close()
        listener.close()
    return Exit.OK


def _pull_for_ever(
    client: PrometheusClient,
    ledger: Ledger,
    window: timedelta,
    source: Source,
    stop: threading.Event,
) -> None:
    while not stop.is_set():
        end = (datetime.now(UTC) - SETTLED).replace(minute=0, second=0, microsecond=0)
        try:
            pull(client, ledger, end - window, end, source)
        except (SourceError, LedgerError) as error:
            log.warning("%s", error)
        except Exception:  # the next round may do better; this thread must not end
            log.exception("reading Prometheus failed")
        stop.wait(PULL_SECONDS)


COMMAND = Command("serve", "Fill the ledger and serve API and page.", add_flags, run)
