"""Reads answers of the Prometheus HTTP API, as Prometheus and its relatives really give them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

# Asking for less may help: too many samples, series, chunks or points; or too slow.
LIMIT_WORDS = ("limit", "exceeded", "too many", "maximum", "timeout", "timed out", "too large")
LIMIT_STATUSES = frozenset((413, 422))
BUSY_STATUS = 429
RETRY_STATUSES = frozenset((BUSY_STATUS, 500, 502, 503, 504))


class SourceError(Exception):
    """A source cannot be read; the text says which, why, and what to do."""


class LimitError(SourceError):
    """The source refused the size of a query; a smaller one may pass."""


class RetryError(SourceError):
    """The source is busy; the same query may pass later."""


@dataclass(frozen=True, slots=True)
class Samples:
    """One series and its samples: (seconds since the epoch, value), in the order of time."""

    labels: Mapping[str, str]
    samples: list[tuple[float, float]]


def read_answer(url: str, status: int, body: bytes) -> Any:
    """Give the `data` of a successful and whole answer. Raises SourceError."""
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    told = answer if isinstance(answer, dict) else {}
    reason = str(told.get("error") or told.get("msg") or _excerpt(body))
    if status >= 400 or told.get("status") == "error":
        raise _refusal(url, status, reason)
    if told.get("status") != "success" or not isinstance(told.get("data"), dict | list):
        raise SourceError(
            f"{url} did not answer as a Prometheus HTTP API does: {_excerpt(body)}; check the URL"
        )
    warnings = told.get("warnings") or []
    if warnings or told.get("isPartial") is True:
        what = "; ".join(map(str, warnings)) or "some of its storage did not answer"
        raise SourceError(
            f"{url} gave a partial answer: {what}; no advice rests on half the data. Try again "
            "when all its stores are up"
        )
    return told["data"]


def _excerpt(body: bytes) -> str:
    text = " ".join(body[:300].decode("utf-8", "replace").split())
    return repr(text[:160])


def _refusal(url: str, status: int, reason: str) -> SourceError:
    if status in (401, 403):
        return SourceError(
            f"{url} refused our credentials (HTTP {status}): {reason}; give them with "
            "--prometheus.config.file"
        )
    lowered = reason.lower()
    if status == BUSY_STATUS:  # its words speak of limits too, but it only asks for patience
        return RetryError(f"{url} cannot answer now (HTTP {status}): {reason}; try again later")
    if status in LIMIT_STATUSES or any(word in lowered for word in LIMIT_WORDS):
        return LimitError(f"{url} refused the size of a query (HTTP {status}): {reason}")
    if status in RETRY_STATUSES:
        return RetryError(f"{url} cannot answer now (HTTP {status}): {reason}; try again later")
    return SourceError(f"{url} refused a query (HTTP {status}): {reason}; check the URL")


def read_matrix(url: str, data: Any) -> Iterator[Samples]:
    """Read a matrix of series; values that are no numbers come as NaN. Raises SourceError."""
    if not isinstance(data, dict) or data.get("resultType") != "matrix" or "result" not in data:
        raise SourceError(f"{url} answered a range with {_excerpt(json.dumps(data).encode())}")
    for series in data["result"]:
        yield Samples(
            series["metric"],
            [(float(seconds), float(value)) for seconds, value in series.get("values", ())],
        )


def read_label_sets(url: str, data: Any) -> list[dict[str, str]]:
    """Read the answer of the series endpoint. Raises SourceError."""
    if not isinstance(data, list):
        raise SourceError(f"{url} answered a list of series with something else")
    return [dict(labels) for labels in data]
