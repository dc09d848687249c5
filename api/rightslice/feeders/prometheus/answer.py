"""Reads answers of the Prometheus HTTP API, as Prometheus and its relatives really give them."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rightslice.feeders.gauges.sightings import Floats

# Asking for less may help: too many samples, series, chunks or points; or too slow.
LIMIT_WORDS = (
    "limit",
    "exceed",
    "too many",
    "maximum",
    "timeout",
    "timed out",
    "too large",
    "cannot select more than",
    "not enough memory",
)
LIMIT_STATUSES = frozenset((413, 422))
BUSY_STATUS = 429
RETRY_STATUSES = frozenset((BUSY_STATUS, 500, 502, 503, 504))

# All servers write series so. Within a label's value a quotation mark is escaped.
VALUES_BEGIN, VALUES_END = b'"values":[[', b"]]"


class SourceError(Exception):
    """A source cannot be read; the text says which, why, and what to do."""


class LimitError(SourceError):
    """The source refused the size of a query; a smaller one may pass."""


class RetryError(SourceError):
    """The source is busy; the same query may pass later, after `after_seconds` if it told so."""

    after_seconds: float | None = None


class AwayError(SourceError):
    """Nobody answers at the source's address."""


class PartialError(SourceError):
    """The source answered from a part of its storage only; the whole may be there later."""


@dataclass(frozen=True, slots=True)
class Samples:
    """One series: seconds since the epoch, in the order of time, and values."""

    labels: Mapping[str, str]
    stamps: Floats
    values: Floats

    def between(self, start_seconds: float, end_seconds: float) -> "Samples":
        """Give the samples in (start, end]."""
        first, end = np.searchsorted(self.stamps, (start_seconds, end_seconds), side="right")
        return Samples(self.labels, self.stamps[first:end], self.values[first:end])


def read_answer(url: str, status: int, body: bytes) -> Any:
    """Give the `data` of a successful and whole answer. Raises SourceError."""
    return _data(url, status, body, _loaded(body))


def read_matrix(url: str, status: int, body: bytes) -> list[Samples]:
    """Give the series of a range; values that are no numbers come as NaN. Raises SourceError.

    Samples are cut out of the text before it is read as JSON: that takes half of the time.
    """
    texts, skeleton = _cut(body)
    try:
        data = _data(url, status, body, _loaded(skeleton))
        if (
            not isinstance(data, dict)
            or data.get("resultType") != "matrix"
            or not isinstance(data.get("result"), list)
        ):
            raise SourceError(f"{url} answered a range with {_excerpt(body)}; check the URL")
        arrays = _Arrays()
        return [
            Samples(series["metric"], *arrays.of(series.get("values", ()), texts))
            for series in data["result"]
        ]
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise SourceError(f"{url} answered a range with {_excerpt(body)}: {error}") from error


def _cut(body: bytes) -> tuple[list[bytes], bytes]:
    """Give the texts of all samples, and what is left: there each series has its text's place."""
    head, *pieces = body.split(VALUES_BEGIN)
    texts, rest = [], [head]
    for place, piece in enumerate(pieces):
        text, _, tail = piece.partition(VALUES_END)
        texts.append(text)
        rest.append(b'"values":%d%s' % (place, tail))
    return texts, b"".join(rest)


class _Arrays:
    """Turns samples into arrays; series of one target share their stamps, which are read once."""

    def __init__(self) -> None:
        self._words: list[bytes] = []
        self._stamps: Floats = np.empty(0)

    def of(self, values: Any, texts: list[bytes]) -> tuple[Floats, Floats]:
        if not isinstance(values, int):  # written in another way than all known servers do
            pairs = [(float(seconds), float(value)) for seconds, value in values]
            return np.array([one for one, _ in pairs]), np.array([one for _, one in pairs])
        words = texts[values].translate(None, b'[]" ').split(b",")
        stamp_words = words[::2]
        if stamp_words != self._words:
            self._words, self._stamps = stamp_words, np.array(list(map(float, stamp_words)))
        found = np.array(list(map(float, words[1::2])))
        if len(found) != len(self._stamps):
            raise ValueError("a sample without a value")
        return self._stamps, found


def read_label_sets(url: str, data: Any) -> list[dict[str, str]]:
    """Read the answer of the series endpoint. Raises SourceError."""
    if not isinstance(data, list):
        raise SourceError(f"{url} answered a list of series with something else; check the URL")
    return [dict(labels) for labels in data]


def joined(parts: Iterable[Iterable[Samples]]) -> list[Samples]:
    """Put together what was asked for in pieces of time, given in its order."""
    found: dict[frozenset[tuple[str, str]], list[Samples]] = {}
    for part in parts:
        for one in part:
            found.setdefault(frozenset(one.labels.items()), []).append(one)
    return [
        pieces[0]
        if len(pieces) == 1
        else Samples(
            pieces[0].labels,
            np.concatenate([one.stamps for one in pieces]),
            np.concatenate([one.values for one in pieces]),
        )
        for pieces in found.values()
    ]


def _loaded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


def _data(url: str, status: int, body: bytes, answer: Any) -> Any:
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
        raise PartialError(
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
