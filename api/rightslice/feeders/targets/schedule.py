"""When a target is scraped: its own place in the interval, and patience with one that fails."""

import hashlib

# A hiccup is over in a moment; what fails longer is asked less and less often.
FIRST_RETRY_SECONDS = 2.0
LONGEST_BACKOFF_SECONDS = 180.0


def offset_seconds(name: str, interval_seconds: float) -> float:
    """Give a target's place in the interval: the same after a restart, another for each target."""
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64 * interval_seconds


def next_slot(after_seconds: float, interval_seconds: float, slot_seconds: float) -> float:
    """Give the first time after `after_seconds` that lies whole intervals from `slot_seconds`."""
    passed = (after_seconds - slot_seconds) // interval_seconds
    return slot_seconds + (passed + 1) * interval_seconds


def pause_seconds(failure_count: int, interval_seconds: float) -> float:
    """Give the least time to leave a target alone that failed so often in a row; 0 for none."""
    if failure_count <= 0:
        return 0.0
    if failure_count == 1:
        return min(FIRST_RETRY_SECONDS, interval_seconds)
    longest = max(LONGEST_BACKOFF_SECONDS, interval_seconds)
    return float(min(interval_seconds * 2.0 ** min(failure_count - 2, 32), longest))


def next_try(
    started_seconds: float,
    now_seconds: float,
    interval_seconds: float,
    slot_seconds: float,
    failure_count: int,
) -> float:
    """Give when a target is tried again whose scrape began at `started_seconds` and is over now."""
    pause = pause_seconds(failure_count, interval_seconds)
    if failure_count == 1:
        return now_seconds + pause
    # Not at once again where the last scrape was early; a pause of one interval is the next slot.
    after_seconds = max(
        now_seconds,
        started_seconds + interval_seconds / 4,
        now_seconds + pause - interval_seconds / 2,
    )
    return next_slot(after_seconds, interval_seconds, slot_seconds)
