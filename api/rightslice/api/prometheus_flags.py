"""The flags that say which Prometheus to read and how to reach it."""

import argparse

from rightslice.api.command import file_path, http_url
from rightslice.feeders.http_config import read_http_config
from rightslice.feeders.prometheus import Source
from rightslice.feeders.prometheus_client import PrometheusClient


def add_prometheus_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--prometheus",
        type=http_url,
        metavar="URL",
        help="Prometheus, or a server with its HTTP API, to read",
    )
    parser.add_argument(
        "--prometheus.config.file",
        dest="prometheus_config_file",
        type=file_path,
        metavar="FILE",
        help="credentials, TLS and headers, as Prometheus' own http_config",
    )
    parser.add_argument(
        "--source",
        choices=tuple(str(source) for source in Source),
        default=str(Source.AUTO),
        help="whose metrics to read from Prometheus (default %(default)s: all there are)",
    )


def client_of(given: argparse.Namespace) -> PrometheusClient | None:
    """Make the client that the flags ask for; None without --prometheus.

    Raises DocumentError for a bad config file, SourceError for a bad URL.
    """
    if not given.prometheus:
        return None
    file = given.prometheus_config_file
    return PrometheusClient(given.prometheus, read_http_config(file) if file else None)
