"""How long contexts that share a card by turns wait for it, worked out from what the driver tells.

No call of the driver tells it. One context at a time has the compute engine, so one that wants it
waits as long as others have it. docs/timeslice-wait.md has the reasoning and the measured error;
the simulation that measures it is tests/support/timeslice.py.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import ceil, fsum, inf
from typing import Generic, TypeVar

from rightslice.exporter.timeslice_turns import waits_for_slices

K = TypeVar("K", bound=Hashable)

# The driver keeps 72 samples of the last 10 s: what was not read by then is lost.
SAMPLES_PER_SECOND = 7.2
SHORTEST_BLOCK_SECONDS = 5.0
LONGEST_BLOCK_SECONDS = 8.0
SAMPLES_PER_CONTEXT = 4
# How long a context keeps the engine while others want it. No call tells it; the driver's own
# default is 1 ms, 2 ms is what is commonly seen, and the longest that can be set some 30 ms.
SLICE_SECONDS = 0.002
LONGEST_SLICE_SECONDS = 0.030
# One takes tens of microseconds.
MOST_SWITCHES_PER_SECOND = 1e6
# From here on a card counts as never idle.
FULL_RATIO = 0.99
INCONSISTENT_RATIO = 0.3
# Idle samples over so long on end are a pause of all contexts, not a chance between kernels.
PAUSE_SECONDS = 0.4
# One that has this much of all busy time is heavy; beside it is light who has less than so much of
# what the heavy one has.
HEAVY_SHARE = 0.4
LIGHT_RATIO = 0.6


@dataclass(frozen=True, slots=True)
class Block(Generic[K]):
    """What some seconds of samples told of a card that is neither cut nor under MPS.

    Every context on the card has a busy ratio, and 0 if it was never seen busy. The card's own
    includes the time for switching, and is None where it is not told. `sample_count` is how many
    samples found the card busy. The device samples are the card's, oldest first, each of
    `device_sample_seconds`: cards differ in that. Switches are told from Hopper on, else None.
    """

    busy_ratios: Mapping[K, float]
    device_busy_ratio: float | None
    sample_count: int
    device_samples: Sequence[float] = ()
    switches_per_second: float | None = None
    device_sample_seconds: float = 1 / SAMPLES_PER_SECOND


@dataclass(frozen=True, slots=True)
class Wait:
    """A context's shares of the block's time: having the card, and wanting it in vain.

    It cannot have waited for longer than others had the card: that is the upper bound. The
    estimate may be low where kernels shorter than a slice could run beside long ones unseen.
    """

    busy_ratio: float
    wait_ratio: float
    upper_bound_ratio: float
    may_be_low: bool


def block_seconds(context_count: int) -> float:
    """Tell how long to collect samples: some for each context, but no more than the driver keeps.

    The driver is asked no more often than every 5 s.
    """
    wanted_seconds = SAMPLES_PER_CONTEXT * context_count / SAMPLES_PER_SECOND
    return min(LONGEST_BLOCK_SECONDS, max(SHORTEST_BLOCK_SECONDS, wanted_seconds))


def reserved_slot_wait(busy_ratio: float, share: float) -> float:
    """Give the wait of a vGPU whose slots are kept for it, and which has no others even when alone.

    It gets on at its share's speed: what takes a second of the card takes 1 / share.
    """
    if not 0 < share <= 1:
        raise ValueError(f"share of a vGPU: want above 0 and at most 1, got {share}")
    return max(0.0, min(1 - busy_ratio, busy_ratio * (1 / share - 1)))


def is_inconsistent(block: Block[K]) -> bool:
    """Tell whether the contexts' sum and the card's own busy time are far apart."""
    if block.device_busy_ratio is None:
        return False
    return abs(fsum(block.busy_ratios.values()) - block.device_busy_ratio) > INCONSISTENT_RATIO


def waits(block: Block[K], slice_seconds: float = SLICE_SECONDS) -> dict[K, Wait]:
    """Estimate the wait of each context; one that is alone on its card never waits.

    Most of it is as if the card were divided among those who want it. That reads low for short
    kernels beside long ones; where switches are counted, they tell how many turns those took.
    """
    busy, device = _within_device(block)
    if len(busy) < 2:
        return {key: Wait(ratio, 0.0, 0.0, may_be_low=False) for key, ratio in busy.items()}
    active = _active_ratio(block)
    shares = [min(1.0, ratio / active) for ratio in busy.values()]
    estimates = _divided(shares, min(1.0, device / active), block.sample_count)
    has_long_kernels = _kernel_seconds(block, device) >= slice_seconds
    switches = _switches_per_second(block, active)
    if switches is None:
        marks = [has_long_kernels and _is_light(share, shares) for share in shares]
    else:
        marks = [False] * len(shares)
        if has_long_kernels:
            by_turns = waits_for_slices(shares, estimates, switches, slice_seconds)
            estimates = list(map(max, estimates, by_turns))
        most = _most_between_switches(shares, switches)
        estimates = [min(estimate, most) for estimate in estimates]
    return {
        key: _wait(ratio, active * estimate, device, may_be_low=mark)
        for (key, ratio), estimate, mark in zip(busy.items(), estimates, marks, strict=True)
    }


def _wait(busy_ratio: float, estimate: float, device: float, *, may_be_low: bool) -> Wait:
    bound = max(0.0, device - busy_ratio)
    return Wait(busy_ratio, max(0.0, min(estimate, bound)), bound, may_be_low)


def _within_device(block: Block[K]) -> tuple[dict[K, float], float]:
    """Give contexts and card so that the sum is no more than the card.

    A sum far below the card's own is believed: the rest may be of what is no context.
    """
    total = fsum(block.busy_ratios.values())  # the same in any order
    told = total if block.device_busy_ratio is None else block.device_busy_ratio
    device = min(1.0, total if told - total > INCONSISTENT_RATIO else told)
    scale = device / total if total > device else 1.0
    return {key: ratio * scale for key, ratio in block.busy_ratios.items()}, device


def _active_ratio(block: Block[K]) -> float:
    """Give the share of the block outside pauses: when the card is idle, nobody waits for it."""
    samples = block.device_samples
    pause_count = max(1, ceil(PAUSE_SECONDS / block.device_sample_seconds))
    runs = [
        (is_idle, len(list(run)))
        for is_idle, run in groupby(samples, key=lambda sample: sample <= 0)
    ]
    paused_count = sum(length for is_idle, length in runs if is_idle and length >= pause_count)
    # All idle and yet somebody busy: such samples are not of this block.
    return 1 - paused_count / len(samples) if paused_count < len(samples) else 1.0


def _kernel_seconds(block: Block[K], device: float) -> float:
    """Guess the length of the kernels that make up most of the load from how the samples differ.

    Long kernels come seldom and fill some samples more than others. Counted from each to the next,
    so that slow changes of load play no part. A full card looks the same with any: then infinite.
    """
    if len(block.device_samples) < 2 or not 0 < device < FULL_RATIO:
        return inf
    squares = [(after - before) ** 2 for before, after in pairwise(block.device_samples)]
    variance = sum(squares) / len(squares) / 2
    return variance * block.device_sample_seconds / (2 * device * (1 - device))


def _is_light(share: float, shares: Sequence[float]) -> bool:
    heaviest = max(shares)
    return heaviest >= HEAVY_SHARE * sum(shares) > 0 and share <= LIGHT_RATIO * heaviest


def _switches_per_second(block: Block[K], active_ratio: float) -> float | None:
    """Give the switches outside pauses; None also if what is told cannot be."""
    switches = block.switches_per_second
    seen_count = sum(ratio > 0 for ratio in block.busy_ratios.values())
    if switches is None or switches > MOST_SWITCHES_PER_SECOND:
        return None
    has_too_few = switches * LONGEST_BLOCK_SECONDS < seen_count - 1
    return None if has_too_few else switches / active_ratio


def _most_between_switches(shares: Sequence[float], switches_per_second: float) -> float:
    """Give the longest wait with so few switches: it ends with one, after a slice of each other.

    Contexts that run at different times hardly ever switch, and so do not wait.
    """
    other_count = max(1, sum(share > 0 for share in shares) - 1)
    return switches_per_second / 2 * other_count * LONGEST_SLICE_SECONDS


def _divided(shares: Sequence[float], device: float, sample_count: int) -> list[float]:
    """Estimate as if the card were divided, and undo what comes of having few samples.

    A product of two shares of N samples is low by 1 / N. On a full card more than products
    matters, so there it is found out by leaving out each sample in turn.
    """
    estimates = _divided_exactly(shares, device)
    if sample_count >= 2 and device < FULL_RATIO:
        estimates = [estimate * sample_count / (sample_count - 1) for estimate in estimates]
    elif sample_count >= 2:
        left_out = _mean_with_one_left_out(shares, device, sample_count)
        estimates = [
            sample_count * estimate - (sample_count - 1) * mean
            for estimate, mean in zip(estimates, left_out, strict=True)
        ]
    return [
        max(0.0, min(estimate, device - share))
        for estimate, share in zip(estimates, shares, strict=True)
    ]


def _mean_with_one_left_out(
    shares: Sequence[float], device: float, sample_count: int
) -> list[float]:
    """Average the estimates over all samples that could be missing."""
    total = sum(shares)
    of_one_sample = total / sample_count
    sums = [0.0] * len(shares)
    for index, share in enumerate(shares):
        rest = [*shares]
        rest[index] = max(0.0, share - of_one_sample)
        scale = total / sum(rest) if any(rest) else 0.0
        estimates = _divided_exactly([one * scale for one in rest], device)
        sums = [known + share * one for known, one in zip(sums, estimates, strict=True)]
    return [one / total for one in sums] if total else sums


def _divided_exactly(shares: Sequence[float], device: float) -> list[float]:
    """Give the waits with which all of this fits together.

    What no context had was switching. Counting it to them reads high, leaving it out low, so it
    is half each. On a full card it is counted: without it the card would not be full.
    """
    counted = _among_independent(shares, device)
    if device >= FULL_RATIO:
        return counted
    left_out = _among_independent(shares, sum(shares))
    return [(high + low) / 2 for high, low in zip(counted, left_out, strict=True)]


def _among_independent(shares: Sequence[float], device: float) -> list[float]:
    """Solve: a context waits its own busy time for each other one that wants the card meanwhile.

    With wanted_i = busy_i + wait_i this is wait_i = busy_i × the sum of the others' wanted.
    """
    total = sum(shares)
    if not total:
        return [0.0] * len(shares)
    stretched = [share * device / total for share in shares]
    parts = [share / (1 + share) for share in stretched]
    rest = 1 - sum(parts)
    wanted = [min(device, part / rest) if rest > 0 else device for part in parts]
    return [max(0.0, want - share) for want, share in zip(wanted, shares, strict=True)]
