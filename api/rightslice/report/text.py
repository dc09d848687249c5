"""Words and numbers for people, made from documents."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

Document = Mapping[str, Any]
BYTES_PER_GIB = 1024**3
UNKNOWN = "unknown"
CASH_WORDS = {
    "now": "cash, from the month the card ends",
    "when_server_ends": "cash, when its whole server ends",
    "capacity_only": "capacity only, no cash",
    "none": "",
}


# What the summary's amounts are worth, and when.
SUMMARY_SAVINGS = (
    ("saving_per_month", "in cash"),
    ("server_saving_per_month", "in cash once whole servers end"),
    ("freed_per_month", "of freed capacity"),
)


def amount_text(amount: str) -> str:
    """Write "1600.00" as "1,600", and "68.50" as "68.50"."""
    value = Decimal(amount)
    return f"{value:,.0f}" if value == value.to_integral_value() else f"{value:,.2f}"


def money_text(money: Document | None) -> str:
    """Write an amount; a range keeps both ends, an estimate says so, None is unknown."""
    if money is None:
        return UNKNOWN
    low, high = amount_text(money["low"]), amount_text(money["high"])
    text = low if low == high else f"{low} to {high}"
    return f"{text} {money['currency']}{' (estimate)' if money['is_estimate'] else ''}"


def gib_text(size_bytes: float | None) -> str:
    return UNKNOWN if size_bytes is None else f"{size_bytes / BYTES_PER_GIB:.1f} GiB"


def percent_text(ratio: float | None) -> str:
    return UNKNOWN if ratio is None else f"{100 * ratio:.1f} %"


def compute_text(usage: Document) -> str:
    """Write the compute p95 with the ends of its histogram bin, between which it lies."""
    value, low = usage["compute_p95_ratio"], usage["compute_p95_low_ratio"]
    if value is None:
        return UNKNOWN
    high = usage["compute_p95_high_ratio"]
    if low == 0:
        return f"below {percent_text(high)}"
    return f"{percent_text(value)} ({100 * low:.1f} to {100 * high:.1f})"


def saving_at(candidate: Document, term: str) -> Document | None:
    """Find a candidate's saving at a term."""
    return next((saving for saving in candidate["savings"] if saving["term"] == term), None)


def advice_text(answer: Document) -> str:
    """Say the headline in a few words, or that there is none."""
    headline = answer["headline"]
    if headline is None:
        return "no advice"
    return "stay" if headline["kind"] == "stay" else str(headline["name"])


def saving_text(answer: Document, per: str) -> str:
    """Write what the headline saves at month terms, "per_month" or "per_year"."""
    headline = answer["headline"]
    if headline is None or headline["kind"] == "stay":
        return ""
    if headline["cash"] == "capacity_only":
        return f"frees {money_text(headline['freed_per_month'])}" if per == "per_month" else ""
    saving = saving_at(headline, "month")
    return money_text(saving[per]) if saving else ""


def why_text(answer: Document) -> str:
    """Say why: the refusal, or what was measured and what stands beside the headline."""
    if answer["reason"] is not None:
        return str(answer["reason"]["text"])
    usage = answer["usage"]
    parts = [
        f"{usage['idle_class']}: memory at most {gib_text(usage['memory_used_peak_bytes'])}, "
        f"compute p95 {compute_text(usage)}"
    ]
    parts += [note["text"] for note in answer["headline"]["notes"][:1]]
    parts += [beside_text(candidate) for candidate in answer["above_the_fold"][:1]]
    if len(answer["above_the_fold"]) > 1:
        parts.append(f"{len(answer['above_the_fold']) - 1} more with a check")
    if answer["headline"]["kind"] == "stay":
        parts.append(f"no cheaper tier without a check gives {need_text(answer['needs'])}")
    parts += near_miss_texts(answer)
    return "; ".join(parts)


def need_text(needs: Document) -> str:
    """Write what a workload needs."""
    memory = gib_text(needs["memory_bytes"])
    quantile = needs["compute_quantile_ratio"]
    compute = None if quantile is None else min(quantile * needs["compute_factor"], 1.0)
    return f"{memory} of memory and {percent_text(compute)} of the card's compute"


def beside_text(candidate: Document) -> str:
    """Write a cheaper candidate that needs a check: its saving and the check."""
    saving = saving_at(candidate, "month")
    checks = ", ".join(check["text"] for check in candidate["checks"])
    saved = f" saves {money_text(saving['per_month'])}" if saving else ""
    return f"beside it {candidate['name']}{saved} ({checks})"


def near_miss_texts(answer: Document) -> list[str]:
    """Say of the cheapest rentable slice that holds the memory, yet is refused, why it is."""
    return [
        f"{candidate['name']} refused: {candidate['refusals'][0]['text']}"
        for candidate in answer["candidates"]
        if candidate["kind"] == "rent_slice"
        and not candidate["fits"]
        and candidate["memory_spare_bytes"] is not None
        and candidate["memory_spare_bytes"] >= 0
    ][:1]


def holder_text(answer: Document, most: int = 2) -> str:
    """Say who holds a card: names, as far as they are told, and nobody only where that is known."""
    names = answer["workloads"]
    if names:
        more = f" +{len(names) - most}" if len(names) > most else ""
        return ", ".join(names[:most]) + more
    allocated_ratio = answer["usage"]["allocated_ratio"]
    if allocated_ratio is None:
        return UNKNOWN
    return "somebody not named" if allocated_ratio > 0 else "nobody"


def place_text(answer: Document) -> str:
    """Say where a card is: node, and the start of its UUID."""
    uuid = str(answer["uuid"])
    short = uuid[:12] if uuid.startswith("GPU-") else uuid
    return f"{answer['node']} {short}".strip()


def summary_text(summary: Document) -> str:
    """Write the fleet in a sentence or two."""
    count = summary["card_count"]
    text = (
        f"{count} {'card' if count == 1 else 'cards'}, advice for {summary['advised_count']}, "
        f"{summary['saving_count']} of them could do with less"
    )
    parts = [
        f"{money_text(summary[key])} a month {words}"
        for key, words in SUMMARY_SAVINGS
        if summary[key] is not None
    ]
    if parts:
        text += f": {', '.join(parts)}"
    if summary["no_advice"]:
        reasons = ", ".join(f"{code} {count}" for code, count in summary["no_advice"].items())
        text += f". No advice for {sum(summary['no_advice'].values())}: {reasons}"
    return text + "."
