"""What is scraped: a page of an exporter, and the group of pages that are scraped alike."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit

from rightslice.feeders.http_config import HttpConfig

SCHEMES = ("http", "https")
# The usual group of targets that no file names.
FLAG_GROUP = "target"
TIMEOUT_SECONDS = 10.0
# Labels with two underscores say how to scrape, in Prometheus' own words, and are not kept.
HIDDEN = "__"
PARAM = "__param_"


@dataclass(frozen=True, slots=True)
class ScrapeTarget:
    """One page. Its URL is its name: a page that several groups list is scraped once."""

    group: str
    url: str
    interval_seconds: float
    timeout_seconds: float = TIMEOUT_SECONDS
    labels: Mapping[str, str] = field(default_factory=dict)
    http: HttpConfig = field(default_factory=HttpConfig, repr=False)


@dataclass(frozen=True, slots=True)
class Listed:
    """Addresses (HOST:PORT) that share their labels, as configurations and files list them."""

    addresses: tuple[str, ...]
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NameQuery:
    """A name to look up. `port` is None for SRV records, which tell it themselves."""

    name: str
    record: str
    port: int | None
    refresh_seconds: float


@dataclass(frozen=True, slots=True)
class TargetGroup:
    """Targets that are scraped alike, and where they are told."""

    name: str
    interval_seconds: float
    timeout_seconds: float
    scheme: str
    metrics_path: str
    params: Mapping[str, tuple[str, ...]]
    labels: Mapping[str, str]
    http: HttpConfig
    listed: tuple[Listed, ...]
    file_patterns: tuple[str, ...]
    name_queries: tuple[NameQuery, ...]

    def target(self, address: str, labels: Mapping[str, str]) -> ScrapeTarget:
        """Make the target of an address; labels of its own win over the group's."""
        told = {**self.labels, **labels}
        params = {key: list(values) for key, values in self.params.items()}
        params |= {
            key.removeprefix(PARAM): [value] for key, value in told.items() if key.startswith(PARAM)
        }
        path = told.get("__metrics_path__") or self.metrics_path
        query = f"?{urlencode(params, doseq=True)}" if params else ""
        return ScrapeTarget(
            self.name,
            f"{told.get('__scheme__') or self.scheme}://{address}{path}{query}",
            self.interval_seconds,
            self.timeout_seconds,
            {key: value for key, value in told.items() if value and not key.startswith(HIDDEN)},
            self.http,
        )


def check_address(address: str) -> None:
    """Refuse what is not HOST:PORT. Raises ValueError with what to write instead."""
    if "/" in address:
        raise ValueError(
            f"holds {address!r}, want HOST:PORT; scheme and metrics_path are keys of their own"
        )
    try:
        parts = urlsplit(f"http://{address}")
        is_good = bool(parts.hostname) and parts.port != 0 and parts.netloc == address
    except ValueError:  # a port that is no number, brackets that do not match
        is_good = False
    if not is_good or "@" in address or any(char.isspace() for char in address):
        raise ValueError(f"holds {address!r}, want HOST:PORT such as gpu-node-1:19400")


def check_label(name: str, value: str) -> None:
    """Refuse a label that would make a broken URL. Raises ValueError."""
    if name == "__scheme__" and value not in SCHEMES:
        raise ValueError(f"holds {name} {value!r}; want http or https")
    if name == "__metrics_path__" and not value.startswith("/"):
        raise ValueError(f"holds {name} {value!r}; want a path that begins with /")
