"""Asks the service that holds a ledger to do what only it can: DuckDB lets one process in."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, TypeVar

import httpx2

from rightslice.api.command import say
from rightslice.feeders.prometheus.answer import SourceError
from rightslice.ledger.ledger import LedgerError, LedgerHeldError

T = TypeVar("T")

# A large ledger is copied, written or read as a whole before the answer comes.
TIMEOUT_SECONDS = 4 * 3600.0


def here_or_there(
    here: Callable[[], T], path: str, body: Mapping[str, Any], read: Callable[[dict[str, Any]], T]
) -> T:
    """Do it with the file, or have it done by the service that holds the file.

    Raises LedgerError, and SourceError where that service does not answer.
    """
    try:
        return here()
    except LedgerHeldError as error:
        if error.holder is None or not error.holder.api_url:
            raise
        say(f"asking {error.holder.api_url}, which holds the ledger")
        return read(_ask(error.holder.api_url, path, body))


def _ask(url: str, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    try:
        answer = httpx2.post(
            f"{url}{path}", json=dict(body), timeout=TIMEOUT_SECONDS, trust_env=False
        )
        told: dict[str, Any] = answer.json()
        if answer.status_code != HTTPStatus.OK:
            raise LedgerError(str(told["detail"]))
    except (httpx2.HTTPError, ValueError, KeyError, TypeError) as error:
        raise SourceError(f"no rightslice API answers at {url}: {error}") from error
    return told
