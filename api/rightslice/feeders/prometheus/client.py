"""Asks a Prometheus HTTP API: with patience for busy servers, and within a share of its time."""

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar
from urllib.parse import urlsplit

import httpx2

from rightslice.feeders.http_config import HttpConfig
from rightslice.feeders.prometheus.answer import (
    AwayError,
    LimitError,
    RetryError,
    Samples,
    SourceError,
    read_answer,
    read_label_sets,
    read_matrix,
)

TIMEOUT_SECONDS = 120.0
CONNECT_SECONDS = 10.0
ATTEMPTS = 4
# A server that answered before and is away now is being restarted, and reads its log first: it gets
# some two minutes.
ATTEMPTS_WHILE_AWAY = 8
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0
LONGEST_RETRY_AFTER_SECONDS = 120.0
# Each pause is longer by up to this share of it, so that clients do not all come back at once.
JITTER_RATIO = 0.5
# Mimir and Cortex name the tenant so; of several, joined by "|", they answer for all.
TENANT_HEADER = "x-scope-orgid"
# Thanos answers from what it has unless it is told not to, and for large steps from samples that it
# has thinned out. VictoriaMetrics answers from what it has, too, from a cache that knows nothing of
# late samples, and rounds the ends of ranges for it. Each passes over what is not meant for it.
PARAMETERS = {
    "partial_response": "false",
    "max_source_resolution": "0s",
    "deny_partial_response": "1",
    "nocache": "1",
}

Answer = TypeVar("Answer")
Read = Callable[[str, int, bytes], Answer]


@dataclass(slots=True)
class Traffic:
    """What a client asked so far; bytes are those of the answers, uncompressed."""

    request_count: int = 0
    answer_bytes: int = 0
    busy_seconds: float = 0.0


class PrometheusClient:
    """One server. Every method raises SourceError when it cannot be read.

    `share` is how much of the time it may be kept busy: after a query of 1 s a client with a half
    waits for 1 s. One query is asked at a time.
    """

    def __init__(
        self,
        url: str,
        config: HttpConfig | None = None,
        pause: Callable[[float], None] = time.sleep,
        share: float = 1.0,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SourceError(f"{url!r} is no URL of a Prometheus; want http://HOST:PORT")
        config = config or HttpConfig()
        # Without a user and a password, which the URL may hold: this is told and stored.
        self.url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")
        headers = {name.lower(): value for name, value in config.headers.items()}
        # To compress an answer takes a Prometheus eight times as long as to make it.
        headers = {"accept-encoding": "identity", **headers}
        self.tenant = headers.get(TENANT_HEADER, "")
        self.traffic = Traffic()
        self._base = url.rstrip("/")
        self._pause = pause
        self._share = share
        self._jitter = jitter
        self._has_answered = False
        self._turn = threading.Lock()
        self._extensions = {"sni_hostname": config.server_name} if config.server_name else {}
        self._http = httpx2.Client(
            timeout=httpx2.Timeout(TIMEOUT_SECONDS, connect=CONNECT_SECONDS),
            headers=headers,
            auth=config.basic_auth,
            verify=config.verify,
            proxy=config.proxy_url,
            follow_redirects=config.follow_redirects,
            # Only what we were told counts, not this process's surroundings.
            trust_env=False,
        )

    def close(self) -> None:
        self._http.close()

    def label_sets(
        self, selector: str, start_seconds: float, end_seconds: float
    ) -> list[dict[str, str]]:
        """List the series that a selector matches in a time span."""
        return self._ask(
            "series",
            {"match[]": selector, "start": f"{start_seconds}", "end": f"{end_seconds}"},
            lambda url, status, body: read_label_sets(url, read_answer(url, status, body)),
        )

    def raw(self, selector: str, start_seconds: float, end_seconds: float) -> list[Samples]:
        """Give the stored samples in (start, end], without any interpolation."""
        # Whole milliseconds: both ends may stand on a sample.
        length_ms = round((end_seconds - start_seconds) * 1000)
        parameters = {"query": f"{selector}[{length_ms}ms]", "time": f"{end_seconds:.3f}"}
        # Older servers count both ends in.
        found = (
            series.between(start_seconds, end_seconds)
            for series in self._ask("query", parameters, read_matrix)
        )
        return [series for series in found if len(series.stamps)]

    def steps(
        self, query: str, start_seconds: float, end_seconds: float, step_seconds: float
    ) -> list[Samples]:
        """Evaluate a query at even steps, both ends included."""
        parameters = {
            "query": query,
            "start": f"{start_seconds:.3f}",
            "end": f"{end_seconds:.3f}",
            "step": f"{step_seconds}",
        }
        return self._ask("query_range", parameters, read_matrix)

    def _ask(self, path: str, parameters: dict[str, str], read: Read[Answer]) -> Answer:
        pause_seconds, attempt = FIRST_PAUSE_SECONDS, 1
        while True:
            try:
                with self._turn:
                    return self._ask_once(path, parameters, read)
            except AwayError:
                if attempt >= ATTEMPTS_WHILE_AWAY or not self._has_answered:
                    raise
                wanted_seconds = pause_seconds
            except RetryError as error:
                if attempt >= ATTEMPTS:
                    raise
                told = error.after_seconds
                wanted_seconds = pause_seconds if told is None else told
            self._pause(wanted_seconds * (1 + JITTER_RATIO * self._jitter()))
            pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)
            attempt += 1

    def _ask_once(self, path: str, parameters: dict[str, str], read: Read[Answer]) -> Answer:
        started = time.monotonic()
        self.traffic.request_count += 1
        try:
            answer = self._http.post(
                f"{self._base}/api/v1/{path}",
                data=PARAMETERS | parameters,
                extensions=self._extensions,
            )
        except httpx2.ConnectTimeout as error:
            raise AwayError(
                f"{self.url} cannot be reached within {CONNECT_SECONDS:.0f} s; check the URL and "
                "that the server runs"
            ) from error
        except httpx2.TimeoutException as error:
            raise LimitError(f"{self.url} did not answer within {TIMEOUT_SECONDS:.0f} s") from error
        except httpx2.TransportError as error:
            raise AwayError(
                f"{self.url} cannot be reached: {error}; check the URL and that the server runs"
            ) from error
        except httpx2.HTTPError as error:
            raise SourceError(f"{self.url} cannot be read: {error}; check the URL") from error
        finally:
            busy_seconds = time.monotonic() - started
            self.traffic.busy_seconds += busy_seconds
            if self._share < 1:
                self._pause(busy_seconds * (1 / self._share - 1))
        self._has_answered = True
        self.traffic.answer_bytes += len(answer.content)
        try:
            return read(self.url, answer.status_code, answer.content)
        except RetryError as error:
            error.after_seconds = _retry_after(answer.headers.get("Retry-After", ""))
            raise


def _retry_after(text: str) -> float | None:
    """Read the header: seconds, or a date; None where it says nothing."""
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError):
            return None
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER_SECONDS)
