"""Asks a Prometheus HTTP API: with patience for busy servers, in smaller pieces for full ones."""

import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx2

from rightslice.feeders.http_config import HttpConfig
from rightslice.feeders.prometheus_answer import (
    LimitError,
    RetryError,
    Samples,
    SourceError,
    read_answer,
    read_label_sets,
    read_matrix,
)

TIMEOUT_SECONDS = 120.0
ATTEMPTS = 4
FIRST_PAUSE_SECONDS = 1.0
# Splitting a query further than to this length would mean thousands of queries.
SHORTEST_RANGE_SECONDS = 600.0


class PrometheusClient:
    """One server. Every method raises SourceError when it cannot be read."""

    def __init__(
        self,
        url: str,
        config: HttpConfig | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SourceError(f"{url!r} is no URL of a Prometheus; want http://HOST:PORT")
        self.url = url.rstrip("/")
        self._pause = pause
        config = config or HttpConfig()
        self._http = httpx2.Client(
            timeout=TIMEOUT_SECONDS,
            headers=config.headers,
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
        data = self._ask(
            "series", {"match[]": selector, "start": f"{start_seconds}", "end": f"{end_seconds}"}
        )
        return read_label_sets(self.url, data)

    def raw(self, selector: str, start_seconds: float, end_seconds: float) -> Iterator[Samples]:
        """Give the stored samples in (start, end], without any interpolation.

        A server that finds the range too large is asked for its halves.
        """
        # Whole milliseconds: both ends may stand on a sample.
        length_ms = round((end_seconds - start_seconds) * 1000)
        parameters = {"query": f"{selector}[{length_ms}ms]", "time": f"{end_seconds:.3f}"}
        try:
            found = list(read_matrix(self.url, self._ask("query", parameters)))
        except LimitError:
            if end_seconds - start_seconds < 2 * SHORTEST_RANGE_SECONDS:
                raise
            middle_seconds = (start_seconds + end_seconds) // 2
            yield from self.raw(selector, start_seconds, middle_seconds)
            yield from self.raw(selector, middle_seconds, end_seconds)
            return
        for series in found:
            # Older servers count both ends in.
            inside = [row for row in series.samples if start_seconds < row[0] <= end_seconds]
            if inside:
                yield Samples(series.labels, inside)

    def steps(
        self, query: str, start_seconds: float, end_seconds: float, step_seconds: float
    ) -> Iterator[Samples]:
        """Evaluate a query at even steps, both ends included."""
        data = self._ask(
            "query_range",
            {
                "query": query,
                "start": f"{start_seconds}",
                "end": f"{end_seconds}",
                "step": f"{step_seconds}",
            },
        )
        return read_matrix(self.url, data)

    def _ask(self, path: str, parameters: dict[str, str]) -> Any:
        pause_seconds = FIRST_PAUSE_SECONDS
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._ask_once(path, parameters)
            except RetryError:
                if attempt == ATTEMPTS:
                    raise
                self._pause(pause_seconds)
                pause_seconds *= 2
        raise AssertionError("unreachable")

    def _ask_once(self, path: str, parameters: dict[str, str]) -> Any:
        url = f"{self.url}/api/v1/{path}"
        try:
            answer = self._http.post(url, data=parameters)
        except httpx2.TimeoutException as error:
            raise LimitError(f"{self.url} did not answer within {TIMEOUT_SECONDS:.0f} s") from error
        except httpx2.HTTPError as error:
            raise SourceError(
                f"{self.url} cannot be reached: {error}; check the URL and that the server runs"
            ) from error
        return read_answer(self.url, answer.status_code, answer.content)
