"""Reads an exporter's page over HTTP, with an end to its time and its size."""

import asyncio
import functools
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from http import HTTPStatus

import httpx2

from rightslice.feeders.prometheus.answer import SourceError
from rightslice.feeders.targets.target import ScrapeTarget

# A page larger than this is no exporter's.
LARGEST_PAGE_BYTES = 64 * 1024 * 1024
HEADERS = {
    # In the order in which Prometheus asks, so that counters bear the same names as there.
    "Accept": "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
    "Accept-Encoding": "gzip",
    "User-Agent": "rightslice",
}
REMEDIES: dict[int, str] = {
    HTTPStatus.UNAUTHORIZED: "give basic_auth or authorization in its group",
    HTTPStatus.FORBIDDEN: "give credentials that may read it in its group",
    HTTPStatus.NOT_FOUND: "check its metrics_path",
}

# Reads the page once. Raises SourceError.
Read = Callable[[], Awaitable[str]]
# Makes a connection that is kept for as long as a target is scraped.
Connect = Callable[[ScrapeTarget], AbstractAsyncContextManager[Read]]


@asynccontextmanager
async def connect(target: ScrapeTarget) -> AsyncIterator[Read]:
    """Keep a connection of the target's own, made when it is first read.

    One pool for all would look at every connection for each request: with thousands of targets
    that is all it would do.
    """
    config = target.http
    async with httpx2.AsyncClient(
        headers=HEADERS | dict(config.headers),
        auth=config.basic_auth,
        verify=_context() if config.verify is True else config.verify,
        proxy=config.proxy_url,
        follow_redirects=config.follow_redirects,
        timeout=None,  # the deadline is of the whole scrape, not of each of its steps
        limits=httpx2.Limits(
            max_connections=1, keepalive_expiry=target.interval_seconds + target.timeout_seconds
        ),
        trust_env=False,
    ) as client:
        yield functools.partial(_read, client, target)


async def _read(client: httpx2.AsyncClient, target: ScrapeTarget) -> str:
    url = target.url
    name = target.http.server_name
    extensions = {"sni_hostname": name} if name else {}
    try:
        async with (
            asyncio.timeout(target.timeout_seconds),
            client.stream("GET", url, extensions=extensions) as answer,
        ):
            if not answer.is_success:
                raise SourceError(_refusal(url, answer))
            body = bytearray()
            async for chunk in answer.aiter_bytes():
                body += chunk
                if len(body) > LARGEST_PAGE_BYTES:
                    raise SourceError(f"target {url}: its page is too large for an exporter's")
    except TimeoutError as error:
        raise SourceError(
            f"target {url} did not answer within {target.timeout_seconds:g} s"
        ) from error
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, OSError) as error:
        reason = str(error) or type(error).__name__
        raise SourceError(f"target {url} cannot be scraped: {reason}") from error
    return body.decode("utf-8", "replace")


def _refusal(url: str, answer: httpx2.Response) -> str:
    told = f"target {url} answered {answer.status_code} {answer.reason_phrase}".rstrip()
    remedy = REMEDIES.get(answer.status_code)
    return f"{told}; {remedy}" if remedy else told


@functools.cache
def _context() -> ssl.SSLContext:
    """Give the usual context: loading its certificates takes longer than a scrape."""
    return httpx2.create_ssl_context(trust_env=False)


def in_process(page: Callable[[str], str]) -> Connect:
    """Read pages that are made in this process, by URL."""

    @asynccontextmanager
    async def connect(target: ScrapeTarget) -> AsyncIterator[Read]:
        async def read() -> str:
            return page(target.url)

        yield read

    return connect
