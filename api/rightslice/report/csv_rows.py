"""Answers as CSV, one line per card, amounts as plain decimals with their currency beside."""

import csv
import io
from collections.abc import Iterable

from rightslice.report.text import Document, saving_at

COLUMNS = (
    "node",
    "uuid",
    "card",
    "workloads",
    "idle_class",
    "start",
    "end",
    "observed_hours",
    "coverage_ratio",
    "memory_used_peak_bytes",
    "compute_p95_ratio",
    "signal",
    "currency",
    "price_per_month_low",
    "price_per_month_high",
    "advice",
    "advice_kind",
    "advice_price_per_month_low",
    "advice_price_per_month_high",
    "saving_per_month_low",
    "saving_per_month_high",
    "saving_per_year_low",
    "saving_per_year_high",
    "freed_per_month_low",
    "freed_per_month_high",
    "cash",
    "is_estimate",
    "checks",
    "notes",
    "reason_code",
    "reason",
)
# A spreadsheet runs a cell that begins so; names come from outside.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def csv_text(answers: Iterable[Document]) -> str:
    """Write the table; unknown values are empty cells."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for answer in answers:
        writer.writerow({name: _safe(value) for name, value in _row(answer).items()})
    return out.getvalue()


def _safe(value: object) -> object:
    if not isinstance(value, str):
        return value
    guard = "'" if value.startswith(FORMULA_STARTS) and not _is_number(value) else ""
    # The writer leaves a carriage return unquoted, and readers begin a new row there.
    return guard + value.replace("\r", " ")


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def _row(answer: Document) -> dict[str, object]:
    usage, headline, price = answer["usage"], answer["headline"], answer["present_price_per_month"]
    row: dict[str, object] = {
        "node": answer["node"],
        "uuid": answer["uuid"],
        "card": answer["card"],
        "workloads": " ".join(answer["workloads"]),
        **{name: usage[name] for name in COLUMNS if name in usage},
    }
    if price is not None:
        row |= {"currency": price["currency"], "is_estimate": price["is_estimate"]}
        row |= _ends("price_per_month", price)
    if headline is not None:
        row |= {"advice": headline["name"], "advice_kind": headline["kind"]}
        row["cash"] = headline["cash"]
        to_price = headline["price_per_month"]
        if to_price is not None:
            row |= _ends("advice_price_per_month", to_price)
            row["is_estimate"] = to_price["is_estimate"] or row.get("is_estimate", False)
        saving = saving_at(headline, "month")
        if saving is not None:
            row |= _ends("saving_per_month", saving["per_month"])
            row |= _ends("saving_per_year", saving["per_year"])
        if headline["freed_per_month"] is not None:
            row |= _ends("freed_per_month", headline["freed_per_month"])
        for kind in ("checks", "notes"):
            row[kind] = "; ".join(remark["text"] for remark in headline[kind])
    if answer["reason"] is not None:
        row |= {"reason_code": answer["reason"]["code"], "reason": answer["reason"]["text"]}
    return row


def _ends(name: str, money: Document) -> dict[str, object]:
    return {f"{name}_low": money["low"], f"{name}_high": money["high"]}
