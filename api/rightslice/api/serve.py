"""The command `serve`: fills the ledger in the background, serves API and page."""

import argparse
import logging
import resource
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import uvicorn

from rightslice.api.app import create_app
from rightslice.api.command import (
    Command,
    Exit,
    file_path,
    http_url,
    interval_seconds,
    policy_of,
    price_book_of,
    say,
)
from rightslice.api.fleet import Fleet
from rightslice.api.ledger_files import add_folder_flag
from rightslice.api.maintenance import add_retention_flag, maintenance
from rightslice.api.prometheus_flags import add_prometheus_flags, client_of, sources_of
from rightslice.api.workload_flags import add_workload_flags, workload_settings_of
from rightslice.feeders.prometheus.loop import pull_for_ever
from rightslice.feeders.prometheus.sources import choose_sources
from rightslice.feeders.targets.loop import ScrapeLoop
from rightslice.feeders.targets.scraper import Scraper
from rightslice.feeders.targets.source import FixedTargets, Targets, TargetSource
from rightslice.feeders.targets.target import FLAG_GROUP, TIMEOUT_SECONDS, ScrapeTarget
from rightslice.ledger.ledger import Ledger
from rightslice.ledger.prices import note_prices

log = logging.getLogger(__name__)

DEFAULT_LISTEN = "127.0.0.1:19401"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
# A Prometheus serves others too: reading it in the background takes this much of its time at most.
BACKGROUND_SHARE = 0.5


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
        "--targets.file",
        dest="targets_file",
        type=file_path,
        metavar="FILE",
        help="YAML file with Prometheus' scrape_configs: which exporters to scrape, and how; read "
        "again when it changes and on SIGHUP",
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
    add_workload_flags(parser)
    add_retention_flag(parser)
    add_folder_flag(parser)
    parser.add_argument(
        "--listen",
        type=listen_address,
        default=DEFAULT_LISTEN,
        metavar="HOST:PORT",
        help="loopback address to serve on (default %(default)s)",
    )


def targets_of(given: argparse.Namespace) -> Targets | None:
    """Give what the flags ask to scrape; None for nothing. Raises DocumentError."""
    flag_targets = fixed_targets(given.target, given.scrape_interval)
    if given.targets_file is not None:
        return TargetSource(given.targets_file, flag_targets, given.scrape_interval)
    return FixedTargets(flag_targets) if flag_targets else None


def fixed_targets(urls: Sequence[str], interval_seconds: float) -> list[ScrapeTarget]:
    """Give targets that no file tells of."""
    timeout_seconds = min(TIMEOUT_SECONDS, interval_seconds)
    return [ScrapeTarget(FLAG_GROUP, url, interval_seconds, timeout_seconds) for url in urls]


def allow_many_connections() -> None:
    """Use what the system allows: each target keeps a connection, and the usual limit is low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


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
    if not (given.target or given.targets_file or given.prometheus or given.ledger):
        say(
            "nothing to fill the ledger from; give --target URL, --targets.file FILE, "
            "--prometheus URL or --ledger FILE"
        )
        return Exit.BAD_USAGE
    book, policy = price_book_of(given), policy_of(given)
    client, sources = client_of(given, share=BACKGROUND_SHARE), sources_of(given)
    targets, workloads = targets_of(given), workload_settings_of(given)
    ledger = Ledger.open(given.ledger)
    if given.ledger is None:
        say("the ledger is kept in memory and gone with this process; keep it with --ledger FILE")
    note_prices(ledger, book, datetime.now(UTC))
    jobs = [maintenance(ledger, given.ledger_retention)]
    scrape = None
    if targets is not None:
        allow_many_connections()
        # --source is about what a Prometheus holds; a page is taken for what it is.
        mappings = choose_sources(mapping_file=given.mapping).mappings
        scraper = Scraper(ledger, given.scrape_interval, mappings, workloads.companions())
        scrape = ScrapeLoop(scraper, targets)
        jobs.append(scrape.run)
        if given.targets_file is not None:  # else the signal ends the process, as it always does
            signal.signal(signal.SIGHUP, lambda *_: scrape.reload())
    if client is not None:
        jobs.append(
            lambda stop: pull_for_ever(
                client, ledger, given.window, sources, given.prometheus_late, workloads, stop
            )
        )
    fleet = Fleet(ledger, book, policy, given.window, channel=given.channel)
    return serve(
        fleet,
        ledger,
        given.listen,
        jobs,
        scrape=scrape,
        backup_folder=given.ledger_backup_dir,
    )


def serve(
    fleet: Fleet,
    ledger: Ledger,
    address: tuple[str, int],
    jobs: list[Callable[[threading.Event], None]],
    told: Callable[[str], None] = say,
    scrape: ScrapeLoop | None = None,
    backup_folder: Path | None = None,
) -> int:
    """Serve API and page with jobs in the background, until a signal; closes the ledger.

    `scrape` is the one among the jobs that scrapes, whose targets are told of; `backup_folder` is
    where backups are written.
    """
    stop = threading.Event()
    try:
        listener = bind(*address)
    except OSError as error:
        say(f"cannot listen on {address[0]}:{address[1]}: {error.strerror}; choose --listen")
        ledger.close()
        return Exit.FAILED
    host, port = listener.getsockname()[:2]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    threads = [threading.Thread(target=job, args=(stop,), daemon=True) for job in jobs]
    # uvicorn ends on these by itself and then raises them again for whoever was there before:
    # that must not end the process before the ledger is written and closed.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        ledger.announce(url)
        for thread in threads:
            thread.start()
        told(f"serving {url}/ (API documentation at {url}/docs); Ctrl-C ends it")
        config = uvicorn.Config(
            create_app(fleet, ledger, scrape=scrape, backup_folder=backup_folder),
            log_level="warning",
            access_log=False,
        )
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        stop.set()
        for thread in threads:
            thread.join(timeout=15.0)
        ledger.close()
        listener.close()
    return Exit.OK


COMMAND = Command("serve", "Fill the ledger and serve API and page.", add_flags, run)
