"""The flags that say which Prometheus to read and how to reach it."""

import argparse

from rightslice.api.command import duration, file_path, http_url
from rightslice.feeders.http_config import read_http_config
from rightslice.feeders.prometheus.client import PrometheusClient
from rightslice.feeders.prometheus.sources import AUTO, Sources, choose_sources, source_names


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
        "--prometheus.late",
        dest="prometheus_late",
        type=duration,
        default="48h",
        metavar="DURATION",
        help="for how long after its end an hour is read again when Prometheus has come to hold "
        "more of it (default %(default)s)",
    )
    parser.add_argument(
        "--source",
        choices=source_names(),
        default=AUTO,
        help="whose metrics to read from Prometheus (default %(default)s: all there are)",
    )
    parser.add_argument(
        "--mapping",
        type=file_path,
        metavar="FILE",
        help="YAML file that says what another exporter's metrics tell of a card; read beside "
        "--source",
    )


def client_of(given: argparse.Namespace, share: float = 1.0) -> PrometheusClient | None:
    """Make the client that the flags ask for; None without --prometheus.

    `share` is how much of the time the server may be kept busy. Raises DocumentError for a bad
    config file, SourceError for a bad URL.
    """
    if not given.prometheus:
        return None
    file = given.prometheus_config_file
    config = read_http_config(file) if file else None
    return PrometheusClient(given.prometheus, config, share=share)


def sources_of(given: argparse.Namespace) -> Sources:
    """Choose what the flags ask to read. Raises DocumentError for a bad mapping."""
    return choose_sources(given.source, given.mapping)
